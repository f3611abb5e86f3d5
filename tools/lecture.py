"""Show a notebook as slides in JupyterLab: python tools/lecture.py [03] [--option ...]

The slides are copies of the notebooks, in a folder that goes when JupyterLab ends: predictions stay
unanswered, and two lectures do not disturb each other. JupyterLab gets settings for a projector, in
that folder too: nobody's own ones change.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from chromium import own_folders
from refresh import NOTEBOOKS, ROOT

STYLE = Path(__file__).with_suffix(".css")
NEEDED = ("jupyterlab", "jupyterlab_deck")

# Where a key is pressed: with nothing focused, as at the start and after a click on the arrows; in
# a cell, but not in its text; or in its text. jupyterlab-deck's own bindings, for an older
# JupyterLab, know none of them.
NOWHERE = "body[data-jp-deck-mode='presenting']:not(:has(:focus))"
IN_CELL = ".jp-Deck .jp-Notebook.jp-mod-commandMode:not(.jp-mod-readWrite) :focus:not(:read-write)"
IN_TEXT = ".jp-Deck .jp-Notebook.jp-mod-editMode"

FOCUS = "notebook:enter-command-mode"  # else a cell that is hidden takes the focus with it
TO_FIRST = ("notebook:extend-marked-cells-top", "notebook:deselect-all", FOCUS)
ABOVE = "notebook:run-all-above"  # so that names have the values of this place again

MOVES = {  # key -> JupyterLab's commands
    "ArrowRight": ("deck:forward", FOCUS),
    "ArrowLeft": ("deck:back", FOCUS),
    "ArrowDown": ("deck:down", FOCUS),
    "ArrowUp": ("deck:up", FOCUS),
    "PageDown": ("deck:forward", FOCUS),  # what a presenter's remote control sends
    "PageUp": ("deck:back", FOCUS),
    "Space": ("deck:go", FOCUS),
    "Shift Space": ("deck:go", FOCUS),
    "Home": TO_FIRST,
    "Ctrl Shift Enter": ("notebook:run-all-cells", *TO_FIRST),
}
ARGUMENTS = {  # of deck:go, which alone reads them
    "Space": {"direction": "down", "alternate": "forward"},
    "Shift Space": {"direction": "up", "alternate": "back"},
}
RUNS = {
    "Shift Enter": (ABOVE, "notebook:run-cell-and-select-next"),
    "Ctrl Enter": (ABOVE, "notebook:run-cell"),
    "Alt Enter": (ABOVE, "notebook:run-cell"),  # for JupyterLab it adds a cell
}
# What would change the cells does nothing: some remote controls send b for a black screen.
TWICE = ("D D", "I I", "0 0")  # a key pressed twice, not two keys together
CHANGES = ("A", "B", "C", "L", "M", "O", "R", "V", "X", "Y", "Z", "1", "2", "3", "4", "5", "6")
CHANGES += ("Shift M", "Shift V", "Shift Z", "Ctrl B")
HARMLESS = dict.fromkeys((*TWICE, *CHANGES), (FOCUS,))
ENTER = {"Enter": (FOCUS, "notebook:enter-edit-mode")}

SHORTCUTS = [
    {
        "command": "apputils:run-all-enabled",
        "args": {"commands": [*commands], "args": ARGUMENTS.get(key, {})},
        "keys": key.split() if key in TWICE else [key],
        "selector": place,
    }
    for place, keys in (
        (NOWHERE, MOVES | RUNS | ENTER),
        (IN_CELL, MOVES | RUNS | HARMLESS),
        (IN_TEXT, RUNS),
    )
    for key, commands in keys.items()
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
Enter             into the cell's text; Ctrl+Enter runs it, Shift+Enter goes on as well
Home              the first slide
Ctrl+C, twice     here: the end
"""


def lessons():
    """number -> path of its notebook."""
    return {path.name[:2]: path for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))}


def copies(folder):
    """Copy all notebooks: their links lead to one another."""
    for path in lessons().values():
        shutil.copy(path, folder)


def main(arguments):
    number, *options = (
        arguments if arguments[:1] and arguments[0][:1] != "-" else ["00", *arguments]
    )
    number = number.zfill(2)
    if number not in lessons() or not all(option.startswith("-") for option in options):
        sys.exit(
            f"NOTEBOOK={' '.join(arguments)}: the number of one notebook is needed: "
            f"{', '.join(lessons())}"
        )
    missing = [name for name in NEEDED if not find_spec(name)]
    if missing:
        sys.exit(f"{missing[0]} is missing: `make lecture` installs it")
    print(KEYS_IN_WORDS, flush=True)
    with tempfile.TemporaryDirectory(prefix="lecture-", ignore_cleanup_errors=True) as home:
        shown = Path(home, "slides")
        shown.mkdir()
        copies(shown)
        command = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1", "--log-level=WARN"]
        command += ["--LabApp.custom_css=True", f"--ServerApp.root_dir={shown}"]
        command += [f"--LabApp.default_url=/lab/tree/{lessons()[number].name}", *options]
        environment = os.environ | own_folders(home, SETTINGS, STYLE)
        environment["PYTHONPATH"] = str(ROOT)  # the copies lie outside the course
        with subprocess.Popen(command, env=environment) as lab:
            signal.signal(signal.SIGTERM, lambda *_: lab.terminate())
            while lab.poll() is None:
                with contextlib.suppress(KeyboardInterrupt):  # JupyterLab hears it too, and asks
                    lab.wait()
    sys.exit(lab.returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
