"""Right answers to notebook 02's exercises, each written differently."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from course_utils import rms_norm


def expected_norm__math(mean_square, n, eps):
    return math.sqrt(n) * math.sqrt(mean_square / (mean_square + eps))


def expected_norm__length_of_x_divided(mean_square, n, eps):
    length_of_x = (n * mean_square) ** 0.5
    return length_of_x / (mean_square + eps) ** 0.5


def expected_norm__all_times_n(mean_square, n, eps):
    return n * math.sqrt(mean_square) / math.sqrt(n * mean_square + n * eps)


expected_norm__lambda = lambda m, n, e: (n * m / (m + e)) ** (1 / 2)  # noqa: E731


def expected_norm__numpy(mean_square, n, eps):
    return np.sqrt(n) * np.sqrt(np.float64(mean_square) / (mean_square + eps))


def expected_norm__torch(mean_square, n, eps):
    m = torch.tensor(mean_square)
    return torch.sqrt(n * m / (m + eps))


def expected_norm__measured(mean_square, n, eps):
    x = torch.full((n,), mean_square**0.5, dtype=torch.float64)
    return rms_norm(x, eps=eps).norm().item()


def expected_norm__measured_in_float32(mean_square, n, eps):
    x = torch.full((n,), math.sqrt(mean_square))
    return float(rms_norm(x, eps=eps).norm())


def rms_norm_backward__autograd(dy, x, weight, eps):
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    F.rms_norm(x, x.shape[-1:], weight, eps).backward(dy)
    return x.grad, weight.grad


def rms_norm_backward__autograd_of_the_formula(dy, x, weight, eps):
    x, weight = (t.detach().clone().requires_grad_(True) for t in (x, weight))
    y = x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight
    return list(torch.autograd.grad(y, [x, weight], grad_outputs=dy))


def rms_norm_backward__powers(dy, x, weight, eps):
    n = x.size(-1)
    r = (x.pow(2).sum(-1, keepdim=True) / n + eps) ** -0.5
    g = weight * dy
    dx = r * g - r**3 * x * (g * x).sum(-1, keepdim=True) / n
    dw = torch.sum(dy * x * r, dim=tuple(range(x.dim() - 1)))
    return dx, dw


def rms_norm_backward__divisions(dy, x, weight, eps):
    mean_square = (x * x).mean(dim=-1)
    rms = torch.sqrt(mean_square.unsqueeze(-1) + eps)
    g = dy * weight
    along = torch.einsum("...d,...d->...", g, x) / x.shape[-1]
    dx = g / rms - x * along[..., None] / rms**3
    dweight = torch.einsum("...d,...d->d", dy, x / rms)
    return dx, dweight


def rms_norm_backward__one_fraction(dy, x, weight, eps):
    s = x.square().mean(-1, True) + eps
    g = dy.mul(weight)
    dx = (g * s - x * (g * x).mean(-1, True)) / s**1.5
    return (dx, (dy * x / s.sqrt()).flatten(0, -2).sum(0))


def rms_norm_backward__float64_inside(dy, x, weight, eps):
    d, h, w = dy.double(), x.double(), weight.double()
    r = 1 / torch.sqrt(torch.linalg.vector_norm(h, dim=-1, keepdim=True) ** 2 / h.shape[-1] + eps)
    y, g = h * r, d * w
    dx = (g - y * torch.mean(y * g, -1, keepdim=True)) * r
    dw = (d * y).sum_to_size(w.shape)
    return dx.to(x.dtype), dw.to(weight.dtype)


def rms_norm_backward__matrix_of_each_token(dy, x, weight, eps):
    D = x.shape[-1]
    dx, dweight = torch.zeros_like(x).reshape(-1, D), torch.zeros_like(weight)
    for i, (d, v) in enumerate(zip(dy.reshape(-1, D), x.reshape(-1, D), strict=True)):
        r = 1 / (v.dot(v) / D + eps).sqrt()
        jacobian = r * torch.eye(D, dtype=x.dtype) - r**3 / D * torch.outer(v, v)
        dx[i] = jacobian @ (d * weight)
        dweight += d * v * r
    return dx.view(x.shape), dweight


def rms_norm_backward__in_place_on_its_own(dy, x, weight, eps):
    r = x.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
    h = x * r
    dweight = dy.mul(h).reshape(-1, x.shape[-1]).sum(0)
    g = dy * weight
    g -= h.mul((g * h).mean(-1, keepdim=True))
    g *= r
    return g, dweight


def rms_norm_backward__two_axes(dy, x, weight, eps):
    B, T, D = x.shape
    r = 1 / torch.sqrt(torch.einsum("btd,btd->bt", x, x) / D + eps)
    g = dy * weight
    along = torch.einsum("btd,btd->bt", g, x)
    dx = r[..., None] * g - (r**3 * along / D)[:, :, None] * x
    return dx, torch.einsum("btd,btd,bt->d", dy, x, r)
