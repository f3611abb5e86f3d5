"""Notebook 08's exercises: the block, the stack of blocks, and the norm inside attention."""

import dataclasses
import operator
import re

import torch
import torch.nn.functional as F
from torch import nn

from .. import layers
from ..checker import Case, Exercise, Mistake, Property
from ..layers import llama_block, rms_norm
from ._inputs import draw, spread
from .norms import RMS_MISTAKES, RMS_RULES, ms

LEAVES = "08 What leaves the block?"
TWO_LINES = "08 Which two lines is that?"
ZERO = "08 What if both sublayers return zero?"
ELSE = "08 Where else could the norm go?"
QUIZ = "08 Quiz: why is Llama called a pre-norm model?"
INSIDE = "08 Exercise, optional: a norm inside attention"
KEEPDIM = "01 Why was `keepdim` silent?"
TOKENS = "01 Do tokens see each other?"
CENTRE = "01 What does LayerNorm do besides?"
LENGTH = "02 Quiz: why is the length √n and not 1?"
WEIGHT = "01 What is `weight` for?"
CAST_BACK = "03 Quiz: what is `x.float()` … cast back for?"


# --- What the two exercises with functions share: a record of who was called


class Part(nn.Module):
    """A function that notes each call of it. A module, so that nn.Sequential takes it too."""

    def __init__(self, name, function, calls):
        super().__init__()
        self.name, self.function, self.calls = name, function, calls

    def forward(self, h):
        self.calls.append(self.name)
        return self.function(h)


def _in_words(calls):
    return " → ".join(calls) or "none"


PARTS = ("the result", "the order of calls")


def _counts(wanted, order):
    """What is wrong with how often each part was called, or None."""
    calls = order.split(" → ")
    missing = [name for name in wanted if name not in calls]
    often = [name for name in wanted if calls.count(name) > 1]
    if not missing and not often:
        return None
    said = [(missing, "never called"), (often, "called more than once")]
    said = [_are(names, what) for names, what in said if names]
    return (
        f"Each part is called once: {_in_words(wanted)}. Your order of calls is {order}: "
        f"{'; '.join(said)}."
    )


def _are(names, what):
    *others, last = [f"`{name}`" for name in names]
    return f"{', '.join(others)} and {last} are {what}" if others else f"{last} is {what}"


# --- llama_block


def _run_block(answer, x, *parts):
    calls = []
    names = ("attn", "ffn", "norm1", "norm2")
    y = answer(x, *(Part(n, p, calls) for n, p in zip(names, parts, strict=True)))
    return y, _in_words(calls)


def _attn(h):
    return 0.5 * h.cumsum(1).flip(-1)  # a token reads itself and the earlier ones


def _ffn(h):
    return F.silu(h) * h.roll(1, -1)


def _norm(weight):
    return lambda h: rms_norm(h, weight)


def _norms(count, dtype=torch.float32):
    """Two norms with other weights, so that a mix-up shows."""
    return _norm(spread(count).to(dtype)), _norm((1.5 - spread(count)).to(dtype))


_one = torch.ones(1, 1, 4)
_brought = torch.tensor([0.0, -2.0, 2.0, 4.0])
BLOCK_CASES = (
    Case((_one, lambda h: _brought + 0 * h, lambda h: 3 * h, rms_norm, rms_norm), "the example"),
    Case((draw(2, 3, 5), _attn, _ffn, *_norms(5)), grad=True),
    Case((draw(4, 4, 4), _attn, _ffn, *_norms(4)), "all axes of one size"),
    Case((100 * draw(1, 2, 6), _attn, _ffn, *_norms(6)), "a long stream"),
    Case((draw(2, 3, 5), torch.zeros_like, torch.zeros_like, *_norms(5)), "sublayers of zeros"),
    Case((draw(2, 3, 5, dtype=torch.float64), _attn, _ffn, *_norms(5, torch.float64)), "float64"),
)
ORDER = ("norm1", "attn", "norm2", "ffn")
# What each part returns where it is asked what the others read: each digit is one of them.
DIGITS = {"x": 1, "norm1": 10, "attn": 100, "norm2": 1000, "ffn": 10000}
SAY = "Say x is 1, and norm1, attn, norm2 and ffn return 10, 100, 1000 and 10000."


def _once(f):
    return _counts(ORDER, f(*BLOCK_CASES[1].args)[1])


def _turns(f):
    order = f(*BLOCK_CASES[1].args)[1]
    if order == _in_words(ORDER):
        return None
    at = {name: order.split(" → ").index(name) for name in ORDER}
    early = [at["norm1"] < at["attn"], at["norm2"] < at["ffn"]]
    if at["ffn"] < at["attn"]:
        why = "The FFN comes before attention, and should come after it."
    elif at["norm2"] < at["norm1"]:
        why = "The norms have changed places: norm1 is attention's, norm2 the FFN's."
    elif early == [False, False]:
        why = "Each norm comes after its sublayer, which then reads the bare stream."
    elif early == [False, True]:
        why = "norm1 comes after attention, which then reads the bare stream."
    elif early == [True, False]:
        why = "norm2 comes after the FFN, which then reads the bare stream."
    else:
        why = "norm2 comes before attention, and cannot read what attention adds."
    return f"Your order of calls is {order}. It should be {_in_words(ORDER)}. {why}"


def _hands_on(f):
    x = 5 * draw(2, 3, 4, dtype=torch.float64)
    y = f(x, torch.zeros_like, torch.zeros_like, *_norms(4, torch.float64))[0]
    if torch.allclose(y, x):
        return None
    start = "With sublayers that return zeros the block should hand x on as it is."
    if y.abs().max() < 1e-9:
        return f"{start} Yours returns zeros: nothing carries x past a sublayer. Add x to it."
    factor = y / x
    if factor.std() < 1e-6:
        why = "is x, or a sum, scaled?" if factor.mean() < 2 else "is x added more than once?"
        return f"{start} Yours returns {factor.mean():.3g} times x: {why}"
    kept = (factor - 1).abs() < 1e-6
    if kept.any():
        return (
            f"{start} Yours changes {int((~kept).sum())} of {kept.numel()} numbers and leaves the "
            "others: is an activation, or a `clamp`, in the stream? Only sums belong there."
        )
    return (
        f"{start} Yours brings its RMS from {ms(x, (0, 1, 2)).sqrt().item():.3g} to "
        f"{ms(y, (0, 1, 2)).sqrt().item():.3g}. Is a norm in the stream? It belongs in the "
        "branch, before the sublayer; the sum takes x itself."
    )


def _noting(digits, names):
    """An x, parts that return their digit, and a dict in which they note what they read."""
    seen = {}

    def part(name):
        def returns(h):
            seen[name] = h.mean().item()
            return torch.full_like(h, digits[name])

        return returns

    return torch.full((1, 1, 4), digits["x"], dtype=torch.float64), [*map(part, names)], seen


def _read(f, digits):
    """What each part reads, and the result, as sums of DIGITS."""
    x, parts, seen = _noting(digits, ("attn", "ffn", "norm1", "norm2"))
    y = f(x, *parts)[0]
    return seen | {"y": y.mean().item()}


def _sum(read, name, digits):
    """What one part reads, as a sum of digits, in words. read: what all read, for other digits."""
    value = read(digits)[name]
    shares = {d: read({**digits, d: digits[d] + 1.0})[name] - value for d in digits}
    said = f"{round(value, 3):.12g}".replace("-", "−")
    if abs(sum(shares[d] * digits[d] for d in digits) - value) > 1e-6 * (1 + abs(value)):
        return (
            f"{said}, no sum of these: is something multiplied, a number added, or a function such "
            "as `tanh` taken?"
        )
    terms = [(shares[d], d) for d in digits if abs(shares[d]) > 1e-6]
    words = " + ".join(d if abs(k - 1) < 1e-6 else f"{k:.3g}·{d}" for k, d in terms) or "nothing"
    return (
        f"{said}, which is {words.replace('+ -1·', '− ').replace('+ -', '− ').replace('-', '−')}."
    )


def _reads(f):
    seen = _read(f, DIGITS)
    wanted = {"norm1": (1, "x"), "attn": (10, "norm1"), "norm2": (101, "x + attn")}
    for name, (value, words) in {**wanted, "ffn": (1000, "norm2")}.items():
        if abs(seen[name] - value) > 1e-6:
            return (
                f"{SAY} Then {name} should read {value}, which is {words}. It reads "
                f"{_sum(lambda digits: _read(f, digits), name, DIGITS)}"
            )
    return None


def _adds(f):
    y = _read(f, DIGITS)["y"]
    if abs(y - 10101) < 1e-6:
        negative = _read(f, {name: -digit for name, digit in DIGITS.items()})
        return _of_negative(negative["y"], 10101)
    return (
        f"{SAY} Then the result should be 10101, which is x + attn + ffn. It is "
        f"{_sum(lambda digits: _read(f, digits), 'y', DIGITS)}"
    )


def _of_negative(y, positive):
    if abs(y + positive) < 1e-6:
        return None
    return (
        f"If all parts return positive numbers the result is right. If all of them, and x, are "
        f"negative, it should be −{positive}, and is {y:.6g}: an activation or `abs` is too much."
    ).replace("-", "−")


def _passes_gradient(f):
    x = draw(1, 2, 4, dtype=torch.float64).requires_grad_()
    y = f(x, torch.zeros_like, torch.zeros_like, *_norms(4, torch.float64))[0]
    (g,) = torch.autograd.grad(y.sum() + 0 * x.sum(), x)
    if (g - 1).abs().max() < 1e-6:
        return None
    return (
        "With sublayers that return zeros the gradient should pass the block unchanged, by the "
        f"sum. Yours is multiplied by {g.mean():.3g}: does `.detach()` or `.data` cut it?"
    )


BLOCK_RULES = (
    Property("each part once", _once, LEAVES),
    Property("norm, sublayer, norm, sublayer", _turns, TWO_LINES),
    Property("zero sublayers hand x on", _hands_on, ZERO),
    Property("each part reads the right thing", _reads, TWO_LINES),
    Property("the result is x plus both", _adds, LEAVES),
    Property("the gradient passes", _passes_gradient, ZERO),
)


def _residual_is_normed(x, a, f, n1, n2):
    h = n1(x)
    h = n2(h + a(h))
    return h + f(h)


def _first_residual_is_normed(x, a, f, n1, n2):
    h = n1(x)
    h = h + a(h)
    return h + f(n2(h))


def _second_residual_is_normed(x, a, f, n1, n2):
    h = n2(x + a(n1(x)))
    return h + f(h)


def _block(attend, feed):
    """A block of two steps. attend: (x, a, n1, n2) -> h. feed: (h, f, n1, n2, x) -> y."""
    return lambda x, a, f, n1, n2: feed(attend(x, a, n1, n2), f, n1, n2, x)


def _attend(x, a, n1, _):
    return x + a(n1(x))


def _feed(h, f, _, n2, _x):
    return h + f(n2(h))


def _post(x, a, f, n1, n2):
    return n2((h := n1(x + a(x))) + f(h))


def _parallel_one_norm(x, a, f, n1, n2):
    h = n1(x)
    return x + a(h) + f(h)


def _norm_for_nothing(x, a, f, n1, n2):
    n1(x)
    h = x + a(x)
    n2(h)
    return h + f(h)


def _in_place(x, a, f, n1, n2):
    x += a(n1(x))
    x += f(n2(x))
    return x


def _branches(x, a, f, n1, n2):
    h = a(n1(x))
    return h + f(n2(x + h))


def _reads_attention_alone(x, a, f, n1, n2):
    h = a(n1(x))
    return x + h + f(n2(h))


def _ffn_first(x, a, f, n1, n2):
    h = x + f(n1(x))
    return h + a(n2(h))


def _ffn_step_first(x, a, f, n1, n2):
    h = x + f(n2(x))
    return h + a(n1(h))


BLOCK_MISTAKES = (
    Mistake(
        "L01",
        _residual_is_normed,
        "The sums carry norm(x): each norm stands in the stream, and x itself is lost. The norm "
        "belongs in the branch alone: x + f(norm(x)).",
        ZERO,
        seen="https://github.com/Howuhh/faster-trajectory-transformer/issues/3",
    ),
    Mistake(
        "L01-attention",
        _first_residual_is_normed,
        "The first sum carries norm1(x): x itself is lost at once. What is added to attention is "
        "x as it came; norm1(x) is for attention to read.",
        ZERO,
        seen="https://github.com/lbcb-sci/RiNALMo/issues/9",
    ),
    Mistake(
        "L01-ffn",
        _second_residual_is_normed,
        "The second sum carries norm2 of the stream. What is added to the FFN is the stream as it "
        "is; norm2 of it is for the FFN to read.",
        TWO_LINES,
    ),
    Mistake(
        "norms-late",
        _block(
            lambda x, a, n1, n2: x + n1(a(x)),
            lambda h, f, n1, n2, x: n2(h + f(h)),
        ),
        "Each norm comes after its sublayer, which then reads the bare stream. Here the norm comes "
        "first: a sublayer reads a normalised x, and x itself is what it is added to.",
        QUIZ,
    ),
    Mistake(
        "L02",
        _post,
        "This is post-norm, norm(x + f(x)): the stream itself goes through every norm. The first "
        "Transformer, BERT and GPT-1 have it; this exercise asks for Llama's pre-norm, "
        "x + f(norm(x)).",
        ELSE,
        convention=True,
        seen="https://github.com/karpathy/minGPT/pull/52",
    ),
    Mistake(
        "norm1-late",
        _block(lambda x, a, n1, n2: x + n1(a(x)), _feed),
        "`norm1` comes after attention, which then reads the bare stream. Attention reads norm1 of "
        "x; what it returns is added as it is.",
        QUIZ,
    ),
    Mistake(
        "norm2-late",
        _block(_attend, lambda h, f, n1, n2, x: h + n2(f(h))),
        "`norm2` comes after the FFN, which then reads the bare stream. The FFN reads norm2 of it; "
        "what it returns is added as it is.",
        QUIZ,
    ),
    Mistake(
        "L02-attention",
        _block(lambda x, a, n1, n2: n1(x + a(x)), _feed),
        "The first step is post-norm, norm1(x + attn(x)); the second is right. Attention reads "
        "norm1(x), and is added to x.",
        ELSE,
    ),
    Mistake(
        "L02-ffn",
        _block(_attend, lambda h, f, n1, n2, x: n2(h + f(h))),
        "The second step is post-norm, norm2(x + ffn(x)); the first is right. The FFN reads "
        "norm2(x), and is added to x.",
        ELSE,
    ),
    Mistake(
        "L03",
        _block(lambda x, a, n1, n2: x + n1(a(x)), lambda h, f, n1, n2, x: h + n2(f(h))),
        "The norms are on what the sublayers *return*, x + norm(f(x)), as in OLMo 2. Llama's are "
        "on what they *read*, and so it should be here: x + f(norm(x)).",
        ELSE,
        convention=True,
    ),
    Mistake(
        "both-sides",
        _block(lambda x, a, n1, n2: x + n1(a(n1(x))), lambda h, f, n1, n2, x: h + n2(f(n2(h)))),
        "Each norm stands before its sublayer and behind it too. Gemma 2 has norms on both sides, "
        "four of them; Llama has two, each before its sublayer.",
        QUIZ,
    ),
    Mistake(
        "pre-and-post",
        _block(lambda x, a, n1, n2: n1(x + a(n1(x))), lambda h, f, n1, n2, x: n2(h + f(n2(h)))),
        "Each norm is used before its sublayer and again after the sum, so that the stream itself "
        "is normalised. Leave the second use out.",
        ELSE,
    ),
    Mistake(
        "normed-at-the-end",
        lambda x, a, f, n1, n2: n2(llama_block(x, a, f, n1, n2)),
        "`norm2` is used once more, after the FFN. The stream leaves a block as it is; one more "
        "norm stands after the *last* block of a model.",
        ZERO,
    ),
    Mistake(
        "L04",
        _block(_attend, lambda h, f, n1, n2, x: h + f(n2(x))),
        "`norm2` reads the old x, so that attention and FFN work side by side: GPT-NeoX's parallel "
        "block. In Llama they work in turn: `norm2` reads x after attention was added.",
        TWO_LINES,
        convention=True,
    ),
    Mistake(
        "no-norm2",
        _block(_attend, lambda h, f, n1, n2, x: h + f(h)),
        "`norm2` is not used, so the FFN reads the bare stream, whatever its size. It reads "
        "norm2 of it.",
        ELSE,
    ),
    Mistake(
        "parallel-one-norm",
        _parallel_one_norm,
        "Attention and FFN both read norm1(x), side by side, and `norm2` is not used: the parallel "
        "block of GPT-J and PaLM. In Llama they work in turn, and norm2 reads x after attention "
        "was added.",
        TWO_LINES,
        convention=True,
    ),
    Mistake(
        "no-norm1",
        _block(lambda x, a, n1, n2: x + a(x), _feed),
        "`norm1` is not used, so attention reads the bare stream, whatever its size. It reads "
        "norm1 of it.",
        ELSE,
    ),
    Mistake(
        "no-norms",
        _block(lambda x, a, n1, n2: x + a(x), lambda h, f, n1, n2, x: h + f(h)),
        "Neither norm is used, so each sublayer reads the bare stream, and a stack of such blocks "
        "explodes. Each sublayer reads its norm of it.",
        ELSE,
    ),
    Mistake(
        "norm-for-nothing",
        _norm_for_nothing,
        "The norms are called, but what they return is used nowhere: each sublayer reads the bare "
        "stream. Hand on what the norm returns, and keep x for the sum.",
        TWO_LINES,
    ),
    Mistake(
        "L06",
        _block(_attend, lambda h, f, n1, n2, x: h + f(n1(h))),
        "`norm1` stands in both places, and the weight of `norm2` would never learn. The FFN has "
        "a norm of its own, norm2.",
        TWO_LINES,
    ),
    Mistake(
        "norm2-twice",
        _block(lambda x, a, n1, n2: x + a(n2(x)), _feed),
        "`norm2` stands in both places, and the weight of `norm1` would never learn. Attention has "
        "a norm of its own, norm1.",
        TWO_LINES,
    ),
    Mistake(
        "norms-swapped",
        _block(lambda x, a, n1, n2: x + a(n2(x)), lambda h, f, n1, n2, x: h + f(n1(h))),
        "The norms have changed places. With new weights, all ones, nobody would notice; with a "
        "checkpoint's the output is wrong. norm1 is attention's, norm2 the FFN's.",
        TWO_LINES,
    ),
    Mistake(
        "L08",
        _block(lambda x, a, n1, n2: x + a(n1(n1(x))), lambda h, f, n1, n2, x: h + f(n2(n2(h)))),
        "Each norm is applied twice. With weights of one that changes nothing; with learned ones "
        "it does. Normalise once.",
        TWO_LINES,
        seen="https://github.com/ggml-org/llama.cpp/pull/1925",
    ),
    Mistake(
        "no-residual",
        _block(lambda x, a, n1, n2: a(n1(x)), lambda h, f, n1, n2, x: f(n2(h))),
        "Nothing carries x past the sublayers: each result takes the place of its input. Add it: "
        "x + f(norm(x)), twice.",
        LEAVES,
    ),
    Mistake(
        "no-residual-attention",
        _block(lambda x, a, n1, n2: a(n1(x)), _feed),
        "What attention returns takes the place of x. It is added to x; only then comes norm2.",
        LEAVES,
    ),
    Mistake(
        "no-residual-ffn",
        _block(_attend, lambda h, f, n1, n2, x: f(n2(h))),
        "What the FFN returns takes the place of the stream. It is added to it, as attention's "
        "result was.",
        LEAVES,
    ),
    Mistake(
        "one-residual",
        lambda x, a, f, n1, n2: x + f(n2(a(n1(x)))),
        "There is one sum around both sublayers, so that the FFN reads attention alone. There are "
        "two sums: one after attention, one after the FFN.",
        LEAVES,
    ),
    Mistake(
        "old-residual",
        _block(_attend, lambda h, f, n1, n2, x: x + f(n2(h))),
        "The FFN is added to the *old* x, so that what attention brought is lost from the stream. "
        "Add it to the x that attention was added to.",
        LEAVES,
    ),
    Mistake(
        "x-twice",
        _block(_attend, lambda h, f, n1, n2, x: x + h + f(n2(h))),
        "`x` is added twice: the sum after attention holds it already. Add the FFN to that sum "
        "alone.",
        LEAVES,
    ),
    Mistake(
        "branches-only",
        _branches,
        "What the two sublayers return is added up, but x itself is not in the result. It is "
        "x + attention + FFN.",
        LEAVES,
    ),
    Mistake(
        "norm2-reads-attention",
        _reads_attention_alone,
        "`norm2` reads what attention returned, without x. It reads the sum of both, the stream.",
        TWO_LINES,
    ),
    Mistake(
        "ffn-first",
        _ffn_first,
        "The FFN comes before attention. In Llama attention comes first, with norm1, and then the "
        "FFN, with norm2.",
        LEAVES,
    ),
    Mistake(
        "ffn-step-first",
        _ffn_step_first,
        "The two steps have changed places, FFN first. In Llama the step with attention comes "
        "first, and norm2 reads its result.",
        LEAVES,
    ),
    Mistake(
        "attention-alone",
        lambda x, a, f, n1, n2: x + a(n1(x)),
        "The second step is missing: `norm2` and the FFN are never called. Do the same once more "
        "with them.",
        LEAVES,
    ),
    Mistake(
        "ffn-alone",
        lambda x, a, f, n1, n2: x + f(n2(x)),
        "The first step is missing: `norm1` and attention are never called. Begin with them.",
        LEAVES,
    ),
    Mistake(
        "attention-twice",
        lambda x, a, f, n1, n2: x + a(n1(x)) + f(n2(x + a(n1(x)))),
        "`norm1` and attention are run twice, which doubles their cost, though the second run "
        "brings nothing new. Give x + attention a name, and use it in both places.",
        TWO_LINES,
    ),
    Mistake(
        "averaged",
        _block(
            lambda x, a, n1, n2: (x + a(n1(x))) / 2,
            lambda h, f, n1, n2, x: (h + f(n2(h))) / 2,
        ),
        "The sums are halved, as in an average. Each block would then forget three quarters of x. "
        "Add without dividing.",
        LEAVES,
    ),
    Mistake(
        "product",
        _block(lambda x, a, n1, n2: x * a(n1(x)), lambda h, f, n1, n2, x: h * f(n2(h))),
        "`x` is *multiplied* by what a sublayer returns. The stream is a sum: with a sublayer of "
        "zeros x goes on as it is.",
        ZERO,
    ),
    Mistake(
        "minus",
        _block(lambda x, a, n1, n2: x - a(n1(x)), lambda h, f, n1, n2, x: h - f(n2(h))),
        "What the sublayers return is subtracted. It is added to the stream.",
        LEAVES,
    ),
    Mistake(
        "in-place",
        _in_place,
        "The numbers are right, but `+=` writes into `x`, which the caller still needs. Write "
        "`x = x + …`, which makes a new tensor.",
        "03 Is `x.float()` a copy?",
    ),
    Mistake(
        "detached",
        _block(lambda x, a, n1, n2: x.detach() + a(n1(x)), _feed),
        "The values are right, but no gradient goes along the stream: `.detach()` or `.data` cuts "
        "it, and with it the short way back to the first block.",
        ELSE,
    ),
)

LLAMA_BLOCK = Exercise(
    "llama_block",
    ("x", "attn", "ffn", "norm1", "norm2"),
    llama_block,
    BLOCK_CASES,
    BLOCK_MISTAKES,
    BLOCK_RULES,
    (
        "Follow the line along the bottom of the picture: what is added to it, and where? What "
        "does each sublayer read?",
        "Two steps of one form. Each reads the line through a norm, and adds what its sublayer "
        "returns.",
        "The first step is `x = x + attn(norm1(x))`. The second reads the new x.",
    ),
    5,
    TWO_LINES,
    PARTS,
    _run_block,
)


# --- llama_stack


def _run_stack(answer, x, blocks, final_norm, head):
    calls = []
    parts = [Part(f"block {i}", block, calls) for i, block in enumerate(blocks, 1)]
    parts = nn.ModuleList(parts) if isinstance(blocks, nn.Module) else parts
    given = list(parts)
    y = answer(x, parts, Part("final_norm", final_norm, calls), Part("head", head, calls))
    kept = len(parts) == len(given) and all(map(operator.is_, parts, given))
    return y, _in_words(calls) + ("" if kept else ", and the caller's list of blocks is changed")


class _Block(nn.Module):
    """A block of its own kind for each k, so that their order shows."""

    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, h):
        return h + self.k * torch.tanh(h.cumsum(1).roll(self.k, -1) - 0.5 * self.k)

    def __repr__(self):
        return f"block {self.k}"


def _doubled_norm(h):
    return 2 * rms_norm(h)  # takes any number of features: a norm in a wrong place runs too


def _head(features, words, dtype=torch.float32):
    weight = draw(words, features, seed=3, dtype=dtype) - 0.7
    return lambda h: h @ weight.T


_blocks = [_Block(k) for k in (1, 2, 3)]
STACK_CASES = (
    Case((draw(2, 3, 5), _blocks, _doubled_norm, _head(5, 7)), grad=True),
    Case((draw(4, 4, 4), _blocks, _norm(spread(4)), _head(4, 4)), "all axes of one size"),
    Case((draw(1, 2, 6), [_Block(2)], _doubled_norm, _head(6, 9)), "one block"),
    Case((draw(2, 3, 5), nn.ModuleList(_blocks), _doubled_norm, _head(5, 7)), "a ModuleList"),
    Case((100 * draw(2, 3, 5), _blocks, _doubled_norm, _head(5, 7)), "a long stream"),
    Case(
        (
            draw(2, 3, 5, dtype=torch.float64),
            _blocks[::-1],
            _doubled_norm,
            _head(5, 7, torch.float64),
        ),
        "float64",
    ),
)
STACK_ORDER = ("block 1", "block 2", "block 3", "final_norm", "head")


def _size_goes(f):
    x, head = draw(2, 3, 5, dtype=torch.float64), _head(5, 7, torch.float64)
    zero = [lambda h: h] * 2
    y, of_ten = (f(k * x, zero, _doubled_norm, head)[0] for k in (1, 10))
    ratio = (of_ten / y).mean().item()
    if abs(ratio - 1) < 1e-3:
        return None
    return (
        "With blocks that hand x on as it is, an x ten times larger should leave the logits as "
        f"they are. Yours change by the factor {ratio:.3g}: the head should read normalised "
        "tokens, so the final norm comes last before it."
    )


def _stack_once(f):
    return _counts(STACK_ORDER, f(*STACK_CASES[0].args)[1])


def _stack_turns(f):
    order = f(*STACK_CASES[0].args)[1]
    if order == _in_words(STACK_ORDER):
        return None
    return f"Your order of calls is {order}. It should be {_in_words(STACK_ORDER)}."


LINKS = {"x": 1, "block 1": 10, "block 2": 100, "block 3": 1000, "final_norm": 10000}
LINKS |= {"head": 100000}


def _read_in_stack(f, digits):
    """What each part of a stack reads, and the result, as sums of LINKS."""
    x, (*blocks, norm, head), seen = _noting(digits, STACK_ORDER)
    y = f(x, blocks, norm, head)[0]
    return seen | {"result": y.mean().item()}


def _chain(f):
    seen = _read_in_stack(f, LINKS)
    for (before, value), name in zip(LINKS.items(), (*STACK_ORDER, "result"), strict=True):
        if abs(seen[name] - value) > 1e-6:
            should = "the result should be" if name == "result" else f"{name} should read"
            return (
                "Say x is 1, the blocks return 10, 100 and 1000, the final norm 10000 and the head "
                f"100000. Then {should} {value}, which is {before}. It "
                f"{'is' if name == 'result' else 'reads'} "
                f"{_sum(lambda digits: _read_in_stack(f, digits), name, LINKS)}"
            )
    negative = _read_in_stack(f, {name: -digit for name, digit in LINKS.items()})
    return _of_negative(negative["result"], LINKS["head"])


def _logits(f):
    y = f(*STACK_CASES[0].args)[0]
    sums = y.sum(-1)
    if y.shape == (2, 3, 7) and y.min() >= 0 and (sums - 1).abs().max() < 1e-4:
        return (
            "Each token's numbers are positive and add up to 1: these are probabilities. The "
            "logits are what the head returns, before the softmax."
        )
    if y.shape == (2, 3, 7) and (y.exp().sum(-1) - 1).abs().max() < 1e-4:
        return (
            "The exponentials of each token's numbers add up to 1: these are log-probabilities. "
            "The logits are what the head returns, before the softmax."
        )
    return None


def _only(choose):
    """The stack with some of the blocks alone."""

    def stack(x, blocks, n, head):
        return layers.llama_stack(x, choose(list(blocks)), n, head)

    return stack


def _each(step, end=None):
    """The stack whose loop does step(x, block, final_norm)."""

    def stack(x, blocks, n, head):
        for block in blocks:
            x = step(x, block, n)
        return end(x, n, head) if end else head(n(x))

    return stack


def _from_x(x, blocks, n, head):
    for block in blocks:
        h = block(x)
    return head(n(h))


def _summed(x, blocks, n, head):
    return head(n(sum(block(x) for block in blocks)))


def _embedding_added(x, blocks, n, head):
    h = x
    for block in blocks:
        h = block(h)
    return head(n(h + x))


def _pops(x, blocks, norm, head):
    while len(blocks):
        x = blocks.pop(0)(x)
    return head(norm(x))


STACK_MISTAKES = (
    Mistake(
        "pops",
        _pops,
        "The result is right, but `pop` empties the caller's list of blocks. Go through it, "
        "`for block in blocks`, and leave it as it is.",
        ZERO,
    ),
    Mistake(
        "L10",
        _each(lambda x, b, n: b(x), lambda x, n, head: head(x)),
        "The final norm is missing: the logits carry the size of the stream, which grows with "
        "depth. The head reads final_norm of what the last block returns.",
        ZERO,
        seen="https://ttsugriy.github.io/llm-first-principles/stages/stage-06/common-mistakes",
    ),
    Mistake(
        "norm-first",
        lambda x, blocks, n, head: _each(lambda x, b, _: b(x), lambda x, _, h: h(x))(
            n(x), blocks, n, head
        ),
        "The norm stands before the first block, where each block has a norm already. It comes "
        "after the last one, since the stream grows on the way.",
        ZERO,
    ),
    Mistake(
        "norm-first-and-last",
        lambda x, blocks, n, head: layers.llama_stack(n(x), blocks, n, head),
        "The final norm is used twice, also before the first block. That block normalises what "
        "it reads by itself; leave the first use out.",
        ZERO,
    ),
    Mistake(
        "norm-after-head",
        _each(lambda x, b, n: b(x), lambda x, n, head: n(head(x))),
        "The norm comes after the head: it normalises logits, and its weight has one number for "
        "each feature, not for each word. Norm first, then head.",
        ZERO,
    ),
    Mistake(
        "norm-between",
        _each(lambda x, b, n: n(b(x)), lambda x, n, head: head(x)),
        "The norm is inside the loop: the stream is normalised after every block, and no longer "
        "grows or passes by. Apply it once, behind the loop.",
        ELSE,
    ),
    Mistake(
        "norm-between-and-last",
        _each(lambda x, b, n: n(b(x))),
        "The norm is used inside the loop, after every block, and once more behind it. Apply it "
        "behind the loop alone.",
        ELSE,
    ),
    Mistake(
        "norm-before-each",
        _each(lambda x, b, n: b(n(x))),
        "The norm stands before each block, in the stream. A block normalises by itself what its "
        "sublayers read. Apply the final norm behind the loop alone.",
        ELSE,
    ),
    Mistake(
        "reversed",
        _only(lambda blocks: blocks[::-1]),
        "The blocks run from the last to the first. The list is in their order: begin with "
        "`blocks[0]`.",
        ZERO,
    ),
    Mistake(
        "from-x",
        _from_x,
        "Each block reads the first x, so that only the last block's result is left. Each reads "
        "what the block before it returned: `x = block(x)`.",
        ZERO,
    ),
    Mistake(
        "summed",
        _summed,
        "Each block reads the first x, and the results are added up. The blocks work in turn: each "
        "reads what the one before it returned.",
        ZERO,
    ),
    Mistake(
        "extra-residual",
        _each(lambda x, b, n: x + b(x)),
        "The loop adds x to what a block returns. A block returns the stream with x in it already: "
        "`x = block(x)`.",
        TWO_LINES,
    ),
    Mistake(
        "embedding-added",
        _embedding_added,
        "The first x is added once more before the final norm. The blocks have carried it along "
        "already, as a part of the stream.",
        TWO_LINES,
    ),
    Mistake(
        "last-only",
        _only(lambda blocks: blocks[-1:]),
        "Only the last block is called. Run through all of them, each on what the one before it "
        "returned.",
        ZERO,
    ),
    Mistake(
        "first-only",
        _only(lambda blocks: blocks[:1]),
        "Only the first block is called. Does a `return` stand inside the loop? It belongs behind "
        "it.",
        ZERO,
    ),
    Mistake(
        "but-last",
        _only(lambda blocks: blocks[:-1]),
        "The last block is left out. Is a `range` one too short? `for block in blocks` needs none.",
        ZERO,
    ),
    Mistake(
        "but-first",
        _only(lambda blocks: blocks[1:]),
        "The first block is left out. Does a `range` start at 1? `for block in blocks` needs none.",
        ZERO,
    ),
    Mistake(
        "no-blocks",
        _only(lambda blocks: []),
        "No block is called: the head reads the embeddings themselves, normalised. Run x through "
        "the blocks first.",
        ZERO,
    ),
    Mistake(
        "no-head",
        _each(lambda x, b, n: b(x), lambda x, n, head: n(x)),
        "The head is missing: this returns tokens of D features. The head turns them into one "
        "number for each word of the vocabulary.",
        ZERO,
    ),
    Mistake(
        "blocks-alone",
        _each(lambda x, b, n: b(x), lambda x, n, head: x),
        "This is the stream after the last block: the final norm and the head are missing. The "
        "head reads the normalised stream.",
        ZERO,
    ),
    Mistake(
        "softmax",
        lambda *args: layers.llama_stack(*args).softmax(-1),
        "These are probabilities: a softmax has been taken. Logits are what the head returns; a "
        "loss such as `F.cross_entropy` takes the softmax by itself.",
        ZERO,
    ),
    Mistake(
        "log-softmax",
        lambda *args: layers.llama_stack(*args).log_softmax(-1),
        "These are log-probabilities: a log-softmax has been taken. Logits are what the head "
        "returns; a loss such as `F.cross_entropy` does the rest.",
        ZERO,
    ),
    Mistake(
        "last-token",
        _each(lambda x, b, n: b(x), lambda x, n, head: head(n(x)[:, -1:])),
        "Only the last token's logits are left, which is what nanoGPT computes when it generates. "
        "This exercise asks for those of every token, (B, T, vocabulary).",
        ZERO,
        convention=True,
    ),
    Mistake(
        "last-token-flat",
        _each(lambda x, b, n: b(x), lambda x, n, head: head(n(x)[:, -1])),
        "Only the last token's logits are left, and the axis of the tokens is gone with the "
        "others. This exercise asks for those of every token, (B, T, vocabulary).",
        ZERO,
    ),
    Mistake(
        "argmax",
        lambda *args: layers.llama_stack(*args).argmax(-1),
        "These are the most likely words: an argmax has been taken. Logits are what the head "
        "returns, a number for each word; a loss needs all of them.",
        ZERO,
    ),
)

LLAMA_STACK = Exercise(
    "llama_stack",
    ("x", "blocks", "final_norm", "head"),
    layers.llama_stack,
    STACK_CASES,
    STACK_MISTAKES,
    (
        Property("each part of the stack once", _stack_once, ZERO),
        Property("blocks, norm, head", _stack_turns, ZERO),
        Property("logits", _logits, ZERO),
        Property("a chain", _chain, ZERO),
        Property("the stream's size goes", _size_goes, ZERO),
    ),
    (
        "What does block 2 read? And what does the head read?",
        "A loop in which x becomes what the block returns. Behind it, the norm; then the head.",
    ),
    5,
    ZERO,
    PARTS,
    _run_stack,
)


# --- qk_norm


def qk_norm(q, weight, eps):
    """RMSNorm of each head of each token by itself, with one weight for all heads, as in Qwen 3.

        y = q / √(mean(q²) + eps) · weight,  the mean over head_dim

    q: queries or keys, (B, T, heads, head_dim), and so is the result. weight: (head_dim,).
    """
    return rms_norm(q, weight, eps)  # the last axis is head_dim, not D


def _with_zero_head(q):
    q[0, 1, 2] = 0
    return q


_sizes = torch.tensor([[0.01], [1.0], [100.0], [5.0]])  # (heads, 1)
QK_CASES = (
    Case((draw(2, 3, 4, 6), spread(6), 1e-6), grad=True),
    Case((draw(4, 4, 4, 4), spread(4), 1e-6), "all axes of one size"),
    Case((_sizes * draw(2, 3, 4, 6), spread(6), 1e-5), "heads of very different size"),
    Case((draw(2, 3, 1, 6), spread(6), 1e-6), "one head, as keys may have"),
    Case((1e-3 * draw(1, 2, 3, 6), spread(6), 1e-2), "a tiny q beside a large eps"),
    Case((_with_zero_head(draw(2, 3, 4, 6)), spread(6), 1e-6), "one head of zeros"),
    Case((draw(2, 3, 4, 6, dtype=torch.bfloat16), spread(6).bfloat16(), 1e-6), "bfloat16"),
    Case((draw(2, 3, 4, 6, dtype=torch.float64), spread(6).double(), 1e-5), "float64"),
)


def _heads_alone(f):
    q, one = draw(2, 3, 4, 5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)
    moved = q.clone()
    moved[1, 2, 0] += 10
    other = (f(q, one, 1e-6) - f(moved, one, 1e-6)).abs().amax(-1) > 1e-6  # (B, T, heads)
    other[1, 2, 0] = False
    if not other.any():
        return None
    where = {
        "other heads of its token": other[1, 2],
        "the same head of other tokens": other[1, :, 0],
        "the same head of the other sequence": other[0, 2:, 0],
    }
    names = [name for name, some in where.items() if some.any()]
    if not names:
        return (
            "When one head of one token changes, another head of another token does. Have two axes "
            "changed places? Nothing needs to move: the norm reads the last axis alone."
        )
    return (
        f"When one head of one token changes, {int(other.sum())} of the other 23 change too: "
        f"{' and '.join(names)}. Each needs a statistic of its own, over head_dim alone: `dim=-1`."
    )


def _one_weight(f):
    q, w = draw(2, 3, 4, 4, dtype=torch.float64), spread(4).double()
    plain, weighted = (f(q, v, 1e-6) for v in (torch.ones_like(w), w))
    if torch.allclose(weighted, plain * w[:, None]) and not torch.allclose(weighted, plain * w):
        return (
            "With 4 heads of 4 numbers your weight runs along the *heads*, one number a head. It "
            "runs along head_dim, and all heads share it."
        )
    equal = f(q[:, :, :1].expand(q.shape), w, 1e-6)
    if not torch.allclose(equal, equal[:, :, :1].expand(q.shape)):
        other = next(h for h in range(1, 4) if not torch.allclose(equal[:, :, h], equal[:, :, 0]))
        return (
            f"Four equal heads come out unequal: head {other} is unlike head 0. The same is done "
            "to every head, with the same weight."
        )
    return None


def _of_one_head(broken):
    """A rule of rms_norm, asked of what is done to a single head."""

    def of_q(f):
        said = broken(lambda x, w, eps: f(x.unsqueeze(2), w, eps).squeeze(2))
        return said and _of_heads(said)

    return of_q


def _of_heads(words):
    """What is said of x and its tokens in rms_norm, said of q and its heads."""
    return re.sub(r"\bx(?![a-z])", "q", words).replace("token", "head")


# Mistakes of rms_norm that are the same over head_dim.
SHARED = ("R01", "R17", "R18", "R07", "R09", "R15", "mean-abs", "R10", "R12", "var-unbiased")
SHARED += ("centred-numerator", "R19", "R20", "R21", "R21-1e-5", "R22", "eps-squared", "R31", "R32")
SHARED += ("weight-first", "weight-in-statistic", "weight-divides", "weight-added", "identity")
SHARED += ("divisor-only", "detached")


def _over(*dims):
    return lambda q, w, eps: q * torch.rsqrt(ms(q, dims) + eps) * w


def _by_head(q, w, eps):
    return q * torch.rsqrt(ms(q, -1) + eps) * w[:, None]


def _not_cast_back(q, w, eps):
    h = q.to(torch.promote_types(q.dtype, torch.float32))
    return h * torch.rsqrt(ms(h) + eps) * w


QK_MISTAKES = (
    Mistake(
        "full",
        _over(-2, -1),
        "There is one statistic for all heads of a token. OLMo 2 does so, before it splits into "
        "heads, with a weight for every feature of every head. This exercise asks for Qwen 3's: "
        "each head by itself, over head_dim alone.",
        TOKENS,
        convention=True,
    ),
    Mistake(
        "R75",
        _over(-2),
        "The mean is over the *heads* (dim −2 of (B, T, heads, head_dim)), so that heads are mixed "
        "and each feature has a statistic. Average over head_dim, the last axis: `dim=-1`.",
        TOKENS,
    ),
    Mistake(
        "over-tokens",
        _over(1),
        "The mean is over the *tokens* (dim 1 of (B, T, heads, head_dim)): a later token changes "
        "an earlier one. Average over head_dim, the last axis: `dim=-1`.",
        TOKENS,
    ),
    Mistake(
        "over-tokens-too",
        _over(1, -1),
        "There is one statistic for each head of a *sequence*: its tokens see each other. Average "
        "over head_dim alone, `dim=-1`.",
        TOKENS,
    ),
    Mistake(
        "R02",
        _over(1, 2, 3),
        "There is one statistic for each sequence: all tokens and heads see each other. Average "
        "over head_dim alone, `dim=-1`.",
        TOKENS,
    ),
    Mistake(
        "R03",
        _over(0, 1, 2, 3),
        "There is one statistic for the whole batch. Each head of each token needs its own: "
        "`mean(dim=-1, keepdim=True)`.",
        TOKENS,
    ),
    Mistake(
        "R05",
        _over(0),
        "The mean is over the *batch* (dim 0), so sequences see each other. Average over head_dim, "
        "the last axis: `dim=-1`.",
        TOKENS,
    ),
    Mistake(
        "R06",
        lambda q, w, eps: q / (q.square().mean(-1) + eps).sqrt() * w,
        "The statistic has lost its last axis: (B, T, heads) is lined up with the last three axes "
        "of q. Unequal sizes raise; equal ones go wrong in silence. Use `keepdim=True`.",
        KEEPDIM,
    ),
    Mistake(
        "weight-by-head",
        _by_head,
        "The weight runs along the *heads*. It has one number for each feature of a head, "
        "(head_dim,), and all heads share it: it lines up with the last axis by itself.",
        INSIDE,
    ),
    Mistake(
        "layer-norm",
        lambda q, w, eps: F.layer_norm(q, q.shape[-1:], w, None, eps),
        "This is LayerNorm of each head: it subtracts the mean first, as ViT-22B does with its "
        "queries and keys. This exercise asks for Qwen 3's RMSNorm, which only divides.",
        CENTRE,
        convention=True,
    ),
    Mistake(
        "cosine",
        lambda q, w, eps: F.normalize(q, dim=-1) * w,
        "This brings each head to *length* 1, as in the first paper on query-key normalisation "
        "(Henry et al. 2020). This exercise asks for Qwen 3's RMSNorm: RMS 1, and `eps` under the "
        "root.",
        LENGTH,
        convention=True,
    ),
    Mistake(
        "R34",
        lambda q, w, eps: rms_norm(q, 1 + w, eps),
        "This multiplies by 1 + weight, as Gemma 3 does with its queries and keys. Qwen 3's weight "
        "multiplies alone, and so it should here.",
        WEIGHT,
        convention=True,
    ),
    Mistake(
        "scaled",
        lambda q, w, eps: rms_norm(q, w, eps) / q.shape[-1] ** 0.5,
        "The result is divided by √head_dim. Attention does that later, with the products of "
        "queries and keys. Here the norm is all.",
        LENGTH,
    ),
    Mistake(
        "transposed",
        lambda q, w, eps: rms_norm(q.transpose(1, 2), w, eps),
        "The heads have moved before the tokens, (B, heads, T, head_dim). The norm reads the last "
        "axis alone, so nothing needs to move: return the shape of q.",
        INSIDE,
    ),
    Mistake(
        "reshaped-back",
        lambda q, w, eps: rms_norm(q.transpose(1, 2), w, eps).reshape(q.shape),
        "`reshape` does not undo `transpose`: it deals the numbers out anew, to other tokens and "
        "other heads. Nothing needs to move at all: the norm reads the last axis alone.",
        INSIDE,
    ),
    Mistake(
        "R27",
        _not_cast_back,
        "The result is float32 where q is bfloat16: the cast back is missing, and the products of "
        "queries and keys get another dtype. End with `.to(q.dtype)`.",
        CAST_BACK,
    ),
    *(
        dataclasses.replace(mistake, message=_of_heads(mistake.message))
        for mistake in RMS_MISTAKES
        if mistake.id in SHARED
    ),
)

QK_NORM = Exercise(
    "qk_norm",
    ("q", "weight", "eps"),
    qk_norm,
    QK_CASES,
    QK_MISTAKES,
    (
        Property("each head alone", _heads_alone, TOKENS),
        Property("the weight along head_dim", _one_weight, INSIDE),
        *(
            Property(rule.name, _of_one_head(rule.broken), rule.read)
            for rule in RMS_RULES
            if rule.read != TOKENS  # the first rule here asks that, of heads
        ),
    ),
    (
        "Each head of each token is a vector of head_dim numbers. Which axis is that?",
        "It is the last axis, and RMSNorm averages over the last axis. You may call `rms_norm`.",
    ),
    5,
    INSIDE,
)

EXERCISES = (LLAMA_BLOCK, LLAMA_STACK, QK_NORM)
