"""Cluster a generated graph with JBPool: a network of ten lines, a few seconds of training, one score.

    python scripts/demo.py
"""

from __future__ import annotations

import dgl
import torch
from torch import nn
from torchmetrics.functional.clustering import normalized_mutual_info_score
from tqdm import trange

import jbpool

NODES, CLUSTERS, FEATURES = 1200, 4, 32


def planted_graph(seed: int) -> tuple[dgl.DGLGraph, torch.Tensor, torch.Tensor]:
    """A graph with CLUSTERS hidden groups: 10 edges per node, 8 of them inside its group, and noisy features."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(NODES) % CLUSTERS
    source = torch.arange(NODES).repeat_interleave(5)
    inside = torch.rand(len(source), generator=generator) < 0.8
    anywhere = torch.randint(NODES, (len(source),), generator=generator)
    same_group = anywhere // CLUSTERS * CLUSTERS + label[source]
    graph = dgl.graph((source, torch.where(inside, same_group, anywhere)), num_nodes=NODES)
    graph = dgl.to_simple(dgl.remove_self_loop(dgl.add_reverse_edges(graph)), return_counts=None)
    centre = torch.randn(CLUSTERS, FEATURES, generator=generator)
    feat = centre[label] + 3 * torch.randn(NODES, FEATURES, generator=generator)
    return graph, feat, label


class ClusterNet(nn.Module):
    """Message passing smooths the features over the graph, the pool turns them into clusters."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(
            [
                jbpool.DeltaConv(FEATURES, 32, activation=torch.relu),
                jbpool.DeltaConv(32, 32, activation=torch.relu),
                jbpool.DeltaConv(32, 32),
            ]
        )
        self.pool = jbpool.JBPool(32, CLUSTERS)

    def forward(self, graph, feat):
        for conv in self.convs:
            feat = conv(graph, feat)
        return self.pool.cluster(graph, feat)


def main() -> None:
    torch.manual_seed(0)
    graph, feat, label = planted_graph(seed=0)
    model = ClusterNet()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    bar = trange(400, desc=f"{NODES} nodes, {graph.num_edges()} edges, {CLUSTERS} clusters")
    for _ in bar:
        assign, losses = model(graph, feat)
        loss = losses["balance"].mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)

    cluster = assign.argmax(1)
    with torch.sparse.check_sparse_tensor_invariants():         # torchmetrics counts with a sparse matrix
        score = normalized_mutual_info_score(cluster, label).item()
    sizes = cluster.bincount(minlength=CLUSTERS).tolist()
    print(f"balance loss {loss.item():.3f} (-1 is perfect balance), cluster sizes {sizes}")
    print(f"NMI with the hidden groups: {score:.3f} (1 is a perfect match, 0 is chance)")


if __name__ == "__main__":
    main()
