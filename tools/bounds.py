"""Print the lowest versions that pyproject.toml allows, one pin a line, for `make test-oldest`."""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def lowest(requirement):
    """Turn "torch>=2.8" into "torch==2.8"; a requirement without a lower bound is an error."""
    match = re.match(r"([A-Za-z0-9._-]+)\s*>=\s*([0-9.]+)", requirement)
    if match is None:
        raise SystemExit(f"pyproject.toml: {requirement!r} does not begin with a lower bound, >=")
    return "{}=={}".format(*match.groups())


def lowest_versions():
    """The pins for what the course needs to run, to open and to be tested."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [lowest(line) for line in project["dependencies"] + extras["lab"] + extras["test"]]


if __name__ == "__main__":
    print("\n".join(lowest_versions()))
