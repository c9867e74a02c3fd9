"""Model selection: the settings to try for each method; every fold uses those with the best validation score."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from jbpool.classification import config as plain
from jbpool.classification.config import EXCLUSIVE, METHODS, ClassifyConfig, SearchConfig
from jbpool.console import plural
from jbpool.nn.pools import POOLS, option_problems, options_of
from jbpool.schema import build, changed, convert, out_of_range

MAX_SETTINGS, MAX_COMBINATIONS = 1_000, 10_000       # to run, and to draw from
SECTIONS = ("model", "method", "train")
# What all trials of a run have in common; the methods are compared, not selected.
FIXED = ("model.pool", "model.compare", "train.seeds", "train.folds", "train.official_split")
POOL_SETTINGS = ("model.ratio", "model.num_clusters", "model.mlp", "model.aux_weight")


class Setting(NamedTuple):
    """Settings to try for one method."""

    values: dict[str, Any]                  # section.key -> value, of the grid
    config: ClassifyConfig                  # with these values and this method, without a search


def settings_to_try(config: ClassifyConfig, method: str) -> list[Setting]:
    """Return the different settings to try for a method, in the order of the grid; without a search a single one.

    Settings that do not affect the method are dropped, and combinations that become identical are tried once.
    ``search.trials`` limits their number by a random draw: the same number for every method that has enough.
    """
    alone = replace(config, model=replace(config.model, pool=method), search=SearchConfig())
    grid = {key: values for key, values in _grid(config).items() if _concerns(key, method)}
    different: dict[str, Setting] = {}
    for combination in itertools.product(*grid.values()):
        values = dict(zip(grid, combination, strict=True))
        setting = Setting(values, with_values(alone, values))
        different.setdefault(repr(settings_read(setting.config)), setting)
    settings, limit = list(different.values()), config.search.trials
    if limit is None or len(settings) <= limit:
        return settings
    drawn = np.random.default_rng(config.search.seed).permutation(len(settings))[:limit]
    return [settings[index] for index in sorted(drawn)]


def settings_read(config: ClassifyConfig) -> dict[str, Any]:
    """Return the settings that decide a training, ``section.key`` -> value."""
    ignored = {
        "method.temperature" if config.method.head != "cosine" else "",
        "model.delta" if config.model.backbone != "delta" else "",
    }
    read = {f"{section}.{key}": value for section in SECTIONS for key, value in vars(getattr(config, section)).items()}
    read = {key: value for key, value in read.items() if _concerns(key, config.model.pool) and key not in ignored}
    clusters = read.get("model.num_clusters")
    if clusters and len(set(clusters)) == 1:
        read["model.num_clusters"] = clusters[:1]           # one number may stand for one per level
    return read


def with_values(config: ClassifyConfig, values: Mapping[str, Any]) -> ClassifyConfig:
    """Return the configuration with other values, ``section.key`` -> value, or a ``TypeError``."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, option = key.partition(".")
        part = sections.setdefault(section, {})
        part[option] = convert(value, _types(section)[option])
        if key in EXCLUSIVE and value is not None:
            part[EXCLUSIVE[key].partition(".")[2]] = None
    return replace(config, **{name: replace(getattr(config, name), **part) for name, part in sections.items()})


@cache
def _types(section: str) -> dict[str, Any]:
    """Return key -> type of a section."""
    return get_type_hints(get_type_hints(ClassifyConfig)[section])


def unused(config: ClassifyConfig) -> list[str]:
    """Return the settings that differ from their defaults although no method and no trial reads them."""
    methods = dict.fromkeys((config.model.pool, *config.model.compare))
    tried = [setting.config for method in methods for setting in settings_to_try(config, method)]
    read = {key for each in tried for key in settings_read(each)}
    return [key for key in changed(config) if key.partition(".")[0] in SECTIONS and key not in read]


def budget(counts: Mapping[str, int], runs: int) -> str:
    """Return the number of trainings of a search, to be printed before it starts; ``counts``: method -> settings."""
    each = ", ".join(f"{number} of {method}" for method, number in counts.items())
    total = plural(sum(counts.values()) * runs, "training run")
    text = f"search: trials for each of {plural(runs, 'run')} (seeds x folds): {each}; {total} in all"
    if len(set(counts.values())) > 1:
        text += "; budgets differ, since some settings do not concern every method: search.trials limits all alike"
    return text


def problems(config: ClassifyConfig) -> Iterator[tuple[str, str]]:
    """Yield key and problem of every invalid setting, including those of the trials."""
    yield from plain.problems(config)
    wrong = dict(_grid_problems(config))                    # search.grid.section.key -> problem
    yield from wrong.items()
    sound: dict[str, dict[str, list]] = {}
    for key, values in _grid(config).items():
        if not {f"search.grid.{key}", "search.grid"} & wrong.keys():
            section, _, option = key.partition(".")
            sound.setdefault(section, {})[option] = values
    tried = replace(config, search=replace(config.search, grid=sound))
    methods = {config.model.pool, *config.model.compare} & {*METHODS}
    settings = [setting for method in sorted(methods) for setting in settings_to_try(tried, method)] if sound else []
    new = dict.fromkeys(problem for setting in settings for problem in _problems_of(setting.config))
    yield from (("search.grid", problem) for problem in new if problem not in set(_problems_of(config)))


def _problems_of(config: ClassifyConfig) -> Iterator[str]:
    yield from (problem for _, problem in (*out_of_range(config), *plain.problems(config)))
    yield from (f"method.{problem}" for _, problem in option_problems(config.method))


def _grid_problems(config: ClassifyConfig) -> Iterator[tuple[str, str]]:
    """Yield key and problem of the grid itself: unknown settings, values of another type, too many combinations."""
    grid, limit = _grid(config), config.search.trials
    for key, values in grid.items():
        section, _, option = key.partition(".")
        wrong: list[str] = []
        for value in values if isinstance(values, list) else [values]:
            build(ClassifyConfig, {section: {option: value}}, "", lambda key: "", wrong)
        if key in FIXED or section == "dataset":
            wrong = [f"{key} cannot be searched: it is the same for all trials of a run"]
        elif not wrong and (not isinstance(values, list) or not values):
            wrong = [f"search.grid.{key}={values!r} should be a list of one or more values"]
        yield from ((f"search.grid.{key}", problem.removeprefix(": ")) for problem in wrong)
    combinations = math.prod(len(values) for values in grid.values() if isinstance(values, list))
    for applies, key, problem in (
        ({"model.ratio", "model.num_clusters"} <= grid.keys(), "search.grid.model.ratio",
         "model.ratio and model.num_clusters both set the number of clusters: search only one of them"),
        (limit is not None and not grid, "search.trials",
         "search.trials draws from search.grid, which is empty: add the settings to try"),
        (combinations > (MAX_SETTINGS if limit is None else MAX_COMBINATIONS), "search.grid",
         f"search.grid has {combinations:,} combinations: draw some of them with search.trials, from at most "
         f"{MAX_COMBINATIONS:,}"),
    ):  # fmt: skip
        if applies:
            yield key, problem


def _grid(config: ClassifyConfig) -> dict[str, Any]:
    """Return ``section.key`` -> the values to try."""
    return {f"{section}.{key}": values for section, keys in config.search.grid.items() for key, values in keys.items()}


def _concerns(key: str, method: str) -> bool:
    """Return whether a setting can change the training of a method."""
    section, _, option = key.partition(".")
    if method in POOLS:
        return section != "method" or option in options_of(method)
    by_ratio = key == "model.ratio" and method in ("topk", "sag", "random")
    return section != "method" and (key not in POOL_SETTINGS or by_ratio)
