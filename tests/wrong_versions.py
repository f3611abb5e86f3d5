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
SWIGLU = "silu(self.gate_proj(x)) * self.up_proj(x)"
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
    layers.gated_ffn: {
        "activation on up": ("activation(gate) * up", "gate * activation(up)"),
        "activation of the product": ("activation(gate) * up", "activation(gate * up)"),
        "sum": ("activation(gate) * up", "activation(gate) + up"),
        "activation on both": ("activation(gate) * up", "activation(gate) * activation(up)"),
        "no up": ("activation(gate) * up", "activation(gate)"),
        "no activation": ("activation(gate) * up", "gate * up"),
        "sigmoid": ("activation=silu", "activation=torch.sigmoid"),
        "always silu": ("activation(gate)", "silu(gate)"),
        "softmax": ("activation(gate)", "gate.softmax(dim=-1)"),
        "activation after down": (
            "(activation(gate) * up) @ w_down.T",
            "activation((gate * up) @ w_down.T)",
        ),
        "square weights not transposed": (
            "x @ w_gate.T, x @ w_up.T",
            "(x @ w_gate, x @ w_up) if w_up.shape == w_down.shape else (x @ w_gate.T, x @ w_up.T)",
        ),
        "square down not transposed": (
            "@ w_down.T",
            "@ (w_down if w_up.shape == w_down.shape else w_down.T)",
        ),
        "one weight twice": ("x @ w_up.T", "x @ w_gate.T"),
        "gate and up swapped": ("gate, up =", "up, gate ="),
        "up on the activated gate": (
            "activation(gate) * up",
            "activation(gate) * (activation(gate) @ w_down.T @ w_up.T)",
        ),
        "residual inside": ("@ w_down.T", "@ w_down.T + x"),
    },
    layers.SwiGLU.__init__: {
        "bias in gate": (
            "self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)",
            "self.gate_proj = nn.Linear(hidden_size, intermediate_size)",
        ),
        "bias in up": (
            "self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)",
            "self.up_proj = nn.Linear(hidden_size, intermediate_size)",
        ),
        "bias in down": (
            "self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)",
            "self.down_proj = nn.Linear(intermediate_size, hidden_size)",
        ),
        "one Linear twice": (
            "self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)",
            "self.up_proj = self.gate_proj",
        ),
    },
    layers.SwiGLU.forward: {
        "silu on up": (SWIGLU, "self.gate_proj(x) * silu(self.up_proj(x))"),
        "silu of the product": (SWIGLU, "silu(self.gate_proj(x) * self.up_proj(x))"),
        "sum": (SWIGLU, "silu(self.gate_proj(x)) + self.up_proj(x)"),
        "silu on both": (SWIGLU, "silu(self.gate_proj(x)) * silu(self.up_proj(x))"),
        "silu twice": (SWIGLU, "silu(silu(self.gate_proj(x))) * self.up_proj(x)"),
        "silu squared": (SWIGLU, "silu(self.gate_proj(x)) ** 2 * self.up_proj(x)"),
        "no up": (SWIGLU, "silu(self.gate_proj(x))"),
        "no activation": (SWIGLU, "self.gate_proj(x) * self.up_proj(x)"),
        "sigmoid": (SWIGLU, "torch.sigmoid(self.gate_proj(x)) * self.up_proj(x)"),
        "softmax": (SWIGLU, "self.gate_proj(x).softmax(dim=-1) * self.up_proj(x)"),
        "tanh": (SWIGLU, "torch.tanh(self.gate_proj(x)) * self.up_proj(x)"),
        "activation after down": (
            f"self.down_proj({SWIGLU})",
            "silu(self.down_proj(self.gate_proj(x) * self.up_proj(x)))",
        ),
        "no down": (f"self.down_proj({SWIGLU})", SWIGLU),
        "residual inside": ("return self", "return x + self"),
        "gate detached": (SWIGLU, "silu(self.gate_proj(x)).detach() * self.up_proj(x)"),
        "up detached": (SWIGLU, "silu(self.gate_proj(x)) * self.up_proj(x).detach()"),
        "down detached": (
            f"self.down_proj({SWIGLU})",
            f"({SWIGLU}) @ self.down_proj.weight.data.T",
        ),
    },
    # layers of 08
    # sizes
    # packing
    # measure
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
    ("05", "near(silu(g) * u, 6", "near(silu(2 * g) * u, 6"): [
        "A unit with gate 2 and up 3 gives 6·σ(2)"
    ],
    (
        "05",
        "factor, expected = silu(2 * g) / silu(g)",
        "factor, expected = 2 * silu(g) / silu(g)",
    ): ["A gate from 2 to 4 makes the unit 2·σ(4)/σ(2) times as large"],
    ("05", "in (gate, up, hidden,", "in (gate[0], up, hidden,"): [
        "Gate, up and their product are (B, T, I)",
    ],
    ("05", "hidden @ w_down.T)]", "hidden @ w_down.T @ w_up.T)]"): [
        "The output of down is (B, T, D) again"
    ],
    ("05", "lambda: x + hidden, right", "lambda: x + hidden @ w_down.T, right"): [
        "Without down the residual sum fails"
    ],
    ("05", "x @ w_up[:1].T", "x @ w_up[:11].T"): ["An up of 1 unit beside a gate of 12 is silent"],
    ("05", "lambda: x @ w_gate, right", "lambda: x @ w_gate.T, right"): [
        "A weight not transposed fails when D ≠ I"
    ],
    ("05", "lambda: x @ square[0], right", "lambda: x @ square[0].T, right"): [
        "A square weight not transposed is silent"
    ],
    ("05", "g.softmax(dim=-1) * u", "g.softmax(dim=-1) + u"): [
        "Doubling up finds five of eight wrong units",
        "A gate of zeros finds two of the other three",
    ],
    (
        "05",
        '"silu on up": lambda g, u: g * F.silu(u)',
        '"silu on up": lambda g, u: F.silu(g) * u',
    ): ["Comparing numbers finds all eight wrong units"],
    (
        "05",
        '"w2": (4096, 11008), "w3": (11008, 4096)',
        '"w2": (4096, 11008), "w3": (4096, 11008)',
    ): [
        "Only w2 goes back to 4096 features",
        "The shapes do not tell w1 from w3",
    ],
    ("05", "for size in (0.01, 1, 100)", "for size in (1, 0.01, 10)"): [
        "Swapping gate and up moves the output below 2 % for tiny gates",
        "For gates of size 1 the swap moves the output by more than half",
    ],
    ("05", "for size in (0.01, 1, 100)", "for size in (0.01, 1, 1)"): [
        "For huge gates the swap moves the output by its whole length"
    ],
    ("05", '"Bilinear": lambda g: g', '"Bilinear": lambda g: g + 1'): [
        "Of the five only a GLU unit passes something at gate 0"
    ],
    ("05", '"GLU": (1.982, 0.006)', '"GLU": (1.985, 0.006)'): [
        "At 65,536 steps each gated net beats each plain one"
    ],
    ("05", '"SwiGLU": (1.944, 0.010)', '"SwiGLU": (1.953, 0.003)'): [
        "SwiGLU and GEGLU differ by less than either spread"
    ],
    ("05", "SwiGLU(768, 2048)", "SwiGLU(768, 3072)"): [
        "For D = 768 a gated 2048 has as many weights as a plain 3072"
    ],
    ("05", "torch.tensor([300.0]).half()", "torch.tensor([300.0])"): [
        "In float16 a gate of 300 times an up of 300 is infinite"
    ],
    # 06
    # 07
    # 08
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
