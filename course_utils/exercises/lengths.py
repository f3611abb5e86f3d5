"""Notebook 02's exercises: how long RMSNorm's output is, and the way back through it."""

import math  # noqa: F401  for the catalogue's code

import torch

from ..catalogue import exercise
from ..checker import Case, Property
from ._inputs import also_changed, draw, spread

EPS = "02 What does `eps` do?"
GRADIENT = "02 Where can the gradient point?"
BACKWARDS = "02 Exercise, optional: the way back through RMSNorm"


# --- expected_norm. f: (mean_square, n, eps) -> the length


def _formula(f):
    lengths = [float(f(m, 50, 0.37)) for m in (0.1, 0.7, 1.3, 2.9)]
    if len(set(lengths)) == 1 or any(round(length, 4) != length for length in lengths):
        return None
    return (
        f"Your lengths end early, as in {lengths[0]:g} for m = 0.1, n = 50, eps = 0.37. Return "
        "the number itself, without `round` or `int`."
    )


def _root_n(f):
    ratio = float(f(1.0, 64, 1.0) / f(1.0, 16, 1.0))
    if abs(ratio - 2) < 0.01:
        return None
    return (
        "With four times as many features the length should double. Yours changes by the factor "
        f"{ratio:.3g}. ‖y‖² is n times a mean: n multiplies, under the root, and in one place."
    )


def _without_eps(f):
    small, large = float(f(0.25, 16, 0.0)), float(f(9.0, 16, 0.0))
    if abs(small - 4) < 0.01 and abs(large - 4) < 0.01:
        return None
    return (
        f"With eps zero the length should be √n whatever m is: 4 for n = 16. It is {small:.3g} "
        f"for m = 0.25 and {large:.3g} for m = 9. The length of x is √(n·m), the divisor √m."
    )


def _of_zeros(f):
    length = float(f(0.0, 16, 1.0))
    if abs(length) < 1e-6:
        return None
    return (
        f"A token of zeros (m = 0) comes out as zeros, with length 0. Yours is {length:.3g} for "
        "eps = 1. Above the fraction line stands m alone, and below it m + eps."
    )


def _units(f):
    before, after = float(f(1.0, 16, 1.0)), float(f(100.0, 16, 100.0))
    if abs(after / before - 1) < 0.01:
        return None
    return (
        "Both m and eps are in units of x², and only their ratio counts. With both of them 100 "
        f"times larger the length should stay, but goes from {before:.3g} to {after:.3g}. Is one "
        "of them squared, or under a root of its own?"
    )


def _equal_to_eps(f):
    length = float(f(1.0, 32, 1.0))
    if abs(length - 4) < 0.01:
        return None
    return (
        "Where eps equals m, the divisor's square is 2·m and ‖y‖² half of n: for n = 32 the "
        f"length is √16 = 4. Yours is {length:.4g}. `eps` is added to m as it is: divide m by "
        "m + eps, multiply by n, and take one root."
    )


EXPECTED_NORM = exercise(
    "expected_norm",
    globals(),
    cases=(
        Case((9.0, 4, 0.0), "eps zero"),
        Case((3.0, 12, 1.0)),
        Case((1e-6, 4096, 1e-5), "a token far smaller than √eps"),
        Case((0.0, 8, 1e-6), "a token of zeros"),
        Case((0.5, 100, 0.5), "eps equal to the mean square"),
        Case((0.25, 1, 2.0), "a single feature"),
    ),
    properties=(
        Property("a formula, not rounded", _formula, EPS),
        Property(
            "four times n, twice the length", _root_n, "02 Quiz: why is the length √n and not 1?"
        ),
        Property("√n for eps zero", _without_eps, "02 Is that an accident?"),
        Property("zeros have length zero", _of_zeros, EPS),
        Property("only m against eps counts", _units, EPS),
        Property("half the square at m = eps", _equal_to_eps, EPS),
    ),
    parts=("the length",),
)


# --- rms_norm_backward, asked in float64. f: (dy, x, weight, eps) -> (dx, dweight)


def _ask(f, dy, x, weight=None, eps=0.0):
    """For one sequence: dy and x are (T, D), and so is dx."""
    dy, x = torch.as_tensor(dy).double(), torch.as_tensor(x).double()
    weight = torch.ones(x.shape[-1]) if weight is None else weight
    dx, dweight = f(dy[None], x[None], weight.double(), eps)
    return dx[0], dweight


def _numbers(*values):
    """Three digits of each, with minus signs that are some."""
    rounded = (0.0 if abs(v) < 1e-9 else v for v in map(float, values))
    return ", ".join(f"{v:.3g}" for v in rounded).replace("-", "−")


def _alone(f):
    x, one = draw(2, 2, 5).double(), torch.ones(5).double()
    dy = draw(2, 2, 5, seed=1).double()
    if not (others := also_changed(lambda dy: f(dy, x, one, 0.0)[0], dy, (1, 0))).any():
        return None
    return (
        f"When the dy of one token changes, the dx of {int(others.sum())} of the other 3 "
        "changes too. Each token goes back alone: average over its features, `dim=-1`."
    )


def _sideways(f):
    dx = _ask(f, [[-1.0, 7, 1, 1]], [[1.0, -1, 3, 5]])[0][0]
    if torch.allclose(dx, torch.tensor([-1.0, 7, 1, 1]).double() / 3, atol=1e-3):
        return None
    return (
        "With x = (1, −1, 3, 5), of RMS 3, and dy = (−1, 7, 1, 1), at right angles to x, dx should "
        f"be dy/3, (−0.333, 2.33, 0.333, 0.333). Yours is ({_numbers(*dx)}). Here dx is g · r with "
        "r = 1/RMS: the second term is zero, as the mean of the products g · h is."
    )


def _along(f):
    times = []  # that the part along x is subtracted
    for n in (5, 20):
        y = draw(1, n, seed=2, dtype=torch.float64)
        y /= y.square().mean().sqrt()
        times.append(1 - 3 * (_ask(f, y, 3 * y)[0] * y).mean().item())
    if all(abs(t - 1) < 1e-3 for t in times):
        return None
    grows = abs(times[1] - 4 * times[0]) < 0.01 < abs(times[0])
    return (
        "A dy along x must give dx = 0: a longer x has the same output (weight one, eps zero). "
        "The part along x should be subtracted once; with RMS 3 yours subtracts it "
        f"{_numbers(times[0])} times for n = 5 and {_numbers(times[1])} for n = 20. "
        f"{'That grows with n as a sum does. ' if grows else ''}The second term is "
        "h · mean(g · h), a mean over the n features, and r multiplies it once more."
    )


def _through_weight(f):
    dy, x, w = draw(3, 5, seed=1).double(), draw(3, 5), torch.tensor([0.5, 2, 0, -1, 1.5]).double()
    gap = (_ask(f, dy, x, w)[0] - _ask(f, dy * w, x)[0]).abs().max()
    if gap < 1e-6:
        return None
    return (
        "`dx` should meet the weight in one place: dx(dy, weight) = dx(dy · weight, ones), and "
        f"yours differs by up to {_numbers(gap)}, where one weight is zero. Start from "
        "g = dy · weight, use neither weight nor dy after that, and divide nothing by the weight."
    )


def _with_eps(f):
    for dy, x, eps, right in (
        ((1.0, 1, 1, 1), (0.0, 0, 0, 0), 0.01, (10, 10)),
        ((1.0, 0, 0, 0), (1.0, 1, 1, 1), 3.0, (0.46875, -0.03125)),
    ):
        dx = _ask(f, [dy], [x], eps=eps)[0][0, :2]
        if not torch.allclose(dx, torch.tensor(right).double(), atol=1e-3):
            return (
                f"With x = ({_numbers(*x)}), eps = {eps:g} and dy = ({_numbers(*dy)}), dx should "
                f"begin ({_numbers(*right)}, …). Yours begins ({_numbers(*dx)}, …). Use one "
                "r = 1/√(mean square + eps), and h = x · r, wherever the eps-free formula has "
                "the RMS."
            )
    return None


def _dweight(f):
    x, weight = torch.tensor([1.0, -1, 3, 5]).double(), torch.tensor([1.0, 2, 3, 0.5]).double()
    got = f(torch.ones(2, 2, 4).double(), x.expand(2, 2, 4), weight, 0.0)[1]
    if torch.allclose(got, 4 * x / 3, atol=1e-3):
        return None
    return (
        "With two sequences of two tokens, all of them x = (1, −1, 3, 5), of RMS 3, and all of dy "
        "ones, `dweight` should be four times x/3, (1.33, −1.33, 4, 6.67), whatever the weight is. "
        f"With weight (1, 2, 3, 0.5) yours is ({_numbers(*got)}). It is dy · h with h = x · r, "
        "added up over all tokens."
    )


_x, _dy, _w = draw(2, 3, 5), draw(2, 3, 5, seed=1), spread(5)
BACKWARD = exercise(
    "rms_norm_backward",
    globals(),
    cases=(
        Case((_dy, _x, _w, 1e-6)),
        Case((draw(4, 4, 4, seed=1), draw(4, 4, 4), spread(4), 1e-6), "all axes of one size"),
        Case((_dy, _x, _w, 0.5), "an eps of the size of x²"),
        Case((draw(1, 7, 6, seed=1), 3 * draw(1, 7, 6), spread(6), 1e-5), "a larger x"),
        Case((draw(1, 3, 4, seed=1), draw(1, 3, 4), spread(4), 1e-5), "one sequence"),
        Case((_dy, _x, torch.tensor([0.5, 2.0, 0.0, -1.0, 1.5]), 1e-6), "one weight exactly zero"),
        Case(
            (draw(2, 5, 3, seed=1).transpose(1, 2), _x, _w, 1e-6),
            "a transposed dy, its strides not those of x",
        ),
        Case((torch.ones(1, 2, 4), torch.zeros(1, 2, 4), spread(4), 1e-2), "tokens of zeros"),
        Case((_dy.double(), _x.double(), _w.double(), 1e-6), "float64"),
    ),
    properties=(
        Property("each token alone", _alone, "01 Do tokens see each other?"),
        Property("sideways: dy over the RMS", _sideways, GRADIENT),
        Property("nothing along x", _along, GRADIENT),
        Property("the weight, through dy alone", _through_weight, GRADIENT),
        Property("eps in both terms", _with_eps, EPS),
        Property("dweight: dy times h, of all tokens", _dweight, BACKWARDS),
    ),
    parts=("dx", "dweight"),
)

EXERCISES = (EXPECTED_NORM, BACKWARD)
