"""The layers in their final form, in reading order: each uses only what stands above it."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def rms_norm(x, weight=None, eps=1e-6):
    """Divide each vector by its root mean square, then scale each feature.

        y = x / √(mean(x²) + eps) · weight

    x: (..., D), floating point; each vector of D features is normalised alone.
    weight: (D,), or None for ones. eps: a finite number, zero or more, in units of x².
    Returns a new tensor, (..., D). The statistic is taken in float32 (float64 for float64 input);
    the result is cast back to x's dtype *before* the weight multiplies it, as Llama does.
    Raises TypeError or ValueError, naming the argument, when one of these does not hold.
    Source: Zhang & Sennrich 2019, arXiv 1910.07467; the order of casts is Meta's `llama/model.py`.
    """
    _check_norm_arguments(x, eps, weight=weight)
    h = _upcast(x)
    mean_square = h.square().mean(dim=-1, keepdim=True)  # (..., 1)
    y = (h * torch.rsqrt(mean_square + eps)).to(x.dtype)  # (..., D)
    return y if weight is None else y * weight


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """Subtract each vector's mean, then do what rms_norm does, then shift each feature.

        y = RMSNorm(x − mean(x)) · weight + bias

    x: (..., D), floating point. weight, bias: (D,), or None for ones and zeros.
    eps: a finite number, zero or more, in units of x².
    Returns a new tensor, (..., D), of x's dtype.
    Raises TypeError or ValueError, naming the argument, when one of these does not hold.
    Source: Ba, Kiros & Hinton 2016, arXiv 1607.06450.
    """
    _check_norm_arguments(x, eps, weight=weight, bias=bias)
    h = _upcast(x)
    y = rms_norm(h - h.mean(dim=-1, keepdim=True), weight, eps)  # (..., D)
    return (y if bias is None else y + bias).to(x.dtype)


class RMSNorm(nn.Module):
    """`rms_norm` as a module: one learned number per feature, no bias.

    dim: the number of features D, 1 or more. eps: as in `rms_norm`.
    `weight`, (D,), starts at ones, so that a new layer is pure normalisation.
    """

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        _check_count("dim", dim)
        _check_eps(eps)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)  # (..., D)

    def extra_repr(self):
        return f"{self.weight.numel()}, eps={self.eps}"


def silu(x):
    """SiLU, also Swish with β = 1: x · σ(x), element by element. x: any shape, floating point.

    Written with the sigmoid: x / (1 + exp(−x)) is the same number, but its gradient overflows.
    Returns a new tensor of x's shape and dtype. Raises TypeError when x is no such tensor.
    Sources: Hendrycks & Gimpel 2016, arXiv 1606.08415; Elfwing et al. 2017, arXiv 1702.03118.
    """
    _check_tensor("x", x)
    return x * torch.sigmoid(x)


def swish(x, beta):
    """x · σ(β·x), element by element. β = 0 is x/2, β = 1 is SiLU, β → ∞ is ReLU.

    x: any shape, floating point. beta: a finite number, or a tensor that broadcasts with x.
    Returns a new tensor. Raises TypeError or ValueError, naming the argument.
    Source: Ramachandran, Zoph & Le 2017, arXiv 1710.05941.
    """
    _check_tensor("x", x)
    _check_beta(beta)
    return x * torch.sigmoid(beta * x)


def gated_ffn(x, w_gate, w_up, w_down, activation=silu):
    """The gated feed-forward network, as a function of its three weights.

        y = down(activation(gate(x)) ⊙ up(x))

    x: (..., D). w_gate, w_up: (I, D). w_down: (D, I). Weights are stored (out, in), as nn.Linear
    does. activation: silu gives SwiGLU, torch.sigmoid GLU, F.relu ReGLU, F.gelu GEGLU, and the
    identity Bilinear. Returns (..., D). Raises ValueError, naming the weight, for a wrong shape.
    Source: Shazeer 2020, arXiv 2002.05202.
    """
    _check_ffn_weights(x, w_gate, w_up, w_down)
    gate, up = x @ w_gate.T, x @ w_up.T  # (..., I) each
    return (activation(gate) * up) @ w_down.T  # (..., D)


class SwiGLU(nn.Module):
    """The feed-forward network of Llama: three projections without bias.

        y = down_proj(silu(gate_proj(x)) ⊙ up_proj(x))

    hidden_size: D. intermediate_size: I. Input and output: (..., D). Meta's names: w1 = gate,
    w3 = up, w2 = down.
    """

    def __init__(self, hidden_size, intermediate_size):
        super().__init__()
        _check_count("hidden_size", hidden_size)
        _check_count("intermediate_size", intermediate_size)
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)  # D → I
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)  # D → I
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)  # I → D

    def forward(self, x):
        _check_features(x, self.down_proj.out_features)
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))  # (..., D)


class FusedSwiGLU(nn.Module):
    """SwiGLU with gate and up in one projection: rows [gate; up] of one weight, (2I, D)."""

    def __init__(self, hidden_size, intermediate_size):
        super().__init__()
        _check_count("hidden_size", hidden_size)
        _check_count("intermediate_size", intermediate_size)
        self.gate_up_proj = nn.Linear(hidden_size, 2 * intermediate_size, bias=False)  # D → 2I
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)  # I → D

    def forward(self, x):
        _check_features(x, self.down_proj.out_features)
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)  # (..., I) each
        return self.down_proj(silu(gate) * up)  # (..., D)


def rope(x, theta=10_000.0):
    """Rotary positions: turn each pair of features by an angle that grows with the position.

    x: (B, heads, T, head_dim), head_dim even; features i and i + head_dim/2 are a pair, as in
    Hugging Face's code. Source: Su et al. 2021, arXiv 2104.09864. Not taught in this course.
    """
    half = x.shape[-1] // 2
    frequency = theta ** (-torch.arange(half, device=x.device).float() / half)  # (half,)
    angle = torch.arange(x.shape[-2], device=x.device).float().outer(frequency)  # (T, half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Attention(nn.Module):
    """Causal attention with grouped keys and values and rotary positions, as Llama has it.

    hidden_size: D. num_heads: H, divides D. num_kv_heads: H or a divisor of H. Input and output:
    (B, T, D). It completes the block; this course does not teach it.
    """

    def __init__(self, hidden_size, num_heads, num_kv_heads=None, rope_theta=10_000.0):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        _check_count("hidden_size", hidden_size)
        _check_divisor("num_heads", num_heads, "hidden_size", hidden_size)
        _check_divisor("num_kv_heads", num_kv_heads, "num_heads", num_heads)
        self.head_dim, self.rope_theta = hidden_size // num_heads, rope_theta
        if self.head_dim % 2:
            raise ValueError(f"hidden_size / num_heads must be even for rope, got {self.head_dim}")
        self.q_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, x):
        _check_features(x, self.o_proj.out_features)
        q, k, v = (self._heads(proj(x)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rope(q, self.rope_theta), rope(k, self.rope_theta)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))  # (B, T, D)

    def _heads(self, x):
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, heads, T, head_dim)


def llama_block(x, attn, ffn, norm1, norm2):
    """One block: two residual steps, each normalised first (pre-norm). x: (B, T, D) and back.

    attn, ffn, norm1, norm2: functions from (B, T, D) to (B, T, D).
    """
    x = x + attn(norm1(x))
    return x + ffn(norm2(x))


class LlamaBlock(nn.Module):
    """`llama_block` with its parts. Names are those of Hugging Face's LlamaDecoderLayer.

    hidden_size: D. intermediate_size: I. num_heads, num_kv_heads, rope_theta: as in Attention.
    eps: as in rms_norm. Input and output: (B, T, D).
    """

    def __init__(
        self,
        hidden_size,
        intermediate_size,
        num_heads,
        num_kv_heads=None,
        *,
        eps=1e-5,
        rope_theta=1e4,
    ):
        super().__init__()
        self.input_layernorm = RMSNorm(hidden_size, eps)
        self.self_attn = Attention(hidden_size, num_heads, num_kv_heads, rope_theta)
        self.post_attention_layernorm = RMSNorm(hidden_size, eps)
        self.mlp = SwiGLU(hidden_size, intermediate_size)

    def forward(self, x):
        norms = self.input_layernorm, self.post_attention_layernorm
        return llama_block(x, self.self_attn, self.mlp, *norms)  # (B, T, D)


def llama_stack(x, blocks, final_norm, head):
    """A model behind its embedding: the blocks in order, one more norm, then the head.

    x: (B, T, D). blocks: a list of functions or modules from (B, T, D) to (B, T, D), and so is
    final_norm. head: from (B, T, D) to (B, T, vocabulary). Returns the logits, (B, T, vocabulary).
    """
    for block in blocks:
        x = block(x)  # (B, T, D)
    return head(final_norm(x))  # (B, T, vocabulary)


def _upcast(x):
    """At least float32: squares overflow float16 from 256 on and lose digits in bfloat16."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _check_norm_arguments(x, eps, **parameters):
    _check_tensor("x", x)
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"x must have at least one feature in its last dimension, got {_shape(x)}")
    _check_eps(eps)
    for name, p in parameters.items():
        if p is None:
            continue
        if not isinstance(p, torch.Tensor):
            raise TypeError(f"{name} must be a torch tensor or None, got {type(p).__name__}")
        _check_dtype(name, p)
        if p.shape != x.shape[-1:]:
            raise ValueError(
                f"{name} must have shape ({x.shape[-1]},), "
                f"one number per feature of x {_shape(x)}, got {_shape(p)}"
            )


def _check_count(name, value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number, 1 or more, got {value!r}")


def _check_divisor(name, value, of, whole):
    _check_count(name, value)
    if whole % value:
        raise ValueError(f"{name} must divide {of}, {whole}, got {value}")


def _check_features(x, hidden_size):
    if x.shape[-1:] != (hidden_size,):
        raise ValueError(f"x must end in hidden_size, {hidden_size} features, got {_shape(x)}")


def _check_ffn_weights(x, w_gate, w_up, w_down):
    if w_gate.ndim != 2 or w_gate.shape[1:] != x.shape[-1:]:
        raise ValueError(
            f"w_gate must be (I, D) with D the last of x {_shape(x)}, got {_shape(w_gate)}"
        )
    if w_up.shape != w_gate.shape:
        raise ValueError(f"w_up must be {_shape(w_gate)}, as w_gate is, got {_shape(w_up)}")
    if w_down.shape != w_gate.T.shape:
        raise ValueError(f"w_down must be {_shape(w_gate.T)}, (D, I), got {_shape(w_down)}")


def _check_tensor(name, value):
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} must be a torch tensor, got {type(value).__name__}")
    _check_dtype(name, value)


def _check_beta(beta):
    if isinstance(beta, torch.Tensor):
        return _check_dtype("beta", beta)
    if isinstance(beta, bool) or not isinstance(beta, int | float | np.integer | np.floating):
        raise TypeError(f"beta must be a number or a torch tensor, got {type(beta).__name__}")
    if not np.isfinite(beta):  # ∞ · 0 would be NaN
        raise ValueError(f"beta must be finite, got {beta}")


def _check_dtype(name, tensor):
    if tensor.dtype not in FLOATS:
        raise TypeError(f"{name} must be float16, bfloat16, float32 or float64, got {tensor.dtype}")


def _check_eps(eps):
    if isinstance(eps, bool) or not isinstance(eps, int | float | np.integer | np.floating):
        raise TypeError(f"eps must be a number, got {type(eps).__name__}")
    if not 0 <= eps <= 1e30:  # so that NaN fails, and float32 holds it
        raise ValueError(f"eps must be finite and zero or more, got {eps}")


def _shape(x):
    return str(tuple(x.shape))
