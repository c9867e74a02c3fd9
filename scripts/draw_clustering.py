"""The two pictures of docs/clustering.md.

    python scripts/draw_clustering.py [--dataset cora] [--starts 40]

1. docs/pictures/heads.svg: the loss of many starts against their NMI, for an MLP with a linear head and for a bounded
   head on the same features. 2. docs/pictures/evidence.svg: the held-out evidence of the settings that ``auto`` tries
   against the NMI of their partitions. Labels are used to draw the NMI, for nothing else.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

STYLE = (
    "<style>svg{background:#fff;color:#222}text{font:11px system-ui,sans-serif;fill:#222}"
    ".grid{stroke:#222;stroke-opacity:.13}</style>"
)


def save(name: str, drawing: str) -> None:
    path = ROOT / "docs" / "pictures" / name
    path.parent.mkdir(exist_ok=True)
    opened = drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, end = opened.split(">", 1)
    path.write_text(f"{head}>{STYLE}{end}\n")
    print(path.relative_to(ROOT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--starts", type=int, default=40)
    args = parser.parse_args()

    import torch

    from jbpool import JBPool
    from jbpool.clustering.auto import recipe as auto
    from jbpool.clustering.auto.bounded_heads import hard_clusters, trained_heads
    from jbpool.clustering.auto.views import FixedFeatures
    from jbpool.clustering.scores import label_scores
    from jbpool.data import load_nodes
    from jbpool.report import charts

    data = load_nodes(args.dataset)
    feat, label, num_clusters = data.feat, data.label, data.num_classes
    assert feat is not None and label is not None and num_clusters is not None      # noqa: PT018

    def nmi(cluster: torch.Tensor) -> float:
        return label_scores(cluster, label)["nmi"]

    rows = FixedFeatures(feat.shape[1], 8, 0.5, "auto", 128).fit(data.graph, feat)
    linear: tuple[list[float], list[float]] = ([], [])
    for start in range(args.starts):
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
    heads, bounded = trained_heads(rows, num_clusters, args.starts, (0.2,), torch.Generator().manual_seed(0))
    scored = [nmi(cluster) for cluster in hard_clusters(heads, rows)]
    series = {"MLP, linear head": linear, "bounded head": (bounded.tolist(), scored)}
    save("heads.svg", charts.scatter(series, "balance loss; upwards: NMI with the classes", "loss against NMI").svg)

    auto.SHARE = 1                                          # run every setting on all the data
    tried = auto.find_clusters(data.graph, feat, num_clusters, starts=4)
    scores: dict[str, tuple[list[float], list[float]]] = {}
    generator = torch.Generator().manual_seed(0)
    settings = [auto.Setting(**setting) for setting in tried.settings]
    for found in auto._partitions(settings, data.graph, feat, num_clusters, None, 0, 4, generator, {}):
        mean = sum(map(nmi, found.clusters)) / 4
        x, y = scores.setdefault(f"view {found.setting.weighting}", ([], []))
        x.append(found.setting.evidence or 0.0)
        y.append(mean)
    x_label = "held-out evidence; upwards: NMI with the classes"
    save("evidence.svg", charts.scatter(scores, x_label, "evidence and NMI").svg)


if __name__ == "__main__":
    main()
