"""The run folder: config.yaml, result.json, history.csv, model.pt and the results of the task, written atomically."""

from __future__ import annotations

import copy
import csv
import io
import json
import math
import platform
import statistics
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor

from jbpool.atomic import atomic_file, write_text
from jbpool.errors import RunFolderError

PACKAGES = ("jbpool", "torch", "dgl", "numpy", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """What the run ran on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def summary(runs: list[dict[str, Any]]) -> tuple[dict[str, float], dict[str, float]]:
    """Mean and standard deviation over runs of every score."""
    keys = [key for key, value in (runs[0] if runs else {}).items() if _is_score(key, value)]
    columns = {key: [run[key] for run in runs if _is_score(key, run.get(key))] for key in keys}
    mean = {key: statistics.fmean(values) for key, values in columns.items()}
    std = {key: statistics.stdev(values) if len(values) > 1 else 0.0 for key, values in columns.items()}
    return mean, std


def _is_score(key: str, value: Any) -> bool:
    counted = key in ("seed", "fold", "restart", "labelled")
    return not counted and isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass
class RunFolder:
    """Results of a run as they come in; every method leaves a readable folder behind."""

    path: Path
    task: str
    dataset: str
    method: str
    config: dict[str, Any]
    fingerprint: str = ""               # of the data, so that --resume can tell whether they have changed
    runs: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: dict[str, list[dict[str, Any]]] = field(default_factory=dict)     # other methods -> their runs

    @property
    def result(self) -> dict[str, Any]:
        mean, std = summary(self.runs)
        return {
            "task": self.task,
            "dataset": self.dataset,
            "method": self.method,
            "runs": self.runs,
            "mean": mean,
            "std": std,
            "compared": {
                method: dict(zip(("runs", "mean", "std"), (runs, *summary(runs)), strict=True))
                for method, runs in self.compared.items()
            },
            "notes": self.notes,
            "versions": versions(),
            "config": self.config,
        }

    def start(self) -> None:
        write_text(self.path / "config.yaml", yaml.safe_dump(self.config, sort_keys=False))

    # ------------------------------------------------------------ what a killed run goes on from

    def finished(self) -> dict[str, Any]:
        """What :meth:`keep` was given last; runs, history and notes are taken over. Empty if there is nothing."""
        state = self._state("finished.pt")
        if state:
            self.runs, self.history, self.notes = state["runs"], state["history"], state["notes"]
            self.compared = state["compared"]
        return state

    def unfinished(self) -> dict[str, Any]:
        """What :meth:`checkpoint` was given last. Empty if there is nothing."""
        return self._state("checkpoint.pt")

    def _state(self, name: str) -> dict[str, Any]:
        """The state, if it is of the same configuration; more seeds may be asked for than before."""
        if not (self.path / name).is_file():
            return {}
        state = load_state(self.path / name)
        before, now = copy.deepcopy(state["config"]), copy.deepcopy(self.config)
        for config in (before, now):
            del config["train"]["seeds"]
        if before != now:
            other = [
                f"{section}.{key}"
                for section in sorted(before.keys() & now.keys())
                if isinstance(before[section], dict)
                for key in sorted(before[section].keys() | now[section].keys())
                if before[section].get(key) != now[section].get(key)
            ]
            raise RunFolderError(
                f"{self.path} was run with another configuration ({', '.join(other)}): resume with its config.yaml."
            )
        if state["fingerprint"] != self.fingerprint:
            raise RunFolderError(f"the data have changed since {self.path} was started: choose another --out.")
        return state

    def checkpoint(self, **state: Any) -> None:
        """Keep where the current run is."""
        save_state(self.path / "checkpoint.pt", {"config": self.config, "fingerprint": self.fingerprint, **state})

    def keep(self, **state: Any) -> None:
        """Keep the runs so far, with what else the task needs of them, and write the readable files."""
        own = {"runs": self.runs, "history": self.history, "notes": self.notes, "compared": self.compared}
        save_state(self.path / "finished.pt", {"config": self.config, "fingerprint": self.fingerprint, **own, **state})
        (self.path / "checkpoint.pt").unlink(missing_ok=True)
        self.save()

    # ------------------------------------------------------------ readable files

    def save(self) -> None:
        """Write result.json and history.csv."""
        write_text(self.path / "result.json", json.dumps(_without_nan(self.result), indent=2) + "\n")
        table = io.StringIO()
        columns = list(dict.fromkeys(key for row in self.history for key in row))
        writer = csv.DictWriter(table, columns)
        writer.writeheader()
        writer.writerows(self.history)
        write_text(self.path / "history.csv", table.getvalue())

    def save_assign(self, ids: np.ndarray, seeds: list[int], clusters: list[Tensor], confidence: list[Tensor]) -> None:
        """Hard clusters and their confidence for every seed, ``(seeds, N)``, beside the user's node ids."""
        with atomic_file(self.path / "assign.npz") as file:
            np.savez_compressed(
                file,
                ids=ids.astype(str) if ids.dtype == object else ids,
                seeds=np.array(seeds),
                cluster=torch.stack(clusters).numpy().astype(np.int32),
                confidence=torch.stack(confidence).numpy().astype(np.float32),
            )


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Tensors and plain values, in a form that loads without running code."""
    with atomic_file(path) as file:
        torch.save(state, file)


def load_state(path: Path) -> dict[str, Any]:
    try:
        return torch.load(path, weights_only=True, map_location="cpu")
    except (RuntimeError, EOFError, OSError, UnpicklingError) as error:
        raise RunFolderError(f"{path} cannot be read ({str(error).splitlines()[0]}): choose another --out.") from None


def write_assign_csv(path: Path, ids: np.ndarray, cluster: Tensor, confidence: Tensor) -> None:
    """A line per node: the user's id, cluster, confidence."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["node", "cluster", "confidence"])
    shares = (f"{share:.6f}" for share in confidence.tolist())
    writer.writerows(zip(ids.tolist(), cluster.tolist(), shares, strict=True))
    write_text(path, table.getvalue())


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: such a number becomes null."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_results(folder: Path) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """``result.json`` and the rows of ``history.csv``."""
    with open(folder / "history.csv", newline="") as file:
        return json.loads((folder / "result.json").read_text()), list(csv.DictReader(file))
