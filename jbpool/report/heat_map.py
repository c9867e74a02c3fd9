"""Tables of counts as coloured cells, legible for hundreds of rows or columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jbpool.report.svg import COLOURS, LONGEST, NARROW, WIDE, Chart, draw, shortened, tip, words

FEW = 16                # columns or rows whose cells have room for numbers
TABLE_ROWS = 300


def heat_map(
    table: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
    groups: Sequence[tuple[str, int]] = (),
    selectable: bool = False,
) -> Chart:
    """Counts, shaded by their share of the row; where there are many columns, by their share of the column.

    Parameters
    ----------
    table : np.ndarray
        ``(rows, columns)``, non-negative.
    rows : sequence of str
        Names of the rows.
    columns : sequence of str
        Names of the columns.
    label : str
        Text alternative, for screen readers.
    groups : sequence of (str, int), optional
        Names and lengths of groups of adjacent columns, shown if there are many columns, on average at least three per
        group.
    selectable : bool, default False
        Mark the cells for scripts that react to a click.
    """
    axis = 0 if table.shape[1] > FEW else 1
    share = table / np.maximum(table.sum(axis, keepdims=True), 1e-12)
    return _cells(share, _texts(table), rows, columns, label, groups, selectable)


def value_map(table: np.ndarray, rows: Sequence[str], columns: Sequence[str], label: str) -> Chart:
    """A table of values between 0 and 1, shaded by the value; NaN: none."""
    values = [["-" if np.isnan(value) else f"{value:.2f}" for value in row] for row in table]
    return _cells(np.clip(np.nan_to_num(table), 0, 1), values, rows, columns, label, (), False)


def _texts(table: np.ndarray) -> list[list[str]]:
    return [[f"{value:g}" for value in row] for row in table.tolist()]


def _cells(
    share: np.ndarray, texts: list[list[str]], rows: Sequence[str], columns: Sequence[str], label: str,
    groups: Sequence[tuple[str, int]], selectable: bool,
) -> Chart:  # fmt: skip
    count_rows, count_columns = share.shape
    many = count_columns > FEW
    if not many or 3 * len(groups) > count_columns:
        groups = ()                                                         # lines at every column would hide the cells
    left = 14 + 6.4 * min(LONGEST, max((len(name) for name in rows), default=0))
    wide = ((WIDE if many else NARROW) - left - 10) / max(count_columns, 1)
    wide = max(4.0, wide) if many else max(26.0, min(72.0, wide))
    tall = 36.0 if count_rows <= FEW // 2 else 30.0 if count_rows <= FEW else max(4.0, 560 / count_rows)
    named = wide >= 13                                                      # room for a name of every column
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
    """Names of groups of columns at the top, and lines between the groups down to the bottom."""
    body, first = [], 0
    for name, count in groups:
        x, room = left + wide * first, wide * count
        if first:
            body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{bottom:.1f}" class="rule"/>')
        letters = int(room / 6.4)
        if letters >= 3:
            body.append(words(x + 3, 14, name if len(name) <= letters else name[: letters - 1] + "…", "start"))
        first += count
    return body
