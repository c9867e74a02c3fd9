"""Small charts as SVG text: lines, bars, a heat map, points, and graphs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

COLOURS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0",
    "#1b7f79", "#b5179e",
)  # fmt: skip


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _svg(width: int, height: int, body: Sequence[str], label: str) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{"".join(body)}</svg>'


def _text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{escape(words)}</text>'


def _nothing(width: int, height: int, label: str) -> str:
    return _svg(width, height, [_text(width / 2, height / 2, "nothing recorded")], label)


def _ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that cover a range."""
    if high - low <= 1e-9 * max(abs(low), abs(high)):               # equal up to rounding
        high = low + max(1.0, abs(low))
    step = 10.0 ** math.floor(math.log10((high - low) / count))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= count)
    digits = 3 - math.floor(math.log10(step))                       # finer than the step, coarser than rounding errors
    return [round(step * i, digits) for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _legend(names: Sequence[str], left: float, width: float) -> tuple[list[str], int]:
    """Coloured squares with names, in as many rows as needed, and the y coordinate below them."""
    body, x, y = [], float(left), 8
    for number, name in enumerate(names):
        wide = 26 + 6.2 * len(name)
        if x > left and x + wide > width:
            x, y = float(left), y + 18
        body.append(f'<rect x="{x:.0f}" y="{y}" width="10" height="10" fill="{colour(number)}"/>')
        body.append(_text(x + 14, y + 9, name, "start"))
        x += wide
    return body, y + 18


def lines(series: Mapping[str, tuple[Sequence[float], Sequence[float]]], x_label: str, label: str) -> str:
    """Curves by name: name -> (x, y)."""
    width, left, right, bottom = 460, 48, 20, 36
    legend, top = _legend(list(series), left, width)
    height = 234 + top
    xs = [x for x_values, _ in series.values() for x in x_values]
    ys = [y for _, y_values in series.values() for y in y_values if math.isfinite(y)]
    if not xs or not ys:
        return _nothing(width, height, label)
    y_ticks, x_ticks = _ticks(min(ys), max(ys)), _ticks(0, max(xs), 6)

    def at(x: float, y: float) -> tuple[float, float]:
        across = left + (width - left - right) * x / (x_ticks[-1] or 1)
        return across, height - bottom - (height - top - bottom) * (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])

    body = []
    for tick in y_ticks:
        _, y = at(0, tick)
        body.append(f'<line x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        body.append(_text(left - 6, y + 4, f"{tick:g}", "end"))
    for tick in x_ticks:
        body.append(_text(at(tick, 0)[0], height - bottom + 16, f"{tick:g}"))
    body.append(_text((left + width - right) / 2, height - 4, x_label))
    for number, (x_values, y_values) in enumerate(series.values()):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, x_values, y_values) if math.isfinite(y))
        body.append(f'<polyline points="{points}" fill="none" stroke="{colour(number)}" stroke-width="1.8"/>')
    return _svg(width, height, body + legend, label)


def scatter(series: Mapping[str, tuple[Sequence[float], Sequence[float]]], x_label: str, label: str) -> str:
    """Points by name with axes: name -> (x, y)."""
    width, left, right, bottom = 460, 48, 20, 36
    legend, top = _legend(list(series), left, width)
    height = 264 + top
    xs = [x for x_values, _ in series.values() for x in x_values]
    ys = [y for _, y_values in series.values() for y in y_values]
    if not xs:
        return _svg(width, height, [_text(width / 2, height / 2, "nothing recorded")], label)
    x_ticks, y_ticks = _ticks(min(xs), max(xs)), _ticks(min(ys), max(ys))

    def across(x: float) -> float:
        return left + (width - left - right) * (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])

    def up(y: float) -> float:
        return height - bottom - (height - top - bottom) * (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])

    body = []
    for tick in y_ticks:
        body.append(f'<line x1="{left}" x2="{width - right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}" class="grid"/>')
        body.append(_text(left - 6, up(tick) + 4, f"{tick:g}", "end"))
    for tick in x_ticks:
        body.append(_text(across(tick), height - bottom + 16, f"{tick:g}"))
    body.append(_text((left + width - right) / 2, height - 4, x_label))
    for number, (name, (x_values, y_values)) in enumerate(series.items()):
        for x, y in zip(x_values, y_values, strict=True):
            title = f"<title>{escape(name)}: {x:.4g}, {y:.4g}</title>"
            place = f'cx="{across(x):.1f}" cy="{up(y):.1f}"'
            body.append(f'<circle {place} r="3.6" fill="{colour(number)}" fill-opacity=".65">{title}</circle>')
    return _svg(width, height, body + legend, label)


def bars(groups: Mapping[str, Sequence[float]], label: str) -> str:
    """Grouped bars: name -> heights, sorted from the largest; the n-th bars of all groups are next to each other."""
    width, left, bottom = 460, 48, 30
    legend, top = _legend(list(groups), left, width)
    height = 214 + top
    count = max((len(values) for values in groups.values()), default=1)
    ticks = _ticks(0, max((max(values, default=0) for values in groups.values()), default=1))
    slot = (width - left - 10) / max(count, 1)
    body = []
    for tick in ticks:
        y = height - bottom - (height - top - bottom) * tick / ticks[-1]
        body.append(f'<line x1="{left}" x2="{width - 10}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        body.append(_text(left - 6, y + 4, f"{tick:g}", "end"))
    for number, (name, values) in enumerate(groups.items()):
        for rank, value in enumerate(values):
            tall = (height - top - bottom) * value / ticks[-1]
            wide = slot * 0.8 / len(groups)
            x = left + slot * rank + slot * 0.1 + wide * number
            body.append(
                f'<rect x="{x:.1f}" y="{height - bottom - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
                f'fill="{colour(number)}"><title>{escape(name)}: {value:g}</title></rect>'
            )
    body.append(_text((left + width) / 2, height - 8, "from the largest to the smallest"))
    return _svg(width, height, body + legend, label)


def heat_map(table: np.ndarray, rows: Sequence[str], columns: Sequence[str], label: str) -> str:
    """Counts, shaded by their share of the row."""
    cell = max(26, min(56, 400 // max(table.shape[1], 1)))
    left, top = 110, 28
    width, height = left + cell * table.shape[1] + 10, top + cell * table.shape[0] + 10
    share = table / np.maximum(table.sum(1, keepdims=True), 1)
    body = []
    for j, name in enumerate(columns):
        body.append(_text(left + cell * (j + 0.5), top - 8, name))
    for i, name in enumerate(rows):
        body.append(_text(left - 8, top + cell * (i + 0.5) + 4, name[:16], "end"))
        for j in range(table.shape[1]):
            x, y = left + cell * j, top + cell * i
            ink = "#fff" if share[i, j] > 0.55 else "currentColor"
            body.append(
                f'<rect x="{x}" y="{y}" width="{cell - 2}" height="{cell - 2}" fill="#4269d0" '
                f'fill-opacity="{0.06 + 0.94 * share[i, j]:.3f}"/>'
            )
            style = f'style="fill:{ink};font-size:10px"'
            body.append(_text(x + cell / 2 - 1, y + cell / 2 + 4, str(int(table[i, j])), extra=style))
    return _svg(width, height, body, label)


def points(xy: np.ndarray, group: np.ndarray, label: str) -> str:
    """Points in the plane, ``(N, 2)``, coloured by group."""
    width, height, edge = 460, 360, 12
    if len(xy) == 0:
        return _nothing(width, height, label)
    low, high = np.quantile(xy, 0.005, axis=0), np.quantile(xy, 0.995, axis=0)
    place = np.clip((xy - low) / np.maximum(high - low, 1e-12), -0.02, 1.02)
    body = []
    for number in np.unique(group):
        dots = "".join(
            f"M{edge + (width - 2 * edge) * x:.1f} {height - edge - (height - 2 * edge) * y:.1f}h0"
            for x, y in place[group == number]
        )
        ink = f'stroke="{colour(int(number))}" stroke-width="3.6" stroke-linecap="round" stroke-opacity=".6"'
        body.append(f'<path d="{dots}" {ink}/>')
    return _svg(width, height, body, label)


def circle_graph(weight: np.ndarray, size: np.ndarray, label: str, names: Sequence[int] | None = None) -> str:
    """A small graph on a circle: discs by size, lines by weight. ``names`` are the numbers of the clusters."""
    side, radius = 360, 130
    count = len(size)
    names = range(count) if names is None else names
    largest = min(32.0, math.pi * radius / max(count, 1))           # many discs must not overlap
    angle = 2 * np.pi * np.arange(count) / max(count, 1) - np.pi / 2
    x, y = side / 2 + radius * np.cos(angle), side / 2 + radius * np.sin(angle)
    strongest = max(float(weight.max(initial=0)), 1e-12)
    body = []
    for i in range(count):
        for j in range(i):
            if weight[i, j] > 0.02 * strongest:
                thick = 9 * weight[i, j] / strongest
                ends = f'x1="{x[i]:.1f}" y1="{y[i]:.1f}" x2="{x[j]:.1f}" y2="{y[j]:.1f}"'
                ink = f'stroke="#8a8f98" stroke-opacity=".55" stroke-width="{thick:.2f}"'
                body.append(f"<line {ends} {ink}><title>{names[i]} - {names[j]}: {weight[i, j]:.3f}</title></line>")
    for i in range(count):
        r = largest * (0.15 + 0.85 * math.sqrt(size[i] / max(size.max(), 1)))
        title = f"<title>cluster {names[i]}: {int(size[i])} nodes</title>"
        body.append(f'<circle cx="{x[i]:.1f}" cy="{y[i]:.1f}" r="{r:.1f}" fill="{colour(i)}">{title}</circle>')
        if r > 7:                                                   # room for a number
            body.append(_text(x[i], y[i] + 4, str(names[i]), extra='style="fill:#fff;font-weight:600"'))
    return _svg(side, side, body, label)


def network(xy: np.ndarray, edges: np.ndarray, group: np.ndarray, label: str) -> str:
    """A small graph at given positions ``(N, 2)``, edges ``(E, 2)``, nodes coloured by group."""
    side, edge = 300, 14
    if len(xy) == 0:
        return _nothing(side, side, label)
    low, high = xy.min(0), xy.max(0)
    place = edge + (side - 2 * edge) * (xy - low) / np.maximum(high - low, 1e-9)
    paths = "".join(
        f"M{place[a, 0]:.1f} {place[a, 1]:.1f}L{place[b, 0]:.1f} {place[b, 1]:.1f}" for a, b in edges if a < b
    )
    body = [f'<path d="{paths}" fill="none" stroke="#8a8f98" stroke-opacity=".55"/>']
    for (x, y), number in zip(place, group, strict=True):
        title = f"<title>cluster {number}</title>"
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour(int(number))}">{title}</circle>')
    return _svg(side, side, body, label)
