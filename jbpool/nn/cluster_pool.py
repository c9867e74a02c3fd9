"""The path shared by all pools: soft assignment -> objective -> coarsening.

Input and output have the same form (graph, features, edge weights), so pools can be stacked and any DGL layer works on
the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import torch
from dgl import DGLGraph
from torch import Tensor, nn

from jbpool.checks import check_count, check_fraction, check_positive, lookup
from jbpool.errors import JBPoolError
from jbpool.nn.dropout import Dropout
from jbpool.nn.heads import HEADS, CosineHead, spread_rows
from jbpool.nn.partition import Partition
from jbpool.nn.terms import TERMS
from jbpool.ops.adjacency import smooth
from jbpool.ops.coarsen import complete_graphs, normalized_off_diagonal
from jbpool.ops.inputs import check_edge_weight, check_feat, check_features, check_graph
from jbpool.ops.precision import at_least_float32
from jbpool.ops.segment import make_segments
from jbpool.ops.softmax import row_softmax

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "leaky_relu": nn.LeakyReLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


class Pooled(NamedTuple):
    """The result of a pool: the pooled graph, the assignments, and the losses to train with."""

    graph: DGLGraph                 # B complete graphs of K nodes, K*K edges each, row-major; both batch counts set
    feat: Tensor                    # (B*K, D)   S^T X
    edge_weight: Tensor             # (B*K*K,)   symmetric-normalised S^T A S with zero diagonal, differentiable
    assign: Tensor                  # (N, K)     rows sum to 1
    losses: dict[str, Tensor]       # name -> (B,), one value per graph, unreduced

    @property
    def loss(self) -> Tensor:
        """The scalar to minimise: the sum of the losses, each averaged over graphs."""
        return reduce(torch.add, (value.mean() for value in self.losses.values()))

    @property
    def adj(self) -> Tensor:
        """The pooled adjacency, ``(B, K, K)``: a view of ``edge_weight``, no copy."""
        num_clusters = self.assign.shape[1]
        return self.edge_weight.view(-1, num_clusters, num_clusters)


class ClusterPool(nn.Module):
    """The path shared by all pools; a subclass lists its loss terms.

    Parameters
    ----------
    in_feats : int
        Size D of the node features.
    num_clusters : int
        Number of clusters K, the nodes of each pooled graph.
    hidden_feats : sequence of int, optional
        Sizes of the hidden layers of the MLP that computes the assignments. Default: none.
    activation : str, optional
        Activation between the layers of the MLP: relu, elu, gelu, leaky_relu, silu or tanh. Default: ``"relu"``.
    dropout : float, optional
        Dropout rate of the hidden layers. Default: 0.
    head : str, optional
        Last layer of the MLP: ``"linear"``, or ``"cosine"`` for bounded logits, the cosine to K learned prototypes
        divided by ``temperature``. Default: ``"linear"``.
    temperature : float, optional
        Temperature of the cosine head. Default: 0.2.
    """

    terms: tuple[str, ...] = ()                     # names in TERMS of the losses to minimise
    smooth_scores: bool = False                     # pass the scores of the MLP through one smoothing step
    options: ClassVar[tuple[str, ...]] = ("head", "temperature")        # fields of PoolOptions the constructor takes

    def __init__(
        self,
        in_feats: int,
        num_clusters: int,
        hidden_feats: Sequence[int] = (),
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        head: str = "linear",
        temperature: float = 0.2,
    ):
        super().__init__()
        self.in_feats = check_count(in_feats, "in_feats")
        self.num_clusters = check_count(num_clusters, "num_clusters")
        hidden = hidden_feats if isinstance(hidden_feats, Iterable) else [hidden_feats]
        widths = [self.in_feats, *(check_count(width, "hidden_feats") for width in hidden)]
        nonlinearity = lookup(ACTIVATIONS, activation, "activation")
        check_fraction(dropout, "dropout")
        make_head = lookup(HEADS, head, "head")
        check_positive(temperature, "temperature")

        layers: list[nn.Module] = []
        for width, next_width in pairwise(widths):
            layers += [nn.Linear(width, next_width), nonlinearity(), Dropout(dropout)]
        self.mlp = nn.Sequential(*layers, make_head(widths[-1], self.num_clusters, temperature))

    def reset_parameters(self) -> None:
        """Draw new random weights for the MLP."""
        for layer in self.mlp:
            if isinstance(layer, (nn.Linear, CosineHead)):
                layer.reset_parameters()

    @torch.no_grad()
    def init_prototypes(self, feat: Tensor, generator: torch.Generator | None = None) -> None:
        """Set the prototypes of a cosine head to rows of the data that lie far apart (k-means++).

        With hidden layers the rows are taken from their output. To be called once, before training: unlike the
        forward pass it reads values from the device.

        Parameters
        ----------
        feat : Tensor
            Node features ``(N, in_feats)`` of a graph or a whole batch, as passed to the pool.
        generator : torch.Generator, optional
            Source of randomness, on the device of ``feat``. Default: torch's global generator.
        """
        head = self.mlp[-1]
        if not isinstance(head, CosineHead):
            raise JBPoolError("init_prototypes: a linear head has no prototypes; build the pool with head='cosine'.")
        check_features(feat, self._dtype, self.in_feats)
        for layer in list(self.mlp)[:-1]:
            if not isinstance(layer, Dropout):
                feat = layer(feat)
        head.weight.copy_(spread_rows(feat, self.num_clusters, generator))

    def term_options(self) -> dict[str, dict[str, Any]]:
        """Keyword arguments of the terms that have options: name of the term -> its arguments."""
        return {}

    def objective(self, part: Partition) -> dict[str, Tensor]:
        """The losses of a soft partition: name -> ``(B,)``."""
        options = self.term_options()
        return {name: lookup(TERMS, name, "terms")(part, **options.get(name, {})) for name in self.terms}

    def cluster(
        self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Assignments and losses without the pooled graph, for node clustering.

        Parameters
        ----------
        graph : DGLGraph
            A graph or a batch of graphs that hold both directions of every edge.
        feat : Tensor
            Node features ``(N, in_feats)``.
        edge_weight : Tensor, optional
            Finite, non-negative weights ``(E,)``. Default: all ones.

        Returns
        -------
        assign : Tensor
            Soft assignments ``(N, K)``.
        losses : dict of str to Tensor
            One value per graph for every loss, ``(B,)``.
        """
        part = self._checked_partition(graph, feat, edge_weight)
        return part.assign, self.objective(part)

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Pooled:
        """Pool every graph of the batch to ``num_clusters`` nodes.

        Parameters
        ----------
        graph : DGLGraph
            A graph or a batch of graphs that hold both directions of every edge.
        feat : Tensor
            Node features ``(N, in_feats)``.
        edge_weight : Tensor, optional
            Finite, non-negative weights ``(E,)``. Default: all ones.

        Returns
        -------
        Pooled
            The pooled batch, ``B`` complete graphs of K nodes with features and edge weights, the assignments, and the
            losses to train with.
        """
        part = self._checked_partition(graph, feat, edge_weight, coarsen=True)
        losses = self.objective(part)
        adj, pooled_feat = part.pooled                                                  # (S^T A S)^T, S^T X
        return Pooled(
            graph=complete_graphs(adj.shape[0], self.num_clusters, graph.idtype, graph.device),
            feat=pooled_feat.flatten(0, 1).to(feat.dtype),
            edge_weight=normalized_off_diagonal(adj.mT).flatten().to(self._dtype),
            assign=part.assign,
            losses=losses,
        )

    @property
    def _dtype(self) -> torch.dtype:
        """The type of the parameters."""
        return next(self.mlp.parameters()).dtype

    def _checked_partition(
        self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None, coarsen: bool = False
    ) -> Partition:
        check_graph(graph)
        check_feat(graph, feat, self._dtype, self.in_feats)
        check_edge_weight(graph, edge_weight)
        return self.partition(graph, self.mlp(feat), edge_weight, feat if coarsen else None)

    def partition(
        self, graph: DGLGraph, scores: Tensor, edge_weight: Tensor | None, feat: Tensor | None = None
    ) -> Partition:
        """The soft partition given by the scores of the MLP, ``(N, K)``; ``feat``: features to be pooled, if any."""
        logits = smooth(graph, scores, edge_weight=edge_weight) if self.smooth_scores else scores
        assign = row_softmax(at_least_float32(logits))                                  # (N, K)
        return Partition(graph, assign, make_segments(graph.batch_num_nodes(), assign), edge_weight, feat)

    def extra_repr(self) -> str:
        return f"in_feats={self.in_feats}, num_clusters={self.num_clusters}"
