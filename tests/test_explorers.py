"""Each explorer: its artists follow the mathematics, and every point of its grid draws."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from course_utils import explorers

EXPLORERS = {
    "00": explorers.token_explorer,
    "01": explorers.shift_scale_explorer,
    "02": explorers.plane_explorer,
    # 03
    # 04
    # 05
    # 06
    # 07
    "08": explorers.depth_explorer,
    # 09
}


@pytest.fixture(scope="module", params=EXPLORERS)
def explorer(request):
    made = EXPLORERS[request.param]()
    yield made
    made.reset()


def grid(control):
    """Every value that a slider can take, or a choice."""
    if hasattr(control, "options"):
        return list(control.options)
    steps = torch.arange(round((control.max - control.min) / control.step) + 1).tolist()
    at = [control.min + i * control.step for i in steps]
    return [control.base**a for a in at] if hasattr(control, "base") else at


def far_end(control):
    """The first or the last value, whichever is farther from where the control stands."""
    values = grid(control)
    at = min(range(len(values)), key=lambda i: distance(values[i], control.value))
    return values[0] if 2 * at > len(values) - 1 else values[-1]


def distance(a, b):
    return float(a != b) if isinstance(a, str) else abs(a - b)


def heights(axes, bars):
    """Heights of an axes' bars, one list for each group of bars."""
    return [torch.tensor([bar.get_height() for bar in group]) for group in axes.containers][bars]


def xy(line):
    return torch.tensor(line.get_xydata())


# --- all of them


def test_every_value_of_every_control_draws(explorer):
    for name, control in explorer.controls.items():
        for value in grid(control):
            explorer.set(**{name: value})
            assert "failed" not in explorer.words.value, (name, value, explorer.words.value)
        explorer.reset()


def test_every_corner_draws(explorer):
    ends = [(grid(c)[0], grid(c)[-1]) for c in explorer.controls.values()]
    for corner in itertools.product(*ends):
        explorer.set(**dict(zip(explorer.controls, corner, strict=True)))
        assert "failed" not in explorer.words.value, corner
    explorer.reset()


def test_each_control_moves_the_picture_and_the_words(explorer):
    before = bytes(explorer.picture.value), explorer.words.value
    for name, control in explorer.controls.items():
        explorer.set(**{name: far_end(control)})
        assert bytes(explorer.picture.value) != before[0], name
        assert explorer.words.value != before[1], name
        explorer.reset()


def test_each_preset_shows_something_of_its_own_and_reset_brings_the_default_back(explorer):
    default = bytes(explorer.picture.value)
    seen = {default}
    for name in list(explorer.presets)[:-1]:
        explorer.buttons[name].click()
        seen.add(bytes(explorer.picture.value))
        explorer.buttons["Reset"].click()
        assert bytes(explorer.picture.value) == default, name
    assert len(seen) == len(explorer.presets)


def test_each_preset_is_a_place_that_the_controls_can_reach(explorer):
    for values in explorer.presets.values():
        for name, value in values.items():
            control = explorer.controls[name]
            gap = min(distance(value, v) for v in grid(control))
            assert gap <= 1e-6 and (isinstance(value, str) or gap <= 1e-6 * max(1, abs(value)))


def test_axes_stand_still_and_hold_what_moves(explorer):
    limits = [(ax.get_xlim(), ax.get_ylim()) for ax in explorer.figure.axes]
    assert len(limits) <= 2
    for values in explorer.presets.values():
        explorer.set(**values)
        assert limits == [(ax.get_xlim(), ax.get_ylim()) for ax in explorer.figure.axes]
    explorer.reset()


def test_legends_and_labels_can_be_read_from_the_back_row(explorer):
    for ax in explorer.figure.axes:
        assert ax.get_xlabel() and (ax.get_title() or ax.get_ylabel())
        legend = ax.get_legend()
        for text in [
            ax.xaxis.label,
            *ax.get_xticklabels(),
            *(legend.get_texts() if legend else []),
        ]:
            assert text.get_fontsize() >= 9


# --- 00


@pytest.mark.parametrize(
    "token", [(1, -1, 3, 5), (0, 0, 0, 7), (0.1, -0.1, 0.3, 0.5), (-9, 8, 0, 1)]
)
def test_the_token_and_its_norm_are_drawn(token):
    explorer = explorers.token_explorer()
    explorer.set(**dict(zip(("x1", "x2", "x3", "x4"), token, strict=True)))
    before, after = explorer.figure.axes
    x = torch.tensor(token).float()
    torch.testing.assert_close(heights(before, 0), x)
    torch.testing.assert_close(heights(after, 0), F.rms_norm(x, (4,), eps=1e-6))
    size = (sum(v**2 for v in token) / 4) ** 0.5
    moving = [line for line in before.get_lines() if line.get_animated()]
    drawn = sorted(line.get_ydata()[0] for line in moving)
    assert drawn == pytest.approx([-size, size], rel=1e-5)
    assert f"x has root mean square {size:.2f}." in explorer.words.value


def test_a_token_of_zeros_is_explained():
    explorer = explorers.token_explorer()
    explorer.buttons["All zero"].click()
    assert "stays zero: a small number under the root" in explorer.words.value
    assert heights(explorer.figure.axes[1], 0).tolist() == [0, 0, 0, 0]


# --- 01


@pytest.mark.parametrize(("shift", "scale"), [(1, 1), (0, 1), (3, 2), (-3, 0.1)])
def test_both_norms_of_the_shifted_and_scaled_vector_are_drawn(shift, scale):
    explorer = explorers.shift_scale_explorer()
    explorer.set(shift=shift, scale=scale)
    before, after = explorer.figure.axes
    x = scale * (explorers.PATTERN + shift)
    torch.testing.assert_close(heights(before, 0), x)
    torch.testing.assert_close(heights(after, 0), F.rms_norm(x, (8,), eps=1e-6))
    torch.testing.assert_close(heights(after, 1), F.layer_norm(x, (8,), eps=1e-6))
    assert [t.get_text() for t in after.get_legend().get_texts()] == ["RMSNorm(x)", "LayerNorm(x)"]
    (mean,) = (line for line in before.get_lines() if line.get_animated())
    assert mean.get_ydata()[0] == pytest.approx(x.mean().item())


def test_what_the_notebook_says_of_the_sliders_is_so():
    """scale moves neither; shift 3 leaves RMSNorm less than half the pattern; at 0 they agree."""
    explorer = explorers.shift_scale_explorer()
    after = explorer.figure.axes[1]
    rms, layer = heights(after, 0), heights(after, 1)
    explorer.set(scale=2)
    torch.testing.assert_close(heights(after, 0), rms, atol=1e-5, rtol=0)
    torch.testing.assert_close(heights(after, 1), layer, atol=1e-5, rtol=0)
    explorer.set(shift=3)
    assert heights(after, 0).min() > 0.45 and heights(after, 0).max() < 1.55
    assert heights(after, 0).max() - heights(after, 0).min() < (layer.max() - layer.min()) / 2
    torch.testing.assert_close(heights(after, 1), layer, atol=1e-5, rtol=0)
    explorer.set(shift=0)
    torch.testing.assert_close(heights(after, 0), heights(after, 1))


# --- 02


@pytest.mark.parametrize(("eps", "scale"), [(1e-8, 1), (0.3, 1), (1e-5, 1e-3), (10, 0.5)])
def test_points_go_where_the_two_norms_send_them(eps, scale):
    explorer = explorers.plane_explorer()
    explorer.set(eps=eps, scale=scale)
    plane, length = explorer.figure.axes
    lines = {line.get_label(): line for line in plane.get_lines() if line.get_animated()}
    x = xy(lines["x"]).float()
    assert x.square().mean(-1).sqrt().max().item() == pytest.approx(2.6 / 2**0.5 * scale)
    y, z = F.rms_norm(x, (2,), eps=eps), F.layer_norm(x, (2,), eps=eps)
    torch.testing.assert_close(xy(lines["RMSNorm(x)"]).float(), y)
    torch.testing.assert_close(xy(lines["LayerNorm(x)"]).float(), z, atol=1e-4, rtol=1e-3)
    curve, dots, edge = (line for line in length.get_lines() if line.get_animated())
    torch.testing.assert_close(xy(dots)[:, 1].float(), y.norm(dim=-1))
    m = xy(curve)[:, 0] ** 2
    torch.testing.assert_close(xy(curve)[:, 1], (2 * m / (m + eps)).sqrt(), atol=1e-6, rtol=1e-5)
    assert edge.get_xdata()[0] == pytest.approx(eps**0.5)


def test_the_rays_join_each_point_with_its_image():
    explorer = explorers.plane_explorer()
    plane = explorer.figure.axes[0]
    moving = [line for line in plane.get_lines() if line.get_animated()]
    ray, points = xy(moving[0]), {line.get_label(): xy(line) for line in moving}
    torch.testing.assert_close(ray[0::3], points["x"])
    torch.testing.assert_close(ray[1::3], points["RMSNorm(x)"])
    assert ray[2::3].isnan().all()


def test_what_the_notebook_says_of_eps_is_so():
    """The inner ring leaves first; at mean square eps the length is 1, the root of n/2."""
    explorer = explorers.plane_explorer()
    explorer.set(eps=1e-2, scale=1.0)
    dots = xy([line for line in explorer.figure.axes[1].get_lines() if line.get_animated()][1])
    inner, outer = dots[dots[:, 0] < 1], dots[dots[:, 0] > 1]
    assert len(inner) == len(outer) == 8
    assert inner[:, 1].max() < outer[:, 1].min() <= 2**0.5


# --- 03


# --- 04


# --- 05


# --- 06


# --- 07


# --- 08


def by_hand(place, depth, seed=0):
    """Stream and gradients again, with torch's norm and attention and one matrix a time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x, direction = torch.randn(2, 1, 16, 64, dtype=torch.float64)
        shapes = [(64, 64)] * 4 + [(172, 64)] * 2 + [(64, 172)]
        blocks = [
            [(torch.randn(s, dtype=torch.float64) / 8).requires_grad_() for s in shapes]
            for _ in range(48)  # as many as the explorer draws
        ][:depth]
    norm = torch.nn.RMSNorm(64, eps=1e-5, dtype=torch.float64)
    angle = torch.outer(torch.arange(16.0), 1e4 ** (-torch.arange(8.0) / 8)).double()
    turn = torch.polar(torch.ones_like(angle), angle)  # (T, 8)

    def heads(x, rotate):
        x = x.view(1, 16, 4, 16).transpose(1, 2)
        if not rotate:
            return x
        z = torch.complex(x[..., :8].contiguous(), x[..., 8:].contiguous()) * turn
        return torch.cat([z.real, z.imag], dim=-1)

    def sublayers(q, k, v, o, gate, up, down):
        future = torch.ones(16, 16, dtype=torch.bool).triu(1)

        def attention(x):
            scores = heads(x @ q.T, True) @ heads(x @ k.T, True).mT / 4  # √16
            weights = scores.masked_fill(future, -torch.inf).softmax(-1)
            return (weights @ heads(x @ v.T, False)).transpose(1, 2).reshape(1, 16, 64) @ o.T

        return attention, lambda x: (F.silu(x @ gate.T) * (x @ up.T)) @ down.T

    steps = {
        "pre-norm": lambda x, f: x + f(norm(x)),
        "post-norm": lambda x, f: norm(x + f(x)),
        "no norm": lambda x, f: x + f(x),
    }
    sizes = [x.square().mean().sqrt()]
    for weights in blocks:
        for f in sublayers(*weights):
            x = steps[place](x, f)
        sizes.append(x.square().mean().sqrt())
    (((norm(x) if place == "pre-norm" else x) * direction).sum()).backward()
    lengths = [sum(w.grad.square().sum() for w in weights).sqrt() for weights in blocks]
    return torch.stack(sizes).detach(), torch.stack(lengths)


@pytest.mark.parametrize(
    ("norm", "depth"), [("pre-norm", 4), ("pre-norm", 16), ("post-norm", 12), ("no norm", 4)]
)
def test_stream_and_gradient_by_depth_are_drawn(norm, depth):
    explorer = explorers.depth_explorer()
    explorer.set(norm=norm, depth=depth)
    for place, at in (("pre-norm", 0), (norm, 1)):  # the ghost, and the curve
        sizes, lengths = by_hand(place, depth)
        stream, gradient = (xy(ax.get_lines()[at]) for ax in explorer.figure.axes)
        assert stream[:, 0].tolist() == list(range(depth + 1))
        assert gradient[:, 0].tolist() == list(range(1, depth + 1))
        torch.testing.assert_close(stream[:, 1], sizes, rtol=1e-5, atol=0)  # rope is float32
        torch.testing.assert_close(gradient[:, 1], lengths, rtol=1e-5, atol=0)


def test_what_the_notebook_says_of_depth_is_so():
    """Added blocks raise post-norm's first gradient on and on, and pre-norm's hardly."""
    explorer = explorers.depth_explorer()
    rise = {}
    for norm in ("pre-norm", "post-norm"):
        first = []
        for depth in (12, 24, 48):
            explorer.set(norm=norm, depth=depth)
            first.append(explorer.figure.axes[1].get_lines()[1].get_ydata()[0])
        rise[norm] = [after / before for before, after in itertools.pairwise(first)]
    assert max(rise["pre-norm"]) < 2 and min(rise["post-norm"]) > 3
    assert rise["post-norm"][1] > rise["post-norm"][0]


def test_without_a_norm_the_curves_leave_the_picture():
    explorer = explorers.depth_explorer()
    explorer.set(norm="no norm", depth=8)
    stream = explorer.figure.axes[0]
    assert stream.get_lines()[1].get_ydata()[4] > stream.get_ylim()[1]
    assert "after block 3" in explorer.words.value and "and so on" in explorer.words.value


# --- 09
