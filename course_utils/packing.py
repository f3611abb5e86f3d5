"""gate and up in one weight: fuse, split, cut it for several ranks, and rename checkpoints.

Weights are stored (out, in), as nn.Linear does. Packed means rows [gate; up]: (2·I, D).
"""

import re

import torch

from .layers import silu

NAMINGS = {
    "meta": ("w1", "w2", "w3"),
    "hf": ("gate_proj", "up_proj", "down_proj"),
    "fused": ("gate_up_proj", "down_proj"),
}
_ROLES = {"w1": "gate", "gate_proj": "gate", "w3": "up", "up_proj": "up"}
_ROLES |= {"w2": "down", "down_proj": "down", "gate_up_proj": "gate_up"}
_KEY = re.compile(r"(?P<prefix>(?:.*\.)?)(?P<name>" + "|".join(_ROLES) + r")\.(?P<what>.+)")


def swiglu_packed(x, w_gate_up, w_down):
    """SwiGLU from packed weights: down(silu(gate) ⊙ up).

    x: (..., D). w_gate_up: (2·I, D), rows [gate; up]. w_down: (D, I). Returns (..., D).
    """
    gate, up = (x @ w_gate_up.T).chunk(2, dim=-1)  # (..., I) each
    return (silu(gate) * up) @ w_down.T  # (..., D)


def fuse_gate_up(w_gate, w_up):
    """Put up's rows below gate's. w_gate, w_up: (I, D), of one dtype. Returns a new (2·I, D).

    Raises ValueError when the shapes or dtypes differ: nothing is broadcast or rounded.
    """
    _check_matrix("w_gate", w_gate)
    _check_matrix("w_up", w_up)
    if w_up.shape != w_gate.shape or w_up.dtype != w_gate.dtype:
        raise ValueError(
            f"w_up must be {_said(w_gate)}, as w_gate is, got {_said(w_up)}: "
            "each hidden unit has one row in both"
        )
    return torch.cat([w_gate, w_up])  # (2·I, D)


def split_gate_up(w_gate_up):
    """The halves (w_gate, w_up), each (I, D), of a packed weight (2·I, D). They are views of it."""
    _check_matrix("w_gate_up", w_gate_up)
    if not len(w_gate_up) or len(w_gate_up) % 2:
        raise ValueError(f"w_gate_up must have an even number of rows, 2·I, got {len(w_gate_up)}")
    w_gate, w_up = w_gate_up.split(len(w_gate_up) // 2)
    return w_gate, w_up


def shard_gate_up(w_gate_up, rank, world_size):
    """What one rank holds of a packed weight: its part of gate *and* its part of up.

    w_gate_up: (2·I, D). rank: 0 … world_size − 1. world_size: a divisor of I.
    Returns a new (2·I/world_size, D), packed again, so that the same forward reads it.
    Source: the column-parallel half of Shoeybi et al. 2019, arXiv 1909.08053.
    """
    w_gate, w_up = split_gate_up(w_gate_up)
    mine = _part(len(w_gate), rank, world_size)
    return fuse_gate_up(w_gate[mine], w_up[mine])


def shard_down(w_down, rank, world_size):
    """What one rank holds of down_proj: the columns of its hidden units. The ranks' outputs add up.

    w_down: (D, I). rank, world_size: as in shard_gate_up. Returns a new (D, I/world_size).
    """
    _check_matrix("w_down", w_down)
    mine = _part(w_down.shape[1], rank, world_size)
    return w_down[:, mine].clone(memory_format=torch.contiguous_format)


def convert_ffn_names(state_dict, to):
    """Rename, fuse or split the feed-forward weights of a state dict, bit for bit.

    state_dict: name -> tensor. A feed-forward network is found by the names after any prefix,
    "w1.weight" (gate), "w3.weight" (up), "w2.weight" (down) of Meta's code, Hugging Face's
    "gate_proj.weight", … or fused "gate_up_proj.weight", rows [gate; up]. to: "meta", "hf" or
    "fused". Prefixes stay as they are, and so does every other key.
    Returns a new dict; the one given is not changed. What is split does not share memory.
    Raises ValueError for an unknown `to`, when no such network is found, when one lacks a weight,
    mixes two namings or has more than weights (a bias, an adapter), and for shapes that do not fit.
    """
    if to not in NAMINGS:
        raise ValueError(f"to must be one of {', '.join(NAMINGS)}, got {to!r}")
    networks = {}  # prefix -> name -> tensor
    for key, tensor in state_dict.items():
        if found := _KEY.fullmatch(key):
            if found["what"] != "weight":
                raise ValueError(f"{key}: only weights can be converted, and this is none")
            networks.setdefault(found["prefix"], {})[found["name"]] = tensor
    if not networks:
        raise ValueError(
            "no feed-forward weights: no key ends in one of "
            + ", ".join(f"{name}.weight" for name in _ROLES)
        )
    ready = {prefix: _renamed(prefix, weights, to) for prefix, weights in networks.items()}
    converted = {}
    for key, tensor in state_dict.items():  # a network stands where its first weight stood
        if found := _KEY.fullmatch(key):
            converted |= ready.pop(found["prefix"], {})
        else:
            converted[key] = tensor
    return converted


def _renamed(prefix, weights, to):
    parts = _by_role(prefix, weights)
    if to == "fused" and "gate" in parts:
        parts["gate_up"] = fuse_gate_up(parts["gate"], parts["up"])
    if to != "fused" and "gate_up" in parts:
        halves = split_gate_up(parts["gate_up"])
        parts["gate"], parts["up"] = (half.clone() for half in halves)
    return {f"{prefix}{name}.weight": parts[_ROLES[name]] for name in NAMINGS[to]}


def _by_role(prefix, weights):
    """role -> tensor, when all are of one naming, with shapes and dtypes that fit."""
    fitting = [names for names in NAMINGS.values() if set(weights) <= set(names)]
    if not fitting:
        raise ValueError(f"{prefix}: {', '.join(weights)} belong to more than one naming")
    missing = sorted(set(fitting[0]) - set(weights))
    if missing:
        found = ", ".join(weights)
        raise ValueError(f"{prefix}{missing[0]}.weight is missing, the partner of {found}")
    parts = {_ROLES[name]: tensor for name, tensor in weights.items()}
    for name, tensor in weights.items():
        _check_matrix(f"{prefix}{name}.weight", tensor)
    down = parts["down"]
    fits = (down.shape[1] * (2 if "gate_up" in parts else 1), len(down))
    for name, tensor in weights.items():
        if tensor is not down and tensor.shape != fits:
            raise ValueError(
                f"{prefix}{name}.weight must be {fits} beside a down projection "
                f"{tuple(down.shape)}, got {tuple(tensor.shape)}"
            )
    if "gate" in parts and parts["gate"].dtype != parts["up"].dtype:
        raise ValueError(f"{prefix}: gate is {parts['gate'].dtype}, up {parts['up'].dtype}")
    return parts


def _part(count, rank, world_size):
    for name, value in (("rank", rank), ("world_size", world_size)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
    if world_size < 1 or count % world_size:
        raise ValueError(f"world_size must divide the {count} hidden units, got {world_size}")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be 0 … {world_size - 1}, got {rank}")
    size = count // world_size
    return slice(rank * size, (rank + 1) * size)


def _check_matrix(name, w):
    if not isinstance(w, torch.Tensor):
        raise TypeError(f"{name} must be a torch tensor, got {type(w).__name__}")
    if w.ndim != 2:
        raise ValueError(f"{name} must be a matrix (out, in), got {tuple(w.shape)}")


def _said(w):
    return f"{tuple(w.shape)} {str(w.dtype).removeprefix('torch.')}"
