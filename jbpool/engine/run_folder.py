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
from collections.abc import Callable, Iterable, Iterator
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
from jbpool.errors import JBPoolError, RunFolderError
from jbpool.files import atomic_file, load_state, reporting_damage, save_state, write_text
from jbpool.processes import barrier, gather, rank

# What a run of either task may write.
WRITTEN = (
    "config.yaml", "result.json", "history.csv", "model.pt", "finished.pt", "checkpoint.pt", "report.html",
    "assign.csv", "assign.npz", "predictions.npz", "hierarchy.csv",
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
    file = next((name for name in WRITTEN if (folder / name).exists()), None)
    if file is not None and not is_run:
        raise RunFolderError(f"{folder / file} exists and would be replaced: choose another --out.")


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


@cache                      # reading the metadata of a package takes about 10 ms
def versions() -> dict[str, str]:
    """Return the versions of Python and the main packages."""
    versions_of = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions_of[package] = version(package)
        except PackageNotFoundError:
            versions_of[package] = "not installed"
    return versions_of


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


def _nothing() -> None:
    """Write nothing."""


@dataclass
class RunFolder:
    """The results of a run so far, and the order in which they are written; the folder is readable at any time.

    A run consists of units, which are finished one after another: ``{"seed": 3}`` or, in graph classification,
    ``{"method": "jb", "seed": 3, "fold": 0}``. What is finished is in ``finished.pt``, which is written after the files
    that a task makes of it; ``checkpoint.pt`` has the training that is not. Only the first process reads and writes.
    """

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
    own: dict[str, Any] = field(default_factory=dict)           # what the task must know of finished units
    write: Callable[[], None] = _nothing                        # write the files of the task, from memory
    draw: Callable[[], str] = str                               # the report, from memory
    curve: list[dict[str, Any]] = field(default_factory=list)   # history of the training that is not finished
    unfinished: dict[str, Any] = field(default_factory=dict)    # the checkpoint to continue from

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

    # ------------------------------------------------------------ units

    def begin(self, resume: bool) -> None:
        """Write config.yaml; before that, restore what is finished and write its readable files, if ``resume``."""
        if resume:
            states = [self._state(name) for name in ("finished.pt", "checkpoint.pt")] if rank() == 0 else []
            finished, self.unfinished = gather(states)[0]
            with reporting_damage(self.path / "finished.pt"):
                self._restore(finished)
        barrier()                       # no process removes files that another is still reading
        if rank() == 0:
            write_text(self.path / "config.yaml", yaml.safe_dump(self.config, sort_keys=False))
        if self.runs or self.compared:
            with reporting_damage(self.path / "finished.pt"):
                self.write()
            self.save()

    def _state(self, name: str) -> dict[str, Any]:
        """Return a state, if configuration and data are the same; the seeds may differ. Empty if there is none."""
        path = self.path / name
        if not path.is_file():
            return {}
        state = load_state(path)
        with reporting_damage(path):
            before, now, fingerprint = flat_settings(state["config"]), flat_settings(self.config), state["fingerprint"]
        different = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        different = [key for key in different if key != "train.seeds"]
        if different:
            fix = f"to continue it as it was, give only --resume --out {self.path}"
            unknown = before.keys() ^ now.keys()
            if any(not key.startswith("dataset.") for key in unknown):      # datasets have options of their own
                fix = "some of these settings do not exist in both versions of jbpool, so choose another --out"
            raise RunFolderError(f"{self.path} was run with another configuration ({', '.join(different)}): {fix}.")
        if fingerprint != self.fingerprint:
            raise RunFolderError(f"the data have changed since {self.path} was started: choose another --out.")
        return state

    def _restore(self, state: dict[str, Any]) -> None:
        if state:
            self.runs, self.history, self.notes = state["runs"], state["history"], state["notes"]
            self.compared, self.details = state["compared"], {**state["details"], **self.details}
            self.own |= state["own"]

    def left(self, units: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the units that are not finished."""
        named = [{"method": self.method, **unit} for unit in units]
        finished = [*self._finished()]
        return [unit for unit in named if not any(unit.items() <= run.items() for run in finished)]

    def _finished(self) -> Iterator[dict[str, Any]]:
        for method, runs in ((self.method, self.runs), *self.compared.items()):
            yield from ({"method": method, "seed": run["seed"], "fold": run.get("fold")} for run in runs)

    def record(self, unit: dict[str, Any], scores: dict[str, Any], history: Iterable[dict[str, Any]]) -> None:
        """Add the scores and the history of a unit; ``keep`` saves them."""
        method = unit.get("method", self.method)
        runs = self.runs if method == self.method else self.compared.setdefault(method, [])
        runs.append({key: value for key, value in unit.items() if key != "method"} | scores)
        self.history += history
        self.curve = []

    def keep(self) -> None:
        """Save everything that is finished; the record that it is finished is written after the files of the task."""
        self.write()
        if rank() > 0:
            return
        parts = ("config", "fingerprint", "runs", "history", "notes", "compared", "details", "own")
        save_state(self.path / "finished.pt", {part: getattr(self, part) for part in parts})
        (self.path / "checkpoint.pt").unlink(missing_ok=True)
        self.save()

    def checkpoint(self, **state: Any) -> None:
        """Save the state of a training."""
        save_state(self.path / "checkpoint.pt", {"config": self.config, "fingerprint": self.fingerprint, **state})

    def continued(self, **place: Any) -> dict[str, Any]:
        """Return, once, the checkpoint with these values; empty if it has others, or if there is none."""
        if not self.unfinished or {key: self.unfinished.get(key) for key in place} != place:
            return {}
        state, self.unfinished = self.unfinished, {}
        return state

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Write the results so far if the block is interrupted."""
        try:
            yield
        except KeyboardInterrupt:
            if rank() == 0:
                self.history += self.curve                  # --resume does not need it
                with suppress(JBPoolError):                 # a second error must not hide the first
                    self.save()
                    if self.runs:
                        self.write()
                        self.write_report()
            raise

    # ------------------------------------------------------------ readable files

    def save(self) -> None:
        """Write result.json and history.csv."""
        if rank() > 0:
            return
        write_text(self.path / "result.json", json.dumps(_without_nan(self.result), indent=2) + "\n")
        table = io.StringIO()
        columns = list(dict.fromkeys(key for row in self.history for key in row))
        writer = csv.DictWriter(table, columns)
        writer.writeheader()
        writer.writerows(self.history)
        write_text(self.path / "history.csv", table.getvalue())

    def write_report(self) -> Path:
        """Write ``report.html``, and return its path. All processes draw it together, the first one writes."""
        text = self.draw()
        if rank() == 0:
            write_text(self.path / "report.html", text)
        return self.path / "report.html"

    def save_assign(
        self,
        ids: np.ndarray,
        seeds: list[int],
        clusters: list[Tensor],
        confidence: list[Tensor],
        name: str = "assign.npz",
    ) -> None:
        """Write assign.npz: hard clusters and their confidence for every seed, ``(seeds, N)``, and the node ids."""
        arrays = {
            "ids": ids.astype(str) if ids.dtype == object else ids,
            "seeds": np.array(seeds),
            "cluster": torch.stack(clusters).numpy().astype(np.int32),
            "confidence": torch.stack(confidence).numpy().astype(np.float32),
        }
        # As numpy.savez_compressed, which has no level: this one takes a third of the time for files of that size.
        with atomic_file(self.path / name) as file, ZipFile(file, "w", ZIP_DEFLATED, compresslevel=1) as zipped:
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


def by_method(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return method -> its ``runs``, ``mean`` and ``std``, first that of the run, then those compared with it."""
    return {result["method"]: result, **result["compared"]}
