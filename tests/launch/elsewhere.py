"""Where the course is not: another machine's git, and an environment without the helper."""

import os
import subprocess
import sys
from pathlib import Path

import links
from course import tags

REPO, TAG = "some-owner/some-course", "v1.0"  # of the release that the tests make


def git(*arguments, cwd=None):
    who = "-c user.name=test -c user.email=test@example.org -c init.defaultBranch=main"
    command = ["git", *who.split(), *arguments]
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def redirect(address):
    """Variables that send git to this address instead of GitHub's."""
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{address}/.insteadOf",
        "GIT_CONFIG_VALUE_0": links.GITHUB,
        "GIT_TERMINAL_PROMPT": "0",
    }


class Lone:
    """An environment that has all packages of this one but course_utils, and an empty folder.

    Its packages are links to this environment's, so it is made in a moment.
    """

    def __init__(self, folder):
        self.folder = folder / "downloads"
        self.folder.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        self.python = folder / "venv" / "bin" / "python"
        here, there = (Path(self.ask(PACKAGES, python)) for python in (sys.executable, self.python))
        for entry in here.iterdir():
            if "course_utils" not in entry.name and not (there / entry.name).exists():
                (there / entry.name).symlink_to(entry)
        self.packages = there

    def ask(self, code, python=None, **variables):
        """What a line of Python prints there."""
        done = subprocess.run(
            [python or self.python, "-c", code],
            cwd=self.folder,
            env=environment(variables),
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def versions(self):
        """name -> version of each package that is installed there."""
        return dict(line.split() for line in self.ask(VERSIONS).splitlines())

    def run(self, notebook, variables, edit=lambda source: source):
        """Put a notebook there and run its cells. edit: what to make of its setup cell's source.

        Returns the notebook with its outputs and, when a cell failed, the error; else "".
        """
        path = self.folder / notebook.name
        opened = links.nbformat.read(notebook, as_version=4)
        setup = setup_cell(opened)
        setup.source = edit(setup.source)
        links.nbformat.write(opened, path)
        error = self.ask(EXECUTE.format(notebook.name), **variables)
        return links.nbformat.read(path, as_version=4), error


def setup_cell(notebook):
    (cell,) = (cell for cell in notebook.cells if "setup" in tags(cell))
    return cell


def replaced(old, new):
    """An edit for Lone.run; the old text must be there."""

    def edit(source):
        assert old in source
        return source.replace(old, new)

    return edit


PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"
VERSIONS = """\
import importlib.metadata as m
for d in m.distributions(): print(d.name, d.version)"""
EXECUTE = """\
import nbformat, nbclient
notebook = nbformat.read({0!r}, as_version=4)
try:
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
except nbclient.exceptions.CellExecutionError as error:
    print(error.ename, error.evalue)
nbformat.write(notebook, {0!r})"""


def environment(variables):
    """This process's variables without what leads to the helper, and these."""
    ours = {"PYTHONPATH", "VIRTUAL_ENV", "JUPYTER_PATH"}
    inherited = {key: value for key, value in os.environ.items() if key not in ours}
    # No index, and (a 0 says so) no isolated build, which would fetch setuptools.
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    return inherited | offline | variables
