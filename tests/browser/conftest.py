"""One server, one browser, and a page for each notebook; at the end, how fast the explorers are."""

import shutil

import chromium
import nbformat
import pytest
from course import NOTEBOOKS
from speed import MEASURED, Speed

BROKEN = """
from course_utils.explore import explore, slider
from course_utils.plots import DescribedFigure

figure = DescribedFigure(figsize=(4, 2), alt="A dot on a line.")
ax = figure.subplots()
ax.set(xlim=(0, 4))
dot, = ax.plot([0], [0], "o", animated=True)

def update(place):
    if place == 2:
        raise ValueError("there is no dot at 2")
    dot.set_xdata([place])
    return f"The dot is at {place}."

explore(figure, update, place=slider("place", 1, (0, 4), 1))
"""

# All that a notebook of the course must not do.
NOISY = """
import sys
from IPython.display import HTML, Javascript, display

print("a warning", file=sys.stderr)
display(Javascript("console.error('a fault in the page')"))
display(HTML('<img src="http://elsewhere.invalid/picture.png" alt="">'))
raise ValueError("a fault in the cell")
"""

# What most courses have: the same two pictures of Swish, drawn anew for each move.
PLAIN = """
%matplotlib inline
%config InlineBackend.figure_format = "retina"
import ipywidgets as widgets
import matplotlib.pyplot as plt
import torch
from IPython.display import display
from course_utils.layers import swish
from course_utils.measure import slope

x = torch.linspace(-4, 4, 401, dtype=torch.float64)

def draw(beta):
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
    left.plot(x, swish(x, beta))
    right.plot(x, slope(lambda x: swish(x, beta), x))
    plt.show()

beta = widgets.FloatSlider(1.0, min=0, max=10, step=0.1, description="beta")
display(beta, widgets.interactive_output(draw, {"beta": beta}))
"""


@pytest.fixture(scope="session")
def open_notebook(chrome, tmp_path_factory):
    """Open a notebook of the course, or one of the three above, in a copy of the folder."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "notebooks").mkdir()
    for path in NOTEBOOKS:
        shutil.copy(path, folder / "notebooks")
    for name, source in (("broken", BROKEN), ("noisy", NOISY), ("plain", PLAIN)):
        notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
        notebook.cells = [nbformat.v4.new_code_cell(source.strip())]
        nbformat.write(notebook, folder / "notebooks" / f"{name}.ipynb")
    with chromium.server(chromium.front_end(), folder) as served:
        yield lambda name: chromium.OpenNotebook(chrome, served, f"notebooks/{name}.ipynb")


def pytest_terminal_summary(terminalreporter):
    handed_on = [dict(report.user_properties) for report in terminalreporter.getreports("passed")]
    measured = [said[MEASURED] for said in handed_on if MEASURED in said]
    if measured:
        terminalreporter.section("from key press to changed picture, at twice the shown size")
    for number, *times in sorted(measured):
        ours, plain = Speed(*times[:5]), Speed(*times[5:])
        terminalreporter.write_line(
            f"{number} loaded {ours.loaded:3.0f} ms ({ours.low:.0f} to {ours.high:.0f}), "
            f"{ours.loaded / plain.loaded:.2f} of interactive_output; decoded "
            f"{ours.decoded:3.0f} ms; 20 presses settle in {ours.settled:3.0f} ms"
        )
