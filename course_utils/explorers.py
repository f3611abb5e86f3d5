"""One explorer a notebook: a figure, an update function and one `explore(...)` call."""

import torch

from .explore import choice, explore, log_slider, slider
from .layers import layer_norm, rms_norm
from .measure import depth_run, expected_norm, plane_points, rms
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


# --- 06


# --- 07


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
        "first block to the last, more steeply with post-norm. Pre-norm is always there, dashed.",
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

    def update(norm, depth):
        depth = round(depth)
        for name, at in (("pre-norm", 0), (norm, 1)):
            g = runs[name].gradient[min(depth, max(runs[name].gradient))]  # (blocks,)
            s = runs[name].stream[: len(g) + 1]
            pairs[0][at].set_data(range(len(s)), s.numpy())
            pairs[1][at].set_data(range(1, len(s)), g.numpy())
        for _, curve in pairs:
            curve.set_color(colours[norm])
        said = f"{norm.capitalize()}, {depth} blocks: the RMS of the stream "
        if norm == "no norm" and depth > 4:
            return said + f"is {_size(s[3])} after block 3, {_size(s[4])} after block 4, and so on."
        return said + (
            f"goes from {_size(s[0])} to {_size(s[-1])}. The gradient is {_size(g[0])} in block 1 "
            f"and {_size(g[-1])} in block {depth}."
        )

    blocks = slider("blocks", 24, (4, 48), 4)
    blocks.readout_format = ".0f"
    return explore(
        figure,
        update,
        {
            "Pre-norm, 48 blocks": {"norm": "pre-norm", "depth": 48},
            "Post-norm, 4 blocks": {"norm": "post-norm", "depth": 4},
            "Post-norm, 48 blocks": {"norm": "post-norm", "depth": 48},
            "No norm, 4 blocks": {"norm": "no norm", "depth": 4},
        },
        norm=choice("norm", "post-norm", tuple(places)),
        depth=blocks,
    )


def _size(value):
    """Three digits below a million, and 5e6 or 2e29 above."""
    value = float(value)
    if value < 1e6:
        return f"{value:.1f}" if value < 100 else f"{value:,.0f}"
    return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


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
