"""Graphs as plain tensors, and the door through which the graphs of DGL, PyG, scipy and networkx come in and go out.

All arithmetic of the package works on ``Graph``. Neither DGL nor PyG is imported unless one of their graphs comes
in: an object can only be a ``DGLGraph`` if its user has imported dgl.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar
from weakref import ref

import torch
from torch import Tensor

from jbpool.checks import check_count, check_edge_weight, check_features, check_sizes, may_read, reads_all
from jbpool.errors import INSTALL_DGL, InputError

T = TypeVar("T")


class kept_property(cached_property[T]):     # noqa: N801  as in functools
    """A cached property whose tensors serve training, too, if it is first asked for in ``torch.inference_mode``."""

    def __get__(self, instance: Any, owner: Any = None) -> T:       # type: ignore[override]
        with torch.inference_mode(False):
            return super().__get__(instance, owner)


class Rows(NamedTuple):
    """An adjacency matrix by rows (CSR): those of node i are the entries ``pointers[i]`` to ``pointers[i + 1]``."""

    pointers: Tensor                # (N + 1,)
    columns: Tensor                 # (E,)  the node at the other end
    edges: Tensor | None            # (E,)  its place in ``edge_index``; None: 0, 1, 2, ...

    def of_edges(self, values: Tensor) -> Tensor:
        """Return values of edges ``(E, *)`` in the order of the rows."""
        return values if self.edges is None else values[self.edges]

    def to(self, device: torch.device) -> Rows:
        """Return the matrix on a device."""
        edges = None if self.edges is None else self.edges.to(device)
        return Rows(self.pointers.to(device), self.columns.to(device), edges)

    def numbers(self, start: int, stop: int) -> Tensor:
        """Return the places in ``edge_index`` of the entries ``start`` to ``stop``, int64."""
        if self.edges is None:
            return torch.arange(start, stop, device=self.columns.device)
        return self.edges[start:stop].long()


class _Remembered(NamedTuple):
    """A value, and a weak reference to the tensor it was computed from."""

    value: Any
    source: Callable[[], Tensor | None]
    version: Any


def _reference(source: Tensor | None) -> Callable[[], Tensor | None]:
    return (lambda: None) if source is None else ref(source)


def _version(source: Tensor | None) -> Any:
    """Return what changes with every write in place. Inference tensors keep no count: theirs is always another."""
    return None if source is None else object() if source.is_inference() else source._version


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

    Examples
    --------
    >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> path
    Graph(3 nodes, 4 edges)
    >>> Graph(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), sizes=[2, 2]).num_graphs
    2
    """

    def __init__(
        self, edge_index: Tensor, num_nodes: int | None = None, sizes: Tensor | Sequence[int] | None = None
    ):
        if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
            got = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
            raise InputError(f"edge_index is {got}: give a tensor (2, E), source and target of every edge.")
        if edge_index.dtype not in (torch.int64, torch.int32):
            raise InputError(f"edge_index is {edge_index.dtype}: node ids are int64 or int32; use edge_index.long().")
        if num_nodes is not None and num_nodes != 0:
            num_nodes = check_count(num_nodes, "num_nodes")
        if sizes is not None:
            sizes = check_sizes(sizes, num_nodes)[0].to(edge_index.device)
            num_nodes = int(sizes.sum()) if num_nodes is None else num_nodes
        elif num_nodes is None:
            num_nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
        if may_read(edge_index) and edge_index.numel():
            low, high = (int(end) for end in edge_index.aminmax())
            if low < 0 or high >= num_nodes:
                raise InputError(f"edge_index holds {low} to {high}: the {num_nodes} nodes are numbered from 0.")
        self._start(num_nodes, edge_index.shape[1], edge_index.device, edge_index.dtype, sizes)
        self.__dict__["edge_index"] = edge_index

    def _start(
        self, num_nodes: int, num_edges: int, device: torch.device, idtype: torch.dtype, sizes: Tensor | None
    ) -> None:
        self.num_nodes, self.num_edges, self.device, self.idtype = num_nodes, num_edges, device, idtype
        self.sizes = torch.full((1,), num_nodes, device=device) if sizes is None else sizes
        self.complete_size: int | None = None       # K, if the graphs are complete and have K nodes each
        self.known_symmetric = False                # both directions of every edge are there, as checked or built
        self._memo: dict[Any, _Remembered] = {}

    @classmethod
    def from_rows(
        cls, rows: Rows, sizes: Tensor | None = None, edge_index: Tensor | None = None, symmetric: bool = False
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
    @lru_cache(maxsize=16)      # a training run has few batch sizes
    def complete(num_graphs: int, num_nodes: int, idtype: torch.dtype, device: torch.device) -> Graph:
        """Return a batch of complete graphs with self loops, edges in row-major order.

        Examples
        --------
        >>> Graph.complete(3, 2, torch.int64, torch.device("cpu"))
        Graph(3 graphs, 6 nodes, 12 edges)
        """
        graph = Graph.__new__(Graph)
        with torch.inference_mode(False), torch._C._DisableFuncTorch():         # kept beyond both
            sizes = torch.full((num_graphs,), num_nodes, device=device)
        graph._start(num_graphs * num_nodes, num_graphs * num_nodes**2, device, idtype, sizes)
        graph.complete_size, graph.known_symmetric = num_nodes, True
        return graph

    def __repr__(self) -> str:
        graphs = f"{self.num_graphs} graphs, " if self.num_graphs != 1 else ""
        return f"Graph({graphs}{self.num_nodes} nodes, {self.num_edges} edges)"

    def __reduce__(self):
        if self.complete_size is not None:
            return Graph.complete, (self.num_graphs, self.complete_size, self.idtype, self.device)
        return Graph, (self.edge_index, self.num_nodes, self.sizes)     # what was computed from them is not stored

    @property
    def num_graphs(self) -> int:
        """Number of graphs B."""
        return self.sizes.shape[0]

    def to(self, device: torch.device | str) -> Graph:
        """Return the graph on a device; itself if it is there."""
        device = torch.device(device)
        if device == self.device or (device.type == self.device.type and device.index is None):
            return self
        if self.complete_size is not None:
            return Graph.complete(self.num_graphs, self.complete_size, self.idtype, device)
        moved = Graph.__new__(Graph)
        moved._start(self.num_nodes, self.num_edges, device, self.idtype, self.sizes.to(device))
        moved.known_symmetric = self.known_symmetric
        for name in ("edge_index", "by_target", "by_source"):           # whatever is there need not be computed again
            if name in self.__dict__:
                moved.__dict__[name] = self.__dict__[name].to(device)
        return moved

    # What is computed on first use and kept.

    @kept_property
    def edge_index(self) -> Tensor:
        """Source and target of every edge, ``(2, E)``."""
        if self.complete_size is not None:
            node = torch.arange(self.num_nodes, dtype=self.idtype, device=self.device)
            block = node.view(-1, self.complete_size)                                           # (B, K)
            source = node.repeat_interleave(self.complete_size)
            target = block.repeat_interleave(self.complete_size, dim=0, output_size=self.num_nodes).flatten()
            return torch.stack([source, target])
        rows = self.by_target                                           # in the order of the rows
        return torch.stack([rows.columns, row_of_entries(rows.pointers, self.num_edges).to(self.idtype)])

    @kept_property
    def by_target(self) -> Rows:
        """The edges by target; row i of ``A X`` is a sum over them. Needs no order of ``edge_index``."""
        return _by_rows(self.edge_index[1], self.edge_index[0], self.num_nodes)

    @kept_property
    def by_source(self) -> Rows:
        """The edges by source, for products with the transpose."""
        return _by_rows(self.edge_index[0], self.edge_index[1], self.num_nodes)

    def remembered(self, key: Any, compute: Callable[[], T], source: Tensor | None = None) -> T:
        """Return the value of a key, computed on first use, and again once its source has changed.

        ``source``: what it is computed from besides the graph, such as edge weights. Changes that torch cannot track,
        through ``source.data`` or a shared numpy array, go unnoticed.
        """
        known = self._memo.get(key)
        if known is None or known.source() is not source or known.version != _version(source):
            if len(self._memo) == MOST_KEPT:        # a sweep over some parameter must not fill the memory
                self._memo.clear()
            with torch.inference_mode(False), torch._C._DisableFuncTorch():     # kept beyond both
                known = _Remembered(compute(), _reference(source), _version(source))
            self._memo[key] = known
        return known.value

    # In and out.

    @classmethod
    def from_dgl(cls, graph: Any) -> Graph:
        """Return a ``DGLGraph`` as a Graph. The same object gives the same Graph, until its edges change."""
        if graph.is_block:
            raise InputError(
                "graph is a block of a sampler, with edges in one direction: pool a subgraph of the whole graph, "
                "dgl.node_subgraph(whole, block.srcdata[dgl.NID])."
            )
        if not graph.is_homogeneous:
            raise InputError(
                f"graph has node types {graph.ntypes} and edge types {graph.etypes}: use dgl.to_homogeneous(graph)."
            )
        identity, held = _dgl_identity(graph)
        found = _known(graph, identity)
        if found is None:
            *arrays, sizes = held
            if identity[0] == "csc":
                pointers, columns, edges = arrays
                # DGL leaves the ids out where they are 0, 1, 2, ...
                rows = Rows(pointers, columns, edges if len(edges) == len(columns) > 0 else None)
                found = Graph.from_rows(rows, sizes.long(), None if rows.edges is None else _dgl_ends(graph))
            else:
                found = Graph(_dgl_ends(graph), graph.num_nodes())
                found.sizes = sizes.long()
            graph._jbpool = _Known(found, identity, held)
        return found

    def to_dgl(self) -> Any:
        """Return a ``DGLGraph`` with the same edges, in the same order, both batch counts set."""
        try:
            import dgl
        except ImportError as error:
            raise _missing("to_dgl", "dgl", INSTALL_DGL, error) from None
        made = dgl.graph(tuple(self.edge_index), num_nodes=self.num_nodes)
        sizes = self.sizes.to(self.idtype)                              # dgl 2.1 needs counts of the type of the ids
        made.set_batch_num_nodes(sizes)
        made.set_batch_num_edges(_edges_per_graph(self).to(self.idtype))
        made._jbpool = _Known(self, *_dgl_identity(made))
        return made

    @classmethod
    def from_pyg(cls, data: Any) -> Graph:
        """Return a ``Data`` or ``Batch`` of PyG as a Graph. The same object gives the same Graph, until it changes."""
        if getattr(data, "edge_index", None) is None:
            raise InputError(
                f"{type(data).__name__} has no edge_index: pass a homogeneous graph with one; for HeteroData use "
                "data.to_homogeneous()."
            )
        identity, held = _pyg_identity(data)
        found = _known(data, identity)
        if found is None:
            _, batch, pointers = held
            sizes = None
            if pointers is not None:
                sizes = pointers.diff()
            elif batch is not None:
                sizes = torch.bincount(batch, minlength=getattr(data, "num_graphs", 1))
                if may_read(batch) and bool((batch.diff() < 0).any()):
                    raise InputError("data.batch is not sorted: the nodes of a graph must be consecutive.")
            found = Graph(data.edge_index, data.num_nodes, sizes)
            data.__dict__["_jbpool"] = _Known(found, identity, held)
        return found

    def to_pyg(self) -> Any:
        """Return a ``Batch`` of PyG with the same edges, in the same order."""
        try:
            from torch_geometric.data import Batch
        except ImportError as error:
            raise _missing("to_pyg", "torch_geometric", "pip install 'jbpool[pyg]'", error) from None
        pointers = torch.cat([self.sizes.new_zeros(1), self.sizes.cumsum(0)])
        made = Batch(
            edge_index=self.edge_index,
            num_nodes=self.num_nodes,
            batch=torch.repeat_interleave(self.sizes, output_size=self.num_nodes),
            ptr=pointers,
        )
        made.__dict__["_jbpool"] = _Known(self, *_pyg_identity(made))
        return made

    @classmethod
    def from_scipy(cls, matrix: Any) -> Graph:
        """Return the graph of a sparse adjacency matrix; ``matrix.tocsr().data`` are the weights of its edges."""
        import numpy as np

        rows = matrix.tocsr()
        if rows.shape[0] != rows.shape[1]:
            raise InputError(f"the adjacency matrix has shape {rows.shape}: it must be square.")
        source = np.repeat(np.arange(rows.shape[0], dtype=rows.indices.dtype), np.diff(rows.indptr))
        ends = torch.from_numpy(np.stack([source, rows.indices]))
        return cls(ends if ends.dtype == torch.int32 else ends.long(), num_nodes=rows.shape[0])

    @classmethod
    def from_networkx(cls, graph: Any) -> Graph:
        """Return an undirected networkx graph as a Graph; its nodes are numbered in the order of ``graph.nodes``."""
        if graph.is_directed():
            raise InputError("the networkx graph is directed: use graph.to_undirected().")
        place = {node: number for number, node in enumerate(graph.nodes)}
        ends = torch.tensor([(place[a], place[b]) for a, b in graph.edges()], dtype=torch.int64).view(-1, 2).T
        other = ends[:, ends[0] != ends[1]].flip(0)                     # a self loop is one edge
        return cls(torch.cat([ends, other], dim=1), num_nodes=len(place))


def row_of_entries(pointers: Tensor, num_entries: int) -> Tensor:
    """Return the row of each entry of a CSR matrix, ``(E,)`` int64."""
    row = torch.arange(len(pointers) - 1, device=pointers.device)
    return torch.repeat_interleave(row, pointers.diff(), output_size=num_entries)


def _by_rows(row: Tensor, column: Tensor, num_nodes: int) -> Rows:
    """Return entries sorted by row; those of a row keep their order."""
    count = torch.zeros(num_nodes + 1, dtype=torch.int64, device=row.device)
    count.index_add_(0, row.long() + 1, torch.ones_like(row, dtype=torch.int64))
    order = row.argsort(stable=True)
    return Rows(count.cumsum_(0), column[order], order)


def _edges_per_graph(graph: Graph) -> Tensor:
    """Return the number of edges of each graph, ``(B,)``."""
    if graph.num_graphs == 1:
        return torch.full((1,), graph.num_edges, device=graph.device)
    if graph.complete_size is not None:
        return graph.sizes * graph.complete_size
    member = torch.repeat_interleave(graph.sizes, output_size=graph.num_nodes)                  # (N,)
    owner = member[graph.edge_index[0].long()]                                                  # (E,)
    return torch.zeros_like(graph.sizes).index_add_(0, owner, torch.ones_like(owner))


# DGL and PyG. A Graph is kept on the object that it was made from, with what tells whether that has changed since.


class _Known:
    """A Graph, what identifies the edges it was made from, and the tensors that hold them.

    While those are held, no other tensors have their addresses. Neither copied nor pickled with its owner.
    """

    def __init__(self, graph: Graph | None = None, identity: Any = None, held: tuple = ()):
        self.graph, self.identity, self.held = graph, identity, held

    def __reduce__(self):
        return _Known, ()


def _known(owner: Any, identity: Any) -> Graph | None:
    known = vars(owner).get("_jbpool", _Known())
    return known.graph if known.identity == identity else None


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


def _pyg_identity(data: Any) -> tuple[tuple, tuple]:
    """Return what changes with the tensors that decide the graph, also by a change in place, and those tensors."""
    held = (data.edge_index, getattr(data, "batch", None), getattr(data, "ptr", None))
    return (*((id(tensor), _version(tensor)) for tensor in held), data.num_nodes), held


def _missing(method: str, package: str, fix: str, error: ImportError) -> InputError:
    return InputError(f"Graph.{method}() needs {package}, which cannot be imported ({error}): {fix}.")


def is_dgl(graph: Any) -> bool:
    """Return whether an object is a ``DGLGraph``, without importing dgl."""
    return "dgl" in sys.modules and isinstance(graph, getattr(sys.modules["dgl"], "DGLGraph", ()))


def is_pyg(graph: Any) -> bool:
    """Return whether an object is a graph of PyG, without importing it."""
    data = sys.modules.get("torch_geometric.data")
    return data is not None and isinstance(graph, (data.Data, data.HeteroData))


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
    if is_dgl(graph) or is_pyg(graph):
        with torch.inference_mode(False):           # kept with the graph
            return Graph.from_dgl(graph) if is_dgl(graph) else Graph.from_pyg(graph)
    if hasattr(graph, "tocsr"):
        return Graph.from_scipy(graph)
    if hasattr(graph, "is_directed") and hasattr(graph, "nodes"):
        return Graph.from_networkx(graph)
    raise InputError(
        f"graph is a {type(graph).__name__}: pass a DGLGraph, a Data or Batch of PyG, a jbpool.Graph, a sparse matrix "
        "or a networkx graph; several graphs as one batch."
    )


def like(graph: Graph, given: Any) -> Any:
    """Return complete graphs in the kind of the graph that was given: a ``DGLGraph``, a ``Batch`` or a ``Graph``."""
    if is_dgl(given):
        return _shared_dgl(graph).local_var()                           # shared edges, frames of its own
    return graph.to_pyg() if is_pyg(given) else graph


@lru_cache(maxsize=16)
def _shared_dgl(graph: Graph) -> Any:
    with torch.inference_mode(False), torch._C._DisableFuncTorch():             # DGL cannot read its tensors
        return graph.to_dgl()


# What layers are called with.


def checked_graph(
    graph: Any, feat: Tensor, edge_weight: Tensor | None, dtype: torch.dtype, in_feats: int, sparse: bool = False
) -> Graph:
    """Return the graph that a layer was called with, after checking it, its features and its edge weights.

    ``dtype`` and ``in_feats`` are those of the layer; ``sparse``: it takes CSR features, too.
    """
    found = as_graph(graph)
    check_features(feat, dtype, in_feats, sparse)
    if feat.shape[0] != found.num_nodes:
        raise InputError(
            f"feat has {feat.shape[0]} rows but the graph has {found.num_nodes} nodes: "
            "pass one row per node of the batched graph, in node order."
        )
    if feat.device != found.device:
        raise InputError(f"feat is on {feat.device} but the graph is on {found.device}: move one with .to(device).")
    # On a pooled graph only negative weights are refused: if any is not finite, neither is the loss of the pool.
    check_edge_weight(edge_weight, found.num_edges, found.device, finite=found.complete_size is None)
    check_symmetric(found, edge_weight)
    return found


def check_symmetric(graph: Graph, edge_weight: Tensor | None = None) -> None:
    """Refuse edges in one direction or between two graphs, and weights that differ between the directions of an edge.

    Edges are checked once per graph, constant weights once. Two random numbers per node decide: for random vectors x, y
    the sum ``x^T A y - y^T A x`` over the edges vanishes only if A is symmetric. The edges are counted in integers
    without rounding.
    """
    if not may_read(graph.sizes):
        return
    if not graph.known_symmetric:
        if not is_symmetric(graph):
            raise InputError(_asymmetry(graph))
        _check_parts(graph)
        graph.known_symmetric = True
    pooled = edge_weight is not None and (edge_weight.requires_grad or graph.complete_size is not None)
    if edge_weight is None or (pooled and not reads_all()):
        return
    weight = edge_weight.detach()
    if not graph.remembered("equal weights", lambda: _has_symmetric_weights(graph, weight), edge_weight):
        raise InputError(_asymmetry(graph, weight))


def is_symmetric(graph: Graph) -> bool:
    """Return whether both directions of every edge are there, equally often."""
    source, target = graph.edge_index.long()
    draw = torch.empty(2, graph.num_nodes, dtype=torch.int64).random_(generator=torch.Generator().manual_seed(0))
    x, y = draw.to(graph.device)
    return bool((x[source] * y[target] - x[target] * y[source]).sum() == 0)         # modulo 2^64


def _check_parts(graph: Graph) -> None:
    """Refuse edges between two graphs of a batch."""
    if graph.num_graphs == 1 or int(graph.sizes.sum()) != graph.num_nodes:      # stale sizes are refused where used
        return
    part = torch.repeat_interleave(graph.sizes)                                 # (N,)  the graph of each node
    source, target = graph.edge_index.long()
    crossing = part[source] != part[target]
    if bool(crossing.any()):
        u, v = (int(end[crossing][0]) for end in (source, target))
        raise InputError(
            f"graph has the edge {u} -> {v} between graphs {int(part[u])} and {int(part[v])} of the batch: pass the "
            "nodes per graph in their order in the batch, or one graph."
        )


def _has_symmetric_weights(graph: Graph, weight: Tensor) -> bool:
    source, target = graph.edge_index.long()
    x, y = torch.rand(2, graph.num_nodes, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 0.5
    x, y, weight = x.to(graph.device), y.to(graph.device), weight.double()
    excess = (weight * (x[source] * y[target] - x[target] * y[source])).sum().abs()
    return not bool(excess > 1e-5 * weight.norm())              # rounding of float32 gives some 1e-8


def _asymmetry(graph: Graph, weight: Tensor | None = None) -> str:
    """Name the edge whose two directions differ most in weight, or in number."""
    source, target = graph.edge_index.long().cpu()
    value = torch.ones(len(source), dtype=torch.float64) if weight is None else weight.double().cpu()
    ends = torch.cat([source * graph.num_nodes + target, target * graph.num_nodes + source])
    there, back = ends.unique(return_inverse=True)[1].view(2, -1)                       # (E,) each: numbers of pairs
    total = value.new_zeros(int(ends.numel())).index_add(0, there, value)
    first = int((total[there] - total[back]).argmax())
    u, v = int(source[first]), int(target[first])
    if weight is None:
        return (
            f"graph has the edge {u} -> {v} more often than {v} -> {u}: pass both directions of every edge; use "
            "dgl.add_reverse_edges(graph) before dgl.batch (it makes one graph of a batch), or "
            "torch_geometric.utils.to_undirected(edge_index)."
        )
    one, other = float(total[there[first]]), float(total[back[first]])
    return (
        f"edge_weight is {one:g} from {u} to {v} and {other:g} from {v} to {u}: both directions of an edge need the "
        "same weight; dgl.add_reverse_edges(graph, copy_edata=True), before dgl.batch, and "
        "torch_geometric.utils.to_undirected copy it."
    )
