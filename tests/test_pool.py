"""The pools as layers: contract, oracles, batches, stacking, saving, types."""

import copy
import io
import pickle

import dense_reference as dense
import dgl
import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from zoo import POOLS, grid, random_graph, symmetric_weights

from jbpool import DeltaConv, DiffPool, JBPool, MinCutPool, Pooled
from jbpool.nn.cluster_pool import row_softmax
from jbpool.nn.heads import CosineHead


def features(graph, width=5, dtype=torch.float64):
    return torch.randn(graph.num_nodes(), width, dtype=dtype)


def test_the_contract(make_pool, batch):
    pool = make_pool(5, 3, (7,))
    feat = features(batch, dtype=torch.float32)
    pooled = pool(batch, feat)
    B = batch.batch_size
    assert isinstance(pooled, Pooled)
    assert pooled._fields == ("graph", "feat", "edge_weight", "assign", "losses")
    assert pooled.graph.batch_num_nodes().tolist() == [3] * B
    assert pooled.graph.batch_num_edges().tolist() == [9] * B
    assert pooled.feat.shape == (B * 3, 5)
    assert pooled.edge_weight.shape == (B * 9,)
    assert pooled.assign.shape == (batch.num_nodes(), 3)
    assert torch.allclose(pooled.assign.sum(1), torch.ones(batch.num_nodes()))
    assert all(loss.shape == (B,) for loss in pooled.losses.values())
    assert torch.allclose(pooled.loss, sum(loss.mean() for loss in pooled.losses.values()))
    assert pooled.adj.shape == (B, 3, 3)
    assert pooled.adj.data_ptr() == pooled.edge_weight.data_ptr()


def test_the_names_of_the_losses():
    graph = grid(3)
    names = {name: set(make(5, 3)(graph, features(graph).float()).losses) for name, make in POOLS.items()}
    assert names["jb"] == names["jb diagonal"] == names["jb sizes"] == names["jb cosine"] == {"balance"}
    assert names["mincut"] == {"cut", "ortho"}
    assert names["dmon"] == {"modularity", "collapse"}
    assert names["diffpool"] == {"link", "entropy"}


def test_pooled_edges_are_row_major(batch):
    graph = JBPool(5, 3)(batch, features(batch).float()).graph
    source, target = dgl.unbatch(graph)[-1].edges(order="eid")
    assert source.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert target.tolist() == [0, 1, 2] * 3


@pytest.mark.parametrize("weighted", [False, True])
def test_against_dense_oracles(make_pool, odd_graph, weighted):
    pool = make_pool(5, 4).double()
    feat = features(odd_graph)
    weight = symmetric_weights(odd_graph).double() if weighted else None
    pooled = pool(odd_graph, feat, weight)
    S, A = pooled.assign.detach().numpy(), dense.adjacency(odd_graph, weight)
    assert np.allclose(pooled.feat.detach().numpy(), S.T @ feat.numpy())
    assert np.allclose(pooled.adj[0].detach().numpy(), dense.pooled_adjacency(S, A))
    share = getattr(pool, "cluster_sizes", None)
    for name, value in pooled.losses.items():
        expected = dense.balance(S, pool.sqrt, share) if name == "balance" else dense.LOSSES[name](S, A)
        assert value.item() == pytest.approx(expected, rel=1e-7, abs=1e-7), name


def test_pooled_adjacency_of_directed_weights():
    """A[u, v] is the edge u -> v also where the two directions differ: (S^T A S)[k, l] is on edge k -> l."""
    graph = random_graph(12, 30)
    weight = torch.rand(graph.num_edges(), dtype=torch.float64)
    pooled = JBPool(5, 3).double()(graph, features(graph), weight)
    S, A = pooled.assign.detach().numpy(), dense.adjacency(graph, weight)
    assert np.allclose(pooled.adj[0].detach().numpy(), dense.pooled_adjacency(S, A))


def test_the_assignments_of_diffpool_come_from_message_passing():
    graph = random_graph(20, 50)
    feat = features(graph)
    weight = symmetric_weights(graph).double()
    pool = DiffPool(5, 3).double()
    logits = dense.smoothed(pool.mlp(feat).detach().numpy(), dense.adjacency(graph, weight), 0.85)
    assert np.allclose(pool(graph, feat, weight).assign.detach().numpy(), torch.from_numpy(logits).softmax(1))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_batch_equals_its_parts(make_pool, batch, weighted):
    pool = make_pool(5, 4, (6,)).double()
    feat = features(batch).requires_grad_()
    weight = torch.rand(batch.num_edges(), dtype=torch.float64) if weighted else None
    whole = pool(batch, feat, weight)
    whole.loss.backward()
    graphs = dgl.unbatch(batch)
    feats = feat.detach().split(batch.batch_num_nodes().tolist())
    weights = [None] * len(graphs) if weight is None else weight.split(batch.batch_num_edges().tolist())
    for i, (graph, part_feat, part_weight) in enumerate(zip(graphs, feats, weights, strict=True)):
        part_feat = part_feat.clone().requires_grad_()
        part = pool(graph, part_feat, part_weight)
        for name, loss in part.losses.items():
            assert torch.allclose(loss[0], whole.losses[name][i], atol=1e-9), name
        assert torch.allclose(part.adj[0], whole.adj[i], atol=1e-9)
        assert torch.allclose(part.feat, whole.feat.view(len(graphs), 4, -1)[i], atol=1e-9)
        part.loss.backward()
        start = sum(len(f) for f in feats[:i])
        gradient = feat.grad[start : start + len(part_feat)]
        assert torch.allclose(part_feat.grad / len(graphs), gradient, atol=1e-7)


def test_an_empty_graph_in_a_batch_changes_nothing_for_the_others(make_pool):
    pool = make_pool(5, 3).double()
    full, empty = grid(4), dgl.graph(([], []), num_nodes=0)
    feat = features(full).requires_grad_()
    alone, among = pool(full, feat), pool(dgl.batch([empty, full]), feat)
    for name, loss in among.losses.items():
        assert torch.allclose(loss[1], alone.losses[name][0])
        assert loss.isfinite().all()
    among.loss.backward()
    assert feat.grad.isfinite().all()


def test_permutation_equivariance(make_pool):
    graph = random_graph(60, 150)
    order = torch.randperm(60)                                  # new node i is old node order[i]
    shuffled = dgl.reorder_graph(graph, "custom", permute_config={"nodes_perm": order}, store_ids=False)
    pool = make_pool(5, 4).double()
    feat = features(graph)
    one, two = pool(graph, feat), pool(shuffled, feat[order])
    assert torch.allclose(one.assign[order], two.assign)
    assert torch.allclose(one.feat, two.feat)
    assert torch.allclose(one.edge_weight, two.edge_weight)
    assert torch.allclose(one.loss, two.loss)


def test_no_weights_equal_weights_of_one(make_pool, batch):
    pool = make_pool(5, 4).double()
    feat = features(batch)
    one, two = pool(batch, feat), pool(batch, feat, torch.ones(batch.num_edges(), dtype=torch.float64))
    assert torch.allclose(one.edge_weight, two.edge_weight)
    assert torch.allclose(one.loss, two.loss)


def test_scaling_the_weights_leaves_the_pooled_graph_alone(batch):
    pool, feat = JBPool(5, 4), features(batch, dtype=torch.float32)
    weight = torch.rand(batch.num_edges())
    expected = pool(batch, feat, weight).edge_weight
    for scale in (1e-8, 1e8):
        assert torch.allclose(pool(batch, feat, weight * scale).edge_weight, expected, atol=1e-5)


def test_cluster_is_forward_without_the_pooled_graph(make_pool, batch):
    pool = make_pool(5, 4)
    feat = features(batch, dtype=torch.float32)
    weight = torch.rand(batch.num_edges())
    pooled = pool(batch, feat, weight)
    assign, losses = pool.cluster(batch, feat, weight)
    assert torch.equal(assign, pooled.assign)
    assert all(torch.equal(losses[name], pooled.losses[name]) for name in pooled.losses)


def test_clustering_with_just_balance_never_touches_the_adjacency(monkeypatch):
    graph = grid(4)
    monkeypatch.setattr("jbpool.ops.adjacency.multiply", None)
    monkeypatch.setattr("jbpool.ops.adjacency.dgl.ops.u_mul_e_sum", None)
    JBPool(5, 4).cluster(graph, features(graph).float())
    with pytest.raises(TypeError):                              # the test can fail: the pooled graph needs it
        JBPool(5, 4)(graph, features(graph).float())


def test_pools_stack_and_gradients_reach_the_bottom(make_pool, batch):
    first, second = make_pool(5, 6), make_pool(5, 2)
    feat = features(batch, dtype=torch.float32).requires_grad_()
    one = first(batch, feat)
    two = second(one.graph, one.feat, one.edge_weight)
    three = dgl.nn.GraphConv(5, 3, norm="none")(two.graph, two.feat, edge_weight=two.edge_weight)
    (one.loss + two.loss + dgl.mean_nodes(with_feat(two.graph, three), "h").sum()).backward()
    assert two.graph.batch_size == batch.batch_size
    for parameter in [feat, *first.parameters(), *second.parameters()]:
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().sum() > 0


def with_feat(graph, h):
    graph = graph.local_var()
    graph.ndata["h"] = h
    return graph


def test_the_second_level_trains_the_first_through_the_edge_weights():
    graph = grid(5)
    first, second = JBPool(5, 6), MinCutPool(5, 2)
    one = first(graph, features(graph).float())
    two = second(one.graph, one.feat.detach(), one.edge_weight)
    (gradient,) = torch.autograd.grad(two.loss, first.mlp[0].weight)
    assert gradient.abs().sum() > 0


def test_frames_of_the_callers_graph_are_left_alone(make_pool, batch):
    batch.ndata["mine"] = torch.arange(batch.num_nodes())
    pooled = make_pool(5, 3)(batch, features(batch).float(), torch.rand(batch.num_edges()))
    assert list(batch.ndata) == ["mine"]
    assert not batch.edata
    pooled.graph.ndata["mine"] = pooled.feat
    again = make_pool(5, 3)(batch, features(batch).float())     # pooled topologies are shared, frames are not
    assert not again.graph.ndata


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_types_of_ids_and_features(make_pool, batch, idtype, dtype):
    pool = make_pool(5, 3).to(dtype)
    graph = batch.astype(idtype)
    pooled = pool(graph, features(batch, dtype=dtype), torch.rand(batch.num_edges()))
    assert pooled.graph.idtype == idtype
    assert {pooled.feat.dtype, pooled.edge_weight.dtype, pooled.assign.dtype, pooled.loss.dtype} == {dtype}
    pooled.loss.backward()


def test_under_autocast_losses_stay_float32_and_exact(make_pool, batch):
    pool = make_pool(5, 3)
    feat = features(batch, dtype=torch.float32).requires_grad_()
    weight = torch.cat([symmetric_weights(graph) for graph in dgl.unbatch(batch)])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pooled = pool(batch, feat.bfloat16(), weight)
    assert {loss.dtype for loss in pooled.losses.values()} == {torch.float32}
    pooled.loss.backward()
    assert feat.grad.isfinite().all()
    # the losses are those of the assignments, to float32: nothing after the MLP ran in half precision
    S = pooled.assign.detach().double()
    for i, (part, w) in enumerate(
        zip(S.split(batch.batch_num_nodes().tolist()), weight.split(batch.batch_num_edges().tolist()), strict=True)
    ):
        graph = dgl.slice_batch(batch, i)
        A = dense.adjacency(graph, w)
        assert np.allclose(pooled.adj[i].detach().numpy(), dense.pooled_adjacency(part.numpy(), A), atol=1e-5)
        for name, loss in pooled.losses.items():
            if name != "balance":
                assert loss[i].item() == pytest.approx(dense.LOSSES[name](part.numpy(), A), rel=1e-4, abs=1e-5)


def test_empty_clusters_have_finite_gradients(make_pool):
    """Logits far apart: clusters of mass 1e-40 and an adjacency to match."""
    graph = grid(4)
    pool, feat = make_pool(5, 4), features(graph).float()
    head = pool.mlp[0]
    with torch.no_grad():
        if isinstance(head, CosineHead):
            feat, head.temperature = feat.abs(), 0.01
            head.weight.abs_().mul_(torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]))
        else:
            head.bias.copy_(torch.tensor([0.0, 0.0, -90.0, -200.0]))
    feat.requires_grad_()
    one = pool(graph, feat)
    assert one.assign[:, 2:].max() < 1e-30
    two = JBPool(5, 2)(one.graph, one.feat, one.edge_weight)
    loss = one.loss + two.loss + two.edge_weight.sum() + DeltaConv(5, 2)(one.graph, one.feat, one.edge_weight).sum()
    loss.backward()
    assert loss.isfinite()
    assert feat.grad.isfinite().all()


def test_state_dict_round_trip_deepcopy_and_pickle(make_pool, batch):
    pool, other = make_pool(5, 3, (4,)), make_pool(5, 3, (4,))
    feat = features(batch, dtype=torch.float32)
    expected = pool(batch, feat)
    buffer = io.BytesIO()
    torch.save(pool.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    for twin in (other, copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        assert torch.equal(twin(batch, feat).loss, expected.loss)


def test_pooled_survives_pickle(batch):
    with torch.no_grad():
        pooled = JBPool(5, 3)(batch, features(batch).float())
    twin = pickle.loads(pickle.dumps(pooled))
    assert torch.equal(twin.edge_weight, pooled.edge_weight)
    assert twin.graph.batch_size == pooled.graph.batch_size


def test_losses_are_not_kept_on_the_module(make_pool, batch):
    pool = make_pool(5, 3)
    before = set(vars(pool))
    pool(batch, features(batch).float())
    assert set(vars(pool)) == before


def test_repr_tells_the_options():
    text = repr(JBPool(8, 3, (4,), sqrt="diagonal", cluster_sizes=[0.5, 0.25, 0.25], normalize=False))
    for word in ("in_feats=8", "num_clusters=3", "'diagonal'", "[0.5, 0.25, 0.25]", "normalize=False"):
        assert word in text
    assert "delta=0.85" in repr(DeltaConv(3, 4))


def _train_on_rank(rank, address, results):
    torch.manual_seed(0)
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    pool = DistributedDataParallel(JBPool(5, 3))
    graphs = [random_graph(10 + 5 * rank, 30, seed=rank)]
    graph = dgl.batch(graphs)
    pool(graph, torch.randn(graph.num_nodes(), 5, generator=torch.Generator().manual_seed(rank))).loss.backward()
    results[rank] = pool.module.mlp[0].weight.grad.tolist()
    torch.distributed.destroy_process_group()


def test_distributed_data_parallel_averages_the_ranks(tmp_path):
    with mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(_train_on_rank, args=(f"file://{tmp_path}/rendezvous", results), nprocs=2)
        first, second = (torch.tensor(results[rank]) for rank in range(2))
    assert torch.equal(first, second)
    torch.manual_seed(0)
    pool = JBPool(5, 3)
    for rank in range(2):
        graph = random_graph(10 + 5 * rank, 30, seed=rank)
        feat = torch.randn(graph.num_nodes(), 5, generator=torch.Generator().manual_seed(rank))
        (pool(graph, feat).loss / 2).backward()
    assert torch.allclose(pool.mlp[0].weight.grad, first, atol=1e-6)


def test_a_nan_in_one_graph_leaves_the_others_alone():
    graph = dgl.batch([grid(3), grid(4)])
    feat = features(graph).float()
    feat[0, 0] = float("nan")
    for K in (1, 2, 5, 8):
        pool = JBPool(5, K)
        loss = pool(graph, feat).losses["balance"]
        assert loss[0].isnan()
        assert torch.allclose(loss[1], pool(grid(4), feat[9:]).losses["balance"][0])


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


def test_reset_parameters_draws_anew(make_pool):
    for layer in (make_pool(5, 3, (7,)), DeltaConv(5, 3)):
        before = [parameter.clone() for parameter in layer.parameters() if parameter.dim() == 2]
        layer.reset_parameters()
        after = [parameter for parameter in layer.parameters() if parameter.dim() == 2]
        assert not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_cluster_sizes_survive_casts_and_stay_out_of_the_state():
    shares = [0.37, 0.21, 0.13, 0.11, 0.09, 0.06, 0.03]
    pool = JBPool(4, 7, cluster_sizes=torch.tensor(shares, requires_grad=True))
    graph, feat = grid(4), torch.rand(16, 4)
    expected = pool(graph, feat).loss
    assert torch.allclose(copy.deepcopy(pool).bfloat16().float()(graph, feat).loss, expected, atol=0.02)
    before = pool.share_bits.clone()
    assert torch.equal(pool.half().share_bits, before)
    assert pool.cluster_sizes == pytest.approx(shares, abs=1e-7)
    assert set(pool.state_dict()) == {"mlp.0.weight", "mlp.0.bias"}
    assert "0.37" in repr(pool.to("meta"))
    assert JBPool(4, 3, cluster_sizes=[0.3334, 0.3333, 0.3334]).cluster_sizes == pytest.approx([1 / 3] * 3, abs=1e-4)
    assert sum(JBPool(4, 3, cluster_sizes=[0.3334, 0.3333, 0.3334]).cluster_sizes) == pytest.approx(1, abs=1e-15)


def test_half_precision_modules(make_pool):
    """Output type = input type, so that layers in half precision stack."""
    graph = grid(4)
    feat = torch.rand(16, 4).half()
    for width in (3, 8):
        assert DeltaConv(4, width).half()(graph, feat).dtype == torch.float16
    one = make_pool(4, 3).half()(graph, feat)
    two = make_pool(4, 2).half()(one.graph, one.feat, one.edge_weight)
    assert one.feat.dtype == two.feat.dtype == torch.float16
    assert two.loss.dtype == torch.float32


def test_backward_inside_autocast(make_pool, batch):
    pool = make_pool(5, 3)
    feat = features(batch, dtype=torch.float32).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pool(batch, feat).loss.backward()
    assert feat.grad.isfinite().all()


def test_changing_the_batch_counts_of_a_result_changes_no_other(batch):
    pool, feat = JBPool(5, 3), features(batch).float()
    pool(batch, feat).graph.batch_num_nodes().add_(1)
    assert pool(batch, feat).graph.batch_num_nodes().tolist() == [3] * batch.batch_size


@pytest.mark.parametrize("num_clusters", [1, 2, 3, 15, 16, 40])
def test_row_softmax_is_softmax(num_clusters):
    scores = torch.randn(30, num_clusters, dtype=torch.float64, requires_grad=True)
    probe = torch.randn(30, num_clusters, dtype=torch.float64)
    for own, theirs in zip(
        torch.autograd.grad((row_softmax(scores) * probe).sum(), scores),
        torch.autograd.grad((scores.softmax(-1) * probe).sum(), scores),
        strict=True,
    ):
        assert torch.allclose(own, theirs)
    assert row_softmax(scores).is_contiguous()
    assert torch.allclose(row_softmax(scores), scores.softmax(-1))
