"""Every RMSNorm in Hugging Face's transformers is `rms_norm` with one of three orders of casts."""

import contextlib
import functools
import importlib
import os
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from course_utils.layers import rms_norm

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before the import, which reads it
transformers = pytest.importorskip("transformers")

EPS = 0.1  # large, so that its place shows
FEATURES = 48
HALVES = [torch.float16, torch.bfloat16]
DTYPES = [*HALVES, torch.float32]


def cast_then_weight(x, weight):
    """L, Llama's order and ours: the vector is rounded to x's dtype before the weight."""
    return rms_norm(x, weight, EPS)


def weight_then_cast(x, weight):
    """F, torch's order: the weight multiplies in float32 and the product is rounded."""
    return rms_norm(x.float(), weight.float(), EPS).to(x.dtype)


def offset_then_cast(x, weight):
    """G, Gemma's order: as F, with a stored weight that says how far from one."""
    return rms_norm(x.float(), 1 + weight.float(), EPS).to(x.dtype)


FAMILIES = {"L": cast_then_weight, "F": weight_then_cast, "G": offset_then_cast}
# Transformers 5.24 has 144, 26 and 14 classes of these families; 4.56, the oldest we name, has 67,
# 6 and 5.
AT_LEAST = {"L": 60, "F": 5, "G": 5}
WELL_KNOWN = {
    "L": "Llama Mistral Mixtral Qwen2 Qwen3 Phi3 Glm4 Granite DeepseekV3 MllamaText Jamba SmolLM3",
    "F": "Olmo2 Olmo3 GptOss Helium Moshi",
    "G": "Gemma Gemma2 Gemma3 RecurrentGemma T5Gemma Qwen3Next",
}
WELL_KNOWN = [(family, f"{n}RMSNorm") for family in WELL_KNOWN for n in WELL_KNOWN[family].split()]


@functools.cache
def rms_norm_classes():
    """Every class named …RMSNorm in the installed transformers; None where it can't be imported."""
    classes = {}
    for path in sorted((Path(transformers.__file__).parent / "models").glob("*/modeling_*.py")):
        source = path.read_text(encoding="utf-8")
        module = None
        if names := re.findall(r"^class (\w+RMSNorm)\(", source, re.MULTILINE):
            name = f"transformers.models.{path.parent.name}.{path.stem}"
            with contextlib.suppress(ImportError, RuntimeError):  # it needs what is not here
                module = importlib.import_module(name)
        classes |= {name: getattr(module, name, None) for name in names}
    return classes


def class_named(name):
    if rms_norm_classes().get(name) is None:
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    return rms_norm_classes()[name]


def example(dtype):
    """x around one, with a zero vector and one whose squares overflow float16, and a weight."""
    generator = torch.Generator().manual_seed(0)
    x = 1 + 3 * torch.randn(2, 16, FEATURES, generator=generator)
    x[0, 0] = 0
    x[0, 1] *= 100
    weight = 1 + 0.3 * torch.randn(FEATURES, generator=generator)
    return x.to(dtype), weight.to(dtype)


@torch.no_grad()
def with_weight(module, weight):
    """The module with our weight in place of its own."""
    module.to(weight.dtype).weight.copy_(weight)
    return module


def same(y, expected):
    """Bit for bit, dtype included."""
    return y.dtype == expected.dtype and torch.equal(y, expected)


@pytest.mark.parametrize(("family", "name"), WELL_KNOWN)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_well_known_model(family, name, dtype):
    """The model's class gives our numbers bit for bit, in its family's order and no other."""
    x, weight = example(dtype)
    y = with_weight(class_named(name)(FEATURES, eps=EPS), weight)(x)
    assert same(y, FAMILIES[family](x, weight))
    # In float32 nothing is rounded between, so that L and F are the same there.
    others = {"G"} if dtype == torch.float32 and family != "G" else {"L", "F", "G"}
    for other in others - {family}:
        assert not same(y, FAMILIES[other](x, weight))


@pytest.mark.parametrize(("family", "name"), WELL_KNOWN)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_new_module_is_pure_normalisation(family, name, dtype):
    """Before training every family is the same: the weight starts at one, Gemma's at zero."""
    x, _ = example(dtype)
    module = class_named(name)(FEATURES, eps=EPS).to(dtype)
    assert same(module.weight.detach(), torch.full_like(module.weight, family != "G"))
    assert same(module(x), rms_norm(x, eps=EPS))


@torch.no_grad()
def family_of(norm_class, dtype):
    """The letter of the order that a class follows bit for bit; "" when there is none."""
    x, weight = example(dtype)
    try:
        y = with_weight(norm_class(FEATURES, eps=EPS), weight)(x)
    except (TypeError, AttributeError, RuntimeError):  # not imported, no weight, another call
        return ""
    return "".join(letter for letter, order in FAMILIES.items() if same(y, order(x, weight)))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_census(dtype):
    """Nine in ten of the library's RMSNorm classes, and many of each family, are in just one."""
    counts = Counter(family_of(c, dtype) for c in rms_norm_classes().values())
    assert all(counts[family] >= floor for family, floor in AT_LEAST.items()), counts
    assert sum(counts[family] for family in FAMILIES) >= 0.9 * counts.total(), counts


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_llama_with_a_float32_weight(dtype):
    """A float32 weight makes Llama's result float32, and ours."""
    x, _ = example(dtype)
    _, weight = example(torch.float32)
    y = with_weight(class_named("LlamaRMSNorm")(FEATURES, eps=EPS), weight)(x)
    assert y.dtype == torch.float32
    assert same(y, rms_norm(x, weight, EPS))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_order_of_casts_shows_only_when_weights_spread(dtype):
    """L and F part when the weights differ from one, and by one rounding only."""
    x, weight = example(dtype)
    ones = torch.ones_like(weight)
    assert same(cast_then_weight(x, ones), weight_then_cast(x, ones))
    first, last = cast_then_weight(x, weight), weight_then_cast(x, weight)
    assert not same(first, last)
    torch.testing.assert_close(first, last, rtol=1.01 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("name", [n for family, n in WELL_KNOWN if family == "G"])
def test_forgetting_one_plus_shows(name):
    """A Gemma weight used as it is stored comes out wrong by its whole size."""
    x, weight = example(torch.float32)
    offset = weight - 1
    y = with_weight(class_named(name)(FEATURES, eps=EPS), offset)(x)
    torch.testing.assert_close(y, rms_norm(x, weight, EPS))
    assert (y - rms_norm(x, offset, EPS)).norm() > y.norm() / 2
