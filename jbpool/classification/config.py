"""The configuration of graph classification: typed sections with a comment for every key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jbpool.data import catalogue
from jbpool.names import BACKBONES, POOLS, SELECTIONS, PoolOptions, unknown_choices, wrong_number_of_sizes
from jbpool.schema import MAX_EPOCHS, MAX_SEED, MAX_WIDTH, DatasetConfig, TrainConfig, number

METHODS = (*POOLS, *SELECTIONS, "none")
LISTED = {"model.pool": METHODS, "model.backbone": BACKBONES, "dataset.name": catalogue.GRAPH_SETS}      # for --list
MOST_LEVELS = 8         # with the default numbers of clusters: the first level has 4**8, as many as a layer may be wide


@dataclass
class ClassifyDatasetConfig(DatasetConfig):
    """The graphs."""

    name: str = "motifs"

    def option_defaults(self) -> dict[str, Any]:
        return catalogue.default_options(catalogue.loader(catalogue.GRAPH_SETS, self.name, self.root))

    def file_options(self, name: str) -> list[str]:
        return catalogue.file_options(catalogue.GRAPH_SETS, name)


@dataclass
class ClassifyModelConfig:
    """encoder -> [layers -> pool] x levels -> layers -> readout -> head."""

    backbone: str = "gin"                           # gin, gcn, sage, gat, delta
    layers: int = number(2, 0, 1000)                # message-passing layers before each pool and after the last
    hidden: int = number(64, 1, MAX_WIDTH)          # their width
    delta: float = number(0.85, 0, 1)               # backbone delta: step size of the smoothing
    pool: str = "jb"                                # a pool (--list), or none: the same layers without pooling
    compare: list[str] = field(default_factory=list)    # further pools to run on the same folds
    levels: int = number(1, 1, 100)                 # number of pools in sequence
    ratio: float | None = number(None, above=0, high=1)     # K / mean size of training graphs; then K / K before
    num_clusters: list[int] | None = number(None, 1, MAX_WIDTH)     # K of each level; without both, 4 at the last one
    # Both: at most num_clusters, and at most ratio times the nodes of each graph.
    edges: str = "sum"                              # edge features: sum per node, or messages (GINE; backbone gin)
    mlp: list[int] = number([], 1, MAX_WIDTH)       # hidden layers between the features and the clusters
    readout: str = "mean+max"                       # mean, sum, max, or several joined by +
    readout_of: str = "all"                         # all: of every level, encoder and size included; last: at the end
    norm: str = "batch"                             # batch, layer, none: after every layer
    dropout: float = number(0.15, 0, below=1)       # in the head and after every layer
    aux_weight: float = number(1.0, 0, 1e6)         # weight of the losses of the pools
    members: int = number(1, 1, 1000)               # networks per fold, whose predictions are averaged


@dataclass
class ClassifyTrainConfig(TrainConfig):
    """How to train a classifier."""

    epochs: int = number(100, 1, MAX_EPOCHS)
    lr: float = number(3e-3, above=0, high=1e3)
    eval_every: int = number(1, 1, MAX_EPOCHS)      # epochs between evaluations of the validation graphs
    select: str = "last"                            # epoch that is used: last, or best on the validation graphs
    schedule: str = "cosine"                        # learning rate over the epochs: constant, or cosine (to zero)
    weight_decay: float = number(0.0, 0, 1e6)
    batch_size: int = number(32, 1, 10**6)          # graphs per step, over all processes
    folds: int = number(10, 2, 1000)                # stratified folds, for datasets without an official split
    official_split: bool = True                     # use the split of the dataset if it has one, not folds over all
    class_weight: bool = False                      # weight classes by their inverse frequency
    label_smoothing: float = number(0.1, 0, below=1)    # share of a label that is spread evenly over the classes


@dataclass
class SearchConfig:
    """Model selection: settings to try in every fold, chosen on validation graphs."""

    grid: dict[str, dict] = field(default_factory=dict)     # section -> key -> list of values
    trials: int | None = number(None, 1, 1000)      # random draws from the grid; all combinations if not given
    seed: int = number(0, 0, MAX_SEED)              # of the draws


@dataclass
class ClassifyConfig:
    """One run of graph classification."""

    task: str = "graph_classify"
    dataset: ClassifyDatasetConfig = field(default_factory=ClassifyDatasetConfig)
    model: ClassifyModelConfig = field(default_factory=ClassifyModelConfig)
    method: PoolOptions = field(default_factory=PoolOptions)
    train: ClassifyTrainConfig = field(default_factory=ClassifyTrainConfig)
    search: SearchConfig = field(default_factory=SearchConfig)


# Two ways to specify the number of clusters, or the graphs: --set of one alone replaces the other in the file.
EXCLUSIVE = {
    "model.ratio": "model.num_clusters", "model.num_clusters": "model.ratio",
    "dataset.folder": "dataset.graphs", "dataset.graphs": "dataset.folder",
}  # fmt: skip


def problems(config: ClassifyConfig) -> Iterator[tuple[str, str]]:
    """Yield key and problem of every unknown name and of settings that contradict each other."""
    from jbpool.classification.network import NORMS
    from jbpool.engine.fit import SCHEDULES
    from jbpool.ops.segment import READOUTS

    dataset, model = config.dataset, config.model
    yield from catalogue.problems(catalogue.GRAPH_SETS, dataset.name, dataset.root, dataset.options)
    yield from unknown_choices(
        [
            (dict.fromkeys(BACKBONES), model.backbone, "model.backbone"),
            (NORMS, model.norm, "model.norm"),
            (SCHEDULES, config.train.schedule, "train.schedule"),
            (dict.fromkeys(("last", "best")), config.train.select, "train.select"),
            (dict.fromkeys(("all", "last")), model.readout_of, "model.readout_of"),
            (dict.fromkeys(("sum", "messages")), model.edges, "model.edges"),
            (dict.fromkeys(METHODS), model.pool, "model.pool"),
            *((dict.fromkeys(METHODS), name, "model.compare") for name in model.compare),
            *((READOUTS, name, "model.readout") for name in model.readout.split("+")),
        ]
    )
    clusters, train, sizes = model.num_clusters, config.train, config.method.cluster_sizes
    contradictions = [
        (train.patience is not None and train.select != "best", "train.patience",
         "train.patience stops after the best epoch: set train.select=best too, or remove it"),
        (model.edges == "messages" and model.backbone != "gin", "model.edges",
         "model.edges=messages needs model.backbone=gin"),
        (clusters is None and model.ratio is None and model.levels > MOST_LEVELS, "model.levels",
         f"model.levels={model.levels}: each level would have a quarter of the clusters of the one before; with more "
         f"than {MOST_LEVELS} levels, set model.num_clusters or model.ratio"),
        (clusters is not None and len(clusters) not in (1, model.levels), "model.num_clusters",
         f"model.num_clusters={clusters} should have one number, or one per level"),
        (model.ratio is not None and sizes is not None, "method.cluster_sizes",
         "method.cluster_sizes needs a fixed number of clusters: with model.ratio it depends on the fold or the graph; "
         "set model.num_clusters instead"),
    ]  # fmt: skip
    wrong = {key: problem for applies, key, problem in contradictions if applies}
    yield from wrong.items()
    if model.ratio is None and model.levels <= MOST_LEVELS and "model.num_clusters" not in wrong:
        yield from wrong_number_of_sizes(sizes, fixed_clusters(model))


def fixed_clusters(model: ClassifyModelConfig) -> list[int]:
    """Return K of every level, at most: by default 4 at the last, four times as many at each before."""
    if model.num_clusters is None:
        return [4 ** (model.levels - level) for level in range(model.levels)]
    return model.num_clusters if len(model.num_clusters) == model.levels else model.num_clusters * model.levels
