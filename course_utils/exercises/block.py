"""Notebook 08's exercises: the block, the stack of blocks, and the norm inside attention."""

import itertools
import operator
import re

import torch
import torch.nn.functional as F
from torch import nn

from ..catalogue import exercise
from ..checker import Case, Property
from ..layers import rms_norm
from ._inputs import also_changed, draw, spread
from ._norms import RULES

TWO_LINES = "08 Which two lines is that?"
ZERO = "08 What if both sublayers return zero?"
INSIDE = "08 Exercise, optional: a norm inside attention"
TOKENS = "01 Do tokens see each other?"


# --- What the two exercises with functions share: a record of who was called, and who read what


class Part(nn.Module):
    """A function that notes each call of it. A module, so that nn.Sequential takes it too."""

    def __init__(self, name, function, calls):
        super().__init__()
        self.name, self.function, self.calls = name, function, calls

    def forward(self, h):
        self.calls.append(self.name)
        return self.function(h)


PARTS = ("the result", "the order of calls")


def _in_words(calls):
    return " → ".join(calls) or "none"


def _rules(reads, put, zero, said, read):
    """The four rules of a wiring. reads: for each part, in order, and for the result, the names of
    what it is the sum of. put: (f, x, *parts in that order) -> what f returns. zero: parts with
    which x passes as it is; said: that in words.
    """
    *names, _ = reads

    def order(f):
        calls = put(f, torch.ones(1, 1, 4), *[lambda h: h] * len(names))[1]
        if calls == _in_words(names):
            return None
        each = calls.partition(",")[0].split(" → ")
        off = [f"`{name}` is never called" for name in names if name not in each]
        off += [f"`{name}` is called more than once" for name in names if each.count(name) > 1]
        off = f": {', '.join(off)}" if off else ""
        return f"Your order of calls is {calls}. It should be {_in_words(names)}{off}."

    def wiring(f):
        for sign in (1, -1):
            values = {name: sign * 10**i for i, name in enumerate(("x", *names))}
            got = _read(f, values, put)
            for name, terms in reads.items():
                should = sum(values[term] for term in terms)
                if abs(got[name] - should) > 1e-6:
                    verbs = ("be", "is") if name == "the result" else ("read", "reads")
                    return (
                        f"Say x is {sign}, and {', '.join(names)} return "
                        f"{', '.join(str(values[n]) for n in names)}. Then {name} should "
                        f"{verbs[0]} {should}, which is {' + '.join(terms)}. It {verbs[1]} "
                        f"{_sum(lambda values: _read(f, values, put), name, values)}"
                    ).replace("-", "−")
        return None

    def passes(f):
        x = 5 * draw(2, 3, 4, dtype=torch.float64)
        y = put(f, x, *zero)[0]
        if torch.allclose(y, x):
            return None
        factor, rms = y / x, [v.square().mean().sqrt().item() for v in (x, y)]
        how = f"of RMS {rms[1]:.3g} where x has {rms[0]:.3g}: is a norm, or an activation,"
        if factor.std() < 1e-6:
            how = f"{factor.mean():.3g} times x: is a factor"
        return f"With {said} x should come out as it is. Yours returns numbers {how} in the stream?"

    def gradient(f):
        x = draw(1, 2, 4, dtype=torch.float64).requires_grad_()
        (g,) = torch.autograd.grad(put(f, x, *zero)[0].sum() + 0 * x.sum(), x)
        if (g - 1).abs().max() < 1e-6:
            return None
        return (
            f"With {said} the gradient should pass unchanged, by the sum. Yours is multiplied by "
            f"{g.mean():.3g}: does `.detach()` or `.data` cut it?"
        )

    rules = {"each part once, in order": order, "each part reads the right thing": wiring}
    rules |= {"x passes": passes, "the gradient passes": gradient}
    return tuple(Property(name, broken, read) for name, broken in rules.items())


def _read(f, values, put):
    """What each part reads, and the result, where x is a number and each part returns one."""
    seen = {}

    def part(name):
        def returns(h):
            seen[name] = h.mean().item()
            return torch.full_like(h, values[name])

        return returns

    x = torch.full((1, 1, 4), values["x"], dtype=torch.float64)
    y = put(f, x, *[part(name) for name in values if name != "x"])[0]
    return seen | {"the result": y.mean().item()}


def _sum(read, name, values):
    """What one part reads, as a sum of values, in words. read: what all read, for other values."""
    value = read(values)[name]
    shares = {v: read(values | {v: values[v] + 1.0})[name] - value for v in values}
    said = f"{round(value, 3):.12g}"
    if abs(sum(shares[v] * values[v] for v in values) - value) > 1e-6 * (1 + abs(value)):
        return f"{said}, no sum of these: is something multiplied or added, or a function taken?"
    terms = [f"{k:.3g}·{v}" for v, k in shares.items() if abs(k) > 1e-6]
    words = re.sub(r"\b1·", "", " + ".join(terms)).replace("+ -", "- ") or "nothing"
    return f"{said}, which is {words}."


def _norm(weight):
    return lambda h: rms_norm(h, weight)


# --- llama_block


def _run_block(answer, x, *parts):
    calls = []
    names = ("attn", "ffn", "norm1", "norm2")
    y = answer(x, *(Part(n, p, calls) for n, p in zip(names, parts, strict=True)))
    return y, _in_words(calls)


def _attn(h):
    return 0.5 * h.cumsum(1).flip(-1)  # a token reads itself and the earlier ones


def _ffn(h):
    return F.silu(h) * h.roll(1, -1)


def _norms(count, dtype=torch.float32):
    """Two norms with other weights, so that a mix-up shows."""
    return _norm(spread(count).to(dtype)), _norm((1.5 - spread(count)).to(dtype))


_one, _zero = torch.ones(1, 1, 4), torch.zeros_like
_brought = torch.tensor([0.0, -2.0, 2.0, 4.0])
_reads = {"norm1": ["x"], "attn": ["norm1"], "norm2": ["x", "attn"], "ffn": ["norm2"]}
LLAMA_BLOCK = exercise(
    "llama_block",
    globals(),
    cases=(
        Case(
            (_one, lambda h: _brought + 0 * h, lambda h: 3 * h, rms_norm, rms_norm), "the example"
        ),
        Case((draw(2, 3, 5), _attn, _ffn, *_norms(5)), grad=True),
        Case((draw(4, 4, 4), _attn, _ffn, *_norms(4)), "all axes of one size"),
        Case((100 * draw(1, 2, 6), _attn, _ffn, *_norms(6)), "a long stream"),
        Case((draw(2, 3, 5), _zero, _zero, *_norms(5)), "sublayers of zeros"),
        Case(
            (draw(2, 3, 5, dtype=torch.float64), _attn, _ffn, *_norms(5, torch.float64)), "float64"
        ),
    ),
    properties=_rules(
        _reads | {"the result": ["x", "attn", "ffn"]},
        lambda f, x, norm1, attn, norm2, ffn: f(x, attn, ffn, norm1, norm2),
        (rms_norm, _zero, rms_norm, _zero),
        "sublayers that return zeros",
        TWO_LINES,
    ),
    parts=PARTS,
    call=_run_block,
)


# --- llama_stack


def _run_stack(answer, x, blocks, final_norm, head):
    calls = []
    parts = [Part(f"block {i}", block, calls) for i, block in enumerate(blocks, 1)]
    parts = nn.ModuleList(parts) if isinstance(blocks, nn.Module) else parts
    given = list(parts)
    y = answer(x, parts, Part("final_norm", final_norm, calls), Part("head", head, calls))
    kept = len(parts) == len(given) and all(map(operator.is_, parts, given))
    return y, _in_words(calls) + ("" if kept else ", and the caller's list of blocks is changed")


class _Block(nn.Module):
    """A block of its own kind for each k, so that their order shows."""

    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, h):
        return h + self.k * torch.tanh(h.cumsum(1).roll(self.k, -1) - 0.5 * self.k)

    def __repr__(self):
        return f"block {self.k}"


def _doubled_norm(h):
    return 2 * rms_norm(h)  # takes any number of features: a norm in a wrong place runs too


def _head(features, words, dtype=torch.float32):
    weight = draw(words, features, seed=3, dtype=dtype) - 0.7
    return lambda h: h @ weight.T


_blocks = [_Block(k) for k in (1, 2, 3)]
_double = draw(2, 3, 5, dtype=torch.float64), _blocks[::-1], _doubled_norm
_chain = ("x", "block 1", "block 2", "block 3", "final_norm", "head", "the result")
LLAMA_STACK = exercise(
    "llama_stack",
    globals(),
    cases=(
        Case((draw(2, 3, 5), _blocks, _doubled_norm, _head(5, 7)), grad=True),
        Case((draw(4, 4, 4), _blocks, _norm(spread(4)), _head(4, 4)), "all axes of one size"),
        Case((draw(1, 2, 6), [_Block(2)], _doubled_norm, _head(6, 9)), "one block"),
        Case((draw(2, 3, 5), nn.ModuleList(_blocks), _doubled_norm, _head(5, 7)), "a ModuleList"),
        Case((100 * draw(2, 3, 5), _blocks, _doubled_norm, _head(5, 7)), "a long stream"),
        Case((*_double, _head(5, 7, torch.float64)), "float64"),
    ),
    properties=_rules(
        {name: [before] for before, name in itertools.pairwise(_chain)},
        lambda f, x, *parts: f(x, [*parts[:3]], *parts[3:]),
        [lambda h: h] * 5,
        "blocks, a norm and a head that hand on what they read",
        ZERO,
    ),
    parts=PARTS,
    call=_run_stack,
)


# --- qk_norm


def _with_zero_head(q):
    q[0, 1, 2] = 0
    return q


def _heads_alone(f):
    one = torch.ones(5).double()
    other = also_changed(lambda q: f(q, one, 1e-6), draw(2, 3, 4, 5).double(), (1, 2, 0))
    if not other.any():
        return None
    return (
        f"When one head of one token changes, so do {int(other.sum())} of the other 23, "
        f"{int(other[1, 2].sum())} of them in the same token. Is the mean over more than head_dim, "
        "`dim=-1`, or have axes changed places?"
    )


def _one_weight(f):
    q, w = draw(2, 3, 4, 4, dtype=torch.float64), spread(4).double()
    equal = f(q[:, :, :1].expand(q.shape), w, 1e-6)
    if torch.allclose(equal, equal[:, :, :1].expand(q.shape)):
        return None
    other = next(h for h in range(1, 4) if not torch.allclose(equal[:, :, h], equal[:, :, 0]))
    return (
        f"Four equal heads come out unequal: head {other} is unlike head 0. The same is done to "
        "every head, and the weight runs along head_dim, so that all heads share it."
    )


def _of_heads(rule):
    """A rule of RMSNorms, asked of a single head; said of q and its heads, not x and its tokens."""

    def broken(f):
        said = rule.broken(lambda x, w, eps: f(x.unsqueeze(2), w, eps).squeeze(2))
        return said and re.sub(r"\bx(?![a-z])", "q", said).replace("token", "head")

    return Property(rule.name, broken, rule.read)


_sizes = torch.tensor([[0.01], [1.0], [100.0], [5.0]])  # (heads, 1)
QK_NORM = exercise(
    "qk_norm",
    globals(),
    cases=(
        Case((draw(2, 3, 4, 6), spread(6), 1e-6), grad=True),
        Case((draw(4, 4, 4, 4), spread(4), 1e-6), "all axes of one size"),
        Case((_sizes * draw(2, 3, 4, 6), spread(6), 1e-5), "heads of very different size"),
        Case((draw(2, 3, 1, 6), spread(6), 1e-6), "one head, as keys may have"),
        Case((1e-3 * draw(1, 2, 3, 6), spread(6), 1e-2), "a tiny q beside a large eps"),
        Case((_with_zero_head(draw(2, 3, 4, 6)), spread(6), 1e-6), "one head of zeros"),
        Case((draw(2, 3, 4, 6, dtype=torch.bfloat16), spread(6).bfloat16(), 1e-6), "bfloat16"),
        Case((draw(2, 3, 4, 6, dtype=torch.float64), spread(6).double(), 1e-5), "float64"),
    ),
    properties=(
        _of_heads(RULES[0]),
        Property("each head alone", _heads_alone, TOKENS),
        Property("the same for all heads", _one_weight, INSIDE),
        *map(_of_heads, RULES[1:]),
    ),
)

EXERCISES = (LLAMA_BLOCK, LLAMA_STACK, QK_NORM)
