"""The network of graph classification: encoder, message passing, pools, readout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from jbpool.data import GraphBatch
from jbpool.graph import Graph, as_graph
from jbpool.names import lookup
from jbpool.nn.conv import BACKBONES, GINEConv, gine
from jbpool.nn.dropout import Dropout
from jbpool.nn.pooled import Pooled
from jbpool.nn.pools import ClusterPool
from jbpool.nn.selection import SelectionPool
from jbpool.ops.derivatives import ClosedForm, first_order
from jbpool.ops.segment import READOUTS, Segments, segments_of
from jbpool.processes import total_over_processes, world_size

# ---------------------------------------------------------------- encoders of node features


def centre_and_scale(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return what standardises the columns of the training graphs: ``(N, D)`` to mean ``(D,)`` and factor ``(D,)``.

    Rare binary features must not be scaled up excessively: columns of zeros and ones are scaled by at most 10. Other
    columns that are constant in the training graphs up to rounding are ignored.
    """
    if not len(values):
        return torch.zeros(values.shape[1]), torch.ones(values.shape[1])
    deviation, largest = values.std(0, correction=0), values.abs().amax(0)
    is_label = ((values == 0) | (values == 1)).all(0)
    factor = torch.where(deviation > 1e-6 * largest, deviation.pow(-1), 0.0)
    return values.mean(0), torch.where(is_label, 1 / deviation.clamp_min(0.1), factor)


class FeatureEncoder(nn.Module):
    """A linear layer on features standardised over those of the training graphs ``(N, D)`` (``centre_and_scale``)."""

    centre: Tensor
    scale: Tensor

    def __init__(self, train_feat: Tensor, hidden: int):
        super().__init__()
        centre, scale = centre_and_scale(train_feat)
        self.register_buffer("centre", centre)
        self.register_buffer("scale", scale)
        self.linear = nn.Linear(train_feat.shape[1], hidden)

    def forward(self, feat: Tensor) -> Tensor:
        """Encode features: ``(N, D)`` to ``(N, hidden)``."""
        return self.linear((feat - self.centre) * self.scale)


class CategoryEncoder(nn.Module):
    """Sum of the embeddings of categorical columns, like the AtomEncoder of ``ogb``."""

    first: Tensor

    def __init__(self, num_categories: Sequence[int], hidden: int):
        super().__init__()
        ends = torch.tensor([0, *num_categories]).cumsum(0)
        self.register_buffer("first", ends[:-1])            # first row of each column in the common table
        self.table = nn.EmbeddingBag(int(ends[-1]), hidden, mode="sum")
        nn.init.xavier_uniform_(self.table.weight)

    def forward(self, feat: Tensor) -> Tensor:
        """Embed categories: ``(N, D)`` integers to ``(N, hidden)``."""
        return _SumOfRows.apply(self.table.weight, feat + self.first)


class _SumOfRows(ClosedForm):
    """Sum of the rows of a table at the indices of each node: ``(R, hidden)`` and ``(N, D)`` to ``(N, hidden)``.

    Torch's own gradient sorts the indices, which takes several times as long as adding up column by column.
    """

    @staticmethod
    def forward(table, index):
        return functional.embedding_bag(index, table, mode="sum")

    @staticmethod
    def setup_context(ctx, inputs, output):
        table, index = inputs
        ctx.save_for_backward(index)
        ctx.num_rows = len(table)

    @staticmethod
    @first_order
    def backward(ctx, grad):                                            # (N, hidden)
        (index,) = ctx.saved_tensors
        total = grad.new_zeros(ctx.num_rows, grad.shape[1])
        for column in index.unbind(1):
            total.index_add_(0, column, grad)
        return total, None


# ---------------------------------------------------------------- layers and readouts


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation over the rows of all processes of a run; a single row is returned unchanged."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise features: ``(N, D)`` to ``(N, D)``."""
        if world_size() == 1 or not self.training:
            return x if self.training and len(x) == 1 else super().forward(x)       # a single row has no variance
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        rows = x.to(self.weight.dtype)
        y, mean, var, count, *_ = _NormalizeOverProcesses.apply(rows, self.weight, self.bias, self.eps)
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var * (count / (count - 1)), self.momentum)
        return y.to(x.dtype)


class _NormalizeOverProcesses(ClosedForm):
    """What batch normalisation does, over the rows of all processes; sums are added up in float64.

    ``(N, D)`` rows to scaled rows, the mean ``(D,)``, the variance ``(D,)``, the number of rows; and for backward the
    normalised rows and their scale ``(D,)``.
    """

    @staticmethod
    def forward(x, weight, bias, eps):
        own = torch.cat([x.sum(0, dtype=torch.float64), x.new_full((1,), len(x), dtype=torch.float64)])
        total = total_over_processes(own)                                               # (D + 1,)
        count = total[-1]
        mean = (total[:-1] / count).to(x.dtype)                                         # (D,)
        rows = x - mean
        var = (total_over_processes(rows.square().sum(0, dtype=torch.float64)) / count).to(x.dtype)     # (D,)
        scale = (var + eps).rsqrt()
        rows *= scale
        return torch.addcmul(bias, rows, weight), mean, var, count, rows, scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, *others = output
        _, _, count, rows, scale = others
        ctx.save_for_backward(rows, inputs[1], scale, count)
        ctx.mark_non_differentiable(*others)
        ctx.set_materialize_grads(False)                                                # no zeros for them

    @staticmethod
    @first_order
    def backward(ctx, grad, *_):
        rows, weight, scale, count = ctx.saved_tensors
        own = torch.stack([grad.sum(0, dtype=torch.float64), (grad * rows).sum(0, dtype=torch.float64)])    # (2, D)
        mean, slope = (total_over_processes(own) / count).to(grad.dtype)                # (D,) each
        own = own.to(grad.dtype)
        return (grad - mean - rows * slope) * (scale * weight), own[1], own[0], None


NORMS = {"batch": BatchNorm, "layer": nn.LayerNorm, "none": nn.Identity}


class _Layer(nn.Module):
    """Message passing, normalisation, dropout; edge features are part of the messages, or their sums per node added."""

    def __init__(self, conv: nn.Module, hidden: int, edge_feats: int, norm: str, dropout: float):
        super().__init__()
        self.conv, self.norm, self.dropout = conv, NORMS[norm](hidden), Dropout(dropout)
        self.edges = nn.Linear(edge_feats, hidden, bias=False) if edge_feats else None

    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None, edge_feat: Tensor | None) -> Tensor:
        if isinstance(self.conv, GINEConv) and self.edges is not None:
            feat = self.conv(graph, feat, self.edges(edge_feat), edge_weight)
        else:
            feat = self.conv(graph, feat, edge_weight=edge_weight)
            if self.edges is not None:
                feat = feat + self.edges(edge_feat)
        return self.dropout(self.norm(feat))


def read_out(feat: Tensor, segments: Segments, kinds: Sequence[str]) -> Tensor:
    """Concatenate mean, sum or max over the nodes of each graph: ``(N, D)`` to ``(B, len(kinds) * D)``."""
    return torch.cat([READOUTS[kind](feat, segments) for kind in kinds], dim=1)


def log_size(graph: Graph, mean_size: Tensor) -> Tensor:
    """Return the logarithm of the number of nodes over the mean size, ``(B, 1)``: means and maxima do not show it."""
    return (graph.sizes.clamp_min(1) / mean_size).log().unsqueeze(1)


# ---------------------------------------------------------------- the network


class EdgeInputs(NamedTuple):
    """What a network must know of the edge features that its layers before the first pool take."""

    width: int                                      # of what it is called with
    messages: bool                                  # a row per edge, part of the messages; else their sum per node
    scaling: tuple[Tensor, Tensor] | None = None    # mean and factor of every column, (width,) each


class GraphClassifier(nn.Module):
    """encoder -> [layers -> pool] x levels -> layers -> readout -> head.

    ``encoder``: node features to ``(N, hidden)``. ``pools``: one per level; ``None`` leaves the graph unchanged, so
    that a flat network has the same layers. ``layers``: before each pool and after the last.

    ``mean_size``: of the training graphs; the head reads the encoder and every level, and how many nodes a graph has
    relative to it. Without it, the head reads the last level alone. ``norm`` and ``dropout`` are applied after every
    layer, dropout in the head, too.
    """

    mean_size: Tensor
    edge_centre: Tensor | None
    edge_scale: Tensor | None

    def __init__(
        self,
        encoder: nn.Module,
        pools: Sequence[ClusterPool | SelectionPool | None],
        out_feats: int,
        *,
        backbone: str = "gin",
        layers: int = 2,
        hidden: int = 64,
        delta: float = 0.85,
        edges: EdgeInputs | None = None,
        readout: Sequence[str] = ("mean", "max"),
        mean_size: float | None = None,
        norm: str = "batch",
        dropout: float = 0.0,
    ):
        super().__init__()
        make_conv = lookup(BACKBONES, backbone, "model.backbone")
        self.encoder, self.readout, self.read_all = encoder, readout, mean_size is not None
        edges = edges or EdgeInputs(0, messages=False)
        self.edge_messages = edges.messages
        self.pools = nn.ModuleList(pool if pool is not None else nn.Identity() for pool in pools)
        self.blocks = nn.ModuleList()
        pooled = False
        for pool in [None, *pools]:
            pooled = pooled or pool is not None
            width = 0 if pooled else edges.width
            # Batch normalisation cancels the bias of units that are active everywhere: its gradient is rounding error.
            make = gine if edges.messages and width else make_conv
            convs = [make(hidden, hidden, delta, bias=norm != "batch") for _ in range(layers)]
            self.blocks.append(nn.ModuleList(_Layer(conv, hidden, width, norm, dropout) for conv in convs))
        centre, scale = edges.scaling or (None, None)
        self.register_buffer("edge_centre", centre)
        self.register_buffer("edge_scale", scale)
        self.register_buffer("mean_size", torch.tensor(1.0 if mean_size is None else mean_size))
        read = hidden * len(readout) * (1 + len(self.blocks)) + 1 if self.read_all else hidden * len(readout)
        self.head = nn.Sequential(
            nn.Linear(read, hidden), nn.ReLU(), Dropout(dropout), nn.Linear(hidden, out_feats)
        )

    def forward(
        self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None, edge_feat: Tensor | None = None
    ) -> tuple[Tensor, list[Pooled]]:
        """Return scores ``(B, out_feats)`` of a batch of graphs, and the output of each pool.

        ``edge_feat``: the sum of the edge features of each node ``(N, width)``, or those of each edge, ``(E, width)``;
        see ``EdgeInputs``.
        """
        graph, feat = as_graph(graph), self.encoder(feat)
        if edge_feat is not None and self.edge_centre is not None and self.edge_scale is not None:
            edge_feat = (edge_feat - self.edge_centre) * self.edge_scale
        made: list[Pooled] = []
        segments = segments_of(graph)
        read = [log_size(graph, self.mean_size), read_out(feat, segments, self.readout)] if self.read_all else []
        for level, block in enumerate(self.blocks):
            pool = self.pools[level - 1] if level else None
            if isinstance(pool, ClusterPool):
                made.append(pool(graph, feat, edge_weight))
                graph, feat = made[-1].graph, made[-1].feat
            elif isinstance(pool, SelectionPool):
                graph, feat = pool(graph, feat, edge_weight)
            if isinstance(pool, ClusterPool | SelectionPool):
                segments, edge_weight = segments_of(graph), None                # a pooled graph has its weights
            for layer in cast(nn.ModuleList, block):
                feat = layer(graph, feat, edge_weight, edge_feat)
            if self.read_all or level == len(self.blocks) - 1:
                read.append(read_out(feat, segments, self.readout))
        return self.head(torch.cat(read, dim=1)), made


class Ensemble(nn.Module):
    """Networks of one form with different initial weights, trained side by side; their predictions are averaged.

    In regression the networks predict standardised targets; ``target_scaling``: mean and deviation of each, ``(T,)``
    float64.
    """

    target_centre: Tensor | None
    target_scale: Tensor | None

    def __init__(self, members: Sequence[GraphClassifier], target_scaling: tuple[Tensor, Tensor] | None = None):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("target_centre", None if target_scaling is None else target_scaling[0])
        self.register_buffer("target_scale", None if target_scaling is None else target_scaling[1])
        self.edge_messages = members[0].edge_messages

    def forward(
        self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None, edge_feat: Tensor | None = None
    ) -> tuple[Tensor, list[Pooled]]:
        """Return the scores (or values) of every member, ``(M, B, out_feats)``, and the output of all their pools.

        The parameters are those of ``GraphClassifier``.
        """
        outputs = [member(graph, feat, edge_weight, edge_feat) for member in self.members]
        scores = torch.stack([scores for scores, _ in outputs])
        if self.target_centre is not None and self.target_scale is not None:
            scores = scores.double() * self.target_scale + self.target_centre       # a large mean needs the digits
        return scores, [pooled for _, made in outputs for pooled in made]

    def on_batch(self, batch: GraphBatch, device: torch.device) -> tuple[Tensor, list[Pooled]]:
        """Return the output for a batch of a dataset, computed on a device."""
        edge_feat = batch.edge_feat if self.edge_messages else batch.edge_sum
        inputs = (None if part is None else part.to(device) for part in (batch.feat, batch.edge_weight, edge_feat))
        return self(batch.graph.to(device), *inputs)
