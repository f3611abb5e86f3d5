"""Notebook 04's exercises: SiLU, Swish, and SiLU's backward pass."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from .. import layers
from ..checker import Case, Exercise, Mistake, Property
from ._inputs import draw

HAND = "04 Four numbers by hand"
LOWEST = "04 Where is it lowest?"
STEEP = "04 How steep is it?"
BETA = "04 What does β do?"
GELU = "04 How far is SiLU from GELU?"
WRITTEN = "04 Does it matter how it is written?"
IN_PLACE = "04 What does `inplace=True` save?"
DTYPE = "03 Which dtype comes out?"

# Numbers that no exponential in the dtype survives, on either side, and what lies between. Near
# zero and far out both terms of a gradient are exact, so that 16 bits can be judged too.
FAR = {
    torch.float16: (-1000, -100, -20, 0, 20, 100, 1000),
    torch.bfloat16: (-1000, -100, 0, 20, 100, 1000),
    torch.float32: (-1000, -100, -60, -2, 0, 2, 20, 100, 1000),
    torch.float64: (-1000, -100, -60, -2, 0, 2, 20, 100, 1000),
}


def _far(dtype):
    return torch.tensor(FAR[dtype], dtype=dtype)


def _short(dtype):
    return str(dtype).removeprefix("torch.")


def _say(number):
    """A number in words: four digits, a real minus, no minus zero."""
    if math.isnan(number):
        return "NaN"
    return f"{number + 0.0:.4g}".replace("-", "−")


_simple = torch.tensor([0.0, 1.0, -1.0, 2.0, -2.0, 5.0, -5.0])
_both_signs = 3 * draw(2, 3, 5) - 2
SILU_CASES = (
    Case((_simple,), "simple numbers", grad=True),
    Case((_both_signs,), grad=True),
    Case((2 * draw(4, 4, seed=1).double() - 1,), grad=True),
    Case((2 * draw(3, 4, seed=2).half(),)),
    Case((2 * draw(3, 4, seed=3).bfloat16(),)),
    *(Case((_far(dtype),), "numbers up to ±1000", grad=True) for dtype in FAR),
    Case((torch.tensor([-1000.0, -100.0, -1.0]),), "negative numbers alone"),
)


# --- silu: what every right answer obeys. f: x -> y


def _at(f, x, dtype=torch.float64):
    """The answer for one number."""
    return f(torch.tensor([x], dtype=dtype)).item()


def _slope_at(f, x, dtype=torch.float64):
    x = torch.tensor([x], dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(f(x), x)
    return slope.item()


def _sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def _exact_slope(x):
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


def _each_alone(f):
    x, moved = draw(2, 3).double(), draw(2, 3).double()
    moved[1, 2] += 1
    others = (f(x) - f(moved)).abs() > 1e-9
    others[1, 2] = False
    if others.any():
        return (
            f"When one number changes, {int(others.sum())} of the other 5 results change too. SiLU "
            "works element by element: no mean, no maximum, no softmax."
        )
    return None


def _zero_stays(f):
    y = _at(f, 0.0)
    if abs(y) < 1e-9:
        return None
    s, two = _sigmoid(2), _at(f, 2.0)
    known = {
        s: "It is σ(x) itself: the factor x is missing.",
        2 + s: "σ(x) is added to x where it should multiply it.",
        _exact_slope(2): "It is the *slope* of SiLU, σ·(1 + x·(1 − σ)).",
    }
    why = next((words for at, words in known.items() if abs(two - at) < 1e-6), None)
    why = why or "Is the factor x missing, is something added, or is a pair of brackets missing?"
    return f"At x = 0 it should give 0 · σ(0) = 0, and gives {_say(y)}. {why}"


def _right_end(f):
    y = _at(f, 50.0)
    if abs(y - 50) < 1e-3:
        return None
    left = _at(f, -50.0)
    known = {
        0: "There it has closed, where it should be open.",
        1: "It levels off at 1. The factor x is missing.",
        -50: "A sign is turned round.",
        25: "Half of that: tanh(x/2) runs from −1 to 1, so σ(x) is (1 + tanh(x/2))/2.",
        100: "Twice that: something is added that should multiply, or a half is missing.",
        2500: "What multiplies x is 50, where a share near 1 is due: x itself, or a softplus?",
    }
    if abs(y) < 1e-3 and abs(left) < 1e-3:
        why = (
            "It closes on *both* sides. Is the sign in the exponent turned round, or is there a "
            "factor 1 − σ, as in the slope of σ?"
        )
    elif abs(y) < 1e-3 and abs(left + 50) < 1e-3:
        why = "Left and right are exchanged: the sign in the exponent is turned round."
    else:
        why = next((words for at, words in known.items() if abs(y - at) < 1e-3), None)
    share = y / 50
    if why is None and 0.5 < share < 1 - 1e-9:
        end, low = math.log(share / (1 - share)), left / -50
        why = (
            f"Its factor is {_say(share)}, where the divisor 1 + e^(−50) is 1: is more added to it?"
        )
        if abs(_at(f, 100.0) / 100 - share) > 1e-6:
            why = f"Its factor, {_say(share)}, comes near 1 too slowly: σ(50) is 1 to 21 digits."
        elif abs(low - (1 - share)) < 1e-6:
            ends = f"σ({_say(end)}), at −50 σ(−{_say(end)})"
            why = f"Its factor is {ends}: is σ or its argument limited?"
    why = why or "The factor of x should be σ(50) = 1."
    return f"At x = 50 nearly all of x passes: silu(50) is 50, and yours {_say(y)}. {why}"


def _left_end(f):
    y = _at(f, -50.0)
    if abs(y) < 1e-6:
        return None
    known = {
        -50: "There is no gate: nothing multiplies x there.",
        50: "Left and right are mirror images, as with tanh in the place of σ, or |x|.",
        -1: "It levels off at −1, as ELU does.",
        -0.5: "That is a straight line, as of a leaky ReLU.",
    }
    why = next((words for at, words in known.items() if abs(y - at) < 1e-3), None)
    if (
        abs(y + 50) < 1e-3
        and abs(_at(f, 1.0) - 1) > 1e-3
        and abs(_at(f, 1.0) + _at(f, -1.0)) < 1e-6
    ):
        why = "The gate opens on both sides alike: is x² or |x| in σ, where x belongs?"
    why = why or "The factor of x should be σ(−50), nearly 0."
    return f"At x = −50 next to nothing passes: silu(−50) is 0.000, and yours {_say(y)}. {why}"


def _share(f):
    """What part of x passes, at four places. What stands in σ?"""
    shares = {x: _at(f, float(x)) / x for x in (1, 2, -1, -3)}
    gap = max(abs(p - _sigmoid(x)) for x, p in shares.items())
    if gap < 1e-5:
        return None
    if gap < 5e-3:
        return (
            f"In float64 what passes is right to within {_say(gap)} only. Is something rounded, or "
            "computed in 16 bits? Upcast to more, not to less."
        )
    if all(0 < p < 1 for p in shares.values()):
        factors = [math.log(p / (1 - p)) / x for x, p in shares.items()]
        if max(factors) - min(factors) < 1e-3:
            return (
                f"It is x · σ({_say(factors[0])}·x), by what passes at x = 1, 2, −1 and −3. In "
                "SiLU x stands in σ without a factor."
            )
        shifts = [math.log(p / (1 - p)) - x for x, p in shares.items()]
        powers = [math.log(p) / math.log(_sigmoid(x)) for x, p in shares.items()]
        for what, found in (
            ("x · σ(x + c) with c = {}", shifts),
            ("x · σ(x) to the power {}", powers),
        ):
            if max(found) - min(found) < 1e-3:
                return (
                    f"It is {what.format(_say(found[0]))}, by what passes at x = 1, 2, −1 and −3. "
                    "In SiLU x is multiplied by σ(x) once, and nothing is added to x."
                )
    if abs(shares[-1]) < 1e-6 and abs(shares[-3]) < 1e-6:
        right = abs(shares[2] - _sigmoid(2)) < 1e-5
        corner = "It is right of zero as it should be." if right else "All of x = 2 passes."
        return (
            f"Left of zero nothing passes. {corner} SiLU has no corner at zero: σ(2) = 88 % of x = "
            "2 passes, and σ(−1) = 27 % of x = −1."
        )
    if max(abs(shares[x] - _sigmoid(x)) for x in (1, 2)) < 1e-5 and shares[-1] < 0:
        lost = all(abs(shares[x] + _sigmoid(x)) < 1e-5 for x in (-1, -3))
        why = "The factor there is |x|: x keeps its sign." if lost else "SiLU is below zero there."
        if all(abs(x * shares[x] - _sigmoid(x)) < 1e-5 for x in (-1, -3)):
            why = "That is σ(x) alone: left of zero the factor x is missing."
        return (
            "Right of zero it is as it should be. Left of zero, at x = −1, it should be −σ(−1) = "
            f"−0.2689, and yours is {_say(-shares[-1])}. {why}"
        )
    worst = max(shares, key=lambda x: abs(shares[x] - _sigmoid(x)))
    return (
        f"At x = {_say(worst)} silu lets σ({_say(worst)}) = {_say(100 * _sigmoid(worst))} % of x "
        f"pass, and yours {_say(100 * shares[worst])} %. It opens and closes as it should, but the "
        "gate in between is not 1/(1 + e^(−x))."
    )


def _slopes(f):
    for x in (2.0, 1.0, -3.0, 0.0):
        slope, right = _slope_at(f, x), _exact_slope(x)
        if abs(slope - right) < 1e-5:
            continue
        s = _sigmoid(x)
        known = {
            s: "That is σ alone: the sigmoid was cut out of autograd (`.detach()`, `.data`).",
            x * s * (1 - s): "The factor x was cut out of autograd (`.detach()`, `.data`).",
        }
        why = next((words for at, words in known.items() if abs(slope - at) < 1e-5), None)
        why = why or "Something leaves autograd's graph on the way."
        return (
            f"The values are right, but at x = {_say(x)} autograd finds the slope {_say(slope)} "
            f"and not {_say(right)}. {why}"
        )
    return None


def _far_values(f):
    for dtype in FAR:
        for x in (1000.0, 100.0, 20.0, -20.0, -100.0, -1000.0):
            y, right = _at(f, x, dtype), max(x, 0.0)
            if x < 0 and 2e-3 < abs(y) < 1:
                return (
                    f"At x = {_say(x)} nothing should be left, and there is {_say(y)}: the tail of "
                    "the sigmoid ends too early. Is its argument clamped?"
                )
            if not abs(y - right) < 2e-3 * abs(x):
                return (
                    f"In {_short(dtype)}, at x = {_say(x)}, it gives {_say(y)} and not "
                    f"{_say(right)}. An exponential that grows becomes inf, and inf/inf is NaN. "
                    "Let it only shrink, or leave that to `torch.sigmoid`."
                )
    return None


def _far_slopes(f):
    for dtype in FAR:
        for x in (-20.0, -100.0, -1000.0, 100.0, 1000.0):
            slope, right = _slope_at(f, x, dtype), float(x > 0)
            if not abs(slope - right) < 1e-3:
                return (
                    f"In {_short(dtype)}, at x = {_say(x)}, the value is right and its gradient "
                    f"is {_say(slope)}, not {_say(right)}. On the way back an exponential that "
                    "became inf meets a zero, and 0 · inf is NaN. `torch.sigmoid` avoids that."
                )
    return None


RULES = (
    Property("each number alone", _each_alone, HAND),
    Property("zero stays zero", _zero_stays, HAND),
    Property("large numbers pass", _right_end, HAND),
    Property("very negative ones do not", _left_end, HAND),
    Property("σ(x) of x passes", _share, GELU),
    Property("values at ±1000", _far_values, WRITTEN),
    Property("slopes by the product rule", _slopes, STEEP),
    Property("slopes at ±1000", _far_slopes, WRITTEN),
)


# --- silu: the mistakes, most of them as a function of x and of what stands in σ


def quotient(x, z):
    """The same number as x · σ(z), with an exponential that overflows on the left."""
    return x / (1 + torch.exp(-z))


def _growing(x, z):
    return x * torch.exp(z) / (1 + torch.exp(z))


def _by_math(x, z):
    return x / (1 + math.exp(-z.detach()))


def _by_numpy(x, z):
    x, z = x.detach().numpy(), z.detach().numpy()
    with np.errstate(over="ignore"):  # inf is what shows here
        return torch.from_numpy(x / (1 + np.exp(-z)))


def _two_branches(x, z):
    return torch.where(z >= 0, quotient(x, z), _growing(x, z))


SILU_MISTAKES = (
    Mistake(
        "S04",
        lambda x: quotient(x, x),
        "The values are right, but at −100 (in float16 at −12) e^(−x) is inf, and the gradient "
        "NaN: autograd meets 0 · inf. `torch.sigmoid` is written so that this cannot happen.",
        WRITTEN,
        seen="https://github.com/trymirai/lalamo/pull/328",
    ),
    Mistake(
        "S05",
        lambda x: _growing(x, x),
        "For large x this is inf or NaN: x·e^x leaves float32 above 84, and float16 below 9. Let "
        "the exponential only shrink, or leave it to `torch.sigmoid`.",
        WRITTEN,
    ),
    Mistake(
        "X15",
        lambda x: _by_numpy(x, x),
        "NumPy cuts x off from its gradient, and knows no bfloat16. Stay with torch: "
        "`torch.sigmoid`, `torch.exp` and the like.",
        WRITTEN,
        seen="https://github.com/Open-Deep-ML/DML-OpenProblem/pull/497",
    ),
    Mistake(
        "math-exp",
        lambda x: _by_math(x, x),
        "The functions of `math` take one number, and x is a tensor of many. Those of torch take "
        "them all at once: `torch.exp`, `torch.sigmoid`.",
        HAND,
    ),
    Mistake(
        "both-branches",
        lambda x: _two_branches(x, x),
        "The values are right, but the gradient is NaN: `torch.where` computes both branches, and "
        "autograd multiplies the NaN of the one not taken by 0. Use e^(−|x|) in both.",
        WRITTEN,
    ),
    Mistake(
        "clamped-argument",
        lambda x: x * torch.sigmoid(x.clamp(-10, 10)),
        "The sigmoid's argument is clamped, so its tail ends: at −1000 there is −0.045 left, and "
        "not nothing. `torch.sigmoid` needs no clamp.",
        WRITTEN,
    ),
    Mistake(
        "nan-to-zero",
        lambda x: _growing(x, x).nan_to_num(),
        "Large x give 0: `nan_to_num` hides that e^x became inf, and puts a zero where x itself "
        "should be. Take a form that does not overflow, as `torch.sigmoid`.",
        WRITTEN,
    ),
    Mistake(
        "S06",
        lambda x: x * torch.sigmoid(-x),
        "This closes where SiLU opens: the sign in the exponent is turned round. σ(x) is "
        "1/(1 + e^(−x)), near 1 for large x.",
        HAND,
    ),
    Mistake(
        "S07",
        lambda x: x / 1 + torch.exp(-x),
        "Brackets are missing: `x / 1 + torch.exp(-x)` is x + e^(−x), since / binds closer than +. "
        "The whole of 1 + e^(−x) is the divisor.",
        HAND,
    ),
    Mistake(
        "sigmoid-alone",
        torch.sigmoid,
        "This is σ(x), the gate alone, between 0 and 1. SiLU is x times it, and has no upper end.",
        HAND,
    ),
    Mistake(
        "minus-sigmoid",
        lambda x: x * (1 - 2 * torch.sigmoid(-x)),
        "This multiplies x by 2·σ(x) − 1, which is tanh(x/2) and lies between −1 and 1. The "
        "sigmoid lies between 0 and 1: (1 + tanh(x/2))/2.",
        HAND,
    ),
    Mistake(
        "S13",
        lambda x: x * torch.tanh(x),
        "This gates with tanh, which lies between −1 and 1: left and right are mirror images. "
        "SiLU gates with the sigmoid, between 0 and 1.",
        HAND,
    ),
    Mistake(
        "tanh-not-halved",
        lambda x: x * (1 + torch.tanh(x / 2)),
        "Every value is twice that of SiLU. The sigmoid runs from 0 to 1; by tanh it is *half* of "
        "1 + tanh(x/2).",
        HAND,
    ),
    Mistake(
        "tanh-of-x",
        lambda x: 0.5 * x * (1 + torch.tanh(x)),
        "This is x·σ(2x): (1 + tanh(x))/2 is σ(2x). With x/2 inside tanh it is σ(x).",
        BETA,
    ),
    Mistake(
        "S02",
        lambda x: x * torch.sigmoid(1.702 * x),
        "The factor 1.702 makes a fast GELU of it, as in gpt-oss, up to 0.175 from SiLU. SiLU has "
        "no factor: x·σ(x).",
        GELU,
    ),
    Mistake(
        "gelu",
        F.gelu,
        "This is GELU, x times the normal distribution function: near SiLU in shape, and up to "
        "0.193 from it. SiLU is x·σ(x).",
        GELU,
    ),
    Mistake(
        "S11",
        F.relu,
        "This is ReLU: exactly zero left of zero. SiLU lets a little through there, "
        "silu(−1) = −0.269, and its slope has no jump.",
        LOWEST,
    ),
    Mistake(
        "leaky",
        F.leaky_relu,
        "This is a leaky ReLU, two straight lines. SiLU is curved, falls to −0.278 and comes back "
        "to zero: x·σ(x).",
        LOWEST,
    ),
    Mistake(
        "elu",
        F.elu,
        "This is ELU, which levels off at −1. SiLU comes back to zero on the left: x·σ(x).",
        LOWEST,
    ),
    Mistake(
        "hard",
        F.hardswish,
        "This is Hardswish, straight lines and a parabola in the place of the sigmoid. Close, but "
        "another function: SiLU is x·σ(x).",
        LOWEST,
    ),
    Mistake(
        "mish",
        F.mish,
        "This is Mish, x·tanh(ln(1 + e^x)). SiLU has the sigmoid in that place: x·σ(x).",
        LOWEST,
    ),
    Mistake(
        "softplus",
        F.softplus,
        "This is softplus, ln(1 + e^x): 0.693 at zero, and never negative. SiLU is x·σ(x).",
        HAND,
    ),
    Mistake(
        "log-sigmoid",
        lambda x: x * F.logsigmoid(x),
        "This multiplies x by the *logarithm* of σ(x). Multiply by σ(x), `torch.sigmoid(x)`.",
        HAND,
    ),
    Mistake(
        "sigmoid-slope",
        lambda x: x * torch.sigmoid(x) * (1 - torch.sigmoid(x)),
        "This multiplies x by σ(1 − σ), which is the slope of the sigmoid. SiLU is x·σ(x), without "
        "the second factor.",
        STEEP,
    ),
    Mistake(
        "silu-slope",
        lambda x: torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))),
        "This is the slope of SiLU, σ·(1 + x·(1 − σ)). SiLU itself is x·σ(x).",
        STEEP,
    ),
    Mistake(
        "added",
        lambda x: x + torch.sigmoid(x),
        "The sigmoid is added to x. It multiplies x, as a share of it that passes.",
        HAND,
    ),
    Mistake(
        "softplus-gate",
        lambda x: x * F.softplus(x),
        "What multiplies x is softplus, log(1 + e^x), which grows with x. SiLU has the sigmoid, a "
        "share between 0 and 1.",
        HAND,
    ),
    Mistake(
        "squared",
        lambda x: x * x * torch.sigmoid(x),
        "The factor x is there twice, so that silu(5) comes out near 25 and not near 5. Multiply "
        "x by σ(x) once.",
        HAND,
    ),
    Mistake(
        "softmax",
        lambda x: x * torch.softmax(x, -1),
        "Softmax compares the numbers with each other. SiLU looks at each number alone: "
        "`torch.sigmoid`.",
        HAND,
    ),
    Mistake(
        "identity",
        lambda x: x.clone(),
        "Nothing has happened to x yet. Multiply it by the share that passes, σ(x).",
        HAND,
    ),
    Mistake(
        "clamped",
        lambda x: (x * torch.sigmoid(x)).clamp(min=0),
        "What is negative is cut off, but SiLU goes below zero: down to −0.278, and back. "
        "Leave the curve as it is.",
        LOWEST,
    ),
    Mistake(
        "S09",
        lambda x: F.silu(x, inplace=True),
        "This writes into `x`, which the caller still needs: silu(g)·g after it is silu(g)². Make "
        "a new tensor; `inplace=True` and methods that end in `_` do not.",
        IN_PLACE,
    ),
    Mistake(
        "not-cast-back",
        lambda x: x.float() * torch.sigmoid(x.float()),
        "The result is float32 whatever x is. Upcasting inside is fine, but the result must have "
        "the dtype of x: `.to(x.dtype)` at the end.",
        DTYPE,
    ),
    Mistake(
        "promoted",
        lambda x: x * torch.sigmoid(x.float()),
        "For 16-bit x the result is float32: a float32 sigmoid promotes the product. Cast it back "
        "to the dtype of x, `.to(x.dtype)`.",
        DTYPE,
    ),
    Mistake(
        "detached-gate",
        lambda x: x * torch.sigmoid(x).detach(),
        "The values are right, but the gradient treats σ(x) as a constant: only half of the "
        "product rule is left. Something like `.detach()` or `.data` cuts it out.",
        STEEP,
    ),
    Mistake(
        "detached-x",
        lambda x: x.detach() * torch.sigmoid(x),
        "The values are right, but the gradient treats the factor x as a constant: only half of "
        "the product rule is left. Something like `.detach()` or `.data` cuts it out.",
        STEEP,
    ),
)

SILU = Exercise(
    "silu",
    ("x",),
    layers.silu,
    SILU_CASES,
    SILU_MISTAKES,
    RULES,
    (
        "Which step overflows, and on which side of zero? A form is safe when its exponential can "
        "only shrink.",
        "The sigmoid is where the exponential lives. torch has one that is safe on both sides, and "
        "so is its gradient.",
        "`torch.sigmoid(x)` is σ(x), in every dtype. What multiplies it?",
    ),
    5,
    WRITTEN,
)


# --- swish: what every right answer obeys. f: (x, beta) -> y


def _with_beta_one(broken):
    """A rule of silu, asked of Swish with β = 1."""
    return lambda f: broken(lambda x: f(x, 1.0))


def _beta_zero(f):
    y = f(torch.tensor([3.0], dtype=torch.float64), 0.0).item()
    if abs(y - 1.5) < 1e-6:
        return None
    if math.isnan(y):
        return (
            "With β = 0 it gives NaN: something is divided by β. x·σ(βx) divides by nothing, and "
            "is x/2 there."
        )
    return (
        "With β = 0 the sigmoid is 1/2 whatever x is, and x/2 is left. At x = 3 that is 1.5, and "
        f"yours is {_say(y)}. Does β multiply x inside the sigmoid?"
    )


# What passes of x, where β stands in another place.
BETA_FORMS = {
    "β·x·σ(x): β stands outside the sigmoid": lambda b, x: b * _sigmoid(x),
    "β·x·σ(βx): β stands outside the sigmoid too": lambda b, x: b * _sigmoid(b * x),
    "x·σ(βx)/β: something is divided by β": lambda b, x: _sigmoid(b * x) / b,
    "x·σ(x/β): β divides where it should multiply": lambda b, x: _sigmoid(x / b),
    "x·σ(x + β): β is added where it should multiply": lambda b, x: _sigmoid(x + b),
    "x·σ(2βx): inside tanh it is βx/2": lambda b, x: _sigmoid(2 * b * x),
    "x·σ(−βx): the sign in the exponent is turned round": lambda b, x: _sigmoid(-b * x),
    "x·σ(β): the x inside the sigmoid is missing": lambda b, x: _sigmoid(b),
    "x·σ(x) to the power β: β multiplies x, inside the sigmoid": lambda b, x: _sigmoid(x) ** b,
    "x·tanh(βx): the sigmoid is another function": lambda b, x: math.tanh(b * x),
    "2·x·σ(βx): everything is doubled, as where a half is missing": lambda b, x: (
        2 * _sigmoid(b * x)
    ),
    "x·σ(βx)/2: a half is too many": lambda b, x: _sigmoid(b * x) / 2,
    "−x·σ(−βx): two signs are turned round, which do not make up": lambda b, x: -_sigmoid(-b * x),
    "x·σ(x) to the power 1/β: β multiplies x, inside the sigmoid": lambda b, x: (
        _sigmoid(x) ** (1 / b)
    ),
    "x·σ(β·|x|): inside the sigmoid x has lost its sign": lambda b, x: _sigmoid(b * abs(x)),
    "x·σ(βx) to the power β: β stands outside as well": lambda b, x: _sigmoid(b * x) ** b,
    "x·σ(β·(x − 1)): β is subtracted besides": lambda b, x: _sigmoid(b * x - b),
    "x·σ(β·(x + 1)): β is added besides": lambda b, x: _sigmoid(b * x + b),
    "x·σ(β·x²): inside the sigmoid x is squared": lambda b, x: _sigmoid(b * x * x),
    "β·x·σ(x/β): β stands outside, and divides inside": lambda b, x: b * _sigmoid(x / b),
    "x·σ(−x/β): β divides, and a sign is turned round": lambda b, x: _sigmoid(-x / b),
    "GELU with β, x·Φ(βx): the gate is σ": lambda b, x: (1 + math.erf(b * x / math.sqrt(2))) / 2,
    "β·GELU(x): the gate is σ, and β belongs in it": lambda b, x: (
        b * (1 + math.erf(x / math.sqrt(2))) / 2
    ),
    "a hard sigmoid of straight pieces": lambda b, x: min(max(b * x / 6 + 0.5, 0), 1),
}


# What may happen to β on its way into the sigmoid.
BETA_TURNED = {
    "That is the root of β.": math.sqrt,
    "That is β².": lambda b: b * b,
    "That is −β²: β is squared, and a sign is turned round.": lambda b: -b * b,
    "That is −β/2: a half is too many, and a sign is turned round.": lambda b: -b / 2,
    "That is β/2.": lambda b: b / 2,
    "There is the factor 1.702 of the fast GELU besides.": lambda b: 1.702 * b,
    "That is −1.702·β, with the fast GELU's factor and a sign turned round.": lambda b: -1.702 * b,
    "β is cut off to a whole number.": math.trunc,
    "β is limited to 1.": lambda b: min(b, 1.0),
    "β is never let below 1.": lambda b: max(b, 1.0),
    "That is β + 1.": lambda b: b + 1,
    "That is e^β.": math.exp,
    "That is tanh(β).": math.tanh,
    "That is σ(β).": _sigmoid,
}


def _own_betas(f):
    """The β of Swish that the answer is with β = 0.5 and with β = 2; None if it is no Swish."""
    found = []
    for beta in (0.5, 2.0):
        x = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
        share = f(x, beta) / x
        inside = torch.logit(share) / x  # NaN unless the share is between 0 and 1
        if not (inside - inside[0]).abs().max() < 1e-6:
            return None
        found.append(inside[0].item())
    return found


def _beta_negative(f):
    y, right = f(torch.tensor([2.0], dtype=torch.float64), -1.0).item(), 2 * _sigmoid(-2)
    if abs(y - right) < 1e-6:
        return None
    known = {
        2 * _sigmoid(2): "That is what β = 1 gives: its sign is lost.",
        1.0: "That is what β = 0 gives: is β limited to numbers above zero?",
    }
    why = next((words for at, words in known.items() if abs(y - at) < 1e-6), None)
    return (
        f"With β = −1 the curve is mirrored: at x = 2 it gives 2·σ(−2) = {_say(right)}, and yours "
        f"is {_say(y)}. {why or 'β multiplies x inside the sigmoid, whatever its sign.'}"
    )


def _beta_inside(f):
    places = [(b, x) for b in (0.5, 2.0) for x in (1.0, -2.0)]
    shares = [f(torch.tensor([x], dtype=torch.float64), b).item() / x for b, x in places]
    rights = [_sigmoid(b * x) for b, x in places]
    if max(abs(p - r) for p, r in zip(shares, rights, strict=True)) < 5e-3:
        return None
    if _near(shares[:2], shares[2:]):
        return (
            f"With β = 0.5 and with β = 2 the result is the same ({_say(shares[0])} at x = 1). β "
            "is not used: it multiplies x inside the sigmoid."
        )
    for words, form in BETA_FORMS.items():
        if _near(shares, [form(b, x) for b, x in places]):
            return f"By its values for β = 0.5 and β = 2 this is {words}. Swish is x·σ(βx)."
    if (own := _own_betas(f)) is not None:
        how = next(
            (words for words, form in BETA_TURNED.items() if _near(own, map(form, (0.5, 2)))), ""
        )
        return (
            f"With β = 0.5 yours is x·σ({_say(own[0])}·x), and with β = 2 x·σ({_say(own[1])}·x). "
            f"{how or 'Something happens to β on its way.'} It multiplies x as it is: x·σ(βx)."
        )
    at = max(range(4), key=lambda i: abs(shares[i] - rights[i]))
    b, x = places[at]
    return (
        f"With β = {_say(b)} at x = {_say(x)} the share σ({_say(b * x)}) = {_say(100 * rights[at])}"
        f" % of x should pass, and yours is {_say(100 * shares[at])} %. β multiplies x, inside the "
        "sigmoid, and stands nowhere else."
    )


def _near(found, wanted):
    return all(abs(a - b) < 1e-6 for a, b in zip(found, wanted, strict=True))


SWISH_CASES = (
    Case((_simple, 2.0), "simple numbers", grad=True),
    Case((_both_signs, 0.5), "a small β", grad=True),
    Case((_both_signs, 1.0), "β = 1"),
    Case((_both_signs, 0.0), "β = 0"),
    Case((_both_signs, -1.0), "a negative β"),
    Case((draw(4, 4, seed=1), 10.0), "a large β"),
    Case((2 * draw(3, 4, seed=1).double() - 1, 1.5), grad=True),
    Case((2 * draw(3, 4, seed=2).half(), 1.5)),
    *(Case((_far(dtype), 2.0), "numbers up to ±1000", grad=True) for dtype in FAR),
)

SWISH = Exercise(
    "swish",
    ("x", "beta"),
    layers.swish,
    SWISH_CASES,
    (
        Mistake(
            "S21",
            lambda x, beta: x * torch.sigmoid(x),
            "This is SiLU, whatever β is: `beta` is not used. It multiplies x inside the sigmoid.",
            BETA,
        ),
        Mistake(
            "e-swish",
            lambda x, beta: beta * x * torch.sigmoid(x),
            "Here β stands *outside* the sigmoid, and only stretches SiLU; E-swish does so on "
            "purpose. In Swish, as asked for here, it multiplies x inside: x·σ(βx).",
            BETA,
            convention=True,
        ),
        Mistake(
            "both",
            lambda x, beta: beta * x * torch.sigmoid(beta * x),
            "This is silu(βx), β times Swish: β stands outside the sigmoid as well. It belongs "
            "inside alone.",
            BETA,
        ),
        Mistake(
            "divided-by-beta",
            lambda x, beta: F.silu(beta * x) / beta,
            "Dividing silu(βx) by β gives Swish for every β but one: with β = 0 it is 0/0, NaN, "
            "where x/2 belongs. Write x·σ(βx).",
            BETA,
        ),
        Mistake(
            "divided-again",
            lambda x, beta: x * torch.sigmoid(beta * x) / beta,
            "This divides by β in the end. silu(βx)/β is Swish, since silu brings a β along; "
            "x·σ(βx) needs no division.",
            BETA,
        ),
        Mistake(
            "over-beta",
            lambda x, beta: x * torch.sigmoid(x / beta),
            "Inside the sigmoid x is divided by β, so that a larger β makes the curve softer. β "
            "multiplies: a larger one comes closer to ReLU.",
            BETA,
        ),
        Mistake(
            "beta-added",
            lambda x, beta: x * torch.sigmoid(x + beta),
            "Inside the sigmoid β is added, which moves the gate to one side. It multiplies: "
            "σ(βx).",
            BETA,
        ),
        Mistake(
            "only-beta",
            lambda x, beta: x * torch.sigmoid(torch.as_tensor(beta, dtype=x.dtype)),
            "There is no x inside the sigmoid: σ(β) is one number, and x times it a straight line. "
            "It is σ(βx).",
            BETA,
        ),
        Mistake(
            "power",
            lambda x, beta: x * torch.sigmoid(x) ** beta,
            "This raises the sigmoid to the power β. β multiplies x inside it: σ(βx).",
            BETA,
        ),
        Mistake(
            "softplus-beta",
            lambda x, beta: x * torch.sigmoid(math.log1p(math.exp(beta)) * x),
            "Here β goes through softplus first, as in the code of Residual Flows, which learns β. "
            "It is a given number in this exercise: x·σ(βx).",
            BETA,
            convention=True,
        ),
        Mistake(
            "no-x",
            lambda x, beta: torch.sigmoid(beta * x),
            "This is the gate alone, σ(βx), between 0 and 1. Multiply x by it.",
            HAND,
        ),
        Mistake(
            "sign",
            lambda x, beta: x * torch.sigmoid(-beta * x),
            "This closes where Swish opens: the sign in the exponent is turned round. σ(βx) is "
            "1/(1 + e^(−βx)).",
            HAND,
        ),
        Mistake(
            "brackets",
            lambda x, beta: x / 1 + torch.exp(-beta * x),
            "Brackets are missing: / binds closer than +. The whole of 1 + e^(−βx) is the divisor.",
            HAND,
        ),
        Mistake(
            "S02",
            lambda x, beta: x * torch.sigmoid(1.702 * x),
            "The factor inside is always 1.702, the one that comes near GELU. Use the `beta` that "
            "is given.",
            GELU,
        ),
        Mistake(
            "tanh",
            lambda x, beta: x * torch.tanh(beta * x),
            "This gates with tanh, which lies between −1 and 1. The sigmoid lies between 0 and 1.",
            HAND,
        ),
        Mistake(
            "tanh-of-bx",
            lambda x, beta: 0.5 * x * (1 + torch.tanh(beta * x)),
            "This is Swish with twice the β: (1 + tanh(z))/2 is σ(2z). Put βx/2 inside tanh.",
            BETA,
        ),
        Mistake(
            "S04",
            lambda x, beta: quotient(x, beta * x),
            "The values are right, but far to the left e^(−βx) is inf, and the gradient NaN: "
            "autograd meets 0 · inf. `torch.sigmoid` is written so that this cannot happen.",
            WRITTEN,
        ),
        Mistake(
            "S05",
            lambda x, beta: _growing(x, beta * x),
            "For large x, e^(βx) becomes inf, and inf/inf is NaN. The exponential must only "
            "shrink, or leave it to `torch.sigmoid`.",
            WRITTEN,
        ),
        Mistake(
            "numpy",
            lambda x, beta: _by_numpy(x, beta * x),
            "NumPy cuts x off from its gradient. Stay with torch: `torch.sigmoid`, `torch.exp` and "
            "the like.",
            WRITTEN,
        ),
        Mistake(
            "math-exp",
            lambda x, beta: _by_math(x, beta * x),
            "The functions of `math` take one number, and x is a tensor of many. Those of torch "
            "take them all at once: `torch.exp`, `torch.sigmoid`.",
            HAND,
        ),
        Mistake(
            "both-branches",
            lambda x, beta: _two_branches(x, beta * x),
            "The values are right, but the gradient is NaN: `torch.where` computes both branches, "
            "and autograd multiplies the NaN of the one not taken by 0.",
            WRITTEN,
        ),
        Mistake(
            "softmax",
            lambda x, beta: x * torch.softmax(beta * x, -1),
            "Softmax compares the numbers with each other. Swish looks at each number alone: "
            "`torch.sigmoid`.",
            HAND,
        ),
        Mistake(
            "scaled-in-place",
            lambda x, beta: x * torch.sigmoid(x.mul_(beta)),
            "This multiplies `x` by β in place: the caller's x changes, and so does the factor in "
            "front of the sigmoid. Make a new tensor, `beta * x`.",
            IN_PLACE,
        ),
        Mistake(
            "not-cast-back",
            lambda x, beta: x.float() * torch.sigmoid(beta * x.float()),
            "The result is float32 whatever x is. Cast it back to the dtype of x, `.to(x.dtype)`.",
            DTYPE,
        ),
        Mistake(
            "detached-gate",
            lambda x, beta: x * torch.sigmoid(beta * x).detach(),
            "The values are right, but the gradient treats the sigmoid as a constant: something "
            "like `.detach()` or `.data` cuts it out.",
            STEEP,
        ),
    ),
    (
        *(Property(r.name, _with_beta_one(r.broken), r.read) for r in RULES[:2]),
        Property("β inside the sigmoid", _beta_inside, BETA),
        *(Property(r.name, _with_beta_one(r.broken), r.read) for r in RULES[2:]),
        Property("β = 0 is x/2", _beta_zero, BETA),
        Property("a negative β mirrors", _beta_negative, BETA),
    ),
    (
        "With β = 1 it must be SiLU, with β = 0 half of x, and with a large β nearly ReLU.",
        "Inside the sigmoid x is multiplied by β, and nowhere else.",
    ),
    3,
    BETA,
)


# --- silu_backward


def silu_backward(dy, x):
    """The gradient of a loss with respect to x, where y = silu(x).

        dx = dy · σ(x) · (1 + x · (1 − σ(x)))

    dy: the loss's gradient with respect to y. x: what silu was given. Both of one shape, as is dx.
    """
    s = torch.sigmoid(x)
    return dy * s * (1 + x * (1 - s))


# Not bfloat16: there the form y + σ·(1 − y), which is right, loses the 1 beside y = 1000.
EXACT = (torch.float16, torch.float32, torch.float64)
_dy = draw(2, 3, 5, seed=1)
BACKWARD_CASES = (
    Case((torch.tensor([1.0, 2.0, -1.0]), torch.tensor([2.0, 0.0, -2.0])), "simple numbers"),
    Case((_dy, _both_signs)),
    Case((draw(4, 4, seed=1), 2 * draw(4, 4) - 1), "all axes of one size"),
    Case((_dy.double(), 2 * draw(2, 3, 5, seed=2).double() - 1)),
    *(
        Case((draw(len(FAR[dtype]), seed=3).to(dtype), _far(dtype)), "x up to ±1000")
        for dtype in EXACT
    ),
)


def _dx_at(f, x, dy=1.0, dtype=torch.float64):
    return f(torch.tensor([dy], dtype=dtype), torch.tensor([x], dtype=dtype)).item()


def _dx_each_alone(f):
    for at, name in ((1, "x"), (0, "dy")):
        given = draw(2, 3, seed=1).double(), draw(2, 3).double()
        moved = given[0].clone(), given[1].clone()
        moved[at][1, 2] += 1
        others = (f(*given) - f(*moved)).abs() > 1e-9
        others[1, 2] = False
        if others.any():
            return (
                f"When one number of {name} changes, {int(others.sum())} of the other 5 gradients "
                "change too. Each y depends on its own x alone, so nothing is summed or averaged."
            )
    (dy, x), among = given, f(*given)[0, 0]
    if abs(f(dy[:1, :1], x[:1, :1]) - among) > 1e-9:
        return (
            f"Among 6 numbers the first gradient is {_say(among.item())}, and alone "
            f"{_say(f(dy[:1, :1], x[:1, :1]).item())}. Is it divided by how many there are? Such a "
            "mean is in dy already, if the loss has one."
        )
    return None


def _dy_multiplies(f):
    if abs(_dx_at(f, 3.0, 2.0) - 3 * _exact_slope(2.0)) < 1e-6:
        return (
            "The two arguments are exchanged: with dy = 2 and x = 3 it gives 3 times the slope at "
            "2. The slope is taken at x, and dy multiplies it."
        )
    once, twice, none = (_dx_at(f, 1.0, dy) for dy in (1.0, 2.0, 0.0))
    if abs(none) > 1e-9:
        return (
            f"With dy = 0 the gradient should be 0, and at x = 1 it is {_say(none)}: dy multiplies "
            "all of the slope. Is it missing, added, or in one term only?"
        )
    if abs(twice - 2 * once) > 1e-6 * max(abs(once), 1e-3):
        return (
            f"With dy = 1 at x = 1 it gives {_say(once)}, and with dy = 2 {_say(twice)}, which "
            "should be twice that. dy multiplies the slope once; the slope is that at x."
        )
    return None


def _whose_slope(f):
    """Words for slopes of another kind, by two numbers; else None."""
    known = {
        "It is the slope of σ alone. SiLU is x·σ(x), a product.": lambda x, s: s * (1 - s),
        "It is σ(x), half of the product rule.": lambda x, s: s,
        "It is x·σ·(1 − σ), half of the product rule.": lambda x, s: x * s * (1 - s),
        "It is silu(x) itself, not its slope.": lambda x, s: x * s,
        "It is the slope of ReLU, a step.": lambda x, s: float(x > 0),
        "It is minus the slope: a sign is turned round.": lambda x, s: -s * (1 + x * (1 - s)),
        "The second term of the product rule has the wrong sign.": lambda x, s: (
            s * (1 - x * (1 - s))
        ),
        "x is missing: the second term is *x* times the slope of σ.": lambda x, s: s * (2 - s),
        "x multiplies both terms; it belongs to the second alone.": lambda x, s: x * s * (2 - s),
        "One σ is too many: it stands in front of the brackets once.": lambda x, s: (
            s * s * (1 + x * (1 - s))
        ),
        "The slope of σ is σ·(1 − σ); the factor 1 − σ is missing.": lambda x, s: s * (1 + x),
        "The slope of σ is σ·(1 − σ), and not σ².": lambda x, s: s * (1 + x * s),
        "It is the slope of GELU. SiLU's gate is σ, whose slope is σ·(1 − σ).": lambda x, s: (
            (1 + math.erf(x / math.sqrt(2))) / 2 + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        ),
        "It is the slope of the slope. SiLU is differentiated once.": lambda x, s: (
            s * (1 - s) * (2 + x * (1 - 2 * s))
        ),
        "It is x times the slope: dy multiplies it, and x does not.": lambda x, s: (
            x * s * (1 + x * (1 - s))
        ),
        "It is right on the right alone. Left of zero silu is not flat: nothing is cut off.": (
            lambda x, s: s * (1 + x * (1 - s)) * (x > 0)
        ),
        "σ is missing in front of the brackets, σ·(1 + x·(1 − σ)).": lambda x, s: 1 + x * (1 - s),
        "A bracket is out of place: 1 − σ multiplies x alone, σ·(1 + x·(1 − σ)).": lambda x, s: (
            s * (1 + x) * (1 - s)
        ),
        "Where 1 − σ belongs stands 1 − y, with y = silu(x).": lambda x, s: (
            s * (1 + x * (1 - x * s))
        ),
        "A bracket is out of place: in y + σ·(1 − y) only σ is multiplied by 1 − y.": (
            lambda x, s: (x * s + s) * (1 - x * s)
        ),
        "The first term, σ, has the wrong sign.": lambda x, s: x * s * (1 - s) - s,
        "Left and right are exchanged: the sign inside σ is turned round.": lambda x, s: (
            (1 - s) * (1 + x * s)
        ),
        "In the second term stands the slope of tanh, 1 − tanh², and not that of σ.": (
            lambda x, s: s + x * (1 - math.tanh(x) ** 2)
        ),
        "The second term lacks a σ: the slope of σ is σ·(1 − σ).": lambda x, s: s + x * (1 - s),
        "The slope of σ is σ·(1 − σ), with a minus, and not σ·(1 + σ).": lambda x, s: (
            s + x * s * (1 + s)
        ),
        "It is the slope of x·σ(1.702x), the fast GELU.": lambda x, s: (
            _sigmoid(1.702 * x) * (1 + 1.702 * x * _sigmoid(-1.702 * x))
        ),
    }
    found = [_dx_at(f, x) for x in (2.0, -1.0)]
    for words, slope in known.items():
        if _near(found, [slope(x, _sigmoid(x)) for x in (2.0, -1.0)]):
            return words
    return None


def _dx_at_zero(f):
    dx = _dx_at(f, 0.0)
    if abs(dx - 0.5) < 1e-6:
        return None
    why = _whose_slope(f) or "At zero only the first term of the product rule is left, σ(0) · 1."
    return f"At x = 0, with dy = 1, the slope of SiLU is 0.5, and yours is {_say(dx)}. {why}"


def _dx_far_right(f):
    dx = _dx_at(f, 50.0)
    if abs(dx - 1) < 1e-6:
        return None
    why = _whose_slope(f) or "Of σ·(1 + x·(1 − σ)) only 1 is left there, since 1 − σ is 0."
    return f"At x = 50 silu(x) is x, so its slope is 1, and yours is {_say(dx)}. {why}"


def _dx_far_left(f):
    dx = _dx_at(f, -50.0)
    if abs(dx) < 1e-6:
        return None
    why = _whose_slope(f)
    why = why or "σ, nearly 0 there, multiplies both terms: is a σ missing, or a pair of brackets?"
    if abs(dx - 0.5) < 1e-6:
        why = "That is the slope at 0. Is it taken at y = silu(x), in place of x?"
    return f"At x = −50 silu is flat: the slope is 0, and yours is {_say(dx)}. {why}"


def _second_term(f):
    """What is wrong with x·σ·(1 − σ), if the other term, σ, is right."""
    factors = [
        (_dx_at(f, x) - _sigmoid(x)) / (x * _sigmoid(x) * (1 - _sigmoid(x))) for x in (2.0, -1.0)
    ]
    known = {
        "one σ too many": [_sigmoid(x) for x in (2.0, -1.0)],
        "one σ too few": [1 / _sigmoid(x) for x in (2.0, -1.0)],
        "one (1 − σ) too many": [1 - _sigmoid(x) for x in (2.0, -1.0)],
        "one x too many": [2.0, -1.0],
        "the wrong sign": [-1.0, -1.0],
    }
    for what, wanted in known.items():
        if all(abs(a - b) < 1e-3 for a, b in zip(factors, wanted, strict=True)):
            return f"With σ as first term, the second, x·σ·(1 − σ), has {what} in yours."
    return None


def _dx_product_rule(f):
    for x in (2.0, -1.0, -4.0, 0.5):
        dx, h = _dx_at(f, x), 1e-4
        if abs(dx - _exact_slope(x)) < 1e-5:
            continue
        rise = (x + h) * _sigmoid(x + h) - (x - h) * _sigmoid(x - h)
        why = _whose_slope(f) or _second_term(f)
        why = why or "The product rule has two terms: σ(x), and x times the slope of σ, σ·(1 − σ)."
        return (
            f"From x = {_say(x)} to the next 0.0001, silu changes {_say(rise / (2 * h))} times as "
            f"much as x: that is its slope, and yours is {_say(dx)}. {why}"
        )
    return None


def _dx_far(f):
    for dtype in EXACT:
        for x in (-1000.0, -100.0, -20.0, 20.0, 100.0, 1000.0):
            dx, right = _dx_at(f, x, 1.0, dtype), float(x > 0)
            if not abs(dx - right) < 1e-3:
                why = "An exponential became inf." if not math.isfinite(dx) else "Digits were lost."
                return (
                    f"In {_short(dtype)}, at x = {_say(x)}, it gives {_say(dx)} and not "
                    f"{_say(right)}. {why} Write the slope with `torch.sigmoid` alone."
                )
    return None


def _by_sigmoid(form):
    """A mistake as a form of (dy, x, s), s the sigmoid of x."""
    return lambda dy, x: form(dy, x, torch.sigmoid(x))


def _of_exponentials(dy, x):
    e = torch.exp(-x)
    return dy * (1 + e + x * e) / (1 + e).square()


def _one_in_place(dy, x):
    s = torch.sigmoid(x)
    return dy.mul_(s * (1 + x * (1 - s)))


BACKWARD = Exercise(
    "silu_backward",
    ("dy", "x"),
    silu_backward,
    BACKWARD_CASES,
    (
        Mistake(
            "S30",
            _by_sigmoid(lambda dy, x, s: dy * s),
            "Half of the product rule: σ(x) is the slope if the sigmoid were a constant. It "
            "depends on x too, which adds x·σ·(1 − σ).",
            STEEP,
        ),
        Mistake(
            "other-half",
            _by_sigmoid(lambda dy, x, s: dy * x * s * (1 - s)),
            "Half of the product rule: x times the slope of σ. The factor x depends on x too, "
            "which adds σ(x).",
            STEEP,
        ),
        Mistake(
            "S32",
            _by_sigmoid(lambda dy, x, s: dy * s * (1 - s)),
            "This is the slope of σ, 0.25 at zero. SiLU is x·σ(x), a product: σ + x·σ·(1 − σ).",
            STEEP,
        ),
        Mistake(
            "no-dy",
            _by_sigmoid(lambda dy, x, s: s * (1 + x * (1 - s))),
            "This is the slope alone. By the chain rule dy multiplies it.",
            STEEP,
        ),
        Mistake(
            "dy-added",
            _by_sigmoid(lambda dy, x, s: dy + s * (1 + x * (1 - s))),
            "Here `dy` is added to the slope. By the chain rule it multiplies.",
            STEEP,
        ),
        Mistake(
            "dy-in-one-term",
            _by_sigmoid(lambda dy, x, s: dy * s + x * s * (1 - s)),
            "Only one of the two terms is multiplied by dy. Brackets: dy·(σ + x·σ·(1 − σ)).",
            STEEP,
        ),
        Mistake(
            "dy-twice",
            _by_sigmoid(lambda dy, x, s: dy * s * (1 + dy * x * (1 - s))),
            "Here `dy` acts twice, inside the brackets as well. It multiplies the slope once.",
            STEEP,
        ),
        Mistake(
            "swapped",
            lambda dy, x: silu_backward(x, dy),
            "The two arguments are exchanged: the slope is taken at x, what SiLU was given, and "
            "multiplied by dy.",
            STEEP,
        ),
        Mistake(
            "at-y",
            lambda dy, x: silu_backward(dy, F.silu(x)),
            "The slope is taken at y = silu(x). It is taken at x itself: σ of what SiLU was given.",
            STEEP,
        ),
        Mistake(
            "x-as-sigmoid",
            lambda dy, x: dy * x * (1 + x * (1 - x)),
            "Here x stands where σ(x) should. Take the sigmoid of x first, then σ·(1 + x·(1 − σ)).",
            STEEP,
        ),
        Mistake(
            "forward",
            _by_sigmoid(lambda dy, x, s: dy * x * s),
            "This is dy times silu(x) itself. It is the *slope* of SiLU that multiplies dy.",
            STEEP,
        ),
        Mistake(
            "one-minus-missing",
            _by_sigmoid(lambda dy, x, s: dy * s * (1 + x * s)),
            "A `1 −` is missing: the slope of σ is σ·(1 − σ), so x·(1 − σ) stands in the brackets.",
            STEEP,
        ),
        Mistake(
            "slope-is-one-minus",
            _by_sigmoid(lambda dy, x, s: dy * (s + x * (1 - s))),
            "This is σ + x·(1 − σ). The slope of σ is σ·(1 − σ), so the second term needs a σ too. "
            "(Written the other way, y + σ·(1 − y), y is silu(x), not x.)",
            STEEP,
        ),
        Mistake(
            "sigma-dropped",
            _by_sigmoid(lambda dy, x, s: dy * s * (1 + x)),
            "The factor 1 − σ is missing: σ' is σ·(1 − σ), and not σ. Far to the right the slope "
            "would grow without end.",
            STEEP,
        ),
        Mistake(
            "minus",
            _by_sigmoid(lambda dy, x, s: dy * s * (1 - x * (1 - s))),
            "A sign is wrong: the two terms of the product rule are added, σ + x·σ·(1 − σ).",
            STEEP,
        ),
        Mistake(
            "negative",
            _by_sigmoid(lambda dy, x, s: -dy * s * (1 + x * (1 - s))),
            "The sign is turned round: this points downhill, as an optimiser's step does. A "
            "backward pass returns the gradient itself.",
            STEEP,
        ),
        Mistake(
            "no-x",
            _by_sigmoid(lambda dy, x, s: dy * s * (1 + (1 - s))),
            "A factor x is missing: the second term of the product rule is x times the slope of σ.",
            STEEP,
        ),
        Mistake(
            "x-outside",
            _by_sigmoid(lambda dy, x, s: dy * x * s * (1 + (1 - s))),
            "Both terms are multiplied by x. The product rule gives it to the second alone: "
            "σ + x·σ·(1 − σ).",
            STEEP,
        ),
        Mistake(
            "sigma-squared",
            _by_sigmoid(lambda dy, x, s: dy * s * s * (1 + x * (1 - s))),
            "One σ too many: σ·(1 + x·(1 − σ)) has it in front once.",
            STEEP,
        ),
        Mistake(
            "tanh-rule",
            _by_sigmoid(lambda dy, x, s: dy * (s + x * (1 - s * s))),
            "With 1 − s² this takes the slope of tanh. The slope of the sigmoid is σ·(1 − σ).",
            STEEP,
        ),
        Mistake(
            "brackets",
            _by_sigmoid(lambda dy, x, s: dy * s * 1 + x * (1 - s)),
            "Brackets are missing: σ and dy multiply *both* terms, dy·σ·(1 + x·(1 − σ)).",
            STEEP,
        ),
        Mistake(
            "S07",
            lambda dy, x: (
                dy * (1 + torch.exp(-x) + x * torch.exp(-x) / (1 + torch.exp(-x)).square())
            ),
            "Brackets are missing: in (1 + e + x·e)/(1 + e)², with e = e^(−x), the whole first "
            "bracket is divided. With σ it is shorter, and does not overflow.",
            STEEP,
            seen="https://github.com/chelsea0x3b/dfdx/pull/915",
        ),
        Mistake(
            "relu",
            lambda dy, x: dy * (x > 0),
            "This is the slope of ReLU, a step. SiLU's has no jump: 0.5 at zero, and σ·(1 + x·(1 "
            "− σ)) elsewhere.",
            STEEP,
        ),
        Mistake(
            "quick",
            lambda dy, x: (
                dy * torch.sigmoid(1.702 * x) * (1 + 1.702 * x * torch.sigmoid(-1.702 * x))
            ),
            "This is the slope of x·σ(1.702x), the fast GELU. SiLU has no factor in σ.",
            GELU,
        ),
        Mistake(
            "summed",
            _by_sigmoid(lambda dy, x, s: (dy * s * (1 + x * (1 - s))).sum(0).expand_as(x)),
            "The gradients are summed over the first axis. Each y depends on its own x alone, so "
            "nothing is summed.",
            STEEP,
        ),
        Mistake(
            "exponentials",
            _of_exponentials,
            "Far to the left this is NaN: e^(−x) is inf, and inf/inf and 0 · inf are NaN. With "
            "`torch.sigmoid` the slope is σ·(1 + x·(1 − σ)).",
            WRITTEN,
        ),
        Mistake(
            "in-place",
            _one_in_place,
            "It writes into `dy`, which the caller still needs. Make a new tensor, without `_` or "
            "`*=`.",
            IN_PLACE,
        ),
        Mistake(
            "not-cast-back",
            lambda dy, x: silu_backward(dy.float(), x.float()),
            "The result is float32 whatever x is. A gradient has the dtype of its x: "
            "`.to(x.dtype)`.",
            DTYPE,
        ),
    ),
    (
        Property("each gradient alone", _dx_each_alone, STEEP),
        Property("dy multiplies", _dy_multiplies, STEEP),
        Property("flat on the left", _dx_far_left, STEEP),
        Property("slope 0.5 at zero", _dx_at_zero, STEEP),
        Property("slope 1 on the right", _dx_far_right, STEEP),
        Property("the product rule", _dx_product_rule, STEEP),
        Property("gradients at ±1000", _dx_far, WRITTEN),
    ),
    (
        "By the chain rule dx is dy times the slope of SiLU at x.",
        "SiLU is a product, so its slope has two terms: σ(x) times the slope of x, and x times the "
        "slope of σ(x).",
        "The slope of σ is σ·(1 − σ). With `s = torch.sigmoid(x)` the slope of SiLU is "
        "s + x·s·(1 − s).",
    ),
    5,
    STEEP,
)

EXERCISES = (SILU, SWISH, BACKWARD)
