"""Model selection: the settings to try for each method; every fold uses those with the best validation score."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from jbpool.classification import config as plain
from jbpool.classification.config import EXCLUSIVE, ClassifyConfig
from jbpool.engine.fit import count
from jbpool.errors import JBPoolError
from jbpool.names import lookup
from jbpool.nn.pools import POOLS, option_problems
from jbpool.schema import as_dict, build, changed, out_of_range

Trial = dict[str, Any]                  # "section.key" -> value
MAX_TRIALS, MAX_COMBINATIONS = 1_000, 10_000         # to run, and to draw from
SECTIONS = ("model", "method", "train")
# What all trials of a run have in common; the methods are compared, not selected.
FIXED = ("model.pool", "model.compare", "train.seeds", "train.folds", "train.official_split")
POOL_SETTINGS = ("model.ratio", "model.num_clusters", "model.mlp", "model.aux_weight")


def concerns(key: str, method: str) -> bool:
    """Return whether a setting changes the training of a method."""
    section, _, option = key.partition(".")
    if method == "none":
        return section != "method" and key not in POOL_SETTINGS
    entry = POOLS[method]
    return section != "method" or (option in entry.pool.options and option not in entry.fixed)


def trials(config: ClassifyConfig, method: str) -> list[Trial]:
    """Return the different settings to try for a method, in the order of the grid; ``[{}]`` without a search.

    Settings that do not affect the method are dropped, and combinations that become identical are tried once.
    ``search.trials`` limits their number by a random draw: the same number for every method that has enough.
    """
    grid = {key: values for key, values in _grid(config).items() if concerns(key, method)}
    different: dict[Hashable, Trial] = {}
    for values in itertools.product(*grid.values()):
        trial = dict(zip(grid, values, strict=True))
        different.setdefault(_identity(config, trial), trial)
    found = list(different.values())
    if config.search.trials is None or len(found) <= config.search.trials:
        return found
    drawn = np.random.default_rng(config.search.seed).permutation(len(found))[: config.search.trials]
    return [found[index] for index in sorted(drawn)]


def _identity(config: ClassifyConfig, trial: Trial) -> Hashable:
    """Return a key that is equal for trials with identical training."""
    head, backbone = trial.get("method.head", config.method.head), trial.get("model.backbone", config.model.backbone)
    ignored = _ignored(head, backbone)

    def comparable(key: str, value: Any) -> Hashable:
        values = tuple(value) if isinstance(value, list) else (value,)
        # One number may stand for one per level.
        return values[:1] if key == "model.num_clusters" and len(set(values)) == 1 else values

    return tuple((key, comparable(key, value)) for key, value in trial.items() if key not in ignored)


def _ignored(head: str, backbone: str) -> set[str]:
    """Return the settings that networks with this head of the pools and this backbone do not read."""
    needed = {"method.temperature": head == "cosine", "model.delta": backbone == "delta"}
    return {key for key, read in needed.items() if not read}


def unused(config: ClassifyConfig) -> list[str]:
    """Return the settings that differ from their defaults although no method and no trial reads them."""
    methods = dict.fromkeys((config.model.pool, *config.model.compare))
    tried = [(method, with_settings(config, trial)) for method in methods for trial in trials(config, method)]

    def read(key: str) -> bool:
        return any(
            concerns(key, method) and key not in _ignored(one.method.head, one.model.backbone) for method, one in tried
        )

    return [key for key in changed(config) if key.partition(".")[0] in SECTIONS and not read(key)]


def with_settings(config: ClassifyConfig, trial: Trial, wrong: list[str] | None = None) -> ClassifyConfig:
    """Return the configuration of a trial, without a search; ``wrong`` receives values of the wrong type."""
    values = as_dict(config)
    values["search"] = {}
    for key, value in trial.items():
        section, _, option = key.partition(".")
        values[section][option] = value
        if key in EXCLUSIVE and value is not None:
            values[section][EXCLUSIVE[key].partition(".")[2]] = None
    return build(ClassifyConfig, values, "", lambda key: "search.grid", [] if wrong is None else wrong)


def _grid(config: ClassifyConfig) -> dict[str, list]:
    """Return ``section.key`` -> the values to try."""
    return {f"{section}.{key}": values for section, keys in config.search.grid.items() for key, values in keys.items()}


def budget(config: ClassifyConfig, methods: list[str], folds: int) -> str:
    """Return the number of training runs of a search, to be printed before it starts."""
    counts = {method: len(trials(config, method)) for method in methods}
    each = ", ".join(f"{number} of {method}" for method, number in counts.items())
    runs = folds * len(config.train.seeds)
    total = count(sum(counts.values()) * runs, "training run")
    text = f"search: trials for each of {count(runs, 'run')} (seeds x folds): {each}; {total} in all"
    if len(set(counts.values())) > 1:
        text += "; budgets differ, since some settings do not concern every method: search.trials limits all alike"
    return text


def problems(config: ClassifyConfig) -> Iterator[tuple[str, str]]:
    """Yield key and problem of every invalid setting, including those of the trials."""
    yield from plain.problems(config)
    wrong = dict(_grid_problems(config))                    # search.grid.section.key -> problem
    yield from wrong.items()
    if "search.grid" in wrong:
        return                                              # too many combinations to look at
    valid = {key: values for key, values in _grid(config).items() if f"search.grid.{key}" not in wrong}
    found: list[str] = []
    for key, values in valid.items():
        for value in values:
            before = len(found)
            with_settings(config, {key: value}, found)
            if len(found) > before:
                wrong[f"search.grid.{key}"] = problem = found[-1].removeprefix("search.grid: ")
                yield f"search.grid.{key}", problem
    grid: dict[str, dict] = {}
    for key, values in valid.items():
        if f"search.grid.{key}" not in wrong:
            section, _, option = key.partition(".")
            grid.setdefault(section, {})[option] = values
    yield from (("search.grid", problem) for problem in _trial_problems(config, grid))


def _trial_problems(config: ClassifyConfig, grid: dict[str, dict]) -> Iterator[str]:
    """Yield the problems of the trials that the configuration without a search does not have, each once."""
    if not grid:
        return
    tried = replace(config, search=replace(config.search, grid=grid))
    methods = [name for name in (config.model.pool, *config.model.compare) if name == "none" or name in POOLS]
    configs = [with_settings(tried, trial) for method in dict.fromkeys(methods) for trial in trials(tried, method)]
    known, *found = [dict.fromkeys(_problems_of(one)) for one in (config, *configs)]
    yield from (problem for problem in dict.fromkeys(itertools.chain.from_iterable(found)) if problem not in known)


def _problems_of(config: ClassifyConfig) -> Iterator[str]:
    yield from (problem for _, problem in (*out_of_range(config), *plain.problems(config)))
    yield from (f"method.{problem}" for _, problem in option_problems(config.method))


def _grid_problems(config: ClassifyConfig) -> Iterator[tuple[str, str]]:
    grid, known = config.search.grid, as_dict(config)
    for section, keys in grid.items():
        for key, values in keys.items():
            name = f"{section}.{key}"
            if name in FIXED or (section in known and section not in SECTIONS):
                yield f"search.grid.{name}", f"{name} cannot be searched: it is the same for all trials of a run"
                continue
            try:
                lookup(dict.fromkeys(SECTIONS), section, "search.grid")
                lookup(known[section], key, f"search.grid.{section}")
            except JBPoolError as error:
                yield f"search.grid.{name}", str(error)
                continue
            if not isinstance(values, list) or not values:
                yield f"search.grid.{name}", f"search.grid.{name}={values!r} should be a list of one or more values"
    for one, other in EXCLUSIVE.items():
        if one < other and {one, other} <= _grid(config).keys():
            yield f"search.grid.{other}", f"{one} and {other} both set the number of clusters: search only one of them"
    if config.search.trials is not None and not grid:
        yield "search.trials", "search.trials draws from search.grid, which is empty: add the settings to try"
    if all(isinstance(values, list) for keys in grid.values() for values in keys.values()):
        combinations = math.prod(len(values) for values in _grid(config).values())
        if combinations > MAX_COMBINATIONS:
            yield "search.grid", f"search.grid has {combinations:,} combinations, more than {MAX_COMBINATIONS:,}"
        elif config.search.trials is None and combinations > MAX_TRIALS:
            yield "search.grid", f"search.grid has {combinations:,} combinations: draw some of them with search.trials"
