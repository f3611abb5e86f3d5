"""No check that cannot fail: every wrong version is noticed, and every claim can be broken."""

import collections
import contextlib
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch
from course import BANK, NOTEBOOKS, run
from wrong_versions import CELLS, FIRST, SLIPS, UNSEEN, WRONG, change, in_place, layers

# The bank's claims too must be able to fail; but a mistake must be noticed in a notebook.
ALL = [*NOTEBOOKS, BANK]
BROKEN_BY_CELLS = {sentence for sentences in CELLS.values() for sentence in sentences}

# FULL=1 runs every notebook that rests on a function with every wrong version of it, for a complete
# report (pytest -rP). Otherwise a version is run until one notebook has noticed it, the quickest
# first, and further only for claims that nothing has broken yet.
FULL = os.environ.get("FULL")


# --- in other processes, one notebook after another


def _begin(path):
    sys.path[:] = path
    torch.set_num_threads(1)


def _right(path):
    with pytest.MonkeyPatch.context() as patch:
        record = run(path, patch, trace=True)
    record.raised = list(map(repr, record.raised))  # not every exception can be sent on
    return record


def _wrong(name, path):
    """Which sentences a wrong version makes false in a notebook, and how many cells raise."""
    with pytest.MonkeyPatch.context() as patch, in_place((WRONG | SLIPS)[name]):
        record = run(path, patch)
    return [sentence for sentence, held in record.claims.items() if not held], len(record.raised)


def _in_other_words(path):
    """What a notebook claims, and what its cells raise, with rms_norm's product turned round."""
    product = "h * torch.rsqrt(mean_square + eps)", "torch.rsqrt(mean_square + eps) * h"
    with pytest.MonkeyPatch.context() as patch, in_place({layers.rms_norm: [product]}):
        record = run(path, patch)
    return record.claims, list(map(repr, record.raised))


def _wrong_cell(number, old, new):
    """The claims of a notebook in which the text of one cell is changed."""
    (path,) = (path for path in ALL if path.name.startswith(number))
    with pytest.MonkeyPatch.context() as patch:
        return run(path, patch, edit=(old, new)).claims


def _until_noticed(name, paths):
    """(notebook, what `_wrong` says), until one has noticed the version."""
    found = []
    for path in paths:
        found.append((path, *_wrong(name, path)))
        if not FULL and (found[-1][1] or found[-1][2]):
            break
    return found


def _until_all_are_broken(path, names, unbroken):
    """(version, what `_wrong` says), until no sentence of the notebook is left unbroken."""
    found, unbroken = [], set(unbroken)
    for name in names:
        if not unbroken:
            break
        found.append((name, *_wrong(name, path)))
        unbroken -= set(found[-1][1])
    return found


@pytest.fixture(scope="module")
def processes():
    """A process for each core, with nothing of this one but where it finds its modules."""
    with ProcessPoolExecutor(
        mp_context=multiprocessing.get_context("spawn"), initializer=_begin, initargs=(sys.path,)
    ) as pool:
        yield pool


@pytest.fixture(scope="module")
def right(processes):
    """What the notebooks claim with the library as it is, and which functions they rest on."""
    return dict(zip(ALL, processes.map(_right, ALL), strict=True))


class Report:
    """Which wrong version makes which sentences false, and how many cells raise."""

    def __init__(self, right):
        self.right = right
        self.false = {name: [] for name in WRONG}
        self.raised = dict.fromkeys(WRONG, 0)
        self.done = set()  # (version, notebook)
        self.noticed = set()  # by a notebook

    def resting(self, name):
        """The notebooks that rest on a function of the version, the quickest first."""
        names = {function.__qualname__ for function in (WRONG | SLIPS)[name]}
        paths = [path for path in ALL if names & self.right[path].rests_on]
        return sorted(paths, key=lambda path: self.right[path].seconds)

    def unbroken(self, path):
        broken = {sentence for false in self.false.values() for sentence in false}
        return set(self.right[path].claims) - BROKEN_BY_CELLS - broken

    def add(self, name, path, false, raised):
        self.false[name] += false
        self.raised[name] += raised
        self.done.add((name, path))
        if path != BANK and (false or raised):
            self.noticed.add(name)


@pytest.fixture(scope="module")
def report(right):
    return Report(right)


@pytest.fixture(scope="module")
def noticed(report, processes, request):
    """The report, after each version that is asked for was run until a notebook noticed it."""
    asked = [getattr(item, "callspec", None) for item in request.session.items]
    names = [spec.params["name"] for spec in asked if spec and spec.params.get("name") in WRONG]
    paths = [[p for p in report.resting(name) if FULL or p != BANK] for name in names]
    for name, found in zip(names, processes.map(_until_noticed, names, paths), strict=True):
        for path, false, raised in found:
            report.add(name, path, false, raised)
    return report


@pytest.fixture(scope="module")
def broken(report, processes):
    """The report, after each notebook was run until each of its sentences was false once."""
    # Then its own functions first.
    own = sorted(WRONG, key=lambda name: (name not in FIRST, len(report.resting(name))))
    names = [[n for n in own if p in report.resting(n) and (n, p) not in report.done] for p in ALL]
    unbroken = [report.unbroken(path) for path in ALL]
    found = processes.map(_until_all_are_broken, ALL, names, unbroken)
    for path, of_path in zip(ALL, found, strict=True):
        for name, false, raised in of_path:
            report.add(name, path, false, raised)
    return report


def test_the_notebooks_hold_as_they_are(right):
    for path, record in right.items():
        assert not record.raised, f"{path.name}: {record.raised}"
        assert record.claims, f"{path.name} claims nothing"
        false = [sentence for sentence, held in record.claims.items() if not held]
        assert not false, f"{path.name}: not true: {false}"


def test_each_sentence_is_claimed_once(right):
    sentences = collections.Counter(s for record in right.values() for s in record.claims)
    assert [s for s, times in sentences.items() if times > 1] == []


@pytest.mark.complete
@pytest.mark.parametrize("name", WRONG)
def test_each_wrong_version_is_noticed(name, noticed):
    print(f"{noticed.raised[name]} cells raised; false: {'; '.join(noticed.false[name])}")
    assert name in noticed.noticed, "no claim in the notebooks notices this mistake"


@pytest.mark.complete
def test_what_is_said_to_be_unseen_is(report, processes):
    """Or it would stay so when a claim notices it. Without notebook 10, where each run is long."""
    names = sorted(UNSEEN)
    paths = [[path for path in report.resting(name) if path != ALL[10]] for name in names]
    for name, found in zip(names, processes.map(_until_noticed, names, paths), strict=True):
        assert not any(false or raised for path, false, raised in found if path != BANK), name


@pytest.fixture(scope="module")
def cells(processes):
    return dict(zip(CELLS, processes.map(_wrong_cell, *zip(*CELLS, strict=True)), strict=True))


@pytest.mark.complete
@pytest.mark.parametrize("cell", CELLS)
def test_each_wrong_cell_breaks_its_claims(cell, cells):
    assert not any(cells[cell][sentence] for sentence in CELLS[cell])


def test_each_claim_can_be_broken(broken):
    assert set(WRONG) >= FIRST
    for path in ALL:
        assert broken.unbroken(path) == set(), f"nothing breaks these claims of {path.name}"


def test_a_right_version_is_not_noticed(right, processes):
    """The machinery itself breaks nothing: the same formula in other words passes everywhere."""
    for path, found in zip(ALL, processes.map(_in_other_words, ALL), strict=True):
        assert found == (right[path].claims, [])


def test_a_wrong_version_is_taken_back_even_after_an_error():
    before = layers.rms_norm.__code__, layers.rms_norm.__defaults__
    with contextlib.suppress(RuntimeError), in_place({layers.rms_norm: [("eps=1e-6", "eps=1e-5")]}):
        assert layers.rms_norm.__defaults__ == (None, 1e-5)
        raise RuntimeError
    assert (layers.rms_norm.__code__, layers.rms_norm.__defaults__) == before


def test_a_wrong_version_of_a_changed_function_is_refused():
    with pytest.raises(ValueError, match="rms_norm has no 'old text': its wrong version is old"):
        change(layers.rms_norm, ("old text", "new text"))
