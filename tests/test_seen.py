"""What everyone can see: text that can be read, and nothing that colour alone tells."""

import itertools

import matplotlib
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.colors import same_color, to_rgb, to_rgba
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from test_explorers import EXPLORERS

from course_utils import plots
from course_utils.inside import norm_weights, trained_llama
from course_utils.measure import Cost, Timing
from course_utils.runs import recorded

OKABE_ITO = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#F0E442", "#0072B2", "#D55E00", "#CC79A7"),
)

COST, TIMING = Cost(10, 20), Timing(1e-3, 1e-4, 5)
POINTS = {(name, 1): (COST, TIMING) for name in ("RMSNorm", "SiLU·up", "gate_proj")}
FIGURES = {
    "block": plots.llama_block_figure,
    "sphere": plots.sphere_figure,
    "swiglu": plots.swiglu_figure,
    "shazeer": lambda: plots.shazeer_figure({"ReLU": (2.0, 0.1)}, {"SwiGLU": (1.9, 0.1)}),
    "ratio": plots.ratio_figure,
    "roofline": lambda: plots.roofline_figure(1e10, 1e11, POINTS),
    "rates": lambda: plots.rates_figure(recorded()),
    "ffn losses": lambda: plots.ffn_losses_figure(recorded()),
    "norm losses": lambda: plots.norm_losses_figure(recorded()),
    "live": lambda: plots.live_figure({"a": [2, 1], "b": [3, 2]}, {"a": [2, 1, 1], "b": [3, 2, 1]}),
    "weights": lambda: plots.norm_weights_figure(norm_weights(trained_llama())),
}


@pytest.fixture(scope="module", params=[*FIGURES, *EXPLORERS])
def drawn(request):
    """A still figure, or an explorer."""
    return (FIGURES | EXPLORERS)[request.param]()


def states(drawn):
    """The name and the figure of each state: of an explorer, each preset and Reset."""
    if isinstance(drawn, Figure):
        yield "still", drawn
        return
    for name, values in drawn.presets.items():
        drawn.set(**values)
        yield name, drawn.figure


def luminance(colour):
    """Relative luminance as WCAG 2 defines it."""
    parts = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(colour)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def on(colour, alpha, ground="white"):
    """What is seen of a colour that lets its ground through."""
    return [
        alpha * c + (1 - alpha) * g for c, g in zip(to_rgb(colour), to_rgb(ground), strict=True)
    ]


def coloured(colour):
    return colour is not None and len(set(to_rgb(colour))) > 1


def lines(figure):
    """Each line or row of markers that can be seen: (line, its colours)."""
    for line in figure.findobj(Line2D):
        if not line.get_visible() or not len(line.get_xdata()):
            continue
        stroke = [line.get_color()] if line.get_linestyle() != "None" else []
        if line.get_marker() not in ("None", None, ""):
            stroke.append(line.get_markeredgecolor())
        if stroke:
            yield line, stroke


def pale_texts(figure):
    found = []
    for text in figure.findobj(Text):
        if text.get_text().strip() and text.get_visible():
            box = text.get_bbox_patch()
            ground = on(box.get_facecolor(), box.get_alpha() or 1) if box else "white"
            colour = to_rgba(text.get_color(), text.get_alpha())
            if contrast(on(colour, colour[3], ground), ground) < 4.5:
                found.append(text.get_text())
    return found


def cut_off_texts(figure):
    """Titles, axis labels, legends and notes that the edge of the picture cuts."""
    if not isinstance(figure.canvas, FigureCanvasAgg):  # an explorer has its own
        FigureCanvasAgg(figure)
    figure.canvas.draw()
    found = []
    for ax in figure.axes:
        legend = ax.get_legend()
        texts = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        for text in [*texts, *(legend.get_texts() if legend else [])]:
            if text.get_text().strip() and text.get_visible():
                box = text.get_window_extent()
                inside = figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
                if not (inside and figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1):
                    found.append(text.get_text())
    return found


def pale_lines(figure):
    """Coloured lines, and shapes of which neither the border nor the inside stands out."""
    found = [
        line
        for line, strokes in lines(figure)
        for stroke in strokes
        if coloured(stroke) and contrast(on(stroke, line.get_alpha() or 1), "white") < 3
    ]
    for points in figure.findobj(PathCollection):
        colour = points.get_facecolor()[0]
        if colour[3] == 1 and contrast(colour, "white") < 3:  # what lies behind is let through
            found.append(points)
    for shape in [patch for ax in figure.axes for patch in ax.patches]:
        colours = [shape.get_facecolor(), shape.get_edgecolor()]
        seen = [on(c, c[3]) for c in colours if shape.get_linewidth() or c is colours[0]]
        if max(contrast(c, "white") for c in seen) < 3:
            found.append(shape)
    return found


def told_by_colour_alone(figure):
    """Pairs of lines of one axes that differ in colour and in nothing else."""
    found = []
    for ax in figure.axes:
        drawn = [(line, strokes) for line, strokes in lines(figure) if line.axes is ax]
        drawn = [(line, strokes) for line, strokes in drawn if coloured(strokes[0])]
        for (one, a), (other, b) in itertools.combinations(drawn, 2):
            if not same_color(a[0], b[0]) and look(one) == look(other):
                found.append((one, other))
        for one, other in itertools.combinations(ax.containers, 2):
            colours = [getattr(c[0], "get_facecolor", lambda: None)() for c in (one, other)]
            if all(map(coloured, colours)) and not same_color(*colours):
                found.append((one, other))
    return found


def look(line):
    """All of a line's look but its colour."""
    hollow = same_color(line.get_markerfacecolor(), "white")
    return line.get_linestyle(), line.get_marker(), hollow


def strange_colours(figure):
    """Colours that are neither grey nor of Okabe and Ito, nor of the map from purple to green."""
    colours = [stroke for _, strokes in lines(figure) for stroke in strokes]
    colours += [line.get_markerfacecolor() for line, _ in lines(figure)]
    colours += [text.get_color() for text in figure.findobj(Text)]
    for ax in figure.axes:
        for shape in [*ax.patches, *ax.collections]:
            if not isinstance(shape, ContourSet) or shape.get_cmap().name != "PRGn":
                for get in (shape.get_facecolor, shape.get_edgecolor):
                    colours += matplotlib.colors.to_rgba_array(get()).tolist()
    known = [to_rgba(c) for c in OKABE_ITO]
    return [
        c for c in colours if coloured(c) and not any(same_color(to_rgb(c), k[:3]) for k in known)
    ]


@pytest.mark.parametrize(
    "faults", [pale_texts, cut_off_texts, pale_lines, told_by_colour_alone, strange_colours]
)
def test_everyone_sees_it(drawn, faults):
    found = {name: faults(figure) for name, figure in states(drawn)}
    assert not any(found.values()), found


def test_rows_of_a_packed_weight_can_be_read():
    """Their names are drawn as paths."""
    for ax in EXPLORERS["07"]().figure.axes:
        boxes, *labels = ax.collections
        for ground in ("white", *boxes.get_facecolors()):
            for label in labels:
                assert contrast(label.get_facecolor()[0], ground) >= 4.5


# --- that these tests can fail


def test_the_contrast_formula_knows_black_on_white():
    assert contrast("black", "white") == pytest.approx(21)
    assert contrast(on("black", 0), "white") == 1


@pytest.mark.parametrize(
    ("spoil", "found_by"),
    [
        (lambda ax: ax.text(0, 0, "pale", color="#888888"), pale_texts),
        (lambda ax: ax.text(0, 0, "x", bbox={"fc": "black", "alpha": 0.9}), pale_texts),
        (lambda ax: ax.text(0, 0, "x", alpha=0.3), pale_texts),
        (lambda ax: ax.set_xlabel("x" * 200), cut_off_texts),
        (lambda ax: ax.text(0, 0, "x", color="tab:red"), strange_colours),
        (lambda ax: ax.plot([0, 1], "o", mfc="#fff0f0", mec="black"), strange_colours),
        (lambda ax: ax.scatter([0], [1], color=plots.ORANGE), pale_lines),
        (lambda ax: ax.contourf([[0, 1], [2, 3]], cmap="jet"), strange_colours),
        (lambda ax: ax.plot([0, 1], color=plots.ORANGE), pale_lines),
        (lambda ax: ax.plot([0, 1], color=plots.BLUE, alpha=0.4), pale_lines),
        (lambda ax: ax.bar([0], [1], color=plots.ORANGE), pale_lines),
        (lambda ax: ax.plot([0, 1], color=plots.VERMILION), told_by_colour_alone),
        (lambda ax: ax.bar([0, 1], [1, 1], color=plots.GREEN), told_by_colour_alone),
        (lambda ax: ax.plot([0, 1], color="tab:red", ls="--"), strange_colours),
        (lambda ax: ax.bar([0], [1], color="tab:red"), strange_colours),
    ],
)
def test_a_spoilt_figure_is_found(spoil, found_by):
    ax = (figure := Figure()).subplots()
    ax.plot([0, 1], color=plots.BLUE)
    ax.bar([0, 1], [1, 1], color=plots.BLUE)
    checks = (pale_texts, cut_off_texts, pale_lines, told_by_colour_alone, strange_colours)
    assert not any(check(figure) for check in checks)
    spoil(ax)
    assert found_by(figure)
