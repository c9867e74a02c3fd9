"""Section of the report about several seeds: how far they agree, and which was chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from jbpool.clustering.scores import merit, normalized_mutual_information
from jbpool.ops.contingency import contingency
from jbpool.report.heat_map import value_map
from jbpool.report.page import section

COMPARED_NODES = 50_000         # at most: agreement of more is estimated from a sample
COMPARED_SEEDS = 40


def seed_sections(result: dict[str, Any], run: dict[str, Any], seeds: dict[int, np.ndarray]) -> list[str]:
    """One section; none if there is only one seed."""
    runs = {entry["seed"]: entry for entry in result["runs"] if entry["seed"] in seeds}
    if len(runs) < 2:
        return []
    by_score = "score" in run
    order = sorted(runs, key=lambda seed: -merit(runs[seed]))[:COMPARED_SEEDS]              # the best first
    agreement = seed_agreement([seeds[seed] for seed in order])
    names = [f"seed {seed}" for seed in order]
    drawing = value_map(agreement, names, [str(seed) for seed in order], "agreement of the seeds, NMI")
    others = agreement[~np.eye(len(order), dtype=bool)]
    why = "it has the highest score of the search" if by_score else "it has the lowest loss"
    note = (
        f"NMI of the clusters of every two seeds, the best seed first; on average {others.mean():.2f}, at least "
        f"{others.min():.2f}. Seed {run['seed']} was chosen because {why} "
        f"({run['score'] if by_score else run['loss']:.4f}); no label was used."
    )
    if len(order) < len(runs):
        note += f" The best {len(order)} of {len(runs)} seeds are shown."
    return [section("Agreement of the seeds", drawing, note)]


def seed_agreement(clusters: list[np.ndarray]) -> np.ndarray:
    """NMI of every two clusterings ``(N,)`` of the same nodes, estimated from a sample of many nodes."""
    count = len(clusters[0])
    some = np.unique(np.linspace(0, count - 1, min(count, COMPARED_NODES)).astype(int))
    chosen = [torch.from_numpy(cluster[some]).long() for cluster in clusters]
    agreement = np.eye(len(chosen))
    for i, one in enumerate(chosen):
        for j in range(i):
            agreement[i, j] = agreement[j, i] = normalized_mutual_information(contingency(one, chosen[j]))
    return agreement
