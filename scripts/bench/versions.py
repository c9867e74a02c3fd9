"""Forward and backward of the pooling layer, in this version and in another one, and here with a ratio.

    python scripts/bench/versions.py ../before [--sets PROTEINS NCI1] [--rounds 41]

``git worktree add ../before COMMIT`` makes the other one; OMP_NUM_THREADS=1 is fair on a busy machine. Each version has
a process of its own, and these take turns; the batches are those of layer.py, every call gets a new graph. Shown are
medians over the rounds of the time here over that of the other version in the same round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from layer import BATCHES
from timing import ROOT, cpu_clock

RATIO, FORMS = 0.25, ("matrix", "diagonal")
HERE = tuple((form, ratio) for form in FORMS for ratio in (None, RATIO))


def serve(name: str, here: bool) -> None:
    """Time a form of the layer on a set whenever a line asks for it; print seconds."""
    import time

    import torch

    from jbpool import JBPool
    from jbpool.data import load_graphs

    data, clock = load_graphs(name), cpu_clock() or time.perf_counter
    torch.manual_seed(0)
    index = torch.randperm(len(data))[: BATCHES[name]]
    num_clusters = min(32, int(data.sizes.float().mean()) // 2)
    feat = torch.randn(int(data.sizes[index].sum()), 64, requires_grad=True)
    pools = {}
    for form, ratio in HERE:
        torch.manual_seed(1)
        options: dict[str, Any] = {"sqrt": form} if ratio is None else {"sqrt": form, "ratio": ratio}
        if here or ratio is None:
            pools[f"{form} {ratio}"] = JBPool(64, num_clusters, **options)
    for line in sys.stdin:
        pool, graph = pools[line.strip()], data.batch(index).graph
        began = clock()
        pooled = pool(graph, feat)
        loss = pooled.loss + pooled.feat.sum() + pooled.edge_weight.sum()
        loss.backward()
        print(clock() - began, float(loss.detach()), flush=True)


class Version:
    """A process that times the layer of a checkout."""

    def __init__(self, checkout: Path, name: str):
        command = [sys.executable, str(Path(__file__).resolve()), str(checkout), "--serve", name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "PYTHONPATH": str(checkout)})  # fmt: skip

    def time(self, form: str, ratio: float | None) -> tuple[float, float]:
        """Return seconds, and the loss."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{form} {ratio}\n")
        self.process.stdin.flush()
        seconds, loss = self.process.stdout.readline().split()
        return float(seconds), float(loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="the other version")
    parser.add_argument("--sets", nargs="+", default=list(BATCHES), choices=BATCHES)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        sys.path[0:0] = [str(args.checkout.resolve())]
        serve(args.serve, args.checkout.resolve() == ROOT)
        return
    print(f"Time of the layer here over that in {args.checkout}\n")
    print("| batch | " + " | ".join(f"{form}: here, ratio {RATIO}" for form in FORMS) + " |")
    print("|---" * (len(FORMS) + 1) + "|")
    for name in args.sets:
        here, before, cells = Version(ROOT, name), Version(args.checkout.resolve(), name), []
        times: dict[tuple, list[float]] = {(form, ratio): [] for form, ratio in HERE}
        for number in range(args.rounds + 3):
            for form in FORMS:
                old, loss = before.time(form, None)
                for ratio in (None, RATIO):
                    new, same = here.time(form, ratio)
                    assert ratio or abs(same - loss) < 1e-3 * abs(loss)
                    times[form, ratio] += [new / old] * (number >= 3)
        for form in FORMS:
            cells.append(", ".join(f"{statistics.median(times[form, ratio]):.2f}" for ratio in (None, RATIO)))
        print(f"| {name} {BATCHES[name]} | " + " | ".join(cells) + " |", flush=True)
        for version in (here, before):
            version.process.communicate()


if __name__ == "__main__":
    main()
