"""A release is tested as it is published: with its address in every link and setup cell."""

import os
import subprocess
import sys

from elsewhere import TAG, git


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


def test_a_tag_with_a_message_is_pushed_with_its_branch_too(release, tmp_path):
    """Such tags, and signed ones, are objects of their own, which no branch can be."""
    git("init", "--bare", tmp_path / "bare")
    git("clone", tmp_path / "bare", tmp_path / "work")
    git("commit", "--allow-empty", "-m", "a release", cwd=tmp_path / "work")
    git("tag", "-m", "a message", TAG, cwd=tmp_path / "work")
    push = next(command for command in release.commands if command[0] == "push")
    git(*push, cwd=tmp_path / "work")
    assert f"class-{TAG}" in git("branch", "--list", cwd=tmp_path / "bare")
    assert git("tag", "--list", cwd=tmp_path / "bare") == f"{TAG}\n"
