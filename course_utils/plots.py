"""Drawing only: numbers in, artists out. Every figure carries its own description."""

import functools
import io
from pathlib import Path

import matplotlib.style
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from .layers import layer_norm, rms_norm
from .measure import roof
from .notes import markdown
from .runs import FFN_VARIANTS, NORM_VARIANTS, norm_name
from .sizes import published_models
from .tiny_llama import MLPS, WARMUP

STYLE = Path(__file__).with_name("data") / "course.mplstyle"

# Okabe & Ito 2008: told apart with every common kind of colour blindness. Here RMSNorm is always
# blue and solid, LayerNorm always vermilion and square or hollow, input always black and hollow.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#757575"  # 4.6:1 on white


class DescribedFigure(Figure):
    """A matplotlib figure with `alt`: one or two sentences that say what to see in it."""

    def __init__(self, *args, alt, **kwargs):
        if not isinstance(alt, str) or not alt.strip():
            raise ValueError("a figure needs alt: a sentence that says what to see in it")
        super().__init__(*args, **kwargs)
        self.alt = alt


def house_style(draw):
    """Run a drawing function in the course's style, leaving matplotlib's settings alone."""

    @functools.wraps(draw)
    def styled(*args, **kwargs):
        with matplotlib.style.context(STYLE):
            return draw(*args, **kwargs)

    return styled


@house_style
def show(figure, alt=None):
    """Show a figure at twice its density, with its description below it in words.

    figure: a matplotlib Figure. alt: the description; a DescribedFigure brings its own.
    """
    from IPython.display import display

    if not isinstance(figure, Figure):
        raise TypeError(f"figure must be a matplotlib Figure, got {type(figure).__name__}")
    alt = alt or getattr(figure, "alt", None)
    if not alt:
        raise ValueError('say what to see in the figure: show(figure, alt="…")')
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=2 * figure.dpi)
    width, height = (round(v) for v in figure.get_size_inches() * figure.dpi)
    display(
        {"image/png": buffer.getvalue(), "text/plain": alt},
        raw=True,
        metadata={"image/png": {"width": width, "height": height}},
    )
    markdown(f"*{alt}*", alt)


@house_style
def llama_block_figure():
    """One Llama block: two residual steps, each normalised first."""
    figure = DescribedFigure(
        figsize=(9, 3.4),
        alt="One Llama block, left to right. Along the bottom runs x, one vector per token. Twice "
        "a branch leaves it, passes RMSNorm, then attention the first time and the SwiGLU "
        "feed-forward network the second time, and is added back.",
    )
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, 18.2), ylim=(0, 6.8))
    ax.axis("off")
    stream = 1.2
    _arrow(ax, (0.9, stream), (17.8, stream))
    ax.text(0.45, stream, "x", ha="center", va="center", fontsize=15, style="italic")
    for left, name, colour in ((1.8, "attention", GREY), (9.8, "SwiGLU\nfeed-forward", GREEN)):
        _arrow(ax, (left, stream), (left, 4.6), head=False)
        _arrow(ax, (left, 4.6), (left + 0.7, 4.6))
        _box(ax, left + 0.7, "RMSNorm", BLUE)
        _arrow(ax, (left + 3.3, 4.6), (left + 4, 4.6))
        _box(ax, left + 4, name, colour)
        _arrow(ax, (left + 6.6, 4.6), (left + 7, 4.6), head=False)
        _arrow(ax, (left + 7, 4.6), (left + 7, stream + 0.4))
        ax.plot(left + 7, stream, "o", ms=24, mfc="white", mec=BLACK, mew=1.6)
        ax.text(left + 7, stream, "+", ha="center", va="center", fontsize=17)
    return figure


def _box(ax, left, name, colour, middle=4.6):
    shape = FancyBboxPatch(
        (left + 0.1, middle - 1), 2.4, 2, boxstyle="round,pad=0.1", fc="white", ec=colour, lw=2.5
    )
    ax.add_patch(shape)
    ax.text(left + 1.3, middle, name, ha="center", va="center", fontsize=13)


def _arrow(ax, start, end, head=True):
    style = {"arrowstyle": "-|>" if head else "-", "lw": 1.6, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", xy=end, xytext=start, arrowprops=style | {"color": BLACK})


@house_style
def sphere_figure(points=600):
    """Where RMSNorm and LayerNorm send random vectors of three features."""
    figure = DescribedFigure(
        figsize=(8, 4.4),
        alt="Two drawings of the ball of radius √3. RMSNorm's outputs are spread over the whole "
        "surface. LayerNorm's outputs all lie on one circle around it, "
        "where the three features sum to zero.",
    )
    x = torch.randn(points, 3, generator=torch.Generator().manual_seed(0))  # (points, 3)
    panels = (
        ("RMSNorm: the whole sphere", rms_norm(x, eps=0.0), BLUE, "o"),
        ("LayerNorm: one circle of it", layer_norm(x, eps=0.0), VERMILION, "s"),
    )
    for i, (title, y, colour, marker) in enumerate(panels):
        ax = figure.add_subplot(1, 2, i + 1, projection="3d", computed_zorder=False)
        ax.set_title(title, y=0.96)
        _globe(ax, 3**0.5)
        towards = y @ torch.tensor([0.82, -0.41, 0.4])  # the viewer: what lies behind is faint
        ax.scatter(*y[towards < 0].T, c=colour, marker=marker, s=9, alpha=0.3, linewidths=0)
        ax.scatter(*y[towards >= 0].T, c=colour, marker=marker, s=14, linewidths=0)
        ax.view_init(elev=24, azim=-27)
        ax.set_box_aspect((1, 1, 1), zoom=1.1)
        ax.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), zlim=(-1.5, 1.5))
        ax.axis("off")
    figure.subplots_adjust(left=0, right=1, bottom=0, top=0.95, wspace=0)
    return figure


def _globe(ax, radius):
    turn = torch.linspace(0, 2 * torch.pi, 80)
    flat = torch.zeros_like(turn)
    for height in (-1.2, -0.6, 0.0, 0.6, 1.2):
        r = (radius**2 - height**2) ** 0.5
        ax.plot(r * turn.cos(), r * turn.sin(), flat + height, color="#c8c8c8", lw=0.7)
    for angle in torch.arange(6) * torch.pi / 6:
        across, up = radius * turn.cos(), radius * turn.sin()
        ax.plot(across * angle.cos(), across * angle.sin(), up, color="#c8c8c8", lw=0.7)


# --- 05


@house_style
def swiglu_figure():
    """The gated feed-forward network, with the width of each arrow's vector."""
    figure = DescribedFigure(
        figsize=(9, 3),
        alt="The SwiGLU network, left to right. x, D numbers for each token, goes into gate_proj "
        "and up_proj, side by side. Each gives I numbers; SiLU acts on the gate's only. The two "
        "are multiplied, and down_proj brings the I numbers back to D.",
    )
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, 18), ylim=(0, 6))
    ax.axis("off")
    ax.text(0.5, 3, "x", ha="center", va="center", fontsize=15, style="italic")
    _arrow(ax, (0.9, 3), (2, 3), head=False)
    for name, height, product in (("gate_proj", 4.6, 3.45), ("up_proj", 1.4, 2.55)):
        _arrow(ax, (2, 3), (2, height), head=False)
        _arrow(ax, (2, height), (2.8, height))
        _box(ax, 2.8, name, GREEN, height)
        _arrow(ax, (5.4, height), (7 if name == "gate_proj" else 10.9, height), head=False)
        _arrow(ax, (10.9, height), (10.9, product))
    _box(ax, 7, "SiLU", PURPLE)
    _arrow(ax, (9.6, 4.6), (10.9, 4.6), head=False)
    ax.plot(10.9, 3, "o", ms=24, mfc="white", mec=BLACK, mew=1.6)
    ax.text(10.9, 3, "⊙", ha="center", va="center", fontsize=17)
    _arrow(ax, (11.3, 3), (13, 3))
    _box(ax, 13, "down_proj", GREEN, 3)
    _arrow(ax, (15.6, 3), (17.6, 3))
    for x, y, width in (
        (1.4, 3, "D"),
        (6.2, 4.6, "I"),
        (6.2, 1.4, "I"),
        (12, 3, "I"),
        (16.5, 3, "D"),
    ):
        ax.text(x, y + 0.2, width, ha="center", fontsize=12)
    return figure


@house_style
def shazeer_figure(plain, gated):
    """Log-perplexity of plain and gated networks. Each: name -> (value, spread), best last."""
    figure = DescribedFigure(
        figsize=(8, 3.8),
        layout="constrained",
        alt="One point a network, with its spread as a bar; lower log-perplexity, further left, is "
        "better. The three plain networks and GLU lie together on the right; Bilinear, ReGLU, "
        "SwiGLU and GEGLU lie clearly to their left, the last two on top of each other.",
    )
    ax = figure.subplots()
    names = [*plain, *gated]
    for kind, colour, marker, face in (
        (plain, GREY, "s", "white"),
        (gated, GREEN, "o", GREEN),
    ):
        rows = [names.index(name) for name in kind]
        values, spreads = zip(*kind.values(), strict=True)
        style = {"color": colour, "mfc": face, "ms": 8, "capsize": 4}
        label = "plain: two matrices" if kind is plain else "gated: three"
        ax.errorbar(values, rows, xerr=spreads, fmt=marker, label=label, **style)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("log-perplexity after 65,536 steps (less is better)")
    ax.grid(axis="x", color="#dddddd", lw=0.8)
    ax.legend(loc="upper left")
    return figure


# --- 06


@house_style
def ratio_figure():
    """The ratio of the two sizes in each published model, against 8/3."""
    models = list(published_models().values())
    figure = DescribedFigure(
        figsize=(8, 3.8),
        layout="constrained",
        alt="Each published model as a mark: across its hidden size, up its intermediate size "
        "divided by it. Many lie just above a line at 8/3. Models with a documented rule are "
        "solid squares, from the line up to 4; the others are hollow dots, from 2.5 to 8.",
    )
    ax = figure.subplots()
    ax.axhline(8 / 3, color=GREY, ls="--")
    ax.text(17000, 8 / 3 + 0.1, "8/3", fontsize=12)
    style = {"ls": "", "mew": 1.6}
    for label, documented, marker, face in (
        ("multiple_of documented", True, "s", GREEN),
        ("not documented", False, "o", "none"),
    ):
        chosen = [m for m in models if (m.multiple_of is not None) == documented]
        x = [m.hidden_size for m in chosen]
        y = [m.intermediate_size / m.hidden_size for m in chosen]
        ax.plot(x, y, marker, mfc=face, mec=GREEN if documented else BLACK, label=label, **style)
    for name, place in {
        "Gemma-2B": (1950, 7.85),
        "Llama-3-8B": (3750, 3.36),
        "Llama-3.2-1B": (1900, 3.86),
        "MiniCPM-2B": (2150, 2.25),
    }.items():
        ax.text(*place, name, fontsize=10, ha="right")
    ax.set(xscale="log", xlabel="hidden_size", ylabel="intermediate_size / hidden_size")
    ax.set(xlim=(50, 24000), ylim=(2, 8.5))
    ticks = (64, 256, 1024, 4096, 16384)
    ax.set_xticks(ticks, map(str, ticks), minor=False)
    ax.minorticks_off()
    ax.legend(loc="upper left", frameon=False)
    return figure


# --- 09


def draw_roof(ax, bandwidth, peak):
    """The roof over operations per byte, from a thousandth of the peak to above it, log by log."""
    intensity = (0.1, peak / bandwidth, 1e4)
    ax.plot(intensity, [roof(i, bandwidth, peak) for i in intensity], color=BLACK)
    ax.axvline(peak / bandwidth, color=GREY, ls=":", lw=1.5)
    ax.set(xscale="log", yscale="log", xlim=(0.1, 1e4), ylim=(0.02 * bandwidth, 4 * peak))
    ax.set(xlabel="operations per byte", ylabel="operations per second")


@house_style
def roofline_figure(bandwidth, peak, points):
    """Measured layers under the roof of two measured ceilings.

    bandwidth: bytes per second. peak: operations per second. points: (name, tokens) -> (Cost,
    Timing); one token is drawn hollow.
    """
    figure = DescribedFigure(
        figsize=(8, 4.2),
        layout="constrained",
        alt="Operations per second against operations per byte, under a roof that rises with the "
        "memory's bandwidth and turns level at the peak. RMSNorm, SiLU·up and gate_proj for 1 "
        "token stand far left, by the slope; only gate_proj for many tokens stands far right, by "
        "the level part.",
    )
    ax = figure.subplots()
    draw_roof(ax, bandwidth, peak)
    looks = {"RMSNorm": (BLUE, "o"), "SiLU·up": (GREEN, "^"), "gate_proj": (ORANGE, "s")}
    lowest = 0.02 * bandwidth
    for (name, tokens), (cost, timed) in points.items():
        colour, marker = looks[name]
        face = "white" if tokens == 1 else colour
        speed = cost.operations / timed.median
        lowest = min(lowest, speed / 3)
        label = f"{name}, {tokens} token{'s' if tokens > 1 else ''}"
        ax.plot(
            cost.intensity, speed, marker, mec=BLACK, mfc=face, mew=1.6, ms=10, ls="", label=label
        )
    ax.set_ylim(bottom=lowest)
    figure.legend(loc="outside right upper", frameon=False)
    return figure


# --- 10


@house_style
def rates_figure(records):
    """The search for a learning rate, by norm: with warm-up and without."""
    figure = DescribedFigure(
        figsize=(8.5, 3.6),
        layout="constrained",
        alt="Final validation loss over the highest learning rate, a line for each of five norms. "
        "Left, with warm-up: all are lowest at 4 thousandths, no norm a little below the others; "
        "at 16 those after and no norm are at the upper edge, those before have risen slowly. "
        "Right, without: those after are high already at 8, and those before rise faster from 16.",
    )
    looks = dict(zip(NORM_VARIANTS, _NORM_LOOKS, strict=True))
    worst = 3.0
    for ax, warmup, title in zip(
        figure.subplots(1, 2, sharey=True),
        (WARMUP, 0),
        ("40 steps of warm-up", "no warm-up"),
        strict=True,
    ):
        for variant, (colour, line, marker) in looks.items():
            searched = records.searched(variant, warmup=warmup)
            losses = [min(loss, worst) for loss in searched.values()]
            style = {"ls": line, "marker": marker, "mfc": "white", "mew": 1.6}
            ax.plot(list(searched), losses, color=colour, label=norm_name(variant), **style)
        ax.set(xscale="log", title=title, xlabel="highest learning rate, in thousandths")
        ticks = sorted(searched)
        ax.set_xticks(ticks, [f"{1000 * rate:g}" for rate in ticks], minor=False)
        ax.minorticks_off()
    ticks = [1.6, 2.0, 2.4, 2.8, worst]
    figure.axes[0].set_yticks(ticks, [*map(str, ticks[:-1]), "3 or more"])
    figure.axes[0].set_ylabel("final validation loss")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


# By the order of NORM_VARIANTS: RMSNorm blue, LayerNorm vermilion; post-norm dashed.
_NORM_LOOKS = (
    (BLUE, "-", "o"),
    (VERMILION, "-", "s"),
    (BLUE, "--", "^"),
    (VERMILION, "--", "D"),
    (BLACK, ":", "x"),
)


@house_style
def ffn_losses_figure(records):
    """Where each seed of each FFN ends, and the mean."""
    figure = DescribedFigure(
        figsize=(8, 3.4),
        layout="constrained",
        alt="Final validation losses of seven FFNs: each mark a seed, each bar the mean of eight. "
        "GLU is furthest right, then SiLU, ReLU and GELU; ReGLU, GEGLU and SwiGLU lie together on "
        "the left.",
    )
    looks = [(GREY, "s") if variant.ffn in MLPS else (GREEN, "o") for variant in FFN_VARIANTS]
    _losses(figure.subplots(), records, FFN_VARIANTS, looks, [v.ffn for v in FFN_VARIANTS])
    return figure


@house_style
def norm_losses_figure(records):
    """The same for the norms."""
    figure = DescribedFigure(
        figsize=(8, 2.6),
        layout="constrained",
        alt="Final validation losses of five norms: each mark a seed, each bar the mean of eight. "
        "Four lie together; no norm is clearly to their left.",
    )
    looks = [(colour, marker) for colour, _, marker in _NORM_LOOKS]
    _losses(figure.subplots(), records, NORM_VARIANTS, looks, map(norm_name, NORM_VARIANTS))
    return figure


def _losses(ax, records, variants, looks, names):
    for row, (variant, (colour, marker)) in enumerate(zip(variants, looks, strict=True)):
        ends = [run.final for run in records.compared(variant)]
        ax.plot(ends, [row] * len(ends), marker, color=colour, mfc="white", mew=1.4)
        ax.plot([sum(ends) / len(ends)], [row], "|", color=BLACK, ms=20, mew=2.4)
    ax.set_yticks(range(len(variants)), list(names))
    ax.set(ylim=(len(variants) - 0.4, -0.6), xlabel="final validation loss (less is better)")
    ax.grid(axis="x", color="#dddddd", lw=0.8)


@house_style
def live_figure(live, recorded):
    """Losses of the first steps: just trained, and as recorded. name -> one loss each ten steps."""
    figure = DescribedFigure(
        figsize=(8, 2.3),
        layout="constrained",
        alt="Training loss over the first hundred steps as recorded: the model as it is as a solid "
        "line, the one with a mistake as a dashed one. On each line three marks, the losses of the "
        "thirty steps that were just trained.",
    )
    ax = figure.subplots()
    looks = ((BLUE, "-", "o"), (VERMILION, "--", "s"))
    for name, (colour, line, marker) in zip(live, looks, strict=True):
        steps = range(10, 10 * len(recorded[name]) + 1, 10)
        ax.plot(steps, recorded[name], ls=line, color=colour, label=f"{name}, recorded")
        style = {"mfc": "white", "mew": 1.8, "ls": ""}
        ax.plot(
            steps[: len(live[name])],
            live[name],
            marker,
            color=colour,
            label=f"{name}, now",
            **style,
        )
    ax.set(xlabel="step", ylabel="training loss")
    ax.legend(frameon=False)
    return figure


@house_style
def norm_weights_figure(weights):
    """The weights of each norm in the order of the stream: one dot a feature. (norms, D)."""
    figure = DescribedFigure(
        figsize=(8, 2.8),
        layout="constrained",
        alt="The 96 weights of each of nine norms as dots, in the order of the stream, with their "
        "mean as a bar and a dashed line at one. The mean of the first is 0.8, of the last over "
        "1.2; the dots of each norm spread by a few tenths.",
    )
    ax = figure.subplots()
    for place, row in enumerate(weights):
        spread = place + torch.linspace(-0.3, 0.3, len(row))
        ax.plot(spread, row, ".", color=BLUE, ms=4)
        ax.plot([place - 0.35, place + 0.35], [row.mean()] * 2, color=BLACK)
    ax.axhline(1, color=GREY, ls="--", lw=1.5)
    names = [f"{part} {i // 2 + 1}" for i, part in enumerate(("attn", "FFN") * (len(weights) // 2))]
    ax.set_xticks(range(len(weights)), [*names, "last"])
    ax.set_ylabel("weight")
    return figure
