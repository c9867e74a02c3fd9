"""Message-passing layers against dense products; sparse features against dense ones."""

import dense_reference as dense
import numpy as np
import pytest
import torch
from dense_reference import array
from zoo import random_graph, symmetric_weights

from jbpool import DeltaConv
from jbpool.nn.conv import BACKBONES, gine


@pytest.mark.parametrize(("in_feats", "out_feats"), [(6, 2), (2, 6)])
def test_delta_conv_against_dense_oracle(in_feats, out_feats, device):
    graph = random_graph(20, 50).to(device)
    weight = symmetric_weights(graph).double()
    conv = DeltaConv(in_feats, out_feats, 0.6, activation=torch.relu).double().to(device)
    torch.nn.init.normal_(conv.bias)
    feat = torch.randn(20, in_feats, dtype=torch.float64, device=device)
    smoothed = dense.smoothed(array(feat), dense.adjacency(graph, weight), 0.6)
    expected = np.maximum(smoothed @ array(conv.weight) + array(conv.bias), 0)
    assert np.allclose(array(conv(graph, feat, weight)), expected)


def naive(backbone, conv, X, A):
    """Dense numpy versions of DGL's layers with edge weights."""
    value = {name: array(parameter) for name, parameter in conv.named_parameters()}
    if backbone == "gcn":
        return np.maximum(dense.normalized(A) @ X @ value["weight"] + value["bias"], 0)
    if backbone == "sage":
        mean = A @ X / np.maximum(A.sum(1), 1e-300)[:, None]
        return np.maximum(X @ value["fc_self.weight"].T + value["fc_self.bias"] + mean @ value["fc_neigh.weight"].T, 0)
    inside = np.maximum((X + A @ X) @ value["apply_func.0.weight"].T + value["apply_func.0.bias"], 0)
    return np.maximum(inside @ value["apply_func.2.weight"].T + value["apply_func.2.bias"], 0)


@pytest.mark.parametrize(("in_feats", "out_feats"), [(6, 2), (2, 6)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("backbone", ["gcn", "sage", "gin"])
def test_backbones_against_dense_oracles(backbone, weighted, in_feats, out_feats, device):
    graph = random_graph(20, 30).to(device)                                # some nodes without edges
    weight = symmetric_weights(graph).double() if weighted else None
    conv = BACKBONES[backbone](in_feats, out_feats, 0.85).double().to(device)
    for parameter in conv.parameters():
        torch.nn.init.normal_(parameter)
    feat = torch.randn(20, in_feats, dtype=torch.float64, device=device)
    expected = naive(backbone, conv, array(feat), dense.adjacency(graph, weight))
    assert np.allclose(array(conv(graph, feat, edge_weight=weight)), expected)


@pytest.mark.parametrize(("out_feats", "heads"), [(8, 4), (6, 1)])       # four heads, if they divide the width
@pytest.mark.parametrize("weighted", [False, True])
def test_attention_against_a_dense_oracle(weighted, out_feats, heads, device):
    graph = random_graph(20, 30).to(device)                                # some nodes without edges
    weight = symmetric_weights(graph).double() if weighted else None
    conv = BACKBONES["gat"](3, out_feats, 0.85).double().to(device)
    for parameter in conv.parameters():
        torch.nn.init.normal_(parameter)
    feat = torch.randn(20, 3, dtype=torch.float64, device=device)
    value = {name: array(parameter) for name, parameter in conv.conv.named_parameters()}
    H = (array(feat) @ value["fc.weight"].T).reshape(20, heads, -1)
    left, right = (H * value["attn_l"]).sum(-1), (H * value["attn_r"]).sum(-1)      # (N, heads)
    score = left[:, None] + right[None]                                             # node j sends to node i: [j, i]
    A = dense.adjacency(graph, None)[..., None]
    power = A * np.exp(np.where(score > 0, score, 0.2 * score))
    attention = power / np.maximum(power.sum(0), 1e-300) * dense.adjacency(graph, weight)[..., None]
    mixed = np.einsum("jih,jhd->ihd", attention, H).reshape(20, -1) + value["bias"]
    assert np.allclose(array(conv(graph, feat, edge_weight=weight)), np.maximum(mixed, 0))


@pytest.mark.parametrize("weighted", [False, True])
def test_attention_equals_that_of_dgl(weighted, dgl):
    from dgl.nn import GATConv

    graph = random_graph(20, 30)
    weight = symmetric_weights(graph).double() if weighted else None
    feat = torch.randn(20, 3, dtype=torch.float64)
    ours = BACKBONES["gat"](3, 8, 0.85).double()
    theirs = GATConv(3, 2, 4, activation=torch.relu, allow_zero_in_degree=True).double()
    theirs.load_state_dict(ours.conv.state_dict())
    expected = theirs(graph.to_dgl(), feat, edge_weight=weight)
    assert torch.allclose(ours(graph, feat, edge_weight=weight), expected.flatten(1), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_edge_messages_against_a_dense_oracle(weighted, device):
    graph = random_graph(20, 30).to(device)                                # some nodes without edges
    weight = symmetric_weights(graph).double() if weighted else None
    conv = gine(3, 5, 0.85).double().to(device)
    feat = torch.randn(20, 3, dtype=torch.float64, device=device)
    edge_feat = torch.randn(graph.num_edges, 3, dtype=torch.float64, device=device)
    X, W, E = array(feat), dense.adjacency(graph, weight), np.zeros((20, 20, 3))
    E[tuple(array(end) for end in graph.edge_index)] = array(edge_feat)
    mixed = X + np.einsum("ji,jid->id", W, np.maximum(X[:, None] + E, 0))           # node j sends to node i
    value = {name: array(parameter) for name, parameter in conv.named_parameters()}
    inside = np.maximum(mixed @ value["apply_func.0.weight"].T + value["apply_func.0.bias"], 0)
    expected = np.maximum(inside @ value["apply_func.2.weight"].T + value["apply_func.2.bias"], 0)
    assert np.allclose(array(conv(graph, feat, edge_feat, weight)), expected)
    single = conv.float()(graph, feat.float(), edge_feat.float(), weight)          # weights stay float64
    assert np.allclose(array(single), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize(("in_feats", "out_feats"), [(6, 2), (2, 6)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("backbone", ["delta", "gcn", "sage"])
def test_sparse_features_give_the_same(backbone, weighted, in_feats, out_feats, device):
    graph = random_graph(20, 50).to(device)
    weight = symmetric_weights(graph).double() if weighted else None
    feat = torch.randn(20, in_feats, dtype=torch.float64, device=device)
    feat[torch.rand(20, in_feats, device=device) > 0.3] = 0
    conv = BACKBONES[backbone](in_feats, out_feats, 0.85).double().to(device)
    assert conv.takes_sparse
    results = []
    for x in (feat, feat.to_sparse_csr()):
        out = conv(graph, x, edge_weight=weight)
        results.append((out, *torch.autograd.grad(out.square().sum(), list(conv.parameters()))))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_delta_conv_under_autocast(batch):
    conv = DeltaConv(5, 3, activation=torch.relu).to(batch.device)
    feat = torch.randn(batch.num_nodes, 5, device=batch.device)
    with torch.autocast(batch.device.type, dtype=torch.bfloat16):
        half = conv(batch, feat)
    assert torch.allclose(half.float(), conv(batch, feat), atol=0.1)
