"""How many graphs of the pooling benchmark can be classified at all: those with an edge between two regions.

    python scripts/reproduce/gcb_limit.py                                 gcb-hard-small, gcb-easy-small, gcb-sim
    python scripts/reproduce/gcb_limit.py --sets gcb-sim --graphs 300

The class is the arrangement of three regions of the plane. In a graph without an edge between regions, nothing but
small differences in the shape of a region tells the class, so that about a third of such graphs can be guessed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

REGION = (0, 0, 1, 1, 2)        # of each kind of nodes: the moons, the Gaussian, the blob


def connected_regions(data):
    """Return the number of pairs of regions with an edge between them, for each graph: ``(G,)``."""
    import torch

    graph = torch.arange(len(data)).repeat_interleave(data.num_edges)
    first = (data.sizes.cumsum(0) - data.sizes)[graph]
    region = torch.tensor(REGION)[data.feat.argmax(1)]
    one, other = region[data.source + first], region[data.target + first]
    found = torch.zeros(len(data), 3, 3, dtype=torch.bool)
    found[graph, one, other] = True
    return found.triu(1).sum((1, 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["gcb-hard-small", "gcb-easy-small", "gcb-sim"])
    parser.add_argument("--graphs", type=int, default=1800, help="of gcb-sim")
    args = parser.parse_args()
    from jbpool.data import load_graphs

    print("| set | graphs | no regions connected | one pair | two or three pairs | all others right, these guessed |")
    print("|---|---|---|---|---|---|")
    for name in args.sets:
        data = load_graphs(name, **({"num_graphs": args.graphs} if name == "gcb-sim" else {}))
        pairs = connected_regions(data)
        none, one = ((pairs == number).float().mean().item() for number in (0, 1))
        shares = f"{none:.1%} | {one:.1%} | {1 - none - one:.1%} | {1 - none * 2 / 3:.1%}"
        print(f"| {name} | {len(data):,} | {shares} |")


if __name__ == "__main__":
    main()
