"""DeltaConv against dense products; sparse features against dense ones."""

import dense_reference as dense
import numpy as np
import pytest
import torch
from zoo import random_graph, symmetric_weights

from jbpool import DeltaConv
from jbpool.nn.conv import BACKBONES, TAKE_SPARSE


@pytest.mark.parametrize(("in_feats", "out_feats"), [(6, 2), (2, 6)])
def test_delta_conv_against_dense_oracle(in_feats, out_feats):
    graph = random_graph(20, 50)
    weight = symmetric_weights(graph).double()
    conv = DeltaConv(in_feats, out_feats, 0.6, activation=torch.relu).double()
    torch.nn.init.normal_(conv.bias)
    feat = torch.randn(20, in_feats, dtype=torch.float64)
    smoothed = dense.smoothed(feat.numpy(), dense.adjacency(graph, weight), 0.6)
    expected = np.maximum(smoothed @ conv.weight.detach().numpy() + conv.bias.detach().numpy(), 0)
    assert np.allclose(conv(graph, feat, weight).detach().numpy(), expected)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize(("in_feats", "out_feats"), [(6, 2), (2, 6)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("backbone", sorted(TAKE_SPARSE))
def test_sparse_features_give_the_same(backbone, weighted, in_feats, out_feats):
    graph = random_graph(20, 50)
    weight = symmetric_weights(graph).double() if weighted else None
    feat = torch.randn(20, in_feats, dtype=torch.float64) * (torch.rand(20, in_feats) < 0.3)
    conv = BACKBONES[backbone](in_feats, out_feats, 0.85).double()
    results = []
    for x in (feat, feat.to_sparse_csr()):
        out = conv(graph, x, edge_weight=weight)
        results.append((out, *torch.autograd.grad(out.square().sum(), list(conv.parameters()))))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_delta_conv_under_autocast(batch):
    conv = DeltaConv(5, 3, activation=torch.relu)
    feat = torch.randn(batch.num_nodes(), 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = conv(batch, feat)
    assert torch.allclose(half.float(), conv(batch, feat), atol=0.1)
