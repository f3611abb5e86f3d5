"""One explorer a notebook: a figure, an update function and one `explore(...)` call."""

import functools
from dataclasses import replace

import torch
import torch.nn.functional as F
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import SymLogNorm
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D

from .explore import choice, explore, log_slider, slider, switch
from .inside import look_inside, norm_weights, passages, trained_llama
from .layers import layer_norm, rms_norm, silu, swish
from .measure import (
    depth_run,
    expected_norm,
    norm_cost,
    packed_reading,
    plane_points,
    precision_tokens,
    projection_cost,
    relative_change,
    rms,
    roof,
    silu_up_cost,
    slope,
    without_upcast,
)
from .plots import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    DescribedFigure,
    draw_roof,
    house_style,
)
from .sizes import intermediate_size, params_by_part, published_models


@house_style
def token_explorer():
    """Notebook 00: four numbers go in, RMSNorm gives four numbers back."""
    figure = DescribedFigure(
        figsize=(8, 3.6),
        layout="constrained",
        alt="Left, the four numbers of a token as bars, with dashed lines at plus and minus their "
        "root mean square. Right, the same token after RMSNorm: its lines are at plus and minus 1.",
    )
    before, after = figure.subplots(1, 2)
    features = torch.arange(1, 5)
    bars_x = _bars(before, features, BLACK, fill=False)
    bars_y = _bars(after, features, BLUE)
    lines = [before.axhline(0, color=GREY, ls="--", animated=True) for _ in range(2)]
    for sign in (-1, 1):
        after.axhline(sign, color=GREY, ls="--")
    before.set(title="x, and ± its root mean square", xlabel="feature", ylim=(-10.5, 10.5))
    before.set_xticks(features)
    before.set_yticks((-10, -5, 0, 5, 10))
    after.set(title="RMSNorm(x), and ±1", xlabel="feature", ylim=(-2.2, 2.2), xticks=features)
    after.set_yticks((-2, -1, 0, 1, 2))

    def update(**numbers):
        x = torch.tensor(list(numbers.values()))  # (4,)
        y = rms_norm(x)
        _set_heights(bars_x, x)
        _set_heights(bars_y, y)
        for line, sign in zip(lines, (-1, 1), strict=True):
            line.set_ydata([sign * rms(x).item()] * 2)
        if not x.any():
            return "A token of zeros stays zero: a small number under the root keeps it from 0/0."
        return (
            f"x has root mean square {rms(x):.2f}. Divided by it, the token is ({_list(y)}), "
            f"with root mean square {rms(y):.2f}."
        )

    presets = {
        "One spike": (0.0, 0.0, 0.0, 7.0),
        "All alike": (5.0, 5.0, 5.0, 5.0),
        "The first, a tenth": (0.1, -0.1, 0.3, 0.5),
        "All zero": (0.0, 0.0, 0.0, 0.0),
    }
    return explore(
        figure,
        update,
        {name: dict(zip(("x1", "x2", "x3", "x4"), x, strict=True)) for name, x in presets.items()},
        x1=slider("feature 1", 1.0, (-10, 10), 0.1),
        x2=slider("feature 2", -1.0, (-10, 10), 0.1),
        x3=slider("feature 3", 3.0, (-10, 10), 0.1),
        x4=slider("feature 4", 5.0, (-10, 10), 0.1),
    )


PATTERN = torch.tensor(
    [-1.4, 0.2, 1.1, -0.5, 1.6, -0.9, 0.6, -0.7], dtype=torch.float32
)  # mean 0, RMS about 1


@house_style
def shift_scale_explorer():
    """Notebook 01: what a shift and a scale of the input do to RMSNorm and to LayerNorm."""
    figure = DescribedFigure(
        figsize=(8, 3.6),
        layout="constrained",
        alt="Left, eight features of a token as bars, with a dashed line at their mean. Right, "
        "RMSNorm's output in solid bars and LayerNorm's in hollow bars, side by side, feature by "
        "feature.",
    )
    before, after = figure.subplots(1, 2, width_ratios=(2, 3))
    features = torch.arange(1, 9)
    bars_x = _bars(before, features, BLACK, fill=False)
    mean = before.axhline(0, color=GREY, ls="--", animated=True)
    bars_rms = _bars(after, features - 0.2, BLUE, width=0.38, label="RMSNorm(x)")
    bars_layer = _bars(
        after, features + 0.2, VERMILION, fill=False, width=0.38, label="LayerNorm(x)"
    )
    before.set(title="x, and its mean", xlabel="feature", ylim=(-10.5, 10.5), xticks=features)
    after.set(title="two outputs", xlabel="feature", ylim=(-3, 4.2), xticks=features)
    after.legend(loc="upper center", ncols=2, frameon=False)

    def update(shift, scale):
        x = scale * (PATTERN + shift)  # (8,)
        y, z = rms_norm(x), layer_norm(x, eps=1e-6)
        _set_heights(bars_x, x)
        _set_heights(bars_rms, y)
        _set_heights(bars_layer, z)
        mean.set_ydata([x.mean().item()] * 2)
        return (
            f"x has mean {_signed(x.mean())} and root mean square {rms(x):.2f}. After RMSNorm they "
            f"are {_signed(y.mean())} and {rms(y):.2f}, after LayerNorm {_signed(z.mean())} and "
            f"{rms(z):.2f}."
        )

    return explore(
        figure,
        update,
        {
            "Shift 0": {"shift": 0.0, "scale": 1.0},
            "Shift 3": {"shift": 3.0, "scale": 1.0},
            "Shift 3, twice as large": {"shift": 3.0, "scale": 2.0},
            "Shift −3": {"shift": -3.0, "scale": 1.0},
        },
        shift=slider("shift", 1.0, (-3, 3), 0.1),
        scale=slider("scale", 1.0, (0.1, 2), 0.1),
    )


@house_style
def plane_explorer():
    """Notebook 02: where two features go, and how eps pulls short vectors inside."""
    root = 2**0.5
    figure = DescribedFigure(
        figsize=(8, 3.6),
        layout="constrained",
        alt="Left, sixteen points of the plane and where they go: RMSNorm moves each along its "
        "ray, onto the circle of radius √2 when eps is small and inside it when eps is large; "
        "LayerNorm moves all of them onto the dotted line x₁ + x₂ = 0. Right, the length of "
        "RMSNorm's output for each size of input: a curve that "
        "rises and levels off at √2, with a dashed line at √eps.",
    )
    plane, length = figure.subplots(1, 2)
    turn = torch.linspace(0, 2 * torch.pi, 200)
    plane.plot(root * turn.cos(), root * turn.sin(), color=GREY, lw=1.2)
    plane.plot([-3, 3], [3, -3], color=GREY, lw=1.2, ls=":")
    plane.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", ylabel="feature 2")
    plane.set(xticks=(-2, 0, 2), yticks=(-2, 0, 2), xlabel="feature 1 (dotted: x₁ + x₂ = 0)")
    (rays,) = plane.plot([], [], color=BLUE, lw=0.8, alpha=0.8, animated=True)
    style = {"ls": "", "animated": True}
    (inputs,) = plane.plot([], [], "o", mfc="white", mec=BLACK, ms=6, label="x", zorder=4, **style)
    (layers,) = plane.plot([], [], "s", color=VERMILION, ms=8, label="LayerNorm(x)", **style)
    (moved,) = plane.plot([], [], "o", color=BLUE, label="RMSNorm(x)", **style)
    plane.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1),
        ncols=3,
        frameon=False,
        columnspacing=0.6,
        handletextpad=0,
    )

    sizes = torch.logspace(-4, 1, 81).tolist()
    length.axhline(root, color=GREY, lw=1.2)
    length.text(1.2e-4, root + 0.03, "√2", fontsize=12)
    length.set(xscale="log", xlim=(1e-4, 10), ylim=(0, 1.7))
    length.set(xlabel="root mean square of x", ylabel="length of RMSNorm(x)")
    (curve,) = length.plot([], [], color=BLUE, animated=True)
    (dots,) = length.plot([], [], "o", color=BLUE, **style)
    edge = length.axvline(1, color=GREY, ls="--", lw=1.5, animated=True)
    edge_name = length.text(1, 0.02, " √eps", fontsize=11, animated=True)

    def update(eps, scale):
        x = scale * plane_points()  # (16, 2)
        y, z = rms_norm(x, eps=eps), layer_norm(x, eps=eps)
        for points, artist in ((x, inputs), (y, moved), (z, layers)):
            artist.set_data(*points.T.numpy())
        ray = torch.stack([x, y, torch.full_like(x, float("nan"))], dim=1).flatten(0, 1)
        rays.set_data(*ray.T.numpy())
        curve.set_data(sizes, [expected_norm(size**2, 2, eps) for size in sizes])
        dots.set_data(rms(x).numpy(), y.norm(dim=-1).numpy())
        edge.set_xdata([eps**0.5] * 2)
        edge_name.set_x(eps**0.5)
        lengths = y.norm(dim=-1)
        ends = [f"{v:.3f}" if v >= 0.01 else _digits(v) for v in (lengths.min(), lengths.max())]
        return (
            f"eps is {_digits(eps)}, its root {_digits(eps**0.5)}. The inputs have root mean "
            f"square {_digits(rms(x).min())} and {_digits(rms(x).max())}, RMSNorm's outputs "
            f"length {' to '.join(dict.fromkeys(ends))}."
        )

    return explore(
        figure,
        update,
        {
            "Short vectors": {"eps": 1e-5, "scale": 1e-3},
            "Short vectors, Llama 1's eps": {"eps": 1e-6, "scale": 1e-3},
            "A large eps": {"eps": 10**-0.5, "scale": 1.0},
        },
        eps=log_slider("eps", 1e-5, (1e-7, 1), 0.25),
        scale=log_slider("scale of x", 1.0, (1e-3, 1), 0.1),
    )


# --- 03


@house_style
def precision_explorer():
    """Notebook 03: what 16 bits cost RMSNorm, with the upcast and without, by size of input."""
    figure = DescribedFigure(
        figsize=(8, 3.6),
        layout="constrained",
        alt="Left, eight features of a token after RMSNorm, with the upcast as solid bars and "
        "without it as hollow bars beside them; in float16 the hollow bars are zero once the "
        "largest feature is 256 or more. Right, the relative error against the largest feature, "
        "both axes in powers of ten: a flat line with the upcast, and without it a line that in "
        "float16 jumps to 1 at 256.",
    )
    outputs, error = figure.subplots(1, 2, width_ratios=(2, 3))
    features = torch.arange(1, 9)
    bars_up = _bars(outputs, features - 0.2, BLUE, width=0.38, label="upcast")
    bars_bare = _bars(outputs, features + 0.2, PURPLE, fill=False, width=0.38, label="no upcast")
    outputs.set(title="output, 8 features", xlabel="feature", ylim=(-3, 3), xticks=features)
    outputs.legend(loc="upper center", ncols=2, frameon=False, columnspacing=1)
    error.set(xscale="log", xlim=(5e-5, 2e4), xlabel="largest |x| of the token")
    error.set(yscale="log", ylim=(5e-5, 4), title="relative error")
    moving = {"animated": True}
    (line_bare,) = error.plot([], [], color=PURPLE, ls="--", label="no upcast", **moving)
    (line_up,) = error.plot([], [], color=BLUE, label="upcast", **moving)
    (dot_bare,) = error.plot([], [], "s", mfc="white", mec=PURPLE, mew=2, ms=9, **moving)
    (dot_up,) = error.plot([], [], "o", color=BLUE, ms=9, **moving)
    error.legend(loc="upper left", frameon=False)
    edge = error.axvline(256, color=GREY, ls=":", lw=1.5, **moving)
    edge_name = error.text(256, 7e-5, " 256", fontsize=11, **moving)

    def errors(x):
        exact = rms_norm(x.double())
        return relative_change(without_upcast(x), exact), relative_change(rms_norm(x), exact)

    sizes = [10 ** (k / 10) for k in range(-40, 41)]
    curves = {
        name: torch.tensor([errors(precision_tokens(s, getattr(torch, name))) for s in sizes])
        for name in ("float16", "bfloat16")
    }  # name -> (sizes, 2)

    def update(dtype, largest):
        x = precision_tokens(largest, getattr(torch, dtype))
        _set_heights(bars_up, rms_norm(x)[0, :8])
        _set_heights(bars_bare, without_upcast(x)[0, :8])
        here = errors(x)
        for i, (line, dot) in enumerate(((line_bare, dot_bare), (line_up, dot_up))):
            line.set_data(sizes, curves[dtype][:, i].numpy())
            dot.set_data([largest], [here[i]])
        for artist in (edge, edge_name):
            artist.set_visible(dtype == "float16")
        square = x.abs().max().square().item()
        return (
            f"{dtype}: the largest |x| of each token is {_digits(largest)}, its square "
            f"{_digits(square)}. Relative error without the upcast {here[0]:.1g}, with it "
            f"{here[1]:.1g}."
        )

    return explore(
        figure,
        update,
        {
            "float16, just below 256": {"dtype": "float16", "largest": 10**2.4},
            "float16, tiny": {"dtype": "float16", "largest": 1e-3},
            "bfloat16, the same size": {"dtype": "bfloat16", "largest": 10**2.5},
        },
        dtype=switch("dtype", "float16", ("float16", "bfloat16")),
        largest=log_slider("largest |x|", 10**2.5, (1e-4, 1e4), 0.1),
    )


# --- 04


@house_style
def swish_explorer():
    """Notebook 04: Swish and its slope for every β, before ReLU and GELU."""
    figure = DescribedFigure(
        figsize=(8, 3.8),
        layout="constrained",
        alt="Left, Swish as a solid line with a circle at its lowest point, before the broken "
        "lines of ReLU and GELU. Right, the slopes of the three: where Swish is lowest, its slope "
        "crosses zero, again a circle.",
    )
    x = torch.linspace(-4, 4, 401, dtype=torch.float64)
    panels = figure.subplots(1, 2)
    ghosts = (("ReLU", F.relu, GREY, "--"), ("GELU", F.gelu, PURPLE, "-."))
    curves = []
    for ax, transform in zip(panels, (lambda f: f(x), lambda f: slope(f, x)), strict=True):
        ax.axhline(0, color=BLACK, lw=0.8)
        for name, function, colour, dashes in ghosts:
            ax.plot(x, transform(function), color=colour, ls=dashes, lw=1.8, label=name)
        curves += ax.plot(x, x, color=GREEN, label="Swish", animated=True)
    circle = {"mfc": "white", "mec": BLACK, "ms": 8, "animated": True}
    lowest, level = (ax.plot([], [], "o", **circle)[0] for ax in panels)
    panels[0].set(title="curve", xlabel="x", ylim=(-1, 3))
    panels[1].set(title="slope", xlabel="x", ylim=(-0.3, 1.3))
    panels[0].legend(loc="upper left", frameon=False)

    def update(beta):
        y = swish(x, beta)
        curves[0].set_ydata(y.numpy())
        curves[1].set_ydata(slope(lambda x: swish(x, beta), x).numpy())
        left = torch.linspace(-4, 0, 4001, dtype=torch.float64)  # thousandths
        below = swish(left, beta)
        at = below.argmin()
        if at > 0:
            lowest.set_data([left[at].item()], [below[at].item()])
            level.set_data([left[at].item()], [0])
            found = f"the lowest point is {below[at]:.3f} at x = {left[at]:.2f}".replace("-", "−")
        else:  # for a small β the curve still falls at the left edge
            lowest.set_data([], [])
            level.set_data([], [])
            found = "no lowest point in this picture"
        relu, gelu = ((y - values).abs().max() for values in (F.relu(x), F.gelu(x)))
        return (
            f"β = {beta:.1f}: {found}. Up to |x| = 4, Swish is at most {relu:.3f} from ReLU, "
            f"{gelu:.3f} from GELU."
        )

    return explore(
        figure,
        update,
        {
            "β = 0": {"beta": 0.0},
            "A wide dip": {"beta": 0.5},
            "Close to GELU": {"beta": 1.7},
            "Nearly ReLU": {"beta": 10.0},
        },
        beta=slider("β", 1.0, (0, 10), 0.1),
    )


# --- 05


@house_style
def unit_explorer():
    """Notebook 05: one hidden unit, silu(gate) · up, as a surface and as two cuts through it."""
    figure = DescribedFigure(
        figsize=(8, 3.8),
        layout="constrained",
        alt="Left, a map of silu(gate) · up with a point on it. Only where the gate is positive "
        "does the map rise, for up positive, or fall, for up negative; where the gate is negative "
        "it is nearly flat. Right, two cuts through the point: a straight line when up moves, a "
        "bent curve when the gate moves.",
    )
    surface, cut = figure.subplots(1, 2)
    ends = torch.linspace(-4, 4, 81)
    gated = silu(ends)
    levels = [-16, -12, -8, -4, -2, -1, -0.5, 0, 0.5, 1, 2, 4, 8, 12, 16]
    height = gated * ends.unsqueeze(-1)  # (up, gate)
    colours = {"cmap": "PRGn", "norm": SymLogNorm(1, vmin=-60, vmax=60)}  # pale
    surface.contourf(ends, ends, height, levels, **colours)
    surface.axhline(0, color=BLACK, lw=0.8)
    surface.axvline(0, color=BLACK, lw=0.8)
    box = {"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none", "alpha": 0.85}
    for (g, u), name in UNIT_CORNERS.items():
        side = "left" if g > 0 else "right"  # by the axis, where no cut runs in a corner
        surface.text(0.3 * g, 3.5 * u, name, ha=side, va="center", fontsize=10, bbox=box)
    surface.set(title="silu(gate) · up", xlabel="gate", ylabel="up")
    surface.set(xticks=(-4, -2, 0, 2, 4), yticks=(-4, -2, 0, 2, 4))
    style = {"ls": "", "mfc": "white", "mec": BLACK, "mew": 2, "animated": True, "zorder": 5}
    style |= {"clip_on": False, "in_layout": False}  # whole at the ends
    (across,) = surface.plot([], [], color=BLUE, lw=1.6, animated=True)
    (along,) = surface.plot([], [], color=VERMILION, ls="--", lw=1.6, animated=True)
    (point,) = surface.plot([], [], "o", ms=11, **style)

    cut.axhline(0, color=BLACK, lw=0.8)
    cut.set(xlabel="gate, or up", ylabel="silu(gate) · up", xlim=(-4, 4), ylim=(-17, 17))
    (gate_moves,) = cut.plot([], [], color=BLUE, animated=True, label="the gate moves")
    (up_moves,) = cut.plot([], [], color=VERMILION, ls="--", animated=True, label="up moves")
    (points,) = cut.plot([], [], "o", ms=9, **style)
    cut.legend(loc="upper left", frameon=False)

    def update(gate, up):
        share = silu(torch.tensor(gate, dtype=torch.float64)).item()
        point.set_data([gate], [up])
        across.set_data([-4, 4], [up, up])
        along.set_data([gate, gate], [-4, 4])
        gate_moves.set_data(ends.numpy(), (gated * up).numpy())
        up_moves.set_data([-4, 4], [-4 * share, 4 * share])
        points.set_data([gate, up], [share * up] * 2)
        return (
            f"Gate {_signed(gate)}, up {_signed(up)}: silu(gate) is {_signed(share)}, times up "
            f"{_signed(share * up)}. {_unit_in_words(share, up)}"
        )

    corners = {
        name.capitalize(): {"gate": 3.0 * g, "up": 3.0 * u} for (g, u), name in UNIT_CORNERS.items()
    }
    return explore(
        figure,
        update,
        corners,
        gate=slider("gate", 2.0, (-4, 4), 0.1),
        up=slider("up", 3.0, (-4, 4), 0.1),
    )


# signs of gate and up -> what the unit does there
UNIT_CORNERS = {
    (1, 1): "open +",
    (1, -1): "open −",
    (-1, 1): "leaks −",
    (-1, -1): "leaks +",
}


def _unit_in_words(share, up):
    if share == 0 or up == 0:
        return "One factor is zero: nothing passes."
    if share > 0:
        return f"The gate is {'open' if share > 0.3 else 'barely open'}, and up gives the sign."
    return "The gate is nearly shut; what leaks through has the other sign than up."


# --- 06


MULTIPLES = (64, 128, 256, 512, 1024, 2048, 4096)


@house_style
def sizes_explorer():
    """Notebook 06: a published model with the width that the rule gives it, and with its own."""
    models = {}
    for name, model in sorted(published_models().items(), key=lambda m: m[1].hidden_size):
        if model.vocab_size and model.tie_word_embeddings is not None and model.hidden_size > 512:
            models[name] = model.config
    figure = DescribedFigure(
        figsize=(8, 3.8),
        layout="constrained",
        alt="Left, four solid bars: the model's parameters in attention, FFN, embeddings and norms "
        "with the rule's width; hollow bars beside them: with the published width. Right, the "
        "FFN's parameters over 8D², against D: a saw that comes down to the multiplier as D grows; "
        "a dot marks the model, a hollow square its published width, a line 8D² itself.",
    )
    left, right = figure.subplots(1, 2, width_ratios=(5, 4))
    places = torch.arange(4)
    ours = _bars(left, places - 0.2, GREEN, width=0.38, label="by the rule")
    theirs = _bars(left, places + 0.2, BLACK, fill=False, width=0.38, label="published")
    left.set(title="share of the parameters, %", ylim=(0, 100), xlim=(-0.6, 3.6), xlabel="part")
    left.set_xticks(places, ("attention", "FFN", "embeddings", "norms"))
    left.legend(loc="upper right", frameon=False)
    hidden_sizes = list(range(512, 8193, 32))
    right.axhline(1, color=GREY, ls="--")
    (saw,) = right.plot([], [], color=GREEN, lw=1.2, animated=True)
    (square,) = right.plot([], [], "s", mfc="white", mec=BLACK, ms=10, animated=True)
    (dot,) = right.plot([], [], "o", color=GREEN, animated=True)
    right.set(title="FFN parameters / 8D²", xlabel="hidden_size D", xlim=(0, 8400))
    right.set(yscale="log", ylim=(0.8, 6.5), xticks=(0, 2048, 4096, 8192))
    right.set_yticks((1, 2, 3, 6), ("1", "2", "3", "6"))
    right.minorticks_off()

    def update(model, multiplier, multiple_of):
        config, times = models[model], None if multiplier == 1 else multiplier
        D, width = config.hidden_size, config.intermediate_size
        ruled = replace(config, intermediate_size=intermediate_size(D, multiple_of, times))
        for bars, c in ((ours, ruled), (theirs, config)):
            _set_heights(bars, _percent(params_by_part(c)))
        widths = [intermediate_size(d, multiple_of, times) for d in hidden_sizes]
        pairs = zip(widths, hidden_sizes, strict=True)
        saw.set_data(hidden_sizes, [3 * width / (8 * d) for width, d in pairs])
        dot.set_data([D], [3 * ruled.intermediate_size / (8 * D)])
        square.set_data([D], [3 * width / (8 * D)])
        parts = params_by_part(ruled)
        ruled_width, ratio = ruled.intermediate_size, 3 * ruled.intermediate_size / (8 * D)
        cut = 8 * D // 3
        step = f", times {times:.1f} is {int(times * cut)}" if times else ""
        ends = "as published" if ruled == config else f"where {width} is published"
        has = "has" if ruled == config else "would have"
        return (
            f"{model}, D = {D}: 8D/3 is cut to {cut}{step}, and up to a multiple of {multiple_of}: "
            f"{ruled_width}, {ends}. The model {has} {sum(parts) / 1e9:.2f} billion parameters, "
            f"{_percent(parts)[1]:.0f} % of them in FFNs of {ratio:.2f} times 8D²."
        )

    return explore(
        figure,
        update,
        {
            "Llama-2-7B": {"model": "Llama-2-7B"},
            "Llama-3-8B": {"multiplier": 1.3, "multiple_of": 1024},
            "Llama-2-70B": {"model": "Llama-2-70B", "multiplier": 1.3, "multiple_of": 4096},
            "Gemma-2B": {"model": "Gemma-2B"},
        },
        # Without readout: the words begin with the name, and some are too long for it.
        model=choice("model", "Llama-3-8B", tuple(models), readout=False),
        multiplier=slider("multiplier", 1.0, (1, 3), 0.1),
        multiple_of=choice("multiple_of", 256, MULTIPLES),
    )


def _percent(parts):
    return torch.tensor([100 * part / sum(parts) for part in parts])


# --- 07

STORED = ("[gate; up]", "[up; gate]", "gate, up in turn")
CUTS = ("contiguous blocks", "a part of each half")


@house_style
def packed_rows_explorer():
    """Notebook 07: which rows of a packed weight each rank gets, and what it takes them for."""
    figure = DescribedFigure(
        figsize=(8, 3.6),
        layout="constrained",
        alt="Left, the eight rows of a packed weight, g for gate and u for up, each with the rank "
        "that gets it. Right, what is taken for gate and for up beside each of down_proj's four "
        "columns; a cell with a cross and a thick border holds the wrong row.",
    )
    stored, read = figure.subplots(1, 2, width_ratios=(2, 3))
    stored.set(title="rows as stored", xlim=(-0.6, 2), ylim=(7.6, -0.6), xticks=[], yticks=range(8))
    stored.set(xlabel="and the rank that gets each", ylabel="row of the weight")
    read.set(
        title="rows as read, for each column of down_proj",
        xlim=(-2.1, 1.6),
        ylim=(3.6, -0.6),
        xticks=(0, 1),
        yticks=[],
    )
    read.set_xticklabels(("as gate", "as up"))
    read.set(xlabel="what the code takes the row for")
    rows = _Cells(stored, [(0, row) for row in range(8)])
    owners = _Labels(stored, [(1.1, row) for row in range(8)])
    cells = _Cells(read, [(place % 2, place // 2) for place in range(8)])
    columns = _Labels(read, [(-1.3, unit) for unit in range(4)])
    wanted = [f"{kind}{unit}" for unit in range(4) for kind in "gu"]

    def update(layout, cut, ranks):
        reading = packed_reading(STORED.index(layout), CUTS.index(cut), ranks)
        rows.fill(reading.stored, reading.stored)
        owners.write([f"rank {rank}" for rank in reading.owner])
        cells.fill(reading.read, wanted)
        columns.write([f"rank {unit * ranks // 4}, column {unit}" for unit in range(4)])
        wrong = sum(a != b for a, b in zip(reading.read, wanted, strict=True))
        where = f"cut into {cut} for {ranks} ranks" if ranks > 1 else "whole on 1 rank"
        said = f"Stored as {layout}, {where}; each rank reads [gate; up]. "
        if not wrong:
            return said + "Every row is read as what it is, and the output is right."
        return said + (
            f"{wrong} of 8 rows are taken for something else. The output of this layer, the "
            f"ranks added up, is wrong by {100 * reading.error:.0f} %."
        )

    return explore(
        figure,
        update,
        {
            "Right": {"cut": CUTS[1]},
            "Swapped": {"layout": STORED[1], "ranks": 1},
            "In turn": {"layout": STORED[2], "ranks": 1},
            "Right by luck": {"layout": STORED[2], "ranks": 4},
        },
        layout=switch("stored as", STORED[0], STORED),
        cut=switch("cut into", CUTS[0], CUTS),
        ranks=switch("ranks", 2, (1, 2, 4)),
    )


@functools.cache
def label_path(text):
    """A line of text as a path around its middle: many of them draw faster than texts do."""
    path = TextPath((0, 0), text, size=12)
    return path.transformed(Affine2D().translate(*-path.get_extents().get_points().mean(axis=0)))


class _Labels:
    """Lines of text at places of an axes, drawn as one artist."""

    def __init__(self, ax, places):
        points = Affine2D().scale(1 / 72) + ax.figure.dpi_scale_trans
        self.paths = PathCollection(
            [], offsets=places, offset_transform=ax.transData, color=BLACK, lw=0, animated=True
        )
        self.paths.set(transform=points, zorder=3)
        ax.add_collection(self.paths, autolim=False)

    def write(self, texts):
        self.paths.set_paths([label_path(text) for text in texts])


class _Cells:
    """Coloured boxes with a row's name; a wrong row has a cross and a thick border."""

    def __init__(self, ax, places):
        corners = [(-0.42, -0.4), (0.42, -0.4), (0.42, 0.4), (-0.42, 0.4)]
        boxes = [[(x + dx, y + dy) for dx, dy in corners] for x, y in places]
        self.boxes = PolyCollection(boxes, edgecolors=BLACK, animated=True)
        ax.add_collection(self.boxes, autolim=False)
        self.labels = _Labels(ax, places)

    def fill(self, names, wanted):
        pairs = list(zip(names, wanted, strict=True))
        self.boxes.set_facecolors([SKY if name[0] == "g" else ORANGE for name in names])
        self.boxes.set_linewidths([0.5 if name == want else 4 for name, want in pairs])
        self.labels.write([name if name == want else f"{name} ✗" for name, want in pairs])


# --- 08


@house_style
def depth_explorer():
    """Notebook 08: the stream and the gradient by block, for three places of the norm."""
    figure = DescribedFigure(
        figsize=(8, 3.6),
        layout="constrained",
        alt="Two drawings over the number of the block, both on log axes. Left, the RMS of the "
        "stream: it rises slowly with pre-norm, stays at 1 with post-norm, and leaves the picture "
        "after three blocks without a norm. Right, the gradient of each block: it falls from the "
        "first block to the last, more steeply with post-norm. Pre-norm is dashed, to compare.",
    )
    stream, gradient = figure.subplots(1, 2)
    depths = tuple(range(4, 49, 4))
    places = {"pre-norm": "pre", "post-norm": "post", "no norm": "none"}
    colours = {"pre-norm": BLUE, "post-norm": VERMILION, "no norm": BLACK}
    runs = {  # eight blocks without a norm are far out of the picture
        name: depth_run(place, depths[:2] if place == "none" else depths)
        for name, place in places.items()
    }
    for ax, limits in ((stream, (0.5, 1e3)), (gradient, (1e1, 1e9))):
        ax.set(xlim=(-1, 49), ylim=limits, yscale="log", xlabel="block", xticks=range(0, 49, 12))
    stream.set(title="RMS of the stream after a block")
    gradient.set(title="gradient of a block")
    pairs = []  # the ghost and the curve of each axes
    for ax in (stream, gradient):
        ghost = ax.plot([], [], color=GREY, ls="--", lw=1.5, label="pre-norm", animated=True)
        pairs.append(ghost + ax.plot([], [], "o-", ms=4, lw=1.8, animated=True))
    stream.legend(handles=[pairs[0][0]], loc="upper right", frameon=False)

    far = gradient.text(
        24, 3e8, "no norm: out of the picture ↑", ha="center", fontsize=12, animated=True
    )

    def update(norm, depth):
        far.set_visible(norm == "no norm" and depth > 4)
        for name, at in (("pre-norm", 0), (norm, 1)):
            g = runs[name].gradient[min(depth, max(runs[name].gradient))]  # (blocks,)
            s = runs[name].stream[: len(g) + 1]
            pairs[0][at].set_data(range(len(s)), s.numpy())
            pairs[1][at].set_data(range(1, len(s)), g.numpy())
        for ghost, curve in pairs:
            ghost.set_visible(norm != "pre-norm")
            curve.set_color(colours[norm])
        said = f"{norm.capitalize()}, {depth} blocks: the RMS of the stream "
        if norm == "no norm" and depth > 4:
            return said + (
                f"is {_size(s[3])} after block 3, {_size(s[4])} after block 4, and so on; the "
                "gradients are out of the picture too."
            )
        first, last = _size(s[0]), _size(s[-1])
        path = f"stays at {first}" if first == last else f"goes from {first} to {last}"
        return said + (
            f"{path}. The gradient is {_size(g[0])} in block 1 and {_size(g[-1])} in block {depth}."
        )

    return explore(
        figure,
        update,
        {
            "Pre-norm, 48 blocks": {"norm": "pre-norm", "depth": 48},
            "Post-norm, 4 blocks": {"norm": "post-norm", "depth": 4},
            "Post-norm, 48 blocks": {"norm": "post-norm", "depth": 48},
            "No norm, 4 blocks": {"norm": "no norm", "depth": 4},
        },
        norm=switch("norm", "post-norm", tuple(places)),
        depth=slider("blocks", 24, (4, 48), 4),
    )


def _size(value):
    """Three digits below a million, and 5e6 or 2e29 above."""
    value = float(value)
    if value < 1e6:
        return f"{value:.1f}" if value < 100 else f"{value:,.0f}"
    return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


# --- 09


@house_style
def roofline_explorer(bandwidth=10e9, peak=100e9):
    """Notebook 09: where the parts of the FFN stand under the roof, and what time they take there.

    bandwidth: bytes per second. peak: operations per second. The defaults are round numbers for
    a small CPU, so that they can be followed by hand; pass your own.
    """
    if not min(bandwidth, peak) > 0:
        raise ValueError(f"bandwidth and peak must be above zero, got {bandwidth} and {peak}")
    figure = DescribedFigure(
        figsize=(8, 3.8),
        layout="constrained",
        alt="Left, the roof over operations per byte, with its ridge as a dotted line, and three "
        "markers on it: RMSNorm and SiLU·up at the left end, the projections wherever tokens and "
        "hidden size put them. Right, the share of the time on the roof: three bars on a log axis.",
    )
    plane, shares = figure.subplots(1, 2, width_ratios=(3, 2))
    draw_roof(plane, bandwidth, peak)
    looks = {"RMSNorm": (BLUE, "o"), "SiLU·up": (GREEN, "^"), "3 projections": (ORANGE, "s")}
    markers = [
        plane.plot([], [], marker, color=colour, mec=BLACK, ms=11, label=name, animated=True)[0]
        for name, (colour, marker) in looks.items()
    ]
    plane.legend(loc="lower right", frameon=False)
    colours = [colour for colour, _ in looks.values()]
    bars = shares.barh(list(looks), [1.0] * 3, color=colours, ec=BLACK, lw=0.8, animated=True)
    shares.set(xscale="log", xlim=(0.001, 100), title="at the roof's speed")
    shares.set(xlabel="% of the time, log axis", xticks=(0.001, 0.1, 10))
    shares.set_xticklabels(("0.001", "0.1", "10"))

    def update(tokens, hidden):
        wide = 8 * hidden // 3
        costs = (
            norm_cost(tokens, hidden),
            silu_up_cost(tokens, wide),
            projection_cost(tokens, hidden, wide),  # gate; up and down cost the same
        )
        speeds = [roof(cost.intensity, bandwidth, peak) for cost in costs]
        times = [cost.operations / speed for cost, speed in zip(costs, speeds, strict=True)]
        times[2] *= 3
        for marker, bar, cost, speed, time in zip(markers, bars, costs, speeds, times, strict=True):
            marker.set_data([cost.intensity], [speed])
            bar.set_width(100 * time / sum(times))
        ridge, at = peak / bandwidth, costs[2].intensity
        side = "right" if at > ridge else "left"
        limit = "arithmetic" if at > ridge else "memory traffic"
        share = 100 * times[2] / sum(times)
        most = f"{share:.1f}" if share < 99.9 else "over 99.9"
        each = _counted(_digits(at), "operation")
        return (
            f"{_counted(tokens, 'token')} of {hidden} features, intermediate size {wide}: a "
            f"projection does {each} per byte, {side} of the ridge at {_digits(ridge)}, so {limit} "
            f"limits it. RMSNorm does {_digits(costs[0].intensity)}. On the roof the projections "
            f"take {most} % of the time."
        )

    powers = [2**k for k in range(14)]
    return explore(
        figure,
        update,
        {
            "Near the ridge": {"tokens": 16},
            "A prompt": {"tokens": 512},
            "Many tokens, a narrow layer": {"tokens": 4096, "hidden": 16},
        },
        tokens=choice("tokens", 1, powers),
        hidden=choice("hidden size", 4096, powers[4:13]),
    )


# --- 10


@house_style
def inside_explorer():
    """Notebook 10: one token on its way through the trained model, sublayer by sublayer."""
    model, tokens = trained_llama(), passages()[:1]
    seen, weights = look_inside(model, tokens), norm_weights(model)
    sizes = rms(seen.stream[:, 0])  # (2·L + 1, T)
    opened = silu(seen.gate[:, 0])  # (L, T, I)
    signs = {ord(" "): "␣", ord("\n"): "↵"}
    letters = [signs.get(t, chr(t)) for t in tokens[0].tolist()]
    figure = DescribedFigure(
        figsize=(9, 4.4),
        layout="constrained",
        alt="Above, the RMS of the stream at each byte of a sentence: grey lines for all depths, a "
        "blue one for the chosen layer, a ring at the chosen byte. Below, as bars, how this byte's "
        "values of silu(gate) are spread; short lines at the top are the weights of the norm.",
    )
    above, below = figure.subplots(2, 1)
    places = range(len(letters))
    above.plot(places, sizes.T, color="#c8c8c8", lw=1)
    (line,) = above.plot(places, sizes[1], color=BLUE, animated=True)
    (here,) = above.plot([0], [1], "o", color=BLUE, mfc="white", mew=2, ms=11, animated=True)
    above.set(xlabel="the bytes of the passage", ylabel="stream, RMS")
    above.set(xlim=(-1, len(letters)), ylim=(0, None))
    above.set_xticks(places, letters, family="monospace")
    low, high, bins = -0.5, 5.5, 60  # what lies beyond is counted in the last bar
    middles = torch.linspace(low, high, 2 * bins + 1)[1::2]
    bars = below.bar(middles, [0.0] * bins, 0.1, color=GREEN, ec=BLACK, lw=0.8, animated=True)
    (rug,) = below.plot([], [], "|", color=BLUE, ms=12, mew=1.2, animated=True)
    below.set(xlim=(low, high), ylim=(0, 60), ylabel="% of the gates")
    below.set_xlabel("silu(gate); on top, the norm's weights")

    def update(layer, token):
        depth = 2 * layer - 1  # the stream before this layer's FFN
        size, gates, weight = sizes[depth, token], opened[layer - 1, token], weights[depth]
        line.set_ydata(sizes[depth])
        here.set_data([token], [size])
        counts = torch.histc(gates.clamp(low, high), bins, low, high)
        for bar, count in zip(bars, counts, strict=True):
            bar.set_height(100 * count.item() / len(gates))
        rug.set_data(weight, torch.full_like(weight, 56.0))
        negative = 100 * (gates < 0).double().mean()
        read = "".join(letters[max(0, token - 9) : token]).replace("␣", " ")
        after = f'after "{read}"' if read else "the first one"
        return (
            f'Layer {layer}, byte "{letters[token]}", {after}: before the FFN the stream has RMS '
            f"{size:.1f}. The norm's weights go from {weight.min():.1f} to {weight.max():.1f}. Of "
            f"{len(gates)} gates {negative:.0f} % are negative; unit {gates.argmax()} is widest "
            f"open, at {gates.max():.1f}."
        )

    return explore(
        figure,
        update,
        {
            "A comma": {"token": letters.index(",")},
            "First layer": {"layer": 1},
            "Last layer": {"layer": len(model.layers)},
        },
        token=slider("byte", 20, (0, len(letters) - 1), 1),
        layer=slider("layer", 2, (1, len(model.layers)), 1),
    )


# --- shared


def _bars(ax, places, colour, width=0.6, fill=True, **kwargs):
    """Bars that move: outlined, so that they differ by more than colour."""
    face = colour if fill else "white"
    ax.axhline(0, color=BLACK, lw=0.8)
    return ax.bar(
        places, [0.0] * len(places), width, color=face, ec=colour, lw=1.8, animated=True, **kwargs
    )


def _set_heights(bars, heights):
    for bar, height in zip(bars, heights.tolist(), strict=True):
        bar.set_height(height)


def _list(numbers):
    return ", ".join(_signed(v) for v in numbers.tolist())


def _signed(number):
    """Two decimals, a true minus sign, and no minus before zero."""
    return f"{float(number):z.2f}".replace("-", "−")


def _counted(number, word):
    return f"{number} {word}{'' if str(number) == '1' else 's'}"


def _digits(value):
    """Two digits, whole from ten to a million, and 1e-5 rather than 1e-05."""
    if 10 <= value < 1e6:
        return f"{value:.0f}"
    return f"{value:.2g}".replace("e-0", "e-").replace("e+0", "e")
