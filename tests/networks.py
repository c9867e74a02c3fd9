"""One training step of stacked pools and of both networks, for tests about devices."""

from functools import partial

import torch
from torch import nn
from zoo import POOLS, batched, random_graph, symmetric_weights

from jbpool import DeltaConv
from jbpool.classification.network import GraphClassifier
from jbpool.clustering.network import ClusterNet
from jbpool.nn.conv import BACKBONES

WIDTH = 8           # of the features


class StackedPools(nn.Module):
    """Message passing, a pool, and a second pool on its result; the total of everything they return."""

    def __init__(self, make_pool):
        super().__init__()
        self.conv, self.first, self.second = DeltaConv(WIDTH, WIDTH), make_pool(WIDTH, 5), make_pool(WIDTH, 2)

    def forward(self, graph, feat, edge_weight=None):
        one = self.first(graph, self.conv(graph, feat, edge_weight), edge_weight)
        two = self.second(one.graph, one.feat, one.edge_weight)
        return one.loss + two.loss + two.feat.square().mean() + two.edge_weight.square().mean()


class Clustering(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = ClusterNet(WIDTH, lambda width: POOLS["jb"](width, 4), layers=3, hidden=16)

    def forward(self, graph, feat, edge_weight=None):
        return sum(loss.mean() for loss in self.net(graph, feat, edge_weight)[1].values())


class Classification(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.net = GraphClassifier(nn.Linear(WIDTH, 16), [POOLS["jb"](16, 4)], 3, backbone=backbone, hidden=16)

    def forward(self, graph, feat, edge_weight=None):
        scores, pooled = self.net(graph, feat, edge_weight)
        return scores.logsumexp(1).mean() - scores[:, 0].mean() + sum(made.loss for made in pooled)


# name -> function that makes a module (graph, feat, edge_weight) -> loss
NETWORKS = {
    **{f"pools: {name}": partial(StackedPools, make_pool) for name, make_pool in POOLS.items()},
    "clustering": Clustering,
    **{f"classification: {name}": partial(Classification, name) for name in BACKBONES},
}


def example(seed=0, dtype=torch.float32):
    """Graph, features and weights on the CPU."""
    graph = batched([random_graph(size, 3 * size, seed=seed + size) for size in (5, 60, 20, 20, 33)])
    generator = torch.Generator().manual_seed(seed)
    feat = torch.randn(graph.num_nodes, WIDTH, generator=generator, dtype=dtype)
    return graph, feat, symmetric_weights(graph, seed).to(dtype)


def moved(inputs, device):
    return [part.to(device) for part in inputs]


def training_step(module, optimiser, *inputs):
    loss = module(*inputs)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    return loss.detach()


def step_results(module, *inputs):
    """Loss and gradients."""
    loss = module(*inputs)
    return [loss, *torch.autograd.grad(loss, list(module.parameters()))]
