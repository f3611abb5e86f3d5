"""LlamaBlock is Hugging Face's LlamaDecoderLayer: with its weights, by name, to 1e-5."""

import inspect
import os

import pytest
import torch

from course_utils.layers import Attention, LlamaBlock, llama_block

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before the import, which reads it
pytest.importorskip("transformers")
from transformers import LlamaConfig
from transformers.models.llama import modeling_llama

D, WIDTH, HEADS, EPS = 64, 172, 4, 0.1  # eps large, so that its place shows
SHAPES = [(2, 9), (1, 1), (3, 16)]
each_grouping = pytest.mark.parametrize("kv_heads", [4, 2, 1], ids=["plain", "grouped", "one"])


def layer(kv_heads, theta=1e4, implementation="eager"):
    """Their layer and the positions it wants, weights of standard deviation 1/√D."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=D,
        intermediate_size=WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=kv_heads,
        rms_norm_eps=EPS,
        attn_implementation=implementation,
    )
    if hasattr(config, "rope_parameters"):  # transformers 5
        config.rope_parameters = {"rope_type": "default", "rope_theta": theta}
    else:
        config.rope_theta = theta
    theirs = modeling_llama.LlamaDecoderLayer(config, layer_idx=0).eval()
    for p in theirs.parameters():
        if p.ndim == 2:
            torch.nn.init.normal_(p, std=D**-0.5)
        else:
            torch.nn.init.uniform_(p, 0.5, 2)  # norms' weights, so that a mix-up shows
    return theirs, modeling_llama.LlamaRotaryEmbedding(config)


@torch.no_grad()
def output(theirs, rotary, x, causal=True):
    time = x.shape[1]
    positions = torch.arange(time)[None]
    future = torch.full((time, time), torch.finfo(x.dtype).min).triu(1)[None, None]
    y = theirs(
        x,
        attention_mask=future if causal else torch.zeros_like(future),
        position_ids=positions,
        position_embeddings=rotary(x, positions),
    )
    return y[0] if isinstance(y, tuple) else y


def ours(theirs, kv_heads, theta=1e4, **kwargs):
    """Our block with their weights: every name must be there, and no other."""
    block = LlamaBlock(D, WIDTH, HEADS, kv_heads, **{"eps": EPS, "rope_theta": theta} | kwargs)
    block.load_state_dict(theirs.state_dict(), strict=True)
    return block


def gap(y, expected):
    """The largest difference, relative to the largest number expected."""
    return ((y - expected).abs().max() / expected.abs().max()).item()


def example(shape):
    return torch.randn(*shape, D, generator=torch.Generator().manual_seed(1))


@each_grouping
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("theta", [1e4, 5e5])
def test_block(kv_heads, shape, theta):
    theirs, rotary = layer(kv_heads, theta)
    x = example(shape)
    with torch.no_grad():
        assert gap(ours(theirs, kv_heads, theta)(x), output(theirs, rotary, x)) < 1e-5


@each_grouping
def test_block_with_their_fast_attention(kv_heads):
    theirs, rotary = layer(kv_heads, implementation="sdpa")
    x = example((2, 9))
    with torch.no_grad():
        assert gap(ours(theirs, kv_heads)(x), output(theirs, rotary, x)) < 1e-5


def test_three_blocks_in_a_row():
    layers = [layer(2) for _ in range(3)]
    x = y = example((2, 9))
    for theirs, rotary in layers:
        with torch.no_grad():
            x, y = output(theirs, rotary, x), ours(theirs, 2)(y)
    assert gap(y, x) < 1e-5


def test_gradient_reaches_the_same_places():
    theirs, rotary = layer(2)
    x = example((2, 9))
    block, direction = ours(theirs, 2), torch.randn_like(x)
    (block(x) * direction).sum().backward()
    (inspect.unwrap(output)(theirs, rotary, x) * direction).sum().backward()
    expected = dict(theirs.named_parameters())
    for name, p in block.named_parameters():
        assert gap(p.grad, expected[name].grad) < 1e-4, name


# --- negative controls: each of these is another layer, and the comparison must say so


def swap(state, a, b):
    return state | {a: state[b], b: state[a]}


WRONG_WEIGHTS = {
    "gate and up swapped": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    "keys and values swapped": ("self_attn.k_proj.weight", "self_attn.v_proj.weight"),
    "queries and output swapped": ("self_attn.q_proj.weight", "self_attn.o_proj.weight"),
    "norms swapped": ("input_layernorm.weight", "post_attention_layernorm.weight"),
}


@torch.no_grad()
@pytest.mark.parametrize("pair", WRONG_WEIGHTS.values(), ids=list(WRONG_WEIGHTS))
def test_swapped_weights_show(pair):
    theirs, rotary = layer(4)
    block, x = ours(theirs, 4), example((2, 9))
    block.load_state_dict(swap(theirs.state_dict(), *pair))
    assert gap(block(x), output(theirs, rotary, x)) > 0.01


@torch.no_grad()
@pytest.mark.parametrize("wrong", [{"eps": 1e-5}, {"rope_theta": 100.0}], ids=str)
def test_another_eps_or_theta_shows(wrong):
    theirs, rotary = layer(4)
    x = example((2, 9))
    assert gap(ours(theirs, 4, **wrong)(x), output(theirs, rotary, x)) > 1e-3


@torch.no_grad()
def test_attention_that_sees_the_future_shows():
    theirs, rotary = layer(4)
    x = example((2, 9))
    assert gap(ours(theirs, 4)(x), output(theirs, rotary, x, causal=False)) > 0.01


@torch.no_grad()
def test_meta_order_of_rotary_pairs_shows():
    """Meta's checkpoints pair neighbours: unpermuted, their q and k give another layer."""
    theirs, rotary = layer(4)
    state = theirs.state_dict()
    order = torch.arange(D).view(HEADS, 2, D // HEADS // 2).mT.flatten()  # halves to neighbours
    for name in ("self_attn.q_proj.weight", "self_attn.k_proj.weight"):
        state[name] = state[name][order]
    block, x = ours(theirs, 4), example((2, 9))
    block.load_state_dict(state)
    assert gap(block(x), output(theirs, rotary, x)) > 1e-3


WRONG_ORDERS = {
    "post-norm": lambda x, a, f, n, m: m((h := n(x + a(x))) + f(h)),
    "no norms": lambda x, a, f, n, m: llama_block(x, a, f, lambda h: h, lambda h: h),
    "first norm twice": lambda x, a, f, n, m: llama_block(x, a, f, n, n),
    "residual of the norm": lambda x, a, f, n, m: (h := n(x) + a(n(x))) + f(m(h)),
    "no residual": lambda x, a, f, n, m: f(m(a(n(x)))),
    "in parallel": lambda x, a, f, n, m: x + a(n(x)) + f(m(x)),
}


@torch.no_grad()
@pytest.mark.parametrize("order", WRONG_ORDERS.values(), ids=list(WRONG_ORDERS))
def test_another_order_shows(order):
    theirs, rotary = layer(4)
    block, x = ours(theirs, 4), example((2, 9))
    parts = block.self_attn, block.mlp, block.input_layernorm, block.post_attention_layernorm
    assert gap(order(x, *parts), output(theirs, rotary, x)) > 0.01


def test_another_number_of_key_value_heads_is_refused():
    theirs, _ = layer(2)
    with pytest.raises(RuntimeError, match=r"size mismatch for k_proj\.weight"):
        Attention(D, HEADS).load_state_dict(theirs.self_attn.state_dict())
