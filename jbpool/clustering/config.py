"""The configuration of node clustering: typed sections, a line of documentation for every key."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from jbpool.checks import unknown_choices
from jbpool.clustering.embed import EMBEDDINGS
from jbpool.clustering.network import NETWORKS
from jbpool.data import node_problems
from jbpool.engine.schema import MAX_WIDTH, number
from jbpool.engine.task import DatasetConfig, TrainConfig
from jbpool.nn.pools import LOSSES, POOLS
from jbpool.objectives import TRACES

METHODS = (*POOLS, *EMBEDDINGS)


@dataclass
class ClusterDatasetConfig(DatasetConfig):
    """The graph."""

    name: str = "sbm"


@dataclass
class ClusterModelConfig:
    """The network in front of the clusters."""

    backbone: str = "delta"                         # delta, gcn, gin, sage, gat, or sgc (smooth once, train the MLP)
    layers: int = number(10, 0, 1000)               # message-passing layers (sgc: smoothing steps)
    hidden: int = number(64, 1, MAX_WIDTH)          # their width
    delta: float = number(0.85, 0, 2)               # step size of the smoothing
    mlp: list[int] = number([16], 1, MAX_WIDTH)     # hidden layers between the features and the clusters


@dataclass
class ClusterMethodConfig:
    """How clusters are found."""

    name: str = "jb"                                # jb mincut dmon diffpool sc deepwalk node2vec netmf gae vgae
    sqrt: str = "matrix"                            # jb: matrix (the paper's) or diagonal (element-wise)
    cluster_sizes: list[float] | None = None        # jb: known proportions
    num_clusters: int | None = number(None, 1, MAX_WIDTH)       # by default the number of classes
    objective: dict[str, float] | None = None       # loss name -> weight, in place of the method's own losses


@dataclass
class ClusterTrainConfig(TrainConfig):
    """How long and how often to train."""

    restarts: int = number(1, 1, 10**6)             # starts per seed; the lowest loss is kept, labels are not used


@dataclass
class ClusterConfig:
    """One run of node clustering."""

    task: str = "node_cluster"
    dataset: ClusterDatasetConfig = field(default_factory=ClusterDatasetConfig)
    model: ClusterModelConfig = field(default_factory=ClusterModelConfig)
    method: ClusterMethodConfig = field(default_factory=ClusterMethodConfig)
    train: ClusterTrainConfig = field(default_factory=ClusterTrainConfig)


def problems(config: ClusterConfig) -> Iterator[tuple[str, str]]:
    """Key and problem of every setting that does not exist or does not fit the others."""
    dataset, method = config.dataset, config.method
    yield from node_problems(dataset.name, dataset.options)
    yield from unknown_choices(
        [
            (NETWORKS, config.model.backbone, "model.backbone"),
            (dict.fromkeys(METHODS), method.name, "method.name"),
            (TRACES, method.sqrt, "method.sqrt"),
            *((LOSSES, name, "method.objective") for name in method.objective or ()),
        ]
    )
    if method.objective is not None and method.name in EMBEDDINGS:
        yield "method.objective", f"method.objective is for the pools ({', '.join(POOLS)}), not for {method.name}"
    if method.objective == {}:
        yield "method.objective", f"method.objective names no loss: choose some of {', '.join(LOSSES)}"
    if method.objective and not all(map(math.isfinite, method.objective.values())):
        yield "method.objective", f"method.objective={method.objective}: weights should be finite numbers"
    has_balance = "balance" in method.objective if method.objective else method.name == "jb"
    if method.cluster_sizes is not None and not has_balance:
        problem = f"method.cluster_sizes acts on the balance term, which {method.name} does not have"
        yield "method.cluster_sizes", problem


def num_weights(config: ClusterConfig) -> int:
    """Weights of the layers whose size does not depend on the data."""
    model, has_layers = config.model, config.model.backbone != "sgc" and config.model.layers > 0
    widths = [*([model.hidden] if has_layers else []), *model.mlp, config.method.num_clusters or 1]
    return has_layers * (model.layers - 1) * model.hidden**2 + sum(one * other for one, other in pairwise(widths))
