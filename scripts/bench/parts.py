"""Memory of every process that loads edges in part, beside what it keeps.

    python scripts/bench/parts.py [--nodes 1000000] [--degree 20] [--processes 1 2 4]

A random graph in a file (E, 2) of int32. MB beyond those before loading, the worst process: while edges are read and
exchanged, while components are counted, and of the graph that is kept.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10**6)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    args = parser.parse_args()
    print("| processes | entries | halo | read, MB | count, MB | kept, MB | read, s |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "edges.npy")
        shape = args.nodes * args.degree // 2, 2
        np.save(path, np.random.default_rng(0).integers(0, args.nodes, shape, dtype=np.int32))
        for count in args.processes:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = str(free.getsockname()[1])
            group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}
            started = [
                subprocess.Popen([sys.executable, __file__, str(path)], env={**os.environ, **group, "RANK": str(place)})
                for place in range(count)
            ]
            if any([process.wait() for process in started]):
                sys.exit("a process has failed")


def load(path: str) -> None:
    """Load the file in one of the processes; the first one prints."""
    import torch

    from jbpool.data import load_nodes
    from jbpool.processes import gather, process_group, rank

    def memory() -> float:
        """Return the anonymous memory of this process, in MB."""
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) / 1024

    peak = [0.0]

    def watch() -> None:
        while True:
            peak[0] = max(peak[0], memory())
            time.sleep(0.005)

    with process_group(torch.device("cpu")):
        gather(0)
        before, began = memory(), time.perf_counter()
        threading.Thread(target=watch, daemon=True).start()
        data = load_nodes("file", edges=path)
        read, seconds, peak[0] = peak[0] - before, time.perf_counter() - began, 0.0
        data.read                       # noqa: B018 - counts components
        found = gather((data.graph.num_edges, len(data.graph.halo.wanted), read, peak[0] - before, memory() - before))
        if rank() == 0:
            cells = [f"{max(column):,.0f}" for column in zip(*found, strict=True)]
            print(f"| {len(found)} | {' | '.join(cells)} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    load(sys.argv[1]) if "RANK" in os.environ else main()
