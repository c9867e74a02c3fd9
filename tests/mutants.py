"""Small valid inputs of every format, a strategy that damages them, and what must come of it.

A damaged input may be accepted, if what was read is consistent, or refused by a ``JBPoolError`` of one printable line
that names the file. Everything else is a failure.
"""

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import networkx
import numpy as np
import scipy.sparse
import yaml
from commands import CASES
from hypothesis import strategies as st

from jbpool.data import GraphData, NodeData, load_graphs, load_nodes
from jbpool.data.sets.gcb import read_gcb
from jbpool.engine.config import CONFIGS, load_config
from jbpool.errors import JBPoolError
from jbpool.ops.sparse import stored_values
from jbpool.schema import as_dict

Files = dict[str, bytes]
NODES = 12
EDGES = np.concatenate([
    np.stack([np.arange(NODES), (np.arange(NODES) + 1) % NODES], 1), np.random.default_rng(0).integers(0, NODES, (9, 2))
])  # fmt: skip
WORDS = (
    "", "-1", "-0", "0", "007", "1.5", "1e400", "9" * 25, "9" * 400, "nan", "-inf", "None", "off", "1,5", "a b", "a,b",
    "é", "\u2028", "\x00", "\x1b[31m", "\ufeff", '"', "'", "#", "%", "[1", "{a: 1, a: 2}", "[" * 99, "!!python/name:x",
    "../x", "x\ny", "O8", "a" * 300,
)  # fmt: skip


def damage(draw: st.DrawFn, content: bytes) -> bytes:
    """Cut parts, flip bits or replace words of a file, or of a member of an archive."""
    if content.startswith(b"PK") and draw(st.booleans()):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        chosen = draw(st.sampled_from(sorted(members)))
        members[chosen] = damage(draw, members[chosen])
        return zipped(members)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end, new = draw(st.integers(start, len(content))), b""
        words = [match.span() for match in re.finditer(rb"[^\s,;:|{}\[\]]+", content)]
        change = draw(st.sampled_from(("word", "flip", "cut")))
        if change == "word" and words:
            (start, end), new = draw(st.sampled_from(words)), draw(st.sampled_from(WORDS)).encode()
        elif change == "flip" and start < len(content):
            end, new = start + 1, bytes([content[start] ^ 1 << draw(st.integers(0, 7))])
        content = content[:start] + new + content[end:]
    return content


@st.composite
def mutants(draw: st.DrawFn, files: Files) -> Files:
    """The files of a folder, of which one is damaged."""
    name = draw(st.sampled_from(sorted(files)))
    return {**files, name: damage(draw, files[name])}


def outcome(read: Callable[[Path], object], files: Files, folder: Path) -> str | None:
    """Write files to a folder and read them: ``None`` if they are accepted, or the message of the refusal."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    try:
        read(folder)
    except JBPoolError as error:
        message = str(error)
        assert message.strip(), "an empty message"
        assert all(line.isprintable() for line in message.split("\n")), f"not plain text: {message!r}"
        assert str(folder) in message, f"the input is not named: {message}"
        return message
    return None


# ---------------------------------------------------------------- what every dataset promises


def check_nodes(data: NodeData) -> None:
    nodes, ends = data.graph.num_nodes, data.graph.edge_index.T.tolist()
    pairs = {(a, b) for a, b in ends}
    assert nodes > 0
    assert len(pairs) == len(ends), "an edge twice"
    assert all((b, a) in pairs and a != b for a, b in pairs), "an edge in one direction, or a self loop"
    assert data.feat is None or data.feat.shape[0] == nodes
    assert data.feat is None or bool(stored_values(data.feat).isfinite().all())
    assert data.label is None or -1 <= int(data.label.min()) <= int(data.label.max()) < data.num_classes
    assert data.edge_weight is None or bool((data.edge_weight.isfinite() & (data.edge_weight > 0)).all())
    assert data.ids is None or len(set(data.ids.tolist())) == nodes
    assert data.summary.isprintable()


def check_graphs(data: GraphData) -> None:
    batch = data.batch(range(len(data)))
    assert batch.graph.num_nodes == len(batch.feat) == int(data.sizes.sum()) > 0
    assert bool(batch.feat.isfinite().all())
    assert batch.edge_weight is None or bool((batch.edge_weight.isfinite() & (batch.edge_weight >= 0)).all())
    assert -1 <= int(data.label.min()) <= int(data.label.max()) < max(data.num_classes, 1)


def check_config(task: str, path: Path) -> None:
    """The config.yaml that a run would write gives the same configuration again."""
    config = load_config(CASES[task].task, str(path), [])
    written = path.with_name("written.yaml")
    written.write_text(yaml.safe_dump(as_dict(config), sort_keys=False))
    assert repr(load_config(CASES[task].task, str(written), [])) == repr(config)


# ---------------------------------------------------------------- examples


def zipped(members: Files) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def saved(save: Callable[..., object], *args: object, **arrays: object) -> bytes:
    """What numpy or scipy write into a file."""
    file = io.BytesIO()
    save(file, *args, **arrays)
    return file.getvalue()


def lines(*rows: object) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def objects(*entries: object) -> np.ndarray:
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array


FEATURES = scipy.sparse.random(NODES, 6, 0.4, "csr", "f4", random_state=0)
ADJACENCY = scipy.sparse.csr_matrix((np.ones(len(EDGES), "f4"), EDGES.T), (NODES, NODES))
NETWORK = networkx.Graph([(int(a), int(b), {"weight": 1.5}) for a, b in EDGES])
TU = {
    "A": [f"{3 * g + a}, {3 * g + b}" for g in range(4) for a, b in ((1, 2), (2, 1), (2, 3), (3, 2))],
    "graph_indicator": [node // 3 + 1 for node in range(12)], "graph_labels": [1, -1, 1, -1],
    "node_labels": [node % 3 for node in range(12)], "node_attributes": [f"{node}, {node / 2}" for node in range(12)],
}  # fmt: skip
TABLES = {
    "edges.csv": lines("source,target,weight", *(f"n{a},n{b},1.5" for a, b in EDGES)),
    "features.csv": lines(*(f"n{i},{i},{i * 0.5},-1e-3" for i in range(NODES))),
    "labels.csv": lines("node,class", *(f"n{i},c{i % 3}" for i in range(NODES))),
}
ARRAYS = {
    "edges.npz": saved(np.savez, source=EDGES[:, 0], target=EDGES[:, 1], weight=np.ones(len(EDGES))),
    "features.npz": saved(scipy.sparse.save_npz, FEATURES), "labels.npy": saved(np.save, np.arange(NODES) % 3),
}  # fmt: skip
LAYOUT = {
    f"{name}_{part}": np.array(getattr(matrix, part))
    for name, matrix in (("adj", ADJACENCY), ("attr", FEATURES)) for part in ("data", "indices", "indptr", "shape")
}  # fmt: skip
SPLIT = ("train", "valid", "test")
FOLDER = {
    "graphs.csv": lines("graph,label,split", *(f"g{i},{'ny'[i % 2]},{SPLIT[i % 3]}" for i in range(6))),
    "nodes.csv": lines("graph,node,x", *(f"g{i},{n},{x}" for i in range(6) for x, n in enumerate("abc"))),
    "edges.csv": lines("graph,source,target,weight", *(f"g{i},{e},1.5" for i in range(6) for e in ("a,b", "b,c"))),
}  # fmt: skip
GCB = {
    f"{part}_{what}": value for part in ("tr", "val", "te") for what, value in
    {"adj": objects(ADJACENCY), "feat": objects(np.eye(NODES, 5, dtype="f4")), "class": np.eye(3)[:1]}.items()
}  # fmt: skip


def read_parts(folder: Path) -> None:
    """Edges, features and labels, by the names of their files."""
    check_nodes(load_nodes("file", **{path.stem: path for path in folder.iterdir()}))


def read_folder(folder: Path) -> None:
    check_graphs(load_graphs("file", folder=folder))


EXAMPLES: dict[str, tuple[Files, Callable[[Path], object]]] = {
    "tables": (TABLES, read_parts),
    "arrays": (ARRAYS, read_parts),
    "gml": ({"edges.gml": lines(*networkx.generate_gml(NETWORK))}, read_parts),
    "graphml": ({"edges.graphml": lines(*networkx.generate_graphml(NETWORK))}, read_parts),
    "npz layout": (
        {"g.npz": saved(np.savez, labels=np.arange(NODES) % 3, **LAYOUT)},
        lambda folder: check_nodes(load_nodes("npz", path=folder / "g.npz")),
    ),
    "graph tables": (FOLDER, read_folder),
    "TU folder": ({f"S_{part}.txt": lines(*rows) for part, rows in TU.items()}, read_folder),
    "TU zip": (
        {"TU/S.zip": zipped({f"S/S_{part}.txt": lines(*rows) for part, rows in TU.items()})},
        lambda folder: check_graphs(load_graphs("S", root=folder)),
    ),
    "pickles": ({"gcb.npz": saved(np.savez, **GCB)}, lambda folder: read_gcb(folder / "gcb.npz")),
    **{
        f"{task} configuration": (
            {f"{path.stem}.yaml": path.read_bytes() for path in (CONFIGS / task).glob("*.yaml")},
            lambda folder, task=task: [check_config(task, path) for path in sorted(folder.glob("*.yaml"))],
        )
        for task in CASES
    },
}
