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
    # 08
    "09": explorers.roofline_explorer,
}


@pytest.fixture(scope="module", params=EXPLORERS)
def explorer(request):
    made = EXPLORERS[request.param]()
    yield made
    made.reset()


def grid(control):
    """Every value that a slider can take."""
    steps = torch.arange(round((control.max - control.min) / control.step) + 1).tolist()
    at = [control.min + i * control.step for i in steps]
    return [control.base**a for a in at] if hasattr(control, "base") else at


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
        low, high = grid(control)[0], grid(control)[-1]
        explorer.set(
            **{name: low if abs(control.value - low) > abs(control.value - high) else high}
        )
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
            assert min(abs(value - v) for v in grid(control)) <= 1e-6 * max(1, abs(value))


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


# --- 09


def ffn_by_hand(tokens, hidden, bandwidth, peak):
    """Intensity and seconds on the roof of RMSNorm, SiLU·up and one projection."""
    wide = 8 * hidden // 3
    operations = (4 * tokens * hidden, 5 * tokens * wide, 2 * tokens * hidden * wide)
    moved = (
        8 * tokens * hidden + 4 * hidden,
        12 * tokens * wide,
        4 * (tokens * hidden + hidden * wide + tokens * wide),
    )
    seconds = [max(o / peak, b / bandwidth) for o, b in zip(operations, moved, strict=True)]
    return [o / b for o, b in zip(operations, moved, strict=True)], seconds


@pytest.mark.parametrize(("tokens", "hidden"), [(1, 4096), (512, 4096), (4096, 16), (2, 1024)])
@pytest.mark.parametrize("ceilings", [{}, {"bandwidth": 2e12, "peak": 3e14}])
def test_the_ffn_stands_on_the_roof(tokens, hidden, ceilings):
    explorer = explorers.roofline_explorer(**ceilings)
    explorer.set(tokens=tokens, hidden=hidden)
    bandwidth, peak = ceilings.get("bandwidth", 10e9), ceilings.get("peak", 100e9)
    plane, shares = explorer.figure.axes
    places = [xy(line)[0].tolist() for line in plane.get_lines() if line.get_animated()]
    intensity, seconds = ffn_by_hand(tokens, hidden, bandwidth, peak)
    assert [x for x, _ in places] == pytest.approx(intensity)
    assert [y for _, y in places] == pytest.approx([min(peak, bandwidth * i) for i in intensity])
    seconds[2] *= 3
    expected = [100 * s / sum(seconds) for s in seconds]
    assert [bar.get_width() for bar in shares.patches] == pytest.approx(expected)
    side = "arithmetic" if intensity[2] > peak / bandwidth else "memory traffic"
    assert f"so {side} limits it" in explorer.words.value


def test_what_the_notebook_says_of_the_ridge_is_so():
    """Between 16 and 32 tokens a projection crosses; 16 features never do; the norm never does."""
    explorer = explorers.roofline_explorer()
    for tokens, hidden, limit in (
        (16, 4096, "memory traffic"),
        (32, 4096, "arithmetic"),
        (8192, 16, "memory traffic"),
    ):
        explorer.set(tokens=tokens, hidden=hidden)
        assert f"so {limit} limits it" in explorer.words.value
        norm, silu_up, _ = (
            xy(line)[0] for line in explorer.figure.axes[0].get_lines() if line.get_animated()
        )
        assert max(norm[0], silu_up[0]) < 1


@pytest.mark.parametrize("ceilings", [{"bandwidth": 0}, {"peak": -1.0}])
def test_a_roof_needs_ceilings_above_zero(ceilings):
    with pytest.raises(ValueError, match="bandwidth and peak must be above zero, got"):
        explorers.roofline_explorer(**ceilings)
