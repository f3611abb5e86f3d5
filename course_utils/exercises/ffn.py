"""Notebook 05's exercises: SwiGLU as a function, as a module, and the way back through its unit."""

import torch
import torch.nn.functional as F
from torch import nn

from ..catalogue import exercise
from ..checker import Case, Property
from ..layers import gated_ffn, rms_norm, silu, swish  # noqa: F401  for the catalogue's code
from ._ffn import LAYER, RULES, equal, overflowing_gradient, weights
from ._inputs import also_changed, draw

LEARN = "05 Which matrices learn?"

_x = draw(2, 3, 5)
FFN = exercise(
    "swiglu_ffn",
    globals(),
    cases=(
        Case((_x, *weights(5, 7)), grad=True),
        Case((draw(4, 4, 4), *weights(4, 4)), "all axes of one size, D = I"),
        Case((60 * _x, *weights(5, 7)), "gates beyond ±100"),
        Case((0.01 * _x, *weights(5, 7)), "gates near zero"),
        Case((draw(1, 5, 6, seed=1), *weights(6, 3, seed=1)), "fewer units than features"),
        Case((_x.double(), *(w.double() for w in weights(5, 7))), "float64"),
    ),
    properties=RULES,
    remark=overflowing_gradient,
)


# --- swiglu_module

ALL_LEARN = "down_proj.weight, gate_proj.weight, up_proj.weight"


def _module(answer, hidden_size, intermediate_size):
    """Build a layer and look at it: what it holds, and what it returns with set weights.

    When it holds something else than asked, that is all there is to say: what it returns follows
    from it, and is taken to be right.
    """
    layer = answer(hidden_size, intermediate_size)
    if not isinstance(layer, nn.Module):
        raise TypeError(f"it is no module, write class {answer.__name__}(nn.Module)")
    held, x, w = _held(layer), draw(2, 3, hidden_size), weights(hidden_size, intermediate_size)
    if held != ", ".join(_asked_for(hidden_size, intermediate_size)):
        return held, gated_ffn(x, *w), gated_ffn(60 * x, *w), ALL_LEARN, True
    _set(layer, *w)
    y = layer(x)
    return held, y, layer(60 * x), _learning(layer, y), _steady(layer, x)


def _steady(layer, x):
    """Whether two calls agree while the layer trains, as they do without dropout."""
    first, second = layer.train()(x), layer(x)
    return not torch.is_tensor(first) or torch.equal(first, second)


def _learning(layer, y):
    """Which weights a gradient of the output reaches, in words."""
    if not torch.is_tensor(y) or not y.requires_grad:
        return "none"
    names, held = zip(*sorted(layer.named_parameters()), strict=True)
    slopes = torch.autograd.grad(y.sum(), held, allow_unused=True, retain_graph=True)
    return ", ".join(n for n, s in zip(names, slopes, strict=True) if s is not None) or "none"


def _set(layer, w_gate, w_up, w_down):
    """Give a layer its weights, for evaluation."""
    layer.eval()
    with torch.no_grad():
        layer.gate_proj.weight.copy_(w_gate)
        layer.up_proj.weight.copy_(w_up)
        layer.down_proj.weight.copy_(w_down)


def _held(layer):
    """The parameters in words; two names of one parameter are joined by =."""
    names = {}
    for name, p in sorted(layer.named_parameters(remove_duplicate=False)):
        names.setdefault(p, []).append(name)
    said = (
        f"{' = '.join(n)} {tuple(p.shape)}{'' if p.requires_grad else ' frozen'}"
        for p, n in names.items()
    )
    return ", ".join(said) or "none"


def _asked_for(d, i):
    return f"down_proj.weight {(d, i)}", f"gate_proj.weight {(i, d)}", f"up_proj.weight {(i, d)}"


def _of_module(f):
    def ffn(x, *w):
        layer = f.answer(*w[2].shape).to(x.dtype)
        _set(layer, *w)
        return layer(x)

    return ffn


def _module_parameters(f):
    held, asked = f(5, 7)[0], ", ".join(_asked_for(5, 7))
    if held == asked:
        return None
    return (
        f"With hidden_size 5 and intermediate_size 7 the layer should hold {asked}, and nothing "
        f"else. Yours holds: {held}. Each is an `nn.Linear(in, out, bias=False)` of its own, which "
        "keeps its weight as (out, in), and is assigned to `self` by that name."
    )


def _module_learns(f):
    learning = f(5, 7)[3]
    if learning == ALL_LEARN:
        return None
    return (
        f"What has a part in the output should learn from it, and a gradient reaches {learning} "
        "and nothing else. Something like `.detach()`, `.data` or `torch.no_grad()` cuts it, or a "
        "weight is not used."
    )


def _module_steady(f):
    if _steady(f.answer(5, 7), _x):
        return None
    return "While it trains, two calls differ: there is dropout inside. Llama's layer has none."


MODULE = exercise(
    "swiglu_module",
    globals(),
    cases=(Case((5, 7)), Case((4, 4), "D = I"), Case((6, 3), "fewer units than features")),
    properties=(
        Property(
            "three matrices by name", _module_parameters, "05 Which of w1, w2, w3 is the last?"
        ),
        Property("steady in training", _module_steady, LAYER),
        *(rule.of(_of_module) for rule in RULES),
        Property("every weight learns", _module_learns, LEARN),
    ),
    parts=(
        "the list of parameters",
        "the output",
        "the output for a large x",
        "the learning weights",
        "whether two calls agree while it trains",
    ),
    call=_module,
    remark=lambda f: overflowing_gradient(_of_module(f)),
)


# --- swiglu_backward

SLOPE = "04 How steep is it?"


def _units(*shape, size=1.0):
    return tuple(size * (draw(*shape, seed=seed) - 0.4) for seed in (4, 5, 6))


def _probe():
    return tuple(t.double() for t in _units(2, 3, 4))


def _numbers_alone(f):
    dy, gate, up = _probe()
    for part, name in enumerate(("dgate", "dup")):
        others = also_changed(lambda gate, part=part: f(dy, gate, up)[part], gate, (1, 2, 3))
        if others.any():
            return (
                f"When one gate changes, {int(others.sum())} of the other 23 numbers of `{name}` "
                "change too. Each unit of each token stands alone: nothing is summed or averaged."
            )
    return None


def _factors(f):
    """dy is a factor of both gradients, and up of dgate alone."""
    dy, gate, up = _probe()
    (dgate, dup), of_dy, of_up = f(dy, gate, up), f(2 * dy, gate, up), f(dy, gate, 2 * up)
    for name, which, once, twice, right, why in (
        ("dgate", "`dy`", dgate, of_dy[0], 2, "The chain rule multiplies it by `dy`, once."),
        ("dup", "`dy`", dup, of_dy[1], 2, "The chain rule multiplies it by `dy`, once."),
        ("dgate", "up", dgate, of_up[0], 2, "With up zero the gate has no effect."),
        ("dup", "up", dup, of_up[1], 1, "The unit is silu(gate) · up, straight in up."),
    ):
        if not equal(twice, right * once):
            should = "double" if right == 2 else "stay as it is"
            return (
                f"With twice {which}, `{name}` should {should}. Its length changes by the factor "
                f"{twice.norm() / once.norm():.3g}. {why}"
            )
    return None


def _multiplies(part, said, right, formula):
    """Whether the right function of the gate multiplies dy · up in dgate, or dy in dup."""
    gates = torch.tensor([-3.0, -1.0, 0.5, 2.0, 4.0], dtype=torch.float64)

    def broken(f):
        dy, up = torch.full_like(gates, 3.0), torch.full_like(gates, 2.0)
        yours, want = f(dy, gates, up)[part] / (dy if part else dy * up), right(gates)
        if equal(yours, want):
            return None
        return (
            f"{said}, which is {want[3]:.3f} at gate 2 and {want[1]:.3f} at gate −1. Yours has "
            f"{yours[3]:.3f} and {yours[1]:.3f}. It is {formula}."
        ).replace("-", "−")

    return broken


def _far_out(f):
    gates = torch.tensor([-100.0, 100.0])
    one = torch.ones_like(gates)
    if all(part.isfinite().all() for part in f(one, gates, one)):
        return None
    return (
        "For gates of −100 and 100 something is inf or NaN in float32. exp(100) is larger than any "
        "float32: take `torch.sigmoid`, which does not overflow."
    )


BACKWARD = exercise(
    "swiglu_backward",
    globals(),
    cases=(
        Case(_units(2, 3, 5)),
        Case(_units(3, 3, 3), "all axes of one size"),
        Case((*_units(2, 2, 3)[:2], torch.zeros(2, 2, 3)), "up of zeros"),
        Case(_units(1, 2, 4, size=50.0), "gates of ±100"),
        Case(_probe(), "float64"),
    ),
    properties=(
        Property("each number alone", _numbers_alone, LEARN),
        Property("dy is a factor of both, up of dgate", _factors, LEARN),
        Property(
            "dup has silu(gate)",
            _multiplies(1, "`dup` should be dy times silu(gate)", F.silu, "gate · σ(gate)"),
            LEARN,
        ),
        Property(
            "dgate has the slope of SiLU",
            _multiplies(
                0,
                "`dgate` should be dy · up times the slope of SiLU",
                lambda g: torch.sigmoid(g) * (1 + g * (1 - torch.sigmoid(g))),
                "σ(g) · (1 + g · (1 − σ(g)))",
            ),
            SLOPE,
        ),
        Property("no overflow on the way back", _far_out, "04 Does it matter how it is written?"),
    ),
    parts=("dgate", "dup"),
)

EXERCISES = (FFN, MODULE, BACKWARD)
