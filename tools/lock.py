"""Write requirements/course.lock and a lock for each further extra: exact versions, with hashes.

`make lock` keeps each pin that still fits; `make lock LOCK_ARGS=--upgrade` takes the newest.
torch stays out, since its small CPU build comes from another index, and so do the CUDA packages
that the default index's torch asks for on Linux: they would add gigabytes to a small install.
What else torch needs is kept, because the Makefile installs torch without dependencies.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GPU = ("nvidia-", "cuda-", "triton")
FURTHER = ("references", "browser", "launch", "teach", "grading")  # not for everyone


def compile_lock(source, *options, text=None):
    """Run uv's resolver for every platform at once; return what it prints."""
    command = [sys.executable, "-m", "uv", "pip", "compile", source, *options]
    command += ["--universal", "--python-version=3.11", "--fork-strategy=fewest"]
    command += ["--constraint=requirements/torch.txt", "--quiet"]
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, input=text, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise SystemExit(result.stderr)
    return result.stdout


def lock(target, source, *options, text=None):
    """Resolve once to learn the names of the CUDA packages, and once more without them."""
    plain = compile_lock(source, "--no-header", "--no-annotate", *options, text=text)
    names = [line.split("==")[0] for line in plain.splitlines() if "==" in line]
    left_out = ["torch", *(name for name in names if name.startswith(GPU))]
    options += tuple(f"--no-emit-package={name}" for name in left_out)
    options += ("--generate-hashes", "--custom-compile-command=make lock")
    compile_lock(source, f"--output-file={target}", *options, text=text)
    print(f"wrote {target}")


def main(arguments):
    lock("requirements/course.lock", "pyproject.toml", "--extra=lab", "--extra=test", *arguments)
    # Constrained by the first lock, so that what two of them name has one version.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    options = ("--constraint=requirements/course.lock", *arguments)
    for extra in FURTHER:
        wanted = "\n".join(project["optional-dependencies"][extra])
        lock(f"requirements/{extra}.lock", "-", *options, text=wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
