"""Graphs saved by ``dgl.save_graphs``: one to cluster, or many to classify."""

import struct

import pytest
import torch
from forms import both, edges_of

from jbpool.data import DataError, load_graphs, load_nodes
from jbpool.data.own.one_graph import as_node_data

dgl = pytest.importorskip("dgl", reason="DGL is not installed")


def test_a_graph_without_frames(tmp_path, read_here):
    dgl.save_graphs(str(tmp_path / "plain.bin"), [dgl.graph(([0, 1, 1], [1, 0, 2]), num_nodes=4)])
    assert edges_of(load_nodes("file", graph=tmp_path / "plain.bin")) == both((0, 1), weight=2) | both((1, 2))


def test_classes_keep_their_names_and_other_files_replace_frames(tmp_path, read_here):
    graph = dgl.graph(([0, 1, 1], [1, 0, 2]), num_nodes=3)
    graph.ndata["feat"], graph.ndata["label"] = torch.rand(3, 2), torch.tensor([[7], [-1], [3]])
    dgl.save_graphs(str(tmp_path / "g.bin"), [graph])
    data = load_nodes("file", edges=tmp_path / "g.bin")
    assert (data.label.tolist(), data.class_names) == ([1, -1, 0], ["3", "7"])
    (tmp_path / "x.csv").write_text("0,5\n1,6\n2,7\n")
    (tmp_path / "y.csv").write_text("0,a\n2,b\n")
    data = load_nodes("file", graph=tmp_path / "g.bin", features=tmp_path / "x.csv", labels=tmp_path / "y.csv")
    assert (data.feat.tolist(), data.label.tolist()) == ([[5], [6], [7]], [0, -1, 1])
    for frame, key, wrong in ("edata", "weight", -torch.ones(3)), ("ndata", "feat", torch.ones(3)):
        getattr(graph, frame)[key] = wrong
        dgl.save_graphs(str(tmp_path / "g.bin"), [graph])
        with pytest.raises(DataError, match=r"g\.bin: .*give a"):
            load_nodes("file", edges=tmp_path / "g.bin")
        del getattr(graph, frame)[key]


def test_other_frames_are_mentioned(tmp_path, read_here, caplog):
    graph = dgl.graph(([0, 1], [1, 0]))
    graph.ndata["attr"], graph.edata["w"] = torch.rand(2, 3), torch.rand(2)
    dgl.save_graphs(str(tmp_path / "g.bin"), [graph])
    assert load_nodes("file", graph=tmp_path / "g.bin").feat is None
    assert "edata w, ndata attr are not used; ndata feat and label, edata weight and feat are read" in caplog.text


def test_a_saved_dgl_graph(tmp_path):
    """By a child process, as users read it; it imports nothing from the current folder."""
    (tmp_path / "random.py").write_text("raise SystemExit('imported!')")
    graph = dgl.graph(([0, 1, 1], [1, 0, 2]), num_nodes=4)
    graph.ndata["feat"], graph.ndata["label"] = torch.rand(4, 3), torch.tensor([0, 1, 1, 2])
    graph.edata["weight"] = torch.tensor([1.0, 1.0, 0.5])
    dgl.save_graphs(str(tmp_path / "full.bin"), [graph])
    data = load_nodes("file", graph=tmp_path / "full.bin")
    assert edges_of(data)[2, 1] == 0.5
    assert torch.equal(data.feat, graph.ndata["feat"])
    assert data.label.tolist() == [0, 1, 1, 2]
    assert as_node_data(tmp_path / "full.bin").fingerprint == data.fingerprint
    (tmp_path / "bad.bin").write_bytes(b"\x00" * 64)
    with pytest.raises(DataError, match="not a file of dgl"):
        load_nodes("file", graph=tmp_path / "bad.bin")


def test_saved_graphs_with_classes(tmp_path, read_here):
    graphs = [dgl.add_reverse_edges(dgl.rand_graph(n, n)) for n in (3, 5, 4)]
    path = str(tmp_path / "g.bin")
    dgl.save_graphs(path, graphs, {"label": torch.tensor([1, 0, 1])})
    data = load_graphs("file", graphs=path)
    assert len(data) == 3
    assert data.label.tolist() == [1, 0, 1]
    expected = dgl.to_simple(dgl.remove_self_loop(graphs[1]), return_counts=None)
    assert set(zip(*(end.tolist() for end in data.batch([1]).graph.edge_index), strict=True)) == set(
        zip(*(end.tolist() for end in expected.edges()), strict=True)
    )
    dgl.save_graphs(path, graphs, {"label": torch.tensor([4, 0, 4])})
    assert load_graphs("file", graphs=path).num_classes == 2        # classes without gaps
    for graph in graphs:
        graph.edata["feat"] = torch.rand(graph.num_edges(), 2)
    dgl.save_graphs(path, graphs, {"label": torch.tensor([1, 0, 1])})
    assert load_graphs("file", graphs=path).edge_feat.shape[1] == 2
    for graph in graphs:
        del graph.edata["feat"]
    graphs[0].ndata["feat"] = torch.rand(3, 2)
    dgl.save_graphs(path, graphs, {"label": torch.tensor([1, 0, 1])})
    with pytest.raises(DataError, match="graph 1 has no ndata 'feat'"):
        load_graphs("file", graphs=path)


class TestSavedGraphs:
    @pytest.fixture
    def path(self, tmp_path):
        graph = dgl.graph(([0, 1, 2], [1, 2, 0]))
        graph.ndata["feat"] = torch.rand(3, 2)
        dgl.save_graphs(str(tmp_path / "g.bin"), [graph])
        return tmp_path / "g.bin"

    def test_a_child_that_dies_is_an_error_here(self, path):
        """A header with 2^62 graphs: DGL's reader crashes with an uncaught C++ exception."""
        content = bytearray(path.read_bytes())
        content[24:32] = struct.pack("<Q", 1 << 62)
        path.write_bytes(content)
        words = r"g\.bin: not a file of dgl\.save_graphs, or a damaged one \(DGL's reader crashed\)"
        with pytest.raises(DataError, match=words):
            load_nodes("file", graph=path)

    def test_an_edge_to_nowhere(self, path, read_here):
        path.write_bytes(path.read_bytes().replace(struct.pack("<3q", 1, 2, 0), struct.pack("<3q", 1, 9, 0)))
        with pytest.raises(DataError, match="an edge leads to a node that its graph does not have"):
            load_nodes("file", graph=path)
