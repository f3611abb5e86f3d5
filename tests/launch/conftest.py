"""A course that has an address, as its release would be, and git sent there instead of GitHub."""

import shutil

import links
import pytest
from course import ROOT
from elsewhere import REPO, TAG, Lone, git, redirect


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    """The folder of a release: the course's own files, with links written for REPO and TAG.

    Its helper asks for a package that does not exist, so that nothing but --no-deps installs it.
    """
    folder = tmp_path_factory.mktemp("release") / "course"
    files = git("ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    links.main([REPO, TAG], folder)
    pyproject = folder / "pyproject.toml"
    text = links.read(pyproject).replace(
        "dependencies = [", 'dependencies = [\n"no-such-package",', 1
    )
    pyproject.write_text(text, encoding="utf-8")
    git("init", cwd=folder)
    git("add", "--all", cwd=folder)
    git("commit", "-m", "a release", cwd=folder)
    git("tag", TAG, cwd=folder)
    git("branch", links.address(folder).branch, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def github(release):
    """Variables that send git to a bare copy of the release wherever it asks for GitHub."""
    bare = release.parent / "github" / f"{REPO}.git"
    git("clone", "--bare", release, bare)
    git("config", "uploadpack.allowFilter", "true", cwd=bare)  # as on GitHub, which pip asks for
    return redirect((release.parent / "github").as_uri())


@pytest.fixture
def lone(tmp_path):
    return Lone(tmp_path)
