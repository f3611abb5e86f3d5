"""explore: drawing, moving, presets, Reset, and what is said when something is wrong."""

import io

import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.figure import Figure
from PIL import Image
from traitlets import TraitError

from course_utils import explore as explore_module
from course_utils.explore import choice, explore, log_slider, slider, switch
from course_utils.plots import DescribedFigure


def make(update=None, presets=None, animated=True, **controls):
    figure = DescribedFigure(figsize=(2, 1), alt="A dot on a line, for the tests.")
    ax = figure.subplots()
    ax.set(xlim=(0, 10), ylim=(-1, 1))
    (dot,) = ax.plot([0], [0], "o", animated=animated)

    def move(place):
        dot.set_xdata([place])
        return f"The dot is at {place:g} < 11."

    controls = controls or {"place": slider("place", 1.0, (0, 10), 0.5)}
    return explore(figure, update or move, presets, **controls)


def pixels(explorer):
    return Image.open(io.BytesIO(bytes(explorer.picture.value)))


def test_the_picture_is_a_jpeg_at_twice_the_shown_size():
    explorer = make()
    assert pixels(explorer).format == "JPEG"
    assert pixels(explorer).size == (400, 200)
    assert (explorer.picture.width, explorer.picture.height) == ("200", "100")


def test_moving_a_control_changes_picture_and_words():
    explorer = make()
    before = bytes(explorer.picture.value), explorer.words.value
    explorer.controls["place"].value = 9
    assert bytes(explorer.picture.value) != before[0]
    assert explorer.words.value != before[1]
    assert "The dot is at 9 &lt; 11." in explorer.words.value  # words are words, never markup


def test_moving_back_brings_the_same_picture_back():
    explorer = make()
    before = bytes(explorer.picture.value)
    for place in (3, 9, 1):
        explorer.controls["place"].value = place
    assert bytes(explorer.picture.value) == before


def test_presets_and_reset_are_buttons():
    explorer = make(presets={"Far right": {"place": 10.0}})
    before = bytes(explorer.picture.value)
    assert list(explorer.buttons) == ["Far right", "Reset"]
    explorer.buttons["Far right"].click()
    assert explorer.controls["place"].value == 10
    assert bytes(explorer.picture.value) != before
    explorer.buttons["Reset"].click()
    assert explorer.controls["place"].value == 1
    assert bytes(explorer.picture.value) == before


def test_a_preset_of_several_values_draws_once():
    calls = []

    def update(a, b):
        calls.append((a, b))
        return "said"

    controls = {name: slider(name, 0.0, (0, 1), 0.1) for name in "ab"}
    explorer = make(update, {"Both": {"a": 1.0, "b": 1.0}}, **controls)
    calls.clear()
    explorer.buttons["Both"].click()
    assert calls == [(1, 1)]
    calls.clear()
    explorer.reset()
    assert calls == [(0, 0)]


def test_an_error_while_moving_is_shown_in_place_of_the_words_and_passes():
    def update(place):
        if place > 5:
            raise ZeroDivisionError("<place> is too far")
        return "fine"

    explorer = make(update)
    before = bytes(explorer.picture.value)
    explorer.controls["place"].value = 6
    said = "This explorer failed. ZeroDivisionError: &lt;place&gt; is too far"
    assert said in explorer.words.value
    assert bytes(explorer.picture.value) == before
    explorer.controls["place"].value = 2
    assert "fine" in explorer.words.value


def test_an_error_in_the_default_state_is_raised():
    def update(place):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make(update)


@pytest.mark.parametrize("said", [None, "", 3])
def test_update_must_say_something(said):
    with pytest.raises(TypeError, match="update must return words"):
        make(lambda place: said)


def test_a_preset_for_an_unknown_control_is_refused():
    with pytest.raises(ValueError, match=r"preset 'Far': \['plaice'\] are not among the controls"):
        make(presets={"Far": {"plaice": 10.0}})


def test_setting_an_unknown_control_is_refused():
    with pytest.raises(ValueError, match=r"\['plaice'\] are not among the controls \['place'\]"):
        make().set(plaice=3)


@pytest.mark.parametrize("value", ["far", 99.0, float("nan")])
def test_a_preset_that_cannot_be_is_refused_at_once(value):
    with pytest.raises(ValueError, match="preset 'Far': "):
        make(presets={"Far": {"place": value}})


def test_a_preset_whose_picture_fails_is_refused_at_once():
    def update(place):
        return "fine" if place < 5 else 1 / 0

    with pytest.raises(ZeroDivisionError):
        make(update, presets={"Far": {"place": 9.0}})


@pytest.mark.parametrize("value", ["far", 99.0])
def test_a_refused_value_moves_nothing_and_the_controls_still_work(value):
    controls = {name: slider(name, 0.0, (0, 1), 0.1) for name in "ab"}
    explorer = make(lambda a, b: f"a is {a}", **controls)
    before = bytes(explorer.picture.value)
    with pytest.raises(Exception, match=r"b cannot be 99.0: its limits make it 1.0|trait"):
        explorer.set(a=0.5, b=value)
    assert (explorer.controls["a"].value, explorer.controls["b"].value) == (0, 0)
    assert bytes(explorer.picture.value) == before
    explorer.controls["a"].value = 0.3
    assert "a is 0.3" in explorer.words.value


def test_a_preset_shows_the_same_wherever_one_comes_from():
    controls = {name: slider(name, 0.0, (0, 1), 0.1) for name in "ab"}
    explorer = make(lambda a, b: f"{a}, {b}", {"A": {"a": 1.0}}, **controls)
    explorer.set(b=0.5)
    explorer.buttons["A"].click()
    assert "1.0, 0.0" in explorer.words.value


def test_a_figure_has_one_explorer():
    explorer = make()
    with pytest.raises(ValueError, match="figure already has an explorer: draw it afresh"):
        explore(explorer.figure, explorer.update, place=slider("place", 1.0, (0, 10), 0.5))


@pytest.mark.parametrize(
    ("figure", "presets", "control", "words"),
    [
        (None, {}, slider("p", 1.0, (0, 2), 1), "figure must be a DescribedFigure, got NoneType"),
        (Figure(), {}, slider("p", 1.0, (0, 2), 1), "figure must be a DescribedFigure, got Figure"),
        ("own", {}, 3, "p must be a widget with a value and a description"),
        ("own", {}, slider("", 1.0, (0, 2), 1), "p must be a widget with a value and a descrip"),
        ("own", {"A": ["p"]}, slider("p", 1.0, (0, 2), 1), "preset 'A' must be a dict of values"),
    ],
)
def test_what_cannot_be_explored_is_named(figure, presets, control, words):
    figure = DescribedFigure(alt="Nothing.") if figure == "own" else figure
    with pytest.raises(TypeError, match=words):
        explore(figure, lambda p: "said", presets, p=control)


@pytest.mark.parametrize("make_one", [slider, log_slider])
@pytest.mark.parametrize(
    ("value", "limits", "step"), [(99, (1, 10), 1), (1, (10, 1), 1), (1, (1, 2), 0)]
)
def test_a_slider_outside_its_limits_is_refused(make_one, value, limits, step):
    with pytest.raises(ValueError, match=r"p: .* must lie in the limits .*, step .* above zero"):
        make_one("p", value, limits, step)


def test_a_log_slider_cannot_reach_zero():
    with pytest.raises(ValueError, match="eps: powers of ten are above zero"):
        log_slider("eps", 1.0, (0, 10), 1)


def test_a_preset_called_reset_is_refused():
    with pytest.raises(ValueError, match="Reset is added by explore"):
        make(presets={"Reset": {"place": 10.0}})


def test_an_explorer_needs_a_control_and_something_that_moves():
    figure = DescribedFigure(alt="Nothing.")
    with pytest.raises(ValueError, match="at least one control"):
        explore(figure, lambda: "said")
    with pytest.raises(ValueError, match="animated=True"):
        make(animated=False)


def test_each_output_has_a_form_for_pages_without_widgets(monkeypatch):
    shown = []
    monkeypatch.setattr(explore_module, "display", lambda data, **_: shown.append(data))
    explorer = make(presets={"Far right": {"place": 10.0}})
    explorer._ipython_display_()
    picture, words, controls = shown
    assert all(explore_module.VIEW in data for data in shown)
    assert picture["image/jpeg"] == bytes(explorer.picture.value)
    assert picture["text/plain"] == "A dot on a line, for the tests."
    assert words["text/plain"] == "The dot is at 1 < 11."
    assert words["text/markdown"] == "The dot is at 1 < 11.\n\n*A dot on a line, for the tests.*"
    assert controls["text/plain"] == "▶ Run this cell to move: place. Buttons: Far right, Reset."


def test_displaying_works_in_a_real_shell():
    shell = InteractiveShell.instance()
    try:
        explorer = make()
        shell.display_formatter.ipython_display_formatter(explorer)
    finally:
        InteractiveShell.clear_instance()


def test_a_log_slider_is_given_its_limits_as_values():
    control = log_slider("eps", 1e-5, (1e-8, 10), 0.25)
    assert (control.min, control.max, control.value) == (-8, 1, 1e-5)


def test_a_choice_offers_its_values_alone():
    control = choice("model", "b", ("a", "b"))
    assert (control.description, control.value) == ("model", "b")
    with pytest.raises(TraitError):
        control.value = "c"


def test_a_log_slider_reaches_its_end_however_the_power_rounds():
    explorer = make(lambda n: f"n is {n:.0f}", n=log_slider("n", 1.0, (1, 8192), 0.1))
    explorer.set(n=8192)
    assert "n is 8192" in explorer.words.value


@pytest.mark.parametrize("made", [choice, switch])
def test_one_of_several_words_can_be_chosen(made):
    explorer = make(
        lambda word: f"the word is {word}", word=made("word", "left", ("left", "right"))
    )
    explorer.set(word="right")
    assert "the word is right" in explorer.words.value
    with pytest.raises(TraitError, match=r"Invalid selection|'middle' is not among"):
        explorer.set(word="middle")
    assert explorer.controls["word"].value == "right"


def test_a_switch_marks_what_is_chosen():
    explorer = make(lambda n: f"it is {n}", n=switch("n", 2, (1, 2, 4)))
    buttons = explorer.controls["n"].buttons
    assert [button.description for button in buttons] == ["○ 1", "● 2", "○ 4"]
    buttons[2].click()
    assert [button.description for button in buttons] == ["○ 1", "○ 2", "● 4"]
    assert "it is 4" in explorer.words.value
    explorer.reset()
    assert [button.description for button in buttons] == ["○ 1", "● 2", "○ 4"]


def test_a_switch_begins_with_an_option():
    with pytest.raises(TraitError, match=r"3 is not among \(1, 2\)"):
        switch("n", 3, (1, 2))


@pytest.mark.parametrize(("step", "kind"), [(2, int), (0.5, float)])
def test_whole_steps_give_whole_values(step, kind):
    assert type(slider("n", 4, (0, 8), step).value) is kind
