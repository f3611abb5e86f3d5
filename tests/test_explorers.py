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
    "05": explorers.unit_explorer,
    # 06
    # 07
    # 08
    # 09
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


@pytest.mark.parametrize(("gate", "up"), [(2, 3), (-4, 4), (3, -3), (0, 1), (-1.3, -2)])
def test_the_unit_and_the_two_cuts_through_it_are_drawn(gate, up):
    explorer = explorers.unit_explorer()
    explorer.set(gate=gate, up=up)
    surface, cut = explorer.figure.axes
    across, along, point = (xy(line) for line in surface.get_lines() if line.get_animated())
    assert point.tolist() == [[gate, up]]
    assert across.tolist() == [[-4, up], [4, up]] and along.tolist() == [[gate, -4], [gate, 4]]
    gate_moves, up_moves, points = (xy(line) for line in cut.get_lines() if line.get_animated())
    torch.testing.assert_close(gate_moves[:, 1], F.silu(gate_moves[:, 0]) * up, atol=1e-5, rtol=0)
    share = F.silu(torch.tensor(gate).double())
    torch.testing.assert_close(up_moves[:, 1], share * up_moves[:, 0])
    torch.testing.assert_close(
        points, torch.tensor([[gate, share * up], [up, share * up]]).double()
    )
    product = f"{share * up:z.2f}".replace("-", "−")
    assert f"times up {product}." in explorer.words.value


@pytest.mark.parametrize("corner", explorers.UNIT_CORNERS)
def test_each_corner_of_the_surface_is_what_its_name_says(corner):
    explorer = explorers.unit_explorer()
    name = explorers.UNIT_CORNERS[corner]
    explorer.buttons[name.capitalize()].click()
    values = {k: control.value for k, control in explorer.controls.items()}
    assert (values["gate"], values["up"]) == (3 * corner[0], 3 * corner[1])
    product = F.silu(torch.tensor(values["gate"])).item() * values["up"]
    assert name.endswith("+" if product > 0 else "−")
    assert name.startswith("open" if abs(product) > 8 else "leaks")
    said = "The gate is open" if corner[0] > 0 else "The gate is nearly shut"
    assert said in explorer.words.value
    texts = {t.get_text(): t.get_position() for t in explorer.figure.axes[0].texts}
    assert [sign * at > 0 for sign, at in zip(corner, texts[name], strict=True)] == [True, True]


@pytest.mark.parametrize("zero", ["gate", "up"])
def test_a_unit_with_a_zero_is_explained(zero):
    explorer = explorers.unit_explorer()
    explorer.set(**{zero: 0.0})
    assert "times up 0.00. One factor is zero: nothing passes." in explorer.words.value


def test_the_map_is_the_product():
    """The still surface: its levels, at four points, on either side of silu(g) times u."""
    surface = explorers.unit_explorer().figure.axes[0]
    (contours,) = surface.collections
    levels, bands = contours.levels, contours.get_paths()
    for gate, up in ((3, 3), (3, -2.5), (-1.3, 3.3), (-1.3, -3.3)):
        value = F.silu(torch.tensor(float(gate))).item() * up
        (band,) = (i for i, path in enumerate(bands) if path.contains_point((gate, up)))
        assert levels[band] <= value <= levels[band + 1]


# --- 06


# --- 07


# --- 08


# --- 09
