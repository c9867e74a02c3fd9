"""Time and peak memory of loading an edge list.

    python scripts/bench_load.py [--edges 10000000] [--nodes 1000000]

Writes two random lists to a temporary folder, one with numeric and one with text ids, and loads each in a new process.
Prints a Markdown table. Computing features from the edges is timed separately.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOAD = """
import resource, sys, time
from jbpool.clustering.structure import StructuralModes
from jbpool.data.files import load_node_files
began = time.perf_counter()
data = load_node_files(edges=sys.argv[1])
read = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
began = time.perf_counter()
if sys.argv[2] == "yes":
    StructuralModes(data.graph, 8, data.edge_weight).features(8)
print(f"{read:.1f} {time.perf_counter() - began:.1f} {peak:.2f}")
"""


def main() -> None:
    import numpy as np
    import pandas as pd

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    args = parser.parse_args()
    ends = np.random.default_rng(0).integers(0, args.nodes, (args.edges, 2))
    print(f"{args.edges:,} edges among {args.nodes:,} nodes\n")
    print("| ids | read, s | features from the edges, s | peak memory, GB |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("numbers", "text"):
            path = Path(folder, f"{kind}.csv")
            frame = pd.DataFrame(ends) if kind == "numbers" else "user-" + pd.DataFrame(ends).astype(str)
            frame.to_csv(path, header=False, index=False)
            del frame
            with_features = "yes" if kind == "numbers" else "no"
            command = [sys.executable, "-c", LOAD, str(path), with_features]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)    # imports from here
            read, made, peak = done.stdout.split()
            print(f"| {kind} | {read} | {made if with_features == 'yes' else '-'} | {peak} |")


if __name__ == "__main__":
    main()
