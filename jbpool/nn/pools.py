"""The pools: soft assignment -> objective -> coarsening, the path that all share, and a class for each.

Input and output have the same form (graph, features, edge weights), so pools can be stacked and any DGL layer works on
the result. A new loss term is a function and a line in ``TERMS``; a new pool is a class that lists its terms, and a
line in ``POOLS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import torch
from dgl import DGLGraph
from torch import Tensor, nn

from jbpool import objectives
from jbpool.checks import (
    check_cluster_sizes,
    check_count,
    check_flag,
    check_fraction,
    check_positive,
    check_real,
    lookup,
    unknown_choices,
)
from jbpool.errors import JBPoolError
from jbpool.nn.dropout import Dropout
from jbpool.nn.heads import HEADS, CosineHead, spread_rows
from jbpool.ops.adjacency import degree, propagate, propagate_normalized, smooth
from jbpool.ops.coarsen import complete_graphs, normalized_off_diagonal
from jbpool.ops.graph_checks import check_edge_weight, check_feat, check_features, check_graph
from jbpool.ops.segment import (
    Segments,
    make_segments,
    row_softmax,
    segment_gram,
    segment_gram_and_products,
    segment_products,
)
from jbpool.ops.sparse import at_least_float32


@dataclass(frozen=True, eq=False)
class Partition:
    """Assignments and the graph they belong to. Products with the adjacency are computed once, on first use."""

    graph: DGLGraph
    assign: Tensor                  # (N, K)
    segments: Segments
    edge_weight: Tensor | None      # (E,)
    feat: Tensor | None = None      # (N, D)  to be pooled, if any

    @cached_property
    def gram(self) -> Tensor:
        """``S^T S`` of each graph, (B, K, K) float64."""
        return segment_gram(self.assign, self.segments) if self.feat is None else self._gram_and_pooled[0]

    @cached_property
    def pooled(self) -> tuple[Tensor, ...]:
        """``S^T (A S)`` and ``S^T X`` of each graph, (B, K, K) and (B, K, D)."""
        if "gram" in vars(self):
            return self._gram_and_pooled[1]
        return segment_products(self.assign, self._columns, self.segments)

    @cached_property
    def _gram_and_pooled(self) -> tuple[Tensor, tuple[Tensor, ...]]:
        return segment_gram_and_products(self.assign, self._columns, self.segments)

    @property
    def _columns(self) -> tuple[Tensor, Tensor]:
        assert self.feat is not None
        return self.neighbours, self.feat

    @cached_property
    def neighbours(self) -> Tensor:
        """``A S``, (N, K)."""
        return propagate(self.graph, self.assign, self.edge_weight)

    @cached_property
    def degree(self) -> Tensor:
        """``A 1``, (N,)."""
        return degree(self.graph, self.edge_weight, self.assign.dtype)

    @cached_property
    def squared_degree(self) -> Tensor:
        """The sum of the squared weights of each node's edges, (N,)."""
        if self.edge_weight is None:
            return self.degree
        return degree(self.graph, self.edge_weight.square(), self.assign.dtype)

    @property
    def normalized_neighbours(self) -> Tensor:
        """``An S`` with An = D^-1/2 A D^-1/2, (N, K)."""
        return self._normalized[:, :-1]

    @property
    def normalized_degree(self) -> Tensor:
        """``An 1``, (N,)."""
        return self._normalized[:, -1]

    @cached_property
    def _normalized(self) -> Tensor:
        """``An [S, 1]`` in a single product, (N, K + 1)."""
        ones = self.assign.new_ones(self.assign.shape[0], 1)
        return propagate_normalized(self.graph, torch.cat([self.assign, ones], dim=1), self.edge_weight)


def balance(
    part: Partition,
    sqrt: str = "matrix",
    cluster_sizes: Sequence[float] | Tensor | None = None,
    normalize: bool = True,
) -> Tensor:
    """Just Balance: ``-Tr(sqrt(S^T S))``."""
    gram = part.gram if sqrt == "matrix" else None
    return objectives.balance_loss(
        part.assign, part.segments, sqrt=sqrt, cluster_sizes=cluster_sizes, normalize=normalize, gram=gram
    )


def cut(part: Partition) -> Tensor:
    """MinCut's normalised cut."""
    return objectives.cut_loss(part.assign, part.normalized_neighbours, part.normalized_degree, part.segments)


def ortho(part: Partition) -> Tensor:
    """MinCut's orthogonality term."""
    return objectives.ortho_loss(part.assign, part.segments, part.gram)


def modularity(part: Partition) -> Tensor:
    """DMoN's modularity."""
    return objectives.modularity_loss(part.assign, part.neighbours, part.degree, part.segments)


def collapse(part: Partition) -> Tensor:
    """DMoN's collapse regularisation."""
    return objectives.collapse_loss(part.assign, part.segments)


def link(part: Partition) -> Tensor:
    """DiffPool's link prediction."""
    return objectives.link_loss(part.assign, part.neighbours, part.squared_degree, part.segments, part.gram)


def entropy(part: Partition) -> Tensor:
    """DiffPool's row entropy."""
    return objectives.entropy_loss(part.assign, part.segments)


# name -> term. Keyword arguments of a term are options, which a pool sets in ``term_options``.
TERMS: dict[str, Callable[..., Tensor]] = {
    "balance": balance,
    "cut": cut,
    "ortho": ortho,
    "modularity": modularity,
    "collapse": collapse,
    "link": link,
    "entropy": entropy,
}


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


__all__ = [
    "POOLS", "ClusterPool", "CombinedPool", "DMoNPool", "DiffPool", "JBPool", "MinCutPool", "PoolOptions", "Pooled",
    "make_pool",
]  # fmt: skip


class JBPool(ClusterPool):
    """Just Balance pooling (Bianchi, "Simplifying Clustering with Graph Neural Networks", NLDL 2023).

    Learns clusters by the balancing term ``-Tr(sqrt(S^T S))`` alone: no cut term, no N x N matrix. The features
    must come from message passing, which makes neighbours similar (see ``DeltaConv``).

    Parameters
    ----------
    in_feats : int
        Size D of the node features.
    num_clusters : int
        Number of clusters K, the nodes of each pooled graph.
    hidden_feats : sequence of int, optional
        Sizes of the hidden layers of the MLP that computes the assignments. Default: none.
    sqrt : str, optional
        ``"matrix"``, the paper's matrix square root, exact and in float64; or ``"diagonal"``, the element-wise root
        of public implementations, O(N K). Default: ``"matrix"``.
    cluster_sizes : sequence of float, optional
        Known proportions of the clusters, which sum to one. Default: equal sizes.
    normalize : bool, optional
        Scale the loss of every graph to [-1, 0). Default: True.
    activation : str, optional
        Activation between the layers of the MLP: relu, elu, gelu, leaky_relu, silu or tanh. Default: ``"relu"``.
    dropout : float, optional
        Dropout rate of the hidden layers. Default: 0.
    head : str, optional
        Last layer of the MLP: ``"linear"``, or ``"cosine"`` for bounded logits, the cosine to K learned prototypes
        divided by ``temperature``. Default: ``"linear"``.
    temperature : float, optional
        Temperature of the cosine head. Default: 0.2.

    Examples
    --------
    >>> import dgl
    >>> batch = dgl.batch([dgl.add_reverse_edges(dgl.rand_graph(20, 40)) for _ in range(3)])
    >>> pool = JBPool(64, num_clusters=8, hidden_feats=(16,))
    >>> pooled = pool(batch, torch.randn(60, 64))
    >>> pooled.feat.shape, pooled.losses["balance"].shape
    (torch.Size([24, 64]), torch.Size([3]))
    >>> pooled.loss.backward()
    """

    terms: tuple[str, ...] = ("balance",)
    options = (*ClusterPool.options, "sqrt", "cluster_sizes")
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
        head: str = "linear",
        temperature: float = 0.2,
    ):
        super().__init__(
            in_feats, num_clusters, hidden_feats,
            activation=activation, dropout=dropout, head=head, temperature=temperature,
        )  # fmt: skip
        lookup(objectives.TRACES, sqrt, "sqrt")
        self.sqrt = sqrt
        self.normalize = check_flag(normalize, "normalize")
        share = None
        if cluster_sizes is not None:
            with torch.device("cpu"):                       # also if the layer is built on the meta device
                share = check_cluster_sizes(cluster_sizes, self.num_clusters)
        self.cluster_sizes = None if share is None else tuple(share.tolist())
        device = next(self.mlp.parameters()).device
        if share is not None and device.type != "meta":
            share = share.to(device)
        # A buffer, to be on the right device without a copy at each step; stored as integers, so that .half() does not
        # round the float64 values; not in the state dict, since it is an option and not learned.
        self.register_buffer("share_bits", None if share is None else share.view(torch.int64), persistent=False)

    def reset_parameters(self) -> None:
        """Draw new random weights for the MLP; after ``to_empty``, also restore ``cluster_sizes``."""
        super().reset_parameters()
        if self.share_bits is not None:
            share = torch.tensor(self.cluster_sizes, dtype=torch.float64, device=self.share_bits.device)
            self.share_bits = share.view(torch.int64)

    def term_options(self) -> dict[str, dict[str, Any]]:
        share = None if self.share_bits is None else self.share_bits.view(torch.float64)
        return {"balance": {"sqrt": self.sqrt, "cluster_sizes": share, "normalize": self.normalize}}

    def extra_repr(self) -> str:
        sizes = None if self.cluster_sizes is None else [round(size, 4) for size in self.cluster_sizes]
        return f"{super().extra_repr()}, sqrt={self.sqrt!r}, cluster_sizes={sizes}, normalize={self.normalize}"


class MinCutPool(ClusterPool):
    """MinCut pooling (Bianchi, Grattarola, Alippi, ICML 2020): a normalised cut and an orthogonality term.

    The parameters are those of :class:`ClusterPool`.
    """

    terms = ("cut", "ortho")


class DMoNPool(ClusterPool):
    """DMoN pooling (Tsitsulin, Palowitch, Perozzi, Mueller, JMLR 2023): modularity and a collapse term.

    The parameters are those of :class:`ClusterPool`.
    """

    terms = ("modularity", "collapse")


class DiffPool(ClusterPool):
    """DiffPool (Ying et al., NeurIPS 2018): link prediction and entropy; assignments from a message-passing layer.

    The parameters are those of :class:`ClusterPool`.
    """

    terms = ("link", "entropy")
    smooth_scores = True            # a DeltaConv in place of the last dense layer: the same weights, then one step


class CombinedPool(JBPool):
    """A weighted sum of any loss terms, such as MinCut with the balance term: ``{"cut": 1, "balance": 1}``.

    Parameters
    ----------
    *args, **kwargs
        As for :class:`JBPool`; its own options apply to the balance term.
    objective : dict of str to float
        Name of the term -> weight; terms are balance, cut, ortho, modularity, collapse, link and entropy.
    smooth_scores : bool, optional
        Pass the scores of the MLP through one smoothing step, as DiffPool does. Default: False.
    """

    def __init__(self, *args, objective: Mapping[str, float], smooth_scores: bool = False, **kwargs):
        super().__init__(*args, **kwargs)
        if not objective or not isinstance(objective, Mapping):
            raise JBPoolError(f"objective={objective!r}: give losses with weights, such as {{'cut': 1, 'balance': 1}}.")
        for name in objective:
            lookup(TERMS, name, "objective")
        self.terms = tuple(objective)
        self.weights = {name: check_real(weight, f"objective.{name}") for name, weight in objective.items()}
        self.smooth_scores = check_flag(smooth_scores, "smooth_scores")

    def objective(self, part: Partition) -> dict[str, Tensor]:
        return {name: self.weights[name] * loss for name, loss in super().objective(part).items()}

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, objective={self.weights}"


@dataclass
class PoolOptions:
    """Options of the pools by name. A pool ignores options that do not apply to it."""

    sqrt: str = "matrix"                            # balance term: matrix (the paper's) or diagonal (element-wise)
    cluster_sizes: list[float] | None = None        # balance term: known proportions of the clusters
    head: str = "linear"                            # last layer: linear, or cosine (bounded logits)
    temperature: float = 0.2                        # of the cosine head


def option_problems(options: PoolOptions) -> Iterator[tuple[str, str]]:
    """Option and problem of every value that no pool accepts."""
    yield from unknown_choices([(objectives.TRACES, options.sqrt, "sqrt"), (HEADS, options.head, "head")])
    try:
        check_positive(options.temperature, "temperature")
    except JBPoolError as error:
        yield "temperature", str(error)
    try:
        if options.cluster_sizes is not None:
            check_cluster_sizes(options.cluster_sizes, len(options.cluster_sizes))
    except JBPoolError as error:
        yield "cluster_sizes", str(error)


class PoolEntry(NamedTuple):
    """A pool by name: its class, and options that the name fixes."""

    pool: type[ClusterPool]
    fixed: Mapping[str, Any] = {}


POOLS: dict[str, PoolEntry] = {
    "jb": PoolEntry(JBPool),
    "jb-diagonal": PoolEntry(JBPool, {"sqrt": "diagonal"}),
    "mincut": PoolEntry(MinCutPool),
    "dmon": PoolEntry(DMoNPool),
    "diffpool": PoolEntry(DiffPool),
}


def make_pool(
    name: str,
    in_feats: int,
    num_clusters: int,
    hidden_feats: Sequence[int] = (),
    *,
    options: PoolOptions | None = None,
    objective: Mapping[str, float] | None = None,
) -> ClusterPool:
    """Build a pool by its name.

    Parameters
    ----------
    name : str
        A key of ``POOLS``: jb, jb-diagonal, mincut, dmon or diffpool.
    in_feats : int
        Size D of the node features.
    num_clusters : int
        Number of clusters K.
    hidden_feats : sequence of int, optional
        Sizes of the hidden layers of the MLP that computes the assignments. Default: none.
    options : PoolOptions, optional
        Further options. A pool ignores options that do not apply to it. Default: the defaults of ``PoolOptions``.
    objective : dict of str to float, optional
        Loss terms with weights instead of the terms of the pool. Default: the terms of the pool.

    Examples
    --------
    >>> make_pool("jb", 16, 4, options=PoolOptions(head="cosine")).mlp
    Sequential(
      (0): CosineHead(16, 4, temperature=0.2)
    )
    >>> make_pool("mincut", 16, 4, objective={"cut": 1.0, "balance": 0.5}).terms
    ('cut', 'balance')
    """
    entry = lookup(POOLS, name, "pool")
    if options is not None and not isinstance(options, PoolOptions):
        raise JBPoolError(f"options={options!r}: give PoolOptions(...), such as PoolOptions(head='cosine').")
    pool = entry.pool if objective is None else CombinedPool
    chosen = {option: getattr(options or PoolOptions(), option) for option in pool.options} | dict(entry.fixed)
    if objective is not None:
        chosen |= {"objective": objective, "smooth_scores": entry.pool.smooth_scores}
    return pool(in_feats, num_clusters, hidden_feats, **chosen)
