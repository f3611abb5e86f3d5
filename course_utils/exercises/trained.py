"""Notebook 10's table: which mistakes a test of shapes notices, which the loss, which see ahead."""

from typing import NamedTuple

import torch
import torch.nn.functional as F

from ..measure import outcome
from ..runs import EXERCISES, LLAMA, MISTAKES, verdict
from . import mistake


class Row(NamedTuple):
    """A mistake, and what came of it."""

    words: str
    shapes: str  # "caught" or "pass"
    at_100: str  # the loss after 100 steps, as `runs.verdict` says it, and after 400
    at_400: str
    sees_ahead: bool  # a later token changes an earlier one's output


def mistake_table(records):
    """A Row for each mistake that was trained. records: `runs.recorded()`.

    Shapes are tested where B, T, D and I all differ. Attention, which may look back, is left out of
    that: the sublayers of a block are functions of each number alone.
    """
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(2, 3, 5, generator=generator), torch.randn(7, 5, generator=generator)
    later = x + torch.tensor([0.0, 0.0, 1.0])[:, None]  # only the last token is another
    rest = {
        "norm": (weight[0], 1e-5),
        "ffn": (weight, weight.flip(0), weight.T),
        "block": (torch.tanh, torch.sin, F.silu, torch.atan),
    }
    right, rows = records.compared(LLAMA), []
    for part, names in MISTAKES.items():
        for name in names:
            slip = mistake(EXERCISES[part], name)
            wrong = slip.wrong
            caught = outcome(lambda w=wrong, p=part: w(x, *rest[p]), x) in ("error", "other shape")
            ahead = not caught and _apart(wrong(x, *rest[part]), wrong(later, *rest[part]))
            trained = records.select(LLAMA._replace(**{part: name}))
            losses = [verdict(trained, right, step) for step in (100, 400)]
            rows.append(Row(slip.title, "caught" if caught else "pass", *losses, ahead))
    return rows


def _apart(y, other):
    """Whether two outputs differ before the last token. (B, T, D) each."""
    return bool((y - other)[:, :-1].abs().max() > 1e-4)
