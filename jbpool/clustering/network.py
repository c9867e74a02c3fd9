"""The network of node clustering: message passing, then a pool."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from jbpool.checks import lookup
from jbpool.clustering.auto.views import FixedFeatures
from jbpool.graph import Graph
from jbpool.nn.conv import BACKBONES
from jbpool.nn.pools import ClusterPool
from jbpool.ops.sparse import is_sparse

FIXED = ("sgc", "whitened")                     # fixed features: no layers to train
NETWORKS = {**BACKBONES, **dict.fromkeys(FIXED)}


class ClusterNet(nn.Module):
    """Node clustering: ``layers`` message-passing layers, then the assignments and losses of a pool.

    The backbones ``sgc`` and ``whitened`` have no layers to train: ``prepare`` computes ``FixedFeatures``
    once, with ``layers`` smoothing steps, and the pool works on the result: all columns, or the view for K clusters.

    Parameters
    ----------
    in_feats : int
        Size of the node features.
    make_pool : callable
        Size of the input features -> the pool.
    backbone : str, default "delta"
        delta, gcn, gin, sage, gat, sgc or whitened.
    layers : int, default 10
        Number of layers, or of smoothing steps.
    hidden : int, default 64
        Width of the layers.
    delta : float, default 0.85
        Step size of the smoothing.
    weighting : str, default "none"
        Fixed features: weights of the columns, as in ``FixedFeatures``.
    num_clusters : int, optional
        K of the view of ``whitened``.
    """

    def __init__(
        self,
        in_feats: int,
        make_pool: Callable[[int], ClusterPool],
        *,
        backbone: str = "delta",
        layers: int = 10,
        hidden: int = 64,
        delta: float = 0.85,
        weighting: str = "none",
        num_clusters: int | None = None,
    ):
        super().__init__()
        make_layer = lookup(NETWORKS, backbone, "model.backbone")
        self.features: FixedFeatures | None = None
        self.convs = nn.ModuleList()
        if make_layer is None:
            whitened = num_clusters if backbone == "whitened" else None
            self.features = FixedFeatures(in_feats, layers, delta, weighting, whitened)
            in_feats = self.features.out_feats
        else:
            for _ in range(layers):
                self.convs.append(make_layer(in_feats, hidden, delta))
                in_feats = hidden
        self.takes_sparse = bool(self.convs) and getattr(self.convs[0], "takes_sparse", False)
        self.pool = make_pool(in_feats)

    def prepare(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """The input of the forward pass, computed once: ``(N, D)``.

        In training mode fixed features are fitted to the graph; in evaluation mode they are applied as fitted.
        """
        if self.features is not None:
            return (self.features.fit if self.training else self.features)(graph, feat, edge_weight)
        return feat.to_dense() if is_sparse(feat) and not self.takes_sparse else feat

    def forward(
        self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """``assign`` ``(N, K)`` and the losses; ``feat`` as returned by ``prepare``."""
        for conv in self.convs:
            feat = conv(graph, feat, edge_weight=edge_weight)
        return self.pool.cluster(graph, feat, edge_weight)
