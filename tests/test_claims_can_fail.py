"""No check that cannot fail: every wrong version is noticed, and every claim can be broken."""

import collections
import contextlib
import os

import pytest
from course import BANK, NOTEBOOKS, run
from wrong_versions import CELLS, WRONG, change, in_place, layers

# The bank's claims too must be able to fail; but a mistake must be noticed in a notebook.
ALL = [*NOTEBOOKS, BANK]
BROKEN_BY_CELLS = {sentence for sentences in CELLS.values() for sentence in sentences}

# FULL=1 runs every notebook that rests on a function with every wrong version of it, for a complete
# report (pytest -rP). Otherwise a version is run until one notebook has noticed it, the quickest
# first, and further only for claims that nothing has broken yet.
FULL = os.environ.get("FULL")


@pytest.fixture(scope="module")
def right():
    """What the notebooks claim with the library as it is, and which functions they rest on."""
    with pytest.MonkeyPatch.context() as patch:
        return {path: run(path, patch, trace=True) for path in ALL}


class Report:
    """Which wrong version makes which sentences false, and how many cells raise."""

    def __init__(self, right):
        self.right = right
        self.false = {name: [] for name in WRONG}
        self.raised = dict.fromkeys(WRONG, 0)
        self.done = set()  # (version, notebook)
        self.noticed = set()  # by a notebook

    def resting(self, name):
        """The notebooks that rest on the version's function, the quickest first."""
        function, _ = WRONG[name]
        paths = [path for path in ALL if function.__qualname__ in self.right[path].rests_on]
        return sorted(paths, key=lambda path: self.right[path].seconds)

    def unbroken(self, path):
        broken = {sentence for false in self.false.values() for sentence in false}
        return set(self.right[path].claims) - BROKEN_BY_CELLS - broken

    def run(self, name, path, patch):
        if (name, path) in self.done:
            return
        function, pairs = WRONG[name]
        with in_place(function, change(function, *pairs)):
            record = run(path, patch)
        false = [sentence for sentence, held in record.claims.items() if not held]
        self.false[name] += false
        self.raised[name] += len(record.raised)
        self.done.add((name, path))
        if path != BANK and (false or record.raised):
            self.noticed.add(name)


@pytest.fixture(scope="module")
def report(right):
    made = Report(right)
    with pytest.MonkeyPatch.context() as patch:
        for name in WRONG:
            for path in made.resting(name):
                if FULL or (path != BANK and name not in made.noticed):
                    made.run(name, path, patch)
        own = sorted(WRONG, key=lambda name: len(made.resting(name)))  # its own functions first
        for path in ALL:
            for name in own:
                if path in made.resting(name) and made.unbroken(path):
                    made.run(name, path, patch)
    return made


def test_the_notebooks_hold_as_they_are(right):
    for path, record in right.items():
        assert not record.raised, f"{path.name}: {record.raised}"
        assert record.claims, f"{path.name} claims nothing"
        false = [sentence for sentence, held in record.claims.items() if not held]
        assert not false, f"{path.name}: not true: {false}"


def test_each_sentence_is_claimed_once(right):
    sentences = collections.Counter(s for record in right.values() for s in record.claims)
    assert [s for s, times in sentences.items() if times > 1] == []


@pytest.mark.parametrize("name", WRONG)
def test_each_wrong_version_is_noticed(name, report):
    print(f"{report.raised[name]} cells raised; false: {'; '.join(report.false[name])}")
    assert name in report.noticed, "no claim in the notebooks notices this mistake"


@pytest.mark.parametrize(("number", "old", "new"), CELLS)
def test_each_wrong_cell_breaks_its_claims(number, old, new, monkeypatch):
    (path,) = (path for path in ALL if path.name.startswith(number))
    claims = run(path, monkeypatch, edit=(old, new)).claims
    assert not any(claims[sentence] for sentence in CELLS[number, old, new])


def test_each_claim_can_be_broken(report):
    for path in ALL:
        assert report.unbroken(path) == set(), f"nothing breaks these claims of {path.name}"


def test_a_right_version_is_not_noticed(right, monkeypatch):
    """The machinery itself breaks nothing: the same formula in other words passes everywhere."""
    same = change(
        layers.rms_norm,
        ("h * torch.rsqrt(mean_square + eps)", "torch.rsqrt(mean_square + eps) * h"),
    )
    with in_place(layers.rms_norm, same):
        for path in ALL:
            record = run(path, monkeypatch)
            assert record.claims == right[path].claims and not record.raised


def test_a_wrong_version_is_taken_back_even_after_an_error():
    before = layers.rms_norm.__code__, layers.rms_norm.__defaults__
    wrong = change(layers.rms_norm, ("eps=1e-6", "eps=1e-5"))
    with contextlib.suppress(RuntimeError), in_place(layers.rms_norm, wrong):
        assert layers.rms_norm.__defaults__ == (None, 1e-5)
        raise RuntimeError
    assert (layers.rms_norm.__code__, layers.rms_norm.__defaults__) == before


def test_a_wrong_version_of_a_changed_function_is_refused():
    with pytest.raises(ValueError, match="rms_norm has no 'old text': its wrong version is old"):
        change(layers.rms_norm, ("old text", "new text"))
