"""`make train` without the hour: what it records, what it leaves alone, what it stores."""

import concurrent.futures
import contextlib
import functools
import itertools
import json
import math
import re
import runpy
import sys
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
import torch
import train
from course import ROOT

from course_utils import exercises, inside, layers, runs, tiny_llama
from course_utils.runs import LLAMA, RATES, SEARCH_SEEDS, Records, Run, Variant
from course_utils.tiny_llama import LOOKS, STEPS, WARMUP

RELU, NO_NORM = Variant(ffn="ReLU"), Variant(norm="none")
ABOUT = {"command": "make train", "machine": "a test"}
WORDS = "\n\n".join(f"Paragraph {n} is about the number {n * n}." for n in range(60))


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    """No test may touch the records that came with the course."""
    monkeypatch.setattr(runs, "DATA", tmp_path)
    monkeypatch.setattr(inside, "DATA", tmp_path)
    monkeypatch.setattr(train, "RECORDS", tmp_path / "runs.jsonl")
    monkeypatch.setattr(train, "DRAFT", tmp_path / "runs.part")
    monkeypatch.setattr(train, "CHECKPOINT", tmp_path / "tiny_llama.npz")
    monkeypatch.setattr(train, "tqdm", lambda done, **_: done)
    monkeypatch.setattr(tiny_llama, "python_text", lambda: tiny_llama.as_text(WORDS))


pytestmark = pytest.mark.usefixtures("one_thread")


class Pool:
    """Runs each job at once, here, with the threads that its process would have had.

    What it was asked for stays in `jobs`.
    """

    def __init__(self, workers=1, context=None, initializer=lambda: None, initargs=()):
        self.jobs, self.start = [], lambda: initializer(*initargs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, function, job):
        self.jobs.append(job)
        future, before = Future(), torch.get_num_threads()
        torch.set_num_threads(2)
        self.start()
        try:
            future.set_result(function(job))
        except BaseException as error:
            future.set_exception(error)
        torch.set_num_threads(before)
        return future


def ended(job, final=2.0):
    variant, rate, warmup, seed = job
    return Run(variant, rate, warmup, seed, STEPS, (3.0,) * 40, dict.fromkeys(LOOKS, final))


def search(finals, variant=LLAMA, warmup=WARMUP):
    jobs = itertools.product([variant], finals, [warmup], SEARCH_SEEDS)
    return [ended(job, finals[job[1]]) for job in jobs]


# --- The draft


def shuffled():
    jobs = itertools.product((RELU, LLAMA, NO_NORM), (2e-3, 1e-3), (0, WARMUP), (102, 7, 101))
    made = [ended(job) for job in jobs]
    return [made[0]._replace(steps=train.LONG), *made[1:]]


def test_the_draft_has_one_order():
    made = shuffled()
    train.write(Records(ABOUT, tuple(made)))
    first = train.DRAFT.read_bytes()
    train.write(Records(ABOUT, tuple(reversed(made))))
    assert train.DRAFT.read_bytes() == first
    written = runs.parse(first.decode().splitlines())
    assert written.about == ABOUT and set(map(str, written.runs)) == set(map(str, made))
    orders = [(r.steps, r.variant, -r.warmup, r.rate, r.seed) for r in written.runs]
    assert orders == sorted(orders) and len(orders) == len(made)
    assert written.runs[-1].steps == train.LONG


def test_the_draft_is_lines_of_json_and_nothing_lies_beside_it(tmp_path):
    train.write(Records(ABOUT, (ended((LLAMA, 1e-3, WARMUP, 0)),)))
    text = train.DRAFT.read_text(encoding="utf-8")
    assert text.endswith("}\n") and [type(json.loads(line)) for line in text.splitlines()] == [
        dict,
        dict,
    ]
    assert list(tmp_path.iterdir()) == [train.DRAFT]


def test_a_write_that_fails_leaves_the_old_draft(monkeypatch):
    train.write(Records(ABOUT, (ended((LLAMA, 1e-3, WARMUP, 0)),)))
    before, whole = train.DRAFT.read_bytes(), Path.write_text

    def half(path, text, **how):
        whole(path, text[: len(text) // 2], **how)
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="no space"):
        train.write(Records(ABOUT, tuple(shuffled())))
    assert train.DRAFT.read_bytes() == before


def test_a_draft_of_this_make_is_read_again_and_none_is_a_beginning():
    assert train.read() == Records(train.about(), ())
    records = Records(train.about(), (ended((LLAMA, 1e-3, WARMUP, 0)),))
    train.write(records)
    assert train.read() == records
    assert not train.RECORDS.exists()


def test_stored_records_are_no_draft():
    train.write(Records(train.about(), (ended((LLAMA, 1e-3, WARMUP, 0)),)))
    train.DRAFT.replace(train.RECORDS)
    assert train.read() == Records(train.about(), ())


@pytest.mark.parametrize("changed", ["command", "python", "torch", "text", "machine"])
def test_a_draft_of_another_make_is_refused(changed):
    theirs = train.about() | {changed: "of another kind"}
    train.write(Records(theirs, ()))
    before = train.DRAFT.read_bytes()
    with pytest.raises(SystemExit) as stopped:
        train.read()
    said = str(stopped.value)
    assert str(train.DRAFT) in said and "Delete it" in said
    assert str(theirs) in said and str(train.about()) in said
    assert train.DRAFT.read_bytes() == before


def test_what_made_the_runs_is_named_without_a_place():
    about = train.about()
    assert about["text"] == tiny_llama.python_text().sha and about["threads of a run"] == 1
    assert "+" not in about["torch"] and about["torch"] in torch.__version__
    assert about == json.loads(json.dumps(about))  # else it would differ once it was stored


# --- What is trained


def test_only_what_is_not_recorded_is_trained(monkeypatch):
    monkeypatch.setattr(train, "train_one", ended)
    jobs = list(train.search_jobs((LLAMA, RELU), (1e-3, 2e-3), WARMUP))
    assert len(jobs) == 8
    first, second, third = Pool(), Pool(), Pool()
    train.do(train.read(), jobs[:3], first, "some")
    records = train.do(train.read(), [*jobs, *jobs], second, "all")  # as after a stop
    assert first.jobs == jobs[:3] and second.jobs == jobs[3:]
    assert {run[:4] for run in records.runs} == set(jobs) and len(records.runs) == 8
    assert {run[:4] for run in train.read().runs} == set(jobs)
    assert train.do(records, jobs, third, "none") == records and not third.jobs


def test_each_run_is_in_the_draft_as_soon_as_it_is_done(monkeypatch):
    """A stop in the middle costs only what is running."""
    in_draft = []
    write = train.write

    def noted(records):
        write(records)
        in_draft.append(len(train.read().runs))

    monkeypatch.setattr(train, "write", noted)
    monkeypatch.setattr(train, "train_one", ended)
    train.do(train.read(), train.search_jobs((LLAMA,), RATES[:2], 0), Pool(), "")
    assert in_draft == [1, 2, 3, 4]
    assert not train.RECORDS.exists()


def test_another_warm_up_or_seed_is_another_run(monkeypatch):
    monkeypatch.setattr(train, "train_one", ended)
    records = train.do(train.read(), [(LLAMA, 1e-3, WARMUP, 0)], Pool(), "")
    others = [(LLAMA, 1e-3, 0, 0), (LLAMA, 1e-3, WARMUP, 1), (RELU, 1e-3, WARMUP, 0)]
    pool = Pool()
    train.do(records, [*others, (LLAMA, 2e-3, WARMUP, 0)], pool, "")
    assert len(pool.jobs) == 4


@pytest.mark.parametrize("steps", [STEPS - 10, train.LONG])
def test_a_run_of_another_length_does_not_stand_for_a_short_one(steps, monkeypatch):
    monkeypatch.setattr(train, "train_one", ended)
    job, pool = (LLAMA, 1e-3, WARMUP, 0), Pool()
    records = train.read()._replace(runs=(ended(job)._replace(steps=steps),))
    assert len(train.do(records, [job], pool, "").runs) == 2 and pool.jobs == [job]


@pytest.mark.parametrize(
    ("finals", "asked"),
    [
        ({1e-3: 1.0, 2e-3: 2.0, 4e-3: 3.0}, [5e-4]),
        ({1e-3: 3.0, 2e-3: 2.0, 4e-3: 1.0}, [8e-3]),
        ({1e-3: 2.0, 2e-3: 1.0, 4e-3: 3.0}, []),
        ({1e-3: 2.0, 2e-3: 1.0, 4e-3: math.inf}, []),
        ({1e-3: 1.0}, [5e-4, 2e-3]),
    ],
)
def test_a_best_rate_at_an_end_asks_for_the_next(finals, asked):
    middle = search({1e-3: 2.0, 2e-3: 1.0, 4e-3: 3.0}, RELU)
    records = Records(ABOUT, tuple(search(finals) + middle))
    more = list(train.wider(records, (LLAMA, RELU), WARMUP))
    assert more == [(LLAMA, rate, WARMUP, seed) for rate in asked for seed in SEARCH_SEEDS]


def test_the_wider_search_minds_its_warm_up():
    here = search({1e-3: 2.0, 2e-3: 1.0, 4e-3: 3.0})
    records = Records(ABOUT, (*here, *search({1e-3: 1.0, 2e-3: 2.0}, warmup=0)))
    assert list(train.wider(records, (LLAMA,), WARMUP)) == []
    asked = list(train.wider(records, (LLAMA,), 0))
    assert asked == [(LLAMA, 5e-4, 0, seed) for seed in SEARCH_SEEDS]


# --- One run


def fake_training(monkeypatch, losses, validation=lambda: 2.0):
    def training(model, data, peak, seed, *, warmup, steps):
        yield from itertools.islice(losses, steps)

    monkeypatch.setattr(tiny_llama, "train", training)
    monkeypatch.setattr(tiny_llama, "validation_loss", lambda model, data: validation())


def test_a_run_keeps_means_of_ten_and_looks(monkeypatch):
    looked = itertools.count(1.0)
    fake_training(monkeypatch, itertools.count(1.0), lambda: next(looked))
    run, _ = train.trained(LLAMA, 1e-3, WARMUP, 0)
    assert run[:5] == (LLAMA, 1e-3, WARMUP, 0, STEPS) and not run.error
    assert run.loss == tuple(10 * ten + 5.5 for ten in range(40))
    assert list(run.validation) == list(LOOKS)
    assert list(run.validation.values()) == [1, 2, 3, 4, 5, 6, 7, 8] and run.final == 8


def test_a_long_run_looks_ten_times(monkeypatch):
    fake_training(monkeypatch, itertools.repeat(1.0))
    run, _ = train.trained(LLAMA, 1e-3, WARMUP, 0, train.LONG)
    assert list(run.validation) == list(range(300, 3001, 300)) and run.steps == 3000
    assert len(run.loss) == 300 and run.final == 2


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_the_run(bad, monkeypatch):
    losses = iter([3.0] * 12 + [bad] + [1.0] * 500)
    fake_training(monkeypatch, losses)
    run, _ = train.trained(LLAMA, 1e-3, WARMUP, 0)
    assert next(losses) == 1.0 and len(list(losses)) == 499  # it went no further
    assert run.loss == (3.0,) and run.validation == {10: 2.0}
    assert run.final == math.inf and not run.error


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_so_does_a_validation_loss_that_is_none(bad, monkeypatch):
    looked = iter([2.0, bad])
    fake_training(monkeypatch, itertools.repeat(3.0), lambda: next(looked))
    run, _ = train.trained(LLAMA, 1e-3, WARMUP, 0)
    assert run.loss == (3.0, 3.0) and run.validation == {10: 2.0} and run.final == math.inf


def test_a_run_that_diverges_is_recorded_as_infinite():
    """Really: one step of this length is enough."""
    run, _ = train.trained(NO_NORM, 1e30, 0, 0, steps=10)
    assert run.final == math.inf and not run.error
    train.write(Records(train.about(), (run,)))
    assert train.read().runs == (run,)
    for line in train.DRAFT.read_text(encoding="utf-8").splitlines():
        json.loads(line, parse_constant=pytest.fail)


@pytest.mark.parametrize(("part", "name"), [("norm", "R06"), ("ffn", "G12")])
def test_a_mistake_that_raises_is_recorded_with_what_was_said(part, name):
    run, _ = train.trained(LLAMA._replace(**{part: name}), 1e-3, WARMUP, 0)
    assert re.match("The size of tensor a .* must match the size of tensor b", run.error)
    assert "\n" not in run.error
    assert (run.loss, run.validation, run.final) == ((), {}, math.inf)
    train.write(Records(train.about(), (run,)))
    assert train.read().runs == (run,)


def test_a_fault_of_another_kind_is_no_run(monkeypatch):
    def training(*_, **__):
        raise TypeError("a slip in the tool")
        yield

    monkeypatch.setattr(tiny_llama, "train", training)
    with pytest.raises(TypeError, match="a slip"):
        train.trained(LLAMA, 1e-3, WARMUP, 0)


def test_a_run_is_what_training_gives(monkeypatch):
    few = functools.partial(tiny_llama.validation_loss, windows=4)
    monkeypatch.setattr(tiny_llama, "validation_loss", few)
    run, model = train.trained(RELU, 4e-3, 5, 3, steps=10)
    text, mine = tiny_llama.python_text(), tiny_llama.TinyLlama(ffn="ReLU", seed=3)
    losses, looks = [], []
    for loss in tiny_llama.train(mine, text.train, 4e-3, 3, warmup=5, steps=10):
        losses.append(loss)
        looks.append(tiny_llama.validation_loss(mine, text.validation))
    assert run.loss == pytest.approx([sum(losses) / 10], abs=1e-4)
    assert list(run.validation) == list(range(1, 11))  # a tenth of the steps is one
    assert list(run.validation.values()) == pytest.approx(looks, abs=1e-4)
    assert looks[-1] < looks[0]
    a, b = model.state_dict(), mine.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert train.train_one((RELU, 4e-3, 5, 3, 10)) == run


# --- The model of a variant


@pytest.mark.parametrize("variant", runs.VARIANTS, ids="-".join)
def test_a_variants_model_is_named(variant):
    model, named = train.model_of(variant, 4), tiny_llama.TinyLlama(*variant, seed=4)
    assert repr(model) == repr(named)
    a, b = model.state_dict(), named.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    ("part", "name"), [(part, name) for part in runs.MISTAKES for name in runs.MISTAKES[part]]
)
def test_a_mistake_stands_in_its_place_and_the_rest_is_right(part, name):
    known = exercises.load({"norm": "rms_norm", "ffn": "swiglu_ffn", "block": "llama_block"}[part])
    (wrong,) = (mistake.wrong for mistake in known.mistakes if mistake.id == name)
    model = train.model_of(LLAMA._replace(**{part: name}), 0)
    norms = [model.norm]
    for layer in model.layers:
        norms += [layer.input_layernorm, layer.post_attention_layernorm]
        assert layer.wiring is (wrong if part == "block" else layers.llama_block)
        if part == "ffn":
            assert layer.mlp.function is wrong
        else:
            assert type(layer.mlp) is layers.SwiGLU
    for norm in norms:
        assert norm.function is wrong if part == "norm" else type(norm) is layers.RMSNorm
    windows = torch.randint(256, (2, 9), generator=torch.Generator().manual_seed(0))
    try:  # anything but a RuntimeError would stop the whole of `make train`
        loss = tiny_llama.loss_of(model, windows)
        loss.backward()
    except RuntimeError as error:
        assert "size" in str(error)
    else:
        assert loss.isfinite()


# --- The checkpoint


def test_the_checkpoint_comes_back_as_the_model(tmp_path):
    model = tiny_llama.TinyLlama(seed=5)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.linspace(0, 1, p.shape[-1]))
    train.save(model)
    assert train.CHECKPOINT.stat().st_size < 1_200_000
    with np.load(train.CHECKPOINT, allow_pickle=False) as stored:
        kinds = {name: stored[name].dtype for name in stored.files}
        assert kinds == {
            name: np.float16 if value.ndim == 2 else np.float32
            for name, value in model.state_dict().items()
        }
    back = inside.trained_llama()
    assert not back.training
    for name, value in model.state_dict().items():
        read = back.state_dict()[name]
        assert read.dtype == torch.float32
        assert torch.equal(read, value.half().float() if value.ndim == 2 else value)
    tokens = torch.arange(60)[None]
    with torch.no_grad():
        torch.testing.assert_close(back(tokens), model(tokens), rtol=0.05, atol=0.05)


# --- All of it


@pytest.fixture
def command(monkeypatch, tmp_path):
    """`python tools/train.py …` in this process, on a plan in small; what it trained is returned.

    stop: interrupt it once that many runs are made; those that were asked for already go on. The
    best rate is 64 thousandths with warm-up and a half without, so the search must widen.
    """
    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(runs, "VARIANTS", (LLAMA, RELU))
    monkeypatch.setattr(runs, "NORM_VARIANTS", (LLAMA,))
    monkeypatch.setattr(runs, "MISTAKEN", runs.MISTAKEN[:2])
    monkeypatch.setattr(runs, "SEEDS", (0, 1, 2))
    made, stops = [], []

    def training(model, data, peak, seed, *, warmup, steps):
        if len(made) in stops:
            stops.clear()
            raise KeyboardInterrupt
        made.append((peak, warmup, seed, steps, torch.get_num_threads()))
        model.at = peak / (64e-3 if warmup else 5e-4)
        yield from itertools.repeat(3.0, steps)

    def validation_loss(model, data):
        return 1 + abs(math.log2(model.at))

    monkeypatch.setattr(tiny_llama, "train", training)
    monkeypatch.setattr(tiny_llama, "validation_loss", validation_loss)

    def run(*options, stop=None):
        made.clear()
        stops[:] = [stop]
        monkeypatch.setattr(sys, "argv", ["train.py", *options])
        monkeypatch.setattr(runs, "DATA", tmp_path)
        runpy.run_path(str(ROOT / "tools" / "train.py"), run_name="__main__")
        return list(made)

    return run


def stored():
    return runs.parse(train.RECORDS.read_text(encoding="utf-8").splitlines())


ALL = 2 * 8 * 2 + 8 * 2 + 2 * 3 + 2 * 3 + 1  # two searches, the comparison, mistakes, the long run


def test_the_whole_plan_is_made_once(command, tmp_path):
    made = command("--workers", "1")
    records = stored()
    assert records.about == train.about()
    for variant in (LLAMA, RELU):
        assert list(records.searched(variant)) == [*RATES, 64e-3, 128e-3]
        assert records.chosen(variant) == 64e-3
        short = records.select(variant, rate=64e-3, warmup=WARMUP)
        assert [run.seed for run in short] == [0, 1, 2, *SEARCH_SEEDS]
    assert list(records.searched(LLAMA, warmup=0)) == [25e-5, 5e-4, *RATES]
    assert records.searched(RELU, warmup=0) == {}
    for variant in runs.MISTAKEN:
        assert [run[1:4] for run in records.select(variant)] == [
            (64e-3, WARMUP, seed) for seed in runs.MISTAKE_SEEDS
        ]
    (long,) = (run for run in records.runs if run.steps == train.LONG)
    assert long[:4] == (LLAMA, 64e-3, WARMUP, 0)
    assert len(records.runs) == len(made) == len({run[:5] for run in records.runs}) == ALL
    assert {path.name for path in tmp_path.iterdir()} == {"runs.jsonl", "tiny_llama.npz"}
    inside.trained_llama()


def test_a_second_command_makes_everything_again(command, tmp_path):
    made, before = command(), train.RECORDS.read_bytes()
    train.CHECKPOINT.unlink()
    assert command() == made and len(made) == ALL
    assert train.RECORDS.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"runs.jsonl", "tiny_llama.npz"}


def test_every_run_has_one_thread(command):
    """The long one too, which is trained where the command runs."""
    torch.set_num_threads(2)
    made = command("--workers", "1")
    assert train.LONG in {steps for *_, steps, _ in made}
    assert {threads for *_, threads in made} == {1}


@pytest.fixture
def old():
    """Records and a checkpoint of before; returns whether they still stand."""
    theirs = train.about() | {"machine": "another"}
    train.write(Records(theirs, (ended((LLAMA, 1e-3, WARMUP, 0)), ended((RELU, 3.0, 0, 9)))))
    train.DRAFT.replace(train.RECORDS)
    train.CHECKPOINT.write_bytes(b"an old model")
    files = (train.RECORDS, train.CHECKPOINT)
    before = [path.read_bytes() for path in files]
    return lambda: [path.read_bytes() for path in files] == before


def test_stored_records_of_another_make_are_no_obstacle(command, old):
    assert len(command()) == ALL and not old()
    records = stored()
    assert records.about == train.about() and len(records.runs) == ALL
    assert not records.select(RELU, rate=3.0)
    inside.trained_llama()


@pytest.mark.parametrize(
    ("stop", "fewest", "most"),
    [(5, 0, 23), (35, 32, 43), (50, 48, 59), (60, 60, 60)],
    ids=["search", "without warm-up", "comparison", "long run"],
)
def test_a_stopped_command_changes_nothing_and_the_next_one_goes_on(
    stop, fewest, most, command, old, tmp_path
):
    with pytest.raises(KeyboardInterrupt):
        command(stop=stop)
    assert old()
    kept = len(train.read().runs)
    assert fewest <= kept <= most
    assert len(command()) == ALL - kept
    records = stored()
    assert len(records.runs) == len({run[:5] for run in records.runs}) == ALL
    assert records.about == train.about() and not old()
    assert {path.name for path in tmp_path.iterdir()} == {"runs.jsonl", "tiny_llama.npz"}
    inside.trained_llama()


def test_a_wider_rate_that_has_one_seed_in_the_draft_gets_the_other(command):
    command()
    whole = stored()
    searched = [r for r in whole.runs if r.warmup and r.seed in SEARCH_SEEDS and r.rate in RATES]
    half = [r for r in whole.runs if r.rate == 64e-3 and r.seed == SEARCH_SEEDS[0]]
    assert (len(searched), len(half)) == (24, 2)
    train.write(whole._replace(runs=(*searched, *half)))
    made = command()
    assert stored() == whole and len(made) == ALL - 26


def test_a_stop_just_before_the_end_does_not_record_the_long_run_twice(command, monkeypatch):
    replace = Path.replace

    def stop(path, target):
        if path == train.DRAFT:
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            command()
    command()
    assert [run.steps for run in stored().runs].count(train.LONG) == 1
    assert len(stored().runs) == ALL and not train.DRAFT.exists()


def test_a_checkpoint_that_is_half_written_does_not_replace_the_old_one(command, old, monkeypatch):
    def save(file, **_):
        with contextlib.nullcontext(file) if hasattr(file, "write") else open(file, "wb") as half:
            half.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", save)
    with pytest.raises(OSError, match="no space"):
        command()
    assert old()


def test_the_checkpoint_is_saved_before_the_records_are_replaced(command, old, monkeypatch):
    def save(*_, **__):
        assert old()
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez_compressed", save)
        with pytest.raises(OSError, match="no space"):
            command()
    assert old() and len(train.read().runs) == ALL - 1
    assert [run[3] for run in command()] == [train.LONG]
    assert len(stored().runs) == ALL and not train.DRAFT.exists()


def test_a_draft_of_another_make_stops_the_command(command, old):
    train.write(Records(train.about() | {"torch": "2.0"}, (ended((LLAMA, 1e-3, WARMUP, 0)),)))
    draft = train.DRAFT.read_bytes()
    with pytest.raises(SystemExit, match="Delete it"):
        command()
    assert old() and train.DRAFT.read_bytes() == draft
    train.DRAFT.unlink()
    assert len(command()) == ALL
