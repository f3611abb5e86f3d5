"""The block and its parts against torch and plain arithmetic; stacks by depth."""

import re

import pytest
import torch
import torch.nn.functional as F

from course_utils import measure
from course_utils.layers import Attention, LlamaBlock, RMSNorm, SwiGLU, llama_block, rope


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def double(module):
    """The module in float64, its norms' weights no longer ones."""
    for part in module.modules():
        if isinstance(part, RMSNorm):
            torch.nn.init.uniform_(part.weight, 0.5, 2)
    return module.double()


# --- rope


def by_complex_numbers(x, theta):
    """The pair (i, i + half) of a feature vector at position t, turned by t · theta^(−i/half)."""
    half = x.shape[-1] // 2
    angles = torch.tensor(
        [[t * theta ** (-i / half) for i in range(half)] for t in range(x.shape[-2])]
    )
    pairs = torch.complex(x[..., :half].float(), x[..., half:].float())
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=-1)


@pytest.mark.parametrize("theta", [10_000.0, 500_000.0])
@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (1, 1, 1, 2), (1, 2, 16, 4)])
def test_rope_turns_each_pair(theta, shape):
    x = torch.randn(shape)
    torch.testing.assert_close(rope(x, theta), by_complex_numbers(x, theta))


def test_rope_leaves_position_zero_and_every_length_alone():
    x = torch.randn(1, 2, 6, 8)
    y = rope(x)
    assert torch.equal(y[:, :, 0], x[:, :, 0])
    torch.testing.assert_close(y.norm(dim=-1), x.norm(dim=-1))


def test_rope_makes_products_depend_on_the_distance_alone():
    q, k = (torch.randn(8).expand(1, 1, 9, 8) for _ in range(2))  # one vector at every position
    products = (rope(q) @ rope(k).mT)[0, 0]
    for distance in range(-3, 4):
        along = products.diagonal(distance)
        torch.testing.assert_close(along, along[:1].expand_as(along))
    assert (products[0, 0] - products[0, 3]).abs() > 0.01


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_rope_keeps_the_dtype(dtype):
    assert rope(torch.randn(1, 1, 3, 4, dtype=dtype)).dtype == dtype


# --- attention


def plain_attention(module, x, heads, kv_heads, theta=10_000.0):
    """Head by head, with a written-out mask and softmax."""
    size, time = module.head_dim, x.shape[1]
    q, k, v = (x @ proj.weight.T for proj in (module.q_proj, module.k_proj, module.v_proj))
    future = torch.ones(time, time, dtype=torch.bool).triu(1)
    out = []
    for head in range(heads):
        group = head // (heads // kv_heads)
        at, shared = (slice(i * size, (i + 1) * size) for i in (head, group))
        q_head = by_complex_numbers(q[..., at], theta).to(x.dtype)
        k_head = by_complex_numbers(k[..., shared], theta).to(x.dtype)
        scores = (q_head @ k_head.mT / size**0.5).masked_fill(future, -torch.inf)
        out.append(scores.softmax(-1) @ v[..., shared])
    return torch.cat(out, dim=-1) @ module.o_proj.weight.T


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, None), (4, 4), (4, 2), (4, 1), (1, 1)])
@pytest.mark.parametrize(("batch", "time"), [(2, 5), (1, 1), (3, 16)])
def test_attention_is_softmax_of_products_head_by_head(heads, kv_heads, batch, time):
    module, x = Attention(16, heads, kv_heads), torch.randn(batch, time, 16)
    expected = plain_attention(module, x, heads, kv_heads or heads)
    torch.testing.assert_close(module(x), expected, atol=1e-5, rtol=1e-4)


def test_attention_takes_its_theta():
    module, x = Attention(16, 2, rope_theta=7.0), torch.randn(1, 9, 16)
    torch.testing.assert_close(module(x), plain_attention(module, x, 2, 2, theta=7.0))
    other = plain_attention(module, x, 2, 2)
    assert (module(x) - other).norm() > 0.01 * other.norm()


@pytest.mark.parametrize("changed", range(6))
def test_a_changed_token_moves_no_earlier_output(changed):
    module, x = Attention(16, 4, 2).double(), torch.randn(1, 6, 16).double()
    y = x.clone()
    y[:, changed] += 1
    moved = (module(y) - module(x)).abs().amax(dim=(0, 2)) > 1e-9
    assert moved.tolist() == [t >= changed for t in range(6)]


@pytest.mark.parametrize(("kv_heads", "width"), [(None, 16), (4, 16), (2, 8), (1, 4)])
def test_grouped_heads_have_smaller_keys_and_values(kv_heads, width):
    module = Attention(16, 4, kv_heads)
    shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    assert shapes == {
        "q_proj.weight": (16, 16),
        "k_proj.weight": (width, 16),
        "v_proj.weight": (width, 16),
        "o_proj.weight": (16, 16),
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 1), "hidden_size must be a whole number, 1 or more, got 0"),
        ((16.0, 1), "hidden_size must be a whole number, 1 or more, got 16.0"),
        ((16, 0), "num_heads must be a whole number, 1 or more, got 0"),
        ((16, True), "num_heads must be a whole number, 1 or more, got True"),
        ((16, 3), "num_heads must divide hidden_size, 16, got 3"),
        ((16, 4, 3), "num_kv_heads must divide num_heads, 4, got 3"),
        ((16, 4, 8), "num_kv_heads must divide num_heads, 4, got 8"),
        ((16, 4, 0), "num_kv_heads must be a whole number, 1 or more, got 0"),
        ((16, 16), "hidden_size / num_heads must be even for rope, got 1"),
    ],
)
def test_attention_says_which_size_is_wrong(arguments, words):
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        Attention(*arguments)


@pytest.mark.parametrize("make", [lambda: Attention(16, 4), lambda: SwiGLU(16, 24)])
def test_a_sublayer_refuses_another_number_of_features(make):
    words = re.escape("x must end in hidden_size, 16 features, got (1, 2, 8)")
    with pytest.raises(ValueError, match=f"^{words}$"):
        make()(torch.randn(1, 2, 8))


# --- the block


def test_llama_block_is_two_residual_steps():
    """By numbers that show who read what: each part multiplies by its own prime."""
    x = torch.ones(1, 1, 1)
    y = llama_block(x, lambda h: 5 * h, lambda h: 7 * h, lambda h: 2 * h, lambda h: 3 * h)
    assert y.item() == (1 + 5 * 2) * (1 + 7 * 3)


def test_llama_block_calls_each_part_once_and_leaves_x_alone():
    calls, x = [], torch.randn(2, 3, 4)
    before = x.clone()

    def part(name):
        return lambda h: calls.append(name) or torch.zeros_like(h)

    y = llama_block(x, *(part(name) for name in ("attn", "ffn", "norm1", "norm2")))
    assert calls == ["norm1", "attn", "norm2", "ffn"]
    assert torch.equal(x, before) and torch.equal(y, x)


@pytest.mark.parametrize("kv_heads", [None, 2])
@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_a_block_is_its_parts_in_torch(kv_heads, eps):
    block, x = double(LlamaBlock(16, 24, 4, kv_heads, eps=eps)), torch.randn(2, 5, 16).double()
    first, second = block.input_layernorm.weight, block.post_attention_layernorm.weight
    h = x + block.self_attn(F.rms_norm(x, (16,), first, eps))
    z, mlp = F.rms_norm(h, (16,), second, eps), block.mlp
    gated = F.silu(z @ mlp.gate_proj.weight.T) * (z @ mlp.up_proj.weight.T)
    torch.testing.assert_close(block(x), h + gated @ mlp.down_proj.weight.T)


def test_a_block_has_the_names_of_hugging_faces_layer_and_no_other():
    block = LlamaBlock(16, 24, 4)
    norms = {f"{name}.weight" for name in ("input_layernorm", "post_attention_layernorm")}
    attention = {f"self_attn.{name}_proj.weight" for name in "qkvo"}
    ffn = {f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")}
    assert set(block.state_dict()) == norms | attention | ffn
    assert block.input_layernorm.eps == block.post_attention_layernorm.eps == 1e-5


def test_a_block_hands_its_arguments_on():
    block = LlamaBlock(16, 24, 4, 2, eps=0.5, rope_theta=3.0)
    assert block.post_attention_layernorm.eps == 0.5 and block.self_attn.rope_theta == 3.0
    assert block.self_attn.k_proj.out_features == 8 and block.mlp.up_proj.out_features == 24


def test_with_zero_sublayers_a_block_is_the_identity_and_its_gradient_too():
    block = LlamaBlock(16, 24, 4)
    for last in (block.self_attn.o_proj, block.mlp.down_proj):
        torch.nn.init.zeros_(last.weight)
    x = torch.randn(2, 3, 16, requires_grad=True)
    y, direction = block(x), torch.randn(2, 3, 16)
    y.backward(direction)
    assert torch.equal(y, x) and torch.equal(x.grad, direction)


def test_every_parameter_of_a_block_has_a_gradient():
    block = LlamaBlock(16, 24, 4, 2)
    block(torch.randn(2, 5, 16)).square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in block.parameters())


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: LlamaBlock(0, 24, 4), ValueError, "dim must be a whole number, 1 or more, got 0"),
        (lambda: LlamaBlock(16, 0, 4), ValueError, "intermediate_size must be a whole number"),
        (lambda: LlamaBlock(16, 24, 5), ValueError, "num_heads must divide hidden_size, 16, got 5"),
        (lambda: LlamaBlock(16, 24, 4, 3), ValueError, "num_kv_heads must divide num_heads, 4"),
        (lambda: LlamaBlock(16, 24, 4, eps=-1), ValueError, "eps must be finite and zero or more"),
        (lambda: LlamaBlock(16, 24, 4, eps="1"), TypeError, "eps must be a number, got str"),
        (lambda: LlamaBlock(16, 24, 4)(torch.randn(2, 3, 8)), ValueError, "weight must have shape"),
        (lambda: LlamaBlock(16, 24, 4)([1.0]), TypeError, "x must be a torch tensor, got list"),
    ],
)
def test_a_block_says_what_is_wrong(make, error, words):
    with pytest.raises(error, match=words):
        make()


# --- stacks by depth (tests/test_explorers.py computes them again, by hand)


def test_depth_run_has_one_number_for_each_place_in_the_stack():
    run = measure.depth_run("pre", (1, 3))
    assert run.stream.shape == (4,) and run.stream.dtype == torch.float64
    assert {depth: tuple(g.shape) for depth, g in run.gradient.items()} == {1: (1,), 3: (3,)}
    assert run.stream.isfinite().all() and min(g.min() for g in run.gradient.values()) > 0


@pytest.mark.parametrize("place", measure.PLACES)
def test_stacks_share_their_first_blocks(place):
    long, short = measure.depth_run(place, (2, 4)), measure.depth_run(place, (2,))
    torch.testing.assert_close(long.gradient[2], short.gradient[2])
    torch.testing.assert_close(long.stream[1:2], short.stream[1:2])


def test_depth_run_is_the_same_each_time_and_another_with_another_seed():
    first, again = (measure.depth_run("post", (2,), seed=3) for _ in range(2))
    other = measure.depth_run("post", (2,), seed=4)
    assert torch.equal(first.gradient[2], again.gradient[2])
    assert not torch.equal(first.gradient[2], other.gradient[2])


def test_depth_run_leaves_random_numbers_threads_and_dtype_alone():
    before = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
    measure.depth_run("pre", (1,))
    after = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]


def test_with_weights_of_zero_nothing_is_added():
    run = measure.depth_run("pre", (3,), std=0.0)
    assert torch.equal(run.stream, run.stream[:1].expand(4))


@pytest.mark.parametrize("seed", range(4, 8))
def test_what_the_notebook_says_of_depth_holds_for_other_seeds(seed):
    pre, post = (measure.depth_run(place, (2, 12, 48), seed=seed) for place in ("pre", "post"))
    assert 1.8 < pre.stream[48] / pre.stream[12] < 2.2
    assert post.gradient[2][-1] / pre.gradient[2][-1] < 2
    assert post.gradient[48][-1] / pre.gradient[48][-1] > 5
    assert pre.gradient[48][23] / pre.gradient[48][47] < 3
    assert post.gradient[48][23] / post.gradient[48][47] > 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("middle", (2,)), "place must be one of ('pre', 'post', 'none'), got 'middle'"),
        (("pre", ()), "depths must be numbers of blocks, 1 or more, got ()"),
        (("pre", (0, 2)), "depths must be numbers of blocks, 1 or more, got (0, 2)"),
    ],
)
def test_depth_run_says_what_is_wrong(arguments, words):
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        measure.depth_run(*arguments)
