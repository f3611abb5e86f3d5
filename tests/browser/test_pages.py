"""Each notebook as an exported page: whole without a kernel, and readable by everyone."""

import axe
import nbconvert
import nbformat
import pytest
from course import NOTEBOOKS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem[:2])
def page(request, chrome, folder):
    html, _ = nbconvert.HTMLExporter().from_notebook_node(nbformat.read(request.param, 4))
    file = folder / f"{request.param.stem}.html"
    file.write_text(html, encoding="utf-8")
    opened = chrome.new_page(viewport={"width": 1100, "height": 1000})
    opened.route("http*://**", lambda route: route.abort())  # MathJax comes from elsewhere
    opened.goto(file.as_uri(), wait_until="domcontentloaded")
    yield opened
    opened.close()


def test_axe_finds_nothing_of_ours(page):
    assert axe.findings(page, "body", axe.PAGE) == []


def test_the_explorer_is_there_as_a_picture_with_words_and_its_controls(page):
    picture = page.locator('img[src^="data:image/jpeg"]')
    assert picture.count() == 1
    assert picture.evaluate("img => img.complete && img.naturalWidth === 2 * img.width")
    words = page.get_by_text("▶ Run this cell to move:")
    assert words.count() == 1


def test_axe_finds_what_is_wrong(chrome):
    page = chrome.new_page()
    page.set_content('<main><img src="x"><p style="color: #aaa; background: #fff">Pale</p></main>')
    found = axe.findings(page, "main", {})
    assert [f.split(": ")[1] for f in found] == ["color-contrast", "image-alt"]
    assert axe.findings(page, "main", {"color-contrast": "p", "image-alt": "img"}) == []
    page.close()
