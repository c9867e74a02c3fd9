"""Pickles and graphs saved by DGL for ``scripts/qa/fuzz.py``."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random

import dgl
import fuzz_mutations as mutations
import numpy as np
import scipy.sparse
import torch
from fuzz_checks import check_graphs, check_nodes
from fuzz_files import NODES, Kind, names_folder, random_edges

from jbpool.data import load_graphs, load_nodes
from jbpool.data.sets.citation import _parse_planetoid
from jbpool.data.sets.gcb import read_gcb

PLANETOID = ("tx", "ty", "allx", "ally", "graph", "test.index")


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
    "pickle": Kind(1000, write_pickles, mutate_pickle, read_pickles, names_folder),
    "bin": Kind(60, write_bins, mutate_bin, read_bin, names_folder),
}
