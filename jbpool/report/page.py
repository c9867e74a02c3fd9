"""A self-contained HTML page of sections, shared by the reports."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from jbpool.report.charts import Chart

ASSETS = Path(__file__).parent / "assets"
FULL_NOTES = 3
# Nothing is loaded from elsewhere, and nothing is sent.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@cache
def asset(name: str) -> str:
    """Return a file of the package that pages are made from."""
    return (ASSETS / name).read_text(encoding="utf-8")


def render_page(
    title: str,
    lead: str,
    headline: dict[str, str],
    notes: Iterable[str],
    sections: Iterable[str],
    scripts: Iterable[str] = (),
) -> str:
    """Return the whole page.

    ``lead``: a line below the title. ``headline``: name -> figure, shown large. ``notes``: warnings. ``sections``:
    their HTML. ``scripts``: names of assets that the sections need.
    """
    cells = "".join(f"<div>{escape(value)}<span>{escape(name)}</span></div>" for name, value in headline.items())
    warnings = _warnings(list(notes))
    code = "".join(f"<script>{asset(name)}</script>" for name in (*scripts, "tips.js", "sort.js"))
    if "sigma.js" in scripts:
        code += f"<!--\n{asset('LICENSES.txt')}-->"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><style>{asset("page.css")}</style></head><body>'
        f"<main><h1>{escape(title)}</h1><p class='lead'>{escape(lead)}</p><div class='big'>{cells}</div>{warnings}"
        f"<div class='grid-of'>{''.join(sections)}</div></main>{code}</body></html>\n"
    )


def _warnings(notes: list[str]) -> str:
    """Show the first few in full; the others can be opened."""
    first, more = (f"<p>{'</p><p>'.join(map(escape, part))}</p>" for part in (notes[:FULL_NOTES], notes[FULL_NOTES:]))
    if len(notes) > FULL_NOTES:
        first += f"<details><summary>{len(notes) - FULL_NOTES} more</summary>{more}</details>"
    return f'<section class="warn" aria-label="Warnings">{first}</section>' if notes else ""


def section(title: str, body: str | Chart, note: str = "", wide: bool = False) -> str:
    """Return a part of a page: HTML, or a chart with the table of its values."""
    if isinstance(body, Chart):
        note, wide = " ".join(part for part in (note, body.note) if part), wide or body.wide
        body = _figure(body)
    kind = ' class="wide"' if wide else ""
    return f"<section{kind}><h2>{escape(title)}</h2>{body}{f'<p>{escape(note)}</p>' if note else ''}</section>"


def _figure(chart: Chart) -> str:
    if not chart.rows:
        return f"<figure>{chart.svg}</figure>"
    values = f'<div class="values">{table(chart.head, chart.rows)}</div>'
    return f"<figure>{chart.svg}<details><summary>Values as a table</summary>{values}</details></figure>"


def number(value: Any) -> str:
    """Return a value as text: three digits after the point, or three of a very small or large number; or a dash."""
    if value is None or value != value:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if value == 0 or 0.001 <= abs(value) < 1e5 else f"{value:.3g}"


def spread(mean: float | None, deviation: float | None) -> str:
    """Return mean and deviation as text, both with the digits of the mean."""
    if mean is None or deviation is None:
        return number(mean)
    usual = 0.001 <= abs(mean) < 1e5 and deviation < 1e5
    return f"{mean:.3f} ± {deviation:.3f}" if usual else f"{number(mean)} ± {number(deviation)}"


def score(scores: dict[str, Any], key: str) -> str:
    """Return the mean of a score, with its deviation if there are several runs; a count that all share as it is."""
    values = {run.get(key) for run in scores["runs"]}
    if len(values) == 1 and all(isinstance(value, int) for value in values):
        return f"{values.pop():,}"
    return spread(scores["mean"][key], scores["std"][key] if len(scores["runs"]) > 1 else None)


def class_names(given: Sequence[str] | None, count: int) -> list[str]:
    """Return the names of ``count`` classes: those given, else ``class 0``, ``class 1``, ..."""
    return list(given or (f"class {i}" for i in range(count)))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Return a table that scrolls sideways where it is too wide; scripts make it sortable. ``kind``: its CSS class."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    more = f' class="{kind}"' if kind else ""
    return f'<div class="scroll"><table{more}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def settings(result: dict[str, Any]) -> str:
    """Return the configuration and the versions of a run."""
    text = json.dumps({"config": result["config"], "versions": result["versions"]}, indent=2)
    details = f"<details><summary>configuration and versions</summary><pre>{escape(text)}</pre></details>"
    return section("Settings", details, wide=True)


KINDS = {"u": "Uint", "i": "Int", "f": "Float"}         # of numpy, and in the browser


def pack(text: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """Compress a JSON value and arrays; ``unpack`` of ``assets/unpack.js`` reads them in the browser.

    Layout before compression: the length of the JSON text in bytes (four bytes, little endian), the JSON text padded
    with spaces, then the arrays (integers of 8, 16 or 32 bits, or float32), each starting at a multiple of four bytes.
    """
    entries, body = [], b""
    for name, array in arrays.items():
        data = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
        kind = f"{KINDS[array.dtype.kind]}{8 * array.itemsize}Array"
        entries.append({"name": name, "type": kind, "start": len(body), "length": array.size})
        body += data + b"\0" * (-len(data) % 4)
    head = json.dumps({"text": text, "arrays": entries}).encode()
    head += b" " * (-len(head) % 4)
    return base64.b64encode(zlib.compress(struct.pack("<I", len(head)) + head + body, 9)).decode()
