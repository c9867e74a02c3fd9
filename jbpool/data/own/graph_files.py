"""One graph with attributes of its nodes in a GML, GraphML or GEXF file, read by networkx."""

from __future__ import annotations

import io
import logging
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jbpool.data.arrays import check_memory, narrow
from jbpool.data.assemble import narrow_weights
from jbpool.data.own.edges import EdgeList
from jbpool.data.own.tables import PLAIN, Table, unpacked
from jbpool.errors import DataError, reported_as

NAMES = ("label", "name")               # attributes that name a node, if every node has another one
COPIES = 60                             # of a file that its graph in networkx takes, about

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraphFile:
    """A graph as networkx has read it."""

    path: Path
    nodes: list[dict[str, Any]]         # attributes
    ids: np.ndarray                     # (N,) whole numbers or text
    edges: EdgeList

    def table(self, option: str, value: str | Path) -> Table | None:
        """Return a table of the ids and the node attributes that an option names; ``None`` if it names a file."""
        if Path(value).is_file():
            return None
        names, known = [name.strip() for name in str(value).split(",")], {name for node in self.nodes for name in node}
        unknown = [name for name in names if name not in known]
        if unknown:
            has = f"the nodes have {', '.join(sorted(known)) or 'none'}"
            problem = f"no such file, and no node attribute {unknown[0]!r}; {has}"
            raise DataError.at(self.path, f"dataset.{option}={value}: {problem}")
        columns: dict[int, Any] = {0: self.ids}
        for place, name in enumerate(names, start=1):
            values = [node.get(name) for node in self.nodes]
            if not all(value is None or isinstance(value, (str, int, float)) for value in values):
                raise DataError.at(self.path, f"the node attribute {name!r} is not a number or a word per node")
            columns[place] = pd.Series(values)
        return Table(self.path, pd.DataFrame(columns), ["id", *names])


def read_graph_file(path: Path, kind: str) -> GraphFile:
    """Return the graph of a file; ``kind``: ``gml``, ``graphml`` or ``gexf``. Directions are not used."""
    graph = _parse(path, kind)
    if not graph.number_of_nodes():
        raise DataError.at(path, "the graph has no nodes")
    nodes = [dict(attributes) for _, attributes in graph.nodes(data=True)]
    ids = _ids([*graph.nodes], nodes)
    place = {node: number for number, node in enumerate(graph.nodes)}
    ends = np.array([(place[a], place[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    given = [*graph.edges(data=True)]
    other = sorted({name for *_, attributes in given for name in attributes} - {"weight", "id", "key"})
    weight = [attributes.get("weight", 1.0 if kind == "gexf" else None) for *_, attributes in given]
    has_weight = any("weight" in attributes for *_, attributes in given)
    if other and not has_weight:
        log.warning("%s: edge attributes %s are not used; weights are read from one called weight", path, other)
    named = ids.dtype == object
    source, target = (narrow(end if named else ids[end]) for end in ends.T)
    edges = EdgeList(
        source, target, _weights(path, weight) if has_weight else None, ids if named else None,
        "edge attribute 'weight'" if has_weight else None,
        [f"edge attribute {name!r} of {path.name}" for name in other], np.sort(ids),
    )  # fmt: skip
    return GraphFile(path, nodes, ids, edges)


def _parse(path: Path, kind: str) -> Any:
    content = b"".join(unpacked(path))
    check_memory(path, COPIES * len(content), "the graph")
    if kind != "gml" and b"<!ENTITY" in content.replace(b"\0", b"").upper():
        raise DataError.at(path, "defines XML entities, which can grow without limit: write the file without them")
    import networkx

    with reported_as(path, f"networkx cannot read it as {kind.upper()}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")                 # of networkx, about attributes that are not read
        if kind == "gml":
            return networkx.parse_gml(content.decode("utf-8-sig").splitlines(), label="id")
        return (networkx.read_graphml if kind == "graphml" else networkx.read_gexf)(io.BytesIO(content))


def _ids(given: list[Any], nodes: list[dict[str, Any]]) -> np.ndarray:
    """Return the names of the nodes, else their ids: whole numbers if all of them are, else text."""
    for name in NAMES:
        values = [str(node.get(name, "")).strip() for node in nodes]
        if all(values) and len(set(values)) == len(values):
            given = values
            break
    if all(isinstance(value, int) or re.fullmatch(PLAIN, str(value)) for value in given):
        numbers = [int(value) for value in given]
        if len(set(numbers)) == len(numbers) and all(abs(number) < 1 << 63 for number in numbers):
            return np.array(numbers, dtype=np.int64)
    return np.array([str(value) for value in given], dtype=object)


def _weights(path: Path, given: list[Any]) -> np.ndarray:
    try:
        weight = np.array(given, dtype=np.float64)                  # None becomes NaN
    except (TypeError, ValueError, OverflowError):
        weight = np.array([np.nan])
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise DataError.at(path, "the 'weight' of every edge must be a finite number and not negative, or none has one")
    return narrow_weights(weight)
