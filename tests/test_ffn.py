"""The gated feed-forward network: a function, two modules, one formula; and every message."""

import random

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional as F

from course_utils.layers import FusedSwiGLU, SwiGLU, gated_ffn

ACTIVATIONS = {
    "GLU": torch.sigmoid,
    "Bilinear": lambda g: g,
    "ReGLU": F.relu,
    "GEGLU": F.gelu,
    "SwiGLU": F.silu,
}
both = pytest.mark.parametrize("layer", [SwiGLU, FusedSwiGLU])


def random_tensor(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def example(shape, hidden_size, intermediate_size, seed=0):
    """x and three weights, gate, up and down, whose numbers all differ."""
    return (
        random_tensor(*shape, hidden_size, seed=seed),
        random_tensor(intermediate_size, hidden_size, seed=seed + 1),
        random_tensor(intermediate_size, hidden_size, seed=seed + 2),
        random_tensor(hidden_size, intermediate_size, seed=seed + 3),
    )


def by_einsum(x, w_gate, w_up, w_down, activation=F.silu):
    """The formula again, sharing nothing with the library."""
    gate = torch.einsum("...d,id->...i", x, w_gate)
    up = torch.einsum("...d,id->...i", x, w_up)
    return torch.einsum("...i,...i,di->...d", activation(gate), up, w_down)


@torch.no_grad()
def module(layer, w_gate, w_up, w_down):
    """A SwiGLU or FusedSwiGLU with these weights."""
    made = layer(w_gate.shape[1], w_gate.shape[0]).to(w_gate.dtype)
    if layer is FusedSwiGLU:
        made.gate_up_proj.weight.copy_(torch.cat([w_gate, w_up]))
    else:
        made.gate_proj.weight.copy_(w_gate)
        made.up_proj.weight.copy_(w_up)
    made.down_proj.weight.copy_(w_down)
    return made


# Values


def test_values_by_hand():
    """One unit, one feature: 5 · silu(2) · 3; a gate of 0 gives nothing."""
    weights = torch.tensor([[2.0]]), torch.tensor([[3.0]]), torch.tensor([[5.0]])
    y = gated_ffn(torch.tensor([[1.0], [0.0]]), *weights)
    silu_of_2 = 2 / (1 + torch.tensor(-2.0).exp())
    torch.testing.assert_close(y, torch.stack([15 * silu_of_2, torch.tensor(0.0)]).unsqueeze(-1))


@pytest.mark.parametrize("seed", range(12))
def test_the_three_agree_with_an_einsum(seed):
    """Random shapes, square ones among them: function, module and fused module are one formula."""
    draw = random.Random(seed)
    shape = [draw.randint(1, 4) for _ in range(draw.randint(0, 3))]
    hidden_size = draw.randint(1, 9)
    intermediate_size = hidden_size if seed % 3 == 0 else draw.randint(1, 24)
    x, *weights = example(shape, hidden_size, intermediate_size, seed)
    expected = by_einsum(x, *weights)
    torch.testing.assert_close(gated_ffn(x, *weights), expected)
    torch.testing.assert_close(module(SwiGLU, *weights)(x), expected)
    torch.testing.assert_close(module(FusedSwiGLU, *weights)(x), expected)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_each_member_of_the_family(name):
    x, *weights = example((2, 3), 4, 6)
    activation = ACTIVATIONS[name]
    y = gated_ffn(x, *weights, activation=activation)
    torch.testing.assert_close(y, by_einsum(x, *weights, activation))
    others = [f for other, f in ACTIVATIONS.items() if other != name]
    assert not any(torch.allclose(y, by_einsum(x, *weights, f), rtol=1e-3) for f in others)


def test_the_default_activation_is_silu():
    x, *weights = example((3,), 4, 6)
    torch.testing.assert_close(gated_ffn(x, *weights), gated_ffn(x, *weights, activation=F.silu))


def test_up_is_linear_and_gate_is_not():
    x, w_gate, w_up, w_down = example((3,), 4, 6)
    y = gated_ffn(x, w_gate, w_up, w_down)
    torch.testing.assert_close(gated_ffn(x, w_gate, -3 * w_up, w_down), -3 * y)
    assert not torch.allclose(gated_ffn(x, 2 * w_gate, w_up, w_down), 2 * y, rtol=0.1)
    assert not torch.allclose(gated_ffn(x, w_up, w_gate, w_down), y, rtol=0.1)


@both
def test_tokens_do_not_see_each_other(layer):
    x, *weights = example((3, 4), 5, 7)
    changed = x.clone()
    changed[1, 2] *= 100
    moved = (module(layer, *weights)(changed) != module(layer, *weights)(x)).any(dim=-1)
    assert moved.nonzero().tolist() == [[1, 2]]


# Shapes, dtypes, parameters


@both
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 3), (2, 0, 3), (2, 3, 4)], ids=str)
def test_the_shape_comes_back(layer, shape):
    x, *weights = example(shape, 5, 7)
    assert module(layer, *weights)(x).shape == x.shape
    assert gated_ffn(x, *weights).shape == x.shape


@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_dtype_comes_back_and_the_numbers_are_near(layer, dtype):
    x, *weights = example((4, 3), 16, 40)
    y = module(layer, *(w.to(dtype) for w in weights))(x.to(dtype))
    assert y.dtype == dtype
    expected = by_einsum(x, *weights)
    assert (y.double() - expected).norm() <= 4 * torch.finfo(dtype).eps * expected.norm()


def test_what_a_module_learns():
    """Three matrices, or two when gate and up are one; no bias; zeros give zeros."""
    shapes = {name: tuple(p.shape) for name, p in SwiGLU(5, 7).named_parameters()}
    assert shapes == {
        "gate_proj.weight": (7, 5),
        "up_proj.weight": (7, 5),
        "down_proj.weight": (5, 7),
    }
    shapes = {name: tuple(p.shape) for name, p in FusedSwiGLU(5, 7).named_parameters()}
    assert shapes == {"gate_up_proj.weight": (14, 5), "down_proj.weight": (5, 7)}
    for layer in (SwiGLU(5, 7), FusedSwiGLU(5, 7)):
        assert torch.equal(layer(torch.zeros(2, 5)), torch.zeros(2, 5))


@both
def test_the_input_and_the_weights_stay_as_they_are(layer):
    x, *weights = example((2, 3), 4, 6)
    ffn, before = module(layer, *weights), [t.clone() for t in (x, *weights)]
    ffn(x)
    gated_ffn(x, *weights)
    assert all(torch.equal(a, b) for a, b in zip((x, *weights), before, strict=True))


# Gradients


@pytest.mark.parametrize("name", ["GLU", "Bilinear", "GEGLU", "SwiGLU"])
def test_gradients(name):
    """Of x and all three weights, against finite differences."""
    inputs = [t.requires_grad_() for t in example((2, 2), 3, 4)]
    assert gradcheck(lambda *args: gated_ffn(*args, activation=ACTIVATIONS[name]), inputs)


@both
def test_gradients_of_the_modules(layer):
    """Each parameter of the module gets what autograd gives the function's weights."""
    x, *weights = example((2, 3), 4, 6)
    ffn, weights = module(layer, *weights), [w.requires_grad_() for w in weights]
    dy = random_tensor(2, 3, 4, seed=9)
    ffn(x).backward(dy)
    dgate, dup, ddown = torch.autograd.grad(by_einsum(x, *weights), weights, dy)
    expected = [torch.cat([dgate, dup]), ddown] if layer is FusedSwiGLU else [dgate, dup, ddown]
    for p, grad in zip(ffn.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, grad)


# Messages


@both
@pytest.mark.parametrize("value", [0, -1, 2.0, True, None, "8"])
@pytest.mark.parametrize("name", ["hidden_size", "intermediate_size"])
def test_sizes_are_whole_numbers(layer, name, value):
    sizes = {"hidden_size": 4, "intermediate_size": 6} | {name: value}
    with pytest.raises(ValueError) as raised:
        layer(**sizes)
    assert str(raised.value) == f"{name} must be a whole number, 1 or more, got {value!r}"


@both
@pytest.mark.parametrize("shape", [(), (5,), (2, 1), (4, 3)], ids=str)
def test_x_must_end_in_the_hidden_size(layer, shape):
    with pytest.raises(ValueError) as raised:
        layer(4, 6)(torch.zeros(shape))
    assert str(raised.value) == f"x must end in hidden_size, 4 features, got {shape}"


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(6,), (6, 4), (4, 6)], "w_gate must be (I, D) with D the last of x (2, 4), got (6,)"),
        ([(4, 6), (4, 6), (6, 4)], "w_gate must be (I, D) with D the last of x (2, 4), got (4, 6)"),
        ([(6, 4), (4, 6), (4, 6)], "w_up must be (6, 4), as w_gate is, got (4, 6)"),
        ([(6, 4), (1, 4), (4, 6)], "w_up must be (6, 4), as w_gate is, got (1, 4)"),
        ([(6, 4), (6, 4), (6, 4)], "w_down must be (4, 6), (D, I), got (6, 4)"),
        ([(6, 4), (6, 4), (4, 1)], "w_down must be (4, 6), (D, I), got (4, 1)"),
    ],
)
def test_weights_of_a_wrong_shape_are_named(shapes, message):
    with pytest.raises(ValueError) as raised:
        gated_ffn(torch.zeros(2, 4), *(torch.zeros(shape) for shape in shapes))
    assert str(raised.value) == message
