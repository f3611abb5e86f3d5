"""How recorded runs are read, by runs made up here; then the records that came with the course."""

import inspect
import itertools
import json
import math
import random
import re
import statistics

import numpy as np
import pytest
import train
from course import ROOT

from course_utils import exercises, inside, runs, tiny_llama
from course_utils.runs import LLAMA, RATES, SEARCH_SEEDS, SEEDS, Run, Variant
from course_utils.tiny_llama import LOOKS, STEPS, WARMUP

RELU = Variant(ffn="ReLU")


pytestmark = pytest.mark.usefixtures("one_thread")


# --- Runs made up


def ended(final, variant=LLAMA, rate=4e-3, warmup=WARMUP, seed=0, steps=STEPS):
    """A run of which only the end is of interest."""
    return Run(variant, rate, warmup, seed, steps, (5.0, final), {100: final + 1, steps: final})


def diverged(**what):
    return ended(1.0, **what)._replace(validation={100: 7.0})


def failed(**what):
    return ended(1.0, **what)._replace(loss=(), validation={}, error="shapes do not fit")


def as_records(*made):
    """Through the lines of a file, in no order."""
    lines = [json.dumps(run._asdict()) for run in made]
    random.Random(0).shuffle(lines)
    return runs.parse([json.dumps({"command": "none"}), *lines])


def search(finals, variant=LLAMA, warmup=WARMUP):
    """Two runs a rate, whose mean is as given."""
    for rate, final in finals.items():
        for seed, off in zip(SEARCH_SEEDS, (-0.125, 0.125), strict=True):
            yield ended(final + off, variant, rate, warmup, seed)


def test_a_run_comes_back_from_its_line_as_it_was():
    made = [
        ended(2.0),
        ended(1.5, Variant("LayerNorm", "GLU", "post"), 16e-3, 0, 101),
        diverged(seed=2),
        failed(variant=LLAMA._replace(norm="R06")),
    ]
    records = as_records(*made)
    assert records.about == {"command": "none"}
    assert sorted(records.runs, key=made.index) == made
    for run in records.runs:
        assert type(run.variant) is Variant and type(run.loss) is tuple
        assert all(type(step) is int for step in run.validation)


def test_a_run_that_did_not_end_is_infinite():
    assert ended(2.5).final == 2.5
    assert ended(2.5, steps=60).final == 2.5
    assert diverged().final == failed().final == math.inf


def test_select_takes_what_is_wanted_and_sorts_it():
    made = [
        ended(1.0, rate=r, seed=s, variant=v)
        for r, s, v in itertools.product((2e-3, 1e-3), (3, 0, 10), (LLAMA, RELU))
    ]
    records = as_records(*made)
    assert [(r.rate, r.seed) for r in records.select(LLAMA)] == [
        *itertools.product((1e-3, 2e-3), (0, 3, 10))
    ]
    assert [r.seed for r in records.select(RELU, rate=2e-3)] == [0, 3, 10]
    assert records.select(RELU, rate=2e-3, seed=3) == [ended(1.0, RELU, 2e-3, seed=3)]
    assert records.select(RELU, seed=4) == records.select(Variant(norm="none")) == []


def test_select_leaves_other_lengths_out_unless_they_are_wanted():
    short, long = ended(1.0), ended(0.5, steps=train.LONG)
    records = as_records(short, long, ended(0.5, RELU, steps=train.LONG))
    assert records.select(LLAMA) == records.select(LLAMA, steps=STEPS) == [short]
    assert records.select(LLAMA, steps=train.LONG) == [long]
    assert records.select(RELU) == []


def test_a_search_gives_each_rates_mean_over_its_own_seeds():
    records = as_records(
        *search({8e-3: 2.0, 4e-3: 1.75}),
        *search({4e-3: 9.0}, warmup=0),
        *search({4e-3: 8.0, 1e-3: 8.0}, RELU),
        ended(0.5, rate=4e-3, seed=0),  # of the comparison: the search must not know it
        ended(0.25, rate=1e-3, seed=7),
    )
    searched = records.searched(LLAMA)
    assert searched == {4e-3: 1.75, 8e-3: 2.0} and list(searched) == [4e-3, 8e-3]
    assert records.searched(LLAMA, warmup=0) == {4e-3: 9.0}
    assert records.chosen(LLAMA) == 4e-3


def test_a_search_is_with_warm_up_unless_another_is_wanted():
    records = as_records(
        *search({2e-3: 1.0, 4e-3: 2.0}),
        *search({2e-3: 2.0, 4e-3: 1.0}, warmup=0),
    )
    assert records.searched(LLAMA) == records.searched(LLAMA, warmup=WARMUP)
    assert records.chosen(LLAMA) == records.chosen(LLAMA, warmup=WARMUP) == 2e-3
    assert records.chosen(LLAMA, warmup=0) == 4e-3


def test_a_rate_at_which_one_run_diverged_is_not_chosen():
    good, bad = search({2e-3: 3.0, 4e-3: 1.0}), diverged(rate=4e-3, seed=SEARCH_SEEDS[1])
    good = [run for run in good if (run.rate, run.seed) != (bad.rate, bad.seed)]
    records = as_records(*good, bad)
    assert records.searched(LLAMA) == {2e-3: 3.0, 4e-3: math.inf}
    assert records.chosen(LLAMA) == 2e-3


def test_the_comparison_is_at_the_chosen_rate_with_its_own_seeds():
    records = as_records(
        *search({2e-3: 2.0, 4e-3: 1.0}),
        *search({2e-3: 1.0, 4e-3: 2.0}, RELU),
        *(ended(1 + seed / 8, rate=4e-3, seed=seed) for seed in SEEDS),
        *(ended(0.5, rate=2e-3, seed=seed) for seed in SEEDS),
        *(ended(0.5, rate=4e-3, seed=seed, warmup=0) for seed in SEEDS),
        *search({2e-3: 0.5}, warmup=0),
        *(ended(3.0, RELU, 2e-3, seed=seed) for seed in SEEDS),
    )
    compared = records.compared(LLAMA)
    assert [(run.seed, run.final) for run in compared] == [(seed, 1 + seed / 8) for seed in SEEDS]
    assert [run.final for run in records.compared(RELU)] == [3.0] * 8


def test_the_long_run_of_the_stored_model_is_not_in_the_comparison():
    """It has the plain model's rate and one of the seeds."""
    records = as_records(
        *search({4e-3: 1.0}),
        *(ended(1.0, seed=seed) for seed in SEEDS),
        ended(0.5, seed=0, steps=train.LONG),
    )
    compared = records.compared(LLAMA)
    assert [run.seed for run in compared] == list(SEEDS)
    assert {run.steps for run in compared} == {STEPS}


# --- Differences and verdicts


def paired(gaps):
    finals = (1.9, 2.6, 1.2, 3.0, 2.2, 1.6, 2.9, 2.4)
    right = [ended(final, seed=seed) for seed, final in enumerate(finals)]
    pairs = zip(right, gaps, strict=True)
    return [run._replace(validation={STEPS: run.final + gap}) for run, gap in pairs], right


NOISE = np.array([0.04, -0.06, 0.01, 0.05, -0.03, 0.08, -0.02, -0.07])  # its mean is zero


@pytest.mark.parametrize(
    ("shift", "counts"),
    [(-0.3, True), (-0.08, True), (-0.07, False), (0, False), (0.07, False), (0.08, True)],
)
def test_a_difference_is_the_paired_t_test(shift, counts):
    gaps = shift + NOISE
    difference = runs.difference(*paired(gaps.tolist()))
    error = gaps.std(ddof=1) / math.sqrt(8)
    assert difference.mean == pytest.approx(gaps.mean())
    assert difference.error == pytest.approx(error)
    assert difference.beyond_noise == (abs(gaps.mean() / error) > 4.03) == counts


def test_pairs_count_not_spread():
    """Seeds differ by far more than variants do; what they share falls out."""
    other, right = paired([0.01, 0.011, 0.012, 0.01, 0.011, 0.012, 0.01, 0.011])
    assert statistics.stdev(run.final for run in right) > 0.1
    assert runs.difference(other, right).beyond_noise
    assert runs.difference(right, other).mean == pytest.approx(-runs.difference(other, right).mean)


def test_no_difference_of_unequal_numbers_of_runs():
    other, right = paired([0.1] * 8)
    with pytest.raises(ValueError, match="both must have the same seeds, two or more"):
        runs.difference(other[:7], right)


def test_a_difference_at_the_limit_is_noise():
    assert not runs.Difference(4.0, 1.0).beyond_noise and runs.Difference(4.04, 1.0).beyond_noise
    assert runs.Difference(-4.04, 1.0).beyond_noise


@pytest.mark.parametrize("bad", [diverged, failed])
@pytest.mark.parametrize("seeds", [(7,), (0, 3), range(8)], ids=["one", "two", "all"])
def test_a_run_that_diverged_is_not_called_noise(bad, seeds):
    """As docs/comparison.md says: it ends as infinite, and no seed is left out."""
    _, right = paired([0.0] * 8)
    other = [bad(seed=run.seed) if run.seed in seeds else run for run in right]
    assert runs.difference(other, right) == runs.Difference(math.inf, 0.0)
    assert runs.difference(right, other) == runs.Difference(-math.inf, 0.0)
    assert runs.difference(other, right).beyond_noise
    assert runs.difference(right, other).beyond_noise


def test_the_limit_of_students_t():
    """Its density for 7 degrees, integrated here: ten comparisons share 5 %, on two sides."""
    t = np.linspace(0, runs.T_LIMIT, 100_001)
    scale = math.gamma(4) / (math.sqrt(7 * math.pi) * math.gamma(3.5))
    density = scale * (1 + t**2 / 7) ** -4
    tails = 1 - 2 * np.trapezoid(density, t)
    assert len(SEEDS) - 1 == 7
    comparisons = len(runs.FFN_VARIANTS) - 1 + len(runs.NORM_VARIANTS) - 1
    assert comparisons == 10
    assert tails == pytest.approx(0.05 / comparisons, abs=1e-4)


RIGHT = [ended(final, seed=seed) for seed, final in enumerate((2.0, 2.5, 2.25))]


@pytest.mark.parametrize(
    ("finals", "said"),
    [
        ((2.6, 3.0, 2.51), "worse"),
        ((2.6, 3.0, 2.5), "like right"),  # one is as bad as the worst right one, no worse
        ((1.9, 1.0, 1.99), "better"),
        ((1.9, 1.0, 2.0), "like right"),
        ((1.0, 2.25, 3.0), "like right"),
        ((2.1, 2.2, 2.3), "like right"),
    ],
)
def test_a_mistake_is_held_against_all_right_runs(finals, said):
    wrong = [ended(final, seed=seed) for seed, final in enumerate(finals)]
    assert runs.verdict(wrong, RIGHT, STEPS) == said


def test_a_verdict_reads_the_step_it_is_asked_for():
    pairs = zip(RIGHT, (4.0, 5.0, 6.0), strict=True)
    wrong = [run._replace(validation={100: early, STEPS: 1.0}) for run, early in pairs]
    assert runs.verdict(wrong, RIGHT, 100) == "worse"
    assert runs.verdict(wrong, RIGHT, STEPS) == "better"


def test_a_mistake_that_diverged_is_worse_and_one_that_raised_an_error():
    assert runs.verdict([diverged(seed=s) for s in range(3)], RIGHT, STEPS) == "worse"
    assert runs.verdict([ended(2.1), ended(2.2), diverged()], RIGHT, STEPS) == "like right"
    assert runs.verdict([failed(seed=s) for s in range(3)], RIGHT, STEPS) == "error"


# --- The plan


def test_no_variant_is_planned_twice():
    assert len(runs.VARIANTS) == len(set(runs.VARIANTS)) == 7 + 5 - 1
    assert set(runs.VARIANTS) == {*runs.FFN_VARIANTS, *runs.NORM_VARIANTS}
    assert set(runs.FFN_VARIANTS) & set(runs.NORM_VARIANTS) == {LLAMA}


def test_every_norm_has_its_own_name():
    assert [runs.norm_name(variant) for variant in runs.NORM_VARIANTS] == [
        *("RMSNorm before", "LayerNorm before", "RMSNorm after", "LayerNorm after", "no norm"),
    ]


def test_variants_are_made_of_what_the_model_knows():
    known = {"norm": tiny_llama.NORMS, "ffn": tiny_llama.FFNS, "block": tiny_llama.BLOCKS}
    for part, names in known.items():
        assert {getattr(variant, part) for variant in runs.VARIANTS} == set(names)
        assert not set(runs.MISTAKES[part]) & set(names)  # a name means one thing
    assert {v.ffn for v in runs.FFN_VARIANTS} == set(tiny_llama.FFNS)
    assert {v[::2] for v in runs.FFN_VARIANTS} == {("RMSNorm", "pre")}
    assert {v.ffn for v in runs.NORM_VARIANTS} == {"SwiGLU"}


@pytest.mark.parametrize("part", runs.MISTAKES)
def test_mistakes_are_those_of_the_catalogue(part):
    titles = {slip.id: slip.title for slip in exercises.load(runs.EXERCISES[part]).mistakes}
    words = [titles[name] for name in runs.MISTAKES[part]]
    assert all(words) and len(set(words)) == len(words)


def test_each_mistake_stands_in_one_place():
    assert len(runs.MISTAKEN) == len(set(runs.MISTAKEN)) == 22
    assert not set(runs.MISTAKEN) & set(runs.VARIANTS)
    for variant in runs.MISTAKEN:
        ((part, name),) = (set(variant._asdict().items())) - set(LLAMA._asdict().items())
        assert name in runs.MISTAKES[part]


def test_rates_double_and_no_seed_serves_twice():
    assert all(b == 2 * a for a, b in itertools.pairwise(RATES))
    assert not set(SEARCH_SEEDS) & set(SEEDS) and 900 not in {*SEARCH_SEEDS, *SEEDS}
    assert set(runs.MISTAKE_SEEDS) < set(SEEDS)
    for seeds in (SEARCH_SEEDS, SEEDS, runs.MISTAKE_SEEDS):
        assert list(seeds) == sorted(set(seeds))


# --- docs/comparison.md says what the code does


@pytest.fixture(scope="module")
def designed():
    return " ".join((ROOT / "docs" / "comparison.md").read_text(encoding="utf-8").split())


THOUSANDTHS = [f"{1000 * rate:g}" for rate in RATES]
WINDOWS = inspect.signature(tiny_llama.validation_loss).parameters["windows"].default
READ = STEPS * tiny_llama.BATCH * tiny_llama.WINDOW
WIDTH = 3 * tiny_llama.HIDDEN * (8 * tiny_llama.HIDDEN // 3)


@pytest.mark.parametrize(
    "words",
    [
        f"{tiny_llama.LAYERS} layers, D = {tiny_llama.HIDDEN}, {tiny_llama.HEADS} heads, bytes",
        f"{STEPS} steps of {tiny_llama.BATCH} windows of {tiny_llama.WINDOW} bytes",
        "AdamW (0.9, 0.95), decay 0.1 on matrices, gradients clipped to length 1",
        f"{WARMUP} steps of warm-up",
        f"mean loss on {WINDOWS} validation windows",
        f"4·D = {4 * tiny_llama.HIDDEN} and 8/3·D = {8 * tiny_llama.HIDDEN // 3} are whole",
        f"the same number of weights, {WIDTH:,}",
        f"tried at {', '.join(THOUSANDTHS[:-1])} and {THOUSANDTHS[-1]} thousandths",
        f"two seeds ({SEARCH_SEEDS[0]}, {SEARCH_SEEDS[1]})",
        f"Eight seeds ({SEEDS[0]} to {SEEDS[-1]})",
        f"more than {runs.T_LIMIT} standard errors",
        f"{len(SEEDS) - 1} degrees of freedom",
        "Ten are asked for: each other FFN against SwiGLU, each other norm against RMSNorm before",
        "ten comparisons share 5 %",
        "search again for the five norms, with no warm-up",
        f"{len(runs.MISTAKEN)} mistakes of the exercises' catalogue",
        f"three seeds ({', '.join(map(str, runs.MISTAKE_SEEDS))})",
        f"After {LOOKS[4]} and after {LOOKS[-1]} steps a mistake",
        "above all eight right ones",
        f"some {round(READ, -5):,} bytes read: less than once",
    ],
)
def test_the_design_has_the_numbers_of_the_code(words, designed):
    assert words in designed


def test_the_numbers_that_the_design_spells_out():
    assert (len(SEEDS), len(runs.NORM_VARIANTS), len(runs.MISTAKE_SEEDS)) == (8, 5, 3)
    assert {100, 400} <= set(LOOKS) and max(LOOKS) == STEPS == 400
    assert list(LOOKS) == sorted(LOOKS) and all(look % 10 == 0 for look in LOOKS)
    text = tiny_llama.python_text()
    assert len(text.train) > READ


# --- The records


@pytest.fixture(scope="module")
def lines():
    return (runs.DATA / "runs.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def records(lines):
    return runs.parse(lines)


@pytest.fixture(scope="module")
def rate(records):
    """That was chosen for the plain model."""
    return records.chosen(LLAMA)


def test_recorded_reads_the_file_once(records):
    assert runs.recorded() == records and runs.recorded() is runs.recorded()


SEARCHES = [
    *((variant, WARMUP) for variant in runs.VARIANTS),
    *((variant, 0) for variant in runs.NORM_VARIANTS),
]


@pytest.mark.parametrize(
    ("variant", "warmup"), SEARCHES, ids=[f"{'-'.join(v)}-{w}" for v, w in SEARCHES]
)
def test_each_rate_was_searched_with_both_seeds(variant, warmup, records):
    tried = [
        (r.rate, r.seed) for r in records.select(variant, warmup=warmup) if r.seed in SEARCH_SEEDS
    ]
    rates = sorted({rate for rate, _ in tried})
    assert tried == list(itertools.product(rates, SEARCH_SEEDS))
    assert set(RATES) <= set(rates)
    assert all(b == 2 * a for a, b in itertools.pairwise(rates))
    chosen = records.chosen(variant, warmup=warmup)
    assert rates[0] < chosen < rates[-1]  # else the search was too narrow
    assert math.isfinite(records.searched(variant, warmup=warmup)[chosen])


@pytest.mark.parametrize("variant", runs.VARIANTS, ids="-".join)
def test_each_variant_was_compared_with_all_seeds(variant, records):
    compared = records.compared(variant)
    assert [run.seed for run in compared] == list(SEEDS)
    assert {run.steps for run in compared} == {STEPS}
    assert {run.rate for run in compared} == {records.chosen(variant)}


def test_each_mistake_was_trained_three_times_at_the_plain_models_rate(records, rate):
    for variant in runs.MISTAKEN:
        made = records.select(variant)
        assert [run.seed for run in made] == list(runs.MISTAKE_SEEDS), variant
        assert {(run.rate, run.warmup, run.steps) for run in made} == {(rate, WARMUP, STEPS)}
        assert len({bool(run.error) for run in made}) == 1


def test_one_long_run_made_the_stored_model(records, rate):
    (long,) = (run for run in records.runs if run.steps != STEPS)
    assert long[:5] == (LLAMA, rate, WARMUP, 0, train.LONG)
    assert math.isfinite(long.final)
    right = [run.final for run in records.compared(LLAMA)]
    assert long.final < min(right)


def test_nothing_is_recorded_twice_or_besides_the_plan(records, rate):
    keys = [run[:5] for run in records.runs]
    assert len(set(keys)) == len(keys)
    planned = {(LLAMA, rate, WARMUP, 0, train.LONG)}
    for variant, warmup in SEARCHES:
        tried = records.searched(variant, warmup=warmup)
        planned |= {(variant, r, warmup, s, STEPS) for r in tried for s in SEARCH_SEEDS}
    for variant in runs.VARIANTS:
        best = records.chosen(variant)
        planned |= {(variant, best, WARMUP, seed, STEPS) for seed in SEEDS}
    for variant in runs.MISTAKEN:
        planned |= {(variant, rate, WARMUP, seed, STEPS) for seed in runs.MISTAKE_SEEDS}
    assert set(keys) == planned


def test_a_run_that_ended_has_all_of_its_numbers_and_another_fewer(records):
    for run in records.runs:
        every = run.steps // 10
        looks = list(LOOKS) if run.steps == STEPS else [every * n for n in range(1, 11)]
        if math.isfinite(run.final):
            assert (len(run.loss), list(run.validation)) == (run.steps // 10, looks)
            assert not run.error
        elif run.error:
            assert (run.loss, run.validation) == ((), {}) and run.variant in runs.MISTAKEN
        else:
            assert len(run.loss) <= run.steps // 10
            assert list(run.validation) == looks[: len(run.validation)] != looks
            assert all(step <= 10 * len(run.loss) for step in run.validation)


def test_every_number_is_one(lines, records):
    """JSON knows neither NaN nor infinity; Python's would write them all the same."""

    def refuse(word):
        raise AssertionError(word)

    for line in lines:
        json.loads(line, parse_constant=refuse)
    for run in records.runs:
        numbers = [run.rate, *run.loss, *run.validation.values()]
        assert all(type(n) is float and 0 < n < math.inf for n in numbers)
        assert type(run.warmup) is type(run.seed) is type(run.steps) is int


def test_the_file_is_as_the_tool_writes_it(records, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "DRAFT", tmp_path / "runs.part")
    shuffled = random.Random(0).sample(records.runs, len(records.runs))
    train.write(records._replace(runs=tuple(shuffled)))
    assert train.DRAFT.read_bytes() == (runs.DATA / "runs.jsonl").read_bytes()


def test_the_records_say_what_made_them(records):
    assert records.about.keys() == train.about().keys()
    assert records.about["command"] == "make train" and records.about["threads of a run"] == 1
    assert re.fullmatch("[0-9a-f]{12}", records.about["text"])
    assert not re.search(r"/(home|root|work|tmp|Users)\b", json.dumps(records.about))


def test_what_is_stored_stays_small():
    names = ("runs.jsonl", "tiny_llama.npz")
    assert sum((runs.DATA / name).stat().st_size for name in names) < 2_000_000


# --- The records, made again


@pytest.fixture
def text(records):
    text = tiny_llama.python_text()
    if text.sha != records.about["text"]:
        pytest.skip(f"Python {text.python} has other words than {records.about['python']}")
    return text


@pytest.mark.parametrize(
    ("variant", "seed"),
    [(LLAMA, 0), (Variant(norm="LayerNorm", block="post"), 3)],
    ids=["plain", "LayerNorm after"],
)
def test_the_first_thirty_steps_again(variant, seed, records, text):
    best = records.chosen(variant)
    (run,) = records.select(variant, rate=best, warmup=WARMUP, seed=seed)
    model = train.model_of(variant, seed)
    training = tiny_llama.train(model, text.train, best, seed)
    for ten in range(3):
        mean = statistics.mean(itertools.islice(training, 10))
        assert mean == pytest.approx(run.loss[ten], abs=0.02)
        loss = tiny_llama.validation_loss(model, text.validation)
        assert loss == pytest.approx(run.validation[10 * ten + 10], abs=0.02)


def test_the_stored_model_has_the_loss_of_the_long_run(records, text):
    """But for what float16 takes from its matrices."""
    (long,) = (run for run in records.runs if run.steps == train.LONG)
    loss = tiny_llama.validation_loss(inside.trained_llama(), text.validation)
    assert loss == pytest.approx(long.final, abs=0.005)


def test_other_seeds_or_one_alone_are_no_pairs():
    other, right = paired([0.1] * 8)
    for these, those in ((other[::-1], right), (other[:1], right[:1]), ([], [])):
        with pytest.raises(ValueError, match="both must have the same seeds, two or more"):
            runs.difference(these, those)


def test_a_rate_of_what_was_not_searched_is_not_chosen():
    with pytest.raises(LookupError, match=r"no search of .*ReLU.* with warmup 0 is recorded"):
        runs.recorded().chosen(runs.Variant(ffn="ReLU"), warmup=0)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda lines: [], "no first line"),
        (lambda lines: lines[1:], "line 1 is no run"),
        (
            lambda lines: [*lines[:3], "<<<<<<< HEAD", *lines[3:]],
            "line 4 is no run: '<<<<<<< HEAD'",
        ),
        (lambda lines: [*lines, lines[-1]], "a run is there twice"),
        (lambda lines: [lines[0], lines[1][:50]], "line 2 is no run"),
        (lambda lines: [lines[0], "{}"], "line 2 is no run"),
    ],
)
def test_a_spoilt_file_is_refused_with_its_line(spoil, said):
    lines = (runs.DATA / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    with pytest.raises(ValueError, match=re.escape(said)):
        runs.parse(spoil(lines))
