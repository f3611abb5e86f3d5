"""Fuse, split, shard and rename, against plain torch; and every message."""

import ast

import pytest
import torch
import torch.nn.functional as F
from course import ROOT, code_cells

from course_utils import packing
from course_utils.measure import packed_reading
from course_utils.packing import (
    convert_ffn_names,
    fuse_gate_up,
    shard_down,
    shard_gate_up,
    split_gate_up,
    swiglu_packed,
)

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int8]


def rows(count, width=3, start=0, dtype=torch.float32):
    """Rows that can be told apart: row i is start + i everywhere."""
    return torch.arange(start, start + count).unsqueeze(1).expand(count, width).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fuse_then_split_gives_every_bit_back(dtype):
    w_gate, w_up = rows(4, dtype=dtype), rows(4, start=50, dtype=dtype)
    fused = fuse_gate_up(w_gate, w_up)
    assert fused[:, 0].tolist() == [0, 1, 2, 3, 50, 51, 52, 53] and fused.dtype == dtype
    for half, whole in zip(split_gate_up(fused), (w_gate, w_up), strict=True):
        assert torch.equal(half, whole)


def test_fusing_is_new_memory_and_splitting_is_not():
    w_gate, w_up = torch.zeros(2, 3), torch.zeros(2, 3)
    fused = fuse_gate_up(w_gate, w_up)
    fused += 1
    assert not w_gate.any() and not w_up.any()
    split_gate_up(fused)[1].zero_()
    assert fused.sum(dim=1).tolist() == [3, 3, 0, 0]


@pytest.mark.parametrize("world_size", [1, 2, 3, 6])
def test_each_rank_gets_its_part_of_both_and_the_outputs_add_up(world_size):
    g = torch.Generator().manual_seed(0)
    x, w_gate, w_up, w_down = (
        torch.randn(size, generator=g).double() for size in ((2, 4, 5), (6, 5), (6, 5), (5, 6))
    )
    right = (F.silu(x @ w_gate.T) * (x @ w_up.T)) @ w_down.T
    fused = fuse_gate_up(w_gate, w_up)
    torch.testing.assert_close(swiglu_packed(x, fused, w_down), right)
    gates, ups, downs = (
        w_gate.chunk(world_size),
        w_up.chunk(world_size),
        w_down.chunk(world_size, 1),
    )
    total = 0
    for rank in range(world_size):
        gate_up, down = shard_gate_up(fused, rank, world_size), shard_down(w_down, rank, world_size)
        assert torch.equal(gate_up, torch.cat([gates[rank], ups[rank]]))
        assert torch.equal(down, downs[rank]) and down.is_contiguous()
        total = total + swiglu_packed(x, gate_up, down)
    torch.testing.assert_close(total, right)


def test_the_forward_that_notebook_07_defines_is_the_librarys():
    (source,) = (
        cell.source
        for cell in code_cells(ROOT / "notebooks" / "07_fused_gate_up.ipynb")
        if "def fused_forward" in cell.source
    )
    namespace = {"F": F}
    exec(ast.unparse(ast.parse(source).body[0]), namespace)
    x, w_gate_up, w_down = torch.randn(2, 5), torch.randn(6, 5), torch.randn(5, 3)
    torch.testing.assert_close(
        namespace["fused_forward"](x, w_gate_up, w_down), swiglu_packed(x, w_gate_up, w_down)
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fuse_gate_up([1], rows(2)), TypeError, "w_gate must be a torch tensor, got list"),
        (lambda: fuse_gate_up(rows(2)[0], rows(2)), ValueError, "w_gate must be a matrix"),
        (lambda: fuse_gate_up(rows(2), rows(3)), ValueError, r"w_up must be \(2, 3\) float32"),
        (lambda: fuse_gate_up(rows(2), rows(2, 1)), ValueError, r"got \(2, 1\) float32"),
        (lambda: fuse_gate_up(rows(2), rows(2).half()), ValueError, r"got \(2, 3\) float16"),
        (lambda: fuse_gate_up(rows(2), [1]), TypeError, "w_up must be a torch tensor, got list"),
        (lambda: split_gate_up(rows(5)), ValueError, "w_gate_up must have an even number .* got 5"),
        (lambda: split_gate_up(rows(4)[0]), ValueError, "w_gate_up must be a matrix"),
        (lambda: shard_gate_up(rows(12), 0, 4), ValueError, "must divide the 6 .* units, got 4"),
        (lambda: shard_gate_up(rows(12), 0, 0), ValueError, "must divide the 6 .* units, got 0"),
        (lambda: shard_gate_up(rows(12), 2, 2), ValueError, "rank must be 0 … 1, got 2"),
        (lambda: shard_gate_up(rows(12), -1, 2), ValueError, "rank must be 0 … 1, got -1"),
        (lambda: shard_down(rows(4), 0, 2), ValueError, "must divide the 3 .* units, got 2"),
        (lambda: shard_down(rows(4)[0], 0, 2), ValueError, "w_down must be a matrix"),
    ],
)
def test_bad_weights_and_ranks_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


# --- names

PREFIXES = ["", "mlp.", "model.layers.0.mlp.", "layers.31.feed_forward.", "block.experts.7."]
OTHERS = {"norm.weight": torch.ones(3), "lm_head.weight": rows(9), "inv_freq": torch.arange(2.0)}


def network(naming, prefix="mlp.", dtype=torch.float32):
    """A network of I = 4, D = 3 under the names of one naming, written down by hand."""
    gate, up, down = rows(4, 3, 0, dtype), rows(4, 3, 50, dtype), rows(3, 4, 90, dtype)
    by_name = {
        "meta": {"w1": gate, "w2": down, "w3": up},
        "hf": {"gate_proj": gate, "up_proj": up, "down_proj": down},
        "fused": {"gate_up_proj": torch.cat([gate, up]), "down_proj": down},
    }
    return {f"{prefix}{name}.weight": tensor for name, tensor in by_name[naming].items()}


def assert_same(converted, expected):
    assert list(converted) == list(expected)
    for key, tensor in expected.items():
        assert converted[key].dtype == tensor.dtype and torch.equal(converted[key], tensor), key


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("after", packing.NAMINGS)
@pytest.mark.parametrize("before", packing.NAMINGS)
def test_every_naming_becomes_every_other(before, after, dtype):
    assert_same(convert_ffn_names(network(before, dtype=dtype), after), network(after, dtype=dtype))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_any_prefix_is_kept(prefix):
    assert_same(convert_ffn_names(network("meta", prefix), "fused"), network("fused", prefix))


def test_all_layers_are_converted_and_everything_else_passes_through_in_its_place():
    state = {"first": OTHERS["inv_freq"]}
    for prefix in PREFIXES:
        state |= network("hf", prefix) | {f"{prefix}norm.weight": torch.ones(3)}
    state |= OTHERS
    before = dict(state)
    fused = convert_ffn_names(state, "fused")
    assert list(state) == list(before) and all(state[k] is before[k] for k in before)
    assert len(fused) == len(state) - len(PREFIXES)
    assert list(fused)[:4] == ["first", "gate_up_proj.weight", "down_proj.weight", "norm.weight"]
    assert all(fused[key] is OTHERS[key] for key in OTHERS)
    assert_same(convert_ffn_names(fused, "hf"), state)


def test_a_network_whose_weights_lie_apart_stands_together_afterwards():
    state = network("hf")
    down = state.pop("mlp.down_proj.weight")
    state |= {"between": torch.ones(1), "mlp.down_proj.weight": down}
    assert list(convert_ffn_names(state, "meta")) == [*network("meta"), "between"]


def test_what_is_split_can_be_saved_alone():
    split = convert_ffn_names(network("fused"), "hf")
    sizes = [split[f"mlp.{name}_proj.weight"].untyped_storage().nbytes() for name in ("gate", "up")]
    assert sizes == [4 * 3 * 4] * 2


def test_names_that_only_look_alike_are_left_alone():
    alike = {"myw1.weight": rows(2), "w1": rows(2), "up_projection.weight": rows(2)}
    converted = convert_ffn_names(alike | network("meta"), "hf")
    assert all(converted[key] is alike[key] for key in alike)


def without(state, name):
    return {key: tensor for key, tensor in state.items() if name not in key}


def changed(state, name, tensor):
    return {key: tensor if name in key else old for key, old in state.items()}


@pytest.mark.parametrize(
    ("state", "to", "message"),
    [
        (network("hf"), "ggml", "to must be one of meta, hf, fused, got 'ggml'"),
        (OTHERS, "hf", r"no feed-forward weights: no key ends in one of w1\.weight"),
        ({"fc1.weight": rows(4), "fc2.weight": rows(4)}, "hf", "no feed-forward weights"),
        ({}, "hf", "no feed-forward weights"),
        (without(network("hf"), "up_proj"), "fused", r"mlp\.up_proj\.weight is missing, the partn"),
        (without(network("meta"), "w1"), "fused", r"mlp\.w1\.weight is missing, .* of w2, w3"),
        (
            without(network("fused"), "gate_up"),
            "hf",
            r"weight is missing, the partner of down_proj",
        ),
        (without(network("fused"), "down"), "hf", r"mlp\.down_proj\.weight is missing"),
        (network("hf") | network("meta"), "fused", "mlp.: .* belong to more than one naming"),
        (network("hf") | network("fused"), "meta", "mlp.: .* belong to more than one naming"),
        (network("hf") | {"mlp.up_proj.bias": rows(1)[0]}, "meta", r"mlp\.up_proj\.bias: only wei"),
        (
            changed(network("hf"), "up_proj", rows(5)),
            "fused",
            r"mlp\.up_proj\.weight must be \(4, 3\) beside a down .* \(3, 4\), got \(5, 3\)",
        ),
        (changed(network("hf"), "gate_proj", rows(3, 4)), "meta", r"must be \(4, 3\) .* \(3, 4\)$"),
        (changed(network("fused"), "gate_up", rows(4)), "hf", r"must be \(8, 3\) .* got \(4, 3\)"),
        (
            changed(network("meta"), "w2", rows(4)),
            "hf",
            r"w1\.weight must be \(3, 4\) beside a down",
        ),
        (changed(network("meta"), "w2", rows(4)[0]), "hf", r"mlp\.w2\.weight must be a matrix"),
        (changed(network("hf"), "up_proj", rows(4).half()), "fused", "gate is .*32, up .*float16"),
    ],
)
def test_a_state_dict_that_does_not_fit_is_refused(state, to, message):
    before = dict(state)
    with pytest.raises(ValueError, match=message):
        convert_ffn_names(state, to)
    assert state == before or all(state[key] is before[key] for key in before)


# --- the explorer's numbers


def test_a_right_cut_reads_every_row_right_and_a_wrong_one_does_not():
    units = [f"{kind}{unit}" for unit in range(4) for kind in "gu"]
    for ranks in (1, 2, 4):
        reading = packed_reading(0, 1, ranks)
        assert list(reading.read) == units and reading.error < 1e-12
        assert list(reading.owner) == [unit * ranks // 4 for unit in range(4)] * 2
    blocks = packed_reading(0, 0, 2)
    assert list(blocks.stored) == ["g0", "g1", "g2", "g3", "u0", "u1", "u2", "u3"]
    assert list(blocks.owner) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert list(blocks.read) == ["g0", "g2", "g1", "g3", "u0", "u2", "u1", "u3"]
    assert blocks.error > 1
