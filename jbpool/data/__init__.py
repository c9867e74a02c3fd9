"""Datasets: citation graphs, TU, OGB, the user's own files, and generated graphs.

>>> from jbpool.data import load_graphs, load_nodes
>>> load_nodes("cora")
NodeData('cora', 2708 nodes, 10556 edges, 1433 sparse features, 7 classes)
>>> load_graphs("PROTEINS").split(fold=0)
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from jbpool.checks import lookup
from jbpool.data import bins, citation, files, ogb_mol, synthetic, tu
from jbpool.data.sources import find
from jbpool.data.types import GraphBatch, GraphData, NodeData, Split
from jbpool.engine.strict import convert, readable
from jbpool.errors import DataError

__all__ = ["DataError", "GraphBatch", "GraphData", "NodeData", "Split", "load_graphs", "load_nodes"]

NODE_SETS: dict[str, Callable[..., NodeData]] = {
    **{name: partial(citation.load_citation, name) for name in citation.PUBLISHED},
    "sbm": synthetic.sbm,
    **{name: partial(synthetic.simulated, name) for name in synthetic.SIMULATED},
    "file": files.load_node_files,
}

OTHER_GRAPHS: dict[str, Callable[..., GraphData]] = {"motifs": synthetic.motifs, "file": bins.load_graph_files}


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
    if name in OTHER_GRAPHS:
        loader = OTHER_GRAPHS[name]
    elif name in tu.KNOWN or _is_tu_on_disk(name, root):
        loader = partial(tu.load_tu, name)
    else:
        molecules = ogb_mol.catalogue()
        known = dict.fromkeys([*tu.KNOWN, *molecules, *OTHER_GRAPHS])
        same = next((other for other in known if other.lower() == str(name).lower() and other != name), None)
        if same is not None:
            raise ValueError(f"dataset.name={name!r} is unknown. Did you mean {same!r}? (Names are case-sensitive.)")
        lookup(known, name, "dataset.name")
        loader = partial(ogb_mol.load_ogb, name)
    return _call(loader, name, root, options)


def _is_tu_on_disk(name: str, root: str | Path | None) -> bool:
    """A set in the TU format that lies in a data root under a name of its own."""
    plain = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][\w.-]{0,100}", name) is not None
    return plain and any(find(place, root) for place in (f"TU/{name}.zip", f"TU/{name}/{name}_A.txt"))


def wrong_options(loader: Callable, name: str, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Key and problem of every option that a dataset does not have, or that is not of the right kind."""
    hints = get_type_hints(getattr(loader, "func", loader))             # of what a partial stands for
    accepted = {option: None for option in inspect.signature(loader).parameters if option not in ("root", "name")}
    for option, value in options.items():
        key = f"dataset.{option}"
        try:
            lookup(accepted, option, f"dataset {name!r}: option")
            convert(value, hints[option])
        except TypeError:
            yield key, f"{key}={value!r} should be {readable(hints[option])}"
        except ValueError as error:
            yield key, str(error)


def _call(loader: Callable, name: str, root: str | Path | None, options: dict[str, Any]) -> Any:
    problems = [problem for _, problem in wrong_options(loader, name, options)]
    if problems:
        raise ValueError("\n".join(problems))
    takes_root = "root" in inspect.signature(loader).parameters
    return loader(root=root, **options) if takes_root else loader(**options)
