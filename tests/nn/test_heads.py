"""The cosine head: oracle, bounds, zero rows, precision, prototypes, and what the loss means under the bound."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from dense_reference import array
from torch import nn
from torch.autograd import gradcheck
from zoo import batched, grid, random_graph

from jbpool import JBPool
from jbpool.errors import JBPoolError
from jbpool.nn.dropout import Dropout
from jbpool.nn.heads import CosineHead, spread_rows, unit_rows
from jbpool.nn.pools import CombinedPool
from jbpool.objectives import balance_loss


def cosines(X, W):
    """Naive oracle, (N, K): 0 where a vector is zero."""
    out = np.zeros((len(X), len(W)))
    for i, x in enumerate(X):
        for k, w in enumerate(W):
            length = math.sqrt(sum(x**2)) * math.sqrt(sum(w**2))
            out[i, k] = sum(x * w) / length if length > 0 else 0
    return out


@pytest.mark.parametrize("temperature", [0.05, 0.2, 3.0])
def test_logits_against_a_loop(temperature, device):
    """Of rows and prototypes of any length."""
    head = CosineHead(4, 3, temperature).double().to(device)
    lengths = 10 ** torch.linspace(-6, 6, 20, dtype=torch.float64, device=device)
    feat = torch.randn(20, 4, dtype=torch.float64, device=device) * lengths[:, None]
    feat[3] = 0
    head.weight.data *= torch.tensor([[1e-3], [1.0], [1e4]], device=device)
    expected = cosines(array(feat), array(head.weight)) / temperature
    assert np.allclose(array(head(feat)), expected)


@pytest.mark.parametrize("hidden", [(), (6,)])
@pytest.mark.parametrize("make", [JBPool, partial(CombinedPool, objective={"cut": 1})])
def test_a_pool_with_a_cosine_head(make, hidden):
    graph = grid(3)
    feat = torch.randn(9, 4, dtype=torch.float64)
    pool = make(4, 3, hidden, head="cosine", temperature=0.3).double()
    inside = pool.mlp[:-1](feat).detach().numpy()
    expected = torch.from_numpy(cosines(inside, pool.mlp[-1].weight.detach().numpy()) / 0.3).softmax(1)
    assert torch.allclose(pool(graph, feat).assign, expected)


def test_a_linear_head_has_the_names_and_random_numbers_of_a_plain_mlp():
    torch.manual_seed(5)
    pool = JBPool(5, 3, (7,), head="linear")
    torch.manual_seed(5)
    plain = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Dropout(0), torch.nn.Linear(7, 3))
    assert list(pool.state_dict()) == [f"mlp.{name}" for name in plain.state_dict()]
    for own, other in zip(pool.parameters(), plain.parameters(), strict=True):
        assert torch.equal(own, other)


def test_gradients(device):
    head = CosineHead(4, 3).double().to(device)
    feat = torch.randn(5, 4, dtype=torch.float64, device=device, requires_grad=True)
    assert gradcheck(lambda x, w: torch.func.functional_call(head, {"weight": w}, (x,)), (feat, head.weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", [0.0, 1e-30, 1e-12])
def test_rows_without_a_direction_have_cosine_zero_and_no_gradient(dtype, length, device):
    head = CosineHead(4, 3).to(device, dtype)
    with torch.no_grad():
        head.weight[1] = length / 2
    feat = torch.randn(5, 4).to(device, dtype)
    feat[2] = length / 2
    feat.requires_grad_()
    logits = head(feat)
    logits.sin().sum().backward()
    assert logits.isfinite().all()
    assert feat.grad.isfinite().all()
    assert head.weight.grad.isfinite().all()
    if length == 0:
        assert not logits[2].any()
        assert not logits[:, 1].any()
        assert not feat.grad[2].any()
        assert not head.weight.grad[1].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_logits_are_exact_to_float32_in_half_precision_and_under_autocast(dtype, device):
    head, feat = CosineHead(64, 5).to(device), torch.randn(30, 64).to(device, dtype)
    expected = head(feat.float())
    with torch.autocast(device.type, dtype=torch.bfloat16):
        under = head(feat)
    assert under.dtype == torch.float32
    assert torch.allclose(under, expected, atol=1e-5)
    rounded = CosineHead(64, 5).to(device)
    rounded.weight.data = head.weight.data.to(dtype)
    exact = unit_rows(feat) @ unit_rows(rounded.weight.float()).T / 0.2
    assert torch.allclose(rounded(feat), exact, atol=1e-5)


# ---------------------------------------------------------------- prototypes


def test_prototypes_are_spread_over_the_directions_of_the_data():
    """Four directions with 1 to 1,000 rows of different lengths each: one prototype of each, whatever the seed."""
    directions = torch.eye(6)[:4]
    feat = directions.repeat_interleave(torch.tensor([1000, 100, 10, 1]), dim=0) * (torch.rand(1111, 1) + 0.1)
    feat = torch.cat([torch.zeros(500, 6), feat])
    for seed in range(20):
        rows = spread_rows(feat, 4, torch.Generator().manual_seed(seed))
        assert torch.allclose(rows[rows.argmax(1).argsort()], directions)


def test_prototypes_are_drawn_by_their_distance():
    """Two draws from three directions at cosines 1/2 and -1 to the first: probabilities 1 : 4 after the first."""
    feat = torch.tensor([[1.0, 0.0], [0.5, 0.75**0.5], [-1.0, 0.0]])
    generator = torch.Generator().manual_seed(0)
    pairs = [spread_rows(feat, 2, generator) for _ in range(1000)]
    after_first = [rows[1] for rows in pairs if torch.allclose(rows[0], feat[0])]
    share = sum(torch.allclose(row, feat[2]) for row in after_first) / len(after_first)
    assert 270 < len(after_first) < 400
    assert share == pytest.approx(0.8, abs=0.08)


def test_init_prototypes_takes_rows_of_the_batch(device):
    graph = batched([grid(3), random_graph(20, 40)]).to(device)
    feat = torch.randn(29, 4, device=device)
    pool = JBPool(4, 5, head="cosine").to(device)
    pool.init_prototypes(feat, torch.Generator(device).manual_seed(1))
    match = (pool.mlp[0].weight[:, None] - unit_rows(feat)).norm(dim=2)                 # (K, N)
    assert (match.amin(1) < 1e-6).all()
    assert match.argmin(1).unique().numel() == 5
    before = pool.mlp[0].weight.clone()
    pool.init_prototypes(feat, torch.Generator(device).manual_seed(1))
    assert torch.equal(pool.mlp[0].weight, before)
    pool.init_prototypes(feat, torch.Generator(device).manual_seed(2))
    assert not torch.equal(pool.mlp[0].weight, before)
    pool(graph, feat).loss.backward()
    assert pool.mlp[0].weight.grad.abs().sum() > 0


def test_init_prototypes_behind_hidden_layers_without_dropout():
    feat = torch.randn(30, 4)
    pool = JBPool(4, 3, (6,), head="cosine", dropout=0.9, activation="tanh")
    pool.init_prototypes(feat)
    inside = unit_rows(pool.mlp[0](feat).tanh())
    match = (pool.mlp[-1].weight[:, None] - inside).norm(dim=2)
    assert (match.amin(1) < 1e-6).all()


@pytest.mark.parametrize(
    ("pool", "feat", "words"),
    [
        (JBPool(4, 3), torch.randn(9, 4), "head='cosine'"),
        (JBPool(4, 3, head="cosine"), torch.full((9, 4), torch.nan), "NaN or infinity"),
        (JBPool(4, 3, head="cosine"), torch.zeros(9, 4), "all zero"),
        (JBPool(4, 3, head="cosine"), torch.rand(2, 4), "2 rows for 3 prototypes"),
        *((JBPool(8, 3, head="cosine"), wrong, "feat")
          for wrong in (torch.randn(20, 1), torch.randn(20, 8).numpy(), torch.randn(20, 8).double(), None)),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_prototypes(pool, feat, words):
    with pytest.raises(JBPoolError, match=words):
        pool.init_prototypes(feat)


def test_fewer_distinct_rows_than_clusters_still_start():
    assert torch.allclose(spread_rows(torch.eye(4)[:2].repeat(3, 1), 6).norm(dim=1), torch.ones(6))


# ---------------------------------------------------------------- the loss under the bound


def simplex_value(K, temperature):
    return -1 / (1 + (K - 1) * math.exp(-K / ((K - 1) * temperature)))


@pytest.mark.parametrize("K", [2, 3, 5, 8])
@pytest.mark.parametrize("temperature", [0.1, 0.2, 1.0])
def test_groups_at_the_corners_of_a_simplex_have_the_value_of_the_documentation(K, temperature):
    corners = torch.eye(K, dtype=torch.float64) - 1 / K
    head = CosineHead(K, K, temperature).double()
    head.weight.data = corners
    assign = head(corners.repeat(6, 1)).softmax(1)
    assert balance_loss(assign).item() == pytest.approx(simplex_value(K, temperature), rel=1e-9)
    assert balance_loss(assign).item() == pytest.approx(-assign.amax(1).mean().item(), rel=1e-9)


@pytest.mark.parametrize(("K", "temperature"), [(3, 0.2), (4, 0.5)])
def test_the_bounded_loss_goes_no_lower_than_the_simplex(K, temperature):
    """Nodes and prototypes both free, many starts at once, one per graph of a batch."""
    starts, n = 25, 2 * K
    x = torch.randn(starts, n, K, dtype=torch.float64, requires_grad=True)
    w = torch.randn(starts, K, K, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([x, w], lr=0.05)
    for _ in range(400):
        optimiser.zero_grad()
        assign = (unit_rows(x) @ unit_rows(w).mT / temperature).softmax(2).flatten(0, 1)
        loss = balance_loss(assign, [n] * starts)
        loss.sum().backward()
        optimiser.step()
    lowest = loss.min().item()
    assert lowest >= simplex_value(K, temperature) - 1e-9
    assert lowest == pytest.approx(simplex_value(K, temperature), abs=1e-3)


def confidence_limit(S):
    K, confidence = S.shape[1], S.square().sum(1).mean().item()
    return 1 / K + math.sqrt((K - 1) / K * (confidence - 1 / K))


@pytest.mark.parametrize("seed", range(10))
def test_the_loss_is_no_lower_than_the_confidence_allows(seed):
    """-loss <= 1/K + sqrt((K - 1)/K (c - 1/K)), c the mean square length of a row; equality for balanced groups."""
    K = 2 + seed % 5
    S = (10 ** (seed / 5 - 1) * torch.randn(40, K, dtype=torch.float64)).softmax(1)
    value, limit = -balance_loss(S).item(), confidence_limit(S)
    assert value <= limit + 1e-9
    balanced = S[0, 0] * torch.eye(K, dtype=S.dtype) + (1 - S[0, 0]) / K        # equal confusion between all clusters
    assert -balance_loss(balanced.repeat(5, 1)).item() == pytest.approx(confidence_limit(balanced), abs=1e-7)


def fitted_loss(head, feat, cluster, steps=300):
    """Balance loss of a head trained to reproduce a given partition."""
    optimiser = torch.optim.Adam(head.parameters(), lr=0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(head(feat), cluster).backward()
        optimiser.step()
    return balance_loss(head(feat).detach().softmax(1)).item()


def test_only_a_bounded_head_prefers_separated_groups():
    """Three groups in 60 dimensions, where every partition of the nodes is linearly separable."""
    planted = torch.arange(60) % 3
    feat = 2 * torch.nn.functional.one_hot(planted, 60) + 0.2 * torch.randn(60, 60)
    arbitrary = planted[torch.randperm(60)]
    free = [fitted_loss(torch.nn.Linear(60, 3), feat, cluster) for cluster in (planted, arbitrary)]
    bounded = [fitted_loss(CosineHead(60, 3), feat, cluster) for cluster in (planted, arbitrary)]
    assert max(free) < -0.98
    assert bounded[0] < bounded[1] - 0.1


# ---------------------------------------------------------------- dropout, against torch's own


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_as_many_entries_are_dropped_as_torch_drops(rate):
    torch.manual_seed(0)
    size = 200_001                                                  # not a multiple of four
    ours, theirs = (layer(rate)(torch.ones(size, 3)) for layer in (Dropout, nn.Dropout))
    error = 4 * (rate * (1 - rate) / size) ** 0.5                   # four standard errors
    for column in range(3):
        assert abs((ours[:, column] == 0).double().mean() - rate) < error
    torch.testing.assert_close(ours.max(), theirs.max(), rtol=1e-3, atol=0)


def test_entries_of_the_same_draw_are_independent():
    """Four entries share a random number: each of its parts drops at the rate, each pair at the squared rate."""
    torch.manual_seed(0)
    dropped = (Dropout(0.3)(torch.ones(800_000)) == 0).view(-1, 4).double()
    joint = dropped.T @ dropped / len(dropped)                      # (4, 4) how often both are dropped
    expected = torch.full((4, 4), 0.09, dtype=torch.float64).fill_diagonal_(0.3)
    torch.testing.assert_close(joint, expected, atol=0.005, rtol=0)


def test_gradient_passes_where_the_entry_was_kept():
    x = torch.rand(50, 7, dtype=torch.float64).add_(1).requires_grad_()
    y = Dropout(0.25)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach() / x.detach())
    assert set(x.grad.flatten().tolist()) == {0.0, 4 / 3}


def test_seed_evaluation_and_extreme_rates():
    x = torch.rand(100, 5)
    first, second = (torch.manual_seed(3) and Dropout(0.4)(x) for _ in range(2))
    assert torch.equal(first, second)
    assert Dropout(0.4).eval()(x) is x
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1e-9)(x) != 0, x != 0)
    assert not Dropout(1.0)(x).any()
    assert not Dropout(1 - 1e-9)(x).any()
    assert Dropout(0.5)(x.bfloat16()).dtype == torch.bfloat16
    with torch.device("meta"):
        assert Dropout(0.5)(x).device.type == "cpu"
    assert Dropout(0.5)(x.to("meta")).device.type == "meta"
    assert Dropout(0.5)(x[:0]).shape == (0, 5)
