"""Datasets: citation graphs, TU, OGB, the user's own files, and generated graphs.

>>> from jbpool.data import load_graphs, load_nodes
>>> load_nodes("cora-sim")
NodeData('cora-sim', 2708 nodes, 10556 edges, 1,433 sparse features, 7 classes)
>>> [len(part) for part in load_graphs("motifs").split(fold=0)]       # train, valid, test
[729, 81, 90]
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from jbpool.data.catalogue import GRAPH_SETS, NODE_SETS, TU_LOADER, loader
from jbpool.errors import DataError, JBPoolError
from jbpool.names import lookup
from jbpool.schema import convert, readable

if TYPE_CHECKING:
    from jbpool.data.datasets import GraphBatch, GraphData, NodeData, Split

__all__ = ["DataError", "GraphBatch", "GraphData", "NodeData", "Split", "load_graphs", "load_nodes"]


def __getattr__(name: str) -> Any:
    """Import the classes of ``__all__`` when they are first used: their module imports torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jbpool.data import datasets

    return getattr(datasets, name)


MAX_OPTION = 10**12         # of options that are numbers: those of generated datasets


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
    return _call(loader(NODE_SETS, name), name, root, options)


def load_graphs(name: str, root: str | Path | None = None, **options: Any) -> GraphData:
    """Load a dataset for graph classification or regression.

    Parameters
    ----------
    name : str
        A TU dataset (PROTEINS, NCI1, ...), an ``ogbg-mol*`` dataset, gcb-hard and so on, gcb-sim, motifs, trees, or
        file.
    root : str or Path, optional
        Folder searched before the other data roots.
    **options
        Options of the dataset: ``motifs``, ``trees``, ``gcb_sim``, ``load_graph_files``.

    Returns
    -------
    GraphData
        All graphs with features and labels.
    """
    return _call(_graph_loader(name, root), name, root, options)


def _graph_loader(name: str, root: str | Path | None) -> Callable[..., GraphData]:
    if name not in GRAPH_SETS and _is_tu_on_disk(name, root):
        return loader({name: TU_LOADER}, name)
    return loader(GRAPH_SETS, name)


def _is_tu_on_disk(name: str, root: str | Path | None) -> bool:
    """Return whether a data root has a dataset of this name in the TU format."""
    from jbpool.data.download import find

    plain = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][\w.-]{0,100}", name) is not None
    return plain and any(find(place, root) for place in (f"TU/{name}.zip", f"TU/{name}/{name}_A.txt"))


def node_problems(name: str, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield key and problem of a name or options that ``load_nodes`` would reject."""
    return _problems(lambda: loader(NODE_SETS, name), name, options)


def graph_problems(name: str, root: str | Path | None, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield key and problem of a name or options that ``load_graphs`` would reject."""
    return _problems(lambda: _graph_loader(name, root), name, options)


def node_options(name: str) -> dict[str, Any]:
    """Return the options of a dataset of ``load_nodes``, with their defaults."""
    return _options(loader(NODE_SETS, name))


def graph_options(name: str, root: str | Path | None) -> dict[str, Any]:
    """Return the options of a dataset of ``load_graphs``, with their defaults."""
    return _options(_graph_loader(name, root))


def _options(load: Callable) -> dict[str, Any]:
    parameters = inspect.signature(load).parameters.values()
    return {item.name: item.default for item in parameters if item.name not in ("root", "name")}


def node_files(name: str) -> list[str]:
    """Return the options of a dataset of ``load_nodes`` that are files."""
    load = loader(NODE_SETS, name)
    return [option for option in inspect.signature(load).parameters if Path in get_args(_hints(load)[option])]


def own_graph_options(name: str) -> list[str]:
    """Return the options of a dataset of ``load_graphs`` that describe the user's files, but not what to predict."""
    options = inspect.signature(loader(GRAPH_SETS, name)).parameters if name == "file" else ()
    return [option for option in options if option not in ("task", "targets")]


def _hints(load: Callable) -> dict[str, Any]:
    return get_type_hints(getattr(load, "func", load))              # the function inside a partial


def _problems(find: Callable[[], Callable], name: str, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield key and problem of an unknown name or option, and of every value of the wrong type or range."""
    try:
        load = find()
    except JBPoolError as error:
        yield "dataset.name", str(error)
        return
    hints, accepted = _hints(load), _options(load)
    for option, value in options.items():
        key = f"dataset.{option}"
        try:
            lookup(accepted, option, f"dataset {name!r}: option")
            value = convert(value, hints[option])
            if isinstance(value, (int, float)) and not 0 <= value <= MAX_OPTION:
                yield key, f"{key}={value} should be at least 0 and at most {MAX_OPTION}"
        except TypeError:
            yield key, f"{key}={value!r} should be {readable(hints[option])}"
        except JBPoolError as error:
            yield key, str(error)


def _call(load: Callable, name: str, root: str | Path | None, options: dict[str, Any]) -> Any:
    problems = [problem for _, problem in _problems(lambda: load, name, options)]
    if problems:
        raise DataError("\n".join(problems))
    hints = _hints(load)
    files = [option for option, value in options.items() if isinstance(value, str) and Path in get_args(hints[option])]
    options = {**options, **{option: os.path.expanduser(options[option]) for option in files}}
    if "root" in inspect.signature(load).parameters:
        options["root"] = root if root is None else Path(root).expanduser()
    return load(**options)
