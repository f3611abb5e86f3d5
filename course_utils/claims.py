"""claim, predict, recap: statements that are executed where they are made.

A claim wants a truth value. `near`, `above`, `below` and `same` are truth values with words:
what was measured and how closely it was checked. The words name the bound, never the rounding
error, so that they are the same on every machine.
"""

import math

import torch

from .notes import markdown, note
from .predictions import REASONS

_made = {}  # sentence -> words, in the order of the notebook


class Evidence:
    """A truth value with words. `&` joins two: both must hold, and both are told."""

    def __init__(self, holds, words):
        self.holds, self.words = bool(holds), words

    def __bool__(self):
        return self.holds

    def __and__(self, other):
        if not isinstance(other, Evidence):
            return NotImplemented
        told = self.words if other.words == self.words else f"{self.words}; {other.words}"
        return Evidence(self.holds and other.holds, told)

    def __repr__(self):
        return f"{self.holds} ({self.words})"


def near(measured, expected, within=1e-5):
    """Evidence that every element of measured agrees with expected.

    measured: a number or tensor. expected: a number, or numbers of measured's shape.
    within: the largest gap allowed, relative to the largest |expected|; absolute if that is zero.
    NaN agrees with nothing. Raises ValueError for shapes that differ or hold nothing.
    """
    if not within >= 0:
        raise ValueError(f"within must be zero or more, got {within}")
    a, b = _numbers(measured, "measured"), _numbers(expected, "expected")
    if b.ndim > 0 and a.shape != b.shape:
        raise ValueError(f"measured has shape {tuple(a.shape)}, expected {tuple(b.shape)}")
    scale = b.abs().max().item() or 1.0
    gap = (a - b).abs().max().item() / scale
    if not gap <= within:  # so that NaN fails
        got = f"{a.item():.6g} where {b.item():.6g} was expected, " if a.numel() == 1 else ""
        return Evidence(False, f"{got}off by {gap:.2g}, allowed {_short(within)}")
    count = f", {a.numel()} numbers" if a.numel() > 1 else ""
    if b.ndim > 0:
        return Evidence(True, f"to {_short(within)}{count}")
    value = a.flatten()[0].item() if b.item() else 0  # beside zero there is only rounding error
    return Evidence(True, f"{_short(value)}, to {_short(within)}{count}")


def above(measured, bound):
    """Evidence that every element of measured is greater than the number bound."""
    a = _numbers(measured, "measured")
    if (a > bound).all():
        return Evidence(True, f"{_count(a, 2)} > {_short(bound)}")
    return Evidence(False, f"{a.min().item():.3g} is not > {_short(bound)}")


def below(measured, bound):
    """Evidence that every element of measured is less than the number bound.

    Its words name the bound alone: what is small is often a rounding error, other elsewhere.
    """
    a = _numbers(measured, "measured")
    if (a < bound).all():
        return Evidence(True, f"{'' if a.numel() == 1 else _count(a) + ' '}< {_short(bound)}")
    return Evidence(False, f"{a.max().item():.3g} is not < {_short(bound)}")


def same(measured, expected):
    """Evidence that two things are equal: tensors bit for bit (shape and dtype too), or by `==`."""
    tensors = [isinstance(value, torch.Tensor) for value in (measured, expected)]
    if any(tensors) and not all(tensors):
        raise TypeError("same compares two tensors or two plain values, not one of each")
    if all(tensors):
        equal = measured.dtype == expected.dtype and torch.equal(measured, expected)
        return Evidence(equal, "bit for bit" if equal else "not equal bit for bit")
    if isinstance(measured, torch.Size):
        measured = tuple(measured)
    equal = bool(measured == expected)
    return Evidence(equal, f"{measured}" if equal else f"{measured}, expected {expected}")


def claim(sentence, holds):
    """Show a sentence with its evidence; raise AssertionError when it is false.

    sentence: what holds, no more than was checked. holds: Evidence, or one true/false value.
    A number is refused: it would nearly always count as true.
    """
    if not isinstance(sentence, str) or not sentence.strip():
        raise TypeError("a claim needs a sentence")
    if str(getattr(holds, "dtype", "")).endswith("bool") and math.prod(holds.shape) == 1:
        holds = holds.item()  # torch's and numpy's own booleans
    if not isinstance(holds, bool | Evidence):
        raise TypeError(
            "a claim needs one true/false value: near(...), above(...), below(...), same(...) "
            f"or a bool, got {type(holds).__name__}"
        )
    words = holds.words if isinstance(holds, Evidence) else "checked"
    _made.pop(sentence, None)  # a claim that has become false must not stay in the recap
    if not holds:
        raise AssertionError(f"{sentence} ({words})")
    _made[sentence] = words
    note("✔", sentence, words)


def recap():
    """List this notebook's claims with what was measured."""
    rows = [f"| {s.replace('|', chr(92) + '|')} | {w} |" for s, w in _made.items()]
    markdown(
        "\n".join(["| What holds | Measured here |", "|:--|:--|", *rows]),
        "\n".join(f"✔ {s}  [{w}]" for s, w in _made.items()),
    )


def predict(guess, truth, name, tolerance=0.02):
    """Compare a guess with the truth; answer an expected wrong guess by its reason.

    guess: None (not answered yet), a number, or one of the words on offer.
    truth: a number, or a word. name: the entry of `predictions.REASONS` with the wrong guesses.
    tolerance: relative, for numbers. Shows a note; never raises for a guess.
    """
    if name not in REASONS:
        raise ValueError(f"no prediction is called {name!r}; there are: {', '.join(REASONS)}")
    if guess is None or guess is ...:
        return note("○", "Your guess first", "put it in place of None and run the cell again")
    agree = _words_agree if isinstance(truth, str) else _numbers_agree
    if not isinstance(truth, str):
        truth = float(truth)
    if agree(guess, truth, tolerance):
        return note("✔", f"Yes: {truth if isinstance(truth, str) else _short(truth)}")
    for wrong, reason in REASONS[name].items():
        if agree(guess, wrong, tolerance):
            return note("✘", f"Not {guess}", reason)
    if isinstance(truth, str):
        offer = ", ".join(f'"{w}"' for w in sorted([truth, *REASONS[name]]))
        return note("○", "Choose one of these", offer)
    if _as_number(guess) is None:
        return note("○", "A number, please", "for instance 2 or 0.5")
    return note("✘", f"Not {guess}", "run the next cell to see")


def _words_agree(guess, word, tolerance):
    return str(guess).strip().lower() == word


def _numbers_agree(guess, number, tolerance):
    value = _as_number(guess)
    return value is not None and math.isclose(value, number, rel_tol=tolerance, abs_tol=1e-9)


def _as_number(guess):
    try:
        value = float(guess)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor of several elements
        return None
    return None if math.isnan(value) else value


def _numbers(values, name):
    a = torch.as_tensor(values)
    if a.is_complex() or a.dtype == torch.bool:
        raise TypeError(f"{name} must be real numbers, got {a.dtype}")
    if a.numel() == 0:
        raise ValueError(f"{name} holds no number: such a check could not fail")
    return a.detach().double()


def _count(a, digits=4):
    return _short(a.item(), digits) if a.numel() == 1 else f"{a.numel()} numbers"


def _short(number, digits=4):
    """A few digits; 1e-5 and not 1e-05."""
    mantissa, e, exponent = f"{number:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa
