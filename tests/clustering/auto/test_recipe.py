"""Clusters without labels: the result, its description, and its application to other graphs."""

import networkx
import numpy as np
import pytest
import torch
from zoo import degrees, simple

from jbpool.clustering.auto import bounded_heads, recipe
from jbpool.clustering.auto.number import Choice
from jbpool.clustering.auto.recipe import (
    EDGES,
    FEATURES,
    SMOOTHED,
    Attempt,
    best_of,
    choose,
    find_clusters,
    unite_smaller,
)
from jbpool.clustering.auto.refinement import ClusterModel, Evidence, refine
from jbpool.clustering.node_cluster import NODE_CLUSTER
from jbpool.clustering.scores import ClusterSums, graph_scores, label_scores
from jbpool.data import load_nodes
from jbpool.engine.config import load_config
from jbpool.errors import DataError
from jbpool.graph import Graph


@pytest.fixture(scope="module")
def data():
    return load_nodes("sbm", num_nodes=400, num_clusters=4, seed=0)


@pytest.fixture(scope="module")
def found(data):
    calls = []
    result = find_clusters(data.graph, data.feat, Choice(4), seed=0, starts=3, watch=lambda *call: calls.append(call))
    saved = [trial["saved"] for trial in result.trials]                     # three starts of three views
    assert calls == [(done, 3, max(saved[: 3 * done])) for done in (1, 2, 3)]
    return result


def test_it_finds_planted_clusters_and_says_how(data, found):
    assert label_scores(found.cluster, data.label)["nmi"] > 0.9
    assert [(trial["view"], trial["start"]) for trial in found.trials] == [
        (view, start) for view in (SMOOTHED, EDGES, FEATURES) for start in range(3)
    ]
    (kept,) = (trial for trial in found.trials if trial["kept"])
    assert (kept["view"], kept["saved"], kept["loss"], kept["moved"], kept["agreement"]) == (
        found.view, found.saved, found.loss, found.moved, 1.0,
    )  # fmt: skip
    same_view = [trial for trial in found.trials if trial["view"] == found.view]
    assert kept["saved"] == max(trial["saved"] for trial in same_view if trial["loss"] < 0.95 * found.loss)
    assert found.confidence.shape == (400,)
    assert bool(((found.confidence > 0) & (found.confidence <= 1 + 1e-6)).all())
    assert -1 <= found.loss < 0


def test_the_model_repeats_itself_survives_its_state_and_applies_to_another_graph(data, found):
    cluster, confidence = found.model(data.graph, data.feat)
    assert (cluster == found.cluster).float().mean() > 0.99
    assert confidence.mean() > 0.95
    fresh = ClusterModel(4, data.feat.shape[1])
    fresh.load_state_dict(found.model.state_dict())
    assert torch.equal(fresh(data.graph, data.feat)[0], cluster)
    half = torch.randperm(400, generator=torch.Generator().manual_seed(0))[:250].sort()[0]
    place = torch.full((400,), -1).scatter(0, half, torch.arange(250))
    ends = place[data.graph.edge_index]
    part = Graph(ends[:, (ends >= 0).all(0)], 250)
    there, _ = found.model(part, data.feat.to_dense()[half])
    assert label_scores(there, data.label[half])["nmi"] > 0.8


def test_views_are_compared_with_a_handicap():
    """One source has to save clearly more than both."""
    for saved in (2.0, -2.0):
        merit = {view: Attempt(view, 0, -1.0, saved, 0).merit for view in (SMOOTHED, EDGES, FEATURES)}
        assert merit[SMOOTHED] > merit[EDGES] > merit[FEATURES]


def test_starts_with_a_high_loss_do_not_count():
    saved = [(SMOOTHED, 0, -0.9, 2.0), (SMOOTHED, 1, -0.8, 9.0), (EDGES, 0, -0.5, 1.0), (SMOOTHED, None, -0.4, 1.9)]
    tried = [(Attempt(*values, moved=0), None) for values in saved]
    assert best_of(tried)[0] is tried[0][0]
    assert best_of([*tried, (Attempt(SMOOTHED, None, -0.4, 2.1, 0), None)])[0].start is None


def test_more_clusters_are_united(data):
    """Two and three times as many, of a graph without features; the loss is that of the sizes."""
    found = find_clusters(data.graph, None, Choice(4), starts=1)
    assert [trial["start"] for trial in found.trials] == [0, None, None]
    assert label_scores(found.cluster, data.label)["nmi"] > 0.9
    united, refined = unite_smaller(Evidence(data.graph, None), 4, None, seed=0)[-1]
    sizes = refined.cluster.bincount(minlength=4).double()
    assert united.loss == pytest.approx(-float(sizes.sqrt().sum()) / (4 * 400) ** 0.5, abs=1e-3)
    assert label_scores(refined.cluster, data.label)["nmi"] > 0.9


def test_the_same_number_found_or_given_is_the_same_result(data):
    """The clusters depend on the number, not on how it was chosen."""
    for feat in (None, data.feat):
        choice = choose(data.graph, feat, 2, 10)
        found, expected = (find_clusters(data.graph, feat, c, starts=2) for c in (choice, Choice(choice.num_clusters)))
        assert torch.equal(found.cluster, expected.cluster)
        assert found.saved == expected.saved


@pytest.mark.parametrize("noise", [{"feature_noise": 0.95}, {"mixing": 0.9}])
def test_noisy_features_do_not_spoil_clear_edges_nor_the_reverse(noise):
    data = load_nodes("sbm", num_nodes=600, num_clusters=3, words=20.0, avg_degree=14.0, seed=2, **noise)
    result = find_clusters(data.graph, data.feat, Choice(3), seed=0, starts=3)
    assert label_scores(result.cluster, data.label)["nmi"] > 0.6


def test_a_graph_without_features(data):
    result, again = (find_clusters(data.graph, None, Choice(4), seed=0) for _ in range(2))
    assert label_scores(result.cluster, data.label)["nmi"] > 0.8
    assert result.model is None
    assert result.view == EDGES
    assert torch.equal(again.cluster, result.cluster)
    assert again.trials == result.trials
    with pytest.raises(DataError, match="do not distinguish"):
        find_clusters(load_nodes("sbm", num_nodes=50, avg_degree=0.0).graph, None, Choice(4))


def block_graph(sizes, rates, seed=0):
    graph = Graph.from_networkx(networkx.stochastic_block_model(sizes, rates, seed=seed))
    return graph, torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


@pytest.mark.parametrize("sizes", [[900, 50, 50], [2000, 100, 40, 20], [500, 50], [100, 200, 300, 400]])
@pytest.mark.parametrize("with_features", [False, True])
def test_blocks_of_unequal_size(sizes, with_features):
    """Balance alone cuts the largest block; the refinement, judged by likelihood, does not."""
    rates = np.full((len(sizes),) * 2, 0.001) + np.diag([10 / size - 0.001 for size in sizes])
    graph, label = block_graph(sizes, rates, seed=1)
    generator = torch.Generator().manual_seed(0)
    means = 0.6 / 2**0.5 * torch.nn.functional.normalize(torch.randn(len(sizes), 16, generator=generator))
    feat = means[label] + torch.randn(len(label), 16, generator=generator) if with_features else None
    found = find_clusters(graph, feat, Choice(len(sizes)))
    assert label_scores(found.cluster, label)["nmi"] > 0.95
    assert found.confidence.mean() > 0.95


def test_small_appendages_do_not_hide_the_blocks():
    """Leading eigenvectors of the plain normalised adjacency matrix sit on the chains."""
    rng = np.random.default_rng(0)
    weight, block = rng.pareto(1.5, 1200) + 1, np.repeat([0, 1], 600)
    ends = rng.choice(1200, (2, 24_000), p=weight / weight.sum())
    stays = (block[ends[0]] == block[ends[1]]) | (rng.random(24_000) < 0.2)
    chains = [(start, 1200 + 3 * i) for i, start in enumerate(rng.integers(1200, size=60))]
    chains += [(1200 + 3 * i + j, 1200 + 3 * i + j + 1) for i in range(60) for j in range(2)]
    pairs = torch.tensor([*ends[:, stays].T.tolist(), *chains]).T                   # (2, m)
    pairs = pairs[:, pairs[0] != pairs[1]]
    graph = simple(*pairs, 1380)
    connected = degrees(graph)[:1200] > 0
    cluster = find_clusters(graph, None, Choice(2)).cluster[:1200]
    assert label_scores(cluster[connected], torch.from_numpy(block)[connected])["nmi"] > 0.85


def test_les_miserables():
    graph = networkx.les_miserables_graph()
    matrix = networkx.to_scipy_sparse_array(graph, dtype=np.float32)
    drawn, weight = Graph.from_scipy(matrix), torch.from_numpy(matrix.data)
    for seed in range(3):
        found = find_clusters(drawn, None, Choice(6), weight, seed)
        assert graph_scores(ClusterSums.of(drawn, found.cluster, 6, weight))["modularity"] >= 0.55


# ---------------------------------------------------------------- features and edges that disagree, or say nothing


def blocks(inside, between, size=60):
    return block_graph([size] * 3, np.full((3, 3), between) + (inside - between) * np.eye(3), seed=1)


def points(label, seed=0):
    """Three separated clouds."""
    return 4 * torch.eye(3)[label] + torch.randn(len(label), 3, generator=torch.Generator().manual_seed(seed))


def nmi_of(graph, feat, label):
    return label_scores(find_clusters(graph, feat, Choice(3), seed=0, starts=4).cluster, label)["nmi"]


@pytest.mark.parametrize("graph", ["heterophilous", "few random edges", "no edges"])
def test_edges_that_do_not_support_the_features_do_not_count(graph):
    if graph == "heterophilous":
        made, label = blocks(0.01, 0.1, size=100)
    else:
        label = torch.arange(3).repeat_interleave(60)
        pairs = torch.randint(180, (2, 50), generator=torch.Generator().manual_seed(0))[:, : 50 * (graph != "no edges")]
        made = simple(*pairs, 180)
    assert nmi_of(made, points(label), label) > 0.9


@pytest.mark.parametrize("kind", ["zero", "noise", "one constant column", "one direction", "a flag that all have"])
def test_features_that_say_nothing_do_not_count(kind):
    graph, label = blocks(0.3, 0.02)
    generator = torch.Generator().manual_seed(3)
    flags = (torch.rand(180, 4, generator=generator) < 0.3).float()
    feat = {
        "zero": torch.zeros(180, 4), "one constant column": torch.ones(180, 1),
        "noise": torch.randn(180, 10, generator=generator),
        "one direction": torch.linspace(1, 2, 180)[:, None] * torch.tensor([[1.0, -1.0]]),
        "a flag that all have": torch.cat([torch.ones(180, 1), flags], dim=1),          # its idf is 0
    }[kind]  # fmt: skip
    assert nmi_of(graph, feat, label) > 0.9


def test_one_cluster(tmp_path):
    graph, label = blocks(0.3, 0.02)
    for feat in (None, points(label)):
        assert not find_clusters(graph, feat, Choice(1)).cluster.any()
    changes = ["dataset.name=sbm", "dataset.num_nodes=200", "method.num_clusters=1", "train.seeds=[0]"]
    config = load_config(NODE_CLUSTER, "auto", changes)
    data = NODE_CLUSTER.load_data(config)
    assert NODE_CLUSTER.run(config, data, tmp_path / "r", torch.device("cpu")).write_report().exists()


def test_a_number_that_cannot_be_filled_says_what_can_be():
    cliques = Graph.from_networkx(networkx.disjoint_union_all([networkx.complete_graph(30)] * 2))
    (note,) = find_clusters(cliques, torch.ones(60, 2), Choice(4)).notes
    assert "2 of 4 clusters are used: the edges and features support no more" in note


@pytest.mark.parametrize(("count", "said"), [(2, ""), (3, "has 3 components")])
def test_components_that_are_joined_are_mentioned(count, said):
    """Only where nothing but edges is known; single nodes and pairs are no components to speak of."""
    cliques = networkx.disjoint_union_all([networkx.complete_graph(60)] * count)
    cliques.add_nodes_from(range(60 * count, 60 * count + 5))
    graph = Graph.from_networkx(cliques)
    result = find_clusters(graph, None, Choice(2), starts=2)
    assert len(result.notes) == bool(said)
    assert said in "".join(result.notes)
    assert (result.cluster[60 * count :] == -1).all()
    assert not find_clusters(graph, torch.rand(graph.num_nodes, 3), Choice(2), starts=1).notes
    joined = torch.arange(graph.num_nodes) % count * (torch.arange(graph.num_nodes) < 9)
    assert f"cluster 0 joins {count} components" in next(recipe._notes(graph, None, joined, Choice(count)))


def test_a_graph_of_small_components_does_not_collapse():
    cliques = networkx.disjoint_union_all([networkx.complete_graph(10)] * 100)
    found = find_clusters(Graph.from_networkx(cliques), None, Choice(3))
    assert found.cluster.bincount().min() > 100


def test_fewer_nodes_than_directions_and_features():
    graph, label = blocks(0.4, 0.02, size=33)
    feat = torch.rand(99, 300, generator=torch.Generator().manual_seed(0)) + 2 * torch.eye(3).repeat(1, 100)[label]
    found = find_clusters(graph, feat, Choice(3), starts=2)
    assert label_scores(found.cluster, label)["nmi"] > 0.9
    assert (found.model(graph, feat)[0] == found.cluster).float().mean() > 0.98
    many = find_clusters(graph, feat, Choice(60), starts=1)             # more clusters than the view has directions
    assert len(many.cluster) == 99


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("scale", [1e-30, 1e-11, 1e20, 1e30])
def test_the_scale_of_features_has_no_effect(scale, layout):
    graph, label = blocks(0.3, 0.02)
    feat = points(label) if layout == "dense" else points(label).to_sparse_csr()
    expected, found = (find_clusters(graph, feat * factor, Choice(3), starts=1) for factor in (1, scale))
    assert found.saved == pytest.approx(expected.saved, rel=1e-3)


@pytest.mark.parametrize("scale", [1e-40, 1e38])
def test_the_scale_of_weights_has_no_effect(scale):
    graph, label = blocks(0.3, 0.02)
    weight = torch.full((graph.num_edges,), scale)
    found = find_clusters(graph, None, Choice(3), weight)
    assert label_scores(found.cluster, label)["nmi"] > 0.9
    assert bool(((found.confidence > 0.3) & (found.confidence <= 1)).all())
    assert found.trials[0]["agreement"] > 0


def test_nothing_moves_into_clusters_that_were_empty():
    cliques = Graph.from_networkx(networkx.disjoint_union_all([networkx.complete_graph(30)] * 2))
    found = find_clusters(cliques, torch.ones(60, 2), Choice(4))
    assert len(found.cluster.unique()) == 2
    assert torch.isin(found.model(cliques, torch.ones(60, 2))[0], found.cluster.unique()).all()


def test_agreement_needs_a_matching(data):
    """A start that puts all nodes into one cluster does not agree with every other one."""
    evidence, collapsed = Evidence(data.graph, None), torch.zeros(400, dtype=torch.long)
    attempts = [
        (Attempt(EDGES, start, -1.0, 1.0, 0), refine(evidence, cluster, 4)._replace(cluster=cluster))
        for start, cluster in enumerate([data.label, collapsed])
    ]
    recipe._agreement(evidence, attempts, data.label, 4)
    assert attempts[0][0].agreement == 1
    assert attempts[1][0].agreement < 0.5


@pytest.mark.parametrize("with_features", [True, False])
def test_large_graphs_try_less_and_say_so(monkeypatch, with_features):
    data = load_nodes("sbm", num_nodes=400, num_clusters=4)
    feat = data.feat if with_features else None
    assert recipe.remarks(data.graph.shares, feat) == []
    monkeypatch.setattr(recipe, "LARGE", 399)
    monkeypatch.setattr(bounded_heads, "TRAIN_NODES", 100)
    found = find_clusters(data.graph, feat, Choice(4), seed=0, starts=5)
    assert [trial["view"] for trial in found.trials] == [SMOOTHED if with_features else EDGES] * recipe.REFINED
    assert label_scores(found.cluster, data.label)["nmi"] > 0.9
    (said,) = recipe.remarks(data.graph.shares, feat)
    assert f"the {recipe.REFINED} with the lowest loss" in said
    assert (FEATURES in said) == with_features
