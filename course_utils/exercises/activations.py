"""Notebook 04's exercises: SiLU, Swish, and SiLU's backward pass."""

import itertools
import math

import numpy as np  # noqa: F401  for the catalogue's code
import torch
import torch.nn.functional as F

from ..catalogue import exercise
from ..checker import Case, Property
from ._inputs import also_changed, draw

HAND = "04 Four numbers by hand"
STEEP = "04 How steep is it?"
BETA = "04 What does β do?"
GELU = "04 How far is SiLU from GELU?"
WRITTEN = "04 Does it matter how it is written?"

# Numbers that no exponential in the dtype survives, on either side, and what lies between. Near
# zero and far out both terms of a gradient are exact, so that 16 bits can be judged too.
FAR = {
    torch.float16: (-1000, -100, -20, 0, 20, 100, 1000),
    torch.bfloat16: (-1000, -100, 0, 20, 100, 1000),
    torch.float32: (-1000, -100, -60, -2, 0, 2, 20, 100, 1000),
    torch.float64: (-1000, -100, -60, -2, 0, 2, 20, 100, 1000),
}
# Not bfloat16: there the form y + σ·(1 − y), which is right, loses the 1 beside y = 1000.
EXACT = (torch.float16, torch.float32, torch.float64)


def _far(dtype):
    return torch.tensor(FAR[dtype], dtype=dtype)


def _say(number):
    """A number in words: four digits, a real minus, no minus zero."""
    if math.isnan(number):
        return "NaN"
    return f"{number + 0.0:.4g}".replace("-", "−")


# --- silu: what every right answer obeys. f: x -> y


def _at(f, x, dtype=torch.float64):
    """The answer for one number."""
    return f(torch.tensor([x], dtype=dtype)).item()


def _slope_at(f, x, dtype=torch.float64):
    x = torch.tensor([x], dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(f(x), x)
    return slope.item()


def _exact_slope(x):
    return _slope_at(F.silu, x)


def _each_alone(f):
    if (others := also_changed(f, draw(2, 3).double(), (1, 2))).any():
        return (
            f"When one number changes, {int(others.sum())} of the other 5 results change too. SiLU "
            "works element by element: no mean, no maximum, no softmax."
        )
    return None


def _ends(f):
    for x, right, why in (
        (0.0, 0.0, "0 · σ(0) = 0. Is the factor x missing, or is something added?"),
        (50.0, 50.0, "50 · σ(50) = 50: nearly all of x passes. Does σ(x) come near 1 there?"),
        (-50.0, 0.0, "−50 · σ(−50) = −0.000. Has x its sign in σ, and is σ between 0 and 1?"),
    ):
        y = _at(f, x)
        if not abs(y - right) < 1e-6:
            return f"At x = {_say(x)} it gives {_say(y)}. It should give {why}"
    return None


_X = torch.tensor([1.0, 2.0, -1.0, -3.0], dtype=torch.float64)


def _form(share):
    """What passes of _X as x · σ(kx + c), in words; None if it has not this form."""
    inside = torch.logit(share)  # NaN unless the share is between 0 and 1
    k = inside[1] - inside[0]
    c = inside[0] - k
    if not (k * _X + c - inside).abs().max() < 1e-3:
        return None
    sign, c, k = "−" if c < 0 else "+", round(abs(c.item()), 4), _say(k.item())
    return f"x · σ({'x' if k == '1' else f'{k}·x'}{f' {sign} {_say(c)}' if c else ''})"


def _share(f, betas=(1.0,), right="x · σ(x)"):
    """What passes of x at four places. f: (x, beta) -> y."""
    shares = torch.stack([f(_X, b) / _X for b in betas])
    gaps = (shares - torch.stack([torch.sigmoid(b * _X) for b in betas])).abs()
    if gaps.max() < 1e-5:
        return None
    if gaps.max() < 5e-3:
        return (
            f"In float64 what passes is right to within {_say(gaps.max().item())} only. Is "
            "something rounded, or computed in 16 bits? Upcast to more, not to less."
        )
    given = [f" with β = {_say(b)}" if len(betas) > 1 else "" for b in betas]
    if all(forms := [_form(share) for share in shares]):
        found = ", ".join(map("".join, zip(forms, given, strict=True)))
        return f"By what passes of x = 1, 2, −1 and −3 this is {found}. It should be {right}."
    row, at = divmod(gaps.argmax().item(), len(_X))
    right_share, share = (
        _say(100 * s[at].item()) for s in (torch.sigmoid(betas[row] * _X), shares[row])
    )
    return (
        f"Of x = {_say(_X[at].item())}{given[row]}, {right_share} % should pass, and {share} % do. "
        f"It should be {right}, and σ(z) is 1/(1 + e^(−z))."
    )


def _slopes(f):
    for x in (2.0, 1.0, -3.0, 0.0):
        slope, right = _slope_at(f, x), _exact_slope(x)
        if not abs(slope - right) < 1e-5:
            return (
                f"The values are right, but at x = {_say(x)} autograd finds the slope "
                f"{_say(slope)} and not {_say(right)}. Something leaves autograd's graph on the "
                "way, as by `.detach()`, `.data` or `torch.no_grad()`."
            )
    return None


def _far_out(find, right, what, why, dtypes=tuple(FAR)):
    """A rule of what is found far from zero. find: (f, x, dtype) -> number. why: it is NaN."""

    def broken(f):
        for dtype, x in itertools.product(dtypes, (-20.0, -100.0, -1000.0, 20.0, 100.0, 1000.0)):
            found, wanted = find(f, x, dtype), right(x)
            if not abs(found - wanted) < 2e-3 * max(wanted, 1):
                cause = "Is something clamped, rounded or cut off?" if math.isfinite(found) else why
                return (
                    f"In {str(dtype).removeprefix('torch.')}, at x = {_say(x)}, {what} is "
                    f"{_say(found)}, not {_say(wanted)}. {cause}"
                )
        return None

    return broken


RULES = (
    Property("each number alone", _each_alone, HAND),
    Property("nothing, all and none passes", _ends, HAND),
    Property(
        "values at ±1000",
        _far_out(
            _at,
            lambda x: max(x, 0.0),
            "the result",
            "An exponential that grows becomes inf, and inf/inf is NaN. Let it only shrink, or "
            "leave that to `torch.sigmoid`.",
        ),
        WRITTEN,
    ),
    Property("slopes by the product rule", _slopes, STEEP),
    Property(
        "slopes at ±1000",
        _far_out(
            _slope_at,
            lambda x: float(x > 0),
            "the value is right and its gradient",
            "On the way back an exponential that became inf meets a zero, and 0 · inf is NaN. "
            "`torch.sigmoid` avoids that.",
        ),
        WRITTEN,
    ),
)
_simple = torch.tensor([0.0, 1.0, -1.0, 2.0, -2.0, 5.0, -5.0])
_both_signs = 3 * draw(2, 3, 5) - 2
SILU = exercise(
    "silu",
    globals(),
    cases=(
        Case((_simple,), "simple numbers", grad=True),
        Case((_both_signs,), grad=True),
        Case((2 * draw(4, 4, seed=1).double() - 1,), grad=True),
        Case((2 * draw(3, 4, seed=2).half(),)),
        Case((2 * draw(3, 4, seed=3).bfloat16(),)),
        *(Case((_far(dtype),), "numbers up to ±1000", grad=True) for dtype in FAR),
        Case((torch.tensor([-1000.0, -100.0, -1.0]),), "negative numbers alone"),
    ),
    properties=(
        *RULES[:2],
        Property("σ(x) of x passes", lambda f: _share(lambda x, _: f(x)), GELU),
        *RULES[2:],
    ),
)


# --- swish: with β = 1 it is silu. f: (x, beta) -> y


def _with_beta_one(f):
    return lambda x: f(x, 1.0)


SWISH = exercise(
    "swish",
    globals(),
    cases=(
        Case((_simple, 2.0), "simple numbers", grad=True),
        Case((_both_signs, 0.5), "a small β", grad=True),
        Case((_both_signs, 1.0), "β = 1"),
        Case((_both_signs, 0.0), "β = 0"),
        Case((_both_signs, -1.0), "a negative β"),
        Case((draw(4, 4, seed=1), 10.0), "a large β"),
        Case((2 * draw(3, 4, seed=1).double() - 1, 1.5), grad=True),
        Case((2 * draw(3, 4, seed=2).half(), 1.5)),
        *(Case((_far(dtype), 2.0), "numbers up to ±1000", grad=True) for dtype in FAR),
    ),
    properties=(
        *(rule.of(_with_beta_one) for rule in RULES[:2]),
        Property(
            "σ(βx) of x passes", lambda f: _share(f, (0.5, 2.0, -1.0, 0.0), "x · σ(βx)"), BETA
        ),
        *(rule.of(_with_beta_one) for rule in RULES[2:]),
    ),
)


# --- silu_backward


def _dx_at(f, x, dy=1.0, dtype=torch.float64):
    return f(torch.tensor([dy], dtype=dtype), torch.tensor([x], dtype=dtype)).item()


def _dx_each_alone(f):
    dy, x = draw(2, 3, seed=1).double(), draw(2, 3).double()
    among, alone = f(dy, x)[1, 2].item(), f(dy[1:, 2:], x[1:, 2:]).item()
    if abs(among - alone) > 1e-9:
        return (
            f"Among 6 numbers the last gradient is {_say(among)}, and alone {_say(alone)}. Each y "
            "depends on its own x alone, so nothing is summed, averaged or divided by their count."
        )
    return None


def _dy_multiplies(f):
    once, twice, none = (_dx_at(f, 1.0, dy) for dy in (1.0, 2.0, 0.0))
    if abs(none) > 1e-9 or abs(twice - 2 * once) > 1e-6 * max(abs(once), 1e-3):
        return (
            f"At x = 1 it gives {_say(none)} with dy = 0, {_say(once)} with dy = 1 and "
            f"{_say(twice)} with dy = 2. It should be zero, the slope, and twice the slope: dy "
            "multiplies all of the slope once, and the slope is that at x."
        )
    return None


def _dx_slopes(f):
    for x in (2.0, -1.0, -4.0, -50.0, 0.0, 50.0):
        s, dx, right = 1 / (1 + math.exp(-x)), _dx_at(f, x), _exact_slope(x)
        if not abs(dx - right) < 1e-5:
            return (
                f"At x = {_say(x)}, with dy = 1, it gives {_say(dx)}. The slope of SiLU is "
                f"{_say(right)} there, the sum of σ(x) = {_say(s)} and x·σ·(1 − σ) = "
                f"{_say(x * s * (1 - s))}."
            )
    return None


_dy = draw(2, 3, 5, seed=1)
BACKWARD = exercise(
    "silu_backward",
    globals(),
    cases=(
        Case((torch.tensor([1.0, 2.0, -1.0]), torch.tensor([2.0, 0.0, -2.0])), "simple numbers"),
        Case((_dy, _both_signs)),
        Case((draw(4, 4, seed=1), 2 * draw(4, 4) - 1), "all axes of one size"),
        Case((_dy.double(), 2 * draw(2, 3, 5, seed=2).double() - 1)),
        *(
            Case((draw(len(FAR[dtype]), seed=3).to(dtype), _far(dtype)), "x up to ±1000")
            for dtype in EXACT
        ),
    ),
    properties=(
        Property("each gradient alone", _dx_each_alone, STEEP),
        Property("dy multiplies", _dy_multiplies, STEEP),
        Property("the product rule", _dx_slopes, STEEP),
        Property(
            "gradients at ±1000",
            _far_out(
                lambda f, x, dtype: _dx_at(f, x, 1.0, dtype),
                lambda x: float(x > 0),
                "the gradient",
                "An exponential became inf. Write the slope with `torch.sigmoid` alone.",
                EXACT,
            ),
            WRITTEN,
        ),
    ),
)

EXERCISES = (SILU, SWISH, BACKWARD)
