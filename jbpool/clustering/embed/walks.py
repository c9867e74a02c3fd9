"""Embeddings from random walks: DeepWalk and node2vec, both with skip-gram and negative sampling."""

from __future__ import annotations

from collections.abc import Callable

import dgl
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, logsigmoid
from tqdm import trange

from jbpool.data import NodeData

DIM, WALK_LENGTH, WINDOW = 128, 40, 5
NEGATIVES, POOL = 5, 64                     # negatives per pair, and the size of the shared sample
EPOCHS, BATCH, LR = 10, 64, 0.01            # walks per node; walks per step, at least
# A step of Adam updates all vectors, so time would be quadratic in the number of nodes. From 64,000 nodes on, a step
# takes more walks instead. Fewer steps cost quality: on 20,000 nodes, 800 steps gave an NMI of 0.76, 3,125 one of 0.82.
MOST_STEPS = 10_000


def deepwalk(data: NodeData, num_clusters: int, seed: int) -> np.ndarray:
    """DeepWalk (Perozzi et al., KDD 2014): random walks that follow edges by their weight."""

    def walk(graph: dgl.DGLGraph, nodes: Tensor, prob: str | None) -> Tensor:
        return dgl.sampling.random_walk(graph, nodes, length=WALK_LENGTH - 1, prob=prob)[0]

    return _skip_gram(data, walk, seed, "deepwalk")


def node2vec(data: NodeData, num_clusters: int, seed: int, p: float = 1.0, q: float = 0.5) -> np.ndarray:
    """node2vec (Grover and Leskovec, KDD 2016): walks that return with weight 1/p and move outwards with 1/q."""

    def walk(graph: dgl.DGLGraph, nodes: Tensor, prob: str | None) -> Tensor:
        return dgl.sampling.node2vec_random_walk(graph, nodes, p=p, q=q, walk_length=WALK_LENGTH - 1, prob=prob)

    return _skip_gram(data, walk, seed, "node2vec")


def _skip_gram(data: NodeData, walk: Callable, seed: int, name: str) -> np.ndarray:
    """Train node and context vectors on pairs of nodes within a window of the same walk."""
    torch.manual_seed(seed)
    dgl.seed(seed)
    graph, num_nodes, prob = data.graph.local_var().long(), data.graph.num_nodes(), None
    if data.edge_weight is not None:
        prob = "weight"
        graph.edata[prob] = data.edge_weight
    node, context = nn.Embedding(num_nodes, DIM), nn.Embedding(num_nodes, DIM)
    nn.init.uniform_(node.weight, -0.5 / DIM, 0.5 / DIM)
    nn.init.zeros_(context.weight)
    optimiser = torch.optim.Adam([*node.parameters(), *context.parameters()], lr=LR, fused=True)
    starts = (graph.in_degrees() > 0).nonzero().squeeze(1)             # a walk needs an edge
    batch = max(BATCH, -(-EPOCHS * len(starts) // MOST_STEPS))
    for _ in trange(EPOCHS, desc=name, leave=False):
        for nodes in starts[torch.randperm(len(starts))].split(batch):
            walks = walk(graph, nodes, prob)                                # (W, L), -1 after a dead end
            other = torch.randint(num_nodes, (POOL,))                       # the same negatives for the whole step
            loss = skip_gram_loss(walks, node.weight, context.weight, other)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return node.weight.detach().numpy()


def skip_gram_loss(walks: Tensor, node: Tensor, context: Tensor, other: Tensor) -> Tensor:
    """Mean loss over all pairs of nodes within the window of a walk; one product for all pairs of a walk.

    Parameters
    ----------
    walks : Tensor
        ``(W, L)``, -1 after a dead end.
    node : Tensor
        ``(N, D)``, node vectors.
    context : Tensor
        ``(N, D)``, context vectors.
    other : Tensor
        ``(POOL,)``, negative nodes.
    """
    place = torch.arange(walks.shape[1])
    distance = (place[:, None] - place).abs()
    reached = walks >= 0
    pairs = (distance > 0) & (distance <= WINDOW) & reached[:, :, None] & reached[:, None, :]       # (W, L, L)
    centre, around = embedding(walks.clamp_min(0), node), embedding(walks.clamp_min(0), context)    # (W, L, D)
    alike = logsigmoid(centre @ around.mT) * pairs                                                  # (W, L, L)
    apart = logsigmoid(-centre @ context[other].T).mean(-1) * pairs.sum(-1)                         # (W, L)
    return -(alike.sum() + NEGATIVES * apart.sum()) / pairs.sum()
