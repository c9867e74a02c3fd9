"""Graphs of networkx, igraph, DGL and PyG, and the files that networkx reads, as edges with weights and attributes."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jbpool.data.own.edges import Edges, edges_of_graph, table_of_nodes
from jbpool.data.own.tables import PLAIN
from jbpool.data.own.text import unpacked
from jbpool.errors import DataError
from jbpool.graph import as_graph
from jbpool.interop import edge_numbers, is_dgl, is_pyg, networkx_ends

NODE_NAMES = ("label", "name")          # attributes that name a node in a file, if every node has another one

log = logging.getLogger(__name__)


def edges_of_library(given: Any) -> Edges:
    """Return a graph of DGL or PyG with its weights and features, or a ``Graph``."""
    graph, feat, name, fix = as_graph(given), None, "edge_weight", "both directions of every edge"
    unused: set[str] = set()
    if is_dgl(given):
        feat, name, fix = given.ndata.get("feat"), "edata['weight']", "dgl.to_bidirected(graph, copy_ndata=True)"
        unused = {*given.edata} - {"weight", "_ID"}
        if graph.edge_weight is not None:
            fix = "dgl.add_reverse_edges(graph, copy_ndata=True, copy_edata=True)"
    elif is_pyg(given):
        feat, fix = getattr(given, "x", None), "torch_geometric.transforms.ToUndirected()(data)"
        unused = set() if getattr(given, "edge_attr", None) is None else {"edge_attr"}
    what = f"the {type(given).__name__}"
    return _of_graph(what, graph.edge_index, graph.edge_weight, graph.num_nodes, None, name, fix, unused, feat)


def edges_of_networkx(graph: Any) -> Edges:
    weight = edge_numbers([weight for *_, weight in graph.edges(data="weight")], "the networkx graph")
    unused = {name for *_, attributes in graph.edges(data=True) for name in attributes} - {"weight"}
    fix, ids = "graph.to_undirected()" if graph.is_directed() else "", _objects([*graph.nodes])
    return _of_graph("the networkx graph", networkx_ends(graph), weight, len(graph), ids, "'weight'", fix, unused)


def edges_of_igraph(graph: Any) -> Edges:
    """Return a graph of igraph; its nodes are called by the attribute ``name``, if all have different ones."""
    ends = torch.tensor(graph.get_edgelist(), dtype=torch.int64).view(-1, 2).T
    weight = edge_numbers(graph.es["weight"] if "weight" in graph.es.attributes() else [], "the igraph graph")
    names = graph.vs["name"] if "name" in graph.vs.attributes() else []
    ids = _objects(names) if names and None not in names and len(set(names)) == len(names) else None
    fix, unused = "graph.as_undirected()" if graph.is_directed() else "", {*graph.es.attributes()} - {"weight"}
    return _of_graph("the igraph graph", ends, weight, graph.vcount(), ids, "'weight'", fix, unused)


def _objects(names: list[Any]) -> np.ndarray:
    """Return names, which may be tuples, as an array."""
    return np.fromiter(names, dtype=object, count=len(names))


def _of_graph(
    what: str, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, ids: np.ndarray | None,
    weight_name: str, fix: str, unused: Collection[str], feat: Any = None,
) -> Edges:  # fmt: skip
    """Return the edges of tensors; ``unused``: attributes of the edges that are no weights."""
    weight = None if edge_weight is None else edge_weight.detach().cpu().double().numpy()
    ignored = _unused(what, unused, weight, f"weights are read from {weight_name}")
    ends = edge_index.cpu().numpy()
    return edges_of_graph(what, ends, weight, num_nodes, ids, weight_name, fix, ignored=ignored, feat=feat)


def _unused(what: Path | str, names: Collection[str], weight: np.ndarray | None, fix: str) -> list[str]:
    """Return edge attributes that are not used, for the summary; mention them if there are no weights."""
    if names and weight is None:
        log.warning("%s: edge attributes %s are not used; %s", what, sorted(names), fix)
    return [f"edge attribute {name!r} of {getattr(what, 'name', what)}" for name in sorted(names)]


def edges_of_graph_file(path: Path, kind: str, named: str) -> Edges:
    """Return the graph of a file; ``kind``: ``gml``, ``graphml`` or ``gexf``; ``named``: the attribute of the weights.

    Directions are not used.
    """
    import pandas as pd

    graph = _parsed(path, kind)
    if not graph.number_of_nodes():
        raise DataError.at(path, "the graph has no nodes")
    nodes = [dict(attributes) for _, attributes in graph.nodes(data=True)]
    ids = _names([*graph.nodes], nodes)
    given = [attributes for *_, attributes in graph.edges(data=True)]
    unused = {name for attributes in given for name in attributes} - {named, "id", "key"}
    if named != "weight" and not any(named in attributes for attributes in given):
        has = ", ".join(sorted(unused)) or "none"
        raise DataError.at(path, f"no edge has the attribute {named!r}; they have {has}: give one of these to --weight")
    default = graph.graph.get("edge_default", {}).get(named, 1.0 if kind == "gexf" else None)
    numbers = edge_numbers([attributes.get(named, default) for attributes in given], f"the {kind.upper()}", named)
    weight = None if numbers is None else numbers.numpy()
    fix = "weights are read from 'weight', or chosen by --weight (dataset.weight)"
    edges = edges_of_graph(
        f"the edge attribute {named!r}", networkx_ends(graph).numpy(), weight, len(ids), ids, repr(named), "",
        ignored=_unused(path, unused, weight, fix), nodes=table_of_nodes(path, ids, pd.DataFrame(nodes)),
    )  # fmt: skip
    both = None if graph.is_directed() else False
    return replace(edges, origin=path, both=both, in_order=False).onto(np.sort(ids))


def _parsed(path: Path, kind: str) -> Any:
    """Return the graph of a file as networkx reads it; repeated edges are allowed, whether or not the file says so."""
    content = unpacked(path)
    if kind != "gml" and b"<!ENTITY" in content.replace(b"\0", b"").upper():
        raise DataError.at(path, "defines XML entities, which can grow without limit: write the file without them")
    import networkx

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")             # of networkx, about attributes that are not read
            if kind == "gml":
                text = re.sub(r"(?m)^(\s*)multigraph\s+[01]\b", r"\1", content.decode("utf-8-sig"))
                text = re.sub(r"(?m)^(\s*graph\s*\[)", r"\1 multigraph 1 ", text, count=1)
                return networkx.parse_gml(text.splitlines(), label="id")
            return (networkx.read_graphml if kind == "graphml" else networkx.read_gexf)(io.BytesIO(content))
    except Exception as error:                          # the parsers raise many kinds
        problem = f"networkx cannot read it as {kind.upper()} ({str(error) or type(error).__name__})"
        fix = "correct it there, or save the edges as a table (CSV)"
        raise DataError.at(path, f"{problem}: {fix}", _line(str(error), content)) from None


def _line(problem: str, content: bytes) -> int | None:
    """Return the line that a message of networkx is about: ``at (3, 7)``, ``line 3`` or ``edge #2``."""
    if place := re.search(r"\bat \((\d+), \d+\)|\bline (\d+)\b", problem):
        return int(place[1] or place[2])
    if item := re.search(r"\b(node|edge) #(\d+)", problem):
        starts = [start.start() for start in re.finditer(rb"\b%s\s*\[" % item[1].encode(), content)]
        return content.count(b"\n", 0, starts[int(item[2])]) + 1 if int(item[2]) < len(starts) else None
    return None


def _names(given: list[Any], nodes: list[dict[str, Any]]) -> np.ndarray:
    """Return the names of the nodes, else their ids: whole numbers if all of them are, else text."""
    for name in NODE_NAMES:
        values = [str(node.get(name, "")).strip() for node in nodes]
        if all(values) and len(set(values)) == len(values):
            given = values
            break
    if all(isinstance(value, int) or re.fullmatch(PLAIN, str(value)) for value in given):
        numbers = [int(value) for value in given]
        if len(set(numbers)) == len(numbers) and all(abs(number) < 1 << 63 for number in numbers):
            return np.array(numbers, dtype=np.int64)
    return np.array([str(value) for value in given], dtype=object)
