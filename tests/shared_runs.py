"""Runs that one, two and three processes are compared on; as a script, one of several processes of such runs."""

import sys
from pathlib import Path

import torch

from jbpool.clustering import assignments
from jbpool.clustering.node_cluster import NODE_CLUSTER
from jbpool.engine.config import load_config
from jbpool.processes import process_group

RUNS = {
    "sbm": ["dataset.name=sbm", "dataset.num_nodes=3000", "method.num_clusters=2-6"],
    "pubmed": ["dataset.name=pubmed", "method.num_clusters=3"],
}  # fmt: skip


def run(name: str, folder: Path, seeds: str = "[0, 1]", joined: int = 10**8) -> None:
    """What is finished is not repeated; beyond so many nodes, every process leaves its clusters as a file."""
    assignments.JOINED = joined
    config = load_config(NODE_CLUSTER, "auto", [*RUNS[name], f"train.seeds={seeds}", "train.restarts=4"])
    data, resume = NODE_CLUSTER.load_data(config), (folder / "finished.pt").exists()
    NODE_CLUSTER.run(config, data, folder, torch.device("cpu"), resume=resume)


if __name__ == "__main__":
    with process_group(torch.device("cpu")):
        for name in sys.argv[2].split(","):
            run(name, Path(sys.argv[1]) / name, *sys.argv[3:4], *map(int, sys.argv[4:]))
