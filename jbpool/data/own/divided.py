"""A graph whose files several processes have read in part: its nodes are numbered, and each process gets its rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from jbpool.data.arrays import INT32_MAX
from jbpool.data.own.edges import Edges, sides
from jbpool.data.parts import Names, Route
from jbpool.processes import ROWS, RowShares


def divided(edges: Edges) -> tuple[Edges, RowShares, np.ndarray | None]:
    """Return the edges that this process has read, between the nodes of all processes, and who has which rows.

    The ids are those of the rows of this process, and so are the last result, ``first`` of ``NodeData``.
    """
    names = Names(edges.part, edges.own_ids)
    numbers = names.numbers.astype(np.int32 if names.count <= INT32_MAX else np.int64)
    source, target = numbers[edges.source], numbers[edges.target]
    blocks = -(-names.count // ROWS)
    entries = sum(np.bincount(end // ROWS, minlength=blocks) for end in (source, target))
    shares = RowShares.of_this_run(names.count, names.route.shares.add_up(torch.from_numpy(entries)))
    route, first = Route(edges.part, names.first + np.arange(len(names.kept)), shares.bounds[1:-1]), None
    if (is_first := first_column(names, edges)) is not None:
        first = route.there(is_first.view(np.uint8)).view(bool)
    edges = replace(edges, source=source, target=target, num_nodes=names.count, ids=route.there(names.kept))
    return edges, shares, first


def first_column(names: Names, edges: Edges) -> np.ndarray | None:
    """Return which of the kept names are sources, if no name is both source and target, such as people and events."""
    if names.kept.dtype != object:
        return None
    is_source, shared = sides(names, edges.source, edges.target)
    return is_source if not shared and names.part.total(len(edges.source))[0] else None
