"""Datasets for ``scripts/fuzz.py``: small valid files, how they are mutated, and how they are read and checked."""

from __future__ import annotations

import gzip
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import dgl
import fuzz_mutations as mutations
import numpy as np
import scipy.sparse
import torch
from fuzz_checks import check_graphs, check_nodes

from jbpool.data import load_graphs, load_nodes
from jbpool.data.citation import _parse_planetoid
from jbpool.data.gcb import read_gcb

NODES = 12
PLANETOID = ("tx", "ty", "allx", "ally", "graph", "test.index")


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


# ---------------------------------------------------------------- pickles and saved graphs


def write_pickles(folder: Path) -> None:
    place = folder / "planetoid"
    place.mkdir()
    graph = {node: [(node + 1) % NODES, (node + 3) % NODES] for node in range(NODES)}
    words = scipy.sparse.random(NODES, 5, 0.4, "csr", "f4", random_state=0)
    classes = np.eye(3)[np.arange(NODES) % 3]
    parts = (words[8:], classes[8:], words[:8], classes[:8], graph)
    for number, (name, part) in enumerate(zip(PLANETOID, parts, strict=False)):
        (place / f"ind.s.{name}").write_bytes(pickle.dumps(part, (2, 2, 4)[number % 3]))
    (place / "ind.s.test.index").write_text("9\n8\n11\n10\n")
    (folder / "gcb").mkdir()
    arrays: dict[str, np.ndarray] = {}
    for part in ("tr", "val", "te"):
        for what, entries in (("adj", [words[:5, :5] + words[:5, :5].T] * 2), ("feat", [np.eye(5, dtype="f4")] * 2)):
            array = np.empty(2, dtype=object)
            array[:] = entries
            arrays[f"{part}_{what}"] = array
        arrays[f"{part}_class"] = np.eye(3)[:2]
    np.savez(folder / "gcb" / "set.npz", **arrays)               # type: ignore[arg-type]


def mutate_pickle(folder: Path, rng: Random) -> str:
    path = rng.choice(sorted(folder.iterdir()))
    if path.suffix == ".npz":
        change = lambda content, rng: mutations.mutate_archive(content, rng, mutations.mutate_bytes)    # noqa: E731
    elif path.suffix == ".index":
        change = mutations.mutate_text
    else:
        change = mutations.mutate_bytes if rng.random() < 0.7 else _other_object
    mutations.mutate_file(path, rng, change)
    return path.name


def _other_object(content: bytes, rng: Random) -> bytes:
    """A pickle of a mutated object."""
    value = pickle.loads(content)               # our own, from write_pickles
    if isinstance(value, np.ndarray):
        value = mutations.mutate_array(value, rng)
    elif scipy.sparse.issparse(value):
        name = rng.choice(("data", "indices", "indptr"))
        setattr(value, name, mutations.mutate_array(getattr(value, name), rng))
    else:
        value = mutations.mutate_value(value, rng, mutations.plain_leaf)
    return pickle.dumps(value, 2)


def read_pickles(folder: Path, changed: str) -> None:
    path = folder / "set.npz"
    if path.exists() or changed == path.name:
        arrays = read_gcb(path)
    else:
        arrays = _parse_planetoid([folder / f"ind.s.{part}" for part in PLANETOID])
    nodes = int(arrays["sizes"].sum()) if "sizes" in arrays else len(arrays["label"])
    ends = np.concatenate([arrays["source"], arrays["target"]])
    assert len(ends) == 0 or 0 <= ends.min() <= ends.max() < nodes, "edges"


def write_bins(folder: Path) -> None:
    ends = tuple(torch.from_numpy(random_edges(3)).T)
    graph = dgl.graph(ends)
    graph.ndata["feat"], graph.ndata["label"] = torch.rand(NODES, 2), torch.arange(NODES) % 3
    graph.edata["weight"] = torch.rand(len(ends[0]))
    for name, graphs, labels in (("one", [graph], {}), ("many", [graph] * 3, {"label": torch.tensor([0, 1, 0])})):
        (folder / name).mkdir()
        dgl.save_graphs(str(folder / name / "graphs.bin"), graphs, labels)


def mutate_bin(folder: Path, rng: Random) -> str:
    mutations.mutate_file(folder / "graphs.bin", rng, mutations.mutate_bytes)
    return folder.name


def read_bin(folder: Path, changed: str) -> None:
    path = folder / "graphs.bin"
    if changed == "one":
        check_nodes(load_nodes("file", graph=path))
    else:
        check_graphs(load_graphs("file", graphs=path))


KINDS = {
    "csv": Kind(1500, write_tables, mutate_table, read_tables, names_folder),
    "graph tables": Kind(1000, write_graph_tables, mutate_table, read_tu, names_folder),
    "TU folder": Kind(1000, write_tu, mutate_table, read_tu, names_folder),
    "TU zip": Kind(700, write_archive, mutate_zip, read_archive, names_folder),
    "npy, npz": Kind(1000, write_arrays, mutate_arrays, read_arrays, names_folder),
    "npz layout": Kind(700, write_layout, mutate_arrays, read_layout, names_folder),
    "pickle": Kind(1000, write_pickles, mutate_pickle, read_pickles, names_folder),
    "bin": Kind(60, write_bins, mutate_bin, read_bin, names_folder),
}
