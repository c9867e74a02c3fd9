"""What loaders return: one graph with node data, or many graphs packed into a few arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn import functional

from jbpool import processes
from jbpool.checks import check_index
from jbpool.data.arrays import narrow
from jbpool.data.parts import Part
from jbpool.data.read import NO_LINES, Lines, Read
from jbpool.errors import DataError, one_line
from jbpool.formats import CsrRows
from jbpool.graph import Graph
from jbpool.inputs import is_symmetric
from jbpool.ops.components import component_sizes
from jbpool.ops.sparse import csr, is_sparse, rows_between
from jbpool.processes import RowShares, world_size

UNLABELLED = -1


@dataclass(frozen=True, eq=False)
class NodeData:
    """A graph for node clustering.

    Nodes without a known label have the label -1 (``UNLABELLED``), which ``num_classes`` does not count.
    """

    graph: Graph                         # both directions of every edge, no self loops; ids are int32 or int64
    feat: Tensor | None                     # (N, D), dense or sparse CSR; None if nodes have no features
    label: Tensor | None                    # (N,) 0 .. num_classes-1; -1: unlabelled
    num_classes: int | None
    name: str
    edge_weight: Tensor | None = None       # (E,)
    ids: np.ndarray | None = None           # (N,) the user's own node ids; None: 0 .. N-1
    class_names: Sequence[str] | None = None
    feat_names: Sequence[str] | None = None             # of the columns of feat, if they have names
    weight_name: str | None = None          # origin of the edge weights, for the summary
    lines: Lines = NO_LINES                 # what became of the lines of the user's edges
    ignored: Sequence[str] = ()             # unused parts of the user's files, for the summary
    first: np.ndarray | None = None         # (N,) of a bipartite graph: whether a node is one of the first column
    place: np.ndarray | None = None         # (N, 2) where the nodes are in space, for pictures
    sample: np.ndarray | None = None        # (N,) text: the sample that a node is of

    def __repr__(self) -> str:
        size = f"{self.graph.num_nodes} nodes, {self.graph.num_edges} edges"
        return f"NodeData({self.name!r}, {size}, {self._features}, {self.num_classes} classes)"

    def on(self, device: torch.device) -> tuple[Graph, Tensor | None, Tensor | None]:
        """Return graph, features and edge weights on a device."""
        feat = None if self.feat is None else self.feat.to(device)
        return self.graph.to(device), feat, None if self.edge_weight is None else self.edge_weight.to(device)

    def of_this_run(self) -> NodeData:
        """Return the rows of this process; the same data, if they are that already."""
        if self.graph.shares.processes == world_size():
            return self
        rows, pointers = self.graph.num_nodes, self.graph.by_target.pointers
        ends = torch.arange(0, rows + processes.ROWS, processes.ROWS).clamp_max(rows)         # of blocks
        return self.part(RowShares.of_this_run(rows, pointers[ends].diff()))

    def part(self, shares: RowShares) -> NodeData:
        """Return the rows of this process of data that every process has."""
        graph, rows = self.graph.weighted(self.edge_weight).part(shares), slice(shares.start, shares.stop)
        return replace(
            self, graph=graph, edge_weight=graph.edge_weight,
            feat=None if self.feat is None else rows_between(self.feat, shares.start, shares.stop),
            label=None if self.label is None else self.label[rows],
            ids=None if self.ids is None else self.ids[rows],
            first=None if self.first is None else self.first[rows],
            place=None if self.place is None else self.place[rows],
            sample=None if self.sample is None else self.sample[rows],
        )  # fmt: skip

    def by_sample(self, values: Tensor) -> dict[str, float]:
        """Return the mean of a value per node, ``(n,)``, over each sample; empty if there are no samples."""
        if self.sample is None:
            return {}
        shares, found = self.graph.shares, {}
        for name in sorted(set().union(*shares.gather(np.unique(self.sample).tolist()))):
            here = values[torch.from_numpy(self.sample == name)].double()
            total, count = shares.add_up(torch.stack([here.sum(), here.new_tensor(len(here))])).tolist()
            found[name] = total / count
        return found

    @property
    def own_ids(self) -> np.ndarray:
        """The user's node ids, else 0 .. N-1; of the nodes of this process."""
        return np.arange(self.graph.shares.start, self.graph.shares.stop) if self.ids is None else self.ids

    @property
    def _features(self) -> str:
        if self.feat is None:
            return "no features"
        return f"{self.feat.shape[1]:,} {'sparse ' if is_sparse(self.feat) else ''}features"

    @cached_property
    def read(self) -> Read:
        """What was read, in numbers; all processes of a run ask for it together."""
        nodes, isolated = self.graph.shares.num_rows, int((self.graph.by_target.pointers.diff() == 0).sum())
        first = 0 if self.first is None else int(self.first.sum())
        entries, isolated, first = _part(self.graph).total(self.graph.num_edges, isolated, first)
        sizes = component_sizes(self.graph)
        return Read(
            name=self.name, nodes=nodes, edges=entries // 2, **self.lines._asdict(),
            bipartite=None if self.first is None else (first, nodes - first), weights=self.weight_name,
            isolated=isolated, components=self.graph.shares.total(len(sizes)),
            largest=max(self.graph.shares.largest(sizes), 0),
        )  # fmt: skip

    @property
    def summary(self) -> str:
        """One line for users: what was read, features, labels, what was ignored; asked for together."""
        ignored = f"; ignored: {', '.join(self.ignored)}" if self.ignored else ""
        return one_line(f"{self.read}; {self._features}, {self._classes}{ignored}")

    @property
    def _classes(self) -> str:
        if self.label is None:
            return "no labels"
        labelled, nodes = _part(self.graph).total(int((self.label != UNLABELLED).sum()), len(self.label))
        some = f" ({labelled:,} of {nodes:,} nodes labelled)" if labelled < nodes else ""
        return f"{self.num_classes} classes{some}"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of graph, weights and features, the same for any number of processes."""
        numbers = self.graph.halo.numbers
        return self._hash(lambda rows: self._content(rows, numbers))

    @property
    def fingerprint_with_labels(self) -> str:
        """A hash of everything that decides the results of a run, scores included."""
        return self._hash(lambda rows: [None if self.label is None else self.label[rows]], self.fingerprint)

    def _hash(self, content: Callable[[slice], list[Tensor | None]], names: str = "") -> str:
        """Return a hash of names and of the content of all rows; which process has a block of them has no effect."""
        first, total = self.graph.shares.start, 0
        for start in range(0, self.graph.num_nodes, processes.ROWS):
            block = slice(start, min(start + processes.ROWS, self.graph.num_nodes))
            total += int(_hash(*content(block), names=str(first + start)), 16)
        return _hash(names=f"{names}{_part(self.graph).total(total)}")

    def _content(self, block: slice, numbers: Tensor) -> list[Tensor | None]:
        """Return graph, weights and features of some rows of this process; ``numbers``: of its extended rows."""
        rows = self.graph.by_target
        pointers = rows.pointers[block.start : block.stop + 1]
        first, last = int(pointers[0]), int(pointers[-1])
        weight = None if self.edge_weight is None else self.edge_weight[rows.numbers(first, last)]
        feat: list[Tensor] = [] if self.feat is None else [rows_between(self.feat, block.start, block.stop)]
        if feat and is_sparse(feat[0]):
            feat = [feat[0].crow_indices(), feat[0].col_indices(), feat[0].values()]
        return [pointers - first, numbers[rows.columns[first:last].long()], weight, *feat]


def _part(graph: Graph) -> Part:
    return Part(graph.shares.place, graph.shares.processes)


def _hash(*tensors: Tensor | None, names: str = "") -> str:
    """Return the SHA-256 over names and the shapes and values of tensors; of whole numbers, whatever their type."""
    digest = hashlib.sha256(names.encode())
    for tensor in tensors:
        if tensor is not None:
            values = tensor.contiguous().numpy()
            digest.update(str(values.shape).encode())
            digest.update((values if tensor.is_floating_point() else narrow(values)).data)
    return digest.hexdigest()


class Split(NamedTuple):
    """Indices of the training, validation and test graphs."""

    train: Tensor
    valid: Tensor
    test: Tensor


class GraphBatch(NamedTuple):
    """A batch of a packed dataset."""

    graph: Graph                         # batched, both batch counts set
    feat: Tensor                            # (N, D)
    label: Tensor                           # (B,) or (B, T)
    edge_feat: Tensor | None                # (E, D_e)
    edge_weight: Tensor | None              # (E,)
    edge_sum: Tensor | None                 # (N, D_s)


@dataclass(frozen=True, eq=False)
class GraphData:
    """Many graphs, packed: the nodes of all of them in one array, the edges in another.

    Node ids in ``source`` and ``target`` start from 0 in each graph. Floating-point ``feat`` are features; integers are
    categories, as for the atom encoder of ``ogb``. Graphs without a known class have the label -1 (``UNLABELLED``).
    """

    name: str
    sizes: Tensor                           # (G,) nodes per graph
    num_edges: Tensor                       # (G,) edges per graph
    source: Tensor                          # (E,)
    target: Tensor                          # (E,)
    feat: Tensor                            # (N, D)
    label: Tensor                           # (G,) classes, or (G, T) tasks or targets (NaN where unknown)
    num_classes: int                        # classes, or T tasks or targets
    metric: str = "acc"                     # rmse: the labels are numbers to predict
    edge_feat: Tensor | None = None         # (E, D_e)
    edge_weight: Tensor | None = None       # (E,)
    edge_sum: Tensor | None = None          # (N, D_s) sum of the edge features of each node
    official_split: Split | None = None     # also the user's own
    class_names: Sequence[str] | None = None            # or the names of the targets
    ids: np.ndarray | None = None           # (G,) the user's own graph ids; None: 0 .. G-1
    feat_names: Sequence[str] | None = None             # of the columns of feat, if they have names
    edge_names: Sequence[str] | None = None             # of the columns of edge_feat, if they have names
    edge_categories: Sequence[int] | None = None        # categories of each edge feature that edge_sum counts

    @property
    def own_ids(self) -> np.ndarray:
        """The user's graph ids, else 0 .. G-1."""
        return np.arange(len(self)) if self.ids is None else self.ids

    def __len__(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        kind = "classes" if self.label.dim() == 1 else "targets" if self.is_regression else "tasks"
        return (
            f"GraphData({self.name!r}, {len(self)} graphs, {len(self.feat)} nodes, {len(self.source)} edges, "
            f"{self.feat.shape[1]} features, {self.num_classes} {kind})"
        )

    @property
    def is_regression(self) -> bool:
        """Whether the labels are numbers to predict."""
        return self.metric == "rmse"

    @cached_property
    def _first_node(self) -> Tensor:
        return self.sizes.cumsum(0) - self.sizes

    @cached_property
    def _first_edge(self) -> Tensor:
        return self.num_edges.cumsum(0) - self.num_edges

    @cached_property
    def _by_target(self) -> tuple[Tensor, Tensor, Tensor]:
        """The edges of all graphs sorted by target once, for batches: in-degree ``(N,)``, source and place ``(E,)``."""
        target = self.target.long() + self._first_node.repeat_interleave(self.num_edges)
        order = target.argsort(stable=True)
        return target.bincount(minlength=len(self.feat)), self.source[order].long(), order

    @cached_property
    def _is_symmetric(self) -> bool:
        """Whether all graphs have both directions of every edge: checked once, not for every batch."""
        shift = self._first_node.repeat_interleave(self.num_edges)
        return is_symmetric(Graph(torch.stack([self.source, self.target]).long() + shift, len(self.feat), self.sizes))

    def mean_size(self, index: Tensor) -> float:
        """Return the mean number of nodes of the graphs with these indices."""
        return self.sizes[index].float().mean().item()

    def batch(self, index: Tensor | Sequence[int]) -> GraphBatch:
        """Return the graphs with these indices, or of a mask, as one batched graph."""
        index = check_index(index, len(self), f"graphs of {self.name}")
        sizes, num_edges = self.sizes[index], self.num_edges[index]
        nodes = _ranges(self._first_node[index], sizes)                 # (N,)
        places = _ranges(self._first_edge[index], num_edges)            # (E,) among the edges by target
        shift = (sizes.cumsum(0) - sizes).repeat_interleave(num_edges)
        degree, source, order = self._by_target
        rows = CsrRows(functional.pad(degree[nodes].cumsum(0), (1, 0)), source[places] + shift, None)
        graph = Graph.from_rows(rows, sizes, symmetric=self._is_symmetric)
        edges = order[places] if self.edge_feat is not None or self.edge_weight is not None else places
        return GraphBatch(
            graph,
            self.feat[nodes],
            self.label[index],
            None if self.edge_feat is None else self.edge_feat[edges],
            None if self.edge_weight is None else self.edge_weight[edges],
            None if self.edge_sum is None else self.edge_sum[nodes],
        )

    @property
    def fingerprint(self) -> str:
        """A hash of graphs, weights, features, labels, their names, ids and the official split."""
        edges = self.num_edges, self.source, self.target, self.edge_feat, self.edge_weight, self.edge_sum
        names = self.feat_names, self.edge_names, self.class_names, None if self.ids is None else self.ids.tolist()
        text = repr([None if part is None else list(part) for part in names])
        return _hash(self.sizes, self.feat, self.label, *edges, *(self.official_split or ()), names=text)

    def with_edge_sums(self, categories: Sequence[int] | None = None, keep: bool = False) -> GraphData:
        """Return the same graphs with ``edge_sum`` instead of ``edge_feat``; categories are counted.

        ``categories``: how many each edge feature has, by default as many as occur; ``keep``: keep ``edge_feat``, too,
        categories as columns of zeros and ones.
        """
        if self.edge_feat is None:
            return self
        if self.edge_feat.is_floating_point():
            categories = None
        elif categories is None:
            categories = (self.edge_feat.amax(0) + 1).tolist()
        edge_feat = as_numbers(self.edge_feat, categories)
        target = self.target + self._first_node.repeat_interleave(self.num_edges)
        sums = sum_per_node(edge_feat, target, len(self.feat))
        return replace(self, edge_feat=edge_feat if keep else None, edge_sum=sums, edge_categories=categories)

    def split(self, fold: int = 0, folds: int = 10, seed: int = 0) -> Split:
        """Return training, validation and test graphs of one fold; the official split if the dataset has one.

        Folds are stratified by class and depend only on the labels and the seed, so that all methods use the same
        folds. The validation graphs are a stratified tenth of the graphs that are not test graphs. Folds of regression
        are random.

        Parameters
        ----------
        fold : int, default 0
            Index of the fold.
        folds : int, default 10
            Number of folds.
        seed : int, default 0
            Seed of the split.
        """
        if self.official_split is not None:
            return self.official_split
        from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

        if not 0 <= fold < folds or folds < 2:
            raise DataError(f"fold={fold!r} of folds={folds!r}: give at least 2 folds, numbered from 0.")
        label, kind = None, KFold
        if self.is_regression:
            if len(self) < max(folds, 4):
                raise DataError(f"{self.name}: {len(self)} graphs are too few for {folds} folds; use fewer folds.")
        else:
            label, kind = self.label.numpy(), StratifiedKFold
            self._check_classes(label, folds)
        rest, test = list(kind(folds, shuffle=True, random_state=seed).split(np.zeros(len(self)), label))[fold]
        share = 0.1 if label is None else max(0.1, self.num_classes / len(rest))
        classes = None if label is None else label[rest]
        train, valid = train_test_split(rest, test_size=share, stratify=classes, random_state=seed)
        return Split(*(torch.from_numpy(np.sort(part)) for part in (train, valid, test)))

    def _check_classes(self, label: np.ndarray, folds: int) -> None:
        """Refuse graphs without a class, and classes that do not reach every part of every fold."""
        if (label < 0).any():
            raise DataError(f"{self.name}: {(label < 0).sum()} graphs have no class; leave them out of the folds.")
        counts = np.bincount(label, minlength=self.num_classes)
        left = counts + -counts // folds                        # graphs of each class outside the largest test fold
        rare = np.flatnonzero((counts < folds) | (left < 2))    # train and valid need one each
        if len(rare):
            name = self.class_names[rare[0]] if self.class_names else rare[0]
            fix = "use fewer folds or merge classes" if counts[rare[0]] > 3 else "every class needs at least 4 graphs"
            if counts.max() < 4 and self.num_classes > 20:
                fix = "if the labels are numbers to predict, set dataset.task=regression"
            has = f"{self.name}: class {name} has {counts[rare[0]]} graphs"
            raise DataError(f"{has}, too few for {folds} stratified folds; {fix}.")


def _ranges(first: Tensor, length: Tensor) -> Tensor:
    """Return the concatenated ranges ``first[i], first[i] + 1, ...`` of ``length[i]`` numbers."""
    start = length.cumsum(0) - length
    return torch.arange(int(length.sum())) + (first - start).repeat_interleave(length)


def row_normalized(matrix: scipy.sparse.spmatrix) -> scipy.sparse.csr_matrix:
    """Scale the rows to an absolute sum of one; rows of zeros stay."""
    matrix = scipy.sparse.csr_matrix(matrix)
    total = np.asarray(abs(matrix).sum(1), dtype=np.float64).ravel()
    scale = np.repeat(1 / np.where(total > 0, total, 1), np.diff(matrix.indptr))    # a product would need D numbers
    return scipy.sparse.csr_matrix((matrix.data * scale, matrix.indices, matrix.indptr), matrix.shape)


def to_csr_tensor(matrix: scipy.sparse.csr_matrix) -> Tensor:
    """Return a scipy matrix as a float32 torch tensor in CSR layout."""
    matrix.sum_duplicates()             # also sorts the columns of each row
    matrix.check_format(full_check=True)
    pointers, columns, values = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    return csr(pointers, columns, values.float(), matrix.shape)


def as_numbers(feat: Tensor, categories: Sequence[int] | None) -> Tensor:
    """Return features of nodes or edges as float32 columns, ``(N, D)`` to ``(N, D_s)``.

    ``categories``: the number of categories of each column, which become as many columns; ``None``: numbers.
    """
    if categories is not None:
        columns = zip(feat.unbind(1), categories, strict=True)
        feat = torch.cat([functional.one_hot(column.long(), count) for column, count in columns], dim=1)
    return feat.float()


def sum_per_node(edge_feat: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Return the sum over the incoming edges of each node: ``(E, D_s)`` and ``(E,)`` to ``(N, D_s)``."""
    return edge_feat.new_zeros(num_nodes, edge_feat.shape[1]).index_add_(0, target.long(), edge_feat)
