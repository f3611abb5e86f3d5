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
        "no upcast in bfloat16": (
            "_upcast(x)",
            "(x if x.dtype == torch.bfloat16 else _upcast(x))",
        ),
        "root rounded to x's dtype": ("mean_square + eps)", "mean_square + eps).to(x.dtype)"),
        "eps rounded to x's dtype": ("+ eps)", "+ torch.tensor(eps, dtype=x.dtype))"),
        "weight cast to x's dtype": ("y * weight", "y * weight.to(x.dtype)"),
        "weight in float32, then cast": (
            (".to(x.dtype)", ""),
            (RESULT, "return (y if weight is None else y * weight).to(x.dtype)"),
        ),
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
    ("03", "squares = whole.square()", "squares = whole.float().square()"): [
        "In float16 squares are inf from 256 on"
    ],
    ("03", "return x * torch.rsqrt(x.square()", "return x * torch.rsqrt(x.float().square()"): [
        "Without the upcast one 256 makes its whole float16 token zero",
        "In all-float16 an eps of 1e-8 is zero: zeros become NaN",
        "Autocast on a CPU leaves the bare formula's 300s zeros",
    ],
    ("03", "x.square().float().mean", "x.float().square().mean"): [
        "Upcast after the square: 300s become zeros"
    ],
    ("03", "x * 2.0, ", "x * torch.ones(1), "): ["Single numbers leave a bfloat16 tensor bfloat16"],
    ("03", "x * torch.tensor(2.0)}", "x * torch.tensor([2.0])}"): [
        "Single numbers leave a bfloat16 tensor bfloat16"
    ],
    ("03", "ones = torch.ones(512)", "ones = torch.ones(512).bfloat16()"): [
        "A float32 vector turns bfloat16 into float32"
    ],
    ("03", "x + x.half(), ", "x + x, "): ["bfloat16 and float16 meet in float32"],
    ("03", "return normed(x).to(x.dtype) * weight", "return (normed(x) * weight).to(x.dtype)"): [
        "With spread weights families L and F agree in about 3/4"
    ],
    ("03", "return (normed(x) * weight).to(x.dtype)", "return normed(x).to(x.dtype) * weight"): [
        "With spread weights families L and F agree in about 3/4",
        "F.rms_norm, PyTorch's, is family F, bit for bit",
    ],
    (
        "03",
        "return normed(x).to(x.dtype) * weight",
        "return normed(x).to(x.dtype) * weight.sin()",
    ): [
        "Families L and F are nowhere more than one bfloat16 step apart",
        "With weight one families L and F are equal, bit for bit",
    ],
    ("03", "cast_last(x, 1 + weight.float())", "cast_last(x, weight.float())"): [  # forgotten
        "Gemma's form with weight zero is pure normalisation",
        "Gemma's +1 twice: outputs twice too large",
    ],
    ("03", "cast_last(x, 1 + weight.float())", "cast_last(x, 2 + weight.float())"): [  # twice
        "Gemma's form with weight zero is pure normalisation"
    ],
    ("03", "cast_last(x, zeros)", "one_plus(x, zeros)"): [
        "Gemma's +1 forgotten: a new norm gives zeros"
    ],
    ("03", "torch.tensor(0.003).bfloat16()", "torch.tensor(0.003)"): [
        "In bfloat16 1 + 0.003 is 1, so storing 1 + w loses w"
    ],
    ("03", "F.rms_norm(x, (512,), weight32", "F.rms_norm(x.float(), (512,), weight32"): [
        "F.rms_norm with a float32 weight still returns bfloat16",
        "F.rms_norm warns of the mixed dtypes",
    ],
    ("03", "h = linear(u)", "h = u"): ["Under autocast a float32 layer hands on bfloat16"],
    ("03", "F.rms_norm(tiny, (4,))", "F.rms_norm(tiny, (4,), eps=1e-6)"): [
        "eps=None is 1.19e-7 in all three dtypes"
    ],
    ("03", "mine.float().mul_(3)", "mine.float().mul(3)"): [
        "In float32 x.float() is x: writing into it changes x"
    ],
    ("03", "mine.float().mul_(3)", "mine.mul_(3)"): ["In bfloat16 x.float() is a copy"],
    ("03", "count = torch.tensor(0.0).bfloat16()", "count = torch.tensor(0.0)"): [
        "A bfloat16 counter sticks at 256: 256 + 1 rounds to 256"
    ],
    ("03", ".bfloat16().sum()", ".bfloat16().tanh().sum()"): [
        "torch.sum of bfloat16 ones adds wider and rounds once"
    ],
    ("03", "z.exp().sum()", "z.float().exp().sum()"): ["In float16 exp(12) + exp(12) is inf"],
    ("03", "z.logsumexp(0)", "z.exp().sum().log()"): [
        "logsumexp of two 12s in float16 is 12 + log 2"
    ],
    # 04
    # 05
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
