"""Each notebook as an exported page: whole without a kernel, and readable by everyone."""

import axe
import nbconvert
import nbformat
import pytest
from course import NOTEBOOKS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(params=("light", "dark"))
def theme(request):
    return request.param


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem[:2])
def page(request, theme, chrome, folder):
    exporter = nbconvert.HTMLExporter(theme=theme)
    html, _ = exporter.from_notebook_node(nbformat.read(request.param, 4))
    file = folder / f"{request.param.stem}_{theme}.html"
    file.write_text(html, encoding="utf-8")
    opened = chrome.new_page(viewport={"width": 1100, "height": 1000})
    opened.route("http*://**", lambda route: route.abort())  # MathJax comes from elsewhere
    opened.goto(file.as_uri(), wait_until="domcontentloaded")
    yield opened
    opened.close()


def test_axe_finds_nothing_of_ours(page):
    found, legible = axe.findings(page, "html", axe.PAGE)
    assert found == []
    assert legible > 50


def test_the_explorer_is_there_as_a_picture_with_its_controls_named(page):
    picture = page.locator('img[src^="data:image/jpeg"]')
    assert picture.count() == 1
    assert picture.evaluate("img => img.complete && img.naturalWidth === 2 * img.width")
    assert page.get_by_text("▶ Run this cell to move:").count() == 1


def test_axe_finds_what_is_wrong(chrome):
    page = chrome.new_page()
    page.set_content('<main><img src="x"><p style="color: #aaa; background: #fff">Pale</p></main>')
    found, legible = axe.findings(page, "main", {})
    assert [f.split(": ")[1] for f in found] == ["color-contrast", "image-alt"]
    assert legible == 0
    assert axe.findings(page, "main", {"color-contrast": "p", "image-alt": "img"}) == [[], 0]
    page.close()
