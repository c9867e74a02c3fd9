"""The run folder: config.yaml, result.json, history.csv, model.pt and the results of the task, written atomically.

A run never writes to a folder that holds another run, or files of the user with the same names.
"""

from __future__ import annotations

import csv
import glob
import io
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import torch
import yaml
from torch import Tensor

from jbpool.console import progress_bar
from jbpool.engine.state import load_state, mismatch, save_state
from jbpool.errors import JBPoolError, RunFolderError, one_line
from jbpool.files import atomic_file, write_text

# What a run of either task may write.
WRITTEN = (
    "config.yaml", "result.json", "history.csv", "model.pt", "finished.pt", "checkpoint.pt", "report.html",
    "assign.csv", "assign.npz", "predictions.npz",
)  # fmt: skip


def choose_folder(task: str, cfg: str | None, out: str | None, resume: bool, *, changed: bool = False) -> Path:
    """Return the folder of a run: ``out``, the latest run of ``cfg`` if it is resumed, or a new one.

    ``cfg`` and ``out`` are the arguments ``--cfg`` and ``--out``. With ``resume`` the folder may hold a run; where it
    holds none, one is started if ``cfg`` is given or ``--set`` has ``changed`` the configuration.
    """
    if out == "":
        raise RunFolderError("--out is empty: name a folder, or leave it out.")
    if resume:
        folder = _resumed_folder(task, cfg, out)
    elif out is not None:
        folder = Path(out)
    else:
        folder = Path("runs", task, f"{_config_name(cfg)}-{time.strftime('%Y%m%d-%H%M%S')}")
    refuse_other_files(folder, resume)
    if resume and not (folder / "config.yaml").exists() and os.environ.get("RANK", "0") == "0":
        if cfg is None and not changed:
            raise RunFolderError(f"--resume: {folder} holds no run to continue; to start one, name its --cfg.")
        print(f"{folder} holds no run to continue: starting a new one.")
    if any(part.exists() and not part.is_dir() for part in (folder, *folder.parents)):
        raise RunFolderError(f"--out {folder}: a file of that name exists; choose another folder.")
    return folder


def kept_config(task: str, out: str | None) -> str | None:
    """Return the configuration of the run that ``--resume`` continues without ``--cfg``."""
    kept = _resumed_folder(task, None, out) / "config.yaml"
    return str(kept) if kept.exists() else None


def refuse_other_files(folder: Path, resume: bool) -> None:
    """Refuse a folder whose files would be replaced: of another run, unless it is resumed, or of the user."""
    is_run = (folder / "config.yaml").exists()
    if is_run and not resume:
        raise RunFolderError(f"{folder} already holds a run: continue it with --resume, or choose another --out.")
    other = next((name for name in WRITTEN if (folder / name).exists()), None)
    if other is not None and not is_run:
        raise RunFolderError(f"{folder / other} exists and would be replaced: choose another --out.")


def _config_name(cfg: str | None) -> str:
    return Path(os.path.abspath(cfg)).stem if cfg else "default"            # "." has no name of its own


def _resumed_folder(task: str, cfg: str | None, out: str | None) -> Path:
    """Return the folder of ``--resume``: ``--out``, or the latest run of this ``--cfg``."""
    if out is not None:
        return Path(out)
    name, base = _config_name(cfg), Path("runs", task)
    earlier = sorted(path.parent for path in base.glob(f"{glob.escape(name)}-{'[0-9]' * 8}-{'[0-9]' * 6}/config.yaml"))
    if not earlier:
        raise RunFolderError(f"--resume: there is no run of {name} under {base}; name its folder with --out.")
    return earlier[-1]


CSV_LINES = 1 << 18         # lines of assign.csv written at a time
PACKAGES = ("jbpool", "torch", "dgl", "numpy", "scipy", "scikit-learn")

REWRITE = "--resume rewrites them."

# Content of result.json, as for load_state; the scores of a task are not listed
RESULT = {
    "task": str, "dataset": str, "method": str, "runs": [{"seed": int}], "mean": dict[str, float | None],
    "std": dict[str, float | None], "compared": dict[str, dict], "notes": [str], "config": dict,
}  # fmt: skip

# Content of finished.pt for every task, for load_state
KEPT = {
    "runs": [{"seed": int}], "history": [dict], "notes": [str], "compared": dict[str, list[dict]], "details": dict,
}  # fmt: skip


@cache                      # reading the metadata of a package takes about 10 ms
def versions() -> dict[str, str]:
    """Return the versions of Python and the main packages."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def summary(runs: list[dict[str, Any]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return mean and standard deviation of every score over the runs."""
    keys = [key for key, value in (runs[0] if runs else {}).items() if _is_score(key, value)]
    columns = {key: [run[key] for run in runs if _is_score(key, run.get(key))] for key in keys}
    mean = {key: statistics.fmean(values) for key, values in columns.items()}
    std = {key: statistics.stdev(values) if len(values) > 1 else 0.0 for key, values in columns.items()}
    return mean, std


def _is_score(key: str, value: Any) -> bool:
    counted = key in ("seed", "fold", "trial", "restart", "labelled")
    return not counted and isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass
class RunFolder:
    """The results of a run so far; the folder is readable at any time."""

    path: Path
    task: str
    dataset: str
    method: str
    config: dict[str, Any]
    fingerprint: str = ""               # of the data, so that --resume can detect changes
    runs: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: dict[str, list[dict[str, Any]]] = field(default_factory=dict)     # other method -> its runs
    details: dict[str, Any] = field(default_factory=dict)       # further entries of result.json, for all runs
    draw: Callable[[], str] = str       # the report of what is finished, drawn from what the run has in memory

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
            **self.details,
            "versions": versions(),
            "config": self.config,
        }

    def start(self) -> None:
        """Write config.yaml and, if the run is resumed, the readable files."""
        write_text(self.path / "config.yaml", yaml.safe_dump(self.config, sort_keys=False))
        if self.runs or self.compared:
            self.save()

    # ------------------------------------------------------------ state for --resume

    def finished(self, expected: Mapping[str, Any]) -> dict[str, Any]:
        """Restore runs, history, notes and so on from what ``keep`` last saved; return it all, empty if there is none.

        ``expected``: keys and types of the task's own state, as for ``load_state``.
        """
        state = self._state("finished.pt", {**KEPT, **expected})
        if state:
            self.runs, self.history, self.notes = state["runs"], state["history"], state["notes"]
            self.compared, self.details = state["compared"], {**state["details"], **self.details}
        return state

    def unfinished(self, expected: Mapping[str, Any]) -> dict[str, Any]:
        """Return what ``checkpoint`` last saved; empty if there is none. ``expected``: as for ``load_state``."""
        return self._state("checkpoint.pt", expected)

    def _state(self, name: str, expected: Mapping[str, Any]) -> dict[str, Any]:
        """Return the saved state, if configuration and data are the same; the seeds may differ."""
        if not (self.path / name).is_file():
            return {}
        state = load_state(self.path / name, {"config": dict, "fingerprint": str, **expected})
        before, now = flat_settings(state["config"]), flat_settings(self.config)
        other = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        other = [key for key in other if key != "train.seeds"]
        if other:
            fix = f"to continue it as it was, give only --resume --out {self.path}"
            unknown = before.keys() ^ now.keys()
            if any(not key.startswith("dataset.") for key in unknown):      # datasets have options of their own
                fix = "some of these settings do not exist in both versions of jbpool, so choose another --out"
            raise RunFolderError(f"{self.path} was run with another configuration ({', '.join(other)}): {fix}.")
        if state["fingerprint"] != self.fingerprint:
            raise RunFolderError(f"the data have changed since {self.path} was started: choose another --out.")
        return state

    def checkpoint(self, **state: Any) -> None:
        """Save the state of the current training."""
        save_state(self.path / "checkpoint.pt", {"config": self.config, "fingerprint": self.fingerprint, **state})

    def keep(self, **state: Any) -> None:
        """Save the finished runs, with further state of the task, and write the readable files."""
        own = {
            "runs": self.runs, "history": self.history, "notes": self.notes, "compared": self.compared,
            "details": self.details,
        }  # fmt: skip
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

    def write_report(self) -> Path:
        """Write ``report.html``, and return its path."""
        write_text(self.path / "report.html", self.draw())
        return self.path / "report.html"

    def leave(self, curve: list[dict[str, Any]]) -> None:
        """Write results so far after an interruption; ``curve``: the history of the interrupted training."""
        self.history += curve                       # --resume does not need it
        self.save()
        if self.runs:
            with suppress(JBPoolError):             # a second error must not hide the first
                self.write_report()

    def save_assign(self, ids: np.ndarray, seeds: list[int], clusters: list[Tensor], confidence: list[Tensor]) -> None:
        """Write assign.npz: hard clusters and their confidence for every seed, ``(seeds, N)``, and the node ids."""
        arrays = {
            "ids": ids.astype(str) if ids.dtype == object else ids,
            "seeds": np.array(seeds),
            "cluster": torch.stack(clusters).numpy().astype(np.int32),
            "confidence": torch.stack(confidence).numpy().astype(np.float32),
        }
        # As numpy.savez_compressed, which has no level: this one takes a third of the time for files of that size.
        with atomic_file(self.path / "assign.npz") as file, ZipFile(file, "w", ZIP_DEFLATED, compresslevel=1) as zipped:
            for name, array in arrays.items():
                with zipped.open(f"{name}.npy", "w", force_zip64=True) as part:
                    np.lib.format.write_array(part, array, allow_pickle=False)


def write_assign_csv(path: Path, ids: np.ndarray, cluster: Tensor, confidence: Tensor) -> None:
    """Write one line per node: id, cluster, confidence."""
    columns = {"node": ids, "cluster": cluster.numpy(), "confidence": confidence.numpy()}
    with atomic_file(path) as file, progress_bar("writing clusters", len(ids), "nodes") as bar:
        for start in range(0, max(len(ids), 1), CSV_LINES):
            table = pd.DataFrame({name: column[start : start + CSV_LINES] for name, column in columns.items()})
            table.to_csv(file, index=False, header=start == 0, float_format="%.6f", lineterminator="\r\n")
            bar.update(len(table))


def flat_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return ``section.key`` -> value of all settings."""
    flat: dict[str, Any] = {}
    for section, values in config.items():
        if isinstance(values, dict):
            flat |= {f"{section}.{key}": value for key, value in values.items()}
        else:
            flat[section] = values
    return flat


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def reporting_mismatch(folder: Path) -> Iterator[None]:
    """Turn errors caused by the content of the readable files of a run folder into one that names the folder."""
    try:
        yield
    except RunFolderError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = one_line(str(error) if isinstance(error, JBPoolError) else f"{type(error).__name__}: {error}")[:400]
        raise RunFolderError(f"the files of {folder} are damaged or of different runs ({reason}): {REWRITE}") from error


def by_method(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return method -> its ``runs``, ``mean`` and ``std``, first that of the run, then those compared with it."""
    return {result["method"]: result, **result["compared"]}


def read_result(folder: Path) -> dict[str, Any]:
    """Return ``result.json`` of a run folder."""
    path = folder / "result.json"
    with _readable(path):
        result = json.loads(path.read_text())
        problem = mismatch(result, RESULT)
        if problem is None and result["mean"].keys() != result["std"].keys():
            problem = "mean and std should have the same scores"
        if problem is not None:
            raise ValueError(problem)
        return result


def read_results(folder: Path) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Return ``result.json`` and the rows of ``history.csv``."""
    result, path = read_result(folder), folder / "history.csv"
    with _readable(path), open(path, newline="") as file:
        return result, list(csv.DictReader(file))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise RunFolderError(f"{path} cannot be read ({one_line(str(error))[:200]}): {REWRITE}") from None
