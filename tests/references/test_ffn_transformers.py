"""The gated MLPs of Hugging Face's transformers are `gated_ffn`, with their own weights and names.

Wrong readings of the same weights (swapped, interleaved, not transposed) must disagree.
"""

import importlib
import os
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from course_utils.layers import FusedSwiGLU, SwiGLU, gated_ffn

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before the import, which reads it
transformers = pytest.importorskip("transformers")

D, I = 16, 40  # noqa: E741  the course's names
DTYPES = [torch.float32, torch.bfloat16]
# What one class or another reads from its config besides sizes and activation.
CONFIG = {"mlp_bias": False, "use_bias": False, "pretraining_tp": 1}

SEPARATE = {
    "llama": "LlamaMLP",
    "mistral": "MistralMLP",
    "qwen2": "Qwen2MLP",
    "qwen3": "Qwen3MLP",
    "olmo": "OlmoMLP",
    "olmo2": "Olmo2MLP",
    "granite": "GraniteMLP",
    "cohere": "CohereMLP",
    "deepseek_v3": "DeepseekV3MLP",
    "helium": "HeliumMLP",
    "jamba": "JambaMLP",
    "llama4": "Llama4TextMLP",
}
FUSED = {"phi3": "Phi3MLP", "glm": "GlmMLP", "glm4": "Glm4MLP"}
TANH_GELU = {"gemma": "GemmaMLP", "gemma2": "Gemma2MLP", "gemma3": "Gemma3MLP"}


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def mlp(model, name, intermediate_size, dtype, act="silu"):
    """The model's MLP with seeded weights large enough for the gates to matter."""
    try:
        module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
        made = getattr(module, name)
    except (ImportError, AttributeError):
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    config = SimpleNamespace(
        hidden_size=D,
        intermediate_size=intermediate_size,
        hidden_act=act,
        hidden_activation=act,
        **CONFIG,
    )
    ffn = made(config).to(dtype)
    generator = torch.Generator().manual_seed(0)
    for p in ffn.parameters():
        assert p.ndim == 2, "no bias"
        p.data.copy_(torch.randn(p.shape, generator=generator) / p.shape[1] ** 0.5)
    return ffn


def weights(ffn):
    """gate, up, down; fused ones are rows [gate; up]."""
    if hasattr(ffn, "gate_up_proj"):
        gate, up = ffn.gate_up_proj.weight.chunk(2)
    else:
        gate, up = ffn.gate_proj.weight, ffn.up_proj.weight
    return gate, up, ffn.down_proj.weight


def example(dtype):
    return torch.randn(2, 5, D, generator=torch.Generator().manual_seed(1)).to(dtype)


def miss(y, expected):
    """‖y − expected‖ / ‖expected‖"""
    return ((y.double() - expected.double()).norm() / expected.double().norm()).item()


def allowed(dtype):
    """A few roundings of the output's dtype."""
    return 3 * torch.finfo(dtype).eps


both_kinds = pytest.mark.parametrize(("model", "name"), [*SEPARATE.items(), *FUSED.items()])
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@torch.no_grad()
@both_kinds
@pytest.mark.parametrize("intermediate_size", [I, D], ids=["wide", "square"])
@each_dtype
def test_swiglu_models_are_our_function(model, name, intermediate_size, dtype):
    ffn, x = mlp(model, name, intermediate_size, dtype), example(dtype)
    y = gated_ffn(x, *weights(ffn))
    assert y.dtype == dtype
    assert miss(y, ffn(x)) <= allowed(dtype)


@torch.no_grad()
@pytest.mark.parametrize(("model", "name"), SEPARATE.items())
@each_dtype
def test_our_module_takes_their_state_dict(model, name, dtype):
    ffn, x, ours = mlp(model, name, I, dtype), example(dtype), SwiGLU(D, I).to(dtype)
    ours.load_state_dict(ffn.state_dict())
    assert miss(ours(x), ffn(x)) <= allowed(dtype)


@torch.no_grad()
@pytest.mark.parametrize(("model", "name"), FUSED.items())
@each_dtype
def test_our_fused_module_takes_their_state_dict(model, name, dtype):
    ffn, x, ours = mlp(model, name, I, dtype), example(dtype), FusedSwiGLU(D, I).to(dtype)
    ours.load_state_dict(ffn.state_dict())
    assert miss(ours(x), ffn(x)) <= allowed(dtype)


@torch.no_grad()
@pytest.mark.parametrize(("model", "name"), TANH_GELU.items())
@each_dtype
def test_gemma_is_geglu_with_the_tanh_form(model, name, dtype):
    """And neither SwiGLU nor, beyond rounding, the exact GELU: the activation matters."""
    ffn, x = mlp(model, name, I, dtype, act="gelu_pytorch_tanh"), example(dtype)
    theirs = ffn(x)
    assert miss(gated_ffn(x, *weights(ffn), activation=gelu_tanh), theirs) <= allowed(dtype)
    assert miss(gated_ffn(x, *weights(ffn)), theirs) > 0.05
    if dtype == torch.float32:
        assert miss(gated_ffn(x, *weights(ffn), activation=F.gelu), theirs) > 10 * allowed(dtype)


# Negative controls: what must not agree


def swapped(gate, up, down):
    return up, gate, down


def interleaved(gate, up, down):
    """Rows read as gate, up, gate, up, … where [gate; up] was meant."""
    rows = torch.cat([gate, up])
    return rows[0::2], rows[1::2], down


def gate_twice(gate, up, down):
    return gate, gate, down


def other_way_round(gate, up, down):
    """Units in reverse order in gate and up, not in down."""
    return gate.flip(0), up.flip(0), down


@torch.no_grad()
@both_kinds
@each_dtype
@pytest.mark.parametrize("wrong", [swapped, interleaved, gate_twice, other_way_round])
def test_weights_read_wrongly_disagree(model, name, dtype, wrong):
    ffn, x = mlp(model, name, I, dtype), example(dtype)
    assert miss(gated_ffn(x, *wrong(*weights(ffn))), ffn(x)) > 0.3


@torch.no_grad()
@both_kinds
@each_dtype
@pytest.mark.parametrize("which", range(3), ids=["gate", "up", "down"])
def test_square_weights_not_transposed_disagree(model, name, dtype, which):
    ffn, x = mlp(model, name, D, dtype), example(dtype)
    wrong = [w.T if i == which else w for i, w in enumerate(weights(ffn))]
    assert miss(gated_ffn(x, *wrong), ffn(x)) > 0.3


@torch.no_grad()
@each_dtype
def test_a_control_would_agree_with_a_symmetric_weight(dtype):
    """The controls themselves can fail: a symmetric matrix is its own transpose."""
    ffn, x = mlp("llama", "LlamaMLP", D, dtype), example(dtype)
    ffn.gate_proj.weight.copy_(ffn.gate_proj.weight + ffn.gate_proj.weight.T)
    gate, up, down = weights(ffn)
    assert miss(gated_ffn(x, gate.T, up, down), ffn(x)) <= allowed(dtype)
