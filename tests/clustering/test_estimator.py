"""JBClustering follows the conventions of scikit-learn; its forms of input are in test_inputs.py."""


import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import jbpool
from jbpool import JBClustering
from jbpool.clustering.auto.recipe import find_clusters
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
    assert model.fit_predict(*matrices) is model.labels_
    assert torch.equal(torch.get_rng_state(), state)
    return model


def test_it_clusters_as_the_task_does(data, fitted):
    model, found = fitted, find_clusters(data.graph, data.feat, 3, seed=5, starts=2)
    assert np.array_equal(model.labels_, found.cluster.numpy())
    assert np.array_equal(model.confidence_, found.confidence.numpy())
    assert label_scores(torch.from_numpy(model.labels_), data.label)["nmi"] > 0.9
    assert model.confidence_.shape == (300,)
    assert -1 <= model.loss_ < 0
    assert model.n_clusters_ == 3
    assert model.node_ids_.tolist() == list(range(300))


def test_it_behaves_as_an_estimator(matrices):
    model = JBClustering(4, n_init=2, random_state=1)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(n_clusters=3).n_clusters == 3
    assert repr(model) == "JBClustering(n_clusters=3, n_init=2, random_state=1)"
    with pytest.raises(NotFittedError):
        model.predict(*matrices)
    one, two = (clone(model).set_params(random_state=np.random.RandomState(3)).fit(matrices[0]) for _ in range(2))
    assert np.array_equal(one.labels_, two.labels_)
    before = dict(vars(one))
    with pytest.raises(DataError):                          # nothing of a fit that failed is kept
        one.set_params(n_clusters=5, n_init=np.int64(1)).fit(np.zeros((10, 10)))
    assert {key: value for key, value in vars(one).items() if key.endswith("_")} == {
        key: value for key, value in before.items() if key.endswith("_")
    }
    two.set_params(random_state=2, n_init=np.int64(1))
    assert np.array_equal(two.fit(matrices[0], y=None).labels_, two.fit_predict(matrices[0], None, None))


def test_predict_assigns_another_graph(data, matrices, fitted):
    model, half = fitted, np.arange(0, 300, 2)
    there = model.predict(matrices[0][half][:, half], matrices[1][half])
    assert label_scores(torch.from_numpy(there), data.label[::2])["nmi"] > 0.8
    assert model.predict(np.zeros((1, 1)), matrices[1][:1]).shape == (1,)       # a single new node
    with pytest.raises(DataError, match="5 features, but the model was fitted on 128"):
        model.predict(matrices[0], np.ones((300, 5)))
    with pytest.raises(DataError, match="no features, but the model was fitted on 128"):
        model.predict(matrices[0])
    bare = JBClustering(3, random_state=0, n_init=2).fit(matrices[0])
    with pytest.raises(DataError, match="no model for other graphs"):
        bare.predict(*matrices)


def test_columns_have_names(matrices):
    table = pd.DataFrame(matrices[1].toarray()).add_prefix("word ")
    model = JBClustering(3, random_state=0, n_init=2).fit(matrices[0], table)
    assert model.feature_names_in_.tolist() == list(table)
    there = model.predict(matrices[0], table)
    with pytest.raises(DataError, match=r"pass features\[model.feature_names_in_\]"):
        model.predict(matrices[0], table[reversed(table.columns)])
    assert np.array_equal(model.predict(matrices[0], table.to_numpy()), there)
    assert not hasattr(model.fit(*matrices), "feature_names_in_")


def test_a_range_of_numbers_of_clusters(matrices, capsys):
    model = JBClustering((2, 6), random_state=0, n_init=2, verbose=1).fit(matrices[0])
    shown = capsys.readouterr().err
    assert "number of clusters" in shown
    assert "clustering" in shown
    assert model.n_clusters_ == 3
    assert set(model.savings_) == {2, 3, 4, 5, 6}


def test_the_karate_club_in_four_lines():
    graph = networkx.karate_club_graph()
    labels = JBClustering(2, random_state=0).fit_predict(graph)
    club = np.array([graph.nodes[node]["club"] == "Officer" for node in graph])
    assert max((labels == club).sum(), (labels != club).sum()) >= 33


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


def test_the_name_is_public():
    assert jbpool.JBClustering is JBClustering
    assert "JBClustering" in jbpool.__all__
    assert "JBClustering" in dir(jbpool)            # for completion, before it is imported
