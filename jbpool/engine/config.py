"""The configurations of both tasks: typed sections, a line for every key; ``--set a.b=v`` as if in the file."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, overload

from jbpool.checks import check_cluster_sizes
from jbpool.engine.strict import ConfigError, build, read_yaml

CONFIGS = Path(__file__).resolve().parent.parent.parent / "configs"


@dataclass
class DatasetConfig:
    """What to load. Further keys are options of the dataset: see ``docs/data.md``."""

    name: str = "sbm"
    root: str | None = None                         # a folder to look for files in before the other data roots
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class ModelConfig:
    """The network in front of the clusters."""

    backbone: str = "delta"                         # delta, gcn, gin, sage, gat, or sgc (smooth once, train the MLP)
    layers: int = 10                                # message-passing layers (sgc: smoothing steps)
    hidden: int = 64                                # their width
    delta: float = 0.85                             # step of the smoothing
    mlp: list[int] = field(default_factory=lambda: [16])    # hidden layers between the features and the clusters


@dataclass
class MethodConfig:
    """How clusters are found."""

    name: str = "jb"                                # jb mincut dmon diffpool sc deepwalk node2vec netmf gae vgae
    sqrt: str = "matrix"                            # jb: matrix (the paper's) or diagonal (element-wise)
    cluster_sizes: list[float] | None = None        # jb: known proportions
    num_clusters: int | None = None                 # by default the number of classes
    objective: dict[str, float] | None = None       # loss name -> weight, in place of the method's own losses


@dataclass
class TrainConfig:
    """How long and how often to train."""

    epochs: int = 2000
    lr: float = 1e-4
    seeds: list[int] = field(default_factory=lambda: [0])
    restarts: int = 1                               # starts per seed; the lowest loss is kept, labels are not looked at
    eval_every: int = 50                            # epochs between scores
    patience: int | None = None                     # stop when the loss has not fallen by 1e-4 of itself for so long


@dataclass
class Config:
    """One run of a task."""

    task: str = "node_cluster"
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    method: MethodConfig = field(default_factory=MethodConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def as_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, as a file would hold them."""
        return _plain(self)


# ---------------------------------------------------------------- graph classification


@dataclass
class ClassifierConfig:
    """encoder -> [layers -> pool] x levels -> layers -> readout -> head."""

    backbone: str = "gin"                           # gin, gcn, sage, gat, delta
    layers: int = 2                                 # message-passing layers before each pool and after the last
    hidden: int = 64                                # their width
    delta: float = 0.85                             # backbone delta: step of the smoothing
    pool: str = "jb"                                # jb, mincut, dmon, diffpool, or none: the same layers without pools
    compare: list[str] = field(default_factory=list)    # further pools to run on the same folds, side by side
    levels: int = 1                                 # pools one after another
    ratio: float | None = None                      # K of each level: this share of the mean size of training graphs
    num_clusters: list[int] | None = None           # or K of each level as a number; without both, ratio is 0.5
    mlp: list[int] = field(default_factory=list)    # hidden layers between the features and the clusters
    readout: str = "mean+max"                       # mean, sum, max, or several joined by +
    readout_of: str = "all"                         # all: what is read out before each pool counts too; last
    norm: str = "batch"                             # batch, layer, none: after every layer
    dropout: float = 0.0                            # in the head and after every layer
    aux_weight: float = 1.0                         # weight of the losses of the pools


@dataclass
class PoolConfig:
    """Options of the pool."""

    sqrt: str = "matrix"                            # jb: matrix (the paper's) or diagonal (element-wise)
    cluster_sizes: list[float] | None = None        # jb: known proportions, for one level


@dataclass
class EpochsConfig:
    """How to train a classifier."""

    epochs: int = 200
    lr: float = 1e-3
    weight_decay: float = 0.0
    batch_size: int = 128                           # graphs per step, over all processes
    seeds: list[int] = field(default_factory=lambda: [0])
    folds: int = 10                                 # stratified folds, for sets without an official split
    eval_every: int = 1                             # epochs between looks at the validation graphs
    patience: int | None = 50                       # stop after so many epochs without a better validation score
    class_weight: bool = False                      # weigh classes by the inverse of their frequency


@dataclass
class ClassifyConfig:
    """One run of graph classification."""

    task: str = "graph_classify"
    dataset: DatasetConfig = field(default_factory=lambda: DatasetConfig("motifs"))
    model: ClassifierConfig = field(default_factory=ClassifierConfig)
    method: PoolConfig = field(default_factory=PoolConfig)
    train: EpochsConfig = field(default_factory=EpochsConfig)

    def as_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, as a file would hold them."""
        return _plain(self)


def _plain(config: Config | ClassifyConfig) -> dict[str, Any]:
    plain = dataclasses.asdict(config)
    plain["dataset"].update(plain["dataset"].pop("options"))
    return plain


TASKS: dict[str, type[Config] | type[ClassifyConfig]] = {"node_cluster": Config, "graph_classify": ClassifyConfig}

# What runs without --cfg: no download, under a minute. The same as node_cluster/sbm.yaml, graph_classify/motifs.yaml.
DEFAULTS: dict[str, dict[str, Any]] = {
    "node_cluster": {
        "dataset": {"name": "sbm", "num_nodes": 1000, "num_clusters": 4},
        "model": {"backbone": "sgc", "layers": 3, "mlp": [64]},
        "method": {"name": "jb"},
        "train": {"epochs": 300, "lr": 1e-3, "seeds": [0, 1, 2], "restarts": 2, "eval_every": 25},
    },
    "graph_classify": {
        "dataset": {"name": "motifs"},
        "model": {
            "backbone": "delta", "layers": 2, "pool": "jb", "compare": ["none"], "num_clusters": [6],
            "readout_of": "last",
        },
        "train": {"epochs": 40, "lr": 3e-3, "batch_size": 64, "folds": 3},
    },
}  # fmt: skip

AT_LEAST = {
    "model.layers": 0, "model.hidden": 1, "model.mlp": 1, "model.levels": 1, "model.num_clusters": 1,
    "model.aux_weight": 0, "method.num_clusters": 1, "train.epochs": 1, "train.restarts": 1, "train.eval_every": 1,
    "train.patience": 1, "train.batch_size": 1, "train.folds": 2, "train.weight_decay": 0,
}  # fmt: skip


# Two ways to say the same: --set of one takes the place of the other in the file.
INSTEAD_OF = {"model.ratio": "num_clusters", "model.num_clusters": "ratio"}


def find_config(name: str, task: str) -> Path:
    """``name`` as a path, then under ``configs/<task>/``."""
    for path in (Path(name), CONFIGS / task / name, CONFIGS / task / f"{name}.yaml"):
        if path.is_file():
            return path
    known = sorted(path.name for path in (CONFIGS / task).glob("*.yaml"))
    near = get_close_matches(Path(name).stem, [Path(other).stem for other in known], n=1)
    hint = f" Did you mean '{near[0]}.yaml'?" if near else ""
    raise ConfigError(f"--cfg {name}: no such file.{hint} Under configs/{task}: {', '.join(known)}.")


@overload
def load_config(
    task: Literal["node_cluster"], name: str | None = None, changes: Sequence[str] = ()
) -> Config: ...
@overload
def load_config(
    task: Literal["graph_classify"], name: str | None = None, changes: Sequence[str] = ()
) -> ClassifyConfig: ...
def load_config(task: str, name: str | None = None, changes: Sequence[str] = ()) -> Config | ClassifyConfig:
    """The configuration of a file (by default the embedded one) with ``--set`` changes."""
    path = None if name is None else find_config(name, task)
    where = "the default" if path is None else str(path)
    values = copy.deepcopy(DEFAULTS[task])
    if path is not None:
        values = read_yaml(path.read_text(encoding="utf-8-sig"), where) or {}
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: a mapping of sections is expected, not {type(values).__name__}")
    if isinstance(values.get("dataset"), dict):
        values["dataset"].setdefault("name", DEFAULTS[task]["dataset"]["name"])
    problems: list[str] = []
    if path is not None and "task" not in values:
        problems.append(f"{where}: 'task: {task}' is missing")
    changed: dict[str, str] = {}                                # key -> the --set that gave it
    for change in sorted(changes, key=lambda change: not change.startswith("dataset.name=")):
        key = change.partition("=")[0]
        changed[key] = f"--set {change}"
        try:
            _change(values, change)
        except ConfigError as error:
            problems.append(f"--set {change}: {error}")

    def given(key: str) -> str:
        return changed.get(key, where)

    config = build(TASKS[task], values, "", given, problems)
    if values.get("task", task) != task:
        problems.append(f"{given('task')}: task is {values['task']!r}, but this is the task {task!r}")
    choices = import_module({"node_cluster": "jbpool.clustering.run", "graph_classify": "jbpool.classification.run"}[task]).wrong_choices
    wrong = [*_out_of_range(config), *choices(config)]
    problems += [f"{given(key)}: {problem}" for key, problem in wrong]
    if problems:
        raise ConfigError("\n".join(problems))
    return config


def _change(values: dict[str, Any], change: str) -> None:
    """Do as ``--set section.key=value`` says."""
    key, mark, text = change.partition("=")
    if not mark or not key:
        raise ConfigError("write it as section.key=value")
    *sections, last = key.split(".")
    inner: Any = values
    for section in sections:
        inner = inner.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{section!r} is a value, not a section")
    is_mark = len(text) == 1 and not text.isalnum() and text != "~"     # a separator: not for YAML. ~ is its null
    value = text if is_mark else read_yaml(text, "not YAML")
    if key == "dataset.name" and value != inner.get("name"):
        for option in inner.keys() - {"root"}:
            del inner[option]                                   # options of the other dataset
    inner[last] = value
    if key in INSTEAD_OF and value is not None:
        inner.pop(INSTEAD_OF[key], None)


def _out_of_range(config: Config | ClassifyConfig) -> Iterator[tuple[str, str]]:
    """Key and problem of every number that makes no sense."""
    model, train = config.model, config.train
    for key, low in AT_LEAST.items():
        section, name = key.split(".")
        value = getattr(getattr(config, section), name, None)
        if value is not None and min(value if isinstance(value, list) else [value], default=low) < low:
            yield key, f"{key}={value} should be at least {low}"
    if not train.lr > 0:
        yield "train.lr", f"train.lr={train.lr} should be above 0"
    if not 0 <= model.delta <= 2:
        yield "model.delta", f"model.delta={model.delta} should be at least 0 and at most 2"
    if isinstance(model, ClassifierConfig):
        if model.ratio is not None and not 0 < model.ratio <= 1:
            yield "model.ratio", f"model.ratio={model.ratio} should be above 0 and at most 1"
        if not 0 <= model.dropout < 1:
            yield "model.dropout", f"model.dropout={model.dropout} should be at least 0 and below 1"
        given = model.num_clusters
        if given is not None and model.ratio is not None:
            yield "model.ratio", "model.ratio and model.num_clusters both say how many clusters: give one of them"
        if given is not None and len(given) not in (1, model.levels):
            problem = f"model.num_clusters={given} should hold one number, or one for each of the levels"
            yield "model.num_clusters", problem
    if not train.seeds:
        yield "train.seeds", "train.seeds is empty: give at least one"
    if len(set(train.seeds)) != len(train.seeds):
        yield "train.seeds", f"train.seeds={train.seeds} names a seed twice"
    sizes = config.method.cluster_sizes
    if sizes is not None:
        try:
            check_cluster_sizes(sizes, len(sizes))
        except ValueError as error:
            yield "method.cluster_sizes", f"method.{error}"
