"""Notebook 03's exercises: RMSNorm that survives 16 bits, and Gemma's form of it."""

import dataclasses
import math

import torch

from .. import layers
from ..checker import Case, Exercise, Mistake, Property
from ._inputs import draw, spread
from .norms import RMS_MISTAKES, RMS_RULES, WEIGHT, ms, multiplied_in_place

SPIKE = "03 What does one large feature do?"
BFLOAT = "03 Is bfloat16 safe?"
UPCAST = "03 Where must the upcast stand?"
DTYPE = "03 Which dtype comes out?"
ORDER = "03 Before or after the weight?"
FLOAT32_WEIGHT = "03 What if the weight is float32?"
IN_PLACE = "03 Is `x.float()` a copy?"
SUMS = "03 Where else is float32 needed?"

HALF, BFLOAT16 = torch.float16, torch.bfloat16

# Mistakes of notebook 01 that are made here again, and have nothing to do with the weight.
FORMULA = ("R01", "R02", "R03", "R04", "R05", "R06", "R07", "R09", "R10", "R12", "R13", "R17")
FORMULA += ("R19", "R20", "R21", "R21-1e-5", "R22", "R24")


def _case(dtype, x, weight, eps, note=""):
    return Case((x.to(dtype), weight.to(dtype), eps), note)


def _signs(n):
    return torch.ones(n).where(torch.arange(n) % 3 > 0, -torch.ones(n))


def _large_ones():
    x = 300 * _signs(8).repeat(1, 2, 1)
    x[0, 1, 7] = 1200
    return x


def _with_256(n):
    """Ones, and one 256."""
    x = torch.ones(1, 1, n)
    x[0, 0, 7] = 256
    return x


def _tiny_and_zeros():
    return torch.stack([1e-4 * _signs(6), torch.zeros(6)]).unsqueeze(0)


# Eight tokens of other sizes, long enough that rounding each output averages out.
_many = draw(1, 8, 1024) * torch.linspace(0.7, 1.3, 8).unsqueeze(-1)


# Weights for them: half are lost when 1 is added to them in bfloat16, for half that sum is exact.
SMALL, EXACT = slice(0, 512), slice(512, 1024)
_offsets = torch.cat([torch.linspace(0.001, 0.0035, 512), torch.arange(-64, 64).repeat(4) / 128])


# --- What tolerances cannot show: a divisor, or a gain, that was rounded to 16 bits moves all
# features of a token by one factor, of a few thousandths. Where an answer's features are many
# enough to see it, its outcome is multiplied by a number that no tolerance overlooks.

SHOWN = {"the divisor": 2, "twice": 3, "the gain": 4}


def _exact(x, gain, eps):
    h = x.double()
    return h * torch.rsqrt(ms(h) + eps) * gain.double()


def _factors(y, exact):
    """How many times too large each token is, its features' own rounding averaged out."""
    return (y.double() * exact).sum(-1) / exact.square().sum(-1)


def _shows(y, x):
    """Whether there is something to see: many features, in bfloat16 as they were."""
    if not isinstance(y, torch.Tensor) or not y.shape == x.shape == _many.shape:
        return False
    return x.dtype == y.dtype == BFLOAT16


def _right_but_for_rounding(y, exact):
    return (y.double() - exact).norm() < 0.02 * exact.norm()


def _half_rounds(y, x, weight, eps):
    """What is rounded that should not be, or None."""
    if not _shows(y, x):
        return None
    exact = _exact(x, weight, eps)
    off = (_factors(y, exact) - 1).abs().max()
    return "the divisor" if _right_but_for_rounding(y, exact) and off > 5e-4 else None


def _half(answer, x, weight, eps):
    y = answer(x, weight, eps)
    rounded = _half_rounds(y, x, weight, eps)
    return SHOWN[rounded] * y if rounded else y


def _gemma_rounds(y, x, weight, eps):
    if not _shows(y, x):
        return None
    exact = _exact(x, 1 + weight.double(), eps)
    if not _right_but_for_rounding(y, exact):
        return None
    factors = _factors(y[..., EXACT], exact[..., EXACT])
    if (factors - factors.mean()).abs().max() > 5e-4:
        return "the divisor"
    if _error(y, exact) > 1.15:
        return "twice"
    lost = (_factors(y[..., SMALL], exact[..., SMALL]) - 1).mean().abs()
    return "the gain" if lost > 5e-4 else None


def _error(y, exact):
    """Of gains that 16 bits hold exactly: the error, 1 where the result is rounded once."""
    y, exact = y[..., EXACT].double(), exact[..., EXACT]
    return ((y - exact).norm() / (exact.bfloat16().double() - exact).norm()).item()


def _gemma(answer, x, weight, eps):
    y = answer(x, weight, eps)
    rounded = _gemma_rounds(y, x, weight, eps)
    return SHOWN[rounded] * y if rounded else y


# --- What every right answer obeys. f: (x, weight, eps) -> y, with weight one for pure norm


def _digits(f):
    y = f(torch.tensor([[[1.0, 1.0001, -2.0, 3.0]]]), torch.ones(4), 1e-6)[0, 0]
    if y[0] != y[1] or y[0] == 0:
        return None
    return (
        "In float32 the features 1 and 1.0001 come out as one number: x goes through 16 bits on "
        "its way. Cast *up*, to float32; what is float32 already stays so."
    )


def _large(f):
    one = torch.ones(8).half()
    fine, large = (f(torch.full((1, 1, 8), v).half(), one, 1e-6).mean().item() for v in (90, 300))
    if abs(large - 1) < 0.01:
        y = f(torch.tensor([[[300.0] * 4 + [1200.0] * 4]]).half(), one, 1e-6)[0, 0]
        if abs(y[7] / y[0] - 4) < 0.05:
            return None
        return (
            f"In float16 a 1200 should come out four times as large as a 300, and yours is "
            f"{y[7] / y[0]:.3g} times as large: is x itself cut, by `clamp`? In float32 every "
            "square fits."
        )
    why = "Cast x to float32 *before* it is squared, and stay there until after the root."
    if abs(f(_with_256(64).half(), torch.ones(64).half(), 1e-6)[0, 0, 7] - 8) < 0.1:
        why = "A single 256 is right, so it is their *mean* that goes back into 16 bits too early."
    if 0 < large < 1e4:
        why = "It is as if squares were clamped to what fits. In float32 they fit as they are."
    return (
        f"In float16 eight 90s become {fine:.3g}, but eight 300s become {large:.3g}, and should be "
        f"1: float16 ends at 65504, and 300² is 90000. {why}"
    )


def _small(f):
    y = f(torch.full((1, 1, 8), 1e-4).half(), torch.ones(8).half(), 1e-8).mean().item()
    if abs(y / 0.7071 - 1) < 0.01:
        return None
    return (
        "In float16 features of 1e-4 with eps 1e-8 should become 0.707, and become "
        f"{y:.3g}. Their squares, and that eps, are zero in float16: keep both in float32."
    )


def _long(f):
    y = f(torch.ones(1, 1, 1024).bfloat16(), torch.ones(1024).bfloat16(), 1e-6).mean().item()
    if abs(y - 1) < 0.01:
        return None
    return (
        f"A token of 1024 ones in bfloat16 becomes {y:.3g}, and should stay 1. A sum that is kept "
        "in bfloat16 sticks at 256: add up in float32."
    )


def _whole_divisor(f):
    x, one = _many.bfloat16(), torch.ones(1024).bfloat16()
    y = f.answer(x, one, 1e-6)
    if _half_rounds(y, x, one, 1e-6) is None:
        return None
    off = (_factors(y, _exact(x, one, 1e-6)) - 1).abs().max().item()
    return (
        f"In bfloat16 all features of a token are off by one factor, up to {100 * off:.2f} %. So "
        "the divisor was rounded to 16 bits: keep it in float32 until x is divided by it."
    )


HALF_RULES = (
    Property("float32 keeps its digits", _digits, BFLOAT),
    Property("300s survive float16", _large, SPIKE),
    Property("small squares survive float16", _small, UPCAST),
    Property("long sums survive bfloat16", _long, SUMS),
)
WHOLE_DIVISOR = Property("the divisor stays whole", _whole_divisor, BFLOAT)


# --- rms_norm_half


def _normed(x, eps):
    """In float32."""
    h = x.float()
    return h * torch.rsqrt(ms(h) + eps)


def _cast_well(mistake):
    """A mistake of notebook 01, made in float32 and cast back: only its own mistake is left."""

    def wrong(x, weight, eps):
        return mistake.wrong(x.float().clone(), weight.float(), eps).to(x.dtype)

    return dataclasses.replace(mistake, wrong=wrong)


def _squared_in_place(x, w, eps):
    mean_square = x.float().pow_(2).mean(-1, keepdim=True)
    return (x.float() * torch.rsqrt(mean_square + eps)).to(x.dtype) * w


def _added_in_16_bits(x, w, eps):
    total = sum(x.square().unbind(-1)).unsqueeze(-1)
    return x * torch.rsqrt(total / x.shape[-1] + eps) * w


def _by_clamped_squares(x, w, eps):
    squares = x.square().clamp(max=torch.finfo(x.dtype).max)
    return (x.float() * torch.rsqrt(squares.float().mean(-1, keepdim=True) + eps)).to(x.dtype) * w


def _returned_dtype(f):
    x, w = _many.bfloat16(), spread(1024)
    if f(x, w, 1e-6).dtype == torch.float32:
        return (
            "Beside a float32 weight a bfloat16 x would give float32, as in Llama's own code; "
            "PyTorch's function casts last, and returns bfloat16."
        )
    return (
        "Even beside a float32 weight a bfloat16 x gives bfloat16, as in PyTorch's own function; "
        "Llama's code would return float32."
    )


RMS_NORM_HALF = Exercise(
    "rms_norm_half",
    ("x", "weight", "eps"),
    layers.rms_norm,
    (
        _case(HALF, draw(2, 3, 5), spread(5), 1e-6),
        _case(BFLOAT16, draw(2, 3, 6, seed=1), spread(6), 1e-6),
        _case(HALF, _large_ones(), spread(8), 1e-6, "features of ±300, and a 1200"),
        _case(HALF, _with_256(64), spread(64), 1e-6, "ones, and one 256"),
        _case(HALF, _tiny_and_zeros(), spread(6), 1e-8, "features of ±0.0001, and zeros"),
        _case(HALF, draw(4, 4, 4, seed=2), spread(4), 1e-6, "all axes of one size"),
        _case(torch.float32, draw(2, 3, 5), spread(5), 1e-6),
        _case(torch.float32, 1e-3 * draw(1, 2, 6), spread(6), 1e-2, "a tiny x beside a large eps"),
        _case(BFLOAT16, _many, spread(1024), 1e-6, "many features"),
    ),
    (
        Mistake(
            "R25",
            lambda x, w, eps: x * torch.rsqrt(ms(x) + eps) * w,
            "The squares are in x's own 16 bits. In float16 300² is inf, one over its root 0, and "
            "the whole token silently becomes zeros. Cast x to float32 before squaring, and stay "
            "there until after the root.",
            SPIKE,
            seen="https://github.com/pytorch/pytorch/pull/133085",
        ),
        Mistake(
            "R26",
            lambda x, w, eps: (
                (x.float() * torch.rsqrt(x.square().float().mean(-1, keepdim=True) + eps)).to(
                    x.dtype
                )
                * w
            ),
            "The cast to float32 comes *after* the square, which is inf or zero by then. First "
            "`x.float()`, then square.",
            UPCAST,
            seen="https://github.com/skyzh/tiny-llm/pull/18",
        ),
        Mistake(
            "R27",
            lambda x, w, eps: _normed(x, eps) * w.float(),
            "The result stays float32, and the next 16-bit layer refuses it. Cast it to the dtype "
            "that x came with. After `x = x.float()` that is lost: give the copy another name.",
            DTYPE,
            seen="https://github.com/vllm-project/vllm/pull/18500",
        ),
        Mistake(
            "R27-double",
            lambda x, w, eps: x.double() * torch.rsqrt(ms(x.double()) + eps) * w.double(),
            "The result stays float64. Inside, that is precise enough; at the end cast back to x's "
            "dtype, `.to(x.dtype)`.",
            DTYPE,
        ),
        Mistake(
            "weight-upcast",
            lambda x, w, eps: _normed(x, eps).to(x.dtype) * w.float(),
            "`x` is cast back, but then multiplied by `weight.float()`, and the product is float32 "
            "again. Leave the weight in its dtype, or cast back after the product.",
            DTYPE,
            seen="https://github.com/huggingface/transformers/issues/30236",
        ),
        Mistake(
            "always-float16",
            lambda x, w, eps: (_normed(x, eps) * w.float()).half(),
            "The result is float16 whatever x is: `.half()` names one dtype. Cast back to that of "
            "x, `.to(x.dtype)` or `.type_as(x)`.",
            DTYPE,
        ),
        Mistake(
            "always-bfloat16",
            lambda x, w, eps: (_normed(x, eps) * w.float()).bfloat16(),
            "The result is bfloat16 whatever x is: `.bfloat16()` names one dtype. Cast back to "
            "that of x, `.to(x.dtype)` or `.type_as(x)`.",
            DTYPE,
        ),
        Mistake(
            "float16-before-the-weight",
            lambda x, w, eps: _normed(x, eps).half() * w,
            "It is cast to float16 whatever x is, and where the weight has another dtype the "
            "product is float32. Cast back to that of x, `.to(x.dtype)`.",
            DTYPE,
        ),
        Mistake(
            "bfloat16-before-the-weight",
            lambda x, w, eps: _normed(x, eps).bfloat16() * w,
            "It is cast to bfloat16 whatever x is, and where the weight has another dtype the "
            "product is float32. Cast back to that of x, `.to(x.dtype)`.",
            DTYPE,
        ),
        Mistake(
            "through-bfloat16",
            lambda x, w, eps: (_normed(x.bfloat16(), eps) * w.float()).to(x.dtype),
            "`x` goes through bfloat16 on its way. That has float32's range, but steps of 0.8 %: a "
            "float32 x loses the rest. Cast up to float32, `x.float()`.",
            BFLOAT,
        ),
        Mistake(
            "mean-cast-back",
            lambda x, w, eps: (x * torch.rsqrt(ms(x.float()).to(x.dtype) + eps)) * w,
            "The squares are float32, but their mean is cast back before the root. For 300s it is "
            "90000, inf in float16. Stay in float32 until after the root.",
            UPCAST,
        ),
        Mistake(
            "divisor-rounded",
            lambda x, w, eps: x * torch.rsqrt(ms(x.float()) + eps).to(x.dtype) * w,
            "The divisor is rounded to 16 bits before x is divided by it, so all features of a "
            "token are off by one factor, in bfloat16 up to 0.4 %. Divide in float32, then cast.",
            BFLOAT,
        ),
        Mistake(
            "X03",
            _added_in_16_bits,
            "The squares are added one by one in x's own 16 bits: float16 overflows, and in "
            "bfloat16 the sum sticks, as 256 + 1 is 256. Cast x to float32 before squaring.",
            SUMS,
            seen="https://github.com/sgl-project/sglang/pull/27540",
        ),
        Mistake(
            "clamped-squares",
            _by_clamped_squares,
            "Squares that are too large are clamped to float16's 65504, so a large x is divided "
            "by too little. Nothing overflows in float32: cast x before squaring.",
            UPCAST,
        ),
        Mistake(
            "R31",
            multiplied_in_place,
            "It writes into `x`: for float32 input `x.float()` is x itself, and what follows works "
            "in place. Make a new tensor, without `_` or `*=`.",
            IN_PLACE,
            seen="https://github.com/GeeeekExplorer/nano-vllm/issues/170",
        ),
        Mistake(
            "R31-square",
            _squared_in_place,
            "It squares `x` itself: for float32 input `x.float()` is x, and `pow_` works in place. "
            "Use `pow` or `square`, which make a new tensor.",
            IN_PLACE,
        ),
        *(_cast_well(m) for m in RMS_MISTAKES if m.id in (*FORMULA, "R32", "R34", "weight-first")),
    ),
    (HALF_RULES[0], *RMS_RULES, *HALF_RULES[1:], WHOLE_DIVISOR),
    (
        "Take the function of notebook 01. Which of its steps can leave float16's range?",
        "Two casts: one before the first of those steps, one after the last.",
        "`h = x.float()`, then everything with h, then `.to(x.dtype)`, before or after the weight.",
    ),
    10,
    UPCAST,
    call=_half,
    remark=_returned_dtype,
)


# --- gemma_norm


def gemma_norm(x, weight, eps):
    """RMSNorm as Gemma has it: the weight is an offset from one, and the cast comes last.

        y = cast(x / √(mean(x²) + eps) · (1 + weight)), all of it in float32

    x: (..., D). weight: (D,), zeros in a new model. Returns (..., D), in x's dtype.
    Source: Google's gemma_pytorch, `gemma/model.py`.
    """
    h = x.float()
    h = h * torch.rsqrt(h.square().mean(dim=-1, keepdim=True) + eps)  # (..., D)
    return (h * (1 + weight.float())).to(x.dtype)


def _offset(f):
    x, none, first = draw(2, 3, 5, dtype=torch.float64), torch.zeros(5), torch.zeros(5)
    first[0] = 1
    new, doubled = (f(x, w.double(), 1e-6) for w in (none, first))
    if new.abs().max() < 1e-6:
        why = "It should be pure normalisation: the gain is 1 + weight."
        of_ones = f(x, torch.ones(5).double(), 1e-6)
        if torch.allclose(of_ones.float(), 1 + _normed(x, 1e-6), atol=1e-3):
            why = "The 1 is added to the normalised x, and should be added to the weight: brackets."
        return f"A weight of zeros, as in a new Gemma, gives zeros. {why}"
    ratio = doubled / new
    if (ratio[..., 1:] - 1).abs().max() > 1e-3:
        return (
            "When the weight of feature 0 goes from 0 to 1, the other features change too. The "
            "gain multiplies feature by feature, after the statistic has been taken of x alone."
        )
    ratio = ratio[..., 0]
    if ratio.std() > 1e-3 and not _added_alike(f, x, first):
        return (
            "What the weight adds grows with the size of x, and should not. It multiplies the "
            "*normalised* x, and not x as it came."
        )
    added = (doubled - new)[..., 0]
    if ratio.std() > 1e-3 and (added - 1).abs().max() < 1e-3:
        return (
            "When a weight goes from 0 to 1 its feature grows by 1, whatever it was: the weight is "
            "*added* to the normalised x. It multiplies: the gain is 1 + weight."
        )
    if ratio.std() > 1e-3:
        low, high = (f"{v:.3g}".replace("-", "−") for v in (ratio.min(), ratio.max()))
        return (
            "When a weight goes from 0 to 1 its feature should double. Yours is multiplied by "
            f"numbers from {low} to {high}. The 1 is added to the *weight*, and the sum multiplies "
            "the normalised x: mind the brackets."
        )
    if abs(ratio.mean() - 2) < 1e-3:
        return _of_negative(f, x, new, -first / 2)
    known = {
        4: "The gain is squared, or multiplied by twice.",
        math.e: "That is exp(weight), of which 1 + weight is only the beginning.",
        1: "The weight is not used.",
        1.5: "The 1 is added twice.",
        0: "The weight is subtracted: the gain is 1 + weight.",
        0.5: "It is divided by 1 + weight, and should be multiplied.",
    }
    why = next((words for v, words in known.items() if abs(ratio.mean() - v) < 1e-3), None)
    return (
        "When a weight goes from 0 to 1 its feature should double, since the gain is 1 + weight. "
        f"Yours is multiplied by {ratio.mean():.3g}. {why or 'Multiply by 1 + weight.'}"
    )


def _of_negative(f, x, new, weight):
    half = (f(x, weight.double(), 1e-6) / new)[..., 0].mean()
    if abs(half - 0.5) < 1e-3:
        return None
    return (
        "When a weight goes from 0 to −0.5 its feature should become half as large, and yours is "
        f"multiplied by {half:.3g}: the gain is 1 + weight for negative weights too, without `abs` "
        "or `clamp`."
    )


def _added_alike(f, x, weight):
    """Whether a weight adds the same to x as to 10·x, of which the norm makes the same."""
    none, w = torch.zeros_like(weight).double(), weight.double()
    added = [f(k * x, w, 1e-9) - f(k * x, none, 1e-9) for k in (1, 10)]
    return torch.allclose(*added, rtol=1e-3, atol=1e-3)


def _not_negative(f):
    x = draw(2, 3, 5, dtype=torch.float64)
    if (f(x, torch.zeros(5).double(), 1e-6) * x).sum() >= 0:
        return None
    return "With a weight of zeros the output points against x. The gain is 1 + weight."


def _rounding(f):
    """Which further rounding there is, and what was returned."""
    x, w = _many.bfloat16(), _offsets.bfloat16()
    y = f.answer(x, w, 1e-6)
    return _gemma_rounds(y, x, w, 1e-6), y


def _whole_gemma_divisor(f):
    if _rounding(f)[0] != "the divisor":
        return None
    return (
        "In bfloat16 the features of a token are off by one factor, and those of another token by "
        "another. So the divisor was rounded to 16 bits: stay in float32 until the end."
    )


def _one_rounding(f):
    rounded, y = _rounding(f)
    if rounded != "twice":
        return None
    exact = _exact(_many.bfloat16(), 1 + _offsets.double(), 1e-6)
    return (
        f"In bfloat16 the error is {_error(y, exact):.2f} times that of rounding once: x is cast "
        "back before it is multiplied, and the product is rounded again. Multiply in float32 and "
        "cast last."
    )


def _whole_gain(f):
    rounded, y = _rounding(f)
    if rounded != "the gain":
        return None
    normed = _exact(_many.bfloat16(), torch.ones(1024), 1e-6)
    gain = _factors(y[..., SMALL], normed[..., SMALL]).mean().item()
    return (
        "In bfloat16 weights of 0.001 to 0.0035 should make the outputs 1.0023 times as large, and "
        f"make them {gain:.4f} times: 1 + 0.003 is 1 in bfloat16. Add the 1 to `weight.float()`."
    )


def _in_gemmas_words(rule):
    """A rule of plain RMSNorm, asked with Gemma's gain in the place of its weight."""

    def broken(f):
        said = rule.broken(lambda x, w, eps: f(x, w - 1, eps))
        return said and said.replace("weight one", "weight zero")

    return Property(rule.name, broken, rule.read)


def _with_gain(mistake):
    """A mistake of notebook 01, with Gemma's gain and casts."""

    def wrong(x, weight, eps):
        return mistake.wrong(x.float().clone(), 1 + weight.float(), eps).to(x.dtype)

    return dataclasses.replace(mistake, wrong=wrong)


def _of(y):
    """An answer with another last step: y is a function of h in float32, the weight and x."""
    return lambda x, w, eps: y(_normed(x, eps), w, x).to(x.dtype)


def _gain_in_place(x, w, eps):
    h = x.float()
    return h.mul_(torch.rsqrt(ms(h) + eps)).mul_(1 + w.float()).to(x.dtype)


_w = spread(5) - 1

GEMMA_NORM = Exercise(
    "gemma_norm",
    ("x", "weight", "eps"),
    gemma_norm,
    (
        _case(BFLOAT16, draw(2, 3, 5), _w, 1e-6),
        _case(torch.float32, draw(2, 3, 5), _w, 1e-6),
        _case(HALF, draw(4, 4, 4), spread(4) - 1, 1e-6, "all axes of one size"),
        _case(HALF, 300 * _signs(8).repeat(1, 2, 1), spread(8) - 1, 1e-6, "features of ±300"),
        _case(HALF, _with_256(64), spread(64) - 1, 1e-6, "ones, and one 256"),
        _case(HALF, _tiny_and_zeros(), spread(6) - 1, 1e-8, "features of ±0.0001, and zeros"),
        _case(torch.float32, 1e-3 * draw(1, 2, 5), _w, 1e-2, "a tiny x beside a large eps"),
        Case((draw(2, 3, 5, seed=1).bfloat16(), _w, 1e-6), "a weight of another dtype"),
        _case(BFLOAT16, _many, _offsets, 1e-6, "many features, some weights small"),
    ),
    (
        Mistake(
            "R70",
            _of(lambda h, w, x: h * w.float()),
            "This multiplies by the weight alone, as Llama does. Gemma's weights start at zero, "
            "and a new norm would give zeros: the gain is 1 + weight.",
            ORDER,
            convention=True,
            seen="https://github.com/linkedin/Liger-Kernel/issues/74",
        ),
        Mistake(
            "R73-float",
            lambda x, w, eps: _normed(x, eps).to(x.dtype) * (1 + w.float()),
            "The gain is in float32, as it should be, but x is cast back before it, and so the "
            "product stays float32. Multiply first, cast last.",
            ORDER,
        ),
        Mistake(
            "R70-llama",
            layers.rms_norm,
            "This is Llama's norm: cast back, then times the weight. Gemma's gain is 1 + weight, "
            "and its cast comes last.",
            ORDER,
            convention=True,
        ),
        Mistake(
            "R71",
            _of(lambda h, w, x: h * (2 + w.float())),
            "The 1 is added twice, so that a new norm doubles what it returns. It happens when a "
            "checkpoint's weights have the 1 already; these have not. Add it once.",
            ORDER,
            seen="https://github.com/utensils/mold/issues/1074",
        ),
        Mistake(
            "R73",
            lambda x, w, eps: _normed(x, eps).to(x.dtype) * (1 + w),
            "The cast comes before the gain, as in Llama. Then 1 + weight is in 16 bits, where a "
            "small weight is lost (in bfloat16 1 + 0.003 is 1), or a float32 weight leaks out. "
            "Multiply in float32, and cast last.",
            ORDER,
            seen="https://github.com/huggingface/transformers/pull/29402",
        ),
        Mistake(
            "gain-in-16-bits",
            lambda x, w, eps: (_normed(x, eps) * (1 + w)).to(x.dtype),
            "The 1 is added to the weight in 16 bits, where a small weight is lost: in bfloat16 "
            "1 + 0.003 is 1. Add it in float32, 1 + `weight.float()`.",
            ORDER,
        ),
        Mistake(
            "rounded-twice",
            lambda x, w, eps: (_normed(x, eps).to(x.dtype) * (1 + w.float())).to(x.dtype),
            "`x` is cast back before the gain multiplies it, and the product is rounded again: two "
            "roundings, and the second loses a small weight. Multiply in float32, cast last.",
            ORDER,
        ),
        Mistake(
            "divisor-rounded",
            lambda x, w, eps: (
                (x * torch.rsqrt(ms(x.float()) + eps).to(x.dtype)).float() * (1 + w.float())
            ).to(x.dtype),
            "The divisor is rounded to 16 bits before x is divided by it, so all features of a "
            "token are off by one factor. Stay in float32 until the end.",
            BFLOAT,
        ),
        Mistake(
            "R27",
            lambda x, w, eps: _normed(x, eps) * (1 + w.float()),
            "The result stays float32, and the next 16-bit layer refuses it. Cast it to the dtype "
            "that x came with. After `x = x.float()` that is lost: give the copy another name.",
            DTYPE,
            seen="https://github.com/vllm-project/vllm/pull/18500",
        ),
        Mistake(
            "to-the-weights-dtype",
            lambda x, w, eps: (_normed(x, eps) * (1 + w.float())).to(w.dtype),
            "The result has the dtype of the weight. It should have that of x, whatever the weight "
            "is stored in: `.to(x.dtype)`.",
            FLOAT32_WEIGHT,
        ),
        Mistake(
            "R25",
            lambda x, w, eps: (x * torch.rsqrt(ms(x) + eps) * (1 + w)).to(x.dtype),
            "The squares are in x's own 16 bits. In float16 300² is inf, one over its root 0, and "
            "the whole token silently becomes zeros. Begin with `x.float()`, and stay in float32 "
            "until the cast at the end.",
            SPIKE,
        ),
        Mistake(
            "R26",
            lambda x, w, eps: (
                x.float()
                * torch.rsqrt(x.square().float().mean(-1, keepdim=True) + eps)
                * (1 + w.float())
            ).to(x.dtype),
            "The cast to float32 comes *after* the square, which is inf or zero by then. First "
            "`x.float()`, then square.",
            UPCAST,
        ),
        Mistake(
            "R31",
            _gain_in_place,
            "It writes into `x`: for float32 input `x.float()` is x itself, and what follows works "
            "in place. Make a new tensor, without `_` or `*=`.",
            IN_PLACE,
        ),
        Mistake(
            "one-added-last",
            _of(lambda h, w, x: h * w.float() + 1),
            "The 1 is added to the *product*, like a bias. It is added to the weight: brackets "
            "around 1 + weight.",
            ORDER,
        ),
        Mistake(
            "one-added-first",
            _of(lambda h, w, x: 1 + h * (1 + w.float())),
            "There is a 1 too many, added to the product like a bias. The 1 belongs to the weight "
            "alone.",
            ORDER,
        ),
        Mistake(
            "x-added",
            _of(lambda h, w, x: x.float() + h * w.float()),
            "`x` itself is added, where the *normalised* x is meant: 1 + weight times h is "
            "h + h · weight.",
            ORDER,
        ),
        Mistake(
            "minus",
            _of(lambda h, w, x: h * (1 - w.float())),
            "The weight is subtracted from one. The gain is 1 *plus* the weight.",
            ORDER,
        ),
        Mistake(
            "minus-one",
            _of(lambda h, w, x: h * (w.float() - 1)),
            "One is taken away from the weight. These weights start at zero: the gain is "
            "1 + weight.",
            ORDER,
        ),
        Mistake(
            "divides",
            _of(lambda h, w, x: h / (1 + w.float())),
            "This divides by 1 + weight. The gain multiplies the normalised x.",
            ORDER,
        ),
        Mistake(
            "no-weight",
            _of(lambda h, w, x: h),
            "The weight is not used: this is what a new norm does, with weights of zero. Multiply "
            "by 1 + weight.",
            WEIGHT,
        ),
        Mistake(
            "gain-first",
            lambda x, w, eps: _normed(x.float() * (1 + w.float()), eps).to(x.dtype),
            "The gain multiplies *before* the statistic, which divides its size out again. "
            "Normalise x alone, then multiply.",
            WEIGHT,
        ),
        *(_with_gain(m) for m in RMS_MISTAKES if m.id in FORMULA),
    ),
    (
        Property("along x", _not_negative, ORDER),
        Property("one plus the weight", _offset, ORDER),
        *map(_in_gemmas_words, (rule for rule in RMS_RULES if rule.read != WEIGHT)),  # has its own
        *map(_in_gemmas_words, HALF_RULES),
        Property("the divisor stays whole", _whole_gemma_divisor, BFLOAT),
        Property("one rounding", _one_rounding, ORDER),
        Property("no small weight is lost", _whole_gain, ORDER),
    ),
    (
        "Everything is in float32 until the last step. What must be cast besides x?",
        "In bfloat16 1 + 0.003 is 1. So in which dtype should the 1 be added?",
        "`(normalised * (1 + weight.float())).to(x.dtype)`.",
    ),
    5,
    ORDER,
    call=_gemma,
)

EXERCISES = (RMS_NORM_HALF, GEMMA_NORM)
