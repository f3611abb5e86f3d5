"""A browser, and the suites that others wrote, collected once for all tests."""

import warnings
from types import SimpleNamespace

import chromium
import pytest
import torch


@pytest.fixture(scope="session")
def onnx_cases():
    """ONNX's node cases, all operators at once: a process can collect only one choice of them."""
    pytest.importorskip("onnx")
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(action="ignore"):  # other operators divide by zero on purpose
        return collect_testcases(None)


@pytest.fixture(scope="session")
def torch_suites():
    """The samples that torch tests its own functions and modules with: a private interface."""
    try:
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.common_modules import module_db
    except ImportError as error:
        pytest.skip(f"torch's private samples have moved, or need a package: {error}")
    # An operator may have variants, such as one for complex numbers: the plain one has no name.
    ops = {entry.name: entry for entry in op_db if not entry.variant_test_name}
    return SimpleNamespace(ops=ops, modules={entry.name: entry for entry in module_db})


@pytest.fixture
def one_thread():
    """As each recorded run had: with more of them, sums are taken in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def chrome():
    pytest.importorskip("playwright", reason="the browser tests need playwright: make test-browser")
    if not chromium.find():
        pytest.skip("the browser tests need a Chromium: see docs/contributing.md")
    with chromium.browser() as started:
        yield started
