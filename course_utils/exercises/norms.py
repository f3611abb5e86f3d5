"""Notebook 01's exercises: RMSNorm and LayerNorm as functions, RMSNorm as a module."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn

from .. import layers
from ..checker import Case, Exercise, Mistake, Property, same
from ._inputs import draw, spread

SHAPES = "01 Which shapes does the formula have?"
KEEPDIM = "01 Why was `keepdim` silent?"
TOKENS = "01 Do tokens see each other?"
CENTRE = "01 What does LayerNorm do besides?"
SHIFT = "01 Which one notices a shift?"
TESTS = "01 Would your test notice a wrong RMSNorm?"
WEIGHT = "01 What is `weight` for?"
HAND = "01 Four numbers by hand"
LENGTH = "02 Quiz: why is the length √n and not 1?"
EPS = "02 What does `eps` do?"
PLACE = "02 Inside or outside the root?"
WHICH_EPS = "03 Which `eps` is it?"
IN_PLACE = "03 Is `x.float()` a copy?"


def ms(x, dim=-1):
    """The mean square, with its axis kept."""
    return x.square().mean(dim, keepdim=True)


def _with_zeros(x):
    x[0, 1] = 0
    return x


_x, _w = draw(2, 3, 5), spread(5)
CASES = (
    Case((_x, _w, 1e-6), grad=True),
    Case((draw(4, 4, 4), spread(4), 1e-6), "all axes of one size"),
    Case((1e-3 * draw(1, 2, 6), spread(6), 1e-2), "a tiny x beside a large eps"),
    Case((_with_zeros(draw(2, 3, 5)), _w, 1e-6), "one token of zeros"),
    Case((torch.tensor([[[2.0] * 4, [1.0, -1.0, 1.0, -1.0]]]), spread(4), 1e-3), "simple tokens"),
    Case((draw(2, 3, 5, dtype=torch.float64), spread(5).double(), 1e-5), "float64"),
)


# --- rms_norm: what every right answer obeys. f: (x, weight, eps) -> y


def _alone(f):
    x, moved = draw(2, 3, 5), draw(2, 3, 5)
    if not same(*(f(x, torch.ones(5), 1e-6) for _ in range(2))):
        return "The same x gives another output the second time: nothing here is random."
    moved[1, 1] += 10
    others = (f(x, torch.ones(5), 1e-6) - f(moved, torch.ones(5), 1e-6)).abs().amax(-1) > 1e-4
    others[1, 1] = False
    if not others.any():
        return None
    of_its_own, of_the_other = others[1].any(), others[0].any()
    where = "of both sequences" if of_its_own and of_the_other else "of the other sequence"
    if not of_the_other:
        later = others[1].tolist() == [False, False, True]
        where = "only a later one, as a running sum does" if later else "of its own sequence"
    return (
        f"After one token has changed, {int(others.sum())} of the other 5 have too, {where}. Each "
        "token needs a statistic of its own: average over the features alone, `dim=-1`."
    )


def _scale(f):
    x, one = draw(2, 3, 5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)
    once, of_ten = f(x, one, 0.0), f(10 * x, one, 0.0)
    if not once.any():  # of which the weight's rule speaks
        return None
    ratio = ((of_ten * once).sum() / once.square().sum()).item()
    if abs(ratio - 1) < 0.01:  # rounding to 16 bits is named below
        return None
    known = {
        10: "the size of x goes straight through: nothing divides by it, or two steps cancel.",
        100: "it multiplies by the RMS where it should divide.",
        0.1: "it divides twice, or by the mean square itself. Is the root missing?",
        10**0.5: "x is divided by √RMS: a root too many, or a square too few.",
    }
    why = next((words for r, words in known.items() if abs(ratio / r - 1) < 0.01), None)
    if abs(ratio - 10) < 0.01 and torch.allclose(f(-x, one, 0.0), once):
        why = "it is the *square* of x that is divided by the RMS. Divide x itself."
    if torch.allclose(of_ten - once, 9 * x):
        why = "x itself is added to the result, as by a residual connection. Leave that out."
    why = why or "x is divided by something that does not grow as x does."
    return f"With x ten times larger the output changes by the factor {ratio:.3g}, not 1: {why}"


def _not_centred(f):
    one = torch.ones(4, dtype=torch.float64)
    equal = f(torch.full((1, 1, 4), 3.0, dtype=torch.float64), one, 1e-6).mean().item()
    if abs(equal - 1) > 1e-3:
        turned = f(torch.tensor([[[3.0, -3.0, 3.0, -3.0]]]).double(), one, 1e-6)[0, 0, 0].item()
        if abs(turned - 1) < 1e-3:
            return (
                f"(3, −3, 3, −3) rightly becomes ±1, but (3, 3, 3, 3) becomes {equal:.3g} and not "
                "1. So a mean is subtracted somewhere, as `var` and `std` do. Take the mean of x²."
            )
    return None


def _direction(f):
    x, one = draw(1, 1, 6, dtype=torch.float64) + 1, torch.ones(6, dtype=torch.float64)
    factor = (f(x, one, 1e-6) / x).flatten()
    if 1e-5 < factor.std() / factor.abs().mean() < 0.02:
        return (
            f"A token is divided by one number, but your features are multiplied by factors from "
            f"{factor.min():.4f} to {factor.max():.4f}: that is rounding. Something is in 16 bits."
        )
    if factor.std() > 1e-5 * factor.abs().mean():
        return (
            f"A token is divided by one number, but your features are multiplied by factors from "
            f"{factor.min():.3g} to {factor.max():.3g} (weight one). {_bent(f)}"
        )
    if factor[0] < 0:
        return "The output points against x: a sign is wrong."
    x = torch.ones(1, 1, 64, dtype=torch.float64)
    x[..., 7], x[..., 8] = 64, -1
    y = f(x, torch.ones_like(x[0, 0]), 1e-6)[0, 0]
    if y[0] * y[8] > 0:
        return "A −1 comes out as a 1 does: a sign is lost. Divide x itself, not |x|."
    if abs(y[7] / y[0] - 64) > 0.1:
        return (
            f"Among ones a 64 should stay 64 times as large, and yours is {y[7] / y[0]:.3g} times "
            "as large. Is a large number cut, by `clamp`? RMSNorm only divides."
        )
    return None


def _bent(f):
    """Why the features of a token are multiplied by different numbers."""
    x = torch.tensor([[[1.0, -1.0, 3.0, 5.0]]], dtype=torch.float64)
    y = f(x, torch.ones(4, dtype=torch.float64), 1e-9)[0, 0]
    x = x[0, 0]
    slope = (y[0] - y[1]) / 2
    offset = y[0] - slope
    shown = ", ".join(f"{v:.3g}".replace("-", "−") for v in y.tolist())
    said = f"(1, −1, 3, 5), of RMS 3, should become (0.333, −0.333, 1, 1.67). Yours is ({shown}): "
    if y.std() < 1e-6:
        return f"{said}all features come out alike. Is it a sum, or a matrix product?"
    if torch.allclose(y, slope * x + offset, atol=1e-6) and offset.abs() > 1e-6:
        if abs(offset / slope + 2) < 1e-3:
            return f"{said}the mean, 2, is subtracted from x. RMSNorm only divides."
        return f"{said}the same number is added to every feature. RMSNorm only divides."
    if y[0] * y[1] > 0:
        return f"{said}a −1 comes out as a 1 does, so a sign is lost. Divide x itself."
    if abs(y[2] / 3 - y[3] / 5) < 1e-6:
        return f"{said}the last two share a divisor. Is the statistic taken of parts of a token?"
    if y[0] > 0 and abs(y[3]) < abs(5 * y[0]) - 1e-6:
        return f"{said}large features are made too small, as by `clamp` or `tanh`."
    return f"{said}is the divisor another one for each feature?"


def _size(f):
    rms = []
    for n in (4, 16):
        x, one = draw(1, 3, n, dtype=torch.float64), torch.ones(n, dtype=torch.float64)
        rms.append(f(x, one, 0.0).square().mean(-1).sqrt().mean().item())
    if all(abs(r - 1) < 1e-3 for r in rms):
        return None
    growth = rms[1] / rms[0]
    counts = [n * r**2 for n, r in zip((4, 16), rms, strict=True)]
    tokens = ""
    if abs(4 * f(draw(1, 2, 4).double(), one[:4], 0.0).square().mean() / counts[0] - 2 / 3) < 0.02:
        tokens = " That is with 3 tokens, and it goes with their number."
    whole = all(abs(count - round(count)) < 1e-3 and round(count) > 1 for count in counts)
    if whole and abs(growth - 2) > 0.01:
        return (
            f"The sum of the squares should be divided by n, the number of features. It is divided "
            f"by {round(counts[0])} for n = 4, and by {round(counts[1])} for n = 16.{tokens}"
        )
    known = {
        0.5: _root_n_missing(f),
        2: "There is a factor √n too many: is x multiplied by √n, or its length divided by n?",
        0.25: "A factor n is missing.",
        4: "There is a factor n too many.",
    }
    why = next((words for g, words in known.items() if abs(growth / g - 1) < 0.01), None)
    why = why or _constant_factor(f)
    return (
        f"The RMS of the output should be 1 (weight one, eps zero). It is {rms[0]:.3g} for n = 4 "
        f"and {rms[1]:.3g} for n = 16. {why}"
    )


def _root_n_missing(f):
    """Whether √n divides a right result besides, or something in it is a sum."""
    squares = _divisor_squared(lambda *args: 2 * f(*args), 3.0)
    if any(abs(squares / right - 1) < 1e-3 for right in (3**2 + 5, (3 + 5) ** 2)):
        return "The squares are averaged, but the result is divided by √n besides: leave that out."
    return "A factor √n is missing: is there a sum, or a length, where the *mean* belongs?"


def _divisor_squared(f, feature, eps=5.0):
    """The square of what a token of four equal features is divided by."""
    x, one = torch.full((1, 1, 4), feature, dtype=torch.float64), torch.ones(4).double()
    return (feature / f(x, one, eps)[0, 0, 0]).square().item()


def _constant_factor(f):
    """Why the RMS is off by a factor that does not grow with n."""
    one = torch.ones(4, dtype=torch.float64)
    long = f(draw(1, 12, 4, dtype=torch.float64), one, 0.0).square().mean(-1).sqrt()
    short = f(draw(1, 3, 4, dtype=torch.float64), one, 0.0).square().mean(-1).sqrt()
    if abs(long[0, 0] / short[0, 0] - 1) > 1e-3:
        return "It depends on how many tokens there are: divide by the number of *features*, n."
    equal = f(torch.full((1, 1, 4), 3.0, dtype=torch.float64), one, 0.0).mean().item()
    if abs(equal - 1) < 1e-3:
        return _other_size(f)
    return f"A token of equal features, (3, 3, 3, 3), becomes {equal:.3g} and not 1."


def _other_size(f):
    """What a token is divided by that is not its RMS, and is so where all features are equal."""
    x = torch.tensor([[[-1.0, 3.0, 3.0, 5.0, 9.0]]], dtype=torch.float64)
    size = (5 / f(x, torch.ones(5, dtype=torch.float64), 0.0)[0, 0, 3]).abs().item()
    known = {9: "the largest of them", 4.2: "the mean of their |x|", 3: "the middle one of them"}
    known[3.8] = "the plain mean, without squares"
    for k in range(2, 5):
        known[ms(x[..., :k]).sqrt().item()] = f"the RMS of the first {k} alone"
    known[x.abs().pow(3).mean().item() ** (1 / 3)] = "the cube root of the mean of |x|³"
    known[x.pow(4).mean().item() ** 0.25] = "the fourth root of the mean of x⁴"
    why = next((f", {words}" for v, words in known.items() if abs(size / v - 1) < 1e-3), "")
    return (
        f"A token of equal features comes out right, but (−1, 3, 3, 5, 9), of RMS 5, is divided by "
        f"{size:.3g}{why}. Square each feature, average all of them, then take the root."
    )


def _weight(f):
    x, w = draw(2, 3, 5, dtype=torch.float64), spread(5).double()
    plain, weighted, twice = (f(x, v, 1e-6) for v in (torch.ones_like(w), w, 2 * w))
    if torch.allclose(weighted, plain * w, rtol=1e-4):
        return None
    if not plain.any():
        return "With a weight of ones nothing is left. Multiply by the weight itself, as it is."
    if torch.allclose(weighted, plain, rtol=1e-4):
        return "The weight changes nothing. Multiply the normalised x by it."
    if torch.allclose(twice, 4 * weighted, rtol=1e-4):
        return "The weight acts twice. Multiply by it once, after the division."
    share = (weighted / (plain * w)).nan_to_num()
    if torch.allclose(twice, weighted, rtol=1e-4) and share.std() < 1e-6:
        return "The weight is itself brought to one size before it multiplies. Use it as it is."
    if torch.allclose(twice, weighted, rtol=1e-4):
        return (
            "Twice the weight changes nothing: the weight is inside the statistic, which divides "
            "its size out again. Take the RMS of x alone; multiply by the weight afterwards."
        )
    if torch.allclose(2 * twice, weighted, rtol=1e-4):
        return "Twice the weight gives *half* the output. The weight multiplies."
    if (left := f(x, 0 * w, 1e-6)).abs().max() > 1e-6:
        return _left_of_zero(left, plain)
    return _by_feature(f, x, w, plain, weighted)


def _left_of_zero(left, plain):
    """Why a weight of zeros leaves something. plain: the output for ones."""
    why = "Is the weight added, or one added to it?"
    if torch.allclose(plain, 2 * left, rtol=1e-4):
        why = "It is half of what a weight of ones gives: is 1 added to the weight?"
    elif (left / plain).std() < 1e-6:
        why = "Is a function taken of the weight, such as `exp` or `sigmoid`?"
    elif torch.allclose(plain, 1 + left, rtol=1e-4, atol=1e-6):
        why = "A weight of ones gives 1 more: is the weight added to the normalised x?"
    return f"With a weight of zeros something is left. {why} It only multiplies."


def _by_feature(f, x, w, plain, weighted):
    """Why a weight that is a factor in some way is not the right one."""
    if torch.allclose(f(x, -w, 1e-6), weighted, rtol=1e-4):
        return "A negative weight does what a positive one does: leave out `abs` or the square."
    first = torch.zeros_like(w)
    first[0] = 1
    kept = [str(i) for i, some in enumerate(f(x, first, 1e-6).abs().amax((0, 1)) > 1e-6) if some]
    if kept != ["0"]:
        left = f"feature {' and '.join(kept)}" if 0 < len(kept) < 5 else "all" if kept else "none"
        return (
            "With the weight (1, 0, 0, 0, 0) feature 0 alone should be left. Yours leaves "
            f"{left}: each number of the weight multiplies the feature at its own place."
        )
    if (grows := f(x, 2 * torch.ones_like(w), 1e-6) / plain).std() < 1e-6:
        return (
            f"A weight of 2 gives {grows.mean():.3g} times what a weight of 1 gives, and should "
            "give twice that. Is a function taken of the weight? It multiplies as it is."
        )
    return (
        "The weight does not multiply feature by feature. f(x, weight) should be "
        "f(x, ones) · weight."
    )


def _eps(f):
    x, one = torch.full((1, 1, 4), 1e-3, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    y, other = (f(x, one, eps).mean().item() for eps in (3e-6, 1e-2))
    if abs(y - 0.5) < 1e-3 and abs(other / 0.0099995 - 1) < 1e-3:
        return None
    large = (_divisor_squared(f, 3.0, eps) for eps in (5.0, 2.0))
    if abs(y / other - 1) < 1e-3 and abs(next(large) - next(large)) < 1e-3:
        return "Another `eps` changes nothing: use the argument, under the root."
    if abs(y - 0.5) < 1e-3:
        return (
            "With every feature 0.001 and eps 0.01 the output should be 0.001/√(1e-6 + 0.01) = "
            f"0.01. It is {other:.3g}. {_eps_place(f)}"
        )
    return (
        "With every feature 0.001 and eps 3e-6 the output should be 0.001/√(1e-6 + 3e-6) = 0.5. "
        f"It is {y:.3g}. {_eps_place(f)}"
    )


def _eps_place(f):
    """What becomes of eps, by the divisor's square for features of 3 and eps 5."""
    squares = _divisor_squared(f, 3.0)
    known = {
        9 - 5: "It is as if `eps` were subtracted from the mean square: add it.",
        9 + 5**2: "It is as if `eps` were squared. It is in units of x² already.",
        9 + 5**0.5: "It is as if the root of `eps` were added. It is in units of x² already.",
        9 + 4 * 5: "`eps` counts n times: it is added once, to the mean.",
        9 + 5 / 4: "`eps` counts n times too little: it is added to the mean, not to the sum.",
        9 * (1 + 5): "`eps` counts as often as x is large: x was divided, by its largest feature "
        "or the like, before `eps` was added to its mean square. Take the squares of x itself.",
        (14**0.5 + 5) ** 2: "`eps` is added twice: under the root and behind it.",
        9 * (1 + 5 * 14 / 9): "x is normalised twice, and the second time its size is gone.",
        (3 + 5) ** 2: "`eps` stands outside the root, or is added to x.",
    }
    why = next((words for v, words in known.items() if abs(squares / v - 1) < 1e-4), None)
    if why:
        return why
    tiny = _divisor_squared(f, 1e-3, 3e-6) - 1e-6
    if abs(squares - 9) < 1e-3:
        return (
            "`eps` counts only where x is tiny: is the larger of the two taken? It is always added."
        )
    if abs(squares - 14) < 1e-3 and tiny > 3.1e-6:
        return f"It is as if `eps` were {tiny:.3g}: a small one is replaced. Use what is given."
    if (times := (squares - 9) / 5) > 0.01 and abs(
        (_divisor_squared(f, 3.0, 2.0) - 9) / 2 / times - 1
    ) < 1e-3:
        return (
            f"It is as if `eps` were {times:.3g} times as large: is it multiplied, or is x scaled "
            "before it is squared?"
        )
    return "`eps` is added to the mean square, under the root, and to nothing else."


def _zeros(f):
    y = f(torch.zeros(1, 1, 4), torch.ones(4), 1e-6)
    if not y.isfinite().all():
        return "A token of zeros becomes NaN or inf. `eps` under the root prevents 0/0."
    if y.abs().max() < 1e-6:
        return None
    return (
        f"A token of zeros should stay zero, and becomes {y[0, 0, 0]:.3g} with eps 1e-6. `eps` "
        "belongs to the divisor alone: is it, or another number, added to x or to the result?"
    )


RMS_RULES = (
    Property("each token alone", _alone, TOKENS),
    Property("the size goes", _scale, HAND),
    Property("the direction stays", _direction, CENTRE),
    Property("the weight once, after the statistic", _weight, WEIGHT),
    Property("nothing is centred", _not_centred, TESTS),
    Property("RMS one", _size, LENGTH),
    Property("zeros stay zero", _zeros, EPS),
    Property("eps under the root", _eps, EPS),
)


# --- rms_norm: the mistakes


def _no_keepdim(x, w, eps):
    return x / (x.square().mean(-1) + eps).sqrt() * w


def multiplied_in_place(x, w, eps):
    """A mistake: for float32 input `x.float()` is x itself."""
    h = x.float()
    return h.mul_(torch.rsqrt(ms(h) + eps)).to(x.dtype) * w


RMS_MISTAKES = (
    Mistake(
        "R01",
        lambda x, w, eps: x / torch.rsqrt(ms(x) + eps) * w,
        "This *multiplies* by the RMS: `rsqrt` is already one over the root, and dividing by it "
        "turns it round. Multiply by `rsqrt`, or divide by `sqrt`.",
        HAND,
        seen="https://github.com/mosaicml/llm-foundry/issues/371",
    ),
    Mistake(
        "R39",
        lambda x, w, eps: x * (ms(x).sqrt() + eps) * w,
        "This *multiplies* by the RMS, and adds eps outside the root. Divide by √(mean square "
        "+ eps).",
        HAND,
    ),
    Mistake(
        "R17",
        lambda x, w, eps: x / (ms(x) + eps) * w,
        "The root is missing: this divides by the mean *square*, so a larger x gives a smaller "
        "output. Take the square root of it.",
        HAND,
        seen="https://github.com/onnx/onnx/pull/6443",
    ),
    Mistake(
        "R18",
        lambda x, w, eps: x / (ms(x).sqrt() + eps).sqrt() * w,
        "There are two roots: this divides by √(RMS + eps), as PyTorch's documentation once read. "
        "`eps` is added to the mean square, and *one* root is taken.",
        HAND,
        seen="https://github.com/pytorch/pytorch/issues/144659",
    ),
    Mistake(
        "R07",
        lambda x, w, eps: x / (x.norm(dim=-1, keepdim=True) + eps) * w,
        "This divides by the *length* of the token, so the output is √n times too small. The RMS "
        "is the length over √n: a mean of squares, not their sum.",
        LENGTH,
        seen="https://github.com/lucidrains/x-transformers/issues/24",
    ),
    Mistake(
        "R09",
        lambda x, w, eps: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps) * w,
        "This *sums* the squares where it should average them: the output is √n times too small. "
        "Put `mean` in place of `sum`.",
        LENGTH,
        seen="https://github.com/patrick-kidger/equinox/pull/545",
    ),
    Mistake(
        "R15",
        lambda x, w, eps: x * torch.rsqrt(x.mean(-1, keepdim=True).square() + eps) * w,
        "This squares the mean, where it should average the squares. A token whose mean is zero is "
        "then divided by next to nothing. Square first.",
        HAND,
        seen="https://github.com/onnx/onnx/pull/6443",
    ),
    Mistake(
        "no-square",
        lambda x, w, eps: x * torch.rsqrt(x.mean(-1, keepdim=True) + eps) * w,
        "`x` is not squared: this is the root of its mean, which may even be negative. Square each "
        "feature, average, then take the root.",
        HAND,
    ),
    Mistake(
        "mean-abs",
        lambda x, w, eps: x / (x.abs().mean(-1, keepdim=True) + eps) * w,
        "This divides by the mean of |x|. It is another kind of size: square, average, then take "
        "the root.",
        HAND,
    ),
    Mistake(
        "R10",
        lambda x, w, eps: x * torch.rsqrt(x.var(-1, correction=0, keepdim=True) + eps) * w,
        "This divides by the standard deviation, which has the mean subtracted inside it. On "
        "centred input nobody would notice. RMSNorm takes the mean of x² itself.",
        TESTS,
        seen="https://github.com/huggingface/pytorch-image-models/issues/2380",
    ),
    Mistake(
        "R12",
        lambda x, w, eps: x / (x.std(-1, correction=0, keepdim=True) + eps) * w,
        "This divides by std + eps. A standard deviation has the mean subtracted inside it, and "
        "eps belongs under the root. Divide by √(mean square + eps).",
        TESTS,
        seen="https://github.com/catalyst-team/catalyst/pull/649",
    ),
    Mistake(
        "std-unbiased",
        lambda x, w, eps: x / (x.std(-1, keepdim=True) + eps) * w,
        "This divides by `x.std()`, which subtracts the mean, and divides by n − 1 besides. "
        "Divide by √(mean square + eps).",
        TESTS,
    ),
    Mistake(
        "var-unbiased",
        lambda x, w, eps: x * torch.rsqrt(x.var(-1, keepdim=True) + eps) * w,
        "This divides by the root of `x.var()`, which subtracts the mean, and divides by n − 1 "
        "besides. RMSNorm takes the mean of x² itself.",
        TESTS,
    ),
    Mistake(
        "R13",
        lambda x, w, eps: F.layer_norm(x, x.shape[-1:], w, None, eps),
        "This is LayerNorm: it subtracts the mean first. RMSNorm only divides.",
        CENTRE,
        seen="https://mwolf.dev/general/RMS-norm",
    ),
    Mistake(
        "centred-numerator",
        lambda x, w, eps: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(ms(x) + eps) * w,
        "The mean is subtracted from x, though the divisor is the right one. Leave the mean in.",
        CENTRE,
    ),
    Mistake(
        "R02",
        lambda x, w, eps: x * torch.rsqrt(ms(x, (1, 2)) + eps) * w,
        "There is one statistic for each sequence: tokens see each other, and a later one changes "
        "an earlier one. Average over the features alone, `dim=-1`.",
        TOKENS,
        seen="https://github.com/bkitano/llama-from-scratch/issues/4",
    ),
    Mistake(
        "R03",
        lambda x, w, eps: x * torch.rsqrt(x.square().mean() + eps) * w,
        "There is one statistic for the whole batch: `mean()` without `dim` averages everything. "
        "Each token needs its own: `mean(dim=-1, keepdim=True)`.",
        TOKENS,
    ),
    Mistake(
        "R04",
        lambda x, w, eps: x * torch.rsqrt(ms(x, 1) + eps) * w,
        "The mean is over the *tokens* (dim 1 of (B, T, D)), so each feature gets a statistic. "
        "Average over the features, the last axis: `dim=-1`.",
        TOKENS,
    ),
    Mistake(
        "R05",
        lambda x, w, eps: x * torch.rsqrt(ms(x, 0) + eps) * w,
        "The mean is over the *batch* (dim 0), so sequences see each other. Average over the "
        "features, the last axis: `dim=-1`.",
        TOKENS,
        seen="https://ttsugriy.github.io/llm-first-principles/stages/stage-06/common-mistakes",
    ),
    Mistake(
        "R06",
        _no_keepdim,
        "The statistic has lost its last axis: (B, T) is lined up with the *features* of x. With "
        "unequal sizes PyTorch raises; with equal ones it goes wrong in silence. Use "
        "`keepdim=True`.",
        KEEPDIM,
        seen="https://github.com/BobMcDear/attorch/issues/17",
    ),
    Mistake(
        "R19",
        lambda x, w, eps: x / (ms(x).sqrt() + eps) * w,
        "`eps` stands *outside* the root. The paper's own PyTorch file and early OLMo do so; Llama "
        "and PyTorch add it under the root, and so does this exercise: √(mean square + eps). "
        "They differ where x is small.",
        PLACE,
        convention=True,
        seen="https://github.com/allenai/OLMo/issues/281",
    ),
    Mistake(
        "R20",
        lambda x, w, eps: x * torch.rsqrt(ms(x)) * w,
        "`eps` is not used. A token of zeros becomes 0/0, NaN. Add eps to the mean square, under "
        "the root.",
        EPS,
        seen="https://github.com/harvard-edge/cs249r_book/pull/2059",
    ),
    Mistake(
        "R21",
        lambda x, w, eps: layers.rms_norm(x, w, 1e-6),
        "The argument `eps` is not used: yours is always 1e-6. Configs choose it (1e-5 in "
        "Llama 2 and 3), so use what is given.",
        WHICH_EPS,
        seen="https://github.com/apache/tvm/pull/15856",
    ),
    Mistake(
        "R21-1e-5",
        lambda x, w, eps: layers.rms_norm(x, w, 1e-5),
        "The argument `eps` is not used: yours is always 1e-5. Configs choose it (1e-6 in "
        "Llama 1 and Qwen), so use what is given.",
        WHICH_EPS,
        seen="https://github.com/meta-llama/llama/issues/771",
    ),
    Mistake(
        "R22",
        lambda x, w, eps: F.rms_norm(x, x.shape[-1:], w),
        "PyTorch's own function was not given `eps`, and takes the machine's, 1.19e-7 for float32. "
        "Pass it on: `eps=eps`.",
        WHICH_EPS,
        seen="https://github.com/simple-stories/simple_stories_train/issues/6",
    ),
    Mistake(
        "R24",
        lambda x, w, eps: x / ms(x).sqrt().clamp(min=eps) * w,
        "This takes the larger of RMS and eps. They differ only for small x: eps is *added* to "
        "the mean square, under the root.",
        EPS,
        seen="https://github.com/huggingface/diffusers/pull/13316",
    ),
    Mistake(
        "clamped-mean-square",
        lambda x, w, eps: x / ms(x).clamp(min=eps).sqrt() * w,
        "This takes the larger of mean square and eps. They differ only for small x: eps is "
        "*added* to the mean square.",
        EPS,
    ),
    Mistake(
        "eps-squared",
        lambda x, w, eps: x * torch.rsqrt(ms(x) + eps**2) * w,
        "`eps` is squared before it is added. It is in units of x² already: add it as it is.",
        EPS,
    ),
    Mistake(
        "eps-on-x",
        lambda x, w, eps: x * torch.rsqrt(ms(x + eps)) * w,
        "`eps` is added to x before the squares. It belongs behind the mean: √(mean square + eps).",
        EPS,
    ),
    Mistake(
        "R31",
        multiplied_in_place,
        "It writes into `x`, which the caller still needs: for float32 input `x.float()` *is* x, "
        "and what follows works in place. Make a new tensor, without `_` or `*=`.",
        IN_PLACE,
        seen="https://github.com/GeeeekExplorer/nano-vllm/issues/170",
    ),
    Mistake(
        "R32",
        lambda x, w, eps: x * torch.rsqrt(ms(x) + eps),
        "The weight is not used. Multiply the normalised x by it, feature by feature.",
        WEIGHT,
        seen="https://github.com/KellerJordan/modded-nanogpt/issues/1",
    ),
    Mistake(
        "R34",
        lambda x, w, eps: x * torch.rsqrt(ms(x) + eps) * (1 + w),
        "This multiplies by 1 + weight, as Gemma does, whose weights start at zero. Llama's start "
        "at one, and so do these: multiply by the weight alone.",
        WEIGHT,
        convention=True,
        seen="https://github.com/linkedin/Liger-Kernel/issues/74",
    ),
    Mistake(
        "weight-first",
        lambda x, w, eps: x * w * torch.rsqrt(ms(x * w) + eps),
        "The weight multiplies *before* the statistic, which then divides its size out again. "
        "Normalise x itself, then multiply.",
        WEIGHT,
    ),
    Mistake(
        "weight-in-statistic",
        lambda x, w, eps: x * torch.rsqrt(ms(x * w) + eps),
        "The weight is inside the statistic and nowhere else. The RMS is that of x alone; the "
        "weight multiplies afterwards.",
        WEIGHT,
    ),
    Mistake(
        "weight-divides",
        lambda x, w, eps: x * torch.rsqrt(ms(x) + eps) / w,
        "This divides by the weight. It multiplies: y = x / √(mean square + eps) · weight.",
        WEIGHT,
    ),
    Mistake(
        "weight-added",
        lambda x, w, eps: x * torch.rsqrt(ms(x) + eps) + w,
        "The weight is added, like a bias. It multiplies, feature by feature.",
        WEIGHT,
    ),
    Mistake(
        "identity",
        lambda x, w, eps: x * w,
        "`x` is not divided by anything yet. Divide it by √(mean square + eps) before the weight.",
        HAND,
    ),
    Mistake(
        "divisor-only",
        lambda x, w, eps: torch.sqrt(ms(x) + eps),
        "That is the divisor, one number a token. Divide x by it, and multiply by the weight.",
        SHAPES,
    ),
    Mistake(
        "detached",
        lambda x, w, eps: x * torch.rsqrt(ms(x.detach()) + eps) * w,
        "The values are right, but the gradient treats the RMS as a constant: something like "
        "`.detach()`, `.data` or `.item()` cuts it out.",
        "02 Where can the gradient point?",
    ),
)

RMS_NORM = Exercise(
    "rms_norm",
    ("x", "weight", "eps"),
    layers.rms_norm,
    CASES,
    RMS_MISTAKES,
    RMS_RULES,
    (
        "Three steps: the mean of the squares, one number a token; `eps` added, then the root; "
        "then x divided by it and multiplied by the weight.",
        "Which axis holds the features? And how does the statistic (B, T, 1) keep its last axis, "
        "so that it is stretched over them?",
        "`x.square().mean(dim=-1, keepdim=True)` is the statistic. `torch.rsqrt(s)` is 1/√s.",
    ),
    5,
    SHAPES,
)


# --- layer_norm


def _ln(x, w, b, eps, mean=True, correction=0, root=True, inside=True):
    c = x - x.mean(-1, keepdim=True) if mean else x
    v = c.var(-1, correction=correction, keepdim=True) if mean else ms(c)
    d = (v + eps).sqrt() if root and inside else v + eps if root is False else v.sqrt() + eps
    return c / d * w + b


_b = torch.tensor([0.5, -1.0, 0.25, 2.0, -0.5])
LN_CASES = (
    Case((_x, _w, _b, 1e-5), grad=True),
    Case((draw(4, 4, 4), spread(4), _b[:4], 1e-5), "all axes of one size"),
    Case((1e-3 * draw(1, 2, 5), _w, _b, 1e-2), "a tiny x beside a large eps"),
    Case((torch.full((1, 2, 5), 3.0), _w, _b, 1e-5), "equal features"),
    Case((draw(2, 3, 5, dtype=torch.float64), _w.double(), _b.double(), 1e-5), "float64"),
)


def _shift_free(f):
    x, one, zero = draw(2, 3, 5), torch.ones(5), torch.zeros(5)
    gap = (f(x + 3, one, zero, 1e-6) - f(x, one, zero, 1e-6)).abs().max().item()
    if gap > 1e-3:
        return (
            f"When 3 is added to every feature, the output moves by up to {gap:.3g}, and should "
            "stay. Subtract each token's mean, and take the statistic of what is left."
        )
    return None


def _only_bias(f):
    x, zero = draw(2, 3, 5), torch.zeros(5)
    y = f(x, zero, _b, 1e-6)
    if torch.allclose(y, _b.expand_as(x), atol=1e-4):
        return None
    if torch.allclose(y, -_b.expand_as(x), atol=1e-4):
        return "The bias is subtracted. It is added, at the end."
    if torch.allclose(y + 0 * x, f(x, _w, _b, 1e-6), atol=1e-4):
        return "The weight changes nothing. It multiplies what was divided, before the bias."
    start = "With a weight of zeros the bias alone should be left, and"
    if y.abs().max() < 1e-6:
        if torch.allclose(f(x, _w, zero, 1e-6), f(x, _w, _b, 1e-6), atol=1e-4):
            return f"{start} nothing is: the bias changes nothing. Add it at the end."
        if torch.allclose(f(x, _w, _b, 1e-6), f(x + _b, _w, zero, 1e-6), atol=1e-4):
            return f"{start} nothing is: the bias is added to x before the norm. It comes last."
        return f"{start} nothing is: the weight multiplies the bias too. Add the bias after it."
    if torch.allclose(y, 2 * _b.expand_as(x), atol=1e-4):
        return f"{start} yours is twice the bias: it is added two times."
    if torch.allclose(f(x, _w, zero, 1e-6), _w.expand_as(x), atol=1e-4):
        return (
            f"{start} there is more. With a bias of zeros the weight alone is left: weight and "
            "bias have changed places. The weight multiplies, the bias is added."
        )
    if torch.allclose(2 * (y - _b), f(x, zero + 1, zero, 1e-6), atol=1e-4):
        return (
            f"{start} there is half of what a weight of ones gives: 1 is added to the weight, as "
            "Gemma's RMSNorm does. It multiplies alone."
        )
    if torch.allclose(y - _b, f(x, zero + 1, zero, 1e-6) - 1, atol=1e-4):
        return f"{start} there is the normalised x too: the weight is added, and should multiply."
    if torch.allclose(y, f(x, _b, zero, 1e-6), atol=1e-4):
        return f"{start} there is more: the bias multiplies, and should be added, last."
    return (
        f"{start} there is more. The weight "
        "multiplies all of (x − mean)/√(variance + eps), then the bias is added: mind the brackets."
    )


def _affine(f):
    x, one, zero = draw(2, 3, 5), torch.ones(5), torch.zeros(5)
    plain = f(x, one, zero, 1e-6)
    if not torch.allclose(f(x, one, _b, 1e-6), plain + _b, atol=1e-4):
        return "The bias should be added once, at the end: f(x, ones, bias) = f(x, ones, 0) + bias."
    return _of_layer_norm(_weight)(f)


def _of_layer_norm(broken):
    """A rule of rms_norm, asked of a LayerNorm with bias zero."""

    def of_layer_norm(f):
        said = broken(lambda x, w, eps: f(x, w, torch.zeros_like(w), eps))
        return said and said.replace("RMS", "standard deviation").replace(
            "√standard", "√ of the standard"
        )

    return of_layer_norm


def _spread_one(f):
    x, one, zero = draw(1, 3, 6), torch.ones(6), torch.zeros(6)
    y = f(x, one, zero, 0.0)
    mean, rms = y.mean(-1).abs().max().item(), y.square().mean(-1).sqrt().mean().item()
    if mean > 1e-3:
        return f"The mean of an output should be 0, and is up to {mean:.3g} (weight 1, bias 0)."
    if abs(rms - 1) < 1e-3:
        return None
    why = "Divide by the root of the mean of (x − mean)²: squares, over n, of all features."
    if abs(rms - (5 / 6) ** 0.5) < 1e-3:
        why = "So the variance is over n − 1 = 5. Take the mean over n: `correction=0`."
    elif abs(rms - 6**-0.5) < 1e-3:
        why = "That is 1/√n: a sum, or a length, stands where the mean of (x − mean)² belongs."
    elif abs(f(torch.tensor([[[1.0, 1, -1, -1, 0, 0]]]), one, zero, 0.0)[0, 0, 0] - 1.5) < 1e-3:
        why = "It is as if |x − mean| were averaged: square first, average, then take the root."
    return (
        f"The standard deviation of an output should be 1 (n = 6, weight 1, bias 0, eps 0), and is "
        f"{rms:.4g}. {why}"
    )


def _ln_eps(f):
    x = torch.tensor([[[1e-3, -1e-3, 1e-3, -1e-3]]], dtype=torch.float64)
    one = torch.ones(4, dtype=torch.float64)
    y = f(x, one, 0 * one, 1e-2)[0, 0, 0].item()
    if abs(y / 0.0099995 - 1) > 1e-3:
        return (
            "With features ±0.001 and eps 0.01 the output should be ±0.001/√(1e-6 + 0.01) = ±0.01."
            f" It is {y:.3g}. {_ln_eps_place(f)}"
        )
    return None


def _ln_eps_place(f):
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)

    def first(x, w, eps):
        return f(x * signs, w, 0 * w, eps)

    return _eps_place(first).replace("mean square", "variance").replace("is added to x", "to x")


LAYER_NORM = Exercise(
    "layer_norm",
    ("x", "weight", "bias", "eps"),
    layers.layer_norm,
    LN_CASES,
    (
        Mistake(
            "rms",
            lambda x, w, b, eps: _ln(x, w, b, eps, mean=False),
            "The mean is not subtracted: this is RMSNorm with a bias. Subtract it before anything "
            "else.",
            CENTRE,
        ),
        Mistake(
            "centred-late",
            lambda x, w, b, eps: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(ms(x) + eps) * w + b,
            "The mean square is taken of x, before the mean is subtracted. Take it of x − mean.",
            CENTRE,
        ),
        Mistake(
            "only-divisor-centred",
            lambda x, w, b, eps: (
                x * torch.rsqrt(x.var(-1, correction=0, keepdim=True) + eps) * w + b
            ),
            "The divisor is right, but the mean is still in the numerator. Subtract it from x too.",
            CENTRE,
        ),
        Mistake(
            "unbiased",
            lambda x, w, b, eps: _ln(x, w, b, eps, correction=1),
            "`x.var()` divides by n − 1 unless told otherwise. LayerNorm divides by n: "
            "`correction=0`, or a mean of squares.",
            CENTRE,
        ),
        Mistake(
            "unbiased-std",
            lambda x, w, b, eps: (
                (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) * w + b
            ),
            "This divides by std + eps, with n − 1 in the std, as The Annotated Transformer does. "
            "PyTorch divides by √(variance + eps), over n, and so does this exercise.",
            CENTRE,
            convention=True,
        ),
        Mistake(
            "no-root",
            lambda x, w, b, eps: _ln(x, w, b, eps, root=False),
            "The root is missing: this divides by the variance. Divide by √(variance + eps).",
            CENTRE,
        ),
        Mistake(
            "eps-outside",
            lambda x, w, b, eps: _ln(x, w, b, eps, inside=False),
            "`eps` stands outside the root. Add it to the variance, under the root.",
            PLACE,
        ),
        Mistake(
            "no-eps",
            lambda x, w, b, eps: _ln(x, w, b, 0.0),
            "`eps` is not used. A token whose features are all equal becomes 0/0, NaN. Add it to "
            "the variance, under the root.",
            EPS,
        ),
        Mistake(
            "fixed-eps-1e-6",
            lambda x, w, b, eps: _ln(x, w, b, 1e-6),
            "The argument `eps` is not used: yours is always 1e-6, which `rms_norm` takes when "
            "nothing is passed on. Pass yours on.",
            WHICH_EPS,
        ),
        Mistake(
            "fixed-eps",
            lambda x, w, b, eps: _ln(x, w, b, 1e-5),
            "The argument `eps` is not used: yours is always 1e-5. Pass it on.",
            WHICH_EPS,
        ),
        Mistake(
            "no-bias",
            lambda x, w, b, eps: _ln(x, w, 0, eps),
            "The bias is not added. It comes last, after the weight.",
            CENTRE,
        ),
        Mistake(
            "no-weight",
            lambda x, w, b, eps: _ln(x, 1, b, eps),
            "The weight is not used. Multiply by it before the bias is added.",
            WEIGHT,
        ),
        Mistake(
            "bias-first",
            lambda x, w, b, eps: (_ln(x, 1, b, eps)) * w,
            "The bias is added before the weight, which then multiplies it too. Weight first, "
            "then bias.",
            CENTRE,
        ),
        Mistake(
            "no-affine",
            lambda x, w, b, eps: _ln(x, 1, 0, eps),
            "Neither weight nor bias is used. Multiply by the one, then add the other.",
            CENTRE,
        ),
        Mistake(
            "batch-norm",
            lambda x, w, b, eps: (
                (x - x.mean((0, 1))) * torch.rsqrt(x.var((0, 1), correction=0) + eps) * w + b
            ),
            "Mean and variance are taken over batch and tokens: that is BatchNorm. Each token has "
            "its own, over its features: `dim=-1`.",
            TOKENS,
        ),
        Mistake(
            "whole",
            lambda x, w, b, eps: F.layer_norm(x, x.shape) * w + b,
            "There is one mean and one variance for everything. Each token has its own, over its "
            "features: `dim=-1`.",
            TOKENS,
        ),
        Mistake(
            "no-keepdim",
            lambda x, w, b, eps: (
                (x - x.mean(-1)) * torch.rsqrt(x.var(-1, correction=0) + eps) * w + b
            ),
            "The statistics have lost their last axis: (B, T) is lined up with the features of x. "
            "Use `keepdim=True`.",
            KEEPDIM,
        ),
    ),
    (
        Property("each token alone", _of_layer_norm(_alone), TOKENS),
        Property("weight zero leaves the bias", _only_bias, WEIGHT),
        Property("no shift is seen", _shift_free, SHIFT),
        Property("the size goes", _of_layer_norm(_scale), HAND),
        Property("mean zero, spread one", _spread_one, CENTRE),
        Property("weight, then bias", _affine, WEIGHT),
        Property("eps under the root", _ln_eps, EPS),
    ),
    (
        "What is left to do, once the mean is subtracted?",
        "`x - x.mean(dim=-1, keepdim=True)` has mean zero. RMSNorm of that is the rest, up to the "
        "bias.",
        "You may call `rms_norm(…, weight, eps)`.",
    ),
    5,
    CENTRE,
)


# --- rms_norm_module


def _module(answer, dim, eps):
    """Build a layer and look at it: its parameters, what it returns new, what with weights set, and
    what goes back through it.
    """
    layer = answer(dim, eps)
    if not isinstance(layer, nn.Module):
        raise TypeError(f"it is no module, write class {answer.__name__}(nn.Module)")
    x = 1e-3 * draw(2, 3, dim)
    new = layer(x)
    held = [f"{n} {tuple(p.shape)}{frozen(p)}" for n, p in layer.named_parameters()]
    held += [f"{n} {tuple(b.shape)} (a buffer)" for n, b in layer.named_buffers()]
    held = ", ".join(held) or "none"
    if new is None:
        return held, new, new, new, new, False
    weight = getattr(layer, "weight", None)
    if torch.is_tensor(weight):
        with torch.no_grad():
            weight.copy_(spread(dim))
    long = (1e-3 * draw(1, 7, dim)).requires_grad_()
    y = layer(long.clone())  # not the leaf itself, into which nobody may write
    learns = torch.is_tensor(weight) and weight.requires_grad
    sources = [long, weight] if learns else [long]
    loss = (y * draw(1, 7, dim, seed=1)).sum() + 0 * long.sum()
    back = torch.autograd.grad(loss, sources, allow_unused=True)
    return held, new, layer(x), y, back[0], back[-1] is not None


def frozen(parameter):
    """A word to put behind the shape of a parameter that does not learn."""
    return "" if parameter.requires_grad else " frozen"


def _apply(answer, x, weight, eps):
    layer = answer(x.shape[-1], eps).to(x.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
    return layer(x)


def _of_module(broken):
    """A rule of rms_norm, asked of what a layer does."""
    return lambda f: broken(lambda x, w, eps: _apply(f.answer, x, w, eps))


class _Variant(nn.Module):
    """RMSNorm with one thing wrong: subclasses override."""

    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return layers.rms_norm(x, self.weight, self.eps)


def _with(norm):
    """A layer that puts a wrong rms_norm to work."""
    return type("_With", (_Variant,), {"forward": lambda self, x: norm(x, self.weight, self.eps)})


class _PlainTensor(_Variant):
    def __init__(self, dim, eps):
        nn.Module.__init__(self)
        self.eps, self.weight = eps, torch.ones(dim)


class _Buffer(_Variant):
    def __init__(self, dim, eps):
        nn.Module.__init__(self)
        self.eps = eps
        self.register_buffer("weight", torch.ones(dim))


class _Frozen(_Variant):
    def __init__(self, dim, eps):
        nn.Module.__init__(self)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim), requires_grad=False)


class _Bias(_Variant):
    def __init__(self, dim, eps):
        super().__init__(dim, eps)
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return super().forward(x) + self.bias


class _ByPosition(_Variant):
    def __init__(self, dim, eps):
        nn.Module.__init__(self)
        self.eps, self.weight = eps, nn.Parameter(torch.ones(16, dim))

    def forward(self, x):
        return layers.rms_norm(x, None, self.eps) * self.weight[: x.shape[1]]


class _NoSuper(_Variant):
    def __init__(self, dim, eps):
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))


class _IgnoresEps(_Variant):
    def __init__(self, dim, eps):
        super().__init__(dim, 1e-6)


class _RandomStart(_Variant):
    def __init__(self, dim, eps):
        super().__init__(dim, eps)
        self.weight = nn.Parameter(torch.randn(dim))


class _ZeroStart(_Variant):
    def __init__(self, dim, eps):
        super().__init__(dim, eps)
        self.weight = nn.Parameter(torch.zeros(dim))


class _Offset(_Variant):
    def forward(self, x):
        return layers.rms_norm(x, 1 + self.weight, self.eps)


class _OffsetZero(_ZeroStart, _Offset):
    pass


class _Data(_Variant):
    def forward(self, x):
        return layers.rms_norm(x, self.weight.data, self.eps)


class _ConstantStatistic(_Variant):
    def forward(self, x):
        with torch.no_grad():
            r = torch.rsqrt(ms(x) + self.eps)
        return x * r * self.weight


class _Unused(_Variant):
    def forward(self, x):
        return layers.rms_norm(x, None, self.eps)


class _Scalar(_Variant):
    def __init__(self, dim, eps):
        super().__init__(dim, eps)
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return layers.rms_norm(x, None, self.eps) * self.weight


# Mistakes of the function that are looked for in the module's forward too.
IN_MODULE = {
    *("R01", "R17", "R18", "R07", "R09", "R15", "R10", "R13", "R02", "R03", "R04", "R06"),
    *("R19", "R20", "mean-abs", "no-square", "weight-first", "weight-divides", "identity"),
}


def _module_parameters(f):
    held = f(6, 1e-6)[0]
    if held == "weight (6,)":
        return None
    what = (
        "Leave out what is more."
        if "weight (6,)" in held
        else "The name should be `weight`, as in a checkpoint."
        if held.endswith(" (6,)")
        else "An `nn.Parameter` of that shape, set in `__init__`, is registered by itself."
    )
    return (
        f"RMSNorm learns one thing, `weight`, of shape (dim,). Yours, with dim 6, learns: {held}. "
        f"{what}"
    )


def _module_start(f):
    ratio = f(6, 1e-6)[1] / layers.rms_norm(1e-3 * draw(2, 3, 6), None, 1e-6)
    if (ratio - 1).abs().max() < 1e-3:
        return None
    how = "feature by feature other numbers"
    if ratio.std() < 1e-3 * ratio.mean().abs():
        how = f"{ratio.mean():.3g} times that"
    return (
        "A new layer should be pure normalisation, with `weight` all ones. What yours returns is "
        f"{how}: at what does `weight` start?"
    )


def _module_gradient(f):
    *_, of_x, learns = f(6, 1e-6)
    if not of_x.any():
        return (
            "No gradient goes back through the layer: leave out `torch.no_grad()` and `.detach()`."
        )
    return None if learns else "The weight gets no gradient: use `self.weight` itself, no copy."


MODULE = Exercise(
    "rms_norm_module",
    ("dim", "eps"),
    layers.RMSNorm,
    (Case((6, 1e-5)), Case((4, 1e-6))),
    (
        Mistake(
            "R40",
            _PlainTensor,
            "`weight` is a plain tensor: no optimiser finds it, `state_dict` leaves it out, and "
            "`.to(device)` leaves it behind. Wrap it in `nn.Parameter`.",
            WEIGHT,
        ),
        Mistake(
            "R40-buffer",
            _Buffer,
            "`weight` is a buffer: it is saved and moved along, but no optimiser finds it. Make it "
            "an `nn.Parameter`.",
            WEIGHT,
        ),
        Mistake(
            "R40-frozen",
            _Frozen,
            "`weight` needs no gradient, so it never learns. A plain `nn.Parameter` does.",
            WEIGHT,
        ),
        Mistake(
            "detached",
            _ConstantStatistic,
            "The values are right, but the gradient of x treats the RMS as a constant. x is inside "
            "it too: leave out `torch.no_grad()`, `.detach()` and `.data`.",
            "02 Where can the gradient point?",
        ),
        Mistake(
            "weight-data",
            _Data,
            "The values are right, but the weight gets no gradient: `.data` or `.detach()` cuts "
            "it off. Multiply by `self.weight` itself.",
            WEIGHT,
        ),
        Mistake(
            "R46",
            _Bias,
            "There is a bias. RMSNorm has none: it learns `weight` alone, and a Llama checkpoint "
            "has no key for more.",
            WEIGHT,
            seen="https://github.com/Samsung/ONE/pull/14106",
        ),
        Mistake(
            "R47",
            _ByPosition,
            "The weight has one row for each position, so a longer sequence breaks it. It is one "
            "number per feature, (dim,), the same for every token.",
            WEIGHT,
            seen="https://github.com/bkitano/llama-from-scratch/issues/4",
        ),
        Mistake(
            "R50",
            _NoSuper,
            "`super().__init__()` is missing: `nn.Module` must be set up before a parameter is "
            "assigned. Call it first.",
            WEIGHT,
        ),
        Mistake(
            "R51",
            _IgnoresEps,
            "The constructor takes `eps` and does not keep it: yours is always 1e-6. Store it, "
            "`self.eps = eps`, and pass it on.",
            WHICH_EPS,
            seen="https://github.com/paiml/aprender/pull/1606",
        ),
        Mistake(
            "R43",
            _RandomStart,
            "`weight` starts at random numbers. It starts at ones, so that a new layer is pure "
            "normalisation.",
            WEIGHT,
        ),
        Mistake(
            "zero-start",
            _ZeroStart,
            "`weight` starts at zeros, so that a new layer returns zeros. It starts at ones. (Zero "
            "is Gemma's start, whose gain is 1 + weight.)",
            WEIGHT,
        ),
        Mistake(
            "R45",
            _Offset,
            "The gain is 1 + weight, and the weight starts at one: a new layer doubles what it "
            "returns. Multiply by the weight alone.",
            WEIGHT,
            seen="https://github.com/huggingface/transformers/pull/40796",
        ),
        Mistake(
            "gemma",
            _OffsetZero,
            "The gain is 1 + weight, from zero: that is Gemma's form. Llama's weight starts at "
            "ones and multiplies alone, and so it should here.",
            WEIGHT,
            convention=True,
        ),
        Mistake(
            "R32",
            _Unused,
            "`weight` exists but `forward` does not use it. Multiply the normalised x by it.",
            WEIGHT,
        ),
        Mistake(
            "one-number",
            _Scalar,
            "`weight` is a single number. It is one per feature: `torch.ones(dim)`.",
            WEIGHT,
        ),
        *(replace(m, wrong=_with(m.wrong)) for m in RMS_MISTAKES if m.id in IN_MODULE),
    ),
    (
        Property("one parameter", _module_parameters, WEIGHT),
        *(Property(rule.name, _of_module(rule.broken), rule.read) for rule in RMS_RULES),
        Property("starts as pure normalisation", _module_start, WEIGHT),
        Property("the gradient goes back", _module_gradient, WEIGHT),
    ),
    (
        "`__init__` keeps `eps` and makes the weight; `forward` does what your function did.",
        "`nn.Parameter(torch.ones(dim))`, after `super().__init__()`.",
    ),
    5,
    WEIGHT,
    (
        "the list of parameters",
        "the new layer's output",
        "the output",
        "a longer output",
        "the gradient of x",
        "whether the weight learns",
    ),
    _module,
)

EXERCISES = (RMS_NORM, LAYER_NORM, MODULE)
