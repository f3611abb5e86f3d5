"""A tiny Llama from the course's own blocks, the text it reads, and how it is trained.

It reads bytes. Notebook 10 trains its first steps; `tools/train.py` trains it to the end, in every
variant, and what that gave is read by `course_utils/runs.py`.
"""

import hashlib
import itertools
import math
import platform
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from .layers import LlamaBlock, SwiGLU, gated_ffn, llama_block, llama_stack, silu

HIDDEN, LAYERS, HEADS = 96, 4, 4  # D; 8/3 of it and 4 times it are whole numbers: 256 and 384
BYTES = 256  # the vocabulary
EPS = 1e-5
WINDOW, BATCH = 64, 8  # bytes a window, windows a step
STEPS, WARMUP = 400, 40
LOOKS = (10, 20, 30, 60, 100, 200, 300, 400)  # the steps after which the validation loss is taken


# --- The variants


def post_norm_block(x, attn, ffn, norm1, norm2):
    """The block of 2017: each norm stands on the sum. Arguments as in `layers.llama_block`.

    Source: Vaswani et al. 2017, arXiv 1706.03762; compared by Xiong et al. 2020, arXiv 2002.04745.
    """
    x = norm1(x + attn(x))
    return norm2(x + ffn(x))


BLOCKS = {"pre": llama_block, "post": post_norm_block}


class Norm(nn.Module):
    """A norm that computes `function(x, weight, eps)`; weight, (D,), starts at ones."""

    def __init__(self, dim, function):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.function = function

    def forward(self, x):
        return self.function(x, self.weight, EPS)


class MLP(nn.Module):
    """The plain feed-forward network, without bias: down_proj(activation(up_proj(x)))."""

    def __init__(self, hidden_size, intermediate_size, activation):
        super().__init__()
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)
        self.activation = activation

    def forward(self, x):
        return self.down_proj(self.activation(self.up_proj(x)))


class Gated(SwiGLU):
    """The parameters of SwiGLU, with `function(x, w_gate, w_up, w_down)` in place of its own."""

    def __init__(self, hidden_size, intermediate_size, function):
        super().__init__(hidden_size, intermediate_size)
        self.function = function

    def forward(self, x):
        projections = self.gate_proj, self.up_proj, self.down_proj
        return self.function(x, *(projection.weight for projection in projections))


MLPS = {"ReLU": F.relu, "GELU": F.gelu, "SiLU": silu}  # at 4·D
GATES = {"GLU": torch.sigmoid, "ReGLU": F.relu, "GEGLU": F.gelu, "SwiGLU": silu}  # at 8/3·D
FFNS = (*MLPS, *GATES)
NORMS = ("LayerNorm", "RMSNorm", "none")


def _norm(kind):
    if callable(kind):
        return Norm(HIDDEN, kind)
    if kind == "LayerNorm":
        return nn.LayerNorm(HIDDEN, EPS)
    return nn.Identity()  # "none"


def _ffn(kind):
    if callable(kind):
        return Gated(HIDDEN, 8 * HIDDEN // 3, kind)
    if kind in MLPS:
        return MLP(HIDDEN, 4 * HIDDEN, MLPS[kind])
    return Gated(HIDDEN, 8 * HIDDEN // 3, _with(GATES[kind]))


def _with(activation):
    return lambda x, w_gate, w_up, w_down: gated_ffn(x, w_gate, w_up, w_down, activation)


def _check_kind(name, kind, known):
    function = callable(kind) and not isinstance(kind, type | nn.Module)
    if not function and kind not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)} or a function, got {kind!r}")


def _check_whole(name, value):
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{name} must be a whole number, zero or more, got {value!r}")


def _check_tokens(tokens):
    kind = getattr(tokens, "dtype", type(tokens).__name__)
    if kind != torch.long or tokens.ndim != 2:
        shape = f" {tuple(tokens.shape)}" if isinstance(tokens, torch.Tensor) else ""
        raise ValueError(
            f"tokens must be whole numbers, (B, T), as as_tokens(words)[None], got {kind}{shape}"
        )


def _check_data(data):
    if isinstance(data, Text):
        raise TypeError("data must be text.train or text.validation, got the whole Text")
    if not isinstance(data, torch.Tensor) or data.dtype != torch.long or data.ndim != 1:
        raise TypeError(f"data must be a vector of whole numbers, got {type(data).__name__}")
    if len(data) <= WINDOW:
        raise ValueError(f"data must be longer than a window of {WINDOW} bytes, got {len(data)}")


class Block(LlamaBlock):
    """`layers.LlamaBlock`, of which the norm, the FFN and the wiring may be others."""

    def __init__(self, norm, ffn, block):
        super().__init__(HIDDEN, 8 * HIDDEN // 3, HEADS, eps=EPS)
        if norm != "RMSNorm":
            self.input_layernorm, self.post_attention_layernorm = _norm(norm), _norm(norm)
        if ffn != "SwiGLU":
            self.mlp = _ffn(ffn)
        self.wiring = block if callable(block) else BLOCKS[block]

    def forward(self, x):
        norms = self.input_layernorm, self.post_attention_layernorm
        return self.wiring(x, self.self_attn, self.mlp, *norms)  # (B, T, D)


class TinyLlama(nn.Module):
    """A Llama over bytes: embedding, blocks, a last norm, and the embedding again as the head.

    norm: one of NORMS, or a function (x, weight, eps). ffn: one of FFNS, or a function
    (x, w_gate, w_up, w_down). block: "pre", "post", or a function like `layers.llama_block`.
    seed: of the random start. Nothing else draws from it: torch's own generator stays where it is.

    Weights start normal with variance 1/inputs, those that write to the stream divided by
    √(2·layers) besides (Radford et al. 2019, GPT-2). The embedding starts with variance 1/D and
    is multiplied by √D on its way in (Vaswani et al. 2017), so that the stream starts at RMS 1:
    without that, a model without norms would begin with almost nothing.

    Raises ValueError, naming the argument, for an unknown name and for what is no seed.
    """

    def __init__(self, norm="RMSNorm", ffn="SwiGLU", block="pre", seed=0):
        super().__init__()
        _check_kind("norm", norm, NORMS)
        _check_kind("ffn", ffn, FFNS)
        _check_kind("block", block, tuple(BLOCKS))
        _check_whole("seed", seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embed_tokens = nn.Embedding(BYTES, HIDDEN)
            self.layers = nn.ModuleList(Block(norm, ffn, block) for _ in range(LAYERS))
            if block in ("post", post_norm_block):  # the stream has been normalised already
                self.norm = nn.Identity()
            else:  # a whole block for its norm: its draws are part of the recorded starts
                self.norm = Block(norm, ffn, block).input_layernorm
            self._start()

    @torch.no_grad()
    def _start(self):
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                writes = name.endswith(("o_proj.weight", "down_proj.weight"))
                inputs = parameter.shape[1] * (2 * LAYERS if writes else 1)
                parameter.normal_(0, inputs**-0.5)

    def norms(self):
        """All norms in the order of the stream: two for each block, and the last."""
        blocks = ((b.input_layernorm, b.post_attention_layernorm) for b in self.layers)
        return [*itertools.chain(*blocks), self.norm]

    def embed(self, tokens):
        """The stream before the first block. tokens: (B, T), whole numbers. Returns (B, T, D)."""
        _check_tokens(tokens)
        return self.embed_tokens(tokens) * HIDDEN**0.5

    def head(self, x):
        """Logits from the stream, by the embedding's own weights. x: (B, T, D) to (B, T, 256)."""
        return x @ self.embed_tokens.weight.T

    def forward(self, tokens):
        return llama_stack(self.embed(tokens), self.layers, self.norm, self.head)


# --- The text


class Text(NamedTuple):
    """What is read. train, validation: bytes as whole numbers, (N,). sha: of all the text."""

    train: torch.Tensor
    validation: torch.Tensor
    sha: str
    python: str


def python_text():
    """The language reference that every Python has in `pydoc_data.topics`, `help("for")`'s source.

    Each paragraph is kept once, for topics repeat each other: no paragraph is in both parts. The
    last tenth is for validation. Other versions of Python have other words here and there.
    Returns a Text. Source: the Python documentation, PSF License 2.
    """
    from pydoc_data.topics import topics  # half a megabyte

    return as_text("\n\n".join(topics[name] for name in sorted(topics)))


def as_text(words):
    """A Text of any string, each of its paragraphs once, a tenth of it for validation."""
    paragraphs = dict.fromkeys(words.split("\n\n"))
    kept = "\n\n".join(paragraphs).encode()
    cut = len(kept) * 9 // 10
    sha = hashlib.sha256(kept).hexdigest()[:12]
    return Text(as_tokens(kept[:cut]), as_tokens(kept[cut:]), sha, platform.python_version())


def as_tokens(words):
    """Bytes or a string as whole numbers, (N,)."""
    raw = words.encode() if isinstance(words, str) else words
    return torch.tensor(list(raw), dtype=torch.long)


# --- Training


def learning_rate(step, peak, warmup=WARMUP, steps=STEPS):
    """At a step, from 0: a straight line up to peak in `warmup` steps, then half a cosine to 0."""
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak / 2 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def loss_of(model, windows):
    """Mean cross-entropy in nats a byte, each told from those before it. windows: (B, T + 1)."""
    logits = model(windows[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def train(model, data, peak, seed, *, warmup=WARMUP, steps=STEPS):
    """Train the model in place; yields each step's loss, before it changed anything.

    data: (N,), the bytes. peak: the highest learning rate. seed: of the windows drawn; the same
    seed draws the same windows for each model. AdamW with β = (0.9, 0.95), weight decay 0.1 on
    matrices alone, gradients clipped to length 1, as Llama (Touvron et al. 2023, arXiv 2302.13971).
    Raises TypeError or ValueError at once, naming the argument, for what cannot be trained with.
    """
    _check_data(data)
    for name, value in (("seed", seed), ("warmup", warmup), ("steps", steps)):
        _check_whole(name, value)
    if warmup >= steps:
        raise ValueError(f"warmup must be less than steps, got {warmup} of {steps}")
    if not 0 < peak < math.inf:
        raise ValueError(f"peak must be a finite rate above zero, got {peak}")
    return _train(model, data, peak, seed, warmup, steps)


def _train(model, data, peak, seed, warmup, steps):
    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim != 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=peak, betas=(0.9, 0.95))
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, peak, warmup, steps)
        starts = torch.randint(len(data) - WINDOW, (BATCH, 1), generator=generator)
        loss = loss_of(model, data[starts + torch.arange(WINDOW + 1)])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


@torch.no_grad()
def validation_loss(model, data, windows=128):
    """Mean loss over windows that are spread evenly through the data, in nats a byte."""
    _check_data(data)
    _check_whole("windows", windows)
    starts = torch.linspace(0, len(data) - WINDOW - 1, windows).long()[:, None]
    rows = data[starts + torch.arange(WINDOW + 1)]
    # A few at a time, for a notebook's memory.
    return sum(loss_of(model, few).item() * len(few) for few in rows.split(16)) / windows
