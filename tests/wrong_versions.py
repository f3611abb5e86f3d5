"""Wrong versions: real mistakes, each of which some claim in the course must notice.

A mistake of the library is a change in the text of one function. It takes the right one's place by
`__code__`, so that every copy of the name is reached. A mistake of a notebook is a change in the
text of one cell, and names the claim that it must break.
"""

import ast
import contextlib
import inspect
import textwrap

from course_utils import layers, measure

MEAN_SQUARE = "h.square().mean(dim=-1, keepdim=True)"
DIVISION = "h * torch.rsqrt(mean_square + eps)"
RESULT = "return y if weight is None else y * weight"
CENTRED = "h - h.mean(dim=-1, keepdim=True)"

# function -> what is wrong -> (right text, wrong text), one or several
LIBRARY = {
    layers.rms_norm: {
        # which numbers go into the divisor
        "mean over everything": (MEAN_SQUARE, "h.square().mean()"),
        "mean over the sequence": ("dim=-1", "dim=(-2, -1)[-x.ndim :]"),
        "mean over the first axis": ("dim=-1", "dim=0"),
        "keepdim forgotten": (", keepdim=True", ""),
        "statistic of the first sequence": (MEAN_SQUARE, MEAN_SQUARE + "[:1]"),
        "sum": (".mean(", ".sum("),
        "variance": (MEAN_SQUARE, "h.var(dim=-1, keepdim=True, correction=0)"),
        "unbiased mean": (MEAN_SQUARE, MEAN_SQUARE + " * x.shape[-1] / (x.shape[-1] - 1)"),
        "centres": ("_upcast(x)", "_upcast(x) - _upcast(x).mean(dim=-1, keepdim=True)"),
        "square of the mean": (MEAN_SQUARE, "h.mean(dim=-1, keepdim=True).square()"),
        "mean of absolute values": (MEAN_SQUARE, "h.abs().mean(dim=-1, keepdim=True).square()"),
        "largest": (MEAN_SQUARE, "h.abs().amax(dim=-1, keepdim=True).square()"),
        # root and eps
        "multiplied by the root": ("torch.rsqrt", "torch.sqrt"),
        "no root": (DIVISION, "h / (mean_square + eps)"),
        "two roots": ("mean_square + eps", "mean_square.sqrt() + eps"),
        "eps outside": (DIVISION, "h / (mean_square.sqrt() + eps)"),
        "eps forgotten": ("mean_square + eps", "mean_square"),
        "eps fixed at 1e-6": ("mean_square + eps", "mean_square + 1e-6"),
        "eps fixed at 1e-5": ("mean_square + eps", "mean_square + 1e-5"),
        "eps squared": ("mean_square + eps", "mean_square + eps**2"),
        "eps shared by the features": ("mean_square + eps", "mean_square + eps / x.shape[-1]"),
        "eps as a floor": ("mean_square + eps", "mean_square.clamp_min(eps)"),
        "another default eps": ("eps=1e-6", "eps=1e-5"),
        "no default eps": ("eps=1e-6", "eps=0.0"),
        "NaN hidden": (".to(x.dtype)", ".nan_to_num().to(x.dtype)"),
        # dtype
        "no upcast": ("_upcast(x)", "x"),
        "upcast after the square": ("h.square()", "_upcast(x.square())"),
        "not cast back": (".to(x.dtype)", ""),
        # weight
        "weight ignored": ("y * weight", "y"),
        "weight before the statistic": (
            ("_upcast(x)", "_upcast(x if weight is None else x * weight)"),
            (RESULT, "return y"),
        ),
        "weight twice": ("y * weight", "y * weight * weight"),
        "one plus weight": ("y * weight", "y * (1 + weight)"),
        "weight without its sign": ("y * weight", "y * weight.abs()"),
        "weight frozen": ("y * weight", "y * weight.detach()"),
        # the rest
        "in place": (f"({DIVISION})", "h.mul_(torch.rsqrt(mean_square + eps))"),
        "nothing done": (DIVISION, "h"),
        "sign flipped": (DIVISION, "-" + DIVISION),
        "signs only": (DIVISION, "h.sign()"),
        "clamped": (".to(x.dtype)", ".clamp(-3, 3).to(x.dtype)"),
        # the gradient
        "statistic detached": ("h.square()", "h.detach().square()"),
        "gradient doubled": (RESULT, "y = 2 * y - y.detach()\n    " + RESULT),
        "gradient flipped": (RESULT, "y = 2 * y.detach() - y\n    " + RESULT),
        "weight missing in the gradient": ("y * weight", "y + y.detach() * (weight - 1)"),
    },
    layers.layer_norm: {
        "not centred": (CENTRED, "h"),
        "centred over everything": (CENTRED, "h - h.mean()"),
        "only centred": (f"rms_norm({CENTRED}, weight, eps)", CENTRED),
        "sign flipped": (CENTRED, "h.mean(dim=-1, keepdim=True) - h"),
        "features reversed": (CENTRED, f"({CENTRED}).flip(-1)"),
        "tokens rolled": (CENTRED, f"({CENTRED}).roll(1, 0)"),
        "eps forgotten": ("weight, eps)", "weight, 0.0)"),
        "eps fixed": ("weight, eps)", "weight, 1e-5)"),
        "weight ignored": ("weight, eps)", "None, eps)"),
        "bias ignored": ("y + bias", "y"),
        "bias before the weight": (
            ("weight, eps)", "None, eps)"),
            ("y + bias", "(y + bias) * weight"),
        ),
        "another default eps": ("eps=1e-5", "eps=1e-2"),
    },
    layers.RMSNorm.__init__: {
        "random weight": ("torch.ones(dim)", "1 + torch.randn(dim) / dim**0.5"),
        "weight of zeros": ("torch.ones", "torch.zeros"),
        "one weight for all": ("torch.ones(dim)", "torch.ones(1)"),
        "eps fixed": ("self.eps = eps", "self.eps = 1e-6"),
        "a bias": (
            "self.weight =",
            "self.bias = nn.Parameter(torch.zeros(dim)); self.weight =",
        ),
    },
    layers.RMSNorm.forward: {
        "weight ignored": ("self.weight", "None"),
        "weight frozen": ("self.weight", "self.weight.detach()"),
        "eps dropped": (", self.eps", ""),
    },
    # layers of 04 and 05
    # layers of 08
    layers.llama_block: {
        "residual carries norm(x)": ("x = x + attn(norm1(x))", "x = norm1(x) + attn(norm1(x))"),
        "second residual carries norm(x)": ("x + ffn(norm2(x))", "norm2(x) + ffn(norm2(x))"),
        "second norm reads the block's input": (
            ("x = x + attn(norm1(x))", "h = x + attn(norm1(x))"),
            ("return x + ffn", "return h + ffn"),
        ),
        "first norm used twice": ("norm2(x)", "norm1(x)"),
        "second norm used twice": ("norm1(x)", "norm2(x)"),
        "first norm applied twice": ("norm1(x)", "norm1(norm1(x))"),
        "second norm applied twice": ("norm2(x)", "norm2(norm2(x))"),
        "no first norm": ("norm1(x)", "x"),
        "no second norm": ("norm2(x)", "x"),
        "no first residual": ("x = x + attn", "x = attn"),
        "no second residual": ("return x + ffn", "return ffn"),
        "post-norm": (
            ("x + attn(norm1(x))", "norm1(x + attn(x))"),
            ("x + ffn(norm2(x))", "norm2(x + ffn(x))"),
        ),
        "norms after the sublayers": (
            ("attn(norm1(x))", "norm1(attn(x))"),
            ("ffn(norm2(x))", "norm2(ffn(x))"),
        ),
        "FFN first": (
            ("x = x + attn(norm1(x))", "x = x + ffn(norm1(x))"),
            ("return x + ffn(norm2(x))", "return x + attn(norm2(x))"),
        ),
        "both at once": (
            ("x = x + attn(norm1(x))", "y = attn(norm1(x))"),
            ("return x +", "return x + y +"),
        ),
        "difference": ("return x + ffn", "return x - ffn"),
        "stream multiplied": ("return x +", "return 2 * x +"),
    },
    layers.LlamaBlock.__init__: {
        "eps ignored": ("(hidden_size, eps)", "(hidden_size)"),
        "one norm for both": (
            "self.post_attention_layernorm = RMSNorm(hidden_size, eps)",
            "self.post_attention_layernorm = self.input_layernorm",
        ),
        "another width": ("SwiGLU(hidden_size, intermediate_size)", "SwiGLU(hidden_size, 1024)"),
    },
    layers.LlamaBlock.forward: {
        "norms swapped": (
            "self.input_layernorm, self.post_attention_layernorm",
            "self.post_attention_layernorm, self.input_layernorm",
        ),
        "one norm used twice": ("self.post_attention_layernorm", "self.input_layernorm"),
        "sublayers swapped": ("self.self_attn, self.mlp", "self.mlp, self.self_attn"),
        "attention left out": ("self.self_attn,", "torch.zeros_like,"),
    },
    layers.Attention.__init__: {
        "half the key-value heads": (
            "num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads",
            "num_kv_heads = num_heads // 2",
        ),
        "bias": ("bias=False", "bias=True"),
    },
    layers.Attention.forward: {
        "not causal": ("is_causal=True", "is_causal=False"),
        "rope forgotten": ("q, k = rope(q, self.rope_theta), rope(k, self.rope_theta)", ""),
        "keys for values": ("(q, k, v, is_causal", "(q, k, k, is_causal"),
        "values left out": ("(q, k, v, is_causal", "(q, k, q, is_causal"),
        "no output projection": (
            "self.o_proj(y.transpose(1, 2).flatten(2))",
            "y.transpose(1, 2).flatten(2)",
        ),
        "residual inside": ("return self", "return x + self"),
    },
    # sizes
    # packing
    # measure
    measure.depth_run: {
        "no final norm": ('if place == "pre" else', 'if place == "sandwich" else'),
        "std ignored": ("_new_block(std)", "_new_block(WIDTH**-0.5)"),
        "every depth the deepest": ("streams[depth]", "streams[-1]"),
    },
    measure._post: {
        "pre-norm": (
            ("self_attn(x))", "self_attn(block.input_layernorm(x)) * 0)"),
            ("block.post_attention_layernorm(x + block.mlp(x))", "x + block.mlp(x) * 0"),
        ),
    },
    measure._none: {
        "normalised": ("block.mlp(x)", "block.mlp(block.input_layernorm(x))"),
    },
    measure._gradient_lengths: {
        "no gradient flows back": ("[g.norm() for g", "[g.norm() * 0 + 1 for g"),
    },
    measure.rms: {
        "over everything": ("mean(dim=-1)", "mean()"),
        "no root": (".sqrt()", ""),
        "sum": (".mean(", ".sum("),
    },
    measure.with_rms: {
        "unscaled": ("(value / rms(x))", "(value / value + 0 * rms(x))"),
        "value ignored": ("value / rms(x)", "1 / rms(x)"),
    },
    measure.relative_change: {
        "not relative": (" / before.double().norm()", ""),
        "always nothing": ("(after.double() - before.double())", "(0 * after.double())"),
    },
    measure.outcome: {
        "always an error": ("made = make()", 'return "error"'),
        "always right": ("made = make()", 'return "same numbers"'),
    },
}


# A mistake in a notebook's cell, for claims about plain torch code, without the library:
# (the notebook's number, right text, wrong text) -> the sentences that it must make false.
KEEPDIM_BACK = (".mean(dim=-1).sqrt()", ".mean(dim=-1, keepdim=True).sqrt()")
CELLS = {
    ("00", "x = growth * torch.randn", "x = torch.randn"): [
        "Without a norm 40 layers that grow by 1.5 give millions",
        "Without a norm 40 layers that halve leave next to nothing",
    ],
    ("00", *KEEPDIM_BACK): [
        "A forgotten keepdim gives other numbers, in silence",
        "A forgotten keepdim misses by more than a quarter",
    ],
    ("00", "squares = big.square()", "squares = big.float().square()"): [
        "In float16 the bare formula turns 300s into zeros"
    ],
    ("01", "y = x / x.square().mean()", "y = x / x.square().sum()"): [
        "x divided by its RMS has RMS 1"
    ],
    ("01", "statistic = x.square().mean(dim=-1, keepdim=True)", "statistic = x.square().mean()"): [
        "The mean square is one number per token"
    ],
    ("01", "x * torch.rsqrt(mean_square + eps)", "x / torch.rsqrt(mean_square + eps)"): [
        "first_rms_norm is torch's RMSNorm"
    ],
    ("01", "cube.square()" + KEEPDIM_BACK[0], "cube.square()" + KEEPDIM_BACK[1]): [
        "Without keepdim, [1, 2, 3] is divided by the RMS of token [2, 3]"
    ],
    ("01", "x.square()" + KEEPDIM_BACK[0], "x.square()" + KEEPDIM_BACK[1]): [
        "Without keepdim sizes 3, 4, 5 raise an error",
        "Without keepdim one token gets another shape",
    ],
    ("01", "x.var(dim=-1, correction=0)", "x.var(dim=-1, correction=1)"): [
        "mean square = variance + mean²"
    ],
    ("01", "x.std(dim=-1, correction=0, keepdim=True)", "x.std(dim=-1, keepdim=True)"): [
        "On centred input dividing by std passes"
    ],
    ("01", "x.std(dim=-1, correction=0, keepdim=True)", "rms(x).unsqueeze(-1)"): [
        "On x + 3 dividing by std misses by more than half"
    ],
    ("02", "x.square().sum(dim=-1, keepdim=True)", "x.square().mean(dim=-1, keepdim=True)"): [
        "With a sum in place of the mean the length is 1"
    ],
    # 03
    # 04
    # 05
    # 06
    # 07
    # 08
    ("08", "head(final_norm(x))", "head(x)"): [
        "With zero blocks the logits are head(x / RMS(x))",
        "With zero blocks 10·x gives the same logits",
    ],
    ("08", "RMSNorm(D), ends[1]", "ends[1]"): [
        "Llama-2-7B's RMSNorms hold 65 vectors of 4096",
        "Assembled, Llama-2-7B has 6,738,415,616 parameters",
    ],
    ("08", "width = 4096, 11008", "width = 4096, 16384"): [
        "Assembled, Llama-2-7B has 6,738,415,616 parameters",
        "In Llama-2-7B the FFN is two thirds of a block",
    ],
    ("08", "std=0.02", "std=0.125"): [
        "D 64, std 0.02: 48 pre-norm blocks keep the RMS",
        "D 64, std 0.02: pre- and post-norm have the same gradients",
    ],
    # 09
}


def change(function, *pairs):
    """The function with each (right text, wrong text) of pairs put into its source."""
    source = textwrap.dedent(inspect.getsource(function))
    for right, wrong in pairs:
        if right not in source:
            raise ValueError(f"{function.__qualname__} has no {right!r}: its wrong version is old")
        source = source.replace(right, wrong)
    wrapped = "class Wrapped:\n" + textwrap.indent(
        source, "    "
    )  # so that super() has its closure
    namespace = dict(function.__globals__)
    exec(compile(ast.parse(wrapped), f"wrong {function.__name__}", "exec"), namespace)
    return vars(namespace["Wrapped"])[function.__name__]


@contextlib.contextmanager
def in_place(function, wrong):
    """Let the wrong version run in the place of the library's function."""
    right = function.__code__, function.__defaults__
    function.__code__, function.__defaults__ = wrong.__code__, wrong.__defaults__
    try:
        yield
    finally:
        function.__code__, function.__defaults__ = right


WRONG = {
    f"{function.__qualname__}: {what}": (
        function,
        pairs if isinstance(pairs[0], tuple) else (pairs,),
    )
    for function, mistakes in LIBRARY.items()
    for what, pairs in mistakes.items()
}
