"""No check that cannot fail: every wrong version is noticed, and every claim can be broken."""

import collections
import contextlib

import pytest
import wrong_versions
from course import NOTEBOOKS, run

# Claims that no wrong version of the library breaks, and why that is right.
ABOUT_TORCH = "about plain torch code in the notebook; the library takes no part"
DEFENDED = {
    "In float16 the bare formula turns 300s into zeros": ABOUT_TORCH,
    "The mean square is one number per token": ABOUT_TORCH,
    "first_rms_norm is torch's RMSNorm": ABOUT_TORCH,
    "That is the root mean square of sequence 2, token 3": ABOUT_TORCH,
    "mean square = variance + mean²": ABOUT_TORCH,
    "On centred input the wrong version passes": ABOUT_TORCH,
    "With a sum in place of the mean the length is 1": ABOUT_TORCH,
}


@pytest.fixture(scope="module")
def right():
    """What the notebooks claim with the library as it is."""
    with pytest.MonkeyPatch.context() as patch:
        return {path.name: run(path, patch) for path in NOTEBOOKS}


@pytest.fixture(scope="module")
def report(right):
    """wrong version -> (sentences that became false, cells that raised)."""
    with pytest.MonkeyPatch.context() as patch:
        return {name: _broken_by(name, patch) for name in wrong_versions.WRONG}


def _broken_by(name, patch):
    false, raised = [], 0
    with wrong_versions.in_place(name):
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


@pytest.mark.parametrize("name", wrong_versions.WRONG)
def test_each_wrong_version_is_noticed(name, report):
    false, raised = report[name]
    print(f"{name}: {raised} cells raised; false: {false}")
    assert false or raised, "no claim in the course notices this mistake"


def test_each_claim_can_be_broken(right, report):
    broken = {sentence for false, _ in report.values() for sentence in false}
    claims = {sentence for record in right.values() for sentence in record.claims}
    unbroken = claims - broken
    assert unbroken - set(DEFENDED) == set(), "no wrong version breaks these claims"
    assert set(DEFENDED) - unbroken == set(), "these need no defence: some version breaks them"


def test_a_wrong_version_is_taken_back_even_after_an_error():
    code = wrong_versions.layers.rms_norm.__code__
    with contextlib.suppress(RuntimeError), wrong_versions.in_place("rms_norm_in_place"):
        assert wrong_versions.layers.rms_norm.__code__ is not code
        raise RuntimeError
    assert wrong_versions.layers.rms_norm.__code__ is code
