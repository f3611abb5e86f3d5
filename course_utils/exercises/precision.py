"""Notebook 03's exercises: RMSNorm that survives 16 bits, and Gemma's form of it."""

import torch

from ..catalogue import exercise
from ..checker import Case, Property
from ._inputs import draw, spread
from ._norms import RULES

HALF, BFLOAT16 = torch.float16, torch.bfloat16


def _case(dtype, x, weight, eps, note=""):
    return Case((x.to(dtype), weight.to(dtype), eps), note)


def _but(x, token, feature, value):
    """x, with another number in one place."""
    x[0, token, feature] = value
    return x


def _signs(n):
    return 1.0 - 2.0 * (torch.arange(n) % 3 == 0)


_with_1200 = _but(300 * _signs(8).repeat(1, 2, 1), 1, 7, 1200.0)
_with_256 = _but(torch.ones(1, 1, 64), 0, 7, 256.0)
_tiny_and_zeros = torch.stack([1e-4 * _signs(6), torch.zeros(6)]).unsqueeze(0)
# Eight tokens of other sizes, long enough that rounding each output averages out.
_many = draw(1, 8, 1024) * torch.linspace(0.7, 1.3, 8).unsqueeze(-1)
# Weights for them: half are lost when 1 is added to them in bfloat16, for half that sum is exact.
SMALL, EXACT = slice(0, 512), slice(512, 1024)
_offsets = torch.cat([torch.linspace(0.001, 0.0035, 512), torch.arange(-64, 64).repeat(4) / 128])


# --- What tolerances cannot show: a divisor, or a gain, that was rounded to 16 bits moves all
# features of a token by one factor, of a few thousandths. Where an answer's features are many
# enough to see it, its outcome is multiplied by a number that no tolerance overlooks.


def _shown(y, x, gain, eps, cast_last):
    """y, times 2 if its divisor was rounded to 16 bits. cast_last: times 3 also if the product was
    rounded twice, and times 4 if the gain was rounded.
    """
    seen = torch.is_tensor(y) and y.shape == x.shape == _many.shape
    if not seen or not x.dtype == y.dtype == BFLOAT16:
        return y
    h, got = x.double(), y.double()
    exact = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps) * gain.double()
    if not (got - exact).norm() < 0.02 * exact.norm():
        return y
    factors = _factors(got, exact, EXACT)
    if (factors - factors.mean()).abs().max() > 5e-4:
        return 2 * y
    error, once = ((v - exact)[..., EXACT].norm() for v in (got, exact.bfloat16().double()))
    if cast_last and error > 1.15 * once:
        return 3 * y
    return 4 * y if cast_last and abs(_factors(got, exact, SMALL).mean() - 1) > 5e-4 else y


def _factors(y, exact, part):
    """How many times too large each token is, its features' own rounding averaged out."""
    y, exact = y[..., part], exact[..., part]
    return (y * exact).sum(-1) / exact.square().sum(-1)


def _half(answer, x, weight, eps):
    return _shown(answer(x, weight, eps), x, weight, eps, cast_last=False)


def _gemma(answer, x, weight, eps):
    return _shown(answer(x, weight, eps), x, 1 + weight.double(), eps, cast_last=True)


# --- What every right answer obeys. f: (x, weight, eps) -> y, with weight one for pure norm


def _digits(f):
    y = f(torch.tensor([[[1.0, 1.0001, -2.0, 3.0]]]), torch.ones(4), 1e-6)[0, 0]
    if y[0] != y[1] or y[0] == 0:
        return None
    return (
        "In float32 the features 1 and 1.0001 come out as one number: x goes through 16 bits on "
        "its way. Cast *up*, to float32; what is float32 already stays so."
    )


def _survives(token, words, dtype, eps, right, read):
    """A rule: the last feature of this token comes out right in 16 bits too."""

    def broken(f):
        x = torch.tensor([[token]], dtype=dtype)
        y = f(x, torch.ones_like(x[0, 0]), eps)[0, 0, -1].item()
        if abs(y / right - 1) < 0.01:
            return None
        return (
            f"In {str(dtype)[6:]} the last feature of {words} should become {right:.3g} with eps "
            f"{eps:g}, and becomes {y:.3g}. A square above 65504 is inf in float16, one below 3e-8 "
            "is zero, and in bfloat16 a sum of ones sticks at 256. Cast x to float32 before it is "
            "squared, and stay there until after the root."
        ).replace("e-0", "e-")

    return Property(f"16 bits: {words}", broken, read)


_large = ([300.0, 1200.0], "(300, 1200)", HALF, 1e-6, 1.372)
_small = ([1e-4, 1e-4], "(0.0001, 0.0001)", HALF, 1e-8, 0.7071)
_long = ([1.0] * 1024, "1024 ones", BFLOAT16, 1e-6, 1)
PLAIN = (
    *RULES,
    Property("float32 keeps its digits", _digits, "03 Is bfloat16 safe?"),
    _survives(*_large, "03 What does one large feature do?"),
    _survives(*_small, "03 Where must the upcast stand?"),
    _survives(*_long, "03 Where else is float32 needed?"),
)


# --- rms_norm_half


def _returned_dtype(f):
    dtype = str(f(_many.bfloat16(), spread(1024), 1e-6).dtype).removeprefix("torch.")
    return (
        f"Beside a float32 weight yours gives {dtype} for a bfloat16 x. PyTorch's own function "
        "casts last, and returns bfloat16; Llama's code returns float32."
    )


RMS_NORM_HALF = exercise(
    "rms_norm_half",
    globals(),
    cases=(
        _case(HALF, draw(2, 3, 5), spread(5), 1e-6),
        _case(BFLOAT16, draw(2, 3, 6, seed=1), spread(6), 1e-6),
        _case(HALF, _with_1200, spread(8), 1e-6, "features of ±300, and a 1200"),
        _case(HALF, _with_256, spread(64), 1e-6, "ones, and one 256"),
        _case(HALF, _tiny_and_zeros, spread(6), 1e-8, "features of ±0.0001, and zeros"),
        _case(HALF, draw(4, 4, 4, seed=2), spread(4), 1e-6, "all axes of one size"),
        _case(torch.float32, draw(2, 3, 5), spread(5), 1e-6),
        _case(torch.float32, 1e-3 * draw(1, 2, 6), spread(6), 1e-2, "a tiny x beside a large eps"),
        _case(BFLOAT16, _many, spread(1024), 1e-6, "many features"),
    ),
    properties=PLAIN,
    call=_half,
    remark=_returned_dtype,
)


# --- gemma_norm


def _gain(f):
    x, w = draw(2, 3, 5).double(), (spread(5) - 1).double()
    new = f(x, 0 * w, 1e-6)
    if new.abs().max() < 1e-6:
        return (
            "A weight of zeros, as in a new Gemma, gives zeros. It should be pure normalisation: "
            "the gain is 1 + weight."
        )
    ratio = f(x, w, 1e-6) / new
    at = (ratio - 1 - w).abs().amax((0, 1)).argmax()
    low, high, weight = ratio[..., at].min().item(), ratio[..., at].max().item(), w[at].item()
    if max(abs(low - 1 - weight), abs(high - 1 - weight)) < 1e-3:
        return None
    factor = f"{low:.3g}" if high - low < 1e-3 else f"numbers from {low:.3g} to {high:.3g}"
    return (
        f"A weight of {weight:.3g} should multiply its feature by {1 + weight:.3g}, and multiplies "
        f"it by {factor}. The gain is 1 + weight, of each feature its own, and multiplies the "
        "*normalised* x."
    ).replace("-", "−")


def _of_gain(rule):
    """A rule of plain RMSNorm, asked with Gemma's gain in its weight's place, in such words."""

    def broken(f):
        said = rule.broken(lambda x, w, eps: f(x, w - 1, eps))
        return said and said.replace("weight one", "weight zero")

    return Property(rule.name, broken, rule.read)


_w = spread(5) - 1
GEMMA_NORM = exercise(
    "gemma_norm",
    globals(),
    cases=(
        _case(BFLOAT16, draw(2, 3, 5), _w, 1e-6),
        _case(torch.float32, draw(2, 3, 5), _w, 1e-6),
        _case(HALF, draw(4, 4, 4), spread(4) - 1, 1e-6, "all axes of one size"),
        _case(HALF, 300 * _signs(8).repeat(1, 2, 1), spread(8) - 1, 1e-6, "features of ±300"),
        _case(HALF, _with_256, spread(64) - 1, 1e-6, "ones, and one 256"),
        _case(HALF, _tiny_and_zeros, spread(6) - 1, 1e-8, "features of ±0.0001, and zeros"),
        _case(torch.float32, 1e-3 * draw(1, 2, 5), _w, 1e-2, "a tiny x beside a large eps"),
        Case((draw(2, 3, 5, seed=1).bfloat16(), _w, 1e-6), "a weight of another dtype"),
        _case(BFLOAT16, _many, _offsets, 1e-6, "many features, some weights small"),
    ),
    properties=(
        Property("one plus the weight", _gain, "03 Before or after the weight?"),
        *(_of_gain(rule) for rule in PLAIN if "the weight" not in rule.name),  # has its own
    ),
    call=_gemma,
)

EXERCISES = (RMS_NORM_HALF, GEMMA_NORM)
