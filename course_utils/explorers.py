"""One explorer a notebook: a figure, an update function and one `explore(...)` call."""

from math import log10

import torch

from .explore import explore, log_slider, slider
from .layers import layer_norm, rms_norm
from .measure import (
    expected_norm,
    norm_cost,
    plane_points,
    projection_cost,
    rms,
    roof,
    silu_up_cost,
)
from .plots import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    DescribedFigure,
    draw_roof,
    house_style,
)


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


# --- 06


# --- 07


# --- 08


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
        "hidden size put them. Right, three bars: the share of the time on the roof.",
    )
    plane, shares = figure.subplots(1, 2, width_ratios=(3, 2))
    draw_roof(plane, bandwidth, peak)
    looks = {"RMSNorm": (BLUE, "o"), "SiLU·up": (GREEN, "^"), "3 projections": (ORANGE, "s")}
    markers = [
        plane.plot([], [], marker, color=colour, mec=BLACK, ms=11, label=name, animated=True)[0]
        for name, (colour, marker) in looks.items()
    ]
    plane.legend(loc="lower right", frameon=False)
    bars = shares.barh(
        list(looks), [0.0] * 3, color=[colour for colour, _ in looks.values()], animated=True
    )
    shares.set(xlim=(0, 100), xlabel="% of the time", title="at the roof's speed")

    def update(tokens, hidden):
        tokens, hidden = round(tokens), round(hidden)
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
        return (
            f"{_counted(tokens, 'token')} of {hidden:,} features, intermediate size {wide:,}: a "
            f"projection does {_three(at)} operations per byte, {side} of the ridge at "
            f"{_three(ridge)}, so {limit} limits it. RMSNorm does {_digits(costs[0].intensity)}. "
            f"On the roof the projections take {100 * times[2] / sum(times):.1f} % of the time."
        )

    controls = {
        "tokens": log_slider("tokens", 1.0, (1, 8192), log10(2)),
        "hidden": log_slider("hidden size", 4096.0, (16, 4100), log10(2)),  # 16 to 4096
    }
    for control in controls.values():
        control.readout_format = ".0f"
    return explore(
        figure,
        update,
        {
            "Near the ridge": {"tokens": 16.0},
            "A prompt": {"tokens": 512.0},
            "Many tokens, a narrow layer": {"tokens": 4096.0, "hidden": 16.0},
        },
        **controls,
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


def _three(number):
    """Two digits below ten, whole numbers above."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _counted(number, word):
    return f"{number:,} {word}{'s' if number != 1 else ''}"


def _digits(value):
    """Two digits, and 1e-5 rather than 1e-05."""
    return f"{value:.2g}".replace("e-0", "e-")
