"""The user's own graphs to classify: CSV folder, TU folder, DGL file; ids, names of classes, splits, edge features."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from jbpool.data import DataError, load_graphs

TABLES = {
    "graphs": "graph,label,split\nb,yes,train\na,no,valid\nc,yes,test\n007,,train\n",
    "nodes": "graph,node,x,y\na,n1,1,2\na,n2,3,4\nb,n1,5,6\nb,n2,7,8\nb,n3,9,10\nc,n1,0,0\n007,n9,1,1\na,n0,2,2\n",
    "edges": "graph,source,target,weight,kind\na,n1,n2,2,1\nb,n1,n2,1,3\nb,n2,n1,1,5\nb,n2,n3,4,7\n",
}


@pytest.fixture
def folder(tmp_path):
    def write(**changes):
        for name, text in {**TABLES, **changes}.items():
            if text is not None:
                (tmp_path / "tables").mkdir(exist_ok=True)
                (tmp_path / "tables" / f"{name}.csv").write_text(text)
        return tmp_path / "tables"

    return write


def edges_of(data, graph):
    """(source, target) -> (weight, edge features)."""
    part = data.batch([graph])
    ends = zip(*(end.tolist() for end in part.graph.edge_index), strict=True)
    return dict(zip(ends, zip(part.edge_weight.tolist(), part.edge_feat.tolist(), strict=True), strict=True))


def test_a_folder_of_tables(folder):
    data = load_graphs("file", folder=folder())
    assert data.ids.tolist() == ["b", "a", "c", "007"]
    assert data.class_names == ["no", "yes"]
    assert data.label.tolist() == [1, 0, 1, -1]
    assert data.sizes.tolist() == [3, 3, 1, 1]
    assert data.feat_names == ["x", "y"]
    assert [part.tolist() for part in data.official_split] == [[0, 3], [1], [2]]
    assert data.batch([1]).feat.tolist() == [[1, 2], [3, 4], [2, 2]]            # in the order of the rows
    assert edges_of(data, 1) == {(0, 1): (2, [1]), (1, 0): (2, [1])}            # both directions get the features
    assert edges_of(data, 0) == {(0, 1): (2, [3]), (1, 0): (2, [5]), (1, 2): (4, [7]), (2, 1): (4, [7])}
    sums = data.with_edge_sums().edge_sum
    assert sums[:3].tolist() == [[5], [10], [7]]


def test_names_of_columns_are_kept(folder):
    nodes = TABLES["nodes"].replace("graph,node,x,y", "Graph,NODE,Co,CO")
    edges = TABLES["edges"].replace("graph,source", "GRAPH,Source")
    data = load_graphs("file", folder=folder(nodes=nodes, edges=edges))
    assert data.feat_names == ["Co", "CO"]
    assert data.batch([1]).feat.tolist() == [[1, 2], [3, 4], [2, 2]]
    with pytest.raises(DataError, match=r"nodes\.csv: two columns are called 'x': rename one"):
        load_graphs("file", folder=folder(nodes=TABLES["nodes"].replace("x,y", "x,x")))


def test_folds_need_classes(folder):
    graphs = TABLES["graphs"].replace(",split", "").replace(",train", "").replace(",valid", "").replace(",test", "")
    with pytest.raises(DataError, match="1 graphs have no class; leave them out of the folds"):
        load_graphs("file", folder=folder(graphs=graphs)).split(0, 2)


def test_an_index_that_pandas_has_written_is_no_feature(folder, caplog):
    plain = load_graphs("file", folder=folder())
    numbered = {}
    for name, text in TABLES.items():
        head, *rows = text.splitlines()
        numbered[name] = "\n".join([f",{head}", *(f"{number},{row}" for number, row in enumerate(rows))]) + "\n"
    data = load_graphs("file", folder=folder(**numbered))
    assert data.fingerprint == plain.fingerprint
    assert data.feat_names == plain.feat_names
    assert data.edge_names == plain.edge_names
    assert caplog.text.count("the unnamed first column counts the rows and is skipped") == 3
    assert "not used" not in caplog.text
    wrong = numbered["nodes"].replace("\n3,", "\n0,")                        # as pd.concat leaves it
    with pytest.raises(DataError, match=r"nodes\.csv: the first column has no name .* name all columns"):
        load_graphs("file", folder=folder(nodes=wrong))


def test_missing_classes_as_pandas_writes_them(folder, caplog):
    graphs = "graph,label\nb,1.0\na,nan\nc,0.0\n007,-1.0\n"
    data = load_graphs("file", folder=folder(graphs=graphs))
    assert data.label.tolist() == [1, -1, 0, -1]
    assert data.class_names == ["0", "1"]
    assert "1 labels (nan) are read as missing" in caplog.text


def test_a_documented_name_goes_before_its_synonyms(folder):
    """Further columns called id or from are no keys."""
    tables = {
        "graphs": "id,graph,label\n9,b,yes\n8,a,no\n",
        "nodes": "id,graph,node,x\n5,a,n1,1\n6,b,n1,2\n7,b,n2,3\n",
        "edges": "graph,from,source,target\nb,1,n1,n2\n",
    }
    data = load_graphs("file", folder=folder(**tables))
    assert data.ids.tolist() == ["b", "a"]
    assert data.feat_names == ["id", "x"]
    assert data.edge_names == ["from"]


def test_a_split_without_training_graphs_is_not_used(folder, caplog):
    """Graphs to be predicted may come from a file with test graphs only."""
    data = load_graphs("file", folder=folder(graphs="graph,split\na,test\nb,test\nc,test\n007,test\n"))
    assert data.official_split is None
    assert "no graph has the split 'train'" in caplog.text


def test_the_fingerprint_contains_names_and_ids(folder):
    data = load_graphs("file", folder=folder())
    assert load_graphs("file", folder=folder()).fingerprint == data.fingerprint
    for part in ("feat_names", "edge_names", "class_names"):
        names = [*getattr(data, part)]
        assert replace(data, **{part: names[::-1] if len(names) > 1 else ["other"]}).fingerprint != data.fingerprint
    assert replace(data, ids=data.ids[::-1]).fingerprint != data.fingerprint


def test_nodes_without_ids_and_features(folder):
    nodes = "graph\na\nb\na\nb\nc\n007\nb\n"
    edges = "graph_id,from,to\nb,2,0\na,0,1\na,1,0\n"
    data = load_graphs("file", folder=folder(nodes=nodes, edges=edges))
    assert data.sizes.tolist() == [3, 2, 1, 1]
    assert data.edge_weight is None
    assert data.edge_feat is None
    assert data.feat_names == ["degree from 0", "degree from 1"]
    assert data.feat.argmax(1).tolist() == [1, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"graphs": ""}, "graphs.csv: the file is empty"),
        ({"graphs": "graph,label\n"}, "graphs.csv: there are no rows below the header"),
        ({"graphs": "name,label\na,1\n"}, "graphs.csv, line 1: no column is called 'graph'"),
        ({"graphs": "graph\na\nb\na\n"}, "graphs.csv, line 4: graph 'a' has more than one row"),
        ({"graphs": "graph,split\na,train\nb,tset\nc,test\n"}, r"graphs.csv, line 3: split 'tset' .* mean 'test'"),
        ({"graphs": "graph,split\na,train\nb,test\nc,\n"}, "graphs.csv, line 4: split '' is not train, valid or test"),
        ({"graphs": "graph,split\na,train\nb,test\nc,test\n007,test\n"}, "no graph has the split 'valid'"),
        ({"graphs": "graph\na\nb\nc\n007\nd\n"}, "nodes.csv: has no node of graph 'd'"),
        ({"nodes": None}, "nodes.csv is missing"),
        ({"nodes": "graph,x\na,1\nz,1\n"}, "nodes.csv, line 3: graph 'z' is not in graphs.csv"),
        ({"nodes": "graph,x\na,1\na,red\n"}, "nodes.csv, line 3: 'red' is not a finite number: encode"),
        ({"nodes": "graph,x\na,1\na,1e300\n"}, "nodes.csv, line 3: a number is beyond the range of float32"),
        ({"nodes": TABLES["nodes"] + "a,n1,0,0\n"}, "nodes.csv, line 10: the graph already has a node of this id"),
        ({"nodes": "graph,x\na,1\na,1,2\n"}, "nodes.csv, line 3: 3 fields instead of 2"),
        ({"edges": "graph,source,end\na,n1,n2\n"}, "edges.csv, line 1: no column is called 'target'"),
        ({"edges": "graph,source,target\n\na,n1,n3\n"}, "edges.csv, line 3: node 'n3' is not in nodes.csv for this"),
        ({"edges": "graph,source,target,weight\na,n1,n2,-1\n"}, "edges.csv, line 2: the weight is negative"),
    ],
)
def test_mistakes_in_tables(folder, changes, words):
    with pytest.raises(DataError, match=words):
        load_graphs("file", folder=folder(**changes))


def save(dgl, path, **labels):
    """Ten small graphs of dgl.save_graphs."""
    graphs = []
    for size in range(3, 13):
        graph = dgl.graph(([0, 1], [1, 2]), num_nodes=size)
        graph.ndata["feat"], graph.edata["feat"] = torch.rand(size, 2), torch.tensor([1.0, 2.0])
        graphs.append(graph)
    dgl.save_graphs(str(path), graphs, labels)


def test_a_dgl_file_with_ids_names_and_edge_features(tmp_path, read_here, dgl):
    path = tmp_path / "g.bin"
    save(dgl, path, label=torch.tensor([3, 5] * 4 + [-1, 3]), id=torch.arange(10) * 11)
    data = load_graphs("file", graphs=path, class_names=["three", "five"])
    assert data.label.tolist() == [0, 1] * 4 + [-1, 0]
    assert data.class_names == ["three", "five"]
    assert data.ids.tolist() == [11 * number for number in range(10)]
    assert data.batch([2]).edge_feat.tolist() == [[1], [1], [2], [2]]           # 0-1, 1-0, 1-2, 2-1
    save(dgl, path)
    assert load_graphs("file", graphs=path).label.tolist() == [-1] * 10         # to be predicted
    save(dgl, path, label=torch.full((10,), -1))
    assert load_graphs("file", graphs=path).label.tolist() == [-1] * 10
    save(dgl, path, id=torch.zeros(10))
    with pytest.raises(DataError, match="'id' of shape"):
        load_graphs("file", graphs=path)
    save(dgl, path, colour=torch.zeros(10))
    with pytest.raises(DataError, match=r"has the labels \['colour'\]"):
        load_graphs("file", graphs=path)


@pytest.fixture
def tu(tmp_path):
    """Ten graphs of two nodes in the TU format."""
    parts = {
        "A": "".join(f"{2 * graph + 1}, {2 * graph + 2}\n" for graph in range(10)),
        "graph_indicator": "".join(f"{graph + 1}\n" * 2 for graph in range(10)),
        "graph_labels": "3\n5\n" * 5,
    }
    for part, text in parts.items():
        (tmp_path / f"TEN_{part}.txt").write_text(text)
    return tmp_path


@pytest.fixture
def lists(tmp_path):
    """Files of ids and of a split: options of the dataset."""
    texts = {"ids": "\n".join("abcdefghij"), "train": "b\nc\n", "valid": "id\na\n", "test": "j"}
    for name, ids in texts.items():
        (tmp_path / f"{name}.txt").write_text(ids)
    return {name: tmp_path / f"{name}.txt" for name in texts}


def test_ids_and_a_split_in_files(tu, lists):
    data = load_graphs("file", folder=tu, **lists)
    assert data.ids.tolist() == list("abcdefghij")
    assert data.class_names == ["3", "5"]
    assert [part.tolist() for part in data.split()] == [[1, 2], [0], [9]]
    (tu / "valid.txt").write_text("d\n")
    assert load_graphs("file", folder=tu, **lists).fingerprint != data.fingerprint      # not to be resumed


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("test", "j\nq\n", r"test\.txt, line 2: graph 'q' is not in the dataset"),
        ("test", "j\nj\n", r"test\.txt, line 2: graph 'j' is listed twice"),
        ("test", "j\na\n", r"test\.txt, line 2: graph 'a' is also in another part"),
        ("test", "j,a\n", r"test\.txt, line 1: 2 columns: expected one graph id per line"),
        ("test", "", r"test\.txt: the file is empty"),
        ("ids", "a\nb\n", r"ids\.txt: 2 ids for 10 graphs"),
        ("ids", "a\n" * 10, r"ids\.txt, line 2: graph 'a' is listed twice"),
    ],
)
def test_mistakes_in_lists(tu, lists, name, text, words):
    lists[name].write_text(text)
    with pytest.raises(DataError, match=words):
        load_graphs("file", folder=tu, **lists)


def test_options_that_do_not_fit(tu, folder):
    for options, words in [
        ({"folder": tu, "train": tu}, "dataset.valid is missing: give train, valid and test"),
        ({"folder": tu, "class_names": ["one"]}, r"give 2 different names, for the classes 3, 5"),
        ({"folder": tu, "class_names": ["one", "one"]}, r"give 2 different names"),
        ({"folder": tu, "graphs": tu}, "give either folder"),
        ({}, "give either folder"),
        ({"folder": folder(), "ids": tu}, "leave out dataset.ids"),
    ]:
        with pytest.raises(DataError, match=words):
            load_graphs("file", **options)


def test_a_tu_folder_without_labels(tmp_path):
    for part, text in {"A": "1, 2\n3, 4\n", "graph_indicator": "1\n1\n2\n2\n", "node_labels": "7\n5\n5\n5\n"}.items():
        (tmp_path / f"NEW_{part}.txt").write_text(text)
    data = load_graphs("file", folder=tmp_path)
    assert data.label.tolist() == [-1, -1]
    assert data.feat_names == ["node label 1: 5", "node label 1: 7"]
    (tmp_path / "NEW_graph_indicator.txt").write_text("1\n1\n2\n999999999999\n")
    with pytest.raises(DataError, match=r"graph_indicator\.txt, line 4"):
        load_graphs("file", folder=tmp_path)


def test_tables_against_a_naive_reader(folder):
    """Random graphs: every edge and feature is where it belongs."""
    rng = np.random.default_rng(0)
    nodes, edges, graphs, truth = ["node,graph,f"], ["target,graph,source,e"], ["id"], {}
    for graph in rng.permutation(20):
        graphs.append(f"g{graph}")
        names = rng.permutation(30)[: rng.integers(2, 9)]
        for name in names:
            truth[f"g{graph}", name] = value = round(float(rng.random()), 4)
            nodes.append(f"{name},g{graph},{value}")
        pairs = {tuple(rng.choice(names, 2, replace=False)) for _ in range(6)}
        for one, other in {(min(pair), max(pair)) for pair in pairs}:
            edges.append(f"{other},g{graph},{one},{truth[f'g{graph}', one] + truth[f'g{graph}', other]}")
    rows = nodes[1:]
    rng.shuffle(rows)
    tables = {"graphs": graphs, "nodes": [nodes[0], *rows], "edges": edges}
    data = load_graphs("file", folder=folder(**{name: "\n".join(text) + "\n" for name, text in tables.items()}))
    assert len(data.source) == 2 * (len(edges) - 1)
    whole = data.batch(range(20))
    source, target = whole.graph.edge_index
    torch.testing.assert_close(whole.edge_feat, whole.feat[source] + whole.feat[target])
    for place, name in enumerate(data.ids):
        expected = sorted(value for (graph, _), value in truth.items() if graph == name)
        np.testing.assert_allclose(sorted(data.batch([place]).feat[:, 0].tolist()), expected, rtol=1e-6)
