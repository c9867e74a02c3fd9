"""Graphs of DGL, PyG, scipy and networkx as tensors, and back.

Nothing here knows a type of this package. Neither DGL nor PyG is imported unless one of their graphs comes in: an
object can only be a ``DGLGraph`` if its user has imported dgl.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from jbpool.checks import may_read
from jbpool.errors import INSTALL_DGL, InputError, importing

T = TypeVar("T")


class GraphTensors(NamedTuple):
    """What a graph consists of."""

    edge_index: Tensor | None                               # (2, E)  None: in the order of the rows
    num_nodes: int
    sizes: Tensor | None = None                             # (B,)  nodes per graph; None: one graph
    edge_weight: Tensor | None = None                       # (E,)
    by_target: tuple[Tensor, Tensor, Tensor | None] | None = None   # the same edges as a CSR matrix, if it is there


def is_dgl(graph: Any) -> bool:
    """Return whether an object is a ``DGLGraph``, without importing dgl."""
    return "dgl" in sys.modules and isinstance(graph, getattr(sys.modules["dgl"], "DGLGraph", ()))


def is_pyg(graph: Any) -> bool:
    """Return whether an object is a graph of PyG, without importing it."""
    data = sys.modules.get("torch_geometric.data")
    return data is not None and isinstance(graph, (data.Data, data.HeteroData))


# What a graph of DGL or PyG was turned into is kept on it, with what tells whether it has changed since.


class _Held:
    """What was made of a graph, what identifies its edges and weights, and the tensors that hold them.

    While those are held, no other tensors have their addresses. Neither copied nor pickled with its owner.
    """

    def __init__(self, value: Any = None, edges: Any = None, weight: Any = None, tensors: tuple = ()):
        self.value, self.edges, self.weight, self.tensors = value, edges, weight, tensors

    def __reduce__(self):
        return _Held, ()


def once_per_graph(graph: Any, make: Callable[[GraphTensors], T], weigh: Callable[[T, Tensor | None], T]) -> T:
    """Return what ``make`` gives for the tensors of a graph of DGL or PyG, made again once its edges have changed.

    ``weigh`` gives the same with other edge weights, where only those have changed.
    """
    identify, read = (_dgl_identity, _read_dgl) if is_dgl(graph) else (_pyg_identity, _read_pyg)
    edges, tensors = identify(graph)
    weight = _weight_of(graph)
    held, weight_now = vars(graph).get("_jbpool", _Held()), (id(weight), version(weight))
    if held.edges != edges or held.weight != weight_now:
        with torch.inference_mode(False):
            if held.edges != edges:
                value = make(read(graph, edges, tensors)._replace(edge_weight=_as_weight(weight)))
            else:
                value = weigh(held.value, _as_weight(weight))
        held = vars(graph)["_jbpool"] = _Held(value, edges, weight_now, (*tensors, weight))
    return held.value


def _hold(graph: Any, value: Any) -> Any:
    """Keep what a graph of DGL or PyG was made from on it, and return the graph."""
    edges, tensors = (_dgl_identity if is_dgl(graph) else _pyg_identity)(graph)
    weight = _weight_of(graph)
    vars(graph)["_jbpool"] = _Held(value, edges, (id(weight), version(weight)), (*tensors, weight))
    return graph


def _weight_of(graph: Any) -> Tensor | None:
    """Return the edge weights of a graph of DGL or PyG, where they are kept."""
    return graph.edata.get("weight") if is_dgl(graph) else getattr(graph, "edge_weight", None)


def _as_weight(weight: Any) -> Any:
    """Return weights as floating-point numbers, one per edge, if they are whole numbers or a single column."""
    if not isinstance(weight, Tensor):
        return weight
    column = weight.squeeze(1) if weight.dim() == 2 and weight.shape[1] == 1 else weight
    return column if column.is_floating_point() else column.to(torch.get_default_dtype())


def check_dgl(graph: Any) -> None:
    """Refuse a block of a sampler and a graph of several types."""
    if graph.is_block:
        raise InputError(
            "graph is a block of a sampler, with edges in one direction: pool a subgraph of the whole graph, "
            "dgl.node_subgraph(whole, block.srcdata[dgl.NID])."
        )
    if not graph.is_homogeneous:
        raise InputError(
            f"graph has node types {graph.ntypes} and edge types {graph.etypes}: use dgl.to_homogeneous(graph)."
        )


def _read_dgl(graph: Any, identity: tuple, tensors: tuple[Tensor, ...]) -> GraphTensors:
    *arrays, sizes = tensors
    if identity[0] != "csc":
        return GraphTensors(_dgl_ends(graph), graph.num_nodes(), sizes.long())
    pointers, columns, edges = arrays
    # DGL leaves the ids out where they are 0, 1, 2, ...
    order = edges if len(edges) == len(columns) > 0 else None
    ends = None if order is None else _dgl_ends(graph)
    return GraphTensors(ends, graph.num_nodes(), sizes.long(), by_target=(pointers, columns, order))


def _dgl_arrays(graph: Any) -> tuple[str, tuple[Tensor, ...]]:
    """Return one of the formats of a DGL graph, and its arrays, which it shares with torch."""
    graph.batch_num_edges()             # batch_num_nodes does not set them, and DGL would then fail to remove nodes
    error = sys.modules["dgl"].DGLError
    for layout in ("csc", "coo", "csr"):                # a graph may be restricted to some of them
        try:
            return layout, graph.edges() if layout == "coo" else graph.adj_tensors(layout)  # adj_tensors("coo") copies
        except error:
            continue
    raise InputError("the DGLGraph has no sparse format: use graph.formats(['coo', 'csr', 'csc']).")


def _dgl_identity(graph: Any) -> tuple[tuple, tuple[Tensor, ...]]:
    """Return what changes with the edges or batch counts of a DGL graph, and the tensors to hold meanwhile."""
    layout, arrays = _dgl_arrays(graph)
    sizes = graph.batch_num_nodes()
    places = tuple((array.data_ptr(), array.shape, array.dtype) for array in arrays)
    return (layout, id(sizes), *places), (*arrays, sizes)


def _dgl_ends(graph: Any) -> Tensor:
    """Return source and target of the edges in order, ``(2, E)``, also if the formats of the graph are restricted."""
    try:
        return torch.stack(graph.edges())
    except sys.modules["dgl"].DGLError:
        return torch.stack(graph.formats(["coo", "csr", "csc"]).edges())


def to_dgl(
    edge_index: Tensor, num_nodes: int, sizes: Tensor, num_edges: Tensor, edge_weight: Tensor | None, made_from: Any
) -> Any:
    """Return a ``DGLGraph`` with edges in their order and both batch counts, which remembers what it was made from."""
    with importing("dgl", "Graph.to_dgl()", INSTALL_DGL):
        import dgl
    made = dgl.graph(tuple(edge_index), num_nodes=num_nodes)
    made.set_batch_num_nodes(sizes.to(edge_index.dtype))                # dgl 2.1 needs counts of the type of the ids
    made.set_batch_num_edges(num_edges.to(edge_index.dtype))
    return with_weight(made, edge_weight, made_from)


def with_weight(graph: Any, edge_weight: Tensor | None, made_from: Any) -> Any:
    """Give weights to the edges of a DGL graph, which remembers what it was made from."""
    if edge_weight is not None:
        graph.edata["weight"] = edge_weight
    return _hold(graph, made_from)


# PyG.


def check_pyg(data: Any) -> None:
    """Refuse a graph without edges, or of several types."""
    if getattr(data, "edge_index", None) is None:
        raise InputError(
            f"{type(data).__name__} has no edge_index: pass a homogeneous graph with one; for HeteroData use "
            "data.to_homogeneous()."
        )


def _pyg_identity(data: Any) -> tuple[tuple, tuple]:
    """Return what changes with the tensors that decide the graph, also by a change in place, and those tensors."""
    tensors = (data.edge_index, getattr(data, "batch", None), getattr(data, "ptr", None))
    return (*((id(tensor), version(tensor)) for tensor in tensors), data.num_nodes), tensors


def version(source: Tensor | None) -> Any:
    """Return what changes with every write in place. Inference tensors keep no count: theirs is always another."""
    return None if source is None else object() if source.is_inference() else source._version


def _read_pyg(data: Any, identity: tuple, tensors: tuple) -> GraphTensors:
    edge_index, batch, pointers = tensors
    sizes = None
    if batch is not None:
        sizes = sizes_of_batch(batch, getattr(data, "num_graphs", None) if pointers is None else len(pointers) - 1)
    elif pointers is not None:
        sizes = pointers.diff()                         # subgraph() of a batch leaves it as it was: batch comes first
    return GraphTensors(edge_index, data.num_nodes, sizes)


def sizes_of_batch(batch: Tensor, num_graphs: int | None = None) -> Tensor:
    """Return the nodes per graph ``(B,)`` from the graph of each node ``(N,)``.

    Without ``num_graphs`` the last graph is the last one that has nodes, which waits for the device.
    """
    if not isinstance(batch, Tensor) or batch.dim() != 1 or batch.is_floating_point() or batch.dtype == torch.bool:
        got = f"{batch.dtype} {tuple(batch.shape)}" if isinstance(batch, Tensor) else type(batch).__name__
        raise InputError(f"batch is {got}: give the graph of every node, as whole numbers (N,).")
    if may_read(batch) and bool((batch.diff(prepend=batch.new_zeros(1)) < 0).any()):
        raise InputError("batch is not sorted, or negative: number graphs from 0, and sort the nodes by their graph.")
    if num_graphs is None:
        num_graphs = int(batch[-1]) + 1 if len(batch) else 1
    return torch.zeros(num_graphs, dtype=torch.int64, device=batch.device).index_add_(
        0, batch.long(), torch.ones_like(batch, dtype=torch.int64)
    )


def to_pyg(
    edge_index: Tensor,
    num_nodes: int,
    sizes: Tensor,
    edge_weight: Tensor | None,
    feat: Tensor | None,
    num_edges: Tensor,
    made_from: Any,
) -> Any:
    """Return a ``Batch`` of PyG with edges in their order, which remembers what it was made from.

    ``num_edges``: those of each graph, in which the batch can be taken apart by ``to_data_list``.
    """
    with importing("torch_geometric", "Graph.to_pyg()", "pip install 'jbpool[pyg]'"):
        from torch_geometric.data import Batch
    nodes, edges = (torch.cat([sizes.new_zeros(1), counts.cumsum(0)]) for counts in (sizes, num_edges))     # (B + 1,)
    values = {"x": feat, "edge_index": edge_index, "edge_weight": edge_weight}
    values = {name: value for name, value in values.items() if value is not None}
    made = Batch(
        num_nodes=num_nodes, batch=torch.repeat_interleave(sizes, output_size=num_nodes), ptr=nodes, **values
    )
    made._num_graphs = len(sizes)
    made._slice_dict = {name: nodes if name == "x" else edges for name in values}
    made._inc_dict = {name: nodes[:-1] if name == "edge_index" else torch.zeros_like(sizes) for name in values}
    return _hold(made, made_from)


# scipy and networkx.


def is_scipy(graph: Any) -> bool:
    """Return whether an object is a sparse matrix or array of scipy."""
    return hasattr(graph, "tocsr")


def is_networkx(graph: Any) -> bool:
    """Return whether an object is a networkx graph."""
    return hasattr(graph, "is_directed") and hasattr(graph, "nodes")


def read_scipy(matrix: Any) -> GraphTensors:
    """Return the graph of a sparse adjacency matrix, whose values are the weights of the edges."""
    import numpy as np

    rows = matrix.tocsr()
    if rows.shape[0] != rows.shape[1]:
        raise InputError(f"the adjacency matrix has shape {rows.shape}: it must be square.")
    if not rows.has_canonical_format or not rows.data.all():
        rows = rows.copy()
        rows.sum_duplicates()
        rows.eliminate_zeros()                                      # no edges
    source = np.repeat(np.arange(rows.shape[0], dtype=rows.indices.dtype), np.diff(rows.indptr))
    ends = torch.from_numpy(np.stack([source, rows.indices]))
    weight = None if (rows.data == 1).all() else _as_weight(torch.from_numpy(rows.data))
    return GraphTensors(ends if ends.dtype == torch.int32 else ends.long(), rows.shape[0], edge_weight=weight)


def read_networkx(graph: Any) -> GraphTensors:
    """Return an undirected networkx graph with its edge attribute ``weight``; nodes in the order of ``graph.nodes``."""
    if graph.is_directed():
        raise InputError("the networkx graph is directed: use graph.to_undirected().")
    ends = networkx_ends(graph)
    joins = ends[0] != ends[1]                                      # a self loop is one edge
    weight = edge_numbers([value for *_, value in graph.edges(data="weight")], "the networkx graph")
    if weight is not None:
        weight = torch.cat([weight, weight[joins]])
    return GraphTensors(torch.cat([ends, ends[:, joins].flip(0)], dim=1), len(graph), edge_weight=weight)


def networkx_ends(graph: Any) -> Tensor:
    """Return the edges of a networkx graph as it lists them, ``(2, E)``, nodes numbered in the order of its nodes."""
    place = {node: number for number, node in enumerate(graph.nodes)}
    return torch.tensor([[place[node] for node in ends] for ends in graph.edges()], dtype=torch.int64).view(-1, 2).T


def edge_numbers(given: list[Any], graph: str, name: str = "weight") -> Tensor | None:
    """Return the values of an edge attribute as weights, ``None`` if no edge has it or all of them are 1."""
    missing = sum(value is None for value in given)
    if missing == len(given):
        return None
    if missing:
        raise InputError(f"{missing} edges of {graph} have no {name!r}, others have one: set it for all or none.")
    try:
        weight = torch.tensor([float(value) for value in given], dtype=torch.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"the edge attribute {name!r} of {graph} must be one number per edge: use float.") from None
    return None if bool((weight == 1).all()) else weight
