"""What both tasks check before they apply a trained model to new data: columns as in training, or a clear error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from jbpool.checks import check_edge_weight
from jbpool.engine.config import Change, general_problems, load_config, parse_change
from jbpool.engine.task import Task
from jbpool.errors import ConfigError, DataError
from jbpool.files import load_state
from jbpool.graph import Graph, as_graph
from jbpool.inputs import check_symmetric
from jbpool.ops.sparse import stored_values
from jbpool.schema import build


def load_model(run_dir: Path) -> dict[str, Any]:
    """Return the content of ``model.pt`` of a run folder."""
    check_has_model(run_dir)
    return load_state(run_dir / "model.pt")


def check_has_model(run_dir: Path) -> None:
    """Refuse a folder without a trained model."""
    if (run_dir / "model.pt").is_file():
        return
    folder = "" if run_dir.is_dir() else " (no such folder)"
    if run_dir.is_file():
        folder = f" (it is a file: did you mean its folder, {run_dir.parent}?)"
    fix = "give a finished run; embeddings, k-means and auto on edges alone leave no model to apply"
    raise ConfigError(f"{run_dir} has no model.pt{folder}: {fix}.")


def config_of_run(schema: type, values: dict[str, Any], path: Path) -> Any:
    """Return the configuration of a trained model from the values that ``path`` has."""
    problems: list[str] = []
    config = build(schema, values, "", lambda key: str(path), problems)
    problems = problems or [f"{path}: {problem}" for _, problem in general_problems(config)]
    if problems:
        raise ConfigError("\n".join(problems))
    return config


def match_columns(
    trained: Sequence[str] | None,
    given: Sequence[str] | None,
    what: str,
    may_lack: Callable[[str], bool] = lambda name: False,
) -> list[int] | None:
    """Return the place of every column of training among the given ones; None, by position, if one side has no names.

    ``what`` a column is, in errors. Columns that new data ``may_lack`` have the place -1.
    """
    if trained is None or given is None:
        return None
    places = {name: place for place, name in enumerate(given)}
    for name in (*given, *trained):
        if name not in places and not may_lack(name):
            raise DataError(f"{what} {name!r} is missing: the model was trained on {shown(trained)}.")
        if name not in trained:
            raise DataError(f"{what} {name!r} is unknown to the model: it was trained on {shown(trained)}.")
    return [places.get(name, -1) for name in trained]


def in_order(values: Tensor, places: Sequence[int] | None) -> Tensor:
    """Return the columns in the order of training, from what ``match_columns`` returned; zeros for those at -1."""
    if places is None or places == [*range(values.shape[1])]:
        return values
    if -1 in places:
        values = torch.cat([values, values.new_zeros(len(values), 1)], dim=1)
    return values[:, list(places)]


def shown(names: Sequence[str]) -> str:
    """Return the first names of a list as text."""
    return ", ".join(repr(name) for name in names[:12]) + (", ..." if len(names) > 12 else "")


def check_given(given: bool, trained: bool, what: str) -> None:
    """Refuse what the model was trained without, and the lack of what it was trained with."""
    if given != trained:
        how, fix = ("with", "give them, too") if trained else ("without", "leave them out")
        raise DataError(f"the model was trained {how} {what}: {fix}.")


def check_values(
    values: Tensor | None, rows: int, columns: int, categories: Sequence[int] | None, what: str
) -> None:
    """Refuse features of another number or kind than in training, gaps, and categories that have no weights.

    ``categories``: how many each column has; None: columns are numbers.
    """
    if not isinstance(values, Tensor) or values.dim() != 2 or values.shape[0] != rows:
        got = f"of shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise DataError(f"{what}: {got}, but a tensor of {rows} rows is needed, one each, in their order.")
    if values.shape[1] != columns:
        raise DataError(f"{what}: {values.shape[1]} columns, but the model was trained on {columns}: give the same.")
    if values.is_floating_point() != (categories is None):
        kind = "numbers" if categories is None else "categories, whole numbers"
        raise DataError(f"{what}: {values.dtype}, but the model was trained on {kind}: convert them.")
    if is_compiling():                                  # compiled code reads no values
        return
    if categories is None:
        if not bool(stored_values(values).isfinite().all()):
            raise DataError(f"{what}: NaN or infinity; fill the gaps first, e.g. with torch.nan_to_num.")
        return
    unseen = (values >= torch.tensor(categories, device=values.device)) | (values < 0)
    if bool(unseen.any()):
        row, column = unseen.nonzero()[0].tolist()
        trained = f"it had 0 to {categories[column] - 1} in training"
        raise DataError(f"{what}: category {int(values[row, column])} of column {column} is unknown: {trained}.")


def called_with(
    graph: Any, feat: Tensor, edge_weight: Tensor | None, in_feats: int, categories: Sequence[int] | None = None
) -> tuple[Graph, Tensor, Tensor | None]:
    """Return what a trained model is called with as it was in training, after checking it: numbers as float32."""
    graph = as_graph(graph)
    check_edge_weight(edge_weight, graph.num_edges, graph.device)
    check_symmetric(graph, edge_weight)
    check_values(feat, graph.num_nodes, in_feats, categories, "feat")
    feat = feat.float() if categories is None else feat
    return graph, feat, None if edge_weight is None else edge_weight.float()


# Settings of the dataset that select no other data
DESCRIBING = {f"dataset.{option}" for option in ("root", "separator", "header", "missing", "weight", "scale")}


def config_for(task: Task, run_dir: Path, arguments: Sequence[str | Change]) -> Any:
    """Return the configuration of a run with the dataset of ``arguments``, without the files of the training set.

    After training on a published dataset, an option such as ``dataset.folder`` means the user's own files.
    """
    check_has_model(run_dir)
    changes = [parse_change(change) if isinstance(change, str) else change for change in arguments]
    for change in changes:
        if not change.key.startswith("dataset."):
            raise ConfigError(f"{change.argument}: the model of {run_dir} is fixed; only dataset... can be set.")
    given = {change.key: change.value for change in changes}
    if not given.keys() - DESCRIBING:
        raise ConfigError(f"--predict {run_dir}: give new data, too: FILE, or --set dataset...=...")
    path = str(run_dir / "config.yaml")
    trained = load_config(task, path).dataset
    files = trained.file_options
    if "dataset.name" not in given:
        of_files = {f"dataset.{option}" for option in {*files("file")} - {*files(trained.name)}}
        if of_files & given.keys():
            given["dataset.name"] = "file"
            changes = [parse_change("dataset.name=file"), *changes]
    forgotten = []
    if given.get("dataset.name", trained.name) == trained.name:         # another name already removes all options
        options = [option for option in files(trained.name) if option in trained.options]
        forgotten = [f"dataset.{option}=null" for option in options if f"dataset.{option}" not in given]
    return load_config(task, path, [*forgotten, *changes])
