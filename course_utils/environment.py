"""Is this environment all right? The ranges are pyproject.toml's; nothing is written down twice."""

import importlib.metadata
import sys
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from .notes import note

NAME = "course-utils"
# This Python's own pip: another one may come first on the path.
PIP = f'"{sys.executable}" -m pip install'


def check_environment():
    """Show which of Python and the packages are in range, and what to do about the others.

    Returns True when all are. Versions are shown only where something is wrong: they differ from
    machine to machine.
    """
    advice = {name: advice for name, _, _, advice in examine()}
    for name in filter(advice.get, advice):
        note("✘", name, advice[name])
    note("✔", "OK: " + ", ".join(name for name in advice if not advice[name]))
    return not any(advice.values())


def examine():
    """For Python and each package: (name, version found or None, range wanted, advice or "")."""
    python, requirements = _wanted()
    found = [("python", "{}.{}.{}".format(*sys.version_info), python)]
    found += [(r.name, _version(r.name), r.specifier) for r in requirements]
    return [(name, have, str(want), _advice(name, have, want)) for name, have, want in found]


def torch_here():
    """(whether torch works here, a sentence on its build and its device). It imports torch."""
    try:
        import torch

        torch.ones(2).sum()
        versions = {"CUDA": torch.version.cuda, "ROCm": torch.version.hip}
        build = next((f"{name} {version}" for name, version in versions.items() if version), "CPUs")
        device = f"the CPU, {torch.get_num_threads()} threads, which is all that the course needs"
        if torch.cuda.is_available():
            device = torch.cuda.get_device_name()
        elif torch.backends.mps.is_available():
            device = "Apple's GPU (mps)"
    except Exception as problem:  # half an installation, a missing system library, a broken GPU
        return False, f"torch does not start: {problem}. Try: {PIP} --force-reinstall torch"
    return True, f"torch was built for {build}; here it has {device}"


def _advice(name, have, want):
    if have is None:
        return f'missing: {PIP} "{name}{want}"'
    try:
        if want.contains(Version(have), prereleases=True):
            return ""
    except InvalidVersion:
        return f'{have!r} is not a version: {PIP} --force-reinstall "{name}{want}"'
    if name == "python":
        return f"{have} found, {want} needed: start Jupyter with a newer Python"
    return f'{have} found, {want} needed: {PIP} "{name}{want}", then restart the kernel'


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _wanted():
    """Ranges for Python and the packages: from the checkout, else from the installed package."""
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    if pyproject.exists():
        import tomllib  # not there in the Pythons that are too old

        project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
        python, lines = project["requires-python"], project["dependencies"]
    else:
        meta = importlib.metadata.metadata(NAME)
        python, lines = meta["Requires-Python"], importlib.metadata.requires(NAME)
    requirements = [Requirement(line) for line in lines]
    needed = [r for r in requirements if not r.marker or r.marker.evaluate({"extra": ""})]
    return SpecifierSet(python), needed
