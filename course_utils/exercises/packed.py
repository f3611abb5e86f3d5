"""Notebook 07's exercises: SwiGLU from one packed weight; packing it, and cutting it for ranks."""

import re
from itertools import combinations

import torch
import torch.nn.functional as F  # noqa: F401  for the catalogue's code

from ..catalogue import exercise
from ..checker import Case, Property, same
from ..layers import silu  # noqa: F401
from ._ffn import RULES, overflowing_gradient, weights
from ._inputs import draw

ONE_PRODUCT = "07 One product or two?"
HALF = "07 Which half is the gate?"
RANKS = "07 How do two processes share the layer?"


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


def _packed_weights(hidden_size, intermediate_size):
    w_gate, w_up, w_down = weights(hidden_size, intermediate_size)
    return torch.cat([w_gate, w_up]), w_down


def _unpacked(f):
    """The answer as a function of three weights."""
    return lambda x, w_gate, w_up, w_down: f(x, torch.cat([w_gate, w_up]), w_down)


def _units(f):
    """Which pairs of rows of the packed weight make a unit: those that are not zero together.

    Only feature 1 of x is not zero, and only row 2 of w_down.
    """
    pairs = []
    for pair in combinations(range(6), 2):
        x, w, down = torch.zeros(1, 1, 4), torch.zeros(6, 4), torch.zeros(4, 3)
        x[..., 1], w[pair, 1], down[2] = 1.0, 2.0, 1.0
        if f(x, w, down)[0, 0, 2].abs() > 1e-6:
            pairs.append(pair)
    return pairs


def _units_by_rows(f):
    pairs = _units(f)
    if pairs == [(0, 3), (1, 4), (2, 5)] or len(pairs) > 3:  # one row is enough: others tell that
        return None
    return (
        "With 3 units, rows 0 to 2 are gate and 3 to 5 up, so row 0 meets row 3, 1 meets 4, and 2 "
        f"meets 5. In yours {', '.join(f'row {i} meets {k}' for i, k in pairs) or 'none meet'}. A "
        "unit's gate and up stand I rows apart, and a `reshape` would mix rows and columns: "
        "transpose, `w.T`."
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


_x = draw(2, 3, 5)
PACKED = exercise(
    "swiglu_packed",
    globals(),
    cases=(
        Case((_x, *_packed_weights(5, 7))),
        Case((draw(4, 4, 4), *_packed_weights(4, 4)), "D = I"),
        Case((draw(2, 2, 6), *_packed_weights(6, 3)), "D = 2·I"),
        Case((60 * _x, *_packed_weights(5, 7)), "gates beyond ±100"),
        Case((_x.double(), *(w.double() for w in _packed_weights(5, 7))), "float64"),
    ),
    properties=(
        Property("units by rows", _units_by_rows, HALF),
        *(rule.of(_unpacked) for rule in RULES),
    ),
    call=_packed_call,
    remark=_packed_remark,
)


# --- fuse_gate_up


_PROBES = tuple(draw(3, 4, seed=seed, dtype=torch.float64) for seed in (1, 2))
_NAMES = [f"{name} {i}" for name in ("gate", "up") for i in range(3)]


def _rows_in_order(f):
    right, fused = torch.cat(_PROBES), f(*_PROBES)
    if torch.equal(fused, right):
        return None
    own = list(zip(_NAMES, right, strict=True))
    yours = [next((n for n, row in own if same(r, row)), "none of these") for r in fused]
    return (
        "With 3 rows of gate and 3 of up the rows should be gate 0, 1, 2 and up 0, 1, 2, as "
        f"[gate; up]. Yours are {', '.join(yours)}. Put whole rows together as they are, along "
        "axis 0."
    )


FUSE = exercise(
    "fuse_gate_up",
    globals(),
    cases=(
        Case(weights(5, 7)[:2]),
        Case(weights(4, 4)[:2], "D = I"),
        Case(tuple(w.bfloat16() for w in weights(5, 3)[:2]), "bfloat16"),
    ),
    properties=(Property("gate's rows first, up's below", _rows_in_order, ONE_PRODUCT),),
)


# --- shard_gate_up

COUNT = 12  # hidden units: several for each of 2, 3 and 4 ranks


def _rows(f, rank, world_size):
    """Which rows of the packed weight a rank gets: row i of the probe holds the number i."""
    w = torch.arange(2.0 * COUNT).unsqueeze(1).repeat(1, 3)
    return [int(row) for row in f(w, rank, world_size)[:, 0]]


def _listed(rows):
    """Row numbers in words, short where they follow each other."""
    if len(rows) > 2 and rows == list(range(rows[0], rows[-1] + 1)):
        return f"{rows[0]} to {rows[-1]}"
    return ", ".join(map(str, rows)) or "none"


def _whole_rows(f):
    w = draw(2 * COUNT, 3, dtype=torch.float64)
    for i, row in enumerate(f(w, 1, 2)):
        if not (row == w).all(dim=1).any():
            return (
                f"Each row of a shard should be a row of the weight, as it is, and row {i} is none "
                "of them. Put whole rows together, along axis 0."
            )
    return None


def _units_of_ranks(f):
    for ranks, n in ((2, 6), (3, 4), (4, 3)):
        for rank in range(ranks):
            rows, units = _rows(f, rank, ranks), list(range(rank * n, (rank + 1) * n))
            if rows != units + [COUNT + unit for unit in units]:
                return (
                    f"Of 12 units, rank {rank} of {ranks} should get the rows {_listed(units)} of "
                    f"gate and below them {12 + units[0]} to {12 + units[-1]} of up. Yours gets "
                    f"the rows {_listed(rows[:n])} and {_listed(rows[n:])}. The same forward reads "
                    "a shard as [gate; up], row i of gate belongs to row 12 + i of up, and rank r "
                    "has the units from r·n on, n = I/world_size, as their columns of `w_down`."
                )
    return None


SHARD = exercise(
    "shard_gate_up",
    globals(),
    cases=(
        Case((_packed_weights(5, 12)[0], 0, 2)),
        Case((_packed_weights(5, 12)[0], 1, 2)),
        Case((_packed_weights(5, 12)[0], 1, 3), "three ranks"),
        Case((_packed_weights(5, 12)[0], 3, 4), "the last of four ranks"),
        Case((_packed_weights(8, 4)[0], 1, 2), "a square weight"),
        Case((_packed_weights(3, 4)[0], 0, 1), "one rank, which has it all"),
        Case((_packed_weights(5, 8)[0].bfloat16(), 2, 4), "bfloat16"),
    ),
    properties=(
        Property("whole rows", _whole_rows, RANKS),
        Property("units in the order of the ranks", _units_of_ranks, RANKS),
    ),
)

EXERCISES = (PACKED, FUSE, SHARD)
