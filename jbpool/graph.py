"""Graphs as plain tensors: the type that all arithmetic of the package works on, and what is computed from it once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from weakref import ref

import torch
from torch import Tensor
from torch.compiler import is_compiling

from jbpool import interop
from jbpool.checks import check_count, check_edge_weight, check_sizes, may_read
from jbpool.errors import InputError
from jbpool.interop import GraphTensors, sizes_of_batch, version
from jbpool.kept import kept, kept_property

T = TypeVar("T")


class CsrRows(NamedTuple):
    """An adjacency matrix by rows (CSR): those of node i are the entries ``pointers[i]`` to ``pointers[i + 1]``."""

    pointers: Tensor                # (N + 1,)
    columns: Tensor                 # (E,)  the node at the other end
    edges: Tensor | None            # (E,)  its place in ``edge_index``; None: 0, 1, 2, ...

    def of_edges(self, values: Tensor) -> Tensor:
        """Return values of edges ``(E, *)`` in the order of the rows."""
        return values if self.edges is None else values[self.edges]

    def to(self, device: torch.device) -> CsrRows:
        """Return the matrix on a device."""
        edges = None if self.edges is None else self.edges.to(device)
        return CsrRows(self.pointers.to(device), self.columns.to(device), edges)

    def numbers(self, start: int, stop: int) -> Tensor:
        """Return the places in ``edge_index`` of the entries ``start`` to ``stop``, int64."""
        if self.edges is None:
            return torch.arange(start, stop, device=self.columns.device)
        return self.edges[start:stop].long()


@dataclass(frozen=True, eq=False)
class Blocks:
    """Complete graphs as blocks of a table that has room for K nodes per graph, edges in row-major order."""

    num_graphs: int                 # B
    width: int                      # K, the nodes of the largest graph
    nodes: Tensor | None = None     # (M,) place of each node among the B * K of the table; None: every graph has K
    edges: Tensor | None = None     # (E,) place of each edge among the B * K * K

    def table(self, rows: Tensor) -> Tensor:
        """Return rows of nodes laid out by graph, zeros beyond its nodes: ``(M, D)`` to ``(B, K, D)``."""
        if self.nodes is not None:
            rows = rows.new_zeros(self.num_graphs * self.width, rows.shape[1]).index_copy(0, self.nodes, rows)
        return rows.view(self.num_graphs, self.width, rows.shape[1])

    def rows(self, table: Tensor) -> Tensor:
        """Return the rows of the nodes there are: ``(B, K, D)`` to ``(M, D)``."""
        rows = table.flatten(0, 1)
        return rows if self.nodes is None else rows.index_select(0, self.nodes)

    def matrix(self, edge_weight: Tensor) -> Tensor:
        """Return weights of edges as adjacency matrices, zeros beyond the nodes: ``(E,)`` to ``(B, K, K)``."""
        if self.edges is not None:
            room = edge_weight.new_zeros(self.num_graphs * self.width**2)
            edge_weight = room.index_copy(0, self.edges, edge_weight)
        return edge_weight.view(self.num_graphs, self.width, self.width)

    def entries(self, matrix: Tensor) -> Tensor:
        """Return the weights of the edges there are: ``(B, K, K)`` to ``(E,)``."""
        return matrix.flatten() if self.edges is None else matrix.flatten().index_select(0, self.edges)

    def to(self, device: torch.device) -> Blocks:
        """Return the same on a device."""
        nodes, edges = (None if places is None else places.to(device) for places in (self.nodes, self.edges))
        return Blocks(self.num_graphs, self.width, nodes, edges)


class _Remembered(NamedTuple):
    """A value, and a weak reference to the tensor it was computed from."""

    value: Any
    source: Callable[[], Tensor | None]
    version: Any


def _reference(source: Tensor | None) -> Callable[[], Tensor | None]:
    return (lambda: None) if source is None else ref(source)


MOST_KEPT = 8       # values that a graph remembers


class Graph:
    """Undirected graphs packed into one, as tensors. Immutable: what is computed from it is kept and never stale.

    Parameters
    ----------
    edge_index : Tensor
        ``(2, E)``, source and target of both directions of every edge, int64 or int32.
    num_nodes : int, optional
        Number of nodes N. Default: the sum of ``sizes``, else one more than the largest id.
    sizes : Tensor or sequence of int, optional
        Nodes per graph ``(B,)``; the nodes of a graph are numbered one after another. Default: one graph.
    batch : Tensor, optional
        Graph of every node ``(N,)``, in ascending order, instead of ``sizes``, as PyG has it.
    edge_weight : Tensor, optional
        ``(E,)``, finite and not negative, the same for both directions of an edge. Layers and pools use them, unless
        they are called with other weights. Default: all ones.

    Examples
    --------
    >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> path
    Graph(3 nodes, 4 edges)
    >>> Graph(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), sizes=[2, 2]).num_graphs
    2
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int | None = None,
        sizes: Tensor | Sequence[int] | None = None,
        *,
        batch: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ):
        if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
            got = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
            raise InputError(f"edge_index is {got}: give a tensor (2, E), source and target of every edge.")
        if edge_index.dtype not in (torch.int64, torch.int32):
            raise InputError(f"edge_index is {edge_index.dtype}: node ids are int64 or int32; use edge_index.long().")
        if num_nodes is not None and num_nodes != 0:
            num_nodes = check_count(num_nodes, "num_nodes")
        if batch is not None:
            if sizes is not None:
                raise InputError("sizes and batch are both given: they say the same; pass one of them.")
            sizes = sizes_of_batch(batch)
        if sizes is not None:
            sizes = check_sizes(sizes, num_nodes)[0].to(edge_index.device)
            num_nodes = int(sizes.sum()) if num_nodes is None else num_nodes
        elif num_nodes is None:
            num_nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
        if may_read(edge_index) and edge_index.numel():
            low, high = (int(end) for end in edge_index.aminmax())
            if low < 0 or high >= num_nodes:
                raise InputError(f"edge_index holds {low} to {high}: the {num_nodes} nodes are numbered from 0.")
        check_edge_weight(edge_weight, edge_index.shape[1], edge_index.device)
        self._start(num_nodes, edge_index.shape[1], edge_index.device, edge_index.dtype, sizes, edge_weight)
        self.__dict__["edge_index"] = edge_index

    def _start(
        self,
        num_nodes: int,
        num_edges: int,
        device: torch.device,
        idtype: torch.dtype,
        sizes: Tensor | None,
        edge_weight: Tensor | None = None,
    ) -> None:
        self.num_nodes, self.num_edges, self.device, self.idtype = num_nodes, num_edges, device, idtype
        self.sizes = torch.full((1,), num_nodes, device=device) if sizes is None else sizes
        self.blocks: Blocks | None = None           # if the graphs are complete, as pooled ones are
        self.edge_weight = edge_weight
        self.known_symmetric = False                # both directions of every edge are there, as checked or built
        self.segments: Any = None                   # rows of each graph, kept by ops/segment
        self.edges_of: Graph | None = None         # the graph whose edges these are
        self._memo: dict[Any, _Remembered] = {}

    @classmethod
    def from_rows(
        cls, rows: CsrRows, sizes: Tensor | None = None, edge_index: Tensor | None = None, symmetric: bool = False
    ) -> Graph:
        """Return the graph of an adjacency matrix whose row i are the edges that end in node i; nothing is checked.

        ``edge_index``: ``(2, E)``, if it is known; by default the order of the rows, computed on first use.
        ``symmetric``: whether both directions of every edge are known to be there.
        """
        graph = cls.__new__(cls)
        graph._start(len(rows.pointers) - 1, len(rows.columns), rows.columns.device, rows.columns.dtype, sizes)
        graph.__dict__["by_target"] = rows
        graph.known_symmetric = symmetric
        if edge_index is not None:
            graph.__dict__["edge_index"] = edge_index
        return graph

    @staticmethod
    def complete(num_graphs: int, num_nodes: int, idtype: torch.dtype, device: torch.device) -> Graph:
        """Return a batch of complete graphs with self loops, edges in row-major order.

        Examples
        --------
        >>> Graph.complete(3, 2, torch.int64, torch.device("cpu"))
        Graph(3 graphs, 6 nodes, 12 edges)
        """
        make = _complete if is_compiling() else _kept_complete
        return make(num_graphs, num_nodes, idtype, device)

    @staticmethod
    def complete_of(sizes: Tensor, width: int, idtype: torch.dtype) -> Graph:
        """Return complete graphs of different ``sizes``, of at most ``width`` nodes, with self loops; edges as above.

        Two numbers are read from the device: how many nodes and edges there are.
        """
        num_nodes, num_edges = torch.stack([sizes.sum(), sizes.square().sum()]).tolist()

        def places(first: Tensor, counts: Tensor, total: int) -> Tensor:
            """Return the numbers first, first + 1, ... of every run, as many as it counts, in a row."""
            shift = first - (counts.cumsum(0) - counts)
            return torch.arange(total, device=sizes.device) + shift.repeat_interleave(counts, output_size=total)

        nodes = places(torch.arange(len(sizes), device=sizes.device) * width, sizes, num_nodes)         # (M,)
        neighbours = sizes.repeat_interleave(sizes, output_size=num_nodes)                              # (M,)
        edges = places(nodes * width, neighbours, num_edges)                                            # (E,)
        return Graph._of_blocks(sizes, num_edges, Blocks(len(sizes), width, nodes, edges), idtype)

    @staticmethod
    def _of_blocks(sizes: Tensor, num_edges: int, blocks: Blocks, idtype: torch.dtype) -> Graph:
        num_nodes = blocks.num_graphs * blocks.width if blocks.nodes is None else len(blocks.nodes)
        graph = Graph.__new__(Graph)
        graph._start(num_nodes, num_edges, sizes.device, idtype, sizes)
        graph.blocks, graph.known_symmetric = blocks, True
        return graph

    def weighted(self, edge_weight: Tensor | None) -> Graph:
        """Return the graph with other edge weights, unchecked. Both share what is computed from the edges."""
        if edge_weight is self.edge_weight:
            return self
        graph = Graph.__new__(Graph)
        graph._start(self.num_nodes, self.num_edges, self.device, self.idtype, self.sizes, edge_weight)
        graph.blocks, graph.known_symmetric, graph._memo = self.blocks, self.known_symmetric, self._memo
        graph.edges_of = self.edges_of or self
        return graph

    def __repr__(self) -> str:
        graphs = f"{self.num_graphs} graphs, " if self.num_graphs != 1 else ""
        return f"Graph({graphs}{self.num_nodes} nodes, {self.num_edges} edges)"

    def __reduce__(self):
        # What was computed from the edges is not stored.
        edges: tuple[Callable[..., Graph], tuple]
        if self.blocks is not None and self.blocks.nodes is None:
            edges = Graph.complete, (self.num_graphs, self.blocks.width, self.idtype, self.device)
        elif self.blocks is not None:
            edges = Graph.complete_of, (self.sizes, self.blocks.width, self.idtype)
        else:
            edges = Graph, (self.edge_index, self.num_nodes, self.sizes)
        return edges if self.edge_weight is None else (_restored, (*edges, self.edge_weight))

    @property
    def num_graphs(self) -> int:
        """Number of graphs B."""
        return self.sizes.shape[0]

    @property
    def num_edges_per_graph(self) -> Tensor:
        """Number of edges of each graph, ``(B,)``."""
        if self.num_graphs == 1:
            return torch.full((1,), self.num_edges, device=self.device)
        if self.blocks is not None:
            return self.sizes.square()
        member = torch.repeat_interleave(self.sizes, output_size=self.num_nodes)                # (N,)
        owner = member[self.edge_index[0].long()]                                               # (E,)
        return torch.zeros_like(self.sizes).index_add_(0, owner, torch.ones_like(owner))

    def to(self, device: torch.device | str) -> Graph:
        """Return the graph on a device; itself if it is there."""
        device = torch.device(device)
        if device == self.device or (device.type == self.device.type and device.index is None):
            return self
        weight = None if self.edge_weight is None else self.edge_weight.to(device)
        if self.blocks is not None:
            blocks = self.blocks.to(device)
            return Graph._of_blocks(self.sizes.to(device), self.num_edges, blocks, self.idtype).weighted(weight)
        moved = Graph.__new__(Graph)
        moved._start(self.num_nodes, self.num_edges, device, self.idtype, self.sizes.to(device), weight)
        moved.known_symmetric = self.known_symmetric
        for name in ("edge_index", "by_target", "by_source"):           # whatever is there need not be computed again
            if name in self.__dict__:
                moved.__dict__[name] = self.__dict__[name].to(device)
        return moved

    # What is computed on first use and kept.

    @kept_property
    def edge_index(self) -> Tensor:
        """Source and target of every edge, ``(2, E)``."""
        if self.edges_of is not None:
            return self.edges_of.edge_index
        if self.blocks is not None:
            width, edges = self.blocks.width, self.blocks.edges                                 # K, (E,)
            if edges is None:
                edges = torch.arange(self.num_edges, device=self.device)
            shift = self.sizes.cumsum(0) - self.sizes - torch.arange(self.num_graphs, device=self.device) * width
            source, column = edges.div(width, rounding_mode="floor"), edges.remainder(width)
            owner = source.div(width, rounding_mode="floor")                                    # (E,)  graph of each
            ends = torch.stack([source, owner * width + column]) + shift.index_select(0, owner)
            return ends.to(self.idtype)
        rows = self.by_target                                           # in the order of the rows
        return torch.stack([rows.columns, row_of_entries(rows.pointers, self.num_edges).to(self.idtype)])

    @kept_property
    def by_target(self) -> CsrRows:
        """The edges by target; row i of ``A X`` is a sum over them. Needs no order of ``edge_index``."""
        if self.edges_of is not None:
            return self.edges_of.by_target
        return _by_rows(self.edge_index[1], self.edge_index[0], self.num_nodes)

    @kept_property
    def by_source(self) -> CsrRows:
        """The edges by source, for products with the transpose."""
        if self.edges_of is not None:
            return self.edges_of.by_source
        return _by_rows(self.edge_index[0], self.edge_index[1], self.num_nodes)

    def remembered(self, key: Any, compute: Callable[..., T], source: Tensor | None = None) -> T:
        """Return the value of a key, computed on first use, and again once its source has changed.

        ``source``: what it is computed from besides the graph, such as edge weights; it is passed on. Changes that
        torch cannot track, through ``source.data`` or a shared numpy array, go unnoticed.
        """
        if is_compiling():                              # a compiled model keeps nothing
            return compute() if source is None else compute(source)
        known = self._memo.get(key)
        if known is None or known.source() is not source or known.version != version(source):
            if len(self._memo) == MOST_KEPT:        # a sweep over some parameter must not fill the memory
                self._memo.clear()
            known = _Remembered(kept(compute, source), _reference(source), version(source))
            self._memo[key] = known
        return known.value

    # In and out.

    @classmethod
    def _of(cls, tensors: GraphTensors) -> Graph:
        edge_index, num_nodes, sizes, edge_weight, by_target = tensors
        if by_target is not None:
            return cls.from_rows(CsrRows(*by_target), sizes, edge_index)._with_checked(edge_weight)
        assert edge_index is not None
        return cls(edge_index, num_nodes, sizes, edge_weight=edge_weight)

    def _with_checked(self, edge_weight: Tensor | None) -> Graph:
        check_edge_weight(edge_weight, self.num_edges, self.device)
        return self.weighted(edge_weight)

    @classmethod
    def from_dgl(cls, graph: Any) -> Graph:
        """Return a ``DGLGraph`` with its ``edata["weight"]``; the same Graph for the same object until it changes."""
        interop.check_dgl(graph)
        return interop.once_per_graph(graph, cls._of, cls._with_checked)

    def to_dgl(self) -> Any:
        """Return a ``DGLGraph`` with the same edges, in the same order, ``edata["weight"]`` and both batch counts."""
        return interop.to_dgl(
            self.edge_index, self.num_nodes, self.sizes, self.num_edges_per_graph, self.edge_weight, made_from=self
        )

    @classmethod
    def from_pyg(cls, data: Any) -> Graph:
        """Return a PyG graph with its ``edge_weight``; the same Graph for the same object until it changes."""
        interop.check_pyg(data)
        return interop.once_per_graph(data, cls._of, cls._with_checked)

    def to_pyg(self, feat: Tensor | None = None) -> Any:
        """Return a ``Batch`` of PyG with the same edges, in the same order, ``edge_weight`` and features ``x``."""
        tensors = self.edge_index, self.num_nodes, self.sizes, self.edge_weight, feat
        return interop.to_pyg(*tensors, self.num_edges_per_graph, made_from=self)

    @classmethod
    def from_scipy(cls, matrix: Any) -> Graph:
        """Return the graph of a sparse adjacency matrix, whose values are the weights of the edges."""
        return cls._of(interop.read_scipy(matrix))

    @classmethod
    def from_networkx(cls, graph: Any) -> Graph:
        """Return an undirected networkx graph with its edge attribute ``weight``; nodes as in ``graph.nodes``."""
        return cls._of(interop.read_networkx(graph))


def _complete(num_graphs: int, num_nodes: int, idtype: torch.dtype, device: torch.device) -> Graph:
    sizes = kept(lambda: torch.full((num_graphs,), num_nodes, device=device))
    return Graph._of_blocks(sizes, num_graphs * num_nodes**2, Blocks(num_graphs, num_nodes), idtype)


_kept_complete = lru_cache(maxsize=16)(_complete)       # a training run has few batch sizes


def _restored(make: Callable[..., Graph], arguments: tuple, edge_weight: Tensor) -> Graph:
    return make(*arguments).weighted(edge_weight)


def row_of_entries(pointers: Tensor, num_entries: int) -> Tensor:
    """Return the row of each entry of a CSR matrix, ``(E,)`` int64."""
    row = torch.arange(len(pointers) - 1, device=pointers.device)
    return torch.repeat_interleave(row, pointers.diff(), output_size=num_entries)


def _by_rows(row: Tensor, column: Tensor, num_nodes: int) -> CsrRows:
    """Return entries sorted by row; those of a row keep their order."""
    count = torch.zeros(num_nodes + 1, dtype=torch.int64, device=row.device)
    count.index_add_(0, row.long() + 1, torch.ones_like(row, dtype=torch.int64))
    order = row.argsort(stable=True)
    return CsrRows(count.cumsum_(0), column[order], order)


def as_graph(graph: Any) -> Graph:
    """Return a graph of any kind as a ``Graph``.

    Parameters
    ----------
    graph : Graph, DGLGraph, Data, Batch, sparse matrix or networkx graph
        Homogeneous and undirected: both directions of every edge, except for networkx.

    Returns
    -------
    Graph
        Itself, or for a graph of DGL or PyG the same ``Graph`` as before, if its edges have not changed.
    """
    if isinstance(graph, Graph):
        return graph
    for is_kind, convert in (
        (interop.is_dgl, Graph.from_dgl),
        (interop.is_pyg, Graph.from_pyg),
        (interop.is_scipy, Graph.from_scipy),
        (interop.is_networkx, Graph.from_networkx),
    ):
        if is_kind(graph):
            return convert(graph)
    if isinstance(graph, Tensor):
        raise InputError(
            f"graph is a tensor {tuple(graph.shape)}: pass jbpool.Graph(edge_index), or of a sparse tensor "
            "jbpool.Graph(adj.to_sparse_coo().coalesce().indices(), len(adj), edge_weight=adj...values())."
        )
    raise InputError(
        f"graph is a {type(graph).__name__}: pass a DGLGraph, a Data or Batch of PyG, a jbpool.Graph, a sparse matrix "
        "or a networkx graph; several graphs as one batch."
    )


def like(graph: Graph, given: Any, feat: Tensor) -> Any:
    """Return complete graphs in the kind of the graph that was given: a ``DGLGraph``, a ``Batch`` or a ``Graph``.

    ``feat``: node features, which a ``Batch`` holds.
    """
    if interop.is_dgl(given):
        edges = _shared_dgl(graph.edges_of or graph).local_var()     # shared edges, frames of its own
        return interop.with_weight(edges, graph.edge_weight, made_from=graph)
    return graph.to_pyg(feat) if interop.is_pyg(given) else graph


@lru_cache(maxsize=16)
def _shared_dgl(graph: Graph) -> Any:
    return kept(graph.to_dgl)                   # DGL cannot read tensors of a transform
