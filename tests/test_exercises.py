"""The catalogue tests itself: right answers pass, mistakes are told apart, words lead on."""

import copy
import dataclasses
import importlib
import inspect
import re
import subprocess
import sys

import pytest
import torch
from course import NOTEBOOKS, ROOT, markdown_cells

from course_utils import checker, exercises

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


@each_mistake
def test_without_the_catalogue_something_useful_is_said(exercise, mistake):
    """As it must for mistakes that nobody has listed."""
    verdict = checker.diagnose(dataclasses.replace(exercise, mistakes=()), mistake.wrong)
    assert verdict.status in ("wrong", "crashed")
    assert whole_sentences(verdict.message), verdict.message
    if re.search(r"number \d+ of", verdict.message):  # where no property speaks
        assert "the gradient of" in verdict.message, verdict.message


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
    assert exercise.reference.__name__ in said and "_check_" not in said
    words = inspect.getdoc(exercise.reference)
    assert not words or words.splitlines()[0] not in said


@each_exercise
def test_the_solution_runs_and_is_right(exercise):
    namespace = dict(vars(inspect.getmodule(exercise.reference)))
    exec(exercises.solution(exercise), namespace)
    assert exercises.check(exercise.name, namespace[exercise.reference.__name__])


def test_authors_can_print_all_mistakes_and_what_is_said_of_them():
    from course_utils.exercises.__main__ import table

    lines = " ".join(" ".join(table()).split())
    for _, mistake in MISTAKES:
        assert f" {mistake.id} " in lines and " ".join(mistake.message.split()) in lines
    assert sum(line.endswith(" properties") for line in table(["silu", "swish"])) == 2


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
