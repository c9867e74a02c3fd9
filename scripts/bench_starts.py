"""Several starts of a clustering network, trained together and one by one.

    python scripts/bench_starts.py [--starts 5] [--rounds 10]
"""

from __future__ import annotations

import argparse

import torch
from benchmark import take_turns, write

CASES = {"sbm": [], "cora, sgc": ["model.backbone=sgc", "model.mlp=[64]"], "cora": [], "dblp": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    args = parser.parse_args()

    from jbpool.clustering.starts import Starts
    from jbpool.clustering.task import NODE_CLUSTER
    from jbpool.clustering.training import make_model
    from jbpool.data import load_nodes
    from jbpool.engine.config import load_config

    rows, raw = [], []
    for case in args.cases:
        config = load_config(NODE_CLUSTER, case.split(",")[0], CASES[case])
        data = load_nodes(config.dataset.name, **config.dataset.options)
        torch.manual_seed(0)
        assert data.feat is not None
        nets = [make_model(config, data.feat.shape[1], data.num_classes or 1) for _ in range(2 * args.starts)]
        feat = nets[0].prepare(data.graph, data.feat)

        def trainer(nets, feat=feat, data=data):
            model = Starts(nets, data.graph)
            optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

            def step():
                _, losses = model(feat)
                optimiser.zero_grad(set_to_none=True)
                losses["balance"].sum().backward()
                optimiser.step()

            return step

        singles = [trainer([net]) for net in nets[args.starts :]]
        contestants = {
            "together": trainer(nets[: args.starts]),
            "one by one": lambda singles=singles: [step() for step in singles],
        }
        times = take_turns(contestants, args.rounds)
        ratio = times["one by one"].median / times["together"].median
        rows.append([case, f"{data.graph.num_nodes():,}", *map(str, times.values()), f"{ratio:.2f}x"])
        raw.append({"case": case, **{who: timing._asdict() for who, timing in times.items()}})
    head = ["case", "nodes", "together, ms", "one by one, ms", "together ahead"]
    write("starts", f"A step of {args.starts} starts", head, rows, raw)


if __name__ == "__main__":
    main()
