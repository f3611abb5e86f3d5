"""Each explorer: its artists follow the mathematics, and every point of its grid draws."""

import html
import itertools
import re
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib.colors import to_hex

from course_utils import explorers, inside, measure

EXPLORERS = {
    "00": explorers.token_explorer,
    "01": explorers.shift_scale_explorer,
    "02": explorers.plane_explorer,
    "03": explorers.precision_explorer,
    "04": explorers.swish_explorer,
    "05": explorers.unit_explorer,
    "06": explorers.sizes_explorer,
    "07": explorers.packed_rows_explorer,
    "08": explorers.depth_explorer,
    "09": explorers.roofline_explorer,
    "10": explorers.inside_explorer,
}


@pytest.fixture(scope="module", params=EXPLORERS)
def explorer(request):
    with warnings.catch_warnings(record=True) as caught:
        made = EXPLORERS[request.param]()
    assert not [w for w in caught if w.category is UserWarning], "matplotlib warns"
    yield made
    made.reset()


def grid(control):
    """Every value that a slider or a list can take."""
    if hasattr(control, "options"):
        return [o[1] if isinstance(o, tuple) else o for o in control.options]
    steps = torch.arange(round((control.max - control.min) / control.step) + 1).tolist()
    at = [control.min + i * control.step for i in steps]
    return [control.base**a for a in at] if hasattr(control, "base") else at


def grid_place(control):
    """Where in its grid a control stands."""
    values = grid(control)
    if control.value in values:
        return values.index(control.value)
    return min(range(len(values)), key=lambda i: abs(values[i] - control.value))


def words_of(explorer):
    """The words beside the picture, without their markup."""
    return html.unescape(re.sub("<.*?>", "", explorer.words.value))


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


def test_the_words_are_english_and_have_their_place(explorer):
    """Two lines of the page hold 225 letters; with more, the controls below would jump."""
    generator = torch.Generator().manual_seed(0)
    values = [grid(control) for control in explorer.controls.values()]
    for _ in range(60):
        at = [torch.randint(len(v), (), generator=generator).item() for v in values]
        state = dict(
            zip(explorer.controls, (v[i] for v, i in zip(values, at, strict=True)), strict=True)
        )
        explorer.set(**state)
        said = words_of(explorer)
        assert len(said) <= 225, said
        assert not re.search(
            r"\b1 (tokens|ranks|operations)\b|−0\.00\b|\de[+]|e-0|[.]{2}| ,", said
        ), said
    explorer.reset()


def test_each_control_moves_the_picture_and_the_words(explorer):
    before = bytes(explorer.picture.value), explorer.words.value
    for name, control in explorer.controls.items():
        values, at = grid(control), grid_place(control)
        explorer.set(**{name: values[0] if at > len(values) / 2 else values[-1]})
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
            at = grid(control)
            assert value in at or min(abs(value - v) for v in at) <= 1e-6 * max(1, abs(value))


# What the name of each preset promises, in the words beside the picture.
PROMISED = {
    "One spike": r"\(0\.00, 0\.00, 0\.00, 2\.00\)",
    "All alike": r"\((1\.00(, )?){4}\)",
    "The first, a tenth": r"square 0\.30\. .* the token is \(0\.33, −0\.33, 1\.00, 1\.67\)",
    "All zero": "A token of zeros",
    "Shift 0": r"x has mean 0\.00",
    "Shift 3": r"x has mean 3\.00",
    "Shift 3, twice as large": r"x has mean 6\.00",
    "Shift −3": r"x has mean −3\.00",
    "Short vectors": r"eps is 1e-5.* square 0\.00064 and",
    "Short vectors, Llama 1's eps": r"eps is 1e-6.* square 0\.00064 and",
    "A large eps": r"eps is 0\.32.* square 0\.64 and",
    "float16, just below 256": r"float16: .* is 251,.* upcast 0\.0003,",
    "float16, tiny": r"float16: .* is 0\.001,.* upcast 0\.009,",
    "bfloat16, the same size": "bfloat16: .* is 316,",
    "β = 0": r"β = 0\.0:",
    "A wide dip": "β = 0.5: the lowest point is −0.557",
    "Close to GELU": "0.021 from GELU",
    "Nearly ReLU": "0.028 from ReLU",
    "Open +": r"Gate 3.*, times up 8\.57\. The gate is open",
    "Open −": r"Gate 3.*, times up −8\.57\. The gate is open",
    "Leaks −": r"Gate −3.*, times up −0\.43\. The gate is nearly shut",
    "Leaks +": r"Gate −3.*, times up 0\.43\. The gate is nearly shut",
    "Llama-2-7B": "^Llama-2-7B, .*11008, as published.* 6.74 billion",
    "Llama-3-8B": "^Llama-3-8B, .*14336, as published.* 8.03 billion",
    "Llama-2-70B": "^Llama-2-70B, .*28672, as published.* 68.98 billion",
    "Gemma-2B": "^Gemma-2B, .*where 16384 is published",
    "Right": r"^Stored as \[gate; up\], cut .* 2 ranks.* the output is right",
    "Swapped": r"^Stored as \[up; gate\], whole.* wrong by 76 %",
    "In turn": "^Stored as gate, up in turn, whole.* wrong by 127 %",
    "Right by luck": "up in turn, cut into contiguous blocks for 4 ranks.* the output is right",
    "Pre-norm, 48 blocks": "^Pre-norm, 48 blocks",
    "Post-norm, 4 blocks": "^Post-norm, 4 blocks",
    "Post-norm, 48 blocks": "^Post-norm, 48 blocks",
    "No norm, 4 blocks": "^No norm, 4 blocks",
    "Near the ridge": "does 8 operations per byte, left of the ridge at 10",
    "A prompt": "^512 tokens.* right of the ridge",
    "Many tokens, a narrow layer": r"^4096 tokens of 16 features.* take 52\.5 %",
    "A comma": r'^Layer 2, byte ",", after "es: lists": ',
    "First layer": "^Layer 1, ",
    "Last layer": "^Layer 4, ",
}


def test_each_preset_is_what_its_name_says(explorer):
    for name in list(explorer.presets)[:-1]:
        explorer.buttons[name].click()
        assert re.search(PROMISED[name], words_of(explorer)), (name, words_of(explorer))
    explorer.reset()


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


@pytest.mark.parametrize(("eps", "scale"), [(1e-7, 1), (0.3, 1), (1e-5, 1e-3), (1, 0.5)])
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


def precision_artists(explorer):
    outputs, error = explorer.figure.axes
    bars = heights(outputs, 0), heights(outputs, 1)
    bare, upcast, dot_bare, dot_upcast, edge = (a for a in error.get_lines() if a.get_animated())
    return bars, (xy(bare), xy(upcast)), (xy(dot_bare), xy(dot_upcast)), edge


def by_numpy(x, steps):
    """RMSNorm with each step rounded to the numpy dtype `steps`, and the error against float64."""
    with np.errstate(over="ignore"):
        h = x.astype(steps)
        mean = (h * h).astype(np.float32).mean(-1, keepdims=True).astype(steps) + steps(1e-6)
        y = (h * (1 / np.sqrt(mean))).astype(x.dtype)
    h = x.astype(np.float64)
    exact = h / np.sqrt((h * h).mean(-1, keepdims=True) + 1e-6)
    return y, np.linalg.norm(y - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("power", [-3.0, 0.0, 2.4, 2.5, 4.0])
def test_both_float16_errors_are_drawn_as_numpy_has_them(power):
    explorer = explorers.precision_explorer()
    explorer.set(dtype="float16", largest=10**power)
    bars, curves, dots, edge = precision_artists(explorer)
    x = measure.precision_tokens(10**power, torch.float16).numpy()
    for i, (steps, within) in enumerate(((np.float16, 0.3), (np.float32, 0.02))):
        y, error = by_numpy(x, steps)
        torch.testing.assert_close(
            bars[i - 1], torch.from_numpy(y[0, :8]).float(), atol=0.06, rtol=0
        )
        assert dots[i][0].tolist() == pytest.approx([10**power, error], rel=within)
        at = (curves[i][:, 0] / 10**power - 1).abs().argmin()
        torch.testing.assert_close(curves[i][at], dots[i][0])
    assert edge.get_visible() and list(edge.get_xdata()) == [256, 256]


def test_what_the_notebook_says_of_the_two_dtypes_is_so():
    """float16 has an edge on both sides without the upcast, bfloat16 none; the upcast is flat."""
    explorer = explorers.precision_explorer()
    _, (bare, upcast), _, _ = precision_artists(explorer)
    assert ((bare[:, 1] == 1) == (bare[:, 0] >= 256)).all()
    middle = bare[(bare[:, 0] > 0.05) & (bare[:, 0] < 256), 1]
    assert middle.max() < 5e-4 and bare[bare[:, 0] < 0.003, 1].max() > 10 * middle.max()
    assert upcast[:, 1].max() < 1.2 * upcast[:, 1].min()
    explorer.set(dtype="bfloat16")
    (up, hollow), (bare, upcast), _, edge = precision_artists(explorer)
    assert bare[:, 1].max() < 5e-3 and upcast[:, 1].max() < 1.2 * upcast[:, 1].min()
    assert not edge.get_visible() and hollow.abs().min() > 0
    explorer.set(dtype="float16")
    (up, hollow), *_ = precision_artists(explorer)
    assert hollow.abs().max() == 0 and up.abs().min() > 0


# --- 04


def swish_artists(beta):
    """The explorer at β, its curve, its slope and its lowest point, which has slope zero."""
    explorer = explorers.swish_explorer()
    explorer.set(beta=beta)
    curve, slope = ([a for a in ax.get_lines() if a.get_animated()] for ax in explorer.figure.axes)
    assert torch.equal(xy(slope[1]), xy(curve[1]) * torch.tensor([1, 0]))
    return explorer, xy(curve[0]), xy(slope[0]), xy(curve[1])


@pytest.mark.parametrize("beta", [0.0, 0.1, 0.4, 1.0, 1.7, 10.0])
def test_swish_its_slope_and_its_lowest_point_are_drawn(beta):
    explorer, curve, slope, lowest = swish_artists(beta)
    x, y = curve.T
    torch.testing.assert_close(y, F.silu(beta * x) / beta if beta else x / 2)
    s = 1 / (1 + torch.exp(-beta * x))
    torch.testing.assert_close(slope[:, 1], s + beta * x * s * (1 - s))
    if beta < 0.32:  # the minimum, at −1.278/β, is left of the picture
        assert lowest.numel() == 0
        assert "no lowest point in this picture" in explorer.words.value
    else:
        expected = torch.tensor([[-1.27846, -0.27846]], dtype=torch.float64) / beta
        torch.testing.assert_close(lowest, expected, atol=6e-4, rtol=0)
        assert f"the lowest point is −{-lowest[0, 1]:.3f} at x = −" in explorer.words.value
    relu, gelu = (y - F.relu(x)).abs().max(), (y - F.gelu(x)).abs().max()
    assert f"at most {relu:.3f} from ReLU, {gelu:.3f} from GELU." in explorer.words.value


def test_relu_and_gelu_stand_behind_swish():
    explorer, *_ = swish_artists(1.0)
    panels = [{a.get_label(): xy(a) for a in ax.get_lines()} for ax in explorer.figure.axes]
    x = panels[0]["ReLU"][:, 0]
    torch.testing.assert_close(panels[0]["ReLU"][:, 1], x.clamp(min=0))
    torch.testing.assert_close(panels[0]["GELU"][:, 1], F.gelu(x))
    torch.testing.assert_close(panels[1]["ReLU"][:, 1], (x > 0).double())
    normal = torch.distributions.Normal(0, 1)
    expected = normal.cdf(x) + x * normal.log_prob(x).exp()
    torch.testing.assert_close(panels[1]["GELU"][:, 1], expected, atol=1e-6, rtol=0)


def test_what_the_notebook_says_of_beta_is_so():
    """From β 1.6 to 1.9 Swish is within 0.04 of GELU; the slope's peak moves in, at one height."""
    peaks = []
    for beta in (1.0, 1.7, 10.0):
        _, _, slope, _ = swish_artists(beta)
        peaks.append(slope[slope[:, 1].argmax()].tolist())
    assert [height for _, height in peaks] == pytest.approx([1.0998] * 3, abs=2e-3)
    assert [x for x, _ in peaks] == pytest.approx([2.399, 2.399 / 1.7, 0.2399], abs=0.02)
    for beta, close in ((1.0, False), (1.6, True), (1.7, True), (1.9, True), (3.0, False)):
        _, curve, _, _ = swish_artists(beta)
        x, y = curve.T
        assert ((y - F.gelu(x)).abs().max() < 0.04) == close


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


@pytest.mark.parametrize(
    ("model", "multiplier", "multiple_of", "width", "published", "D"),
    [
        ("Llama-3-8B", 1.0, 256, 11008, 14336, 4096),
        ("Llama-3-8B", 1.3, 1024, 14336, 14336, 4096),
        ("Llama-2-70B", 1.3, 4096, 28672, 28672, 8192),
        ("MiniCPM-2B", 3.0, 64, 18432, 5760, 2304),
    ],
)
def test_both_widths_and_the_saw_are_drawn(model, multiplier, multiple_of, width, published, D):
    explorer = explorers.sizes_explorer()
    explorer.set(model=model, multiplier=multiplier, multiple_of=multiple_of)
    left, right = explorer.figure.axes
    ours, theirs = heights(left, 0), heights(left, 1)
    for bars in (ours, theirs):
        assert bars.sum().item() == pytest.approx(100, rel=1e-5)
    odds = [bars[1] / (100 - bars[1]) for bars in (ours, theirs)]  # FFN against the rest
    assert (odds[0] / odds[1]).item() == pytest.approx(width / published, rel=1e-4)
    saw, square, dot = (line for line in right.get_lines() if line.get_animated())
    assert xy(dot).tolist() == [[D, pytest.approx(3 * D * width / (8 * D**2))]]
    assert xy(square).tolist() == [[D, pytest.approx(3 * D * published / (8 * D**2))]]
    for d, ratio in xy(saw).tolist():
        least = multiplier * 8 * d / 3 * (1 - 1e-9)
        assert least - 2 <= ratio * 8 * d / 3 < least + multiple_of + 1
        assert round(ratio * 8 * d / 3) % multiple_of == 0
    low, high = right.get_ylim()
    assert low < min(xy(saw)[:, 1]) and max(xy(saw)[:, 1]) < high
    assert f"up to a multiple of {multiple_of}: {width}, " in explorer.words.value
    assert ("as published" in explorer.words.value) == (width == published)


def test_what_the_notebook_says_of_gemma_and_of_multiples_is_so():
    """At 3.0 every multiple gives Gemma-2B's width; larger multiples make larger teeth."""
    explorer = explorers.sizes_explorer()
    explorer.buttons["Gemma-2B"].click()
    left, right = explorer.figure.axes
    (saw,) = (
        line for line in right.get_lines() if line.get_animated() and len(line.get_xdata()) > 1
    )
    peaks = []
    for multiple_of in explorers.MULTIPLES:
        explorer.set(multiplier=3.0, multiple_of=multiple_of)
        torch.testing.assert_close(heights(left, 0), heights(left, 1))
        ratio = xy(saw)[:, 1]
        peaks.append((ratio[: len(ratio) // 4].max().item(), ratio[-20:].max().item()))
    assert all(small >= large for small, large in peaks) and peaks[-1][0] > 1.5 * peaks[-1][1]
    assert [small for small, _ in peaks] == sorted(small for small, _ in peaks)


def test_the_model_list_holds_each_whole_config_of_the_size_drawn():
    explorer = explorers.sizes_explorer()
    assert {"Llama-2-7B", "Gemma-2B", "SmolLM/SmolLM2-135M"} <= set(
        explorer.controls["model"].options
    )
    assert not {"PaLM-540B", "stories15M"} & set(explorer.controls["model"].options)


# --- 07


@pytest.mark.parametrize("layout", explorers.STORED)
@pytest.mark.parametrize("cut", explorers.CUTS)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_rows_are_drawn_as_they_are_stored_cut_and_read(layout, cut, ranks):
    """Independent of packing: rows as pairs (letter, unit), cut with plain list slices."""
    explorer = explorers.packed_rows_explorer()
    explorer.set(layout=layout, cut=cut, ranks=ranks)
    g, u = ([f"{kind}{unit}" for unit in range(4)] for kind in "gu")
    in_turn = [name for pair in zip(g, u, strict=True) for name in pair]
    stored = dict(zip(explorers.STORED, (g + u, u + g, in_turn), strict=True))[layout]
    if cut == "contiguous blocks":
        step = 8 // ranks
        parts = [stored[rank * step :][:step] for rank in range(ranks)]
    else:
        step = 4 // ranks
        halves = stored[:4], stored[4:]
        parts = [[n for h in halves for n in h[rank * step :][:step]] for rank in range(ranks)]
    halved = [(p[: len(p) // 2], p[len(p) // 2 :]) for p in parts]
    read = [n for first, second in halved for pair in zip(first, second, strict=True) for n in pair]

    left, right = explorer.figure.axes
    owners = {name: f"rank {rank}" for rank, part in enumerate(parts) for name in part}
    marked = [a if a == b else f"{a} ✗" for a, b in zip(read, in_turn, strict=True)]
    columns = [f"rank {unit * ranks // 4}, column {unit}" for unit in range(4)]
    for axes, names, labels, others in (
        (left, stored, stored, [owners[name] for name in stored]),
        (right, read, marked, columns),
    ):
        boxes, written, beside = axes.collections
        assert written.get_paths() == [explorers.label_path(text) for text in labels]
        assert beside.get_paths() == [explorers.label_path(text) for text in others]
        colours = [to_hex(colour).upper() for colour in boxes.get_facecolors()]
        assert colours == [explorers.SKY if name[0] == "g" else explorers.ORANGE for name in names]
        thick = [width > 1 for width in boxes.get_linewidths()]
        assert thick == ["✗" in text for text in labels]
    said = explorer.words.value
    wrong = sum(a != b for a, b in zip(read, in_turn, strict=True))
    assert (f"{wrong} of 8 rows are taken for something else" in said) == (wrong > 0)
    assert ("the output is right" in said) == (wrong == 0)
    assert ("whole on 1 rank" in said) == (ranks == 1)


def test_what_the_notebook_says_of_order_and_ranks_is_so():
    """In blocks, only gate and up in turn on four ranks is right: one unit each."""
    right = []
    for layout, ranks in itertools.product(explorers.STORED, (2, 4)):
        explorer = explorers.packed_rows_explorer()
        explorer.set(layout=layout, cut="contiguous blocks", ranks=ranks)
        right += [(layout, ranks)] if "the output is right" in explorer.words.value else []
    assert right == [("gate, up in turn", 4)]


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
    stream, gradient = explorer.figure.axes
    far = gradient.texts[0]
    explorer.set(norm="no norm", depth=4)
    assert not far.get_visible()
    explorer.set(norm="no norm", depth=8)
    assert stream.get_lines()[1].get_ydata()[4] > stream.get_ylim()[1]
    assert min(gradient.get_lines()[1].get_ydata()) > gradient.get_ylim()[1]
    assert far.get_visible()
    assert "after block 3" in explorer.words.value and "and so on" in explorer.words.value


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


def test_no_share_of_the_time_is_too_small_for_the_picture():
    explorer = explorers.roofline_explorer()
    shares = explorer.figure.axes[1]
    low, high = shares.get_xlim()
    for tokens, hidden in itertools.product(*(grid(c) for c in explorer.controls.values())):
        explorer.set(tokens=tokens, hidden=hidden)
        widths = [bar.get_width() for bar in shares.patches]
        assert len(widths) == 3 and low < min(widths) and max(widths) <= high, (tokens, hidden)


# --- 10


@pytest.mark.parametrize(("layer", "token"), [(1, 0), (2, 43), (4, 63)])
def test_the_stream_the_gates_and_the_weights_of_one_byte_are_drawn(layer, token):
    explorer = explorers.inside_explorer()
    explorer.set(layer=layer, token=token)
    above, below = explorer.figure.axes
    model, tokens = inside.trained_llama(), inside.passages()[:1]
    x = model.embed(tokens)  # (1, T, D)
    with torch.no_grad():
        for block in model.layers[: layer - 1]:
            x = block(x)
        block = model.layers[layer - 1]
        x = x + block.self_attn(block.input_layernorm(x))
        sizes = x[0].square().mean(dim=-1).sqrt()  # (T,)
        gate = block.mlp.gate_proj(block.post_attention_layernorm(x))[0, token]  # (I,)
    line = next(line for line in above.lines if line.get_animated())
    np.testing.assert_allclose(line.get_ydata(), sizes, rtol=1e-4)
    ring = above.lines[-1]
    np.testing.assert_allclose(ring.get_xydata(), [[token, sizes[token]]], rtol=1e-4)
    counts, _ = np.histogram(F.silu(gate), 60, (-0.5, 5.5))
    (bars,) = heights(below, slice(None))
    assert abs(bars - 100 * torch.tensor(counts) / 256).max() <= 0.4  # one gate on an edge
    rug = next(line for line in below.lines if line.get_animated())
    weight = block.post_attention_layernorm.weight.tolist()
    np.testing.assert_allclose(rug.get_xdata(), weight, rtol=1e-4)
    said = words_of(explorer)
    assert f"RMS {sizes[token]:.1f}." in said
    assert f"{100 * (gate < 0).double().mean():.0f} % are negative" in said
    assert f"unit {gate.argmax()} is widest open, at {F.silu(gate.max()):.1f}" in said
