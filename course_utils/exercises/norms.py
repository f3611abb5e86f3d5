"""Notebook 01's exercises: RMSNorm and LayerNorm as functions, RMSNorm as a module."""

import torch
import torch.nn.functional as F  # noqa: F401  for the catalogue's code
from torch import nn

from .. import layers
from ..catalogue import exercise
from ..checker import Case, Property
from ._inputs import draw, spread
from ._norms import RULES

WEIGHT = "01 What is `weight` for?"


def _with_zeros(x):
    x[0, 1] = 0
    return x


_x, _w = draw(2, 3, 5), spread(5)
RMS_NORM = exercise(
    "rms_norm",
    globals(),
    cases=(
        Case((_x, _w, 1e-6), grad=True),
        Case((draw(4, 4, 4), spread(4), 1e-6), "all axes of one size"),
        Case((1e-3 * draw(1, 2, 6), spread(6), 1e-2), "a tiny x beside a large eps"),
        Case((_with_zeros(draw(2, 3, 5)), _w, 1e-6), "one token of zeros"),
        Case(
            (torch.tensor([[[2.0] * 4, [1.0, -1.0, 1.0, -1.0]]]), spread(4), 1e-3), "simple tokens"
        ),
        Case((draw(2, 3, 5, dtype=torch.float64), spread(5).double(), 1e-5), "float64"),
    ),
    properties=RULES,
)


# --- layer_norm

_b = torch.tensor([0.5, -1.0, 0.25, 2.0, -0.5])


def _shift_free(f):
    x, one, zero = draw(2, 3, 5), torch.ones(5), torch.zeros(5)
    gap = (f(x + 3, one, zero, 1e-6) - f(x, one, zero, 1e-6)).abs().max().item()
    if gap > 1e-3:
        return (
            f"When 3 is added to every feature, the output moves by up to {gap:.3g}, and should "
            "stay. Subtract each token's mean, and take the statistic of what is left."
        )
    return None


def _only_bias(f):
    x, zero = draw(2, 3, 5), torch.zeros(5)
    if torch.allclose(f(x, zero, _b, 1e-6), _b.expand_as(x), atol=1e-4):
        return None
    return (
        "With a weight of zeros the bias alone should be left, and is not. The weight multiplies "
        "all of (x − mean)/√(variance + eps), then the bias is added: mind the brackets."
    )


def _spread_one(f):
    y = f(draw(1, 3, 6), torch.ones(6), torch.zeros(6), 0.0)
    mean, std = y.mean(-1).abs().max().item(), y.std(-1, correction=0).mean().item()
    if mean < 1e-3 and abs(std - 1) < 1e-3:
        return None
    return (
        "With weight 1, bias 0 and eps 0 an output should have mean 0 and standard deviation 1. "
        f"For n = 6 its mean is up to {mean:.3g}, and its standard deviation {std:.4g}. Divide by "
        "the root of the mean of (x − mean)²: squares, over n, of all features."
    )


def _of_layer_norm(f):
    """Without its bias, and of tokens whose mean is zero, it is an RMSNorm."""
    return lambda x, w, eps: f(x, w, torch.zeros_like(w), eps)


_SHARED = ("each token alone", "the size goes", "the weight once, after the statistic")
_SHARED += ("zeros stay zero", "eps under the root")
LAYER_NORM = exercise(
    "layer_norm",
    globals(),
    cases=(
        Case((_x, _w, _b, 1e-5), grad=True),
        Case((draw(4, 4, 4), spread(4), _b[:4], 1e-5), "all axes of one size"),
        Case((1e-3 * draw(1, 2, 5), _w, _b, 1e-2), "a tiny x beside a large eps"),
        Case((torch.full((1, 2, 5), 3.0), _w, _b, 1e-5), "equal features"),
        Case((draw(2, 3, 5, dtype=torch.float64), _w.double(), _b.double(), 1e-5), "float64"),
    ),
    properties=(
        Property("weight zero leaves the bias", _only_bias, WEIGHT),
        Property("no shift is seen", _shift_free, "01 Which one notices a shift?"),
        Property("mean zero, spread one", _spread_one, "01 What does LayerNorm do besides?"),
        *(rule.of(_of_layer_norm) for rule in RULES if rule.name in _SHARED),
    ),
)


# --- rms_norm_module


def _module(answer, dim, eps):
    """Build a layer and look at it: its parameters, what it returns new, what with weights set, and
    what goes back through it.
    """
    layer = answer(dim, eps)
    if not isinstance(layer, nn.Module):
        raise TypeError(f"it is no module, write class {answer.__name__}(nn.Module)")
    x = 1e-3 * draw(2, 3, dim)
    new = layer(x)
    held = [f"{n} {tuple(p.shape)}{frozen(p)}" for n, p in layer.named_parameters()]
    held += [f"{n} {tuple(b.shape)} (a buffer)" for n, b in layer.named_buffers()]
    held = ", ".join(held) or "none"
    if new is None:
        return held, new, new, new, new, False
    weight = getattr(layer, "weight", None)
    if torch.is_tensor(weight):
        with torch.no_grad():
            weight.copy_(spread(dim))
    long = (1e-3 * draw(1, 7, dim)).requires_grad_()
    y = layer(long.clone())  # not the leaf itself, into which nobody may write
    learns = torch.is_tensor(weight) and weight.requires_grad
    sources = [long, weight] if learns else [long]
    loss = (y * draw(1, 7, dim, seed=1)).sum() + 0 * long.sum()
    back = torch.autograd.grad(loss, sources, allow_unused=True)
    return held, new, layer(x), y, back[0], back[-1] is not None


def frozen(parameter):
    """A word to put behind the shape of a parameter that does not learn."""
    return "" if parameter.requires_grad else " frozen"


def _apply(answer, x, weight, eps):
    layer = answer(x.shape[-1], eps).to(x.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
    return layer(x)


def _module_parameters(f):
    held = f(6, 1e-6)[0]
    if held == "weight (6,)":
        return None
    return (
        "RMSNorm learns one thing, `weight`, of shape (dim,): an `nn.Parameter`, set in "
        f"`__init__`. Yours, with dim 6, holds: {held}."
    )


def _module_start(f):
    ratio = f(6, 1e-6)[1] / layers.rms_norm(1e-3 * draw(2, 3, 6), None, 1e-6)
    if (ratio - 1).abs().max() < 1e-3:
        return None
    return (
        "A new layer should be pure normalisation, with `weight` all ones. What yours returns is "
        f"from {ratio.min():.3g} to {ratio.max():.3g} times that: at what does `weight` start?"
    )


def _module_gradient(f):
    *_, of_x, learns = f(6, 1e-6)
    if not of_x.any():
        return (
            "No gradient goes back through the layer: leave out `torch.no_grad()` and `.detach()`."
        )
    return None if learns else "The weight gets no gradient: use `self.weight` itself, no copy."


MODULE = exercise(
    "rms_norm_module",
    globals(),
    cases=(Case((6, 1e-5)), Case((4, 1e-6))),
    properties=(
        Property("one parameter", _module_parameters, WEIGHT),
        *(rule.of(lambda f: lambda x, w, eps: _apply(f.answer, x, w, eps)) for rule in RULES),
        Property("starts as pure normalisation", _module_start, WEIGHT),
        Property("the gradient goes back", _module_gradient, WEIGHT),
    ),
    parts=(
        "the list of parameters",
        "the new layer's output",
        "the output",
        "a longer output",
        "the gradient of x",
        "whether the weight learns",
    ),
    call=_module,
)

EXERCISES = (RMS_NORM, LAYER_NORM, MODULE)
