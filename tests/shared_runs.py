"""Runs that one, two and three processes are compared on; as a script, one of several processes of such runs."""

import sys
from contextlib import suppress
from pathlib import Path

import torch

from jbpool.clustering.auto import bounded_heads as heads
from jbpool.clustering.runner import Job
from jbpool.clustering.task import NODE_CLUSTER
from jbpool.engine import fit
from jbpool.engine.config import load_config
from jbpool.processes import process_group

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
RUNS = {
    "sbm": ["dataset.name=sbm", "dataset.num_nodes=3000", "method.num_clusters=4",
            "train.restarts=16"],
    "cora": ["dataset.name=cora", f"dataset.root={SHARED}", "method.num_clusters=7", "train.restarts=8"],
    "pubmed": ["dataset.name=pubmed", f"dataset.root={SHARED}", "method.num_clusters=3", "train.restarts=8"],
}  # fmt: skip


def config_of(name: str):
    """With blocks that are small enough for every process to have some rows."""
    heads.BLOCK = 2**15
    return load_config(NODE_CLUSTER, "large", [*RUNS[name], "train.epochs=30", "train.eval_every=5"])


class StoppedError(Exception):
    pass


def stop(*_):
    raise StoppedError


def main(out: Path, names: list[str], stopped: Path):
    """All runs; then one that is stopped, or that continues what others have left in the folder ``stopped``."""

    def run(name: str, folder: Path, resume: bool = False) -> None:
        config = config_of(name)
        NODE_CLUSTER.run(config, NODE_CLUSTER.load_data(config), folder, torch.device("cpu"), resume=resume)

    with process_group(torch.device("cpu")):
        for name in names:
            run(name, out / name)
        if stopped.exists():
            run("sbm", stopped, resume=True)
        else:                                       # when the seed is finished: what is left is the last checkpoint
            fit.CHECKPOINT_SECONDS, Job.finish = 0, stop
            with suppress(StoppedError):
                run("sbm", stopped)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2].split(","), Path(sys.argv[3]))
