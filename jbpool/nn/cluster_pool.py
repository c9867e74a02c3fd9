"""The path all pools share: soft assignment -> objective -> coarsening.

Input and output have the same shape (a graph, features, edge weights), so pools stack and any DGL layer works on the
result.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from dgl import DGLGraph
from torch import Tensor, nn
from torch.nn.functional import pad

from jbpool.checks import check_count, check_fraction, lookup
from jbpool.ops.adjacency import check_edge_weight, check_feat, check_graph, degree, propagate
from jbpool.ops.coarsen import complete_graphs, normalized_off_diagonal
from jbpool.ops.precision import at_least_float32
from jbpool.ops.segment import Segments, make_segments, segment_product

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "leaky_relu": nn.LeakyReLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


def row_softmax(scores: Tensor) -> Tensor:
    """Softmax of each row, ``(N, K)`` to ``(N, K)``.

    On the CPU torch's own is up to four times slower on rows of 3 to 15 numbers than on 16, so these are filled up.
    """
    num_clusters = scores.shape[1]
    if scores.device.type != "cpu" or not 2 < num_clusters < 16:
        return scores.softmax(-1)
    return pad(scores, (0, 16 - num_clusters), value=-math.inf).softmax(-1)[:, :num_clusters].contiguous()


class Pooled(NamedTuple):
    """What a pool returns: the pooled graph, how it came about, and the losses to train with."""

    graph: DGLGraph                 # B complete graphs of K nodes, K*K edges each, row-major; both batch counts set
    feat: Tensor                    # (B*K, D)   S^T X
    edge_weight: Tensor             # (B*K*K,)   symmetric-normalised S^T A S with zero diagonal, differentiable
    assign: Tensor                  # (N, K)     rows sum to 1
    losses: dict[str, Tensor]       # name -> (B,), one value per graph, unreduced

    @property
    def loss(self) -> Tensor:
        """The scalar to minimise: the mean over graphs of each loss, added up."""
        return torch.stack([value.mean() for value in self.losses.values()]).sum()

    @property
    def adj(self) -> Tensor:
        """The pooled adjacency, ``(B, K, K)``: a view of ``edge_weight``, no copy."""
        num_clusters = self.assign.shape[1]
        return self.edge_weight.view(-1, num_clusters, num_clusters)


@dataclass(frozen=True, eq=False)
class Partition:
    """What an objective may look at. Products with the adjacency are made when first asked for, and only once."""

    graph: DGLGraph
    assign: Tensor                  # (N, K)
    segments: Segments
    edge_weight: Tensor | None      # (E,)

    @cached_property
    def neighbours(self) -> Tensor:
        """``A S``, (N, K)."""
        return propagate(self.graph, self.assign, self.edge_weight)

    @cached_property
    def degree(self) -> Tensor:
        """``A 1``, (N,)."""
        return degree(self.graph, self.edge_weight, self.assign.dtype)


class ClusterPool(nn.Module, ABC):
    """The path all pools share; a subclass defines :meth:`objective`.

    Parameters
    ----------
    in_feats : size D of the node features.
    num_clusters : K, the nodes of each pooled graph.
    hidden_feats : sizes of the hidden layers of the MLP that makes the assignments; none by default.
    activation : between the layers of that MLP: relu, elu, gelu, leaky_relu, silu or tanh.
    dropout : on its hidden layers.
    """

    def __init__(
        self,
        in_feats: int,
        num_clusters: int,
        hidden_feats: Sequence[int] = (),
        *,
        activation: str = "relu",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.in_feats = check_count(in_feats, "in_feats")
        self.num_clusters = check_count(num_clusters, "num_clusters")
        hidden = hidden_feats if isinstance(hidden_feats, Iterable) else [hidden_feats]
        widths = [self.in_feats, *(check_count(width, "hidden_feats") for width in hidden)]
        nonlinearity = lookup(ACTIVATIONS, activation, "activation")
        check_fraction(dropout, "dropout")

        layers: list[nn.Module] = []
        for width, next_width in pairwise(widths):
            layers += [nn.Linear(width, next_width), nonlinearity(), nn.Dropout(dropout)]
        self.mlp = nn.Sequential(*layers, nn.Linear(widths[-1], self.num_clusters))

    def reset_parameters(self) -> None:
        """Draw the weights of the MLP anew."""
        for layer in self.mlp:
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()

    def logits(self, graph: DGLGraph, scores: Tensor, edge_weight: Tensor | None) -> Tensor:
        """From the scores of the MLP to those whose row softmax are the assignments: ``(N, K)`` to ``(N, K)``."""
        return scores

    @abstractmethod
    def objective(self, part: Partition) -> dict[str, Tensor]:
        """The losses of a soft partition: name -> ``(B,)``."""

    def cluster(
        self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Assignments and losses without the pooled graph, for node clustering.

        Returns: ``assign`` ``(N, K)`` and the losses, name -> ``(B,)``.
        """
        part = self._checked_partition(graph, feat, edge_weight)
        return part.assign, self.objective(part)

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Pooled:
        """Pool every graph of the batch to ``num_clusters`` nodes.

        Parameters
        ----------
        graph : a graph or a batch of graphs, both directions of every edge.
        feat : ``(N, in_feats)``.        edge_weight : ``(E,)``, finite and non-negative; ``None`` for ones.
        """
        part = self._checked_partition(graph, feat, edge_weight)
        losses = self.objective(part)
        both = segment_product(part.assign, (part.neighbours, feat), part.segments)     # (B, K, K + D)
        adj, pooled_feat = both.split([self.num_clusters, self.in_feats], dim=2)        # (S^T A S)^T, S^T X
        return Pooled(
            graph=complete_graphs(adj.shape[0], self.num_clusters, graph.idtype, graph.device),
            feat=pooled_feat.flatten(0, 1).to(feat.dtype),
            edge_weight=normalized_off_diagonal(adj.mT).flatten(),
            assign=part.assign,
            losses=losses,
        )

    def _checked_partition(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None) -> Partition:
        check_graph(graph)
        check_feat(graph, feat, next(self.mlp.parameters()), self.in_feats)
        check_edge_weight(graph, edge_weight)
        return self.partition(graph, self.mlp(feat), edge_weight)

    def partition(self, graph: DGLGraph, scores: Tensor, edge_weight: Tensor | None) -> Partition:
        """The soft partition of the scores of the MLP, ``(N, K)``."""
        assign = row_softmax(at_least_float32(self.logits(graph, scores, edge_weight)))     # (N, K)
        return Partition(graph, assign, make_segments(graph.batch_num_nodes(), assign), edge_weight)

    def extra_repr(self) -> str:
        return f"in_feats={self.in_feats}, num_clusters={self.num_clusters}"
