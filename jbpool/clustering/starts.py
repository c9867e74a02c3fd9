"""Several starts of a clustering network, trained as one.

Start r uses the r-th graph of a batch of R copies, which keeps losses and gradients separate; the products of a layer
become one batched product. On small graphs a step is mostly overhead, so R starts cost little more than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import dgl
import torch
from dgl import DGLGraph
from torch import Tensor, nn

from jbpool.clustering.network import ClusterNet
from jbpool.nn.conv import DeltaConv
from jbpool.nn.heads import CosineHead, unit_rows
from jbpool.ops.adjacency import smooth
from jbpool.ops.sparse import feature_product

# Maximum number of nodes of all copies. Five starts at once, compared with one by one on two CPU cores: twice as fast
# on 1,000 nodes, 1.2 times on Cora, no faster on DBLP (docs/performance.md), with five times the memory.
MAX_NODES = 15_000


def starts_at_once(restarts: int, num_nodes: int) -> int:
    """Number of starts to train together."""
    return max(1, min(restarts, MAX_NODES // max(1, num_nodes)))


class Starts(nn.Module):
    """R networks of the same shape on the same graph, each with its own weights.

    ``DeltaConv`` and dense layers are stacked; networks with layers of DGL run one after another.

    Parameters
    ----------
    nets : sequence of ClusterNet
        R networks.
    graph : DGLGraph
        N nodes.
    edge_weight : Tensor, optional
        ``(E,)``.
    """

    def __init__(self, nets: Sequence[ClusterNet], graph: DGLGraph, edge_weight: Tensor | None = None):
        super().__init__()
        self.nets = nn.ModuleList(nets)
        self.graph, self.edge_weight = graph, edge_weight
        self.stacked = len(nets) > 1 and all(isinstance(conv, DeltaConv) for conv in nets[0].convs)
        if self.stacked:
            self.copies = dgl.batch([graph] * len(nets))
            self.copied_weight = None if edge_weight is None else edge_weight.repeat(len(nets))

    def forward(self, feat: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """``assign`` ``(R, N, K)`` and losses name -> ``(R,)`` for ``feat`` ``(N, D)`` as returned by ``prepare``."""
        nets = cast(list[ClusterNet], list(self.nets))
        if not self.stacked:
            assigns, losses = zip(*(net(self.graph, feat, self.edge_weight) for net in nets), strict=True)
            return torch.stack(assigns), {name: torch.cat([loss[name] for loss in losses]) for name in losses[0]}

        for convs in zip(*(net.convs for net in nets), strict=True):           # the same layer of every start
            weight = torch.stack([conv.weight for conv in convs])                   # (R, D, H)
            bias = torch.stack([conv.bias for conv in convs]).unsqueeze(1)          # (R, 1, H)
            if feat.dim() == 2:
                feat = self._smooth(_shared_product(feat, weight), convs[0].delta).add_(bias)
            else:
                feat = torch.baddbmm(bias, self._smooth(feat, convs[0].delta), weight)
            feat = convs[0].activation(feat)                                        # (R, N, H)
        for layers in zip(*(net.pool.mlp for net in nets), strict=True):
            if isinstance(layers[0], CosineHead):
                weight = torch.stack([unit_rows(layer.weight).T / layer.temperature for layer in layers])    # (R, D, K)
                feat = unit_rows(feat)
                feat = _shared_product(feat, weight) if feat.dim() == 2 else torch.bmm(feat, weight)
            elif isinstance(layers[0], nn.Linear):
                weight = torch.stack([layer.weight.T for layer in layers])          # (R, D, H)
                bias = torch.stack([layer.bias for layer in layers]).unsqueeze(1)   # (R, 1, H)
                feat = _shared_product(feat, weight) + bias if feat.dim() == 2 else torch.baddbmm(bias, feat, weight)
            else:
                feat = layers[0](feat)
        pool = nets[0].pool
        part = pool.partition(self.copies, feat.flatten(0, 1), self.copied_weight)
        return part.assign.view(len(nets), -1, part.assign.shape[1]), pool.objective(part)

    def _smooth(self, feat: Tensor, delta: float) -> Tensor:
        """``(R, N, D)`` to ``(R, N, D)``."""
        return smooth(self.copies, feat.flatten(0, 1), delta, self.copied_weight).view_as(feat)


def _shared_product(feat: Tensor, weight: Tensor) -> Tensor:
    """The common input features times the weights of each start: ``(N, D)`` and ``(R, D, H)`` to ``(R, N, H)``."""
    wide = weight.transpose(0, 1).flatten(1)                                        # (D, R * H)
    product = feature_product(feat, wide)
    return product.view(feat.shape[0], weight.shape[0], weight.shape[2]).transpose(0, 1).contiguous()
