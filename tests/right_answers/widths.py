"""Right answers to notebook 06's exercises, each written differently."""

import math

import numpy as np
import torch
from torch import nn

from course_utils import sizes


def intermediate_size__metas_code(hidden_size, multiple_of, multiplier=None):
    hidden_dim = 4 * hidden_size
    hidden_dim = int(2 * hidden_dim / 3)
    if multiplier is not None:
        hidden_dim = int(multiplier * hidden_dim)
    return multiple_of * ((hidden_dim + multiple_of - 1) // multiple_of)


def intermediate_size__ceil(hidden_size, multiple_of, multiplier=None):
    width = math.ceil(8 * hidden_size / 3)
    if multiplier:
        width = math.ceil(multiplier * width)
    return math.ceil(width / multiple_of) * multiple_of


def intermediate_size__round(hidden_size, multiple_of, multiplier=1):
    width = round(8 / 3 * hidden_size)
    width = round(width * (multiplier or 1.0))
    while width % multiple_of:
        width += 1
    return width


def intermediate_size__never_cut(hidden_size, multiple_of, multiplier=None):
    width = 2 / 3 * 4 * hidden_size * (1.0 if multiplier is None else multiplier)
    return int(-(-width // multiple_of) * multiple_of)


def intermediate_size__remainder(hidden_size, multiple_of, multiplier=None):
    width = hidden_size * 8 // 3
    width = width if multiplier is None else math.floor(width * multiplier)
    return width + (multiple_of - width % multiple_of) % multiple_of


def intermediate_size__numpy(hidden_size, multiple_of, multiplier=None):
    width = np.floor(8 * hidden_size / 3) * (multiplier or 1)
    return np.ceil(np.floor(width) / multiple_of).astype(int) * multiple_of


def intermediate_size__loop(hidden_size, multiple_of, multiplier=None):
    wanted = int(8 * hidden_size / 3)
    if multiplier is not None:
        wanted = int(wanted * multiplier)
    width = multiple_of
    while width < wanted:
        width += multiple_of
    return width


intermediate_size__lambda = lambda d, m, q=None: m * math.ceil((q or 1) * (8 * d // 3) / m)


def ffn_params__sum(hidden_size, intermediate_size):
    gate = up = hidden_size * intermediate_size
    down = intermediate_size * hidden_size
    return gate + up + down


def ffn_params__modules(hidden_size, intermediate_size):
    with torch.device("meta"):
        gate = nn.Linear(hidden_size, intermediate_size, bias=False)
        up = nn.Linear(hidden_size, intermediate_size, bias=False)
        down = nn.Linear(intermediate_size, hidden_size, bias=False)
    return sum(layer.weight.numel() for layer in (gate, up, down))


def ffn_params__library_module(hidden_size, intermediate_size):
    from course_utils import SwiGLU

    with torch.device("meta"):
        return sum(p.numel() for p in SwiGLU(hidden_size, intermediate_size).parameters())


def ffn_params__shapes(D, I):
    return sum(math.prod(shape) for shape in [(I, D), (I, D), (D, I)])


ffn_params__packed = lambda hidden, width: 2 * width * hidden + width * hidden

model_params__library = sizes.model_params


def model_params__layer_by_layer(config):
    c, total = config, 0
    for _ in range(c.num_layers):
        for heads in (c.num_attention_heads, c.num_kv_heads, c.num_kv_heads):
            total += c.hidden_size * heads * c.head_dim
            if c.qkv_bias:
                total += heads * c.head_dim
        total += c.num_attention_heads * c.head_dim * c.hidden_size
        total += 3 * c.hidden_size * c.intermediate_size
        total += c.norms_per_layer * c.hidden_size
        if c.qk_norm == "head":
            total += c.head_dim + c.head_dim
        elif c.qk_norm == "full":
            total += (c.num_attention_heads + c.num_kv_heads) * c.head_dim
    total += c.vocab_size * c.hidden_size
    if not c.tie_word_embeddings:
        total += c.vocab_size * c.hidden_size
    if c.norms_per_layer > 0:
        total += c.hidden_size
    return total


def model_params__one_formula(c):
    d, h, kv = c.hidden_size, c.num_attention_heads * c.head_dim, c.num_kv_heads * c.head_dim
    layer = 2 * d * (h + kv) + 3 * d * c.intermediate_size + c.norms_per_layer * d
    layer += (h + 2 * kv) * int(c.qkv_bias)
    layer += (c.qk_norm == "head") * 2 * c.head_dim + (c.qk_norm == "full") * (h + kv)
    return (
        c.num_layers * layer
        + (2 - c.tie_word_embeddings) * c.vocab_size * d
        + d * min(1, c.norms_per_layer)
    )


def model_params__shapes(config):
    D, I = config.hidden_size, config.intermediate_size
    q = config.head_dim * config.num_attention_heads
    kv = config.head_dim * config.num_kv_heads
    shapes = [(q, D), (kv, D), (kv, D), (D, q), (I, D), (I, D), (D, I)]
    shapes += [(D,)] * config.norms_per_layer
    shapes += [(q,), (kv,), (kv,)] if config.qkv_bias else []
    shapes += {"none": [], "head": [(config.head_dim,)] * 2, "full": [(q,), (kv,)]}[config.qk_norm]
    once = [(config.vocab_size, D)] * (1 if config.tie_word_embeddings else 2)
    once += [(D,)] if config.norms_per_layer else []
    return config.num_layers * sum(map(math.prod, shapes)) + sum(map(math.prod, once))


def model_params__numpy(config):
    c = config
    heads = np.array([c.num_attention_heads, c.num_kv_heads, c.num_kv_heads]) * c.head_dim
    attention = c.hidden_size * (heads.sum() + heads[0]) + c.qkv_bias * heads.sum()
    norms = dict(none=0, head=2 * c.head_dim, full=heads[:2].sum())[c.qk_norm]
    ffn = 3 * c.hidden_size * c.intermediate_size
    layers = c.num_layers * (attention + ffn + norms + c.norms_per_layer * c.hidden_size)
    ends = c.vocab_size * c.hidden_size * (1 if c.tie_word_embeddings else 2)
    return np.int64(layers + ends + bool(c.norms_per_layer) * c.hidden_size)
