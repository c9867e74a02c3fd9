"""Datasets: citation graphs, TU, OGB, the user's own files, and generated graphs.

>>> from jbpool.data import load_graphs, load_nodes
>>> load_nodes("cora-sim")
NodeData('cora-sim', 2708 nodes, 10556 edges, 1,433 sparse features, 7 classes)
>>> [len(part) for part in load_graphs("motifs").split(fold=0)]       # train, valid, test
[729, 81, 90]
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

from jbpool import _environment

_environment.require_dgl()      # before anything imports dgl, for a readable error

from jbpool.checks import convert, lookup, readable  # noqa: E402
from jbpool.data.containers import GraphBatch, GraphData, NodeData, Split  # noqa: E402
from jbpool.data.download import find  # noqa: E402
from jbpool.data.files import graph_folder, npz  # noqa: E402
from jbpool.data.files.node_files import load_node_files  # noqa: E402
from jbpool.data.sets import citation, gcb, npz_sets, ogb, synthetic, tu  # noqa: E402
from jbpool.errors import DataError, JBPoolError  # noqa: E402

__all__ = ["DataError", "GraphBatch", "GraphData", "NodeData", "Split", "load_graphs", "load_nodes"]

NODE_SETS: dict[str, Callable[..., NodeData]] = {
    **{name: partial(citation.load_citation, name) for name in citation.PUBLISHED},
    **{name: partial(npz_sets.load_npz_set, name) for name in npz_sets.SETS},
    **{name: partial(ogb.load_ogb_nodes, name) for name in ogb.NODES},
    "npz": npz.load_npz_file,
    "sbm": synthetic.sbm,
    **{name: partial(synthetic.simulated, name) for name in synthetic.SIMULATED},
    "file": load_node_files,
}

OTHER_GRAPHS: dict[str, Callable[..., GraphData]] = {
    **{name: partial(gcb.load_gcb, name) for name in gcb.SETS},
    "gcb-sim": gcb.gcb_sim,
    "motifs": synthetic.motifs,
    "file": graph_folder.load_graph_files,
}


def load_nodes(name: str, root: str | Path | None = None, **options: Any) -> NodeData:
    """Load a graph for node clustering.

    Parameters
    ----------
    name : str
        cora, citeseer, pubmed, dblp; amazon-photo, amazon-computers, coauthor-cs, coauthor-physics, cora-ml, acm;
        ogbn-arxiv, ogbn-products, ogbn-proteins, ogbn-papers100M; sbm; cora-sim and so on; npz or file.
    root : str or Path, optional
        Folder searched before the other data roots.
    **options
        Options of the dataset: ``sbm``, ``load_npz_file``, ``load_node_files``.

    Returns
    -------
    NodeData
        The graph with features and labels, if it has them.
    """
    return _call(lookup(NODE_SETS, name, "dataset.name"), name, root, options)


def load_graphs(name: str, root: str | Path | None = None, **options: Any) -> GraphData:
    """Load a dataset for graph classification.

    Parameters
    ----------
    name : str
        A TU dataset (PROTEINS, NCI1, ...), an ``ogbg-mol*`` dataset, gcb-hard and so on, gcb-sim, motifs, or file.
    root : str or Path, optional
        Folder searched before the other data roots.
    **options
        Options of the dataset: ``motifs``, ``gcb_sim``, ``load_graph_files``.

    Returns
    -------
    GraphData
        All graphs with features and labels.
    """
    return _call(_graph_loader(name, root), name, root, options)


def _graph_loader(name: str, root: str | Path | None) -> Callable[..., GraphData]:
    if name in OTHER_GRAPHS:
        return OTHER_GRAPHS[name]
    if name in tu.KNOWN or _is_tu_on_disk(name, root):
        return partial(tu.load_tu, name)
    lookup(dict.fromkeys([*tu.KNOWN, *ogb.MOLECULES, *OTHER_GRAPHS]), name, "dataset.name")
    return partial(ogb.load_ogb, name)


def _is_tu_on_disk(name: str, root: str | Path | None) -> bool:
    """Whether a data root has a dataset of this name in the TU format."""
    plain = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][\w.-]{0,100}", name) is not None
    return plain and any(find(place, root) for place in (f"TU/{name}.zip", f"TU/{name}/{name}_A.txt"))


def node_problems(name: str, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Key and problem of a name or options that :func:`load_nodes` would reject."""
    try:
        loader = lookup(NODE_SETS, name, "dataset.name")
    except JBPoolError as error:
        yield "dataset.name", str(error)
    else:
        yield from list(_wrong_options(loader, name, options)) or synthetic.size_problems(name, options)


def graph_problems(name: str, root: str | Path | None, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Key and problem of a name or options that :func:`load_graphs` would reject."""
    try:
        loader = _graph_loader(name, root)
    except JBPoolError as error:
        yield "dataset.name", str(error)
    else:
        yield from list(_wrong_options(loader, name, options)) or synthetic.size_problems(name, options)


def node_files(name: str) -> list[str]:
    """The options of a dataset of :func:`load_nodes` that are files."""
    loader = NODE_SETS[name]
    hints = get_type_hints(getattr(loader, "func", loader))             # of the function inside a partial
    return [option for option in inspect.signature(loader).parameters if Path in get_args(hints[option])]


def own_graph_options(name: str) -> list[str]:
    """The options of a dataset of :func:`load_graphs` that describe the user's files."""
    return list(inspect.signature(graph_folder.load_graph_files).parameters) if name == "file" else []


def _wrong_options(loader: Callable, name: str, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Key and problem of every unknown option and of every value of the wrong type."""
    hints = get_type_hints(getattr(loader, "func", loader))             # the function inside a partial
    accepted = {option: None for option in inspect.signature(loader).parameters if option not in ("root", "name")}
    for option, value in options.items():
        key = f"dataset.{option}"
        try:
            lookup(accepted, option, f"dataset {name!r}: option")
            convert(value, hints[option])
        except TypeError:
            yield key, f"{key}={value!r} should be {readable(hints[option])}"
        except JBPoolError as error:
            yield key, str(error)


def _call(loader: Callable, name: str, root: str | Path | None, options: dict[str, Any]) -> Any:
    problems = [problem for _, problem in _wrong_options(loader, name, options)]
    if problems:
        raise DataError("\n".join(problems))
    takes_root = "root" in inspect.signature(loader).parameters
    return loader(root=root, **options) if takes_root else loader(**options)
