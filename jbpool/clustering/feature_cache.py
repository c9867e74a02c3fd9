"""Fixed features of large graphs on disk: smoothing takes minutes, and other seeds, heads and runs reuse it.

An entry is a folder in the user's cache, named by the data and the settings: ``measured.pt`` has what was measured,
``rows-START-STOP.npy`` the rows of one process. Any number of processes can read what any other number has written.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from jbpool.atomic import atomic_file
from jbpool.clustering.auto.views import ROWS, FixedFeatures
from jbpool.data import NodeData
from jbpool.data.arrays import open_npy
from jbpool.data.sources import cache_dir
from jbpool.engine.shares import RowShares
from jbpool.engine.state import load_state, save_state
from jbpool.errors import JBPoolError, WriteError
from jbpool.progress import progress_bar

VERSION = 1                 # of the computation
LARGE = 2**22               # number of values from which caching is worthwhile
ENTRIES = 3                 # kept in the cache; older ones are removed

log = logging.getLogger(__name__)


def fitted_rows(features: FixedFeatures, data: NodeData, feat: Tensor, shares: RowShares) -> Tensor:
    """``features.fit`` on the graph of ``data``, or its result from the cache.

    Parameters
    ----------
    features : FixedFeatures
        The features to fit.
    data : NodeData
        The graph.
    feat : Tensor
        ``(N, D)``, its features, on the device to compute on.
    shares : RowShares
        Rows of each process.

    Returns
    -------
    Tensor
        ``(n, out_feats)``, the rows of this process.
    """
    graph, weight = data.graph.to(feat.device), data.edge_weight
    weight = None if weight is None else weight.to(feat.device)
    if shares.num_rows * features.out_feats < LARGE:
        return features.fit(graph, feat, weight, shares=shares)
    entry = _entry(features, data)
    rows = _read(entry, features, shares)
    found = shares.add_up(torch.tensor(int(rows is not None), device=feat.device))
    if rows is not None and int(found) == shares.processes:
        if shares.place == 0:
            print(f"smoothed features from {entry}")
        with suppress(OSError):
            os.utime(entry)                             # marks it as recently used
        return rows.to(feat.device)
    rows = features.fit(graph, feat, weight, shares=shares)
    try:
        _write(entry, features, rows, shares)
    except WriteError as error:
        log.warning("%s: the smoothed features are not kept for later runs (XDG_CACHE_HOME sets another folder)", error)
    return rows


def _entry(features: FixedFeatures, data: NodeData) -> Path:
    settings = (features.steps, features.delta, features.weigh.__name__, features.out_feats, features.reduces)
    key = hashlib.sha256(f"{VERSION} {data.fingerprint} {settings}".encode()).hexdigest()[:24]
    return cache_dir() / "smoothed" / f"{data.name}-{key}"


def _read(entry: Path, features: FixedFeatures, shares: RowShares) -> Tensor | None:
    """The rows of this process, if the cache has all of them."""
    parts = {}
    for path in entry.glob("rows-*.npy"):
        if named := re.fullmatch(r"rows-(\d+)-(\d+)\.npy", path.name):
            parts[int(named[1]), int(named[2])] = path
    chosen = _covering(list(parts), shares.start, shares.stop)
    if chosen is None or not (entry / "measured.pt").is_file():
        return None
    try:
        features.load_state_dict(load_state(entry / "measured.pt", {"state": dict[str, Tensor]})["state"])
        rows = [np.empty((0, features.out_feats), dtype=np.float32)] if not chosen else []
        for first, last in chosen:
            part = open_npy(parts[first, last])
            if part.shape != (last - first, features.out_feats) or part.dtype != np.float32:
                raise JBPoolError(f"{parts[first, last]} holds {part.dtype} {part.shape}")
            rows.append(part[max(shares.start, first) - first : min(shares.stop, last) - first])
    except (JBPoolError, OSError, RuntimeError) as error:
        log.warning("%s cannot be used (%s): smoothing again", entry, error)
        return None
    return torch.from_numpy(rows[0] if len(rows) == 1 else np.concatenate(rows))


def _covering(parts: Sequence[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]] | None:
    """Parts that hold the rows from ``start`` to ``stop`` without overlap; ``None`` if some are missing.

    Parts written by different numbers of processes may overlap; at each row the longest one is used.
    """
    chosen: list[tuple[int, int]] = []
    while start < stop:
        fitting = [part for part in parts if part[0] <= start < part[1] and (not chosen or part[0] == start)]
        if not fitting:
            return None
        chosen.append(max(fitting, key=lambda part: part[1]))
        start = chosen[-1][1]
    return chosen


def _write(entry: Path, features: FixedFeatures, rows: Tensor, shares: RowShares) -> None:
    """Write the rows of this process, atomically."""
    if shares.place == 0:
        _remove_old(entry.parent)
        save_state(entry / "measured.pt", {"state": {key: value.cpu() for key, value in features.state_dict().items()}})
    header = {"descr": "<f4", "fortran_order": False, "shape": tuple(rows.shape)}
    with (
        atomic_file(entry / f"rows-{shares.start}-{shares.stop}.npy") as file,
        progress_bar("writing the cache", len(rows), "rows") as bar,
    ):
        npy.write_array_header_1_0(file, header)
        for block in rows.split(ROWS):
            file.write(block.cpu().numpy().astype("<f4", copy=False).data)
            bar.update(len(block))


def _remove_old(folder: Path) -> None:
    """Make room for one more entry, and remove partial files of killed runs after a day."""
    with suppress(OSError):
        entries = sorted(folder.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
        for entry in entries[ENTRIES - 1 :]:
            shutil.rmtree(entry, ignore_errors=True)
        for part in folder.glob("*/.*.part"):
            if time.time() - part.stat().st_mtime > 24 * 3600:
                part.unlink()
