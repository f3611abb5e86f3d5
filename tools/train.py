"""Train the tiny Llama in all its variants and record the runs: `make train`.

The plan stands in course_utils/runs.py, its reasons in docs/comparison.md. Runs are written to a
draft, which takes the place of the records when all are there; a stopped command goes on from its
draft. Delete that after a change of the code: it knows versions only. Each run has one thread, so
its numbers do not depend on how many run beside it.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import platform
import statistics
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from course_utils import exercises, runs, tiny_llama
from course_utils.runs import LLAMA, Run
from course_utils.tiny_llama import LOOKS, STEPS, WARMUP

RECORDS = runs.DATA / "runs.jsonl"
DRAFT = runs.DATA / "runs.part"
CHECKPOINT = runs.DATA / "tiny_llama.npz"
LONG = 3000  # steps of the model that is stored


def model_of(variant, seed):
    """The TinyLlama of a variant; a mistake's name stands for the catalogue's own code."""
    parts = variant._asdict()
    for part, exercise in runs.EXERCISES.items():
        if parts[part] in runs.MISTAKES[part]:
            parts[part] = exercises.mistake(exercise, parts[part]).wrong
    return tiny_llama.TinyLlama(**parts, seed=seed)


def trained(variant, rate, warmup, seed, steps=STEPS):
    """Train once; returns the Run and the model."""
    text, model = tiny_llama.python_text(), model_of(variant, seed)
    looks = {*LOOKS, steps} if steps == STEPS else set(range(steps // 10, steps + 1, steps // 10))
    losses, validation, error = [], {}, ""
    try:
        training = tiny_llama.train(model, text.train, rate, seed, warmup=warmup, steps=steps)
        for step, loss in enumerate(training, start=1):
            losses.append(loss)
            if step in looks:
                validation[step] = round(tiny_llama.validation_loss(model, text.validation), 4)
            if not math.isfinite(loss) or not math.isfinite(validation.get(step, 0)):
                validation.pop(step, None)
                break
    except RuntimeError as caught:
        if losses or variant not in runs.MISTAKEN:
            raise  # only a mistake may fail, and that at once
        error = str(caught).splitlines()[0]
    tens = [losses[i : i + 10] for i in range(0, len(losses), 10)]
    means = tuple(round(m, 4) for m in map(statistics.mean, tens) if math.isfinite(m))
    return Run(variant, rate, warmup, seed, steps, means, validation, error), model


def train_one(job):
    return trained(*job)[0]


def search_jobs(variants, rates, warmup):
    return itertools.product(variants, rates, [warmup], runs.SEARCH_SEEDS)


def wider(records, variants, warmup):
    """The next rate for each variant whose best one is at an end of what was tried."""
    for variant in variants:
        rates = list(records.searched(variant, warmup=warmup))
        tried = {(run.rate, run.seed) for run in records.select(variant, warmup=warmup)}
        left = [j for j in search_jobs([variant], rates, warmup) if (j[1], j[3]) not in tried]
        if left:  # by a command that was stopped
            yield from left
            continue
        best = records.chosen(variant, warmup=warmup)
        if not math.isfinite(records.searched(variant, warmup=warmup)[best]):
            raise SystemExit(f"{variant} does not train at any of the rates {rates}")
        if best == rates[0]:
            yield from search_jobs([variant], [best / 2], warmup)
        if best == rates[-1]:
            yield from search_jobs([variant], [best * 2], warmup)


def compared_jobs(records):
    for variant in runs.VARIANTS:
        rate = records.chosen(variant)
        yield from itertools.product([variant], [rate], [WARMUP], runs.SEEDS)
    rate = records.chosen(LLAMA)
    yield from itertools.product(runs.MISTAKEN, [rate], [WARMUP], runs.MISTAKE_SEEDS)


def about():
    """What made the runs; runs of two kinds do not go into one file."""
    text = tiny_llama.python_text()
    return {
        "command": "make train",
        "python": text.python,
        "torch": torch.__version__.split("+")[0],
        "text": text.sha,
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}",
        "threads of a run": 1,
    }


def _processor():
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def read():
    """The draft of an earlier command of the same make, or none."""
    if not DRAFT.exists():
        return runs.Records(about(), ())
    try:
        records = runs.parse(DRAFT.read_text(encoding="utf-8").splitlines())
    except ValueError as problem:
        raise SystemExit(f"{DRAFT} cannot be read: {problem}. Delete it first.") from None
    if records.about != about():
        raise SystemExit(
            f"{DRAFT} was made by {records.about}; this is {about()}. Delete it first."
        )
    return records


def write(records):
    """Into the draft, in a fixed order, whole or not at all."""
    ordered = sorted(records.runs, key=lambda r: (r.steps, r.variant, -r.warmup, r.rate, r.seed))
    lines = [json.dumps(records.about), *(json.dumps(run._asdict()) for run in ordered)]
    new = DRAFT.with_suffix(".new")
    new.write_text("\n".join(lines) + "\n", encoding="utf-8")
    new.replace(DRAFT)


def do(records, jobs, pool, title):
    """Train what is not recorded yet; returns the Records with it."""
    done = (run for run in records.runs if run.steps == STEPS)
    known = {(run.variant, run.rate, run.warmup, run.seed) for run in done}
    missing = [job for job in dict.fromkeys(jobs) if job not in known]
    tasks = [pool.submit(train_one, job) for job in missing]
    try:
        for task in tqdm(as_completed(tasks), total=len(tasks), desc=title, unit="run"):
            records = records._replace(runs=(*records.runs, task.result()))
            write(records)
    finally:  # when it is stopped, what has not begun does not begin
        for task in tasks:
            task.cancel()
    return records


def save(model):
    """The checkpoint: matrices in float16, for size; norm weights as they are."""
    state = model.state_dict().items()
    arrays = {k: v.half().numpy() if v.ndim == 2 else v.numpy() for k, v in state}
    new = CHECKPOINT.with_suffix(".new")
    with new.open("wb") as file:  # numpy would add its suffix to a name
        np.savez_compressed(file, **arrays)
    new.replace(CHECKPOINT)


def main(workers):
    torch.set_num_threads(1)
    records = read()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,)) as pool:
        for warmup, variants in ((WARMUP, runs.VARIANTS), (0, runs.NORM_VARIANTS)):
            title = f"search, {warmup} steps of warm-up"
            records = do(records, search_jobs(variants, runs.RATES, warmup), pool, title)
            while more := list(wider(records, variants, warmup)):
                records = do(records, more, pool, f"wider {title}")
        records = do(records, compared_jobs(records), pool, "comparison")
    print(f"{LONG} steps for the model that is stored", flush=True)
    long, model = trained(LLAMA, records.chosen(LLAMA), WARMUP, 0, LONG)
    save(model)
    write(records._replace(runs=(*(run for run in records.runs if run.steps == STEPS), long)))
    DRAFT.replace(RECORDS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="runs at a time")
    options = parser.parse_args()
    if options.workers < 1:
        parser.error(f"workers must be 1 or more, got {options.workers}")
    main(options.workers)
