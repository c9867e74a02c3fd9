"""The pools: each lists its loss terms; :func:`make_pool` builds them by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jbpool import objectives
from jbpool.checks import check_cluster_sizes, check_flag, check_positive, check_real, lookup, unknown_choices
from jbpool.errors import JBPoolError
from jbpool.nn.cluster_pool import ClusterPool, Pooled
from jbpool.nn.heads import HEADS
from jbpool.nn.partition import Partition
from jbpool.nn.terms import TERMS

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
