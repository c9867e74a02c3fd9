"""The configuration of node clustering: typed sections with a comment for every key."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jbpool.clustering.embed import EMBEDDINGS
from jbpool.data import catalogue
from jbpool.names import BACKBONES, POOLS, PoolOptions, unknown_choices, wrong_number_of_sizes
from jbpool.schema import MAX_WIDTH, DatasetConfig, TrainConfig, changed, number

FIXED = ("sgc", "whitened")                  # backbones of fixed features: no layers to train
NETWORKS = (*BACKBONES, *FIXED)
METHODS = ("auto", *POOLS, *EMBEDDINGS)      # auto: everything chosen without labels
LISTED = {"method.name": METHODS, "model.backbone": NETWORKS, "dataset.name": catalogue.NODE_SETS}       # for --list


@dataclass
class ClusterDatasetConfig(DatasetConfig):
    """The graph."""

    name: str = "sbm"
    weighting: str = "none"                         # fixed features: none, idf, or auto (idf for counts)

    def option_defaults(self) -> dict[str, Any]:
        return catalogue.default_options(catalogue.loader(catalogue.NODE_SETS, self.name))

    def file_options(self, name: str) -> list[str]:
        return catalogue.file_options(catalogue.NODE_SETS, name)


@dataclass
class ClusterModelConfig:
    """The network that computes the features of the pool."""

    backbone: str = "delta"                         # delta, gcn, gin, sage, gat; fixed features: sgc, whitened
    layers: int = number(10, 0, 1000)               # message-passing layers (fixed features: smoothing steps)
    hidden: int = number(64, 1, MAX_WIDTH)          # their width
    delta: float = number(0.85, 0, 1)               # step size of the smoothing
    mlp: list[int] = number([16], 1, MAX_WIDTH)     # hidden layers of the pool's MLP


@dataclass
class ClusterMethodConfig(PoolOptions):
    """The clustering method."""

    name: str = "jb"                                # a pool, an embedding, or auto: see --list
    num_clusters: int | str | None = None           # default: number of classes; auto: also a range, 2-12
    objective: dict[str, float] | None = None       # loss term -> weight, instead of the method's own losses
    previous: str | None = None                     # auto: a run or table whose clusters keep their numbers
    fixed: str | None = None                        # auto: a table of nodes that keep their cluster


@dataclass
class ClusterTrainConfig(TrainConfig):
    """Training."""

    restarts: int | None = number(None, 1, 10**6)      # starts per seed; the lowest loss is kept (1; auto: 8)


@dataclass
class ClusterConfig:
    """One run of node clustering."""

    task: str = "node_cluster"
    dataset: ClusterDatasetConfig = field(default_factory=ClusterDatasetConfig)
    model: ClusterModelConfig = field(default_factory=ClusterModelConfig)
    method: ClusterMethodConfig = field(default_factory=ClusterMethodConfig)
    train: ClusterTrainConfig = field(default_factory=ClusterTrainConfig)


def problems(config: ClusterConfig) -> Iterator[tuple[str, str]]:
    """Yield key and problem of every unknown name and of settings that contradict each other."""
    from jbpool.clustering.auto.weighting import WEIGHTINGS
    from jbpool.nn.partition import TERMS

    dataset, method = config.dataset, config.method
    yield from catalogue.problems(catalogue.NODE_SETS, dataset.name, dataset.root, dataset.options)
    yield from unknown_choices(
        [
            (dict.fromkeys(NETWORKS), config.model.backbone, "model.backbone"),
            (WEIGHTINGS, dataset.weighting, "dataset.weighting"),
            (dict.fromkeys(METHODS), method.name, "method.name"),
            *((TERMS, name, "method.objective") for name in method.objective or ()),
        ]
    )
    given, pools = method.num_clusters, ", ".join(POOLS)
    low, high = cluster_range(given) if given is not None else (1, 1)
    is_range, is_known, weights = isinstance(given, str) and low > 0, method.name in METHODS, method.objective or {}
    contradictions = [
        (isinstance(given, str) and not is_range, "method.num_clusters",
         f"method.num_clusters={given!r} should be a whole number, or a range such as 2-12"),
        (isinstance(given, int) and not 1 <= given <= MAX_WIDTH, "method.num_clusters",
         f"method.num_clusters={given} should be at least 1 and at most {MAX_WIDTH}"),
        (is_range and low > high, "method.num_clusters",
         f"method.num_clusters={given}: the range should start with the smaller number"),
        (is_range and method.name != "auto", "method.num_clusters",
         f"method.num_clusters={given}: only method.name=auto chooses the number; give {method.name} one number"),
        (method.previous is not None and method.fixed is not None, "method.fixed",
         "method.previous and method.fixed both number the clusters: give only one of them"),
        (method.objective is not None and is_known and method.name not in POOLS, "method.objective",
         f"method.objective is for the pools ({pools}), not for {method.name}"),
        (method.objective == {}, "method.objective", f"method.objective is empty: choose from {', '.join(TERMS)}"),
        (not all(map(math.isfinite, weights.values())), "method.objective",
         f"method.objective={method.objective}: weights should be finite numbers"),
        (method.cluster_sizes is not None and is_known and not has_balance(method), "method.cluster_sizes",
         f"method.cluster_sizes acts on the balance term, which {method.name} does not have"),
    ]  # fmt: skip
    yield from ((key, problem) for applies, key, problem in contradictions if applies)
    yield from wrong_number_of_sizes(method.cluster_sizes, [given])


def has_balance(method: ClusterMethodConfig) -> bool:
    """Return whether the balance term is minimised, maybe with others."""
    if method.objective:
        return "balance" in method.objective
    from jbpool.nn import pools

    return method.name in POOLS and "cluster_sizes" in pools.options_of(method.name)


def cluster_range(given: int | str) -> tuple[int, int]:
    """Turn ``"2-12"`` into (2, 12), and 7 into (7, 7); (0, 0) for text that is no range."""
    if isinstance(given, int):
        return given, given
    parts = re.fullmatch(r"([1-9]\d{0,8})-([1-9]\d{0,8})", given)
    return (int(parts[1]), int(parts[2])) if parts else (0, 0)


def unused(config: ClusterConfig) -> list[str]:
    """Return the settings that differ from their defaults although nothing reads them."""
    method, backbone = config.method, config.model.backbone
    given = [key for key in changed(config) if not key.startswith("dataset.") or key == "dataset.weighting"]
    if method.name not in POOLS:
        used = {"method.name", "method.num_clusters", "train.seeds"}
        if method.name == "auto":
            used |= {"train.restarts", "method.previous", "method.fixed"}
        return [key for key in given if key not in used]
    ignored = {"method.previous", "method.fixed", "model.hidden" if backbone in FIXED else "dataset.weighting"}
    if backbone not in (*FIXED, "delta"):
        ignored.add("model.delta")
    if method.head != "cosine":
        ignored.add("method.temperature")
    if not has_balance(method):
        ignored.add("method.sqrt")
    return [key for key in given if key in ignored]
