"""Graphs saved by ``dgl.save_graphs``: one to cluster, or many to classify.

DGL's C++ reader trusts the file, and a damaged one can crash the process. A child process therefore reads it, with
limited memory, and writes plain arrays: ``python -m jbpool.data.own.dgl_bin FILE ARRAYS``.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from jbpool.data.arrays import Arrays, read_arrays
from jbpool.data.own.edges import Edges
from jbpool.errors import INSTALL_DGL, DataError, reported_as

MAGIC = (0xDD2E4FF046B4A13F).to_bytes(8, "little")      # the first bytes of every such file
START_BYTES = 512 << 20                                 # address space that threads and the allocator reserve
COPIES = 8                                              # of the file that the child may hold
FRAMES = (("ndata", "feat"), ("ndata", "label"), ("edata", "weight"), ("edata", "feat"))

log = logging.getLogger(__name__)


def read_bin(path: Path) -> Arrays:
    """Return the arrays of a file of ``dgl.save_graphs``: sizes, edges, frames, and the labels of graphs."""
    with reported_as(path, "cannot be read"), open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise DataError("not a file of dgl.save_graphs: its first bytes differ")
    if find_spec("dgl") is None:
        raise DataError.at(path, f"reading graphs of DGL needs dgl: {INSTALL_DGL}")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "arrays.npz")
        # The same packages as here, but in an empty folder, so that no file of the current folder shadows a module.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(place) for place in sys.path)}
        command = [sys.executable, "-m", "jbpool.data.own.dgl_bin", str(path.resolve()), str(target)]
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
        if result.returncode:
            lines = result.stderr.decode(errors="replace").strip().splitlines()
            cause = lines[-1][:160] if lines and result.returncode > 0 else "DGL's reader crashed"
            raise DataError.at(path, f"not a file of dgl.save_graphs, or a damaged one ({cause})")
        arrays = read_arrays(target)
    unused = arrays.pop("unused").tolist()
    if unused:
        used = "ndata feat and label, edata weight and feat"
        log.warning("%s: %s are not used; %s are read where present", path, ", ".join(unused), used)
    limit, ends = arrays["sizes"].repeat(arrays["num_edges"]), (arrays["source"], arrays["target"])
    if any(len(end) != len(limit) or ((end < 0) | (end >= limit)).any() for end in ends):
        raise DataError.at(path, "an edge leads to a node that its graph does not have; the file is damaged")
    return arrays


def main(path: str, target: str) -> None:
    """Read a file in the child process and write its arrays; an error is one line on standard error."""
    import dgl

    with suppress(ImportError, OSError, ValueError):            # not Linux, or a lower limit is already set
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = used + START_BYTES + COPIES * os.path.getsize(path)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        arrays = _pack(*dgl.load_graphs(path))
    except Exception as error:                  # DGL raises several kinds of errors
        lines = str(error).splitlines() or [type(error).__name__]
        sys.exit(lines[0] if isinstance(error, ValueError) else lines[-1])
    np.savez(target, **arrays)                  # type: ignore[arg-type]


def _plain(tensor: Tensor) -> np.ndarray:
    """Return a tensor as an array; numpy has no bfloat16."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _pack(graphs: list, labels: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """Return all graphs in a few arrays: sizes, edges, the frames in use, and the labels of graphs."""
    if not graphs or not all(graph.is_homogeneous and graph.num_nodes() for graph in graphs):
        raise ValueError("homogeneous graphs with at least one node each are expected")
    ends = [graph.edges() for graph in graphs]
    arrays = {
        "sizes": np.array([graph.num_nodes() for graph in graphs]),
        "num_edges": np.array([graph.num_edges() for graph in graphs]),
        "source": _plain(torch.cat([source.long() for source, _ in ends])),
        "target": _plain(torch.cat([target.long() for _, target in ends])),
    }
    for frame, key in FRAMES:
        values = [getattr(graph, frame).get(key) for graph in graphs]
        present = [value for value in values if value is not None]
        if present and len(present) < len(values):
            lacking = next(place for place, value in enumerate(values) if value is None)
            raise ValueError(f"graph {lacking} has no {frame} {key!r}, others do")
        if len({(value.dtype, value.shape[1:]) for value in present}) > 1:
            raise ValueError(f"{frame} {key!r} differs in type or shape between graphs")
        if present:
            arrays[f"{frame} {key}"] = _plain(torch.cat(present))
    used = {f"{frame} {key}" for frame, key in FRAMES}
    names = {f"{frame} {key}" for graph in graphs for frame in ("ndata", "edata") for key in getattr(graph, frame)}
    arrays["unused"] = np.array(sorted(names - used), dtype=str)
    arrays.update({f"label {key}": _plain(value) for key, value in labels.items()})
    return arrays


def edges_of_bin(path: Path) -> Edges:
    """Return the only graph of a file, with ndata 'feat' and 'label' and edata 'weight', if present."""
    arrays = read_bin(path)
    if len(arrays["sizes"]) != 1:
        raise DataError.at(path, f"{len(arrays['sizes'])} graphs: one is expected for node clustering")
    weight, label = frame_of(arrays, "edata weight", path), arrays.get("ndata label")
    return Edges(
        path, arrays["source"], arrays["target"], weight, int(arrays["sizes"][0]), None,
        None if weight is None else "edata['weight']", in_order=True, feat=arrays.get("ndata feat"),
        label=None if label is None else label[:, 0] if label.shape[1:] == (1,) else label,
    )  # fmt: skip


def frame_of(arrays: Arrays, name: str, path: Path) -> np.ndarray | None:
    """Return ndata or edata as float32, checked: a table, or a number per edge for the weights; ``None`` if absent."""
    if name not in arrays:
        return None
    with np.errstate(over="ignore"):
        values = arrays[name].astype(np.float32)
    if name == "edata feat" and values.ndim == 1:
        values = values[:, None]
    columns, low = (1, 0) if name == "edata weight" else (2, -np.inf)
    if values.ndim != columns or not (np.isfinite(values) & (values >= low)).all():
        expected = "a row of finite numbers each" if columns == 2 else "a finite number each, not negative"
        raise DataError.at(path, f"{name} has the shape {values.shape} or numbers that do not fit: give {expected}")
    return values


if __name__ == "__main__":
    main(*sys.argv[1:])
