"""The handouts in Chromium: whole, offline, legible; and on paper."""

import io
import re

import axe
import pytest
from course import NOTEBOOKS, read

pytest.importorskip("ziamath", reason="the handouts need ziamath: make test-teaching")
import handout
from test_handout import leaks

DESCRIPTION = 80  # characters at least that a picture's words have
LOOK = """shortest => {
    const found = [];
    for (const img of document.images) {
        if (!img.naturalWidth) found.push('no picture');
        if (img.alt.length < shortest) found.push('no words for a picture');
    }
    const prose = document.body.cloneNode(true);
    prose.querySelectorAll('pre, code, style, script').forEach(e => e.remove());
    const raw = prose.textContent.match(/\\$|\\\\[a-zA-Z]+/);
    if (raw) found.push(`raw TeX: ${raw[0]}`);
    if (document.scripts.length) found.push('a script');
    if (document.body.scrollWidth > document.body.clientWidth) found.push('too wide');
    return found;
}"""
BAD = """<title>Bad</title><body><img src="http://elsewhere.invalid/x.png" alt="x">
<p>The root $\\frac{1}{2}$</p><p style="width: 9000px">wide</p>
<script>console.error("a fault in the page")</script>"""


def faults(chrome, file):
    """What is wrong with a page, and the page, still open."""
    opened, found = chrome.new_page(viewport={"width": 1100, "height": 1000}), []

    def on_request(request):
        if not request.url.startswith((file.as_uri(), "data:")):
            found.append(f"asks {request.url}")

    def on_console(message):
        if message.type == "error":
            found.append(message.text)

    opened.on("request", on_request)
    opened.on("console", on_console)
    opened.on("pageerror", lambda error: found.append(str(error)))
    opened.goto(file.as_uri())
    return found + opened.evaluate(LOOK, DESCRIPTION), opened


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem[:2])
def notebook(request):
    return read(request.param)


@pytest.mark.parametrize("kind", ["to_follow", "to_teach"])
def test_a_page_is_whole_offline_and_legible(notebook, kind, chrome, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(getattr(handout, kind)(notebook), encoding="utf-8")
    found, page = faults(chrome, file)
    unfit, legible = axe.findings(page, "html", {})
    fonts = page.evaluate("[...document.fonts].map(f => f.status)")
    formulas = page.locator("math").count()
    page.close()
    assert found == []
    assert unfit == []
    assert legible > 50
    assert not formulas or fonts == ["loaded"]


def test_each_fault_is_found(chrome, tmp_path):
    file = tmp_path / "bad.html"
    file.write_text(BAD, encoding="utf-8")
    found, page = faults(chrome, file)
    page.close()
    for fault in (
        "asks http://elsewhere.invalid/x.png",
        "a fault in the page",
        "no picture",
        "no words for a picture",
        "raw TeX: $",
        "a script",
        "too wide",
    ):
        assert fault in found


def test_the_paper_has_the_title_pages_and_no_solution(notebook, chrome):
    pypdf = pytest.importorskip("pypdf", reason="reading PDF needs pypdf: make test-teaching")
    printed = handout.print_pdf(chrome, handout.to_follow(notebook))
    pages = pypdf.PdfReader(io.BytesIO(printed)).pages
    text = "\n".join(page.extract_text() for page in pages)
    title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
    assert printed.startswith(b"%PDF") and len(printed) < 3e6
    assert title in text
    assert re.search(rf"1\s*/\s*{len(pages)}", pages[0].extract_text())
    assert leaks(text, notebook) == set()
    assert b"file:" not in printed  # no link into a folder of this machine


def test_a_solution_on_paper_would_be_seen(chrome):
    pypdf = pytest.importorskip("pypdf", reason="reading PDF needs pypdf: make test-teaching")
    notebook = read(NOTEBOOKS[4])
    printed = handout.print_pdf(chrome, handout.to_teach(notebook))
    pages = pypdf.PdfReader(io.BytesIO(printed)).pages
    assert leaks("\n".join(page.extract_text() for page in pages), notebook)
