"""Charts of numbers and pictures of graphs as SVG, each with a table of its values.

Lines, points and bars; tables of counts as coloured cells, legible for hundreds of rows or columns; nodes in the plane,
clusters on a circle, a small graph at given positions. All are plain text: nothing is drawn with a library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.sparse.csgraph import minimum_spanning_tree

# Distinct also for colour-blind readers, on light and dark backgrounds; a test simulates both.
COLOURS = (
    "#1f6fb5", "#f0a30a", "#12876a", "#d9481c", "#c9a0f0", "#55c8dc", "#7d3c98", "#c2c07a", "#94243c", "#858b94",
)  # fmt: skip
NARROW, WIDE = 460, 960         # widths of drawings
LONGEST = 18                    # letters of a name


class Chart(NamedTuple):
    """A drawing and its values."""

    svg: str
    head: Sequence[str]                     # of the table of values
    rows: Sequence[Sequence[str]]
    note: str = ""                          # how to read it, where that depends on the values
    wide: bool = False                      # needs the whole width of a page


def colour(number: int) -> str:
    """Return the colour of a group; they repeat after ten."""
    return COLOURS[number % len(COLOURS)]


def draw(width: float, height: float, body: Sequence[str], label: str, kind: str = "") -> str:
    """Return the drawing: its elements, a label for screen readers, and a CSS class."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    more = f' class="{kind}"' if kind else ""
    return f'<svg {size}{more} role="img" aria-label="{escape(label)}">{"".join(body)}</svg>'


def words(x: float, y: float, text: str, anchor: str = "middle", extra: str = "") -> str:
    """Draw text at a place; ``anchor`` says which end of it is there, ``extra`` are further attributes."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{escape(text)}</text>'


def shortened(name: str) -> str:
    """Return a name with at most ``LONGEST`` letters."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def tip(text: str) -> str:
    """Return text that is shown when the pointer is over the element that contains it."""
    return f"<title>{escape(text)}</title>"


def nothing(width: float, height: float, label: str) -> str:
    """Return a drawing without values."""
    return draw(width, height, [words(width / 2, height / 2, "nothing recorded")], label)


def evenly(count: int, most: int) -> np.ndarray:
    """Return at most ``most`` of the numbers 0 .. count - 1, evenly spread, the first and the last included."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(int))


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers that cover a range."""
    if high - low <= 1e-9 * max(abs(low), abs(high)):               # equal up to rounding
        high = low + max(1.0, abs(low))
    step = 10.0 ** math.floor(math.log10((high - low) / count))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= count)
    digits = 3 - math.floor(math.log10(step))                       # finer than the step, coarser than rounding errors
    return [round(step * i, digits) for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def legend(names: Sequence[str], left: float, width: float) -> tuple[list[str], int]:
    """Draw coloured squares with names in as many rows as needed; return them and the y coordinate below."""
    body, x, y = [], float(left), 8
    for number, name in enumerate(names):
        wide = 26 + 6.2 * len(name)
        if x > left and x + wide > width:
            x, y = float(left), y + 18
        body.append(f'<rect x="{x:.0f}" y="{y}" width="10" height="10" fill="{colour(number)}"/>')
        body.append(words(x + 14, y + 9, name, "start"))
        x += wide
    return body, y + 18


class Axes:
    """A frame with round numbers: where values are drawn, and its grid lines.

    The first and last tick are the ends of an axis; ``top`` is the height of what is above the frame.
    """

    left, right, bottom = 48, 20, 36

    def __init__(
        self, x_ticks: list[float], y_ticks: list[float], width: float, height: float, top: float, x_label: str
    ):
        self.x_ticks, self.y_ticks, self.width, self.height, self.top = x_ticks, y_ticks, width, height, top
        self.body = []
        for tick in y_ticks:
            y = self.y(tick)
            ends = f'x1="{self.left}" x2="{width - self.right}" y1="{y:.1f}" y2="{y:.1f}"'
            self.body.append(f'<line {ends} class="grid"/>')
            self.body.append(words(self.left - 6, y + 4, f"{tick:g}", "end"))
        for tick in x_ticks:
            self.body.append(words(self.x(tick), height - self.bottom + 16, f"{tick:g}"))
        self.body.append(words((self.left + width - self.right) / 2, height - 4, x_label))

    def x(self, value: float) -> float:
        """Return where a value of the horizontal axis is drawn."""
        low, high = self.x_ticks[0], self.x_ticks[-1]
        return self.left + (self.width - self.left - self.right) * (value - low) / ((high - low) or 1)

    def y(self, value: float) -> float:
        """Return where a value of the vertical axis is drawn."""
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.height - self.bottom - (self.height - self.top - self.bottom) * (value - low) / (high - low)


Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]
SHOWN_VALUES = 120          # places of a curve with values under the pointer, and rows of a table
MOST_POINTS = 600           # of a chart of predictions
MANY_BARS = 40              # more need the whole width
NAMED_BAR = 8               # width of a bar with space for its name


def lines(series: Series, x_label: str, label: str) -> Chart:
    """Draw curves by name: name -> (x, y)."""
    above, top = legend(list(series), Axes.left, NARROW)
    height = 234 + top
    xs = sorted({x for x_values, _ in series.values() for x in x_values})
    ys = [y for _, y_values in series.values() for y in y_values if math.isfinite(y)]
    if not xs or not ys:
        return Chart(nothing(NARROW, height, label), (), ())
    axes = Axes(ticks(0, max(xs), 6), ticks(min(ys), max(ys)), NARROW, height, top, x_label)
    curves = []
    for number, (x_values, y_values) in enumerate(series.values()):
        places = zip(x_values, y_values, strict=True)
        points = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in places if math.isfinite(y))
        curves.append(f'<polyline points="{points}" fill="none" stroke="{colour(number)}" stroke-width="1.8"/>')
    values = [dict(zip(x_values, y_values, strict=True)) for x_values, y_values in series.values()]
    some = [xs[i] for i in evenly(len(xs), SHOWN_VALUES)]
    rows = [[f"{x:g}", *(_value(value.get(x)) for value in values)] for x in some]
    return Chart(
        draw(NARROW, height, axes.body + curves + _columns(axes, some, rows, list(series), x_label) + above, label),
        (x_label, *series), rows,
    )  # fmt: skip


def _value(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"


def _columns(axes: Axes, xs: list[float], rows: list[list[str]], names: list[str], x_label: str) -> list[str]:
    """Draw invisible columns that show the values of all curves at one x."""
    places = [axes.x(x) for x in xs]
    edges = [axes.left, *((a + b) / 2 for a, b in pairwise(places)), axes.width - axes.right]
    body = []
    for (low, high), row in zip(pairwise(edges), rows, strict=True):
        values = [f"{name}: {value}" for name, value in zip(names, row[1:], strict=True) if value != "-"]
        tooltip, height = "\n".join([f"{x_label} {row[0]}", *values]), axes.height - axes.top - axes.bottom
        body.append(
            f'<rect x="{low:.1f}" y="{axes.top}" width="{max(high - low, 0):.1f}" height="{height}" '
            f'class="column" fill="none" pointer-events="all">{tip(tooltip)}</rect>'
        )
    return body


def agreement(true: Sequence[float], predicted: Sequence[float], label: str) -> Chart:
    """Draw predicted against true numbers, some of them if there are many, with the line on which both are equal."""
    height, label = 320, f"predicted against true: {label}"
    some = [(true[i], predicted[i]) for i in evenly(len(true), MOST_POINTS)]
    points = [pair for pair in some if all(map(math.isfinite, pair))]
    if not points:
        return Chart(nothing(NARROW, height, label), (), ())
    both = ticks(min(map(min, points)), max(map(max, points)))
    axes = Axes(both, both, NARROW, height, 12, "true (across), predicted (up)")
    (left, low), (right, high) = ((axes.x(end), axes.y(end)) for end in (both[0], both[-1]))
    ends = f'x1="{left:.1f}" y1="{low:.1f}" x2="{right:.1f}" y2="{high:.1f}"'
    body = [*axes.body, f'<line {ends} stroke="currentColor" stroke-opacity=".5" stroke-dasharray="4 4"/>']
    for x, y in points:
        place = f'cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="3"'
        tooltip = tip(f"true {x:.4g}, predicted {y:.4g}")
        body.append(f'<circle {place} fill="{colour(0)}" fill-opacity=".5">{tooltip}</circle>')
    rows = [[_value(x), _value(y)] for x, y in points[:SHOWN_VALUES]]
    note = f"{len(points):,} of {len(true):,} graphs are shown." if len(points) < len(true) else ""
    return Chart(draw(NARROW, height, body, label), ("true", "predicted"), rows, note)


def bars(groups: Mapping[str, Sequence[float]], label: str, names: Mapping[str, Sequence[str]] | None = None) -> Chart:
    """Draw grouped bars, sorted from the largest; the n-th bars of all groups are next to each other.

    ``groups``: name -> heights of its bars. ``names``: group -> names of its bars, below them if there is space, and
    under the pointer; by default their ranks. ``label``: text for screen readers.
    """
    names = names or {}
    count = max((len(values) for values in groups.values()), default=1)
    many = count * len(groups) > MANY_BARS
    width, left = WIDE if many else NARROW, 48
    slot = (width - left - 10) / max(count, 1)
    wide = slot * 0.8 / max(len(groups), 1)
    shown = {group: list(map(shortened, names.get(group, ()))) for group in groups} if wide >= NAMED_BAR else {}
    longest = max((len(name) for some in shown.values() for name in some), default=0)
    upright = 6.2 * longest > (slot if len(groups) == 1 else wide)
    space = (8 + 5.8 * longest if upright else 14) if longest else 0
    above, top = legend(list(groups), left, width)
    bottom, height = 30 + space, 214 + top + space
    y_ticks = ticks(0, max((max(values, default=0) for values in groups.values()), default=1))
    body, rows = [], []
    for tick in y_ticks:
        y = height - bottom - (height - top - bottom) * tick / y_ticks[-1]
        body.append(f'<line x1="{left}" x2="{width - 10}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        body.append(words(left - 6, y + 4, f"{tick:g}", "end"))
    for number, (group, values) in enumerate(groups.items()):
        for rank, value in enumerate(values):
            tall = (height - top - bottom) * value / y_ticks[-1]
            x = left + slot * rank + slot * 0.1 + wide * number
            name = names[group][rank] if group in names else f"{group}, rank {rank + 1}"
            body.append(
                f'<rect x="{x:.1f}" y="{height - bottom - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
                f'fill="{colour(number)}">{tip(f"{name}: {value:g}")}</rect>'
            )
            rows.append([group, name, f"{value:g}"])
        for rank, name in enumerate(shown.get(group, ())):
            x = left + slot * rank + slot * 0.1 + wide * (number + 0.5)
            body.append(_below(name, x, height - bottom, upright, min(11.0, wide + 1)))
    body.append(words((left + width) / 2, height - 8, "from the largest to the smallest"))
    svg = draw(width, round(height, 1), body + above, label, "dense" if many else "")
    return Chart(svg, ("", "", "size"), rows, wide=many)


def _below(name: str, x: float, y: float, upright: bool, font: float) -> str:
    """Draw the name of a bar, below the axis at ``y``."""
    if not upright:
        return words(x, y + 14, name)
    turned = f'transform="rotate(-90 {x + 0.35 * font:.1f} {y + 6:.1f})" style="font-size:{font:.1f}px"'
    return words(x + 0.35 * font, y + 6, name, "end", turned)


FEW_CELLS = 16                # columns or rows whose cells have space for numbers
TABLE_ROWS = 300


def heat_map(
    table: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
    groups: Sequence[tuple[str, int]] = (),
    selectable: bool = False,
) -> Chart:
    """Draw counts ``(rows, columns)``, shaded by their share of the row; of the column, where there are many columns.

    ``groups``: names and lengths of groups of adjacent columns, shown if there are many columns, on average at least
    three per group. ``selectable`` marks the cells for scripts that react to a click. ``label``: text for screen
    readers.
    """
    axis = 0 if table.shape[1] > FEW_CELLS else 1
    share = table / np.maximum(table.sum(axis, keepdims=True), 1e-12)
    values = [[f"{value:g}" for value in row] for row in table.tolist()]
    return _cells(share, values, rows, columns, label, groups, selectable)


def value_map(table: np.ndarray, rows: Sequence[str], columns: Sequence[str], label: str) -> Chart:
    """Draw a table of values between 0 and 1, shaded by the value; NaN: none."""
    values = [["-" if np.isnan(value) else f"{value:.2f}" for value in row] for row in table]
    return _cells(np.clip(np.nan_to_num(table), 0, 1), values, rows, columns, label, (), False)


def _cells(
    share: np.ndarray, texts: list[list[str]], rows: Sequence[str], columns: Sequence[str], label: str,
    groups: Sequence[tuple[str, int]], selectable: bool,
) -> Chart:  # fmt: skip
    count_rows, count_columns = share.shape
    many = count_columns > FEW_CELLS
    if not many or 3 * len(groups) > count_columns:
        groups = ()                                                         # lines at every column would hide the cells
    left = 14 + 6.4 * min(LONGEST, max((len(name) for name in rows), default=0))
    wide = ((WIDE if many else NARROW) - left - 10) / max(count_columns, 1)
    wide = max(4.0, wide) if many else max(26.0, min(72.0, wide))
    tall = 36.0 if count_rows <= FEW_CELLS // 2 else 30.0 if count_rows <= FEW_CELLS else max(4.0, 560 / count_rows)
    named = wide >= 13                                                      # space for a name of every column
    upright = many or any(len(name) * 6.2 > wide for name in columns)
    top = (14 + 5.6 * min(LONGEST, max((len(name) for name in columns), default=0)) if upright else 28) if named else 12
    top += 22 if groups else 0
    width, height = left + wide * count_columns + 10, top + tall * count_rows + 8
    gap = 2 if wide >= 10 and tall >= 10 else 0.4
    body = []
    for j, name in enumerate(columns):
        x = left + wide * (j + 0.5)
        if named and upright:
            turned = f'transform="rotate(-90 {x + 4:.1f} {top - 6:.1f})"'
            body.append(words(x + 4, top - 6, shortened(name), "start", turned))
        elif named:
            body.append(words(x, top - 8, name))
    body += _brackets(groups, left, wide, top + tall * count_rows)
    every = max(1, int(np.ceil(11 / tall)))
    for i, name in enumerate(rows):
        y = top + tall * i
        if i % every == 0:
            body.append(words(left - 8, y + tall / 2 + 4, shortened(name), "end"))
        for j in range(count_columns):
            x, value = left + wide * j, share[i, j]
            if many and value == 0:
                continue                                                    # nothing there: the frame shows it
            mark = f' data-cell="{i},{j}" class="cell"' if selectable else ""
            body.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide - gap:.1f}" height="{tall - gap:.1f}" fill="{COLOURS[0]}" '
                f'fill-opacity="{0.06 + 0.94 * value:.3f}"{mark}>{tip(f"{name}, {columns[j]}: {texts[i][j]}")}</rect>'
            )
            if wide >= 26 and tall >= 14:
                ink = "#fff" if value > 0.55 else "currentColor"
                style = f'style="fill:{ink};font-size:10px;pointer-events:none"'
                body.append(words(x + wide / 2 - 1, y + tall / 2 + 4, texts[i][j], extra=style))
    if many:
        frame = f'x="{left:.1f}" y="{top:.1f}" width="{wide * count_columns:.1f}" height="{tall * count_rows:.1f}"'
        body.append(f'<rect {frame} fill="none" class="frame"/>')
    svg = draw(round(width, 1), round(height, 1), body, label, "dense" if many else "")
    return Chart(svg, ("", *columns), [[n, *t] for n, t in zip(rows, texts, strict=True)][:TABLE_ROWS], wide=many)


def _brackets(groups: Sequence[tuple[str, int]], left: float, wide: float, bottom: float) -> list[str]:
    """Draw the names of groups of columns at the top, and lines between the groups down to the bottom."""
    body, first = [], 0
    for name, count in groups:
        x, space = left + wide * first, wide * count
        if first:
            body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{bottom:.1f}" class="rule"/>')
        letters = int(space / 6.4)
        if letters >= 3:
            body.append(words(x + 3, 14, name if len(name) <= letters else name[: letters - 1] + "…", "start"))
        first += count
    return body


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
    low, high = xy.min(0), xy.max(0)
    scale = min((width - 2 * edge) / max(high[0] - low[0], 1e-9), (height - 2 * edge) / max(high[1] - low[1], 1e-9))
    place = (xy - (low + high) / 2) * scale * (1, -1) + (width / 2, height / 2)
    size = 7 if len(xy) <= 400 else 5 if len(xy) <= 4000 else 3.2
    body = []
    one, other = group[edges[:, 0]], group[edges[:, 1]]
    inks = {int(number): f'stroke="{colour(int(number))}" stroke-opacity=".3"' for number in np.unique(group)}
    for number, ink in {-1: 'class="between"', **inks}.items():         # edges between groups, then inside each
        chosen = edges[np.where(one == other, one, -1) == number]
        path = "".join(f"M{a[0]:.0f} {a[1]:.0f}L{b[0]:.0f} {b[1]:.0f}" for a, b in place[chosen])
        body.append(f'<path d="{path}" fill="none" {ink} stroke-width=".8"/>' if path else "")
    for number in np.unique(group):
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in place[some][group[some] == number])
        ink = f'stroke="{colour(int(number))}" stroke-width="{size}" stroke-linecap="round" stroke-opacity=".85"'
        body.append(f'<path d="{dots}" {ink}/>')
    for number in np.unique(group) if len(names) <= NUMBERED else ():
        x, y = np.median(place[group == number], axis=0)
        body.append(words(x, y + 4, str(names[number]), extra='class="name"'))
    return draw(width, height, body, label)


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
        body.append(f'<circle cx="{x[i]:.1f}" cy="{y[i]:.1f}" r="{r:.1f}" fill="{colour(i)}">{tooltip}</circle>')
        if count > NUMBERED:
            body.append(_radial(str(names[i]), x[i], y[i], side / 2, largest + 4, 11 if count <= DENSE else 8))
        elif r > 7:                                                 # space for a number
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
    for one, other in children.tolist():
        members.append(members[one] + members[other])
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
        one, other = children[node - count].tolist()
        return leaves(one) + leaves(other)

    for rank, leaf in enumerate(leaves(count + len(children) - 1)):
        y = 6 + tall * (rank + 0.5)
        place[leaf] = left, y
        dot = f'<circle cx="{left - 8:.1f}" cy="{y:.1f}" r="5" fill="{colour(members[leaf][0])}"/>'
        body += [words(left - 18, y + 4, shortened(titles[leaf]), "end"), dot]
    for number, (one, other) in enumerate(children.tolist()):
        rows.append([str(number + 1), titles[one], titles[other], f"{cost[number]:.4f}"])
        if number < first:
            continue
        (x1, y1), (x2, y2) = place[one], place[other]
        x, y = left + step * (number - first + 1), (y1 + y2) / 2
        tooltip = tip(f"{titles[one]} and {titles[other]}: {cost[number]:.4f} {unit}")
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
    one, other = np.nonzero(upper > NEGLIGIBLE * max(float(weight.max(initial=0)), 1e-12))
    pairs = np.column_stack([one, other])[np.argsort(-upper[one, other], kind="stable")]
    if len(weight) <= FEW_CLUSTERS:
        return pairs
    # minimum_spanning_tree minimises: negative weights, strongest first
    forest = np.column_stack(minimum_spanning_tree(scipy.sparse.csr_matrix(-upper)).nonzero())
    strongest = pairs[: round(1.5 * len(weight)) if len(weight) <= DENSE else len(weight) // 2]
    kept = np.unique(np.concatenate([strongest, forest]), axis=0)
    return kept[np.argsort(-upper[kept[:, 0], kept[:, 1]], kind="stable")]


def _order(weight: np.ndarray) -> np.ndarray:
    """Return the place of every cluster on the circle, so that connected ones are close: the leaves of a tree."""
    near = (weight / max(float(weight.max(initial=0)), 1e-12)) ** 0.25                      # weights are skewed
    distance = 1 - near[np.triu_indices(len(weight), 1)]
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
    low, high = xy.min(0), xy.max(0)
    scale = (side - 2 * edge) / max(float((high - low).max()), 1e-9)
    place = side / 2 + scale * (xy - (low + high) / 2)
    paths = "".join(
        f"M{place[a, 0]:.1f} {place[a, 1]:.1f}L{place[b, 0]:.1f} {place[b, 1]:.1f}" for a, b in edges if a < b
    )
    body = [f'<path d="{paths}" fill="none" class="link" stroke-width="1.5"/>']
    for (x, y), number in zip(place, group, strict=True):
        tooltip = tip(f"cluster {number}")
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour(int(number))}">{tooltip}</circle>')
    return draw(side, side, body, label)
