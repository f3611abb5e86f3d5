"""Notebook 05's exercises: SwiGLU as a function, as a module, and the way back through its unit."""

import dataclasses
import functools
import itertools
import math
import re

import torch
import torch.nn.functional as F
from torch import nn

from .. import layers
from ..checker import Case, Exercise, Mistake, Property
from ._inputs import draw
from .norms import frozen

HAND = "05 Two numbers by hand"
LAYER = "05 How do units make a layer?"
SLIPS = "05 Which slips does a shape give away?"
NOTICE = "05 Would your test notice?"
NUMBERED = "05 Which of w1, w2, w3 is the last?"
FAMILY = "05 What if another function opens the gate?"
OUTLIER = "05 What does an outlier do?"
LEARN = "05 Which matrices learn?"
SILU_HAND = "04 Four numbers by hand"
SLOPE = "04 How steep is it?"
GATE = "04 Is SiLU a gate?"
GELU = "04 How far is SiLU from GELU?"
WRITTEN = "04 Does it matter how it is written?"
IN_PLACE = "04 What does `inplace=True` save?"


# --- One unit, (gate, up) -> hidden: mistakes that the function, the module and 07 share

UNITS = (
    Mistake(
        "G01",
        lambda g, u: g * F.silu(u),
        "SiLU is on up: gate · silu(up). Untrained weights do not mind, but a checkpoint knows "
        "which of the two is the gate. It should be silu(gate) · up.",
        NUMBERED,
        seen="https://github.com/ml-explore/mlx-lm/pull/767",
    ),
    Mistake(
        "G02",
        lambda g, u: F.silu(g * u),
        "SiLU acts on the product, silu(gate · up), so that doubling up no longer doubles the "
        "unit. Only the gate goes through SiLU; up multiplies what comes out.",
        NOTICE,
        seen="https://github.com/Nijikadesu/breakdown-minimind/issues/3",
    ),
    Mistake(
        "G03",
        lambda g, u: F.silu(g) + u,
        "The branches are added, silu(gate) + up, so that neither can shut the other: with up at "
        "zero the gate still comes through. Multiply them.",
        NOTICE,
    ),
    Mistake(
        "silu-on-both",
        lambda g, u: F.silu(g) * F.silu(u),
        "SiLU is on both branches. Up is what the unit passes on and stays as it is; only the "
        "gate goes through SiLU.",
        NOTICE,
    ),
    Mistake(
        "no-up",
        lambda g, u: F.silu(g),
        "Up is not used: silu(gate) goes to the down projection alone. Multiply it by up, unit by "
        "unit.",
        NOTICE,
    ),
    Mistake(
        "no-gate",
        lambda g, u: F.silu(u),
        "The gate is not used: silu(up) goes to the down projection, as in a plain network. SiLU "
        "belongs on the gate, and up multiplies it.",
        LAYER,
    ),
    Mistake(
        "M02-function",
        lambda g, u: F.silu(g) * g,
        "The gate is multiplied by itself, silu(gate) · gate, and up is not used. Two different "
        "projections of x meet here: silu(gate) · up.",
        LAYER,
    ),
    Mistake(
        "up-twice",
        lambda g, u: F.silu(u) * u,
        "Up is multiplied by itself, silu(up) · up, and the gate is not used. Two different "
        "projections of x meet here: silu(gate) · up.",
        LAYER,
    ),
    Mistake(
        "G11",
        lambda g, u: F.silu(g) ** 2,
        "This is silu(gate) times itself, without up. Did `F.silu(gate, inplace=True)` overwrite "
        "`gate` before it was used again? Leave `inplace` out, and multiply by up.",
        IN_PLACE,
    ),
    Mistake(
        "G05",
        lambda g, u: g * u,
        "Nothing acts on the gate: gate · up is the bilinear network. Put SiLU on the gate before "
        "the product.",
        FAMILY,
    ),
    Mistake(
        "G06",
        lambda g, u: torch.sigmoid(g) * u,
        "The gate goes through a sigmoid: that is GLU, where a gate of 0 still passes half of up. "
        "SwiGLU has silu(gate) = gate · σ(gate).",
        FAMILY,
        seen="https://github.com/marin-community/marin/issues/5934",
    ),
    Mistake(
        "sigmoid-on-up",
        lambda g, u: g * torch.sigmoid(u),
        "This is gate · σ(up), as `F.glu` computes it: a sigmoid, and on up. It should be "
        "silu(gate) · up.",
        FAMILY,
    ),
    Mistake(
        "G08",
        lambda g, u: F.relu(g) * u,
        "The gate goes through ReLU: that is ReGLU, which cuts negative gates off. SiLU lets a "
        "little through: silu(gate) = gate · σ(gate).",
        FAMILY,
    ),
    Mistake(
        "gelu",
        lambda g, u: F.gelu(g) * u,
        "The gate goes through GELU: that is GEGLU. It is a near relation, but a checkpoint wants "
        "its own function; SwiGLU has silu(gate) = gate · σ(gate).",
        GELU,
    ),
    Mistake(
        "gelu-tanh",
        lambda g, u: F.gelu(g, approximate="tanh") * u,
        "The gate goes through GELU's tanh form: that is GEGLU, as in Gemma. SwiGLU has "
        "silu(gate) = gate · σ(gate).",
        GELU,
    ),
    Mistake(
        "G15",
        lambda g, u: g * torch.sigmoid(1.702 * g) * u,
        "The gate goes through g · σ(1.702·g), which stands in for GELU. SiLU has no factor inside "
        "the σ. (gpt-oss has this one, with a limit and up + 1 besides.)",
        GELU,
        seen="https://github.com/sgl-project/sglang/pull/39939",
    ),
    Mistake(
        "G16",
        lambda g, u: g.clamp(max=7) * torch.sigmoid(1.702 * g.clamp(max=7)) * (u.clamp(-7, 7) + 1),
        "This is the unit of gpt-oss: 1.702 inside the σ, limits at 7, and up + 1. The exercise "
        "asks for Llama's, silu(gate) · up.",
        FAMILY,
        convention=True,
    ),
    Mistake(
        "up-plus-one",
        lambda g, u: F.silu(g) * (u + 1),
        "One is added to up, as gpt-oss does, so that up at zero leaves silu(gate). Here up alone "
        "multiplies: silu(gate) · up.",
        NOTICE,
    ),
    Mistake(
        "limited",
        lambda g, u: F.silu(g.clamp(max=7)) * u.clamp(-7, 7),
        "Gate and up are limited to 7, as in gpt-oss. Llama's unit has no limit: silu(gate) · up.",
        OUTLIER,
    ),
    Mistake(
        "tanh",
        lambda g, u: torch.tanh(g) * u,
        "The gate goes through tanh, which levels off at ±1. silu(gate) = gate · σ(gate) grows "
        "with a large gate and stays near zero for a negative one.",
        GATE,
    ),
    Mistake(
        "S13",
        lambda g, u: g * torch.tanh(g) * u,
        "The gate is multiplied by its tanh, where its sigmoid belongs: silu(gate) = "
        "gate · σ(gate).",
        SILU_HAND,
    ),
    Mistake(
        "softmax",
        lambda g, u: g.softmax(-1) * u,
        "The gate goes through a softmax, so that units compete, and gates of zero still pass "
        "something. Each unit has a gate of its own: silu(gate) = gate · σ(gate).",
        NOTICE,
    ),
    Mistake(
        "softmax-tokens",
        lambda g, u: g.softmax(1) * u,
        "The gate goes through a softmax over the tokens, which then see each other. Each number "
        "is gated alone: silu(gate) = gate · σ(gate).",
        NOTICE,
    ),
    Mistake(
        "softmax-batch",
        lambda g, u: g.softmax(0) * u,
        "The gate goes through a softmax over the batch, which is what `F.softmax` without `dim` "
        "takes here. Each number is gated alone: silu(gate) = gate · σ(gate).",
        NOTICE,
    ),
    Mistake(
        "silu-twice",
        lambda g, u: F.silu(F.silu(g)) * u,
        "The gate goes through SiLU twice. Did `F.silu(gate, inplace=True)` overwrite `gate` "
        "before it was used again? Apply it once.",
        IN_PLACE,
    ),
    Mistake(
        "gate-again",
        lambda g, u: g * F.silu(g) * u,
        "The gate multiplies once too often: gate · silu(gate) · up. SiLU contains that factor, "
        "silu(gate) = gate · σ(gate).",
        SILU_HAND,
    ),
    Mistake(
        "S06",
        lambda g, u: g * torch.sigmoid(-g) * u,
        "The sign in the exponent is turned: this is gate / (1 + exp(+gate)), open for negative "
        "gates. silu(gate) = gate / (1 + exp(−gate)) = gate · σ(gate).",
        SILU_HAND,
    ),
    Mistake(
        "S07",
        lambda g, u: (g / 1 + torch.exp(-g)) * u,
        "Brackets are missing: `g / 1 + torch.exp(-g)` divides by 1 and then adds. Better take "
        "`torch.sigmoid(g)`, and multiply by g.",
        SILU_HAND,
        seen="https://github.com/chelsea0x3b/dfdx/pull/915",
    ),
    Mistake(
        "S05",
        lambda g, u: g * torch.exp(g) / (1 + torch.exp(g)) * u,
        "For gates above 84 the product with exp(gate) leaves float32, and what comes out is inf "
        "or NaN. exp(gate)/(1 + exp(gate)) is `torch.sigmoid(gate)`, which does not overflow.",
        WRITTEN,
    ),
    Mistake(
        "scaled",
        lambda g, u: F.silu(g) * u / g.shape[-1] ** 0.5,
        "The units are divided by √I, as scores in attention are by the root of a size. Here "
        "nothing but up multiplies silu(gate); the size of the weights sees to the rest.",
        LAYER,
    ),
    Mistake(
        "M06",
        lambda g, u: F.dropout(F.silu(g) * u, 0.1),
        "`F.dropout` on the units drops at every call: it does not know of `eval()`, unless a "
        "module tells it `training=self.training`. Llama's layer has no dropout; leave it out.",
        LAYER,
    ),
)


def with_units(form, but=()):
    """The mistakes of one unit as those of a whole answer. form: unit -> answer."""
    return tuple(dataclasses.replace(m, wrong=form(m.wrong)) for m in UNITS if m.id not in but)


# --- What every right answer obeys. f: (x, w_gate, w_up, w_down) -> y


def weights(hidden_size, intermediate_size, seed=0):
    """(w_gate, w_up, w_down), stored (out, in). With x of size 1, gate and up have both signs."""
    shapes = ((intermediate_size, hidden_size),) * 2 + ((hidden_size, intermediate_size),)
    drawn = (draw(*shape, seed=3 * seed + i + 1) - 0.7 for i, shape in enumerate(shapes))
    return tuple(w * (0.5 + 0.25 * i) for i, w in enumerate(drawn))


def _doubles(*shape, seed=0):
    return draw(*shape, seed=seed, dtype=torch.float64)


def _network():
    """x, w_gate, w_up, w_down in float64, of sizes that all differ."""
    return (_doubles(2, 3, 5), *(w.double() for w in weights(5, 7)))


def _equal(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-4 * b.abs().max().item() + 1e-12)


def _repeats(f):
    y, again = f(*_network()), f(*_network())
    if torch.equal(y, again):
        return None
    return (
        f"Two calls with the same input differ by up to {(y - again).abs().max():.3g}. Is "
        "something drawn inside, a new layer at each call or a dropout? In a module `F.dropout` "
        "must be told `training=self.training`."
    )


def _alone(f):
    x, *w = _network()
    for at in ((1, 2), (0, 0)):  # the last token and the first
        moved = x.clone()
        moved[at] += 1
        others = (f(x, *w) - f(moved, *w)).abs().amax(-1) > 1e-6
        others[at] = False
        if others.any():
            return (
                f"When one token changes, {int(others.sum())} of the other 5 tokens change too. A "
                "feed-forward network reads each token by itself: look for an operation along the "
                "batch or the tokens, or for a `reshape` that mixes them."
            )
    return None


def _shut_down(f):
    x, g, u, d = _network()
    y = f(x, g, u, 0 * d)
    if y.abs().max() < 1e-9:
        return None
    if _equal(y, x):
        return (
            "With down weights of zeros x itself comes out: x is added inside. The block adds it, "
            "around this layer; return the network's output alone."
        )
    if y.isnan().any():
        return (
            "With down weights of zeros the output should be zero, and is NaN. Is something "
            "divided by its own size, the weights or the output? The layer normalises nothing."
        )
    if _equal(y, f(x, g, u, d)):
        return (
            "The down weights change nothing: another matrix does their work. It is `w_down`, (D, "
            "I), that brings the I units back to D numbers."
        )
    return (
        f"With down weights of zeros the output should be zero, and is up to "
        f"{y.abs().max():.3g}. The down projection comes last, and nothing is added to it."
    )


def _linear_in_down(f):
    x, g, u, d = _network()
    y, twice = f(x, g, u, d), f(x, g, u, 2 * d)
    if _equal(twice, 2 * y):
        if _equal(f(x, g, u, -d), -y):
            return None
        return (
            "With −1 times the down weights every output should turn its sign, and some do not: "
            "something like ReLU acts after the down projection, which comes last."
        )
    if _equal(twice, 4 * y):
        return (
            "With twice the down weights the output is four times as large: down is applied "
            "twice. Multiply gate and up first, then project their product down once."
        )
    if (twice - 2 * y).norm() < 0.01 * y.norm():
        return (
            "With twice the down weights the output doubles roughly, and not to the last digits. "
            "In float64 it should: is something rounded, or computed in 16 bits?"
        )
    if abs(twice.norm() / y.norm() - 1) < 1e-3:
        return (
            "With twice the down weights the output should double, and is as long as before. Is it "
            "or the weight normalised? The layer returns what the down projection gives."
        )
    return (
        f"With twice the down weights the output should double, and its length grows by "
        f"{twice.norm() / y.norm():.3g}. Something acts after the down projection, which comes "
        "last: SiLU belongs before it, on the gate."
    )


def _levelled(name):
    return (
        f"Twice the {name} weights give the same output, though in another order they do not. Is "
        f"something normalised between the projections, {name} or its product? Nothing is: "
        "silu(gate) · up goes down as it is."
    )


def _out_of_step(f):
    """Which gate, up and down belong to one unit, if they are not those of one number."""
    x, zeros = torch.ones(1, 1, 1, dtype=torch.float64), torch.zeros(3, 1, dtype=torch.float64)
    one = [zeros.index_fill(0, torch.tensor(i), 1.0) for i in range(3)]
    units = [
        at
        for at in itertools.product(range(3), repeat=3)
        if f(x, one[at[0]], one[at[1]], one[at[2]].T).abs().max() > 1e-6
    ]
    wrong = next((at for at in units if len(set(at)) > 1), None)
    if len(units) != 3 or wrong is None:
        return None
    return (
        "A unit has a row of gate, a row of up and a column of down of one number. With 3 units, "
        f"yours joins row {wrong[0]} of gate, row {wrong[1]} of up and column {wrong[2]} of down. "
        "Is one of them turned round or shifted on the way?"
    )


def _units_add_up(f):
    x, g, u, d = _network()
    y = f(x, g, u, d)
    total = sum(f(x, g[i : i + 1], u[i : i + 1], d[:, i : i + 1]) for i in range(7))
    if _equal(y, total):
        return None
    said = "The output of 7 units should be the sum of what each gives alone, and"
    factor = ((y * total).sum() / total.square().sum()).item()
    if not _equal(y, factor * total):
        if (step := _out_of_step(f)) is not None:
            return step
        return (
            f"{said} is off by {(y - total).norm() / total.norm():.0%} of its length. Does "
            "something act across units, such as a softmax, a norm or a maximum?"
        )
    known = {7**-0.5: ", 1/√7: is it divided by √I?", 1 / 7: ", 1/7: is a mean taken of the units?"}
    why = next((words for k, words in known.items() if abs(factor - k) < 1e-4), ".")
    return f"{said} is {factor:.4g} times that{why} The down projection adds them as they are."


def _up_shuts(f):
    x, g, u, d = _network()
    if _equal(f(x, g, 2 * u, d), f(x, g, u, d)):
        if not _equal(f(x, g, u.flip(0), d), f(x, g, u, d)):
            return _levelled("up")
        return "The up weights change nothing. Up multiplies silu(gate), unit by unit."
    y = f(x, g, 0 * u, d)
    if y.abs().max() < 1e-9:
        return None
    if _equal(y, x @ g.T @ d.T / 2):
        return (
            "With up weights of zeros the output should be zero, but half of the gate is left: a "
            "sigmoid acts on up. SiLU acts on the gate, and up multiplies as it is."
        )
    one, two, three = (f(x, g, k * u, d) for k in (1, 2, 3))
    if not torch.allclose(three - two, two - one, rtol=1e-4, atol=1e-6):
        return (
            "With up weights of zeros the output should be zero, and with them doubled it should "
            "double; yours does neither. Does up go through a function of its own? It multiplies "
            "as it is, and only the gate goes through SiLU."
        )
    silu_left = _equal(y, F.silu(x @ g.T) @ d.T)
    why = "silu(gate) is left" if silu_left else f"numbers up to {y.abs().max():.3g} are left"
    return (
        f"With up weights of zeros the output should be zero, but {why}. Up is a factor: nothing "
        "is added to it, not even 1, nor it to anything."
    )


def _gate_shuts(f):
    x, g, u, d = _network()
    if _equal(f(x, 2 * g, u, d), f(x, g, u, d)):
        if not _equal(f(x, g.flip(0), u, d), f(x, g, u, d)):
            return _levelled("gate")
        return "The gate weights change nothing. The unit is silu(gate) · up."
    y, all_of_up = f(x, 0 * g, u, d), x @ u.T @ d.T
    if y.abs().max() < 1e-9:
        return None
    share = ((y * all_of_up).sum() / all_of_up.square().sum()).item()
    known = {
        0.5: "half of up comes through, as by a sigmoid (GLU). silu(0) = 0·σ(0) is zero.",
        1: "all of up comes through. The factor silu(gate) is 0·σ(0) there, zero.",
        1 / 7: "a seventh of up comes through each of the 7 units, as by a softmax. Each unit has "
        "a gate of its own.",
    }
    close = (words for s, words in known.items() if _equal(y, s * all_of_up))
    what = next(close, f"about {share:.3g} of up comes through. Is something added to the gate?")
    return f"With gate weights of zeros the output should be zero, but {what}"


def _orientation(f):
    """A weight with one entry, row 0, column 1: feature 1 is read, and unit 0 gets it."""
    x = torch.tensor([[[1.0, 2.0, 3.0]]], dtype=torch.float64)
    one = torch.zeros(3, 3, dtype=torch.float64)
    one[0, 1] = 1
    for i, name in enumerate(("gate", "up", "down")):
        w = [torch.eye(3, dtype=torch.float64) for _ in range(3)]
        w[i] = one
        y = f(x, *w)[0, 0]
        if y[1].abs() > 1e-6 and y[0].abs() < 1e-6:
            return (
                f"With D = I = 3, a {name} weight whose only entry is in row 0, column 1 should "
                "take feature 1 to place 0. Yours takes feature 0 to place 1: rows and columns "
                "are exchanged. Weights are stored (out, in), so transpose: `x @ w.T`."
            )
    return None


def _linear_in_up(f):
    x, g, u, d = _network()
    y, twice = f(x, g, u, d), f(x, g, 2 * u, d)
    if _equal(twice, 2 * y) and _equal(f(x, g, -u, d), -y):
        return None
    if _equal(f(x, 2 * g, u, d), 2 * y) and _equal(f(x, -g, u, d), -y):
        return (
            "The output is proportional to the *gate* weights, and not to the up weights: the "
            "roles are exchanged. The activation belongs on the gate: silu(gate) · up."
        )
    if _equal(f(x, 2 * g, u, d), twice):
        return (
            "Twice the gate weights and twice the up weights do the same, and neither doubles the "
            "output: SiLU acts on their product. Apply it to the gate alone, then multiply."
        )
    if _equal(twice, 2 * y):
        return (
            "With −1 times the up weights every output should turn its sign, and some do not: "
            "something acts on up. It multiplies as it is."
        )
    off = ((twice - 2 * y).abs() > 1e-4 * twice.abs().max()).sum()
    return (
        f"With twice the up weights every output should double, and {off} of {y.numel()} do not. "
        "Does something act on up, or limit it? It multiplies as it is."
    )


def _bent_in_the_gate(f):
    x, g, u, d = _network()
    y, twice = f(x, g, u, d), f(x, 2 * g, u, d)
    if not _equal(twice, 2 * y):
        return None
    if _activation(f, (-2.0,)).abs() < 1e-6:
        what = "and a gate of −2 gives 0: that is ReLU"
    elif _equal(f(x, -g, u, d), -y):
        what = (
            "and −1 times the gate −1 times the output: nothing acts on what the gate's "
            "projection gives"
        )
    else:
        what = "so what acts on the gate is straight on each side of zero"
    return (
        f"Twice the gate weights give exactly twice the output, {what}. "
        "SiLU bends: silu(gate) = gate · σ(gate)."
    )


def _one_unit():
    """Weights with which a token (gate, up) becomes (unit, 0)."""
    pick = torch.eye(2, dtype=torch.float64)
    return pick[:1], pick[1:], pick[:, :1]


def _activation(f, gates):
    """What one unit with up 1 gives for each gate."""
    x = torch.tensor([[[g, 1.0] for g in gates]], dtype=torch.float64)
    return f(x, *_one_unit())[0, :, 0]


def _reads_alone(f):
    """Whether a feature that neither gate nor up reads leaves a unit as it is."""
    pick = torch.eye(3, dtype=torch.float64)
    x = torch.tensor([[[2.0, 1.0, 0.0]], [[2.0, 1.0, 5.0]]], dtype=torch.float64)
    a, b = f(x, pick[:1], pick[1:2], pick[:, :1])[:, 0, 0]
    return torch.allclose(a, b)


def _grows_by_the_square(f):
    if not _reads_alone(f):
        return (
            "A feature that neither the gate's nor up's weights read, 5 in place of 0, changes the "
            "unit. Is x normalised or centred before a projection? The layer takes x as it is."
        )
    x = torch.tensor([[[30.0, 2.0]]], dtype=torch.float64)
    ratio = (f(10 * x, *_one_unit()) / f(x, *_one_unit()))[0, 0, 0].item()
    if abs(ratio - 100) < 0.1:
        return None
    if abs(ratio) < 1e-3:
        return (
            "A unit with gate 300 and up 20 should give 6000, and gives next to nothing: a large "
            "gate shuts it. Is the sign turned in the exponent? σ(g) = 1/(1 + exp(−g))."
        )
    known = {
        1: "Is x normalised inside, or are gate and up limited? The layer takes x as it is.",
        10: "Does the gate level off, is it limited, or is x normalised on one of the two ways? "
        "silu(gate) is about gate when it is large.",
        1000: "The gate is a factor twice. silu(gate) = gate · σ(gate) contains it once.",
    }
    why = next((words for r, words in known.items() if abs(ratio / r - 1) < 0.01), None)
    g, u, d = _one_unit()
    if not torch.allclose(f(x, g, u, d.flip(0))[..., 1], f(x, g, u, d)[..., 0]):
        why = "And the output depends on the place it goes to: is it multiplied by x?"
    return (
        "A unit with gate 30 and up 2, each made ten times larger, should grow by 100, and grows "
        f"by {ratio:.4g}. {why or 'For large gates silu(gate) is the gate itself.'}"
    )


# What a gate may go through instead; all are 0 at 0.
ACTIVATIONS = {
    "GELU, which makes it GEGLU": F.gelu,
    "GELU's tanh form, as in Gemma": functools.partial(F.gelu, approximate="tanh"),
    "tanh": torch.tanh,
    "g · tanh(g)": lambda g: g * torch.tanh(g),
    "SiLU twice": lambda g: F.silu(F.silu(g)),
    "g · silu(g)": lambda g: g * F.silu(g),
    "silu(g)²": lambda g: F.silu(g).square(),
    "g · σ(−g), with a sign turned": lambda g: -F.silu(-g),
    "ReLU squared": lambda g: F.relu(g).square(),
    "ELU": F.elu,
    "SELU": F.selu,
    "Mish": F.mish,
    "Hardswish, which is made of straight pieces": F.hardswish,
}


def _is_silu(f):
    gates = torch.tensor([-3.0, -1.0, 0.5, 2.0, 4.0], dtype=torch.float64)
    a, right = _activation(f, gates.tolist()), F.silu(gates)
    if _equal(a, right):
        return None
    said = (
        f"A unit with up 1 should give silu(gate): {right[3]:.3f} for gate 2 and {right[1]:.3f} "
        f"for gate −1. Yours gives {a[3]:.3f} and {a[1]:.3f}"
    )
    for name, other in ACTIVATIONS.items():
        if _equal(a, other(gates)):
            return f"{said}. Your gate goes through {name}."
    beta = (torch.logit(a / gates) / gates).mean().item()  # NaN unless a/gate is between 0 and 1
    if _equal(a, layers.swish(gates, beta) if math.isfinite(beta) else 0 * a):
        return f"{said}: that is gate · σ({beta:.4g}·gate). SiLU has no factor inside the σ."
    factor = (a / right).mean().item()
    if _equal(a, factor * right):
        return f"{said}, {factor:.4g} times that. Nothing but up multiplies silu(gate)."
    return f"{said}. silu(gate) = gate · σ(gate)."


def _no_overflow(f):
    x = torch.tensor([[[-100.0, 1.0], [100.0, 1.0]]])
    y = f(x, *(w.float() for w in _one_unit()))[0, :, 0]
    if y.isfinite().all() and abs(y[1] - 100) < 0.1 and abs(y[0]) < 1e-3:
        return None
    return (
        f"In float32 a unit with up 1 gives {y[1]:.1f} for gate 100, expected 100, and "
        f"{y[0]:z.1f} for gate −100, expected 0. exp(100) is larger than any float32: take "
        "`torch.sigmoid`, which does not overflow."
    )


RULES = (
    Property("two calls agree", _repeats, LAYER),
    Property("each token by itself", _alone, LAYER),
    Property("nothing beside down", _shut_down, LAYER),
    Property("linear in down", _linear_in_down, LAYER),
    Property("up of zeros shuts", _up_shuts, NOTICE),
    Property("gate of zeros shuts", _gate_shuts, NOTICE),
    Property("weights are (out, in)", _orientation, SLIPS),
    Property("units add up", _units_add_up, LAYER),
    Property("linear in up", _linear_in_up, NOTICE),
    Property("bent in the gate", _bent_in_the_gate, FAMILY),
    Property("large units grow by the square", _grows_by_the_square, OUTLIER),
    Property("the gate goes through SiLU", _is_silu, FAMILY),
    Property("no overflow", _no_overflow, WRITTEN),
)


def of_rules(form):
    """The rules, asked of another kind of answer. form: an answer -> f(x, w_gate, w_up, w_down)."""
    return tuple(
        dataclasses.replace(rule, broken=lambda f, broken=rule.broken: broken(form(f)))
        for rule in RULES
    )


def overflowing_gradient(f):
    """What is worth saying of a right f(x, w_gate, w_up, w_down), or None."""
    x = torch.tensor([[[-100.0, 1.0]]], requires_grad=True)
    (slope,) = torch.autograd.grad(f(x, *(w.float() for w in _one_unit())).sum(), x)
    if slope.isfinite().all():
        return None
    return (
        "One thing more: at gate −100 its *gradient* is NaN in float32, because exp(100) overflows "
        "on the way. With `torch.sigmoid` or `F.silu` it stays finite (notebook 04)."
    )


# --- swiglu_ffn

_x = draw(2, 3, 5)
CASES = (
    Case((_x, *weights(5, 7)), grad=True),
    Case((draw(4, 4, 4), *weights(4, 4)), "all axes of one size, D = I"),
    Case((60 * _x, *weights(5, 7)), "gates beyond ±100"),
    Case((0.01 * _x, *weights(5, 7)), "gates near zero"),
    Case((draw(1, 5, 6, seed=1), *weights(6, 3, seed=1)), "fewer units than features"),
    Case((_x.double(), *(w.double() for w in weights(5, 7))), "float64"),
)


def _ffn(unit):
    return lambda x, w_gate, w_up, w_down: unit(x @ w_gate.T, x @ w_up.T) @ w_down.T


def swiglu(gate, up):
    """One right unit."""
    return F.silu(gate) * up


def _not_transposed(*names):
    def wrong(x, w_gate, w_up, w_down):
        w = {"w_gate": w_gate, "w_up": w_up, "w_down": w_down}
        gate, up, down = (v if name in names else v.T for name, v in w.items())
        return swiglu(x @ gate, x @ up) @ down

    words = " and ".join(", ".join(f"`{name}`" for name in names).rsplit(", ", 1))
    return Mistake(
        "not-transposed-" + "-".join(name.removeprefix("w_") for name in names),
        wrong,
        f"Not transposed: {words}. Weights are stored (out, in), as `nn.Linear` does, so it is "
        "`x @ w.T`, or `F.linear(x, w)`, which transposes by itself. When D ≠ I PyTorch raises; "
        "when D = I it is silently wrong.",
        SLIPS,
    )


def _reshaped(x, w_gate, w_up, w_down):
    gate, up, down = (w.reshape(w.shape[::-1]) for w in (w_gate, w_up, w_down))
    return swiglu(x @ gate, x @ up) @ down


def _normalised(x, w_gate, w_up, w_down):
    return layers.gated_ffn(layers.rms_norm(x), w_gate, w_up, w_down)


_ALL = ("w_gate", "w_up", "w_down")
FFN = Exercise(
    "swiglu_ffn",
    ("x", "w_gate", "w_up", "w_down"),
    layers.gated_ffn,
    CASES,
    (
        *with_units(_ffn),
        Mistake(
            "G12",
            lambda x, g, u, d: swiglu(x @ g.T, x @ u.T),
            "The down projection is missing: I numbers a token come out, where the block needs D "
            "to add them to x. Multiply by `w_down.T` at the end.",
            SLIPS,
        ),
        Mistake(
            "G14",
            lambda x, g, u, d: F.silu((x @ g.T) * (x @ u.T) @ d.T),
            "SiLU acts after the down projection, so that no output can be below −0.28. It belongs "
            "on the gate, before the product.",
            LAYER,
        ),
        Mistake(
            "silu-again",
            lambda x, g, u, d: F.silu(swiglu(x @ g.T, x @ u.T) @ d.T),
            "A second SiLU acts after the down projection, so that no output can be below −0.28. "
            "The output of down is returned as it is.",
            LAYER,
        ),
        Mistake(
            "down-on-each",
            lambda x, g, u, d: (F.silu(x @ g.T) @ d.T) * (x @ u.T @ d.T),
            "Each branch is projected down, and then they are multiplied. Multiply them while they "
            "are I units wide; `w_down` is applied once, to the product.",
            LAYER,
        ),
        Mistake(
            "silu-before-gate",
            lambda x, g, u, d: (F.silu(x) @ g.T) * (x @ u.T) @ d.T,
            "SiLU acts on x, before the gate's projection. It acts on what the projection gives: "
            "silu(W_gate x).",
            LAYER,
        ),
        Mistake(
            "residual",
            lambda x, g, u, d: x + swiglu(x @ g.T, x @ u.T) @ d.T,
            "The input is added inside. The residual sum belongs to the block around this layer; "
            "return the output of down alone.",
            LAYER,
        ),
        Mistake(
            "normalised",
            _normalised,
            "The input is normalised inside. The norm before the layer belongs to the block; the "
            "layer takes x as it comes.",
            OUTLIER,
        ),
        Mistake(
            "G17",
            lambda x, g, u, d: F.silu(x @ g.T) @ u.T @ d.T,
            "`w_up` is applied to the activated gate, one after the other. Both projections read "
            "x, side by side. When D ≠ I PyTorch raises; when D = I it is silently wrong.",
            LAYER,
        ),
        Mistake(
            "X21",
            lambda x, g, u, d: swiglu(x @ g.T, x @ d.T) @ u.T,
            "The third argument is used as up and the second as down, as Meta's w1, w2, w3 "
            "are numbered. Here the order is gate, up, down.",
            NUMBERED,
            seen="https://github.com/jjang-ai/mlxstudio/issues/132",
        ),
        Mistake(
            "matmul",
            lambda x, g, u, d: F.silu(x @ g.T) @ (x @ u.T) @ d.T,
            "Gate and up meet in a matrix product, `@`, which mixes tokens. ⊙ is `*`: each unit's "
            "gate multiplies that unit's up.",
            LAYER,
        ),
        *(
            _not_transposed(*names)
            for count in (3, 2, 1)
            for names in itertools.combinations(_ALL, count)
        ),
        Mistake(
            "reshaped",
            _reshaped,
            "The weights are reshaped where they should be transposed: `view` and `reshape` keep "
            "the order in memory, and only the shape fits. Use `w.T`.",
            SLIPS,
        ),
        Mistake(
            "product-first",
            lambda x, g, u, d: F.silu(x @ g.T) * x @ u.T @ d.T,
            "Brackets are missing: `*` and `@` bind alike, from the left, so silu(gate) multiplies "
            "x before `w_up` does its work. It is `F.silu(gate) * (x @ w_up.T)`.",
            LAYER,
        ),
        Mistake(
            "flattened",
            lambda x, g, u, d: layers.gated_ffn(x.flatten(0, -2), g, u, d),
            "Sequences and tokens are one axis in the result, as x was flattened. Give it the "
            "shape of x again, or leave x as it is: `@` takes any axes before the last.",
            SLIPS,
        ),
        Mistake(
            "last-token",
            lambda x, g, u, d: layers.gated_ffn(x, g, u, d)[:, -1],
            "The last token alone is returned. The layer gives every token of a sequence its own "
            "output, of the shape of x.",
            LAYER,
        ),
        Mistake(
            "averaged",
            lambda x, g, u, d: layers.gated_ffn(x, g, u, d).mean(-2, keepdim=True),
            "The tokens are averaged into one. A feed-forward network reads each token by itself "
            "and returns as many as it got.",
            LAYER,
        ),
        Mistake(
            "detached",
            lambda x, g, u, d: swiglu((x @ g.T).detach(), x @ u.T) @ d.T,
            "The values are right, but no gradient reaches the gate weights: something like "
            "`.detach()`, `.data` or NumPy cuts it, and they would never learn.",
            LEARN,
        ),
    ),
    RULES,
    (
        "Three matrix products and one product unit by unit. Which of the four comes last?",
        "The last axis of x has D features, and `w_gate` is (I, D). What must happen to the weight "
        "before `x @ …` can give (B, T, I)?",
        "`gate = x @ w_gate.T`, and up likewise. `F.silu(gate) * up` is what goes on to `w_down`.",
    ),
    10,
    LAYER,
    remark=overflowing_gradient,
)


# --- swiglu_module


def _module(answer, hidden_size, intermediate_size):
    """Build a layer and look at it: what it holds, and what it returns with set weights.

    When it holds something else than asked, that is all there is to say: what it returns follows
    from it, and is taken to be right.
    """
    layer = answer(hidden_size, intermediate_size)
    if not isinstance(layer, nn.Module):
        raise TypeError(f"it is no module, write class {answer.__name__}(nn.Module)")
    held, x, w = _held(layer), draw(2, 3, hidden_size), weights(hidden_size, intermediate_size)
    if held != ", ".join(_asked_for(hidden_size, intermediate_size)):
        return held, layers.gated_ffn(x, *w), layers.gated_ffn(60 * x, *w), ALL_LEARN, True
    _set(layer, *w)
    y = layer(x)
    return held, y, layer(60 * x), _learning(layer, y), _steady(layer, x)


def _steady(layer, x):
    """Whether two calls agree while the layer trains, as they do without dropout."""
    first, second = layer.train()(x), layer(x)
    return not torch.is_tensor(first) or torch.equal(first, second)


ALL_LEARN = "down_proj.weight, gate_proj.weight, up_proj.weight"


def _learning(layer, y):
    """Which weights a gradient of the output reaches, in words."""
    if not torch.is_tensor(y) or not y.requires_grad:
        return "none"
    names, held = zip(*sorted(layer.named_parameters()), strict=True)
    slopes = torch.autograd.grad(y.sum(), held, allow_unused=True, retain_graph=True)
    return ", ".join(n for n, s in zip(names, slopes, strict=True) if s is not None) or "none"


def _set(layer, w_gate, w_up, w_down):
    """Give a layer its weights, for evaluation."""
    layer.eval()
    with torch.no_grad():
        layer.gate_proj.weight.copy_(w_gate)
        layer.up_proj.weight.copy_(w_up)
        layer.down_proj.weight.copy_(w_down)


def _held(layer):
    """The parameters in words; two names of one parameter are joined by =."""
    names = {}
    for name, p in sorted(layer.named_parameters(remove_duplicate=False)):
        names.setdefault(p, []).append(name)
    said = (f"{' = '.join(n)} {tuple(p.shape)}{frozen(p)}" for p, n in names.items())
    return ", ".join(said) or "none"


def _asked_for(d, i):
    return f"down_proj.weight {(d, i)}", f"gate_proj.weight {(i, d)}", f"up_proj.weight {(i, d)}"


def _of_module(f):
    def ffn(x, *w):
        layer = f.answer(*w[2].shape).to(x.dtype)
        _set(layer, *w)
        return layer(x)

    return ffn


def _module_parameters(f):
    held, asked = f(5, 7)[0], _asked_for(5, 7)
    if held == ", ".join(asked):
        return None
    if held == "none":
        why = "A layer is registered when it is assigned to `self` by a name."
    elif " = " in held:
        why = "Names joined by = are one and the same parameter: make a layer for each."
    elif "frozen" in held:
        why = "A frozen one does not learn."
    elif all(entry in held for entry in asked) and (more := _more_than_asked(held)):
        why = f"A Llama checkpoint has no key for {more}: the layer is three matrices alone."
    elif "bias" in held:
        why = "Llama's layer has no bias: `nn.Linear(…, bias=False)`."
    elif "(7, 5)" not in held and "(5, 7)" not in held:
        why = "`intermediate_size` is the width itself: use it as it is given."
    elif all(entry.split()[0] in held for entry in asked):
        why = "`nn.Linear(in, out)` keeps its weight as (out, in): gate and up go from D to I."
    else:
        why = "A checkpoint is loaded by these names."
    return (
        f"With hidden_size 5 and intermediate_size 7 the layer should hold {', '.join(asked)}, "
        f"and nothing else. Yours holds: {held}. {why}"
    )


def _more_than_asked(held):
    """Names of parameters besides the three weights and their biases, in words."""
    names = [entry.split(" (")[0] for entry in held.split(", ") if " (" in entry or "." in entry]
    return " and ".join(name for name in names if not re.match(r"(gate|up|down)_proj\.", name))


def _all_learn(f):
    learning = f(5, 7)[3]
    if learning == ALL_LEARN:
        return None
    return (
        f"What has a part in the output should learn from it, and a gradient reaches {learning} "
        "and nothing else. Something like `.detach()`, `.data` or `torch.no_grad()` cuts it, or a "
        "weight is not used."
    )


def _steady_in_training(f):
    if _steady(f.answer(5, 7), draw(2, 3, 5)):
        return None
    return "While it trains, two calls differ: there is dropout inside. Llama's layer has none."


def _module_zeros(f):
    y = _of_module(f)(torch.zeros(1, 1, 5), *weights(5, 7))
    if y.abs().max() < 1e-6:
        return None
    return (
        f"A token of zeros should stay zeros, and becomes up to {y.abs().max():.3g}: there is a "
        "bias, or a constant is added."
    )


class _Variant(nn.Module):
    """SwiGLU with one thing wrong: subclasses override."""

    def __init__(self, hidden_size, intermediate_size, bias=False):
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias)

    def unit(self, gate, up):
        return swiglu(gate, up)

    def forward(self, x):
        return self.down_proj(self.unit(self.gate_proj(x), self.up_proj(x)))


def _with_unit(unit):
    return type("_Unit", (_Variant,), {"unit": lambda self, gate, up: unit(gate, up)})


class _Biases(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__(hidden_size, intermediate_size, bias=True)


class _OneTwice(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__(hidden_size, intermediate_size)
        self.up_proj = self.gate_proj


class _InAList(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        nn.Module.__init__(self)
        sizes = (hidden_size, intermediate_size)
        self.layers = [nn.Linear(*s, bias=False) for s in (sizes, sizes, sizes[::-1])]

    def forward(self, x):
        gate, up, down = self.layers
        return down(swiglu(gate(x), up(x)))


class _Beta(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__(hidden_size, intermediate_size)
        self.beta = nn.Parameter(torch.ones(1))

    def unit(self, gate, up):
        return gate * torch.sigmoid(self.beta * gate) * up


class _ModuleDropout(_Variant):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.1, training=self.training)


class _Dropout(_Variant):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.1)


class _SizesSwapped(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__(intermediate_size, hidden_size)


class _DownSwapped(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__(hidden_size, intermediate_size)
        self.down_proj = nn.Linear(hidden_size, intermediate_size, bias=False)


class _GateUpSwapped(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__(hidden_size, intermediate_size)
        self.gate_proj = nn.Linear(intermediate_size, hidden_size, bias=False)
        self.up_proj = nn.Linear(intermediate_size, hidden_size, bias=False)


class _FourTimes(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__(hidden_size, 4 * hidden_size)


class _MetasNames(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        nn.Module.__init__(self)
        self.w1 = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.w2 = nn.Linear(intermediate_size, hidden_size, bias=False)
        self.w3 = nn.Linear(hidden_size, intermediate_size, bias=False)

    def forward(self, x):
        return self.w2(swiglu(self.w1(x), self.w3(x)))


class _Fused(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        nn.Module.__init__(self)
        self.gate_up_proj = nn.Linear(hidden_size, 2 * intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(swiglu(*self.gate_up_proj(x).chunk(2, dim=-1)))


class _Parameters(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        nn.Module.__init__(self)
        self.gate_proj = nn.Parameter(torch.randn(intermediate_size, hidden_size))
        self.up_proj = nn.Parameter(torch.randn(intermediate_size, hidden_size))
        self.down_proj = nn.Parameter(torch.randn(hidden_size, intermediate_size))

    def forward(self, x):
        return layers.gated_ffn(x, self.gate_proj, self.up_proj, self.down_proj)


class _Frozen(_Variant):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__(hidden_size, intermediate_size)
        self.requires_grad_(False)


class _NoDown(_Variant):
    def forward(self, x):
        return self.unit(self.gate_proj(x), self.up_proj(x))


class _AfterDown(_Variant):
    def forward(self, x):
        return F.silu(self.down_proj(self.gate_proj(x) * self.up_proj(x)))


class _Residual(_Variant):
    def forward(self, x):
        return x + super().forward(x)


class _NotTransposed(_Variant):
    def forward(self, x):
        gate, up, down = (p.weight for p in (self.gate_proj, self.up_proj, self.down_proj))
        return swiglu(x @ gate, x @ up) @ down


class _Detached(_Variant):
    def unit(self, gate, up):
        return swiglu(gate.detach(), up)


class _Averaged(_Variant):
    def forward(self, x):
        return super().forward(x).mean(-2, keepdim=True)


class _LastToken(_Variant):
    def forward(self, x):
        return super().forward(x)[:, -1:]


class _Sequential(_Variant):
    def forward(self, x):
        return self.down_proj(self.up_proj(F.silu(self.gate_proj(x))))


MODULE = Exercise(
    "swiglu_module",
    ("hidden_size", "intermediate_size"),
    layers.SwiGLU,
    (Case((5, 7)), Case((4, 4), "D = I"), Case((6, 3), "fewer units than features")),
    (
        Mistake(
            "M01",
            _Biases,
            "There are three biases: `nn.Linear` has one unless told `bias=False`. Llama's layer "
            "has none; its checkpoint has no key for them, and zeros would not stay zeros.",
            LAYER,
        ),
        Mistake(
            "M02",
            _OneTwice,
            "`gate_proj` and `up_proj` are one and the same layer, so that they can never differ. "
            "Make an `nn.Linear` for each.",
            LAYER,
        ),
        Mistake(
            "M03",
            _InAList,
            "None of the weights is registered, so no optimiser finds them: a Python list hides "
            "the layers in it, and plain tensors are no parameters. Assign each layer to `self` "
            "by its name in `__init__`.",
            LAYER,
        ),
        Mistake(
            "M05",
            _Beta,
            "There is a learned β beside the three matrices. In SwiGLU as Llama has it β is fixed "
            "at 1, and a checkpoint has no key for it: silu(gate) = gate · σ(gate).",
            "04 What does β do?",
            seen="https://github.com/bkitano/llama-from-scratch/issues/7",
        ),
        Mistake(
            "dropout-in-training",
            _ModuleDropout,
            "In evaluation it is right, but while it trains two calls differ: there is an "
            "`nn.Dropout` inside. Llama's layer has none; leave it out.",
            LAYER,
        ),
        Mistake(
            "M06-output",
            _Dropout,
            "`F.dropout` on the output drops in evaluation too: it does not know of `eval()` "
            "unless told `training=self.training`. Llama's layer has no dropout; leave it out.",
            LAYER,
        ),
        Mistake(
            "sizes-swapped",
            _SizesSwapped,
            "The two sizes are exchanged. `nn.Linear(in, out)`: gate and up go "
            "from hidden_size to intermediate_size, and down goes back.",
            SLIPS,
        ),
        Mistake(
            "down-swapped",
            _DownSwapped,
            "`down_proj` goes from hidden_size to intermediate_size, as gate and up do. It must "
            "lead back: `nn.Linear(intermediate_size, hidden_size, bias=False)`.",
            SLIPS,
        ),
        Mistake(
            "gate-up-swapped",
            _GateUpSwapped,
            "`gate_proj` and `up_proj` go from intermediate_size to hidden_size. They read x: "
            "`nn.Linear(hidden_size, intermediate_size, bias=False)`.",
            SLIPS,
        ),
        Mistake(
            "four-times",
            _FourTimes,
            "`intermediate_size` is not used: the layer is 4 · hidden_size wide, as in a plain "
            "network. Take the argument.",
            LAYER,
        ),
        Mistake(
            "X21",
            _MetasNames,
            "The layers are called w1, w2 and w3, as in Meta's code. The exercise asks for Hugging "
            "Face's names, gate_proj (w1), down_proj (w2) and up_proj (w3).",
            NUMBERED,
            convention=True,
            seen="https://github.com/jjang-ai/mlxstudio/issues/132",
        ),
        Mistake(
            "fused",
            _Fused,
            "Gate and up are fused in one `gate_up_proj`, as Phi-3 has them. The exercise asks for "
            "`gate_proj` and `up_proj` apart; notebook 07 fuses them.",
            "07 One product or two?",
            convention=True,
        ),
        Mistake(
            "parameters",
            _Parameters,
            "The matrices themselves are called gate_proj, up_proj and down_proj, and a "
            "checkpoint's keys end in `.weight`. Make each an `nn.Linear(…, bias=False)`.",
            NUMBERED,
        ),
        Mistake(
            "frozen",
            _Frozen,
            "The weights need no gradient, so that they never learn. Leave `requires_grad` as "
            "`nn.Linear` sets it.",
            LEARN,
        ),
        *with_units(_with_unit),
        Mistake(
            "averaged",
            _Averaged,
            "The tokens are averaged into one. A feed-forward network reads each token by itself "
            "and returns as many as it got.",
            LAYER,
        ),
        Mistake(
            "last-token",
            _LastToken,
            "The last token alone is returned. The layer gives every token of a sequence its own "
            "output, of the shape of x.",
            LAYER,
        ),
        Mistake(
            "detached",
            _Detached,
            "The values are right, but no gradient reaches `gate_proj`: something like "
            "`.detach()`, `.data` or NumPy cuts it, and its weights would never learn.",
            LEARN,
        ),
        Mistake(
            "G12",
            _NoDown,
            "`forward` does not use `down_proj`: I numbers a token come out, where the block needs "
            "D to add them to x.",
            SLIPS,
            seen="https://github.com/Rishit-dagli/GLU/issues/2",
        ),
        Mistake(
            "G14",
            _AfterDown,
            "SiLU acts after `down_proj`, so that no output can be below −0.28. It belongs on the "
            "gate, before the product.",
            LAYER,
        ),
        Mistake(
            "residual",
            _Residual,
            "The input is added inside. The residual sum belongs to the block around this layer; "
            "return the output of `down_proj` alone.",
            LAYER,
        ),
        Mistake(
            "not-transposed",
            _NotTransposed,
            "The weights are used by hand and not transposed. `nn.Linear` stores (out, in), so it "
            "is `x @ w.T`; simpler is to call it, `self.gate_proj(x)`. When D = I this is silently "
            "wrong.",
            SLIPS,
        ),
        Mistake(
            "G17",
            _Sequential,
            "`up_proj` is applied to the activated gate, one after the other. Both projections "
            "read x, side by side. When D ≠ I PyTorch raises; when D = I it is silently wrong.",
            LAYER,
        ),
    ),
    (
        Property("three matrices by name", _module_parameters, NUMBERED),
        Property("zeros stay zeros", _module_zeros, LAYER),
        Property("steady in training", _steady_in_training, LAYER),
        *of_rules(_of_module),
        Property("every weight learns", _all_learn, LEARN),
    ),
    (
        "`__init__` makes three `nn.Linear`; `forward` does with them what your function did with "
        "three weights.",
        "What does `nn.Linear` hold besides its weight, unless it is told otherwise? The formula "
        "has nothing of the kind.",
        "`self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)` after "
        "`super().__init__()`. Up is like it, and down leads back.",
    ),
    10,
    LAYER,
    (
        "the list of parameters",
        "the output",
        "the output for a large x",
        "the learning weights",
        "whether two calls agree while it trains",
    ),
    _module,
    remark=lambda f: overflowing_gradient(_of_module(f)),
)


# --- swiglu_backward


def swiglu_backward(dy, gate, up):
    """The gradient of silu(gate) · up. dy: how the loss changes with that product.

    dy, gate, up: one shape, (B, T, I). Returns (dgate, dup), of that shape.
    """
    s = torch.sigmoid(gate)
    dgate = dy * up * s * (1 + gate * (1 - s))
    dup = dy * gate * s
    return dgate, dup


def _slope(gate):
    s = torch.sigmoid(gate)
    return s * (1 + gate * (1 - s))


def _back(slope=_slope, content=F.silu):
    """The way back with another slope for dgate, or another factor for dup."""
    return lambda dy, gate, up: (dy * up * slope(gate), dy * content(gate))


def _units(*shape, size=1.0):
    return tuple(size * (draw(*shape, seed=seed) - 0.4) for seed in (4, 5, 6))


def _probe():
    return tuple(t.double() for t in _units(2, 3, 4))


def _numbers_alone(f):
    dy, gate, up = _probe()
    moved = gate.clone()
    moved[1, 2, 3] += 1
    for name, a, b in zip(("dgate", "dup"), f(dy, gate, up), f(dy, moved, up), strict=True):
        others = (a - b).abs() > 1e-9
        others[1, 2, 3] = False
        if others.any():
            return (
                f"When one gate changes, {int(others.sum())} of the other 23 numbers of `{name}` "
                "change too. Each unit of each token stands alone: nothing is summed or averaged."
            )
    return None


def _along_dy(f):
    dy, gate, up = _probe()
    for name, once, twice in zip(
        ("dgate", "dup"), f(dy, gate, up), f(2 * dy, gate, up), strict=True
    ):
        if _equal(twice, once):
            return f"Twice `dy` leaves `{name}` as it is. The chain rule multiplies it by `dy`."
        if not _equal(twice, 2 * once):
            return (
                f"With twice `dy`, `{name}` should double, and its length grows by "
                f"{twice.norm() / once.norm():.3g}. `dy` is a factor, once."
            )
    return None


def _each_its_own(f):
    dy, gate, up = _probe()
    dgate, dup = f(dy, gate, up)
    dgate_, dup_ = f(dy, gate, 2 * up)
    if _equal(dgate_, dgate) and _equal(dup_, 2 * dup):
        return "Twice up doubles `dup` and leaves `dgate`: they are exchanged. Return (dgate, dup)."
    if _equal(dgate_, dgate):
        return (
            "Twice up leaves `dgate` as it is. Up multiplies silu(gate), so it is a factor of the "
            "gate's gradient: with up zero the gate has no effect."
        )
    if not _equal(dgate_, 2 * dgate):
        none, thrice = f(dy, gate, 0 * up)[0], f(dy, gate, 3 * up)[0]
        if _equal(thrice - dgate_, dgate_ - dgate) and not _equal(dgate_ - dgate, none * 0):
            return (
                f"With up zero the gate has no effect, so `dgate` should be 0, and it is up to "
                f"{none.abs().max():.3g}: is something added to it? Each part of it has the factor "
                "up."
            )
        return (
            f"With twice up, `dgate` should double, and its length grows by "
            f"{dgate_.norm() / dgate.norm():.3g}. The unit is silu(gate) · up: up is a factor of "
            "dgate, and nothing acts on it."
        )
    if not _equal(dup_, dup):
        return (
            "`dup` changes with up. The unit is silu(gate) · up, a straight line in up, and its "
            "slope is silu(gate), whatever up is."
        )
    return None


# What learners take for silu(gate) in dup, and for its slope in dgate.
CONTENTS = {
    "the gate itself": lambda g: g,
    "σ(gate)": torch.sigmoid,
    "the slope of SiLU": _slope,
    "1": torch.ones_like,
    "ReLU of the gate": F.relu,
    "GELU of the gate": F.gelu,
    "−silu(gate), with a sign turned": lambda g: -F.silu(g),
    "gate · silu(gate), a gate too many": lambda g: g * F.silu(g),
    "silu(gate)²": lambda g: F.silu(g).square(),
    "tanh of the gate": torch.tanh,
}
SLOPES = {
    "silu(gate), the function and not its slope": F.silu,
    "σ(gate) alone: half of the product rule": torch.sigmoid,
    "gate · σ(gate) · (1 − σ(gate)), the other half of the product rule": lambda g: (
        g * torch.sigmoid(g) * torch.sigmoid(-g)
    ),
    "the slope of σ": lambda g: torch.sigmoid(g) * torch.sigmoid(-g),
    "1": torch.ones_like,
    "the gate itself": lambda g: g,
    "ReLU's slope": lambda g: (g > 0).to(g.dtype),
    "1 + gate · (1 − σ(gate)), where σ(gate) is missing in front": lambda g: (
        1 + g * torch.sigmoid(-g)
    ),
    "the right slope times silu(gate), which belongs in `dup` alone": lambda g: (
        F.silu(g) * _slope(g)
    ),
    "the right slope times the gate, which is in it already": lambda g: g * _slope(g),
    "the right slope times σ(gate): one σ is too many": lambda g: torch.sigmoid(g) * _slope(g),
    "the right slope plus silu(gate): nothing is to be added": lambda g: F.silu(g) + _slope(g),
    "σ · (1 + gate) · (1 − σ), with a bracket out of place": lambda g: (
        torch.sigmoid(g) * (1 + g) * torch.sigmoid(-g)
    ),
    "σ + gate · (1 − σ), where a σ is missing in the second term": lambda g: (
        torch.sigmoid(g) + g * torch.sigmoid(-g)
    ),
    "σ · (1 + 1 − σ), where the factor gate is missing": lambda g: (
        torch.sigmoid(g) * (1 + torch.sigmoid(-g))
    ),
    "σ · (1 + gate · σ), where 1 − σ belongs in the brackets": lambda g: (
        torch.sigmoid(g) * (1 + F.silu(g))
    ),
    "GELU's slope": lambda g: (
        (1 + torch.erf(g / 2**0.5)) / 2 + g * torch.exp(-g * g / 2) / math.sqrt(2 * math.pi)
    ),
}


def _factor(f, part):
    """(gates, what multiplies): dup / dy, or dgate / (dy · up)."""
    gates = torch.tensor([-3.0, -1.0, 0.5, 2.0, 4.0], dtype=torch.float64)
    one = torch.ones_like(gates)
    return gates, f(3 * one, gates, 2 * one)[part] / (3 if part else 6)


def _right_content(f):
    gates, factor = _factor(f, 1)
    if _equal(factor, F.silu(gates)):
        return None
    said = f"`dup` should be dy · silu(gate), for gate 2 dy · {F.silu(gates)[3]:.3f}. "
    name = next((n for n, c in CONTENTS.items() if _equal(factor, c(gates))), None)
    return said + (f"Yours is dy times {name}." if name else f"Yours is dy · {factor[3]:.3f}.")


def _right_slope(f):
    gates, factor = _factor(f, 0)
    if _equal(factor, _slope(gates)):
        return None
    said = (
        f"`dgate` should be dy · up times the slope of SiLU, which is {_slope(gates)[3]:.3f} at "
        f"gate 2 and {_slope(gates)[1]:.3f} at gate −1. Yours has {factor[3]:.3f} and "
        f"{factor[1]:.3f}"
    )
    name = next((n for n, s in SLOPES.items() if _equal(factor, s(gates))), None)
    return f"{said}: that is {name}." if name else f"{said}. It is σ(g) · (1 + g · (1 − σ(g)))."


def _far_out(f):
    gates = torch.tensor([-100.0, 100.0])
    one = torch.ones_like(gates)
    dgate, dup = f(one, gates, one)
    if dgate.isfinite().all() and dup.isfinite().all():
        return None
    return (
        "For gates of −100 and 100 something is inf or NaN in float32. exp(100) is larger than any "
        "float32: take `torch.sigmoid`, which does not overflow."
    )


def _overflows(dy, gate, up):
    e = torch.exp(gate)
    return dy * up * (e / (1 + e) + gate * e / (1 + e) ** 2), dy * gate * e / (1 + e)


BACKWARD = Exercise(
    "swiglu_backward",
    ("dy", "gate", "up"),
    swiglu_backward,
    (
        Case(_units(2, 3, 5)),
        Case(_units(3, 3, 3), "all axes of one size"),
        Case((*_units(2, 2, 3)[:2], torch.zeros(2, 2, 3)), "up of zeros"),
        Case(_units(1, 2, 4, size=50.0), "gates of ±100"),
        Case(_probe(), "float64"),
    ),
    (
        Mistake(
            "B02",
            _back(content=lambda g: g),
            "`dup` is dy · gate. What multiplies up in the forward pass is silu(gate), so it is "
            "`dup` = dy · silu(gate).",
            LEARN,
        ),
        Mistake(
            "dup-sigmoid",
            _back(content=torch.sigmoid),
            "`dup` is dy · σ(gate), as for GLU. What multiplies up is silu(gate) = gate · σ(gate).",
            SILU_HAND,
        ),
        Mistake(
            "dup-slope",
            _back(content=_slope),
            "`dup` has the *slope* of SiLU. The unit is silu(gate) · up, so its slope along up is "
            "silu(gate) itself.",
            LEARN,
        ),
        Mistake(
            "dup-is-dy",
            _back(content=torch.ones_like),
            "`dup` is dy alone, as for a sum. In a product each factor's gradient has the other "
            "factor in it: dy · silu(gate).",
            LEARN,
        ),
        Mistake(
            "B04",
            lambda dy, g, u: (dy * _slope(g), dy * F.silu(g)),
            "`dgate` lacks the factor up. With up at zero the gate has no effect, so its gradient "
            "is zero there: dy · up · silu′(gate).",
            LEARN,
        ),
        Mistake(
            "sum",
            lambda dy, g, u: (dy * _slope(g), dy.clone()),
            "This is the gradient of silu(gate) + up. The unit is a product: each factor's "
            "gradient has the other factor in it.",
            LEARN,
        ),
        Mistake(
            "S30",
            _back(torch.sigmoid),
            "Half of the product rule: `dgate` has σ(gate) where the slope of SiLU belongs. "
            "gate · σ(gate) is a product too, and σ changes with the gate.",
            SLOPE,
        ),
        Mistake(
            "other-half",
            _back(lambda g: g * torch.sigmoid(g) * torch.sigmoid(-g)),
            "Half of the product rule: `dgate` has gate · σ(gate) · (1 − σ(gate)), and lacks "
            "the term σ(gate).",
            SLOPE,
        ),
        Mistake(
            "S32",
            _back(lambda g: torch.sigmoid(g) * torch.sigmoid(-g)),
            "`dgate` has the slope of σ, a quarter at zero. SiLU is gate · σ(gate), and its slope "
            "there is a half.",
            SLOPE,
        ),
        Mistake(
            "no-slope",
            _back(F.silu),
            "`dgate` has silu(gate) where its *slope* belongs: dy · up · silu′(gate).",
            SLOPE,
        ),
        Mistake(
            "bilinear",
            _back(torch.ones_like),
            "`dgate` is dy · up, as if nothing acted on the gate. The chain rule wants the slope "
            "of SiLU as a factor.",
            SLOPE,
        ),
        Mistake(
            "relu-slope",
            _back(lambda g: (g > 0).to(g.dtype)),
            "`dgate` has ReLU's slope, 0 or 1. SiLU's is smooth: σ(g) · (1 + g · (1 − σ(g))).",
            SLOPE,
        ),
        Mistake(
            "sign",
            _back(lambda g: torch.sigmoid(g) * (1 - g * torch.sigmoid(-g))),
            "A sign is turned in the slope of SiLU: the product rule adds its two terms, "
            "σ + gate · σ · (1 − σ).",
            SLOPE,
        ),
        Mistake(
            "one-plus-sigma",
            _back(lambda g: torch.sigmoid(g) * (1 + g * (1 + torch.sigmoid(g)))),
            "The slope of σ is σ · (1 − σ), with a minus. Here it is σ · (1 + σ).",
            SLOPE,
        ),
        Mistake(
            "no-sigma",
            _back(lambda g: 1 + g * torch.sigmoid(-g)),
            "In front of the bracket σ(gate) is missing: the slope of SiLU is "
            "σ · (1 + gate · (1 − σ)).",
            SLOPE,
        ),
        Mistake(
            "sigma-twice",
            _back(lambda g: torch.sigmoid(g) + g * torch.sigmoid(g)),
            "The slope of σ is σ · (1 − σ), and the factor 1 − σ is missing: σ + gate · σ · "
            "(1 − σ).",
            SLOPE,
        ),
        Mistake(
            "no-dy",
            lambda dy, g, u: (u * _slope(g), F.silu(g)),
            "`dy` is not used. The chain rule multiplies both gradients by it.",
            SLOPE,
        ),
        Mistake(
            "up-without-dy",
            lambda dy, g, u: (dy * u * _slope(g), F.silu(g)),
            "`dup` lacks the factor dy. The chain rule multiplies both gradients by it.",
            SLOPE,
        ),
        Mistake(
            "gate-without-dy",
            lambda dy, g, u: (u * _slope(g), dy * F.silu(g)),
            "`dgate` lacks the factor dy. The chain rule multiplies both gradients by it.",
            SLOPE,
        ),
        Mistake(
            "summed",
            lambda dy, g, u: tuple(t.sum(0) for t in swiglu_backward(dy, g, u)),
            "The gradients are summed over the batch, as those of weights are. Gate and up are "
            "activations: each number has its own gradient, in their shape.",
            LEARN,
        ),
        Mistake(
            "averaged",
            lambda dy, g, u: tuple(
                t.mean(0, keepdim=True).expand_as(g) for t in swiglu_backward(dy, g, u)
            ),
            "The gradients are averaged over the batch. Each number of gate and of up has a "
            "gradient of its own.",
            LEARN,
        ),
        Mistake(
            "exchanged",
            lambda dy, g, u: (dy * F.silu(g), dy * u * _slope(g)),
            "The two gradients are returned in the other order. Return (dgate, dup).",
            LEARN,
        ),
        Mistake(
            "G01",
            lambda dy, g, u: (dy * F.silu(u), dy * g * _slope(u)),
            "This is the way back through gate · silu(up): the roles are exchanged. SiLU is on the "
            "gate.",
            NUMBERED,
        ),
        Mistake(
            "G02",
            lambda dy, g, u: (dy * u * _slope(g * u), dy * g * _slope(g * u)),
            "This is the way back through silu(gate · up). SiLU is on the gate alone, and up "
            "multiplies what comes out.",
            NOTICE,
        ),
        Mistake(
            "slope-of-up",
            lambda dy, g, u: (dy * u * _slope(u), dy * F.silu(g)),
            "The slope of SiLU is taken at up. It is the gate that goes through SiLU: "
            "dy · up · silu′(gate).",
            SLOPE,
        ),
        Mistake(
            "overwritten",
            lambda dy, g, u: (dy * u * _slope(F.silu(g)), dy * F.silu(g)),
            "The slope is taken at silu(gate), not at the gate. Was the gate overwritten before "
            "its slope was computed?",
            IN_PLACE,
        ),
        Mistake(
            "overflows",
            _overflows,
            "For gates above 84 the products with exp(gate) leave float32, and what comes out is "
            "inf or NaN. exp(gate)/(1 + exp(gate)) is `torch.sigmoid(gate)`, which does not.",
            WRITTEN,
        ),
    ),
    (
        Property("each number alone", _numbers_alone, LEARN),
        Property("dy is a factor of both", _along_dy, SLOPE),
        Property("up is a factor of dgate alone", _each_its_own, LEARN),
        Property("dup has silu(gate)", _right_content, LEARN),
        Property("dgate has the slope of SiLU", _right_slope, SLOPE),
        Property("no overflow on the way back", _far_out, WRITTEN),
    ),
    (
        "A product has two factors. What is its slope along one of them, while the other stands "
        "still?",
        "`dup` is `dy` times what multiplies up. `dgate` has three factors: `dy`, up, and the "
        "slope of SiLU at the gate.",
        "The slope of SiLU is σ(g) · (1 + g · (1 − σ(g))), from notebook 04.",
    ),
    5,
    LEARN,
    ("dgate", "dup"),
)

EXERCISES = (FFN, MODULE, BACKWARD)
