"""`make lecture`: each notebook as slides, live in JupyterLab, walked through with keys."""

import dataclasses
import os
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
from course import NOTEBOOKS, ROOT, read
from test_slides import short_path, slides

pytest.importorskip("jupyterlab_deck", reason="the slides need jupyterlab-deck: make test-teaching")


def faulty():
    """A slide that is too high, speaker's notes that were left in, and a line that is too long."""
    notebook = nbformat.v4.new_notebook(metadata=refresh.METADATA)
    high, line = "a line\n\n" * 20, f"'{'long' * 50}'"
    notes = nbformat.v4.new_markdown_cell("Ask the room.")
    notebook.cells = [nbformat.v4.new_markdown_cell(high), notes, nbformat.v4.new_code_cell(line)]
    for cell, kind in zip(notebook.cells, ("slide", "notes", "slide"), strict=True):
        cell.metadata["slideshow"] = {"slide_type": kind}
    return notebook


@pytest.fixture(scope="module")
def open_slides(chrome, tmp_path_factory):
    """Open a notebook of the folder `lecture`, as `make lecture` does."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copytree(ROOT / "course_utils", folder / "course_utils")
    lecture.copies(folder / "lecture")
    nbformat.write(faulty(), folder / "lecture" / "faulty.ipynb")
    front = dataclasses.replace(chromium.LAB, settings=lecture.SETTINGS, style=lecture.STYLE)
    with chromium.server(front, folder) as served:
        yield lambda name: chromium.OpenNotebook(chrome, served, f"lecture/{name}.ipynb")


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem[:2])
def talk(request, open_slides):
    """A deck that was run, with its notebook's cells and with what a walk through it shows."""
    opened = open_slides(request.param.stem)
    deck = chromium.ShownDeck(opened)
    deck.run_all()
    deck.cells = lecture.slides(request.param).cells
    deck.walked = [*deck.walk("Space")]
    yield opened, deck
    assert opened.errors() == opened.complaints == opened.requests == []
    opened.close()


def test_space_shows_every_slide_in_order_and_nothing_else(talk):
    _, deck = talk
    met = []
    for shown in deck.walked:
        met += [i for i in shown["seen"] if i not in met]
    kinds = [lecture.slide_type(cell) for cell in deck.cells]
    assert met == [i for i, kind in enumerate(kinds) if kind != "skip"]


def test_each_slide_fits_the_screen(talk):
    _, deck = talk
    whole = [shown for shown in deck.walked if not shown["waiting"]]
    assert len(whole) == len(slides(deck.cells))
    for shown in whole:
        assert shown["beyond"] <= 1 and not shown["cut"], shown


def test_no_note_is_on_a_slide(talk):
    opened, _ = talk
    assert "In class ·" not in opened.page.locator(".jp-Notebook").inner_text()


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
    opened.page.mouse.click(chromium.PROJECTOR["width"] - 100, 5)
    assert deck.press("Space")["seen"] != shown["seen"], "no way on"
    deck.press("Shift+Space")
    area = opened.page.locator(".jp-deck-mod-visible .widget-html-content")
    assert area.evaluate("e => e.scrollHeight <= e.clientHeight + 1"), "the words are cut off"


def test_a_guess_is_typed_and_answered_on_its_slide(open_slides):
    opened = open_slides(NOTEBOOKS[0].stem)
    deck = chromium.ShownDeck(opened)
    deck.run_all()
    cells = lecture.slides(NOTEBOOKS[0]).cells
    at = next(i for i, cell in enumerate(cells) if "\npredict(" in cell.source)
    shown = next(shown for shown in deck.walk("Space") if shown["active"] == at)
    assert shown["waiting"], "the answer is seen before the guess"
    opened.page.keyboard.press("Enter")
    editor = opened.page.locator(".jp-deck-mod-visible.jp-mod-active .cm-content")
    text = editor.inner_text()
    opened.page.keyboard.press("Control+A")
    opened.page.keyboard.press("ArrowRight")  # of the text, not of the slides
    assert deck.shown()["active"] == at
    editor.fill(text.replace("my_guess = None", "my_guess = 8"))
    opened.page.keyboard.press("Shift+Enter")
    said = opened.page.locator(".jp-deck-mod-visible", has_text="my_guess = 8")
    said.get_by_text("✔ Yes").wait_for()
    after = deck.shown()
    assert set(shown["seen"]) < set(after["seen"]) and after["active"] > at
    opened.close()


def test_what_does_not_fit_is_found(open_slides):
    opened = open_slides("faulty")
    deck = chromium.ShownDeck(opened)
    assert deck.shown()["beyond"] > 1
    assert deck.press("ArrowRight")["cut"]
    opened.close()


def test_the_plugin_shows_nothing_for_notes_and_stays_there(open_slides):
    """Why lecture.copies leaves them out."""
    opened = open_slides("faulty")
    deck = chromium.ShownDeck(opened)
    shown = deck.press("Shift+Enter")
    assert shown["active"] == 1 and shown["seen"] == []
    assert deck.press("ArrowRight") == shown
    opened.close()


# --- the command


def test_the_slides_are_copies_without_notes(tmp_path):
    paths = lecture.copies(tmp_path / "lecture")
    assert [path.name for path in paths] == [path.name for path in NOTEBOOKS]
    for path, notebook in zip(paths, NOTEBOOKS, strict=True):
        kept = [c for c in read(notebook).cells if lecture.slide_type(c) != "notes"]
        assert read(path).cells == kept
    paths[0].write_text("a guess that was typed", encoding="utf-8")
    lecture.copies(tmp_path / "lecture")
    assert read(paths[0]).cells


def test_a_number_that_no_notebook_has_is_named():
    command = [sys.executable, ROOT / "tools" / "lecture.py", "77"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("NOTEBOOK=77: the number of a notebook is needed: 00, 01, ")


def test_the_command_opens_the_notebook_asked_for_and_ends_with_ctrl_c(tmp_path):
    for folder in ("tools", "notebooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    port, token = chromium.free_port(), "a-token"
    command = [sys.executable, tmp_path / "tools" / "lecture.py", "03", "--no-browser"]
    command += ["--allow-root", f"--port={port}", f"--IdentityProvider.token={token}"]
    log = tmp_path / "log"
    with log.open("wb") as said:
        lab = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        chromium.wait_for(address, lab, log)
        with urllib.request.urlopen(f"{address}/?token={token}") as page:
            assert page.url.startswith(f"{address}/lab/tree/lecture/03_precision_and_dtype.ipynb")
        with urllib.request.urlopen(f"{address}/custom/custom.css?token={token}") as style:
            assert style.read() == lecture.STYLE.read_bytes()
    finally:
        os.killpg(lab.pid, signal.SIGINT)  # as a terminal does, to both
        os.killpg(lab.pid, signal.SIGINT)
        lab.wait(30)
    assert lecture.KEYS_IN_WORDS in log.read_text(encoding="utf-8")
    assert "Traceback" not in log.read_text(encoding="utf-8")
