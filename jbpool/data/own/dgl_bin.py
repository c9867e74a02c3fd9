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
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from jbpool.data.arrays import Arrays, read_arrays
from jbpool.data.assemble import added_up, graph_data, node_data
from jbpool.data.datasets import UNLABELLED, GraphData, NodeData
from jbpool.data.own.labels import GraphLabels, class_codes, graph_labels
from jbpool.errors import INSTALL_DGL, DataError, reported_as

MAGIC = (0xDD2E4FF046B4A13F).to_bytes(8, "little")      # the first bytes of every such file
START_BYTES = 512 << 20                                 # address space that threads and the allocator reserve
COPIES = 8                                              # of the file that the child may hold
FRAMES = (("ndata", "feat"), ("ndata", "label"), ("edata", "weight"), ("edata", "feat"))

log = logging.getLogger(__name__)


def read_bin(path: Path) -> Arrays:
    """Return the arrays of a file of ``dgl.save_graphs``: sizes, edges, frames, and the labels of graphs."""
    if not path.is_file():
        raise DataError.at(path, "no such file")
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise DataError.at(path, "not a file of dgl.save_graphs (its first bytes differ)")
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


def load_node_bin(path: Path) -> NodeData:
    """Return a single graph with ndata 'feat' and 'label' and edata 'weight', if present."""
    arrays = read_bin(path)
    if len(arrays["sizes"]) != 1:
        raise DataError.at(path, f"{len(arrays['sizes'])} graphs: one is expected for node clustering")
    count = int(arrays["sizes"][0])
    feat, weight = (_frame(arrays, name, path) for name in ("ndata feat", "edata weight"))
    label = arrays.get("ndata label")
    with reported_as(path):
        adjacency, lines = added_up(arrays["source"], arrays["target"], weight, [count])
    return node_data(
        path.stem,
        adjacency,
        weight_name=None if weight is None else "edata['weight']",
        lines=lines,
        feat=None if feat is None else torch.from_numpy(feat),
        label=None if label is None else torch.from_numpy(_classes(label, count, path)[0]),
    )


def _frame(arrays: Arrays, name: str, path: Path) -> np.ndarray | None:
    """Return ndata or edata as float32, checked: a table, or a number per edge for the weights; ``None`` if absent."""
    if name not in arrays:
        return None
    rows, columns = len(arrays["source"]), 1 if name == "edata weight" else 2
    with np.errstate(over="ignore"):
        values = arrays[name].astype(np.float32)
    if name == "ndata feat":
        rows = sum(arrays["sizes"].tolist())
    elif columns == 2 and values.ndim == 1:
        values = values[:, None]
    low = 0 if columns == 1 else -np.inf
    if values.ndim != columns or len(values) != rows or not (np.isfinite(values) & (values >= low)).all():
        expected = "a finite table, a row each" if columns == 2 else "finite and not negative, a number each"
        raise DataError.at(path, f"{name} of shape {values.shape} for {rows} rows: it must be {expected}")
    return values


def _classes(label: np.ndarray, count: int, path: Path) -> tuple[np.ndarray, list[str]]:
    """Return classes as 0, 1, 2, ... without gaps, -1: unlabelled, and their names."""
    label = label[:, 0] if label.ndim == 2 and label.shape[1] == 1 else label
    if label.shape != (count,) or label.dtype.kind not in "iub" or int(label.min()) < UNLABELLED:
        expected = f"{count} classes 0, 1, 2, ... (-1: unlabelled)"
        raise DataError.at(path, f"label ({label.dtype}, {label.shape}) must be {expected}")
    return class_codes(label)


def _labels(given: dict[str, np.ndarray], count: int, task: str | None, path: Path) -> GraphLabels:
    """Return classes, or targets: floats, also several columns of them under one name."""
    columns: dict[str, np.ndarray] = {}
    for name, values in given.items():
        if values.dtype.kind != "f" and task != "regression":
            return GraphLabels(*_classes(values, count, path), "acc")
        table = values[:, None] if values.ndim == 1 else values
        if table.ndim != 2 or len(table) != count:
            raise DataError.at(path, f"{name} of shape {values.shape} must have a number or a row for {count} graphs")
        names = [name] if table.shape[1] == 1 else [f"{name} {place}" for place in range(table.shape[1])]
        columns |= dict(zip(names, table.T, strict=True))
    found = graph_labels(columns or {"label": np.full(count, "", dtype=object)}, task, path)
    if columns and task is None and found.metric == "acc":
        question = "classes or numbers to predict? Set dataset.task to classification or to regression"
        raise DataError.at(path, f"the labels are floats without fractions: {question}")
    return found


def load_graph_bin(path: Path, task: str | None = None, targets: Sequence[str] | None = None) -> GraphData:
    """Return many graphs, with the labels 'label' (classes, -1: unlabelled; or targets) and 'id', if present."""
    arrays = read_bin(path)
    sizes = arrays["sizes"]
    labels = {key.removeprefix("label "): value for key, value in arrays.items() if key.startswith("label ")}
    known = [key for key in targets or ("label", "labels", "glabel") if key in labels]
    if set(labels) - {"id"} and (not known or (targets and len(known) < len(targets))):
        fix = "save them with dgl.save_graphs(path, graphs, {'label': classes}), or name them in dataset.targets"
        raise DataError.at(path, f"has the labels {list(labels)}: {fix}")
    given = {key: labels[key] for key in (known if targets else known[:1])}
    found = _labels(given, len(sizes), "regression" if targets else task, path)
    ids = labels.get("id")
    if ids is not None and (ids.shape != sizes.shape or len(np.unique(ids)) < len(ids)):
        raise DataError.at(path, f"'id' of shape {ids.shape} must be {len(sizes)} different numbers")
    feat, weight, edge_feat = (_frame(arrays, name, path) for name in ("ndata feat", "edata weight", "edata feat"))
    shift = (np.cumsum(sizes) - sizes).repeat(arrays["num_edges"])
    with reported_as(path):
        return graph_data(
            path.stem, sizes, arrays["source"] + shift, arrays["target"] + shift, weight=weight, edge_feat=edge_feat,
            feat=None if feat is None else torch.from_numpy(feat), ids=ids, **found.fields,
        )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
