"""The networks: message passing and pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import dgl
import torch
from dgl import DGLGraph
from torch import Tensor, nn
from torch.nn.functional import normalize

from jbpool.checks import lookup
from jbpool.classification.norm import NORMS
from jbpool.nn.conv import BACKBONES, TAKE_SPARSE
from jbpool.nn.pools import ClusterPool, Pooled
from jbpool.ops.adjacency import complete_size, smooth


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
        make_layer = lookup({**BACKBONES, "sgc": None}, backbone, "model.backbone")
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


class FeatureEncoder(nn.Module):
    """Node features, each brought to mean 0 and deviation 1 over the training graphs, to ``hidden`` numbers.

    A label that few training graphs have, or none, must not come in as a huge number elsewhere: columns of zeros and
    ones are scaled by 10 at most, and a number that is the same in all training graphs does not count.
    """

    centre: Tensor
    scale: Tensor

    def __init__(self, train_feat: Tensor, hidden: int):
        super().__init__()
        deviation = train_feat.std(0, correction=0)
        is_label = ((train_feat == 0) | (train_feat == 1)).all(0)
        self.register_buffer("centre", train_feat.mean(0))
        self.register_buffer(
            "scale", torch.where(is_label, 1 / deviation.clamp_min(0.1), deviation.pow(-1).nan_to_num(posinf=0.0))
        )
        self.linear = nn.Linear(train_feat.shape[1], hidden)

    def forward(self, feat: Tensor) -> Tensor:
        """``(N, D)`` to ``(N, hidden)``."""
        return self.linear((feat - self.centre) * self.scale)


class CategoryEncoder(nn.Module):
    """Columns of categories, such as the atoms of OGB: the sum of an embedding of each, as ``ogb``'s AtomEncoder."""

    first: Tensor

    def __init__(self, num_categories: Sequence[int], hidden: int):
        super().__init__()
        ends = torch.tensor([0, *num_categories]).cumsum(0)
        self.register_buffer("first", ends[:-1])            # one table for all columns: where each begins
        self.table = nn.EmbeddingBag(int(ends[-1]), hidden, mode="sum")
        nn.init.xavier_uniform_(self.table.weight)

    def forward(self, feat: Tensor) -> Tensor:
        """``(N, D)`` whole numbers to ``(N, hidden)``."""
        return self.table(feat + self.first)


class _Layer(nn.Module):
    """Message passing, normalisation, dropout; where there are edge features, each node adds those of its edges."""

    def __init__(self, conv: nn.Module, hidden: int, edge_feats: int, norm: str, dropout: float):
        super().__init__()
        self.conv, self.norm, self.dropout = conv, NORMS[norm](hidden), nn.Dropout(dropout)
        self.edges = nn.Linear(edge_feats, hidden, bias=False) if edge_feats else None

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None, edge_sum: Tensor | None) -> Tensor:
        feat = self.conv(graph, feat, edge_weight=edge_weight)
        if self.edges is not None:
            feat = feat + self.edges(edge_sum)
        return self.dropout(self.norm(feat))


def read_out(graph: DGLGraph, feat: Tensor, kinds: Sequence[str]) -> Tensor:
    """Mean, sum or max over the nodes of each graph, side by side: ``(N, D)`` to ``(B, len(kinds) * D)``."""
    size = complete_size(graph)
    if size is not None:
        table = feat.view(-1, size, feat.shape[1])                                              # (B, K, D)
        reduce = {"mean": lambda: table.mean(1), "sum": lambda: table.sum(1), "max": lambda: table.amax(1)}
        return torch.cat([reduce[kind]() for kind in kinds], dim=1)
    sizes = graph.batch_num_nodes()
    return torch.cat([dgl.ops.segment_reduce(sizes, feat, kind) for kind in kinds], dim=1)


class GraphClassifier(nn.Module):
    """encoder -> [layers -> pool] x levels -> layers -> readout -> head.

    Parameters
    ----------
    encoder : node features -> ``(N, hidden)``.
    pools : one per level; ``None`` leaves the graph as it is, so that a flat network has the same layers.
    out_feats : classes or tasks.
    backbone, layers, hidden, delta : the message-passing layers before each pool and after the last.
    edge_feats : width of ``edge_sum``, for the layers before the first pool.
    readout : mean, sum or max, or several of them.        read_all : before each pool too, not only at the end.
    norm, dropout : after every layer.
    """

    def __init__(
        self,
        encoder: nn.Module,
        pools: Sequence[ClusterPool | None],
        out_feats: int,
        *,
        backbone: str = "gin",
        layers: int = 2,
        hidden: int = 64,
        delta: float = 0.85,
        edge_feats: int = 0,
        readout: Sequence[str] = ("mean", "max"),
        read_all: bool = True,
        norm: str = "batch",
        dropout: float = 0.0,
    ):
        super().__init__()
        make_conv = lookup(BACKBONES, backbone, "model.backbone")
        self.encoder, self.readout, self.read_all = encoder, readout, read_all
        self.pools = nn.ModuleList(pool if pool is not None else nn.Identity() for pool in pools)
        self.blocks = nn.ModuleList()
        pooled = False
        for pool in [None, *pools]:
            pooled = pooled or pool is not None
            width = 0 if pooled else edge_feats
            convs = [make_conv(hidden, hidden, delta) for _ in range(layers)]
            self.blocks.append(nn.ModuleList(_Layer(conv, hidden, width, norm, dropout) for conv in convs))
        read = hidden * len(readout) * (len(self.blocks) if read_all else 1)
        self.head = nn.Sequential(
            nn.Linear(read, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, out_feats)
        )

    def forward(
        self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None, edge_sum: Tensor | None = None
    ) -> tuple[Tensor, list[Pooled]]:
        """``edge_sum`` ``(N, edge_feats)``: for each node the sum of the features of its edges.

        Returns: scores ``(B, out_feats)``, and what each pool made.
        """
        feat = self.encoder(feat)
        made, read = [], []
        for level, block in enumerate(self.blocks):
            if level > 0 and isinstance(self.pools[level - 1], ClusterPool):
                pooled = self.pools[level - 1](graph, feat, edge_weight)
                graph, feat, edge_weight = pooled.graph, pooled.feat, pooled.edge_weight
                made.append(pooled)
            for layer in cast(nn.ModuleList, block):
                feat = layer(graph, feat, edge_weight, edge_sum)
            if self.read_all or level == len(self.blocks) - 1:
                read.append(read_out(graph, feat, self.readout))
        return self.head(torch.cat(read, dim=1)), made
