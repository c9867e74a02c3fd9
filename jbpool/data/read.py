"""What was read of a graph, as numbers and as one line for users."""

from __future__ import annotations

from typing import Any, NamedTuple

from jbpool.errors import one_line


class Lines(NamedTuple):
    """What became of the lines that list the edges of a graph."""

    repeated: int = 0                   # beyond the first of an edge: added up
    self_loops: int = 0                 # left out
    zeros: int = 0                      # of weight 0: left out
    both_directions: bool = False       # whether the list holds both directions of every edge
    header: str | None = None           # a first line that was taken for a header
    columns: str | None = None          # where the nodes come from, if the names of the columns do not say so


NO_LINES = Lines()


class Read(NamedTuple):
    """What was read: the graph, and what became of the lines that list its edges. As text, one line for users."""

    name: str
    nodes: int
    edges: int                          # each counts once
    repeated: int
    self_loops: int
    zeros: int
    both_directions: bool
    header: str | None
    columns: str | None
    bipartite: tuple[int, int] | None   # nodes of the first and of the second column, if these share no name
    weights: str | None                 # where they come from
    isolated: int                       # nodes without edges
    components: int
    largest: int                        # nodes of the largest component

    def __str__(self) -> str:
        left_out = [
            f"{self.repeated:,} repeated, added up" if self.repeated else "",
            f"{self.self_loops:,} self loop{'s' * (self.self_loops > 1)} left out" if self.self_loops else "",
            f"{self.zeros:,} of weight 0 left out" if self.zeros else "",
        ]
        what = "; ".join(part for part in left_out if part)
        parts = [
            f"{self.name}: {self.nodes:,} nodes, {self.edges:,} edges" + (f" ({what})" if what else "")
            + (", listed in both directions" if self.both_directions else "")
            + (f", weights from {self.weights}" if self.weights else ""),
            f"the first line, {self.header}, is a header" if self.header else "",
            f"nodes from {self.columns}" if self.columns else "",
            "the two columns share no name: bipartite, {:,} and {:,} nodes, clustered together".format(*self.bipartite)
            if self.bipartite else "",
            f"{self.isolated:,} node{'s' * (self.isolated > 1)} without edges" if self.isolated else "",
            f"{self.components:,} components, the largest {self.largest:,}" if self.components > 1 else "",
        ]  # fmt: skip
        return one_line("; ".join(part for part in parts if part))         # names of columns may be anything

    @property
    def counts(self) -> dict[str, Any]:
        """The numbers and notes by name, as ``result.json`` has them."""
        return {key: value for key, value in self._asdict().items() if key != "name"}
