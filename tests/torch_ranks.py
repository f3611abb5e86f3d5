"""One rank of the same layers cut by PyTorch's own parallelize_module: started by two_ranks.

python torch_ranks.py FOLDER RANK WORLD_SIZE, as `course_utils.two_ranks` is.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from course_utils.layers import FusedSwiGLU, SwiGLU
from course_utils.packing import convert_ffn_names


def cut(layer, weights, world_size):
    layer.load_state_dict(weights)
    plan = {n: RowwiseParallel() if n == "down_proj" else ColwiseParallel() for n in _names(layer)}
    return parallelize_module(layer, init_device_mesh("cpu", (world_size,)), plan)


def _names(layer):
    return [name for name, _ in layer.named_children()]


def main(folder, rank, world_size):
    x, w_gate_up, w_down = torch.load(folder / f"in{rank}.pt", weights_only=True)
    fused = {"gate_up_proj.weight": w_gate_up, "down_proj.weight": w_down}
    sizes = w_down.shape
    meeting = (folder / "meeting").as_uri()
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world_size)
    separate = cut(SwiGLU(*sizes), convert_ffn_names(fused, "hf"), world_size)
    packed = cut(FusedSwiGLU(*sizes), fused, world_size)
    with torch.no_grad():
        result = {"separate": separate(x) + 0, "fused": packed(x) + 0}  # + 0 waits for the sum
    for name, weight in separate.named_parameters():
        result[name] = weight.to_local().detach().clone()
    torch.save(result, folder / f"out{rank}.pt")
    dist.barrier()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    os._exit(0)  # as course_utils.two_ranks ends
