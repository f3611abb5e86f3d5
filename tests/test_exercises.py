"""The catalogue tests itself: right answers pass, mistakes are told apart, words lead on."""

import copy
import importlib
import inspect
import re
import subprocess
import sys

import pytest
import torch
from course import NOTEBOOKS, ROOT, markdown_cells

from course_utils import catalogue, checker, exercises, layers, measure, packing, sizes

EXERCISES = [exercises.load(name) for name in exercises.NAMES]
MISTAKES = [(exercise, mistake) for exercise in EXERCISES for mistake in exercise.mistakes]
TOPICS = sorted(path.stem for path in (ROOT / "tests" / "right_answers").glob("*.py"))
HEADINGS = {
    f"{path.name[:2]} {line.lstrip('# ')}"
    for path in NOTEBOOKS
    for cell in markdown_cells(path)
    for line in cell.source.splitlines()
    if line.startswith("#")
}

each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
each_mistake = pytest.mark.parametrize(
    ("exercise", "mistake"), MISTAKES, ids=[f"{e.name}-{m.id}" for e, m in MISTAKES]
)


# Right answers are called exercise__how; the exercise's name itself has single underscores.
RIGHT = {
    name: answer
    for topic in TOPICS
    for name, answer in vars(importlib.import_module(f"right_answers.{topic}")).items()
    if "__" in name.strip("_")
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_passes_however_it_is_written(name):
    verdict = exercises.check(name.split("__")[0], RIGHT[name])
    assert verdict, verdict


@each_exercise
def test_there_are_other_right_answers(exercise):
    assert [name.split("__")[0] for name in RIGHT].count(exercise.name) >= 2


@each_exercise
def test_the_reference_is_right_and_obeys_every_property(exercise):
    assert exercises.check(exercise.name, exercise.reference)
    for rule in exercise.properties:
        assert rule.broken(checker._asked(exercise, exercise.reference)) is None, rule.name


@each_mistake
def test_each_mistake_is_named(exercise, mistake):
    """So no mistake passes, and no two behave alike: the first of them would be named."""
    verdict = exercises.check(exercise.name, mistake.wrong)
    assert verdict.mistake == mistake.id, verdict
    assert verdict.status == ("other convention" if mistake.convention else "wrong")


def test_each_property_is_broken_by_some_mistake():
    for exercise in EXERCISES:
        for rule in exercise.properties:
            answers = (checker._asked(exercise, m.wrong) for m in exercise.mistakes)
            assert any(says(rule, answer) for answer in answers), (exercise.name, rule.name)


def says(rule, answer):
    try:
        return rule.broken(answer)
    except Exception:
        return None


@each_exercise
def test_what_is_said_is_whole_sentences_and_leads_on(exercise):
    assert len({mistake.id for mistake in exercise.mistakes}) == len(exercise.mistakes)
    for mistake in exercise.mistakes:
        assert whole_sentences(mistake.message), mistake.message
        assert 40 <= len(mistake.message) <= 320, mistake.message
        assert mistake.read in HEADINGS, mistake.read
    for rule in exercise.properties:
        assert rule.read in HEADINGS, rule.read
    assert exercise.read in HEADINGS, exercise.read
    assert exercise.hints and all(map(whole_sentences, exercise.hints)), exercise.hints


def whole_sentences(words):
    return bool(re.match(r"[A-ZÀ-Ý0-9(`‖√]", words)) and words[-1] in ".?)" and "  " not in words


@each_exercise
def test_the_reference_takes_the_arguments_that_the_exercise_names(exercise):
    signature = inspect.signature(exercise.reference)
    assert tuple(signature.parameters)[: len(exercise.arguments)] == exercise.arguments


@each_exercise
def test_an_answer_that_wipes_its_inputs_wipes_copies(exercise):
    """So that the next check finds what the first one found."""
    before = [copy.deepcopy(case.args) for case in exercise.cases]

    def wipes(*args):
        for arg in args:
            if isinstance(arg, torch.Tensor):
                arg.zero_()

    if inspect.isfunction(exercise.reference):
        exercises.check(exercise.name, wipes)
    for case, args in zip(exercise.cases, before, strict=True):
        tensors = [pair for pair in zip(case.args, args, strict=True) if torch.is_tensor(pair[0])]
        assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in tensors)
    assert exercises.check(exercise.name, exercise.reference)


@each_exercise
def test_help_shows_hints_and_a_solution(exercise, capsys):
    exercises.help_with(exercise.name)
    said = capsys.readouterr().out
    assert all(hint in said for hint in exercise.hints)
    assert exercise.solution in said


def own_code(exercise):
    """The library's source of what an exercise asks for, or None."""
    for module in (layers, sizes, packing, measure):
        own = getattr(module, exercise.reference.__name__, None)
        if own and own.__module__ == module.__name__:
            return inspect.getsource(own)
    return None


def test_a_solution_that_the_library_has_is_its_own_code():
    """So that a slip, an edit of the one, is an edit of the other too. Checks are left out."""
    compared = 0
    for exercise in EXERCISES:
        source = own_code(exercise)
        if source and exercise.name != "expected_norm":  # written out, for its slips
            lines = iter(line.rstrip() for line in source.splitlines())
            for line in exercise.solution.partition("\n\n\n")[0].splitlines():
                assert not line or line in lines, f"{exercise.name}: {line}"  # in this order
            compared += 1
    assert compared >= 14


ODD = {
    "zeros": lambda *args: 0 * args[0],
    "its input": lambda *args: 1 * args[0],
    "NaN": lambda *args: args[0] * float("nan"),
    "infinity": lambda *args: args[0] + float("inf"),
    "seven": lambda *args: 7,
    "nothing of it": lambda *args: torch.zeros(0),
}


@pytest.mark.parametrize("odd", ODD)
@each_exercise
def test_an_odd_answer_hears_nothing_that_is_no_sense(exercise, odd):
    if inspect.isclass(exercise.reference):
        return
    verdict = exercises.check(exercise.name, lambda *args: ODD[odd](*args[: len(args)]))
    assert verdict.status in ("wrong", "crashed", "other convention"), verdict
    assert whole_sentences(verdict.message), verdict
    assert not re.search(r"up to 0[ ,.]", verdict.message), verdict


def diagnosed(name, *edits):
    text = exercises.load(name).solution
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return exercises.check(name, catalogue.read(name, vars(layers)).made(text, "test"))


def test_two_slips_at_once_are_recognised_as_two():
    verdict = diagnosed(
        "rms_norm", (".mean(", ".sum("), ("mean_square + eps", "mean_square + eps**2")
    )
    assert verdict.mistake == "R09 + eps-squared" and verdict.status == "wrong"
    for name in verdict.mistake.split(" + "):
        assert exercises.mistake("rms_norm", name).message in verdict.message
    assert whole_sentences(verdict.message)


GOOD = """# double(x)
5 minutes. Read *00 Where?*.

```python
def double(x):
    return 2 * x
```

## Hints
- Add it to itself.

## 00 Where?
- square ◇ (squares it): `2 * x` → `x**2`
  It squares. <https://example.org/1>
- half: `2 * x` → `y / 2`, `(x)` → `(y)`
  It halves.
- whole: `return x + 2`
  It adds.
- long:
  ```python
  y = x
  return y
  ```
  It does
  nothing.
"""


def read_catalogue(text, monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue, "FOLDER", tmp_path)
    (tmp_path / "double.md").write_text(text, encoding="utf-8")
    return catalogue.read("double")


def test_a_file_of_the_catalogue_is_read(monkeypatch, tmp_path):
    sheet = read_catalogue(GOOD, monkeypatch, tmp_path)
    assert (sheet.minutes, sheet.read, sheet.hints) == (5, "00 Where?", ("Add it to itself.",))
    square, half, whole, long = sheet.slips
    assert (square.title, square.seen) == ("squares it", "https://example.org/1")
    assert square.convention and not half.convention
    assert [slip.wrong(10) for slip in sheet.slips] == [100, 5, 12, 10]
    assert long.message == "It does nothing." and whole.place == "double.md:17"
    both = [(a.id, b.id) for a, b, _ in sheet.pairs()]
    assert both == []  # both change the same place


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "`2 * x` → `x**2`",
            "`3 * x` → `x**2`",
            "double.md:13: square changes `3 * x`, which is not",
        ),
        ("`2 * x` → `x**2`", "2 * x → x**2", "double.md:13: no slip of the form"),
        ("- half:", "- square:", "double.md:15: square is there twice"),
        ("  It adds.\n", "", "double.md:17: whole needs edits or code, once, and words below it"),
        ("  It adds.\n", "  `2` → `3` It adds.\n", "double.md:17: whole needs edits or code, once"),
        (
            "  It adds.\n",
            "  It adds.\n  - odd: `2` → `3`\n",
            "double.md:17: what belongs to a slip",
        ),
        ("- long:", "- long: `return x`", "double.md:19: long needs edits or code, once"),
        (
            "- half:",
            "* half:",
            "double.md:13: what belongs to a slip stands below it, indented: * h",
        ),
        (
            "## 00 Where?\n",
            "## 00 Where?\nHere!\n",
            "double.md:13: neither a slip nor a hint: Here!",
        ),
        ("5 minutes.", "Soon.", "double.md:1: no title"),
        (
            "- whole: `return x + 2`",
            "- as in double: half",
            "double.md:17: no other file double.md",
        ),
        ("- whole: `return x + 2`", "- as in none: half", "double.md:17: no other file none.md to"),
    ],
)
def test_a_broken_file_of_the_catalogue_is_named_with_its_line(
    old, new, problem, monkeypatch, tmp_path
):
    assert old in GOOD
    with pytest.raises(ValueError, match=re.escape(problem)):
        read_catalogue(GOOD.replace(old, new), monkeypatch, tmp_path)


def test_code_that_does_not_compile_is_named_with_its_line(monkeypatch, tmp_path):
    sheet = read_catalogue(GOOD.replace("return x + 2", "return x +"), monkeypatch, tmp_path)
    with pytest.raises(ValueError, match=r"double\.md:17: invalid syntax"):
        _ = sheet.slips[2].wrong


def test_an_unknown_exercise_is_named_with_what_there_is():
    with pytest.raises(ValueError, match="no exercise is called 'rms_nrom'; there is rms_norm"):
        exercises.check("rms_nrom", lambda x: x)
    for name in (7, [], None):
        with pytest.raises(ValueError, match="there is rms_norm, layer_norm"):
            exercises.load(name)
    with pytest.raises(ValueError, match="the name of the exercise comes first"):
        exercises.check(lambda x: x, "rms_norm")


def test_the_inputs_do_not_depend_on_what_the_learner_has_set():
    code = (
        "import torch; torch.set_default_dtype(torch.float64); torch.set_default_device('meta')\n"
        "from course_utils import exercises\n"
        "for name in exercises.NAMES:\n"
        "    assert exercises.check(name, exercises.load(name).reference), name"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
