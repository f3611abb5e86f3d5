"""Right answers to notebook 01's exercises, each written differently."""

import torch
import torch.nn.functional as F
from torch import nn


def rms_norm__formula(x, weight, eps):
    return x / torch.sqrt((x**2).mean(-1, keepdim=True) + eps) * weight


def rms_norm__torch(x, weight, eps):
    return F.rms_norm(x, weight.shape, weight, eps)


def rms_norm__einsum(x, weight, eps):
    mean_square = torch.einsum("btd,btd->bt", x, x) / x.shape[2]
    return torch.einsum("btd,bt,d->btd", x, (mean_square + eps) ** -0.5, weight)


def rms_norm__length(x, weight, eps):
    n = x.size(-1)
    return (
        x * (n / (torch.linalg.vector_norm(x, dim=2, keepdim=True) ** 2 + n * eps)).sqrt() * weight
    )


def rms_norm__float64_inside(x, weight, eps):
    h = x.double()
    h = h / (h.pow(2).mean(dim=-1).unsqueeze(-1) + eps).sqrt()
    return (h * weight.double()).to(x.dtype)


def rms_norm__float32_inside(x, weight, eps):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).type_as(x) * weight


def rms_norm__in_place_on_its_own(x, weight, eps):
    y = x.clone()
    scale = y.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
    return y.mul(scale).mul_(weight)


def rms_norm__loop(x, weight, eps):
    B, T, D = x.shape
    rows = []
    for b in range(B):
        for t in range(T):
            total = sum(x[b, t, d] * x[b, t, d] for d in range(D))
            rows.append(weight * x[b, t] / (total / D + eps) ** 0.5)
    return torch.stack(rows).view(B, T, D)


rms_norm__lambda = lambda x, w, e: w * (x / (x.mul(x).sum(-1)[..., None] / x.shape[-1] + e).sqrt())  # noqa: E731


def layer_norm__torch(x, weight, bias, eps):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def layer_norm__var(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt() * weight + bias


def layer_norm__by_rms_norm(x, weight, bias, eps):
    from course_utils import rms_norm

    return rms_norm(x - x.mean(dim=-1, keepdim=True), weight, eps) + bias


def layer_norm__two_moments(x, weight, bias, eps):
    mean, square = x.mean(-1, True), x.pow(2).mean(-1, True)
    return torch.addcmul(bias, (x - mean) * torch.rsqrt(square - mean**2 + eps), weight)


class rms_norm_module__forward_by_hand(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.variance_epsilon = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


class rms_norm_module__torch(nn.RMSNorm):
    pass


class rms_norm_module__registered(nn.Module):
    def __init__(self, dim: int, eps: float):
        nn.Module.__init__(self)
        self.register_parameter("weight", nn.Parameter(torch.empty(dim)))
        nn.init.ones_(self.weight)
        self.kept = {"eps": eps}

    def forward(self, hidden_states):
        return F.rms_norm(hidden_states, self.weight.shape, self.weight, self.kept["eps"])
