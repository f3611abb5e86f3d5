"""One explorer a notebook: a figure, an update function and one `explore(...)` call."""

import torch
from matplotlib.colors import SymLogNorm

from .explore import explore, log_slider, slider
from .layers import layer_norm, rms_norm, silu
from .measure import expected_norm, plane_points, rms
from .plots import BLACK, BLUE, GREY, VERMILION, DescribedFigure, house_style


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
    before.set(title="x", xlabel="feature", ylim=(-10.5, 10.5), xticks=features)
    before.set_yticks((-10, -5, 0, 5, 10))
    after.set(title="RMSNorm(x)", xlabel="feature", ylim=(-2.2, 2.2), xticks=features)
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
            f"Mean and root mean square: x {_signed(x.mean())} and {rms(x):.2f}; "
            f"RMSNorm(x) {_signed(y.mean())} and {rms(y):.2f}; "
            f"LayerNorm(x) {_signed(z.mean())} and {rms(z):.2f}."
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
    (rays,) = plane.plot([], [], color=BLUE, lw=0.8, alpha=0.6, animated=True)
    style = {"ls": "", "animated": True}
    (inputs,) = plane.plot([], [], "o", mfc="white", mec=BLACK, ms=6, label="x", **style)
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
        lengths = sorted({f"{length:.3f}" for length in y.norm(dim=-1)})
        ends = " to ".join(dict.fromkeys((lengths[0], lengths[-1])))
        return (
            f"eps is {_digits(eps)}, its root {_digits(eps**0.5)}. The inputs have root mean "
            f"square {_digits(rms(x).min())} and {_digits(rms(x).max())}, RMSNorm's outputs "
            f"length {ends}. √2 is 1.414."
        )

    return explore(
        figure,
        update,
        {
            "Short vectors": {"eps": 1e-5, "scale": 1e-3},
            "Short vectors, Llama 1's eps": {"eps": 1e-6, "scale": 1e-3},
            "A large eps": {"eps": 10**-0.5, "scale": 1.0},
        },
        eps=log_slider("eps", 1e-5, (1e-8, 10), 0.25),
        scale=log_slider("scale of x", 1.0, (1e-3, 1), 0.1),
    )


# --- 03


# --- 04


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
        side = "right" if g > 0 else "left"
        surface.text(3.85 * g, 3.6 * u, name, ha=side, va="center", fontsize=10, bbox=box)
    surface.set(title="silu(gate) · up", xlabel="gate", ylabel="up")
    surface.set(xticks=(-4, -2, 0, 2, 4), yticks=(-4, -2, 0, 2, 4))
    style = {"ls": "", "mfc": "white", "mec": BLACK, "mew": 2, "animated": True, "zorder": 5}
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
        return "The gate is open, and up gives the sign."
    return "The gate is nearly shut; what leaks through has the other sign than up."


# --- 06


# --- 07


# --- 08


# --- 09


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


def _digits(value):
    """Two digits, and 1e-5 rather than 1e-05."""
    return f"{value:.2g}".replace("e-0", "e-")
