"""The user's own graph: edges, features and labels in files of any kind or in memory, read by the same rules.

Self loops and zero weights are left out, and the weights of repeated edges are added. A list in which every edge has
its reverse with the same total weight holds both directions; in others every line counts for both.
"""

from __future__ import annotations

import logging
import re
import warnings
import zlib
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jbpool.data.arrays import array_names, read_array
from jbpool.data.assemble import added_up, node_data
from jbpool.data.datasets import NodeData
from jbpool.data.own.cells import edges_of_cells, read_cells
from jbpool.data.own.dgl_bin import edges_of_bin
from jbpool.data.own.divided import check_lacking, divided, first_column
from jbpool.data.own.edges import Edges, list_of_arrays, list_of_table, one_character
from jbpool.data.own.features import Features, read_features, standardised
from jbpool.data.own.headers import NO_NAMES
from jbpool.data.own.libraries import (
    NODE_NAMES,
    edges_of_graph_file,
    edges_of_igraph,
    edges_of_library,
    edges_of_networkx,
)
from jbpool.data.own.matrices import as_matrix, edges_of_matrix, is_of, plain
from jbpool.data.own.tables import PLAIN, kind_of, of_one_kind, places, read_table, shown
from jbpool.data.parts import WHOLE, Names, Part, Route
from jbpool.errors import DataError, reported_as
from jbpool.graph import Graph
from jbpool.interop import is_dgl, is_pyg
from jbpool.processes import RowShares

log = logging.getLogger(__name__)


def load_node_files(
    edges: str | Path | None = None,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    graph: str | Path | None = None,
    separator: str | None = None,
    header: bool | None = None,
    missing: str | None = None,
    weight: str | int | None = None,
    scale: str | None = None,
    sample: str | None = None,
) -> NodeData:
    """Load your own graph: a file with edges, optional ones with features and labels, or one file with all of them.

    Parameters
    ----------
    edges : str or Path, optional
        Edge list in text, Parquet, ``.npy`` or ``.npz``, or a graph: ``.gml``, ``.graphml``, ``.gexf``, ``.bin``,
        ``.h5ad``.
    features : str or Path, optional
        Table in text or Parquet, ``.npy`` or ``.npz``; of a graph file also names of node attributes, ``age,income``;
        of a ``.h5ad`` a key of ``obsm``, or ``X``.
    labels : str or Path, optional
        Classes of all or some nodes, in the same kinds of files, or the name of a node attribute.
    graph : str or Path, optional
        Instead of the other files: a file of ``dgl.save_graphs``. For a ``.h5ad`` the key of its graph in ``obsp``.
    separator : str, optional
        Separator of an edge list in text, one character or ``tab``. Default: detected.
    header : bool, optional
        Whether an edge list in text has a header line. Default: detected.
    missing : str, optional
        ``mean``: gaps in the features, and nodes without features, get the mean of the column. Default: an error.
    weight : str or int, optional
        The column, array or edge attribute with the weights, by its name, or by its number from 1. Default: ``weight``,
        or the third of three columns without a header.
    scale : str, optional
        ``standard``: every column of the features gets mean 0 and standard deviation 1. Default: none.
    sample : str, optional
        Of a ``.h5ad``, the column of ``obs`` with the sample of each cell.
    """
    if not is_cells(edges) and (edges is None) == (graph is None):
        raise DataError("dataset 'file': give either edges (an edge list) or graph (a DGL .bin file).")
    path = Path(graph if edges is None else edges)          # type: ignore[arg-type]
    listed, features = _read(path, features, separator, header, weight, graph, sample, missing, Part.of_this_run())
    feat = _features(listed, features, missing, scale)
    data = _together(path.name.split(".")[0], listed, feat, missing)
    if feat is not None and data.feat is not None and scale == "standard" and _is_read_later(listed, feat):
        rows = standardised(replace(feat, values=data.feat.numpy()), listed.part)
        data = replace(data, feat=rows.rows_of(None))
    data = _labelled(data, listed, labels)
    if listed.nodes is None or is_cells(path):
        return data
    named = {*NODE_NAMES, str(labels), *(name.strip() for name in str(features).split(","))}
    unused = sorted({*(listed.nodes.header or ())[1:]} - named)
    return replace(data, ignored=[*data.ignored, *(f"node attribute {name!r} of {path.name}" for name in unused)])


def _features(edges: Edges, given: Any, missing: str | None, scale: str | None = None) -> Features | None:
    """Return the features that are given, in any form, as names of node attributes, or those that the graph has."""
    if missing not in (None, "mean"):
        raise DataError(f"missing={missing!r}: the only choice is mean.")
    if scale not in (None, "none", "standard"):
        raise DataError(f"scale={scale!r}: choose standard or none.")
    if given is None and edges.feat is None:
        if missing is not None or scale == "standard":
            raise DataError.at(edges.origin, "has no features, which missing and scale are for: give features, too")
        return None
    if isinstance(given, (str, Path)) and (attributes := edges.attributes("features", given)) is not None:
        given = attributes
    if given is None:
        feat = read_features(edges.feat, missing, edges.origin)
    else:
        feat = read_features(given, missing, nodes=edges.own_ids, part=edges.part)
    return standardised(feat, edges.part) if scale == "standard" and not _is_read_later(edges, feat) else feat


def _is_read_later(edges: Edges, feat: Features) -> bool:
    """Return whether this process reads its rows of an array only when it knows which these are."""
    return edges.part.processes > 1 and feat.ids is None


def _labelled(data: NodeData, edges: Edges, labels: str | Path | None) -> NodeData:
    """Return the graph with classes from a file, or a node attribute, or as the graph has them."""
    if labels is None and edges.label is None:
        return data
    from jbpool.data.own.labels import node_labels

    given = np.asarray(edges.label) if labels is None else edges.attributes("labels", labels) or Path(labels)
    known = node_labels(given, data.own_ids, edges.origin, edges.part)
    return replace(
        data, label=known.label, num_classes=len(known.class_names), class_names=known.class_names,
        ignored=[*data.ignored, *known.ignored],
    )  # fmt: skip


def as_node_data(
    adjacency: Any, features: Any = None, missing: str | None = None, sample: str | None = None
) -> NodeData:
    """Return one graph to cluster, in a file or given as one of ``matrices.FORMS``, a ``Data`` of PyG or a ``Graph``.

    A square array is always a matrix. Matrices and directed graphs have to hold both directions of every edge, edge
    lists either one or both. Weights and features of a graph are used: ``edata["weight"]`` and ``ndata["feat"]`` of
    DGL, ``edge_weight`` and ``x`` of PyG, the edge attribute ``weight`` of networkx and igraph.

    ``features`` has a row per node and overrides those of the graph. Where nodes have ids (networkx graph, edge list),
    the index of a DataFrame holds them; else row i is node i, unless the index is a permutation of 0 .. N-1, which is
    followed with a warning. The ``ids`` of the result are in the order of the rows, ``None`` for matrices.
    """
    listed, features = _read(adjacency, features, sample=sample, missing=missing)
    return _together("graph", listed, _features(listed, features, missing), missing)


def is_cells(given: Any) -> bool:
    """Return whether a graph is an AnnData, or a file of one."""
    is_path = isinstance(given, (str, Path))
    return Path(given).suffix.lower() == ".h5ad" if is_path else is_of(given, "anndata", "AnnData")


def _read(
    given: Any, features: Any, separator: str | None = None, header: bool | None = None,
    weight: str | int | None = None, graph: str | Path | None = None, sample: str | None = None,
    missing: str | None = None, part: Part = WHOLE,
) -> tuple[Edges, Any]:  # fmt: skip
    """Return the edges, and the features, unless they name a part of an AnnData, which the edges then hold."""
    if not is_cells(given):
        if sample is not None:
            raise DataError(f"sample={sample!r}: only an AnnData has samples; leave it out.")
        return read_edges(given, separator, header, None if weight is None else str(weight), part), features
    is_key = isinstance(features, (str, Path)) and not Path(features).is_file()
    key = None if graph is None else str(graph)
    with reported_as(given) if isinstance(given, (str, Path)) else nullcontext():
        cells = read_cells(Path(given)) if isinstance(given, (str, Path)) else given
        listed = edges_of_cells(cells, key, str(features) if is_key else None, sample, missing)
        return listed, None if is_key else features


def read_edges(
    given: Any, separator: str | None = None, header: bool | None = None, weight: str | None = None,
    part: Part = WHOLE,
) -> Edges:  # fmt: skip
    """Return the edges of a file, or of any other form; separator and header of text are detected unless given.

    ``part``: which lines of a list in a file are read; other forms are read whole.
    """
    if isinstance(given, (str, Path)):
        with reported_as(Path(given)):
            return _edges_of_file(Path(given), separator, header, weight, part)
    if isinstance(given, Graph) or is_dgl(given) or is_pyg(given):
        return edges_of_library(given)
    if is_of(given, "networkx", "Graph"):
        return edges_of_networkx(given)
    if is_of(given, "igraph", "Graph"):
        return edges_of_igraph(given)
    given = plain(given)
    matrix = as_matrix(given)
    if matrix is not None:
        return edges_of_matrix(*matrix)
    import pandas as pd

    return list_of_table(read_table(pd.DataFrame(given), "the edge list"), from_zero=isinstance(given, np.ndarray))


def _edges_of_file(path: Path, separator: str | None, header: bool | None, weight: str | None, part: Part) -> Edges:
    kind = kind_of(path)
    if kind != "text" and (separator or header is not None):
        raise DataError("dataset.separator and dataset.header are for text files: leave them out")
    if kind in ("gml", "graphml", "gexf"):
        return edges_of_graph_file(path, kind, weight or "weight")
    is_matrix = kind == "array" and path.suffix.lower() == ".npz" and "format" in array_names(path)
    if weight is not None and (is_matrix or kind == "dgl"):
        raise DataError(f"dataset.weight={weight} names a column or an edge attribute: leave it out for such a file")
    if kind == "dgl":
        return edges_of_bin(path)
    if is_matrix:                                           # of scipy.sparse.save_npz
        return edges_of_matrix(read_array(path, "adjacency"))
    if kind == "array":
        return list_of_arrays(path, weight, part)
    separator = one_character(separator) if separator else None
    table = read_table(path, part=part, separator=separator, header=header, attributes=True)
    return list_of_table(table, header, weight)


def _together(name: str, edges: Edges, feat: Features | None, missing: str | None) -> NodeData:
    """Return the graph of all nodes that have edges or features, or the rows of this process."""
    if edges.num_nodes < 1 and edges.part.processes == 1:
        raise DataError("the graph has no nodes: there is nothing to cluster.")
    is_list = edges.both is None
    if edges.part.processes > 1:
        edges, feat, shares, first = divided(edges, feat, missing)
    else:
        if feat is not None:
            feat, ids = _matched(edges, feat, missing)
            edges = edges if ids is None else edges.onto(ids)
        shares = RowShares.alone(edges.num_nodes)
        is_text = edges.ids is not None and edges.ids.dtype == object
        first = first_column(Names(WHOLE, edges.own_ids), edges) if is_text and is_list and not edges.nodes else None
    with reported_as(edges.origin) if isinstance(edges.origin, Path) else nullcontext():  # a weight beyond float32
        adjacency, lines = added_up(edges.source, edges.target, edges.weight, [edges.num_nodes], edges.both, shares)
    lines = lines._replace(both_directions=lines.both_directions and is_list, header=edges.header,
                           columns=edges.columns)  # fmt: skip
    _mention_odd_names(edges)
    return node_data(
        name, adjacency, shares=shares, weight_name=edges.weight_name, lines=lines,
        feat=None if feat is None else feat.rows_of(edges.ids), feat_names=None if feat is None else feat.names,
        ids=edges.ids, ignored=[*edges.ignored, *(feat.ignored if feat else ())], first=first, place=edges.place,
        sample=edges.sample,
    )  # fmt: skip


def _mention_odd_names(edges: Edges) -> None:
    """Mention names that differ in spaces, case or type only, words among numbers, and names that mean a gap."""
    if edges.ids is None or edges.ids.dtype != object:
        return
    part, keys = edges.part, np.array([" ".join(str(name).split()).casefold() for name in edges.ids], dtype=object)
    codes = np.array([zlib.crc32(key.encode()) for key in keys], dtype=np.int64)        # those of one key meet
    route = Route(part, codes, [place << 32 // part.processes for place in range(1, part.processes)])
    ids, keys = route.there(edges.ids), route.there(keys)
    first: dict[str, object] = {}
    names = [(name, str(name)) for name in ids]
    similar = [(text, f"{shown(first[key])} and {shown(name)}") for (name, text), key in zip(names, keys, strict=True)
               if first.setdefault(key, name) is not name]  # fmt: skip
    words = [(text, shown(name)) for name, text in names if not re.fullmatch(PLAIN, text)]
    gaps = [(text, shown(name)) for name, text in names if text.lower() in NO_NAMES]
    for problem, odd, most in (
        ("different nodes whose names differ in spaces, case or type only", similar, 2),
        ("nodes whose names are no numbers, unlike most", words, 0.5),
        ("nodes whose names may mean that they are missing", gaps, 2),
    ):
        count, nodes = part.total(len(odd), len(names))
        some = [each for found in part.gather(odd[:1]) for each in found]
        if some and count < most * nodes:
            more = f", and {count - 1:,} more" if count > 1 else ""
            log.warning("%s: %s: %s%s", edges.origin, problem, min(some)[1], more)


def _matched(edges: Edges, feat: Features, missing: str | None) -> tuple[Features, np.ndarray | None]:
    """Return features that fit the nodes, and the ids of all nodes, in order.

    A graph in memory keeps the order of its nodes, other edges take that of a DataFrame of features, and the nodes of
    files are sorted.
    """
    in_memory, rows = isinstance(feat.origin, str), feat.values.shape[0]
    if edges.ids is None and in_memory:
        feat = _by_position(feat)
    if feat.ids is None and edges.in_order:
        if rows != edges.num_nodes:
            fix = f"the graph has {edges.num_nodes} nodes: give a row for each"
            raise DataError.at(feat.origin, f"{feat.values.shape} is the shape, and {fix}")
        return feat, edges.ids
    nodes, ids = edges.own_ids, np.arange(rows) if feat.ids is None else feat.ids
    import pandas as pd

    if not (names := pd.Series(pd.Index(ids, tupleize_cols=False))).is_unique:
        raise DataError.at(feat.origin, f"node {shown(names[names.duplicated()].iloc[0])} has more than one row")
    lacking = nodes[places(ids, nodes) < 0]
    check_lacking(edges, feat, missing, lacking, ids, len(lacking), len(nodes), rows)
    if edges.in_order:
        if unknown := rows - len(nodes) + len(lacking):
            log.warning("%s: %s rows for ids that are not in the graph are not used", feat.origin, f"{unknown:,}")
        return feat, nodes
    if in_memory:
        return feat, np.concatenate([ids, lacking])
    extra = ids[places(nodes, ids) < 0]
    return feat, np.sort(np.concatenate(of_one_kind(nodes, extra))) if len(extra) else nodes


def _by_position(feat: Features) -> Features:
    """Return rows in the order of the nodes 0 .. N-1 if their ids are a permutation of these; else as they are."""
    ids = feat.ids
    numbers = np.arange(feat.values.shape[0])
    if ids is None or ids.dtype.kind not in "iuf" or not np.array_equal(np.sort(ids), numbers):
        return replace(feat, ids=None)
    if not np.array_equal(ids, numbers):
        warnings.warn(
            "the index of features holds the nodes 0 .. N-1 in another order: rows are used by their index. If row i "
            "is node i, pass features.reset_index(drop=True).",
            stacklevel=6,
        )
    return replace(feat, values=feat.values[np.argsort(ids)], ids=None)
