"""Draw the pictures of docs/explanation/heads.md and docs/explanation/clustering.md.

    python scripts/draw/clustering.py [--dataset cora] [--starts 40]

1. docs/pictures/heads.svg: the loss of many starts against their NMI, for an MLP with a linear head and for a bounded
   head on the same features. 2. docs/pictures/confidence.svg: how many of the nodes with some confidence are right, on
   the block models of scripts/reproduce/suite.py. Labels are used to draw, for nothing else.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts" / "reproduce")]

STYLE = (
    "<style>svg{background:#fff;color:#222}text{font:11px system-ui,sans-serif;fill:#222}"
    ".grid{stroke:#222;stroke-opacity:.13}@media(prefers-color-scheme:dark){svg{background:#16181d}"
    "text{fill:#e4e4e4}.grid{stroke:#e4e4e4}}</style>"
)


NAMES = {"sbm": "block models", "heavy": "heavy-tailed degrees", "lfr": "LFR, mixing 0.5"}


def save(name: str, drawing: str) -> None:
    path = ROOT / "docs" / "pictures" / name
    path.parent.mkdir(exist_ok=True)
    opened = drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, end = opened.split(">", 1)
    path.write_text(f"{head}>{STYLE}{end}\n")
    print(path.relative_to(ROOT))


def draw_heads(dataset: str, starts: int) -> None:
    """Draw the loss against NMI."""
    import torch

    from jbpool import JBPool
    from jbpool.clustering.auto.bounded_heads import hard_clusters, trained_heads
    from jbpool.clustering.auto.views import FixedFeatures
    from jbpool.clustering.scores import label_scores
    from jbpool.data import load_nodes

    data = load_nodes(dataset)
    feat, label, num_clusters = data.feat, data.label, data.num_classes
    assert feat is not None and label is not None and num_clusters is not None      # noqa: PT018

    def nmi(cluster: torch.Tensor) -> float:
        return label_scores(cluster, label)["nmi"]

    rows = FixedFeatures(feat.shape[1], num_clusters=num_clusters).fit(data.graph, feat)
    linear: tuple[list[float], list[float]] = ([], [])
    for start in range(starts):
        torch.manual_seed(start)
        pool = JBPool(rows.shape[1], num_clusters, (64,))
        optimiser = torch.optim.Adam(pool.parameters(), lr=1e-2)
        for _ in range(200):
            _, losses = pool.cluster(data.graph, rows)
            optimiser.zero_grad()
            losses["balance"].sum().backward()
            optimiser.step()
        assign, losses = pool.cluster(data.graph, rows)
        linear[0].append(losses["balance"].item())
        linear[1].append(nmi(assign.argmax(1)))
    heads, bounded = trained_heads(rows, num_clusters, starts, torch.Generator().manual_seed(0))
    scored = [nmi(cluster) for cluster in hard_clusters(heads, rows)]
    series = {"MLP, linear head": linear, "bounded head": (bounded.tolist(), scored)}
    save("heads.svg", scatter(series, "to the right: balance loss; up: NMI with the classes", "loss against NMI"))


def scatter(series: dict[str, tuple[list[float], list[float]]], x_label: str, label: str) -> str:
    """Return points by name with axes: name -> (x, y)."""
    from jbpool.report.charts import NARROW, Axes, colour, draw, legend, ticks

    above, top = legend(list(series), NARROW)
    xs, ys = ([value for part in series.values() for value in part[axis]] for axis in (0, 1))
    axes = Axes(ticks(min(xs), max(xs)), ticks(min(ys), max(ys)), NARROW, 264 + top, top, x_label)
    points = [
        f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="3.6" fill="{colour(number)}" fill-opacity=".65"/>'
        for number, part in enumerate(series.values())
        for x, y in zip(*part, strict=True)
    ]
    return draw(NARROW, 264 + top, [*axes.body, *points, *above], label)


def draw_confidence(seeds: int = 3) -> None:
    """Draw the share of right nodes by confidence, over the graphs of a kind."""
    import numpy as np
    from suite import bins_of, rightness, uncertain

    from jbpool.report import charts

    kinds: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for seed in range(seeds):
        for data in uncertain(seed):
            if (kind := NAMES.get(data.name.split()[0])) is not None:
                kinds.setdefault(kind, []).append(rightness(data, seed))
    series: dict[str, tuple[list[float], list[float]]] = {}
    for name, pairs in kinds.items():
        bins = [found for found in bins_of(*map(np.concatenate, zip(*pairs, strict=True))) if found[2]]
        series[name] = [float(sure) for sure, *_ in bins], [float(right) for _, right, _ in bins]
    series["as it should be"] = [0.0, 1.0], [0.0, 1.0]
    words = "to the right: confidence; up: share of nodes in the right cluster"
    save("confidence.svg", charts.lines(series, words, "confidence").svg)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--starts", type=int, default=40)
    args = parser.parse_args()
    draw_heads(args.dataset, args.starts)
    draw_confidence()
