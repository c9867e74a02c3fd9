"""Which folder a run is written to: never one that holds another run, or files of the user with the same names."""

from __future__ import annotations

import glob
import os
import time
from pathlib import Path

from jbpool.errors import RunFolderError

# What a run of either task may write.
WRITTEN = (
    "config.yaml", "result.json", "history.csv", "model.pt", "finished.pt", "checkpoint.pt", "report.html",
    "assign.csv", "assign.npz", "predictions.npz", "pictures.pt",
)  # fmt: skip


def choose_folder(task: str, cfg: str | None, out: str | None, resume: bool, *, changed: bool = False) -> Path:
    """The folder of a run: ``out``, the latest run of ``cfg`` if it is resumed, or a new one.

    Parameters
    ----------
    task : str
        Name of the task.
    cfg : str or None
        ``--cfg``; ``None``: the default configuration.
    out : str or None
        ``--out``.
    resume : bool
        ``--resume``: the folder may hold a run.
    changed : bool, default False
        Whether ``--set`` changes the configuration: then, or with ``cfg``, a folder without a run starts one.
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
    """The configuration of the run that ``--resume`` continues without ``--cfg``."""
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
    return Path(cfg).stem if cfg else "default"


def _resumed_folder(task: str, cfg: str | None, out: str | None) -> Path:
    """The folder of ``--resume``: ``--out``, or the latest run of this ``--cfg``."""
    if out is not None:
        return Path(out)
    name, base = _config_name(cfg), Path("runs", task)
    earlier = sorted(path.parent for path in base.glob(f"{glob.escape(name)}-{'[0-9]' * 8}-{'[0-9]' * 6}/config.yaml"))
    if not earlier:
        raise RunFolderError(f"--resume: there is no run of {name} under {base}; name its folder with --out.")
    return earlier[-1]
