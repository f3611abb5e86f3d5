"""Wrong versions: real mistakes, each of which some claim in the course must notice.

Most are the slips of the exercises' catalogue, put into the library's own functions. What the
catalogue does not have stands below, as a change in the text of one function. A wrong version takes
the right one's place by `__code__`, so that every copy of the name is reached. A mistake of a
notebook is a change in the text of one cell, and names the claim that it must break.
"""

import ast
import contextlib
import inspect
import textwrap

from course_utils import exercises, inside, layers, measure, packing, runs, sizes, tiny_llama
from course_utils.exercises import trained

MEAN_SQUARE = "h.square().mean(dim=-1, keepdim=True)"
DIVISION = "h * torch.rsqrt(mean_square + eps)"
RESULT = "return y if weight is None else y * weight"
WIDTH = "8 * hidden_size // 3"
SWIGLU = "silu(self.gate_proj(x)) * self.up_proj(x)"
CENTRED = "h - h.mean(dim=-1, keepdim=True)"

SILU = "x * torch.sigmoid(x)"
SWISH = "x * torch.sigmoid(beta * x)"
GRADIENT = "return gradient"

# function -> what is wrong -> (right text, wrong text), one or several
LIBRARY = {
    layers.rms_norm: {
        # which numbers go into the divisor
        "statistic of the first sequence": (MEAN_SQUARE, MEAN_SQUARE + "[:1]"),
        "mean of absolute values": (MEAN_SQUARE, "h.abs().mean(dim=-1, keepdim=True).square()"),
        # root and eps
        "eps shared by the features": ("mean_square + eps", "mean_square + eps / x.shape[-1]"),
        "another default eps": ("eps=1e-6", "eps=1e-5"),
        "no default eps": ("eps=1e-6", "eps=0.0"),
        "NaN hidden": (".to(x.dtype)", ".nan_to_num().to(x.dtype)"),
        # dtype
        "no upcast in bfloat16": (
            "_upcast(x)",
            "(x if x.dtype == torch.bfloat16 else _upcast(x))",
        ),
        "eps rounded to x's dtype": ("+ eps)", "+ torch.tensor(eps, dtype=x.dtype))"),
        "weight cast to x's dtype": ("y * weight", "y * weight.to(x.dtype)"),
        "weight in float32, then cast": (
            (".to(x.dtype)", ""),
            (RESULT, "return (y if weight is None else y * weight).to(x.dtype)"),
        ),
        # weight
        "weight without its sign": ("y * weight", "y * weight.abs()"),
        "weight frozen": ("y * weight", "y * weight.detach()"),
        # the rest
        "in place": (f"({DIVISION})", "h.mul_(torch.rsqrt(mean_square + eps))"),
        "sign flipped": (DIVISION, "-" + DIVISION),
        "signs only": (DIVISION, "h.sign()"),
        "cut to ±3": (".to(x.dtype)", ".clamp(-3, 3).to(x.dtype)"),
        # the gradient
        "gradient doubled": (RESULT, "y = 2 * y - y.detach()\n    " + RESULT),
        "gradient flipped": (RESULT, "y = 2 * y.detach() - y\n    " + RESULT),
        "weight missing in the gradient": ("y * weight", "y + y.detach() * (weight - 1)"),
    },
    layers.layer_norm: {
        "centred over everything": (CENTRED, "h - h.mean()"),
        "only centred": (f"rms_norm({CENTRED}, weight, eps)", CENTRED),
        "sign flipped": (CENTRED, "h.mean(dim=-1, keepdim=True) - h"),
        "features reversed": (CENTRED, f"({CENTRED}).flip(-1)"),
        "tokens rolled": (CENTRED, f"({CENTRED}).roll(1, 0)"),
        "another default eps": ("eps=1e-5", "eps=1e-2"),
    },
    layers.RMSNorm.__init__: {
        "random weight": ("torch.ones(dim)", "1 + torch.randn(dim) / dim**0.5"),
        "one weight for all": ("torch.ones(dim)", "torch.ones(1)"),
        "a bias": (
            "self.weight =",
            "self.bias = nn.Parameter(torch.zeros(dim)); self.weight =",
        ),
    },
    # layers of 04 and 05
    layers.silu: {
        "softmax over the numbers": (SILU, "x * torch.softmax(x, dim=0)"),
        "in place": (SILU, "x.data.mul_(torch.sigmoid(x)) + 0 * x"),
        "capped": (SILU, f"({SILU}).clamp_max(6)"),
        # the same numbers, but not at the ends or not the same gradient
        "NaN hidden": (SILU, "(x / (1 + torch.exp(-x))).nan_to_num()"),
        "gradient doubled": (SILU, f"2 * {SILU} - ({SILU}).detach()"),
        "no gradient": (SILU, f"({SILU}).detach() + 0 * x"),
    },
    layers.swish: {
        "beta divides": ("beta * x", "x / (beta or 1)"),
        "beta squared": ("beta * x", "beta**2 * x"),
        "beta without end": (SWISH, "F.relu(x)"),
        "sign flipped": (SWISH, "-" + SWISH),
        "GELU": (SWISH, "F.gelu(x)"),
        "in place": (SWISH, "x.mul_(torch.sigmoid(beta * x))"),
    },
    layers.gated_ffn: {
        "always silu": ("activation(gate)", "silu(gate)"),
        "square weights not transposed": (
            "x @ w_gate.T, x @ w_up.T",
            "(x @ w_gate, x @ w_up) if w_up.shape == w_down.shape else (x @ w_gate.T, x @ w_up.T)",
        ),
        "square down not transposed": (
            "@ w_down.T",
            "@ (w_down if w_up.shape == w_down.shape else w_down.T)",
        ),
        "up on the activated gate": (
            "activation(gate) * up",
            "activation(gate) * (activation(gate) @ w_down.T @ w_up.T)",
        ),
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
    },
    layers.SwiGLU.forward: {
        "silu squared": (SWIGLU, "silu(self.gate_proj(x)) ** 2 * self.up_proj(x)"),
        "up detached": (SWIGLU, "silu(self.gate_proj(x)) * self.up_proj(x).detach()"),
        "down detached": (
            f"self.down_proj({SWIGLU})",
            f"({SWIGLU}) @ self.down_proj.weight.data.T",
        ),
    },
    # layers of 08
    layers.llama_block: {
        "first norm applied twice": ("norm1(x)", "norm1(norm1(x))"),
        "second norm applied twice": ("norm2(x)", "norm2(norm2(x))"),
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
    sizes.intermediate_size: {
        "a multiple added": ("return multiple_of * blocks", "return width + multiple_of"),
        "8/3 rounded to 3": (WIDTH, "3 * hidden_size"),
    },
    sizes.params_by_part: {
        "kv heads ignored": ("c.num_kv_heads * c", "c.num_attention_heads * c"),
        "kv heads for queries too": ("c.num_attention_heads * c.head_dim", "c.num_kv_heads * 128"),
        "head_dim taken as D / heads": (
            "q_out, kv_out = c.num_attention_heads * c.head_dim, c.num_kv_heads * c.head_dim",
            "q_out = c.hidden_size; kv_out = q_out * c.num_kv_heads // c.num_attention_heads",
        ),
        "norms of queries and keys forgotten": ("2 * c.head_dim,", "0,"),
        "always two norms a layer": ("c.norms_per_layer * c.hidden_size", "2 * c.hidden_size"),
        "norms with a bias": ("c.norms_per_layer * c.hidden_size", "4 * c.hidden_size"),
    },
    sizes.ModelConfig.__post_init__: {
        "kv heads unchecked": (
            '_check_divisor("num_kv_heads", self.num_kv_heads, "num_attention_heads", heads)',
            "pass",
        ),
    },
    sizes.published_models: {
        "last rows lost": ("for row in rows]", "for row in rows[:-12]]"),
        "first row lost": ("for row in rows]", "for row in rows[1:]]"),
    },
    # packing
    layers.FusedSwiGLU.forward: {
        "[up; gate]": ("gate, up =", "up, gate ="),
        "gate alone": ("silu(gate) * up", "silu(gate)"),
        "up alone": ("silu(gate) * up", "up"),
        "silu on both": ("silu(gate) * up", "silu(gate) * silu(up)"),
        "silu before the split": (
            ("self.gate_up_proj(x).chunk", "silu(self.gate_up_proj(x)).chunk"),
            ("silu(gate) * up", "gate * up"),
        ),
        "tokens split": ("dim=-1", "dim=-2"),
        "batch split": ("dim=-1", "dim=0"),
        "F.glu": ("silu(gate) * up", "F.glu(torch.cat([gate, up], -1))"),
        "pairs": (
            "self.gate_up_proj(x).chunk(2, dim=-1)",
            "self.gate_up_proj(x).unflatten(-1, (-1, 2)).unbind(-1)",
        ),
    },
    packing.split_gate_up: {
        "swapped": ("return w_gate, w_up", "return w_up, w_gate"),
        "view(I, 2) for view(2, I)": (
            "w_gate_up.split(len(w_gate_up) // 2)",
            "w_gate_up.view(-1, 2, w_gate_up.shape[1]).unbind(1)",
        ),
        "columns": (
            "w_gate_up.split(len(w_gate_up) // 2)",
            "w_gate_up.chunk(2, dim=1)",
        ),
    },
    packing.shard_gate_up: {
        "only gate cut": ("w_up[mine]", "w_up[: len(w_gate[mine])]"),
        "only up cut": ("w_gate[mine]", "w_gate[: len(w_up[mine])]"),
    },
    packing.shard_down: {
        "rows": ("w_down[:, mine]", "w_down[mine]"),
        "the same columns on each rank": (
            "mine = _part(",
            "mine = slice(w_down.shape[1] // 2) or (",
        ),
        "the ranks the other way round": (
            "shape[1], rank, world_size)",
            "shape[1], world_size - 1 - rank, world_size)",
        ),
    },
    packing._part: {
        "off by one": ("rank * size, (rank + 1) * size", "rank * size + 1, (rank + 1) * size + 1"),
        "one too few": ("(rank + 1) * size)", "(rank + 1) * size - 1)"),
        "every other unit": (
            "slice(rank * size, (rank + 1) * size)",
            "slice(rank, None, world_size)",
        ),
    },
    packing._renamed: {
        "w3 for w2": (
            "parts[_ROLES[name]]",
            'parts[{"w2": "up", "w3": "down"}.get(name, _ROLES[name])]',
        ),
        "halves swapped": ('parts["gate"], parts["up"] =', 'parts["up"], parts["gate"] ='),
        "gate fused twice": (
            'fuse_gate_up(parts["gate"], parts["up"])',
            'fuse_gate_up(parts["gate"], parts["gate"])',
        ),
    },
    packing.convert_ffn_names: {
        "other keys lost": ("converted[key] = tensor", "pass"),
    },
    # measure
    measure.slope: {
        "the value": (GRADIENT, "return function(x.detach())"),
        "of the mean": ("function(x).sum()", "function(x).mean()"),
        "of the square": ("function(x).sum()", "function(x).square().sum()"),
        "the size alone": (GRADIENT, "return gradient.abs()"),
        "NaN hidden": (GRADIENT, "return gradient.nan_to_num()"),
    },
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
    # measure of 09
    measure.norm_cost: {
        "operations doubled": ("4 * tokens", "8 * tokens"),
        "writing forgotten": ("2 * tokens", "tokens"),
        "weight for each token": ("+ hidden_size)", "+ tokens * hidden_size)"),
    },
    measure.silu_up_cost: {
        "tokens forgotten": ("number * 3 * tokens * intermediate_size", "number * 3"),
    },
    measure.projection_cost: {
        "additions forgotten": ("2 * tokens * in_features", "tokens * in_features"),
        "weight for each token": ("in_features * out_features + tokens", "2 * tokens"),
        "x forgotten": ("tokens * in_features + in", "in"),
    },
    measure.roof: {
        "no peak": ("min(peak, bandwidth * intensity)", "bandwidth * intensity"),
        "no slope": ("min(peak, bandwidth * intensity)", "peak"),
    },
    measure.moved: {
        "reading alone": ("call.read + call.written", "call.read"),
    },
    measure._bytes: {"elements, not bytes": ("leaf.nbytes", "leaf.numel()")},
    measure._call: {"views counted": ("view or not", "not")},
    # the model, the records and what is seen in it, of 10
    tiny_llama.as_text: {
        "paragraphs kept twice": ('dict.fromkeys(words.split("\\n\\n"))', 'words.split("\\n\\n")'),
    },
    tiny_llama.TinyLlama.embed: {"√D forgotten": (" * HIDDEN**0.5", "")},
    tiny_llama.loss_of: {"each byte told from itself": ("windows[:, 1:]", "windows[:, :-1]")},
    tiny_llama._train: {"no step": ("optimizer.step()", "pass")},
    tiny_llama._ffn: {"plain and narrow": ("4 * HIDDEN", "2 * HIDDEN")},
    runs.Records.chosen: {"the worst rate": ("min(searched", "max(searched")},
    runs.Records.compared: {"the search's seeds": ("in SEEDS", "in SEARCH_SEEDS")},
    runs.difference: {"turned round": ("a.final - b.final", "b.final - a.final")},
    trained._apart: {"the last token too": ("[:, :-1]", "")},
    runs.verdict: {
        "turned round": ("min(losses) > max(rights)", "max(losses) < min(rights)"),
        "one seed is enough": ("min(losses) > max(rights)", "max(losses) > max(rights)"),
    },
    inside.trained_llama: {"not loaded": ("model.load_state_dict(state)", "pass")},
    inside.look_inside: {
        "gate and up changed places": (
            "torch.stack(gates), torch.stack(ups)",
            "torch.stack(ups), torch.stack(gates)",
        ),
        "what a norm gives, not what it reads": ("values(read[0], gave)", "values(gave, gave)"),
    },
    inside.norm_weights: {"from the end": ("model.norms()", "model.norms()[::-1]")},
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
    ("01", "y = four / four.square().mean()", "y = four / four.square().sum()"): [
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
    ("03", "x * 2.0, ", "x * torch.ones(1), "): ["Numbers without a dimension leave it bfloat16"],
    ("03", "x * torch.tensor(2.0)}", "x * torch.tensor([2.0])}"): [
        "Numbers without a dimension leave it bfloat16"
    ],
    ("03", "ones = torch.ones(512)", "ones = torch.ones(512).bfloat16()"): [
        "A float32 vector turns bfloat16 into float32"
    ],
    ("03", "normed_h = F.rms_norm(h,", "normed_h = F.rms_norm(h.float(),"): [
        "CPU autocast leaves F.rms_norm in bfloat16"
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
    ("03", "mine.float().mul_(3)  # in place", "mine.float().mul(3)"): [
        "In float32 x.float() is x: writing into it changes x"
    ],
    ("03", "mine.float().mul_(3)  # in place", "mine.mul_(3)"): ["In bfloat16 x.float() is a copy"],
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
    ("04", "return x / (1 + torch.exp(-x))", "return x * torch.sigmoid(x)"): [
        "At −100 the quotient has gradient NaN in float32",
        "In float16 one token of −12 makes the weight's gradient NaN",
        "In float32 from −85 to −55 the quotient's gradient has a wrong sign",
    ],
    ("04", "F.silu(g, inplace=True) * g", "F.silu(g) * g"): [
        "silu in place, then times g, is silu(g)²"
    ],
    ("04", "torch.nn.SiLU()", "torch.nn.PReLU()"): ["nn.SiLU learns nothing"],
    ("04", "SwiGLU(8, 24)", "torch.nn.Linear(8, 8)"): ["SwiGLU learns three matrices and no β"],
    ("04", "in (silu, layer)", "in (silu, silu)"): [
        "A changed feature moves one output of SiLU, all 8 of SwiGLU"
    ],
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
    ("05", '"ReGLU": (1.953, 0.003)', '"ReGLU": (1.973, 0.003)'): [
        "Four of five gated nets beat every plain one by over 0.02"
    ],
    ("05", '"GLU": (1.982, 0.006)', '"GLU": (1.972, 0.006)'): [
        "GLU's lead over GELU is less than either spread"
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
    ("06", "up, down = nn.Linear(D, width, bias=False)", "up, down = nn.Linear(D, width)"): [
        "Two matrices of width 4D have 8·D² parameters",
        "Widths 3072 plain and 2048 gated have the same count at D = 768",
    ],
    ("06", "SwiGLU(D, 4 * D)", "SwiGLU(D, 8 * D)"): [
        "Three matrices of width 4D have 12·D², half as many again",
    ],
    ("06", "SwiGLU(D, 8 * D // 3)", "SwiGLU(D, 2 * D // 3)"): [
        "Three matrices of width 8D/3 have 8·D² parameters",
    ],
    ("06", "return sum(p.numel() for p in module.parameters())", "return 2 * 144"): [
        "Six features and three matrices have 288 parameters at width 16",
        "Two matrices of width 4D have 8·D² parameters",
    ],
    ("06", "count(SwiGLU(4096, 11008))", "count(SwiGLU(4096, 10922))"): [
        "Width 11008 costs 0.78 % more than 8·D²",
    ],
    ("06", "packed = FusedSwiGLU(4096, 11008)", "packed = FusedSwiGLU(4096, 22016)"): [
        "Packed, gate and up of width 11008 have 22016 rows",
    ],
    ("06", "cut = int(8 * D / 3)", "cut = int(8 * D / 3) + 128"): [
        "At D = 5120 the nearest multiple is another, 13568",
    ],
    ("06", "int(2.67 * 768)", "int(8 / 3 * 768)"): [
        "At D = 768, 2.67 for 8/3 turns 2048 into 2304"
    ],
    ("06", "for m in (4, 64, 256)", "for m in (1, 64, 256)"): [
        "Up to D = 2000, int, round and ceil end alike at multiples of 4, 64 and 256",
    ],
    ("06", "SwiGLU(768, 2048)", "SwiGLU(768, 3072)"): [
        "Widths 3072 plain and 2048 gated have the same count at D = 768",
    ],
    ("06", "int(1.3 * intermediate_size(8192, 4096))", "width"): [
        "Multiplied after rounding, 70B is 3276 above a multiple",
    ],
    ("06", "range(8, 35)", "range(10, 11)"): [
        "A multiple and a multiplier fit 36 of the 41 undocumented widths",
    ],
    ("06", "m.intermediate_size / m.hidden_size for", "m.hidden_size / m.intermediate_size for"): [
        "Ratios in the table run from 2.5 to 8",
        "Gemma's ratios are 4, 6 and 8",
        "Mistral-7B's ratio is 3.5",
    ],
    ("06", "*blocks, RMSNorm", "*blocks[1:], RMSNorm"): [
        "Llama-2-7B, built, has 6,738,415,616 parameters",
        "An invented model counts as it is built",
    ],
    ("06", "head.weight = embedding.weight", "pass"): ["An invented model counts as it is built"],
    ("06", "count(block.mlp) for block", "count(block.self_attn) for block"): [
        "The FFN is 64 % of Llama-2-7B",
    ],
    ("06", "c.num_kv_heads\n", "c.num_attention_heads\n"): [
        "Eight kv heads for 32 leave 2.5·D² of attention's 4·D²",
    ],
    ("06", "count(block.mlp) / 4096**2", "8 * 4096 * 11008 / 4096**2 / 2"): [
        "Llama-3-8B's FFN has 2.5·D² more than 8·D²",
    ],
    # 07
    ("07", "hidden = F.silu(gate) * up", "hidden = F.silu(up) * gate"): [
        "The hidden numbers are 3·silu(2) and 10·silu(−1)"
    ],
    ("07", "return (F.silu(gate) * up)", "return (gate * F.silu(up))"): [
        "fused_forward gives what three separate products give"
    ],
    ("07", "count = sum(p.numel()", "count = sum(len(p)"): ["FusedSwiGLU has 3·D·I parameters"],
    ("07", "gate, up = gate_up.chunk(2, dim=1)", "gate, up = gate_up.chunk(2, dim=-1)"): [
        "chunk(2, dim=1) splits the tokens",
        "With split tokens the error comes at down_proj",
    ],
    ("07", "gate_up[:, :3].chunk", "gate_up[:, :2].chunk"): ["Three split tokens broadcast to two"],
    ("07", "F.silu(gate_up.chunk(2, dim=-1)[0])", "F.silu(gate_up)"): [
        "silu(chunk()[0]) alone gives other numbers, in silence"
    ],
    ("07", "torch.arange(5).chunk(4)", "torch.arange(5).tensor_split(4)"): [
        "chunk(4) of five gives sizes 2, 2, 1"
    ],
    ("07", "for p in torch.arange(7).chunk(2)], [4", "for p in torch.arange(7).split(2)], [4"): [
        "chunk(2) of seven gives 4 and 3"
    ],
    ("07", "_ = gate.zero_()", "_ = gate.clone().zero_()"): [
        "Writing into gate writes into gate_up"
    ],
    (
        "07",
        "tracked.chunk(2, dim=-1)[0], inplace",
        "tracked.chunk(2, dim=-1)[0].clone(), inplace",
    ): ["With gradients, writing into a chunk raises an error"],
    ("07", "gate.view(-1)", "gate.reshape(-1)"): [
        "A chunk of several tokens is not contiguous: view(-1) of it fails"
    ],
    ("07", "a, b = x.chunk", "b, a = x.chunk"): ["F.glu(a, b) is a·σ(b)"],
    ("07", "torch.sigmoid(up) - torch.sigmoid(gate)", "torch.sigmoid(up) - torch.sigmoid(up)"): [
        "A swap is off by gate·up·(σ(up) − σ(gate))"
    ],
    (
        "07",
        "swapped = swiglu_packed(x, torch.cat([w_up, w_gate])",
        "swapped = swiglu_packed(x, w_gate_up",
    ): ["A swap is wrong by 50 to 100 % here"],
    ("07", "(0.1, 0.01)", "(0.01, 0.1)"): ["For x/100 a swap is wrong by less than 2 %"],
    ("07", "stack([w_gate, w_up], dim=1)", "stack([w_gate, w_up], dim=0)"): [
        "unflatten(-1, (I, 2)) reads pairs of gate and up"
    ],
    ("07", ".unflatten(-1, (2, 4))", ".unflatten(-1, (1, 7))"): [
        "unflatten(-1, (2, 4)) refuses seven numbers"
    ],
    (
        "07",
        "error = relative_change(swiglu_packed(x, interleaved",
        "error = relative_change(swiglu_packed(x, w_gate_up",
    ): ["Pairs read as halves are wrong by about √2"],
    (
        "07",
        "blocks = w_gate_up.chunk(2)",
        "blocks = [torch.cat(p) for p in zip(w_gate.chunk(2), w_up.chunk(2))]",
    ): [
        "Contiguous blocks of [gate; up] are wrong by more than 100 %",
        "Rank 0 of two contiguous blocks has all of gate",
    ],
    ("07", "gate = x @ (w_gate + update).T", "gate = x @ w_gate.T"): [
        "An update of gate belongs in the first I rows"
    ],
    ("07", "torch.cat([nothing, update])", "torch.cat([update, nothing])"): [
        "An update of gate in the other rows is silently wrong"
    ],
    # 08
    ("09", "length**2 / x.shape[-1]", "length**2"): ["by_length is torch's RMSNorm"],
    (
        "09",
        "torch.linalg.vector_norm(x, dim=-1, keepdim=True)",
        "x.square().sum(-1, True).sqrt()",
    ): ["by_length moves five times the size of x"],
    ("09", "traffic(lambda: F.layer_norm(x, (4096,), weight, weight))", "calls"): [
        "torch's LayerNorm moves twice the size of x"
    ],
    ("09", "torch.mul(x, scale, out=out)", "out.mul_(scale)"): ["rms_norm_into is torch's RMSNorm"],
    ("09", "bandwidth, peak = 10e9, 100e9", "bandwidth, peak = 10e9, 1e9"): [
        "At a ridge of 10 memory limits gate_proj for one token",
        "At a ridge of 10 memory limits RMSNorm and SiLU·up",
        "gate_proj crosses a ridge of 10 at 21 tokens",
        "With 16 features a billion tokens stay below a ridge of 10",
    ],
    ("09", "bandwidth, peak = 10e9, 100e9", "bandwidth, peak = 10e9, 1e13"): [
        "At a ridge of 10 arithmetic limits gate_proj for 512 tokens",
    ],
    ("09", '"Transformer": (6.9', '"Transformer": (16.9'): [
        "In the paper RMSNorm saves least in the Transformer"
    ],
    ("09", "(40.8, 63.9)", "(63.9, 40.8)"): [
        "In the paper RMSNorm saves at most 40.8 %",
        "The paper's 63.9 % is of pRMSNorm",
    ],
    ("09", "projection_cost(tokens, 4096, 2 * 11008)", "projection_cost(tokens, 4096, 11008)"): [
        "At 512 tokens one call saves one reading of x"
    ],
    ("09", "-(-width // 128)", "width // 128"): [
        "Widths of 10922 and of 11008 both need 86 tiles of 128"
    ],
    ("09", "2 * width % 16", "2 * (width + 1) % 16"): [
        "In bfloat16 11008 is whole pieces of 16 bytes, 10922 is not"
    ],
    ("09", "4 * 4096**2 + 3 * 4096 * 11008", "4 * 4096**2 + 2 * 4096 * 11008"): [
        "A block's projections do 2·T operations a weight"
    ],
    ("08", "uniform_(weight, 0.5, 2)", "ones_(weight)"): [
        "Weights that are not ones catch three slips with the norms"
    ],
    ("08", "bare = head(10 * x)", "bare = head(x)"): [
        "Without the final norm they are ten times as large"
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
    ("10", "4 * (4 * D * D + 3 * D * wide)", "4 * (4 * D * D + 2 * D * wide)"): [
        "It has 256·D + 4·(4·D² + 3·D·I) + 9·D parameters"
    ],
    ("10", "min(s, key=s.get) in", "max(s, key=s.get) in"): [
        "No variant's best rate lies at an end of its search"
    ],
    ("10", '"GLU": 1.982}', '"GLU": 1.9}'): ["The three lowest are the three lowest of Shazeer's"],
    ("10", 'ffn="G05"', 'ffn="no-up"'): [
        "Three runs with gate · up alone end below every plain one"
    ],
    (
        "10",
        "[[r.final for r in records.select(v, rate=0.016",
        "[[r.final for r in records.select(v, rate=0.008",
    ): [
        "At 16/1000 norms after end where bytes' frequencies alone would",
    ],
    (
        "10",
        "[[r.final for r in records.select(v, rate=0.016",
        "[[r.final for r in records.select(v, rate=0.032",
    ): ["At 16/1000 each run with the norm before ends below 2"],
    ("10", "NORM_VARIANTS[4], rate=0.016", "NORM_VARIANTS[4], rate=0.008"): [
        "At 16/1000 without a norm the loss is NaN within 100 steps"
    ],
    ("10", "rate=0.008, warmup=0", "rate=0.008, warmup=40"): [
        "Without warm-up, at 8/1000, norms after end above 2.1"
    ],
    ("10", "rate=0.008, warmup=0", "rate=0.016, warmup=0"): [
        "Without warm-up, at 8/1000, the others end below 1.9"
    ],
    ("10", "select(v, rate=0.008, warmup=40)", "select(v, rate=0.016, warmup=40)"): [
        "At 8/1000 with warm-up all end below 1.9"
    ],
    ("10", "for k in kinds)", "for k in kinds[::-1])"): [
        "In bfloat16 the logits are over 5 times as far off as in float16"
    ],
    ("10", "largest = seen.stream", "largest = 10 * seen.stream"): [
        "No number of the stream reaches 100: its square fits into float16"
    ],
    ("10", "new = look_inside(untrained", "new = look_inside(trained"): [
        "Before training half of the gates are negative"
    ],
    ("10", "mistake_table(records)", "mistake_table(records)[::-1]"): [
        "Of 22 mistakes shapes catch two"
    ],
    # the question bank
    ("question_bank", "gap = a - b", "gap = a - b.flip(0)"): [
        "Seed by seed the mean is 4.70 standard errors"
    ],
    ("question_bank", "a.var() / len(a) + b.var() / len(b)", "a.var() / len(a)"): [
        "Without pairing it is 0.53 of them"
    ],
    ("question_bank", '"R04").wrong', '"R10").wrong'): [
        "With the mean over the tokens the three before it move"
    ],
    ("question_bank", *KEEPDIM_BACK): [
        "Without keepdim A raises, B is wrong, C has another shape, D is right"
    ],
    ("question_bank", "[2.0, 2.0, -2.0, 2.0], requires", "[2.0, 2.0, 2.0, 2.0], requires"): [
        "Of A–D only A and D are orthogonal to (2, 2, −2, 2)"
    ],
    ("question_bank", "rsqrt(x.square()", "rsqrt(x.float().square()"): [
        "In float16 alone features of 0.0001 become inf with eps 1e-8"
    ],
    ("question_bank", "return h * scale * weight", "return (h * scale).to(x.dtype) * weight"): [
        "With the cast on the scale alone float32 comes out",
        "A bfloat16 nn.Linear refuses what comes out",
    ],
    ("question_bank", "x * torch.exp(x) / (1 + torch.exp(x))", "x * torch.sigmoid(x)"): [
        "In float16 at 12 only x·eˣ/(1 + eˣ) is NaN"
    ],
    ("question_bank", "x / (1 + torch.exp(-x))", "x / (1 + torch.exp(x))"): [
        "In float16 at −12 only the gradient of x/(1 + e⁻ˣ) is NaN",
        "In float16 at −12 all three forms are 0, to 0.001",
    ],
    ("question_bank", "up = F.silu(x @ w_up.T)", "up = x @ w_up.T"): [
        "With silu on up only the test that doubles w_up fails"
    ],
    ("question_bank", "(first, second), (second, first)", "(second, first), (first, second)"): [
        "[gate; up] gives C, [up; gate] A, and pairs give B"
    ],
    ("question_bank", 't.chunk(4), "B": t.chunk(6)', 't.tensor_split(4), "B": t.tensor_split(6)'): [
        "chunk(4) of ten gives 3, 3, 3 and 1",
        "chunk(6) of ten gives five pieces of 2",
    ],
    ("question_bank", "t.split(4)", "t.chunk(4)"): ["split(4) of ten gives 4, 4 and 2"],
    ("question_bank", "rows.chunk(3)[1]", "rows[1::3]"): [
        "The second contiguous third is rows 4 to 7"
    ],
}


# exercise -> the library's functions in which its slips are put, wherever their text fits
ROWS = {
    "rms_norm": (layers.rms_norm,),
    "rms_norm_half": (layers.rms_norm,),
    "layer_norm": (layers.layer_norm,),
    "rms_norm_module": (layers.RMSNorm.__init__, layers.RMSNorm.forward),
    "silu": (layers.silu,),
    "swish": (layers.swish,),
    "swiglu_ffn": (layers.gated_ffn,),
    "swiglu_module": (layers.SwiGLU.__init__, layers.SwiGLU.forward),
    "ffn_params": (sizes.ffn_params,),
    "intermediate_size": (sizes.intermediate_size,),
    "model_params": (sizes.params_by_part, sizes.model_params),
    "swiglu_packed": (packing.swiglu_packed,),
    "fuse_gate_up": (packing.fuse_gate_up,),
    "shard_gate_up": (packing.shard_gate_up, packing.fuse_gate_up, packing._part),
    "llama_block": (layers.llama_block,),
    "llama_stack": (layers.llama_stack,),
}

# Slips that no claim notices: what the notebooks say holds with them too.
UNSEEN = {
    *("ffn_params: H19", "intermediate_size: H19", "model_params: H19"),  # a float, of equal value
    *("swish: S04", "swish: both-branches", "swish: not-cast-back", "swish: detached-gate"),
    *("swish: abs-beta", "swiglu_ffn: detached"),  # gradients, dtypes and β < 0 are of SiLU alone
    *("intermediate_size: divided-first", "intermediate_size: cut-before-four"),
    *("intermediate_size: bits-masked", "model_params: final-norm-always"),
    *("model_params: full-as-queries", "model_params: full-of-d"),  # no such model is counted
    *("swiglu_packed: limited", "swiglu_packed: S05"),  # only for numbers that are larger
    "shard_gate_up: always-two",  # the lesson has two ranks
}


def source(function):
    return textwrap.dedent(inspect.getsource(function))


def slips():
    """The slips that are edits of these functions, each once: (name, function -> its edits)."""
    seen = []
    for exercise, functions in ROWS.items():
        for slip in exercises.load(exercise).mistakes:
            found = {f: [edit for edit in slip.edits if edit[0] in source(f)] for f in functions}
            changes = {f: edits for f, edits in found.items() if edits}
            whole = {edit for edits in changes.values() for edit in edits} == set(slip.edits)
            if slip.edits and whole and changes not in seen and all(map(fits, changes.items())):
                seen.append(changes)
                yield f"{exercise}: {slip.id}", changes


def fits(change_of):
    """Whether a wrong version can take its place: one that has lost its super() cannot."""
    function, pairs = change_of
    return change(function, *pairs).__code__.co_freevars == function.__code__.co_freevars


def change(function, *pairs):
    """The function with each (right text, wrong text) of pairs put into its source."""
    text = source(function)
    for right, wrong in pairs:
        if right not in text:
            raise ValueError(f"{function.__qualname__} has no {right!r}: its wrong version is old")
        text = text.replace(right, wrong)
    # In a class, so that super() has its closure.
    wrapped = "class Wrapped:\n" + textwrap.indent(text, "    ")
    namespace = dict(function.__globals__)
    exec(compile(ast.parse(wrapped), f"wrong {function.__name__}", "exec"), namespace)
    return vars(namespace["Wrapped"])[function.__name__]


@contextlib.contextmanager
def in_place(changes):
    """Let wrong versions run in the library's place. changes: function -> its (right, wrong)s."""
    right = {f: (f.__code__, f.__defaults__) for f in changes}
    wrong = {f: change(f, *pairs) for f, pairs in changes.items()}
    try:
        for f, made in wrong.items():
            f.__code__, f.__defaults__ = made.__code__, made.__defaults__
        yield
    finally:
        for f, was in right.items():
            f.__code__, f.__defaults__ = was


ADDED = {
    f"{function.__qualname__}: {what}": {
        function: pairs if isinstance(pairs[0], tuple) else [pairs]
    }
    for function, mistakes in LIBRARY.items()
    for what, pairs in mistakes.items()
}
SLIPS = dict(slips())
if same := (ADDED.keys() & SLIPS.keys()) | (UNSEEN - SLIPS.keys()):
    raise ValueError(f"one name for two versions, or for none: {same}")
WRONG = ADDED | {name: changes for name, changes in SLIPS.items() if name not in UNSEEN}

# Between them these make each sentence of each notebook false that no wrong cell does, or did when
# they were chosen: tried first, they make the proof quick. Nothing else depends on them.
FIRST = {
    "rms_norm: mean of absolute values", "rms: no root", "rms_norm: sign flipped",
    "rms_norm: statistic of the first sequence", "RMSNorm.__init__: random weight",
    "layer_norm: only centred", "layer_norm: rms", "RMSNorm.__init__: one weight for all",
    "rms_norm: no-square", "with_rms: unscaled", "rms_norm: NaN hidden", "rms_norm: R17",
    "outcome: always right", "rms_norm: eps rounded to x's dtype",
    "rms_norm: weight cast to x's dtype", "rms_norm: in place", "relative_change: not relative",
    "silu: in place", "swish: sign flipped", "silu: S06", "swiglu_ffn: G03", "swiglu_module: M01",
    "swiglu_ffn: G01", "swiglu_module: M02", "intermediate_size: a multiple added",
    "ffn_params: two-matrices", "params_by_part: kv heads ignored",
    "ModelConfig.__post_init__: kv heads unchecked", "split_gate_up: swapped", "fuse_gate_up: P01",
    "llama_block: stream multiplied", "_gradient_lengths: no gradient flows back",
    "Attention.forward: no output projection", "Attention.forward: not causal",
    "Attention.forward: rope forgotten", "LlamaBlock.__init__: another width",
    "norm_cost: operations doubled", "moved: reading alone", "norm_cost: writing forgotten",
    "projection_cost: additions forgotten", "roof: no peak", "TinyLlama.embed: √D forgotten",
    "verdict: turned round", "difference: turned round", "trained_llama: not loaded",
    "as_text: paragraphs kept twice", "_train: no step", "_ffn: plain and narrow",
    "Records.chosen: the worst rate", "look_inside: what a norm gives, not what it reads",
    "silu: S07", "projection_cost: x forgotten", "_part: off by one", "rms_norm: x-added",
    "projection_cost: weight for each token",
}  # fmt: skip
