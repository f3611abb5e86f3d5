"""Train the tiny Llama in all its variants and record the runs: `make train`.

The plan stands in course_utils/runs.py, its reasons in docs/comparison.md. What is recorded already
is not trained again, so a stopped command goes on where it was: `--fresh` begins anew. Each run has
one thread, so its numbers do not depend on how many run beside it.
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
CHECKPOINT = runs.DATA / "tiny_llama.npz"
LONG = 3000  # steps of the model that is stored
EXERCISE = {"norm": "rms_norm", "ffn": "swiglu_ffn", "block": "llama_block"}


def model_of(variant, seed):
    """The TinyLlama of a variant; a mistake's name stands for the catalogue's own code."""
    parts = variant._asdict()
    for part, exercise in EXERCISE.items():
        if parts[part] in runs.MISTAKES[part]:
            known = exercises.load(exercise).mistakes
            parts[part] = next(m.wrong for m in known if m.id == parts[part])
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
        rates, best = list(records.searched(variant, warmup=warmup)), records.chosen(variant, warmup=warmup)
        if best == rates[0]:
            yield from search_jobs([variant], [best / 2], warmup)
        if best == rates[-1]:
            yield from search_jobs([variant], [best * 2], warmup)


def compared_jobs(records):
    for variant in runs.VARIANTS:
        rate = records.chosen(variant, warmup=WARMUP)
        yield from itertools.product([variant], [rate], [WARMUP], runs.SEEDS)
    rate = records.chosen(LLAMA, warmup=WARMUP)
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
    if not RECORDS.exists():
        return runs.Records(about(), ())
    records = runs.parse(RECORDS.read_text(encoding="utf-8").splitlines())
    if records.about != about():
        raise SystemExit(
            f"{RECORDS} was made by {records.about}; this is {about()}. --fresh begins anew."
        )
    return records


def write(records):
    """In a fixed order, whole or not at all."""
    ordered = sorted(records.runs, key=lambda r: (r.steps, r.variant, -r.warmup, r.rate, r.seed))
    lines = [json.dumps(records.about), *(json.dumps(run._asdict()) for run in ordered)]
    draft = RECORDS.with_suffix(".part")
    draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draft.replace(RECORDS)


def do(records, jobs, pool, title):
    """Train what is not recorded yet; returns the Records with it."""
    known = {(run.variant, run.rate, run.warmup, run.seed) for run in records.runs}
    missing = [job for job in dict.fromkeys(jobs) if job not in known]
    tasks = [pool.submit(train_one, job) for job in missing]
    for done in tqdm(as_completed(tasks), total=len(tasks), desc=title, unit="run"):
        records = records._replace(runs=(*records.runs, done.result()))
        write(records)
    return records


def save(model):
    """The checkpoint: matrices in float16, for size; norm weights as they are."""
    state = model.state_dict().items()
    arrays = {k: v.half().numpy() if v.ndim == 2 else v.numpy() for k, v in state}
    np.savez_compressed(CHECKPOINT, **arrays)


def main(workers):
    records = read()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,)) as pool:
        for warmup, variants in ((WARMUP, runs.VARIANTS), (0, runs.NORM_VARIANTS)):
            words = "with warm-up" if warmup else "without"
            records = do(records, search_jobs(variants, runs.RATES, warmup), pool, f"search {words}")
            while more := list(wider(records, variants, warmup)):
                records = do(records, more, pool, f"wider search {words}")
        records = do(records, compared_jobs(records), pool, "comparison")
    rate = records.chosen(LLAMA, warmup=WARMUP)
    print(f"{LONG} steps for the model that is stored", flush=True)
    long, model = trained(LLAMA, rate, WARMUP, 0, LONG)
    write(records._replace(runs=(*(r for r in records.runs if r.steps != LONG), long)))
    save(model)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--fresh", action="store_true", help="forget what is recorded")
    options = parser.parse_args()
    if options.fresh:
        RECORDS.unlink(missing_ok=True)
    main(options.workers)
