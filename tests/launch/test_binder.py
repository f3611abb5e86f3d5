"""What Binder would build, said by its own code, repo2docker, without building it."""

import re
import subprocess
import sys

import pytest
from bench import KERNEL, notebook
from course import NOTEBOOKS

COPY_ALL = "COPY --chown=0:0 src/ ${REPO_DIR}/"
UPDATE = 'env update -p ${NB_PYTHON_PREFIX} --file "environment.yml"'


def dockerfile(folder):
    """The Dockerfile that repo2docker would build, and below it what it says on the way."""
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(release):
    return dockerfile(release.folder)


def test_binder_builds_condas_environment_with_the_python_of_environment_yml(built, release):
    python = re.search(r"python=[\d.]+", (release.folder / "environment.yml").read_text())[0]
    assert f"Building conda environment for {python}\n" in built


def in_order(text, *pieces):
    places = [text.find(piece) for piece in pieces]
    return -1 not in places and places == sorted(places)


def test_the_packages_are_a_layer_that_a_new_commit_does_not_build_anew(built):
    assert in_order(built, "src/environment.yml", UPDATE, COPY_ALL, "RUN ./postBuild")


@pytest.mark.parametrize("entry", ["-e .", "-r requirements/course.lock", "."])
def test_a_local_path_would_build_them_after_the_copy(release, tmp_path, entry):
    for name in ("environment.yml", "postBuild"):
        (tmp_path / name).write_text((release.folder / name).read_text(encoding="utf-8"))
    with open(tmp_path / "environment.yml", "a", encoding="utf-8") as file:
        file.write(f"  - pip:\n    - {entry}\n")
    spoilt = dockerfile(tmp_path)
    assert in_order(spoilt, COPY_ALL, UPDATE)


def cuda():
    import torch

    return torch.version.cuda


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Binder runs Linux")
@pytest.mark.skipif(bool(cuda()), reason="a CUDA build of torch is larger than Binder's")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem[:2])
def test_each_kernel_fits_twice_into_binders_gigabyte(path):
    _, peak = notebook(path)
    print(f"{path.stem}: {peak:.0f} MB at its peak")
    assert peak < KERNEL
