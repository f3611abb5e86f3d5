"""Re-execute notebooks and store them with their outputs: python tools/refresh.py [notebook ...]

The README's picture is an explorer's stored default state, and is written with its notebook.

Stored is what a page without a kernel can show: text and pictures, no widget state and no widget
views (JupyterLab would show an error in the place of a view whose widget is gone).
"""

import base64
import sys
from pathlib import Path

import nbformat
from links import address, setup_cell
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError  # noqa: F401  what refresh raises

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
QUESTIONS = ROOT / "docs" / "question_bank.ipynb"
PICTURE = ROOT / "docs" / "explorer.jpg"
PICTURED = NOTEBOOKS / "02_sqrt_n_norm.ipynb"
VIEW = "application/vnd.jupyter.widget-view+json"

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
FOLDED = {  # by a cell's tag; JupyterLab unfolds what it runs
    "answer": {"outputs_hidden": True, "source_hidden": True},  # to a prediction or a quiz
    "ours": {"source_hidden": True},  # answers the exercise above it
    "setup": {"source_hidden": True},  # where it installs something, its output says what
}
CELL_METADATA = {"tags", "slideshow", "jupyter"}


def refresh(path):
    """Execute one notebook in its own folder and store it; if a cell fails, leave it as it is."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if "setup" in cell.metadata.get("tags", []):
            cell.source = setup_cell(address())
    client(notebook, path.parent).execute()
    clean(notebook)
    nbformat.write(notebook, path)


def client(notebook, folder):
    """What executes a notebook in its folder, keeping no times and no widgets."""
    return NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,  # printed lines may come in several pieces
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": folder}},
    )


def clean(notebook):
    """Keep only what the course uses: no widget views, no machine's own metadata."""
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat_minor = 5
    for cell in notebook.cells:
        kept = {k: v for k, v in cell.metadata.items() if k in CELL_METADATA}
        cell.metadata = nbformat.from_dict(kept)
        for tag in FOLDED.keys() & kept.get("tags", []):
            cell.metadata["jupyter"] = FOLDED[tag]
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(VIEW, None)


def picture(notebook):
    """The JPEG of the first explorer that a notebook stores."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    jpegs = [o.data["image/jpeg"] for o in outputs if "image/jpeg" in o.get("data", {})]
    return base64.b64decode(jpegs[0])


if __name__ == "__main__":
    paths = [Path(name) for name in sys.argv[1:]] or [*sorted(NOTEBOOKS.glob("*.ipynb")), QUESTIONS]
    for path in paths:
        if path.suffix != ".ipynb" or not path.is_file():
            sys.exit(f"{path} is no notebook")
    for path in paths:
        refresh(path.resolve())
        print(f"{path.name}: executed and stored")
    PICTURE.write_bytes(picture(nbformat.read(PICTURED, as_version=4)))
