"""Every loss against its dense oracle, its gradient, its range, and edge cases."""

from itertools import product

import dense_reference as dense
import numpy as np
import pytest
import torch
from dense_reference import array
from torch.autograd import gradcheck
from zoo import ZOO, random_graph, symmetric_weights

from jbpool import objectives
from jbpool.errors import JBPoolError
from jbpool.objectives import balance_loss
from jbpool.ops.adjacency import degree, propagate, propagate_normalized

FORMS = pytest.mark.parametrize("sqrt", ["matrix", "diagonal"])


def loss_of(name, graph, weight=None):
    """assign -> (1,), the named loss on one graph."""

    def edge_terms(S):
        one = S.new_ones(len(S), 1)
        if name == "cut":
            return propagate_normalized(graph, S, weight), propagate_normalized(graph, one, weight).squeeze(1)
        if name == "modularity":
            return propagate(graph, S, weight), degree(graph, weight, S.dtype)
        if name == "link":
            squares = None if weight is None else weight.square()
            return propagate(graph, S, weight), degree(graph, squares, S.dtype)
        return ()

    return lambda S: getattr(objectives, f"{name}_loss")(S, *edge_terms(S))


def soft(n, K, seed=0, scale=2.0, device="cpu"):
    noise = torch.randn(n, K, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (scale * noise).softmax(1).to(device)


OF_EDGES = ["cut", "modularity", "link"]                        # losses that depend on the adjacency
OF_ROWS = [name for name in dense.LOSSES if name not in OF_EDGES]


@pytest.mark.parametrize("name", OF_EDGES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [1, 3, 8])
def test_against_dense_oracle(name, weighted, K, odd_graph):
    weight = symmetric_weights(odd_graph).double() if weighted else None
    S = soft(odd_graph.num_nodes, K, device=odd_graph.device)
    expected = dense.LOSSES[name](array(S), dense.adjacency(odd_graph, weight))
    (value,) = loss_of(name, odd_graph, weight)(S)
    assert value.dtype == torch.float64
    assert value.item() == pytest.approx(expected, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.parametrize("K", [1, 3, 8])
@pytest.mark.parametrize("n", [1, 2, 6, 25, 150])
def test_losses_of_rows_against_dense_oracle(name, K, n, device):
    S = soft(n, K, device=device)
    (value,) = getattr(objectives, f"{name}_loss")(S)
    assert value.dtype == torch.float64
    assert value.item() == pytest.approx(dense.LOSSES[name](array(S), None), rel=1e-7, abs=1e-7)


@FORMS
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("share", [None, [0.5, 0.3, 0.15, 0.05]])
def test_balance_options_against_dense_oracle(sqrt, normalize, share, device):
    S = soft(30, 4, device=device)
    (value,) = balance_loss(S, sqrt=sqrt, cluster_sizes=share, normalize=normalize)
    assert value.item() == pytest.approx(dense.balance(array(S), sqrt, share, normalize), rel=1e-9)


@pytest.mark.parametrize(
    ("name", "kind"),
    [*product(OF_EDGES, ["grid", "isolated nodes", "no edges"]), *product(OF_ROWS, ["grid"])],
)
def test_gradcheck(name, kind, device):
    graph = ZOO[kind]().to(device)
    S = soft(graph.num_nodes, 3, device=device).requires_grad_()
    assert gradcheck(loss_of(name, graph), (S,))


@FORMS
@pytest.mark.parametrize("share", [None, [0.5, 0.3, 0.2]])
def test_gradcheck_balance_options(sqrt, share, device):
    S = soft(20, 3, device=device).requires_grad_()
    assert gradcheck(lambda S: balance_loss(S, [15, 5], sqrt=sqrt, cluster_sizes=share), (S,))


def test_gradient_is_the_closed_form_of_the_design(device):
    S = soft(40, 5, device=device).requires_grad_()
    balance_loss(S).sum().backward()
    gram = array(S).T @ array(S)
    expected = -array(S) @ np.linalg.inv(dense.scipy.linalg.sqrtm(gram)) / np.sqrt(40 * 5)
    assert np.allclose(array(S.grad), expected, atol=1e-10)


@pytest.mark.parametrize("K", [2, 4, 10])
def test_extremes_of_the_balance_loss(K):
    n = 12 * K
    uniform = torch.full((n, K), 1 / K, dtype=torch.float64)
    in_one = torch.eye(K, dtype=torch.float64)[torch.zeros(n, dtype=torch.long)]
    hard = torch.eye(K, dtype=torch.float64)[torch.arange(n) % K]
    for S, matrix, diagonal in [
        (uniform, -1 / K, -1 / K**0.5),
        (in_one, -1 / K**0.5, -1 / K**0.5),
        (hard, -1.0, -1.0),
    ]:
        assert balance_loss(S).item() == pytest.approx(matrix, abs=1e-7)
        assert balance_loss(S, sqrt="diagonal").item() == pytest.approx(diagonal, abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_ranges_and_order_of_the_two_forms(seed):
    n, K = 7 + 5 * seed, 2 + seed % 6
    S = soft(n, K, seed, scale=10 ** (seed / 10 - 1))
    matrix, diagonal = balance_loss(S).item(), balance_loss(S, sqrt="diagonal").item()
    assert -1 <= diagonal <= matrix + 1e-12
    assert matrix <= -1 / K + 1e-9
    assert diagonal <= -1 / K**0.5 + 1e-12


@FORMS
def test_equal_cluster_sizes_are_the_plain_loss(sqrt):
    S = soft(30, 4)
    assert torch.allclose(balance_loss(S, sqrt=sqrt), balance_loss(S, sqrt=sqrt, cluster_sizes=[0.25] * 4))


@pytest.mark.parametrize("distance", [1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_next_to_uniform_is_as_strong_as_an_svd_says(distance, dtype, device):
    n, K = 500, 7
    noise = torch.randn(n, K, dtype=torch.float64, device=device)
    noise -= noise.mean(1, keepdim=True)
    S = (1 / K + distance * noise / noise.abs().max()).to(dtype)
    U, _, Vh = torch.linalg.svd(S.double(), full_matrices=False)
    expected = -U @ Vh / (n * K) ** 0.5
    leaf = S.clone().requires_grad_()
    balance_loss(leaf).sum().backward()
    assert (leaf.grad.double() - expected).norm() < 0.01 * expected.norm()


ODD = {
    "rank one": torch.tensor([[0.7, 0.2, 0.1]]).repeat(20, 1),
    "uniform": torch.full((20, 4), 0.25),
    "more clusters than nodes": torch.rand(3, 9).softmax(1),
    "one node": torch.tensor([[0.6, 0.4]]),
    "one-hot with an empty cluster": torch.eye(4)[torch.arange(20) % 3],
    "all in one": torch.eye(4)[torch.zeros(20, dtype=torch.long)],
    "nearly empty cluster": torch.tensor([[1.0, 1e-30]]).repeat(20, 1),
    "denormal": torch.tensor([[1.0, 1e-42]]).repeat(20, 1),
    "one cluster": torch.ones(5, 1),
    "no nodes": torch.empty(0, 3),
}


@FORMS
@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_loss_and_gradient_for_odd_assignments(sqrt, case, dtype, device):
    S = ODD[case].to(device, dtype, copy=True).requires_grad_()
    loss = balance_loss(S, sqrt=sqrt)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert S.grad.isfinite().all()
    assert S.grad.norm() <= 1.001 / max(1, len(S)) ** 0.5       # K singular values of at most one, over sqrt(nK)


@pytest.mark.parametrize("name", ["ortho", "collapse", "entropy"])
@pytest.mark.parametrize("case", ODD)
def test_other_losses_are_finite_for_odd_assignments(name, case, device):
    S = ODD[case].to(device, copy=True).requires_grad_()
    loss = getattr(objectives, f"{name}_loss")(S)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert S.grad.isfinite().all()


S6 = torch.full((6, 3), 1 / 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: objectives.link_loss(S6, S6, torch.ones(5)), r"squares is \(5,\) on cpu: give a tensor \(6,\)"),
        (lambda: objectives.modularity_loss(S6, S6[:, :1], torch.ones(6)), r"neighbours is \(6, 1\)"),
        (lambda: objectives.modularity_loss(S6, S6, torch.ones(6, 1)), r"degree is \(6, 1\)"),
        (lambda: objectives.cut_loss(S6, S6[:5], torch.ones(6)), r"neighbours is \(5, 3\)"),
        (lambda: objectives.cut_loss(S6, S6, [1.0] * 6), "degree is list"),
    ],
)
def test_other_arguments_of_the_losses_are_checked(call, words):
    with pytest.raises(JBPoolError, match=words):
        call()


@pytest.mark.parametrize("name", ["balance", "ortho", "collapse", "entropy"])
def test_a_graph_without_nodes_adds_nothing(name, device):
    loss = getattr(objectives, f"{name}_loss")
    S = soft(30, 3, device=device)
    first, empty, second = loss(S, [10, 0, 20])
    assert empty == 0
    assert torch.allclose(torch.stack([first, second]), loss(S, [10, 20]))


@pytest.mark.parametrize("name", dense.LOSSES)
def test_losses_in_float32_are_the_float64_ones_rounded(name, device):
    graph = random_graph(200, 800).to(device)
    S = soft(200, 6, device=device)
    exact, rounded = loss_of(name, graph)(S), loss_of(name, graph)(S.float())
    assert rounded.dtype == torch.float32
    assert torch.allclose(exact.float(), rounded, rtol=1e-4, atol=1e-6)


@FORMS
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_input_gives_a_float32_loss(sqrt, dtype, device):
    S = soft(50, 3, device=device).to(dtype)
    loss = balance_loss(S, sqrt=sqrt)
    assert loss.dtype == torch.float32
    assert torch.allclose(loss, balance_loss(S.float(), sqrt=sqrt))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda S: balance_loss(S, sqrt="matrx"), "Did you mean 'matrix'"),
        (lambda S: balance_loss(S, sqrt=None), "Choose one of: matrix, diagonal"),
        (lambda S: balance_loss(S[0]), r"\(N, K\) matrix"),
        (lambda S: balance_loss(S.long()), r"\(N, K\) matrix"),
        (lambda S: balance_loss(S[:, :0]), "at least one cluster"),
        (lambda S: balance_loss(S, [4, 5]), "add up to 9"),
        (lambda S: balance_loss(S, gram=torch.eye(4).double()[None]), r"gram has shape \(1, 4, 4\).*\(1, 3, 3\)"),
        (lambda S: balance_loss(S, cluster_sizes=[0.5, 0.5]), "give 3 proportions"),
        (lambda S: balance_loss(S, cluster_sizes=[10, 20, 30]), "divide counts by their sum"),
        (lambda S: balance_loss(S, cluster_sizes=[1.2, -0.1, -0.1]), "positive"),
    ],
)
def test_invalid_input_is_rejected_with_a_fix(call, words):
    with pytest.raises(ValueError, match=words):
        call(soft(10, 3))


def test_uniform_assignments_are_a_stationary_point_of_the_logits(device):
    logits = torch.zeros(30, 4, device=device, requires_grad=True)
    balance_loss(logits.softmax(1)).sum().backward()
    assert logits.grad.abs().max() < 1e-7
    near = (1e-3 * torch.randn(30, 4, device=device)).requires_grad_()
    balance_loss(near.softmax(1)).sum().backward()
    assert near.grad.norm() > 0.01                              # full strength at a small distance


def test_the_norm_of_the_diffpool_paper_is_not_divided():
    graph, S = random_graph(12, 30), soft(12, 3)
    squares = degree(graph, None, S.dtype)
    plain = objectives.link_loss(S, propagate(graph, S), squares, normalize=False)
    assert plain.item() == pytest.approx(np.linalg.norm(dense.adjacency(graph) - array(S @ S.T)))
