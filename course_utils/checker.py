"""Judge a learner's answer: right, or *which* mistake it is. Knows nothing of norms.

An Exercise holds a reference, inputs on which mistakes show, and real mistakes as code. `diagnose`
watches what an answer does (values, shape, dtype, gradient, inputs written into, error) and asks
whose behaviour that is. What behaves like no known mistake is asked what a right answer would obey,
and whether it is two mistakes at once.
"""

import contextlib
import copy
import dis
import functools
import inspect
import math
import re
import sysconfig
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from .guard import TooLong, Watch, output, undisturbed

SECONDS = 5  # that an answer may take, all its calls together
PRINTED = 2000  # characters that it may print on the first input; nothing on the others
SIGNS = {"right": "✔", "not attempted": "○", "other convention": "◇", "wrong": "✘", "crashed": "✘"}
# How far two right answers may be apart, relative to the largest number: a few roundings.
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 2.5e-2, torch.float32: 1e-4, torch.float64: 1e-4}

# What PyTorch's own words mean here.
_OVERWRITTEN = "What the gradient needs was overwritten: leave out `_`, `+=` and `inplace=True`."
_SET_UP = "Call `super().__init__()` first."
ADVICE = {
    "must match the size of tensor": "Shapes are lined up from the right.",
    "shapes cannot be multiplied": "Weights are stored (out, in): is it `x @ w.T`? If so, x has "
    "the wrong number of features.",
    "to have the same dtype": "Two dtypes meet: cast the result back to that of x.",
    "modified by an inplace operation": _OVERWRITTEN,
    "being modified inplace": _OVERWRITTEN,
    "call numpy() on Tensor": "NumPy knows no gradients: stay with torch.",
    "can be converted to Python scalars": "`math` takes one number: use torch's own function.",
    "must be tuple of Tensors": "It takes its tensors in one list: `torch.cat([a, b])`.",
    "einsum()": "One letter is one size: weights are (out, in).",
    "is not defined": "Is it spelt otherwise elsewhere, or is an import or `self.` missing?",
    "before Module.__init__() call": _SET_UP,
    "_backward_hooks": _SET_UP,
    "Boolean value of Tensor": "`if` cannot ask a whole tensor: `torch.where` asks each number.",
    "unsupported operand type(s)": "One of them is no tensor: is a function or module not called?",
    "must be Tensor, not": "Is a function or module not called, or its `.weight` meant?",
}


class Case(NamedTuple):
    """One input. args: what the answer is called with; it gets a fresh copy of each tensor.

    note: what is special about it, in words that complete "for …". grad: whether the gradient of
    what is returned, with respect to all floating tensors of args, is judged too.
    """

    args: tuple
    note: str = ""
    grad: bool = False


@dataclass(frozen=True, eq=False)
class Property:
    """What every right answer obeys. broken: a function of the answer; returns None, or how it is
    broken, in whole sentences with the numbers. read: "NN heading", where it is explained.
    """

    name: str
    broken: Callable
    read: str

    def of(self, change):
        """The same, asked of what a function makes of an answer."""
        return replace(self, broken=lambda f: self.broken(change(f)))


def call(answer, *args):
    """The plain way to put an answer to work: call it."""
    return answer(*args)


@dataclass(frozen=True, eq=False, kw_only=True)
class Exercise:
    """What a learner writes, and how it is judged.

    name: as in check(name, …). arguments: names of its positional arguments. reference: a right
    answer. solution: its code, as printed. cases: the simplest first. minutes: to write it.
    mistakes: known wrong answers, each with `id`, `wrong` (itself), `message`, `read` and
    `convention`; `catalogue.Slip` says more. pairs: a function that returns (mistake, mistake, both
    at once), one after the other. hints: from a nudge to nearly the answer. read: "NN heading",
    where it is explained. parts: what it returns, when that is more than one thing. call: how an
    answer is put to work, (answer, *args) -> the parts, where calling it is not enough, as for a
    class. remark: a function of a right answer that returns what is worth adding, or None.
    """

    name: str
    arguments: tuple
    reference: Callable
    cases: tuple
    mistakes: tuple
    properties: tuple
    hints: tuple
    minutes: int
    read: str
    parts: tuple = ("the result",)
    call: Callable = call
    remark: Callable | None = None
    pairs: Callable = tuple
    solution: str = ""


@dataclass(frozen=True)
class Verdict:
    """What `check` says. True only when the answer is right.

    status: "right", "wrong", "crashed", "not attempted" or "other convention". message: sentences
    in Markdown. mistake: the id in the catalogue, or None.
    """

    status: str
    message: str
    mistake: str | None = None

    def __bool__(self):
        return self.status == "right"

    def __repr__(self):
        return f"{SIGNS[self.status]} {self.status.capitalize()}. {self.message}"

    def _repr_markdown_(self):
        return f"{SIGNS[self.status]} **{self.status.capitalize()}.** {self.message}"


_ONE_AT_A_TIME = threading.RLock()  # seeds and standard output are there once in a process


def diagnose(exercise, answer):
    """Judge an answer to an Exercise. Returns a Verdict; never raises for what the answer does.

    The answer's calls share SECONDS of time and may not disturb anything: seeds, torch's default
    dtype and gradient mode and the like are as they were afterwards. What it prints on the first
    input is shown, so that a print can be used to look inside; the rest is left out.
    """
    with _ONE_AT_A_TIME, undisturbed():  # what this restores must not be interrupted
        watch = Watch(SECONDS)
        try:
            try:
                watch.start()
                # What is under torch.compile: to compile it takes too long.
                verdict, got = _judge(
                    exercise, getattr(answer, "_torchdynamo_orig_callable", answer)
                )
            finally:
                watch.stop()
            two = _two_slips(exercise, verdict, got)
            return verdict if two is None else two  # a Verdict is true only when it says "right"
        except TooLong as error:
            watch.stop()
            return Verdict(
                "crashed",
                f"It was stopped after {SECONDS} seconds{_line(error)}. A right answer takes a few "
                "thousandths of a second: does a loop end?",
            )
        except Exception as error:  # objects can be stranger than all that is foreseen here
            words = code(f"{type(error).__name__}: {_words(error)}")
            return Verdict("crashed", f"What it does cannot be judged. Python says {words}.")


def _judge(exercise, answer):
    """A Verdict, and what the answer did, input by input."""
    if answer is None or answer is ...:
        return _not_attempted(), []
    if (misfit := _misfit(exercise, answer)) is not None:
        return misfit, []
    want = _outcomes(exercise, exercise.reference)
    got = []
    for i, case in enumerate(exercise.cases):
        with undisturbed():
            got.append(_watch(exercise, answer, case, 0 if i else PRINTED))
    if _is_unwritten(answer, got[0].error):
        return _not_attempted(), got
    if all(map(_equal, got, want)):
        return _right(exercise, answer), got
    for find in (
        _known_mistake,
        _changed_input,
        _crash,
        _wrong_kind,
        _not_finite,
        _broken_property,
    ):
        verdict = find(exercise, answer, got, want)
        if verdict is not None:
            return verdict, got
    return _difference(exercise, got, want), got


# --- What an answer does


@dataclass(frozen=True, eq=False)
class Trouble:
    """An error in words; the error itself would keep the caller's variables alive."""

    kind: str  # its type
    words: str
    line: str  # ", in your line …" or nothing
    bare: bool  # whether the answer itself raised it, without words

    def gist(self):
        """What two errors of one mistake share: numbers and names of what is theirs may differ."""
        return self.kind, re.sub(r"\d+|'\w+' object|\S+\(\)", "", self.words)


class Outcome(NamedTuple):
    """What one call did: what it returned, part by part; inputs it wrote into; its error."""

    parts: tuple = ()
    changed: tuple = ()
    error: Trouble | None = None


def _watch(exercise, answer, case, printed=0):
    """Call an answer on fresh copies. Every error is an outcome, but for the learner's own stop."""
    args, leaves = _copies(case)
    torch.default_generator.manual_seed(0)
    try:
        with torch.enable_grad(), output(printed):
            returned = exercise.call(answer, *args)
            several = len(exercise.parts) > 1 and isinstance(returned, tuple | list)
            parts = tuple(returned) if several else (returned,)
            if case.grad and len(parts) == len(exercise.parts):
                parts += _gradients(parts, leaves)
            parts = tuple(p.detach().clone() if torch.is_tensor(p) else p for p in parts)
    except (TooLong, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: an answer may call exit()
        return Outcome((), _changed(exercise, case, args), _trouble(answer, error))
    return Outcome(parts, _changed(exercise, case, args))


def _trouble(answer, error):
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    words = _words(error)
    bare = not words and bool(frames) and frames[-1] in _codes(answer)
    return Trouble(type(error).__name__, words, _line(error), bare)


def _words(error):
    """What an error says, as far as it can say it."""
    try:
        return str(error)[:1000]
    except Exception:
        return ""


def _copies(case):
    """Fresh arguments, and the leaves that gradients are taken of.

    The answer does not get the leaves themselves: writing into a leaf raises, and would hide what
    the writing does.
    """
    leaves = {
        at: arg.clone().requires_grad_()
        for at, arg in enumerate(case.args)
        if case.grad and isinstance(arg, torch.Tensor) and arg.is_floating_point()
    }
    args = [_copy(leaves.get(at, arg)) for at, arg in enumerate(case.args)]
    return args, list(leaves.values())


def _copy(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    if is_dataclass(value):
        return copy.copy(value)
    return type(value)(map(_copy, value)) if type(value) in (list, tuple) else value


def _gradients(parts, leaves):
    """The gradients of a fixed mixture of all parts, one for each leaf; words if there is none."""
    floats = [p for p in parts if torch.is_tensor(p) and p.requires_grad and _is_plain(p)]
    if not floats:
        return ("none",) * len(leaves)
    loss = sum((p.double() * _direction(p)).sum() for p in floats)
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    return tuple(
        torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)
    )


def _is_plain(tensor):
    """On the CPU, with its numbers in memory: what can be compared."""
    return tensor.device.type == "cpu" and tensor.layout is torch.strided


def _direction(p):
    return torch.arange(p.numel(), dtype=torch.float64, device="cpu").cos().view(p.shape)


def _changed(exercise, case, args):
    pairs = zip(exercise.arguments, case.args, args, strict=False)
    return tuple(name for name, before, after in pairs if _differs(before, after))


def _differs(before, after):
    if not isinstance(before, torch.Tensor):
        return False
    if before.shape != after.shape or before.dtype != after.dtype:
        return True
    return not torch.equal(before.nan_to_num(), after.nan_to_num())


@functools.cache
def _outcomes(exercise, function):
    """What the reference does, case by case. It does not depend on the answer, and is kept."""
    return [_watch(exercise, function, case) for case in exercise.cases]


@functools.cache
def _outcome(exercise, function, index):
    """What a mistake does on one case. Kept too."""
    return _watch(exercise, function, exercise.cases[index])


def _equal(a, b):
    troubles = [outcome.error and outcome.error.gist() for outcome in (a, b)]
    if troubles[0] != troubles[1] or a.changed != b.changed:
        return False
    return len(a.parts) == len(b.parts) and all(map(same, a.parts, b.parts))


def same(a, b):
    """Whether two parts of outcomes agree, up to rounding. b: the one that is expected."""
    try:
        if isinstance(b, torch.Tensor):
            return _same_tensors(a, b)
        a = _plain(a)
        if isinstance(b, float) and type(a) in (int, float):
            return math.isclose(a, b, rel_tol=1e-6) or (math.isnan(a) and math.isnan(b))
        return type(a) is type(b) and bool(a == b)
    except Exception:  # an answer may return anything, with an == of its own
        return False


def _plain(value):
    """The Python number in a tensor or array of one number; else the value itself."""
    one = isinstance(value, torch.Tensor | np.generic | np.ndarray) and math.prod(value.shape) == 1
    return value.item() if one else value


def _same_tensors(a, b):
    if not isinstance(a, torch.Tensor) or _tensor_problem(a, b):
        return False
    if not b.is_floating_point():
        return torch.equal(a, b)
    tolerance = TOLERANCE[b.dtype]
    a, b = a.double(), b.double()
    largest = b[b.isfinite()].abs().max() if b.isfinite().any() else torch.zeros(())
    gap = {"rtol": tolerance, "atol": tolerance * largest.item()}
    return torch.allclose(a, b, equal_nan=True, **gap)


# --- What is said about it


def _not_attempted():
    return Verdict(
        "not attempted",
        "Write your lines in place of `raise NotImplementedError` and run the cell again.",
    )


def _misfit(exercise, answer):
    """A verdict on what cannot even be called as the exercise asks."""
    is_class = inspect.isclass(exercise.reference)
    wanted = "class" if is_class else "function"
    if not callable(answer) or is_class != inspect.isclass(answer):
        return Verdict(
            "wrong",
            f"`check` wants the {wanted} itself, without brackets behind its name. "
            f"It got {_kind(answer)}.",
        )
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # some built-in functions have none to look at
        return None
    try:
        signature.bind(*exercise.arguments)
    except TypeError:
        names = ", ".join(exercise.arguments)
        return Verdict("wrong", f"It must take `({names})`, and yours takes {code(signature)}.")
    return None


def _is_unwritten(answer, error):
    """Whether there is nothing to judge yet: a bare `raise NotImplementedError` (PyTorch's own have
    words), or a body of `pass`, `...` or a docstring alone.
    """
    if error and error.kind == "NotImplementedError":
        return error.bare
    if inspect.isclass(answer):
        made = {"__module__", "__doc__", "__firstlineno__", "__static_attributes__"}
        made |= {"__dict__", "__weakref__"}  # what Python puts into a class by itself
        return set(vars(answer)) <= made and answer.__bases__ in ((torch.nn.Module,), (object,))
    if not inspect.isfunction(answer):
        return False
    idle = {"RESUME", "NOP", "POP_TOP", "RETURN_VALUE"}
    constants = {"LOAD_CONST", "RETURN_CONST", "LOAD_COMMON_CONSTANT"}
    return all(
        step.opname in idle or (step.opname in constants and step.argval in (None, ...))
        for step in dis.get_instructions(answer.__code__)
    )


def _right(exercise, answer):
    said = f"It does what it should on all {len(exercise.cases)} inputs."
    with contextlib.suppress(Exception):
        remark = exercise.remark and exercise.remark(_asked(exercise, answer))
        said += f" {remark}" if remark else ""
    return Verdict("right", said)


def _known_mistake(exercise, _, got, want):
    """The mistake that does the same on every input: in all that is returned, or in one part."""
    for mistake in exercise.mistakes:
        theirs = (_outcome(exercise, mistake.wrong, i) for i in range(len(got)))
        if all(_equal(a, b) for a, b in zip(got, theirs, strict=True)):
            return _named(mistake)
    if any(outcome.error or outcome.changed for outcome in got):
        return None
    names, returned = _names(exercise), range(len(exercise.parts))
    off = [at for at in range(len(names)) if not _agree(got, want, at)]
    for at in off:
        if at not in returned and off[0] in returned:
            break  # wrong values have a wrong gradient: that it is like another's says nothing
        for mistake in sorted(exercise.mistakes, key=lambda m: m.convention):
            theirs = [_outcome(exercise, mistake.wrong, i) for i in range(len(got))]
            alone = all(_agree(theirs, want, other) for other in returned if other != at)
            like = alone and _agree(got, theirs, at) and not _agree(theirs, want, at)
            if like and _tells(theirs, at, at == off[0]):
                return _named(mistake, names[at] if len(returned) > 1 else "")
    return None


def _two_slips(exercise, verdict, got):
    """A verdict on a wrong answer without a name that does what two slips at once do, or None.

    The first time this takes a second or two, so it is the last thing that is tried.
    """
    if verdict.status != "wrong" or verdict.mistake or not got or any(o.error for o in got):
        return None
    for one, other, both in exercise.pairs():
        if not all(map(same, got[0].parts, _first(exercise, both).parts)):
            continue
        theirs = (_outcome(exercise, both, i) for i in range(len(got)))
        if all(_equal(a, b) for a, b in zip(got, theirs, strict=True)):
            first, second = (f"{slip.message}{reading(slip.read)}" for slip in (one, other))
            said = f"It does what two slips do together. First: {first} Second: {second}"
            return Verdict("wrong", said, f"{one.id} + {other.id}")
    return None


@functools.cache
def _first(exercise, function):
    """What two slips at once do on the simplest input, gradients left out: kept, as there are
    hundreds.
    """
    return _watch(exercise, function, exercise.cases[0]._replace(grad=False))


def _names(exercise):
    """What parts of an outcome are called: those that are returned, then the gradients."""
    args = next((case.args for case in exercise.cases if case.grad), ())
    floats = [isinstance(arg, torch.Tensor) and arg.is_floating_point() for arg in args]
    pairs = zip(exercise.arguments, floats, strict=False)
    return [*exercise.parts, *(f"the gradient of `{name}`" for name, is_float in pairs if is_float)]


def _tells(outcomes, at, first):
    """Whether a part is enough to know a mistake by. A bool is not, for others may share it, and
    words only where nothing before them is off.
    """
    kinds = bool if first else (bool, str)
    return all(not isinstance(o.parts[at], kinds) for o in outcomes if at < len(o.parts))


def _agree(a, b, at):
    """Whether two lists of outcomes have the same part at this place, in every case."""
    for x, y in zip(a, b, strict=True):
        if len(x.parts) != len(y.parts):
            return False
        if at < len(x.parts) and not same(x.parts[at], y.parts[at]):
            return False
    return True


def _named(mistake, part=""):
    status = "other convention" if mistake.convention else "wrong"
    where = "" if not part or _part(part) in mistake.message else f"In {_part(part)}: "
    return Verdict(status, f"{where}{mistake.message}{reading(mistake.read)}", mistake.id)


def reading(where):
    """Where to read, as the end of a message. where: "NN heading"."""
    number, _, heading = where.partition(" ")
    return f" Read *{heading}* in notebook {number}."


def _crash(exercise, answer, got, want):
    """A verdict on the first error, unless a simpler input has shown a wrong result before it."""
    for case, outcome, right in zip(exercise.cases, got, want, strict=True):
        if outcome.error is None and _equal(outcome, right):
            continue
        if outcome.error is None:
            return None
        works = sum(other.error is None for other in got)
        but = f" It runs on {works} of {len(got)} inputs, but not here." if works else ""
        advice = [words for said, words in ADVICE.items() if said in outcome.error.words]
        if advice and "lined up" in advice[0] and _reduces(answer):
            advice.append("A mean or sum loses its axis unless `keepdim=True`.")
        return Verdict(
            "crashed",
            f"{_error(outcome.error)}{outcome.error.line}. "
            f"{' '.join([*advice, f'It was called {_called(exercise, case)}.'])}{but}"
            f"{reading(exercise.read)}",
        )
    return None


def _changed_input(exercise, _answer, got, _want):
    for case, outcome in zip(exercise.cases, got, strict=True):
        if outcome.changed:
            names = " and ".join(f"`{name}`" for name in outcome.changed)
            return Verdict(
                "wrong",
                f"It writes into {names}, which the caller still needs ({_called(exercise, case)})."
                " Methods that end in `_`, `+=`, `/=`, `out=` write in place; make a new tensor.",
            )
    return None


def _wrong_kind(exercise, _, got, want):
    """A verdict on what was returned, as far as it is no matter of values."""
    for case, a, b in _that_ran(exercise, got, want):
        if len(a.parts) != len(b.parts):
            names = ", ".join(exercise.parts)
            return Verdict("wrong", f"It should return {len(exercise.parts)} things: {names}.")
        for name, x, y in zip(_names(exercise), a.parts, b.parts, strict=False):
            if problem := _kind_problem(name, x, y):
                return Verdict("wrong", f"{problem} It was called {_called(exercise, case)}.")
    return None


def _that_ran(exercise, got, want):
    """(case, outcome, right outcome) of each input on which the answer raised no error."""
    return [t for t in zip(exercise.cases, got, want, strict=True) if t[1].error is None]


def _kind_problem(name, x, y):
    name = _upper(_part(name))
    if x is None:
        return f"{name} is `None`: " + (
            "is a `return` missing?" if name.startswith("The ") else "it was never computed."
        )
    if name.startswith("The gradient") and isinstance(x, str):
        return "No gradient reaches the inputs: `.detach()`, `.data`, `.item()` and NumPy cut it."
    if isinstance(y, torch.Tensor):
        off = _tensor_problem(x, y)
    else:
        number = type(y) in (int, float) and type(_plain(x)) not in (int, float)
        off = f"should be a number, and is {_kind(x)}" if number else None
    return off and f"{name} {off}."


def _tensor_problem(x, y):
    if not isinstance(x, torch.Tensor):
        return f"should be a torch tensor, and is {_kind(x)}"
    if not _is_plain(x):
        return f"is on {x.device}, laid out {_short(x.layout)}; expected on the CPU, strided"
    if x.shape != y.shape:
        shape = code(tuple(x.shape), 60).strip("`")
        turned = ", and is the transpose of it" if x.ndim > 1 and x.shape == y.shape[::-1] else ""
        return f"has the shape {shape}, expected {tuple(y.shape)}{turned}"
    if x.dtype != y.dtype:
        return f"has the dtype {_short(x.dtype)}, expected {_short(y.dtype)}"
    return None


def _not_finite(exercise, _, got, want):
    """A verdict on an ordinary input that gives NaN: no other question makes sense then."""
    for name, x, y in zip(exercise.parts, got[0].parts, want[0].parts, strict=False):
        if not isinstance(y, torch.Tensor):
            continue
        lost = (~x.isfinite() & y.isfinite()).sum().item()
        if lost:
            return Verdict(
                "wrong",
                f"{_upper(_called(exercise, exercise.cases[0]))}, {lost} of the {x.numel()} "
                f"numbers of {name} are inf or NaN. Is there a division by zero, the root of a "
                f"negative number, or a missing bracket?{reading(exercise.read)}",
            )
    return None


def _broken_property(exercise, answer, _got, _want):
    for rule in exercise.properties:
        with undisturbed(), contextlib.suppress(Exception):  # then it has nothing to say here
            if said := rule.broken(_asked(exercise, answer)):
                return Verdict("wrong", f"{said}{reading(rule.read)}")
    return None


def _asked(exercise, answer):
    """The answer as properties call it: on copies, put to work as the exercise says, quietly."""

    def ask(*args):
        try:
            with torch.enable_grad(), output(0):
                return exercise.call(answer, *map(_copy, args))
        except (TooLong, KeyboardInterrupt, Exception):
            raise
        except BaseException as error:  # an answer may call exit()
            raise RuntimeError from error

    ask.answer = answer  # for rules that put it to work in another way
    return ask


def _difference(exercise, got, want):
    """The last resort: the first input with another result, and the numbers."""
    right = sum(map(_equal, got, want))
    said = f"It is right on {right} of {len(got)} inputs. " if right else ""
    for case, a, b in _that_ran(exercise, got, want):
        for at, (name, x, y) in enumerate(zip(_names(exercise), a.parts, b.parts, strict=False)):
            if same(x, y):
                continue
            if at >= len(exercise.parts):
                said += (
                    "The values are right, but the gradient is not: something is a constant for "
                    "autograd, by `.detach()`, `.data`, `.item()` or `torch.no_grad()`. "
                )
            said += f"{_upper(_called(exercise, case))}, {_gap(name, x, y)}"
            return Verdict("wrong", f"{said}{reading(exercise.read)}")
    raise AssertionError(f"{exercise.name}: outcomes differ, but no part does")


def _gap(name, x, y):
    name = _part(name)
    if not isinstance(y, torch.Tensor):
        return f"{name} is {_value(x)}, expected {_value(y)}."
    if (~x.isfinite() & y.isfinite()).any():
        lost = int((~x.isfinite() & y.isfinite()).sum())
        return f"{lost} of the {x.numel()} numbers of {name} are inf or NaN, and should not be."
    x, y = x.double().flatten(), y.double().flatten()
    if not x.any():
        return f"{name} is zero, and should not be."
    ratio = (x / y)[y != 0]
    mean = ratio.mean().item() if len(ratio) > 1 else 1.0
    if abs(mean - 1) > 5e-3 and ratio.std() < 1e-3 * abs(mean):
        return f"every number of {name} is {mean:.4g} times the right one."
    at = (x - y).nan_to_num().abs().argmax().item()
    return f"number {at} of {name} is {x[at].item():.4g}, expected {y[at].item():.4g}."


# --- In words


def _part(name):
    """A part as it stands in a sentence: words as they are, a variable as code."""
    return name if name.startswith(("the ", "a ", "whether ")) else f"`{name}`"


def _upper(sentence):
    """With a capital; str.capitalize would make all other letters small."""
    return sentence[0].upper() + sentence[1:]


def code(value, limit=200):
    """Somebody else's text as code in Markdown: one line, of a bounded length."""
    words = " ".join(str(value).split()).replace("`", "'")
    words = words.encode(errors="backslashreplace").decode()
    return f"`{words if len(words) <= limit else words[:limit] + ' …'}`"


def _error(trouble):
    kind = code(trouble.kind, 80).strip("`")
    return f"{kind}: {code(trouble.words)}" if trouble.words else kind


# Files in which a line is not the learner's own.
_FOREIGN = (str(Path(__file__).parent), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))


def _line(error):
    """The last line of the learner's own code that an error went through, if there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.line and not f.filename.startswith((*_FOREIGN, "<frozen"))]
    return f", in your line {code(own[-1].line)}" if own else ""


def _reduces(answer):
    """Whether an answer takes a mean, a sum or the like, as far as its names tell."""
    names = {name for part in _codes(answer) for name in part.co_names}
    return bool(names & {"mean", "sum", "var", "std", "norm", "vector_norm", "amax"})


def _codes(answer):
    functions = vars(answer).values() if inspect.isclass(answer) else [answer]
    return [f.__code__ for f in functions if inspect.isfunction(f)]


def _called(exercise, case):
    given = [_given(n, a) for n, a in zip(exercise.arguments, case.args, strict=False)]
    note = f" ({case.note})" if case.note else ""
    return f"with {', '.join(given)}{note}"


def _given(name, value):
    if isinstance(value, torch.Tensor):
        return f"`{name}` {tuple(value.shape)} {_short(value.dtype)}"
    said = _value(value)
    return f"`{name}`" if callable(value) or said.endswith("…") else f"`{name}` = {said}"


def _value(value):
    try:
        words = f"{value:.6g}" if isinstance(value, float) else repr(value)
    except Exception:
        words = _kind(value)
    return words if len(words) <= 80 else f"{words[:80]} …"


def _kind(value):
    name = type(value).__name__
    name = {"str": "string", "ndarray": "NumPy array", "type": "class"}.get(name, name)[:80]
    return f"{'an' if name[:1].lower() in tuple('aeiou') else 'a'} {name}"


def _short(dtype):
    return str(dtype).removeprefix("torch.")
