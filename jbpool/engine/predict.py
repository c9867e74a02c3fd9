"""What ``--predict`` of both tasks checks and loads before it applies a trained model to new data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from jbpool.engine.config import Change, load_config, parse_change
from jbpool.engine.state import load_state
from jbpool.engine.task import Task
from jbpool.errors import ConfigError, DataError
from jbpool.files import check_writable
from jbpool.ops.sparse import stored_values


def load_model(run_dir: Path, expected: Mapping[str, Any], finished: str) -> dict[str, Any]:
    """Return the content of ``model.pt``; ``expected`` as for ``load_state``, ``finished``: which runs have a model."""
    if not (run_dir / "model.pt").is_file():
        folder = "" if run_dir.is_dir() else " (no such folder)"
        if run_dir.is_file():
            folder = f" (it is a file: did you mean its folder, {run_dir.parent}?)"
        raise ConfigError(f"{run_dir} has no model.pt{folder}: give a finished run {finished}.")
    return load_state(run_dir / "model.pt", expected)


def check_fits_weights(sizes: Iterable[int], state: Mapping[str, Tensor]) -> None:
    """Refuse sizes of a network that its weights cannot have, before it is built."""
    most = sum(weight.numel() for weight in state.values())
    for size in sizes:
        if not 1 <= size <= most:
            raise ValueError(f"a size of {size} does not fit {most} weights")


def check_finite(feat: Tensor, name: str = "feat") -> None:
    """Refuse NaN and infinity, which would give a class or cluster like any other."""
    if not bool(stored_values(feat).isfinite().all()):
        raise DataError(f"{name} holds NaN or infinity: fill the gaps first, e.g. with torch.nan_to_num({name}).")


def check_request(run_dir: Path, changes: Sequence[Change], path: Path) -> None:
    """Check that only the dataset is set, the file to write does not exist, and its folder is writable."""
    for change in changes:
        if not change.key.startswith("dataset."):
            raise ConfigError(f"{change.argument}: the model of {run_dir} is fixed; only dataset... can be set.")
    if path.exists():
        raise ConfigError(f"{path} already exists: choose another --out.")
    check_writable(path)


def config_for(task: Task, run_dir: Path, changes: Sequence[Change], files: Callable[[str], Iterable[str]]) -> Any:
    """Return the configuration of a run with the dataset of ``changes``, without the files of the training set.

    After training on a published dataset, an option such as ``dataset.folder`` means the user's own files. ``files``:
    name of a dataset -> its options that describe files.
    """
    path = str(run_dir / "config.yaml")
    trained = load_config(task, path).dataset
    given = {change.key: change.value for change in changes}
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
