"""claim, predict, recap: statements that are executed where they are made.

A claim wants a truth value. `near`, `above`, `below` and `same` are truth values with words:
what was measured and how closely it was checked. The words name the bound, never the rounding
error, so that they are the same on every machine.
"""

import math
import re
import warnings

import numpy as np
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
    if not 0 <= _number(within, "within") < 1:
        raise ValueError(f"within must be zero or more and less than 1, got {within}")
    a, b = _numbers(measured, "measured"), _numbers(expected, "expected")
    if b.ndim > 0 and a.shape != b.shape:
        raise ValueError(f"measured has shape {tuple(a.shape)}, expected {tuple(b.shape)}")
    scale = b.abs().max().item() or 1.0
    gap = (a - b).abs().max().item() / scale
    if not gap <= within:  # so that NaN fails
        got = f"{a.item():.6g} where {b.item():.6g} was expected, " if a.numel() == 1 else ""
        return Evidence(False, f"{got}off by {gap:.2g}, allowed {_short(within)}")
    if b.ndim > 0:
        return Evidence(True, f"{a.numel()} numbers, to {_short(within)}")
    value = a.flatten()[0].item() if b.item() else 0  # beside zero there is only rounding error
    times = f"{a.numel()} times " if a.numel() > 1 else ""
    return Evidence(True, f"{times}{_short(value)}, to {_short(within)}")


def above(measured, bound):
    """Evidence that every element of measured is greater than the number bound."""
    a, bound = _numbers(measured, "measured"), _number(bound, "bound")
    if (a > bound).all():
        return Evidence(True, f"{_count(a, 2)} > {_short(bound)}")
    return Evidence(False, f"{a.min().item():.3g} is not > {_short(bound)}")


def below(measured, bound):
    """Evidence that every element of measured is less than the number bound.

    Its words name the bound alone: what is small is often a rounding error, other elsewhere.
    """
    a, bound = _numbers(measured, "measured"), _number(bound, "bound")
    if (a < bound).all():
        return Evidence(True, f"{'' if a.numel() == 1 else _count(a) + ' '}< {_short(bound)}")
    return Evidence(False, f"{a.max().item():.3g} is not < {_short(bound)}")


def same(measured, expected):
    """Evidence that two tensors (in shape, dtype and each number) or two plain values are equal."""
    tensors = [isinstance(value, torch.Tensor) for value in (measured, expected)]
    arrays = [isinstance(value, np.ndarray) for value in (measured, expected)]
    if any(arrays) or (any(tensors) and not all(tensors)):
        raise TypeError("same compares two tensors or two plain values")
    if all(tensors):
        if measured.numel() == 0:
            raise ValueError("measured holds no number: such a check could not fail")
        equal = measured.dtype == expected.dtype and torch.equal(measured, expected)
        count = f"{measured.numel()} equal numbers" if measured.numel() > 1 else "equal"
        return Evidence(equal, count if equal else "not equal")
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
    if not holds:
        _made.pop(sentence, None)  # what has become false must not stay in the recap
        raise AssertionError(f"{sentence} ({words})")
    _made[sentence] = words  # run again, it keeps its place
    note("✔", sentence, words)


def recap():
    """List this notebook's claims with what was measured."""
    cells = [[text.replace("|", "\\|") for text in pair] for pair in _made.items()]
    rows = [f"| {sentence} | {words} |" for sentence, words in cells]
    markdown(
        "\n".join(["| What holds | Measured here |", "|:--|:--|", *rows]),
        "\n".join(f"✔ {s}  [{w}]" for s, w in _made.items()),
    )


def predict(guess, truth, name, tolerance=0.02):
    """Compare a guess with the truth; answer an expected wrong guess by its reason.

    guess: None (not answered yet), a number, or one of the words on offer (a shape counts as one).
    truth: a number, or a word. name: the entry of `predictions.REASONS` with the wrong guesses.
    tolerance: relative, for numbers. Shows a note; never raises for a guess.
    """
    if name not in REASONS:
        raise ValueError(f"no prediction is called {name!r}; there are: {', '.join(REASONS)}")
    truth = truth if isinstance(truth, str) else float(truth)
    if guess is None or guess is ...:
        return note("○", "Your guess first", "put it in place of None and run the cell again")
    if isinstance(truth, str):
        return _answer_word(_as_word(guess), truth, REASONS[name])
    return _answer_number(_as_number(guess), truth, REASONS[name], tolerance)


def _answer_word(guess, truth, reasons):
    if guess.lower() == truth.lower():
        return note("✔", f"Yes: {truth}")
    for wrong, reason in reasons.items():
        if guess.lower() == wrong.lower():
            return note("✘", f"Not {wrong}", reason)
    offer = [word if word.startswith("(") else f'"{word}"' for word in sorted([truth, *reasons])]
    return note("○", "Choose one of these", ", ".join(offer))


def _answer_number(guess, truth, reasons, tolerance):
    if guess is None:
        return note("○", "A number, please", "for instance 2 or 0.5, without quotes")
    if _close(guess, truth, tolerance):
        return note("✔", f"Yes: {_short(truth, 4 if tolerance else 12)}")
    near_by = [number for number in reasons if _close(guess, number, tolerance)]
    if near_by:
        closest = min(near_by, key=lambda number: abs(number - guess))  # 63.7 is not 64
        return note("✘", f"Not {guess:.10g}", reasons[closest])
    way = "large" if guess > truth else "small"
    return note("✘", f"Not {guess:.10g}", f"too {way}; run the next cell to see")


def _close(a, b, tolerance):
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-9)


# Whatever a learner may type is answered and never raises, hence the broad excepts.


def _as_word(guess):
    try:
        return str(guess).strip()
    except Exception:
        return ""


def _as_number(guess):
    if isinstance(guess, bool):
        return None
    try:
        if isinstance(guess, str) and re.fullmatch(r"\d{1,3}(,\d{3})+", guess):
            guess = guess.replace(",", "")  # as the notebooks print large numbers
        with warnings.catch_warnings(action="error"):  # such as numpy's for a complex number
            value = float(guess.detach() if isinstance(guess, torch.Tensor) else guess)
    except Exception:
        return None
    return None if math.isnan(value) else value


def _numbers(values, name):
    """Real numbers as a float64 tensor, whatever torch's default dtype and device are."""
    if not isinstance(values, torch.Tensor):
        values = torch.from_numpy(np.array(values))  # Python's numbers are float64 here
    if values.is_complex() or values.dtype == torch.bool:
        raise TypeError(f"{name} must be real numbers, got {values.dtype}")
    if values.numel() == 0:
        raise ValueError(f"{name} holds no number: such a check could not fail")
    return values.detach().to("cpu", torch.float64)


def _number(value, name):
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise TypeError(f"{name} must be one number, got {value!r}")
    return value


def _count(a, digits=4):
    return _short(a.item(), digits) if a.numel() == 1 else f"{a.numel()} numbers"


def _short(number, digits=4):
    """A few digits; 1e-5 and not 1e-05."""
    mantissa, e, exponent = f"{number:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa
