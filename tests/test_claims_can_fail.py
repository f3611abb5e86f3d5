"""No check that cannot fail: every wrong version is noticed, and every claim can be broken."""

import collections
import contextlib

import pytest
from course import NOTEBOOKS, run
from wrong_versions import CELLS, WRONG, change, in_place, layers


@pytest.fixture(scope="module")
def right():
    """What the notebooks claim with the library as it is."""
    with pytest.MonkeyPatch.context() as patch:
        return {path.name: run(path, patch) for path in NOTEBOOKS}


@pytest.fixture(scope="module")
def report():
    """wrong version -> (sentences that became false, cells that raised)."""
    with pytest.MonkeyPatch.context() as patch:
        return {name: _broken_by(*wrong, patch) for name, wrong in WRONG.items()}


def _broken_by(function, pairs, patch):
    false, raised = [], 0
    with in_place(function, change(function, *pairs)):
        for path in NOTEBOOKS:
            record = run(path, patch)
            false += [sentence for sentence, held in record.claims.items() if not held]
            raised += len(record.raised)
    return false, raised


def test_the_notebooks_hold_as_they_are(right):
    for name, record in right.items():
        assert not record.raised, f"{name}: {record.raised}"
        assert record.claims, f"{name} claims nothing"
        assert all(record.claims.values()), name


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
    broken |= {sentence for sentences in CELLS.values() for sentence in sentences}
    claims = {sentence for record in right.values() for sentence in record.claims}
    assert claims - broken == set(), "nothing breaks these claims"


def test_a_right_version_is_not_noticed(right, monkeypatch):
    """The machinery itself breaks nothing: the same formula in other words passes everywhere."""
    same = change(layers.rms_norm, ("h.square()", "(h * h)"))
    with in_place(layers.rms_norm, same):
        for path in NOTEBOOKS:
            record = run(path, monkeypatch)
            assert record.claims == right[path.name].claims and not record.raised


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
