"""The temperature of a single bounded head, chosen without labels (``method.temperature: auto``)."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jbpool.clustering.auto.bounded_heads import hard_clusters, trained_heads
from jbpool.clustering.auto.weighting import weighted_rows
from jbpool.clustering.config import ClusterConfig
from jbpool.clustering.evidence import Evidence
from jbpool.data import NodeData

TEMPERATURES = (0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4)      # a factor of 1.4 between neighbours
STARTS = 8
TOLERANCE = 0.05    # of the evidence; the highest of equally good temperatures is taken: its losses rank starts best


class Choice(NamedTuple):
    """The chosen temperature and the figures behind the choice."""

    temperature: float
    tried: list[dict[str, float]]       # of every temperature: the lowest loss, and the mean evidence of its starts


def choose_temperature(
    rows: Tensor, num_clusters: int, score: Callable[[Tensor], float], generator: torch.Generator
) -> Choice:
    """Train heads at every temperature from a few starts, and compare their clusters.

    Losses cannot be compared between temperatures: they fall with the temperature for any features. Clusters can.

    Parameters
    ----------
    rows : Tensor
        ``(N, D)`` unit rows.
    num_clusters : int
        K.
    score : callable
        Clusters ``(N,)`` -> how good they are without labels, as :meth:`Evidence.score`.
    generator : torch.Generator
        Decides the starts.
    """
    heads, losses = trained_heads(rows, num_clusters, STARTS, TEMPERATURES, generator)
    clusters = hard_clusters(heads, rows)                                           # (T * STARTS, N)
    tried = []
    for temperature, values, found in zip(TEMPERATURES, losses.split(STARTS), clusters.split(STARTS), strict=True):
        evidence = statistics.fmean(score(cluster) for cluster in found)
        tried.append({"temperature": temperature, "loss": values.min().item(), "evidence": evidence})
    least = (1 - TOLERANCE) * max(row["evidence"] for row in tried)
    return Choice(max(row["temperature"] for row in tried if row["evidence"] >= least), tried)


def with_temperature(
    config: ClusterConfig, data: NodeData, rows: Callable[[], Tensor], num_clusters: int, seed: int
) -> tuple[ClusterConfig, dict[str, Any]]:
    """The configuration with a number in place of ``auto`` and a record of the choice; without ``auto``, unchanged.

    Parameters
    ----------
    config : ClusterConfig
        The run.
    data : NodeData
        Its graph, with features.
    rows : callable
        Returns the fixed features ``(N, D)``; called for ``auto`` only.
    num_clusters : int
        K.
    seed : int
        Decides the starts.
    """
    if config.method.temperature != "auto":
        return config, {}
    assert data.feat is not None
    evidence = Evidence(data.graph, weighted_rows(data.feat, config.dataset.weighting), data.edge_weight)
    choice = choose_temperature(rows().cpu(), num_clusters, evidence.score, torch.Generator().manual_seed(seed))
    chosen = replace(config, method=replace(config.method, temperature=choice.temperature))
    return chosen, {"temperature": choice.temperature, "temperatures": choice.tried}
