"""Figures: what is drawn, how it is shown, and that matplotlib's settings stay as they were."""

import io
import itertools
import struct

import matplotlib
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.figure import Figure

from course_utils import plots, sizes


@pytest.mark.parametrize(
    "draw", [plots.llama_block_figure, plots.sphere_figure, plots.ratio_figure]
)
def test_a_figure_says_what_to_see_on_a_white_card_in_readable_type(draw):
    figure = draw()
    assert len(figure.alt) >= 80
    assert figure.get_facecolor() == (1, 1, 1, 1)
    texts = [t for t in figure.findobj(matplotlib.text.Text) if t.get_text() and t.get_visible()]
    assert texts and min(t.get_fontsize() for t in texts) >= 9


def test_drawing_leaves_matplotlibs_settings_alone():
    before = dict(matplotlib.rcParams)
    plots.llama_block_figure()
    plots.sphere_figure(points=10)
    assert dict(matplotlib.rcParams) == before


def test_the_block_names_its_parts_in_order():
    (ax,) = plots.llama_block_figure().axes
    parts = [
        t.get_text() for t in sorted(ax.texts, key=lambda t: t.get_position()[0]) if t.get_text()
    ]
    assert parts == ["x", "RMSNorm", "attention", "+", "RMSNorm", "SwiGLU\nfeed-forward", "+"]


def test_the_spheres_points_lie_where_the_description_says():
    rms_axes, layer_axes = plots.sphere_figure(points=200).axes
    points = []
    for ax in (rms_axes, layer_axes):
        scatters = [
            torch.tensor([*zip(*c._offsets3d, strict=True)]).float() for c in ax.collections
        ]
        points.append(torch.cat(scatters).float())
    for drawn in points:
        assert drawn.shape == (200, 3)
        torch.testing.assert_close(drawn.norm(dim=-1), torch.full((200,), 3**0.5))
    rms, layer = points
    torch.testing.assert_close(layer.sum(-1), torch.zeros(200), atol=1e-5, rtol=0)
    octants = {tuple(octant) for octant in (rms > 0).tolist()}
    assert octants == set(itertools.product([False, True], repeat=3))


# --- show


@pytest.fixture
def shown(monkeypatch):
    """What a notebook would receive: (data, metadata) of each display."""
    received = []
    shell = InteractiveShell.instance()
    publish = shell.display_pub.publish
    monkeypatch.setattr(
        shell.display_pub,
        "publish",
        lambda data, metadata=None, **_: received.append((data, metadata)),
    )
    yield received
    shell.display_pub.publish = publish
    InteractiveShell.clear_instance()


def test_show_gives_a_picture_at_twice_its_size_and_its_words(shown):
    figure = plots.DescribedFigure(figsize=(3, 2), dpi=100, alt="An empty figure.")
    plots.show(figure)
    (picture, metadata), (words, _) = shown
    assert struct.unpack(">II", picture["image/png"][16:24]) == (600, 400)
    assert metadata == {"image/png": {"width": 300, "height": 200}}
    assert picture["text/plain"] == words["text/plain"] == "An empty figure."
    assert words["text/markdown"] == "*An empty figure.*"


def test_show_takes_the_words_for_any_figure(shown):
    plots.show(Figure(figsize=(1, 1)), alt="A plain matplotlib figure.")
    assert shown[0][0]["text/plain"] == "A plain matplotlib figure."


def test_show_refuses_a_figure_without_words():
    with pytest.raises(ValueError, match=r'say what to see in the figure: show\(figure, alt="…"\)'):
        plots.show(Figure())


def test_show_refuses_what_is_not_a_figure():
    with pytest.raises(TypeError, match="figure must be a matplotlib Figure, got bytes"):
        plots.show(io.BytesIO().getvalue(), alt="Bytes.")


@pytest.mark.parametrize("alt", ["", "  ", None])
def test_a_described_figure_needs_its_description(alt):
    with pytest.raises(ValueError, match="a figure needs alt"):
        plots.DescribedFigure(alt=alt)


# --- 06


def test_each_published_model_is_one_mark_at_its_ratio():
    models = sizes.published_models().values()
    (ax,) = plots.ratio_figure().axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in ax.get_lines()}
    for label, documented in (("multiple_of documented", True), ("not documented", False)):
        wanted = [
            [m.hidden_size, m.intermediate_size / m.hidden_size]
            for m in models
            if bool(m.multiple_of) == documented
        ]
        assert lines[label] == wanted
    assert ax.get_lines()[0].get_ydata()[0] == 8 / 3


# --- 05

SHAZEER = {"ReLU": (1.997, 0.005), "Swish": (1.994, 0.003)}, {"SwiGLU": (1.944, 0.01)}


@pytest.mark.parametrize(
    "draw", [plots.swiglu_figure, lambda: plots.shazeer_figure(*SHAZEER)], ids=["net", "figures"]
)
def test_the_figures_of_05_say_what_to_see_in_readable_type(draw):
    test_a_figure_says_what_to_see_on_a_white_card_in_readable_type(draw)


def test_the_network_names_its_parts_and_widths():
    (ax,) = plots.swiglu_figure().axes
    at = {t.get_text(): t.get_position() for t in ax.texts}
    order = ["x", "gate_proj", "SiLU", "⊙", "down_proj"]
    assert sorted(order, key=lambda part: at[part][0]) == order
    assert at["SiLU"][1] == at["gate_proj"][1] > at["⊙"][1] > at["up_proj"][1]
    widths = sorted(
        (t.get_position()[0], t.get_text()) for t in ax.texts if t.get_text() in ("D", "I")
    )
    assert [width for _, width in widths] == ["D", "I", "I", "I", "D"]


def test_each_network_of_the_paper_stands_at_its_value_with_its_spread():
    figure = plots.shazeer_figure(*SHAZEER)
    figure.canvas.draw()
    (ax,) = figure.axes
    names = [t.get_text() for t in ax.get_yticklabels()]
    drawn = {}
    for points, _, (bars,) in ax.containers:
        for (value, row), bar in zip(points.get_xydata(), bars.get_segments(), strict=True):
            drawn[names[int(row)]] = value, (bar[1, 0] - bar[0, 0]) / 2
    for name, expected in (SHAZEER[0] | SHAZEER[1]).items():
        assert drawn.pop(name) == pytest.approx(expected)
    assert not drawn
