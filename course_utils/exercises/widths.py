"""Notebook 06's exercises: the width of the FFN, and how many parameters there are."""

import math
from dataclasses import replace

from .. import sizes
from ..checker import Case, Exercise, Mistake, Property
from ..sizes import ModelConfig, params_by_part

BY_HAND = "06 Six features by hand"
GENERAL = "06 And in general?"
ROUNDING = "06 Where does 11008 come from?"
MULTIPLIER = "06 What does a multiplier do?"
RULE = "06 Who follows the rule?"
WHOLE = "06 What does a whole model add up to?"
COUNTS = "06 Do published counts agree?"


def _say(number):
    """A number in words: whole where it is whole, else with two digits behind the point."""
    return str(int(number) if number == int(number) else round(float(number), 2))


# --- intermediate_size. Every multiple here is divisible by four, and no width lies close to a
# multiple: there int, round and ceil end alike, and so do all orders of the factors.

WIDTH_CASES = (
    Case((6, 4), "six features"),
    Case((4096, 256), "Llama-2-7B"),
    Case((5120, 256), "Llama-2-13B"),
    Case((20, 4), "D that 3 does not divide"),
    Case((768, 256), "8/3 of 768 is a multiple already"),
    Case((1000, 32), "a multiple that is not 256"),
    Case((1024, 96), "a multiple that is no power of two"),
    Case((5120, 256, None), "no multiplier, in so many words"),
    Case((4096, 1024, 1.3), "Llama-3-8B"),
    Case((8192, 4096, 1.3), "Llama-2-70B"),
    Case((3000, 256, 1.25)),
    Case((1024, 256, 0.5), "a multiplier below one"),
)


def _up(width, multiple):
    return -(-width // multiple) * multiple


def _cut(hidden):
    return 8 * hidden // 3


def _times(width, multiplier):
    return width if multiplier is None else int(multiplier * width)


def _rule(start=_cut, times=_times, up=_up):
    """intermediate_size with one step in another way."""
    return lambda hidden, multiple, multiplier=None: up(times(start(hidden), multiplier), multiple)


def _from_hidden(factor):
    """The multiplier multiplies D times a factor, in place of 8·D/3."""

    def width(hidden, multiple, multiplier=None):
        start = _cut(hidden) if multiplier is None else int(multiplier * factor * hidden)
        return _up(start, multiple)

    return width


def _rounded_first(hidden, multiple, multiplier=None):
    return _times(_up(_cut(hidden), multiple), multiplier)


def _no_default(hidden, multiple, multiplier):
    return sizes.intermediate_size(hidden, multiple, multiplier)


# With D = 6000 and blocks of 8 all steps are whole, and every wrong step gives another number.
FACTORS = {
    24000: "That is 4·D: right for two matrices, but there are three. Take 2/3 of it.",
    4000: "That is 2/3 of D: a factor 4 is missing.",
    10672: "That is 2/3 of 8·D/3: 2/3 is in there twice.",
    36000: "That is 3/2 of 4·D. Three matrices share what two had, so it is 2/3.",
    12000: "That is 2·D: `8 // 3` is 2. Multiply first, then divide.",
    0: "In Python `2 // 3` is 0. Multiply first, then divide.",
    32000: "That counts gate and up together; the width is that of each.",
    20800: "That is 1.3 times it: without a multiplier nothing is to be multiplied.",
    18856: "That is π·D; the rule takes 8/3 of D.",
}
BLOCKS = {
    16024: "With 2.67 for 8/3 it comes out too wide: keep the fraction, 8 * D / 3.",
    16128: "That is the next multiple of 256: use the `multiple_of` that is given.",
    16007: "The rest above a whole block is not cut off: `// multiple_of * multiple_of`.",
    15992: "16000 is a multiple of 8 itself: no block is to be taken away.",
    16008: "16000 is a multiple of 8 already, and needs no further block.",
    16384: "That is the next power of two; asked for is the next multiple of `multiple_of`.",
    16002: "That is a multiple of 7, and not of `multiple_of` itself.",
    2000: "That is the number of blocks; each is `multiple_of` wide.",
}


def _two_thirds(f):
    width = f(6000, 8)
    if width == 16000 or width in BLOCKS:
        return None
    why = FACTORS.get(width, f"That is {width / 6000:.4g}·D, and the rule takes 8/3 of it.")
    if width not in FACTORS and abs(width - 16000) < 60:
        why = "16000 is a multiple of 8 already, and stays."
    return (
        "With D = 6000 and a multiple of 8 the width is 8·6000/3 = 16000; yours is "
        f"{_say(width)}. {why}"
    )


def _cut_last(f):
    if (width := f(20, 4)) == 56:
        return None
    early = {
        48: "`20 // 3` is 6: is D divided before 8 multiplies it?",
        52: "`2 * 20 // 3` is 13, and `4 * 20 // 3` 26: is it cut off before all is multiplied?",
    }
    return (
        "With D = 20 and a multiple of 4, 8·20/3 = 53.3 goes up to 56; yours is "
        f"{_say(width)}. {early.get(width, 'What is between 52 and 56 goes up.')} Multiply by 8 "
        "first, and divide by 3 last."
    )


def _whole_blocks(f):
    if (width := f(6000, 8)) in BLOCKS:
        return (
            "With D = 6000 the width is 8·6000/3 = 16000, which is a multiple of 8; yours is "
            f"{_say(width)}. {BLOCKS[width]}"
        )
    for hidden, multiple, *more in (
        (5120, 256),
        (1000, 32),
        (1024, 96),
        (8192, 4096, 1.3),
        (3000, 256, 1.25),
    ):
        width = f(hidden, multiple, *more)
        if width % multiple == 0:
            continue
        blocks, rest = divmod(width, multiple)
        given = f"D = {hidden}, multiple {multiple}" + (f", multiplier {more[0]}" if more else "")
        why = "How many blocks hold it all? Round their number up, and multiply."
        if more and f(hidden, multiple) % multiple == 0:
            why = "Without a multiplier it is one: multiply first, round up last."
        elif multiple == 96 and width == 2816:
            why = "Bits are masked, which works for powers of two alone: `// multiple_of` divides."
        elif width % 256 == 0:
            why = "It is one of 256: use `multiple_of`."
        return (
            f"With {given} it gives {_say(width)}, which is {_say(blocks)}·{multiple} + "
            f"{_say(rest)}: no multiple. {why}"
        )
    return None


def _rounds_up(f):
    width, other = f(5120, 256), f(4096, 256)
    if width < 13824:
        how = "down" if other < 11008 else "to the nearest multiple (at D = 4096 that is the same)"
        return (
            f"With D = 5120 it gives {_say(width)}. 8·D/3 = 13653.3 lies between 13568 and 13824, "
            f"and this rounds {how}. The rule goes up: 13824."
        )
    if (narrow := f(768, 256)) != 2048:
        return (
            f"With D = 768, 8·D/3 is 2048 = 8·256 and should stay; yours is {_say(narrow)}. What "
            "is a multiple already needs no further block."
        )
    for hidden, multiple, right in ((6, 4, 16), (1000, 32, 2688), (4096, 256, 11008)):
        if (width := f(hidden, multiple)) == right:
            continue
        why = "The first multiple above is enough."
        if width == _up(_cut(_up(hidden, multiple)), multiple):
            why = f"D is rounded up first, to {_up(hidden, multiple)}. The rounding comes last."
        elif width == _up(right, 2 * multiple):
            why = f"That is a multiple of {2 * multiple}. One of `multiple_of` is asked for."
        return (
            f"With D = {hidden} and a multiple of {multiple}, 8·D/3 = {_say(8 * hidden / 3)} goes "
            f"up to {right}; yours is {_say(width)}. {why}"
        )
    return None


def _multiplies(f):
    width = f(6000, 8, 1.25)
    if width == 20000:
        half = f(6000, 8, 0.5)
        if half == 8000:
            return None
        return (
            "With D = 6000, a multiple of 8 and the multiplier 0.5 the width is 0.5·16000 = 8000; "
            f"yours is {_say(half)}, though 1.25 does what it should. A multiplier below one makes "
            "the network narrower."
        )
    known = {
        16000: "The multiplier is not used, or cut off to a whole number.",
        7504: "That is 1.25·D: the multiplier stands in place of 8/3. It multiplies 8·D/3.",
        30000: "That is 1.25·4·D: the multiplier stands in place of 2/3. It multiplies 8·D/3.",
        25000: "That multiplies by 1.25 twice.",
        12800: "That divides by the multiplier.",
        36000: "That multiplies by 1 + 1.25.",
        20008: "20000 is a multiple of 8 already, and needs no further block.",
        20004: "The multiplier is added to 8·D/3, where it multiplies.",
    }
    why = known.get(width, "The multiplier multiplies 8·D/3, before the rounding.")
    return (
        "With D = 6000, a multiple of 8 and the multiplier 1.25 the width is 1.25·16000 = 20000; "
        f"yours is {_say(width)}. {why}"
    )


def _in_order(f):
    width = f(4096, 1024, 1.3)
    if width == 14336:
        return None
    return (
        "Llama-3-8B goes 8·4096/3 → 10922, times 1.3 → 14198, up to a multiple of 1024 → 14336. "
        f"Yours is {_say(width)}. Is it rounded up before the multiplier, and again after?"
    )


def _whole_number(*args):
    def broken(f):
        value = f(*args)
        if isinstance(value, float):
            return (
                f"The number is right, but it comes as {value}, a float. Return an int: `//` "
                "divides whole numbers, and `int()` cuts off a fraction."
            )
        return None

    return broken


INTERMEDIATE_SIZE = Exercise(
    "intermediate_size",
    ("hidden_size", "multiple_of", "multiplier"),
    sizes.intermediate_size,
    WIDTH_CASES,
    (
        Mistake(
            "H01",
            _rule(up=lambda w, m: w // m * m),
            "This rounds *down*, 4096 to 10752. The rule takes the next multiple above, 11008, so "
            "that nothing of 8·D/3 is lost.",
            ROUNDING,
            seen="https://github.com/epfLLM/Megatron-LLM/issues/64",
        ),
        Mistake(
            "H02",
            _rule(up=lambda w, m: round(w / m) * m),
            "This takes the *nearest* multiple: right for D = 4096, but at 5120 it gives 13568, "
            "where the rule goes up to 13824.",
            ROUNDING,
        ),
        Mistake(
            "H11",
            _rule(up=lambda w, m: _up(w, 256)),
            "The multiple is always 256. Llama-2-70B has 4096 and Llama-3-8B 1024: use the "
            "`multiple_of` that is given.",
            MULTIPLIER,
            seen="https://github.com/ggml-org/llama.cpp/pull/2276",
        ),
        Mistake(
            "H12",
            _rule(up=lambda w, m: w),
            "There is no rounding: 10922 for D = 4096, which 256 does not divide. Go up to the "
            "next multiple of `multiple_of`.",
            ROUNDING,
            seen="https://github.com/sgl-project/sglang/pull/8543",
        ),
        Mistake(
            "H13",
            _rule(lambda hidden: int(2.67 * hidden)),
            "2.67 is more than 8/3, and where 8·D/3 is a multiple the next one is taken: 2304 at "
            "D = 768, in place of 2048. Keep the fraction: 8 * D / 3.",
            ROUNDING,
        ),
        Mistake(
            "H04",
            _rule(lambda hidden: 4 * hidden),
            "This is 4·D, right for two matrices. With three it costs half as many parameters "
            "again (PaLM pays that). Take 2/3 of it, 8·D/3.",
            GENERAL,
            seen="https://github.com/karpathy/llm.c/pull/755",
        ),
        Mistake(
            "H05",
            _rule(lambda hidden: 2 * _cut(hidden) // 3),
            "The 2/3 is in there twice: 8·D/3 is 2/3 of 4·D already.",
            GENERAL,
            seen="https://github.com/deepspeedai/Megatron-DeepSpeed/pull/191",
        ),
        Mistake(
            "two-thirds-of-d",
            _rule(lambda hidden: 2 * hidden // 3),
            "This is 2/3 of D, narrower than the input. It is 2/3 of 4·D: the plain network was "
            "four times as wide as its input.",
            GENERAL,
        ),
        Mistake(
            "H16",
            _rule(lambda hidden: 2 // 3 * 4 * hidden),
            "In Python `2 // 3` is 0, and so is all that follows. Multiply first, then divide: "
            "`8 * hidden_size // 3`.",
            ROUNDING,
        ),
        Mistake(
            "eight-thirds-cut",
            _rule(lambda hidden: 8 // 3 * hidden),
            "In Python `8 // 3` is 2, so this starts from 2·D. Multiply first, then divide: "
            "`8 * hidden_size // 3`.",
            ROUNDING,
        ),
        Mistake(
            "divided-first",
            _rule(lambda hidden: hidden // 3 * 8),
            "D is divided by 3 and cut off before 8 multiplies it, so that up to 5 are lost: 48 "
            "for D = 20, where 8·20/3 is 53. Multiply first: `8 * hidden_size // 3`.",
            ROUNDING,
        ),
        Mistake(
            "cut-before-four",
            _rule(lambda hidden: 2 * hidden // 3 * 4),
            "2/3 of D is cut off before 4 multiplies it, so that up to 2 are lost: 52 for D = 20, "
            "where 8·20/3 is 53. Multiply first: `8 * hidden_size // 3`.",
            ROUNDING,
        ),
        Mistake(
            "H18",
            _rule(lambda hidden: 6 * hidden),
            "This is 3/2 of 4·D. Three matrices must share what two had, so it is 2/3 of 4·D.",
            GENERAL,
        ),
        Mistake(
            "X26",
            _rule(lambda hidden: int(math.pi * hidden)),
            "This takes π·D, as MiniMind does: any ratio makes a network. Asked for here is Meta's "
            "rule, 8/3 of D, which matches a plain network in parameters.",
            RULE,
            convention=True,
            seen="https://github.com/jingyaogong/minimind/issues/742",
        ),
        Mistake(
            "packed",
            lambda h, m, q=None: 2 * sizes.intermediate_size(h, m, q),
            "This counts gate and up together, as OLMo's config does (22016). The intermediate "
            "size is the width of each.",
            ROUNDING,
        ),
        Mistake(
            "always-adds",
            _rule(up=lambda w, m: (w // m + 1) * m),
            "One block is always added, also to what is a multiple already: 2304 at D = 768, "
            "where 2048 is 8·256. Round up: `(w + m - 1) // m * m`.",
            ROUNDING,
        ),
        Mistake(
            "added-not-rounded",
            _rule(up=lambda w, m: w + m - 1),
            "`multiple_of - 1` is added, but the rest is not cut off: `// m * m` is missing.",
            ROUNDING,
        ),
        Mistake(
            "remainder-added",
            _rule(up=lambda w, m: w + w % m),
            "This adds what is left over above the multiple *below*. Add what is missing to the "
            "one above, or count blocks and round up.",
            ROUNDING,
        ),
        Mistake(
            "blocks",
            _rule(up=lambda w, m: -(-w // m)),
            "This is the number of blocks, 43 for D = 4096. Each is `multiple_of` wide: multiply.",
            ROUNDING,
        ),
        Mistake(
            "bits-masked",
            _rule(up=lambda w, m: (w + m - 1) & -m),
            "Rounding up by `& -m` or `& ~(m - 1)` masks bits, which is right for powers of two "
            "alone: 2816 for D = 1024 and 96, where 2784 is 29·96. Divide: `// m * m`.",
            ROUNDING,
        ),
        Mistake(
            "power-of-two",
            _rule(up=lambda w, m: 1 << (w - 1).bit_length()),
            "This takes the next power of two, 16384 for D = 4096. The next multiple of "
            "`multiple_of` is enough.",
            ROUNDING,
        ),
        Mistake(
            "X24",
            _rule(times=lambda w, q: w),
            "The multiplier is not used. Llama-3-8B's 14336 is 10922 times 1.3, rounded up to a "
            "multiple of 1024.",
            MULTIPLIER,
            seen="https://kshirol-dev.github.io/learnAI/LLMFileAnatomy/05-feed-forward-network.html",
        ),
        Mistake(
            "H08",
            _from_hidden(1),
            "With a multiplier this starts from D itself, 1.3·D: 6144 for Llama-3-8B. The "
            "multiplier comes on top of 8/3, 1.3·8·D/3.",
            MULTIPLIER,
        ),
        Mistake(
            "of-four-d",
            _from_hidden(4),
            "With a multiplier this starts from 4·D and forgets the 2/3: 21504 for Llama-3-8B. "
            "The multiplier comes on top of 8/3, 1.3·8·D/3.",
            MULTIPLIER,
        ),
        Mistake(
            "H09",
            _rounded_first,
            "This rounds up first and multiplies then, so the result is no multiple any more. The "
            "multiple comes last.",
            MULTIPLIER,
            seen="https://github.com/meta-llama/llama/issues/1019",
        ),
        Mistake(
            "rounded-twice",
            lambda h, m, q=None: _up(_rounded_first(h, m, q), m),
            "This rounds up before the multiplier as well as after it, and the first rounding is "
            "multiplied too: 15360 for Llama-3-8B. Round once, at the end.",
            MULTIPLIER,
        ),
        Mistake(
            "multiplied-twice",
            _rule(times=lambda w, q: _times(_times(w, q), q)),
            "The multiplier multiplies twice. Once is enough, between 8·D/3 and the rounding.",
            MULTIPLIER,
        ),
        Mistake(
            "divided",
            _rule(times=lambda w, q: w if q is None else int(w / q)),
            "This divides by the multiplier. A multiplier of 1.3 makes the network wider: "
            "multiply.",
            MULTIPLIER,
        ),
        Mistake(
            "none-multiplied",
            _rule(times=lambda w, q: int(q * w)),
            "Without a multiplier it is None, and None times a number raises. Multiply only "
            "`if multiplier is not None`.",
            MULTIPLIER,
        ),
        Mistake(
            "no-default",
            _no_default,
            "It is also called with two arguments, as most models have no multiplier. Give the "
            "third a default: `multiplier=None`.",
            MULTIPLIER,
        ),
        Mistake(
            "H19",
            lambda h, m, q=None: float(sizes.intermediate_size(h, m, q)),
            "The number is right, but it is a float, which `nn.Linear` refuses as a size. Return "
            "an int: `//` divides whole numbers, and `int()` cuts.",
            ROUNDING,
        ),
    ),
    (
        Property("8/3 of D", _two_thirds, GENERAL),
        Property("a multiple", _whole_blocks, ROUNDING),
        Property("the next one up", _rounds_up, ROUNDING),
        Property("divided last", _cut_last, ROUNDING),
        Property("the multiplier multiplies 8·D/3", _multiplies, MULTIPLIER),
        Property("the multiple last", _in_order, MULTIPLIER),
        Property("an int", _whole_number(4096, 256), ROUNDING),
    ),
    (
        "There are three steps. Which must come last, so that the result is a multiple?",
        "First 8/3 of D, then times the multiplier, if there is one, each time without the "
        "fraction. Then up.",
        "`8 * hidden_size // 3` cuts. `math.ceil(width / multiple_of)` is the number of blocks.",
    ),
    8,
    MULTIPLIER,
)


# --- ffn_params. f: (hidden_size, intermediate_size) -> int


def _counted(*args):
    def broken(f):
        value = f(*args)
        if value == int(value):
            return None
        return (
            f"For small sizes it gives {value:.4g}, which is no count. Return all parameters, as a "
            "whole number, not in millions or billions."
        )

    return broken


def _one_more_unit(f):
    more, again = f(6, 17) - f(6, 16), f(6, 18) - f(6, 17)
    if more == again == 18:
        return None
    known = {
        0: "`intermediate_size` is not used; each matrix goes between D and I.",
        12: "That is two for each feature. Are three matrices counted, and each between D and I?",
        6: "That is one matrix; there are three.",
        24: "That is four matrices. Gate, up and down are three.",
        20: "That is 18 and 2 biases; these matrices have none.",
        36: "That is each parameter twice.",
        3: "Sizes are added there; a matrix of D rows and I columns holds D·I numbers.",
        2: "Outputs are counted there; each of them has a whole row of weights.",
        13: "That is two matrices, where three are due, and one number: a bias? There is none.",
        19: "That is 18 and a bias, or a norm of the units; there is none.",
        7: "That is one matrix and one number for each unit. There are three matrices.",
    }
    why = known.get(more, "A matrix of D rows and I columns holds D·I numbers.")
    if more == 21:
        why = "That is 18 and a number for each matrix, as with biases; these have none."
    elif more not in known:
        why = f"That is {_say(more / 6)} times D, and three matrices make it 3 times."
    elif more == 0 and f(6, 600) != f(6, 17):
        why = "Is I rounded up? It is the width itself: take it as it is given."
    if more != again:
        why = f"The next adds {_say(again)}. Is I multiplied by itself?"
    return (
        "With D = 6, one unit more in the middle adds a row to gate, one to up and a column to "
        f"down, 3·6 = 18 numbers. Yours grows by {_say(more)}. {why}"
    )


def _one_more_feature(f):
    more = f(7, 16) - f(6, 16)
    if more == 48:
        return None
    why = "Each matrix goes between D and I."
    if more == 49:
        why = "Does a bias or a norm count too?"
    elif more == 51:
        why = "That is 3·17, one more than I: is a bias counted as a column of each matrix?"
    elif 0 < more < 96 and more % 3 == 0:
        why = f"That is 3·{_say(more / 3)}, as with another I. Take the width as it is given."
    return (
        "With I = 16, one feature more adds a column to gate, one to up and a row to down, "
        f"3·16 = 48 numbers. Yours grows by {_say(more)}. {why}"
    )


def _six_features(f):
    if (whole := f(6, 16)) == 288:
        return None
    return (
        f"For D = 6 and I = 16 three matrices hold 3·6·16 = 288. Yours is {_say(whole)}, and grows "
        "as it should: something is added that has no size. Three products are all."
    )


FFN_PARAMS = Exercise(
    "ffn_params",
    ("hidden_size", "intermediate_size"),
    sizes.ffn_params,
    (
        Case((6, 16), "six features"),
        Case((5, 7)),
        Case((20, 3), "a narrow middle"),
        Case((4, 4), "equal sizes"),
        Case((4096, 11008), "Llama-2-7B"),
    ),
    (
        Mistake(
            "two-matrices",
            lambda d, i: 2 * d * i,
            "This counts two matrices, as a plain network has them. A gated one has three: gate, "
            "up and down.",
            BY_HAND,
        ),
        Mistake(
            "one-matrix",
            lambda d, i: d * i,
            "This counts one matrix. There are three of that size: gate, up and down.",
            BY_HAND,
        ),
        Mistake(
            "four-matrices",
            lambda d, i: 4 * d * i,
            "This counts four matrices. Gate and up are D → I, down is I → D: three.",
            BY_HAND,
        ),
        Mistake(
            "N04",
            lambda d, i: 8 * d * d,
            "8·D² is what the width 8·D/3 would give, before any rounding: 0.78 % too little for "
            "Llama-2-7B. Count with the width that is given.",
            GENERAL,
            seen="https://github.com/facebookresearch/dinov2/issues/133",
        ),
        Mistake(
            "twelve-d-squared",
            lambda d, i: 12 * d * d,
            "12·D² is what three matrices of width 4·D hold. Count with the width that is given.",
            GENERAL,
        ),
        Mistake(
            "three-d-squared",
            lambda d, i: 3 * d * d,
            "This counts three square matrices, D by D. Each of them goes between D and I.",
            BY_HAND,
        ),
        Mistake(
            "three-i-squared",
            lambda d, i: 3 * i * i,
            "This counts three square matrices, I by I. Each of them goes between D and I.",
            BY_HAND,
        ),
        Mistake(
            "N02",
            lambda d, i: 3 * d * i + 2 * i + d,
            "This counts biases, 2·I + D of them. Llama's three projections have none.",
            GENERAL,
        ),
        Mistake(
            "d-more",
            lambda d, i: 3 * d * i + d,
            "There are D numbers too many: a bias of down, or the weight of a norm. The FFN has no "
            "bias, and its norm is counted elsewhere.",
            WHOLE,
        ),
        Mistake(
            "gate-and-up-bias",
            lambda d, i: 3 * d * i + 2 * i,
            "There are 2·I numbers too many: biases of gate and up. Llama's projections have none.",
            GENERAL,
        ),
        Mistake(
            "sizes-added",
            lambda d, i: 3 * (d + i),
            "This adds the sizes. A matrix with I rows and D columns holds I·D numbers.",
            BY_HAND,
        ),
        Mistake(
            "units",
            lambda d, i: 2 * i + d,
            "This counts the outputs of the three matrices, 2·I + D. Each of them has a whole row "
            "of weights.",
            BY_HAND,
        ),
        Mistake(
            "down-square",
            lambda d, i: 2 * d * i + d * d,
            "The third matrix is taken for D by D. It brings I back to D, so it holds I·D.",
            BY_HAND,
        ),
        Mistake(
            "middle-square",
            lambda d, i: 2 * d * i + i * i,
            "One matrix is taken for I by I. Gate and up both start from D, side by side, and down "
            "goes from I to D.",
            BY_HAND,
        ),
        Mistake(
            "doubled",
            lambda d, i: 6 * d * i,
            "This is twice the number: bytes in 16 bits, or operations a token. Asked for is how "
            "many parameters there are.",
            BY_HAND,
        ),
        Mistake(
            "millions",
            lambda d, i: 3 * d * i / 1e6,
            "This is the number in millions. Return all parameters, as a whole number.",
            BY_HAND,
        ),
        Mistake(
            "bias-columns",
            lambda d, i: 3 * d * (i + 1),
            "Each matrix is given one column more, D numbers, as for a bias. These matrices have "
            "none: D·I each.",
            BY_HAND,
        ),
        Mistake(
            "multiplied",
            lambda d, i: (d * i) ** 3,
            "The three matrices are multiplied with each other. They stand side by side: add what "
            "each of them holds.",
            BY_HAND,
        ),
        Mistake(
            "H19",
            lambda d, i: 3.0 * d * i,
            "The number is right, but it is a float. Parameters are counted: return an int.",
            BY_HAND,
        ),
    ),
    (
        Property("a whole number", _counted(6, 16), BY_HAND),
        Property("one unit more", _one_more_unit, BY_HAND),
        Property("one feature more", _one_more_feature, BY_HAND),
        Property("nothing else", _six_features, BY_HAND),
        Property("a count is an int", _whole_number(6, 16), BY_HAND),
    ),
    (
        "How many matrices are there, and how many rows and columns has each?",
        "Gate and up take D numbers in and give I. Down takes I and gives D. No bias.",
    ),
    3,
    BY_HAND,
)


# --- model_params. f: config -> int

PLAIN = ModelConfig(
    hidden_size=12, intermediate_size=20, num_layers=3, num_attention_heads=4, vocab_size=50
)
WIDE = replace(PLAIN, head_dim=5, num_kv_heads=2)  # no two of its sizes are equal
ALL = replace(WIDE, tie_word_embeddings=True, qkv_bias=True, qk_norm="head", norms_per_layer=4)
MODEL_CASES = (
    Case((PLAIN,), "nothing special"),
    Case((ModelConfig(4096, 11008, 32, 32, 32000),), "Llama-2-7B"),
    Case((replace(PLAIN, tie_word_embeddings=True),), "tied embeddings"),
    Case((replace(PLAIN, num_kv_heads=2),), "two kv heads for four"),
    Case((replace(PLAIN, head_dim=5),), "head_dim given"),
    Case((WIDE,), "head_dim given, two kv heads for four"),
    Case((replace(WIDE, qkv_bias=True),), "biases of queries, keys and values"),
    Case((replace(WIDE, qk_norm="head"),), 'qk_norm "head"'),
    Case((replace(WIDE, qk_norm="full"),), 'qk_norm "full"'),
    Case((replace(PLAIN, norms_per_layer=4),), "four norms a layer"),
    Case((replace(PLAIN, norms_per_layer=0),), "norms that learn nothing"),
    Case((ALL,), "all of it at once"),
)


def _but(**counts):
    """model_params with some parts counted in another way, each by a function of the config."""

    def total(config):
        wrong = {part: count(config) for part, count in counts.items()}
        return sum(params_by_part(config)._replace(**wrong))

    return total


def _q(c):
    return c.num_attention_heads * c.head_dim


def _kv(c):
    return c.num_kv_heads * c.head_dim


def _qkv_bias(c):
    return c.qkv_bias * (_q(c) + 2 * _kv(c))


def _qk_norm(c):
    return {"none": 0, "head": 2 * c.head_dim, "full": _q(c) + _kv(c)}[c.qk_norm]


def _attention(matrices=None, bias=_qkv_bias):
    """All layers' attention, of which matrices (a layer's) or biases are counted in another way."""
    matrices = matrices or (lambda c: 2 * c.hidden_size * (_q(c) + _kv(c)))
    return _but(attention=lambda c: c.num_layers * (matrices(c) + bias(c)))


def _norms(each=lambda c: c.norms_per_layer * c.hidden_size, qk=_qk_norm, last=None):
    last = last or (lambda c: c.hidden_size if c.norms_per_layer else 0)
    return _but(norms=lambda c: c.num_layers * (each(c) + qk(c)) + last(c))


def _in_billions(config):
    return sizes.model_params(config) / 1e9


def _grows(f, config, **change):
    return f(replace(config, **change)) - f(config)


def _layers(f):
    one, two = (_grows(f, PLAIN, num_layers=n) for n in (4, 5))
    if one == 0:
        return "Layers: another `num_layers` changes nothing. Count one layer, and multiply by it."
    if two != 2 * one:
        return (
            f"Layers: the fourth adds {_say(one)} and the fifth {_say(two - one)}, but they are "
            "all alike. Count one of them, and multiply."
        )
    return None


def _in_each_layer(f):
    """What grows with the layers: half as many layers, half of the growth."""
    changes = {
        "FFN: one unit more in the middle": (PLAIN, {"intermediate_size": 21}),
        "Attention: one feature more in each head": (PLAIN, {"head_dim": 4}),
        "Attention: with two kv heads more": (WIDE, {"num_kv_heads": 4}),
        "Biases: `qkv_bias`": (WIDE, {"qkv_bias": True}),
        "Norms: two more in a layer": (PLAIN, {"norms_per_layer": 4}),
        "Norms of queries and keys: `qk_norm`": (WIDE, {"qk_norm": "full"}),
    }
    for what, (config, change) in changes.items():
        three, six = (_grows(f, replace(config, num_layers=n), **change) for n in (3, 6))
        if three == 0 or six == 2 * three:
            continue
        if six == three:
            return (
                f"{what} should add twice as much to six layers as to three, and adds "
                f"{_say(three)} to both: they are counted once. Each layer has its own."
            )
        layers = 3 * three / (six - three)
        if layers == int(layers):
            return (
                f"{what} should add twice as much to six layers as to three, and adds "
                f"{_say(six)} and {_say(three)}: as to {_say(layers + 3)} and {_say(layers)}. "
                "Count all `num_layers` of them, no more and no less."
            )
    return None


def _words(f):
    untied = _grows(f, PLAIN, vocab_size=51)
    tied = _grows(f, replace(PLAIN, tie_word_embeddings=True), vocab_size=51)
    if (untied, tied) == (24, 12):
        return None
    known = {
        (0, 0): "The embeddings are missing.",
        (24, 24): "Tied, the output layer is the embedding matrix itself, and counts once.",
        (12, 12): "Untied, the output layer is a matrix of its own.",
        (12, 24): "Tied means one matrix for both, so it is the other way round.",
        (72, 36): "That is three times as much, for three layers: embeddings are in none of them.",
        (25, 12): "The output layer has no bias.",
        (48, 24): "That is twice as much: bytes in 16 bits, or each matrix with another?",
        (12, 0): "The output layer alone is counted. The embedding is there in any case.",
    }
    why = known.get((untied, tied), "The embedding holds vocabulary · D, and so does the output.")
    return (
        "Embeddings: with D = 12, one word more should add 24 numbers, 12 to the embedding and 12 "
        f"to the output layer; where they are tied, 12 in all. Yours adds {_say(untied)}, and "
        f"tied {_say(tied)}. {why}"
    )


def _units(f):
    more = _grows(f, PLAIN, intermediate_size=21)
    if more == 108:
        return None
    known = {
        0: "`intermediate_size` is not used.",
        72: "Gate, up and down are three matrices.",
        36: "That is one layer's, or one matrix of three.",
        114: "These matrices have no bias.",
        144: "That is four matrices. Gate, up and down are three.",
        432: "That is four times as much: is it counted for each of four heads?",
    }
    why = known.get(more, "The FFN of a layer holds 3·D·I.")
    return (
        "FFN: with D = 12 and three layers, one unit more in the middle should add 3·12·3 = 108 "
        f"numbers. Yours adds {_say(more)}. {why}"
    )


def _outside(f):
    """What would be left without any layer; their norms, and the final one, have another rule."""
    config = replace(PLAIN, norms_per_layer=0)
    left = f(config) - 3 * _grows(f, config, num_layers=4)
    if abs(left - 1200) <= 12:
        return None
    more = left - 1200
    why = "is something else counted once for the whole model?"
    if more > 0 and more % 12 == 0:
        why = (
            f"that is {_say(more / 12)}·12 too many. Is it an embedding of positions? RoPE has no "
            "weights."
        )
    return (
        "Layers: with D = 12 and 50 words, embedding and output layer hold 2·50·12 = 1200, and "
        f"all else grows with the layers. By yours {_say(left)} do not: {why}"
    )


def _kv_heads(f):
    each = -_grows(f, PLAIN, num_kv_heads=2) / (3 * 2)
    if each == 72:
        return None
    known = {
        0: "`num_kv_heads` is not used: keys and values have as many heads as it says.",
        36: "Keys and values have a matrix each.",
        108: "That is three matrices; the output projection goes with the heads of the queries.",
        144: "That is four matrices; queries and output have `num_attention_heads`.",
        24: "A head has `head_dim` features, here 3.",
        78: "That is 72 and 6, as with biases; but `qkv_bias` is false.",
        75: 'That is 72 and 3, as with a norm of keys. But `qk_norm` is "none", and a word that '
        "is not empty counts as true.",
    }
    why = known.get(each, "Keys and values have D · kv heads · head_dim each.")
    if each < 0:
        why = "So more kv heads make it smaller: is heads / kv heads counted?"
    return (
        "Attention: a kv head costs a piece of the key matrix and one of the value matrix, with "
        f"D = 12 and head_dim 3 that is 2·36 = 72 numbers a layer. By yours it is {_say(each)}. "
        f"{why}"
    )


def _head_dim(f):
    more = _grows(f, PLAIN, head_dim=4) / 3
    if more == 192:
        return None
    known = {
        0: "`head_dim` is not used: it need not be D / heads.",
        144: "That is three of four matrices. Is the output projection missing, or taken for D·D? "
        "It has D · heads · head_dim.",
        96: "That is two matrices of four.",
        193: "That is one too many: are rotary frequencies counted? They are not learned.",
        194: 'That is two too many, as with norms of queries and keys; but `qk_norm` is "none".',
    }
    why = known.get(more, "Queries, keys, values and output hold D · heads · head_dim each.")
    if 0 < abs(more - 192) < 1:
        why = "Something of `head_dim` is counted once: rotary frequencies? They are not learned."
    return (
        "Attention: with D = 12, four heads and as many kv heads, each head with one feature more "
        f"should add 4·12·4 = 192 numbers a layer. Yours adds {_say(more)}. {why}"
    )


def _biases(f):
    more = _grows(f, WIDE, qkv_bias=True) / 3
    if more == 40:
        return None
    known = {
        0: "`qkv_bias` changes nothing.",
        52: "That is 12 too many: the output projection has no bias.",
        60: "Keys and values are narrower than queries here, and so are their biases.",
        36: "That is 3·D. A bias is as long as what its projection gives: heads · head_dim.",
        20: "That is the queries' alone.",
        30: "That is the queries' and one more: keys *and* values.",
    }
    why = known.get(more, "A bias is as long as what its projection gives: heads · head_dim.")
    return (
        "Biases: with head_dim 5, four heads and two kv heads, `qkv_bias` should add 20 + 10 + 10 "
        f"= 40 numbers a layer. Yours adds {_say(more)}. {why}"
    )


def _layer_norms(f):
    four, none = _grows(f, PLAIN, norms_per_layer=4), -_grows(f, PLAIN, norms_per_layer=0)
    if (four, none) == (72, 84):
        return None
    known = {
        (0, 0): "`norms_per_layer` changes nothing.",
        (72, 108): "The final norm stands once, after all layers.",
        (36, 48): "Half of the norms of a layer are missing.",
        (144, 168): "RMSNorm has a weight and no bias, D numbers in all.",
    }
    why = known.get((four, none), "Each norm holds D numbers; so does the last, after all layers.")
    if (four, none) == (72, 72):
        missing = f(PLAIN) - 3 * _grows(f, PLAIN, num_layers=4) == 1200
        why = "Yours counts the final norm even where norms learn nothing."
        why = "The final norm is missing, 12 numbers after all layers." if missing else why
    return (
        "Norms: with D = 12 and three layers, four norms a layer in place of two should add "
        "3·2·12 = 72 numbers, and norms that learn nothing should take away 3·2·12 + 12 = 84. "
        f"Yours adds {_say(four)} and takes away {_say(none)}. {why}"
    )


def _qk_norms(f):
    head, full = (_grows(f, WIDE, qk_norm=kind) / 3 for kind in ("head", "full"))
    if (head, full) == (10, 30):
        return None
    why = "One norm is for queries, and one for keys."
    if (head, full) == (0, 0):
        why = "`qk_norm` changes nothing."
    elif head == 30:
        why = 'All heads share one weight where `qk_norm` is "head".'
    elif full == 0:
        why = 'There is "full" too, another kind of norm.'
    elif full == 10:
        why = 'Each feature of all heads has its own weight where `qk_norm` is "full".'
    elif full == 40:
        why = "There are fewer kv heads, so the keys' norm is shorter."
    elif full == 24:
        why = "Queries and keys are heads · head_dim wide, and not D."
    return (
        'Norms of queries and keys: with head_dim 5, four heads and two kv heads, "head" should '
        f'add 5 + 5 = 10 numbers a layer and "full" 20 + 10 = 30. Yours adds {_say(head)} and '
        f"{_say(full)}. {why}"
    )


def _sum(f):
    value, parts = f(PLAIN), params_by_part(PLAIN)
    if value == sum(parts):
        return None
    gap = value - sum(parts)
    listed = ", ".join(f"{name} {count}" for name, count in parts._asdict().items())
    why = "though each size counts as it should: is something added that depends on none of them?"
    six, wide = replace(PLAIN, num_layers=6), replace(PLAIN, hidden_size=24, head_dim=3)
    gap_six, gap_wide = (f(config) - sum(params_by_part(config)) for config in (six, wide))
    if gap_six in (gap, 2 * gap):
        each = gap if gap_six == gap else gap / 3
        where = "once in the model" if gap_six == gap else "in each layer"
        why = f"{_say(abs(each))} {where}. What is counted there?"
        if gap_wide == 2 * gap:
            why = f"{_say(abs(each))} {where}, and twice that when D is 24: is it a norm or a bias?"
    return (
        f"With D = 12, I = 20, three layers, four heads and 50 words there are {sum(parts)} "
        f"parameters: {listed}. Yours is {_say(abs(gap))} {'more' if gap > 0 else 'less'}, {why}"
    )


MODEL_PARAMS = Exercise(
    "model_params",
    ("config",),
    sizes.model_params,
    MODEL_CASES,
    (
        Mistake(
            "four-d-squared",
            _attention(lambda c: 4 * c.hidden_size**2),
            "Attention is counted as 4·D², four square matrices. Keys and values are narrower "
            "with fewer kv heads, and heads · head_dim need not be D.",
            WHOLE,
        ),
        Mistake(
            "kv-heads-unused",
            _attention(lambda c: 4 * c.hidden_size * _q(c)),
            "Keys and values are counted with as many heads as queries. They have "
            "`num_kv_heads`: D · kv heads · head_dim each.",
            WHOLE,
        ),
        Mistake(
            "head-dim-unused",
            _attention(
                lambda c: (
                    2
                    * c.hidden_size
                    * (c.num_attention_heads + c.num_kv_heads)
                    * (c.hidden_size // c.num_attention_heads)
                )
            ),
            "The features of a head are computed as D / heads. A config may say otherwise (Qwen3 "
            "and Gemma do): use `head_dim`.",
            WHOLE,
        ),
        Mistake(
            "output-grouped",
            _attention(lambda c: c.hidden_size * (_q(c) + 3 * _kv(c))),
            "The output projection is counted with the kv heads. It takes what all "
            "`num_attention_heads` give: D · heads · head_dim.",
            WHOLE,
        ),
        Mistake(
            "all-grouped",
            _attention(lambda c: 4 * c.hidden_size * _kv(c)),
            "All four matrices of attention are counted with the kv heads. Only keys and values "
            "have those; queries and output have `num_attention_heads`.",
            WHOLE,
        ),
        Mistake(
            "no-output",
            _attention(lambda c: c.hidden_size * (_q(c) + 2 * _kv(c))),
            "The output projection of attention is missing: D · heads · head_dim in each layer, "
            "as many as the queries have.",
            WHOLE,
        ),
        Mistake(
            "kv-once",
            _attention(lambda c: c.hidden_size * (2 * _q(c) + _kv(c))),
            "Keys and values are counted as one matrix. Each has its own: 2 · D · kv heads · "
            "head_dim.",
            WHOLE,
        ),
        Mistake(
            "groups",
            _attention(
                lambda c: (
                    2
                    * c.hidden_size
                    * (_q(c) + c.num_attention_heads // c.num_kv_heads * c.head_dim)
                )
            ),
            "Keys and values are counted with heads / kv heads, which is how many queries share "
            "one. They have `num_kv_heads` heads.",
            WHOLE,
        ),
        Mistake(
            "no-head-dim",
            _attention(
                lambda c: 2 * c.hidden_size * (c.num_attention_heads + c.num_kv_heads),
            ),
            "In attention a head is counted as one number. It has `head_dim` features: D · heads · "
            "head_dim.",
            WHOLE,
        ),
        Mistake(
            "no-qkv-bias",
            _attention(bias=lambda c: 0),
            "`qkv_bias` is not used. Where it is true, queries, keys and values have a bias, as "
            "long as what each projection gives.",
            COUNTS,
        ),
        Mistake(
            "bias-on-output",
            _attention(bias=lambda c: c.qkv_bias * (_q(c) + 2 * _kv(c) + c.hidden_size)),
            "The output projection is given a bias too. `qkv_bias` is of queries, keys and values "
            "alone.",
            COUNTS,
        ),
        Mistake(
            "bias-as-queries",
            _attention(bias=lambda c: c.qkv_bias * 3 * _q(c)),
            "All three biases are as long as that of the queries. Those of keys and values are "
            "kv heads · head_dim long.",
            COUNTS,
        ),
        Mistake(
            "bias-of-d",
            _attention(bias=lambda c: c.qkv_bias * 3 * c.hidden_size),
            "The biases are counted as 3·D. A bias is as long as what its projection *gives*: "
            "heads · head_dim, and kv heads · head_dim twice.",
            COUNTS,
        ),
        Mistake(
            "bias-always",
            _attention(bias=lambda c: _q(c) + 2 * _kv(c)),
            "The biases are counted whatever `qkv_bias` says. Llama has none.",
            COUNTS,
        ),
        Mistake(
            "two-matrices",
            _but(ffn=lambda c: c.num_layers * 2 * c.hidden_size * c.intermediate_size),
            "The FFN is counted with two matrices. It has gate, up and down: 3·D·I in each layer.",
            WHOLE,
        ),
        Mistake(
            "N04",
            _but(ffn=lambda c: c.num_layers * 8 * c.hidden_size**2),
            "The FFN is counted as 8·D², whatever its width. It holds 3·D·I, with the "
            "`intermediate_size` of the config.",
            GENERAL,
        ),
        Mistake(
            "N02",
            _but(
                ffn=lambda c: (
                    c.num_layers
                    * (
                        3 * c.hidden_size * c.intermediate_size
                        + 2 * c.intermediate_size
                        + c.hidden_size
                    )
                )
            ),
            "The FFN is counted with biases. Gate, up and down have none.",
            WHOLE,
        ),
        Mistake(
            "ffn-once",
            _but(ffn=lambda c: 3 * c.hidden_size * c.intermediate_size),
            "The FFN is counted once. Each of the `num_layers` layers has its own.",
            WHOLE,
        ),
        Mistake(
            "always-untied",
            _but(embeddings=lambda c: 2 * c.vocab_size * c.hidden_size),
            "The output layer is counted even where it is tied. With `tie_word_embeddings` it is "
            "the embedding matrix itself, and counts once.",
            WHOLE,
        ),
        Mistake(
            "always-tied",
            _but(embeddings=lambda c: c.vocab_size * c.hidden_size),
            "The output layer is never counted. Without `tie_word_embeddings` it is a second "
            "matrix, vocabulary · D.",
            WHOLE,
        ),
        Mistake(
            "tied-turned",
            _but(embeddings=lambda c: (1 + c.tie_word_embeddings) * c.vocab_size * c.hidden_size),
            "Tied and untied are exchanged. Tied means that embedding and output layer are the "
            "same matrix: it counts once.",
            WHOLE,
        ),
        Mistake(
            "no-embeddings",
            _but(embeddings=lambda c: 0),
            "The embeddings are missing: vocabulary · D, twice unless the output layer is tied.",
            WHOLE,
        ),
        Mistake(
            "embeddings-in-layers",
            _but(
                embeddings=lambda c: (
                    c.num_layers * (2 - c.tie_word_embeddings) * c.vocab_size * c.hidden_size
                )
            ),
            "The embeddings are multiplied by the number of layers. There is one before and one "
            "after all of them.",
            WHOLE,
        ),
        Mistake(
            "output-bias",
            _but(
                embeddings=lambda c: (
                    (2 - c.tie_word_embeddings) * c.vocab_size * c.hidden_size
                    + (not c.tie_word_embeddings) * c.vocab_size
                )
            ),
            "The output layer is given a bias, as `nn.Linear` has by default. In these models it "
            "has none.",
            WHOLE,
        ),
        Mistake(
            "attention-once",
            _but(attention=lambda c: params_by_part(replace(c, num_layers=1)).attention),
            "Attention is counted once. Each of the `num_layers` layers has its own.",
            WHOLE,
        ),
        Mistake(
            "no-norms",
            _but(norms=lambda c: 0),
            "The norms are missing: D numbers each, `norms_per_layer` of them in a layer and one "
            "at the end.",
            WHOLE,
        ),
        Mistake(
            "no-final-norm",
            _norms(last=lambda c: 0),
            "The final norm is missing: one more, of D numbers, after all layers.",
            WHOLE,
        ),
        Mistake(
            "final-norm-always",
            _norms(last=lambda c: c.hidden_size),
            "The final norm is counted even where norms learn nothing (`norms_per_layer` 0). It "
            "learns nothing there either.",
            COUNTS,
        ),
        Mistake(
            "final-norm-in-layers",
            _norms(last=lambda c: c.num_layers * c.hidden_size * bool(c.norms_per_layer)),
            "The final norm is counted in every layer. There is one, after all of them.",
            WHOLE,
        ),
        Mistake(
            "one-norm",
            _norms(each=lambda c: c.norms_per_layer // 2 * c.hidden_size),
            "Half of the norms are missing: there is one before attention and one before the FFN.",
            WHOLE,
        ),
        Mistake(
            "two-norms-always",
            _norms(each=lambda c: 2 * c.hidden_size, last=lambda c: c.hidden_size),
            "Two norms a layer are counted whatever `norms_per_layer` says. Gemma 2 and 3 have "
            "four, and in some models norms learn nothing.",
            COUNTS,
        ),
        Mistake(
            "norm-bias",
            _norms(
                each=lambda c: 2 * c.norms_per_layer * c.hidden_size,
                last=lambda c: 2 * c.hidden_size * bool(c.norms_per_layer),
            ),
            "Each norm is counted with a bias, as a LayerNorm. RMSNorm has a weight alone, D "
            "numbers.",
            WHOLE,
        ),
        Mistake(
            "no-qk-norm",
            _norms(qk=lambda c: 0),
            '`qk_norm` is not used. Where it is not "none", there is a norm of queries and one '
            "of keys in each layer.",
            COUNTS,
        ),
        Mistake(
            "qk-always",
            _norms(qk=lambda c: _qk_norm(c) or 2 * c.head_dim),
            'Norms of queries and keys are counted even where `qk_norm` is "none". Llama has none '
            "of them.",
            COUNTS,
        ),
        Mistake(
            "qk-as-truth",
            _norms(qk=lambda c: 2 * c.head_dim),
            '`qk_norm` is a string, and `if config.qk_norm` is true for "none" as well. Compare it '
            'with "none", "head" and "full".',
            COUNTS,
        ),
        Mistake(
            "qk-once",
            _norms(qk=lambda c: _qk_norm(c) // 2 if c.qk_norm == "head" else _qk_norm(c)),
            'With `qk_norm` "head" one norm is counted. Queries and keys have one each: '
            "2 · head_dim.",
            COUNTS,
        ),
        Mistake(
            "qk-per-head",
            _norms(qk=lambda c: (c.qk_norm != "none") * (_q(c) + _kv(c))),
            'With `qk_norm` "head" each head is given weights of its own. All heads share one '
            "weight of head_dim numbers: 2 · head_dim with that of the keys.",
            COUNTS,
        ),
        Mistake(
            "full-as-head",
            _norms(qk=lambda c: (c.qk_norm != "none") * 2 * c.head_dim),
            'Where `qk_norm` is "full" it is counted as "head". There each feature of all heads '
            "has a weight: heads · head_dim for queries, kv heads · head_dim for keys.",
            COUNTS,
        ),
        Mistake(
            "full-as-queries",
            _norms(qk=lambda c: 2 * _q(c) if c.qk_norm == "full" else _qk_norm(c)),
            'With `qk_norm` "full" the keys\' norm is as long as that of the queries. Keys have '
            "kv heads · head_dim features.",
            COUNTS,
        ),
        Mistake(
            "full-of-d",
            _norms(qk=lambda c: 2 * c.hidden_size if c.qk_norm == "full" else _qk_norm(c)),
            'With `qk_norm` "full" 2·D weights are counted. The norms stand after the '
            "projections, which give heads · head_dim and kv heads · head_dim.",
            COUNTS,
        ),
        Mistake(
            "one-layer",
            lambda c: sizes.model_params(replace(c, num_layers=1)),
            "One layer is counted. There are `num_layers` of them, all alike.",
            WHOLE,
        ),
        Mistake(
            "rotary",
            lambda c: sizes.model_params(c) + c.num_layers * (c.head_dim // 2),
            "Rotary frequencies are counted, head_dim / 2 in each layer. Some files store them, "
            "but they are constants and not parameters.",
            COUNTS,
        ),
        Mistake(
            "billions",
            _in_billions,
            "This is the number in billions. Return all parameters, as a whole number.",
            WHOLE,
        ),
        Mistake(
            "H19",
            lambda c: float(sizes.model_params(c)),
            "The number is right, but it is a float. Parameters are counted: return an int, with "
            "`//` where you divide.",
            WHOLE,
        ),
    ),
    (
        Property("a whole number", _counted(PLAIN), WHOLE),
        Property("layers are alike", _layers, WHOLE),
        Property("each part in each layer", _in_each_layer, WHOLE),
        Property("one word more", _words, WHOLE),
        Property("one FFN unit more", _units, WHOLE),
        Property("little outside the layers", _outside, WHOLE),
        Property("one kv head less", _kv_heads, WHOLE),
        Property("wider heads", _head_dim, WHOLE),
        Property("biases of queries, keys, values", _biases, COUNTS),
        Property("norms in layers and at the end", _layer_norms, COUNTS),
        Property("norms of queries and keys", _qk_norms, COUNTS),
        Property("the sum", _sum, COUNTS),
        Property("a count is an int", _whole_number(PLAIN), WHOLE),
    ),
    (
        "Count one layer, attention, FFN and norms; times `num_layers`. What stands outside the "
        "layers?",
        "Queries and output have D · heads · head_dim each, keys and values D · kv heads · "
        "head_dim. A bias is as long as what its projection gives, a norm as what it gets.",
        "Outside the layers: vocabulary · D, twice unless tied, and D for the final norm, unless "
        "norms learn nothing.",
    ),
    20,
    WHOLE,
)

EXERCISES = (INTERMEDIATE_SIZE, FFN_PARAMS, MODEL_PARAMS)
