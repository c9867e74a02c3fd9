"""JBClustering follows the conventions of scikit-learn; its forms of input are in test_inputs.py."""


import warnings

import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn import config_context
from sklearn.base import BaseEstimator, ClusterMixin, clone, is_clusterer
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from jbpool import JBClustering
from jbpool.clustering.auto.number import Choice
from jbpool.clustering.auto.recipe import find_clusters
from jbpool.clustering.explain import explain
from jbpool.clustering.scores import label_scores
from jbpool.data import load_nodes
from jbpool.errors import DataError, JBPoolError


@pytest.fixture(scope="module")
def data():
    return load_nodes("sbm", num_nodes=300, num_clusters=3, seed=0)


@pytest.fixture(scope="module")
def matrices(data):
    source, target = (end.numpy() for end in data.graph.edge_index)
    adjacency = scipy.sparse.csr_matrix((np.ones(len(source)), (source, target)), shape=(300, 300))
    return adjacency, scipy.sparse.csr_matrix(data.feat.to_dense().numpy())


@pytest.fixture(scope="module")
def fitted(matrices):
    state = torch.get_rng_state()
    model = JBClustering(3, random_state=5, n_init=2)
    assert model.fit_predict(matrices[0], features=matrices[1]) is model.labels_
    assert torch.equal(torch.get_rng_state(), state)
    return model


def test_it_clusters_as_the_task_does(data, fitted):
    model, found = fitted, find_clusters(data.graph, data.feat, Choice(3), seed=5, starts=2)
    assert np.array_equal(model.labels_, found.cluster.numpy())
    assert np.array_equal(model.confidence_, found.confidence.numpy())
    assert label_scores(torch.from_numpy(model.labels_), data.label)["nmi"] > 0.9
    assert model.confidence_.shape == (300,)
    assert -1 <= model.loss_ < 0
    assert model.n_clusters_ == 3
    assert model.node_ids_.tolist() == list(range(300))


@pytest.mark.filterwarnings("ignore:the agreement of two random halves")
def test_it_behaves_as_an_estimator(matrices):
    model = JBClustering(4, n_init=2, random_state=1)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(n_clusters=3).n_clusters == 3
    with pytest.raises(ValueError, match="no parameter 'k'; it has n_clusters, n_init, random_state, verbose"):
        model.set_params(k=3)
    assert repr(model) == "JBClustering(n_clusters=3, n_init=2, random_state=1)"
    with pytest.raises(NotFittedError):
        model.predict(matrices[0], features=matrices[1])
    one, two = (clone(model).set_params(random_state=np.random.RandomState(3)).fit(matrices[0]) for _ in range(2))
    assert np.array_equal(one.labels_, two.labels_)
    before = dict(vars(one))
    with pytest.raises(DataError):                          # nothing of a fit that failed is kept
        one.set_params(n_clusters=5, n_init=np.int64(1)).fit(np.zeros((10, 10)))
    assert {key: value for key, value in vars(one).items() if key.endswith("_")} == {
        key: value for key, value in before.items() if key.endswith("_")
    }
    two.set_params(random_state=2, n_init=np.int64(1))
    assert np.array_equal(two.fit(matrices[0], y=None).labels_, two.fit_predict(matrices[0], None))


def test_predict_assigns_another_graph(data, matrices, fitted):
    model, half = fitted, np.arange(0, 300, 2)
    there = model.predict(matrices[0][half][:, half], features=matrices[1][half])
    assert label_scores(torch.from_numpy(there), data.label[::2])["nmi"] > 0.8
    assert model.predict(np.zeros((1, 1)), features=matrices[1][:1]).shape == (1,)       # a single new node
    with pytest.raises(DataError, match="5 features, but the model was fitted on 128"):
        model.predict(matrices[0], features=np.ones((300, 5)))
    with pytest.raises(DataError, match="no features, but the model was fitted on 128"):
        model.predict(matrices[0])
    bare = JBClustering(3, random_state=0, n_init=2).fit(matrices[0])
    assert not hasattr(bare, "predict")
    with pytest.raises(AttributeError, match="JBClustering has no predict here: there is no model for other graphs"):
        bare.predict(matrices[0], features=matrices[1])


def test_columns_have_names(matrices):
    table = pd.DataFrame(matrices[1].toarray()).add_prefix("word ")
    model = JBClustering(3, random_state=0, n_init=2).fit(matrices[0], features=table)
    assert model.feature_names_in_.tolist() == list(table)
    there = model.predict(matrices[0], features=table)
    with pytest.raises(DataError, match=r"pass features\[model.feature_names_in_\]"):
        model.predict(matrices[0], features=table[reversed(table.columns)])
    assert np.array_equal(model.predict(matrices[0], features=table.to_numpy()), there)
    assert not hasattr(model.fit(matrices[0], features=matrices[1]), "feature_names_in_")


# ---------------------------------------------------------------- what was found


def test_the_summary_is_that_of_explain(data, fitted):
    cluster, confidence = torch.from_numpy(fitted.labels_), torch.from_numpy(fitted.confidence_)
    explained = explain(data, cluster, confidence)
    table = fitted.summary_
    assert table.index.name == "cluster"
    assert table["size"].tolist() == np.bincount(fitted.labels_).tolist()
    assert table.loc[1, "central"] == explained.clusters[1].central
    assert table.loc[1, "features"] == tuple(trait.feature for trait in explained.clusters[1].features)
    assert table.loc[1, "lift"] == tuple(trait.lift for trait in explained.clusters[1].features)
    assert table.loc[1, "closest"][0] in (0, 2)
    assert "difference" not in table
    assert np.array_equal(fitted.merges_.children, explained.merges.children)
    assert fitted.merges_.cost.sum() == pytest.approx(explained.merges.cost.sum())
    frame = fitted.to_frame()
    assert list(frame) == ["node", "cluster", "confidence"]
    assert frame["cluster"].tolist() == fitted.labels_.tolist()


def test_names_of_nodes_and_columns_in_the_summary(matrices):
    names = [f"node {i}" for i in range(300)]
    graph = networkx.relabel_nodes(networkx.from_scipy_sparse_array(matrices[0]), dict(enumerate(names)))
    table = pd.DataFrame(matrices[1].toarray() + 1, index=names).add_prefix("column ")
    summary = JBClustering(3, random_state=0, n_init=1).fit(graph, features=table).summary_
    assert set(summary.loc[0, "uncertain"]) <= set(names)
    assert summary.loc[0, "features"][0].startswith("column ")
    assert all(isinstance(value, float) for value in summary.loc[0, "difference"])
    assert "lift" not in summary


def test_the_report_from_python(tmp_path, matrices, fitted):
    assert fitted.report(tmp_path / "x.html") == tmp_path / "x.html"
    page = (tmp_path / "x.html").read_text()
    for words in ("What the clusters are", "Which clusters merge first", "bits saved per node", "The coarsened graph"):
        assert words in page
    ranged = JBClustering((2, 4), random_state=np.random.RandomState(0), n_init=1).fit(matrices[0])
    assert "Number of clusters" in ranged.report(str(tmp_path / "y.html")).read_text()


def test_a_notebook_shows_sizes_and_summary(fitted):
    shown = fitted._repr_mimebundle_()
    assert "300 nodes in 3 clusters" in shown["text/html"]
    assert shown["text/html"] == fitted._repr_html_()
    with config_context(display="text"):
        assert set(fitted._repr_mimebundle_()) == {"text/plain"}
    assert "sk-estimator" in JBClustering(3)._repr_html_()


@pytest.mark.parametrize("ask", ["summary_", "merges_"])
def test_nothing_is_known_before_fit(ask, tmp_path):
    with pytest.raises(NotFittedError):
        getattr(JBClustering(2), ask)
    for call in (JBClustering(2).to_frame, lambda: JBClustering(2).report(tmp_path / "x.html")):
        with pytest.raises(NotFittedError):
            call()


@pytest.mark.filterwarnings("ignore:the agreement of two random halves")
def test_another_fit_forgets_the_first(matrices):
    model = JBClustering(2, random_state=0, n_init=1).fit(matrices[0])
    assert len(model.summary_) == 2
    assert len(model.set_params(n_clusters=3).fit(matrices[0]).summary_) == 3


# ---------------------------------------------------------------- scikit-learn


@pytest.mark.filterwarnings("ignore:the agreement of two random halves")
def test_features_are_never_taken_for_y(matrices):
    for y in (matrices[1], matrices[1].toarray(), pd.DataFrame(matrices[1].toarray()), torch.eye(3)):
        with pytest.raises(JBPoolError, match=r"pass features by name, fit\(X, features=...\)"):
            JBClustering(3).fit(matrices[0], y)
    model = JBClustering(2, random_state=0, n_init=1)
    assert np.array_equal(model.fit_predict(matrices[0], np.arange(300)), model.fit_predict(matrices[0]))


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_nearest_neighbours_in_front(mode, caplog):
    points, label = make_blobs(120, centers=3, cluster_std=0.5, random_state=0)
    chain = make_pipeline(KNeighborsTransformer(n_neighbors=8, mode=mode), JBClustering(3, random_state=0, n_init=2))
    found = chain.fit_predict(points)
    assert "X looks like a graph of nearest neighbours" in caplog.text
    assert ("distances and not used as weights" in caplog.text) == (mode == "distance")
    assert "both directions" in caplog.text
    assert adjusted_rand_score(label, found) > 0.95


def test_weights_above_a_stored_zero_diagonal(caplog):
    """The warning names what makes them weights again."""
    weights = scipy.sparse.csr_matrix(np.kron(np.eye(2), np.full((6, 6), 3.0)))
    weights.setdiag(0)
    JBClustering(2, random_state=0, n_init=1).fit(weights)
    assert "not used as weights (if they are weights: X.eliminate_zeros())" in caplog.text
    caplog.clear()
    weights.eliminate_zeros()
    assert JBClustering(2, random_state=0, n_init=1).fit_predict(weights).sum() == 6
    assert not caplog.text


def test_other_matrices_are_not_taken_for_neighbours(caplog):
    pair = scipy.sparse.csr_matrix(np.kron(np.eye(2), np.ones((6, 6)) - np.eye(6)))
    weights = scipy.sparse.csr_matrix(np.ones((4, 4)))
    weights.data[1] = 2
    JBClustering(2, random_state=0, n_init=1).fit(pair)                         # regular, and symmetric
    with pytest.raises(DataError, match="not symmetric"):
        JBClustering(2).fit(weights)                                            # full, and not symmetric
    assert not caplog.text


@pytest.mark.filterwarnings("ignore:the agreement of two random halves")
def test_a_grid_search_fails_with_the_reason(matrices):
    grid = {"n_clusters": [2, 3]}
    search = GridSearchCV(JBClustering(n_init=1), grid, scoring="adjusted_rand_score", error_score="raise", cv=3)
    with pytest.raises(AttributeError, match="JBClustering has none of the following attributes: predict"):
        search.fit(matrices[0], np.arange(300) % 3)
    with pytest.raises(DataError, match=r"part of the rows of a graph, as in cross-validation \(GridSearchCV\)"):
        search.fit(matrices[0], np.arange(300) % 3, features=matrices[1])


# Checks of scikit-learn that do not apply, and why.
NOT_FOR_GRAPHS = {
    "check_clustering": "gives points, which are refused: a graph has to be made of them first",
    "check_n_features_in": "n_features_in_ counts the columns of features, not the nodes",
    "check_n_features_in_after_fitting": "n_features_in_ counts the columns of features, not the nodes",
    "check_positive_only_tag_during_fit": "refused as expected, in other words: weights must not be negative",
    "check_estimators_empty_data_messages": "refused as expected, in other words: the matrix must be square",
    "check_estimators_nan_inf": "its matrices are not square, which is said first",
}


class Checked(JBClustering, ClusterMixin, BaseEstimator):
    """With the base classes that some checks are made for; its methods are those of JBClustering."""


CHECKS = parametrize_with_checks([Checked(2, n_init=1)], expected_failed_checks=lambda _: NOT_FOR_GRAPHS)


@pytest.mark.parametrize(CHECKS.args[0], list(CHECKS.args[1]), **CHECKS.kwargs)     # older versions have an iterator
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_a_check_is_excepted_only_if_it_fails():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(Checked(2, n_init=1), on_fail=None)
    run = {one["check_name"] for one in results}                                # versions have different checks
    assert {one["check_name"] for one in results if one["status"] == "failed"} == run & set(NOT_FOR_GRAPHS)


def test_features_are_routed_with_the_base_classes(matrices):
    with config_context(enable_metadata_routing=True):
        chain = make_pipeline(Checked(3, random_state=5, n_init=2).set_fit_request(features=True))
        chain.fit(matrices[0], features=matrices[1])
    assert chain[-1].n_features_in_ == 128


def test_tags():
    tags = get_tags(JBClustering())
    assert is_clusterer(JBClustering())
    assert tags == get_tags(Checked())
    assert tags.input_tags.pairwise
    assert tags.input_tags.sparse
    assert not tags.non_deterministic                       # for a given random_state


def test_a_range_of_numbers_of_clusters(matrices, capsys, monkeypatch):
    monkeypatch.setattr("jbpool.console.LINE_SECONDS", 0)                   # progress at once, not after ten seconds
    model = JBClustering((2, 6), random_state=0, n_init=2, verbose=1).fit(matrices[0])
    shown = capsys.readouterr().err
    assert "number of clusters" in shown
    assert "clustering" in shown
    assert model.n_clusters_ == 3
    assert set(model.savings_) == {2, 3, 4, 5, 6}
    assert model.levels_["n_clusters"].tolist() == [2, 3, 4, 5, 6]
    assert model.levels_["saved"].tolist() == [model.savings_[k] for k in (2, 3, 4, 5, 6)]
    assert model.levels_.set_index("n_clusters").loc[3, "level"]
    assert model.chosen_by_ in ("reproducibility", "description")
    given = JBClustering(3, random_state=0, n_init=1).fit(matrices[0])
    assert (given.chosen_by_, given.levels_) == ("given", None)


def test_nodes_of_which_nothing_is_known_are_in_no_cluster(tmp_path):
    graph = networkx.karate_club_graph()
    graph.add_nodes_from(["alone", "too"])
    model = JBClustering(2, random_state=0).fit(graph)
    assert model.labels_[-2:].tolist() == [-1, -1]
    assert model.confidence_[-2:].tolist() == [0, 0]
    assert model.labels_[:-2].min() == 0
    assert model.summary_.index.tolist() == [0, 1]
    assert model.summary_["size"].sum() == 34
    assert "2 nodes without edges and features are in no cluster" in model.report(tmp_path / "r.html").read_text()


def test_the_default_range_is_that_of_the_command():
    """At least three nodes for every number."""
    model = JBClustering(random_state=0).fit(networkx.les_miserables_graph())               # 77 nodes
    assert max(model.savings_) <= 25
    assert 2 <= model.n_clusters_ <= 25


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"n_clusters": 2.5}, "n_clusters=2.5"),
        ({"n_clusters": (2, 3, 4)}, r"give a whole number, or a range as \(2, 12\)"),
        ({"n_clusters": "2-12"}, r"give a whole number, or a range as \(2, 12\)"),
        ({"n_clusters": (5, 2)}, "the range is empty"),
        ({"n_clusters": 9}, "only 5 nodes"),
        ({"n_clusters": 2, "n_init": 0}, "n_init=0"),
        ({"n_clusters": 2, "random_state": -1}, "random_state=-1"),
        ({"n_clusters": 2, "random_state": "x"}, "random_state='x'"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(JBPoolError, match=words):
        JBClustering(**options).fit(networkx.path_graph(5))
