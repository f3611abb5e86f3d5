"""The layers of the house: who may import whom, and what an import costs."""

import ast
import subprocess
import sys

import pytest
from course import ROOT

# Each file, and the files of the package that it may import.
MAY_IMPORT = {
    "layers": set(),
    "sizes": {"layers"},
    "packing": {"layers"},
    "two_ranks": {"layers", "packing"},
    "predictions": set(),
    "notes": set(),
    "measure": {"layers", "sizes", "packing"},
    "tiny_llama": {"layers"},
    "runs": {"tiny_llama"},
    "inside": {"layers", "tiny_llama", "runs"},
    "claims": {"notes", "predictions"},
    "guard": set(),
    "checker": {"guard"},
    "catalogue": {"checker"},
    "exercises": {
        *("layers", "sizes", "packing", "measure", "runs", "guard", "checker", "catalogue"),
        "notes",
    },
    "environment": {"notes"},
    "plots": {"layers", "sizes", "packing", "measure", "tiny_llama", "runs", "notes"},
    "explore": {"plots"},
    "explorers": {"layers", "sizes", "packing", "measure", "inside", "plots", "explore"},
    "__main__": {"environment", "notes"},
    "__init__": set(),
}
FILES = sorted((ROOT / "course_utils").glob("*.py"))
EXERCISES = sorted((ROOT / "course_utils" / "exercises").glob("*.py"))


def _imports(path, level):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level == level]
    return {name for n in nodes for name in ([n.module] if n.module else [a.name for a in n.names])}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_file_knows_only_those_below_it(path):
    assert _imports(path, level=1) <= MAY_IMPORT[path.stem]


@pytest.mark.parametrize("path", EXERCISES, ids=lambda p: f"exercises-{p.stem}")
def test_exercises_know_only_what_is_below_them(path):
    assert _imports(path, level=2) <= MAY_IMPORT["exercises"]
    assert _imports(path, level=1) <= {other.stem for other in EXERCISES} | {
        "NAMES",
        "load",
        "mistake",
    }


def test_only_explore_and_explorers_know_widgets():
    users = {path.stem for path in FILES if "ipywidgets" in path.read_text(encoding="utf-8")}
    assert users <= {"explore"}


def test_importing_the_package_draws_nothing():
    slow = "{'matplotlib', 'ipywidgets', 'IPython', 'PIL'}"
    code = f"import course_utils, sys; print(*(set(sys.modules) & {slow}))"
    command = [sys.executable, "-c", code]
    assert subprocess.check_output(command, text=True, cwd=ROOT).strip() == ""


def test_every_public_name_says_what_it_means():
    for path in [*FILES, *EXERCISES]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), path.name
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{path.stem}.{node.name}"


def test_the_helper_stays_small():
    """All of it: what comes new has to fit in, by something else that goes."""
    code = sorted((ROOT / "course_utils").rglob("*.py"))
    exercises = [*EXERCISES, *(ROOT / "course_utils" / "exercises").glob("*.md")]
    assert lines(code) <= 8500 and lines(exercises) <= 4500


def lines(paths):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
