"""Several starts of a cosine head: one product for all, the same as one by one."""

import pytest
import torch
from zoo import random_graph

from jbpool.clustering.network import ClusterNet
from jbpool.clustering.starts import Starts
from jbpool.nn.pools import PoolOptions, make_pool


@pytest.mark.parametrize("hidden", [(), (8,)])
@pytest.mark.parametrize("backbone", ["sgc", "delta"])
def test_starts_of_a_cosine_head_train_together_as_they_would_alone(backbone, hidden):
    graph, feat = random_graph(40, 100), torch.randn(40, 6)
    options = PoolOptions(head="cosine", temperature=0.3)
    nets = [
        ClusterNet(
            6, lambda width: make_pool("jb", width, 3, hidden, options=options), backbone=backbone, layers=2, hidden=5
        )
        for _ in range(3)
    ]
    feat = nets[0].prepare(graph, feat)
    together = Starts(nets, graph)
    assert together.stacked
    assign, losses = together(feat)
    losses["balance"].sum().backward()
    grads = [[parameter.grad.clone() for parameter in net.parameters()] for net in nets]
    for index, net in enumerate(nets):
        net.zero_grad()
        alone, its = net(graph, feat)
        its["balance"].sum().backward()
        torch.testing.assert_close(assign[index], alone, rtol=1e-5, atol=1e-6)
        for grad, parameter in zip(grads[index], net.parameters(), strict=True):
            torch.testing.assert_close(grad, parameter.grad, rtol=1e-4, atol=1e-6)
