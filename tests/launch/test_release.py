"""A release is tested as it is published: with its address in every link and setup cell."""

import os
import subprocess
import sys


def test_the_course_passes_its_own_tests_when_it_has_an_address(release):
    """Those tests that read what an address changes; the rest of the course is the same."""
    names = ("house", "links", "notebooks", "packaging")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *(f"tests/test_{name}.py" for name in names)],
        cwd=release.folder,
        env={key: value for key, value in os.environ.items() if "PYTEST" not in key},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_it_is_formatted_as_the_rest(release):
    for command in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "."]
        done = subprocess.run(ruff, cwd=release.folder, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
