"""Looking into the tiny Llama that came with the course: what it learned, and what passes it."""

from typing import NamedTuple

import numpy as np
import torch

from .layers import SwiGLU, llama_block
from .runs import DATA
from .tiny_llama import WINDOW, TinyLlama, as_tokens

# How eight paragraphs begin that Python 3.11 to 3.14 all have, where no training text is. By topic.
PASSAGES = {
    "typesseq": (
        "There are three basic sequence types",
        "The operations in the following table",
        "This table lists the sequence operations",
        'The "in" and "not in" operations have',
        "Sequences of the same type also support",
        "Forward and reversed iterators",
    ),
    "typesmodules": (
        "The only special operation on a module",
        "A special attribute of every module",
    ),
}


class Inside(NamedTuple):
    """What passed through a model on its way. B passages of T tokens, L layers."""

    stream: torch.Tensor  # (2·L + 1, B, T, D): before each sublayer, and after the last
    gate: torch.Tensor  # (L, B, T, I): what gate_proj gave, before SiLU
    up: torch.Tensor  # (L, B, T, I)


def trained_llama():
    """The TinyLlama that `tools/train.py` trained longest, in float32.

    Its matrices were stored in float16, its norm weights in float32.
    """
    with np.load(DATA / "tiny_llama.npz", allow_pickle=False) as stored:
        state = {name: torch.from_numpy(stored[name]).float() for name in stored.files}
    model = TinyLlama().float()  # whatever the default dtype is
    model.load_state_dict(state)
    return model.eval()


def passages():
    """Eight beginnings of paragraphs of Python's documentation, as in every version from 3.11 on.

    Returns tokens, (8, 64). Raises LookupError, naming it, when this Python lacks one.
    """
    from pydoc_data.topics import topics

    rows = []
    for topic, starts in PASSAGES.items():
        for start in starts:
            at = topics.get(topic, "").find(f"\n{start}")
            tokens = as_tokens(topics.get(topic, "")[at + 1 :])[:WINDOW]
            if at < 0 or len(tokens) < WINDOW:
                raise LookupError(f"this Python's topic {topic!r} has no paragraph {start!r} …")
            rows.append(tokens)
    return torch.stack(rows)


def look_inside(model, tokens):
    """Run a model over tokens, (B, T), and keep what passed: an Inside.

    Raises ValueError when its FFN is not SwiGLU, or its norms do not stand before the sublayers.
    """
    if any(type(layer.mlp) is not SwiGLU for layer in model.layers):
        kinds = sorted({type(layer.mlp).__name__ for layer in model.layers})
        raise ValueError(f"each FFN must be SwiGLU, got {', '.join(kinds)}")
    if any(layer.wiring is not llama_block for layer in model.layers):
        raise ValueError("the norms must stand before the sublayers, as in llama_block")
    streams, gates, ups, handles = [], [], [], []

    def keep(module, values):
        handles.append(module.register_forward_hook(lambda _, read, gave: values(read[0], gave)))

    for norm in model.norms():
        keep(norm, lambda read, _: streams.append(read))
    for layer in model.layers:
        keep(layer.mlp.gate_proj, lambda _, gave: gates.append(gave))
        keep(layer.mlp.up_proj, lambda _, gave: ups.append(gave))
    try:
        with torch.no_grad():
            model(tokens)
    finally:
        for handle in handles:
            handle.remove()
    return Inside(torch.stack(streams), torch.stack(gates), torch.stack(ups))


def norm_weights(model):
    """The weights of a model's norms, in the order of the stream: (2·L + 1, D)."""
    if not all(hasattr(norm, "weight") for norm in model.norms()):
        raise ValueError("each norm must have a weight; one of this model's has none")
    return torch.stack([norm.weight.detach() for norm in model.norms()])
