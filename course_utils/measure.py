"""Pure measurements: numbers in, numbers out. No drawing, no printing."""

import contextlib
from typing import NamedTuple

import torch

from .layers import LlamaBlock


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


# --- 04


# --- 05


# --- 06


# --- 07


# --- 08

WIDTH, TOKENS = 64, 16  # of the stacks that depth_run measures: D and T
PLACES = ("pre", "post", "none")


class DepthRun(NamedTuple):
    """What `depth_run` returns, float64.

    stream: (deepest + 1,), RMS of the stream before the first block and after each block.
    gradient: depth -> (depth,), length of the gradient at each block's seven matrices together,
    for the stack that ends after so many blocks.
    """

    stream: torch.Tensor
    gradient: dict


def depth_run(place, depths, std=WIDTH**-0.5, seed=0):
    """Stream and gradient in stacks of new blocks, the norms at one of three places.

        pre:  x + f(norm(x)), and a norm after the last block    (Llama)
        post: norm(x + f(x))                                     (the first Transformer)
        none: x + f(x)

    f is attention, then SwiGLU, as in LlamaBlock: D = 64, I = 172, 4 heads, norm weights one. The
    stacks share their first blocks. Every matrix is normal with standard deviation std; so is x,
    one sequence of 16 tokens, with standard deviation 1. The loss is the inner product of the
    output with a fixed normal direction.
    depths: numbers of blocks, 1 or more. Float64; the global random state is left alone.
    """
    if place not in PLACES:
        raise ValueError(f"place must be one of {PLACES}, got {place!r}")
    if not depths or min(depths) < 1:
        raise ValueError(f"depths must be numbers of blocks, 1 or more, got {depths}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x, direction = torch.randn(2, 1, TOKENS, WIDTH, dtype=torch.float64)  # (B, T, D) each
        blocks = [_new_block(std) for _ in range(max(depths))]
    streams, gradient = [x], {}
    with _one_thread():
        for block in blocks:
            streams.append(_BLOCKS[place](block, streams[-1]))  # (B, T, D)
        for depth in depths:
            y = blocks[0].input_layernorm(streams[depth]) if place == "pre" else streams[depth]
            gradient[depth] = _gradient_lengths((y * direction).sum(), blocks[:depth])
    return DepthRun(torch.stack([rms(s.detach().flatten()) for s in streams]), gradient)


@contextlib.contextmanager
def _one_thread():
    """Matrices this small take longer with more, and many times so on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _new_block(std):
    with torch.device("meta"):  # no numbers yet: those of nn.Linear would be thrown away
        block = LlamaBlock(WIDTH, 172, num_heads=4)
    block = block.double().to_empty(device="cpu")
    for p in block.parameters():
        if p.ndim == 2:
            torch.nn.init.normal_(p, std=std)
        else:
            torch.nn.init.ones_(p)
    return block


def _post(block, x):
    x = block.input_layernorm(x + block.self_attn(x))
    return block.post_attention_layernorm(x + block.mlp(x))


def _none(block, x):
    x = x + block.self_attn(x)
    return x + block.mlp(x)


_BLOCKS = {"pre": LlamaBlock.__call__, "post": _post, "none": _none}


def _gradient_lengths(loss, blocks):
    matrices = [p for block in blocks for p in block.parameters() if p.ndim == 2]
    gradients = torch.autograd.grad(loss, matrices, retain_graph=True)
    lengths = torch.stack([g.norm() for g in gradients]).unflatten(0, (-1, 7))  # (depth, 7)
    return lengths.norm(dim=-1)  # (depth,)


# --- 09
