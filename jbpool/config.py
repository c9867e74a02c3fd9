"""Typed configurations from YAML: every problem of a file reported at once, with the near miss and the choices.

PyYAML alone reads ``1e-4`` as text, ``off`` as False, and keeps the last of two equal keys in silence; the loader here
does none of the three. ``--set a.b=v`` goes through the same door as the file.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


class ConfigError(ValueError):
    """All problems of a configuration, one a line."""


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
    patience: int | None = None                     # stop after so many epochs without a lower loss


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
        plain = dataclasses.asdict(self)
        plain["dataset"].update(plain["dataset"].pop("options"))
        return plain


# What runs without --cfg: no download, under a minute. The same as configs/node_cluster/sbm.yaml.
DEFAULTS: dict[str, dict[str, Any]] = {
    "node_cluster": {
        "dataset": {"name": "sbm", "num_nodes": 1000, "num_clusters": 4},
        "model": {"backbone": "sgc", "layers": 3, "mlp": [64]},
        "method": {"name": "jb"},
        "train": {"epochs": 300, "lr": 1e-3, "seeds": [0, 1, 2], "restarts": 2, "eval_every": 25},
    },
}

AT_LEAST = {
    "model.layers": 0, "model.hidden": 1, "method.num_clusters": 1,
    "train.epochs": 1, "train.restarts": 1, "train.eval_every": 1, "train.patience": 1,
}  # fmt: skip


# ---------------------------------------------------------------- reading YAML


class _Loader(yaml.SafeLoader):
    """YAML as its 1.2 version has it: only true and false are booleans, 1e-4 is a number, keys are unique."""

    def construct_mapping(self, node, deep=False):
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.MarkedYAMLError(problem=f"key {key!r} on line {line} was given on line {seen[key]} already")
            seen[key] = key_node.start_mark.line + 1
        return super().construct_mapping(node, deep)


_REPLACED = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:float")
_Loader.yaml_implicit_resolvers = {
    first: [resolver for resolver in resolvers if resolver[0] not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$", re.IGNORECASE), list("tTfF"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?$|^[-+]?\.(?:inf|nan)$", re.IGNORECASE),
    list("-+.0123456789"),
)


def read_yaml(text: str, where: str) -> Any:
    """The plain Python value of a YAML text."""
    try:
        return yaml.load(text, Loader=_Loader)      # a subclass of SafeLoader: builds no objects
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{where}{line}: {getattr(error, 'problem', None) or error}") from None


# ---------------------------------------------------------------- from values to a Config


def find_config(name: str, task: str) -> Path:
    """``name`` as a path, then under ``configs/<task>/``."""
    for path in (Path(name), CONFIGS / task / name, CONFIGS / task / f"{name}.yaml"):
        if path.is_file():
            return path
    known = sorted(path.name for path in (CONFIGS / task).glob("*.yaml"))
    near = get_close_matches(Path(name).stem, [Path(other).stem for other in known], n=1)
    hint = f" Did you mean '{near[0]}.yaml'?" if near else ""
    raise ConfigError(f"--cfg {name}: no such file.{hint} Under configs/{task}: {', '.join(known)}.")


def load_config(task: str, name: str | None = None, changes: Sequence[str] = ()) -> Config:
    """The configuration of a file (by default the embedded one) with ``--set`` changes."""
    path = None if name is None else find_config(name, task)
    where = "the default" if path is None else str(path)
    values = copy.deepcopy(DEFAULTS[task])
    if path is not None:
        values = read_yaml(path.read_text(encoding="utf-8-sig"), where) or {}
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: a mapping of sections is expected, not {type(values).__name__}")
    problems: list[str] = []
    if path is not None and "task" not in values:
        problems.append(f"{where}: 'task: {task}' is missing")
    for change in changes:
        key, mark, text = change.partition("=")
        if not mark or not key:
            problems.append(f"--set {change}: write it as section.key=value")
            continue
        *sections, last = key.split(".")
        inner = values
        for section in sections:
            inner = inner.setdefault(section, {}) if isinstance(inner.setdefault(section, {}), dict) else {}
        inner[last] = read_yaml(text, f"--set {change}")
    config = _section(Config, values, "", where, problems)
    if values.get("task", task) != task:
        problems.append(f"{where}: task is {values['task']!r}, but this is the task {task!r}")
    problems += [f"{where}: {problem}" for problem in _out_of_range(config)] if not problems else []
    if problems:
        raise ConfigError("\n".join(problems))
    return config


def _section(kind: type, values: dict, prefix: str, where: str, problems: list[str]) -> Any:
    """A dataclass from a mapping; what does not fit is added to ``problems``."""
    hints, known = typing.get_type_hints(kind), {item.name for item in dataclasses.fields(kind)}
    fitting: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if kind is DatasetConfig and key not in ("name", "root"):
            fitting.setdefault("options", {})[str(key)] = value
        elif key not in known:
            near = get_close_matches(str(key), known, n=1)
            hint = f" Did you mean {prefix + near[0]!r}?" if near else ""
            problems.append(f"{where}: {name!r} is unknown.{hint} Choose one of: {', '.join(sorted(known))}.")
        elif dataclasses.is_dataclass(hints[key]):
            if isinstance(value, dict):
                fitting[key] = _section(hints[key], value, f"{name}.", where, problems)
            else:
                problems.append(f"{where}: {name!r} is a section, not {value!r}")
        else:
            try:
                fitting[key] = _convert(value, hints[key])
            except TypeError:
                problems.append(f"{where}: {name}={value!r} should be {_readable(hints[key])}")
    return kind(**fitting)


def _convert(value: Any, kind: Any) -> Any:
    """``value`` as the annotated type, or a ``TypeError``; a single number will do for a list of them."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _convert(value, next(option for option in inner if option is not type(None)))
    if origin is list:
        return [_convert(item, inner[0]) for item in (value if isinstance(value, list) else [value])]
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError
        return {_convert(key, inner[0]): _convert(item, inner[1]) for key, item in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError
    return value


def _readable(kind: Any) -> str:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join("nothing" if option is type(None) else _readable(option) for option in typing.get_args(kind))
    if typing.get_origin(kind) is list:
        return f"a list of {_readable(typing.get_args(kind)[0])}s"
    if typing.get_origin(kind) is dict:
        return "a mapping of names to numbers"
    return {int: "whole number", float: "number", str: "text", bool: "true or false"}[kind]


def _out_of_range(config: Config) -> list[str]:
    problems = []
    for key, low in AT_LEAST.items():
        section, name = key.split(".")
        value = getattr(getattr(config, section), name)
        if value is not None and value < low:
            problems.append(f"{key}={value} should be at least {low}")
    if not config.train.lr > 0:
        problems.append(f"train.lr={config.train.lr} should be above 0")
    if not config.train.seeds:
        problems.append("train.seeds is empty: give at least one")
    if len(set(config.train.seeds)) != len(config.train.seeds):
        problems.append(f"train.seeds={config.train.seeds} names a seed twice")
    return problems
