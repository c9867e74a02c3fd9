"""The loss terms by name: functions of a :class:`~jbpool.nn.partition.Partition`, one value per graph.

A new term is a function here and a line in ``TERMS``. A pool lists the names of its terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from jbpool import objectives
from jbpool.nn.partition import Partition


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
