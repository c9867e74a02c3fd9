"""Every kind of input that a user can give, small and valid; how it is damaged and read, and what must come of it.

A damaged input may be accepted, if what was read is consistent, or refused by a ``JBPoolError`` in plain text that
names the file or the setting. Everything else is a failure.
"""

import dataclasses
import gzip
import json
import pickle
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest import mock

import networkx
import numpy as np
import pandas as pd
import scipy.sparse
import torch
import yaml
from commands import CASES, call, settings
from damage import NUMBERS, WORDS, Files, damaged_folder, damaged_text

import jbpool
from jbpool import cli
from jbpool.data import GraphData, NodeData, load_graphs, load_nodes
from jbpool.data.sets.citation import _parse_planetoid
from jbpool.data.sets.gcb import read_gcb
from jbpool.engine import fit
from jbpool.engine.config import CONFIGS, load_config
from jbpool.errors import ConfigError, JBPoolError, reported_as
from jbpool.schema import as_dict

NODES = 12


class Mutant(NamedTuple):
    example: str                                # the valid input that was damaged, or the task
    files: Files = {}                           # noqa: RUF012  never changed
    changes: tuple[str, ...] = ()               # for --set


class Kind(NamedTuple):
    share: int                                  # mutants of 10,000
    mutant: Callable[[Random], Mutant]
    read: Callable[[Path, Mutant], None]        # reads a mutant that was written to a folder, and checks it
    place: str = "{folder}"                     # what a refusal names


def read_mutant(kind: Kind, mutant: Mutant, folder: Path) -> str | None:
    """Read a mutant: ``None`` if it is accepted, or the message of its refusal; raises if neither is in order."""
    folder = folder / mutant.example.replace(" ", "-")
    folder.mkdir(parents=True)
    for name, content in mutant.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).mkdir() if content is None else (folder / name).write_bytes(content)
    try:
        kind.read(folder, mutant)
    except JBPoolError as error:
        message = str(error)
        plain = message.strip() and all(line.isprintable() for line in message.split("\n"))
        assert plain, f"a message that is not plain text: {message!r}"
        assert kind.place.format(folder=folder) in message, f"a message that does not name the input: {message}"
        assert "llocate" not in message, f"memory was requested without a check: {message}"
        return message
    return None


@cache
def _examples(write: Callable[[Path], None]) -> dict[str, Files]:
    """The files in each folder that a function writes."""
    with tempfile.TemporaryDirectory() as temporary:
        write(Path(temporary))
        return {
            folder.name: {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}
            for folder in sorted(Path(temporary).iterdir())
        }


def damaged(write: Callable[[Path], None]) -> Callable[[Random], Mutant]:
    """Mutants of the examples that a function writes, each into a folder of its own."""

    def mutant(rng):
        example = rng.choice(sorted(_examples(write)))
        return Mutant(example, damaged_folder(_examples(write)[example], rng))

    return mutant


# ---------------------------------------------------------------- what every dataset promises


def check_nodes(data: NodeData) -> None:
    """Check a graph, and do what a run first does with it."""
    graph, nodes = data.graph, data.graph.num_nodes
    source, target = graph.edge_index
    assert nodes > 0, "no nodes"
    assert bool((source != target).all()), "a self loop"
    pairs = set(zip(source.tolist(), target.tolist(), strict=True))
    assert len(pairs) == graph.num_edges, "an edge twice"
    assert all((b, a) in pairs for a, b in pairs), "an edge in one direction"
    if data.feat is not None:
        assert data.feat.shape[0] == nodes, "rows of features"
        values = data.feat.values() if data.feat.layout == torch.sparse_csr else data.feat
        assert values.dtype == torch.float32, "type of features"
        assert bool(values.isfinite().all()), "features that are not finite"
    if data.label is not None:
        assert data.label.shape == (nodes,), "labels"
        assert -1 <= int(data.label.min()) <= int(data.label.max()) < data.num_classes, "range of labels"
    if data.edge_weight is not None:
        assert len(data.edge_weight) == graph.num_edges, "weights"
        assert bool((data.edge_weight.isfinite() & (data.edge_weight > 0)).all()), "weights that are not positive"
    assert data.ids is None or len(set(data.ids.tolist())) == nodes, "node ids"
    assert data.summary.isprintable(), "the summary is not one line"
    assert data.fingerprint


def check_graphs(data: GraphData) -> None:
    """Check many graphs, as one batch."""
    assert len(data) > 0, "no graphs"
    batch = data.batch(torch.arange(len(data)))
    assert batch.graph.num_nodes == len(batch.feat) == int(data.sizes.sum()), "nodes"
    assert bool(batch.feat.isfinite().all()), "features that are not finite"
    assert batch.edge_weight is None or bool((batch.edge_weight.isfinite() & (batch.edge_weight >= 0)).all()), "weights"
    assert batch.edge_feat is None or bool(batch.edge_feat.isfinite().all()), "edge features that are not finite"
    assert -1 <= int(data.label.min()) <= int(data.label.max()) < max(data.num_classes, 1), "range of labels"
    assert data.ids is None or len(set(data.ids.tolist())) == len(data), "graph ids"
    assert data.fingerprint


# ---------------------------------------------------------------- one graph


def random_edges(seed: int, count: int = 30) -> np.ndarray:
    """``(count, 2)`` edges between ``NODES`` nodes that all occur."""
    ring = np.stack([np.arange(NODES), (np.arange(NODES) + 1) % NODES], 1)
    return np.concatenate([ring, np.random.default_rng(seed).integers(0, NODES, (count - NODES, 2))])


def write_tables(folder: Path) -> None:
    edges = random_edges(0)
    for name, separator in (("plain", ","), ("named", "\t"), ("spaces", " ")):
        ids = [f"n{node}" if name == "named" else str(node) for node in range(NODES)]
        rows = [[ids[a], ids[b]] for a, b in edges]
        if name == "named":
            rows = [["source", "target", "weight"], *([*row, str(1 + i / 4)] for i, row in enumerate(rows))]
        (folder / name).mkdir()
        tables = {
            "edges": [separator.join(row) for row in rows],
            "features": [f"{node},{i},{i * 0.5},-1e-3" for i, node in enumerate(ids)],
            "labels": ["node,class", *(f"{node},c{i % 3}" for i, node in enumerate(ids))],
        }
        for table, lines in tables.items():
            (folder / name / f"{table}.csv").write_text("\n".join(lines) + "\n")
    (folder / "packed").mkdir()
    (folder / "packed" / "edges.csv.gz").write_bytes(gzip.compress((folder / "plain" / "edges.csv").read_bytes()))


def read_tables(folder: Path, mutant: Mutant) -> None:
    if mutant.example == "packed":
        check_nodes(load_nodes("file", edges=folder / "edges.csv.gz"))
    else:
        check_nodes(load_nodes("file", **{part: folder / f"{part}.csv" for part in ("edges", "features", "labels")}))


def write_arrays(folder: Path) -> None:
    edges, rng = random_edges(1), np.random.default_rng(1)
    for name in ("npy", "npz"):
        (folder / name).mkdir()
        np.save(folder / name / "labels.npy", np.arange(NODES) % 3)
    np.save(folder / "npy" / "edges.npy", edges)
    np.save(folder / "npy" / "features.npy", rng.random((NODES, 3)))
    np.savez(folder / "npz" / "edges.npz", source=edges[:, 0], target=edges[:, 1], weight=rng.random(len(edges)))
    scipy.sparse.save_npz(folder / "npz" / "features.npz", scipy.sparse.random(NODES, 5, 0.4, "csr", random_state=0))


def read_arrays(folder: Path, mutant: Mutant) -> None:
    files = {part: folder / f"{part}.{mutant.example}" for part in ("edges", "features")}
    check_nodes(load_nodes("file", **files, labels=folder / "labels.npy"))


def write_parquet(folder: Path) -> None:
    (folder / "parquet").mkdir()
    edges, ids = pd.DataFrame(random_edges(4), columns=["source", "target"]), np.arange(NODES)
    tables = {
        "edges": edges.assign(weight=1.5, kind="x"),
        "features": pd.DataFrame({"id": ids, "x": ids / 2, "word": ids % 2}).astype({"word": str}),
        "labels": pd.DataFrame({"id": ids, "label": ids % 3}),
    }
    for name, table in tables.items():
        table.to_parquet(folder / "parquet" / f"{name}.parquet")


def read_parquet(folder: Path, mutant: Mutant) -> None:
    files = {part: folder / f"{part}.parquet" for part in ("edges", "features", "labels")}
    check_nodes(load_nodes("file", **files, missing="mean"))


def write_graph_files(folder: Path) -> None:
    graph = networkx.Graph()
    for node in range(NODES):
        graph.add_node(node, age=node / 2, word="ab"[node % 2])
    graph.add_weighted_edges_from((a, b, 1.5) for a, b in random_edges(5).tolist())
    for kind in ("gml", "graphml", "gexf"):
        (folder / kind).mkdir()
        getattr(networkx, f"write_{kind}")(graph, folder / kind / f"graph.{kind}")


def read_graph_files(folder: Path, mutant: Mutant) -> None:
    check_nodes(load_nodes("file", edges=folder / f"graph.{mutant.example}", features="age", labels="word"))


def write_layout(folder: Path) -> None:
    """The npz layout of graph2gauss."""
    edges = random_edges(2)
    matrices = {
        "adj": scipy.sparse.csr_matrix((np.ones(len(edges), "f4"), edges.T), (NODES, NODES)),
        "attr": scipy.sparse.random(NODES, 6, 0.4, "csr", "f4", random_state=0),
    }
    arrays = {
        f"{name}_{part}": np.array(getattr(matrix, part))
        for name, matrix in matrices.items() for part in ("data", "indices", "indptr", "shape")
    }  # fmt: skip
    (folder / "npz").mkdir()
    np.savez(folder / "npz" / "graph.npz", labels=np.arange(NODES) % 3, **arrays)


def read_layout(folder: Path, mutant: Mutant) -> None:
    check_nodes(load_nodes("npz", path=folder / "graph.npz"))


# ---------------------------------------------------------------- many graphs


def tu_files() -> dict[str, str]:
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
    return {f"S_{part}.txt": "\n".join(lines) + "\n" for part, lines in columns.items()}


def write_tu(folder: Path) -> None:
    (folder / "tu").mkdir()
    for name, text in tu_files().items():
        (folder / "tu" / name).write_text(text)


def write_graph_tables(folder: Path) -> None:
    parts = ("train", "valid", "test")
    rows = {
        "graphs.csv": ["graph,label,split", *(f"g{i},{'yes' if i % 2 else 'no'},{parts[i % 3]}" for i in range(6))],
        "nodes.csv": ["graph,node,x,y", *(f"g{i},{n},{x},{i / 2}" for i in range(6) for x, n in enumerate("abc"))],
        "edges.csv": ["graph,source,target,weight,bond",
                      *(f"g{i},{a},{b},1.5,{i}" for i in range(6) for a, b in ("ab", "bc"))],
    }  # fmt: skip
    (folder / "csv").mkdir()
    for name, lines in rows.items():
        (folder / "csv" / name).write_text("\n".join(lines) + "\n")


def read_folder(folder: Path, mutant: Mutant) -> None:
    check_graphs(load_graphs("file", folder=folder))


def write_archive(folder: Path) -> None:
    (folder / "zip" / "TU").mkdir(parents=True)
    with zipfile.ZipFile(folder / "zip" / "TU" / "S.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in tu_files().items():
            archive.writestr(f"S/{name}", text)


def read_archive(folder: Path, mutant: Mutant) -> None:
    check_graphs(load_graphs("S", root=folder))


# ---------------------------------------------------------------- pickles, graphs saved by DGL


PLANETOID = ("tx", "ty", "allx", "ally", "graph", "test.index")


def write_pickles(folder: Path) -> None:
    words = scipy.sparse.random(NODES, 5, 0.4, "csr", "f4", random_state=0)
    classes = np.eye(3)[np.arange(NODES) % 3]
    graph = {node: [(node + 1) % NODES, (node + 3) % NODES] for node in range(NODES)}
    parts = (words[8:], classes[8:], words[:8], classes[:8], graph)
    (folder / "planetoid").mkdir()
    for number, (name, part) in enumerate(zip(PLANETOID, parts, strict=False)):
        (folder / "planetoid" / f"ind.s.{name}").write_bytes(pickle.dumps(part, (2, 2, 4)[number % 3]))
    (folder / "planetoid" / "ind.s.test.index").write_text("9\n8\n11\n10\n")
    arrays = {}
    for part in ("tr", "val", "te"):
        for what, entry in (("adj", words[:5, :5] + words[:5, :5].T), ("feat", np.eye(5, dtype="f4"))):
            arrays[f"{part}_{what}"] = np.empty(2, dtype=object)
            arrays[f"{part}_{what}"][:] = [entry, entry]
        arrays[f"{part}_class"] = np.eye(3)[:2]
    (folder / "gcb").mkdir()
    np.savez(folder / "gcb" / "set.npz", **arrays)


def read_pickles(folder: Path, mutant: Mutant) -> None:
    if mutant.example == "gcb":
        arrays = read_gcb(folder / "set.npz")
    else:
        with reported_as(folder):
            _parse_planetoid([folder / f"ind.s.{part}" for part in PLANETOID])
        return
    nodes = int(arrays["sizes"].sum())
    ends = np.concatenate([arrays["source"], arrays["target"]])
    assert len(ends) == 0 or 0 <= ends.min() <= ends.max() < nodes, "edges"


def write_bins(folder: Path) -> None:
    import dgl  # a guest: not on every machine

    ends = tuple(torch.from_numpy(random_edges(3)).T)
    graph = dgl.graph(ends)
    graph.ndata["feat"], graph.ndata["label"] = torch.rand(NODES, 2), torch.arange(NODES) % 3
    graph.edata["weight"] = torch.rand(len(ends[0]))
    for name, graphs, labels in (("one", [graph], {}), ("many", [graph] * 3, {"label": torch.tensor([0, 1, 0])})):
        (folder / name).mkdir()
        dgl.save_graphs(str(folder / name / "graphs.bin"), graphs, labels)


def read_bin(folder: Path, mutant: Mutant) -> None:
    if mutant.example == "one":
        check_nodes(load_nodes("file", graph=folder / "graphs.bin"))
    else:
        check_graphs(load_graphs("file", graphs=folder / "graphs.bin"))


# ---------------------------------------------------------------- configurations and settings


VALUES = (
    "jb", "mincut", "dmon", "diffpool", "none", "auto", "kmeans", "sc", "delta", "gcn", "gin", "sage", "gat", "sgc",
    "matrix", "diagonal", "cosine", "linear", "batch", "layer", "mean", "sum+max", "all", "last", "best", "constant",
    "idf", "relu", "elu", None, True, False, 0, 1, 2, 3, 5, 0.5, 0.999, 1e-12, 1e-3, 2.0, 1000.0, [], [1], [2, 3],
    [0.5, 0.5], [1e-9, 1.0], {"cut": 1.0, "balance": -2.0},
)  # fmt: skip
SECTIONS = ("dataset", "model", "method", "train")
ODD_KEYS = ("", ".", "nope", "train", "model", "method", "a..b", "dataset.edges", "dataset.normalize")
SMALL = {
    "node_cluster": ("dataset.num_nodes=160", "train.epochs=3", "train.eval_every=1", "model.hidden=8",
                     "model.layers=2", "model.mlp=[4]"),
    "graph_classify": ("dataset.num_graphs=24", "train.epochs=3", "model.hidden=8", "model.layers=1",
                       "model.compare=[]"),
}  # fmt: skip


def keys_of(task: str, sections: tuple[str, ...]) -> list[str]:
    default = CASES[task].task.schema()
    return [f"{section}.{item.name}" for section in sections for item in dataclasses.fields(getattr(default, section))]


def write_configs(folder: Path) -> None:
    for path in CONFIGS.glob("*/*.yaml"):
        place = folder / f"{path.parent.name} {path.stem}"
        place.mkdir()
        (place / "config.yaml").write_bytes(path.read_bytes())


def read_config(folder: Path, mutant: Mutant) -> None:
    """Load a configuration; the config.yaml that a run would write must give the same one again."""
    task = CASES[mutant.example.split()[0]].task
    config = load_config(task, str(folder / "config.yaml") if mutant.files else None, mutant.changes)
    written = folder / "written.yaml"
    written.write_text(yaml.safe_dump(as_dict(config), sort_keys=False))
    try:
        again = load_config(task, str(written))
    except ConfigError as error:
        raise AssertionError(f"config.yaml of the run folder would be refused: {error}") from None
    assert repr(again) == repr(config), "config.yaml of the run folder would be another configuration"


def odd_change(rng: Random) -> Mutant:
    """One ``--set`` option: any key, any value."""
    task = rng.choice(sorted(CASES))
    key = rng.choice(("task", rng.choice(ODD_KEYS), *(rng.choice(keys_of(task, (section,))) for section in SECTIONS)))
    noise = "".join(chr(rng.randrange(0x250)) for _ in range(rng.randrange(6)))
    value = rng.choice((rng.choice(WORDS), rng.choice(WORDS), str(rng.choice(VALUES)), str(rng.choice(NUMBERS)), noise))
    change = key + rng.choice((*"=========", "")) + value
    if rng.random() < 0.2:
        change = damaged_text(change.encode(), rng).decode(errors="surrogateescape")
    return Mutant(task, changes=(change,))


def valid_changes(rng: Random) -> Mutant:
    """Up to four settings that are valid by themselves."""
    task, changes = rng.choice(sorted(CASES)), []
    for _ in range(rng.choice((10, 20, 40))):
        change = f"{rng.choice(keys_of(task, ('model', 'method', 'train')))}={json.dumps(rng.choice(VALUES))}"
        with suppress(ConfigError):
            load_config(CASES[task].task, None, [*CASES[task].changes, *SMALL[task], *changes, change])
            changes = [*changes, change][:4]
    return Mutant(task, changes=tuple(changes))


def run(task: str, folder: Path, *arguments: object) -> None:
    """Run a command; its refusal becomes a ``JBPoolError`` with what it has printed to standard error."""
    command = compare if task == "compare" else CASES[task].command
    outcome = call(command, *arguments, cwd=folder, check=False)
    assert "Traceback" not in outcome.err, outcome.err
    if outcome.code:
        lines = outcome.err.replace("\x1b[A", "\n").splitlines()            # progress bars move the cursor
        lines = [line for line in lines if line.strip() and "%|" not in line]
        assert outcome.code in (1, 2), f"exit code {outcome.code}"
        assert lines, "nothing says what is wrong"
        raise JBPoolError("\n".join(lines))


def compare(arguments: list[str]) -> int:
    return cli.main(["compare", *arguments])


def start(folder: Path, task: str, changes: tuple[str, ...], out: Path, *more: str) -> None:
    """Run a task on small data."""
    run(task, folder, *CASES[task].arguments(*SMALL[task], *changes), "--device", "cpu", "--out", out, *more)


def read_changes(folder: Path, mutant: Mutant) -> None:
    start(folder, mutant.example, mutant.changes, folder / "run")
    assert (folder / "run" / "report.html").is_file(), "no report"


# ---------------------------------------------------------------- run folders


RUNS = {
    "node_cluster jb": (), "node_cluster auto": ("method.name=auto", "method.num_clusters=3"), "graph_classify jb": (),
    "node_cluster stopped": (), "graph_classify stopped": (),
}  # fmt: skip


def write_runs(folder: Path) -> None:
    """Finished runs, and some that were stopped after a checkpoint."""
    for name, changes in RUNS.items():
        task, kind = name.split()
        steps, step = iter(range(10**6)), fit.mean_gradients

        def stopping(parameters, steps=steps, step=step):
            if next(steps) == 2:
                raise KeyboardInterrupt
            step(parameters)

        step = stopping if kind == "stopped" else step
        with suppress(AssertionError), mock.patch.multiple(fit, CHECKPOINT_SECONDS=-1, mean_gradients=step):
            start(folder, task, changes, folder / name)         # the exit code of a stopped one is 130
        finished = "checkpoint.pt" if kind == "stopped" else "report.html"
        assert (folder / name / finished).is_file(), name
    (folder / "cache").is_dir() and (folder / "cache").rename(folder.parent / f"{folder.name}-cache")


def read_model(folder: Path, mutant: Mutant) -> None:
    jbpool.load_run(folder)


def read_predict(folder: Path, mutant: Mutant) -> None:
    task = mutant.example.split()[0]
    run(task, folder, "--predict", folder, *settings("dataset.seed=1"), "--out", folder / "new")


def read_resume(folder: Path, mutant: Mutant) -> None:
    """Continue the run, and write its report."""
    start(folder, mutant.example.split()[0], RUNS[mutant.example], folder, "--resume")
    assert isinstance(json.loads((folder / "result.json").read_text())["runs"], list)


def read_compare(folder: Path, mutant: Mutant) -> None:
    run("compare", folder, folder, folder, "--out", folder / "compared.html")


KINDS = {
    "configuration": Kind(1300, damaged(write_configs), read_config),
    "--set": Kind(1300, odd_change, read_config, "--set "),
    "settings": Kind(200, valid_changes, read_changes, ""),
    "load_run": Kind(200, damaged(write_runs), read_model),
    "--predict": Kind(200, damaged(write_runs), read_predict),
    "--resume": Kind(300, damaged(write_runs), read_resume),
    "compare": Kind(300, damaged(write_runs), read_compare),
    "csv": Kind(1500, damaged(write_tables), read_tables),
    "npy, npz": Kind(1000, damaged(write_arrays), read_arrays),
    "graph file": Kind(700, damaged(write_graph_files), read_graph_files),
    "npz layout": Kind(700, damaged(write_layout), read_layout),
    "graph tables": Kind(1000, damaged(write_graph_tables), read_folder),
    "TU folder": Kind(1000, damaged(write_tu), read_folder),
    "TU zip": Kind(600, damaged(write_archive), read_archive),
    "pickle": Kind(1000, damaged(write_pickles), read_pickles),
}
if find_spec("pyarrow") is not None:
    KINDS["parquet"] = Kind(300, damaged(write_parquet), read_parquet)
if find_spec("dgl") is not None:
    KINDS["bin"] = Kind(60, damaged(write_bins), read_bin)
