"""Datasets: citation graphs, TU, OGB, the user's own files, and generated graphs.

>>> from jbpool.data import load_graphs, load_nodes
>>> load_nodes("cora-sim")
NodeData('cora-sim', 2708 nodes, 10556 edges, 1,433 sparse features, 7 classes)
>>> [len(part) for part in load_graphs("motifs").split(fold=0)]       # train, valid, test
[729, 81, 90]
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jbpool.data.catalogue import GRAPH_SETS, NODE_SETS, load_set
from jbpool.errors import DataError

if TYPE_CHECKING:
    from jbpool.data.datasets import GraphBatch, GraphData, NodeData, Split

__all__ = ["DataError", "GraphBatch", "GraphData", "NodeData", "Split", "load_graphs", "load_nodes"]


def __getattr__(name: str) -> Any:
    """Import the classes of ``__all__`` when they are first used: their module imports torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jbpool.data import datasets

    return getattr(datasets, name)


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
        The graph with features and labels, if it has them. In a run of several processes: the rows of this one.
    """
    return load_set(NODE_SETS, name, root, options).of_this_run()


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
    return load_set(GRAPH_SETS, name, root, options)
