"""Measure what the course costs on this machine: python tools/bench.py [runs]

Medians over several runs, with the spread (lowest to highest). Nothing here is asserted: what a
timing should reach is printed beside it.
"""

import inspect
import platform
import statistics
import subprocess
import sys
import time

import nbformat
import torch
import torch.nn.functional as F
from refresh import NOTEBOOKS, client
from torch.utils.benchmark import Timer

from course_utils import exercises, explorers, rms_norm

KERNEL = 500  # MB that a notebook's kernel may take: under half of what Binder promises
PEAK = """\
def peak():
    \"\"\"Largest resident memory of this kernel so far, in MB.\"\"\"
    import pathlib, sys
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    import resource  # macOS: in bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

print(peak())"""

IMPORT = """\
import time, torch
start = time.perf_counter()
from course_utils import claim, rms_norm
print(1000 * (time.perf_counter() - start))"""


def notebook(path):
    """Seconds from kernel start to the last cell, and the kernel's peak memory in MB."""
    read = nbformat.read(path, as_version=4)
    executor = client(read, path.parent)
    start = time.perf_counter()
    with executor.setup_kernel():
        for index, cell in enumerate(read.cells):
            executor.execute_cell(cell, index)
        seconds = time.perf_counter() - start
        probe = nbformat.v4.new_code_cell(PEAK)
        read.cells.append(probe)
        executor.execute_cell(probe, len(read.cells) - 1)
    return seconds, float(probe.outputs[0].text)


CHECK = """\
import sys, time, torch
from course_utils import check, exercises
exercise = exercises.load(sys.argv[1])
for _ in range(2):
    start = time.perf_counter()
    check(sys.argv[1], exercise.mistakes[-1].wrong)
    print(1000 * (time.perf_counter() - start))"""


def check_times(name):
    """Milliseconds of a check in a fresh process, and of the same check again."""
    command = [sys.executable, "-c", CHECK, name]
    return [float(time) for time in subprocess.check_output(command, text=True).split()]


def import_time():
    """Milliseconds that `import course_utils` takes after `import torch`, in a fresh process."""
    return float(subprocess.check_output([sys.executable, "-c", IMPORT], text=True))


def redraws(make, moves=60):
    """Milliseconds of each redraw while the controls of an explorer run through their range."""
    explorer, times = make(), []
    for name, control in explorer.controls.items():
        for i in range(moves // len(explorer.controls)):
            start = time.perf_counter()
            explorer.set(**{name: _value(control, i)})
            times.append(1000 * (time.perf_counter() - start))
    return times


def _value(control, i):
    """The i-th value of a control, from the first again after the last."""
    if hasattr(control, "options"):
        return control.options[i % len(control.options)]
    at = control.min + i % (round((control.max - control.min) / control.step) + 1) * control.step
    return control.base**at if hasattr(control, "base") else at


def row(name, values, unit, reach=""):
    low, high = min(values), max(values)
    spread = f"({low:.3g} to {high:.3g})"
    print(f"{name:44} {statistics.median(values):8.3g} {unit:3} {spread:20} {reach}", flush=True)


def main(runs=5):
    threads = torch.get_num_threads()
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {threads} threads")
    print(f"median of {runs} runs (lowest to highest)\n")
    row("import course_utils beyond torch", [import_time() for _ in range(runs)], "ms", "100")
    first, again = zip(*map(check_times, exercises.NAMES), strict=True)
    row("check: a wrong answer to each exercise, first", first, "ms", "300")
    row("check: the same again", again, "ms", "300")
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        seconds, peaks = zip(*(notebook(path) for _ in range(runs)), strict=True)
        row(f"{path.stem}: start to last cell", seconds, "s", "10")
        row(f"{path.stem}: kernel's peak memory", peaks, "MB", str(KERNEL))
    for name, make in inspect.getmembers(explorers, inspect.isfunction):
        if name.endswith("_explorer"):
            row(f"{name}: one redraw", redraws(make), "ms", "10")
    x, weight, out = torch.randn(512, 4096), torch.ones(4096), torch.empty(512, 4096)
    rival = {
        "layers.rms_norm": lambda: rms_norm(x, weight),
        "F.rms_norm": lambda: F.rms_norm(x, (4096,), weight, eps=1e-6),
        "F.layer_norm": lambda: F.layer_norm(x, (4096,), weight, eps=1e-6),
        "a plain copy": lambda: out.copy_(x),
    }
    for name, call in rival.items():
        timer = Timer("call()", globals={"call": call}, num_threads=threads)
        times = [1000 * t for t in timer.blocked_autorange(min_run_time=0.3).times]
        row(f"{name}, float32 (512, 4096)", times, "ms")


if __name__ == "__main__":
    main(*(max(1, int(runs)) for runs in sys.argv[1:]))
