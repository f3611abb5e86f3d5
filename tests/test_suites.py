"""The norms against tests that others wrote: ONNX's node cases and torch's own samples."""

import pytest
import torch
from torch.autograd import gradcheck

from course_utils.layers import RMSNorm, layer_norm, rms_norm

# What each collection held with onnx 1.23 and torch 2.13: fewer means that it was not found.
ONNX_CASES = 19
TORCH_SAMPLES = 5  # besides the one with a negative eps
MODULE_SAMPLES = 6

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def over_last_dims(norm, x, dims, *parameters, eps):
    """Ours normalises the last dimension; where a suite normalises several, they are made one."""
    parameters = [None if p is None else p.flatten() for p in parameters]
    return norm(x.flatten(-dims), *parameters, eps=eps).reshape(x.shape)


def assert_as_accurate_as_its_dtype(y, expected, where):
    """y is of the dtype it should be, within two roundings of a float64 result."""
    eps = torch.finfo(y.dtype).eps
    # The statistic is at least float32, so that in the half types only the casts can show.
    rtol, atol = (1.01 * eps, 1e-5) if eps > torch.finfo(torch.float32).eps else (32 * eps,) * 2
    torch.testing.assert_close(
        y.double(), expected, rtol=rtol, atol=atol, msg=lambda words: f"{where}: {words}"
    )


@pytest.mark.parametrize(
    ("operator", "norm"), [("RMSNormalization", rms_norm), ("LayerNormalization", layer_norm)]
)
def test_onnx(onnx_cases, operator, norm):
    """Every node case of the operator, whatever its axis and epsilon, gives ONNX's numbers."""
    from onnx.helper import get_attribute_value

    ran = 0
    for case in onnx_cases:
        node = case.model.graph.node[0]
        # An expanded case spells the same numbers out in other operators.
        if node.op_type != operator or "_expanded" in case.name:
            continue
        attributes = {a.name: get_attribute_value(a) for a in node.attribute}
        for inputs, outputs in case.data_sets:
            x, *parameters = [torch.tensor(i) for i in inputs]
            axis = attributes.get("axis", -1)
            dims = -axis if axis < 0 else x.ndim - axis
            y = over_last_dims(norm, x, dims, *parameters, eps=attributes.get("epsilon", 1e-5))
            torch.testing.assert_close(
                y,
                torch.tensor(outputs[0]),
                rtol=1e-5,
                atol=1e-5,
                msg=lambda words, name=case.name: f"{name}: {words}",
            )
            ran += 1
    assert ran >= ONNX_CASES


FUNCTIONS = pytest.mark.parametrize(
    ("name", "norm", "default_eps"),
    [
        ("nn.functional.rms_norm", rms_norm, torch.finfo(torch.float32).eps),
        ("nn.functional.layer_norm", layer_norm, 1e-5),
    ],
    ids=["rms_norm", "layer_norm"],
)


def function_samples(op, dtype, default_eps, **options):
    """Each sample as x, the dimensions to normalise, the parameters, and eps."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for s in op.sample_inputs("cpu", dtype, **options):
            shape, *parameters = s.args
            yield s.input, len(shape), parameters, s.kwargs.get("eps", default_eps)


def double(tensor):
    return None if tensor is None else tensor.detach().double()


@FUNCTIONS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_torch_function_samples(torch_suites, name, norm, default_eps, dtype):
    """On torch's samples ours is torch's float64 result, rounded; a negative eps is refused."""
    op = torch_suites.ops[name]
    ran = refused = 0
    for x, dims, parameters, eps in function_samples(op, dtype, default_eps):
        if eps < 0:  # torch returns NaN here
            with pytest.raises(ValueError, match="eps must be finite and zero or more"):
                over_last_dims(norm, x, dims, *parameters, eps=eps)
            refused += 1
            continue
        y = over_last_dims(norm, x, dims, *parameters, eps=eps)
        expected = op.op(double(x), x.shape[-dims:], *map(double, parameters), eps=eps)
        assert y.dtype == dtype
        assert_as_accurate_as_its_dtype(y, expected, f"x {tuple(x.shape)}, eps {eps}")
        ran += 1
    assert ran >= TORCH_SAMPLES
    assert refused >= 1


@FUNCTIONS
def test_torch_function_sample_gradients(torch_suites, name, norm, default_eps):
    """On torch's float64 samples every gradient agrees with finite differences."""
    ran = 0
    op = torch_suites.ops[name]
    samples = function_samples(op, torch.float64, default_eps, requires_grad=True)
    for x, dims, parameters, eps in samples:
        if eps < 0:
            continue
        given = [p for p in parameters if p is not None]
        assert gradcheck(
            lambda x, *p, dims=dims, eps=eps: over_last_dims(norm, x, dims, *p, eps=eps),
            (x, *given),
        )
        ran += 1
    assert ran >= TORCH_SAMPLES


def ours_like(theirs):
    """Our norm with the eps and the parameters of one of torch's modules, flattened."""
    dims, eps = len(theirs.normalized_shape), theirs.eps
    if isinstance(theirs, torch.nn.LayerNorm):
        return lambda x: over_last_dims(layer_norm, x, dims, theirs.weight, theirs.bias, eps=eps)
    if theirs.weight is None:
        return lambda x: over_last_dims(rms_norm, x, dims, eps=eps)
    module = RMSNorm(theirs.weight.numel(), eps).to(theirs.weight.dtype)
    module.load_state_dict({"weight": theirs.weight.flatten()})
    return lambda x: module(x.flatten(-dims)).reshape(x.shape)


@pytest.mark.parametrize("name", ["nn.RMSNorm", "nn.LayerNorm"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_torch_module_samples(torch_suites, name, dtype):
    """On torch's module samples, with random parameters, ours is its float64 result, rounded."""
    module = torch_suites.modules[name]
    ran = 0
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for sample in module.module_inputs_func(
            module, device="cpu", dtype=dtype, requires_grad=False, training=True
        ):
            made, (x,) = sample.constructor_input, sample.forward_input.args
            theirs = module.module_cls(*made.args, **made.kwargs).to(dtype)
            for p in theirs.parameters():
                torch.nn.init.normal_(p)  # ones and zeros would hide a parameter left out
            y = ours_like(theirs)(x)
            assert y.dtype == dtype
            assert_as_accurate_as_its_dtype(y, theirs.double()(double(x)), sample.desc)
            ran += 1
    assert ran >= MODULE_SAMPLES
