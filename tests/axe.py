"""axe-core's findings in a page, less those that are another project's to mend."""

from functools import cache

# rule -> what it finds of others: a CSS selector, and whose it is.
LAB = {
    "aria-input-field-name": ".cm-content, [role=slider]",  # a slider has a label beside it
    "aria-required-children": "[role=feed]",  # the notebook itself
    "color-contrast": ".cm-editor *, .jp-InputPrompt, .jp-OutputPrompt",
    "image-alt": ".jp-RenderedImage img",  # drops what we say of it: the words stand below
    "link-in-text-block": "a",  # not underlined
}
PAGE = {  # nbconvert's lab template
    "color-contrast": ".highlight *, .jp-InputPrompt, .jp-OutputPrompt",
    "link-in-text-block": "a",  # not underlined
}
RUN = """async ([content, foreign]) => {
    const types = ['violations', 'passes'];
    const {violations, passes} = await axe.run({include: [content]}, {resultTypes: types});
    const found = [];
    for (const {id, impact, nodes} of violations)
        for (const {target, html} of nodes)
            if (!foreign[id] || !document.querySelector(target[0])?.matches(foreign[id]))
                found.push(`${impact}: ${id}: ${html}`);
    const legible = passes.find(rule => rule.id === 'color-contrast')?.nodes.length ?? 0;
    return [found, legible];
}"""


@cache
def source():
    from importlib.resources import files

    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def findings(page, content, foreign):
    """Each finding as text, whatever its weight, and how many texts have contrast enough.

    content: where to look. foreign: LAB or PAGE. axe passes over what lies outside the window, and
    over all the rest in a body without height, as JupyterLab's is.
    """
    page.add_style_tag(content="body {height: 100vh}")
    page.evaluate(source())
    return page.evaluate(RUN, [content, foreign])
