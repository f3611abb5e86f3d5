"""Notebook 02's exercises: how long RMSNorm's output is, and the way back through it."""

import math
from typing import NamedTuple

import torch

from .. import measure
from ..checker import Case, Exercise, Mistake, Property, same
from ._inputs import draw, spread

ACCIDENT = "02 Is that an accident?"
WHY_ROOT_N = "02 Quiz: why is the length √n and not 1?"
EPS = "02 What does `eps` do?"
PLACE = "02 Inside or outside the root?"
WEIGHT = "02 And with a weight, is it still √n?"
GRADIENT = "02 Where can the gradient point?"
LAYER_NORM = "02 Where does LayerNorm land?"
TOKENS = "01 Do tokens see each other?"
KEEPDIM = "01 Why was `keepdim` silent?"
BACKWARDS = "02 Exercise, optional: the way back through RMSNorm"


# --- expected_norm: what every right answer obeys. f: (mean_square, n, eps) -> float


def _mean_square_counts(f):
    small, large = float(f(1e-6, 16, 1.0)), float(f(1.0, 16, 1.0))
    if small < 0.1 * large:
        return None
    roots = (16 * 2) ** 0.5, 17**0.5  # of n·(m/m + eps) and n·m/m + eps
    cancels = any(abs(small / root - 1) < 0.01 for root in roots)
    why = "Both m and eps belong in the formula: m/(m + eps)."
    if cancels:
        why = "m/m + eps is 1 + eps: the sum m + eps needs brackets."
    elif abs(float(f(4.0, 16, 3.0)) - 8) < 0.01:
        why = "It is as if `eps` were subtracted: the divisor is √(m + eps)."
    elif small == large == 16:
        why = "That is n: the root is missing, and m and eps. The squared length is n·m/(m + eps)."
    elif small == large == 4:
        why = "That is √n, the length for eps zero. The squared length is n·m/(m + eps)."
    return (
        f"For n = 16 and eps 1 a token of mean square 1e-6 should come out far shorter than one of "
        f"mean square 1, and yours are {small:.3g} and {large:.3g}. {why}"
    )


def _root_n(f):
    ratio = float(f(1.0, 64, 1.0) / f(1.0, 16, 1.0))
    if abs(ratio - 2) < 0.01:
        return None
    known = {
        1: "n does not count. The mean square of y is a *mean*; its length is √n times the root.",
        4: "n has no root. The squared length is n times a mean; take the root of it all.",
        0.5: "√n divides, and should multiply.",
        2**0.5: "there is a root too many around n.",
    }
    why = next((words for r, words in known.items() if abs(ratio / r - 1) < 0.01), None)
    why = why or _n_elsewhere(f)
    return (
        f"With four times as many features the length should double. Yours changes by the "
        f"factor {ratio:.3g}: {why}"
    )


def _n_elsewhere(f):
    """Where else n may stand, or what may stand in its place."""
    if all(abs(float(f(m, n, 0.0)) - m**0.5) < 1e-3 for m, n in ((4.0, 16), (9.0, 64))):
        return "for eps zero it is √m whatever n is. Does n stand below, in the place of m?"
    small, large = (n / float(f(1.0, n, 1.0)) ** 2 - 1 for n in (16, 64))  # what is added to m
    for times, how in ((4, "n times"), (1 / 4, "n times too little")):
        if abs(large - times * small) < 1e-3 * abs(small):
            return f"n stands beside `eps` too, which counts {how}. It is added once, to the mean."
    squared = float(f(1.0, 16, 0.0)) ** 2
    if abs(squared - round(squared)) < 1e-3 and abs(squared - 16) < 2.1:
        return f"for eps zero ‖y‖² should be n = 16, and yours is {squared:.0f}. Take n itself."
    return "n is somewhere else too, or not everywhere: the sum of the squares is n·m."


def _without_eps(f):
    small, large = float(f(0.25, 16, 0.0)), float(f(9.0, 16, 0.0))
    if abs(small - 4) < 0.01 and abs(large - 4) < 0.01:
        return None
    known = {
        6: "That grows as √m: the length of x, √(n·m), is undivided, or its m has no root.",
        6**-1: "That shrinks as 1/√m: the length of x, √(n·m), is missing above the fraction "
        "line, or there is no root below it.",
        6**0.5: "There is a root too many around m.",
        6**-0.5: "There is a root too many around m.",
        1: "m cancels, as it should; but n should be there, under a root, and nothing else.",
    }
    why = next((words for r, words in known.items() if abs(large / small / r - 1) < 0.01), None)
    why = why or "The mean square is divided by itself there, and should cancel."
    if abs(small / large - 1) < 0.01 and math.isfinite(small):
        why = f"m cancels, as it should; but the length is {small / 4:.3g} times √n."
    if math.isinf(small):
        why = "The divisor becomes zero there; m + eps would not."
    return (
        f"With eps zero the length should be √n whatever m is: 4 for n = 16. It is {small:.3g} "
        f"for m = 0.25 and {large:.3g} for m = 9. {why}"
    )


def _eps_counts(f):
    if abs(f(1.0, 16, 3.0) - f(1.0, 16, 0.0)) > 1e-3:
        return None
    return (
        "Another `eps` changes nothing. It is part of the divisor, √(m + eps), and makes every "
        "token shorter: for m = 1 and eps = 3 half as long as without it."
    )


def _of_zeros(f):
    length = float(f(0.0, 16, 1.0))
    if abs(length) < 1e-6:
        return None
    why = "The m above the fraction line is x's own: `eps` is added only below it."
    if not math.isfinite(length):
        why = (
            "Something is divided by m alone, and should be by m + eps. Is a fraction turned round?"
        )
    return (
        f"A token of zeros (m = 0) comes out as zeros, with length 0. Yours is {length:.3g}. {why}"
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
    known = {
        32**0.5: "`eps` is not added to m here.",
        8: "The fraction is upside down: `eps` makes y shorter.",
    }
    why = next((words for v, words in known.items() if abs(length / v - 1) < 0.01), None)
    why = why or "Divide m by m + eps, multiply by n, and take one root."
    of_three = float(f(1.0, 32, 3.0))
    times = [(32 / v**2 - 1) / eps if v else 0 for v, eps in ((length, 1), (of_three, 3))]
    if abs(times[0] - times[1]) < 1e-3 < times[0]:
        why = f"It is as if `eps` were {times[0]:.3g} times as large. It is added to m as it is."
    elif abs(length / 8**0.5 - 1) < 0.01:  # half of √32: in one of several ways
        why = "Divide m by m + eps, multiply by n, and take one root. That holds for every eps."
        if abs(of_three / 2**0.5 - 1) < 0.01:
            why = "Is the root of the fraction missing?"
        elif abs(of_three * (1 + 3**0.5) / 32**0.5 - 1) < 0.01:
            why = "√(m + eps) is not √m + √eps."
    return (
        "Where eps equals m, the divisor's square is 2·m and ‖y‖² half of n: for n = 32 the "
        f"length is √16 = 4. Yours is {length:.4g}. {why}"
    )


def _not_rounded(f):
    lengths = [float(f(m, 50, 0.37)) for m in (0.1, 0.7, 1.3, 2.9)]
    if not same(*(float(f(1.0, 50, 1.0)) for _ in range(2))):
        return (
            "The same numbers give another length the second time: draw nothing, it is a formula."
        )
    if len(set(lengths)) > 1 and all(round(length, 4) == length for length in lengths):
        return (
            f"Your lengths end early, as in {lengths[0]:g} for m = 0.1, n = 50, eps = 0.37. Return "
            "the number itself, without `round` or `int`."
        )
    if [float(f(1.0, n, 0.0)) for n in (2, 4, 9)] == [1, 2, 3]:
        return (
            "For m = 1, eps = 0 and n = 2 the length should be √2 = 1.41, and yours is 1: the root "
            "of n is cut to a whole number, by `isqrt`, `int` or `//`."
        )
    return None


EXPECTED_NORM = Exercise(
    "expected_norm",
    ("mean_square", "n", "eps"),
    measure.expected_norm,
    (
        Case((9.0, 4, 0.0), "eps zero"),
        Case((3.0, 12, 1.0)),
        Case((1e-6, 4096, 1e-5), "a token far smaller than √eps"),
        Case((0.0, 8, 1e-6), "a token of zeros"),
        Case((0.5, 100, 0.5), "eps equal to the mean square"),
        Case((0.25, 1, 2.0), "a single feature"),
    ),
    (
        Mistake(
            "no-n",
            lambda m, n, eps: math.sqrt(m / (m + eps)),
            "This is the RMS of y, not its length: near 1 for every n. The length is the root of "
            "the *sum* of the squares, √n times as long.",
            WHY_ROOT_N,
        ),
        Mistake(
            "one",
            lambda m, n, eps: 1.0,
            "The length is not 1: x/‖x‖ would have that. RMSNorm divides by the root of a *mean* "
            "of squares, and `eps` counts as well.",
            WHY_ROOT_N,
        ),
        Mistake(
            "root-n",
            lambda m, n, eps: math.sqrt(n),
            "√n is the length for eps zero. With `eps` in the divisor a token comes out shorter, "
            "and zeros stay zeros. Write down ‖y‖² with eps and the mean square in it.",
            EPS,
        ),
        Mistake(
            "n-without-root",
            lambda m, n, eps: n * math.sqrt(m / (m + eps)),
            "There is a factor √n too many. ‖y‖² is n·m/(m + eps), and the root is taken of n too.",
            ACCIDENT,
        ),
        Mistake(
            "squared",
            lambda m, n, eps: n * m / (m + eps),
            "That is the *squared* length, the sum of the squares. Take its root.",
            ACCIDENT,
        ),
        Mistake(
            "half-rooted",
            lambda m, n, eps: math.sqrt(n) * m / (m + eps),
            "The root is taken of n alone. The squared length is n·m/(m + eps), and the root "
            "goes over all of it.",
            EPS,
        ),
        Mistake(
            "no-root-below",
            lambda m, n, eps: math.sqrt(n * m) / (m + eps),
            "The divisor has no root: this is the length of x over m + eps. RMSNorm divides by "
            "√(m + eps).",
            EPS,
        ),
        Mistake(
            "roots-apart",
            lambda m, n, eps: math.sqrt(n * m) / (math.sqrt(m) + math.sqrt(eps)),
            "The root of a sum is not the sum of the roots: √(m + eps) is less than √m + √eps.",
            EPS,
        ),
        Mistake(
            "brackets",
            lambda m, n, eps: n * m / (m + eps) ** 0.5,
            "Only the divisor is under the root here: `**` binds before `/` and `*`. The root "
            "goes over all of n·m/(m + eps), so put it in brackets.",
            EPS,
        ),
        Mistake(
            "m-squared",
            lambda m, n, eps: math.sqrt(n * m**2 / (m**2 + eps)),
            "The mean square is squared once more. It is the mean of x² already; a token of RMS "
            "0.001 has the mean square 1e-6.",
            EPS,
        ),
        Mistake(
            "length-of-x",
            lambda m, n, eps: math.sqrt(n * m),
            "√(n·m) is the length of x, before the norm. RMSNorm then divides it by √(m + eps).",
            EPS,
        ),
        Mistake(
            "rms-of-x",
            lambda m, n, eps: math.sqrt(m),
            "√m is the RMS of x, before the norm. Its length is √n times that, and RMSNorm divides "
            "it by √(m + eps).",
            EPS,
        ),
        Mistake(
            "divisor",
            lambda m, n, eps: math.sqrt(m + eps),
            "√(m + eps) is the divisor. The length of y is that of x, √(n·m), divided by it.",
            EPS,
        ),
        Mistake(
            "m-below-only",
            lambda m, n, eps: math.sqrt(n / (m + eps)),
            "The length of x is missing above the fraction line: this is √n over the divisor. x "
            "itself has length √(n·m).",
            EPS,
        ),
        Mistake(
            "n-above-missing",
            lambda m, n, eps: math.sqrt(m / (n * (m + eps))),
            "√n divides here, and should multiply: n features of one size make a vector longer, "
            "√n times one of them.",
            WHY_ROOT_N,
        ),
        Mistake(
            "upside-down",
            lambda m, n, eps: math.sqrt(n * (m + eps) / m) if m else math.inf,
            "The fraction is upside down: this grows with `eps`. A larger eps makes the divisor "
            "larger and y *shorter*: m/(m + eps).",
            EPS,
        ),
        Mistake(
            "eps-alone",
            lambda m, n, eps: math.sqrt(n * m / eps) if eps else math.inf,
            "Only `eps` is left in the divisor. It is added to the mean square, not put in its "
            "place: √(m + eps).",
            EPS,
        ),
        Mistake(
            "eps-outside",
            lambda m, n, eps: math.sqrt(n * m) / (math.sqrt(m) + eps),
            "This is the length with `eps` *outside* the root, as in the paper authors' PyTorch "
            "file. Here, as in Llama and PyTorch, the divisor is √(m + eps).",
            PLACE,
            convention=True,
            seen="https://github.com/allenai/OLMo/issues/281",
        ),
        Mistake(
            "eps-squared",
            lambda m, n, eps: math.sqrt(n * m / (m + eps**2)) if m + eps else 0.0,
            "`eps` is squared before it is added. It is in units of x² already: m + eps.",
            EPS,
        ),
        Mistake(
            "two-roots",
            lambda m, n, eps: math.sqrt(n * m / (math.sqrt(m) + eps)),
            "The divisor has two roots, √(RMS + eps). `eps` is added to the mean *square*, and one "
            "root is taken: √(m + eps).",
            PLACE,
            seen="https://github.com/pytorch/pytorch/issues/144659",
        ),
        Mistake(
            "sum-below",
            lambda m, n, eps: math.sqrt(n * m / (n * m + eps)),
            "Below stands the *sum* of the squares, n·m. RMSNorm divides by the root of their "
            "*mean* plus eps: m + eps.",
            WHY_ROOT_N,
            seen="https://github.com/patrick-kidger/equinox/pull/545",
        ),
        Mistake(
            "eps-over-n",
            lambda m, n, eps: math.sqrt(n * n * m / (n * m + eps)),
            "`eps` is added to the *sum* of the squares, n·m, so that it counts n times too "
            "little. It is added to their mean: m + eps.",
            EPS,
        ),
        Mistake(
            "clamped",
            lambda m, n, eps: math.sqrt(n * m / max(m, eps)),
            "This takes the larger of m and eps. `eps` is added to the mean square, whatever "
            "its size: m + eps.",
            EPS,
        ),
        Mistake(
            "n-minus-one",
            lambda m, n, eps: math.sqrt((n - 1) * m / (m + eps)),
            "An n − 1 belongs to an estimated variance. The mean square is a plain mean over n, so "
            "the sum of the squares of x is n·m.",
            ACCIDENT,
        ),
        Mistake(
            "no-brackets-below",
            lambda m, n, eps: math.sqrt(n * m / m + eps) if m else math.nan,
            "`n * m / m + eps` is n + eps: the division comes before the sum. Put the divisor in "
            "brackets, (m + eps).",
            EPS,
        ),
        Mistake(
            "rounded",
            lambda m, n, eps: round(math.sqrt(n * m / (m + eps)), 2),
            "The law is right, but the number is rounded to two digits. Return it as it is.",
            EPS,
        ),
    ),
    (
        Property("not rounded", _not_rounded, EPS),
        Property("the mean square counts", _mean_square_counts, EPS),
        Property("four times n, twice the length", _root_n, WHY_ROOT_N),
        Property("√n for eps zero", _without_eps, ACCIDENT),
        Property("eps counts", _eps_counts, EPS),
        Property("zeros have length zero", _of_zeros, EPS),
        Property("only m against eps counts", _units, EPS),
        Property("half the square at m = eps", _equal_to_eps, EPS),
    ),
    (
        "How long is x itself, if the mean of its n squares is m?",
        "RMSNorm divides every feature by one number, √(m + eps). So it divides the length by it.",
        "The length of x is √(n·m). Divide, and let one root stand over all of it.",
    ),
    5,
    EPS,
    ("the length",),
)


# --- rms_norm_backward


def rms_norm_backward(dy, x, weight, eps):
    """The gradients of a loss at x and at weight, from dy, its gradient at rms_norm(x, weight).

        dx = (g − h · mean(g · h)) / √(mean(x²) + eps)    with g = dy · weight
        dweight = Σ dy · h, over all tokens                and h = x / √(mean(x²) + eps)

    dy, x: (..., D). weight: (D,). Returns dx, (..., D), and dweight, (D,).
    """
    rstd = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)  # (..., 1)
    h = x * rstd  # (..., D): the output before the weight
    g = dy * weight  # (..., D): what reaches h
    dx = rstd * (g - h * (g * h).mean(dim=-1, keepdim=True))
    dweight = (dy * h).reshape(-1, x.shape[-1]).sum(dim=0)
    return dx, dweight


class Pieces(NamedTuple):
    """What mistakes are put together from: the arguments, and the right r, h and g."""

    dy: torch.Tensor
    x: torch.Tensor
    w: torch.Tensor
    eps: float
    r: torch.Tensor  # (..., 1), one over the root
    h: torch.Tensor  # x · r
    g: torch.Tensor  # dy · w


def _pieces(dy, x, w, eps):
    r = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return Pieces(dy, x, w, eps, r, x * r, dy * w)


def _mean(product):
    return product.mean(-1, keepdim=True)


def _total(product):
    """Over all tokens: (..., D) -> (D,)."""
    return product.reshape(-1, product.shape[-1]).sum(0)


def _dx(dx):
    """An answer whose dx is wrong: a function of the Pieces."""

    def wrong(dy, x, weight, eps):
        p = _pieces(dy, x, weight, eps)
        return dx(p), _total(p.dy * p.h)

    return wrong


def _dweight(dweight):
    """An answer whose dweight is wrong."""

    def wrong(dy, x, weight, eps):
        p = _pieces(dy, x, weight, eps)
        return p.r * (p.g - p.h * _mean(p.g * p.h)), dweight(p)

    return wrong


def _with(r=None, h=None):
    """An answer that has another r, or another h, and is right in what it does with them."""

    def wrong(dy, x, weight, eps):
        p = _pieces(dy, x, weight, eps)
        p = p._replace(r=r(p)) if r else p
        p = p._replace(h=h(p) if h else x * p.r)
        return p.r * (p.g - p.h * _mean(p.g * p.h)), _total(p.dy * p.h)

    return wrong


# Its rules, asked in float64. f: (dy, x, weight, eps) -> (dx, dweight)


def _ask(f, dy, x, weight=None, eps=0.0):
    dy, x = torch.as_tensor(dy).double(), torch.as_tensor(x).double()
    weight = torch.ones(x.shape[-1]) if weight is None else weight
    dx, dweight = f(dy[None], x[None], weight.double(), eps)  # one sequence: (1, T, D)
    return dx[0], dweight


def _number(v):
    """Three digits, with a minus sign that is one."""
    v = 0.0 if abs(v) < 1e-9 else v
    return f"{v:.3g}".replace("-", "−")


def _alone(f):
    dy, x, one = draw(2, 2, 5, seed=1).double(), draw(2, 2, 5).double(), torch.ones(5).double()
    moved = dy.clone()
    moved[1, 0] += 10
    others = (f(dy, x, one, 0.0)[0] - f(moved, x, one, 0.0)[0]).abs().amax(-1) > 1e-6
    others[1, 0] = False
    if others.any():
        return (
            f"When the dy of one token changes, the dx of {int(others.sum())} of the other 3 "
            "changes too. Each token goes back alone: average over its features, `dim=-1`."
        )
    return None


def _through_weight(f):
    dy, x, w = draw(3, 5, seed=1), draw(3, 5), spread(5)
    weighted = _ask(f, dy, x, w)[0]
    if torch.allclose(weighted, _ask(f, dy.double() * w.double(), x)[0], atol=1e-6):
        return None
    if torch.allclose(weighted, _ask(f, dy, x)[0], atol=1e-6):
        return (
            "The weight changes nothing in `dx`. What reaches the normalised x is "
            "g = dy · weight: use g in place of dy, everywhere in dx."
        )
    return (
        "`dx` should meet the weight in one place: dx(dy, weight) = dx(dy · weight, ones), and "
        f"yours differs. {_weight_place(f)}Start from g = dy · weight, and use neither weight nor "
        "dy after that."
    )


def _weight_place(f):
    """In which of the two terms of dx the weight is wrong. Of RMS 3, so that r is 1/3."""
    x, dy, w = [[1.0, -1, 3, 5]], torch.tensor([[1.0, 2, 0, 1]]), torch.tensor([1.0, 2, 3, 0.5])
    dx, h = 3 * _ask(f, dy, x, w)[0][0], torch.tensor(x[0]).double() / 3
    firsts = {
        "right": dy[0] * w,
        "is without the weight": dy[0],
        "has the weight twice": dy[0] * w * w,
    }
    for right, first in firsts.items():
        taken = first - dx
        times = (taken * h).mean()  # h has the RMS 1
        if torch.allclose(taken, times * h, atol=1e-4):
            if right != "right":
                return f"The first term {right}. "
            means = {"dy · h": dy[0], "g · weight · h": dy[0] * w * w}
            for what, v in means.items():
                if abs((v * h).mean() - times) < 1e-4:
                    return f"The first term is right; in the second stands the mean of {what}. "
            return "The first term is right, the second is not. "
    if torch.allclose(dx, w * 3 * _ask(f, dy, x)[0][0], atol=1e-4):
        return "The weight multiplies at the end, and comes first on the way back. "
    return ""


def _zero_weight(f):
    w = torch.tensor([1.0, 0.0, 2.0, -1.0])
    made = _ask(f, draw(3, 4, seed=1), draw(3, 4), w, 1e-6)
    if all(part.isfinite().all() for part in made):
        return None
    return (
        "With one weight exactly zero there is a NaN or inf. Nothing should be divided by the "
        "weight: the normalised x is x · r, not the output over the weight."
    )


def _sideways(f):
    x, dy = torch.tensor([[1.0, -1, 3, 5]]), torch.tensor([[-1.0, 7, 1, 1]])
    dx = _ask(f, dy, x)[0]
    if torch.allclose(dx, _ask(f, 2 * dy, x)[0], atol=1e-6):
        return "Twice the dy gives the same `dx`: dy is not used. It stands in both terms of it."
    factor = (dx / dy).flatten()
    if (factor - 1 / 3).abs().max() < 1e-3:
        return None
    said = "With x = (1, −1, 3, 5), of RMS 3, and dy = (−1, 7, 1, 1), at right angles to x, "
    if factor.std() > 1e-3:
        return (
            f"{said}dx should be dy/3. Yours is ({', '.join(map(_number, dx[0]))}): "
            f"{_taken(dx[0], dy[0].double(), x[0].double() / 3)}"
        )
    known = {
        0: "The first term is missing: what comes through x in the numerator, g · r.",
        1: "The division by the RMS is missing: the output turns slower where x is longer.",
        9**-1: "It is divided by the RMS twice.",
        3: "It is multiplied by the RMS, and should be divided.",
        -(3**-1): "The sign is wrong.",
        4 / 3: "It is as if dy itself were added, as by a residual connection. Leave that out.",
    }
    why = next((words for v, words in known.items() if abs(factor[0] - v) < 0.01), None)
    times = _number(factor[0])
    return f"{said}dx should be dy/3. Yours is {times}·dy. {why or 'Divide by the RMS.'}"


def _taken(dx, dy, h):
    """What is taken from dy that should not be, where the mean of dy · h is zero."""
    if torch.allclose(dx * 3, dy * 3 * h, atol=1e-4):
        return "dy is multiplied by x, feature by feature."
    taken = dy - 3 * dx
    along = (taken * h).mean()
    if torch.allclose(taken, along * h, atol=1e-4):
        product = abs(along - dy.mean() * h.mean()) < 1e-4
        return (
            f"the mean of dy · h is 0 here, and yours is {_number(along)}. "
            f"{'Is it mean(dy) · mean(h)? ' if product else ''}Multiply first, then average."
        )
    if taken.std() < 1e-4:
        return (
            f"{_number(taken[0])}/3 is taken from every feature. What is taken away is along x: "
            "h times a mean."
        )
    if torch.allclose(taken, dy * h * h, atol=1e-4):
        return "h · g · h is taken away feature by feature: the *mean* of g · h belongs there."
    return "something is taken away that is not along x, or feature by feature."


def _times_along(f, n, tokens=1):
    """How many times the part along x is subtracted. n: the number of features."""
    y = draw(1, n, seed=2, dtype=torch.float64)
    y /= y.square().mean().sqrt()
    dx = _ask(f, y.repeat(tokens, 1), 3 * y.repeat(tokens, 1))[0]
    return 1 - 3 * (dx[0] * y).mean().item()


def _along(f):
    once, again = (_times_along(f, n) for n in (5, 20))
    if abs(once - 1) < 1e-3 and abs(again - 1) < 1e-3:
        return None
    known = {
        0: "Nothing is subtracted: the RMS is treated as a constant, but it depends on x.",
        -1: "The sign before the second term is wrong.",
        2: "There is a factor 2 too many: the root's ½ takes back the 2 of the square.",
        0.5: "There is a factor ½ too many: the 2 of the square takes back the root's ½.",
        3: "One of the two x in the second term is not divided by the RMS.",
        9: "Neither x in the second term is divided by the RMS: r stands where r³ is due.",
        3**-1: "The second term is divided by the RMS once too often.",
        9**-1: "The second term is divided by the RMS twice too often.",
    }
    why = next((words for v, words in known.items() if abs(once - v) < 0.01), None)
    if abs(again - once) > 0.01:
        why = None
    y = torch.tensor([[1.0, -1, 3, 5]]) / 3
    if (y - 3 * _ask(f, y, 3 * y)[0]).std() < 1e-4 < abs(once):
        why = "It takes the same number from every feature: h stands before the mean, too."
    if abs(once - 5 / 4) < 1e-3 and abs(again - 20 / 19) < 1e-3:
        why = "So the mean is over n − 1. It is over n, as the mean square is."
    if abs(2 * _times_along(f, 5, tokens=2) - once) < 0.01 < abs(once):
        why = "With two tokens it is half of that: divide by the number of *features*."
    if abs(again - 4 * once) < 0.01:
        why = why or "That grows with n: is there a sum where the *mean* of g · h belongs?"
    if abs(again - 2 * once) < 0.01 and abs(once - 5**0.5) < 0.01:
        why = "That is √n: the sum of g · h is divided by √n, and should be by n."
    if abs(4 * again - once) < 0.01:
        why = why or "That shrinks with n: the mean of g · h has divided by n already."
    return (
        "A dy along x must give dx = 0: a longer x has the same output (weight one, eps zero). "
        "The part along x should be subtracted once; with RMS 3 yours subtracts it "
        f"{_number(once)} times for n = 5 and {_number(again)} for n = 20. "
        f"{why or 'The second term is h · mean(g · h).'}"
    )


def _no_nan(f):
    x = torch.zeros(1, 4)
    dx = _ask(f, torch.ones(1, 4), x, eps=1e-2)[0]
    if dx.isfinite().all() and (dx - 10).abs().max() < 1e-3:
        return None
    why = "`eps` is added to the mean square, under the root."
    if not dx.isfinite().all():
        why = "So a divisor is zero: `eps` is missing in it."
    elif torch.equal(dx, _ask(f, torch.ones(1, 4), x, eps=1e-4)[0]):
        why = "Another `eps` changes nothing: use the argument, in the forward pass's own divisor."
    return (
        "For a token of zeros, eps = 0.01 and dy = (1, 1, 1, 1), dx should be dy/√0.01 = 10. It "
        f"is {_number(dx[0, 0])}. {why}"
    )


def _with_eps(f):
    dx = _ask(f, [[1.0, 0, 0, 0]], [[1.0, 1, 1, 1]], eps=3.0)[0][0]
    if abs(dx[0] - 0.46875) < 1e-3 and abs(dx[1] + 0.03125) < 1e-3:
        return None
    return (
        "With x = (1, 1, 1, 1), eps = 3 and dy = (1, 0, 0, 0), dx should begin "
        f"(0.469, −0.0312, …). Yours begins ({_number(dx[0])}, {_number(dx[1])}, …). Use one "
        "r = 1/√(mean square + eps), and h = x · r, wherever the eps-free formula has the RMS."
    )


def _every_token(f):
    dy, x = draw(1, 5, seed=1), draw(1, 5)
    one, many = torch.ones(5).double(), [v.double().expand(2, 2, 5) for v in (dy, x)]
    dweight = f(*many, one, 0.0)[1]
    ratio = (dweight / _ask(f, dy, x)[1]).mean().item()
    if abs(ratio - 4) < 1e-3:
        return None
    known = {
        1: "That is a mean: every token uses the weight, and their parts are *summed*.",
        2: "With two sequences of two tokens, one of the two axes is not summed over.",
    }
    why = next((words for v, words in known.items() if abs(ratio - v) < 1e-3), None)
    changed = many[0].clone()
    changed[0, 0] += 1
    if torch.allclose(f(changed, many[1], one, 0.0)[1], dweight):
        why = "The first token does not count: the parts of *all* tokens are summed."
    return (
        "The same token four times should multiply `dweight` by 4, and multiplies it by "
        f"{_number(ratio)}. {why or 'Sum over all tokens.'}"
    )


def _dweight_size(f):
    dy, x = draw(1, 5, seed=1), draw(1, 5)
    ratio = (_ask(f, dy, 10 * x)[1] / _ask(f, dy, x)[1]).mean().item()
    if abs(ratio - 1) < 1e-3:
        return None
    why = "dy is divided by h, and should be multiplied. " if abs(ratio - 0.1) < 1e-3 else ""
    return (
        f"With x ten times larger `dweight` should stay (eps zero), and changes by the factor "
        f"{ratio:.3g}. {why}The weight multiplies the *normalised* x, h = x · r: take that."
    )


def _dweight_weight(f):
    dy, x, w = draw(1, 5, seed=1), draw(1, 5), spread(5)
    if torch.allclose(_ask(f, dy, x, w)[1], _ask(f, dy, x)[1], atol=1e-6):
        return None
    return (
        "Another weight gives another `dweight`. The output is linear in the weight, so its "
        "gradient does not contain it: use dy there, not g = dy · weight."
    )


def _dweight_value(f):
    got = _ask(f, [[1.0, 1, 1, 1]], [[1.0, -1, 3, 5]])[1]
    want = torch.tensor([1.0, -1, 3, 5]).double() / 3
    if torch.allclose(got, want, atol=1e-3):
        return None
    why = ""
    if torch.allclose(got, -want, atol=1e-3):
        why = "The sign is wrong. "
    elif torch.allclose(got, want.abs(), atol=1e-3):
        why = "The signs are lost: leave out `abs` or the square. "
    elif torch.allclose(got, 1 / want, atol=1e-3):
        why = "dy is divided by h, and should be multiplied. "
    elif (got / want).std() < 1e-4:
        why = f"That is {_number(got[0] / want[0])} times it. "
    return (
        "With one token x = (1, −1, 3, 5), of RMS 3, and dy all ones, `dweight` should be x/3 = "
        f"(0.333, −0.333, 1, 1.67). Yours is ({', '.join(map(_number, got))}). {why}It is "
        "dy · h, added up over the tokens."
    )


def _any_strides(f):
    dy, x = draw(4, 3, seed=1).double(), draw(3, 4)
    turned, plain = (_ask(f, d, x) for d in (dy.T, dy.T.contiguous()))
    if all(torch.allclose(a, b) for a, b in zip(turned, plain, strict=True)):
        return None
    return (
        "A transposed dy gives another result than the same numbers stored in order. Its strides "
        "are not those of x: index it as a tensor, or call `.contiguous()` first."
    )


_x, _dy, _w = draw(2, 3, 5), draw(2, 3, 5, seed=1), spread(5)
BACKWARD_CASES = (
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
)


def _writes_into_dy(dy, x, w, eps):
    dy *= w
    p = _pieces(dy, x, torch.ones_like(w), eps)
    return p.r * (p.g - p.h * _mean(p.g * p.h)), _total(p.dy * p.h)


def _assumes_strides(dy, x, w, eps):
    return rms_norm_backward(dy.as_strided(x.shape, x.stride()), x, w, eps)


def _by_view(dy, x, w, eps):
    p = _pieces(dy.view(-1, x.shape[-1]), x.view(-1, x.shape[-1]), w, eps)
    return (p.r * (p.g - p.h * _mean(p.g * p.h))).view(x.shape), _total(p.dy * p.h)


BACKWARD = Exercise(
    "rms_norm_backward",
    ("dy", "x", "weight", "eps"),
    rms_norm_backward,
    BACKWARD_CASES,
    (
        Mistake(
            "constant-rms",
            _dx(lambda p: p.r * p.g),
            "`dx` treats the RMS as a constant. But x changes it too: there is a second term, "
            "which takes away the part of g along x.",
            GRADIENT,
        ),
        Mistake(
            "R60",
            _dx(lambda p: p.r * (p.dy - p.h * _mean(p.dy * p.h))),
            "The weight is missing in `dx`. What reaches the normalised x is g = dy · weight: use "
            "g in both terms.",
            WEIGHT,
            seen="https://github.com/karpathy/llm.c/pull/763",
        ),
        Mistake(
            "weight-not-in-mean",
            _dx(lambda p: p.r * (p.g - p.h * _mean(p.dy * p.h))),
            "The weight is in the first term of `dx` and not in the mean. Both terms hold "
            "g = dy · weight.",
            GRADIENT,
        ),
        Mistake(
            "weight-only-in-mean",
            _dx(lambda p: p.r * (p.dy - p.h * _mean(p.g * p.h))),
            "The weight is in the mean and not in the first term of `dx`. Both terms hold "
            "g = dy · weight.",
            GRADIENT,
        ),
        Mistake(
            "weight-last",
            _dx(lambda p: p.w * p.r * (p.dy - p.h * _mean(p.dy * p.h))),
            "The weight multiplies `dx` at the end. Going backwards it comes *first*: it was the "
            "last step of the forward pass. Start from g = dy · weight.",
            GRADIENT,
        ),
        Mistake(
            "weight-twice",
            _dx(lambda p: p.r * (p.g - p.w * p.h * _mean(p.g * p.w * p.h))),
            "The second term of `dx` uses the output with its weight. It needs the normalised x "
            "*before* the weight, h = x · r; the weight is in g already.",
            GRADIENT,
        ),
        Mistake(
            "R62",
            _dx(lambda p: p.r * (p.g - p.h * (p.g * p.h).sum(-1, keepdim=True))),
            "The second term of `dx` has a *sum* where a mean belongs: it is n times too large. "
            "The 1/n is that of the mean square.",
            GRADIENT,
        ),
        Mistake(
            "R66",
            _dx(lambda p: p.r * (p.g - p.x * _mean(p.g * p.x))),
            "In the second term of `dx` both x should be divided by the RMS: r stands where r³ is "
            "due. Write it with h = x · r in both places.",
            GRADIENT,
        ),
        Mistake(
            "raw-x-once",
            _dx(lambda p: p.r * (p.g - p.h * _mean(p.g * p.x))),
            "In the second term of `dx` one of the two x is not divided by the RMS: r² stands "
            "where r³ is due. Write it with h = x · r in both places.",
            GRADIENT,
        ),
        Mistake(
            "r-too-often",
            _dx(lambda p: p.r * (p.g - p.r * p.h * _mean(p.g * p.h))),
            "The second term of `dx` is divided by the RMS once too often. With r outside the "
            "bracket, h · mean(g · h) stands inside it, without another r.",
            GRADIENT,
        ),
        Mistake(
            "plus",
            _dx(lambda p: p.r * (p.g + p.h * _mean(p.g * p.h))),
            "The sign of the second term of `dx` is wrong: the part along x is taken *away*, and "
            "this doubles it. The minus comes from the power −½.",
            GRADIENT,
        ),
        Mistake(
            "factor-two",
            _dx(lambda p: p.r * (p.g - 2 * p.h * _mean(p.g * p.h))),
            "The second term of `dx` is twice too large: the 2 from the square and the ½ from the "
            "root cancel.",
            GRADIENT,
        ),
        Mistake(
            "factor-half",
            _dx(lambda p: p.r * (p.g - 0.5 * p.h * _mean(p.g * p.h))),
            "The second term of `dx` is half as large as it should be: the ½ from the root and the "
            "2 from the square cancel.",
            GRADIENT,
        ),
        Mistake(
            "projection-alone",
            _dx(lambda p: -p.r * p.h * _mean(p.g * p.h)),
            "`dx` has only the term that comes through the RMS. x also stands in the numerator: "
            "add g · r, what comes through there.",
            GRADIENT,
        ),
        Mistake(
            "no-division",
            _dx(lambda p: p.g - p.h * _mean(p.g * p.h)),
            "`dx` is not divided by the RMS. A longer x turns less under the same step: multiply "
            "all of it by r.",
            GRADIENT,
        ),
        Mistake(
            "divided-twice",
            _dx(lambda p: p.r.square() * (p.g - p.h * _mean(p.g * p.h))),
            "`dx` is divided by the RMS twice, that is, by the mean square. One r outside the "
            "bracket is enough.",
            GRADIENT,
        ),
        Mistake(
            "times-rms",
            _dx(lambda p: (p.g - p.h * _mean(p.g * p.h)) / p.r),
            "`dx` is *multiplied* by the RMS: dividing by r, which is one over the root, turns it "
            "round. Multiply by r.",
            GRADIENT,
        ),
        Mistake(
            "layer-norm",
            _dx(lambda p: p.r * (p.g - _mean(p.g) - p.h * _mean(p.g * p.h))),
            "This is the way back through LayerNorm: it takes the mean of g away too. RMSNorm does "
            "not centre, so that term has to go.",
            LAYER_NORM,
        ),
        Mistake(
            "one-mean",
            _dx(lambda p: p.r * (p.g - p.h * (p.g * p.h).mean())),
            "The mean of g · h is over everything, so tokens mix in `dx`. Each has a mean of its "
            "own: `mean(dim=-1, keepdim=True)`.",
            TOKENS,
        ),
        Mistake(
            "mean-over-tokens",
            _dx(lambda p: p.r * (p.g - p.h * (p.g * p.h).mean(-2, keepdim=True))),
            "The mean of g · h is over the *tokens*, `dim=-2`. It is over the features of each "
            "token: `dim=-1`.",
            TOKENS,
        ),
        Mistake(
            "mean-over-batch",
            _dx(lambda p: p.r * (p.g - p.h * (p.g * p.h).mean(0, keepdim=True))),
            "The mean of g · h is over the first axis, `dim=0`. It is over the features of each "
            "token: `dim=-1`.",
            TOKENS,
        ),
        Mistake(
            "no-keepdim",
            _dx(lambda p: p.r * (p.g - p.h * (p.g * p.h).mean(-1))),
            "The mean of g · h has lost its last axis, and is lined up with the *features*. Use "
            "`keepdim=True`; with equal sizes PyTorch does not complain.",
            KEEPDIM,
            seen="https://github.com/BobMcDear/attorch/issues/17",
        ),
        Mistake(
            "no-eps",
            _with(r=lambda p: torch.rsqrt(_mean(p.x.square()))),
            "`eps` is not used. The forward pass divides by √(mean square + eps), and so must the "
            "way back; without it zeros give NaN.",
            EPS,
        ),
        Mistake(
            "eps-outside",
            _with(r=lambda p: 1 / (_mean(p.x.square()).sqrt() + p.eps)),
            "`eps` stands outside the root. The paper authors' PyTorch file has it there; Llama "
            "and PyTorch have √(mean square + eps), and so should your r.",
            PLACE,
            convention=True,
        ),
        Mistake(
            "fixed-eps",
            _with(r=lambda p: torch.rsqrt(_mean(p.x.square()) + 1e-6)),
            "The argument `eps` is not used: yours is always 1e-6. Use what is given.",
            EPS,
        ),
        Mistake(
            "h-without-eps",
            _with(h=lambda p: p.x / (_mean(p.x.square()).sqrt() + 1e-30)),
            "There are two divisors: r has `eps` in it, and the normalised x has not. Both are the "
            "same: h = x · r.",
            EPS,
        ),
        Mistake(
            "X06",
            _with(h=lambda p: p.x * p.r * p.w / p.w),
            "The normalised x is won back from the output by dividing by the weight: 0/0, NaN, "
            "where a weight is exactly zero. Compute it from x: h = x · r.",
            GRADIENT,
            seen="https://github.com/ServiceNow/Fast-LLM/issues/220",
        ),
        Mistake(
            "raw-x",
            _dweight(lambda p: _total(p.dy * p.x)),
            "`dweight` is made with x itself. The weight multiplies the *normalised* x, "
            "h = x · r: take that.",
            BACKWARDS,
        ),
        Mistake(
            "dweight-with-weight",
            _dweight(lambda p: _total(p.g * p.h)),
            "`dweight` has the weight in it. y = h · weight, so the gradient at the weight is "
            "dy · h: use dy there, not g.",
            BACKWARDS,
        ),
        Mistake(
            "dweight-without-x",
            _dweight(lambda p: _total(p.dy)),
            "`dweight` is the sum of dy: that would be the gradient at a bias. The weight "
            "multiplies h = x · r, so sum dy · h.",
            BACKWARDS,
        ),
        Mistake(
            "dweight-per-token",
            _dweight(lambda p: p.dy * p.h),
            "`dweight` has a row for each token. All tokens use the same weight, (D,), so their "
            "parts are added up: sum over every axis but the last.",
            BACKWARDS,
        ),
        Mistake(
            "dweight-mean",
            _dweight(lambda p: (p.dy * p.h).reshape(-1, p.x.shape[-1]).mean(0)),
            "`dweight` is a mean over the tokens. The chain rule *adds* what comes through each of "
            "them; an average, if any, is in the loss and so in dy already.",
            BACKWARDS,
        ),
        Mistake(
            "dweight-first-axis",
            _dweight(lambda p: (p.dy * p.h).sum(0)),
            "`dweight` is summed over the batch alone. All tokens use the same weight: sum over "
            "batch *and* tokens, `.sum((0, 1))`.",
            BACKWARDS,
        ),
        Mistake(
            "dweight-features",
            _dweight(lambda p: (p.dy * p.h).sum(-1)),
            "`dweight` is summed over the *features*. It has one number per feature, (D,): sum "
            "over the tokens, all axes but the last.",
            BACKWARDS,
        ),
        Mistake(
            "dweight-one",
            _dweight(lambda p: (p.dy * p.h).sum()),
            "`dweight` is a single number. There is one per feature, (D,): sum over all axes but "
            "the last.",
            BACKWARDS,
        ),
        Mistake(
            "swapped",
            lambda dy, x, w, eps: rms_norm_backward(dy, x, w, eps)[::-1],
            "Both are right, but in the other order: return `dx` first, then `dweight`.",
            GRADIENT,
        ),
        Mistake(
            "in-place",
            _writes_into_dy,
            "`dy *= weight` writes into the caller's dy, and `dweight` then has the weight in it. "
            "Make a new tensor: g = dy * weight.",
            "03 Is `x.float()` a copy?",
        ),
        Mistake(
            "X10",
            _assumes_strides,
            "This reads the memory of dy as if it were stored like x. A transposed dy is not: "
            "index it as a tensor, or call `.contiguous()` first.",
            GRADIENT,
            seen="https://github.com/flagos-ai/FlagGems/pull/1082",
        ),
        Mistake(
            "view",
            _by_view,
            "It stops at a transposed dy: `.view` needs numbers that are stored in order. "
            "`.reshape` copies where it must, and does the same otherwise.",
            GRADIENT,
        ),
    ),
    (
        Property("each token alone", _alone, TOKENS),
        Property("sideways: dy over the RMS", _sideways, GRADIENT),
        Property("nothing along x", _along, GRADIENT),
        Property("the weight, through dy alone", _through_weight, GRADIENT),
        Property("a zero weight does no harm", _zero_weight, GRADIENT),
        Property("zeros go back through eps", _no_nan, EPS),
        Property("eps in both terms", _with_eps, EPS),
        Property("dweight: a sum over tokens", _every_token, BACKWARDS),
        Property("dweight: of the normalised x", _dweight_size, BACKWARDS),
        Property("dweight: without the weight", _dweight_weight, BACKWARDS),
        Property("dweight: dy times h", _dweight_value, BACKWARDS),
        Property("any strides", _any_strides, GRADIENT),
    ),
    (
        "Write r for 1/√(mean square + eps) and h = x · r, so that y = h · weight. Go back one "
        "step at a time: from y to h and to the weight, then from h to x.",
        "From y: g = dy · weight reaches h, and dy · h the weight, added up over all tokens. From "
        "h to x there are two ways: through x in the numerator, and through r.",
        "Through r comes −h · mean(g · h), a mean over the features; with `eps` under the root "
        "the formula of this section stays, r in place of 1/RMS(x).",
    ),
    20,
    GRADIENT,
    ("dx", "dweight"),
)

EXERCISES = (EXPECTED_NORM, BACKWARD)
