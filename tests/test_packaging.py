"""The files that install the course agree with one another, and the Makefile keeps its word.

Nothing here needs the network: where make would install something, `make -n` or a stand-in for
Python shows what it would do, in a folder of its own.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from lock import FURTHER
from nbformat.v4 import new_code_cell, new_notebook, new_output
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
LOCKS = ("requirements/course.lock", *(f"requirements/{extra}.lock" for extra in FURTHER))
ANNOUNCEMENTS = 'jupyter labextension disable .*"@jupyterlab/apputils-extension:announcements"'


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


PYPROJECT = tomllib.loads(text("pyproject.toml"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
INSTALLED = [Requirement(line) for line in PYPROJECT["project"]["dependencies"]]
INSTALLED += [Requirement(line) for extra in ("lab", "test") for line in EXTRAS[extra]]
RANGES = {requirement.name: requirement.specifier for requirement in INSTALLED}


def entries(lock):
    """Each entry of a lock file: its requirement and its hashes."""
    joined = re.sub(r"\\\n", " ", text(lock))
    lines = [
        line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    return [(Requirement(line.split(" --hash")[0]), line.split()) for line in lines]


def pins(lock):
    """name -> the versions that a lock file pins (one a platform, if platforms differ)."""
    found = {}
    for requirement, _ in entries(lock):
        found.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier))
    return found


def lower(specifier):
    return max((Version(s.version) for s in specifier if s.operator == ">="), default=None)


def upper(specifier):
    return min((Version(s.version) for s in specifier if s.operator == "<"), default=None)


# --- pyproject.toml


@pytest.mark.parametrize("name", RANGES)
def test_every_range_has_a_lower_bound_and_no_exact_version(name):
    assert lower(RANGES[name]), f"{name} has no lower bound for `make test-oldest`"
    assert {s.operator for s in RANGES[name]} <= {">=", "<"}, RANGES[name]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *{
            "ipywidgets": "7.7.1",
            "numpy": "2.1.3",
            "matplotlib": "3.10.0",
            "torch": "2.11.0",
        }.items(),
        ("ipywidgets", "8.1.9"),
        ("numpy", "2.0.0"),
        ("torch", "2.8.0"),
    ],
)
def test_the_ranges_accept_the_newest_widgets_and_the_oldest_versions_promised(name, version):
    assert RANGES[name].contains(version)


def test_colabs_python_is_accepted():
    assert Requirement("python" + PYPROJECT["project"]["requires-python"]).specifier.contains(
        "3.12"
    )


def test_the_oldest_versions_are_the_lower_bounds():
    output = subprocess.run(
        [sys.executable, ROOT / "tools" / "bounds.py"], capture_output=True, text=True, check=True
    ).stdout
    lowest = {line.split("==")[0]: Version(line.split("==")[1]) for line in output.splitlines()}
    assert lowest == {name: lower(specifier) for name, specifier in RANGES.items()}


def test_the_helper_imports_nothing_that_is_not_asked_for():
    """A lone notebook has only what pyproject.toml's dependencies bring."""
    asked = {Requirement(line).name for line in PYPROJECT["project"]["dependencies"]}
    asked = (asked - {"pillow"}) | {"PIL", "IPython", "traitlets"}  # ipywidgets brings two
    for path in (ROOT / "course_utils").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names.append(node.module)
            for name in (name.partition(".")[0] for name in names):
                known = {*asked, *sys.stdlib_module_names, "course_utils"}
                assert name in known, f"{path.name} imports {name}"


# --- requirements/course.lock


@pytest.mark.parametrize("name", [name for name in RANGES if name != "torch"])
def test_the_lock_pins_every_dependency_within_its_range(name):
    pinned = pins("requirements/course.lock")[canonicalize_name(name)]
    for pin in pinned:
        assert pin.startswith("=="), pin
        assert RANGES[name].contains(pin.removeprefix("==")), f"{name}{pin}, not {RANGES[name]}"


def test_the_exact_torch_lies_in_the_range_and_is_named_nowhere_else():
    [line] = [line for line in text("requirements/torch.txt").splitlines() if line[:1] != "#"]
    torch = Requirement(line)
    [pin] = torch.specifier
    assert (torch.name, pin.operator) == ("torch", "==")
    assert RANGES["torch"].contains(pin.version)
    for name in ("Makefile", "environment.yml", "pyproject.toml", ".ci/run"):
        assert pin.version not in text(name), f"{name} has a second copy of torch's version"


def test_the_lock_has_what_torch_and_the_build_need():
    locked = pins("requirements/course.lock")
    torch_needs = "filelock typing-extensions sympy networkx jinja2 fsspec setuptools"
    assert set(torch_needs.split()) <= set(locked)
    for line in PYPROJECT["build-system"]["requires"]:  # built without isolation
        build = Requirement(line)
        assert all(build.specifier.contains(pin[2:]) for pin in locked[build.name]), line


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_of_a_lock_is_exact_and_has_hashes(lock):
    assert len(entries(lock)) >= 3
    for requirement, words in entries(lock):
        assert [s.operator for s in requirement.specifier] == ["=="], requirement
        hashes = [word for word in words if word.startswith("--hash=")]
        assert hashes, f"{requirement} has no hash"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", word) for word in hashes)


@pytest.mark.parametrize("lock", LOCKS)
def test_no_lock_names_torch_its_gpu_packages_or_an_address(lock):
    assert not [name for name in pins(lock) if re.match("torch$|triton|nvidia-|cuda-", name)]
    assert not re.search(r"://|^\s*(--index|--extra-index|--find-links|-i |-f )", text(lock), re.M)


def test_the_locks_agree():
    versions = {}
    for lock in LOCKS:
        for name, pinned in pins(lock).items():
            versions.setdefault(name, []).append(pinned)
    assert len(versions["numpy"]) == 2
    assert all(pinned == several[0] for several in versions.values() for pinned in several)


@pytest.mark.parametrize("extra", FURTHER)
def test_a_further_lock_pins_its_extra(extra):
    locked = pins(f"requirements/{extra}.lock")
    for line in EXTRAS[extra]:
        wanted = Requirement(line)
        assert all(wanted.specifier.contains(pin[2:]) for pin in locked[wanted.name]), line


def colab():
    lines = [line for line in text("requirements/colab.txt").splitlines() if line[:1] != "#"]
    return {name: version for name, version in (line.split("==") for line in lines)}


def test_colabs_versions_are_exact_and_within_the_ranges():
    assert {"ipywidgets", "ipython", "numpy", "matplotlib", "torch"} <= colab().keys()
    for name, version in colab().items():
        assert name not in RANGES or RANGES[name].contains(version), f"{name} {version}"


# --- environment.yml and postBuild


def conda():
    lines = yaml.safe_load(text("environment.yml"))["dependencies"]
    assert all(isinstance(line, str) for line in lines), "a pip section defeats Binder's cache"
    pairs = [re.fullmatch(r"([\w-]+) ?(\S*)( cpu\*)?", line).groups() for line in lines]
    return {name: asked for name, asked, _ in pairs}


@pytest.mark.parametrize("name", RANGES)
def test_conda_asks_for_the_same_range_or_a_tighter_one(name):
    asked = Requirement("x" + conda()[CONDA_NAMES.get(name, name)]).specifier
    assert lower(asked) >= lower(RANGES[name]), f"{name}{asked} against {RANGES[name]}"
    most = upper(RANGES[name])
    assert most is None or (upper(asked) and upper(asked) <= most), f"{name}{asked}"


def test_conda_has_nothing_that_pyproject_does_not_ask_for():
    names = {CONDA_NAMES.get(name, name) for name in RANGES}
    assert conda().keys() - names == {"python", "pip"}


def test_conda_takes_the_build_of_torch_without_cuda():
    assert re.search(r"- pytorch \S+ cpu\*$", text("environment.yml"), re.M)


def test_conda_pins_a_python_that_the_course_accepts():
    [pinned] = re.findall(r"^=(3\.\d+)$", conda()["python"])
    assert Requirement("x" + PYPROJECT["project"]["requires-python"]).specifier.contains(pinned)


def test_conda_names_no_local_path_and_one_channel():
    assert yaml.safe_load(text("environment.yml"))["channels"] == ["conda-forge"]
    for name, rest in conda().items():
        assert re.fullmatch(r"(=|>=)?[\d.]*(,<\d+[\d.]*)?", rest), f"{name}{rest}"


def test_binder_finds_these_files():
    assert not (ROOT / "binder").exists() and not (ROOT / ".binder").exists()


def test_postbuild_installs_the_package_alone_and_stops_at_an_error():
    lines = text("postBuild").splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert [line for line in lines if "pip install" in line] == ["pip install --no-deps -e ."]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no executable bit")
@pytest.mark.parametrize("script", ["postBuild", ".ci/run"])
def test_scripts_are_executable(script):
    assert os.access(ROOT / script, os.X_OK)


@pytest.mark.parametrize("name", ["postBuild", "Makefile"])
def test_jupyterlab_looks_up_no_news_and_no_updates(name):
    assert re.search(ANNOUNCEMENTS, re.sub(r"\\\n\s*", "", text(name)))


# --- the Makefile

needs_make = pytest.mark.skipif(
    sys.platform == "win32" or shutil.which("make") is None, reason="conda is the way without make"
)


@pytest.fixture
def house(tmp_path):
    """A folder with what the Makefile reads, and nothing installed."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    return tmp_path


def make(folder, *arguments, **variables):
    # Without what an outer make hands on: its PYTHON= would count as this one's.
    ours = (
        "MAKEFLAGS",
        "MFLAGS",
        "MAKEOVERRIDES",
        "MAKELEVEL",
        "PYTHON",
        "TORCH_INDEX",
        "LAB_ARGS",
        "CHROMIUM",
        "COLAB_TORCH",
    )
    environment = {key: value for key, value in os.environ.items() if key not in ours} | variables
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def stand_in(path, version):
    """An executable that answers `-c code` as a Python of this version would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pretend = f"import sys; sys.version_info = {version}; exec(sys.argv[2])"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{pretend}" "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def installed(house, version=(3, 11, 9)):
    """Pretend that `make lab` has been run with this version of Python."""
    stand_in(house / ".venv" / "bin" / "python", version)
    (house / ".venv" / ".installed").write_text(f"{house.resolve()}\n", encoding="utf-8")


def rebuilds(result):
    assert result.returncode == 0, result.stderr
    return "rm -rf .venv\n" in result.stdout


@needs_make
def test_make_lists_every_target(house):
    listed = re.findall(r"^make (\S+) +\S", make(house).stdout, re.M)
    phony = re.search(r"^\.PHONY: (.*?[^\\])$", text("Makefile"), re.M | re.S)[1]
    assert {"lab", "test", "test-all"} < set(listed)
    assert set(re.findall(r"[\w-]+", phony)) == {*listed, "FORCE"}


@needs_make
@pytest.mark.parametrize("version", [(2, 7, 18), (3, 9, 18), (3, 10, 13), (3, 15, 0)])
def test_a_python_out_of_range_gets_a_sentence(house, version):
    python = stand_in(house / "some-python", version)
    result = make(house, "lab", f"PYTHON={python}")
    assert result.returncode != 0
    sentence = f"needs Python 3.11 to 3.14, but {python} is Python {version[0]}.{version[1]}."
    assert sentence in result.stderr
    assert "make lab PYTHON=" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (house / ".venv").exists()


@needs_make
def test_a_missing_python_gets_a_sentence(house):
    result = make(house, "test", "PYTHON=no-such-python")
    assert result.returncode != 0
    assert "needs Python 3.11 to 3.14, but no-such-python was not found." in result.stderr
    assert "make test PYTHON=" in result.stderr


@needs_make
def test_the_oldest_python_named_is_the_oldest_accepted():
    pythons = re.search(r"^PYTHONS := (.*)$", text("Makefile"), re.M)[1].split()
    assert PYPROJECT["project"]["requires-python"] == f">={pythons[0]}"
    assert f"Python {pythons[0]} to {pythons[-1]}, but" in text("Makefile")


@needs_make
def test_what_is_installed_is_not_installed_again(house):
    installed(house)
    for target in ("lab", "test", "check"):
        assert "pip" not in make(house, "-n", target).stdout


@needs_make
def test_a_half_finished_install_is_redone(house):
    installed(house)
    (house / ".venv" / ".installed").unlink()
    assert rebuilds(make(house, "-n", "test"))


@needs_make
@pytest.mark.parametrize("name", ["requirements/course.lock", "requirements/torch.txt"])
def test_new_exact_versions_are_installed(house, name):
    installed(house)
    stamp = (house / ".venv" / ".installed").stat().st_mtime
    os.utime(house / name, (stamp + 10, stamp + 10))
    assert rebuilds(make(house, "-n", "test"))


@needs_make
def test_another_python_is_installed_only_when_asked_for(house):
    installed(house, (3, 12, 1))
    newer, same = (stand_in(house / f"python3.{n}", (3, n, 4)) for n in (13, 12))
    assert not rebuilds(make(house, "-n", "test"))
    assert not rebuilds(make(house, "-n", "test", f"PYTHON={same}"))
    assert rebuilds(make(house, "-n", "test", f"PYTHON={newer}"))


@needs_make
def test_an_environment_whose_python_is_gone_or_that_was_moved_is_made_again(house):
    installed(house)
    (house / ".venv" / "bin" / "python").unlink()
    assert rebuilds(make(house, "-n", "test"))
    installed(house)
    (house / ".venv" / ".installed").write_text("elsewhere\n", encoding="utf-8")
    assert rebuilds(make(house, "-n", "test"))


@needs_make
def test_jupyterlab_keeps_its_token_and_listens_on_loopback(house):
    installed(house)
    [command] = re.sub(r"\\\n\s*", "", make(house, "-n", "lab").stdout).splitlines()
    assert re.findall(r"--ip[= ](\S+)", command) == ["127.0.0.1"]
    assert not re.search(r"token|password|allow[_-]root|disable_check_xsrf", command, re.I)
    assert "notebooks/00_start_here.ipynb" in command
    asked = make(house, "-n", "lab", "LAB_ARGS=--no-browser --port=9999").stdout
    assert "--no-browser --port=9999" in asked


@needs_make
def test_the_install_checks_hashes_and_torch_goes_its_own_way(house):
    lines = make(house, "-n", "test").stdout
    assert "pip install -qq --require-hashes --no-deps -r requirements/course.lock" in lines
    [trial] = re.findall(r"pip install [^;&]*--index-url[^;&]*", lines)
    assert "--no-deps" in trial and "--timeout=" in trial and "--retries=0" in trial
    assert '--index-url "https://download.pytorch.org/whl/cpu"' in trial
    assert "transformers" not in lines and LOCKS[1] not in lines
    for offline in (
        make(house, "-n", "test", "TORCH_INDEX="),
        make(house, "-n", "test", TORCH_INDEX=""),
    ):
        assert "download.pytorch.org" not in offline.stdout
        assert 'test -n ""' in offline.stdout
        assert "pip install -qq -r requirements/torch.txt" in offline.stdout


@needs_make
@pytest.mark.parametrize("target", ["test-all", "test-newest"])
def test_where_all_tests_are_meant_each_folder_has_its_turn(house, target):
    installed(house)
    folders = {path.name for path in (ROOT / "tests").iterdir() if list(path.glob("test_*.py"))}
    lines = make(house, "-n", target).stdout
    assert folders == set(re.findall(r"-m pytest .*tests/(\w+)$", re.sub(r";;.*", "", lines), re.M))
    assert '-m "not complete"' not in re.sub(r".*\.venv-colab/.*", "", lines)


@needs_make
def test_the_first_tests_need_no_browser_and_no_long_proof(house):
    installed(house)
    line = make(house, "-n", "test").stdout
    assert '-m "not complete"' in line and "chromium" not in line and line.count("\n") == 1


def browser_tool(**variables):
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "chromium.py"],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_chromium_one_line_says_so():
    none = browser_tool(CHROMIUM="")
    assert none.returncode == 1
    assert none.stdout.startswith("No Chromium was found, so the browser tests do not run")
    assert none.stdout.count("\n") == 1
    wrong = browser_tool(CHROMIUM="/no/such/chromium")
    assert wrong.returncode == 2
    assert wrong.stderr == "CHROMIUM=/no/such/chromium: there is no such program\n"
    found = browser_tool(CHROMIUM=sys.executable)
    assert (found.returncode, found.stdout) == (0, f"The browser tests use {sys.executable}.\n")


@needs_make
def test_colab_may_have_another_build_of_torch(house):
    lines = make(house, "-n", "test-colab").stdout
    assert f"torch=={colab()['torch']}" in lines and "requirements/torch.txt" not in lines
    lines = make(house, "-n", "test-colab", "COLAB_TORCH=-r requirements/torch.txt").stdout
    assert "-r requirements/torch.txt" in lines and f"torch=={colab()['torch']}" not in lines


@needs_make
@pytest.mark.parametrize(
    ("arguments", "locks", "handed_on"),
    [
        (["test"], [], ""),
        (["test-references"], ["references"], "tests/references"),
        (["test-browser"], ["browser"], "tests/browser"),
        (["test-launch"], ["launch", "browser"], ""),  # one of the learners has a browser
        (["test-teaching"], ["teach", "grading", "browser"], "tests/teaching"),
        (["hub", "LEARNERS=7"], ["launch"], "hub.py 7"),
        (["lecture", "NOTEBOOK=03"], ["teach"], "lecture.py 03"),
        (["handout", "FILES=a.ipynb"], ["teach", "browser"], "handout.py a.ipynb"),
        (["assignment"], ["grading"], 'assignment.py "assignment"'),
    ],
)
def test_each_target_installs_its_locks_and_hands_on_what_it_is_given(
    house, arguments, locks, handed_on
):
    installed(house)
    lines = make(house, "-n", *arguments).stdout
    used = re.findall(r"--require-hashes --no-deps -r requirements/(\w+)\.lock", lines)
    assert sorted(used) == sorted(locks)
    assert lines.rstrip().endswith(handed_on)


@needs_make
def test_the_address_comes_from_the_command_alone(house):
    installed(house)
    asked = make(house, "-n", "links", "REPO=owner/name", "TAG=v1.0", TAG="v0.9").stdout
    assert asked.endswith("tools/links.py owner/name v1.0\n")
    assert re.search(r"tools/links\.py *$", make(house, "-n", "links", TAG="v0.9").stdout.rstrip())


@needs_make
def test_the_newest_versions_are_those_of_every_extra(house):
    [installs] = re.findall(r"-e '\.\[(.*)\]'", make(house, "-n", "test-newest").stdout)
    assert sorted(installs.split(",")) == sorted(EXTRAS)


# --- pytest


def test_pytest_runs_notebooks_strictly_and_leaves_folders_with_needs_alone(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in ("tests/test_plain.py", "tests/browser/test_needy.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("def test_it(): pass\n")
    for folder, stored in (("notebooks", "2"), ("docs", "3")):
        cell = new_code_cell("1 + 1", execution_count=1)
        cell.outputs = [new_output("execute_result", {"text/plain": stored}, execution_count=1)]
        (tmp_path / folder).mkdir()
        nbformat.write(new_notebook(cells=[cell]), tmp_path / folder / "one.ipynb")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v"]
    outer = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=tmp_path, env=outer, capture_output=True, text=True, check=False
    )
    said = dict(re.findall(r"^(\S+?)::.* (PASSED|FAILED)", done.stdout, re.M))
    assert said == {
        "tests/test_plain.py": "PASSED",
        "notebooks/one": "PASSED",
        "docs/one": "FAILED",
    }, done.stdout


# --- continuous integration


@pytest.mark.parametrize("name", ["test.yml", "canary.yml"])
def test_workflows_may_only_read_and_cannot_hang(name):
    workflow = yaml.safe_load(text(f".github/workflows/{name}"))
    assert workflow["permissions"] == {"contents": "read"}
    assert "concurrency" in workflow
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 60
        assert "permissions" not in job
