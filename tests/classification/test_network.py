"""The classification network and its parts, against naive oracles."""

from dataclasses import replace

import dense_reference as dense
import numpy as np
import pytest
import torch
from dense_reference import array
from torch import nn
from zoo import ZOO, batched, symmetric_weights, undirected

from jbpool.classification.class_scores import averaged
from jbpool.classification.config import METHODS
from jbpool.classification.graph_classify import GRAPH_CLASSIFY
from jbpool.classification.model import make_model, numbers_of_clusters
from jbpool.classification.network import (
    BatchNorm,
    CategoryEncoder,
    FeatureEncoder,
    GraphClassifier,
    _Layer,
    _NormalizeOverProcesses,
    centre_and_scale,
    read_out,
)
from jbpool.classification.training import ClassifyProblem
from jbpool.data import load_graphs
from jbpool.engine.config import load_config
from jbpool.graph import Graph
from jbpool.names import POOLS
from jbpool.nn.conv import BACKBONES, GINConv, GINEConv, GraphConv, SAGEConv
from jbpool.ops.adjacency import propagate
from jbpool.ops.segment import segments_of

CPU = torch.device("cpu")


def small(*changes):
    return load_config(GRAPH_CLASSIFY, None, ["train.batch_size=8", "model.hidden=16", *changes])


# ---------------------------------------------------------------- layers


@pytest.mark.parametrize("name", ZOO)
def test_weighted_layers_against_dense_products(name, device):
    graph = ZOO[name]().to(device)
    weight = symmetric_weights(graph)
    feat = torch.randn(graph.num_nodes, 4, device=device)
    X = array(feat)
    A = dense.adjacency(graph, weight)
    degree = A.sum(0)
    share = np.divide(1, degree, out=np.zeros_like(degree), where=degree > 0)

    gcn = GraphConv(4, 3).to(device)
    expected = dense.smoothed(X, A, 1.0) @ array(gcn.weight) + array(gcn.bias)
    np.testing.assert_allclose(array(gcn(graph, feat, edge_weight=weight)), np.maximum(expected, 0), atol=1e-5)

    gin = GINConv(torch.nn.Linear(4, 3)).to(device)
    mixed = torch.from_numpy(X + A.T @ X).float().to(device)
    torch.testing.assert_close(gin(graph, feat, edge_weight=weight), gin.apply_func(mixed).relu())

    sage = SAGEConv(4, 3).to(device)
    mean = torch.from_numpy(share[:, None] * (A.T @ X)).float().to(device)
    expected = (sage.fc_self(feat) + sage.fc_neigh(mean)).relu()
    torch.testing.assert_close(sage(graph, feat, edge_weight=weight), expected, rtol=1e-4, atol=1e-5)


def test_complete_graphs_take_a_dense_product(device):
    """The same numbers and gradients as edge by edge, also for weights that are not symmetric."""
    graph = Graph.complete(3, 5, torch.int64, device)
    plain = Graph(graph.edge_index)
    assert (graph.blocks.width, plain.blocks) == (5, None)
    feat = torch.randn(15, 2, dtype=torch.float64, device=device, requires_grad=True)
    weight = torch.rand(75, dtype=torch.float64, device=device, requires_grad=True)
    probe = torch.randn(15, 2, dtype=torch.float64, device=device)
    results = []
    for topology in (graph, plain):
        out = propagate(topology, feat, weight)
        results.append((out, *torch.autograd.grad(out, (feat, weight), probe)))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_read_out_of_packed_and_of_pooled_graphs(device):
    pooled = Graph.complete(2, 3, torch.int64, device)
    feat = torch.arange(12.0, device=device).view(6, 2)
    expected = torch.tensor([[2.0, 3, 6, 9, 4, 5], [8, 9, 24, 27, 10, 11]], device=device)
    packed = batched([undirected([], [], 3)] * 2).to(device)
    for graph, equal in ((pooled, 3), (packed, None)):
        segments = segments_of(graph)
        assert segments.equal == equal
        torch.testing.assert_close(read_out(feat, segments, ["mean", "sum", "max"]), expected)


def test_the_head_sees_encoder_levels_and_size(device):
    """Its input against the parts, computed one by one."""
    data = load_graphs("motifs", num_graphs=12)
    train = torch.arange(5)
    (model,) = make_model(small("model.compare=[]", "model.readout_of=all"), data, train).eval().to(device).members
    seen = []
    model.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    batch = data.batch(range(6))
    graph, feat = batch.graph.to(device), batch.feat.to(device)
    _, (pooled,) = model(graph, feat)
    own = model.encoder(feat)
    first = own
    for layer in model.blocks[0]:
        first = layer(graph, first, None, None)
    second = pooled.feat
    for layer in model.blocks[1]:
        second = layer(pooled.graph, second, pooled.edge_weight, None)
    sizes = (data.sizes[:6].float() / data.sizes[train].float().mean()).log().unsqueeze(1).to(device)
    rows = [(own, graph), (first, graph), (second, pooled.graph)]
    parts = [read_out(feat, segments_of(of), ["mean", "max"]) for feat, of in rows]
    torch.testing.assert_close(seen[0], torch.cat([sizes, *parts], dim=1))


# ---------------------------------------------------------------- the network


@pytest.mark.parametrize("pool", METHODS)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_network_trains(backbone, pool, device):
    changes = [f"model.backbone={backbone}", f"model.pool={pool}", "model.compare=[]", "model.levels=2"]
    config = small(*changes, "model.num_clusters=[4, 2]", "model.readout_of=all", "model.readout=mean+sum+max")
    data = load_graphs("motifs", num_graphs=12)
    (model,) = make_model(config, data, torch.arange(12)).to(device).members
    batch = data.batch(range(6))
    scores, made = model(batch.graph.to(device), batch.feat.to(device))
    assert scores.shape == (6, 3)
    assert [pooled.assign.shape[1] for pooled in made] == ([4, 2] if pool in POOLS else [])
    (scores.logsumexp(1).sum() + sum(pooled.loss for pooled in made)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("pool", METHODS)
def test_a_graph_is_scored_alike_in_every_company(pool, device):
    data = load_graphs("motifs", num_graphs=12)
    config = small(f"model.pool={pool}", "model.compare=[]", "model.members=2")
    model = make_model(config, data, torch.arange(12)).eval().to(device)

    def scores(graphs):
        batch = data.batch(graphs)
        return model(batch.graph.to(device), batch.feat.to(device))[0]

    with torch.no_grad():
        together, alone = scores(range(12)), torch.cat([scores([i]) for i in range(12)], dim=1)
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("pool", ["jb", "none"])
def test_edge_weights_flow_through(backbone, pool, device):
    data = load_graphs("motifs", num_graphs=12)
    config = small(f"model.backbone={backbone}", f"model.pool={pool}", "model.compare=[]")
    model = make_model(config, data, torch.arange(12)).eval().to(device)
    batch = data.batch([0])
    weight = torch.rand(batch.graph.num_edges, device=device, requires_grad=True)
    model(batch.graph.to(device), batch.feat.to(device), weight)[0].sum().backward()
    assert weight.grad.abs().sum() > 0


def test_edge_features_reach_the_layers_before_the_first_pool():
    data = load_graphs("motifs", num_graphs=12)
    generator = torch.Generator().manual_seed(0)
    kinds = torch.randint(0, 3, (len(data.source), 2), generator=generator)
    widened = replace(data, edge_feat=kinds).with_edge_sums()
    assert widened.edge_feat is None
    first = (data.sizes.cumsum(0) - data.sizes).repeat_interleave(data.num_edges)
    naive = torch.zeros(len(data.feat), 6)
    for edge, node in enumerate((data.target + first).tolist()):
        naive[node, kinds[edge, 0]] += 1
        naive[node, 3 + kinds[edge, 1]] += 1
    assert torch.equal(widened.edge_sum, naive)
    config = small("model.pool=jb", "model.compare=[]")
    model = make_model(config, widened, torch.arange(12))
    layers = [layer for block in model.members[0].blocks for layer in block]
    assert [layer.edges is not None for layer in layers] == [True, True, False, False]
    problem = ClassifyProblem(model, widened, data.split(0, 2), config, 0, CPU)
    before = problem.predict(torch.arange(3))
    problem.data = replace(widened, edge_sum=naive.flip(1))
    assert not torch.allclose(before, problem.predict(torch.arange(3)))


def test_edge_messages_before_the_first_pool():
    """With messages, the order of the edge features matters even if their sums per node are the same."""
    square = undirected([0, 1, 2, 3], [1, 2, 3, 0])
    kinds = torch.tensor([[0], [1], [0], [1]] * 2)
    data = load_graphs("motifs", num_graphs=12)
    source, target = square.edge_index
    data = replace(
        data, sizes=torch.full((2,), 4), num_edges=torch.full((2,), 8),
        source=source.repeat(2), target=target.repeat(2), label=torch.tensor([0, 1]),
        feat=torch.randn(4, data.feat.shape[1]).repeat(2, 1), edge_feat=torch.cat([kinds, 1 - kinds]),
    )  # fmt: skip
    scores = {}
    for edges in ("sum", "messages"):
        config = small("model.pool=jb", "model.compare=[]", "model.backbone=gin", f"model.edges={edges}")
        seen = data.with_edge_sums(keep=edges == "messages")
        torch.manual_seed(0)
        model = make_model(config, seen, torch.arange(2)).eval()
        assert [isinstance(layer.conv, GINEConv) for block in model.members[0].blocks for layer in block] == (
            [edges == "messages"] * 2 + [False] * 2
        )
        (scores[edges],) = model.on_batch(seen.batch([0, 1]), CPU)[0]
    torch.testing.assert_close(scores["sum"][0], scores["sum"][1])
    assert not torch.allclose(scores["messages"][0], scores["messages"][1])


@pytest.mark.parametrize("backbone", ["gin", "gcn", "sage", "delta"])
def test_a_node_sees_its_own_edges_features(backbone):
    """On a path a-b-c with one layer, a depends on the edge a-b and not on b-c."""
    graph = undirected([0, 1], [1, 2])
    layer = _Layer(BACKBONES[backbone](4, 4, 0.85), 4, 2, "none", 0.0)
    feat = torch.rand(3, 4)
    sums = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])               # a-b has the first feature, b-c the second
    other = torch.tensor([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0]])              # now both have the first
    swapped = torch.tensor([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    before = layer(graph, feat, None, sums)[0]
    assert torch.equal(layer(graph, feat, None, other)[0], before)
    assert not torch.allclose(layer(graph, feat, None, swapped)[0], before)


def test_members_of_an_ensemble_differ_from_the_start_and_are_averaged():
    data = load_graphs("motifs", num_graphs=12)
    model = make_model(small("model.compare=[]", "model.members=3"), data, torch.arange(12)).eval()
    batch = data.batch(range(4))
    scores, made = model(batch.graph, batch.feat)
    assert scores.shape == (3, 4, 3)
    assert len(made) == 3
    for number, member in enumerate(model.members):
        torch.testing.assert_close(scores[number], member(batch.graph, batch.feat)[0])
    assert not torch.allclose(scores[0], scores[1])
    torch.testing.assert_close(averaged(scores, "acc").softmax(1), scores.softmax(2).mean(0))
    torch.testing.assert_close(averaged(scores, "rocauc").sigmoid(), scores.sigmoid().mean(0))
    torch.testing.assert_close(averaged(scores, "rmse"), scores.mean(0))
    assert torch.equal(averaged(scores[:1], "acc"), scores[0])


def test_jb_diagonal_is_jb_with_the_element_wise_root():
    data = load_graphs("motifs", num_graphs=12)
    losses = []
    for changes in (["model.pool=jb-diagonal"], ["model.pool=jb", "method.sqrt=diagonal"], ["model.pool=jb"]):
        torch.manual_seed(0)
        model = make_model(small("model.compare=[]", *changes), data, torch.arange(12))
        losses.append(model(*data.batch(range(4))[:2])[1][0].losses["balance"])
    assert torch.equal(losses[0], losses[1])
    assert not torch.allclose(losses[0], losses[2])


@pytest.mark.parametrize("pool", POOLS)
def test_clusters_by_the_size_of_each_graph(pool):
    data = load_graphs("motifs", num_graphs=12)
    changes = [f"model.pool={pool}", "model.num_clusters=[8, 4]", "model.ratio=0.15", "model.levels=2"]
    model = make_model(small(*changes, "model.compare=[]"), data, torch.arange(12))
    first, second = model.on_batch(data.batch(range(12)), CPU)[1]
    expected = (0.15 * data.sizes[:12]).ceil().clamp(1, 8)
    assert first.sizes.tolist() == expected.tolist()
    assert len(set(expected.tolist())) > 1
    assert second.sizes.tolist() == (0.15 * expected).ceil().clamp(1, 4).tolist()


def test_numbers_of_clusters():
    by_ratio = load_config(GRAPH_CLASSIFY, "proteins", ["model.ratio=0.5", "model.levels=2"])
    assert numbers_of_clusters(by_ratio, 40.0) == [20, 10]
    assert numbers_of_clusters(small("model.levels=2", "model.num_clusters=[5]"), 40.0) == [5, 5]
    assert numbers_of_clusters(small("model.ratio=0.25"), 40.0) == [10]                  # the file has a number
    assert numbers_of_clusters(small("model.ratio=0.25", "model.num_clusters=[8]"), 40.0) == [8]     # at most
    by_number = load_config(GRAPH_CLASSIFY, "proteins", ["model.num_clusters=[7]"])       # the file has a ratio
    assert numbers_of_clusters(by_number, 40.0) == [7]
    assert numbers_of_clusters(small("model.num_clusters=null"), 40.0) == [4]
    assert numbers_of_clusters(small("model.num_clusters=null", "model.levels=3"), 400.0) == [64, 16, 4]
    assert numbers_of_clusters(small("model.levels=2", "model.num_clusters=[5, 3]"), 40.0) == [5, 3]


# ---------------------------------------------------------------- batch normalisation


def almost_constant_columns(device):
    """Means far larger than deviations: sums in float32 lose the variance."""
    rows = torch.randn(500, 6) * torch.tensor([1, 1e-1, 1e-2, 1e-3, 1, 0]) + torch.tensor([0, 5, 10, 10, -100, 1.0])
    return rows.to(device)


def test_it_is_that_of_torch(device):
    x, norm, plain = almost_constant_columns(device), BatchNorm(6).to(device), nn.BatchNorm1d(6).to(device)
    assert torch.equal(norm(x), plain(x))
    assert torch.equal(norm.running_var, plain.running_var)
    norm.eval(), plain.eval()
    assert torch.equal(norm(x[:1]), plain(x[:1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_form_for_several_processes_is_that_of_float64(device, dtype):
    x, (weight, bias) = almost_constant_columns(device), torch.randn(2, 6).to(device)
    exact = [value.double().requires_grad_() for value in (x, weight, bias)]
    inputs = [value.to(dtype).requires_grad_() for value in (x, weight, bias)]
    y, mean, var, count, *_ = _NormalizeOverProcesses.apply(*inputs, 1e-5)
    expected, exact_mean, exact_scale = torch.native_batch_norm(*exact, None, None, True, 0.0, 1e-5)
    for result in (y, expected):
        (result * torch.linspace(-1, 1, 500, device=device)[:, None]).tanh().sum().backward()
    rtol = 1e-9 if dtype == torch.float64 else 1e-4
    torch.testing.assert_close(mean.double(), exact_mean, rtol=rtol, atol=0)
    torch.testing.assert_close((var.double() + 1e-5).rsqrt(), exact_scale, rtol=10 * rtol, atol=0)
    torch.testing.assert_close(y.double(), expected, rtol=rtol, atol=100 * rtol)
    for ours, theirs in zip(inputs, exact, strict=True):
        atol = 100 * rtol * theirs.grad.abs().max()
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=rtol, atol=atol)
    assert count.item() == 500


def test_a_single_row_has_no_variance():
    row = torch.randn(1, 6)
    assert torch.equal(BatchNorm(6)(row), row)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_no_bias_in_front_of_batch_normalisation(backbone):
    """Where a unit is active in all rows, its gradient is zero up to rounding, and Adam makes a step of that."""

    def biases(norm):
        model = GraphClassifier(nn.Linear(3, 8), [None], 2, backbone=backbone, hidden=8, norm=norm)
        return [name for name, _ in model.blocks.named_parameters() if name.endswith("bias") and "norm" not in name]

    assert len(biases("layer")) - len(biases("batch")) == 4             # one per layer


# ---------------------------------------------------------------- encoders


def test_categories_are_embedded_as_ogb_does():
    from jbpool.data.sets.ogb import import_ogb

    import_ogb()
    from ogb.graphproppred.mol_encoder import AtomEncoder
    from ogb.utils.features import get_atom_feature_dims

    theirs, dims = AtomEncoder(8), get_atom_feature_dims()
    ours = CategoryEncoder(dims, 8)
    ours.table.weight.data = torch.cat([table.weight.data for table in theirs.atom_embedding_list])
    feat = torch.stack([torch.randint(0, dim, (40,)) for dim in dims], dim=1)
    torch.testing.assert_close(ours(feat), theirs(feat))
    weight = torch.randn(40, 8)
    for encoder in (ours, theirs):
        (encoder(feat) * weight).sum().backward()
    grads = [table.weight.grad for table in theirs.atom_embedding_list]
    torch.testing.assert_close(ours.table.weight.grad, torch.cat(grads))


def test_features_are_scaled_by_the_training_graphs():
    train = torch.randn(100, 3) * torch.tensor([1.0, 100.0, 0.0]) + 5
    encoder = FeatureEncoder(train, 4)
    scaled = (train - encoder.centre) * encoder.scale
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]), atol=1e-4, rtol=0)


def test_what_training_graphs_do_not_show_stays_small():
    """A label that is absent, a rare one, a constant number: never scaled beyond 10."""
    train = torch.zeros(10_000, 4)
    train[0, 1] = 1
    train[:, 2] = 7.5
    train[:, 3] = torch.randn(10_000)
    encoder = FeatureEncoder(train, 4)
    scaled = (torch.tensor([1.0, 1.0, 100.0, 0.0]) - encoder.centre) * encoder.scale
    assert scaled.abs().max() <= 10
    assert scaled[2] == 0
    assert encoder(train).isfinite().all()


def test_the_scale_of_constant_and_missing_values():
    constant = torch.full((1001, 1), 0.1)
    centre, scale = centre_and_scale(torch.cat([constant, torch.arange(1001.0)[:, None], constant * 0 + 1], 1))
    assert scale[0] == 0
    assert scale[1].item() == pytest.approx(1 / np.arange(1001).std())
    assert scale[2] == 10                           # a label that all have
    assert centre.tolist() == pytest.approx([0.1, 500, 1])
    assert [part.tolist() for part in centre_and_scale(torch.zeros(0, 2))] == [[0, 0], [1, 1]]
