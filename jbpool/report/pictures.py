"""Pictures of graphs: nodes in the plane, clusters on a circle, a small graph at given positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.sparse.csgraph import minimum_spanning_tree

from jbpool.report.svg import Chart, colour, draw, nothing, tip, words

FEW = 12                # clusters whose circle keeps their order
NUMBERED = 24           # clusters with room for a number in their disc
DENSE = 80              # clusters from which only the strongest lines can be told apart
NEGLIGIBLE = 0.02       # weight of an edge relative to the strongest
TABLE_ROWS = 200


def plane(
    xy: np.ndarray, group: np.ndarray, edges: np.ndarray, some: np.ndarray, names: Sequence[Any], label: str
) -> str:
    """Nodes ``(N, 2)`` in the plane, of which ``some`` are drawn, coloured by group, over edges ``(E, 2)``."""
    width, height, edge = 960, 640, 16
    if len(xy) == 0:
        return nothing(width, height, label)
    low, high = xy.min(0), xy.max(0)
    scale = min((width - 2 * edge) / max(high[0] - low[0], 1e-9), (height - 2 * edge) / max(high[1] - low[1], 1e-9))
    place = (xy - (low + high) / 2) * scale * (1, -1) + (width / 2, height / 2)
    size = 7 if len(xy) <= 400 else 5 if len(xy) <= 4000 else 3.2
    body = []
    for inside, ink in ((False, 'class="between"'), (True, "")):
        for number in np.unique(group) if inside else (None,):
            same = group[edges[:, 0]] == group[edges[:, 1]]
            chosen = edges[same & (group[edges[:, 0]] == number)] if inside else edges[~same]
            path = "".join(f"M{a[0]:.0f} {a[1]:.0f}L{b[0]:.0f} {b[1]:.0f}" for a, b in place[chosen])
            paint = f'stroke="{colour(int(number))}" stroke-opacity=".3"' if number is not None else ink
            body.append(f'<path d="{path}" fill="none" {paint} stroke-width=".8"/>' if path else "")
    for number in np.unique(group):
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in place[some][group[some] == number])
        ink = f'stroke="{colour(int(number))}" stroke-width="{size}" stroke-linecap="round" stroke-opacity=".85"'
        body.append(f'<path d="{dots}" {ink}/>')
    for number in np.unique(group) if len(names) <= NUMBERED else ():
        x, y = np.median(place[group == number], axis=0)
        body.append(words(x, y + 4, str(names[number]), extra='class="name"'))
    return draw(width, height, body, label)


def circle_graph(weight: np.ndarray, size: np.ndarray, label: str, names: Sequence[Any] | None = None) -> Chart:
    """A weighted graph on a circle: discs by size, the lines that matter by weight.

    Parameters
    ----------
    weight : np.ndarray
        ``(K, K)``, symmetric.
    size : np.ndarray
        ``(K,)``, nodes per cluster.
    label : str
        Text alternative, for screen readers.
    names : sequence, optional
        Of the clusters; by default their numbers.
    """
    count = len(size)
    names = range(count) if names is None else names
    side, radius = (360, 130) if count <= NUMBERED else (560, 220) if count <= DENSE else (760, 320)
    largest = min(32.0, math.pi * radius / max(count, 1))           # many discs must not overlap
    x, y = _on_circle(_order(weight) if count > FEW else np.arange(count), side / 2, radius)
    pairs = edges_that_matter(weight)
    strongest = max(float(weight.max(initial=0)), 1e-12)
    body = []
    for i, j in pairs[::-1]:                                        # the strongest last, on top
        thick = max((9 if count <= NUMBERED else 5) * weight[i, j] / strongest, 0.4)
        long = min(1.0, math.hypot(x[i] - x[j], y[i] - y[j]) / radius)
        bend = 1.0 if count <= FEW else 0.92 - 0.47 * long          # many lines are bent towards the centre
        a, b = (side / 2 + bend * ((end[i] + end[j]) / 2 - side / 2) for end in (x, y))
        path = f"M{x[i]:.1f} {y[i]:.1f}Q{a:.1f} {b:.1f} {x[j]:.1f} {y[j]:.1f}"
        told = tip(f"{names[i]} - {names[j]}: {weight[i, j]:.3f}")
        body.append(f'<path d="{path}" class="link" stroke-width="{thick:.2f}">{told}</path>')
    for i in range(count):
        r = largest * (0.15 + 0.85 * math.sqrt(size[i] / max(size.max(), 1)))
        told = tip(f"cluster {names[i]}: {int(size[i]):,} nodes")
        body.append(f'<circle cx="{x[i]:.1f}" cy="{y[i]:.1f}" r="{r:.1f}" fill="{colour(i)}">{told}</circle>')
        if count > NUMBERED:
            body.append(_radial(str(names[i]), x[i], y[i], side / 2, largest + 4, 11 if count <= DENSE else 8))
        elif r > 7:                                                 # room for a number
            font = min(20.0, 0.9 * r)
            style = f'class="on-disc" style="font-size:{font:.0f}px"'
            body.append(words(x[i], y[i] + 0.36 * font, str(names[i]), extra=style))
    rows = [[str(names[i]), str(names[j]), f"{weight[i, j]:.3f}"] for i, j in pairs[:TABLE_ROWS]]
    total, shown = float(np.triu(weight, 1).sum()), float(sum(weight[i, j] for i, j in pairs))
    present = int((np.triu(weight, 1) > 0).sum())
    note = ""
    if len(pairs) < present:
        note = f"Lines: {len(pairs):,} of {present:,} connections, with {100 * shown / total:.0f} % of their weight."
    kind = "dense" if count > NUMBERED else ""
    return Chart(draw(side, side, body, label, kind), ("cluster", "cluster", "weight"), rows, note, count > NUMBERED)


def edges_that_matter(weight: np.ndarray) -> np.ndarray:
    """Pairs ``(E, 2)``, strongest first: of few clusters, all but negligible ones; of many, the strongest ones and a
    maximum spanning forest, so that no cluster loses its strongest neighbour."""
    upper = np.triu(weight, 1)
    one, other = np.nonzero(upper > NEGLIGIBLE * max(float(weight.max(initial=0)), 1e-12))
    pairs = np.column_stack([one, other])[np.argsort(-upper[one, other], kind="stable")]
    if len(weight) <= FEW:
        return pairs
    # minimum_spanning_tree minimises: negative weights, strongest first
    forest = np.column_stack(minimum_spanning_tree(scipy.sparse.csr_matrix(-upper)).nonzero())
    strongest = pairs[: round(1.5 * len(weight)) if len(weight) <= DENSE else len(weight) // 2]
    kept = np.unique(np.concatenate([strongest, forest]), axis=0)
    return kept[np.argsort(-upper[kept[:, 0], kept[:, 1]], kind="stable")]


def _order(weight: np.ndarray) -> np.ndarray:
    """The place of every cluster on the circle, so that connected ones are close: the leaves of a tree."""
    near = (weight / max(float(weight.max(initial=0)), 1e-12)) ** 0.25                      # weights are skewed
    distance = 1 - near[np.triu_indices(len(weight), 1)]
    place = np.empty(len(weight), dtype=int)
    place[leaves_list(linkage(distance, "average", optimal_ordering=True))] = np.arange(len(weight))
    return place


def _on_circle(place: np.ndarray, centre: float, radius: float) -> tuple[np.ndarray, np.ndarray]:
    angle = 2 * np.pi * place / max(len(place), 1) - np.pi / 2
    return centre + radius * np.cos(angle), centre + radius * np.sin(angle)


def _radial(text: str, x: float, y: float, centre: float, away: float, font: int) -> str:
    """Text outside the circle, turned so that it can be read."""
    angle = math.atan2(y - centre, x - centre)
    x, y, turned = x + away * math.cos(angle), y + away * math.sin(angle), math.degrees(angle)
    flip = math.cos(angle) < 0
    anchor, turned = ("end", turned + 180) if flip else ("start", turned)
    extra = f'transform="rotate({turned:.1f} {x:.1f} {y:.1f})" dominant-baseline="central" style="font-size:{font}px"'
    return words(x, y, text, anchor, extra)


def network(xy: np.ndarray, edges: np.ndarray, group: np.ndarray, label: str) -> str:
    """A small graph at given positions ``(N, 2)``, edges ``(E, 2)``, nodes coloured by group."""
    side, edge = 300, 14
    if len(xy) == 0:
        return nothing(side, side, label)
    low, high = xy.min(0), xy.max(0)
    scale = (side - 2 * edge) / max(float((high - low).max()), 1e-9)
    place = side / 2 + scale * (xy - (low + high) / 2)
    paths = "".join(
        f"M{place[a, 0]:.1f} {place[a, 1]:.1f}L{place[b, 0]:.1f} {place[b, 1]:.1f}" for a, b in edges if a < b
    )
    body = [f'<path d="{paths}" fill="none" class="link" stroke-width="1.5"/>']
    for (x, y), number in zip(place, group, strict=True):
        told = tip(f"cluster {number}")
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour(int(number))}">{told}</circle>')
    return draw(side, side, body, label)
