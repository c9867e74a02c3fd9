"""Graph autoencoders (Kipf and Welling, 2016): a two-layer GCN trained to predict edges, plain and variational."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from jbpool.console import Bar
from jbpool.data import NodeData
from jbpool.graph import Graph
from jbpool.ops.adjacency import propagate_normalized
from jbpool.ops.sparse import feature_product

HIDDEN, DIM, LR = 32, 16, 0.01
EPOCHS = 800        # VGAE is not converged after the usual 200: see docs/development/paper.md


def gae(data: NodeData, num_clusters: int, seed: int) -> np.ndarray:
    """Embed the nodes by the plain autoencoder: the output of the encoder."""
    return _train(data, seed, variational=False)


def vgae(data: NodeData, num_clusters: int, seed: int) -> np.ndarray:
    """Embed the nodes by the variational autoencoder: the mean of the posterior."""
    return _train(data, seed, variational=True)


class _Encoder(nn.Module):
    """Two convolutions on ``D^-1/2 (A + I) D^-1/2``; the second returns the mean and the log standard deviation."""

    def __init__(self, in_feats: int, outputs: int):
        super().__init__()
        self.first = nn.Linear(in_feats, HIDDEN, bias=False)
        self.second = nn.Linear(HIDDEN, DIM * outputs, bias=False)
        nn.init.xavier_uniform_(self.first.weight)
        nn.init.xavier_uniform_(self.second.weight)

    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None) -> Tensor:
        hidden = propagate_normalized(graph, feature_product(graph, feat, self.first.weight.T), edge_weight).relu()
        return propagate_normalized(graph, self.second(hidden), edge_weight)


def _train(data: NodeData, seed: int, variational: bool) -> np.ndarray:
    """Embed the nodes: tell edges from as many random pairs, drawn anew every epoch, not from all N x N pairs."""
    torch.manual_seed(seed)
    num_nodes, weight = data.graph.num_nodes, data.edge_weight
    source, target = data.graph.edge_index.long()
    loops = torch.arange(num_nodes).expand(2, -1)
    graph = Graph(torch.cat([data.graph.edge_index.long(), loops], dim=1), num_nodes)
    weight = None if weight is None else torch.cat([weight, torch.ones(num_nodes)])
    assert data.feat is not None                        # with_features adds them if the graph has none
    encoder = _Encoder(data.feat.shape[1], outputs=2 if variational else 1)
    optimiser = torch.optim.Adam(encoder.parameters(), lr=LR)
    truth = torch.cat([torch.ones(len(source)), torch.zeros(len(source))])
    for _ in Bar(range(EPOCHS), desc="vgae" if variational else "gae", leave=False):
        out = encoder(graph, data.feat, weight)
        mean, log_spread = (out[:, :DIM], out[:, DIM:]) if variational else (out, None)
        code = mean if log_spread is None else mean + torch.randn_like(mean) * log_spread.exp()
        random = torch.randint(num_nodes, (2, len(source)))
        one, other = torch.cat([source, random[0]]), torch.cat([target, random[1]])
        loss = binary_cross_entropy_with_logits((code[one] * code[other]).sum(1), truth)
        if log_spread is not None:
            divergence = -0.5 * (1 + 2 * log_spread - mean.square() - (2 * log_spread).exp()).sum(1).mean()
            loss = loss + divergence / num_nodes
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        return encoder(graph, data.feat, weight)[:, :DIM].numpy()
