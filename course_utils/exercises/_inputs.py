"""The inputs of the exercises: fixed, whatever torch's seed and default dtype are."""

import math

import torch


def draw(*shape, seed=0, dtype=torch.float32):
    """Numbers like random ones, of mean 0.7 and standard deviation near 1. seed: another draw.

    From a formula and not from a generator, so that every version of torch has the same ones.
    """
    steps = torch.arange(1, math.prod(shape) + 1, dtype=torch.float64)
    even = (steps * 0.6180339887498949 + seed * 0.3713) % 1  # spread evenly over 0 … 1
    return (torch.special.ndtri(even.clamp(0.01, 0.99)) + 0.7).view(shape).to(dtype)


def also_changed(f, x, at):
    """Which other results of f change when x[at] does: a mask over the axes that `at` goes along,
    for x of at least as many. What f returns has the same axes in front.
    """
    moved = x.clone()
    moved[at] += 10
    apart = (f(x) - f(moved)).abs().reshape(*x.shape[: len(at)], -1).amax(-1) > 1e-6
    apart[at] = False
    return apart


def spread(count):
    """A weight that is neither one nor constant: from −0.5 to 2."""
    return torch.linspace(-0.5, 2, count, dtype=torch.float64).float()
