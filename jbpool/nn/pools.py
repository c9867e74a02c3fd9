"""The pools: soft assignment -> objective -> coarsening, the path that all share, and a class for each.

Input and output have the same form (graph, features, edge weights) and the same kind of graph, so pools can be stacked
and every layer of DGL or PyG works on the result. A new pool is a class with its own ``objective``, a line in ``POOLS``
below and its name in ``names.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

import torch
from torch import Tensor, nn

from jbpool import objectives
from jbpool.checks import (
    check_cluster_sizes,
    check_count,
    check_flag,
    check_fraction,
    check_positive,
    check_ratio,
    check_real,
)
from jbpool.errors import JBPoolError
from jbpool.formats import Blocks
from jbpool.graph import Graph
from jbpool.inputs import check_features, checked_graph
from jbpool.names import PoolOptions, lookup, unknown_choices
from jbpool.nn.dropout import Dropout
from jbpool.nn.heads import HEADS, Activation, CosineHead, make_activation, spread_rows
from jbpool.nn.partition import TERMS, Partition, balance
from jbpool.nn.pooled import Pooled, coarsened
from jbpool.ops.adjacency import smooth
from jbpool.ops.segment import row_softmax, segments_of
from jbpool.ops.sparse import at_least_float32

Head = Literal["linear", "cosine"]
TEMPERATURE = 0.2      # the default, which a linear head ignores


class ClusterPool(nn.Module):
    """Base class of all pools; a subclass names its ``terms``, or has its own ``objective``.

    The parameters are those of ``JBPool`` without ``sqrt``, ``cluster_sizes`` and ``normalize``.
    """

    terms: ClassVar[tuple[str, ...]] = ()           # the losses, by their names in ``TERMS``
    smooth_scores: bool = False                     # pass the scores of the MLP through one smoothing step
    needs_gram: bool = False                        # the objective uses ``part.gram``; otherwise it is only slower
    options: ClassVar[tuple[str, ...]] = ("head", "temperature")        # fields of PoolOptions the constructor takes

    def __init__(
        self,
        in_feats: int,
        num_clusters: int,
        hidden_feats: Sequence[int] = (),
        *,
        ratio: float | None = None,
        activation: Activation = "relu",
        dropout: float = 0.0,
        head: Head = "linear",
        temperature: float = 0.2,
        **unknown: NoReturn,
    ):
        super().__init__()
        if unknown:
            raise JBPoolError(
                f"{type(self).__name__} has no {', '.join(unknown)}: only JBPool has sqrt, cluster_sizes, normalize."
            )
        self.in_feats = check_count(in_feats, "in_feats")
        self.num_clusters = check_count(num_clusters, "num_clusters")
        hidden = hidden_feats if isinstance(hidden_feats, Iterable) else [hidden_feats]
        widths = [self.in_feats, *(check_count(width, "hidden_feats") for width in hidden)]
        self.ratio = None if ratio is None else check_ratio(ratio, "ratio")
        make_activation(activation)                             # these are checked without hidden layers, too
        check_fraction(dropout, "dropout")
        make_head = lookup(HEADS, head, "head")
        check_positive(temperature, "temperature")
        if head != "cosine" and temperature != TEMPERATURE:
            raise JBPoolError(f"temperature={temperature!r} has no effect on a linear head: use head='cosine'.")

        layers: list[nn.Module] = []
        for width, next_width in pairwise(widths):
            layers += [nn.Linear(width, next_width), make_activation(activation), Dropout(dropout)]
        self.mlp = nn.Sequential(*layers, make_head(widths[-1], self.num_clusters, temperature))

    def __prepare_scriptable__(self):
        raise JBPoolError("TorchScript cannot compile layers of jbpool: use torch.compile or torch.export.")

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
        if len(feat) < self.num_clusters:
            raise JBPoolError(f"init_prototypes: {len(feat)} rows for {self.num_clusters} prototypes; give more rows.")
        for layer in list(self.mlp)[:-1]:
            if not isinstance(layer, Dropout):
                feat = layer(feat)
        head.weight.copy_(spread_rows(feat, self.num_clusters, generator))

    def objective(self, part: Partition) -> dict[str, Tensor]:
        """Return the losses of a soft partition: name -> ``(B,)``."""
        return {name: TERMS[name](part) for name in self.terms}

    if TYPE_CHECKING:

        def __call__(self, graph: Any, feat: Tensor, edge_weight: Tensor | None = None) -> Pooled: ...

    def cluster(
        self, graph: Any, feat: Tensor, edge_weight: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return assignments ``(N, K)`` and losses, name -> ``(B,)``, without the pooled graph, for node clustering.

        The parameters are those of ``forward``.
        """
        part = self._partition(graph, feat, edge_weight)
        return part.assign, self._losses(part)

    def forward(self, graph: Any, feat: Tensor, edge_weight: Tensor | None = None) -> Pooled:
        """Pool every graph of the batch to ``num_clusters`` nodes, or fewer by ``ratio``.

        Parameters
        ----------
        graph : DGLGraph, Data, Batch or Graph
            A graph or a batch of graphs that hold both directions of every edge.
        feat : Tensor
            Node features ``(N, in_feats)``.
        edge_weight : Tensor, optional
            Finite, non-negative weights ``(E,)``. Default: those of the graph.

        Returns
        -------
        Pooled
            The pooled batch, ``B`` complete graphs with features and edge weights, the assignments, and the losses to
            train with.
        """
        part = self._partition(graph, feat, edge_weight, coarsen=True)
        return coarsened(graph, part, self._losses(part), self._dtype)

    def _losses(self, part: Partition) -> dict[str, Tensor]:
        losses, expected = self.objective(part), (part.graph.num_graphs,)
        shapes = [getattr(loss, "shape", None) for loss in losses.values()] if isinstance(losses, dict) else []
        if not shapes or any(shape != expected for shape in shapes):
            raise JBPoolError(
                f"{type(self).__name__}.objective: return a dict of losses with one value per graph, of shape "
                f"{expected}, such as {{'balance': balance(part)}}."
            )
        return losses

    @property
    def _dtype(self) -> torch.dtype:
        """The type of the parameters."""
        return next(self.mlp.parameters()).dtype

    def _partition(
        self, given: Any, feat: Tensor, edge_weight: Tensor | None, coarsen: bool = False
    ) -> Partition:
        """Return the soft partition of a graph, with the features if they are to be pooled."""
        graph = checked_graph(given, feat, edge_weight, self._dtype, self.in_feats)
        scores = self.mlp(feat)                                                                             # (N, K)
        logits = at_least_float32(smooth(graph, scores) if self.smooth_scores else scores)
        coarse = clusters_of(graph, self.num_clusters, self.ratio)
        if self.ratio is not None:
            unused = torch.arange(self.num_clusters, device=graph.device) >= coarse.sizes[:, None]          # (B, K)
            logits = logits.masked_fill(unused.index_select(0, segments_of(graph).member), -torch.inf)
        return Partition(graph, row_softmax(logits), coarse, feat if coarsen else None, self.needs_gram)

    def extra_repr(self) -> str:
        ratio = "" if self.ratio is None else f", ratio={self.ratio}"
        return f"in_feats={self.in_feats}, num_clusters={self.num_clusters}{ratio}"


def clusters_of(graph: Graph, num_clusters: int, ratio: float | None) -> Graph:
    """Return the graph of the clusters, complete and without weights; the source keeps it where sizes decide."""
    if ratio is None:
        return Graph.complete(graph.num_graphs, num_clusters, graph.idtype, graph.device)

    def make() -> Graph:
        counts = (graph.sizes.double() * ratio).ceil().long().clamp(1, num_clusters)        # (B,)
        return Graph.of_blocks(Blocks.of(counts, num_clusters, graph.idtype))

    return graph.remembered(("clusters", num_clusters, ratio), make)


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
    ratio : float, optional
        Clusters by the size of each graph: ``K_g = min(num_clusters, max(1, ceil(ratio * n_g)))`` for n_g nodes.
        Default: ``num_clusters`` in every graph.
    sqrt : str, optional
        ``"matrix"``, the paper's matrix square root, exact and in float64; or ``"diagonal"``, the element-wise root
        of public implementations, O(N K). Default: ``"matrix"``.
    cluster_sizes : sequence of float, optional
        Known proportions of the clusters, which sum to one. Default: equal sizes.
    normalize : bool, optional
        Scale the loss of every graph to [-1, 0). Default: True.
    activation : str or callable, optional
        Activation between the layers of the MLP: relu, elu, gelu, leaky_relu, silu, tanh, or a function.
        Default: ``"relu"``.
    dropout : float, optional
        Dropout rate of the hidden layers. Default: 0.
    head : str, optional
        Last layer of the MLP: ``"linear"``, or ``"cosine"`` for bounded logits, the cosine to K learned prototypes
        divided by ``temperature``. Default: ``"linear"``.
    temperature : float, optional
        Temperature of the cosine head. Default: 0.2.

    Examples
    --------
    >>> rings = [torch.tensor([[i, (i + 1) % 20] for i in range(20)]).T + 20 * g for g in range(3)]
    >>> one_way = torch.cat(rings, dim=1)
    >>> batch = Graph(torch.cat([one_way, one_way.flip(0)], dim=1), sizes=[20, 20, 20])     # or a DGLGraph, a PyG Batch
    >>> pool = JBPool(64, num_clusters=8, hidden_feats=(16,))
    >>> pooled = pool(batch, torch.randn(60, 64))
    >>> pooled.feat.shape, pooled.losses["balance"].shape
    (torch.Size([24, 64]), torch.Size([3]))
    >>> pooled.loss.backward()
    """

    options = (*ClusterPool.options, "sqrt", "cluster_sizes")
    cluster_sizes: Tensor | None

    def __init__(
        self,
        in_feats: int,
        num_clusters: int,
        hidden_feats: Sequence[int] = (),
        *,
        ratio: float | None = None,
        sqrt: objectives.Sqrt = "matrix",
        cluster_sizes: Sequence[float] | Tensor | None = None,
        normalize: bool = True,
        activation: Activation = "relu",
        dropout: float = 0.0,
        head: Head = "linear",
        temperature: float = 0.2,
    ):
        super().__init__(
            in_feats, num_clusters, hidden_feats, ratio=ratio,
            activation=activation, dropout=dropout, head=head, temperature=temperature,
        )  # fmt: skip
        lookup(objectives.TRACES, sqrt, "sqrt")
        self.sqrt: objectives.Sqrt = sqrt
        self.needs_gram = sqrt == "matrix"
        self.normalize = check_flag(normalize, "normalize")
        if cluster_sizes is not None and ratio is not None:
            raise JBPoolError(f"ratio={ratio!r} and cluster_sizes contradict each other: leave one of them out.")
        share = None
        if cluster_sizes is not None:
            with torch.device("cpu"):                       # also if the layer is built on the meta device
                share = check_cluster_sizes(cluster_sizes, self.num_clusters)
        self._shares = [] if share is None else share.tolist()
        self.register_buffer("cluster_sizes", share, persistent=False)

    def _apply(self, *args, **kwargs):
        """Move the buffer with the parameters, but keep it in float64, and its values on leaving the meta device."""
        super()._apply(*args, **kwargs)
        if self.cluster_sizes is not None:
            self.cluster_sizes = torch.tensor(self._shares, dtype=torch.float64, device=self.cluster_sizes.device)
        return self

    def objective(self, part: Partition) -> dict[str, Tensor]:
        return {"balance": balance(part, self.sqrt, self.cluster_sizes, self.normalize)}

    def extra_repr(self) -> str:
        sizes = [round(size, 4) for size in self._shares] or None
        return f"{super().extra_repr()}, sqrt={self.sqrt!r}, cluster_sizes={sizes}, normalize={self.normalize}"


class MinCutPool(ClusterPool):
    """MinCut pooling (Bianchi, Grattarola, Alippi, ICML 2020): a normalised cut and an orthogonality term.

    The parameters are those of ``ClusterPool``.
    """

    terms = ("cut", "ortho")
    needs_gram = True


class DMoNPool(ClusterPool):
    """DMoN pooling (Tsitsulin, Palowitch, Perozzi, Mueller, JMLR 2023): modularity and a collapse term.

    The parameters are those of ``ClusterPool``.
    """

    terms = ("modularity", "collapse")


class DiffPool(ClusterPool):
    """DiffPool (Ying et al., NeurIPS 2018): link prediction and entropy; assignments from a message-passing layer.

    The parameters are those of ``ClusterPool``.
    """

    terms = ("link", "entropy")
    smooth_scores = True            # a DeltaConv in place of the last dense layer: the same weights, then one step
    needs_gram = True


class CombinedPool(JBPool):
    """A weighted sum of any loss terms, such as MinCut with the balance term: ``{"cut": 1, "balance": 1}``.

    The parameters are those of ``JBPool``, whose own options apply to the balance term; ``objective``: name of a term
    in ``TERMS`` -> weight; ``smooth_scores``: pass the scores of the MLP through one smoothing step, as DiffPool does.
    """

    def __init__(self, *args: Any, objective: Mapping[str, float], smooth_scores: bool = False, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if not objective or not isinstance(objective, Mapping):
            raise JBPoolError(f"objective={objective!r}: give losses with weights, such as {{'cut': 1, 'balance': 1}}.")
        for name in objective:
            lookup(TERMS, name, "objective")
        self.weights = {name: check_real(weight, f"objective.{name}") for name, weight in objective.items()}
        self.smooth_scores = check_flag(smooth_scores, "smooth_scores")

    def objective(self, part: Partition) -> dict[str, Tensor]:
        found = {name: TERMS[name](part) for name in self.weights if name != "balance"}
        if "balance" in self.weights:
            found |= super().objective(part)
        return {name: weight * found[name] for name, weight in self.weights.items()}

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, objective={self.weights}"


def option_problems(options: PoolOptions) -> Iterator[tuple[str, str]]:
    """Yield option and problem of every value that no pool accepts."""
    yield from unknown_choices([(objectives.TRACES, options.sqrt, "sqrt"), (HEADS, options.head, "head")])
    shares = options.cluster_sizes
    checks: dict[str, Callable[[], Any]] = {"temperature": lambda: check_positive(options.temperature, "temperature")}
    if shares is not None:
        checks["cluster_sizes"] = lambda: check_cluster_sizes(shares, len(shares))
    for option, check in checks.items():
        try:
            check()
        except JBPoolError as error:
            yield option, str(error)


# name -> class, and options that the name fixes
POOLS: dict[str, tuple[type[ClusterPool], dict[str, Any]]] = {
    "jb": (JBPool, {}),
    "jb-diagonal": (JBPool, {"sqrt": "diagonal"}),
    "mincut": (MinCutPool, {}),
    "dmon": (DMoNPool, {}),
    "diffpool": (DiffPool, {}),
}


def options_of(name: str) -> set[str]:
    """Return the fields of ``PoolOptions`` that a pool takes."""
    kind, fixed = POOLS[name]
    return {*kind.options} - {*fixed}


def make_pool(
    name: str,
    in_feats: int,
    num_clusters: int,
    hidden_feats: Sequence[int] = (),
    *,
    ratio: float | None = None,
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
    ratio : float, optional
        Clusters by the size of each graph, at most ``num_clusters``. Default: ``num_clusters`` in every graph.
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
    >>> make_pool("mincut", 16, 4, objective={"cut": 1.0, "balance": 0.5}).weights
    {'cut': 1.0, 'balance': 0.5}
    """
    named, fixed = lookup(POOLS, name, "pool")
    pool = named if objective is None else CombinedPool
    chosen = {option: getattr(options or PoolOptions(), option) for option in pool.options} | fixed
    if chosen["head"] != "cosine":
        del chosen["temperature"]               # it does not apply
    if objective is not None:
        chosen |= {"objective": objective, "smooth_scores": named.smooth_scores}
    return pool(in_feats, num_clusters, hidden_feats, ratio=ratio, **chosen)
