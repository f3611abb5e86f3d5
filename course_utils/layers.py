"""The layers in their final form, in reading order: each uses only what stands above it."""

import numpy as np
import torch
from torch import nn

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def rms_norm(x, weight=None, eps=1e-6):
    """Divide each vector by its root mean square, then scale each feature.

        y = x / √(mean(x²) + eps) · weight

    x: (..., D), floating point; each vector of D features is normalised alone.
    weight: (D,), or None for ones. eps: a finite number, zero or more, in units of x².
    Returns a new tensor, (..., D). The statistic is taken in float32 (float64 for float64 input);
    the result is cast back to x's dtype *before* the weight multiplies it, as Llama does.
    Raises TypeError or ValueError, naming the argument, when one of these does not hold.
    Source: Zhang & Sennrich 2019, arXiv 1910.07467; the order of casts is Meta's `llama/model.py`.
    """
    _check_norm_arguments(x, eps, weight=weight)
    h = _upcast(x)
    mean_square = h.square().mean(dim=-1, keepdim=True)  # (..., 1)
    y = (h * torch.rsqrt(mean_square + eps)).to(x.dtype)  # (..., D)
    return y if weight is None else y * weight


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """Subtract each vector's mean, then do what rms_norm does, then shift each feature.

        y = RMSNorm(x − mean(x)) · weight + bias

    x: (..., D), floating point. weight, bias: (D,), or None for ones and zeros.
    eps: a finite number, zero or more, in units of x².
    Returns a new tensor, (..., D), of x's dtype.
    Raises TypeError or ValueError, naming the argument, when one of these does not hold.
    Source: Ba, Kiros & Hinton 2016, arXiv 1607.06450.
    """
    _check_norm_arguments(x, eps, weight=weight, bias=bias)
    h = _upcast(x)
    y = rms_norm(h - h.mean(dim=-1, keepdim=True), weight, eps)  # (..., D)
    return (y if bias is None else y + bias).to(x.dtype)


class RMSNorm(nn.Module):
    """`rms_norm` as a module: one learned number per feature, no bias.

    dim: the number of features D, 1 or more. eps: as in `rms_norm`.
    `weight`, (D,), starts at ones, so that a new layer is pure normalisation.
    """

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
            raise ValueError(f"dim must be a whole number of features, 1 or more, got {dim!r}")
        _check_eps(eps)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)  # (..., D)

    def extra_repr(self):
        return f"{self.weight.numel()}, eps={self.eps}"


def _upcast(x):
    """At least float32: squares overflow float16 from 256 on and lose digits in bfloat16."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _check_norm_arguments(x, eps, **parameters):
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x must be a torch tensor, got {type(x).__name__}")
    _check_dtype("x", x)
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"x must have at least one feature in its last dimension, got {_shape(x)}")
    _check_eps(eps)
    for name, p in parameters.items():
        if p is None:
            continue
        if not isinstance(p, torch.Tensor):
            raise TypeError(f"{name} must be a torch tensor or None, got {type(p).__name__}")
        _check_dtype(name, p)
        if p.shape != x.shape[-1:]:
            raise ValueError(
                f"{name} must have shape ({x.shape[-1]},), "
                f"one number per feature of x {_shape(x)}, got {_shape(p)}"
            )


def _check_dtype(name, tensor):
    if tensor.dtype not in FLOATS:
        raise TypeError(f"{name} must be float16, bfloat16, float32 or float64, got {tensor.dtype}")


def _check_eps(eps):
    if isinstance(eps, bool) or not isinstance(eps, int | float | np.integer | np.floating):
        raise TypeError(f"eps must be a number, got {type(eps).__name__}")
    if not 0 <= eps <= 1e30:  # so that NaN fails, and float32 holds it
        raise ValueError(f"eps must be finite and zero or more, got {eps}")


def _shape(x):
    return str(tuple(x.shape))
