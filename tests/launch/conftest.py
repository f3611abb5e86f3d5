"""A course that has an address, as its release would be, and git sent there instead of GitHub."""

import shutil
import subprocess
import sys
from types import SimpleNamespace

import links
import pytest
from course import ROOT
from elsewhere import REPO, TAG, Lone, git, redirect


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    """The folder of a release: the course's own files, with links written for REPO and TAG."""
    folder = tmp_path_factory.mktemp("release") / "course"
    files = git("ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    command = [sys.executable, folder / "tools" / "links.py", REPO, TAG]
    said = subprocess.check_output(command, text=True, encoding="utf-8")
    commands = [line.split()[1:] for line in said.splitlines() if line.startswith("  git ")]
    return SimpleNamespace(folder=folder, commands=commands)


@pytest.fixture(scope="session")
def github(release, tmp_path_factory):
    """Variables that send git to a bare repository wherever it asks for GitHub.

    The release was pushed there with the commands that `make links` prints. Its helper asks for a
    package that does not exist, so that nothing but --no-deps installs it.
    """
    home = tmp_path_factory.mktemp("github")
    bare, source = home / f"{REPO}.git", home / "source"
    git("init", "--bare", bare)
    git("config", "uploadpack.allowFilter", "true", cwd=bare)  # as on GitHub, which pip asks for
    shutil.copytree(release.folder, source)
    pyproject = source / "pyproject.toml"
    one, more = "dependencies = [", 'dependencies = [\n"no-such-package",'
    pyproject.write_text(links.read(pyproject).replace(one, more, 1), encoding="utf-8")
    git("init", cwd=source)
    git("add", "--all", cwd=source)
    git("commit", "-m", "a release", cwd=source)
    git("remote", "add", "origin", bare, cwd=source)
    for command in release.commands:
        git(*command, cwd=source)
    return redirect(home.as_uri())


@pytest.fixture
def lone(tmp_path):
    return Lone(tmp_path)
