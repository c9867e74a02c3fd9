"""One of two processes; a fixture of conftest.py starts both. Writes what it saw as JSON, then rank 1 dies."""

import json
import os
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from zoo import rank_example

from jbpool import JBPool
from jbpool.errors import ProcessError
from jbpool.processes import (
    barrier,
    gather,
    mean_gradients,
    mean_over_processes,
    process_group,
    rank,
    total_over_processes,
    world_size,
)  # fmt: skip


def gradients():
    """Mean of 1 and 3; of 4 and none; a frozen parameter."""
    shared, sometimes, frozen = (nn.Parameter(torch.ones(2, 2)) for _ in range(3))
    frozen.requires_grad_(False)
    ((1 + 2 * rank()) * shared + (4 * sometimes if rank() == 0 else 0)).sum().backward()
    mean_gradients([shared, sometimes, frozen])
    return [None if parameter.grad is None else parameter.grad.tolist() for parameter in (shared, sometimes, frozen)]


def total():
    x = torch.tensor([1.0, 10.0]) * (rank() + 1)
    return {"value": total_over_processes(x).tolist(), "input": x.tolist()}


def distributed_data_parallel():
    """The gradient of a pool on the example of this process, averaged by torch."""
    torch.manual_seed(0)
    pool = DistributedDataParallel(JBPool(5, 3))
    pool(*rank_example(rank())).loss.backward()
    return pool.module.mlp[0].weight.grad.tolist()


def main(out: Path):
    with process_group(torch.device("cpu")):
        seen = {
            "ranks": gather(rank()),
            "world_size": world_size(),
            "gathered": gather({"name": f"rank {rank()}", "size": rank()}),
            "gradients": gradients(),
            "total": total(),
            "mean": mean_over_processes(torch.tensor(float(rank() * 3))),
            "data parallel": distributed_data_parallel(),
        }
        barrier()
        (out / f"{rank()}.json").write_text(json.dumps(seen))
        if rank() == 1:
            os._exit(1)                                     # as if killed: without a message
        for name, call in {
            "barrier": barrier,
            "mean": lambda: mean_over_processes(torch.ones(())),
            "gather": lambda: gather(1),
            "gradients": gradients,
        }.items():
            try:
                call()
                seen[f"{name} alone"] = "no error"
            except ProcessError as error:
                seen[f"{name} alone"] = [str(error), isinstance(error.__cause__, RuntimeError)]
        (out / "0.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
