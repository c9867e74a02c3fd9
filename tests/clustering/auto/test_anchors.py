"""Clusters that are given for some nodes: previous ones are continued, fixed ones stay."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from jbpool import JBClustering
from jbpool.clustering.auto.anchors import changes, clusters_of
from jbpool.clustering.auto.number import Choice, Level
from jbpool.clustering.report import number_section
from jbpool.data import load_nodes
from jbpool.errors import DataError, JBPoolError


@pytest.fixture(scope="module")
def graph():
    """Four blocks that are hard to tell apart, with words."""
    data = load_nodes("sbm", num_nodes=400, num_clusters=4, mixing=0.3, words=20)
    edges = pd.DataFrame(data.graph.edge_index.T.numpy(), columns=["source", "target"])
    return data, edges


def cut(edges, share, seed=0):
    """The edges between the nodes that stay."""
    nodes = np.unique(edges.to_numpy())
    kept = np.random.default_rng(seed).choice(nodes, round(len(nodes) * (1 - share)), replace=False)
    return edges[edges.isin(kept).all(axis=1)]


@pytest.mark.parametrize("share", [0.01, 0.1])
def test_clusters_keep_their_nodes_and_numbers(graph, share):
    _, edges = graph
    old = JBClustering(4, n_init=2, random_state=0).fit(edges)
    names = {node: 10 * cluster for node, cluster in zip(old.node_ids_, old.labels_, strict=True)}
    new = JBClustering(4, n_init=2, random_state=5).fit(cut(edges, share), previous=names)
    before = [names[node] for node in new.node_ids_]
    assert adjusted_rand_score(before, new.labels_) > 0.9
    assert (new.labels_ == before).mean() > 0.95
    assert set(new.labels_) == {0, 10, 20, 30}
    assert set(new.summary_.index) == {0, 10, 20, 30}
    series = JBClustering(4, n_init=2, random_state=5).fit(cut(edges, share), previous=pd.Series(names))
    assert np.array_equal(series.labels_, new.labels_)


def test_their_number_stays_unless_another_one_is_clearly_better(graph):
    rows = tuple(Level(k, agreement, saved, False) for k, agreement, saved in ((2, 0.5, 1.0), (3, 0.6, 2), (6, 0.9, 3)))
    chosen = Choice(6, "reproducibility", 0.9, rows, ("a note",))
    assert chosen.keeping(5)[:3] == (5, "previous", pytest.approx(0.8))
    assert chosen.keeping(5).notes == ()
    assert all(chosen.keeping(number) is chosen for number in (0, 1, 2, 3, 7))
    assert chosen._replace(by="description").keeping(5).by == "description"     # 2.67 of 3 bits
    assert Choice(4).keeping(3) == Choice(4)
    _, edges = graph
    old = JBClustering((2, 8), n_init=2, random_state=0).fit(edges)
    two = np.where(old.labels_ == 0, 0, np.where(old.labels_ > 0, 1, -1))
    with pytest.warns(UserWarning, match="2 is new, mostly from 1"):
        more = JBClustering((2, 8), n_init=2, random_state=1).fit(edges, previous=two)
    assert (old.n_clusters_, more.n_clusters_, more.chosen_by_) == (4, 4, old.chosen_by_)
    same = JBClustering((2, 8), n_init=2, random_state=1).fit(edges, previous=old.labels_)
    assert (same.n_clusters_, same.chosen_by_) == (4, "previous")
    assert "as given" not in number_section(same._choice)


def test_the_model_has_the_kept_numbers(graph):
    data, _ = graph
    old = JBClustering(4, n_init=2, random_state=0).fit(data.graph, features=data.feat)
    new = JBClustering(4, n_init=2, random_state=0).fit(data.graph, features=data.feat, previous=old.labels_ + 3)
    assert np.array_equal(new.labels_, old.labels_ + 3)
    assert (new.predict(data.graph, features=data.feat) == old.predict(data.graph, features=data.feat) + 3).all()


def test_more_previous_clusters_than_are_asked_for(graph):
    """They are no start, but those that are left keep their numbers."""
    _, edges = graph
    old = JBClustering(6, n_init=2, random_state=0).fit(edges).labels_
    with pytest.warns(UserWarning, match="is gone"):
        new = JBClustering(3, n_init=2, random_state=0).fit(edges, previous=old)
    assert set(new.labels_) <= set(old)


def test_fixed_nodes_stay_and_seed_their_clusters(graph):
    data, _ = graph
    label = data.label.numpy()
    fixed = np.full(len(label), -1)
    rng = np.random.default_rng(0)
    for number in range(4):
        fixed[rng.choice(np.flatnonzero(label == number), 5, replace=False)] = 3 - number
    plain = JBClustering(4, n_init=2, random_state=0).fit(data.graph, features=data.feat)
    model = JBClustering(4, n_init=2, random_state=0).fit(data.graph, features=data.feat, fixed=fixed)
    assert (model.labels_[fixed >= 0] == fixed[fixed >= 0]).all()
    assert (model.labels_ == 3 - label).mean() > 0.9
    assert adjusted_rand_score(label, model.labels_) >= adjusted_rand_score(label, plain.labels_) - 0.01


def test_clusters_without_fixed_nodes_are_found(graph):
    data, _ = graph
    label = data.label.numpy()
    fixed = {int(node): 2 for node in np.flatnonzero(label == 0)[:5]}
    model = JBClustering(4, n_init=2, random_state=0).fit(data.graph, features=data.feat, fixed=fixed)
    assert (model.labels_[label == 0] == 2).mean() > 0.8
    assert adjusted_rand_score(label, model.labels_) > 0.8


def test_clusters_by_name_and_by_position():
    ids = np.array(["a", "b", "c"], dtype=object)
    assert clusters_of({"c": 1, "x": 5, "a": 0.0}, ids, "fixed").tolist() == [0, -1, 1]
    assert clusters_of([2, -1, 0], ids, "fixed").tolist() == [2, -1, 0]
    assert clusters_of({"7": "3"}, np.arange(9), "fixed")[7] == 3              # of a table


TABLES = {
    "a.csv": "node,cluster,confidence\nann,0,.5\nbob,1,.2\n", "b.csv": "ann,0\nbob,1\n", "c.tsv": "bob\t1\nann\t0\n",
    "d.csv": "ann;0\nbob;1\n", "e.csv": "who,team\nann,0\nbob,1\n", "f.csv": "cluster,node\n0,ann\n1,bob\neve,\n",
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_tables_with_and_without_header(tmp_path, name):
    """Without a header, the first node counts, too."""
    (tmp_path / name).write_text(TABLES[name].replace("eve,", ",eve"))
    ids = np.array(["ann", "bob", "eve"], dtype=object)
    assert clusters_of(tmp_path / name, ids, "fixed").tolist() == [0, 1, -1]


def test_tables_in_memory_and_gaps():
    ids = np.array(["ann", "bob", "eve"], dtype=object)
    table = pd.DataFrame({"node": ["ann", "bob"], "cluster": [0, 1.0], "confidence": [0.5, 0.2]})
    labels = pd.Series(pd.Categorical(["0", "1", None]), index=ids)             # as scanpy has them
    for given in (table, table.set_index("node"), table[["cluster", "node"]], labels, labels.to_frame()):
        assert clusters_of(given, ids, "previous").tolist() == [0, 1, -1]


def test_fixed_nodes_that_are_not_there_are_mentioned(graph, caplog):
    assert clusters_of({"a": 1, "x": 0}, np.array(["a", "b"]), "fixed").tolist() == [1, -1]
    assert "fixed: 1 of 2 nodes are not in the graph, such as 'x'" in caplog.text


def test_a_range_begins_where_all_fixed_clusters_fit(graph):
    _, edges = graph
    model = JBClustering((2, 9), n_init=1, random_state=0).fit(edges, fixed={0: 6})
    assert model.n_clusters_ >= 7
    assert model.labels_[0] == 6


@pytest.mark.parametrize(
    ("given", "word"), [({"x": 1}, "none of its"), ([1, 2], "shape"), ({"a": "red"}, "red"), ([0, 0, 1.5], "1.5")]
)
def test_what_is_no_cluster(given, word):
    with pytest.raises(DataError, match=word):
        clusters_of(given, np.array(["a", "b", "c"]), "previous")


def test_what_does_not_go_together(graph):
    _, edges = graph
    with pytest.raises(JBPoolError, match="only one of them"):
        JBClustering(2).fit(edges, previous={0: 1}, fixed={0: 1})
    with pytest.raises(DataError, match="at least 8 clusters"):
        JBClustering(4, n_init=1).fit(edges, fixed={0: 7})


def test_what_has_changed_is_said():
    previous = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2])
    assert changes(previous, previous) is None
    cluster = torch.tensor([0, 0, 0, 1, 3, 3, 1, 1])                    # 2 went into 1, of which 3 was split off
    assert changes(cluster, previous) == (
        "clusters since the previous result: 3 is new, mostly from 1; 2 is gone, mostly into 1."
    )
