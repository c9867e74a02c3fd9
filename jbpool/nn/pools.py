"""The pools: each adds its objective to :class:`~jbpool.nn.cluster_pool.ClusterPool`, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from dgl import DGLGraph
from torch import Tensor

from jbpool import objectives
from jbpool.checks import check_cluster_sizes, check_flag, check_real, lookup
from jbpool.nn.cluster_pool import ClusterPool, Partition, Pooled
from jbpool.ops.adjacency import degree, propagate_normalized, smooth

__all__ = [
    "LOSSES", "POOLS", "ClusterPool", "CombinedPool", "DMoNPool", "DiffPool", "JBPool", "MinCutPool", "Partition",
    "Pooled",
]  # fmt: skip


class JBPool(ClusterPool):
    """Just Balance pooling (Bianchi, "Simplifying Clustering with Graph Neural Networks", NLDL 2023).

    Learns clusters by the balancing term ``-Tr(sqrt(S^T S))`` alone: no cut term, no N x N matrix. The features
    must come from message passing, which makes neighbours alike (see :class:`~jbpool.DeltaConv`).

    Parameters
    ----------
    in_feats : size D of the node features.
    num_clusters : K, the nodes of each pooled graph.
    hidden_feats : sizes of the hidden layers of the MLP that makes the assignments; none by default.
    sqrt : ``"matrix"``, the paper's matrix square root, exact and in float64; or ``"diagonal"``, the element-wise
        root of public implementations, O(N K).
    cluster_sizes : known proportions of the clusters, adding up to one; equal clusters by default.
    normalize : scale the loss of every graph into [-1, 0).
    activation : between the layers of the MLP: relu, elu, gelu, leaky_relu, silu or tanh.
    dropout : on its hidden layers.

    Examples
    --------
    >>> pool = JBPool(64, num_clusters=8, hidden_feats=(16,))
    >>> pooled = pool(batch, feat)                      # batch: 3 graphs
    >>> pooled.feat.shape, pooled.losses["balance"].shape
    (torch.Size([24, 64]), torch.Size([3]))
    >>> pooled.loss.backward()
    """

    share_bits: Tensor | None

    def __init__(
        self,
        in_feats: int,
        num_clusters: int,
        hidden_feats: Sequence[int] = (),
        *,
        sqrt: str = "matrix",
        cluster_sizes: Sequence[float] | Tensor | None = None,
        normalize: bool = True,
        activation: str = "relu",
        dropout: float = 0.0,
    ):
        super().__init__(in_feats, num_clusters, hidden_feats, activation=activation, dropout=dropout)
        lookup(objectives.TRACES, sqrt, "sqrt")
        self.sqrt = sqrt
        self.normalize = check_flag(normalize, "normalize")
        share = None if cluster_sizes is None else check_cluster_sizes(cluster_sizes, self.num_clusters)
        self.cluster_sizes = None if share is None else tuple(share.tolist())
        # A buffer, to be on the right device without a copy each step; as whole numbers, so that .half() leaves its
        # float64 alone; not in the state dict, since it is an option and not learned.
        self.register_buffer("share_bits", None if share is None else share.view(torch.int64), persistent=False)

    def objective(self, part: Partition) -> dict[str, Tensor]:
        balance = objectives.balance_loss(
            part.assign,
            part.segments,
            sqrt=self.sqrt,
            cluster_sizes=None if self.share_bits is None else self.share_bits.view(torch.float64),
            normalize=self.normalize,
        )
        return {"balance": balance}

    def extra_repr(self) -> str:
        sizes = None if self.cluster_sizes is None else [round(size, 4) for size in self.cluster_sizes]
        return f"{super().extra_repr()}, sqrt={self.sqrt!r}, cluster_sizes={sizes}, normalize={self.normalize}"


class MinCutPool(ClusterPool):
    """MinCut pooling (Bianchi, Grattarola, Alippi, ICML 2020): a normalised cut and an orthogonality term."""

    def objective(self, part: Partition) -> dict[str, Tensor]:
        ones = part.assign.new_ones(part.assign.shape[0], 1)
        both = torch.cat([part.assign, ones], dim=1)                                    # (N, K + 1)
        both = propagate_normalized(part.graph, both, part.edge_weight)                 # An S, An 1
        return {
            "cut": objectives.cut_loss(part.assign, both[:, :-1], both[:, -1], part.segments),
            "ortho": objectives.ortho_loss(part.assign, part.segments),
        }


class DMoNPool(ClusterPool):
    """DMoN pooling (Tsitsulin, Palowitch, Perozzi, Mueller, JMLR 2023): modularity and a collapse term."""

    def objective(self, part: Partition) -> dict[str, Tensor]:
        return {
            "modularity": objectives.modularity_loss(part.assign, part.neighbours, part.degree, part.segments),
            "collapse": objectives.collapse_loss(part.assign, part.segments),
        }


class DiffPool(ClusterPool):
    """DiffPool (Ying et al., NeurIPS 2018): link prediction and entropy; assignments from a message-passing layer."""

    def logits(self, graph: DGLGraph, scores: Tensor, edge_weight: Tensor | None) -> Tensor:
        # A DeltaConv in place of the last dense layer: the same weights, then one smoothing step.
        return smooth(graph, scores, edge_weight=edge_weight)

    def objective(self, part: Partition) -> dict[str, Tensor]:
        weight = part.edge_weight
        squares = part.degree if weight is None else degree(part.graph, weight.square(), part.assign.dtype)
        return {
            "link": objectives.link_loss(part.assign, part.neighbours, squares, part.segments),
            "entropy": objectives.entropy_loss(part.assign, part.segments),
        }


class CombinedPool(JBPool):
    """Any losses with weights, such as the balance term of Just Balance inside MinCut: ``{"cut": 1, "balance": 1}``.

    Parameters are those of :class:`JBPool` (its options concern the balance term), and
    objective : loss name -> weight, of balance, cut, ortho, modularity, collapse, link, entropy.
    like : the pool whose way to make assignments is taken; only ``"diffpool"`` has one of its own.
    """

    def __init__(self, *args, objective: dict[str, float], like: str = "jb", **kwargs):
        super().__init__(*args, **kwargs)
        self.assigned_by = lookup(POOLS, like, "like")
        if not objective:
            raise ValueError(f"objective={objective!r}: name at least one loss, such as {{'cut': 1, 'balance': 1}}.")
        self.weights = {name: check_real(weight, f"objective.{name}") for name, weight in objective.items()}
        for name in self.weights:
            lookup(LOSSES, name, "objective")

    def logits(self, graph: DGLGraph, scores: Tensor, edge_weight: Tensor | None) -> Tensor:
        return self.assigned_by.logits(self, graph, scores, edge_weight)

    def objective(self, part: Partition) -> dict[str, Tensor]:
        values: dict[str, Tensor] = {}
        for name in self.weights:
            if name not in values:
                values |= LOSSES[name].objective(self, part)
        return {name: weight * values[name] for name, weight in self.weights.items()}

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, objective={self.weights}"


# Which pool knows which loss.
LOSSES: dict[str, type[ClusterPool]] = {
    "balance": JBPool,
    "cut": MinCutPool,
    "ortho": MinCutPool,
    "modularity": DMoNPool,
    "collapse": DMoNPool,
    "link": DiffPool,
    "entropy": DiffPool,
}

POOLS: dict[str, type[ClusterPool]] = {
    "jb": JBPool,
    "mincut": MinCutPool,
    "dmon": DMoNPool,
    "diffpool": DiffPool,
}
