"""Clusters at all levels: every level shares the nodes of the one above, and parts are as small as asked for."""

import csv
import json

import networkx
import numpy as np
import pytest
from commands import CLUSTER, call

from jbpool import JBClustering
from jbpool.clustering import hierarchy as module
from jbpool.clustering.auto.number import Choice
from jbpool.errors import JBPoolError


def check(table, num_nodes, max_size=None):
    """Children share the nodes of their parent between them; the coarsest level has every node that is in a cluster."""
    rows = {row.cluster: row for row in table.itertuples()}
    assert len(rows) == len(table)
    children = {}
    for row in rows.values():
        assert row.size == len(row.nodes) == len(set(row.nodes)) > 0
        assert row.level == (0 if row.parent == -1 else rows[row.parent].level + 1)
        children.setdefault(row.parent, []).append(row)
    for parent, parts in children.items():
        nodes = sorted(node for part in parts for node in part.nodes)
        if parent >= 0:
            assert len(parts) > 1
            assert nodes == sorted(rows[parent].nodes)
    assert sum(part.size for part in children[-1]) == num_nodes
    if max_size is not None:
        assert max(row.size for row in rows.values() if row.cluster not in children) <= max_size


@pytest.mark.parametrize("max_size", [None, 12, 3, 1])
@pytest.mark.parametrize("with_features", [False, True])
def test_levels_share_the_nodes_between_them(max_size, with_features):
    graph = networkx.random_partition_graph([30, 25, 14, 10], 0.6, 0.03, seed=2)
    graph.add_nodes_from(["alone"] if not with_features else [])
    feat = np.random.default_rng(0).normal(size=(79, 5)) if with_features else None
    model = JBClustering(4, random_state=0, n_init=1).fit(graph, features=feat)
    table = model.hierarchy(max_size)
    check(table, 79, max_size)
    used = set(model.labels_[model.labels_ >= 0].tolist())
    found = table[table["cluster"].isin(used)].sort_values("cluster")["nodes"].tolist()
    assert found == model.communities_
    frame = model.to_frame(hierarchy=table)
    last = frame.iloc[:, -1]
    for row in table[~table["cluster"].isin(table["parent"])].itertuples():
        assert (last[frame["node"].isin(row.nodes)] == row.cluster).all()
    assert (frame.loc[frame["cluster"] == -1, "level 0"] == -1).all()


def test_planted_levels_are_found_and_nothing_is_divided_evenly():
    pairs = networkx.disjoint_union_all([networkx.planted_partition_graph(2, 40, 0.5, 0.06, seed=i) for i in range(3)])
    pairs.add_edges_from([(0, 85), (5, 170), (90, 200)])
    table = JBClustering(3, random_state=0).fit(pairs).hierarchy(40)
    check(table, 240, 40)
    blocks = {tuple(range(40 * i, 40 * i + 40)) for i in range(6)}
    assert blocks <= {tuple(sorted(nodes)) for nodes in table["nodes"]}
    assert not table["balanced"].any()


def test_what_nothing_divides_is_cut_into_equal_pieces(monkeypatch):
    monkeypatch.setattr(module, "choose", lambda *args: Choice(args[2], reproducibility=0.1))
    table = JBClustering(2, random_state=0).fit(networkx.barbell_graph(25, 0)).hierarchy(10)
    check(table, 50, 10)
    pieces = table[table["balanced"]]
    assert pieces["size"].between(8, 9).all()
    assert len(pieces) == 6


def test_a_size_is_a_whole_number():
    model = JBClustering(2, random_state=0, n_init=1).fit(networkx.barbell_graph(5, 0))
    with pytest.raises(JBPoolError, match="max_size"):
        model.hierarchy(0)


def test_the_command_writes_them(tmp_path):
    (tmp_path / "e.csv").write_text("\n".join(f"n {i},n {j}" for i, j in networkx.karate_club_graph().edges))
    call(CLUSTER.command, "e.csv", "-k", "2", "--max-size", "10", "--out", "r", cwd=tmp_path)
    with open(tmp_path / "r" / "hierarchy.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert max(int(row["size"]) for row in rows if row["cluster"] not in {r["parent"] for r in rows}) <= 10
    assert sorted(json.loads(rows[0]["nodes"])) == sorted({f"n {i}" for i in range(34)})
