"""How wide a feed-forward network is, how many parameters a model has, and the published models."""

import csv
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from .layers import _check_count, _check_divisor

MODELS = Path(__file__).with_name("data") / "published_models.tsv"
QK_NORMS = ("none", "head", "full")
NORMS_PER_LAYER = (0, 2, 4)


def intermediate_size(hidden_size, multiple_of, multiplier=None):
    """The width of the gated feed-forward network by Meta's rule.

    8/3 of hidden_size, so that three matrices hold what two hold at 4 · hidden_size; then times
    multiplier; then up to a multiple of multiple_of. Fractions are cut off after each of the first
    two steps. multiplier: a number above zero, or None for no such step. Returns an int.
    Raises ValueError, naming the argument, when one of them is something else.
    Source: FeedForward in Meta's `llama/model.py` and `llama3`.
    """
    _check_count("hidden_size", hidden_size)
    _check_count("multiple_of", multiple_of)
    width = 8 * hidden_size // 3  # // and int() cut the fraction off alike
    if multiplier is not None:
        _check_multiplier(multiplier)
        if not math.isfinite(multiplier * width):
            raise ValueError(f"multiplier must be finite, and {multiplier} is too large")
        width = int(multiplier * width)
    if width == 0:
        raise ValueError(f"multiplier {multiplier} leaves nothing of {8 * hidden_size // 3}")
    blocks = (width + multiple_of - 1) // multiple_of  # rounded up
    return multiple_of * blocks


def ffn_params(hidden_size, intermediate_size):
    """Parameters of one gated feed-forward network: gate, up and down, each D · I, no bias."""
    _check_count("hidden_size", hidden_size)
    _check_count("intermediate_size", intermediate_size)
    return 3 * hidden_size * intermediate_size


@dataclass(frozen=True)
class ModelConfig:
    """The sizes of a Llama-like model that decide how many parameters it has.

    num_kv_heads: heads for keys and values, a divisor of num_attention_heads; None for as many.
    head_dim: features of one head; None for hidden_size / num_attention_heads.
    tie_word_embeddings: whether the output layer is the embedding matrix itself.
    qkv_bias: whether the query, key and value projections have a bias.
    qk_norm: "none"; "head" for norms of queries and keys with head_dim weights each; "full" for one
    weight per query or key feature, as in OLMo-2.
    norms_per_layer: 2; 4 with norms after attention and FFN too; 0 where norms learn nothing.
    Raises ValueError, naming the field and what was expected, when one is something else.
    """

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_attention_heads: int
    vocab_size: int
    num_kv_heads: int | None = None
    head_dim: int | None = None
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    qk_norm: str = "none"
    norms_per_layer: int = 2

    def __post_init__(self):
        for name in ("hidden_size", "intermediate_size", "num_layers", "vocab_size"):
            _check_count(name, getattr(self, name))
        heads = self.num_attention_heads
        _check_count("num_attention_heads", heads)
        if self.num_kv_heads is None:
            object.__setattr__(self, "num_kv_heads", heads)  # the dataclass is frozen
        _check_divisor("num_kv_heads", self.num_kv_heads, "num_attention_heads", heads)
        if self.head_dim is None:
            _check_divisor("num_attention_heads", heads, "hidden_size", self.hidden_size)
            object.__setattr__(self, "head_dim", self.hidden_size // heads)
        _check_count("head_dim", self.head_dim)
        for name in ("tie_word_embeddings", "qkv_bias"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        _check_choice("qk_norm", self.qk_norm, QK_NORMS)
        _check_choice("norms_per_layer", self.norms_per_layer, NORMS_PER_LAYER)


class Parts(NamedTuple):
    """Parameters of a whole model by where they are. `sum(parts)` is all of them."""

    attention: int
    ffn: int
    embeddings: int  # with the output layer, where it is another matrix
    norms: int


def params_by_part(config):
    """The parameters of a ModelConfig, as Parts."""
    _check_config(config)
    c = config
    q_out, kv_out = c.num_attention_heads * c.head_dim, c.num_kv_heads * c.head_dim
    attention = 2 * c.hidden_size * q_out + 2 * c.hidden_size * kv_out  # q and o; k and v
    if c.qkv_bias:
        attention += q_out + 2 * kv_out
    qk_norm = {"none": 0, "head": 2 * c.head_dim, "full": q_out + kv_out}[c.qk_norm]
    norms = c.norms_per_layer * c.hidden_size + qk_norm
    final_norm = c.hidden_size if c.norms_per_layer else 0
    matrices = 1 if c.tie_word_embeddings else 2
    return Parts(
        attention=c.num_layers * attention,
        ffn=c.num_layers * ffn_params(c.hidden_size, c.intermediate_size),
        embeddings=matrices * c.vocab_size * c.hidden_size,
        norms=c.num_layers * norms + final_norm,
    )


def model_params(config):
    """The number of parameters of a ModelConfig, as an int."""
    return sum(params_by_part(config))


@dataclass(frozen=True)
class PublishedModel:
    """One row of the table of published models. None stands where the sources say nothing.

    multiple_of, multiplier: those of `intermediate_size`, where they are documented.
    params_exact: the published count; params_published: a rounded one, as printed.
    params_source, source: where the count and the other columns come from, mostly repository:path.
    """

    model: str
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_attention_heads: int
    num_kv_heads: int | None
    head_dim: int | None
    vocab_size: int | None
    activation: str | None
    norm_eps: float | None
    tie_word_embeddings: bool | None
    multiple_of: int | None
    multiplier: float | None
    qkv_bias: bool
    qk_norm: str
    norms_per_layer: int
    params_exact: int | None
    params_published: str | None
    params_source: str | None
    source: str
    note: str | None

    @property
    def config(self):
        """The ModelConfig. Raises ValueError when a size it needs is unknown: none is guessed."""
        sizes = {field.name: getattr(self, field.name) for field in fields(ModelConfig)}
        unknown = [name for name, value in sizes.items() if value is None]
        if unknown:
            raise ValueError(f"the sources of {self.model} do not say {', '.join(unknown)}")
        return ModelConfig(**sizes)


def published_models():
    """The table of published models: name -> PublishedModel, in the order of the file."""
    with MODELS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    models = [PublishedModel(**{name: _value(name, v) for name, v in row.items()}) for row in rows]
    return {model.model: model for model in models}


WORDS = {"model", "activation", "qk_norm", "params_published", "params_source", "source", "note"}


def _value(column, text):
    if text == "":
        return None
    if column in WORDS:
        return text
    if text in ("True", "False"):
        return text == "True"
    return float(text) if column in ("norm_eps", "multiplier") else int(text)


def _check_config(config):
    if not isinstance(config, ModelConfig):
        raise TypeError(f"config must be a ModelConfig, got {type(config).__name__}")


def _check_multiplier(value):
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 < value < math.inf):
        raise ValueError(f"multiplier must be a number above zero, or None, got {value!r}")


def _check_choice(name, value, choices):
    if type(value) is not type(choices[0]) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}")
