"""Each notebook in a browser: it opens, runs, asks no other machine, and its explorer is alive.

What an explorer should show is asked of its twin: the same explorer in this process, moved as the
keys move the one in the page. Picture and words must be the twin's, to the byte.
"""

import re
import time

import axe
import chromium
import pytest
import speed
from course import OPENED_ONCE
from test_explorers import EXPLORERS, grid, grid_place, words_of

from course_utils.explore import Switch

TAB_STOPS = 40  # more than any explorer has


@pytest.fixture(scope="module", params=OPENED_ONCE)
def lesson(request, open_notebook):
    opened = open_notebook(request.param.stem)
    opened.number = request.param.stem[:2]
    opened.stored = opened.page.locator(opened.front.content).inner_text()
    opened.run_all()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def twin(lesson):
    made = EXPLORERS[lesson.number]()
    made.first = words_of(made), bytes(made.picture.value)
    made.gap = lesson.explorer().gap()
    return made


@pytest.fixture
def explorer(lesson, twin):
    """Ends with Reset, which must bring back the first words and the first picture."""
    shown = lesson.explorer()
    yield shown
    shown.button("Reset")
    assert_shows(shown, *twin.first)
    twin.reset()
    assert_same(shown, twin)
    assert lesson.errors() == lesson.complaints == lesson.requests == []


def assert_same(shown, twin):
    """The page comes to show the twin's words and picture, and nothing has jumped."""
    assert_shows(shown, words_of(twin), bytes(twin.picture.value))
    assert shown.gap() == twin.gap, "the controls jump"


def assert_shows(shown, words, picture):
    from playwright.sync_api import expect

    expect(shown.words).to_have_text(words)
    end = time.monotonic() + 5
    while shown.bytes() != picture and time.monotonic() < end:
        shown.page.wait_for_timeout(20)
    assert shown.bytes() == picture


def sliders(twin):
    return {n: c for n, c in twin.controls.items() if not isinstance(c, Switch)}


def switches(twin):
    return {n: c for n, c in twin.controls.items() if isinstance(c, Switch)}


# --- the notebook


def test_before_it_runs_the_stored_words_and_controls_are_there(lesson, twin):
    if lesson.front is chromium.CLASSIC:
        pytest.skip("the classic Notebook hides the stored Markdown of a notebook it did not make")
    for label in [control.description for control in twin.controls.values()]:
        assert re.search(rf"Run this cell to move: .*{re.escape(label)}", lesson.stored)
    assert twin.first[0] in lesson.stored


def test_every_cell_runs_without_an_error(lesson):
    assert lesson.errors() == []
    assert lesson.page.locator(lesson.front.code_cell).count() > 5


def test_the_console_has_no_error_and_the_page_asks_no_other_machine(lesson):
    assert lesson.complaints == []
    assert lesson.requests == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_of_ours(lesson, dark):
    if lesson.front is chromium.CLASSIC:
        pytest.skip("the classic Notebook has one theme, and faults that nobody mends")
    lesson.dark(dark)
    lesson.stretch()
    found, legible = axe.findings(lesson.page, lesson.front.content, axe.LAB)
    pale = ".widget-html-content div {color: #bbb; background: #fff}"
    spoil = lesson.page.add_style_tag(content=pale)
    spoilt, _ = axe.findings(lesson.page, lesson.front.content, axe.LAB)
    spoil.evaluate("style => style.remove()")
    lesson.dark(False)
    lesson.page.set_viewport_size(chromium.WINDOW)
    assert found == []
    assert legible > 50
    assert len(spoilt) == 1 and "color-contrast" in spoilt[0]


# --- its explorer


def test_an_arrow_key_moves_each_slider_one_step(explorer, twin):
    for name, control in sliders(twin).items():
        values, at = grid(control), grid_place(control)
        key, to = ("ArrowRight", at + 1) if at + 1 < len(values) else ("ArrowLeft", at - 1)
        explorer.press(control.description, key)
        twin.set(**{name: values[to]})
        assert_same(explorer, twin)
        assert words_of(twin) != twin.first[0] and explorer.bytes() != twin.first[1], name
        explorer.button("Reset")
        twin.reset()
        assert_same(explorer, twin)


def test_each_word_of_a_switch_can_be_pressed(explorer, twin):
    for name, control in switches(twin).items():
        for value in (control.options[-1], control.options[0]):
            explorer.switch(control.description, value)
            twin.set(**{name: value})
            assert_same(explorer, twin)
            assert explorer.chosen(control.description) == [str(value)]
        explorer.button("Reset")
        twin.reset()
        assert_same(explorer, twin)


def test_each_preset_shows_its_state(explorer, twin):
    for name in twin.presets:
        explorer.button(name)
        twin.buttons[name].click()
        assert_same(explorer, twin)


def test_a_narrow_window_cuts_nothing_off(lesson, explorer):
    lesson.page.set_viewport_size(chromium.WINDOW | {"width": 700})
    outputs = lesson.page.locator(".jp-OutputArea-output, .output_subarea").filter(
        has=lesson.page.locator(".jupyter-widgets")
    )
    cut = outputs.evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth).length")
    lesson.page.set_viewport_size(chromium.WINDOW)
    assert cut == 0


def test_the_tab_key_reaches_every_control_in_order(lesson, explorer, twin):
    wanted = []
    for control in twin.controls.values():
        switch = isinstance(control, Switch)
        wanted += [b.description for b in control.buttons] if switch else [control.description]
    wanted += twin.presets
    explorer.controls.locator("button, [tabindex='0']").first.focus()
    reached = []
    for _ in range(TAB_STOPS):
        name = lesson.page.evaluate(
            """() => {
                const at = document.activeElement, row = at.closest('.widget-inline-hbox');
                return (at.matches('button') ? at : row.querySelector('.widget-label')).textContent;
            }"""
        )
        if name not in reached:
            reached.append(name)
        if name == "Reset":
            break
        lesson.page.keyboard.press("Tab")
    assert reached == wanted


def test_a_key_press_is_answered_sooner_than_by_interactive_output(
    lesson, explorer, twin, request, record_property
):
    if lesson.front is chromium.CLASSIC:
        pytest.skip("in the classic Notebook interactive_output fails")
    plain = request.getfixturevalue("plain")
    control = next(iter(twin.controls.values()))
    label = control.description
    if isinstance(control, Switch):
        ends = [control.options[i] for i in (-1, 0)]
        press, run = lambda fro: explorer.switch(label, ends[fro]), 1
    else:
        last = grid_place(control) + 1 == len(grid(control))
        keys = ["ArrowLeft", "ArrowRight"] if last else ["ArrowRight", "ArrowLeft"]
        press, run = lambda fro: explorer.press(label, keys[fro]), 10
    ours = speed.measure(lesson.page, lesson.front.content, press, run)
    record_property(speed.MEASURED, (lesson.number, *ours, *plain))
    assert ours.decoded < plain.decoded


@pytest.fixture(scope="session")
def plain(open_notebook):
    """The speed of one slider with interactive_output."""
    opened = open_notebook("plain")
    opened.run_all()
    handle = opened.page.locator(f".widget-slider {opened.front.handle}")
    keys = ["ArrowRight", "ArrowLeft"]
    measured = speed.measure(opened.page, opened.front.content, lambda fro: handle.press(keys[fro]))
    opened.close()
    return measured
