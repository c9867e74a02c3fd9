"""Charts of numbers as SVG, each with a table of its values.

Lines, points and bars; tables of counts as coloured cells, legible for hundreds of rows or columns. All are plain text:
nothing is drawn with a library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

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
    """Return the colour of a group; they repeat after ten, with a ``mark``."""
    return COLOURS[number % len(COLOURS)]


def mark(number: int, x: float, y: float, r: float) -> str:
    """Return the path of what is cut out of the disc of a group: a hole, a slit, a cross after 10, 20, 30 groups."""
    slit, bar = f"M{x - r:.1f} {y:.1f}h{2 * r:.1f}", f"M{x:.1f} {y - r:.1f}v{2 * r:.1f}"
    return ("", f"M{x:.1f} {y:.1f}h0", slit, slit + bar)[number // len(COLOURS) % 4]


def disc(x: float, y: float, r: float, number: int, tooltip: str = "") -> str:
    """Draw the disc of a group, with its mark."""
    circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" fill="{colour(number)}">{tooltip}</circle>'
    cut = mark(number, x, y, r)
    wide = r if cut.endswith("h0") else r / 2
    return circle + (f'<path d="{cut}" class="cut" stroke-width="{wide:.1f}"/>' if cut else "")


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


def legend(names: Sequence[str], width: float) -> tuple[list[str], int]:
    """Draw coloured squares with names in as many rows as needed; return them and the y coordinate below."""
    left = float(Axes.left)
    body, x, y = [], left, 8
    for number, name in enumerate(names):
        wide = 26 + 6.2 * len(name)
        if x > left and x + wide > width:
            x, y = left, y + 18
        body.append(f'<rect x="{x:.0f}" y="{y}" width="10" height="10" fill="{colour(number)}"/>')
        body.append(words(x + 14, y + 9, name, "start"))
        x += wide
    return body, y + 18


class Axes:
    """A frame with round numbers: where values are drawn, and its grid lines.

    The first and last tick are the ends of an axis; ``top`` and ``bottom`` are the heights of what is above and below
    the frame.
    """

    left = 48

    def __init__(
        self, x_ticks: list[float], y_ticks: list[float], width: float, height: float, top: float, x_label: str,
        bottom: float = 36, right: float = 20,
    ):  # fmt: skip
        self.x_ticks, self.y_ticks, self.width, self.height, self.top = x_ticks, y_ticks, width, height, top
        self.bottom, self.right = bottom, right
        self.body = []
        for tick in y_ticks:
            y = self.y(tick)
            ends = f'x1="{self.left}" x2="{width - self.right}" y1="{y:.1f}" y2="{y:.1f}"'
            self.body.append(f'<line {ends} class="grid"/>')
            self.body.append(words(self.left - 6, y + 4, f"{tick:g}", "end"))
        for tick in x_ticks:
            self.body.append(words(self.x(tick), height - bottom + 16, f"{tick:g}"))
        self.body.append(words((self.left + width - right) / 2, height - 4, x_label))

    def x(self, value: float) -> float:
        """Return where a value of the horizontal axis is drawn."""
        low, high = self.x_ticks[0], self.x_ticks[-1]
        return self.left + (self.width - self.left - self.right) * (value - low) / ((high - low) or 1)

    def y(self, value: float) -> float:
        """Return where a value of the vertical axis is drawn."""
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.height - self.bottom - (self.height - self.top - self.bottom) * (value - low) / (high - low)

    def curve(self, xs: Sequence[float], ys: Sequence[float], number: int) -> str:
        """Draw a curve through its finite values in the colour of a group, dashed where colours repeat."""
        places = zip(xs, ys, strict=True)
        points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in places if math.isfinite(y))
        dashes = f' stroke-dasharray="{2 + 4 * (number // len(COLOURS))} 3"' if number >= len(COLOURS) else ""
        return f'<polyline points="{points}" fill="none" stroke="{colour(number)}" stroke-width="1.8"{dashes}/>'


SHOWN_VALUES = 120          # places of a curve with values under the pointer, and rows of a table
MOST_POINTS = 600           # of a chart of predictions
MANY_BARS = 40              # more need the whole width
NAMED_BAR = 8               # width of a bar with space for its name


def lines(series: Mapping[str, tuple[Sequence[float], Sequence[float]]], x_label: str, label: str) -> Chart:
    """Draw curves by name: name -> (x, y)."""
    above, top = legend(list(series), NARROW)
    height = 234 + top
    xs = sorted({x for x_values, _ in series.values() for x in x_values})
    ys = [y for _, y_values in series.values() for y in y_values if math.isfinite(y)]
    if not xs or not ys:
        return Chart(nothing(NARROW, height, label), (), ())
    axes = Axes(ticks(0, max(xs), 6), ticks(min(ys), max(ys)), NARROW, height, top, x_label)
    curves = [axes.curve(*values, number) for number, values in enumerate(series.values())]
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


NUMBERS = {"reproducibility": "reproducibility", "saved": "bits saved on edges"}


def numbers_of_clusters(rows: Sequence[Mapping[str, Any]], chosen: int) -> Chart:
    """Draw what speaks for each number of clusters: two curves with their scales at the left and the right.

    ``rows``: ``n_clusters``; ``reproducibility`` and ``saved``, None or missing where unknown; ``level``, True for a
    number that stands out, which is marked. ``chosen``: the number that was taken.
    """
    label, height, right = "number of clusters", 280, 52
    rows = sorted(rows, key=lambda row: row["n_clusters"])
    xs = [row["n_clusters"] for row in rows]
    curves = {
        name: [math.nan if row.get(key) is None else float(row[key]) for row in rows] for key, name in NUMBERS.items()
    }
    curves = {name: ys for name, ys in curves.items() if any(map(math.isfinite, ys))}
    if not curves:
        return Chart(nothing(NARROW, height, label), (), ())
    sides = (" (left)", " (right)") if len(curves) > 1 else ("",)
    above, top = legend([name + side for name, side in zip(curves, sides, strict=True)], NARROW)
    x_ticks, body, scales = ticks(min(xs), max(xs), 6), [], []
    for number, (name, ys) in enumerate(curves.items()):
        finite = [y for y in ys if math.isfinite(y)]
        ends = (min(0.0, *finite), 1.0) if name == NUMBERS["reproducibility"] else (min(finite), max(finite))
        axes = Axes(x_ticks, ticks(*ends), NARROW, height, top + 14, "clusters", right=right)
        if number == 0:
            body += axes.body
        else:
            body += [words(NARROW - right + 6, axes.y(y) + 4, f"{y:g}", "start") for y in axes.y_ticks]
        body.append(axes.curve(xs, ys, number))
        scales.append(axes)
    first = scales[0]
    for row, y in zip(rows, next(iter(curves.values())), strict=True):
        taken = row["n_clusters"] == chosen
        if (row.get("level") or taken) and math.isfinite(y):
            x, bottom = first.x(row["n_clusters"]), height - first.bottom
            name = f"{row['n_clusters']}{', chosen' if taken else ''}"
            body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{first.y(y):.1f}" y2="{bottom}" class="rule"/>')
            body.append(disc(x, first.y(y), 6 if taken else 4, 0, tip(name)))
            body.append(words(x, first.y(y) - 9, str(row["n_clusters"]), extra='class="name"' if taken else ""))
    values = [[f"{x:g}", *(_value(ys[i]) for ys in curves.values())] for i, x in enumerate(xs)]
    body += _columns(first, xs, values, list(curves), "clusters")
    table = [[*cells, "level" * bool(row.get("level"))] for cells, row in zip(values, rows, strict=True)]
    return Chart(draw(NARROW, height, body + above, label), ("clusters", *curves, "level"), table)


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
    width, left = WIDE if many else NARROW, Axes.left
    slot = (width - left - 10) / max(count, 1)
    wide = slot * 0.8 / max(len(groups), 1)
    shown = {group: list(map(shortened, names.get(group, ()))) for group in groups} if wide >= NAMED_BAR else {}
    longest = max((len(name) for some in shown.values() for name in some), default=0)
    upright = 6.2 * longest > (slot if len(groups) == 1 else wide)
    space = (8 + 5.8 * longest if upright else 14) if longest else 0
    above, top = legend(list(groups), width)
    height, rows = round(214 + top + space, 1), []
    y_ticks = ticks(0, max((max(values, default=0) for values in groups.values()), default=1))
    axes = Axes([], y_ticks, width, height, top, "from the largest to the smallest", bottom=30 + space, right=10)
    body, ground = axes.body, height - axes.bottom
    for number, (group, values) in enumerate(groups.items()):
        for rank, value in enumerate(values):
            x = left + slot * rank + slot * 0.1 + wide * number
            name = names[group][rank] if group in names else f"{group}, rank {rank + 1}"
            body.append(
                f'<rect x="{x:.1f}" y="{axes.y(value):.1f}" width="{wide:.1f}" height="{ground - axes.y(value):.1f}" '
                f'fill="{colour(number)}">{tip(f"{name}: {value:g}")}</rect>'
            )
            rows.append([group, name, f"{value:g}"])
            if shown.get(group):
                body.append(_below(shown[group][rank], x + wide / 2, ground, upright, min(11.0, wide + 1)))
    return Chart(draw(width, height, body + above, label, "dense" * many), ("", "", "size"), rows, wide=many)


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
