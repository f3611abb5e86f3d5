"""A stranger has one notebook and nothing else of the course: no helper, no checkout.

GitHub is a bare repository on this disk, to which git is sent by its own configuration.
"""

import shutil
import socket
import sys
import threading
from pathlib import Path

import links
import pytest
from course import NOTEBOOKS
from elsewhere import REPO, TAG, redirect, replaced, setup_cell

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="links to packages need rights there"
)
SOURCE = f"git+https://github.com/{REPO}@{TAG}"
DEAD = "http://127.0.0.1:9"  # where nobody listens


@pytest.fixture
def first(release):
    return release.folder / "notebooks" / NOTEBOOKS[0].name


@pytest.mark.parametrize("name", [path.name for path in NOTEBOOKS])
def test_a_lone_notebook_installs_the_helper_and_nothing_else(release, github, lone, name):
    before = lone.versions()
    assert "course-utils" not in before and {"torch", "numpy", "ipywidgets"} <= before.keys()
    notebook, error = lone.run(release.folder / "notebooks" / name, github)
    assert not error
    (output,) = setup_cell(notebook).outputs
    assert "outputs_hidden" not in setup_cell(notebook).metadata.get("jupyter", {})
    assert output.text == f"Installing course_utils, and nothing else, from {SOURCE}\n"
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [o.text for o in outputs if o.get("name") == "stderr"]
    assert lone.versions() == before | {"course-utils": TAG[1:]}
    assert not (lone.packages / "course_utils").is_symlink()


def test_the_second_time_nothing_is_installed(first, github, lone):
    lone.run(first, github)
    again, error = lone.run(first, redirect(DEAD))
    assert not error and setup_cell(again).outputs == []


def test_without_no_deps_it_would_ask_for_more(first, github, lone):
    _, error = lone.run(first, github, edit=replaced('"--no-deps", ', ""))
    assert "no-such-package" in error and "course-utils" not in lone.versions()


def test_an_older_helper_is_replaced(first, github, lone):
    old = lone.packages / "course_utils-0.9.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: course-utils\nVersion: 0.9\n")
    (old / "RECORD").write_text(f"{old.name}/METADATA,,\n{old.name}/RECORD,,\n")
    _, error = lone.run(first, github)
    assert not error and lone.versions()["course-utils"] == TAG[1:]


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        (redirect(DEAD), "127.0.0.1"),
        ({"HTTPS_PROXY": DEAD, "https_proxy": DEAD, "GIT_TERMINAL_PROMPT": "0"}, "127.0.0.1"),
        ({"PATH": "/nowhere"}, "Cannot find command 'git'"),
    ],
    ids=["offline", "proxy", "no git"],
)
def test_what_went_wrong_and_what_helps_is_said(first, lone, variables, why):
    notebook, error = lone.run(first, variables)
    assert why in error
    assert "Behind a proxy" in error and "offline, open" in error
    assert setup_cell(notebook).outputs[0].text.startswith("Installing course_utils")


def test_a_proxy_that_is_set_in_the_notebook_is_asked(first, lone):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        asked = []

        def refuse():
            visitor, _ = proxy.accept()
            with visitor:
                asked.append(visitor.recv(100))

        threading.Thread(target=refuse, daemon=True).start()
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        line = f"%env HTTPS_PROXY={address}\n"
        _, error = lone.run(first, {}, edit=lambda source: line + source)
    assert asked[0].startswith(b"CONNECT github.com:443")
    assert "Behind a proxy" in error


def test_a_tag_that_is_not_there_is_named(first, github, lone):
    _, error = lone.run(first, github, edit=replaced(f"@{TAG}", "@v9.9"))
    assert "v9.9" in error and "offline, open" in error


def test_where_pip_may_write_only_into_the_users_folder(first, github, lone):
    config = lone.python.parents[1] / "pyvenv.cfg"
    config.write_text(links.read(config).replace("site-packages = false", "site-packages = true"))
    user = {"PIP_USER": "1", "PYTHONUSERBASE": str(lone.folder / "user")}
    _, error = lone.run(first, github | user)
    assert not error and not (lone.packages / "course_utils").exists()
    assert list((lone.folder / "user").rglob("course_utils/layers.py"))


def test_where_the_kernel_starts_in_the_courses_folder_nothing_is_installed(release, lone):
    """As some editors do, which start kernels in the folder that is open."""
    shutil.copytree(release.folder / "course_utils", lone.folder / "course_utils")
    shutil.copy(release.folder / "pyproject.toml", lone.folder)
    notebook, error = lone.run(release.folder / "notebooks" / NOTEBOOKS[0].name, redirect(DEAD))
    assert not error and setup_cell(notebook).outputs == []
    assert "course-utils" not in lone.versions()


def test_an_environment_of_ones_own_stays_ones_own(first, github, lone):
    """No folder of the user's comes into a plain virtual environment."""
    user = {"PYTHONUSERBASE": str(lone.folder / "user")}
    packages = lone.ask("import site; print(site.getusersitepackages())", **user)
    Path(packages).mkdir(parents=True)
    probe = "\nassert not [path for path in sys.path if '/user/' in path]"
    _, error = lone.run(first, github | user, edit=lambda source: source + probe)
    assert not error


def test_in_the_whole_course_nothing_is_installed(release, lone):
    shutil.copytree(release.folder / "course_utils", lone.folder.parent / "course_utils")
    shutil.copy(release.folder / "pyproject.toml", lone.folder.parent)
    notebook, error = lone.run(release.folder / "notebooks" / NOTEBOOKS[0].name, redirect(DEAD))
    assert not error and setup_cell(notebook).outputs == []
    assert "course-utils" not in lone.versions()
