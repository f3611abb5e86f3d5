"""Right answers to notebook 05's exercises, each written differently."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def swiglu_ffn__formula(x, w_gate, w_up, w_down):
    gate = x @ w_gate.T
    up = x @ w_up.T
    return (gate * torch.sigmoid(gate) * up) @ w_down.T


def swiglu_ffn__linear(x, w1, w3, w2):
    return F.linear(F.silu(F.linear(x, w1)) * F.linear(x, w3), w2)


def swiglu_ffn__einsum(x, w_gate, w_up, w_down):
    gate = torch.einsum("btd,id->bti", x, w_gate)
    up = torch.einsum("btd,id->bti", x, w_up)
    return torch.einsum("bti,bti,di->btd", F.silu(gate), up, w_down)


def swiglu_ffn__one_product(x, w_gate, w_up, w_down):
    gate, up = torch.matmul(x, torch.cat((w_gate, w_up)).mT).chunk(2, dim=-1)
    return torch.matmul(nn.SiLU()(gate).mul(up), w_down.transpose(0, 1))


def swiglu_ffn__columns(x, w_gate, w_up, w_down):
    """The other way round: tokens as columns, as on paper."""
    tokens = x.flatten(0, 1).T
    hidden = F.silu(w_gate @ tokens) * (w_up @ tokens)
    return (w_down @ hidden).T.view_as(x)


def swiglu_ffn__token_by_token(x, w_gate, w_up, w_down):
    y = []
    for token in x.view(-1, x.size(-1)):
        g, u = w_gate.mv(token), w_up.mv(token)
        y.append(w_down.mv(u * g / (1 + (-g).exp())))
    return torch.stack(y).reshape(x.shape)


def swiglu_ffn__unit_by_unit(x, w_gate, w_up, w_down):
    out = 0
    for i in range(len(w_gate)):
        g = (x * w_gate[i]).sum(-1, keepdim=True)
        u = (x * w_up[i]).sum(-1, keepdim=True)
        out = out + F.silu(g) * u * w_down[:, i]
    return out


def swiglu_ffn__float64_inside(x, w_gate, w_up, w_down):
    h, wg, wu, wd = x.double(), w_gate.double(), w_up.double(), w_down.double()
    return ((0.5 * (h @ wg.T) * (1 + torch.tanh((h @ wg.T) / 2)) * (h @ wu.T)) @ wd.T).to(x.dtype)


def swiglu_ffn__in_place_on_its_own(x, w_gate, w_up, w_down):
    hidden = F.silu(x @ w_gate.t(), inplace=True)
    hidden = hidden * (x @ w_up.t())
    y = torch.zeros_like(x)
    y += hidden @ w_down.t()
    return y


swiglu_ffn__lambda = lambda x, g, u, d: F.linear(F.linear(x, u) * F.silu(x @ g.T), d)


class swiglu_module__as_in_llama(nn.Module):
    def __init__(self, hidden_size: int, intermediate_size: int):
        super().__init__()
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.gate_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.up_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.down_proj = nn.Linear(self.intermediate_size, self.hidden_size, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return down_proj


class swiglu_module__other_order(nn.Module):
    """Defined in another order, weights drawn small, and used by hand."""

    def __init__(self, dim, hidden, scale=0.02):
        nn.Module.__init__(self)
        self.down_proj = nn.Linear(hidden, dim, bias=False)
        self.up_proj, self.gate_proj = (nn.Linear(dim, hidden, False) for _ in range(2))
        for p in self.parameters():
            nn.init.normal_(p, std=scale)

    def forward(self, x):
        g = x @ self.gate_proj.weight.T
        return (torch.sigmoid(g) * g * (x @ self.up_proj.weight.T)) @ self.down_proj.weight.T


class swiglu_module__in_place_and_checkpointed(nn.Module):
    """Writes into its own gate, and computes the layer once more on the way back."""

    def __init__(self, hidden_size, intermediate_size):
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def _layer(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(F.silu(gate, inplace=True) * self.up_proj(x))

    def forward(self, x):
        return checkpoint(self._layer, x, use_reentrant=False)


class _Projection(nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size_out, size_in).uniform_(-0.1, 0.1))

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class swiglu_module__own_projections(nn.Module):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__()
        self.gate_proj = _Projection(hidden_size, intermediate_size)
        self.up_proj = _Projection(hidden_size, intermediate_size)
        self.down_proj = _Projection(intermediate_size, hidden_size)

    def forward(self, x):
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(torch.mul(up, F.silu(gate)))


def swiglu_backward__formula(dy, gate, up):
    sig = 1 / (1 + torch.exp(-gate))
    return dy * up * (sig + gate * sig * (1 - sig)), dy * (gate * sig)


def swiglu_backward__from_silu(dy, gate, up):
    """The slope by way of the value: silu′ = silu + σ·(1 − silu)."""
    s = F.silu(gate)
    slope = s + torch.sigmoid(gate) * (1 - s)
    return (dy * slope).mul(up), s * dy


def swiglu_backward__autograd(dy, gate, up):
    gate, up = gate.detach().requires_grad_(), up.detach().requires_grad_()
    return torch.autograd.grad(F.silu(gate) * up, (gate, up), dy)


def swiglu_backward__vjp(dy, gate, up):
    _, back = torch.func.vjp(lambda g, u: g.sigmoid() * g * u, gate, up)
    return list(back(dy))


def swiglu_backward__tanh_in_float64(dy, gate, up):
    g, u, d = gate.double(), up.double(), dy.double()
    t = torch.tanh(g / 2)
    dgate = d * u * (1 + t) / 2 * (1 + g * (1 - t) / 2)
    return dgate.to(gate.dtype), (d * g * (1 + t) / 2).to(up.dtype)


def swiglu_backward__in_place_on_its_own(dy, gate, up):
    s = gate.sigmoid()
    slope = (1 - s).mul_(gate).add_(1).mul_(s)
    dgate = dy.clone()
    dgate *= up
    dgate *= slope
    return dgate, s.mul_(gate).mul_(dy)
