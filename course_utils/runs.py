"""The recorded runs of the tiny Llama: how they were planned, and how they are read.

`tools/train.py` makes `data/runs.jsonl`. docs/comparison.md says why the plan is as it is; it was
written before the first run.
"""

import functools
import json
import math
import statistics
from pathlib import Path
from typing import NamedTuple

from .tiny_llama import STEPS, WARMUP

DATA = Path(__file__).parent / "data"
RATES = (1e-3, 2e-3, 4e-3, 8e-3, 16e-3, 32e-3)  # that are searched
SEARCH_SEEDS = (101, 102)
SEEDS = (0, 1, 2, 3, 4, 5, 6, 7)  # of the comparison
MISTAKE_SEEDS = (0, 1, 2)
# Student's t for 7 degrees of freedom and 0.5 %, two-sided: ten comparisons share 5 %.
T_LIMIT = 4.03


class Variant(NamedTuple):
    """What one model is made of: names of `tiny_llama`, or in one place a mistake's name."""

    norm: str = "RMSNorm"
    ffn: str = "SwiGLU"
    block: str = "pre"


LLAMA = Variant()
FFN_VARIANTS = tuple(
    Variant(ffn=ffn) for ffn in ("ReLU", "GELU", "SiLU", "GLU", "ReGLU", "GEGLU", "SwiGLU")
)
NORM_VARIANTS = (
    LLAMA,
    Variant(norm="LayerNorm"),
    Variant(block="post"),
    Variant(norm="LayerNorm", block="post"),
    Variant(norm="none"),
)
VARIANTS = tuple(dict.fromkeys(FFN_VARIANTS + NORM_VARIANTS))

# Slips of the exercises' catalogue, by the part of the model that they stand in.
MISTAKES = {
    "norm": (
        *("R09", "R17", "R01", "R10", "R02", "R04", "R06", "R32"),
        *("weight-added", "detached"),
    ),
    "ffn": ("G01", "G02", "G05", "no-up", "G12", "G14", "softmax-tokens"),
    "block": ("L01", "L06", "no-norm2", "no-residual", "old-residual"),
}
EXERCISES = {"norm": "rms_norm", "ffn": "swiglu_ffn", "block": "llama_block"}  # their homes
MISTAKEN = tuple(
    LLAMA._replace(**{part: name}) for part, names in MISTAKES.items() for name in names
)


def norm_name(variant):
    """A variant's norm and its place, in words."""
    if variant.norm == "none":
        return "no norm"
    return f"{variant.norm} {'before' if variant.block == 'pre' else 'after'}"


class Run(NamedTuple):
    """One training. loss: means over ten steps each; validation: by step; in nats a byte.

    A run that could not go on has fewer of both: its loss was no longer a number, or `error` says
    what PyTorch said at the first step.
    """

    variant: Variant
    rate: float
    warmup: int
    seed: int
    steps: int
    loss: tuple
    validation: dict
    error: str = ""

    @property
    def final(self):
        """Validation loss after the last step; infinite for a run that did not get there."""
        return self.validation.get(self.steps, math.inf)


class Records(NamedTuple):
    """All recorded runs, and what made them: command, versions, text, machine."""

    about: dict
    runs: tuple

    def select(self, variant, *, steps=STEPS, **wanted):
        """Its runs of that length whose other fields are as wanted, by rate and seed."""
        wanted |= {"variant": variant, "steps": steps}
        fits = (r for r in self.runs if all(getattr(r, k) == v for k, v in wanted.items()))
        return sorted(fits, key=lambda run: (run.rate, run.seed))

    def searched(self, variant, *, warmup=WARMUP):
        """For each rate that was tried, the mean final loss of the search's seeds."""
        runs = [r for r in self.select(variant, warmup=warmup) if r.seed in SEARCH_SEEDS]
        rates = sorted({run.rate for run in runs})
        return {r: statistics.mean(run.final for run in runs if run.rate == r) for r in rates}

    def chosen(self, variant, *, warmup=WARMUP):
        """The rate whose mean final loss in the search is lowest."""
        searched = self.searched(variant, warmup=warmup)
        if not searched:
            raise LookupError(f"no search of {variant} with warmup {warmup} is recorded")
        return min(searched, key=searched.get)

    def compared(self, variant):
        """The comparison's runs of a variant: its chosen rate, with warm-up, all SEEDS."""
        runs = self.select(variant, rate=self.chosen(variant), warmup=WARMUP)
        return [run for run in runs if run.seed in SEEDS]


class Difference(NamedTuple):
    """Final loss of one variant less that of another, seed by seed."""

    mean: float
    error: float  # standard error of the mean

    @property
    def beyond_noise(self):
        return abs(self.mean) > T_LIMIT * self.error


def difference(these, those):
    """How much higher these runs end than those, paired by seed.

    Raises ValueError when their seeds differ, or are fewer than two.
    """
    seeds, others = ([run.seed for run in runs] for runs in (these, those))
    if seeds != others or len(seeds) < 2:
        raise ValueError(f"both must have the same seeds, two or more, got {seeds} and {others}")
    gaps = [a.final - b.final for a, b in zip(these, those, strict=True)]
    if not all(map(math.isfinite, gaps)):
        return Difference(statistics.mean(gaps), 0.0)  # a run that failed is no noise
    return Difference(statistics.mean(gaps), statistics.stdev(gaps) / len(gaps) ** 0.5)


def verdict(runs, right, step):
    """What the loss after `step` steps says of a mistake, held against right runs.

    "error" when it did not run; "worse" when each of its runs is worse than every right one;
    "better" when each is better than every right one; else "like right".
    """
    if any(run.error for run in runs):
        return "error"
    losses = [run.validation.get(step, math.inf) for run in runs]
    rights = [run.validation[step] for run in right]
    if min(losses) > max(rights):
        return "worse"
    return "better" if max(losses) < min(rights) else "like right"


def parse(lines):
    """Records from the lines of `runs.jsonl`: the first is about all, each other one a run.

    Raises ValueError for a line that is neither, naming it, and for a run that is there twice.
    """
    about, entries = {}, []
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            if number == 1:
                about = entry | {"command": entry["command"]}  # which a run has not
            else:
                entries.append(_run(entry))
        except (ValueError, KeyError, TypeError) as problem:
            raise ValueError(f"line {number} is no run: {line[:40]!r}") from problem
    if len({(r.variant, r.rate, r.warmup, r.seed, r.steps) for r in entries}) < len(entries):
        raise ValueError("a run is there twice")
    if not about:
        raise ValueError("there is no first line, about all runs")
    return Records(about, tuple(entries))


def _run(entry):
    validation = {int(step): loss for step, loss in entry["validation"].items()}
    entry |= {"variant": Variant(*entry["variant"]), "loss": tuple(entry["loss"])}
    return Run(**entry | {"validation": validation})


@functools.cache
def recorded():
    """The Records that came with the course."""
    return parse((DATA / "runs.jsonl").read_text(encoding="utf-8").splitlines())
