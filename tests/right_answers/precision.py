"""Right answers to notebook 03's exercises, each written differently."""

import torch
import torch.nn.functional as F

from course_utils import rms_norm


def rms_norm_half__cast_then_weight(x, weight, eps):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return h.type_as(x) * weight


def rms_norm_half__weight_then_cast(x, weight, eps):
    h = x.to(torch.float32)
    scale = 1 / torch.sqrt((h**2).mean(dim=-1, keepdim=True) + eps)
    return (h * scale * weight.to(torch.float32)).to(x.dtype)


def rms_norm_half__torch(x, weight, eps):
    return F.rms_norm(x, weight.shape, weight, eps)


def rms_norm_half__torch_in_float32(x, weight, eps):
    return F.rms_norm(x.float(), [x.shape[-1]], weight.float(), eps).to(x)


def rms_norm_half__float64_inside(x, weight, eps):
    h = x.double()
    return (h / (h.square().mean(-1).unsqueeze(-1) + eps) ** 0.5 * weight).to(dtype=x.dtype)


def rms_norm_half__mean_with_a_dtype(x, weight, eps):
    mean_square = torch.mean(x.float() ** 2, dim=-1, keepdim=True, dtype=torch.float32)
    return (weight * (x / torch.sqrt(mean_square + eps))).to(x.dtype)


def rms_norm_half__length(x, weight, eps):
    n = x.shape[-1]
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    return ((x * (length**2 / n + eps) ** -0.5) * weight.float()).to(x.dtype)


def rms_norm_half__einsum(x, weight, eps):
    h, w = x.float(), weight.float()
    mean_square = torch.einsum("...d,...d->...", h, h) / h.shape[-1]
    return torch.einsum("...d,...,d->...d", h, (mean_square + eps).rsqrt(), w).to(x.dtype)


def rms_norm_half__by_token(x, weight, eps):
    y = torch.empty_like(x)
    for index in torch.cartesian_prod(*(torch.arange(n) for n in x.shape[:-1])).tolist():
        v = x[tuple(index)].float()
        y[tuple(index)] = v / (v.dot(v).item() / len(v) + eps) ** 0.5 * weight
    return y


def rms_norm_half__in_place_on_its_own(x, weight, eps):
    h = x.clone().float()
    h.mul_(h.square().mean(-1, keepdim=True).add_(eps).rsqrt_())
    return h.mul_(weight).to(x.dtype)


def rms_norm_half__scaled_with_its_eps(x, weight, eps):
    h = x.float()
    largest = h.abs().amax(-1, keepdim=True).clamp(min=1e-6)
    h = h / largest
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps / largest**2)
    return (h * weight.float()).to(x.dtype)


def gemma_norm__gemma(x, weight, eps):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    output = h * (1.0 + weight.float())
    return output.type_as(x)


def gemma_norm__brackets_out(x, weight, eps):
    h = x.float() / torch.sqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return (h + h * weight).to(x.dtype)


def gemma_norm__torch(x, weight, eps):
    return F.rms_norm(x.float(), weight.shape, 1 + weight.float(), eps).to(x.dtype)


def gemma_norm__ours(x, weight, eps):
    gain = torch.ones_like(weight, dtype=torch.float32) + weight
    return rms_norm(x.float(), gain, eps).to(x.dtype)


def gemma_norm__addcmul(x, weight, eps):
    h = x.to(torch.float32)
    h = h * (h.square().sum(-1, keepdim=True) / h.size(-1) + eps).rsqrt()
    return torch.addcmul(h, h, weight.to(torch.float32)).to(x.dtype)


def gemma_norm__float64_inside(x, weight, eps):
    h, w = x.double(), weight.double()
    return ((1 + w) * h / ((h * h).mean(-1, keepdim=True) + eps).sqrt()).to(x.dtype)


gemma_norm__lambda = lambda x, w, e: (  # noqa: E731
    (w.float() + 1) * (x.float() * (x.float().square().mean(-1, True) + e) ** -0.5)
).to(x.dtype)
