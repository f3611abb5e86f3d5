"""measure against plain arithmetic."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_utils import measure

BY_HAND = torch.tensor([1.0, -1.0, 3.0, 5.0])  # squares 1, 1, 9, 25


def test_rms_is_the_root_of_the_mean_square_per_token():
    assert measure.rms(BY_HAND).item() == 3
    assert torch.equal(
        measure.rms(torch.stack([BY_HAND, 2 * BY_HAND])), torch.tensor([3.0, 6.0]).double()
    )
    assert measure.rms(torch.full((4,), 300.0).half()).item() == 300  # no overflow on the way


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_with_rms_sets_each_vector(dtype):
    x = measure.with_rms(torch.stack([BY_HAND, 7 * BY_HAND]).to(dtype), 0.001)
    assert x.dtype == dtype
    torch.testing.assert_close(x[0], x[1])
    torch.testing.assert_close(x[0], (BY_HAND / 3000).to(dtype))


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (torch.tensor([1, -1]), TypeError, "x must be a floating-point tensor, got torch.int64"),
        (torch.tensor([[1.0], [0.0]]), ValueError, "x has a row of zeros"),
    ],
)
def test_with_rms_refuses_what_it_cannot_scale(x, error, words):
    with pytest.raises(error, match=words):
        measure.with_rms(x, 1.0)


def test_relative_change_needs_something_to_be_relative_to():
    with pytest.raises(ValueError, match="before is zero: no change is relative to it"):
        measure.relative_change(BY_HAND, 0 * BY_HAND)


def test_relative_change_is_a_ratio_of_lengths():
    assert measure.relative_change(1.5 * BY_HAND, BY_HAND) == 0.5
    with pytest.raises(ValueError, match=r"after has shape \(4,\), before \(1, 4\)"):
        measure.relative_change(BY_HAND, BY_HAND[None])


@pytest.mark.parametrize("m", [0.0, 1e-12, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("eps", [1e-6, 1e-2])
def test_expected_norm_is_the_length_of_torchs_own(m, eps):
    x = torch.full((16,), m**0.5, dtype=torch.float64)
    assert math.isclose(measure.expected_norm(m, 16, eps), F.rms_norm(x, (16,), eps=eps).norm())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-1, 4, 1e-6), "mean_square=-1"),
        ((1, 0, 1e-6), "n=0"),
        ((1, 4, -1e-6), "eps=-1e-06"),
        ((float("nan"), 4, 1e-6), "mean_square=nan"),
        ((0, 4, 0), "both zero"),
    ],
)
def test_expected_norm_refuses_what_has_no_length(arguments, words):
    with pytest.raises(ValueError, match=words):
        measure.expected_norm(*arguments)


def test_the_planes_points_lie_on_two_rings_in_sixteen_directions():
    points = measure.plane_points()
    assert points.shape == (16, 2)
    torch.testing.assert_close(points.norm(dim=-1), torch.tensor([2.6, 0.9]).repeat(8))
    assert len(torch.atan2(points[:, 1], points[:, 0]).round(decimals=4).unique()) == 16


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (BY_HAND.clone, "same numbers"),
        (lambda: BY_HAND + 1e-5, "same numbers"),
        (lambda: BY_HAND + 1e-3, "other numbers"),
        (lambda: BY_HAND * float("nan"), "other numbers"),
        (lambda: BY_HAND[None], "other shape"),
        (lambda: BY_HAND + torch.ones(3), "error"),
    ],
)
def test_outcome_names_what_came_out(make, said):
    assert measure.outcome(make, BY_HAND) == said


def test_outcome_of_zeros_is_no_division_by_zero():
    assert measure.outcome(lambda: torch.zeros(3), torch.zeros(3)) == "same numbers"


def test_outcome_needs_a_tensor():
    with pytest.raises(TypeError, match="make must return a tensor, got NoneType"):
        measure.outcome(lambda: None, BY_HAND)


def test_outcome_lets_a_slip_of_the_pen_through():
    with pytest.raises(NameError):
        measure.outcome(lambda: undefined_name, BY_HAND)  # noqa: F821


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_slope_is_the_derivative_at_each_number(dtype):
    x = torch.tensor([[-2.0, 0.0], [1.0, 3.0]], dtype=dtype, requires_grad=True)
    slope = measure.slope(lambda x: x**3, x)
    assert slope.dtype == dtype and not slope.requires_grad
    assert slope.tolist() == [[12, 0], [3, 27]]
    assert x.grad is None
