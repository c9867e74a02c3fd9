"""The network of node clustering: message passing, then a pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from dgl import DGLGraph
from torch import Tensor, nn
from torch.nn.functional import normalize

from jbpool.checks import lookup
from jbpool.nn.cluster_pool import ClusterPool
from jbpool.nn.conv import BACKBONES, TAKE_SPARSE
from jbpool.ops.adjacency import smooth

NETWORKS = {**BACKBONES, "sgc": None}           # sgc has no layers to train


class ClusterNet(nn.Module):
    """Node clustering: ``layers`` message-passing layers, then the assignments and losses of a pool.

    With the backbone ``sgc`` there are no layers to train: :meth:`prepare` smooths the features once, centres them and
    scales their rows to unit length, and the pool works on the result. What all nodes have in common says nothing about
    clusters but pulls every node into the same one, hence the centring.

    Parameters
    ----------
    in_feats : size of the node features.
    make_pool : width of the features in front of the pool -> the pool.
    backbone : delta, gcn, gin, sage, gat or sgc.
    layers, hidden, delta : number and width of the layers, step of the smoothing.
    """

    centre: Tensor | None

    def __init__(
        self,
        in_feats: int,
        make_pool: Callable[[int], ClusterPool],
        *,
        backbone: str = "delta",
        layers: int = 10,
        hidden: int = 64,
        delta: float = 0.85,
    ):
        super().__init__()
        make_layer = lookup(NETWORKS, backbone, "model.backbone")
        self.layers, self.delta, self.smooth_once = layers, delta, make_layer is None
        self.register_buffer("centre", torch.zeros(in_feats) if make_layer is None else None)
        self.convs = nn.ModuleList()
        if make_layer is not None:
            for _ in range(layers):
                self.convs.append(make_layer(in_feats, hidden, delta))
                in_feats = hidden
        self.takes_sparse = backbone in TAKE_SPARSE and layers > 0
        self.pool = make_pool(in_feats)

    def prepare(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """What the forward pass needs of the features, worked out once: ``(N, in_feats)``.

        In training mode the centre is measured and kept; afterwards the one kept is used, on other graphs too.
        """
        if feat.layout == torch.sparse_csr and not self.takes_sparse:
            feat = feat.to_dense()
        if self.smooth_once:
            for _ in range(self.layers):
                feat = smooth(graph, feat, self.delta, edge_weight)
            if self.training:
                self.centre = feat.mean(0)
            feat = normalize(feat - cast(Tensor, self.centre))
        return feat

    def forward(
        self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """``feat`` as :meth:`prepare` gives it. Returns: ``assign`` ``(N, K)`` and the losses."""
        for conv in self.convs:
            feat = conv(graph, feat, edge_weight=edge_weight)
        return self.pool.cluster(graph, feat, edge_weight)
