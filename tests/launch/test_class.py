"""A learner has nothing but the class's link, and a browser."""

import re
import subprocess
import sys

import chromium
import hub
import links
import pytest
from course import ROOT
from elsewhere import REPO, TAG, environment
from playwright.sync_api import expect

pytestmark = pytest.mark.xdist_group("class")  # one hub for all


@pytest.fixture(scope="module")
def opened():
    """The page, some time after the link was followed: the notebook is there, with its kernel."""
    if not chromium.find():
        pytest.skip("no Chromium was found")
    config = hub.config

    def exposed(*arguments):
        settings = config(*arguments)
        settings["Spawner"]["args"].append("--LabApp.expose_app_in_browser=True")
        return settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub, "config", exposed)
        with hub.running_hub() as served, chromium.browser() as chrome:
            page = chrome.new_page(viewport=chromium.WINDOW)
            page.set_default_timeout(120_000)
            page.goto(hub.COURSE.pull(served.address))
            page.get_by_label("Username").fill("some-learner")
            page.get_by_label("Password").fill("any")
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_function(chromium.LAB.ready)
            yield page


def test_the_link_opens_notebook_00_in_jupyterlab(opened):
    assert re.search(r"/lab/tree/name/notebooks/00_start_here\.ipynb$", opened.url)
    title = opened.locator(".jp-NotebookPanel h1")
    expect(title).to_contain_text("00 · Start here")


def test_its_first_explorer_moves(opened):
    opened.evaluate(chromium.LAB.run)
    opened.wait_for_function(chromium.LAB.ran)
    assert opened.locator(chromium.LAB.errors).all_inner_texts() == []
    explorer = chromium.ShownExplorer(opened, chromium.LAB.handle)
    before = explorer.words.inner_text()
    explorer.controls.get_by_role("button").first.press("Enter")
    expect(explorer.words).not_to_have_text(before)


@pytest.mark.parametrize(("ref", "again"), [(f"class-{TAG}", True), (TAG, False)])
def test_a_class_pulls_a_branch_because_a_tag_comes_only_once(github, tmp_path, ref, again):
    code = "import sys; from nbgitpuller.pull import GitPuller\n"
    code += "for line in GitPuller(sys.argv[1], 'copy', branch=sys.argv[2]).pull(): print(line)"
    pull = [sys.executable, "-c", code, f"https://github.com/{REPO}", ref]
    variables = environment(github)
    worked = [subprocess.call(pull, cwd=tmp_path, env=variables) == 0 for _ in range(2)]
    assert worked == [True, again]
    assert (tmp_path / "copy" / hub.FIRST).is_file()


def rows(guide, kind):
    """The numbers in the rows of the guide's sizing table that are of this kind."""
    table = guide[guide.index("|  | GB, one notebook each") :].partition("\n\n")[0]
    found = re.findall(rf"^\| {kind}: (.*) \|$", table, re.M)
    return [[re.sub(r"[^\d.]", "", cell) for cell in row.split("|")] for row in found]


def test_the_guides_sizes_follow_from_what_it_says_was_measured():
    guide = links.read(ROOT / "docs" / "hub.md")
    (_, shared, *_), (_, one, ten, notebook, start, disk) = rows(guide, "measured")
    gb = (1000 * float(mb) for mb in (shared, one, ten))
    cost = hub.Cost(*gb, float(notebook), float(start), 1000 * float(disk))
    computed = rows(guide, "computed")
    assert [int(learners) for learners, *_ in computed] == [10, 30, 100]
    for learners, *said in computed:
        assert said == [hub.two(size) for size in hub.sizing(int(learners), cost)]
