"""No check that cannot fail: every wrong version is noticed, and every claim can be broken."""

import collections
import contextlib
import os

import pytest
from course import NOTEBOOKS, run
from wrong_versions import CELLS, WRONG, change, in_place, layers

BROKEN_BY_CELLS = {sentence for sentences in CELLS.values() for sentence in sentences}

# FULL=1 runs every notebook that rests on a function with every wrong version of it, for a complete
# report (pytest -rP). Otherwise a notebook whose claims are all known to break is run no more, once
# the version at hand has been noticed.
FULL = os.environ.get("FULL")


@pytest.fixture(scope="module")
def right():
    """What the notebooks claim with the library as it is, and which functions they rest on."""
    with pytest.MonkeyPatch.context() as patch:
        return {path: run(path, patch, trace=True) for path in NOTEBOOKS}


@pytest.fixture(scope="module")
def report(right):
    """wrong version -> (sentences that became false, cells that raised)."""
    unbroken = {path: set(record.claims) - BROKEN_BY_CELLS for path, record in right.items()}
    with pytest.MonkeyPatch.context() as patch:
        return {name: _broken_by(name, right, unbroken, patch) for name in _one_of_each_first()}


def _one_of_each_first():
    """The names of the wrong versions, the first of each function before the second of any."""
    seen = collections.Counter()
    turn = {}
    for name, (function, _) in WRONG.items():
        turn[name] = seen[function]
        seen[function] += 1
    return sorted(WRONG, key=turn.get)


def _broken_by(name, right, unbroken, patch):
    function, pairs = WRONG[name]
    false, raised = [], 0
    resting = [path for path in NOTEBOOKS if function.__qualname__ in right[path].rests_on]
    with in_place(function, change(function, *pairs)):
        for path in sorted(resting, key=lambda path: (-len(unbroken[path]), right[path].seconds)):
            if (false or raised) and not unbroken[path] and not FULL:
                continue
            record = run(path, patch)
            now_false = [sentence for sentence, held in record.claims.items() if not held]
            unbroken[path] -= set(now_false)
            false += now_false
            raised += len(record.raised)
    return false, raised


def test_the_notebooks_hold_as_they_are(right):
    for path, record in right.items():
        assert not record.raised, f"{path.name}: {record.raised}"
        assert record.claims, f"{path.name} claims nothing"
        assert all(record.claims.values()), path.name


def test_each_sentence_is_claimed_once(right):
    sentences = collections.Counter(s for record in right.values() for s in record.claims)
    assert [s for s, times in sentences.items() if times > 1] == []


@pytest.mark.parametrize("name", WRONG)
def test_each_wrong_version_is_noticed(name, report):
    false, raised = report[name]
    print(f"{raised} cells raised; false: {'; '.join(false)}")  # pytest -rP shows the report
    assert false or raised, "no claim in the course notices this mistake"


@pytest.mark.parametrize(("number", "old", "new"), CELLS)
def test_each_wrong_cell_breaks_its_claims(number, old, new, monkeypatch):
    (path,) = (path for path in NOTEBOOKS if path.name.startswith(number))
    claims = run(path, monkeypatch, edit=(old, new)).claims
    assert not any(claims[sentence] for sentence in CELLS[number, old, new])


def test_each_claim_can_be_broken(right, report):
    broken = {sentence for false, _ in report.values() for sentence in false}
    broken |= BROKEN_BY_CELLS
    claims = {sentence for record in right.values() for sentence in record.claims}
    assert claims - broken == set(), "nothing breaks these claims"


def test_a_right_version_is_not_noticed(right, monkeypatch):
    """The machinery itself breaks nothing: the same formula in other words passes everywhere."""
    same = change(
        layers.rms_norm,
        ("h * torch.rsqrt(mean_square + eps)", "torch.rsqrt(mean_square + eps) * h"),
    )
    with in_place(layers.rms_norm, same):
        for path in NOTEBOOKS:
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
