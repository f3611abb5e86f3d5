"""Pure measurements: numbers in, numbers out. No drawing, no printing."""

import contextlib
import functools
import gc
import os
import statistics
from typing import NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .layers import LlamaBlock
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


class Timing(NamedTuple):
    """Seconds per call: the median, the spread (interquartile range), and how many were timed."""

    median: float
    spread: float
    runs: int

    def __str__(self):
        unit, name = (1e-3, "ms") if self.median >= 1e-3 else (1e-6, "µs")
        return f"{self.median / unit:6.1f} {name} ± {self.spread / unit:.1f}"


def timing(function, seconds=0.1):
    """Time function() after a warm-up, on one CPU thread. Returns a Timing.

    seconds: for how long; longer if that is needed for five runs. torch's Timer does the
    work; where there is a GPU, it waits for it before it reads the clock.
    """
    from torch.utils.benchmark import Timer  # slow to import

    if not callable(function):
        raise TypeError(f"function must be callable without arguments, got {function!r}")
    if not seconds > 0:
        raise ValueError(f"seconds must be above zero, got {seconds}")
    timer = Timer("function()", globals={"function": function})
    timer.timeit(1)  # warm-up
    seconds = max(seconds, 5 * timer.timeit(1).median)
    runs = []
    while len(runs) < 5:
        runs += timer.blocked_autorange(min_run_time=seconds).times
    low, median, high = statistics.quantiles(runs, n=4)
    return Timing(median, high - low, len(runs))


def device():
    """Where the course times: the GPU if torch finds one, else the CPU. Returns a torch.device."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_name():
    """The same in words, to stand beside a timing."""
    return torch.cuda.get_device_name() if device().type == "cuda" else "one thread of this CPU"


class Cost(NamedTuple):
    """What a layer needs at least: operations on numbers, and bytes from and to memory."""

    operations: int
    bytes: int

    @property
    def intensity(self):
        """Operations per byte."""
        return self.operations / self.bytes


def norm_cost(tokens, hidden_size, number=4):
    """RMSNorm in one pass: x² , sum, · rsqrt, · weight for each feature. number: bytes of one."""
    return Cost(
        4 * tokens * hidden_size,
        number * (2 * tokens * hidden_size + hidden_size),
    )


def silu_up_cost(tokens, intermediate_size, number=4):
    """silu(gate) · up in one pass: −, exp, + 1, divide, · up, an exp counted as one operation."""
    return Cost(5 * tokens * intermediate_size, number * 3 * tokens * intermediate_size)


def projection_cost(tokens, in_features, out_features, number=4):
    """A Linear without bias: one multiplication and one addition for each weight and token."""
    moved = tokens * in_features + in_features * out_features + tokens * out_features
    return Cost(2 * tokens * in_features * out_features, number * moved)


def roof(intensity, bandwidth, peak):
    """The most operations per second at an intensity: min(peak, bandwidth · intensity).

    intensity: operations per byte. bandwidth: bytes per second. peak: operations per second.
    Source: Williams, Waterman & Patterson 2009, the roofline model.
    """
    if not min(intensity, bandwidth, peak) > 0:
        given = f"{intensity}, {bandwidth}, {peak}"
        raise ValueError(f"intensity, bandwidth and peak must be above zero, got {given}")
    return min(peak, bandwidth * intensity)


class Call(NamedTuple):
    """One call that torch made: its name, and the bytes of the tensors it read and wrote."""

    name: str
    read: int
    written: int


class _Calls(TorchDispatchMode):
    """Notes what each of torch's calls reads and writes; views move nothing and are left out."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.made += _call(func, args, result)
        return result


def _call(func, args, result):
    """The Call that func made, in a list; an empty one for a view."""
    read, written = _bytes(args), _bytes(result)  # out= is a keyword: written, not read
    view = func.is_view or func is torch.ops.aten._unsafe_view.default
    return [] if view or not read + written else [Call(func.overloadpacket.__name__, read, written)]


def _bytes(tree):
    leaves = torch.utils._pytree.tree_leaves(tree)
    return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))


def traffic(function):
    """The calls that function() makes torch do, in order: a list of Call.

    Each call is taken to read its tensors from memory once and write its result once. Works on
    tensors of the meta device too, which have a shape and no numbers.
    """
    with torch.no_grad(), _Calls() as calls:
        function()
    return calls.made


def moved(calls):
    """Bytes read and written by a list of Call, together."""
    return sum(call.read + call.written for call in calls)


def time_by_part(module, x, runs=10):
    """Where module(x) spends its time: part's name -> share of the whole, by torch's profiler.

    A part that holds parts counts without them; "" is the module itself. The shares sum to one.
    On one CPU thread, as `timing` does.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler writes to stderr
    from torch.profiler import profile, record_function

    open_now, hooks = [], []

    def enter(name):
        open_now.append(record_function(f"part:{name}"))
        open_now[-1].__enter__()

    def leave(*_):
        open_now.pop().__exit__(None, None, None)

    gc.collect()  # now, and not while the clock runs
    try:
        with _one_thread(), torch.no_grad():
            module(x)  # warm-up
            for name, part in module.named_modules():
                hooks.append(part.register_forward_pre_hook(lambda *_, name=name: enter(name)))
                hooks.append(part.register_forward_hook(leave))
            with profile() as profiled:
                for _ in range(runs):
                    module(x)
    finally:
        for hook in hooks:
            hook.remove()
    on_gpu = x.device.type == "cuda"
    total = {
        event.key.removeprefix("part:"): event.device_time_total if on_gpu else event.cpu_time_total
        for event in profiled.key_averages()
        if event.key.startswith("part:")
    }
    own = dict(total)
    for name, time in total.items():
        if name:
            parent = name.rpartition(".")[0]
            while parent not in total:  # a ModuleList is never called
                parent = parent.rpartition(".")[0]
            own[parent] -= time
    return {name: time / total[""] for name, time in own.items()}
