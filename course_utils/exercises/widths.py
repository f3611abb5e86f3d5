"""Notebook 06's exercises: the width of the FFN, and how many parameters there are."""

import math  # noqa: F401  for the catalogue's code
from dataclasses import replace
from typing import NamedTuple  # noqa: F401  for the catalogue's code

from .. import sizes
from ..catalogue import exercise
from ..checker import Case, Property

BY_HAND = "06 Six features by hand"
GENERAL = "06 And in general?"
ROUNDING = "06 Where does 11008 come from?"
MULTIPLIER = "06 What does a multiplier do?"
WHOLE = "06 What does a whole model add up to?"
COUNTS = "06 Do published counts agree?"


def _say(number):
    """A number in words: whole where it is whole, else with two digits behind the point."""
    number = int(number) if number == int(number) else round(float(number), 2)
    return str(number).replace("-", "−")


def _is_int(*args):
    def broken(f):
        if isinstance(value := f(*args), float):
            return (
                f"It gives {value:.6g}, a float. Return the whole number as an int, and not in "
                "millions: `//` divides whole numbers, and `int()` cuts off a fraction."
            )
        return None

    return broken


# --- intermediate_size. Every multiple here is divisible by four, and no width lies close to a
# multiple: there int, round and ceil end alike, and so do all orders of the factors.


def _two_thirds(f):
    if abs((width := f(3840, 8)) - 10240) < 60:  # a few blocks more or less are another matter
        return None
    early = " Multiply by 8 first, and divide by 3 last: in Python `2 // 3` is 0, `8 // 3` is 2."
    return (
        "With D = 3840 and a multiple of 8 the width is 8·3840/3 = 10240; yours is "
        f"{_say(width)}, or {width / 3840:.4g}·D. The rule takes 8/3 of D, which is 2/3 of 4·D."
        f"{early if width < 10240 else ''}"
    )


def _a_multiple(f):
    for args in ((5120, 256), (1000, 32), (1024, 96), (8192, 4096, 1.3)):
        width, multiple = f(*args), args[1]
        if width % multiple:
            why = "How many blocks hold it all? Round their number up, and multiply."
            if args[2:] and f(*args[:2]) % multiple == 0:
                why = "Without a multiplier it is one: multiply first, round up last."
            return (
                f"intermediate_size{args} gives {_say(width)}, which is {_say(width // multiple)}·"
                f"{multiple} + {_say(width % multiple)}: no multiple. {why}"
            )
    return None


def _next_up(f):
    rows = ((5120, 256, 13824), (768, 256, 2048), (6000, 8, 16000), (20, 4, 56), (1000, 32, 2688))
    for hidden, multiple, right in (*rows, (4096, 256, 11008)):
        if (width := f(hidden, multiple)) != right:
            why = "The first that holds it all is enough, and what is a multiple already stays."
            if width < right:
                why = "The rule goes up, and cuts nothing off before 8 has multiplied D."
            return (
                f"With D = {hidden}, 8·D/3 is {_say(8 * hidden / 3)}, and rounded up to a multiple "
                f"of {multiple} that is {right}; yours is {_say(width)}. {why}"
            )
    return None


def _multiplies(f):
    for multiplier, right in ((1.25, 20000), (0.5, 8000)):
        if (width := f(6000, 8, multiplier)) != right:
            return (
                f"With D = 6000, a multiple of 8 and the multiplier {multiplier} the width is "
                f"{multiplier}·16000 = {right}; yours is {_say(width)}, and without a multiplier "
                f"{_say(f(6000, 8))}. The multiplier multiplies 8·D/3, once, before the rounding."
            )
    return None


def _in_order(f):
    if (width := f(4096, 1024, 1.3)) == 14336:
        return None
    return (
        "Llama-3-8B goes 8·4096/3 → 10922, times 1.3 → 14198, up to a multiple of 1024 → 14336. "
        f"Yours is {_say(width)}. Is it rounded up before the multiplier, and again after?"
    )


INTERMEDIATE_SIZE = exercise(
    "intermediate_size",
    globals(),
    cases=(
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
    ),
    properties=(
        Property("8/3 of D", _two_thirds, GENERAL),
        Property("a multiple", _a_multiple, ROUNDING),
        Property("the next one up", _next_up, ROUNDING),
        Property("the multiplier multiplies 8·D/3", _multiplies, MULTIPLIER),
        Property("the multiple last", _in_order, MULTIPLIER),
        Property("an int", _is_int(4096, 256), ROUNDING),
    ),
)


# --- ffn_params. f: (hidden_size, intermediate_size) -> int


def _one_more_unit(f):
    more, again = f(6, 17) - f(6, 16), f(6, 18) - f(6, 17)
    if more == again == 18:
        return None
    return (
        "With D = 6, one unit more in the middle adds a row to gate, one to up and a column to "
        f"down, 3·6 = 18 numbers. Yours grows by {_say(more)}, and with the next by {_say(again)}. "
        "The three matrices have no bias."
    )


def _one_more_feature(f):
    if (more := f(7, 16) - f(6, 16)) == 48:
        return None
    return (
        "With I = 16, one feature more adds a column to gate, one to up and a row to down, 3·16 = "
        f"48 numbers. Yours grows by {_say(more)}. Each matrix goes between D and I, and none has "
        "a bias."
    )


def _nothing_else(f):
    if (whole := f(6, 16)) == 288:
        return None
    return (
        f"For D = 6 and I = 16 three matrices hold 3·6·16 = 288. Yours is {_say(whole)}, and grows "
        "as it should: something is added that has no size. Three products are all."
    )


FFN_PARAMS = exercise(
    "ffn_params",
    globals(),
    cases=(
        Case((6, 16), "six features"),
        Case((5, 7)),
        Case((20, 3), "a narrow middle"),
        Case((4, 4), "equal sizes"),
        Case((4096, 11008), "Llama-2-7B"),
    ),
    properties=(
        Property("one unit more", _one_more_unit, BY_HAND),
        Property("one feature more", _one_more_feature, BY_HAND),
        Property("nothing else", _nothing_else, BY_HAND),
        Property("a count is an int", _is_int(6, 16), BY_HAND),
    ),
)


# --- model_params. f: config -> int

PLAIN = sizes.ModelConfig(
    hidden_size=12, intermediate_size=20, num_layers=3, num_attention_heads=4, vocab_size=50
)
TIED = replace(PLAIN, tie_word_embeddings=True)
GROUPED = replace(PLAIN, num_kv_heads=2)
WIDE = replace(GROUPED, head_dim=5)  # no two of its sizes are equal
ALL = replace(WIDE, tie_word_embeddings=True, qkv_bias=True, qk_norm="head", norms_per_layer=4)

# Changes of a config by one field; what each should add to all three layers together, and how many
# matrices grow by that (0: none does); why.
_OF_SIZES = (
    (PLAIN, {"vocab_size": 51}, 24, 2, "Embeddings: one word more is 12 numbers in the embedding "
     "and 12 in the output layer"),
    (TIED, {"vocab_size": 51}, 12, 1, "Embeddings: where they are tied, one word more is 12 "
     "numbers in the one matrix for both"),
    (PLAIN, {"intermediate_size": 21}, 108, 3, "FFN: one unit more in the middle is 12 numbers in "
     "each of three matrices"),
    (GROUPED, {"num_kv_heads": 4}, 432, 2, "Attention: two kv heads more, of three features each, "
     "are 2·3·12 numbers in the key matrix and as many in the value matrix"),
    (PLAIN, {"head_dim": 4}, 576, 4, "Attention: one feature more in each of four heads is 4·12 "
     "numbers in each of four matrices"),
)  # fmt: skip
_OF_CHOICES = (
    (WIDE, {"qkv_bias": True}, 120, 0, "Biases: with head_dim 5, four heads and two kv heads, "
     "`qkv_bias` stands for 20 + 10 + 10 numbers"),
    (PLAIN, {"norms_per_layer": 4}, 72, 0, "Norms: four in place of two are 2·12 numbers more"),
    (replace(PLAIN, norms_per_layer=0), {"norms_per_layer": 2}, 84, 0, "Norms: where they learn, "
     "the two of a layer have 2·12 numbers, and the final one has 12 outside the layers"),
    (WIDE, {"qk_norm": "head"}, 30, 0, "Norms of queries and keys: with head_dim 5, those called "
     '"head" have 5 + 5 numbers, as all heads share them'),
    (WIDE, {"qk_norm": "full"}, 90, 0, "Norms of queries and keys: with head_dim 5, four heads and "
     'two kv heads, those called "full" have 20 + 10 numbers'),
)  # fmt: skip


def _grows(f, config, **change):
    return f(replace(config, **change)) - f(config)


def _as_much(changes):
    def broken(f):
        for config, change, right, matrices, what in changes:
            ((field, new),) = change.items()
            more, six = (_grows(f, replace(config, num_layers=n), **change) for n in (3, 6))
            if more == right:
                continue
            number = matrices * more / right
            that = f", {_say(abs(more - right))} too {'many' if more > right else 'few'}"
            if more == six != 0 and field != "vocab_size":
                that = ", and as many to six layers, though each layer has its own"
            elif number == int(number) > 0:
                that = f", as much as {_say(number)} matri{'x' if number == 1 else 'ces'}"
            return (
                f"{what}. With D = 12 and three layers, `{field}` {getattr(config, field)} → "
                f"{new} should add {right} in all. Yours adds {_say(more)}{that}."
            )
        return None

    return broken


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


def _outside(f):
    """What would be left without any layer. The final norm, of 12 numbers, has another rule."""
    config = replace(PLAIN, norms_per_layer=0)
    left = f(config) - 3 * _grows(f, config, num_layers=4)
    if abs(left - 1200) <= 12:
        return None
    return (
        "Layers: with D = 12 and 50 words, embedding and output layer hold 2·50·12 = 1200, and "
        f"all else grows with the layers. By yours {_say(left)} do not. What is counted once for "
        "the whole model, and should not be, or in each layer, and should not be?"
    )


def _sum(f):
    parts = sizes.params_by_part(PLAIN)
    if not (gap := f(PLAIN) - sum(parts)):
        return None
    listed = ", ".join(f"{name} {count}" for name, count in parts._asdict().items())
    return (
        f"With D = 12, I = 20, three layers, four heads and 50 words there are {sum(parts)} "
        f"parameters: {listed}. Yours is {_say(abs(gap))} {'more' if gap > 0 else 'less'}, though "
        "each size counts as it should."
    )


MODEL_PARAMS = exercise(
    "model_params",
    globals(),
    cases=(
        Case((PLAIN,), "nothing special"),
        Case((sizes.ModelConfig(4096, 11008, 32, 32, 32000),), "Llama-2-7B"),
        Case((TIED,), "tied embeddings"),
        Case((GROUPED,), "two kv heads for four"),
        Case((replace(PLAIN, head_dim=5),), "head_dim given"),
        Case((WIDE,), "head_dim given, two kv heads for four"),
        Case((replace(WIDE, qkv_bias=True),), "biases of queries, keys and values"),
        Case((replace(WIDE, qk_norm="head"),), 'qk_norm "head"'),
        Case((replace(WIDE, qk_norm="full"),), 'qk_norm "full"'),
        Case((replace(PLAIN, norms_per_layer=4),), "four norms a layer"),
        Case((replace(PLAIN, norms_per_layer=0),), "norms that learn nothing"),
        Case((ALL,), "all of it at once"),
    ),
    properties=(
        Property("layers are alike", _layers, WHOLE),
        Property("each size", _as_much(_OF_SIZES), WHOLE),
        Property("little outside the layers", _outside, WHOLE),
        Property("each choice", _as_much(_OF_CHOICES), COUNTS),
        Property("the sum", _sum, COUNTS),
        Property("a count is an int", _is_int(PLAIN), WHOLE),
    ),
)

EXERCISES = (INTERMEDIATE_SIZE, FFN_PARAMS, MODEL_PARAMS)
