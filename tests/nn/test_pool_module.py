"""The pools as modules: options, saving, several processes, and nothing left behind."""

import copy
import io
import pickle

import pytest
import torch
from zoo import POOLS, features, grid, rank_example

from jbpool import DeltaConv, JBPool


def test_normalize_dropout_and_activation_do_what_they_say():
    graph = grid(5)
    feat = features(graph).float()
    pool = JBPool(5, 3, (7,))
    plain = pool(graph, feat)
    pool.normalize = False
    assert torch.allclose(pool(graph, feat).loss, plain.loss * (25 * 3) ** 0.5)
    dropping = JBPool(5, 3, (7,), dropout=0.9)
    assert not torch.equal(dropping(graph, feat).assign, dropping(graph, feat).assign)
    dropping.eval()
    assert torch.equal(dropping(graph, feat).assign, dropping(graph, feat).assign)
    tanh = JBPool(5, 3, (7,), activation="tanh")
    first, last = tanh.mlp[0], tanh.mlp[-1]
    assert torch.allclose(tanh(graph, feat).assign, last(first(feat).tanh()).softmax(1))


def test_cluster_sizes_survive_casts_and_stay_out_of_the_state():
    shares = [0.37, 0.21, 0.13, 0.11, 0.09, 0.06, 0.03]
    pool = JBPool(4, 7, cluster_sizes=torch.tensor(shares, requires_grad=True))
    graph, feat = grid(4), torch.rand(16, 4)
    expected = pool(graph, feat).loss
    assert torch.allclose(copy.deepcopy(pool).bfloat16().float()(graph, feat).loss, expected, atol=0.02)
    pool.half()
    assert pool.cluster_sizes.tolist() == pytest.approx(shares, abs=1e-7)
    assert set(pool.state_dict()) == {"mlp.0.weight", "mlp.0.bias"}
    assert "0.37" in repr(pool.to("meta"))
    shares = JBPool(4, 3, cluster_sizes=[0.3334, 0.3333, 0.3334]).cluster_sizes.tolist()
    assert shares == pytest.approx([1 / 3] * 3, abs=1e-4)
    assert sum(shares) == pytest.approx(1, abs=1e-15)


def test_repr_tells_the_options():
    text = repr(JBPool(8, 3, (4,), sqrt="diagonal", cluster_sizes=[0.5, 0.25, 0.25], normalize=False))
    for word in ("in_feats=8", "num_clusters=3", "'diagonal'", "[0.5, 0.25, 0.25]", "normalize=False"):
        assert word in text
    assert "delta=0.85" in repr(DeltaConv(3, 4))


def test_reset_parameters_draws_anew():
    for layer in (JBPool(5, 3, (7,)), JBPool(5, 3, (7,), head="cosine"), DeltaConv(5, 3)):
        before = [parameter.clone() for parameter in layer.parameters() if parameter.dim() == 2]
        layer.reset_parameters()
        after = [parameter for parameter in layer.parameters() if parameter.dim() == 2]
        assert not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["jb", "jb sizes", "jb cosine"])       # the others have no state of their own
def test_state_dict_round_trip_deepcopy_and_pickle(name, batch):
    pool, other = (POOLS[name](5, 3, (4,)).to(batch.device) for _ in range(2))
    feat = features(batch, dtype=torch.float32)
    expected = pool(batch, feat)
    buffer = io.BytesIO()
    torch.save(pool.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    for twin in (other, copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        torch.testing.assert_close(twin(batch, feat).loss, expected.loss, rtol=1e-6, atol=0)


def test_pooled_survives_pickle(batch):
    with torch.no_grad():
        pooled = JBPool(5, 3).to(batch.device)(batch, features(batch).float())
    twin = pickle.loads(pickle.dumps(pooled))
    assert torch.equal(twin.edge_weight, pooled.edge_weight)
    assert twin.graph.edge_index is pooled.graph.edge_index
    assert torch.equal(twin.lift(twin.feat), pooled.lift(pooled.feat))


def test_losses_are_not_kept_on_the_module(batch):
    pool = JBPool(5, 3).to(batch.device)
    before = set(vars(pool))
    pool(batch, features(batch).float())
    assert set(vars(pool)) == before


def test_distributed_data_parallel_averages_the_ranks(two_processes):
    first, second = (torch.tensor(seen["data parallel"]) for seen in two_processes)
    assert torch.equal(first, second)
    torch.manual_seed(0)
    pool = JBPool(5, 3)
    for rank in range(2):
        (pool(*rank_example(rank)).loss / 2).backward()
    assert torch.allclose(pool.mlp[0].weight.grad, first, atol=1e-6)
