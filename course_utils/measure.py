"""Pure measurements: numbers in, numbers out. No drawing, no printing."""

import functools
from typing import NamedTuple

import torch

from .packing import shard_down, shard_gate_up, swiglu_packed


def rms(x):
    """Root mean square over the last dimension, in float64. x: (..., D), returns (...)."""
    return x.double().square().mean(dim=-1).sqrt()


def with_rms(x, value):
    """Scale each vector of x to a root mean square of exactly `value`. x: (..., D), no zero row."""
    if not x.is_floating_point():
        raise TypeError(f"x must be a floating-point tensor, got {x.dtype}")
    if (rms(x) == 0).any():
        raise ValueError("x has a row of zeros, which no factor can scale")
    return (x.double() * (value / rms(x)).unsqueeze(-1)).to(x.dtype)


def relative_change(after, before):
    """‖after − before‖ / ‖before‖ over all elements, as a float: 0.5 is a change of 50 %."""
    if after.shape != before.shape:
        raise ValueError(f"after has shape {tuple(after.shape)}, before {tuple(before.shape)}")
    if not before.any():
        raise ValueError("before is zero: no change is relative to it")
    return ((after.double() - before.double()).norm() / before.double().norm()).item()


def expected_norm(mean_square, n, eps):
    """Length of rms_norm(x) for weight one: √n · √(m / (m + eps)).

    mean_square: m, the mean of x² over the n features, zero or more. n: features, 1 or more.
    eps: zero or more, and not zero together with m: the layer itself gives NaN there.
    Returns a float. Raises ValueError when one of these does not hold.
    """
    if not (mean_square >= 0 and eps >= 0 and n >= 1):
        raise ValueError(
            f"mean_square and eps must be zero or more and n at least 1, "
            f"got mean_square={mean_square}, n={n}, eps={eps}"
        )
    if mean_square + eps == 0:
        raise ValueError("mean_square and eps are both zero: 0/0 has no length")
    return float((n * mean_square / (mean_square + eps)) ** 0.5)


def plane_points():
    """Sixteen points on two rings of the plane, no two in one direction. Returns (16, 2)."""
    angle = torch.arange(16, dtype=torch.float32) * (2 * torch.pi / 16) + 0.1
    radius = torch.tensor([2.6, 0.9]).repeat(8)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)


def outcome(make, right, within=1e-5):
    """What comes of calling make() where the tensor `right` is wanted, in words.

    Returns "error" (a RuntimeError: sizes or dtypes that do not fit), "other shape",
    "other numbers" or "same numbers" (to `within`, relative to the largest of right).
    """
    try:
        made = make()
    except RuntimeError:
        return "error"
    if not isinstance(made, torch.Tensor):
        raise TypeError(f"make must return a tensor, got {type(made).__name__}")
    if made.shape != right.shape:
        return "other shape"
    gap = (made.double() - right.double()).abs().max() / (right.double().abs().max().item() or 1)
    return "same numbers" if gap <= within else "other numbers"


# --- 03


def without_upcast(x, eps=1e-6):
    """RMSNorm in x's own dtype all the way, the mistake of notebook 03. x: (..., D) and back."""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def precision_tokens(largest, dtype):
    """32 random tokens of 64 features, the largest |feature| of each `largest`. (32, 64)."""
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (largest * x / x.abs().amax(dim=-1, keepdim=True)).to(dtype)


# --- 04


def slope(function, x):
    """Autograd's derivative of an elementwise function at each number of x, in x's dtype."""
    x = x.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(x).sum(), x)
    return gradient


# --- 05


# --- 06


# --- 07


class PackedReading(NamedTuple):
    """How ranks read a packed weight of four units; g0 is unit 0's row of gate, u0 that of up."""

    stored: tuple  # the eight rows, in their order
    owner: tuple  # the rank that gets each of them
    read: tuple  # for each unit in turn, the row taken for its gate and the row taken for its up
    error: float  # ‖wrong − right‖ / ‖right‖ of the layer, all ranks added up


@functools.cache
def packed_reading(layout, cut, ranks):
    """Store four units, cut the rows for several ranks, read each part as [gate; up].

    layout: 0 for [gate; up], 1 for [up; gate], 2 for gate, up in turn. cut: 0 for contiguous
    blocks, 1 for a part of each half. ranks: 1, 2 or 4. Returns a PackedReading.
    """
    rows = torch.arange(8)  # 0 … 3 are gate's, 4 … 7 up's
    stored = (rows, rows.roll(4), rows.view(2, 4).T.flatten())[layout]
    parts = stored.chunk(ranks)
    if cut:
        parts = [shard_gate_up(stored.unsqueeze(1), r, ranks).flatten() for r in range(ranks)]
    read = torch.cat([part.view(2, -1).T for part in parts]).flatten()  # gate, up, gate, up, …
    g = torch.Generator().manual_seed(0)
    w = torch.randn(8, 64, generator=g, dtype=torch.float64) / 8  # (2·I, D)
    x, w_down = (torch.randn(n, m, generator=g).double() for n, m in ((256, 64), (64, 4)))
    right = swiglu_packed(x, w, w_down)
    wrong = sum(
        swiglu_packed(x, w[part], shard_down(w_down, r, ranks)) for r, part in enumerate(parts)
    )
    owner = {row: rank for rank, part in enumerate(parts) for row in part.tolist()}
    names = [f"{kind}{unit}" for kind in "gu" for unit in range(4)]
    return PackedReading(
        tuple(names[row] for row in stored.tolist()),
        tuple(owner[row] for row in stored.tolist()),
        tuple(names[row] for row in read.tolist()),
        relative_change(wrong, right),
    )


# --- 08


# --- 09
