"""What configurations choose from: names and options that are known without importing what they stand for.

Nothing here imports torch, so that ``--list`` and mistakes in a configuration are answered at once.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

from jbpool.errors import JBPoolError

T = TypeVar("T")


class PoolName(NamedTuple):
    """A name of a pool: its class in ``nn/pools.py``, and options that the name fixes."""

    pool: str
    fixed: Mapping[str, Any] = {}


POOLS = {
    "jb": PoolName("JBPool"),
    "jb-diagonal": PoolName("JBPool", {"sqrt": "diagonal"}),
    "mincut": PoolName("MinCutPool"),
    "dmon": PoolName("DMoNPool"),
    "diffpool": PoolName("DiffPool"),
}
BACKBONES = ("delta", "gcn", "gin", "sage", "gat")      # functions in nn/conv.py that make a layer


@dataclass
class PoolOptions:
    """Options of the pools by name. A pool ignores options that do not apply to it."""

    sqrt: str = "matrix"                            # balance term: matrix (the paper's) or diagonal (element-wise)
    cluster_sizes: list[float] | None = None        # balance term: known proportions of the clusters
    head: str = "linear"                            # last layer: linear, or cosine (bounded logits)
    temperature: float = 0.2                        # of the cosine head


def hint(name: object, known: Iterable[str], prefix: str = "", suffix: str = "") -> str:
    """Return ``" Did you mean 'gin'?"`` if a known name is similar, else an empty text."""
    known = list(known)
    same = [other for other in known if other.lower() == str(name).lower()]
    near = same or get_close_matches(str(name), known, n=1)
    return f" Did you mean {prefix + near[0] + suffix!r}?" if near else ""


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


def convert(value: Any, kind: Any) -> Any:
    """Return ``value`` as the annotated type, or a ``TypeError``; a single number is accepted for a list."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        for option in inner:
            try:
                return convert(value, option)
            except TypeError:
                continue
        raise TypeError
    if origin in (list, Sequence):
        items = value if isinstance(value, Iterable) and not isinstance(value, (str, dict)) else [value]
        return [convert(item, inner[0]) for item in items]
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError
        return {convert(key, inner[0]): convert(item, inner[1]) for key, item in value.items()}
    if not isinstance(value, {int: Integral, float: Real}.get(kind, kind)) or isinstance(value, bool) != (kind is bool):
        raise TypeError
    try:
        return float(value) if kind is float else value
    except OverflowError:                   # a whole number beyond the range of floating-point numbers
        raise TypeError from None


def readable(kind: Any) -> str:
    """Return what a value of the annotated type looks like, for messages."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        options = ("nothing" if option is type(None) else readable(option) for option in typing.get_args(kind))
        return " or ".join(dict.fromkeys(options))
    if typing.get_origin(kind) in (list, Sequence):
        return f"a list of {readable(typing.get_args(kind)[0]).removeprefix('a ')}s"
    if typing.get_origin(kind) is dict:
        return "a mapping of names to " + ("mappings" if typing.get_args(kind)[1] is dict else "numbers")
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "text")
