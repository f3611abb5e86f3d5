"""SiLU and Swish against tests that others wrote, at the ends of every dtype, and on bad input."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from course_utils.layers import silu, swish

# What each collection held with onnx 1.23 and torch 2.13: fewer means that it was not found.
ONNX_CASES = 1
TORCH_SAMPLES = 3
TORCH_REFERENCES = 19
MODULE_SAMPLES = 3

DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
ACTIVATIONS = pytest.mark.parametrize(
    ("activation", "beta"),
    [(silu, 1.0), *((lambda x, b=b: swish(x, b), b) for b in (-1.5, 0.0, 1.0, 1.702, 50.0))],
    ids=["silu", "swish -1.5", "swish 0", "swish 1", "swish 1.702", "swish 50"],
)


def torch_swish(x, beta):
    """x·σ(βx) by torch's own SiLU, in float64."""
    x = x.double()
    return F.silu(beta * x) / beta if beta else x / 2


def assert_rounded(ours, exact, size, beta_x, most=float("inf")):
    """ours is finite and differs from exact by roundings of `size`, at most `most` of them.

    A rounding of β·x changes a small σ by |β·x| roundings. Below its smallest number σ is zero.
    """
    info, z = torch.finfo(ours.dtype), 1 + beta_x.abs()
    eps = info.eps * (2 if info.bits == 16 else 16)
    smallest = info.smallest_normal * (info.eps if ours.dtype == torch.float16 else 1)
    assert ours.isfinite().all()
    assert ((ours - exact).abs() <= (eps * z * size).clamp(max=most * eps) + z * smallest).all()


def test_onnx(onnx_cases):
    """Every Swish case, whatever its alpha, gives ONNX's numbers."""
    from onnx.helper import get_attribute_value

    ran = 0
    for case in onnx_cases:
        node = case.model.graph.node[0]
        # An expanded case spells the same numbers out in other operators.
        if node.op_type != "Swish" or "_expanded" in case.name:
            continue
        alpha = {a.name: get_attribute_value(a) for a in node.attribute}.get("alpha", 1.0)
        for inputs, outputs in case.data_sets:
            x, expected = torch.tensor(inputs[0]), torch.tensor(outputs[0])
            torch.testing.assert_close(swish(x, alpha), expected)
            if alpha == 1:
                torch.testing.assert_close(silu(x), expected)
            ran += 1
    assert ran >= ONNX_CASES


def samples(op, kind, dtype, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield from (s.input for s in getattr(op, kind)("cpu", dtype, **options))


@DTYPES
@pytest.mark.parametrize(
    ("kind", "least"), [("sample_inputs", TORCH_SAMPLES), ("reference_inputs", TORCH_REFERENCES)]
)
def test_torch_function_samples(torch_suites, kind, least, dtype):
    """On torch's samples, infinite and empty ones too, ours is its float64 result, rounded."""
    op = torch_suites.ops["nn.functional.silu"]
    given = list(samples(op, kind, dtype))
    rtol = torch.finfo(dtype).eps * (2 if torch.finfo(dtype).bits == 16 else 32)
    close = {"rtol": rtol, "atol": 1e-6 if dtype == torch.float16 else 1e-35, "equal_nan": True}
    for x in given:
        for y in (silu(x), swish(x, 1.0)):
            assert y.dtype == dtype
            torch.testing.assert_close(y.double(), op.op(x.double()), **close)
    assert len(given) >= least


def test_torch_function_sample_gradients(torch_suites):
    """On torch's float64 samples first and second derivatives agree with finite differences."""
    op = torch_suites.ops["nn.functional.silu"]
    given = list(samples(op, "sample_inputs", torch.float64, requires_grad=True))
    for x in given:
        beta = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
        for check in (gradcheck, torch.autograd.gradgradcheck):
            assert check(silu, (x,))
            assert check(swish, (x, beta))
    assert len(given) >= TORCH_SAMPLES


def test_torch_module_samples(torch_suites):
    module = torch_suites.modules["nn.SiLU"]
    ran = 0
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for sample in module.module_inputs_func(
            module, device="cpu", dtype=torch.float64, requires_grad=False, training=True
        ):
            (x,) = sample.forward_input.args
            torch.testing.assert_close(silu(x), module.module_cls()(x))
            ran += 1
    assert ran >= MODULE_SAMPLES


@DTYPES
@ACTIVATIONS
def test_values_and_gradients_are_right_from_minus_1000_to_1000(activation, beta, dtype):
    x = torch.cat([torch.linspace(-1000, 1000, 501), torch.linspace(-30, 30, 481)]).to(dtype)
    x.requires_grad_()
    y = activation(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    exact_x = x.detach().double().requires_grad_()
    exact_y = torch_swish(exact_x, beta)
    (exact_slope,) = torch.autograd.grad(exact_y.sum(), exact_x)
    assert y.dtype == slope.dtype == dtype
    z = beta * exact_x.detach()
    assert_rounded(y, exact_y, size=exact_y.abs(), beta_x=z)
    assert_rounded(slope, exact_slope, size=(1 + z.abs()) * torch.sigmoid(z), beta_x=z, most=8)


@DTYPES
def test_at_plus_and_minus_1000_the_gradient_is_one_and_zero(dtype):
    x = torch.tensor([-1000.0, 0.0, 1000.0], dtype=dtype, requires_grad=True)
    y = silu(x)
    y.sum().backward()
    assert y.tolist() == [0, 0, 1000]
    assert x.grad.tolist() == [0, 0.5, 1]


@ACTIVATIONS
def test_the_input_is_left_alone(activation, beta):
    x = torch.tensor([-2.0, 0.0, 3.0])
    y = activation(x)
    assert x.tolist() == [-2, 0, 3]
    assert y.data_ptr() != x.data_ptr()


def test_one_beta_for_each_feature():
    x, beta = (
        torch.randn(2, 3, generator=torch.Generator().manual_seed(0)),
        torch.tensor([0, 1, 2.0]),
    )
    y = swish(x, beta)
    torch.testing.assert_close(
        y, torch.stack([x[:, 0] / 2, F.silu(x[:, 1]), F.silu(2 * x[:, 2]) / 2], -1)
    )


@pytest.mark.parametrize("activation", [silu, lambda x: swish(x, 1.0)], ids=["silu", "swish"])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (1.0, "x must be a torch tensor, got float"),
        ([1.0], "x must be a torch tensor, got list"),
        (None, "x must be a torch tensor, got NoneType"),
        (torch.tensor([1]), "x must be float16, bfloat16, float32 or float64, got torch.int64"),
        (torch.tensor([1j]), "x must be float16, .* got torch.complex64"),
    ],
)
def test_another_x_is_refused(activation, x, message):
    with pytest.raises(TypeError, match=message):
        activation(x)


@pytest.mark.parametrize(
    ("beta", "error", "message"),
    [
        ("1", TypeError, "beta must be a number or a torch tensor, got str"),
        (None, TypeError, "beta must be a number or a torch tensor, got NoneType"),
        (True, TypeError, "beta must be a number or a torch tensor, got bool"),
        (torch.tensor(1), TypeError, "beta must be float16, .* got torch.int64"),
        (float("inf"), ValueError, "beta must be finite, got inf"),
        (float("nan"), ValueError, "beta must be finite, got nan"),
    ],
)
def test_another_beta_is_refused(beta, error, message):
    with pytest.raises(error, match=message):
        swish(torch.ones(2), beta)
