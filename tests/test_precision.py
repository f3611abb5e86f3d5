"""What notebook 03 needs of measure, and the function that it writes itself."""

import ast

import pytest
import torch
import torch.nn.functional as F
from course import ROOT, code_cells

from course_utils import measure

NOTEBOOK = ROOT / "notebooks" / "03_precision_and_dtype.ipynb"


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_in_float32_leaving_out_the_upcast_is_rms_norm():
    x = 0.01 * random(3, 4, 5)
    theirs = F.rms_norm(x, (5,), eps=1e-3)
    torch.testing.assert_close(measure.without_upcast(x, eps=1e-3), theirs)


@pytest.mark.parametrize(("value", "output"), [(255.0, 1.0), (256.0, 0.0)])
def test_without_upcast_float16_falls_silent_at_256(value, output):
    y = measure.without_upcast(torch.full((2, 8), value).half())
    assert y.dtype == torch.float16 and (y == output).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("largest", [1e-3, 300.0])
def test_each_precision_token_has_its_largest_feature(dtype, largest):
    x = measure.precision_tokens(largest, dtype)
    assert x.dtype == dtype and x.shape == (32, 64)
    assert (x.abs().amax(dim=-1) == torch.tensor(largest, dtype=dtype)).all()


def test_the_notebooks_bare_formula_is_the_explorers():
    (source,) = (c.source for c in code_cells(NOTEBOOK) if "def bare(" in c.source)
    definition = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef))
    namespace = {"torch": torch}
    exec(ast.unparse(definition), namespace)
    for x in (random(4, 6).half(), 300 * random(4, 6).half(), 0.001 * random(4, 6).bfloat16()):
        assert torch.equal(namespace["bare"](x), measure.without_upcast(x))
