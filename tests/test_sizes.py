"""The width rule, the counts of parameters and the table of published models."""

import csv
import math
import re
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import pytest
import torch
from torch import nn

from course_utils.layers import Attention, FusedSwiGLU, SwiGLU
from course_utils.sizes import (
    MODELS,
    ModelConfig,
    ffn_params,
    intermediate_size,
    model_params,
    params_by_part,
    published_models,
)

TABLE = published_models()
EXACT = {name: model for name, model in TABLE.items() if model.params_exact}
# Published counts that hold more than the model's parameters; the reasons stand in the notes.
EXPLAINED = {
    "Llama-2-13B": 40 * 64,
    "Llama-2-70B": 80 * 64,
    "SmolLM/SmolLM2-1.7B": 2048,
    "StableLM-2-1.6B": 2048,
}
SMALL = ModelConfig(96, 256, 3, num_attention_heads=6, vocab_size=1000)


# --- the width


@pytest.mark.parametrize(
    ("hidden_size", "multiple_of", "multiplier", "width"),
    [
        (4096, 256, None, 11008),
        (5120, 256, None, 13824),
        (6656, 256, None, 17920),  # LLaMA-1-33B and 65B, from the table in Hugging Face's converter
        (8192, 256, None, 22016),
        (4096, 1024, 1.3, 14336),
        (8192, 4096, 1.3, 28672),
        (16384, 4096, 1.2, 53248),  # Llama-3.1-405B
        (2048, 1024, 1.5, 8192),
        (3072, 256, 1.0, 8192),
        (768, 256, None, 2048),  # a multiple already
        (64, 4, None, 172),
        (288, 32, None, 768),
        (3, 1, None, 8),
        (1, 1, None, 2),
        (2, 1, None, 5),
        (1, 256, None, 256),
        (3, 1, 2, 16),  # a whole multiplier
    ],
)
def test_the_rule_gives_known_widths(hidden_size, multiple_of, multiplier, width):
    assert intermediate_size(hidden_size, multiple_of, multiplier) == width


@pytest.mark.parametrize("multiple_of", [1, 7, 64, 256])
@pytest.mark.parametrize("multiplier", [None, 0.7, 1.3])
def test_the_rule_is_the_least_multiple_that_holds_the_cut_width(multiple_of, multiplier):
    for hidden_size in range(4, 700, 3):
        cut = math.floor(Fraction(2, 3) * 4 * hidden_size)
        cut = cut if multiplier is None else math.floor(multiplier * cut)
        width = intermediate_size(hidden_size, multiple_of, multiplier)
        assert width in range(cut, cut + multiple_of) and width % multiple_of == 0


@pytest.mark.parametrize(("hidden_size", "width"), [(6, 16), (768, 2048), (5, 3)])
def test_ffn_params_counts_the_modules(hidden_size, width):
    for kind in (SwiGLU, FusedSwiGLU):
        module = kind(hidden_size, width)
        assert ffn_params(hidden_size, width) == sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: intermediate_size(0, 4), "hidden_size must be a whole number, 1 or more, got 0"),
        (lambda: intermediate_size(4.0, 4), "hidden_size must be a whole number, 1 or more, got 4"),
        (lambda: intermediate_size(4, -4), "multiple_of must be a whole number, 1 or more, got -4"),
        (lambda: intermediate_size(4, None), "multiple_of must be .*, got None"),
        (lambda: intermediate_size(4, 4, 0), "multiplier must be a number above zero, or None"),
        (lambda: intermediate_size(4, 4, math.nan), "multiplier must be .*, got nan"),
        (lambda: intermediate_size(4, 4, math.inf), "multiplier must be .*, got inf"),
        (lambda: intermediate_size(4, 4, "1.3"), "multiplier must be .*, got '1.3'"),
        (lambda: intermediate_size(4, 4, True), "multiplier must be .*, got True"),
        (lambda: intermediate_size(4, 4, 0.05), "multiplier 0.05 leaves nothing of 10"),
        (lambda: ffn_params(-1, 4), "hidden_size must be .*, got -1"),
        (lambda: ffn_params(4, 1.5), "intermediate_size must be .*, got 1.5"),
    ],
)
def test_bad_sizes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- the counts


@pytest.mark.parametrize("name", EXACT)
def test_each_published_count_is_reproduced_or_explained(name):
    gap = EXACT[name].params_exact - model_params(EXACT[name].config)
    assert gap == EXPLAINED.get(name, 0)


def test_thirty_of_thirty_four_need_no_explanation():
    assert len(EXACT) == 34 and len(EXPLAINED) == 4 and set(EXPLAINED) < set(EXACT)
    assert all(EXACT[name].note for name in EXPLAINED)


@pytest.mark.parametrize(
    ("name", "published"), [("LLaMA-1-7B", 6.7e9), ("stories260K", 260e3), ("stories15M", 15e6)]
)
def test_rounded_counts_are_near(name, published):
    assert model_params(TABLE[name].config) == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("qkv_bias", [False, True])
@pytest.mark.parametrize("qk_norm", ["none", "head", "full"])
@pytest.mark.parametrize(("head_dim", "norms"), [(16, 2), (32, 4), (10, 0)])
@pytest.mark.parametrize("tied", [False, True])
def test_each_part_is_counted_as_modules_hold_it(
    kv_heads, qkv_bias, qk_norm, head_dim, norms, tied
):
    config = replace(
        SMALL,
        num_kv_heads=kv_heads,
        qkv_bias=qkv_bias,
        qk_norm=qk_norm,
        head_dim=head_dim,
        norms_per_layer=norms,
        tie_word_embeddings=tied,
    )
    with torch.device("meta"):
        q, kv = 6 * head_dim, kv_heads * head_dim
        attention = [nn.Linear(96, q, qkv_bias), nn.Linear(q, 96, bias=False)]
        attention += [nn.Linear(96, kv, qkv_bias) for _ in "kv"]
        norm = [nn.RMSNorm(96) for _ in range(norms)]
        sizes = {"none": (), "head": (head_dim, head_dim), "full": (q, kv)}[qk_norm]
        norm += [nn.RMSNorm(size) for size in sizes]
        final = [nn.RMSNorm(96)] if norms else []
        embeddings = [nn.Embedding(1000, 96), nn.Linear(96, 1000, bias=False)][: 2 - tied]
    parts = params_by_part(config)
    assert parts.attention == 3 * _count(attention)
    assert parts.ffn == 3 * 3 * 96 * 256
    assert parts.norms == 3 * _count(norm) + _count(final)
    assert parts.embeddings == _count(embeddings)
    assert model_params(config) == sum(parts) and isinstance(model_params(config), int)


def _count(modules):
    return sum(p.numel() for module in modules for p in module.parameters())


def test_what_is_left_out_has_the_usual_value():
    assert (SMALL.num_kv_heads, SMALL.head_dim) == (6, 16)
    assert not SMALL.tie_word_embeddings and not SMALL.qkv_bias
    assert (SMALL.qk_norm, SMALL.norms_per_layer) == ("none", 2)
    attention = Attention(96, 6)
    assert params_by_part(SMALL).attention == 3 * _count([attention])


def test_a_config_cannot_be_changed_afterwards():
    with pytest.raises(FrozenInstanceError):
        SMALL.hidden_size = 128


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("hidden_size", 0, "hidden_size must be a whole number, 1 or more, got 0"),
        ("hidden_size", "96", "hidden_size must be a whole number, 1 or more, got '96'"),
        ("intermediate_size", -256, "intermediate_size must be .*, got -256"),
        ("intermediate_size", 256.0, "intermediate_size must be .*, got 256.0"),
        ("num_layers", True, "num_layers must be .*, got True"),
        ("num_layers", None, "num_layers must be .*, got None"),
        ("vocab_size", math.nan, "vocab_size must be .*, got nan"),
        ("num_attention_heads", 0, "num_attention_heads must be .*, got 0"),
        ("num_kv_heads", 4, "num_kv_heads must divide num_attention_heads, 6, got 4"),
        ("num_kv_heads", 12, "num_kv_heads must divide num_attention_heads, 6, got 12"),
        ("num_kv_heads", -2, "num_kv_heads must be .*, got -2"),
        ("head_dim", 0, "head_dim must be .*, got 0"),
        ("head_dim", 16.5, "head_dim must be .*, got 16.5"),
        ("tie_word_embeddings", 1, "tie_word_embeddings must be True or False, got 1"),
        ("qkv_bias", "no", "qkv_bias must be True or False, got 'no'"),
        ("qk_norm", "rms", "qk_norm must be one of none, head, full, got 'rms'"),
        ("qk_norm", None, "qk_norm must be one of none, head, full, got None"),
        ("norms_per_layer", 3, "norms_per_layer must be one of 0, 2, 4, got 3"),
        ("norms_per_layer", 2.0, "norms_per_layer must be one of 0, 2, 4, got 2.0"),
        ("norms_per_layer", False, "norms_per_layer must be one of 0, 2, 4, got False"),
    ],
)
def test_a_mistake_in_a_config_is_named(field, value, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **{field: value})


def test_heads_that_do_not_divide_the_hidden_size_need_a_head_dim():
    with pytest.raises(ValueError, match="num_attention_heads must divide hidden_size, 100, got 6"):
        ModelConfig(100, 256, 3, num_attention_heads=6, vocab_size=1000)
    assert ModelConfig(100, 256, 3, 6, 1000, head_dim=16).head_dim == 16


@pytest.mark.parametrize("count", [model_params, params_by_part])
def test_only_a_config_is_counted(count):
    with pytest.raises(TypeError, match="config must be a ModelConfig, got dict"):
        count({"hidden_size": 96})
    with pytest.raises(TypeError, match="config must be a ModelConfig, got PublishedModel"):
        count(TABLE["Llama-2-7B"])


# --- the table


def test_the_file_is_whole():
    with MODELS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert {len(row) for row in rows} == {21}
    assert len(rows) == 1 + 52 == 1 + len(TABLE)
    assert all(cell == cell.strip() and "  " not in cell for row in rows for cell in row)


def test_each_value_has_its_type_or_is_unknown():
    whole = ["num_kv_heads", "head_dim", "vocab_size", "multiple_of", "params_exact"]
    for model in TABLE.values():
        for name in ("hidden_size", "intermediate_size", "num_layers", "num_attention_heads"):
            assert type(getattr(model, name)) is int and getattr(model, name) > 0
        for name in whole:
            assert getattr(model, name) is None or type(getattr(model, name)) is int
        for name in ("norm_eps", "multiplier"):
            assert getattr(model, name) is None or type(getattr(model, name)) is float
        assert model.tie_word_embeddings in (True, False, None) and type(model.qkv_bias) is bool
        assert model.activation in ("silu", "gelu_tanh", None)
        assert model.multiplier is None or model.multiple_of, "a multiplier without its multiple"


def test_each_row_and_each_count_has_its_source():
    for model in TABLE.values():
        assert len(model.source) > 10, model.model
        counted = model.params_exact is not None or model.params_published is not None
        assert counted == (model.params_source is not None), model.model


def test_the_file_names_no_machine():
    text = MODELS.read_text(encoding="utf-8")
    assert not re.search(
        r"https?://|localhost|\d+\.\d+\.\d+\.\d+|(^|[\s(])[/~]\w|/work/|/tmp/", text
    )


def test_an_unknown_size_is_not_guessed():
    unknown = {}
    for name, model in TABLE.items():
        try:
            assert model.config.hidden_size == model.hidden_size
        except ValueError as problem:
            unknown[name] = str(problem)
    assert unknown["Mistral-Nemo-12B"] == (
        "the sources of Mistral-Nemo-12B do not say head_dim, tie_word_embeddings"
    )
    assert unknown["PaLM-540B"] == "the sources of PaLM-540B do not say vocab_size"
    assert len(unknown) == 5 and not set(unknown) & set(EXACT)
