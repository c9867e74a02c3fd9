"""What configurations choose from: names and options that are known without importing what they stand for.

Nothing here imports torch, so that ``--list`` and mistakes in a configuration are answered at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from jbpool.errors import JBPoolError

T = TypeVar("T")


POOLS = ("jb", "jb-diagonal", "mincut", "dmon", "diffpool")      # classes in nn/pools.py
SELECTIONS = ("topk", "sag", "kmis", "graclus", "random")        # without a loss; of nn/selection.py
BACKBONES = ("delta", "gcn", "gin", "sage", "gat")      # functions in nn/conv.py that make a layer


@dataclass
class PoolOptions:
    """Options of the pools by name. A pool ignores options that do not apply to it."""

    sqrt: str = "matrix"                            # balance term: matrix (the paper's) or diagonal (element-wise)
    cluster_sizes: list[float] | None = None        # balance term: known proportions of the clusters
    head: str = "linear"                            # last layer: linear, or cosine (bounded logits)
    temperature: float = 0.2                        # of the cosine head


def hint(name: object, choices: Iterable[str], prefix: str = "", suffix: str = "") -> str:
    """Return ``" Did you mean 'gin'?"`` if one of the choices is similar, else an empty text."""
    choices = list(choices)
    same = [choice for choice in choices if choice.lower() == str(name).lower()]
    similar = same or get_close_matches(str(name), choices, n=1)
    return f" Did you mean {prefix + similar[0] + suffix!r}?" if similar else ""


def lookup(table: Mapping[str, T], name: str, what: str) -> T:
    """Return ``table[name]``, or a ``JBPoolError`` that suggests the closest name and lists the choices."""
    if isinstance(name, str) and name in table:
        return table[name]
    raise JBPoolError(f"{what}={name!r} is unknown.{hint(name, table)} Choose one of: {', '.join(table)}.")


def unknown_choices(choices: Iterable[tuple[Mapping[str, Any], str, str]]) -> Iterator[tuple[str, str]]:
    """Yield key and problem of every unknown name; ``choices``: (table, name, key)."""
    for table, name, key in choices:
        try:
            lookup(table, name, key)
        except JBPoolError as error:
            yield key, str(error)


def wrong_number_of_sizes(
    cluster_sizes: Sequence[float] | None, clusters: Sequence[int | str | None]
) -> Iterator[tuple[str, str]]:
    """Yield key and problem of ``cluster_sizes`` that do not fit the numbers of clusters, where known."""
    for count in clusters:
        if cluster_sizes is not None and isinstance(count, int) and count != len(cluster_sizes):
            given = f"method.cluster_sizes has {len(cluster_sizes)} entries"
            yield "method.cluster_sizes", f"{given} for {count} clusters: give one per cluster"
            return
