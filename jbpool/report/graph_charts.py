"""Pictures of graphs as SVG: nodes in the plane, clusters on a circle, what merges first, a small graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.sparse.csgraph import minimum_spanning_tree

from jbpool.report.charts import (
    FEW_CELLS,
    LONGEST,
    NARROW,
    TABLE_ROWS,
    Chart,
    colour,
    disc,
    draw,
    mark,
    nothing,
    shortened,
    tip,
    words,
)

FEW_CLUSTERS = 12                # clusters whose circle keeps their order
NUMBERED = 24           # clusters with space for a number in their disc
DENSE = 80              # clusters from which only the strongest lines can be distinguished
NEGLIGIBLE = 0.02       # weight of an edge relative to the strongest
PAIR_ROWS = 200


def plane(
    xy: np.ndarray, group: np.ndarray, edges: np.ndarray, some: np.ndarray, names: Sequence[Any], label: str
) -> str:
    """Draw nodes ``(N, 2)`` in the plane, of which ``some`` are drawn, coloured by group, over edges ``(E, 2)``."""
    width, height, edge = 960, 640, 16
    if len(xy) == 0:
        return nothing(width, height, label)
    place = _into(xy * (1, -1), width, height, edge)
    size = 7 if len(xy) <= 400 else 5 if len(xy) <= 4000 else 3.2
    body = []
    source, target = group[edges[:, 0]], group[edges[:, 1]]
    inks = {int(number): f'stroke="{colour(int(number))}" stroke-opacity=".3"' for number in np.unique(group)}
    for number, ink in {-1: 'class="between"', **inks}.items():         # edges between groups, then inside each
        chosen = edges[np.where(source == target, source, -1) == number]
        path = "".join(f"M{a[0]:.0f} {a[1]:.0f}L{b[0]:.0f} {b[1]:.0f}" for a, b in place[chosen])
        body.append(f'<path d="{path}" fill="none" {ink} stroke-width=".8"/>' if path else "")
    for number in np.unique(group):
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in place[some][group[some] == number])
        ink = f'stroke="{colour(int(number))}" stroke-width="{size}" stroke-linecap="round" stroke-opacity=".85"'
        body.append(f'<path d="{dots}" {ink}/>')
        cuts = "".join(mark(int(number), x, y, size / 2) for x, y in place[some][group[some] == number])
        wide = size / 2 if cuts.endswith("h0") else size / 4
        body.append(f'<path d="{cuts}" class="cut" stroke-width="{wide:g}"/>' if cuts else "")
    for number in np.unique(group) if len(names) <= NUMBERED else ():
        x, y = np.median(place[group == number], axis=0)
        body.append(words(x, y + 4, str(names[number]), extra='class="name"'))
    return draw(width, height, body, label)


def _into(xy: np.ndarray, width: float, height: float, edge: float) -> np.ndarray:
    """Return positions ``(N, 2)`` in the middle of a drawing and as large as fits, in proportion."""
    low, high = xy.min(0), xy.max(0)
    scale = ((np.array([width, height]) - 2 * edge) / np.maximum(high - low, 1e-9)).min()
    return (xy - (low + high) / 2) * scale + (width / 2, height / 2)


def circle_graph(weight: np.ndarray, size: np.ndarray, label: str, names: Sequence[Any] | None = None) -> Chart:
    """Draw a weighted graph on a circle: discs by size, the lines that matter by weight.

    ``weight``: ``(K, K)``, symmetric. ``size``: nodes per cluster ``(K,)``. ``names``: of the clusters, by default
    their numbers.
    """
    count = len(size)
    names = range(count) if names is None else names
    side, radius = (360, 130) if count <= NUMBERED else (560, 220) if count <= DENSE else (760, 320)
    largest = min(32.0, math.pi * radius / max(count, 1))           # many discs must not overlap
    place = _order(weight) if count > FEW_CLUSTERS else np.arange(count)
    angle = 2 * np.pi * place / max(count, 1) - np.pi / 2
    x, y = side / 2 + radius * np.cos(angle), side / 2 + radius * np.sin(angle)
    pairs = edges_that_matter(weight)
    strongest = max(float(weight.max(initial=0)), 1e-12)
    body = []
    for i, j in pairs[::-1]:                                        # the strongest last, on top
        thick = max((9 if count <= NUMBERED else 5) * weight[i, j] / strongest, 0.4)
        long = min(1.0, math.hypot(x[i] - x[j], y[i] - y[j]) / radius)
        bend = 1.0 if count <= FEW_CLUSTERS else 0.92 - 0.47 * long          # many lines are bent towards the centre
        a, b = (side / 2 + bend * ((end[i] + end[j]) / 2 - side / 2) for end in (x, y))
        path = f"M{x[i]:.1f} {y[i]:.1f}Q{a:.1f} {b:.1f} {x[j]:.1f} {y[j]:.1f}"
        tooltip = tip(f"{names[i]} - {names[j]}: {weight[i, j]:.3f}")
        body.append(f'<path d="{path}" class="link" stroke-width="{thick:.2f}">{tooltip}</path>')
    for i in range(count):
        r = largest * (0.15 + 0.85 * math.sqrt(size[i] / max(size.max(), 1)))
        tooltip = tip(f"cluster {names[i]}: {int(size[i]):,} nodes")
        if count > NUMBERED:
            body.append(disc(x[i], y[i], r, i, tooltip))
            body.append(_radial(str(names[i]), x[i], y[i], side / 2, largest + 4, 11 if count <= DENSE else 8))
            continue
        body.append(f'<circle cx="{x[i]:.1f}" cy="{y[i]:.1f}" r="{r:.1f}" fill="{colour(i)}">{tooltip}</circle>')
        if r > 7:                                                   # space for a number, which is mark enough
            font = min(20.0, 0.9 * r)
            style = f'class="on-disc" style="font-size:{font:.0f}px"'
            body.append(words(x[i], y[i] + 0.36 * font, str(names[i]), extra=style))
    rows = [[str(names[i]), str(names[j]), f"{weight[i, j]:.3f}"] for i, j in pairs[:PAIR_ROWS]]
    total, shown = float(np.triu(weight, 1).sum()), float(sum(weight[i, j] for i, j in pairs))
    present = int((np.triu(weight, 1) > 0).sum())
    note = ""
    if len(pairs) < present:
        note = f"Lines: {len(pairs):,} of {present:,} connections, with {100 * shown / total:.0f} % of their weight."
    kind = "dense" if count > NUMBERED else ""
    return Chart(draw(side, side, body, label, kind), ("cluster", "cluster", "weight"), rows, note, count > NUMBERED)


TREE_LEAVES = 40        # of a tree; more are drawn as groups


def tree(children: np.ndarray, cost: Sequence[float], names: Sequence[str], label: str, unit: str = "cost") -> Chart:
    """Draw a hierarchy from the leaves at the left to the root at the right, a step per union.

    ``children``: ``(K - 1, 2)``, numbers below K are leaves, K + i is the union of row i. ``cost``: of every union,
    ``(K - 1,)``, in ``unit``. ``names``: of the leaves, ``(K,)``.
    """
    count = len(names)
    members = [[leaf] for leaf in range(count)]
    for upper, lower in children.tolist():
        members.append(members[upper] + members[lower])
    first = max(0, count - TREE_LEAVES)                             # unions before this one are drawn as leaves
    titles = [names[group[0]] + (f" + {len(group) - 1} more" if len(group) > 1 else "") for group in members]
    tall, shown = 24, len(names) - first
    width, height, left = NARROW, tall * shown + 12, 26 + 6.4 * min(LONGEST, max(map(len, titles[: count + first])))
    step = (width - left - 50) / max(shown - 1, 1)
    place: dict[int, tuple[float, float]] = {}
    body, rows = [], []

    def leaves(node: int) -> list[int]:
        """Return what is drawn as leaves below a node, from the top."""
        if node < count + first:
            return [node]
        upper, lower = children[node - count].tolist()
        return leaves(upper) + leaves(lower)

    for rank, leaf in enumerate(leaves(count + len(children) - 1)):
        y = 6 + tall * (rank + 0.5)
        place[leaf] = left, y
        body += [words(left - 18, y + 4, shortened(titles[leaf]), "end"), disc(left - 8, y, 5, members[leaf][0])]
    for number, (upper, lower) in enumerate(children.tolist()):
        rows.append([str(number + 1), titles[upper], titles[lower], f"{cost[number]:.4f}"])
        if number < first:
            continue
        (x1, y1), (x2, y2) = place[upper], place[lower]
        x, y = left + step * (number - first + 1), (y1 + y2) / 2
        tooltip = tip(f"{titles[upper]} and {titles[lower]}: {cost[number]:.4f} {unit}")
        body.append(f'<path d="M{x1:.1f} {y1:.1f}H{x:.1f}V{y2:.1f}H{x2:.1f}" class="branch">{tooltip}</path>')
        body.append(words(x + 4, y - 4, f"{cost[number]:.2g}", "start") if shown <= FEW_CELLS else "")
        place[count + number] = x, y
    svg = draw(width, height, body, label)
    return Chart(svg, ("union", "", "", unit), rows[::-1][:TABLE_ROWS])


def edges_that_matter(weight: np.ndarray) -> np.ndarray:
    """Return pairs ``(E, 2)``, strongest first: of few clusters, all but negligible ones.

    Of many, the strongest ones and a maximum spanning forest, so that no cluster loses its strongest neighbour.
    """
    upper = np.triu(weight, 1)
    rows, columns = np.nonzero(upper > NEGLIGIBLE * max(float(weight.max(initial=0)), 1e-12))
    pairs = np.column_stack([rows, columns])[np.argsort(-upper[rows, columns], kind="stable")]
    if len(weight) <= FEW_CLUSTERS:
        return pairs
    # minimum_spanning_tree minimises: negative weights, strongest first
    forest = np.column_stack(minimum_spanning_tree(scipy.sparse.csr_matrix(-upper)).nonzero())
    strongest = pairs[: round(1.5 * len(weight)) if len(weight) <= DENSE else len(weight) // 2]
    kept = np.unique(np.concatenate([strongest, forest]), axis=0)
    return kept[np.argsort(-upper[kept[:, 0], kept[:, 1]], kind="stable")]


def _order(weight: np.ndarray) -> np.ndarray:
    """Return the place of every cluster on the circle, so that connected ones are close: the leaves of a tree."""
    closeness = (weight / max(float(weight.max(initial=0)), 1e-12)) ** 0.25                      # weights are skewed
    distance = 1 - closeness[np.triu_indices(len(weight), 1)]
    place = np.empty(len(weight), dtype=int)
    place[leaves_list(linkage(distance, "average", optimal_ordering=True))] = np.arange(len(weight))
    return place


def _radial(text: str, x: float, y: float, centre: float, away: float, font: int) -> str:
    """Draw text outside the circle, turned so that it can be read."""
    angle = math.atan2(y - centre, x - centre)
    x, y, turned = x + away * math.cos(angle), y + away * math.sin(angle), math.degrees(angle)
    flip = math.cos(angle) < 0
    anchor, turned = ("end", turned + 180) if flip else ("start", turned)
    extra = f'transform="rotate({turned:.1f} {x:.1f} {y:.1f})" dominant-baseline="central" style="font-size:{font}px"'
    return words(x, y, text, anchor, extra)


def network(xy: np.ndarray, edges: np.ndarray, group: np.ndarray, label: str) -> str:
    """Draw a small graph at given positions ``(N, 2)``, edges ``(E, 2)``, nodes coloured by group."""
    side, edge = 300, 14
    if len(xy) == 0:
        return nothing(side, side, label)
    place = _into(xy, side, side, edge)
    paths = "".join(
        f"M{place[a, 0]:.1f} {place[a, 1]:.1f}L{place[b, 0]:.1f} {place[b, 1]:.1f}" for a, b in edges if a < b
    )
    body = [f'<path d="{paths}" fill="none" class="link" stroke-width="1.5"/>']
    for (x, y), number in zip(place, group, strict=True):
        body.append(disc(x, y, 5, int(number), tip(f"cluster {number}")))
    return draw(side, side, body, label)
