"""Time and peak memory of a clustering step by graph size, each size in a new process.

    python scripts/bench_scale.py [--sizes 1e4 1e5 1e6 3e6] [--steps 5]

Random graphs of average degree 20 with 64 features, 16 clusters: full batch (`delta`, 3 layers of 64) and `sgc` (three
smoothing steps once, then only the MLP).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
from benchmark import peak_rss, write


def measure(num_nodes: int, backbone: str, steps: int) -> dict:
    import dgl

    from jbpool.clustering.task import NODE_CLUSTER
    from jbpool.clustering.training import make_model
    from jbpool.engine.config import load_config

    torch.manual_seed(0)
    one, other = torch.randint(num_nodes, (2, 10 * num_nodes), dtype=torch.int32)
    graph = dgl.graph((torch.cat([one, other]), torch.cat([other, one])), num_nodes=num_nodes)
    del one, other
    feat = torch.randn(num_nodes, 64)
    loaded = peak_rss()
    config = load_config(NODE_CLUSTER, "cora", [f"model.backbone={backbone}", "model.layers=3"])
    model = make_model(config, 64, 16)
    began = time.perf_counter()
    feat = model.prepare(graph, feat)
    prepared = time.perf_counter() - began
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    seconds = []
    for _ in range(steps + 1):
        began = time.perf_counter()
        _, losses = model(graph, feat)
        optimiser.zero_grad(set_to_none=True)
        losses["balance"].sum().backward()
        optimiser.step()
        seconds.append(time.perf_counter() - began)
    return {
        "nodes": num_nodes, "backbone": backbone, "prepare": prepared, "first step": seconds[0],
        "step": statistics.median(seconds[1:]), "loaded": loaded, "peak": peak_rss(),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=float, default=[1e4, 1e5, 1e6, 3e6])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--one", nargs=2, metavar=("N", "BACKBONE"), help="one measurement, as JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(int(args.one[0]), args.one[1], args.steps)))
        return
    raw, failed = [], False
    for backbone in ("delta", "sgc"):
        for size in args.sizes:
            command = [sys.executable, __file__, "--steps", str(args.steps), "--one", str(int(size)), backbone]
            done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
            if done.returncode:                         # probably out of memory; other results are kept
                print(f"{backbone} with {size:,.0f} nodes failed (exit code {done.returncode})", file=sys.stderr)
                failed = True
                continue
            raw.append(json.loads(done.stdout))
    rows = [
        [
            found["backbone"], f"{found['nodes']:,}", f"{found['prepare']:.2f}", f"{found['step']:.3f}",
            f"{1e6 * found['step'] / found['nodes']:.2f}", f"{found['loaded']:.1f}", f"{found['peak']:.1f}",
        ]
        for found in raw
    ]  # fmt: skip
    head = ["backbone", "nodes", "prepare, s", "step, s", "µs per node", "graph loaded, GB", "peak, GB"]
    write("scale", "A training step on random graphs of degree 20", head, rows, raw)
    sys.exit(failed)


if __name__ == "__main__":
    main()
