"""Charts of numbers: lines, points, bars. Each has a table of its values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from jbpool.report.svg import NARROW, WIDE, Axes, Chart, colour, draw, legend, nothing, shortened, ticks, tip, words

Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]
SHOWN_VALUES = 120          # places of a curve with values under the pointer, and rows of a table
MANY_BARS = 40              # more need the whole width
NAMED_BAR = 8               # width of a bar with room for its name


def lines(series: Series, x_label: str, label: str) -> Chart:
    """Curves by name: name -> (x, y)."""
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
    some = _some(xs)
    rows = [[f"{x:g}", *(_value(value.get(x)) for value in values)] for x in some]
    return Chart(
        draw(NARROW, height, axes.body + curves + _columns(axes, some, rows, list(series), x_label) + above, label),
        (x_label, *series), rows,
    )  # fmt: skip


def _some(values: list[float]) -> list[float]:
    return [values[i] for i in np.unique(np.linspace(0, len(values) - 1, min(SHOWN_VALUES, len(values))).astype(int))]


def _value(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"


def _columns(axes: Axes, xs: list[float], rows: list[list[str]], names: list[str], x_label: str) -> list[str]:
    """Invisible columns that show the values of all curves at one x."""
    places = [axes.x(x) for x in xs]
    edges = [axes.left, *((a + b) / 2 for a, b in pairwise(places)), axes.width - axes.right]
    body = []
    for (low, high), row in zip(pairwise(edges), rows, strict=True):
        values = [f"{name}: {value}" for name, value in zip(names, row[1:], strict=True) if value != "-"]
        told, height = "\n".join([f"{x_label} {row[0]}", *values]), axes.height - axes.top - axes.bottom
        body.append(
            f'<rect x="{low:.1f}" y="{axes.top}" width="{max(high - low, 0):.1f}" height="{height}" '
            f'class="column" fill="none" pointer-events="all">{tip(told)}</rect>'
        )
    return body


def scatter(series: Series, x_label: str, label: str) -> Chart:
    """Points by name with axes: name -> (x, y)."""
    above, top = legend(list(series), Axes.left, NARROW)
    height = 264 + top
    xs = [x for x_values, _ in series.values() for x in x_values]
    ys = [y for _, y_values in series.values() for y in y_values]
    if not xs:
        return Chart(nothing(NARROW, height, label), (), ())
    axes = Axes(ticks(min(xs), max(xs)), ticks(min(ys), max(ys)), NARROW, height, top, x_label)
    body, rows = list(axes.body), []
    for number, (name, (x_values, y_values)) in enumerate(series.items()):
        for x, y in zip(x_values, y_values, strict=True):
            place = f'cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="3.6"'
            told = tip(f"{name}: {x:.4g}, {y:.4g}")
            body.append(f'<circle {place} fill="{colour(number)}" fill-opacity=".65">{told}</circle>')
            rows.append([name, _value(x), _value(y)])
    return Chart(draw(NARROW, height, body + above, label), ("", "x", "y"), rows[:SHOWN_VALUES])


def bars(groups: Mapping[str, Sequence[float]], label: str, names: Mapping[str, Sequence[str]] | None = None) -> Chart:
    """Grouped bars, sorted from the largest; the n-th bars of all groups are next to each other.

    Parameters
    ----------
    groups : mapping of str to sequence of float
        Name -> heights of its bars.
    label : str
        Text alternative, for screen readers.
    names : mapping of str to sequence of str, optional
        Group -> names of its bars, below them if there is room, and under the pointer. By default their ranks.
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
    room = (8 + 5.8 * longest if upright else 14) if longest else 0
    above, top = legend(list(groups), left, width)
    bottom, height = 30 + room, 214 + top + room
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
    """The name of a bar, below the axis at ``y``."""
    if not upright:
        return words(x, y + 14, name)
    turned = f'transform="rotate(-90 {x + 0.35 * font:.1f} {y + 6:.1f})" style="font-size:{font:.1f}px"'
    return words(x + 0.35 * font, y + 6, name, "end", turned)
