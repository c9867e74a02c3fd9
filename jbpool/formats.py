"""Formats of adjacency matrices: by rows (CSR), and complete graphs as blocks of a table, as pools make them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


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


def row_of_entries(pointers: Tensor, num_entries: int) -> Tensor:
    """Return the row of each entry of a CSR matrix, ``(E,)`` int64."""
    row = torch.arange(len(pointers) - 1, device=pointers.device)
    return torch.repeat_interleave(row, pointers.diff(), output_size=num_entries)


def by_rows(row: Tensor, column: Tensor, num_nodes: int) -> CsrRows:
    """Return entries sorted by row; those of a row keep their order."""
    count = torch.zeros(num_nodes + 1, dtype=torch.int64, device=row.device)
    count.index_add_(0, row.long() + 1, torch.ones_like(row, dtype=torch.int64))
    order = row.argsort(stable=True)
    return CsrRows(count.cumsum_(0), column[order], order)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Complete graphs with self loops, in a table that has room for K nodes of each; edges in row-major order.

    Products with them are dense.
    """

    sizes: Tensor                   # (B,) nodes of each graph
    width: int                      # K, those of the largest graph
    idtype: torch.dtype             # of the ids of nodes
    nodes: Tensor | None = None     # (M,) place of each node among the B * K of the table; None: every graph has K
    edges: Tensor | None = None     # (E,) place of each edge among the B * K * K

    @classmethod
    def of(cls, sizes: Tensor, width: int, idtype: torch.dtype) -> Blocks:
        """Return graphs of different ``sizes``, of at most ``width`` nodes.

        Two numbers are read from the device: how many nodes and edges there are.
        """
        num_nodes, num_edges = torch.stack([sizes.sum(), sizes.square().sum()]).tolist()

        def places(first: Tensor, counts: Tensor, total: int) -> Tensor:
            """Return the numbers first, first + 1, ... of every run, as many as it counts, in a row."""
            shift = first - (counts.cumsum(0) - counts)
            return torch.arange(total, device=sizes.device) + shift.repeat_interleave(counts, output_size=total)

        nodes = places(torch.arange(len(sizes), device=sizes.device) * width, sizes, num_nodes)         # (M,)
        neighbours = sizes.repeat_interleave(sizes, output_size=num_nodes)                              # (M,)
        return cls(sizes, width, idtype, nodes, places(nodes * width, neighbours, num_edges))

    @property
    def num_graphs(self) -> int:
        """Number of graphs B."""
        return self.sizes.shape[0]          # torch.export takes len() for a constant

    @property
    def num_nodes(self) -> int:
        """Number of nodes M."""
        return self.num_graphs * self.width if self.nodes is None else self.nodes.shape[0]

    @property
    def num_edges(self) -> int:
        """Number of edges E."""
        return self.num_graphs * self.width**2 if self.edges is None else self.edges.shape[0]

    def edge_index(self) -> Tensor:
        """Return source and target of every edge, ``(2, E)``."""
        width, edges = self.width, self.edges
        if edges is None:
            edges = torch.arange(self.num_edges, device=self.sizes.device)
        unused = torch.arange(self.num_graphs, device=self.sizes.device) * width - (self.sizes.cumsum(0) - self.sizes)
        source, column = edges.div(width, rounding_mode="floor"), edges.remainder(width)
        owner = source.div(width, rounding_mode="floor")                                        # (E,)  graph of each
        ends = torch.stack([source, owner * width + column]) - unused.index_select(0, owner)
        return ends.to(self.idtype)

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
            empty = edge_weight.new_zeros(self.num_graphs * self.width**2)
            edge_weight = empty.index_copy(0, self.edges, edge_weight)
        return edge_weight.view(self.num_graphs, self.width, self.width)

    def entries(self, matrix: Tensor) -> Tensor:
        """Return the weights of the edges there are: ``(B, K, K)`` to ``(E,)``."""
        return matrix.flatten() if self.edges is None else matrix.flatten().index_select(0, self.edges)

    def to(self, device: torch.device) -> Blocks:
        """Return the same on a device."""
        nodes, edges = (None if places is None else places.to(device) for places in (self.nodes, self.edges))
        return Blocks(self.sizes.to(device), self.width, self.idtype, nodes, edges)
