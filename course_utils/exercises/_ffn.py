"""What every SwiGLU obeys, asked of several exercises. f: (x, w_gate, w_up, w_down) -> y."""

import math

import torch
import torch.nn.functional as F

from ..checker import Property
from ._inputs import also_changed, draw

LAYER = "05 How do units make a layer?"
NOTICE = "05 Would your test notice?"
FAMILY = "05 What if another function opens the gate?"


def weights(hidden_size, intermediate_size, seed=0):
    """(w_gate, w_up, w_down), stored (out, in). With x of size 1, gate and up have both signs."""
    shapes = ((intermediate_size, hidden_size),) * 2 + ((hidden_size, intermediate_size),)
    drawn = (draw(*shape, seed=3 * seed + i + 1) - 0.7 for i, shape in enumerate(shapes))
    return tuple(w * (0.5 + 0.25 * i) for i, w in enumerate(drawn))


def equal(a, b):
    """Whether two float64 results agree, up to rounding of what went before in float32."""
    return torch.allclose(a, b, rtol=1e-4, atol=1e-4 * b.abs().max().item() + 1e-12)


def _network():
    """x, w_gate, w_up, w_down in float64, of sizes that all differ."""
    return draw(2, 3, 5).double(), *(w.double() for w in weights(5, 7))


def _alone(f):
    x, *w = _network()
    y, again = f(x, *w), f(x, *w)
    if not torch.equal(y, again):
        return (
            f"Two calls with the same input differ by up to {(y - again).abs().max():.3g}. Is "
            "something drawn inside, a new layer at each call or a dropout? In a module `F.dropout`"
            " must be told `training=self.training`."
        )
    for at in ((1, 2), (0, 0)):  # the last token and the first
        others = also_changed(lambda x: f(x, *w), x, at)
        if others.any():
            return (
                f"When one token changes, {int(others.sum())} of the other 5 tokens change too. A "
                "feed-forward network reads each token by itself: look for an operation along the "
                "batch or the tokens, or for a `reshape` that mixes them."
            )
    return None


_FACTORS = (("of zeros", "be zero", 0), ("ten times as large", "grow tenfold", 10))
_FACTORS += (("with the sign turned", "turn its sign", -1),)


def _factor(name, at, why):
    """Whether the output is proportional to the weight of that name, argument number `at`."""

    def broken(f):
        given = _network()
        y = f(*given)
        if not y.any():
            return f"The output is zero, whatever the {name} weights are."
        for what, should, k in _FACTORS:
            off = (f(*given[:at], k * given[at], *given[at + 1 :]) - k * y).abs().max().item()
            largest = y.abs().max().item()
            if not off < 1e-4 * largest * max(1, k):  # NaN too
                rounding = off < 0.02 * largest * max(1, k)
                found = f"off by up to {off:.3g}, where its largest number was {largest:.3g}"
                return (
                    f"With {name} weights {what} the output should {should}, and is "
                    f"{'NaN' if math.isnan(off) else found}. "
                    f"{'That is rounding: something is in 16 bits.' if rounding else why}"
                )
        return None

    return broken


def _gate_shuts(f):
    x, g, u, d = _network()
    y, all_of_up = f(x, 0 * g, u, d), x @ u.T @ d.T
    if y.abs().max() < 1e-9:
        return None
    share = ((y * all_of_up).sum() / all_of_up.square().sum()).item()
    what = f"it has numbers up to {y.abs().max():.3g}"
    if equal(y, share * all_of_up):
        what = f"{share:.3g} of up comes through"
    return (
        f"With gate weights of zeros the output should be zero, but {what}. The factor of up is "
        "silu(gate), and silu(0) = 0·σ(0) is zero, unit by unit."
    )


def _units_add_up(f):
    x, g, u, d = _network()
    y = f(x, g, u, d)
    total = sum(f(x, g[i : i + 1], u[i : i + 1], d[:, i : i + 1]) for i in range(7))
    if equal(y, total):
        return None
    said = "The output of 7 units should be the sum of what each gives alone, and"
    factor = ((y * total).sum() / total.square().sum()).item()
    if equal(y, factor * total):
        return f"{said} is {factor:.4g} times that. The down projection adds them as they are."
    return (
        f"{said} is off by {(y - total).norm() / total.norm():.0%} of its length. Does something "
        "act across units, such as a softmax, a norm or a maximum, or are gate, up and down of one "
        "unit no longer together?"
    )


def one_unit(gate, up=1.0, dtype=torch.float64):
    """(x, w_gate, w_up, w_down): one token that gives one unit this gate and up. The output is
    (unit, 0).
    """
    x = torch.tensor([[[2.0, 4.0]]], dtype=dtype)
    w_gate, w_up = torch.tensor([[gate / 2, 0.0]]), torch.tensor([[0.0, up / 4]])
    return x, w_gate.to(dtype), w_up.to(dtype), torch.tensor([[1.0], [0.0]], dtype=dtype)


def _silu(f):
    gates = torch.tensor([-3.0, -1.0, 0.5, 2.0, 4.0, 30.0], dtype=torch.float64)
    yours, right = torch.stack([f(*one_unit(g))[0, 0, 0] for g in gates.tolist()]), F.silu(gates)
    if not equal(yours, right):
        at = ((yours - right).abs() / (0.1 + right.abs())).argmax()
        return (
            f"A unit with up 1 should give silu(gate), {right[at]:.3f} for gate {gates[at]:.3g}, "
            f"and yours gives {yours[at]:.3f}. Up is multiplied by gate · σ(gate), without a "
            "factor inside the σ, and by nothing else."
        ).replace("-", "−")
    for gate, want in ((-100.0, 0.0), (100.0, 100.0)):
        y = f(*one_unit(gate, dtype=torch.float32))[0, 0, 0].item()
        if not abs(y - want) < 0.1:
            return (
                f"In float32 a unit with up 1 and gate {gate:.0f} gives {y:.1f}, expected "
                f"{want:.0f}. exp(100) is larger than any float32: take `torch.sigmoid`, which "
                "does not overflow."
            ).replace("gate -", "gate −")
    return None


RULES = (
    Property("each token by itself", _alone, LAYER),
    Property(
        "down comes last",
        _factor("down", 3, "The down projection comes last, once; nothing acts on what it gives."),
        LAYER,
    ),
    Property("gate of zeros shuts", _gate_shuts, NOTICE),
    Property(
        "up is a factor",
        _factor(
            "up", 2, "Up multiplies silu(gate) as it is: nothing acts on it or is added to it."
        ),
        NOTICE,
    ),
    Property("units add up", _units_add_up, LAYER),
    Property("the gate goes through SiLU", _silu, FAMILY),
)


def overflowing_gradient(f):
    """What is worth saying of a right f(x, w_gate, w_up, w_down), or None."""
    x, *w = one_unit(-100.0, dtype=torch.float32)
    (slope,) = torch.autograd.grad(f(x.requires_grad_(), *w).sum(), x)
    if slope.isfinite().all():
        return None
    return (
        "One thing more: at gate −100 its *gradient* is NaN in float32, because exp(100) overflows "
        "on the way. With `torch.sigmoid` or `F.silu` it stays finite (notebook 04)."
    )
