"""Open a notebook as slides in JupyterLab: python tools/lecture.py [03] [option of JupyterLab ...]

The slides are copies in the folder `lecture`, written anew each time: predictions are unanswered
again, and the speaker's notes are left out, for which jupyterlab-deck shows an empty slide.
JupyterLab gets settings for a projector, in a folder that goes with it: nobody's own ones change.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from chromium import own_folders

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "lecture"
STYLE = Path(__file__).with_suffix(".css")

# Where keys are pressed: with nothing focused, as after each move, for the cell that was is hidden;
# or in a cell, but not in its text. jupyterlab-deck's own bindings are for an older JupyterLab.
PLACES = (
    "body[data-jp-deck-mode='presenting']:not(:has(:focus))",
    ".jp-Deck .jp-Notebook.jp-mod-commandMode:not(.jp-mod-readWrite) :focus:not(:read-write)",
)
TO_FIRST = ("notebook:extend-marked-cells-top", "notebook:deselect-all")


def _several(*commands):
    return "apputils:run-all-enabled", {"commands": [*commands], "args": [{}] * len(commands)}


KEYS = {  # key -> JupyterLab's command and its arguments
    "ArrowRight": ("deck:forward", {}),
    "ArrowLeft": ("deck:back", {}),
    "ArrowDown": ("deck:down", {}),
    "ArrowUp": ("deck:up", {}),
    "PageDown": ("deck:forward", {}),  # what a presenter's remote control sends
    "PageUp": ("deck:back", {}),
    "Space": ("deck:go", {"direction": "down", "alternate": "forward"}),
    "Shift Space": ("deck:go", {"direction": "up", "alternate": "back"}),
    "Home": _several(*TO_FIRST),
    "Ctrl Shift Enter": _several("notebook:run-all-cells", *TO_FIRST),
}
SHORTCUTS = [
    {"command": command, "args": arguments, "keys": [key], "selector": place}
    for key, (command, arguments) in KEYS.items()
    for place in PLACES
]

SETTINGS = {  # JupyterLab's plugin -> what differs from its defaults
    "@deathbeds/jupyterlab-deck/plugin": {"active": True},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false"},
    "@jupyterlab/apputils-extension/themes": {  # for a projector, of 1280 pixels across
        "overrides": {"content-font-size1": "20px", "code-font-size": "16px"}
    },
    # Else the space below the last cell pushes each slide up.
    "@jupyterlab/notebook-extension/tracker": {"scrollPastEnd": False, "windowingMode": "none"},
    "@jupyterlab/statusbar-extension/plugin": {"visible": False},
    "@jupyterlab/shortcuts-extension/shortcuts": {"shortcuts": SHORTCUTS},
}

KEYS_IN_WORDS = """\
Ctrl+Shift+Enter  run all cells, and come back to the first slide: do this first
→ or a remote     the next step of the short path
Space             the next step of the whole; ↓ goes below a slide, ← and ↑ go back
Shift+Enter       run the cell, and go on;  Home  the first slide\
"""


def slides(path):
    """The notebook as it is shown: without the cells of the speaker's notes."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if slide_type(cell) != "notes"]
    return notebook


def slide_type(cell):
    return cell.metadata.get("slideshow", {}).get("slide_type")


def copies(folder=FOLDER):
    """Write the slides of all notebooks, and return their paths."""
    folder.mkdir(exist_ok=True)
    paths = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    for path in paths:
        nbformat.write(slides(path), folder / path.name)
    return [folder / path.name for path in paths]


def main(arguments):
    named = arguments and not arguments[0].startswith("-")
    number, *options = arguments if named else ["00", *arguments]
    numbers = [path.name[:2] for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))]
    if number not in numbers:
        sys.exit(f"NOTEBOOK={number}: the number of a notebook is needed: {', '.join(numbers)}")
    opened = copies()[numbers.index(number)].relative_to(ROOT).as_posix()
    print(KEYS_IN_WORDS)
    command = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1", "--LabApp.custom_css=True"]
    command += [f"--LabApp.default_url=/lab/tree/{opened}", *options]
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | own_folders(home, SETTINGS, STYLE)
        with subprocess.Popen(command, cwd=ROOT, env=environment) as lab:
            while lab.poll() is None:
                with contextlib.suppress(
                    KeyboardInterrupt
                ):  # JupyterLab hears Ctrl+C too, and asks
                    lab.wait()
    sys.exit(lab.returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
