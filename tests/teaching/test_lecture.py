"""`make lecture`: each notebook as slides, live in JupyterLab, walked through with keys."""

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request

import chromium
import lecture
import nbformat
import pytest
import refresh
from course import NOTEBOOKS, OPENED_ONCE, ROOT, read
from notes import slide_type
from test_slides import short_path, slides

pytest.importorskip("jupyterlab_deck", reason="the slides need jupyterlab-deck: make test-teaching")


def odd():
    """A slide that is too high, a line that is too long, and a name bound twice."""
    notebook = nbformat.v4.new_notebook(metadata=refresh.METADATA)
    high, line = "a line\n\n" * 20, f"'{'long' * 50}'"
    notebook.cells = [nbformat.v4.new_markdown_cell(high)]
    notebook.cells += [nbformat.v4.new_code_cell(code) for code in (line, "a = 1", "a", "a = 2")]
    kinds = ("slide", "slide", "slide", "fragment", "skip")
    for cell, kind in zip(notebook.cells, kinds, strict=True):
        cell.metadata["slideshow"] = {"slide_type": kind}
    return notebook


@pytest.fixture(scope="module")
def open_slides(chrome, tmp_path_factory):
    """Open a notebook of the slides, as `make lecture` does."""
    folder = tmp_path_factory.mktemp("slides")
    shutil.copytree(ROOT / "course_utils", folder / "course_utils")
    lecture.copies(folder)
    nbformat.write(odd(), folder / "odd.ipynb")
    front = dataclasses.replace(chromium.LAB, settings=lecture.SETTINGS, style=lecture.STYLE)
    with chromium.server(front, folder) as served:
        yield lambda name: chromium.OpenNotebook(chrome, served, f"{name}.ipynb")


@pytest.fixture(scope="module", params=OPENED_ONCE)
def talk(request, open_slides):
    """A deck that was run, with its notebook's cells and with what a walk through it shows."""
    opened = open_slides(request.param.stem)
    deck = chromium.ShownDeck(opened)
    deck.run_all()
    deck.cells = read(request.param).cells
    deck.walked = [*deck.walk("Space")]
    yield opened, deck
    assert opened.errors() == opened.complaints == opened.requests == []
    opened.close()


def test_space_shows_every_slide_in_order_and_nothing_else(talk):
    _, deck = talk
    met = []
    for shown in deck.walked:
        met += [i for i in shown["seen"] if i not in met]
    kinds = [slide_type(cell) for cell in deck.cells]
    assert met == [i for i, kind in enumerate(kinds) if kind != "skip"]


def test_each_slide_fits_the_screen(talk):
    _, deck = talk
    whole = [shown for shown in deck.walked if not shown["waiting"]]
    assert len(whole) == len(slides(deck.cells))
    for shown in whole:
        assert shown["beyond"] <= 1 and not shown["cut"], shown


def test_arrows_take_the_short_path_and_home_goes_back(talk):
    _, deck = talk
    assert deck.press("Home")["active"] == 0
    ids = [deck.cells[shown["active"]].id for shown in deck.walk("ArrowRight")]
    assert ids == [cell.id for slide in short_path(deck.cells) for cell in slide.cells]


def test_the_explorer_reacts_on_its_slide(talk):
    opened, deck = talk
    deck.press("Home")
    at = next(i for i, cell in enumerate(deck.cells) if "_explorer()" in cell.source)
    shown = next(shown for shown in deck.walk("Space") if at in shown["seen"])
    explorer = opened.explorer()
    before = explorer.words.inner_text(), explorer.bytes()
    presets = explorer.controls.locator(".widget-hbox").last.get_by_role("button")
    presets.first.press("Enter")
    opened.page.wait_for_timeout(1000)
    assert explorer.words.inner_text() != before[0] and explorer.bytes() != before[1]
    handle = explorer.controls.locator(chromium.LAB.handle)
    if handle.count():
        handle.first.press("ArrowRight")
    assert deck.shown()["seen"] == shown["seen"], "the slider's key has moved the slides"
    beside = chromium.PROJECTOR["width"] - 150, explorer.words.bounding_box()["y"] + 5
    opened.page.mouse.click(*beside)
    assert deck.press("Space")["seen"] != shown["seen"], "no way on"
    deck.press("Shift+Space")
    area = opened.page.locator(".jp-deck-mod-visible .widget-html-content")
    assert area.evaluate("e => e.scrollHeight <= e.clientHeight + 1"), "the words are cut off"


def typed(opened, deck, guess, key):
    """Put a guess in place of None in the active cell, and press a key; return its reply."""
    active = "jupyterapp.shell.currentWidget.content.activeCell"
    source = opened.page.evaluate(f"{active}.model.sharedModel.getSource()")
    keyboard = opened.page.keyboard
    keyboard.press("Enter")
    keyboard.press("Control+A")
    keyboard.press("ArrowRight")  # of the text, not of the slides
    keyboard.press("Control+A")
    keyboard.insert_text(source.replace("None", guess))
    keyboard.press(key)
    said = opened.page.locator(".jp-deck-mod-visible", has_text=f"my_guess = {guess}")
    said.get_by_text(re.compile("✔ Yes|✘ Not")).wait_for(timeout=20_000)
    return said.inner_text()


@pytest.fixture
def at_a_prediction(open_slides):
    """Notebook 01, run, on the slide of its first prediction, which has an answer below it."""
    opened = open_slides(NOTEBOOKS[1].stem)
    deck = chromium.ShownDeck(opened)
    deck.run_all()
    cells = read(NOTEBOOKS[1]).cells
    at = next(i for i, cell in enumerate(cells) if "\npredict(" in cell.source)
    shown = next(shown for shown in deck.walk("Space") if shown["active"] == at)
    assert shown["waiting"], "the answer is seen before the guess"
    yield opened, deck, shown
    opened.close()


def test_a_guess_is_answered_on_its_slide_before_the_answer_is_seen(at_a_prediction):
    opened, deck, shown = at_a_prediction
    assert "✘ Not 100" in typed(opened, deck, "100", "Control+Enter")
    assert deck.shown() == shown
    assert set(deck.press("ArrowRight")["seen"]) > set(shown["seen"])


def test_shift_enter_goes_on_as_well(at_a_prediction):
    opened, deck, shown = at_a_prediction
    assert "✔ Yes" in typed(opened, deck, "1", "Shift+Enter")
    assert set(deck.shown()["seen"]) > set(shown["seen"])


def test_each_key_moves_as_it_says_and_no_key_changes_the_slides(at_a_prediction):
    opened, deck, shown = at_a_prediction
    count = "() => jupyterapp.shell.currentWidget.content.widgets.length"
    before = opened.page.evaluate(count)
    for key in ("b", "a", "x", "d", "d", "m", "z", "c", "v", "0", "0", "Shift+M", "Alt+Enter"):
        assert deck.press(key)["active"] == shown["active"], key
    assert opened.page.evaluate(count) == before
    for there, back in (("ArrowRight", "ArrowLeft"), ("PageDown", "PageUp")):
        assert deck.press(there)["active"] > shown["active"]
        assert deck.press(back) == shown
    assert deck.press("Space")["active"] > shown["active"]
    assert deck.press("Shift+Space") == shown
    assert deck.press("ArrowUp")["active"] < shown["active"]
    assert deck.press("ArrowDown") == shown
    assert deck.press("Home")["active"] == 0
    assert opened.page.evaluate(count) == before


def test_no_click_on_a_slide_reaches_what_is_not_seen(at_a_prediction):
    opened, *_ = at_a_prediction
    hit = "x => document.elementFromPoint(x, 5)?.closest('.jp-Toolbar') !== null"
    for x in range(0, chromium.PROJECTOR["width"], 20):
        assert not opened.page.evaluate(hit, x), x


@pytest.fixture
def odd_deck(open_slides):
    opened = open_slides("odd")
    yield chromium.ShownDeck(opened)
    opened.close()


def test_what_does_not_fit_is_found(odd_deck):
    assert odd_deck.shown()["beyond"] > 1
    assert odd_deck.press("ArrowRight")["cut"]


def test_a_cell_that_is_run_again_finds_the_values_of_its_place(odd_deck):
    odd_deck.run_all()
    for _ in range(3):
        odd_deck.press("ArrowRight")
    odd_deck.press("Control+Enter")
    output = odd_deck.page.locator(".jp-mod-active .jp-OutputArea-output")
    odd_deck.page.wait_for_timeout(1000)
    assert output.inner_text().strip() == "1"


# --- the command


@pytest.mark.parametrize("arguments", [["77"], ["03", "04"], ["--no-browser", "03"]])
def test_what_is_no_number_of_a_notebook_is_named(arguments):
    with pytest.raises(SystemExit, match="the number of one notebook is needed: 00, 01, ") as said:
        lecture.main(arguments)
    assert str(said.value).startswith(f"NOTEBOOK={' '.join(arguments)}: ")


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(lecture, "find_spec", lambda name: name != "jupyterlab_deck")
    with pytest.raises(SystemExit, match="jupyterlab_deck is missing: `make lecture` installs it"):
        lecture.main(["03"])


def test_the_command_opens_the_notebook_asked_for_and_ends_with_ctrl_c(tmp_path):
    for folder in ("tools", "notebooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    port, token = chromium.free_port(), "a-token"
    command = [sys.executable, tmp_path / "tools" / "lecture.py", "3", "--no-browser"]
    command += ["--allow-root", f"--port={port}", f"--IdentityProvider.token={token}"]
    log = tmp_path / "log"
    with log.open("wb") as said:
        lab = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        chromium.wait_for(address, lab, log)
        with urllib.request.urlopen(f"{address}/?token={token}") as page:
            assert page.url.startswith(f"{address}/lab/tree/03_precision_and_dtype.ipynb")
        with urllib.request.urlopen(f"{address}/custom/custom.css?token={token}") as style:
            assert style.read() == lecture.STYLE.read_bytes()
    finally:
        os.killpg(lab.pid, signal.SIGINT)  # as a terminal does, to both
        os.killpg(lab.pid, signal.SIGINT)
        lab.wait(30)
    assert lecture.KEYS_IN_WORDS in log.read_text(encoding="utf-8")
    assert "Traceback" not in log.read_text(encoding="utf-8")
