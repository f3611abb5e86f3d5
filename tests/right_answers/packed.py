"""Right answers to notebook 07's exercises, each written differently."""

import torch
import torch.nn.functional as F


def swiglu_packed__as_in_phi3(x, w_gate_up, w_down):
    up_states = F.linear(x, w_gate_up)
    gate, up_states = up_states.chunk(2, dim=-1)
    up_states = up_states * F.silu(gate)
    return F.linear(up_states, w_down)


def swiglu_packed__split(x, w_gate_up, w_down):
    size = w_down.size(1)
    gate, up = torch.split(x @ w_gate_up.T, size, dim=2)
    return torch.matmul(gate * gate.sigmoid() * up, w_down.T)


def swiglu_packed__unflatten(x, w_gate_up, w_down):
    gate, up = (x @ w_gate_up.T).unflatten(-1, (2, -1)).unbind(-2)
    return (F.silu(gate) * up) @ w_down.T


def swiglu_packed__view(x, w_gate_up, w_down):
    B, T, _ = x.shape
    both = (x @ w_gate_up.T).view(B, T, 2, -1)
    return (F.silu(both[:, :, 0]) * both[:, :, 1]) @ w_down.T


def swiglu_packed__weights_apart(x, w_gate_up, w_down):
    half = w_gate_up.shape[0] // 2
    gate = torch.einsum("btd,id->bti", x, w_gate_up[:half])
    up = torch.einsum("btd,id->bti", x, w_gate_up[half:])
    return torch.einsum("bti,di->btd", F.silu(gate) * up, w_down)


def swiglu_packed__three_axes_of_weights(x, w_gate_up, w_down):
    gate, up = torch.einsum("btd,kid->kbti", x, w_gate_up.view(2, -1, x.shape[-1]))
    return F.silu(gate).mul(up).matmul(w_down.t())


def swiglu_packed__in_place_on_a_piece(x, w_gate_up, w_down):
    """Of its own temporary: right, as long as no gradient is asked for."""
    gate_up = x @ w_gate_up.T
    gate, up = gate_up.chunk(2, -1)
    F.silu(gate, inplace=True)
    gate *= up
    return gate @ w_down.T


def swiglu_packed__in_place_on_its_own(x, w_gate_up, w_down):
    gate, up = (x @ w_gate_up.T).chunk(2, dim=-1)
    hidden = F.silu(gate)
    hidden *= up
    return hidden @ w_down.T


def swiglu_packed__glu(x, w_gate_up, w_down):
    """F.glu(a, b) is a·σ(b): with gate behind, and the gate once more."""
    gate, up = (x.double() @ w_gate_up.double().T).tensor_split(2, dim=-1)
    hidden = F.glu(torch.cat([up, gate], dim=-1), dim=-1) * gate
    return (hidden @ w_down.double().T).to(x.dtype)


swiglu_packed__lambda = lambda x, w, d: (
    (F.silu(x @ w[: len(w) // 2].T) * (x @ w[len(w) // 2 :].T)) @ d.T
)


def fuse_gate_up__cat(w_gate, w_up):
    return torch.cat((w_gate, w_up), dim=0)


def fuse_gate_up__vstack(w_gate, w_up):
    return torch.vstack([w_gate, w_up])


def fuse_gate_up__stack(w_gate, w_up):
    return torch.stack([w_gate, w_up]).view(-1, w_gate.shape[1])


def fuse_gate_up__filled(w_gate, w_up):
    rows, columns = w_gate.shape
    fused = w_gate.new_empty(2 * rows, columns)
    fused[:rows] = w_gate
    fused[rows:] = w_up
    return fused


fuse_gate_up__transposed = lambda g, u: torch.cat([g.T, u.T], 1).T


def shard_gate_up__chunks(w_gate_up, rank, world_size):
    gate, up = w_gate_up.chunk(2)
    return torch.cat([gate.chunk(world_size)[rank], up.chunk(world_size)[rank]])


def shard_gate_up__slices(w_gate_up, rank, world_size):
    I = w_gate_up.shape[0] // 2
    n = I // world_size
    start, end = rank * n, (rank + 1) * n
    return torch.vstack((w_gate_up[start:end], w_gate_up[I + start : I + end]))


def shard_gate_up__view(w_gate_up, rank, world_size):
    D = w_gate_up.size(1)
    return w_gate_up.view(2, world_size, -1, D)[:, rank].reshape(-1, D)


def shard_gate_up__unflatten(w_gate_up, rank, world_size):
    return w_gate_up.unflatten(0, (2, world_size, -1)).select(1, rank).flatten(0, 1)


def shard_gate_up__indices(w_gate_up, rank, world_size):
    units = len(w_gate_up) // 2
    mine = [i for i in range(units) if i // (units // world_size) == rank]
    return w_gate_up[mine + [units + i for i in mine]]


def shard_gate_up__masks(w_gate_up, rank, world_size):
    unit = torch.arange(len(w_gate_up)) % (len(w_gate_up) // 2)
    return w_gate_up[unit.div(len(w_gate_up) / 2 / world_size, rounding_mode="floor") == rank]


def shard_gate_up__narrow(w_gate_up, rank, world_size):
    halves = w_gate_up.split(len(w_gate_up) // 2)
    n = len(halves[0]) // world_size
    return torch.cat([half.narrow(0, rank * n, n) for half in halves])
