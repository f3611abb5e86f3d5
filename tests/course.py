"""The notebooks as data, and a way to run one in this process."""

import contextlib
import io
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest

import course_utils
from course_utils import explorers, measure, packing, plots, two_ranks

SHOWN_FAILING = "300² fits into float16"  # notebook 00 lets it fail, to show what that looks like
ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BANK = ROOT / "docs" / "question_bank.ipynb"
# The notebooks as parameters of what is opened once for several tests, which one worker then gets.
OPENED_ONCE = [
    pytest.param(path, id=path.stem[:2], marks=pytest.mark.xdist_group(path.stem))
    for path in NOTEBOOKS
]


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def markdown_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "markdown"]


def tags(cell):
    return set(cell.metadata.get("tags", []))


def texts(cell):
    """All that a code cell printed or showed, as text."""
    return [o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.outputs]


@dataclass
class Record:
    """What one run of a notebook said: its claims, its predictions, and the cells that raised."""

    claims: dict = field(default_factory=dict)  # sentence -> held
    truths: dict = field(default_factory=dict)  # prediction's name -> truth
    tolerances: dict = field(default_factory=dict)  # prediction's name -> tolerance
    again: dict = field(default_factory=dict)  # truths of predictions that are asked at the end
    raised: list = field(default_factory=list)  # the exceptions
    seconds: float = 0.0
    rests_on: set = field(default_factory=set)  # the library's functions that were called


def run(path, monkeypatch, edit=None, trace=False, again=False):
    """Run a notebook's cells here, pictures and timings left out, claims recorded, not raised.

    Exercises are left out too: nothing may need them.
    edit: (old, new) text; one cell must contain the old. trace: note which functions are called.
    again: ask all predictions once more after the last cell.
    """
    record = Record()
    cells = [c for c in code_cells(path) if not tags(c) & {"exercise", "help"}]
    sources = [cell.source for cell in cells]
    if edit:
        (at,) = (i for i, source in enumerate(sources) if edit[0] in source)
        sources[at] = sources[at].replace(*edit)
    with monkeypatch.context() as patch:
        patch.setattr(course_utils, "claim", _recorder(record))
        patch.setattr(course_utils, "predict", _prediction_recorder(record))
        patch.setattr(measure, "timing", lambda *_: measure.Timing(1.0, 0.0, 1))
        patch.setattr(measure, "time_by_part", lambda *_: {"": 1.0})
        for module in (explorers, plots):
            for name in dir(module):
                if name == "show" or name.endswith(("_explorer", "_figure")):
                    patch.setattr(module, name, lambda *_: None)
        patch.setattr(two_ranks, "run_sharded", _in_one_process)
        patch.chdir(path.parent)
        namespace = {"__name__": "__main__"}
        start = time.perf_counter()
        if trace:
            sys.setprofile(_tracer(record))
        asked = [source for source in sources if again and "\npredict(" in source]
        for place, source in enumerate([*sources, *asked]):
            if place == len(sources):
                first, record.truths = record.truths, record.again
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(source, path.name, "exec"), namespace)
            except Exception as problem:
                record.raised.append(problem)
        if trace:
            sys.setprofile(None)
        if asked:
            record.truths = first
        record.seconds = time.perf_counter() - start
    return record


def _tracer(record):
    def note_call(frame, event, _):
        if event == "call" and "course_utils" in frame.f_code.co_filename:
            record.rests_on.add(frame.f_code.co_qualname)

    return note_call


def _in_one_process(x, shards):
    """What the ranks would return, without starting them for each wrong version."""
    total = sum(packing.swiglu_packed(x, *shard) for shard in shards)
    return [total] * len(shards)


def _prediction_recorder(record):
    def predict(_, truth, name, tolerance=0.02):
        record.truths[name] = truth
        record.tolerances[name] = tolerance

    return predict


def _recorder(record):
    def claim(sentence, holds):
        if sentence == SHOWN_FAILING:
            raise AssertionError(sentence) if not holds else ValueError(f"{sentence} has held")
        record.claims[sentence] = bool(holds)

    return claim
