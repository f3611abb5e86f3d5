"""The checker itself, with exercises that have nothing to do with norms."""

import functools
import gc
import random
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from course_utils import checker
from course_utils.checker import Case, Exercise, Property, Verdict, diagnose

READ = "99 Where is it said?"


def double(x, by):
    """Twice x, for instance."""
    return x * by


def _big(f):
    y = f(torch.ones(2) * 100, 2.0)
    return f"100 becomes {y[0]:.0f}." if y[0] > 250 else None


X = torch.tensor([1.0, -2.0, 3.0])


class Mistake(NamedTuple):
    id: str
    wrong: Callable
    message: str
    read: str = READ
    convention: bool = False


def exercise(name, arguments, reference, *cases, **rest):
    rest = {"mistakes": (), "properties": (), "hints": ("Do.",), "minutes": 1, "read": READ} | rest
    return Exercise(name=name, arguments=arguments, reference=reference, cases=cases, **rest)


MISTAKES = (
    Mistake("added", lambda x, by: x + by, "It adds. Multiply."),
    Mistake("reversed", lambda x, by: -x * by, "That is the other sign.", convention=True),
    Mistake("in-place", lambda x, by: x.mul_(by), "It writes into `x`. Make a new one."),
    Mistake("raises", lambda x, by: x[7, 7, 7], "It looks too far."),
)
EXERCISE = exercise(
    "double",
    ("x", "by"),
    double,
    Case((X, 2.0), grad=True),
    Case((torch.zeros(2, 2), 3.0), "zeros"),
    Case((X.double(), -1.0)),
    mistakes=MISTAKES,
    properties=(Property("not too big", _big, READ),),
    pairs=lambda: [(MISTAKES[0], MISTAKES[1], lambda x, by: -(x + by))],
)


def says(answer, status, *words, mistake=None, exercise=EXERCISE):
    verdict = diagnose(exercise, answer)
    assert (verdict.status, verdict.mistake) == (status, mistake), verdict
    assert bool(verdict) is (status == "right")
    for word in words:
        assert word in verdict.message, verdict
    return verdict


# --- right, not attempted


@pytest.mark.parametrize(
    "answer",
    [
        double,
        lambda x, by: by * x,
        lambda a, b, extra=None: torch.stack([a[i] * b for i in range(len(a))]),
        lambda *args: args[0] * args[1],
        functools.partial(lambda unused, x, by: x * by, None),
        torch.mul,
        lambda x, by: (x.double() * by).to(x.dtype),
        lambda x, by: x.clone().mul_(by),
    ],
)
def test_a_right_answer_is_right(answer):
    says(answer, "right", "on all 3 inputs")


def nothing(x, by):
    """Only words."""


def dots(x, by): ...


def passing(x, by):
    pass


def starter(x, by):
    raise NotImplementedError


@pytest.mark.parametrize("answer", [nothing, dots, passing, starter, None, ..., lambda x, by: None])
def test_nothing_written_is_not_wrong(answer):
    says(answer, "not attempted", "in place of `raise NotImplementedError`")


def test_a_class_is_not_attempted_when_nothing_is_in_it():
    class Nothing(torch.nn.Module):
        pass

    class Unwritten(Scaled):
        def forward(self, x):
            raise NotImplementedError

    class Misspelt(torch.nn.Module):
        def __init__(self, factor):
            super().__init__()

        def foward(self, x):
            return x

    says(Nothing, "not attempted", exercise=SCALED)
    says(Unwritten, "not attempted", exercise=SCALED)
    says(Misspelt, "crashed", "missing the required", "forward", exercise=SCALED)


def test_what_pytorch_has_not_implemented_is_a_crash():
    says(lambda x, by: x ^ 2, "crashed", "NotImplementedError", "bitwise_xor")


# --- mistakes in the catalogue


def test_a_listed_mistake_is_named_however_it_is_written():
    verdict = says(lambda x, by: torch.add(by, x), "wrong", mistake="added")
    assert verdict.message == "It adds. Multiply. Read *Where is it said?* in notebook 99."


def test_two_mistakes_at_once_are_two():
    said = ("First: It adds. Multiply. Read", "Second: That is the other sign. Read")
    says(lambda x, by: -by - x, "wrong", "what two slips do", *said, mistake="added + reversed")


def test_another_convention_is_not_called_wrong():
    verdict = says(lambda x, by: x * (0 - by), "other convention", mistake="reversed")
    assert repr(verdict).startswith("◇ Other convention. That is the other sign.")


def test_writing_into_an_input_and_an_error_are_behaviour_too():
    def writes(x, by):
        x *= by
        return x

    says(writes, "wrong", mistake="in-place")
    says(lambda x, by: x[0, 0, 0, 0], "wrong", mistake="raises")
    says(lambda x, by: x["a"], "crashed")


def test_a_pair_is_judged_part_by_part():
    def both(x):
        return x + 1, x * 2

    pair = exercise(
        "pair",
        ("x",),
        both,
        Case((X,), grad=True),
        Case((X.double(),)),
        mistakes=(Mistake("minus", lambda x: (x - 1, 2 * x), "It subtracts. Add."),),
        parts=("more", "twice"),
    )
    says(lambda x: [x + 1, x + x], "right", exercise=pair)
    says(
        lambda x: (x - 1, 3 * x),
        "wrong",
        "In `more`: It subtracts.",
        mistake="minus",
        exercise=pair,
    )
    says(lambda x: (x + 1, 3 * x), "wrong", "`twice` is 1.5 times", exercise=pair)
    says(lambda x: x, "wrong", "return 2 things: more, twice", exercise=pair)
    says(
        lambda x: (x + 1, None), "wrong", "`twice` is `None`: it was never computed.", exercise=pair
    )
    says(lambda x: (x + 1, "2x"), "wrong", "`twice` should be a torch tensor", exercise=pair)


def test_the_calls_of_one_answer_do_not_reach_the_judgement_of_the_next():
    def leaves_a_mode(x, by):
        torch.set_default_device("meta")
        return x * by

    fresh = replace(EXERCISE)  # so that nothing about it is kept yet
    for _ in range(2):
        says(leaves_a_mode, "right", exercise=fresh)
        says(double, "right", exercise=fresh)
    assert torch.empty(0).device.type == "cpu"


@pytest.mark.parametrize(
    "mode",
    [
        torch.inference_mode,
        torch.no_grad,
        lambda: torch.autocast("cpu"),
        lambda: torch.device("meta"),
        torch.autograd.detect_anomaly,
    ],
)
def test_the_learners_own_mode_makes_no_difference(mode):
    fresh = replace(EXERCISE)
    with warnings.catch_warnings(action="ignore"), mode():
        says(double, "right", exercise=fresh)
        says(lambda x, by: x + by, "wrong", mistake="added", exercise=fresh)
    says(double, "right", exercise=fresh)


# --- what no catalogue lists


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x, by: print(end=""), "is `None`: is a `return` missing"),
        (lambda x, by: "ten", "should be a torch tensor, and is a string"),
        (lambda x, by: (x * by).numpy(force=True), "and is a NumPy array"),
        (lambda x, by: [x * by], "and is a list"),
        (lambda x, by: (x * by).sum(), "has the shape (), expected (3,)"),
        (lambda x, by: x.view(3, 1, 1) * by, "has the shape (3, 1, 1), expected (3,). It"),
        (lambda x, by: (x * by).long(), "has the dtype int64, expected float32"),
        (lambda x, by: (x * by).to(torch.complex64), "has the dtype complex64"),
        (lambda x, by: (x * by).to("meta"), "is on meta, laid out strided; expected on the CPU"),
        (lambda x, by: (x * by).detach().to_sparse(), "laid out sparse_coo"),
        (lambda x, by: (x * by).detach(), "No gradient reaches the inputs"),
        (lambda x, by: x.detach() * by + x * 0, "The values are right, but the gradient is not"),
        (lambda x, by: x * 3 * by, "100 becomes 600."),
        (lambda x, by: x * by / 2, "every number of the result is 0.5 times the right one"),
        (lambda x, by: x * by / (x != 0), "numbers of the result are inf or NaN"),
        (lambda x, by: x * by + x.log(), "1 of the 3 numbers of the result are inf or NaN. Is"),
        (lambda x, by: x * abs(by), "It is right on 2 of 3 inputs. With `x` (3,) float64"),
        (lambda x, by: x * by + (x == 3), "number 2 of the result is 7, expected 6"),
        (lambda x, by: setattr(x, "data", x.double()) or x * by, "It writes into `x`"),
        (lambda x, by: x.add_(1) * by, "It writes into `x`, which the caller still needs"),
    ],
)
def test_an_unlisted_wrong_answer_is_told_what_is_off(answer, words):
    says(answer, "wrong", words)


def test_numbers_may_be_of_any_kind_but_whole_where_whole_is_asked():
    def half(n):
        return n / 2

    def count(n):
        return n // 2

    kinds = [float, np.float64, torch.tensor, lambda v: np.array([v]), lambda v: torch.tensor([v])]
    for reference, wrong in ((half, "ten"), (count, 5.0)):
        asked = exercise("n", ("n",), reference, Case((10,)))
        for kind in kinds[:4] if reference is half else [int, np.int64, torch.tensor]:
            says(lambda n, kind=kind, f=reference: kind(f(n)), "right", exercise=asked)
        says(lambda n, wrong=wrong: wrong, "wrong", exercise=asked)
        says(lambda n: True, "wrong", "should be a number, and is a bool", exercise=asked)


class Awkward:
    def __eq__(self, other):
        raise RuntimeError("no")

    def __repr__(self):
        raise RuntimeError("no")

    __hash__ = None


def test_an_answer_may_return_what_cannot_even_be_compared_or_shown():
    says(lambda x, by: Awkward(), "wrong", "is an Awkward")
    word = exercise("w", ("x",), lambda x: "yes", Case((1,)))
    says(lambda x: Awkward(), "wrong", "is an Awkward, expected 'yes'", exercise=word)
    says(lambda x: "yes" * 100, "wrong", " …, expected", exercise=word)


# --- errors


def test_a_crash_shows_the_learners_own_line_and_what_it_was_called_with():
    def broken(x, by):
        y = x * by
        return y.view(2, 7)

    says(
        broken,
        "crashed",
        "RuntimeError: `shape '[2, 7]' is invalid",
        "in your line `return y.view(2, 7)`",
        "`x` (3,) float32, `by` = 2",
    )


def test_a_note_keeps_its_capitals():
    capital = replace(EXERCISE, cases=(Case((X, 2.0), "D = I"),))
    says(lambda x, by: x * by / 2, "wrong", "With `x` (3,) float32", "(D = I)", exercise=capital)


def test_a_crash_inside_a_function_of_their_own_shows_its_line():
    def inner(x):
        return x.no_such_thing

    says(lambda x, by: inner(x), "crashed", "AttributeError", "return x.no_such_thing")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x, by: x.view(-1, 1) + torch.ones(len(x) + 1, 2), "from the right. It was called"),
        (lambda x, by: x.expand(4, 3) - x.expand(4, 3).mean(-1), "loses its axis unless `keepdim"),
        (lambda x, by: torch.ones(2, 3) @ torch.ones(2, 3), "Weights are stored (out, in)"),
        (lambda x, by: torch.ones(2, 2).half() @ torch.ones(2, 2), "Two dtypes meet"),
        (lambda x, by: x.exp().mul_(by).exp().mul_(0), "What the gradient needs was overwritten"),
        (lambda x, by: torch.cat(x, x), "in one list"),
        (lambda x, by: torch.einsum("a,a->a", x, torch.ones(2)), "One letter is one size"),
        (lambda x, by: x * bye, "Is it spelt"),  # noqa: F821
    ],
)
def test_words_of_pytorch_are_explained(answer, words):
    says(answer, "crashed", words)


def test_a_crash_on_some_inputs_says_on_how_many_it_works():
    says(lambda x, by: x[:3].view(3) * by, "crashed", "It runs on 2 of 3 inputs, but not here")


def raises(error):
    def answer(x, by):
        raise error

    return answer


@pytest.mark.parametrize(
    "error",
    [SystemExit(1), GeneratorExit(), MemoryError(), AssertionError("x\n\n`y`" * 200), Warning()],
)
def test_no_error_of_an_answer_gets_out(error):
    says(raises(error), "crashed", type(error).__name__)


def test_endless_recursion_is_an_error_like_others():
    def again(x, by):
        return again(x, by)

    says(again, "crashed", "RecursionError")


class Hostile(Exception):
    def __str__(self):
        raise RuntimeError("no words")

    def __bool__(self):
        raise RuntimeError("no truth")


class HostileClass:
    @property
    def __class__(self):
        raise RuntimeError("no class")


@pytest.mark.parametrize(
    "answer",
    [
        raises(Hostile()),
        raises(ValueError("x" * 10**6 + "\ud800")),
        lambda x, by: HostileClass(),
        lambda x, by: torch.nn.parameter.UninitializedParameter(),
        lambda x, by: type("", (), {})(),
        lambda x, by: iter([x]),
        lambda x, by: x.view([1] * 50 + [-1]),
        type("Callable", (), {"__call__": 5})(),
        type("Callable", (), {"__call__": lambda *_: 0, "__getattr__": lambda *_: 1 / 0})(),
        type("Callable", (), {"__call__": lambda *_: 0, "__getattr__": raises(Hostile())})(),
    ],
    ids=range(10),
)
def test_whatever_an_answer_is_or_returns_a_verdict_is_given_and_can_be_shown(answer):
    verdict = diagnose(EXERCISE, answer)
    assert verdict.status in ("wrong", "crashed")
    assert len(repr(verdict).encode()) < 1000


def test_an_answer_that_exits_while_a_rule_asks_it_stays_inside():
    def leaves(x, by):
        if by == 2.0 and len(x) == 2:
            raise SystemExit
        return x * by * 1.1

    says(leaves, "wrong", "every number of the result is 1.1 times the right one")


def test_an_error_without_words_or_with_backticks_reads_well():
    says(raises(ValueError("a `b`")), "crashed", "ValueError: `a 'b'`")
    says(raises(ValueError()), "crashed", "ValueError, in your line `raise error`. ")


def test_a_wrong_result_on_a_simpler_input_is_told_before_a_crash():
    says(lambda x, by: (x[2] + 1).view(1) * by, "wrong", "has the shape (1,), expected (3,)")


def test_the_learners_own_stop_gets_through():
    with pytest.raises(KeyboardInterrupt):
        diagnose(EXERCISE, raises(KeyboardInterrupt()))


# --- what cannot even be called


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (X, "wants the function itself, without brackets behind its name. It got a Tensor."),
        ("double", "It got a string."),
        (lambda x: x, "It must take `(x, by)`, and yours takes `(x)`."),
        (lambda: None, "and yours takes `()`"),
        (lambda x, by, more: x, "and yours takes `(x, by, more)`"),
        (torch.nn.Linear, "wants the function itself"),
    ],
)
def test_what_cannot_be_called_so_is_told(answer, words):
    says(answer, "wrong", words)


class Scaled(torch.nn.Module):
    """A module, for an exercise that asks for one."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


SCALED = exercise(
    "scaled",
    ("factor",),
    Scaled,
    Case((2.0,)),
    Case((3.0,)),
    call=lambda answer, factor: answer(factor)(X),
)


def test_a_class_is_asked_for_itself():
    says(Scaled, "right", exercise=SCALED)
    says(Scaled(2.0), "wrong", "wants the class itself", "It got a Scaled.", exercise=SCALED)
    says(double, "wrong", "wants the class itself", exercise=SCALED)
    says(torch.nn.Identity, "wrong", "0.5 times the right one", exercise=SCALED)

    class Fails(Scaled):
        def forward(self, x):
            return x @ self.factor

    says(Fails, "crashed", "in your line `return x @ self.factor`", exercise=SCALED)


# --- time


def endless(x, by):
    while True:
        x = x * by


def endless_and_stubborn(x, by):
    for _ in range(2):
        try:
            while True:
                pass
        except:  # noqa: E722
            pass
    while True:
        pass


def endless_but_for_exceptions(x, by):
    while True:
        try:
            x = x / 0
            raise ValueError
        except Exception:
            continue


@pytest.mark.parametrize("answer", [endless, endless_and_stubborn, endless_but_for_exceptions])
def test_an_answer_that_does_not_end_is_stopped(answer, monkeypatch):
    monkeypatch.setattr(checker, "SECONDS", 0.2)
    start, threads = time.monotonic(), threading.active_count()
    says(answer, "crashed", "stopped after 0.2 seconds, in your line `")
    assert time.monotonic() - start < 4
    time.sleep(0.3)
    assert threading.active_count() <= threads
    says(double, "right")


def test_it_is_stopped_outside_the_main_thread_too(monkeypatch):
    monkeypatch.setattr(checker, "SECONDS", 0.2)
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(diagnose(EXERCISE, endless)))
    thread.start()
    thread.join(5)
    assert verdicts and "stopped" in verdicts[0].message


def test_the_limit_is_no_danger_to_what_comes_after(monkeypatch):
    for i in range(60):  # so that the time is over at any point of the code
        monkeypatch.setattr(checker, "SECONDS", 0.001 + 0.0002 * i)
        diagnose(EXERCISE, lambda x, by: [x * by for _ in range(300)].pop())
    time.sleep(1.2)


@pytest.mark.parametrize("answer", [double, endless])
def test_it_ends_under_a_profiler_too(answer, monkeypatch):
    monkeypatch.setattr(checker, "SECONDS", 0.2)
    sys.setprofile(lambda *_: None)
    try:
        assert diagnose(EXERCISE, answer).status in ("right", "crashed")
    finally:
        sys.setprofile(None)


# --- quiet


def disturbs(x, by):
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    np.seterr(all="raise")
    print("noise")
    warnings.warn("noise", stacklevel=2)


def state():
    return (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.get_num_threads(),
        list(warnings.filters),
        np.geterr(),
        sys.stdout,
        torch.random.get_rng_state().tolist(),
        random.getstate(),
        str(np.random.get_state()),
    )


@pytest.mark.parametrize("answer", [disturbs, double, endless, raises(ValueError("no"))])
def test_nothing_global_is_changed(answer, monkeypatch):
    monkeypatch.setattr(checker, "SECONDS", 0.2)
    before = state()
    diagnose(EXERCISE, answer)
    assert state() == before


def test_it_works_whatever_the_learner_has_set(monkeypatch):
    with torch.inference_mode(False), torch.no_grad():
        torch.set_default_dtype(torch.float64)
        try:
            says(double, "right")
            says(lambda x, by: x + by, "wrong", mistake="added")
            assert torch.get_default_dtype() == torch.float64 and not torch.is_grad_enabled()
        finally:
            torch.set_default_dtype(torch.float32)


def test_warnings_of_an_answer_are_kept_quiet(recwarn):
    says(lambda x, by: warnings.warn("noise", stacklevel=2) or x * by, "right")
    assert not recwarn.list


def test_what_an_answer_prints_on_the_first_input_is_shown_once(capsys):
    def prints(x, by):
        print("shape", tuple(x.shape))
        return x * 5 * by

    says(prints, "wrong")
    assert capsys.readouterr().out == "shape (3,)\n"


def test_what_it_prints_is_bounded_and_goes_nowhere_on_other_inputs(capsys):
    def shouts(x, by):
        print("x" * 10**7)
        print("y", file=sys.stderr)
        return x * by

    says(shouts, "right")
    out, err = capsys.readouterr()
    assert len(out) < 2100 and out.endswith("x …\n") and err == "y\n"


def test_two_threads_at_once_leave_all_as_it_was():
    before, verdicts = state(), []
    threads = [
        threading.Thread(target=lambda: verdicts.extend(diagnose(EXERCISE, double) for _ in "123"))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(verdicts) == 12 and all(verdicts) and state() == before


def test_an_error_of_an_answer_keeps_nothing_of_its_caller_alive():
    class Large:
        pass

    def teach():
        large = Large()
        diagnose(replace(EXERCISE), lambda x, by: x + by)
        return weakref.ref(large)

    gone = teach()
    gc.collect()
    assert gone() is None


def test_an_answer_that_draws_random_numbers_draws_the_same_each_time():
    def noisy(x, by):
        return x * by + torch.rand(())

    assert diagnose(EXERCISE, noisy) == diagnose(EXERCISE, noisy)


# --- the verdict


def test_a_verdict_is_shown_in_markdown_and_in_plain_text():
    verdict = Verdict("not attempted", "Write.")
    assert repr(verdict) == "○ Not attempted. Write."
    assert verdict._repr_markdown_() == "○ **Not attempted.** Write."
    assert not verdict and Verdict("right", "So.")


def test_a_right_answer_may_be_given_a_remark_and_a_failing_remark_is_left_out():
    told = replace(EXERCISE, remark=lambda f: f"2 · 3 = {f(torch.tensor(2.0), 3.0):.0f}.")
    says(double, "right", "2 · 3 = 6.", exercise=told)
    says(double, "right", exercise=replace(EXERCISE, remark=lambda f: None))
    says(double, "right", exercise=replace(EXERCISE, remark=lambda f: 1 / 0))
