"""Datasets for ``scripts/qa/fuzz.py``: small valid files, how they are mutated, and how they are read and checked."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import fuzz_mutations as mutations
import numpy as np
import scipy.sparse
from fuzz_checks import check_graphs, check_nodes

from jbpool.data import load_graphs, load_nodes

NODES = 12


class Kind(NamedTuple):
    """One kind of input."""

    share: int                                  # mutants of 10,000
    prepare: Callable[[Path], None]             # folder -> valid inputs, each in a folder of its own
    mutate: Callable[[Path, Random], Any]       # damages a copy of one of them; returns what was changed
    read: Callable[[Path, Any], None]           # reads it and checks what was read
    names: Callable[[str, Path, Any], bool]     # whether a message names the place of the problem


def names_folder(message: str, folder: Path, change: Any) -> bool:
    """Every message about a file has its path."""
    return str(folder) in message


def random_edges(seed: int, count: int = 30) -> np.ndarray:
    """``(count, 2)`` edges between ``NODES`` nodes that all occur."""
    rng = np.random.default_rng(seed)
    ring = np.stack([np.arange(NODES), (np.arange(NODES) + 1) % NODES], 1)
    return np.concatenate([ring, rng.integers(0, NODES, (count - NODES, 2))])


# ---------------------------------------------------------------- tables of one graph


def write_tables(folder: Path) -> None:
    edges = random_edges(0)
    for name, separator in (("plain", ","), ("named", "\t"), ("spaces", " ")):
        place = folder / name
        place.mkdir()
        ids = [f"n{node}" if name == "named" else str(node) for node in range(NODES)]
        rows = [[ids[a], ids[b]] for a, b in edges]
        if name == "named":
            rows = [["source", "target", "weight"], *([*row, str(1 + i / 4)] for i, row in enumerate(rows))]
        (place / "edges.csv").write_text("".join(separator.join(row) + "\n" for row in rows))
        (place / "features.csv").write_text("".join(f"{name},{i},{i * 0.5},-1e-3\n" for i, name in enumerate(ids)))
        (place / "labels.csv").write_text("node,class\n" + "".join(f"{name},c{i % 3}\n" for i, name in enumerate(ids)))
    packed = folder / "packed"
    packed.mkdir()
    (packed / "edges.csv.gz").write_bytes(gzip.compress((folder / "plain" / "edges.csv").read_bytes()))


def mutate_table(folder: Path, rng: Random) -> str:
    path = rng.choice(sorted(folder.iterdir()))
    mutations.mutate_file(path, rng, mutations.mutate_bytes if path.suffix == ".gz" else mutations.mutate_text)
    return path.name


def read_tables(folder: Path, changed: str) -> None:
    edges = next((name for name in ("edges.csv.gz",) if (folder / name).exists()), "edges.csv")
    more = {} if edges.endswith(".gz") else {"features": folder / "features.csv", "labels": folder / "labels.csv"}
    check_nodes(load_nodes("file", edges=folder / edges, **more))


# ---------------------------------------------------------------- arrays


def write_arrays(folder: Path) -> None:
    edges, rng = random_edges(1), np.random.default_rng(1)
    feat, label = rng.random((NODES, 3)), np.arange(NODES) % 3
    for name in ("npy", "npz"):
        (folder / name).mkdir()
        np.save(folder / name / "labels.npy", label)
    np.save(folder / "npy" / "edges.npy", edges)
    np.save(folder / "npy" / "features.npy", feat)
    np.savez(folder / "npz" / "edges.npz", source=edges[:, 0], target=edges[:, 1], weight=rng.random(len(edges)))
    scipy.sparse.save_npz(folder / "npz" / "features.npz", scipy.sparse.random(NODES, 5, 0.4, "csr", random_state=0))


def mutate_arrays(folder: Path, rng: Random) -> str:
    path = rng.choice(sorted(folder.iterdir()))
    mutations.mutate_file(path, rng, mutations.mutate_npy if path.suffix == ".npy" else mutations.mutate_npz)
    return path.name


def read_arrays(folder: Path, changed: str) -> None:
    kind = "npy" if (folder / "edges.npy").exists() or changed == "edges.npy" else "npz"
    files = {part: folder / f"{part}.{kind}" for part in ("edges", "features")}
    check_nodes(load_nodes("file", **files, labels=folder / "labels.npy"))


def write_layout(folder: Path) -> None:
    """The npz layout of graph2gauss."""
    (folder / "npz").mkdir()
    arrays: dict[str, np.ndarray] = {"labels": np.arange(NODES) % 3}
    edges = random_edges(2)
    matrices = {
        "adj": scipy.sparse.csr_matrix((np.ones(len(edges), "f4"), edges.T), (NODES, NODES)),
        "attr": scipy.sparse.random(NODES, 6, 0.4, "csr", "f4", random_state=0),
    }
    for name, matrix in matrices.items():
        arrays |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        arrays[f"{name}_shape"] = np.array(matrix.shape)
    np.savez(folder / "npz" / "graph.npz", **arrays)             # type: ignore[arg-type]


def read_layout(folder: Path, changed: str) -> None:
    check_nodes(load_nodes("npz", path=folder / "graph.npz"))


# ---------------------------------------------------------------- many graphs


def tu_files(name: str) -> dict[str, str]:
    """Four graphs of three nodes in the TU format."""
    pairs = [(3 * graph + a, 3 * graph + b) for graph in range(4) for a, b in ((1, 2), (2, 1), (2, 3), (3, 2))]
    columns = {
        "A": [f"{a}, {b}" for a, b in pairs],
        "graph_indicator": [str(node // 3 + 1) for node in range(12)],
        "graph_labels": ["1", "-1", "1", "-1"],
        "node_labels": [str(node % 3) for node in range(12)],
        "node_attributes": [f"{node}, {node / 2}" for node in range(12)],
        "edge_labels": [str(number % 2) for number in range(len(pairs))],
    }
    return {f"{name}_{part}.txt": "\n".join(lines) + "\n" for part, lines in columns.items()}


def write_tu(folder: Path) -> None:
    (folder / "tu").mkdir()
    for name, text in tu_files("S").items():
        (folder / "tu" / name).write_text(text)


def read_tu(folder: Path, changed: str) -> None:
    check_graphs(load_graphs("file", folder=folder))


def write_archive(folder: Path) -> None:
    (folder / "zip" / "TU").mkdir(parents=True)
    with zipfile.ZipFile(folder / "zip" / "TU" / "S.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in tu_files("S").items():
            archive.writestr(f"S/{name}", text)


def mutate_zip(folder: Path, rng: Random) -> str:
    path = folder / "TU" / "S.zip"
    path.write_bytes(mutations.mutate_archive(path.read_bytes(), rng))
    return path.name


def read_archive(folder: Path, changed: str) -> None:
    check_graphs(load_graphs("S", root=folder))


def write_graph_tables(folder: Path) -> None:
    place = folder / "csv"
    place.mkdir()
    parts = ("train", "valid", "test")
    rows = {
        "graphs.csv": ["graph,label,split", *(f"g{i},{'yes' if i % 2 else 'no'},{parts[i % 3]}" for i in range(6))],
        "nodes.csv": ["graph,node,x,y", *(f"g{i},{n},{x},{i / 2}" for i in range(6) for x, n in enumerate("abc"))],
        "edges.csv": ["graph,source,target,weight,bond",
                      *(f"g{i},{a},{b},1.5,{i}" for i in range(6) for a, b in ("ab", "bc"))],
    }  # fmt: skip
    for name, lines in rows.items():
        (place / name).write_text("\n".join(lines) + "\n")


KINDS = {
    "csv": Kind(1500, write_tables, mutate_table, read_tables, names_folder),
    "graph tables": Kind(1000, write_graph_tables, mutate_table, read_tu, names_folder),
    "TU folder": Kind(1000, write_tu, mutate_table, read_tu, names_folder),
    "TU zip": Kind(700, write_archive, mutate_zip, read_archive, names_folder),
    "npy, npz": Kind(1000, write_arrays, mutate_arrays, read_arrays, names_folder),
    "npz layout": Kind(700, write_layout, mutate_arrays, read_layout, names_folder),
}
