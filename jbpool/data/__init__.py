"""Datasets: citation graphs, TU, OGB, the user's own files, and generated graphs.

>>> from jbpool.data import load_graphs, load_nodes
>>> load_nodes("cora")
NodeData('cora', 2708 nodes, 10556 edges, 1433 sparse features, 7 classes)
>>> load_graphs("PROTEINS").split(fold=0)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from jbpool.checks import lookup
from jbpool.data import citation, files, ogb_mol, synthetic, tu
from jbpool.data.errors import DataError
from jbpool.data.types import GraphBatch, GraphData, NodeData, Split

__all__ = ["DataError", "GraphBatch", "GraphData", "NodeData", "Split", "load_graphs", "load_nodes"]

NODE_SETS: dict[str, Callable[..., NodeData]] = {
    **{name: partial(citation.load_citation, name) for name in citation.PUBLISHED},
    "sbm": synthetic.sbm,
    **{name: partial(synthetic.simulated, name) for name in synthetic.SIMULATED},
    "file": files.load_node_files,
}

TU_SETS = tuple(tu.SIZES)      # those with published results; any other TU name works too
GENERATED_GRAPHS: dict[str, Callable[..., GraphData]] = {"motifs": synthetic.motifs, "file": files.load_graph_files}


def load_nodes(name: str, root: str | Path | None = None, **options: Any) -> NodeData:
    """A graph whose nodes are to be clustered.

    Parameters
    ----------
    name : cora, citeseer, pubmed, dblp; sbm; cora-sim and so on; or file.
    root : a folder to look for files in before the other data roots.
    options : of the generator (:func:`jbpool.data.synthetic.sbm`) or of the user's files
        (:func:`jbpool.data.files.load_node_files`).
    """
    return _call(lookup(NODE_SETS, name, "dataset.name"), name, root, options)


def load_graphs(name: str, root: str | Path | None = None, **options: Any) -> GraphData:
    """Graphs that are to be classified.

    Parameters
    ----------
    name : a TU set (PROTEINS, NCI1, ...), an ``ogbg-mol*`` set, motifs, or file.
    root, options : as for :func:`load_nodes`.
    """
    if name in GENERATED_GRAPHS:
        loader = GENERATED_GRAPHS[name]
    elif isinstance(name, str) and name.startswith("ogbg"):
        loader = partial(ogb_mol.load_ogb, name)
    elif _looks_like_tu(name, root):
        loader = partial(tu.load_tu, name)
    else:
        known = dict.fromkeys([*TU_SETS, *ogb_mol.catalogue(), *GENERATED_GRAPHS])
        near = {other.upper(): other for other in known}.get(str(name).upper())
        if near is not None:
            raise ValueError(f"dataset.name={name!r} is unknown. Did you mean {near!r}? (Names are case-sensitive.)")
        lookup(known, name, "dataset.name")
    return _call(loader, name, root, options)


def _looks_like_tu(name: str, root: str | Path | None) -> bool:
    """A known TU set, one on this machine, or a name no known one is close to: then the server may have it."""
    if not isinstance(name, str) or not name or not name.replace("-", "").replace("_", "").isalnum():
        return False
    if name in TU_SETS or tu.find(f"TU/{name}.zip", root) or tu.find(f"TU/{name}", root):
        return True
    known = [other.upper() for other in (*TU_SETS, *GENERATED_GRAPHS)]
    return name != name.lower() and not get_close_matches(name.upper(), known, n=1, cutoff=0.75)


def _call(loader: Callable, name: str, root: str | Path | None, options: dict[str, Any]) -> Any:
    accepted = list(inspect.signature(loader).parameters)
    if "root" in accepted:
        options = {"root": root, **options}
    for option in options:
        if option not in accepted or option == "name":
            choices = dict.fromkeys(other for other in accepted if other not in ("root", "name"))
            lookup(choices, option, f"dataset {name!r}: option")
    return loader(**options)
