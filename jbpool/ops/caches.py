"""The caches of what is computed from graphs and tensors, by name, and one function that clears them.

Entries belong to a graph or a tensor and disappear with it, or their number is limited, so clearing is never necessary.
It frees memory early, and tests and benchmarks use it to start cold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jbpool.checks import lookup

C = TypeVar("C")

CACHES: dict[str, Callable[[], Any]] = {}           # name -> function that empties the cache


def named(name: str, cache: C) -> C:
    """Register a mapping or a function wrapped by ``lru_cache`` as a cache; returns it."""
    CACHES[name] = getattr(cache, "cache_clear", None) or cache.clear      # type: ignore[attr-defined]
    return cache


def clear(*names: str) -> None:
    """Empty the caches of these names, by default all of them.

    Examples
    --------
    >>> import jbpool
    >>> sorted(CACHES)
    ['operators', 'pooled_topologies', 'sparse_features']
    >>> clear()
    """
    for name in names or CACHES:
        lookup(CACHES, name, "cache")()
