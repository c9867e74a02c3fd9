"""Invalid calls and options are rejected with a message that says how to fix them."""

import numpy as np
import pytest
import torch
from zoo import ZOO, grid

from jbpool import DeltaConv, Graph, JBPool, MinCutPool, value_checks
from jbpool.errors import InputError, JBPoolError

GRAPH = ZOO["two components"]()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: f("graph", torch.rand(5, 4)), "pass a DGLGraph"),
        (lambda f: f(torch.eye(5).to_sparse(), torch.rand(5, 4)), r"tensor \(5, 5\): .*indices\(\)"),
        (lambda f: f(GRAPH, torch.rand(4, 4)), "4 rows but the graph has 5 nodes"),
        (lambda f: f(GRAPH, torch.rand(5, 3)), "in_feats=3"),
        (lambda f: f(GRAPH, torch.rand(5)), r"\(N, in_feats\)"),
        (lambda f: f(GRAPH, torch.ones(5, 4, dtype=torch.long)), r"feat\.float\(\)"),
        (lambda f: f(GRAPH, np.ones((5, 4))), "ndarray"),
        (lambda f: f(GRAPH, torch.rand(5, 4).double()), r"torch\.float64 but the layer is torch\.float32"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.rand(6, 1)), r"squeeze\(-1\)"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.rand(6, 2)), "1-D"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.rand(5)), "5 entries but the graph has 6 edges"),
        (lambda f: f(GRAPH, torch.rand(5, 4), -torch.rand(6)), "not be negative"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.full((6,), float("nan"))), "NaN or infinity"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.full((6,), float("inf"))), "finite"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.ones(6, dtype=torch.long)), r"edge_weight\.float\(\)"),
        (lambda f: f(GRAPH, torch.rand(5, 4, device="meta")), "feat is on meta but the graph is on cpu"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.rand(6, device="meta")), "edge_weight is on meta"),
        (lambda f: f(Graph(torch.tensor([[0, 1], [1, 2]])), torch.rand(3, 4)), r"0 -> 1 .*add_reverse_edges"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.arange(6.0)), "same weight"),
        (lambda f: f(Graph(GRAPH.edge_index, sizes=[1, 0, 4]), torch.rand(5, 4)), "0 -> 1 between graphs 0 and 2"),
    ],
)
@pytest.mark.parametrize("layer", [JBPool(4, 2), DeltaConv(4, 2)], ids=["pool", "conv"])
def test_invalid_calls_are_rejected_with_a_fix(layer, call, words):
    with pytest.raises(InputError, match=words) as caught:
        call(layer)
    assert isinstance(caught.value, JBPoolError)                        # as all errors of this package


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_sparse_features():
    sparse = torch.rand(5, 4).to_sparse_csr()
    with pytest.raises(InputError, match=r"torch\.sparse_csr: use feat\.to_dense\(\)"):
        JBPool(4, 2)(GRAPH, sparse)
    with pytest.raises(InputError, match=r"torch\.sparse_coo: use feat\.to_sparse_csr\(\)"):
        DeltaConv(4, 2)(GRAPH, sparse.to_sparse_coo())
    conv = DeltaConv(4, 2)
    with value_checks("all"):
        torch.testing.assert_close(conv(GRAPH, sparse), conv(GRAPH, sparse.to_dense()))
        sparse.values()[3] = float("nan")
        with pytest.raises(InputError, match="first in row 0"):
            conv(GRAPH, sparse)


def test_stale_batch_counts_are_rejected():
    with pytest.raises(InputError, match="sizes add up to 8"):
        Graph(grid(3).edge_index, 9, sizes=[4, 4])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: JBPool(4, 0), "num_clusters=0"),
        (lambda: JBPool(4, 2.5), "num_clusters=2.5"),
        (lambda: JBPool(4, True), "num_clusters=True"),
        (lambda: JBPool(-1, 2), "in_feats=-1"),
        (lambda: JBPool(4, 2, (0,)), "hidden_feats=0"),
        (lambda: JBPool(4, 2, sqrt="diagnal"), "Did you mean 'diagonal'"),
        (lambda: JBPool(4, 2, activation="rulu"), "Did you mean 'relu'"),
        (lambda: JBPool(4, 2, dropout=1.0), "dropout=1.0"),
        (lambda: JBPool(4, 2, None), "hidden_feats=None"),
        (lambda: JBPool(4, 2, normalize="sqrt"), "normalize='sqrt'"),
        (lambda: JBPool(4, 2, cluster_sizes="equal"), "cluster_sizes='equal'"),
        (lambda: JBPool(4, 2, cluster_sizes=[0.5, None]), "give 2 proportions"),
        (lambda: JBPool(4, 2, cluster_sizes=[1.0]), "give 2 proportions"),
        (lambda: JBPool(4, 2, cluster_sizes=[3, 5]), "divide counts"),
        (lambda: DeltaConv(4, 2, delta=float("nan")), "delta=nan"),
        (lambda: DeltaConv(4, 2, delta=2), "delta=2: give a number from 0 to 1"),
        (lambda: DeltaConv(4, 0), "out_feats=0"),
        (lambda: DeltaConv(4, 2, activation="rulu"), "Did you mean 'relu'"),
        (lambda: JBPool(4, 2, temperature=0.5), "no effect on a linear head"),
        (lambda: MinCutPool(4, 2, sqrt="matrix"), "MinCutPool has no option sqrt: JBPool has it"),
        (lambda: MinCutPool(4, 2, heads=2), "choose from ratio, activation, dropout, head, temperature"),
        (lambda: JBPool(4, 3, head="cosine").init_prototypes(torch.rand(2, 4)), "2 rows for 3 prototypes"),
    ],
)
def test_invalid_options_are_rejected_with_a_fix(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_counts_may_be_numpy_integers():
    assert JBPool(np.int64(4), np.int32(2), (np.int64(3),)).num_clusters == 2


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_features_that_are_no_numbers_are_refused(value):
    """Of the user, and those of a layer that is not ours."""
    graph, pool = grid(3), JBPool(4, 2)
    feat = torch.rand(9, 4)
    feat[7, 2] = value
    for given, fix in ((feat, "SimpleImputer"), (feat.clone().requires_grad_(), "learning rate")):
        with pytest.raises(InputError, match=f"row 7.*{fix}"):
            pool(graph, given)
    with value_checks("none"):
        pool(graph, feat.detach(), -torch.ones(graph.num_edges))
    pool(graph, torch.full((9, 4), 3e38))                       # only their sum is infinite
    with pytest.raises(ValueError, match="'auto', 'all' or 'none'"), value_checks("some"):
        pass


def test_weights_of_zero_are_allowed():
    pooled = JBPool(4, 2)(GRAPH, torch.rand(5, 4), torch.zeros(6))
    assert pooled.edge_weight.tolist() == [0, 0, 0, 0]


def test_weights_of_a_pooled_graph_may_be_nan_but_not_negative():
    """A NaN comes from training that diverged, which its loss shows; negative weights come from the user."""
    pool = JBPool(4, 2)
    pooled = pool(GRAPH, torch.rand(5, 4))
    with pytest.raises(JBPoolError, match="not be negative"):
        pool(pooled.graph, pooled.feat, pooled.edge_weight - 0.5)
    again = pool(pooled.graph, pooled.feat, pooled.edge_weight * float("nan"))
    assert again.edge_weight.isnan().any()
    with pytest.raises(InputError, match="finite"):
        pool(GRAPH, torch.rand(5, 4), torch.full((6,), float("nan")))
