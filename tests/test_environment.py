"""The environment check: what is in range, and what to do about the rest."""

import importlib.metadata
import os
import re
import runpy
import subprocess
import sys

import pytest
from course import ROOT

from course_utils import environment
from course_utils.environment import PIP


@pytest.fixture
def versions(monkeypatch):
    """Pretend that other versions are installed; None for missing."""
    pretended = {}
    real = environment._version
    monkeypatch.setattr(environment, "_version", lambda name: pretended.get(name, real(name)))
    return pretended


def test_here_everything_is_in_range(capsys):
    assert environment.check_environment()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("✔ OK: python, torch, numpy, matplotlib, ipywidgets")


def test_an_old_package_is_named_with_what_to_do(versions, capsys):
    versions["numpy"] = "1.26.4"
    assert not environment.check_environment()
    first, last = capsys.readouterr().out.splitlines()
    assert first == (
        f'✘ numpy  [1.26.4 found, >=2.0 needed: {PIP} "numpy>=2.0", then restart the kernel]'
    )
    assert "numpy" not in last


def test_a_missing_package_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setattr(environment, "_version", lambda name: None)
    advice = {name: advice for name, *_, advice in environment.examine()}
    assert advice["torch"] == f'missing: {PIP} "torch>=2.8"'
    assert advice["python"] == ""


def test_an_old_python_is_told_so(monkeypatch):
    monkeypatch.setattr(environment.sys, "version_info", (3, 10, 13))
    (advice,) = (advice for name, *_, advice in environment.examine() if name == "python")
    assert advice == "3.10.13 found, >=3.11 needed: start Jupyter with a newer Python"


@pytest.mark.parametrize("version", ["2.13.0+cpu", "2.11.0+cu128", "2.14.0a0", "2.8.0"])
def test_builds_and_pre_releases_of_torch_are_in_range(versions, version):
    versions["torch"] = version
    assert all(not advice for *_, advice in environment.examine())


def test_a_version_that_is_none_is_told_so(versions):
    versions["torch"] = "unknown"
    (advice,) = (advice for name, *_, advice in environment.examine() if name == "torch")
    assert advice == f"'unknown' is not a version: {PIP} --force-reinstall \"torch>=2.8\""


def test_a_checkout_and_an_installed_helper_know_the_same_ranges(monkeypatch):
    checkout = environment.examine()
    monkeypatch.setattr(environment.Path, "exists", lambda self: False)
    assert environment.examine() == checkout


def test_the_command_prints_versions_and_succeeds():
    command = [sys.executable, "-m", "course_utils"]
    lines = subprocess.check_output(command, text=True, cwd=ROOT, encoding="utf-8").splitlines()
    *packages, torch, verdict = lines
    version, wanted = importlib.metadata.version("numpy"), ">=2.0"
    assert f"✔ numpy        {version:14} wanted {wanted:14} OK" in packages
    assert all(line.startswith("✔ ") and line.endswith(" OK") for line in packages)
    assert any(line.split()[1] == "torch" for line in packages)
    assert torch.startswith("✔ torch was built for ")
    assert verdict == "All is well."


def test_what_the_readme_says_for_a_notebook_asks_the_kernels_own_python():
    line = "%run -m course_utils"
    assert f"`{line}`" in (ROOT / "README.md").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "IPython", "--no-banner", "-c", line]
    environment = os.environ | {"PATH": "/nowhere"}
    said = subprocess.check_output(command, text=True, cwd=ROOT, env=environment, encoding="utf-8")
    assert "All is well." in said


def command_after(prelude, **variables):
    """What `python -m course_utils` does in a process that has run these lines first."""
    code = f"import runpy, sys\n{prelude}\nrunpy.run_module('course_utils', run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"} | variables,
        encoding="utf-8",
    )


def test_the_command_speaks_without_torch_and_without_its_signs():
    prelude = (
        "sys.modules['torch'] = None\n"
        "from course_utils import environment; version = environment._version\n"
        "environment._version = lambda name: None if name == 'torch' else version(name)"
    )
    done = command_after(prelude, PYTHONIOENCODING="ascii")
    assert done.returncode == 1 and not done.stderr
    advice = re.escape(f'missing: {PIP} "torch>=2.8"')
    assert re.search(rf"^\? torch +- +wanted >=2.8 +{advice}$", done.stdout, re.M)
    assert done.stdout.endswith("\n1 to mend: see the ? above.\n") and "built" not in done.stdout


def test_the_command_says_of_each_package_what_is_wrong(versions, capsys):
    versions |= {"numpy": "1.26.4", "pillow": None}
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module("course_utils", run_name="__main__")
    assert stopped.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("✘")] == ["numpy", "pillow"]
    assert (
        "✘ numpy        1.26.4         wanted >=2.0          1.26.4 found, >=2.0 needed: "
        f'{PIP} "numpy>=2.0", then restart the kernel'
    ) in lines
    assert (
        f'✘ pillow       -              wanted >=10           missing: {PIP} "pillow>=10"' in lines
    )
    assert lines[-1] == "2 to mend: see the ✘ above."


def test_a_torch_that_cannot_add_is_told_so(monkeypatch):
    import torch

    def broken(*_):
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(torch, "ones", broken)
    works, sentence = environment.torch_here()
    assert not works and "no kernel image is available" in sentence and PIP in sentence


def test_the_command_speaks_without_packaging_too():
    done = command_after("sys.modules['packaging'] = None")
    assert done.returncode == 1
    assert done.stderr == f"packaging is missing: {PIP} packaging\n"


def test_a_python_that_is_too_old_to_read_the_ranges_is_told_so():
    done = command_after("sys.modules['tomllib'] = None")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Python {sys.version.split()[0]} is too old: start the course")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def builds(monkeypatch):
    """Pretend another build of torch, and no GPU."""
    import torch

    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    return lambda name, version: monkeypatch.setattr(torch.version, name, version)


def test_torchs_build_and_device_are_said(builds, monkeypatch):
    import torch

    works, sentence = environment.torch_here()
    assert works and sentence.startswith("torch was built for CPUs; here it has the CPU, ")
    builds("cuda", "12.8")
    assert "built for CUDA 12.8; here it has the CPU" in environment.torch_here()[1]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
    assert environment.torch_here() == (True, "torch was built for CUDA 12.8; here it has Some GPU")
    builds("cuda", None)
    builds("hip", "6.4")
    assert "built for ROCm 6.4; here it has Some GPU" in environment.torch_here()[1]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert environment.torch_here()[1].endswith("here it has Apple's GPU (mps)")


def test_a_torch_that_does_not_start_is_told_so_and_counts():
    done = command_after(
        "class Half:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch': raise OSError('libgomp.so.1 is missing')\n"
        "sys.meta_path.insert(0, Half())"
    )
    assert done.returncode == 1
    *_, torch, verdict = done.stdout.splitlines()
    assert torch.startswith(f"✘ torch does not start: libgomp.so.1 is missing. Try: {PIP}")
    assert verdict == "1 to mend: see the ✘ above."
