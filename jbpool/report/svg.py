"""What all drawings share: SVG text, colours, axes, and the table that goes with a drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

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
    """The colour of a group; they repeat after ten."""
    return COLOURS[number % len(COLOURS)]


def draw(width: float, height: float, body: Sequence[str], label: str, kind: str = "") -> str:
    """The drawing: its elements, a label for screen readers, and a CSS class."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    more = f' class="{kind}"' if kind else ""
    return f'<svg {size}{more} role="img" aria-label="{escape(label)}">{"".join(body)}</svg>'


def words(x: float, y: float, text: str, anchor: str = "middle", extra: str = "") -> str:
    """Text at a place; ``anchor`` says which end of it is there, ``extra`` are further attributes."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{escape(text)}</text>'


def shortened(name: str) -> str:
    """A name with at most ``LONGEST`` letters."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def tip(text: str) -> str:
    """Shown when the pointer is over the element that contains it."""
    return f"<title>{escape(text)}</title>"


def nothing(width: float, height: float, label: str) -> str:
    """A drawing without values."""
    return draw(width, height, [words(width / 2, height / 2, "nothing recorded")], label)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that cover a range."""
    if high - low <= 1e-9 * max(abs(low), abs(high)):               # equal up to rounding
        high = low + max(1.0, abs(low))
    step = 10.0 ** math.floor(math.log10((high - low) / count))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= count)
    digits = 3 - math.floor(math.log10(step))                       # finer than the step, coarser than rounding errors
    return [round(step * i, digits) for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def legend(names: Sequence[str], left: float, width: float) -> tuple[list[str], int]:
    """Coloured squares with names, in as many rows as needed, and the y coordinate below them."""
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

    Parameters
    ----------
    x_ticks : list of float
        Numbers at the horizontal axis; the first and last are its ends.
    y_ticks : list of float
        Numbers at the vertical axis.
    width : float
        Width of the drawing.
    height : float
        Height of the drawing.
    top : float
        Height of what is above the frame.
    x_label : str
        Name of the horizontal axis.
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
        """Where a value of the horizontal axis is drawn."""
        low, high = self.x_ticks[0], self.x_ticks[-1]
        return self.left + (self.width - self.left - self.right) * (value - low) / ((high - low) or 1)

    def y(self, value: float) -> float:
        """Where a value of the vertical axis is drawn."""
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.height - self.bottom - (self.height - self.top - self.bottom) * (value - low) / (high - low)
