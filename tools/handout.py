"""Write handouts of the notebooks: python tools/handout.py [notebook ...]

Into the folder `handout`:

    student/NN_name.ipynb   to work in: no outputs, hints or solutions. It runs in the place of
                            the course's own, or where course_utils is installed
    student/NN_name.html    to follow a lesson: figures and outputs, and room to guess; no answers
    student/NN_name.pdf     the same on paper, if there is a Chromium
    teacher/NN_name.html    everything, nothing folded, with docs/notes, and .pdf

Only a lesson, in the folder `notebooks`, is one to work in: the question bank is printed.

A page is one file that asks no other machine and runs no script. Formulas are MathML, which screen
readers read, in a font of the page's own: few computers have one in which roots and brackets grow.
"""

import base64
import contextlib
import html
import io
import re
import sys
import unicodedata
from importlib.resources import files
from pathlib import Path

import chromium
import jinja2
import nbformat
from fontTools import subset
from latex2mathml.converter import convert
from nbconvert import HTMLExporter, NotebookExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import ClearOutputPreprocessor, TagRemovePreprocessor
from notes import with_notes
from refresh import NOTEBOOKS, QUESTIONS, ROOT

FOLDER = ROOT / "handout"
FONT = files("ziamath.fonts") / "STIXTwoMath-Regular.ttf"
# A formula's single letters are shown as other characters: of the block at U+1D400, and ℎ.
ITALIC = [ord("ℎ"), *range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C)]
FOOTER = """
<div style="font: 8pt sans-serif; width: 100%; margin: 0 15mm; display: flex">
<span class="title" style="flex: 1"></span>
<span><span class="pageNumber"></span> / <span class="totalPages"></span></span>
</div>"""


# --- what is in it

FOR_TEACHERS = ("help", "ours", "reply")  # tags of cells that no learner gets


def to_work_in(notebook):
    """The student's notebook as text."""
    exporter = NotebookExporter()
    exporter.register_preprocessor(without(*FOR_TEACHERS), enabled=True)
    exporter.register_preprocessor(ClearOutputPreprocessor(), enabled=True)
    return exporter.from_notebook_node(notebook)[0] + "\n"


def to_follow(notebook):
    """The student's page as HTML."""
    tags = (*FOR_TEACHERS, "answer", "setup")
    return page(notebook, without(*tags), without_summary, with_open_asides)


def to_teach(notebook):
    """The teacher's page as HTML."""
    whole = page(notebook, with_notes, to_fill_in=False)
    return whole.replace("<details>", "<details open>")


def without(*tags):
    return TagRemovePreprocessor(remove_cell_tags=set(tags))


def without_summary(notebook, resources):
    """Leave out the list of all claims, and its heading: it answers every prediction."""
    for cell in notebook.cells:
        cell.source = re.sub(r"\s*^## What holds\?\s*\Z|^recap\(\)$", "", cell.source, flags=re.M)
    notebook.cells = [
        cell
        for cell in notebook.cells
        if cell.source and cell.source.strip() != "from course_utils import recap"
    ]
    return notebook, resources


def with_open_asides(notebook, resources):
    """Unfold asides, which paper cannot; the choices of a quiz stay closed, and their replies."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            aside, quiz, choices = cell.source.partition("## Quiz")
            cell.source = aside.replace("<details>", "<details open>") + quiz + choices
    return notebook, resources


# --- a page


class Page(HTMLExporter):
    """nbconvert's page from the template in tools/handout, with formulas as MathML."""

    @jinja2.pass_context
    def markdown2html(self, context, source):
        return MarkdownWithMath(Renderer(escape=False, exclude_anchor_links=True)).render(source)


class Renderer(IPythonRenderer):
    """Markdown to HTML: formulas become MathML, links to a notebook lead to its page."""

    def inline_math(self, body):
        return formula(body, "inline")

    def block_math(self, body):
        return formula(body, "block")

    def link(self, text, url, title=None):
        return super().link(text, re.sub(r"^(\d\d_\w+)\.ipynb", r"\1.html", url), title)


def formula(tex, display):
    """MathML of a formula in TeX. display: "inline" or "block"."""
    mathml = convert(tex, display=display)
    if "<mi>\\" in mathml:
        raise ValueError(f"a formula has an unknown command: {tex}")
    mathml = mathml.replace("<mo>&#x02016;", '<mo stretchy="false">&#x02016;')  # ‖y‖ as high as y
    sign = r'\1<mo form="prefix">&#x02212;'  # a minus after a comma, an opening bracket, a =
    mathml = re.sub(r"((?<!&#x00029;)(?<!\||\])</mo>)<mo>&#x02212;", sign, mathml)
    mathml = mathml.replace("<mi>&#x02032;</mi>", "<mo>&#x02032;</mo>")  # a prime is no letter
    return mathml.replace("&#x0005E;", "&#x002C6;")  # the accent, not the wide caret


def page(notebook, *preprocessors, to_fill_in=True):
    """A notebook as one HTML file. to_fill_in: leave a line for each guess."""
    exporter = Page(
        template_name="handout",
        extra_template_basedirs=[str(ROOT / "tools")],
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    for preprocessor in preprocessors:
        exporter.register_preprocessor(preprocessor, enabled=True)
    first = notebook.cells[0].source.partition("\n")[0]
    named = nbformat.from_dict({**notebook, "metadata": {**notebook.metadata, "title": first[2:]}})
    text, _ = exporter.from_notebook_node(named, {"to_fill_in": to_fill_in})
    formulas = html.unescape("".join(re.findall("<math.*?</math>", text, re.S)))
    return text.replace("</head>", f"<style>{font_face(formulas)}</style></head>", 1)


def font_face(text):
    """CSS of a font with the letters of this text, upright and italic, and what formulas need."""
    letters = set(text) | set("√")
    italic = filter(lambda c: unicodedata.normalize("NFKC", c) in letters, map(chr, ITALIC))
    options = subset.Options(flavor="woff")
    font = subset.load_font(str(FONT), options)
    cut = subset.Subsetter(options)
    cut.populate(text="".join(letters | set(italic)))
    cut.subset(font)
    stored = io.BytesIO()
    subset.save_font(font, stored, options)
    data = base64.b64encode(stored.getvalue()).decode()
    return f'@font-face {{font-family: "Course Math"; src: url("data:font/woff;base64,{data}")}}'


# --- a file


def print_pdf(chrome, text):
    """The bytes of a PDF of an HTML page, printed by a started Chromium."""
    sheet = chrome.new_page()
    sheet.set_content(text)  # it has no address, so no folder of this machine is in its links
    sheet.evaluate("document.fonts.ready")
    printed = sheet.pdf(
        format="A4",
        margin={"top": "15mm", "bottom": "18mm", "left": "15mm", "right": "15mm"},
        print_background=True,
        display_header_footer=True,
        header_template="<span></span>",
        footer_template=FOOTER,
        tagged=True,
        outline=True,
    )
    sheet.close()
    return printed


def write(path, chrome, folder):
    """Write the handouts of one notebook. chrome: a started Chromium, or None for no PDF."""
    notebook = nbformat.read(path, as_version=4)
    student, teacher = folder / "student", folder / "teacher"
    for made in (student, teacher):
        made.mkdir(parents=True, exist_ok=True)
    if path.resolve().parent == NOTEBOOKS:
        (student / path.name).write_text(to_work_in(notebook), encoding="utf-8")
    for made, text in ((student, to_follow(notebook)), (teacher, to_teach(notebook))):
        (made / f"{path.stem}.html").write_text(text, encoding="utf-8")
        if chrome:
            (made / f"{path.stem}.pdf").write_bytes(print_pdf(chrome, text))


def main(arguments, folder=FOLDER):
    paths = [Path(name) for name in arguments] or [*sorted(NOTEBOOKS.glob("*.ipynb")), QUESTIONS]
    for path in paths:
        if path.suffix != ".ipynb" or not path.is_file():
            sys.exit(f"{path} is no notebook")
    try:
        found = chromium.find()
    except FileNotFoundError as problem:
        sys.exit(str(problem))
    with contextlib.ExitStack() as stack:
        chrome = None
        try:
            chrome = stack.enter_context(chromium.browser()) if found else None
        except Exception:  # Playwright's own, in fifty lines
            print(f"{found} does not start as a browser.")
        if not chrome:
            print("There will be no PDF: that takes a Chromium, see docs/contributing.md.")
        for path in paths:
            try:
                write(path, chrome, folder)
            except OSError as problem:
                sys.exit(str(problem))
            except Exception as problem:  # whatever nbformat, nbconvert or latex2mathml finds
                sys.exit(f"{path}: {type(problem).__name__}: {problem}")
            print(f"{folder.name}/*/{path.stem}.*")


if __name__ == "__main__":
    main(sys.argv[1:])
