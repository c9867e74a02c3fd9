"""A graph whose files several processes have read in part: its nodes are numbered, and each process gets its rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from jbpool import processes
from jbpool.data.arrays import INT32_MAX
from jbpool.data.own.edges import Edges, occurs, sides
from jbpool.data.own.features import Features, fill, finite
from jbpool.data.own.tables import shown, united
from jbpool.data.parts import Names, Part, Route
from jbpool.errors import DataError
from jbpool.processes import RowShares


def divided(
    edges: Edges, feat: Features | None, missing: str | None
) -> tuple[Edges, Features | None, RowShares, np.ndarray | None]:
    """Return the edges that this process has read, between the nodes of all processes, and who has which rows.

    The ids are those of the rows of this process, and so are the features and the last result, ``first`` of
    ``NodeData``.
    """
    part, own, places = edges.part, edges.own_ids, [np.arange(edges.num_nodes)]
    if feat is not None:
        count = feat.values.shape[0]
        ids = np.arange(count)[part.of(count)] if feat.ids is None else feat.ids
        own, places = united(own, ids)
    names = Names(part, own)
    if feat is not None:
        has_edges, rows = (names.summed(occurs(place, len(own))) for place in places)
        if (rows > 1).any():
            raise DataError.at(feat.origin, f"node {shown(names.kept[rows > 1][0])} has more than one row")
        counts = part.total(int((rows == 0).sum()), int((has_edges > 0).sum()), len(ids))
        lacking, listed = (np.concatenate(part.gather(some[:1])) for some in (names.kept[rows == 0], ids))
        check_lacking(edges, feat, missing, lacking, listed, *counts)
    edges = replace(edges, source=places[0][edges.source], target=places[0][edges.target], num_nodes=names.count)
    is_first = first_column(names, edges)
    numbers = names.numbers.astype(np.int32 if names.count <= INT32_MAX else np.int64)
    edges = replace(edges, source=numbers[edges.source], target=numbers[edges.target])
    blocks = -(-names.count // processes.ROWS)
    entries = sum(np.bincount(end // processes.ROWS, minlength=blocks) for end in (edges.source, edges.target))
    shares = RowShares.of_this_run(names.count, names.route.shares.add_up(torch.from_numpy(entries)))
    if feat is not None:
        feat = _rows(feat, numbers[places[1]], part, shares, missing)
    route = Route(part, names.first + np.arange(len(names.kept)), shares.bounds[1:-1])
    first = None if is_first is None else route.there(is_first)
    return replace(edges, ids=route.there(names.kept)), feat, shares, first


def check_lacking(
    edges: Edges, feat: Features, missing: str | None, lacking: np.ndarray, ids: np.ndarray, count: int, nodes: int,
    rows: int,
) -> None:  # fmt: skip
    """Refuse features without rows for some nodes, unless the gaps are to be filled.

    ``lacking``: ids of such nodes, of which there are ``count`` among the ``nodes`` with edges. ``ids``: those of the
    features.
    """
    none = count == nodes                                   # other names, not gaps
    if not count or (missing is not None and feat.ids is not None and not none):
        return
    others = f" and {count - 1} others" if count > 1 else ""
    graph = edges.origin.name if isinstance(edges.origin, Path) else edges.origin
    fix = f"add rows, or {fill(feat.origin).rpartition('or ')[2]}"
    what, fix = "has no row for", f"its first row is for {shown(ids[0])}: use the same names" if none else fix
    if feat.ids is None:
        what = f"its {rows} rows are for node ids 0..{rows - 1}, not for"
        in_memory = isinstance(feat.origin, str)
        fix = "give a DataFrame whose index holds the node ids" if in_memory else "give a table with node ids"
    raise DataError.at(feat.origin, f"{what} node {shown(lacking[0])}{others} of {graph}: {fix}")


def _rows(feat: Features, numbers: np.ndarray, part: Part, shares: RowShares, missing: str | None) -> Features:
    """Return the rows of this process; ``numbers``: of the nodes whose rows it has read."""
    if feat.ids is None:
        return replace(feat, values=finite(feat.origin, feat.values[shares.start : shares.stop], missing, part))
    total, count = part.total(feat.values.sum(0, dtype=np.float64), len(feat.values))
    values = np.tile((total / count).astype(np.float32), (shares.stop - shares.start, 1))       # for those without one
    route = Route(part, numbers, shares.bounds[1:-1])
    values[route.there(numbers) - shares.start] = route.there(feat.values)
    return replace(feat, values=values, ids=None)


def first_column(names: Names, edges: Edges) -> np.ndarray | None:
    """Return which of the kept names are sources, if no name is both source and target, such as people and events."""
    if names.kept.dtype != object:
        return None
    is_source, shared = sides(names, edges.source, edges.target)
    return is_source if not shared and names.part.total(len(edges.source))[0] else None
