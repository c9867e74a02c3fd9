"""Clusters without labels: the result, its description, and its application to other graphs."""

import dgl
import networkx
import numpy as np
import pytest
import torch

from jbpool.clustering.auto.choose_k import Choice, choose_num_clusters
from jbpool.clustering.auto.recipe import EDGE_TEMPERATURES, SHARE, STEPS, TEMPERATURES, find_clusters
from jbpool.clustering.consensus import Consensus
from jbpool.clustering.evidence import Evidence
from jbpool.clustering.methods import search
from jbpool.clustering.report_search import search_sections
from jbpool.clustering.scores import label_scores
from jbpool.clustering.task import NODE_CLUSTER
from jbpool.data import NodeData, load_nodes
from jbpool.engine.config import load_config
from jbpool.engine.forecast import Forecast
from jbpool.errors import DataError


@pytest.fixture(scope="module")
def data():
    return load_nodes("sbm", num_nodes=400, num_clusters=4, seed=0)


@pytest.fixture(scope="module")
def found(data):
    calls = []
    result = find_clusters(data.graph, data.feat, 4, seed=0, starts=3, watch=lambda *call: calls.append(call))
    assert calls[-1][0] == calls[-1][1] == len(calls)
    return result


def test_it_finds_planted_clusters_and_says_how(data, found):
    assert label_scores(found.cluster, data.label)["nmi"] > 0.9
    assert len(found.settings) == 2 * len(STEPS) * len(TEMPERATURES) + len(EDGE_TEMPERATURES)
    chosen = [setting for setting in found.settings if setting["chosen"]]
    assert len(chosen) == len(found.settings) // SHARE
    worst = min(setting["evidence"] for setting in chosen)
    assert all(setting["evidence"] <= worst for setting in found.settings if not setting["chosen"])
    assert len(found.trials) == 3 * len(chosen)
    kept = [trial for trial in found.trials if trial["kept"]]
    assert 1 <= len(kept) <= len(found.trials) // SHARE
    assert min(trial["score"] for trial in kept) >= max(t["score"] for t in found.trials if not t["kept"])
    assert found.confidence.shape == (400,)
    assert bool(((found.confidence > 0) & (found.confidence <= 1 + 1e-6)).all())
    assert -1 <= found.loss < 0


def test_the_model_repeats_itself_and_applies_to_another_graph(data, found):
    cluster, confidence = found.model(data.graph, data.feat)
    assert (cluster == found.cluster).float().mean() > 0.99
    torch.testing.assert_close(confidence, found.confidence, atol=0.05, rtol=0)
    # Node i of the other graph has the words of node i here: the two differ in their edges.
    permuted = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    other = load_nodes("sbm", num_nodes=400, num_clusters=4, seed=0)
    half = permuted[:250].sort()[0]
    part = other.graph.subgraph(half)
    there, _ = found.model(part, other.feat.to_dense()[half])
    assert label_scores(there, data.label[half])["nmi"] > 0.8


def test_the_model_survives_its_state(data, found):
    fresh = Consensus.of_members(4, found.model.members, data.feat.shape[1])
    fresh.load_state_dict(found.model.state_dict())
    assert torch.equal(fresh(data.graph, data.feat)[0], found.model(data.graph, data.feat)[0])


def test_noisy_features_do_not_spoil_clear_edges_nor_the_reverse():
    """Held-out evidence recognises a view that only repeats noise."""
    for noise in ({"feature_noise": 0.95}, {"mixing": 0.9}):
        data = load_nodes("sbm", num_nodes=600, num_clusters=3, words=20.0, avg_degree=14.0, seed=2, **noise)
        result = find_clusters(data.graph, data.feat, 3, seed=0, starts=3)
        assert label_scores(result.cluster, data.label)["nmi"] > 0.6, noise


def test_dense_signed_features(data):
    feat = torch.randn(400, 16, generator=torch.Generator().manual_seed(0)) + 1.5 * torch.eye(4, 16)[data.label]
    result = find_clusters(data.graph, feat, 4, seed=0, starts=2)
    assert {setting["weighting"] for setting in result.settings} == {"none", "edges"}
    assert label_scores(result.cluster, data.label)["nmi"] > 0.9


def test_a_graph_without_features(data):
    result, again = (find_clusters(data.graph, None, 4, seed=0) for _ in range(2))
    assert label_scores(result.cluster, data.label)["nmi"] > 0.8
    assert result.model is None
    assert result.moved == 0
    assert torch.equal(again.cluster, result.cluster)
    assert again.trials == result.trials
    with pytest.raises(DataError, match="do not distinguish its nodes"):
        find_clusters(load_nodes("sbm", num_nodes=50, avg_degree=0.0).graph, None, 4)


def test_les_miserables_and_unequal_blocks():
    graph = networkx.les_miserables_graph()
    drawn = dgl.from_networkx(networkx.convert_node_labels_to_integers(graph).to_directed(), edge_attrs=["weight"])
    weight = drawn.edata["weight"].float()
    for seed in range(3):
        found = find_clusters(drawn, None, 6, weight, seed)
        assert Evidence(drawn, None, weight).modularity(found.cluster) >= 0.55
    sizes = [100, 200, 300, 400]
    rates = np.full((4, 4), 0.002) + 0.018 * np.eye(4)
    blocks = dgl.from_networkx(networkx.stochastic_block_model(sizes, rates, seed=0).to_directed())
    block = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    assert label_scores(find_clusters(blocks, None, 4).cluster, block)["acc"] > 0.88


@pytest.mark.parametrize(("planted", "with_features"), [(3, False), (6, True)])
def test_the_number_of_clusters_is_found(planted, with_features):
    data = load_nodes("sbm", num_nodes=900, num_clusters=planted, seed=planted)
    choice = choose_num_clusters(data.graph, data.feat if with_features else None, range(2, 10))
    assert choice.num_clusters == planted
    assert choice.ranked[0] == planted
    assert set(choice.savings) == set(range(2, 10))


@pytest.mark.parametrize("kind", ["blocks", "cliques"])
def test_the_number_of_clusters_if_features_say_nothing(kind):
    if kind == "blocks":
        graph, planted = load_nodes("sbm", num_nodes=500, num_clusters=5, seed=0).graph, 5
    else:
        graph, planted = dgl.from_networkx(networkx.disjoint_union_all([networkx.complete_graph(8)] * 6)), 6
    choice = choose_num_clusters(graph, torch.ones(graph.num_nodes(), 4), range(4, 8))
    assert choice.num_clusters == planted
    assert max(choice.savings.values()) > 0


def test_equal_savings_choose_the_smaller_number():
    """A partition that leaves clusters empty is found by several numbers, up to the rounding of its saving."""
    choice = Choice({2: 0.1, 5: 0.7128285168310802, 6: 0.7128285168310804, 7: 0.5})
    assert choice.ranked == [5, 6, 7, 2]
    assert choice.num_clusters == 5
    savings = {str(k): saving for k, saving in choice.savings.items()}          # as in result.json
    assert "5 clusters describe the edges most briefly; next: 6, 7, 2" in search_sections(
        {"num_clusters": {"savings": savings}}, {}
    )[0]


def test_a_graph_without_structure_has_no_number_of_clusters():
    graph = dgl.graph(([], []), num_nodes=20)
    with pytest.raises(DataError, match="do not distinguish"):
        choose_num_clusters(graph, torch.ones(20, 3), range(1, 4))


# ---------------------------------------------------------------- features and edges that disagree, or say nothing


def blocks(inside, between, size=60, seed=1):
    rates = np.full((3, 3), between) + (inside - between) * np.eye(3)
    graph = dgl.from_networkx(networkx.stochastic_block_model([size] * 3, rates, seed=seed).to_directed())
    return graph, torch.arange(3).repeat_interleave(size)


def points(label, seed=0):
    """Three separated clouds."""
    return 4 * torch.eye(3)[label] + torch.randn(len(label), 3, generator=torch.Generator().manual_seed(seed))


def nmi_of(graph, feat, label):
    found = find_clusters(graph, feat, 3, seed=0, starts=4)
    return label_scores(found.cluster, label)["nmi"], found


@pytest.mark.parametrize("graph", ["heterophilous", "few random edges", "no edges"])
def test_edges_that_do_not_support_the_features_do_not_count(graph):
    if graph == "heterophilous":
        made, label = blocks(0.01, 0.1, size=100)
    else:
        label = torch.arange(3).repeat_interleave(60)
        pairs = torch.randint(180, (2, 50), generator=torch.Generator().manual_seed(0))[:, : 50 * (graph != "no edges")]
        made = dgl.to_simple(dgl.add_reverse_edges(dgl.graph(tuple(pairs), num_nodes=180)))
    nmi, found = nmi_of(made, points(label), label)
    assert not found.used_edges
    assert nmi > 0.9


@pytest.mark.parametrize("kind", ["zero", "noise", "one constant column"])
def test_features_that_say_nothing_do_not_count(kind):
    graph, label = blocks(0.3, 0.02)
    feat = {
        "zero": torch.zeros(180, 4), "one constant column": torch.ones(180, 1),
        "noise": torch.randn(180, 10, generator=torch.Generator().manual_seed(3)),
    }[kind]  # fmt: skip
    nmi, found = nmi_of(graph, feat, label)
    assert nmi > 0.9
    assert all(np.isfinite(setting["evidence"]) for setting in found.settings)


def test_a_flag_that_every_node_has():
    """Its idf is 0, so that held-out columns may all be zero."""
    graph, label = blocks(0.3, 0.02)
    flags = (torch.rand(180, 4, generator=torch.Generator().manual_seed(0)) < 0.3).float()
    nmi, found = nmi_of(graph, torch.cat([torch.ones(180, 1), flags], dim=1), label)
    assert all(np.isfinite(setting["evidence"]) for setting in found.settings)
    assert nmi > 0.9


def test_one_cluster():
    graph, label = blocks(0.3, 0.02)
    for feat in (None, points(label)):
        assert not find_clusters(graph, feat, 1).cluster.any()
    noise = dgl.from_networkx(networkx.gnp_random_graph(100, 0.1, seed=0).to_directed())
    choice = choose_num_clusters(noise, None, range(1, 4))
    assert (choice.num_clusters, choice.savings[1]) == (1, 0)


def test_the_report_of_one_cluster(tmp_path):
    changes = ["dataset.name=sbm", "dataset.num_nodes=200", "method.num_clusters=1", "train.seeds=[0]"]
    config = load_config(NODE_CLUSTER, "auto", changes)
    data = NODE_CLUSTER.load_data(config)
    NODE_CLUSTER.run(config, data, tmp_path / "r", torch.device("cpu"))
    assert NODE_CLUSTER.write_report(tmp_path / "r", data).exists()


def test_a_graph_of_small_components_does_not_collapse():
    cliques = networkx.disjoint_union_all([networkx.complete_graph(10)] * 100)
    found = find_clusters(dgl.from_networkx(cliques.to_directed()), None, 3)
    assert found.cluster.bincount().min() > 100


def test_fewer_nodes_than_components_and_features():
    graph, label = blocks(0.4, 0.02, size=33)
    feat = torch.rand(99, 300, generator=torch.Generator().manual_seed(0)) + 2 * torch.eye(3).repeat(1, 100)[label]
    found = find_clusters(graph, feat, 3, starts=2)
    again, _ = found.model(graph, feat)
    assert (again == found.cluster).float().mean() > 0.98


def test_features_that_say_nothing_leave_no_model_and_a_note():
    graph, _ = blocks(0.3, 0.02)
    ray = torch.linspace(1, 2, graph.num_nodes())[:, None] * torch.tensor([[1.0, -1.0]])       # one direction
    data = NodeData(graph, ray, None, None, "ray")
    result = search(data, 3, 0, 2, Forecast(1, "", ""))
    assert result.model is None
    assert any("no model for other graphs" in note for note in result.notes)
