"""The configuration of node clustering: typed sections, a line of documentation for every key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from jbpool.checks import unknown_choices
from jbpool.clustering.embed import EMBEDDINGS
from jbpool.clustering.network import NETWORKS
from jbpool.data import node_problems
from jbpool.engine.schema import MAX_WIDTH, number
from jbpool.engine.task import DatasetConfig, TrainConfig
from jbpool.nn.pools import POOLS, PoolOptions
from jbpool.nn.terms import TERMS

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
class ClusterMethodConfig(PoolOptions):
    """How clusters are found."""

    name: str = "jb"                                # a pool or an embedding: --list has them all
    num_clusters: int | None = number(None, 1)      # by default the number of classes
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
            *((TERMS, name, "method.objective") for name in method.objective or ()),
        ]
    )
    if method.objective is not None and method.name in EMBEDDINGS:
        yield "method.objective", f"method.objective is for the pools ({', '.join(POOLS)}), not for {method.name}"
    if method.objective == {}:
        yield "method.objective", f"method.objective names no loss: choose some of {', '.join(TERMS)}"
    terms = method.objective or (POOLS[method.name].pool.terms if method.name in POOLS else ())
    if method.cluster_sizes is not None and "balance" not in terms:
        problem = f"method.cluster_sizes acts on the balance term, which {method.name} does not have"
        yield "method.cluster_sizes", problem
