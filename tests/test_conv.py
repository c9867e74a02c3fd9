"""DeltaConv against dense products."""

import dense_reference as dense
import numpy as np
import pytest
import torch
from zoo import random_graph, symmetric_weights

from jbpool import DeltaConv


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
def test_delta_conv_takes_sparse_features(in_feats, out_feats):
    graph = random_graph(20, 50)
    feat = torch.randn(20, in_feats, dtype=torch.float64) * (torch.rand(20, in_feats) < 0.3)
    conv = DeltaConv(in_feats, out_feats).double()
    results = []
    for x in (feat, feat.to_sparse_csr()):
        conv.zero_grad()
        out = conv(graph, x)
        out.square().sum().backward()
        results.append((out.detach(), conv.weight.grad.clone()))
    assert torch.allclose(results[0][0], results[1][0])
    assert torch.allclose(results[0][1], results[1][1])


def test_delta_conv_under_autocast(batch):
    conv = DeltaConv(5, 3, activation=torch.relu)
    feat = torch.randn(batch.num_nodes(), 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = conv(batch, feat)
    assert torch.allclose(half.float(), conv(batch, feat), atol=0.1)
