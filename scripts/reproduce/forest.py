"""The simplest alternative to a network for graph classification: a random forest on statistics of each graph.

    python scripts/reproduce/forest.py                        the datasets of docs/development/pools.md
    python scripts/reproduce/forest.py --sets mutag proteins --folds 0,1,2
    python scripts/reproduce/forest.py --csv                  every seed and fold, as in docs/development/measured.csv

Test scores on the same folds (molhiv: the official split, five seeds) as the networks: mean, standard deviation and
number. The statistics are the number of nodes and edges, the mean and deviation of degrees, of features and of the
sums of features over neighbours, and the mean product of features and those sums. Nothing is tuned.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from graphs import SETS

if TYPE_CHECKING:
    from jbpool.data import GraphData

HEAD = "| set | metric | random forest |\n|---|---|---|"
TREES = 300
AT_ONCE = 1000          # graphs whose statistics are computed together


def graph_statistics(data):
    """One row per graph, ``(G, 4 + 5 D)``; each category of a categorical feature is a column of zeros and ones."""
    import torch

    from jbpool.data.datasets import as_numbers
    from jbpool.ops.adjacency import propagate
    from jbpool.ops.segment import graph_mean, segments_of

    categories = None if data.feat.is_floating_point() else (data.feat.amax(0) + 1).tolist()
    found = []
    for part in torch.arange(len(data)).split(AT_ONCE):
        graph, raw, *_ = data.batch(part)
        feat, degree = as_numbers(raw, categories), graph.by_target.pointers.diff().float().unsqueeze(1)
        around = propagate(graph, feat)
        segments = segments_of(graph)
        rows = torch.cat([degree, feat, around, feat * around], dim=1)
        mean = graph_mean(rows, segments)
        spread = (graph_mean(rows.square(), segments) - mean.square()).clamp_min(0).sqrt()
        size = torch.stack([graph.sizes, data.num_edges[part]], dim=1).float().log1p()
        found.append(torch.cat([size, mean, spread[:, : -feat.shape[1]]], dim=1))
    return torch.cat(found).numpy()


class Score(NamedTuple):
    """A score on test graphs, between 0 and 1."""

    seed: int
    fold: int
    test: float


def forest_scores(name: str, folds: list[int] | None) -> tuple[GraphData, list[Score]]:
    """Return the dataset, and the score of each fold or seed."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import roc_auc_score

    from jbpool.classification.graph_classify import GRAPH_CLASSIFY
    from jbpool.engine.config import load_config

    config = load_config(GRAPH_CLASSIFY, name, [])
    data = GRAPH_CLASSIFY.load_data(config)
    if not config.train.official_split:
        data = replace(data, official_split=None)
    rows, label = graph_statistics(data), data.label.flatten().numpy()
    official = data.official_split is not None
    found = []
    runs = [(seed, 0) for seed in config.train.seeds]
    if not official:
        runs = [(0, fold) for fold in folds or range(config.train.folds)]
    for seed, fold in runs:
        split = data.split() if official else data.split(fold, config.train.folds)
        forest = RandomForestClassifier(TREES, random_state=seed, n_jobs=2).fit(rows[split.train], label[split.train])
        if data.metric == "acc":
            test = forest.score(rows[split.test], label[split.test])
        else:
            test = roc_auc_score(label[split.test], forest.predict_proba(rows[split.test])[:, 1])
        found.append(Score(seed, fold, test))
    return data, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--folds", help="the folds to run (default: all; molhiv has an official split instead)")
    parser.add_argument("--csv", action="store_true", help="every seed and fold instead of a table")
    args = parser.parse_args()
    folds = None if args.folds is None else [int(fold) for fold in args.folds.split(",")]
    print("task,dataset,method,seed,fold,acc,nmi,loss,test" if args.csv else HEAD)
    for name in args.sets:
        data, found = forest_scores(name, folds)
        if args.csv:
            for seed, fold, test in found:
                print(f"graph_classify,{data.name},random forest,{seed},{fold},,,,{test:.6f}", flush=True)
            continue
        tests = [100 * score.test for score in found]
        deviation = f" ± {statistics.stdev(tests):.1f}" if len(tests) > 1 else ""
        print(f"| {name} | {data.metric} | {statistics.fmean(tests):.1f}{deviation} ({len(tests)}) |", flush=True)


if __name__ == "__main__":
    main()
