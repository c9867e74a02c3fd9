"""Time and memory of ``jbpool cluster`` whose rows are divided between processes.

    python scripts/bench/rows.py [--sizes 1e5 1e6] [--processes 1 2 4] [--features 0 32] [--limit MB] [--checkout DIR]

Planted partitions of 16 classes and mean degree 20, 80 % of the edges inside, in random order. Every run is
``jbpool cluster edges.npy -k 16`` with 4 starts. Memory is the largest anonymous memory of a process, less that of a
graph of 1,000 nodes: beyond the libraries. ``--limit``: RLIMIT_DATA of each process. ``--checkout``: another version.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import scale
from timing import ROOT, write

DEGREE, POLLED = 20, 0.02           # seconds between two looks at the memory


def measure(
    folder: Path, features: int, processes: int, threads: int, limit: int | None, checkout: Path
) -> tuple[float, float] | None:
    """Return seconds, and the highest anonymous memory of a process in MB; ``None`` if the run failed."""
    with socket.socket() as free, tempfile.TemporaryDirectory() as out:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(processes)}
        common = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": str(threads)}
        common["MALLOC_MMAP_THRESHOLD_"] = "1000000"            # what is freed returns to the system
        command = [sys.executable, "-m", "jbpool", "cluster", str(folder / "edges.npy"), "-k", str(scale.CLASSES)]
        command += ["--features", str(folder / "features.npy")] if features else []
        command += ["--set", f"train.restarts={scale.STARTS}", "--seeds", "0", "--out", f"{out}/run"]
        began, peak = time.perf_counter(), 0

        def limited() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_DATA, (limit * 10**6,) * 2)

        started = [
            subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=checkout, preexec_fn=limited,
                env={**common, **(group if processes > 1 else {}), "RANK": str(rank), "LOCAL_RANK": str(rank)},
            ) for rank in range(processes)
        ]  # fmt: skip
        while any(process.poll() is None for process in started):
            peak = max(peak, *(anonymous(process.pid) for process in started))
            time.sleep(POLLED)
        seconds = time.perf_counter() - began
        return None if any(process.returncode for process in started) else (seconds, peak / 1e6)


def anonymous(pid: int) -> int:
    """Return the anonymous memory of a process; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=float, default=[1e5, 1e6])
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--features", nargs="+", type=int, default=[0, 32])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=int, help="MB of data of a process")
    parser.add_argument("--checkout", type=Path, default=ROOT)
    args = parser.parse_args()
    rows: list[list[str]] = []
    for size in (1000, *map(int, args.sizes)):
        scale.FEATURES = max(args.features) or 1
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            scale.make_graph(folder, size, DEGREE)
            for features in args.features if size > 1000 else args.features[:1]:
                for processes in args.processes if size > 1000 else [1]:
                    limit = args.limit if size > 1000 else None
                    found = measure(folder, features, processes, args.threads, limit, args.checkout)
                    if size == 1000:
                        assert found is not None
                        libraries = found[1]
                        continue
                    cells = ["fails", ""] if found is None else [f"{found[0]:.1f}", f"{found[1] - libraries:,.0f}"]
                    rows.append([f"{size:,}", str(features), str(processes), *cells])
                    print(*rows[-1], flush=True)
    write("rows", f"By {args.threads} threads; {libraries:.0f} MB of libraries", ["nodes", "features", "processes",
          "seconds", "MB"], rows, rows)  # fmt: skip


if __name__ == "__main__":
    main()
