"""The graph in a page: a view to explore, and a static picture where scripts or WebGL are missing, and in print."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from jbpool.report.charts import COLOURS, evenly
from jbpool.report.graph_charts import plane
from jbpool.report.page import asset

KINDS = {"u": "Uint", "i": "Int", "f": "Float"}         # of numpy, and in the browser


def pack(text: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """Compress a JSON value and arrays; ``unpack`` of ``assets/unpack.js`` reads them in the browser.

    Layout before compression: the length of the JSON text in bytes (four bytes, little endian), the JSON text padded
    with spaces, then the arrays (integers of 8, 16 or 32 bits, or float32), each starting at a multiple of four bytes.
    """
    entries, body = [], b""
    for name, array in arrays.items():
        data = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
        kind = f"{KINDS[array.dtype.kind]}{8 * array.itemsize}Array"
        entries.append({"name": name, "type": kind, "start": len(body), "length": array.size})
        body += data + b"\0" * (-len(data) % 4)
    head = json.dumps({"text": text, "arrays": entries}).encode()
    head += b" " * (-len(head) % 4)
    return base64.b64encode(zlib.compress(struct.pack("<I", len(head)) + head + body, 9)).decode()


def smallest(array: np.ndarray) -> np.ndarray:
    """Return non-negative whole numbers in the smallest type that holds them."""
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))


SCRIPTS = ("sigma.js", "unpack.js", "explore_parts.js", "explore.js")       # which a page with this view needs
STATIC_NODES = 4000                                     # in the static picture
STATIC_EDGES = 4000


class GraphView(NamedTuple):
    """Nodes and edges that a page shows, n of N nodes."""

    xy: np.ndarray                          # (n, 2) in [-1, 1]
    edges: np.ndarray                       # (m, 2) numbers of shown nodes, every edge once
    cluster: np.ndarray                     # (n,) 0 .. K-1
    cluster_names: Sequence[Any]            # (K,)
    cluster_sizes: Sequence[int]            # (K,) in the whole graph
    degree: np.ndarray                      # (n,) in the whole graph
    ids: Sequence[Any] | np.ndarray         # (n,) numbers or text
    confidence: np.ndarray | None = None    # (n,) in [0, 1]
    label: np.ndarray | None = None         # (n,) 0 .. C-1; -1: unknown
    class_names: Sequence[str] = ()         # (C,)
    class_sizes: Sequence[int] = ()         # (C,) in the whole graph
    matched: Sequence[int] = ()             # (K,) class of each cluster by the best matching; -1: none
    sampled: str = ""                       # what is not shown, in a sentence; empty if everything is


def graph_section(view: GraphView, title: str = "The graph") -> str:
    """Return the section of a page. The page needs the scripts ``SCRIPTS``."""
    nodes, edges = evenly(len(view.xy), STATIC_NODES), view.edges[evenly(len(view.edges), STATIC_EDGES)]
    picture = plane(view.xy, view.cluster, edges, nodes, view.cluster_names, "the graph in the plane")
    note = (
        f"{len(view.xy):,} nodes and {len(view.edges):,} edges. Nodes near each other have similar smoothed features "
        f"or share edges; edges within a cluster have its colour, edges between clusters are grey. {view.sampled}"
    )
    return (
        f'<section class="wide graph-view"><h2>{escape(title)}</h2><div class="static">{picture}</div>'
        f'{asset("explore.html")}<p>{escape(note.strip())}</p>'
        f'<script type="text/plain" class="packed">{_packed(view)}</script></section>'
    )


def _packed(view: GraphView) -> str:
    ids = np.asarray(view.ids)
    by_number = ids.dtype.kind in "iu" and (len(ids) == 0 or 0 <= ids.min() <= ids.max() < 2**32)
    text: dict[str, Any] = {
        "clusters": _groups(view.cluster_names, view.cluster_sizes),
        "classes": _groups(view.class_names, view.class_sizes),
        "matched": list(map(int, view.matched)),
        "palette": COLOURS,
        "sampled": bool(view.sampled),
    }
    place = np.round((view.xy + 1) / 2 * 65535).clip(0, 65535).astype(np.uint16)            # (n, 2)
    edges = view.edges[np.lexsort(view.edges.T[::-1])]                                      # sorted: compresses better
    arrays = {
        "x": place[:, 0], "y": place[:, 1], "cluster": smallest(view.cluster), "degree": smallest(view.degree),
        "source": smallest(edges[:, 0]), "target": smallest(edges[:, 1]),
    }  # fmt: skip
    if by_number:
        arrays["id"] = ids.astype(np.uint32)
    else:
        text["ids"] = [str(name) for name in ids.tolist()]
    if view.confidence is not None:
        arrays["confidence"] = np.round(view.confidence.clip(0, 1) * 10000).astype(np.uint16)
    if view.label is not None:
        arrays["label"] = smallest(np.where(view.label < 0, len(view.class_names), view.label))
    return pack(text, arrays)


def _groups(names: Sequence[Any], sizes: Sequence[int]) -> list[dict[str, Any]]:
    return [{"name": str(name), "size": int(size)} for name, size in zip(names, sizes, strict=True)]
