"""Real processes: they agree with torch, they say why they die, and nothing is left behind."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from course_utils import two_ranks
from course_utils.packing import fuse_gate_up, shard_down, shard_gate_up
from course_utils.two_ranks import run_sharded

SLEEP = "import time; time.sleep(100)"


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The processes that were started; at the end none may live, and no file may be left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    processes, popen = [], subprocess.Popen

    def start(*args, **kwargs):
        processes.append(popen(*args, **kwargs))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    yield processes
    assert processes and all(process.returncode is not None for process in processes)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def layer():
    g = torch.Generator().manual_seed(0)
    x, w_gate, w_up, w_down = (
        torch.randn(size, generator=g) / 4 for size in ((2, 5, 16), (12, 16), (12, 16), (16, 12))
    )
    right = (F.silu(x @ w_gate.T) * (x @ w_up.T)) @ w_down.T
    return x, fuse_gate_up(w_gate, w_up), w_down, right


def commands(monkeypatch, *codes):
    """Let the ranks run these lines of Python, without the second that torch takes to import."""
    monkeypatch.setattr(
        two_ranks, "_command", lambda folder, rank, _: [sys.executable, "-c", codes[rank]]
    )


def test_two_processes_compute_the_whole_layer_without_a_word(started, layer, capfd, monkeypatch):
    x, w_gate_up, w_down, right = layer
    monkeypatch.setattr(os, "fork", None, raising=False)  # a server may forbid it
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tempfile.gettempdir())  # course_utils is not in this folder
    shards = [(shard_gate_up(w_gate_up, r, 2), shard_down(w_down, r, 2)) for r in range(2)]
    outputs = run_sharded(x.requires_grad_(), shards)
    assert len(outputs) == len(started) == 2
    for y in outputs:
        torch.testing.assert_close(y, right, atol=1e-6, rtol=1e-6)
    assert capfd.readouterr() == ("", "")


def test_pytorchs_own_plan_cuts_as_we_do_but_for_a_fused_weight(started, layer, monkeypatch):
    """ColwiseParallel and RowwiseParallel; on gate_up_proj they cut blocks, which is the trap."""
    script = str(Path(__file__).with_name("torch_ranks.py"))
    monkeypatch.setattr(
        two_ranks,
        "_command",
        lambda folder, rank, n: [sys.executable, script, str(folder), str(rank), str(n)],
    )
    x, w_gate_up, w_down, right = layer
    outputs = run_sharded(x, [(w_gate_up, w_down)] * 2)
    for rank, theirs in enumerate(outputs):
        torch.testing.assert_close(theirs["separate"], right, atol=1e-6, rtol=1e-6)
        gate_up = torch.cat([theirs["gate_proj.weight"], theirs["up_proj.weight"]])
        assert torch.equal(shard_gate_up(w_gate_up, rank, 2), gate_up)
        assert torch.equal(shard_down(w_down, rank, 2), theirs["down_proj.weight"])
        assert (theirs["fused"] - right).norm() > right.norm()


def test_a_rank_that_dies_gives_its_last_words_and_the_other_is_killed(started, layer):
    x, w_gate_up, w_down, _ = layer
    with pytest.raises(
        RuntimeError, match=r"^rank 1 died with exit code 1: RuntimeError: .*10x12 and 3x16"
    ):
        run_sharded(x, [(w_gate_up, w_down), (w_gate_up, w_down[:, :3])])
    assert started[0].returncode != 0


def test_a_rank_that_dies_in_silence_is_named_too(started, layer, monkeypatch):
    commands(monkeypatch, "import os; os._exit(3)", SLEEP)
    with pytest.raises(RuntimeError, match=r"^rank 0 died with exit code 3: it wrote nothing$"):
        run_sharded(layer[0], [layer[1:3]] * 2)


def test_a_rank_that_writes_much_does_not_block(started, layer, monkeypatch):
    noisy = "import sys; sys.stderr.write('x' * 10**6 + '\\nlast line\\n\\n'); sys.exit(1)"
    commands(monkeypatch, SLEEP, noisy)
    with pytest.raises(RuntimeError, match=r"^rank 1 died with exit code 1: last line$"):
        run_sharded(layer[0], [layer[1:3]] * 2)


def test_a_rank_that_hangs_is_killed_when_the_time_is_over(started, layer, monkeypatch):
    commands(monkeypatch, "", SLEEP)
    with pytest.raises(TimeoutError, match=r"^not ready after 0.5 s: rank .*1$"):
        run_sharded(layer[0], [layer[1:3]] * 2, timeout=0.5)


def test_an_interrupt_leaves_nothing_behind(started, layer, monkeypatch):
    commands(monkeypatch, SLEEP, SLEEP)

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(two_ranks.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_sharded(layer[0], [layer[1:3]] * 2)


def test_no_shards_are_refused(layer):
    with pytest.raises(ValueError, match="shards must hold one pair"):
        run_sharded(layer[0], [])
