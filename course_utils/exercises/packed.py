"""Notebook 07's exercises: SwiGLU from one packed weight; packing it, and cutting it for ranks."""

import re

import torch
import torch.nn.functional as F

from .. import packing
from ..checker import Case, Exercise, Mistake, Property
from ._inputs import draw
from .ffn import of_rules, overflowing_gradient, swiglu, weights, with_units

ONE_PRODUCT = "07 One product or two?"
DIM = "07 What if `dim` is wrong?"
CHUNK = "07 What does `chunk` promise?"
VIEWS = "07 Are the pieces copies?"
HALF = "07 Which half is the gate?"
RANKS = "07 How do two processes share the layer?"
CHECKPOINT = "07 What is in the checkpoint?"
SLIPS = "05 Which slips does a shape give away?"
LAYER = "05 How do units make a layer?"
NOTICE = "05 Would your test notice?"


# --- swiglu_packed


class TwoHalvesReachDown(RuntimeError):
    """What is multiplied by w_down still has 2·I features: nothing has split the last axis."""


def _packed_call(answer, x, w_gate_up, w_down):
    """Call it; the one error in which PyTorch blames a weight that is right gets a type of its own,
    so that it is a mistake that can be recognised, and not any error in a product.
    """
    try:
        return answer(x, w_gate_up, w_down)
    except RuntimeError as error:
        features, units = len(w_gate_up), w_down.shape[1]
        if re.search(rf"\(\d+x{features} and {units}x\d+\)", str(error)):
            raise TwoHalvesReachDown(*error.args).with_traceback(error.__traceback__) from None
        raise


def _packed_weights(hidden_size, intermediate_size, seed=0):
    w_gate, w_up, w_down = weights(hidden_size, intermediate_size, seed)
    return torch.cat([w_gate, w_up]), w_down


def _halves(x, w_gate_up):
    return (x @ w_gate_up.T).tensor_split(2, dim=-1)


def _packed(unit):
    return lambda x, w_gate_up, w_down: unit(*_halves(x, w_gate_up)) @ w_down.T


def _memory_halves(x, w_gate_up, w_down):
    gate, up = (x @ w_gate_up.T).reshape(2, *x.shape[:2], -1)
    return swiglu(gate, up) @ w_down.T


def _memory_halves_of_sequences(x, w_gate_up, w_down):
    (batch, tokens, _), units = x.shape, w_down.shape[1]
    gate, up = (x @ w_gate_up.T).reshape(batch, 2, tokens, units).unbind(1)
    return swiglu(gate, up) @ w_down.T


def _pairs(x, w_gate_up, w_down):
    gate, up = (x @ w_gate_up.T).unflatten(-1, (-1, 2)).unbind(-1)
    return swiglu(gate, up) @ w_down.T


def _split_tokens(x, w_gate_up, w_down):
    gate, up = (x @ w_gate_up.T).chunk(2, dim=1)
    return swiglu(gate, up) @ w_down.T


def _packed_not_transposed(x, w_gate_up, w_down):
    gate, up = (x @ w_gate_up).chunk(2, dim=-1)
    return swiglu(gate, up) @ w_down.T


def _packed_reshaped(x, w_gate_up, w_down):
    gate, up = (x @ w_gate_up.reshape(w_gate_up.shape[::-1])).chunk(2, dim=-1)
    return swiglu(gate, up) @ w_down.reshape(w_down.shape[::-1])


def _overlapping(x, w_gate_up, w_down):
    gate_up, units = x @ w_gate_up.T, w_down.shape[1]
    return swiglu(gate_up[..., :units], gate_up[..., units - 1 : -1]) @ w_down.T


def _cut_at_d(x, w_gate_up, w_down):
    gate_up, size = x @ w_gate_up.T, x.shape[-1]
    return swiglu(gate_up[..., :size], gate_up[..., size:]) @ w_down.T


def _unpacked(f):
    """The answer as a function of three weights."""
    return lambda x, w_gate, w_up, w_down: f(x, torch.cat([w_gate, w_up]), w_down)


def _units_by_rows(f):
    """Which two rows of the packed weight make a unit: those that are not zero together."""
    x, count = torch.ones(1, 1, 1, dtype=torch.float64), 3
    down = torch.ones(1, count, dtype=torch.float64)
    pairs = []
    for i in range(2 * count):
        for k in range(i + 1, 2 * count):
            w = torch.zeros(2 * count, 1, dtype=torch.float64)
            w[i], w[k] = 2.0, 3.0
            if f(x, w, down).abs().max() > 1e-6:
                pairs.append((i, k))
    right = [(i, i + count) for i in range(count)]
    if pairs == right or not 0 < len(pairs) <= count:  # a sum makes more: other rules tell of it
        return None
    if len(pairs) < count and set(pairs) <= set(right):
        return None
    said = ", ".join(f"{i} with {k}" for i, k in pairs)
    neighbours = pairs == [(0, 1), (2, 3), (4, 5)]
    why = (
        "These are neighbours, the layout of gpt-oss: gate, up, gate, up, …"
        if neighbours
        else "A unit's gate and up must stand I rows apart."
    )
    if len(pairs) < count:
        why = "Is it cut at D, or at the number of tokens (both 1 here)? I is half of the rows."
    return (
        f"With 3 units, rows 0 to 2 are gate and 3 to 5 up, so row 0 meets row 3, 1 meets 4, and 2 "
        f"meets 5. In yours row {said}. {why}"
    )


def _features_by_columns(f):
    """Unit 0's rows read feature 1, so that feature alone must be enough."""
    w = torch.zeros(4, 3, dtype=torch.float64)
    w[0, 1], w[2, 1] = 2.0, 3.0
    x = torch.tensor([[[0.0, 1.0, 0.0]]], dtype=torch.float64)
    y = f(x, w, torch.ones(3, 2, dtype=torch.float64))
    if y.abs().max() > 1e-6:
        return None
    return (
        "Row 0 (gate) and row 2 (up) of a weight (4, 3) have an entry in column 1 alone, and x has "
        "feature 1 alone: unit 0 should be silu(2)·3, and nothing comes out. Are rows and columns "
        "mixed by a `reshape`? Transpose, `x @ w_gate_up.T`."
    )


def _packed_remark(f):
    """What a right answer may still have in it: an error or a NaN that only training meets."""
    x = draw(1, 2, 5).requires_grad_()
    try:
        f(x, *_packed_weights(5, 7)).sum().backward()
    except RuntimeError:
        return (
            "One thing more: with gradients it raises an error, because it writes into a piece "
            "of `chunk`, which is a view (*Are the pieces copies?*). `F.silu(gate)` without "
            "`inplace` makes a new tensor, and can be trained."
        )
    return overflowing_gradient(_unpacked(f))


def _unpacked_first(gate_up):
    gate, up = gate_up.unflatten(-1, (2, -1))
    return swiglu(gate, up)


def _two_of(pieces):
    gate, up = pieces
    return swiglu(gate, up)


_x = draw(2, 3, 5)
PACKED = Exercise(
    "swiglu_packed",
    ("x", "w_gate_up", "w_down"),
    packing.swiglu_packed,
    (
        Case((_x, *_packed_weights(5, 7))),
        Case((draw(4, 4, 4), *_packed_weights(4, 4)), "D = I"),
        Case((draw(2, 2, 6), *_packed_weights(6, 3)), "D = 2·I"),
        Case((60 * _x, *_packed_weights(5, 7)), "gates beyond ±100"),
        Case((_x.double(), *(w.double() for w in _packed_weights(5, 7))), "float64"),
    ),
    (
        Mistake(
            "unpacked-first-axis",
            lambda x, w_gate_up, w_down: _unpacked_first(x @ w_gate_up.T) @ w_down.T,
            "The features are cut well, but `gate, up = …` unpacks the *first* axis, the "
            "sequences. Unpack the axis of size 2: `.unbind(-2)`, or `chunk(2, dim=-1)`.",
            DIM,
        ),
        Mistake(
            "split-by-2",
            lambda x, w_gate_up, w_down: _two_of((x @ w_gate_up.T).split(2, dim=-1)) @ w_down.T,
            "`split` takes the *size* of a piece, so these are many of size 2. `chunk(2, dim=-1)` "
            "takes their number; or `split(I, dim=-1)`.",
            CHUNK,
        ),
        Mistake(
            "memory-halves",
            _memory_halves,
            "`view` and `reshape` cut memory, which holds one token's 2·I numbers after another's: "
            "the first tokens' numbers become `gate`, the last tokens' `up`. The shape is right "
            "all the same. Each token's own numbers are to be halved, along the last axis.",
            DIM,
        ),
        Mistake(
            "memory-halves-of-sequences",
            _memory_halves_of_sequences,
            "`view` and `reshape` cut memory, in which each token's 2·I numbers stand together: "
            "the first half of a *sequence* becomes `gate`, the second `up`. The 2 belongs where "
            "the features are: (B, T, 2, I).",
            DIM,
        ),
        Mistake(
            "P01",
            _packed(lambda g, u: g * F.silu(u)),
            "The halves are taken as [up; gate], the order of OLMo and GPT-NeoX. Here it is "
            "[gate; up], as in Phi-3, GLM, Llama 4 and vLLM: the first half goes through SiLU.",
            HALF,
            convention=True,
            seen="https://github.com/alibaba/rtp-llm/pull/756",
        ),
        Mistake(
            "P02",
            _split_tokens,
            "What reaches `w_down` still has 2·I features: tokens or sequences are split, or "
            "nothing is. PyTorch's message blames `w_down`, which is right. Halve the last axis, "
            "`dim=-1`.",
            DIM,
        ),
        Mistake(
            "P03",
            _pairs,
            "Gate and up are taken in turn, gate, up, gate, up, … That is the layout of gpt-oss. "
            "Here the rows are [gate; up], one half after the other: `chunk(2, dim=-1)`, or "
            "`unflatten(-1, (2, -1))`.",
            HALF,
            convention=True,
            seen="https://github.com/ROCm/ATOM/pull/845",
        ),
        Mistake(
            "P04",
            _packed(lambda g, u: F.silu(g)),
            "Only the first half is used: `chunk(…)[0]` is gate alone. The result has the right "
            "shape, and up has no part in it. Take both halves and multiply.",
            DIM,
        ),
        Mistake(
            "second-half",
            _packed(lambda g, u: F.silu(u)),
            "Only the second half is used, which is up. Take both halves: silu(gate) · up.",
            DIM,
        ),
        Mistake(
            "P05",
            _packed(lambda g, u: g * torch.sigmoid(u)),
            "This is `F.glu`: a sigmoid, and on the *second* half. SwiGLU has SiLU on the first, "
            "silu(gate) · up.",
            HALF,
        ),
        Mistake(
            "P07",
            _packed(lambda g, u: F.silu(g) * F.silu(u)),
            "SiLU acts before the split, or on both halves, so that up goes through it too. Split "
            "first; then only the gate goes through SiLU.",
            ONE_PRODUCT,
        ),
        *with_units(_packed, but=("G01", "silu-on-both", "sigmoid-on-up", "no-up", "no-gate")),
        Mistake(
            "overlapping",
            _overlapping,
            "The second slice starts one row too early, with the last row of gate. Up starts at "
            "row I: `gate_up[..., I:]`.",
            CHUNK,
        ),
        Mistake(
            "G12",
            lambda x, w, d: swiglu(*_halves(x, w)),
            "The down projection is missing: I numbers a token come out, where the block needs D. "
            "Multiply by `w_down.T` at the end.",
            SLIPS,
        ),
        Mistake(
            "G14",
            lambda x, w, d: F.silu(torch.mul(*_halves(x, w)) @ d.T),
            "SiLU acts after the down projection, so that no output can be below −0.28. It belongs "
            "on the gate, before the product.",
            LAYER,
        ),
        Mistake(
            "residual",
            lambda x, w, d: x + swiglu(*_halves(x, w)) @ d.T,
            "The input is added inside. The residual sum belongs to the block around this layer; "
            "return the output of down alone.",
            LAYER,
        ),
        Mistake(
            "flattened",
            lambda x, w, d: swiglu(*_halves(x.flatten(0, -2), w)) @ d.T,
            "Sequences and tokens are one axis in the result, as x was flattened. Give it the "
            "shape of x again, or leave x as it is: `@` takes any axes before the last.",
            DIM,
        ),
        Mistake(
            "cut-at-d",
            _cut_at_d,
            "The packed numbers are cut at D, the size of x. Gate and up are I wide each, half of "
            "what `w_gate_up` gives: `chunk(2, dim=-1)`.",
            CHUNK,
        ),
        Mistake(
            "not-transposed-packed",
            _packed_not_transposed,
            "`w_gate_up` is not transposed. It is stored (out, in), so it is `x @ w_gate_up.T`. "
            "When D ≠ 2·I PyTorch raises; when D = 2·I it is silently wrong.",
            SLIPS,
        ),
        Mistake(
            "not-transposed-down",
            lambda x, w, d: swiglu(*_halves(x, w)) @ d,
            "`w_down` is not transposed. It is stored (out, in), so it is `hidden @ w_down.T`. "
            "When D ≠ I PyTorch raises; when D = I it is silently wrong.",
            SLIPS,
        ),
        Mistake(
            "reshaped",
            _packed_reshaped,
            "The weights are reshaped where they should be transposed: `view` and `reshape` keep "
            "the order in memory, and only the shape fits. Use `w.T`.",
            SLIPS,
        ),
    ),
    (
        Property("units by rows", _units_by_rows, HALF),
        Property("features by columns", _features_by_columns, SLIPS),
        *of_rules(_unpacked),
    ),
    (
        "Each step gives the right shape. Which numbers land in `gate`? Try one sequence of two "
        "tokens, and print.",
        "Memory holds the first token's 2·I numbers, then the second's. Which axis has to be "
        "halved?",
        "`chunk(2, dim=-1)` halves the last axis.",
    ),
    5,
    DIM,
    call=_packed_call,
    remark=_packed_remark,
)


# --- fuse_gate_up


def _whole_rows_fused(f):
    """Where a row of the result is a row of neither weight: what it is made of."""
    gate, up = _probes()
    fused = f(gate, up)
    strange = [i for i, row in enumerate(fused) if _whose_row(row, gate, up) is None]
    if not strange:
        return None
    row = fused[strange[0]].tolist()
    gates, ups = (sum(n in w.flatten().tolist() for n in row) for w in (gate, up))
    why = "Its numbers are none of theirs: put the rows together as they are."
    for own in torch.cat([gate, up]):
        if _parallel(fused[strange[0]], own):
            factor = f"{row[0] / own[0].item():.4g}".replace("-", "−")
            why = f"It is {_whose_row(own, gate, up)} times {factor}."
    if not any(row):
        why = "It is zeros: is nothing written there?"
    if gates + ups == 4:
        why = (
            f"It has {gates} numbers of gate and {ups} of up: does a `stack` along the last axis "
            "or a `reshape` mix them? Join whole rows, along axis 0."
        )
    return (
        "With 3 rows of gate and 3 of up, each row of the result should be one of theirs, and row "
        f"{strange[0]} is not. {why}"
    )


def _probes():
    return tuple(draw(3, 4, seed=seed, dtype=torch.float64) for seed in (1, 2))


def _whose_row(row, gate, up):
    """Which row it is, in words; else None."""
    named = (
        (f"{name} {i}", r) for name, w in (("gate", gate), ("up", up)) for i, r in enumerate(w)
    )
    return next((name for name, r in named if torch.equal(r, row)), None)


def _rows_in_order(f):
    gate, up = _probes()
    fused = [_whose_row(row, gate, up) for row in f(gate, up)]
    right = [_whose_row(row, gate, up) for row in torch.cat([gate, up])]
    if fused == right:
        return None
    return (
        "With 3 rows of gate and 3 of up the rows should be gate 0, 1, 2 and up 0, 1, 2, as "
        f"[gate; up]. Yours are {', '.join(map(str, fused))}."
    )


FUSE = Exercise(
    "fuse_gate_up",
    ("w_gate", "w_up"),
    packing.fuse_gate_up,
    (
        Case(weights(5, 7)[:2]),
        Case(weights(4, 4)[:2], "D = I"),
        Case(tuple(w.bfloat16() for w in weights(5, 3)[:2]), "bfloat16"),
    ),
    (
        Mistake(
            "P01",
            lambda g, u: torch.cat([u, g]),
            "The order is [up; gate], as in OLMo and GPT-NeoX. Here gate's rows come first, as in "
            "Phi-3, GLM, Llama 4 and vLLM.",
            HALF,
            convention=True,
            seen="https://github.com/alibaba/rtp-llm/pull/756",
        ),
        Mistake(
            "C02",
            lambda g, u: torch.stack([g, u], dim=1).flatten(0, 1),
            "Rows of gate and up alternate, which is gpt-oss's layout. Here all rows of gate come "
            "first, then all rows of up.",
            HALF,
            convention=True,
            seen="https://github.com/NVIDIA-NeMo/Automodel/pull/1324",
        ),
        Mistake(
            "C03",
            lambda g, u: torch.cat([g, u], dim=1),
            "They stand side by side, (I, 2·D). Weights are (out, in), and it is the outputs that "
            "double: put up's rows below gate's, (2·I, D).",
            ONE_PRODUCT,
        ),
        Mistake(
            "stacked",
            lambda g, u: torch.stack([g, u]),
            "`stack` makes a new axis, (2, I, D). A weight is one matrix, (2·I, D): join the rows "
            "along the axis that is there.",
            ONE_PRODUCT,
        ),
        Mistake(
            "transposed",
            lambda g, u: torch.cat([g.T, u.T], dim=1),
            "This is (D, 2·I), the transpose of what is asked for. Weights are stored (out, in): "
            "(2·I, D), rows [gate; up].",
            ONE_PRODUCT,
        ),
        Mistake(
            "reshaped",
            lambda g, u: torch.cat([g.T, u.T], dim=1).reshape(-1, g.shape[1]),
            "A matrix (D, 2·I) is reshaped into (2·I, D), which keeps the order in memory and "
            "mixes the rows. Join the rows themselves.",
            ONE_PRODUCT,
        ),
        Mistake(
            "each-transposed",
            lambda g, u: torch.cat([g.T, u.T]),
            "Each weight is transposed before they are joined, which makes (2·D, I). They stay "
            "(out, in) as they are: (2·I, D), rows [gate; up].",
            ONE_PRODUCT,
        ),
        Mistake(
            "each-transposed-up-first",
            lambda g, u: torch.cat([u.T, g.T]),
            "Two things: each weight is transposed before they are joined, which makes (2·D, I), "
            "and up comes first. They stay (out, in), (2·I, D), rows [gate; up].",
            ONE_PRODUCT,
        ),
        Mistake(
            "transposed-up-first",
            lambda g, u: torch.cat([u.T, g.T], dim=1),
            "Two things: this is (D, 2·I), the transpose of what is asked for, and up comes first. "
            "Weights are stored (out, in): (2·I, D), rows [gate; up].",
            ONE_PRODUCT,
        ),
        Mistake(
            "stacked-up-first",
            lambda g, u: torch.stack([u, g]),
            "Two things: `stack` makes a new axis, (2, I, D), and up comes first. Join the rows "
            "along the axis that is there: (2·I, D), rows [gate; up].",
            ONE_PRODUCT,
        ),
        Mistake(
            "up-first-beside",
            lambda g, u: torch.cat([u, g], dim=1),
            "Two things: they stand side by side, (I, 2·D), and up comes first. It is the outputs "
            "that double, which are rows: (2·I, D), rows [gate; up].",
            ONE_PRODUCT,
        ),
        Mistake(
            "flat",
            lambda g, u: torch.cat([g.flatten(), u.flatten()]),
            "The numbers stand in one long row. A weight is a matrix: join the rows of both along "
            "axis 0 and flatten nothing, (2·I, D).",
            ONE_PRODUCT,
        ),
        Mistake(
            "matmul",
            lambda g, u: g @ u.T,
            "The two weights are multiplied as matrices, (I, I). To fuse them is to put up's rows "
            "below gate's, (2·I, D), and nothing is computed.",
            ONE_PRODUCT,
        ),
        Mistake(
            "gate-twice",
            lambda g, u: torch.cat([g, g]),
            "Gate stands there twice, and up not at all. Put up's rows below gate's.",
            ONE_PRODUCT,
        ),
        Mistake(
            "up-twice",
            lambda g, u: torch.cat([u, u]),
            "Up stands there twice, and gate not at all. Put up's rows below gate's.",
            ONE_PRODUCT,
        ),
        Mistake(
            "sum",
            lambda g, u: g + u,
            "The two weights are added into one of the same size, from which neither can be taken "
            "again. Put up's rows below gate's.",
            ONE_PRODUCT,
        ),
        Mistake(
            "product",
            lambda g, u: g * u,
            "The two weights are multiplied. It is gate and up that are multiplied, later, unit by "
            "unit; here up's rows stand below gate's.",
            ONE_PRODUCT,
        ),
    ),
    (
        Property("whole rows", _whole_rows_fused, ONE_PRODUCT),
        Property("gate's rows first, up's below", _rows_in_order, ONE_PRODUCT),
    ),
    (
        "Weights are (out, in). Along which axis do the outputs lie?",
        "`torch.cat` joins along an axis that is there already; `stack` would make a new one.",
    ),
    2,
    ONE_PRODUCT,
)


# --- shard_gate_up

COUNT = 12  # hidden units of the probes: several for each of 2, 3 and 4 ranks


def _rows(f, rank, world_size):
    """Which rows of the packed weight a rank gets: row i of the probe holds the number i."""
    w = torch.arange(2.0 * COUNT).unsqueeze(1).repeat(1, 3)
    return [int(row) for row in f(w, rank, world_size)[:, 0]]


def _listed(rows):
    """Row numbers in words, short where they follow each other."""
    if len(rows) > 2 and rows == list(range(rows[0], rows[-1] + 1)):
        return f"{rows[0]} to {rows[-1]}"
    return ", ".join(map(str, rows)) or "none"


def _parallel(a, b):
    return torch.allclose(a * b[0], b * a[0])


def _whole_rows(f):
    w = draw(2 * COUNT, 3, dtype=torch.float64)
    shard = f(w, 1, 2)
    if all((row == w).all(dim=1).any() for row in shard):
        return None
    factors = {round((shard[0, 0] / row[0]).item(), 6) for row in w if _parallel(shard[0], row)}
    if len(factors) == 1:
        return (
            f"The rows of the shard are rows of the weight times {factors.pop():.4g}. The outputs "
            "of the ranks are added: leave the weights as they are."
        )
    return "Some rows of the shard are not rows of the weight. A rank gets a part of them, as is."


def _both_kinds(f):
    rows = _rows(f, 0, 2)
    gates = sum(row < COUNT for row in rows)
    if gates == COUNT // 2:
        return None
    return (
        f"Of 12 units, rank 0 of 2 should get 6 rows of gate and 6 of up. Yours gets {gates} and "
        f"{len(rows) - gates}: rows 0 to 11 are gate, 12 to 23 up. Take a part of each."
    )


def _gate_above(f):
    for rank in (0, 1):
        rows = _rows(f, rank, 2)
        above, below = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        if not max(above) < COUNT <= min(below):
            break
    else:
        return None
    if max(below) < COUNT <= min(above):
        where = "" if rank == 0 else "On rank 1, but not on rank 0, "
        said = f"{where}up's rows stand above gate's. A shard is packed as the whole weight is"
        return f"{said[0].upper()}{said[1:]}, [gate; up]."
    return (
        f"Of 12 units, rank {rank} of 2 has the rows {_listed(rows)}: gate (0 to 11) and up (12 "
        "to 23) are mixed. The same forward reads a shard: first its rows of gate, then its rows "
        "of up."
    )


def _partners(f):
    for rank in range(3):
        rows = _rows(f, rank, 3)
        above, below = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        if [gate + COUNT for gate in above] != below:
            break
    else:
        return None
    return (
        f"Of 12 units, rank {rank} of 3 gets the rows {_listed(above)} of gate and "
        f"{_listed(below)} of up. Row i of gate belongs to row 12 + i of up: take the same units "
        "of both."
    )


def _each_unit_once(f):
    for world_size in (2, 3, 4):
        rows = {row for rank in range(world_size) for row in _rows(f, rank, world_size)}
        missing = [row for row in range(2 * COUNT) if row not in rows]
        if missing:
            return (
                f"With 12 units on {world_size} ranks, no rank has the rows {_listed(missing)}. "
                "Each unit lives on one rank: rank r has the units from r·n on, n = I/world_size."
            )
    return None


def _sum_of_ranks(f):
    x, (w_gate_up, w_down) = draw(2, 3, 5), _packed_weights(5, COUNT)
    right = packing.swiglu_packed(x, w_gate_up, w_down)
    for world_size in (2, 4):
        terms = [
            packing.swiglu_packed(x, f(w_gate_up, r, world_size), down)
            for r in range(world_size)
            for down in [packing.shard_down(w_down, r, world_size)]
        ]
        error = ((sum(terms) - right).norm() / right.norm()).item()
        if error > 1e-4:
            n = COUNT // world_size
            return (
                f"The outputs of {world_size} ranks should add up to the whole layer's, and are "
                f"off by {error:.0%} of its length. With 12 units, rank 0 has the gate rows "
                f"{_listed(_rows(f, 0, world_size)[:n])}, but its columns of `w_down` are 0 to "
                f"{n - 1}: units stay together in blocks, in the order of the ranks."
            )
    return None


def _shard(pick):
    """An answer that picks from gate and up alone. pick: (half, rank, world_size) -> rows."""

    def shard(w, rank, world_size):
        return torch.cat([pick(half, rank, world_size) for half in w.chunk(2)])

    return shard


def _block(half, rank, world_size):
    return half.chunk(world_size)[rank]


def _parts(pick_gate, pick_up):
    return lambda w, r, n: torch.cat([pick_gate(w.chunk(2)[0], r, n), pick_up(w.chunk(2)[1], r, n)])


def _all_of(half, *_):
    return half


def _interleaved(w, rank, world_size):
    gate, up = (_block(half, rank, world_size) for half in w.chunk(2))
    return torch.stack([gate, up], dim=1).flatten(0, 1)


def _double_blocks(half, rank, world_size):
    size = 2 * len(half) // world_size
    return half[rank * size : (rank + 1) * size]


def _half_blocks(half, rank, world_size):
    size = len(half) // (2 * world_size)
    return half[rank * size : (rank + 1) * size]


def _masked(half, rank, world_size):
    kept = torch.zeros_like(half)
    kept.chunk(world_size)[rank].copy_(_block(half, rank, world_size))
    return kept


def _counted_from_one(half, rank, world_size):
    size = len(half) // world_size
    return half[(rank - 1) * size : rank * size]


def _to_the_end(half, rank, world_size):
    return half[rank * (len(half) // world_size) :]


SHARD = Exercise(
    "shard_gate_up",
    ("w_gate_up", "rank", "world_size"),
    packing.shard_gate_up,
    (
        Case((_packed_weights(5, 12)[0], 0, 2)),
        Case((_packed_weights(5, 12)[0], 1, 2)),
        Case((_packed_weights(5, 12)[0], 1, 3), "three ranks"),
        Case((_packed_weights(5, 12)[0], 3, 4), "the last of four ranks"),
        Case((_packed_weights(8, 4)[0], 1, 2), "a square weight"),
        Case((_packed_weights(3, 4)[0], 0, 1), "one rank, which has it all"),
        Case((_packed_weights(5, 8)[0].bfloat16(), 2, 4), "bfloat16"),
    ),
    (
        Mistake(
            "columns-of-both-turned",
            lambda w, rank, n: torch.cat([half.chunk(n, dim=1)[rank] for half in w.chunk(2)[::-1]]),
            "Two things: the columns are cut, where ranks share the units, which are rows; and up "
            "stands above gate. Take a part of gate's rows, then the same part of up's.",
            RANKS,
        ),
        Mistake(
            "columns-of-both",
            lambda w, rank, world_size: w.chunk(world_size, dim=1)[rank],
            "The columns are cut, and all rows kept: so `w_down` is shared out. Here ranks share "
            "the *units*, which are rows: a part of gate's and the same part of up's.",
            RANKS,
        ),
        Mistake(
            "C10",
            lambda w, r, n: w.chunk(n)[r],
            "This cuts [gate; up] into blocks that follow each other: with two ranks, rank 0 has "
            "all of gate and rank 1 all of up, and nothing crashes. Each rank needs its part of "
            "gate *and* its part of up.",
            RANKS,
            seen="https://github.com/NVIDIA/Megatron-LM/issues/360",
        ),
        Mistake(
            "C11",
            _parts(_block, _all_of),
            "Only gate is cut, and the rank has all of up. A unit needs its own row of both: cut "
            "up in the same way.",
            RANKS,
            seen="https://github.com/NVIDIA/TensorRT-Model-Connect/pull/1237",
        ),
        Mistake(
            "C11-up",
            _parts(_all_of, _block),
            "Only up is cut, and the rank has all of gate. A unit needs its own row of both: cut "
            "gate in the same way.",
            RANKS,
        ),
        Mistake(
            "gate-alone",
            lambda w, r, n: _block(w.chunk(2)[0], r, n),
            "The rank gets its rows of gate, and none of up. Put its rows of up below them.",
            RANKS,
        ),
        Mistake(
            "up-alone",
            lambda w, r, n: _block(w.chunk(2)[1], r, n),
            "The rank gets its rows of up, and none of gate. Put its rows of gate above them.",
            RANKS,
        ),
        Mistake(
            "P01",
            lambda w, r, n: torch.cat([_block(half, r, n) for half in w.chunk(2)[::-1]]),
            "The shard is [up; gate], though the weight is [gate; up]. The same forward reads "
            "both: the rank's rows of gate come first.",
            HALF,
        ),
        Mistake(
            "C02",
            _interleaved,
            "The rank has the right rows, but gate and up alternate. The same forward reads a "
            "shard as it reads the whole weight: first its rows of gate, then its rows of up.",
            HALF,
        ),
        Mistake(
            "every-nth",
            lambda w, r, n: w[r::n],
            "Units are dealt out in turn, one for each rank. Gate and up still fit each other, but "
            "`w_down` is cut into blocks of columns, so rank r needs units r·n to (r + 1)·n − 1, "
            "with n = I/world_size.",
            RANKS,
        ),
        Mistake(
            "columns",
            lambda w, r, n: w.tensor_split(n, dim=1)[r],
            "This cuts columns, the features of x. Each rank sees all of x and has some of the "
            "units, which are the rows of `w_gate_up`.",
            RANKS,
        ),
        Mistake(
            "double-blocks",
            _shard(_double_blocks),
            "The size of a block is 2·I/world_size, that of the whole shard. Of gate alone, and of "
            "up alone, a rank has I/world_size rows.",
            RANKS,
        ),
        Mistake(
            "from-one",
            _shard(_counted_from_one),
            "Ranks are counted from 1 here. The first one is rank 0: its rows start at "
            "rank · I/world_size.",
            RANKS,
        ),
        Mistake(
            "reversed",
            _shard(lambda half, r, n: half.chunk(n)[n - 1 - r]),
            "The blocks are handed out from the end: rank 0 gets the last one. Its columns of "
            "`w_down` are the first, so it needs the first units.",
            RANKS,
        ),
        Mistake(
            "to-the-end",
            _shard(_to_the_end),
            "The rank's rows start in the right place and do not end: it has the units of all "
            "later ranks too. Stop at (rank + 1) · I/world_size.",
            RANKS,
        ),
        Mistake(
            "always-the-first",
            _shard(lambda half, r, n: half.chunk(n)[0]),
            "`rank` is not used: every rank gets the first units, and the others are lost. Its "
            "rows start at rank · I/world_size.",
            RANKS,
        ),
        Mistake(
            "always-two",
            _shard(lambda half, r, n: half[r * (len(half) // 2) : (r + 1) * (len(half) // 2)]),
            "`world_size` is not used: the halves are cut in two, whatever it is. A rank has "
            "I/world_size units.",
            RANKS,
        ),
        Mistake(
            "gates-for-up",
            lambda w, r, n: torch.cat(2 * [_block(w.chunk(2)[0], r, n)]),
            "The rank's rows of gate stand there twice. Its rows of up are in the second half of "
            "the weight, from row I on.",
            RANKS,
        ),
        Mistake(
            "world-size-as-block",
            _shard(lambda half, r, n: half[r * n : (r + 1) * n]),
            "A block is taken to be `world_size` rows long. `world_size` is how many blocks there "
            "are: each has I/world_size rows.",
            RANKS,
        ),
        Mistake(
            "split-by-world-size",
            _shard(lambda half, r, n: half.split(n)[r]),
            "`split` takes the *size* of a piece, so these are pieces of `world_size` rows. "
            "`chunk(world_size)` takes their number; or `split(I // world_size)`.",
            RANKS,
        ),
        Mistake(
            "up-to-the-end",
            _parts(_block, _to_the_end),
            "The rank's rows of up do not end: a slice without an end takes all later ranks' too. "
            "Stop at I + (rank + 1) · I/world_size.",
            RANKS,
        ),
        Mistake(
            "half-blocks",
            _shard(_half_blocks),
            "A block is half as long as it should be, I/(2·world_size): is the 2 of gate and up "
            "divided out twice? Of gate and of up a rank has I/world_size rows each.",
            RANKS,
        ),
        Mistake(
            "last-row-lost",
            _shard(lambda half, r, n: _block(half, r, n)[:-1]),
            "The last row of each block is lost. A slice stops *before* its end, so the end is "
            "(rank + 1) · I/world_size, with no −1.",
            RANKS,
        ),
        Mistake(
            "masked",
            _shard(_masked),
            "The rows of other ranks are set to zero and kept. The sum would be right, but nothing "
            "is saved: a shard holds its own rows alone, 2·I/world_size of them.",
            RANKS,
        ),
        Mistake(
            "transposed",
            lambda w, r, n: _shard(_block)(w, r, n).T,
            "The shard is transposed. It is stored as the whole weight is, (out, in): the rank's "
            "rows of gate, then its rows of up, each with all D columns.",
            RANKS,
        ),
        Mistake(
            "beside",
            lambda w, r, n: torch.cat([_block(half, r, n) for half in w.chunk(2)], dim=1),
            "The rank's rows of gate and of up stand side by side. They are put one below the "
            "other, as in the whole weight: `torch.cat` along axis 0.",
            RANKS,
        ),
        Mistake(
            "beside-up-first",
            lambda w, r, n: torch.cat([_block(half, r, n) for half in w.chunk(2)[::-1]], dim=1),
            "Two things: the rank's rows of up and of gate stand side by side, and up comes first. "
            "Put gate's rows above and up's below, along axis 0.",
            RANKS,
        ),
        Mistake(
            "reversed-beside",
            lambda w, r, n: torch.cat([_block(half, n - 1 - r, n) for half in w.chunk(2)], dim=1),
            "Two things: gate and up stand side by side, and the blocks are handed out from the "
            "end. Rank 0 has the first units, gate's rows above and up's below.",
            RANKS,
        ),
        Mistake(
            "columns-up-first",
            lambda w, r, n: torch.cat([h.tensor_split(n, dim=1)[r] for h in w.chunk(2)[::-1]]),
            "Two things: the columns are cut, which are the features of x, and up comes first. "
            "Ranks share the units, which are rows: a part of gate's above the same part of up's.",
            RANKS,
        ),
        Mistake(
            "stacked",
            lambda w, r, n: torch.stack([_block(half, r, n) for half in w.chunk(2)]),
            "`stack` makes a new axis, (2, rows, D). A shard is one matrix: `torch.cat` joins the "
            "rank's rows of gate and of up along axis 0.",
            RANKS,
        ),
        Mistake(
            "other-units",
            lambda w, r, n: torch.cat(
                [_block(w.chunk(2)[0], r, n), _block(w.chunk(2)[1], n - 1 - r, n)]
            ),
            "Gate and up of different units meet: the blocks of up are taken from the other end. "
            "Row i of gate belongs to row I + i.",
            RANKS,
        ),
        Mistake(
            "shared-out",
            lambda w, r, n: _shard(_block)(w, r, n) / n,
            "The rows are right, but divided by world_size. The ranks' outputs are added, not "
            "averaged: leave the weights as they are.",
            RANKS,
        ),
        Mistake(
            "not-cut",
            lambda w, r, n: w.clone(),
            "Every rank gets the whole weight. It should hold I/world_size units, and their sum "
            "over the ranks is the layer.",
            RANKS,
        ),
    ),
    (
        Property("whole rows", _whole_rows, RANKS),
        Property("a part of gate and a part of up", _both_kinds, RANKS),
        Property("gate above up in a shard", _gate_above, RANKS),
        Property("partners stay together", _partners, RANKS),
        Property("each unit on one rank", _each_unit_once, RANKS),
        Property("the ranks add up", _sum_of_ranks, RANKS),
    ),
    (
        "Which two rows make hidden unit 0? Both must be on the rank that has it.",
        "Take the weight apart into gate and up, take the rank's block of each, and put the two "
        "blocks together again.",
        "`w_gate, w_up = w_gate_up.chunk(2)`, and of each the rows from rank·n to (rank + 1)·n, "
        "n = I/world_size; then `torch.cat`.",
    ),
    10,
    RANKS,
)

EXERCISES = (PACKED, FUSE, SHARD)
