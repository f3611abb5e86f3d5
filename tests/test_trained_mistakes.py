"""Notebook 10's table of mistakes: each of its columns, asked in another way."""

import pytest
import torch

from course_utils import exercises, runs
from course_utils.exercises.trained import mistake_table
from course_utils.runs import EXERCISES, LLAMA, MISTAKES
from course_utils.tiny_llama import TinyLlama

TABLE = mistake_table(runs.recorded())
NAMES = [(part, name) for part in MISTAKES for name in MISTAKES[part]]


@pytest.mark.parametrize(("part", "name"), NAMES)
def test_who_is_caught_by_shapes_cannot_train_and_nobody_else(part, name):
    row = TABLE[NAMES.index((part, name))]
    trained = runs.recorded().select(LLAMA._replace(**{part: name}))
    assert (row.shapes == "caught") == all(run.error for run in trained)
    assert {row.at_100, row.at_400} == {"error"} or row.shapes == "pass"


@pytest.mark.parametrize(("part", "name"), NAMES)
def test_who_sees_ahead_does_so_in_the_model_too(part, name):
    row = TABLE[NAMES.index((part, name))]
    if row.shapes == "caught":
        assert not row.sees_ahead
        return
    model = TinyLlama(**{part: exercises.mistake(EXERCISES[part], name).wrong})
    tokens = torch.arange(40)[None] + 60
    other = tokens.clone()
    other[0, -1] = 7
    with torch.no_grad():
        gap = (model(tokens) - model(other))[0, :-1].abs().max()
    assert row.sees_ahead == bool(gap > 1e-4)


def test_an_unknown_mistake_is_refused_by_name():
    with pytest.raises(ValueError, match="rms_norm has no mistake 'R99'; there is R01"):
        exercises.mistake("rms_norm", "R99")
