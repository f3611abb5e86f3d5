"""axe-core's findings in a page, less those that are another project's to mend."""

from functools import cache

# rule -> what it finds of others: a CSS selector, and whose it is.
LAB = {
    "aria-input-field-name": ".cm-content, [role=slider]",  # a slider has a label beside it
    "aria-required-children": "[role=feed]",  # the notebook itself
    "color-contrast": ".cm-editor *, .jp-InputPrompt, .jp-OutputPrompt",
    "image-alt": ".jp-RenderedImage img",  # drops what we say of it: the words stand below
}
PAGE = {  # nbconvert's lab template
    "color-contrast": ".highlight *, .jp-InputPrompt, .jp-OutputPrompt",
    "link-in-text-block": "a",  # not underlined
}
RUN = """async ([content, foreign]) => {
    const {violations} = await axe.run({include: [content]}, {resultTypes: ['violations']});
    const found = [];
    for (const {id, impact, nodes} of violations)
        for (const {target, html} of nodes)
            if (!foreign[id] || !document.querySelector(target[0])?.matches(foreign[id]))
                found.push(`${impact}: ${id}: ${html}`);
    return found;
}"""


@cache
def source():
    from importlib.resources import files

    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def findings(page, content, foreign):
    """Each finding as text, whatever its weight. content: where to look; foreign: LAB or PAGE."""
    page.evaluate(source())
    return page.evaluate(RUN, [content, foreign])
