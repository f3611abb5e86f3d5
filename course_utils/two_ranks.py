"""A SwiGLU layer cut over real processes: each rank computes with its part, one all-reduce adds up.

python -m course_utils.two_ranks FOLDER RANK WORLD_SIZE is one rank; `run_sharded` starts them.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch

from .packing import swiglu_packed


def run_sharded(x, shards, timeout=60):
    """Compute SwiGLU in one process per shard. Returns each rank's output after the all-reduce.

    x: (..., D), given to every rank. shards: one pair (w_gate_up, w_down) for each rank, as
    `packing.shard_gate_up` and `packing.shard_down` cut them. timeout: seconds for everything.
    The processes meet through a file in a temporary folder and speak over the loopback device
    (`torch.distributed`, gloo). No fork. Nothing is left behind: no process and no file.
    Raises RuntimeError, with the last line it wrote to stderr, when a rank dies; TimeoutError when
    the time is over. In both cases the others are killed first.
    """
    shards = [tuple(shard) for shard in shards]
    if not shards or any(len(shard) != 2 for shard in shards):
        raise ValueError("shards must hold one pair (w_gate_up, w_down) for each rank")
    if not all(isinstance(t, torch.Tensor) for shard in shards for t in (x, *shard)):
        raise TypeError("x and the shards must be torch tensors")
    if len({len(w_down) for _, w_down in shards}) > 1:
        raise ValueError("every w_down must have the same number of rows, D")
    with tempfile.TemporaryDirectory(prefix="ranks-") as name:
        folder = Path(name)
        for rank, shard in enumerate(shards):  # clone: a view would be stored with all its base
            torch.save([t.detach().cpu().clone() for t in (x, *shard)], folder / f"in{rank}.pt")
        ranks = []
        try:
            for rank in range(len(shards)):
                ranks.append(_start(folder, rank, len(shards)))
            _wait(ranks, folder, timeout)
        finally:
            for process in ranks:
                process.kill()  # nothing happens to one that has ended
                process.wait()
        outputs = [folder / f"out{rank}.pt" for rank in range(len(shards))]
        return [torch.load(path, weights_only=True) for path in outputs]


def _command(folder, rank, world_size):
    return [sys.executable, "-m", "course_utils.two_ranks", str(folder), str(rank), str(world_size)]


def _start(folder, rank, world_size):
    paths = [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[1])]  # wherever we are from
    settings = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    loopback = {"lo", "lo0"} & {name for _, name in socket.if_nameindex()}
    if loopback:  # gloo would look up this machine's name, which may lead outside
        settings["GLOO_SOCKET_IFNAME"] = loopback.pop()
    with open(folder / f"stderr{rank}", "wb") as stderr:  # a pipe could fill and block
        return subprocess.Popen(
            _command(folder, rank, world_size),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=os.environ | settings,
        )


def _wait(ranks, folder, timeout):
    end = time.monotonic() + timeout
    while (codes := [process.poll() for process in ranks]) != [0] * len(ranks):
        if any(codes):
            died = [rank for rank, code in enumerate(codes) if code]
            raise RuntimeError("; ".join(_last_words(folder, r, codes[r]) for r in died))
        if time.monotonic() > end:
            slow = ", ".join(str(rank) for rank, code in enumerate(codes) if code is None)
            raise TimeoutError(f"not ready after {timeout:g} s: rank {slow}")
        time.sleep(0.02)


def _last_words(folder, rank, code):
    text = (folder / f"stderr{rank}").read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    return f"rank {rank} died with exit code {code}: {lines[-1] if lines else 'it wrote nothing'}"


def _work(folder, rank, world_size):
    import torch.distributed as dist

    x, w_gate_up, w_down = torch.load(folder / f"in{rank}.pt", weights_only=True)
    y = swiglu_packed(x, w_gate_up, w_down)  # (..., D): this rank's hidden units only
    dist.init_process_group(
        "gloo",
        init_method=(folder / "meeting").as_uri(),
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=60),
    )
    dist.all_reduce(y)  # the one step that needs the others: add all y
    torch.save(y, folder / f"out{rank}.pt")
    dist.barrier()  # nobody leaves while another still reads


if __name__ == "__main__":
    _work(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    os._exit(0)  # at once: in an orderly end gloo's threads now and then abort the process
