"""How long edges take to load from each kind of file, and how much memory at most.

    python scripts/bench/load.py [--edges 10000000] [--nodes 1000000]

Writes the same random graph, both directions of every edge, as .npy, .npz, CSV and Parquet (where pyarrow is installed)
to a temporary folder, and loads each file in a process of its own. Prints a Markdown table. Memory is the growth of the
peak resident set after the imports; pages of a memory-mapped file count too. Features made from the edges are timed
apart.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOAD = """
import resource, sys, time
from jbpool.clustering.auto.views import edge_view
from jbpool.data.own.one_graph import load_node_files
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
began = time.perf_counter()
data = load_node_files(edges=sys.argv[1])
print(time.perf_counter() - began, peak() - before, data.graph.num_edges)
if sys.argv[2] == "features":
    began = time.perf_counter()
    edge_view(data.graph, 8, data.edge_weight)
    print(time.perf_counter() - began)
"""


FILES = {
    ".npy": "edges.npy",
    ".npz": "edges.npz",
    ".npz, weights": "weighted.npz",
    "CSV": "edges.csv",
    "CSV, weights": "weighted.csv",
    "CSV, text ids": "text.csv",
    "Parquet": "edges.parquet",             # written where pyarrow is installed
}


def write_files(folder: Path, num_edges: int, num_nodes: int) -> None:
    """Write a random graph, both directions of every edge, in every format."""
    import numpy as np
    import pandas as pd

    half = np.random.default_rng(0).integers(0, num_nodes, (num_edges // 2, 2))
    ends = np.concatenate([half, half[:, ::-1]])                                # (E, 2)
    source, target, weight = ends[:, 0], ends[:, 1], np.full(len(ends), 0.5)
    np.save(folder / FILES[".npy"], ends)
    np.savez(folder / FILES[".npz"], source=source, target=target)
    np.savez(folder / FILES[".npz, weights"], source=source, target=target, weight=weight)
    frame = pd.DataFrame(ends, columns=["source", "target"])
    frame.to_csv(folder / FILES["CSV"], index=False)
    frame.assign(weight=weight).to_csv(folder / FILES["CSV, weights"], index=False)
    if importlib.util.find_spec("pyarrow"):
        frame.to_parquet(folder / FILES["Parquet"])
    ("user-" + frame.astype(str)).to_csv(folder / FILES["CSV, text ids"], index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=10_000_000, help="directed edges")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    args = parser.parse_args()
    print(f"{args.edges:,} directed edges among {args.nodes:,} nodes\n")
    print("| file | size, MB | load, s | peak memory, MB | bytes per directed edge |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: a child starts with the peak memory of its parent.
        writer = multiprocessing.get_context("spawn").Process(target=write_files, args=(folder, args.edges, args.nodes))
        writer.start()
        writer.join()
        if writer.exitcode:
            sys.exit("the files could not be written")
        for kind, path in ((kind, folder / file) for kind, file in FILES.items()):
            if path.exists():
                seconds, peak, edges = _measure(path)[0]
                size = path.stat().st_size / 1e6
                print(f"| {kind} | {size:.0f} | {seconds:.1f} | {peak / 1e6:.0f} | {peak / edges:.1f} |", flush=True)
        print(f"\nFeatures from the edges: {_measure(folder / FILES['.npy'], 'features')[1][0]:.1f} s")


def _measure(path: Path, features: str = "") -> list[list[float]]:
    command = [sys.executable, "-c", LOAD, str(path), features]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)        # imports from here
    return [[float(number) for number in line.split()] for line in done.stdout.splitlines()]


if __name__ == "__main__":
    main()
