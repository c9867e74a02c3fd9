"""Graphs as plain tensors: the type that all arithmetic of the package works on, and what is computed from it once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from weakref import ref

import torch
from torch import Tensor
from torch.compiler import is_compiling

from jbpool import interop
from jbpool.checks import check_count, check_edge_weight, check_sizes, may_read
from jbpool.errors import InputError
from jbpool.formats import Blocks, CsrRows, by_rows, row_of_entries
from jbpool.interop import GraphTensors, sizes_of_batch, version
from jbpool.kept import kept
from jbpool.processes import Halo, RowShares

T = TypeVar("T")


class _Remembered(NamedTuple):
    """A value, and a weak reference to the tensor it was computed from."""

    value: Any
    source: Callable[[], Tensor | None]
    version: Any


MOST_REMEMBERED = 8


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
        if not is_compiling() and num_nodes is not None and num_nodes != 0:
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
        sizes = torch.full((1,), num_nodes, device=edge_index.device) if sizes is None else sizes
        self._start(sizes, num_nodes, edge_index.shape[1], edge_index.dtype, edge_weight, edge_index=edge_index)

    def _start(
        self,
        sizes: Tensor,
        num_nodes: int,
        num_edges: int,
        idtype: torch.dtype,
        edge_weight: Tensor | None = None,
        blocks: Blocks | None = None,
        **kept_with_edges: Any,
    ) -> Graph:
        self.sizes, self.num_nodes, self.num_edges, self.idtype = sizes, num_nodes, num_edges, idtype
        self.device, self.edge_weight = sizes.device, edge_weight
        self.blocks = blocks                        # if the graphs are complete, as pooled ones are
        self._kept = kept_with_edges                # what is computed from the edges, for good; see once()
        self._memo: dict[Any, _Remembered] = {}     # the last few values of remembered()
        return self

    @classmethod
    def from_rows(
        cls,
        rows: CsrRows,
        sizes: Tensor | None = None,
        edge_index: Tensor | None = None,
        symmetric: bool = False,
        halo: Halo | None = None,
    ) -> Graph:
        """Return the graph of an adjacency matrix whose row i are the edges that end in node i; nothing is checked.

        ``edge_index``: ``(2, E)``, if it is known; by default the order of the rows, computed on first use.
        ``symmetric``: whether both directions of every edge are known to be there. ``halo``: where rows are divided
        between processes; columns are places in its extended rows.
        """
        known: dict[str, Any] = {"by_target": rows}
        known |= ({} if edge_index is None else {"edge_index": edge_index}) | ({"symmetric": True} if symmetric else {})
        known |= {} if halo is None else {"halo": halo}
        num_nodes, columns = len(rows.pointers) - 1, rows.columns
        sizes = torch.full((1,), num_nodes, device=columns.device) if sizes is None else sizes
        return cls.__new__(cls)._start(sizes, num_nodes, len(columns), columns.dtype, **known)

    @classmethod
    def of_rows(
        cls, shares: RowShares, pointers: Tensor, columns: Tensor, edge_weight: Tensor | None = None
    ) -> Graph:
        """Return the n rows of this process of a symmetric adjacency matrix; all processes call this together.

        ``pointers``: ``(n + 1,)``. ``columns``: ``(E,)`` numbers of nodes, ascending in every row; they are replaced by
        places in the extended rows of ``halo``, in the same order. ``edge_weight``: ``(E,)``.
        """
        halo = Halo.around(shares, columns)
        return cls.from_rows(CsrRows(pointers, columns, None), symmetric=True, halo=halo).weighted(edge_weight)

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
    def of_blocks(blocks: Blocks) -> Graph:
        """Return a batch of complete graphs."""
        graph = Graph.__new__(Graph)
        return graph._start(
            blocks.sizes, blocks.num_nodes, blocks.num_edges, blocks.idtype, blocks=blocks, symmetric=True
        )

    def weighted(self, edge_weight: Tensor | None) -> Graph:
        """Return the graph with other edge weights, unchecked. Both share what is computed from the edges."""
        if edge_weight is self.edge_weight:
            return self
        graph = Graph.__new__(Graph)
        graph.__dict__.update(self.__dict__, edge_weight=edge_weight)
        return graph

    def __repr__(self) -> str:
        graphs = f"{self.num_graphs} graphs, " if self.num_graphs != 1 else ""
        return f"Graph({graphs}{self.num_nodes} nodes, {self.num_edges} edges)"

    def __reduce__(self):
        # What was computed from the edges is not stored.
        edges: tuple[Callable[..., Graph], tuple] = Graph, (self.edge_index, self.num_nodes, self.sizes)
        if self.blocks is not None and self.blocks.nodes is None:
            edges = Graph.complete, (self.num_graphs, self.blocks.width, self.idtype, self.device)
        elif self.blocks is not None:
            edges = Graph.of_blocks, (self.blocks,)
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
        names = ("edge_index", "by_target", "by_source", "halo")        # whatever is there need not be computed again
        known: dict[str, Any] = {name: self._kept[name].to(device) for name in names if name in self._kept}
        known |= {"symmetric": True} if self.known_symmetric else {}
        weight = None if self.edge_weight is None else self.edge_weight.to(device)
        blocks = None if self.blocks is None else self.blocks.to(device)
        sizes = self.sizes.to(device) if blocks is None else blocks.sizes
        moved = Graph.__new__(Graph)
        return moved._start(sizes, self.num_nodes, self.num_edges, self.idtype, weight, blocks, **known)

    # What is computed on first use and kept.

    @property
    def edge_index(self) -> Tensor:
        """Source and target of every edge, ``(2, E)``; by default in the order of the rows."""
        return self.once("edge_index", self._make_edge_index)

    def _make_edge_index(self) -> Tensor:
        if self.blocks is not None:
            return self.blocks.edge_index()
        pointers, columns, _ = self.by_target
        return torch.stack([columns, row_of_entries(pointers, self.num_edges).to(self.idtype)])

    @property
    def by_target(self) -> CsrRows:
        """The edges by target; row i of ``A X`` is a sum over them. Needs no order of ``edge_index``."""
        return self.once("by_target", lambda: by_rows(self.edge_index[1], self.edge_index[0], self.num_nodes))

    @property
    def by_source(self) -> CsrRows:
        """The edges by source, for products with the transpose."""
        return self.once("by_source", lambda: by_rows(self.edge_index[0], self.edge_index[1], self.num_nodes))

    @property
    def halo(self) -> Halo:
        """Nodes of other processes that edges lead to; none, unless the graph was made by ``of_rows``."""
        return self.once("halo", lambda: Halo(RowShares.alone(self.num_nodes), self.sizes[:0]))

    @property
    def shares(self) -> RowShares:
        """Which process has which nodes; ``num_nodes`` counts those of this one."""
        return self.halo.shares

    def part(self, shares: RowShares) -> Graph:
        """Return the rows of this process of a graph that every process has."""
        if shares.processes == 1:
            return self
        pointers, columns, _ = rows = self.by_target
        first, last = pointers[shares.start], pointers[shares.stop]
        own = pointers[shares.start : shares.stop + 1] - first
        weight = None if self.edge_weight is None else rows.of_edges(self.edge_weight)[first:last].clone()
        return Graph.of_rows(shares, own, columns[first:last].clone(), weight)

    @property
    def known_symmetric(self) -> bool:
        """Whether both directions of every edge are there, as checked or built."""
        return "symmetric" in self._kept

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return what is computed from the edges on first use, and kept for all graphs that differ in weights alone."""
        if name in self._kept:
            return self._kept[name]
        value = kept(compute)
        if not is_compiling():                          # a compiled model keeps nothing
            self._kept[name] = value
        return value

    def remembered(self, key: Any, compute: Callable[..., T], source: Tensor | None = None) -> T:
        """Return the value of a key, computed on first use, and again once its source has changed.

        ``source``: what it is computed from besides the graph, such as edge weights; it is passed on. Changes that
        torch cannot track, through ``source.data`` or a shared numpy array, go unnoticed.
        """
        if is_compiling():                              # a compiled model keeps nothing
            return compute() if source is None else compute(source)
        known = self._memo.get(key)
        if known is None or known.source() is not source or known.version != version(source):
            if len(self._memo) == MOST_REMEMBERED:      # a sweep over some parameter must not fill the memory
                self._memo.clear()
            reference = (lambda: None) if source is None else ref(source)
            known = self._memo[key] = _Remembered(kept(compute, source), reference, version(source))
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
    return Graph.of_blocks(Blocks(sizes, num_nodes, idtype))


_kept_complete = lru_cache(maxsize=16)(_complete)       # a training run has few batch sizes


def _restored(make: Callable[..., Graph], arguments: tuple, edge_weight: Tensor) -> Graph:
    return make(*arguments).weighted(edge_weight)


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
            f"graph is a tensor {tuple(graph.shape)}: pass jbpool.Graph(edge_index), or with adj = "
            "adj.to_sparse_coo().coalesce() jbpool.Graph(adj.indices(), len(adj), edge_weight=adj.values())."
        )
    kind = f"{type(graph).__module__}.{type(graph).__name__}".removeprefix("builtins.")      # igraph has a Graph, too
    raise InputError(
        f"graph is a {kind}: pass a DGLGraph, a Data or Batch of PyG, a jbpool.Graph, a sparse matrix "
        "or a networkx graph; several graphs as one batch."
    )
