"""The norms' contract: values, shapes, dtypes, gradients, and every message a learner may read."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

from course_utils.layers import RMSNorm, layer_norm, rms_norm

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
HALVES = [torch.float16, torch.bfloat16]
DEFAULT_EPS = {rms_norm: 1e-6, layer_norm: 1e-5}

both = pytest.mark.parametrize("norm", [rms_norm, layer_norm])


def random_tensor(*shape, seed=0, dtype=torch.float32):
    """Seeded normal numbers around one: their variance is not their mean square."""
    generator = torch.Generator().manual_seed(seed)
    return (1 + torch.randn(*shape, generator=generator, dtype=torch.float64)).to(dtype)


def parameters(norm, size, dtype=torch.float32):
    """A weight, and for layer_norm a bias, whose numbers all differ."""
    weight, bias = random_tensor(2, size, seed=1, dtype=dtype)
    return (weight, bias) if norm is layer_norm else (weight,)


def by_numpy(norm, x, weight, bias=None, *, eps):
    """The formulas again, in NumPy and float64, sharing nothing with the library."""
    x, weight = x.double().numpy(), weight.double().numpy()
    if norm is layer_norm:
        x = x - np.mean(x, axis=-1, keepdims=True)
    y = weight * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    return torch.from_numpy(y if bias is None else y + bias.double().numpy())


# Values


@pytest.mark.parametrize(
    ("norm", "x", "eps", "expected"),
    [
        (rms_norm, [3.0, 4.0], 0, [3 / 12.5**0.5, 4 / 12.5**0.5]),
        (rms_norm, [3.0, 4.0], 12.5, [3 / 5, 4 / 5]),
        (layer_norm, [1.0, 3.0], 0, [-1.0, 1.0]),
        (layer_norm, [1.0, 3.0], 3, [-0.5, 0.5]),
    ],
)
def test_values_by_hand(norm, x, eps, expected):
    """Both agree with paper and pencil; a large eps shows that it stands inside the root."""
    torch.testing.assert_close(norm(torch.tensor(x), eps=eps), torch.tensor(expected))


def test_weight_then_bias():
    """The weight scales the normalised vector and the bias is added last."""
    weight, bias = torch.tensor([2.0, 3.0]), torch.tensor([10.0, 20.0])
    y = layer_norm(torch.tensor([1.0, 3.0]), weight, bias, eps=3)
    torch.testing.assert_close(y, torch.tensor([10 - 1.0, 20 + 1.5]))
    y = layer_norm(torch.tensor([1.0, 3.0]), bias=bias, eps=3)
    torch.testing.assert_close(y, torch.tensor([10 - 0.5, 20 + 0.5]))


@pytest.mark.parametrize(
    ("norm", "eps"),
    [(rms_norm, 1e-6), (layer_norm, 1e-5), (RMSNorm(2), 1e-6)],
    ids=["rms_norm", "layer_norm", "RMSNorm"],
)
def test_default_eps(norm, eps):
    """A vector whose mean square is the documented eps comes out with length one, not √2."""
    x = torch.tensor([eps**0.5, -(eps**0.5)])
    torch.testing.assert_close(norm(x).norm(), torch.tensor(1.0))


@both
@pytest.mark.parametrize("seed", range(24))
def test_agrees_with_numpy_and_torch(norm, seed):
    """Random shapes, scales and eps give what NumPy and torch compute in float64."""
    draw = random.Random(seed)
    shape = [draw.randint(1, 6) for _ in range(draw.randint(0, 3))] + [draw.randint(1, 64)]
    eps = draw.choice([1e-6, 1e-5, 0.1, 3.0])
    x = random_tensor(*shape, seed=seed, dtype=torch.float64) * 10 ** draw.uniform(-3, 3)
    params = parameters(norm, shape[-1], torch.float64)
    y = norm(x, *params, eps=eps)
    of_torch = F.rms_norm if norm is rms_norm else F.layer_norm
    torch.testing.assert_close(y, by_numpy(norm, x, *params, eps=eps))
    torch.testing.assert_close(y, of_torch(x, shape[-1:], *params, eps=eps))
    # Wider, since a vector of few features may lose digits when its mean is taken off.
    in_float32 = norm(x.float(), *(p.float() for p in params), eps=eps)
    torch.testing.assert_close(in_float32.double(), y, rtol=1e-3, atol=1e-3)


@both
def test_each_vector_is_normalised_alone(norm):
    """Changing one vector leaves the results of the others as they were."""
    x = random_tensor(3, 4, 5)
    changed = x.clone()
    changed[1, 2] *= 100
    same = torch.ones(3, 4, dtype=torch.bool)
    same[1, 2] = False
    y = norm(x)
    assert torch.equal(norm(changed)[same], y[same])
    for i, j in np.ndindex(3, 4):
        torch.testing.assert_close(norm(x[i, j]), y[i, j])


# Shapes and memory


@both
@pytest.mark.parametrize(
    "shape",
    [(7,), (3, 7), (2, 3, 7), (2, 3, 4, 7), (1,), (3, 1), (0, 7), (2, 0, 7), (5, 5), (2, 4096)],
    ids=str,
)
def test_shape_stays(norm, shape):
    """One dimension to four, a single feature and an empty batch all keep their shape."""
    x, params = random_tensor(*shape), parameters(norm, shape[-1])
    assert norm(x).shape == shape
    y = norm(x, *params)
    assert y.shape == shape
    expected = by_numpy(norm, x, *params, eps=DEFAULT_EPS[norm])
    torch.testing.assert_close(y.double(), expected, rtol=1e-4, atol=1e-5)


@both
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 6])
def test_arguments_are_neither_changed_nor_shared(norm, dtype, size):
    """Every argument keeps its numbers, and writing into the result reaches none of them."""
    arguments = (random_tensor(4, size, dtype=dtype), *parameters(norm, size, dtype))
    before = [a.clone() for a in arguments]
    for given in (arguments[:1], arguments):
        norm(*given).fill_(-7)
    for argument, old in zip(arguments, before, strict=True):
        assert torch.equal(argument, old)


LAYOUTS = {
    "transposed": lambda: random_tensor(6, 4).T,
    "every other feature": lambda: random_tensor(4, 12)[:, ::2],
    "every other row": lambda: random_tensor(8, 6)[::2],
    "heads before tokens": lambda: random_tensor(2, 4, 3, 6).transpose(1, 2),
    "one row repeated": lambda: random_tensor(1, 6).expand(4, 6),
    "one feature repeated": lambda: random_tensor(4, 1).expand(4, 6),
}


@both
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_memory_layout(norm, layout):
    """A view counts as the numbers it shows, whatever its strides."""
    x = LAYOUTS[layout]()
    before, params = x.clone(), parameters(norm, x.shape[-1])
    torch.testing.assert_close(norm(x, *params), norm(x.contiguous(), *params))
    assert torch.equal(x, before)


@both
def test_parameters_may_be_views(norm):
    """A weight cut from a wider tensor, or one number repeated, serves as it is."""
    x = random_tensor(4, 6)
    cut = [p[::2] for p in parameters(norm, 12)]
    torch.testing.assert_close(norm(x, *cut), norm(x, *(p.clone() for p in cut)))
    three = torch.tensor([3.0])
    torch.testing.assert_close(norm(x, three.expand(6)), norm(x) * 3)


# Dtypes


@both
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtype_stays(norm, dtype):
    """With parameters of x's dtype, or none, the result has x's dtype and its accuracy."""
    x, params = random_tensor(16, 48, dtype=dtype), parameters(norm, 48, dtype)
    assert norm(x).dtype == dtype
    y = norm(x, *params)
    assert y.dtype == dtype
    expected = by_numpy(norm, x, *params, eps=DEFAULT_EPS[norm])
    # Two roundings of half a unit each at most in the half types; sums of 48 in the wider ones.
    units = 1.01 if dtype in HALVES else 16
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(y.double(), expected, rtol=units * eps, atol=1e-6)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_rms_norm_rounds_before_the_weight(dtype):
    """Bit for bit: the rounded vector times the weight, in the weight's own dtype."""
    x, weight = random_tensor(16, 48, dtype=dtype), random_tensor(48, seed=1)
    rounded = rms_norm(x.float()).to(dtype)
    assert torch.equal(rms_norm(x), rounded)
    assert torch.equal(rms_norm(x, weight.to(dtype)), rounded * weight.to(dtype))
    # As in Llama's code, a float32 weight makes the result float32, of rounded factors.
    y = rms_norm(x, weight)
    assert y.dtype == torch.float32
    assert torch.equal(y, rounded.float() * weight)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_layer_norm_rounds_last(dtype):
    """Bit for bit: everything in float32, then one cast to x's dtype, whatever the weight's."""
    x = random_tensor(16, 48, dtype=dtype)
    weight, bias = parameters(layer_norm, 48)
    assert torch.equal(layer_norm(x, weight, bias), layer_norm(x.float(), weight, bias).to(dtype))
    weight, bias = weight.to(dtype), bias.to(dtype)
    in_float32 = layer_norm(x.float(), weight.float(), bias.float())
    assert torch.equal(layer_norm(x, weight, bias), in_float32.to(dtype))


@both
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_narrower_parameters_do_not_narrow_the_result(norm, dtype):
    """float64 x keeps float64, though weight and bias are stored in less."""
    x, params = random_tensor(4, 6, dtype=torch.float64), parameters(norm, 6, dtype)
    torch.testing.assert_close(norm(x, *params), norm(x, *(p.double() for p in params)))


def test_float16_beyond_its_squares():
    """300² is infinite in float16; the norm of a vector of 300s is one all the same."""
    x = torch.full((2, 8), 300.0, dtype=torch.float16)
    assert x.square().isinf().all()
    assert torch.equal(rms_norm(x), torch.ones_like(x))
    x[:, ::2] = -300
    assert torch.equal(layer_norm(x), x / 300)


# Zeros


@both
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_zero_vector_stays_zero(norm, dtype):
    """Among other vectors, zeros come out as zeros, in every dtype."""
    x = random_tensor(3, 8, dtype=dtype)
    x[1] = 0
    y = norm(x, random_tensor(8, seed=1, dtype=dtype))
    assert torch.equal(y[1], torch.zeros(8, dtype=dtype))
    assert y.isfinite().all()


@both
def test_only_eps_zero_makes_a_zero_vector_nan(norm):
    """0/0 is not a number; the other vectors do not need eps."""
    x = random_tensor(3, 8)
    x[1] = 0
    y = norm(x, eps=0)
    assert y[1].isnan().all()
    assert y[[0, 2]].isfinite().all()
    assert norm(x, eps=1e-30).isfinite().all()


@both
def test_gradient_at_a_zero_vector_is_finite(norm):
    """With eps the slope at zero is 1/√eps times the weight, not NaN."""
    x = torch.zeros(2, 4, requires_grad=True)
    norm(x, eps=0.25)[:, 0].sum().backward()
    first = torch.tensor([1.0, 0, 0, 0])
    expected = 2 * (first if norm is rms_norm else first - first.mean())
    torch.testing.assert_close(x.grad, expected.expand(2, 4))


# Gradients


@both
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (3, 1), (0, 5)], ids=str)
@pytest.mark.parametrize("eps", [1e-6, 0.1])
@pytest.mark.parametrize("with_parameters", [True, False])
def test_gradients(norm, shape, eps, with_parameters):
    """The gradients for x, weight and bias, and theirs, agree with finite differences."""
    params = parameters(norm, shape[-1], torch.float64) if with_parameters else ()
    inputs = [t.clone().requires_grad_() for t in (random_tensor(*shape).double(), *params)]
    assert gradcheck(lambda *t: norm(*t, eps=eps), inputs)
    assert gradgradcheck(lambda *t: norm(*t, eps=eps), inputs)


def test_gradient_of_bias_alone():
    """A bias without a weight learns too."""
    bias = torch.zeros(5, requires_grad=True)
    layer_norm(random_tensor(3, 5), bias=bias).sum().backward()
    assert torch.equal(bias.grad, torch.full((5,), 3.0))


@both
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_have_their_tensors_dtype(norm, dtype):
    """Each gradient is finite and of the dtype of the tensor that it belongs to."""
    tensors = (random_tensor(4, 6, dtype=dtype), *parameters(norm, 6, dtype))
    for t in tensors:
        t.requires_grad_()
    norm(*tensors).sum().backward()
    for t in tensors:
        assert t.grad.dtype == dtype
        assert t.grad.isfinite().all()


# The module


def test_module_is_the_function():
    """A new layer is pure normalisation; with another weight and eps it is rms_norm of them."""
    x = random_tensor(3, 5)
    layer = RMSNorm(5, eps=0.1)
    assert torch.equal(layer(x), rms_norm(x, eps=0.1))
    with torch.no_grad():
        layer.weight.copy_(random_tensor(5, seed=1))
    assert torch.equal(layer(x), rms_norm(x, layer.weight, 0.1))


def test_module_has_one_parameter():
    """One weight of ones, float32, learnable; no bias, no buffer, and nothing else to save."""
    layer = RMSNorm(5)
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.requires_grad
    assert layer.weight.dtype == torch.float32
    assert torch.equal(layer.weight, torch.ones(5))
    assert not list(layer.buffers())
    assert list(layer.state_dict()) == ["weight"]


def test_module_learns():
    """The weight's gradient is the normalised vector times what comes back, summed."""
    x, layer = random_tensor(3, 5), RMSNorm(5)
    layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, rms_norm(x).sum(0))


def test_module_shares_checkpoints_with_torch():
    """A state_dict of torch's RMSNorm loads, strictly, and gives torch's numbers; and back."""
    theirs, ours, x = nn.RMSNorm(5, eps=1e-6), RMSNorm(5), random_tensor(3, 5)
    nn.init.normal_(theirs.weight, generator=torch.Generator().manual_seed(0))
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(ours(x), theirs(x))
    nn.RMSNorm(5).load_state_dict(ours.state_dict())


def test_module_prints_its_size_and_eps():
    """print(layer) says how many features and which eps."""
    assert repr(RMSNorm(5)) == "RMSNorm(5, eps=1e-06)"
    assert repr(RMSNorm(8, eps=0.1)) == "RMSNorm(8, eps=0.1)"


def test_module_copies():
    """A deep copy computes the same and learns on its own."""
    layer, x = RMSNorm(5, eps=0.1), random_tensor(3, 5)
    twin = copy.deepcopy(layer)
    assert torch.equal(twin(x), layer(x))
    with torch.no_grad():
        twin.weight.zero_()
    assert torch.equal(layer.weight, torch.ones(5))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_module_changes_dtype(dtype):
    """After .to(dtype) the layer takes and gives that dtype."""
    layer = RMSNorm(5).to(dtype)
    assert layer.weight.dtype == dtype
    y = layer(random_tensor(3, 5, dtype=dtype))
    assert y.dtype == dtype
    y.sum().backward()
    assert layer.weight.grad.dtype == dtype


# What is refused, and in which words


def refusal(call, *arguments, **named):
    """The type and the words of the error that a call raises."""
    with pytest.raises((TypeError, ValueError)) as caught:
        call(*arguments, **named)
    return caught.type, str(caught.value)


@both
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([1.0, 2.0], TypeError, "x must be a torch tensor, got list"),
        (np.ones((2, 4)), TypeError, "x must be a torch tensor, got ndarray"),
        (1.0, TypeError, "x must be a torch tensor, got float"),
        (None, TypeError, "x must be a torch tensor, got NoneType"),
        (
            torch.ones(2, 4, dtype=torch.int64),
            TypeError,
            "x must be float16, bfloat16, float32 or float64, got torch.int64",
        ),
        (
            torch.ones(2, 4, dtype=torch.bool),
            TypeError,
            "x must be float16, bfloat16, float32 or float64, got torch.bool",
        ),
        (
            torch.ones(2, 4, dtype=torch.complex64),
            TypeError,
            "x must be float16, bfloat16, float32 or float64, got torch.complex64",
        ),
        (
            torch.tensor(1.0),
            ValueError,
            "x must have at least one feature in its last dimension, got ()",
        ),
        (
            torch.ones(3, 0),
            ValueError,
            "x must have at least one feature in its last dimension, got (3, 0)",
        ),
    ],
    ids=["list", "numpy", "float", "None", "int64", "bool", "complex", "no dimension", "empty"],
)
def test_bad_x(norm, x, error, message):
    """x: a floating-point tensor with features, or an error that says so."""
    raised, words = refusal(norm, x)
    assert raised is error
    assert words.startswith(message)


@pytest.mark.parametrize(
    "call",
    [
        lambda eps: rms_norm(torch.ones(2, 4), eps=eps),
        lambda eps: layer_norm(torch.ones(2, 4), eps=eps),
        lambda eps: RMSNorm(4, eps=eps),
    ],
    ids=["rms_norm", "layer_norm", "RMSNorm"],
)
@pytest.mark.parametrize(
    ("eps", "error", "message"),
    [
        (-1e-6, ValueError, "eps must be finite and zero or more, got -1e-06"),
        (-1, ValueError, "eps must be finite and zero or more, got -1"),
        (float("nan"), ValueError, "eps must be finite and zero or more, got nan"),
        (float("inf"), ValueError, "eps must be finite and zero or more, got inf"),
        ("1e-6", TypeError, "eps must be a number, got str"),
        (True, TypeError, "eps must be a number, got bool"),
        (None, TypeError, "eps must be a number, got NoneType"),
        (1j, TypeError, "eps must be a number, got complex"),
        (torch.tensor(1e-6), TypeError, "eps must be a number, got Tensor"),
    ],
    ids=["-1e-6", "-1", "nan", "inf", "str", "bool", "None", "complex", "tensor"],
)
def test_bad_eps(call, eps, error, message):
    """eps: a finite number, zero or more, or an error that says so."""
    assert refusal(call, eps) == (error, message)


@both
@pytest.mark.parametrize("eps", [1, np.float32(1), np.float64(1), np.int64(1)], ids=repr)
def test_eps_may_be_any_real_number(norm, eps):
    """An int and NumPy's numbers serve as well as a float."""
    x = random_tensor(3, 5)
    assert torch.equal(norm(x, eps=eps), norm(x, eps=1.0))


ONE_PER_FEATURE = "must have shape (4,), one number per feature of x (2, 4), got"


@pytest.mark.parametrize(
    ("norm", "name"), [(rms_norm, "weight"), (layer_norm, "weight"), (layer_norm, "bias")]
)
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (torch.ones(5), ValueError, f"{ONE_PER_FEATURE} (5,)"),
        (torch.ones(1), ValueError, f"{ONE_PER_FEATURE} (1,)"),
        (torch.ones(2, 4), ValueError, f"{ONE_PER_FEATURE} (2, 4)"),
        (torch.ones(4, 1), ValueError, f"{ONE_PER_FEATURE} (4, 1)"),
        (torch.tensor(1.0), ValueError, f"{ONE_PER_FEATURE} ()"),
        ([1.0] * 4, TypeError, "must be a torch tensor or None, got list"),
        (np.ones(4), TypeError, "must be a torch tensor or None, got ndarray"),
        (2.0, TypeError, "must be a torch tensor or None, got float"),
        (
            torch.ones(4, dtype=torch.int64),
            TypeError,
            "must be float16, bfloat16, float32 or float64, got torch.int64",
        ),
        (
            torch.ones(4, dtype=torch.bool),
            TypeError,
            "must be float16, bfloat16, float32 or float64, got torch.bool",
        ),
    ],
    ids=["5", "1", "2x4", "4x1", "no dimension", "list", "numpy", "float", "int64", "bool"],
)
def test_bad_parameter(norm, name, value, error, message):
    """weight and bias: one floating-point number per feature, or an error that names which."""
    x = torch.ones(2, 4)
    assert refusal(norm, x, **{name: value}) == (error, f"{name} {message}")


@pytest.mark.parametrize("dim", [0, -1, 4.0, True, "4", None, (4,), torch.tensor(4)], ids=repr)
def test_bad_dim(dim):
    """dim: a whole number, 1 or more, or an error that says so."""
    message = f"dim must be a whole number, 1 or more, got {dim!r}"
    assert refusal(RMSNorm, dim) == (ValueError, message)


def test_module_of_another_size():
    """A layer for other vectors says what it has and what it was given."""
    message = "weight must have shape (5,), one number per feature of x (2, 5), got (4,)"
    assert refusal(RMSNorm(4), torch.ones(2, 5)) == (ValueError, message)
