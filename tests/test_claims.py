"""claim, near, above, below, same, recap, predict: what they promise, and every message."""

import io
import math

import numpy as np
import pytest
import torch

from course_utils import above, below, claim, claims, near, predict, recap, same
from course_utils.predictions import REASONS

NAN = float("nan")


@pytest.fixture(autouse=True)
def no_claims_yet(monkeypatch):
    monkeypatch.setattr(claims, "_made", {})


# --- near


@pytest.mark.parametrize(
    ("measured", "expected", "within", "words"),
    [
        (2.0, 2, 1e-5, "2, to 1e-5"),
        (torch.tensor(22.627417), 512**0.5, 1e-5, "22.63, to 1e-5"),
        (torch.tensor(-7e-9), 0, 1e-5, "0, to 1e-5"),
        (torch.ones(3, 4), 1, 1e-5, "12 times 1, to 1e-5"),
        (torch.ones(3), torch.ones(3), 0, "3 numbers, to 0"),
        (np.array([1.0, 2.0]), [1, 2], 0.01, "2 numbers, to 0.01"),
        (torch.tensor([1, 2]), torch.tensor([1.0, 2.0]).half(), 1e-3, "2 numbers, to 0.001"),
    ],
)
def test_near_holds_and_says_how_closely(measured, expected, within, words):
    evidence = near(measured, expected, within)
    assert evidence and evidence.words == words


@pytest.mark.parametrize(
    ("measured", "expected", "words"),
    [
        (3.0, 2, "3 where 2 was expected, off by 0.5, allowed 1e-5"),
        (NAN, 2, "nan where 2 was expected, off by nan, allowed 1e-5"),
        (2.0, NAN, "2 where nan was expected, off by nan, allowed 1e-5"),
        (math.inf, 2, "inf where 2 was expected, off by inf, allowed 1e-5"),
        (math.inf, math.inf, "inf where inf was expected, off by nan, allowed 1e-5"),
        (torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]), "off by 0.25, allowed 1e-5"),
        (torch.tensor([1.0, NAN]), 1, "off by nan, allowed 1e-5"),
        (2e-5, 0, "2e-05 where 0 was expected, off by 2e-05, allowed 1e-5"),
        (1 + 2e-5, 1, "1.00002 where 1 was expected, off by 2e-05, allowed 1e-5"),
    ],
)
def test_near_fails_and_says_by_how_much(measured, expected, words):
    evidence = near(measured, expected)
    assert not evidence and evidence.words == words


def test_near_is_relative_to_the_largest_expected():
    assert near(torch.tensor([1000.0, 0.005]), torch.tensor([1000.0, 0.0]))
    assert not near(torch.tensor([1.0, 0.005]), torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize(
    ("measured", "expected", "error", "words"),
    [
        (
            torch.ones(3),
            torch.ones(3, 1),
            ValueError,
            r"measured has shape \(3,\), expected \(3, 1",
        ),
        (torch.ones(1), torch.ones(3), ValueError, r"measured has shape \(1,\), expected \(3,\)"),
        (torch.ones(0), 1, ValueError, "measured holds no number: such a check could not fail"),
        (1.0, [], ValueError, "expected holds no number"),
        (True, 1, TypeError, "measured must be real numbers, got torch.bool"),
        (1.0, 1j, TypeError, "expected must be real numbers, got torch.complex128"),
    ],
)
def test_near_refuses_what_it_cannot_compare(measured, expected, error, words):
    with pytest.raises(error, match=words):
        near(measured, expected)


@pytest.mark.parametrize("within", [-1e-5, 1, math.inf])
def test_near_refuses_a_tolerance_that_lets_anything_through(within):
    with pytest.raises(ValueError, match="within must be zero or more and less than 1"):
        near(1, 1, within)


@pytest.mark.parametrize("number", [NAN, True, None, "1", 1j, [1], torch.tensor(1.0)])
def test_a_bound_is_one_number(number):
    with pytest.raises(TypeError, match="within must be one number, got"):
        near(1, 1, number)
    for check in (above, below):
        with pytest.raises(TypeError, match="bound must be one number, got"):
            check(1, number)


def test_numbers_keep_all_their_digits():
    assert not above(0.1, 0.1) and not below(0.7, 0.7)
    assert not near(1 + 5e-8, 1, within=0)
    assert near(torch.tensor(3**0.5, dtype=torch.float64), 3**0.5, 1e-12)


def test_torchs_default_dtype_and_device_play_no_part():
    torch.set_default_dtype(torch.bfloat16)
    torch.set_default_device("meta")
    try:
        assert not near(1.003, 1) and above(0.501, 0.5)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


def test_near_leaves_a_gradient_alone():
    x = torch.ones(2, requires_grad=True)
    assert near(x, 1) and x.requires_grad


# --- above, below, same


@pytest.mark.parametrize(
    ("evidence", "holds", "words"),
    [
        (above(0.58, 0.5), True, "0.58 > 0.5"),
        (above(torch.tensor([2.0, 3.0]), 1), True, "2 numbers > 1"),
        (above(torch.tensor([2.0, 3.0]), 2), False, "2 is not > 2"),
        (above(NAN, 0), False, "nan is not > 0"),
        (below(1.8e-7, 1e-5), True, "< 1e-5"),
        (below([1, 2], 3), True, "2 numbers < 3"),
        (below(torch.tensor([2.0, 3.0]), 3), False, "3 is not < 3"),
        (below(torch.tensor([0.0, NAN]), 1), False, "nan is not < 1"),
        (same((2, 3), (2, 3)), True, "(2, 3)"),
        (same(torch.ones(2, 3).shape, (2, 3)), True, "(2, 3)"),
        (same("error", "same numbers"), False, "error, expected same numbers"),
        (same(torch.ones(2), torch.ones(2)), True, "2 equal numbers"),
        (same(torch.ones(2), torch.ones(2).half()), False, "not equal"),
        (same(torch.ones(2), torch.ones(2, 1)), False, "not equal"),
        (same(torch.tensor([NAN]), torch.tensor([NAN])), False, "not equal"),
    ],
)
def test_the_other_evidence(evidence, holds, words):
    assert bool(evidence) is holds
    assert evidence.words == words


@pytest.mark.parametrize("check", [above, below])
def test_nothing_is_neither_above_nor_below(check):
    with pytest.raises(ValueError, match="could not fail"):
        check(torch.ones(0), 1)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [(torch.ones(2), [1, 1]), (np.ones(2), np.ones(2)), (np.ones((1, 1)), 1)],
)
def test_same_refuses_what_would_be_broadcast(measured, expected):
    with pytest.raises(TypeError, match="two tensors or two plain values"):
        same(measured, expected)


def test_same_refuses_to_compare_nothing():
    with pytest.raises(ValueError, match="measured holds no number: such a check could not fail"):
        same(torch.ones(0), torch.ones(0))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_joined_evidence_needs_both(first, second):
    both = claims.Evidence(first, "a") & claims.Evidence(second, "b")
    assert bool(both) is (first and second)
    assert both.words == "a; b"


def test_joined_evidence_does_not_repeat_itself():
    assert (near(2, 2) & near(2.0, 2)).words == "2, to 1e-5"


def test_evidence_joins_with_nothing_else():
    with pytest.raises(TypeError):
        near(2, 2) & True
    assert repr(near(2, 2)) == "True (2, to 1e-5)"


# --- claim and recap


def test_a_claim_that_holds_is_said_and_listed(capsys):
    claim("Two is two", near(2, 2))
    claim("And true is true", True)
    recap()
    assert capsys.readouterr().out.splitlines() == [
        "✔ Two is two  [2, to 1e-5]",
        "✔ And true is true  [checked]",
        "✔ Two is two  [2, to 1e-5]",
        "✔ And true is true  [checked]",
    ]


def test_a_false_claim_raises_and_says_why():
    with pytest.raises(AssertionError, match=r"Two is three \(2 where 3 was expected"):
        claim("Two is three", near(2, 3))


def test_a_claim_that_has_become_false_leaves_the_recap():
    claim("x is small", True)
    with pytest.raises(AssertionError):
        claim("x is small", False)
    assert claims._made == {}


@pytest.mark.parametrize("holds", [True, np.bool_(True), torch.tensor(True), torch.tensor([True])])
def test_a_claim_takes_any_one_truth_value(holds):
    claim("This holds", holds)


@pytest.mark.parametrize("holds", [np.bool_(False), torch.tensor(False), torch.tensor([[False]])])
def test_a_claim_fails_for_any_one_false_value(holds):
    with pytest.raises(AssertionError):
        claim("This does not", holds)


@pytest.mark.parametrize(
    "holds", [1, 1.0, NAN, "yes", None, [True], torch.tensor(1.0), torch.tensor([True, True])]
)
def test_a_claim_refuses_what_is_not_one_truth_value(holds):
    with pytest.raises(TypeError, match="a claim needs one true/false value"):
        claim("This says nothing", holds)


@pytest.mark.parametrize("sentence", ["", "  ", None, 3])
def test_a_claim_needs_a_sentence(sentence):
    with pytest.raises(TypeError, match="a claim needs a sentence"):
        claim(sentence, True)


def test_the_recap_is_a_table_that_a_bar_does_not_break(monkeypatch):
    shown = []
    monkeypatch.setattr(claims, "markdown", lambda text, plain: shown.append(text))
    claim("|x| is 2", near(2, 2))
    recap()
    assert shown == ["| What holds | Measured here |\n|:--|:--|\n| \\|x\\| is 2 | 2, to 1e-5 |"]


def test_a_claim_that_is_run_again_keeps_its_place(capsys):
    claim("First", True)
    claim("Second", True)
    claim("First", True)
    assert list(claims._made) == ["First", "Second"]


def test_a_terminal_without_the_signs_gets_question_marks(monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", stdout)
    claim("√2 is 1.414", near(2**0.5, 1.414, within=1e-3))
    stdout.flush()
    assert stdout.buffer.getvalue() == b"? ?2 is 1.414  [1.414, to 0.001]\n"


# --- predict


@pytest.mark.parametrize(
    ("guess", "said"),
    [
        (None, "○ Your guess first  [put it in place of None and run the cell again]"),
        (..., "○ Your guess first  [put it in place of None and run the cell again]"),
        (2, "✔ Yes: 2"),
        (2.03, "✔ Yes: 2"),
        ("2", "✔ Yes: 2"),
        (torch.tensor(2.0), "✔ Yes: 2"),
        (2.05, "✘ Not 2.05  [too large; run the next cell to see]"),
        (-2, "✘ Not -2  [too small; run the next cell to see]"),
        (True, "○ A number, please  [for instance 2 or 0.5, without quotes]"),
        (0.1 + 0.2, "✘ Not 0.3  [too small; run the next cell to see]"),
        (6, f"✘ Not 6  [{REASONS['length of y'][6]}]"),
        (6.05, f"✘ Not 6.05  [{REASONS['length of y'][6]}]"),
        ("two", "○ A number, please  [for instance 2 or 0.5, without quotes]"),
        (NAN, "○ A number, please  [for instance 2 or 0.5, without quotes]"),
        (torch.ones(2), "○ A number, please  [for instance 2 or 0.5, without quotes]"),
        ([2], "○ A number, please  [for instance 2 or 0.5, without quotes]"),
    ],
)
def test_each_guess_of_a_number_is_answered(guess, said, capsys):
    predict(guess, torch.tensor(2.0), "length of y")
    assert capsys.readouterr().out.strip() == said


@pytest.mark.parametrize(
    ("guess", "said"),
    [
        ("other numbers", "✔ Yes: other numbers"),
        (" Other Numbers ", "✔ Yes: other numbers"),
        ("error", f"✘ Not error  [{REASONS['forgotten keepdim']['error']}]"),
        (7, '○ Choose one of these  ["error", "other numbers", "same numbers"]'),
    ],
)
def test_each_guess_of_a_word_is_answered(guess, said, capsys):
    predict(guess, "other numbers", "forgotten keepdim")
    assert capsys.readouterr().out.strip() == said


@pytest.mark.parametrize(
    ("guess", "said"),
    [
        ((2, 4, 1), "✔ Yes: (2, 4, 1)"),
        ("(2, 4, 1)", "✔ Yes: (2, 4, 1)"),
        ((2, 4), f"✘ Not (2, 4)  [{REASONS['shape of the mean square']['(2, 4)']}]"),
        (torch.ones(2, 1, 8).shape, "○ Choose one of these  [(1,), (2, 1, 1), (2, 1, 8)"),
        (4, "○ Choose one of these  [(1,), (2, 1, 1), (2, 1, 8)"),
    ],
)
def test_a_shape_is_a_word(guess, said, capsys):
    predict(guess, "(2, 4, 1)", "shape of the mean square")
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize("guess", [63.9, 64, 64.5])
def test_the_closest_of_two_reasons_is_given(guess, capsys):
    predict(guess, 19.3, "short token")
    assert REASONS["short token"][64] in capsys.readouterr().out
    predict(63.71, 19.3, "short token")
    assert REASONS["short token"][63.7] in capsys.readouterr().out


def test_an_infinite_guess_finds_its_reason(capsys):
    predict(math.inf, 0, "300 in float16")
    assert REASONS["300 in float16"][math.inf] in capsys.readouterr().out


class Unspeakable:
    def __float__(self):
        raise KeyError("no number here")

    def __str__(self):
        raise KeyError("no word here")


@pytest.mark.parametrize(
    "guess",
    [Unspeakable(), 10**5000, np.complex64(2 + 5j), torch.ones(2), {}, lambda: 2],
    ids=["unspeakable", "a huge number", "complex", "two numbers", "dict", "function"],
)
def test_whatever_a_learner_types_is_answered(guess, capsys, recwarn):
    predict(guess, 2, "length of y")
    assert "A number, please" in capsys.readouterr().out
    predict(guess, "other numbers", "forgotten keepdim")
    assert "Choose one of these" in capsys.readouterr().out
    assert not recwarn.list


def test_a_guess_that_wants_a_gradient_is_a_guess(capsys, recwarn):
    predict(torch.tensor(2.0, requires_grad=True), 2, "length of y")
    assert capsys.readouterr().out.strip() == "✔ Yes: 2" and not recwarn.list


def test_an_answer_that_is_no_number_is_the_authors_fault_even_before_a_guess():
    with pytest.raises((RuntimeError, ValueError)):
        predict(None, torch.ones(2), "length of y")


def test_a_guess_of_zero_is_a_guess(capsys):
    predict(0, 0, "other tokens")
    assert capsys.readouterr().out.strip() == "✔ Yes: 0"


def test_an_unknown_prediction_is_the_authors_fault():
    with pytest.raises(ValueError, match="no prediction is called 'lenght of y'; there are: "):
        predict(None, 2, "lenght of y")


@pytest.mark.parametrize("guess", [467808, "467808", "467,808"])
def test_a_whole_number_that_is_wanted_exactly_is_shown_in_full(guess, capsys):
    predict(guess, 467_808, "parameters of the tiny Llama", tolerance=0)
    assert capsys.readouterr().out.strip() == "✔ Yes: 467808"


def test_what_only_looks_like_thousands_is_no_number(capsys):
    predict("46,78", 467_808, "parameters of the tiny Llama", tolerance=0)
    assert capsys.readouterr().out.startswith("○ A number, please")
