"""A self-contained HTML page of sections, shared by the reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:1040px;margin:2.5rem auto;padding:0 1.2rem}
h1{font-size:1.7rem;margin:0 0 .2rem}h2{font-size:1.05rem;margin:0 0 .6rem}
p.lead{margin:0 0 1.6rem;opacity:.75}
.grid-of{display:grid;grid-template-columns:repeat(auto-fit,minmax(460px,1fr));gap:1.4rem}
section{border:1px solid color-mix(in srgb,currentColor 16%,transparent);border-radius:10px;padding:1rem 1.1rem}
section{overflow-x:auto}
section p{margin:.6rem 0 0;font-size:13px;opacity:.75}
table{border-collapse:collapse;width:100%}td,th{padding:.25rem .6rem;text-align:right}td{white-space:nowrap}
th:first-child,td:first-child{text-align:left}
thead th{border-bottom:1px solid color-mix(in srgb,currentColor 30%,transparent);font-weight:600}
.wide{grid-column:1/-1}
.warn{background:#ef91181f;border-color:#ef9118;margin-bottom:1rem}
.big{display:flex;gap:2.2rem;flex-wrap:wrap;margin:0 0 1.6rem}.big div{font-size:2rem;font-weight:650;line-height:1.1}
.big span{display:block;font-size:.8rem;font-weight:400;opacity:.75}
.pair{display:flex;flex-wrap:wrap;gap:.8rem}.pair svg{flex:1 1 200px;min-width:0}
svg{max-width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:currentColor}
svg .grid{stroke:currentColor;stroke-opacity:.13}
pre{font-size:12px;overflow-x:auto;margin:0}
"""


def render_page(title: str, lead: str, headline: dict[str, str], notes: Iterable[str], sections: Iterable[str]) -> str:
    """The whole page.

    Parameters
    ----------
    title : str
        Title of the page.
    lead : str
        A line below the title.
    headline : dict of str to str
        Name -> figure, shown large.
    notes : iterable of str
        Warnings.
    sections : iterable of str
        HTML of the sections.
    """
    cells = "".join(f"<div>{escape(value)}<span>{escape(name)}</span></div>" for name, value in headline.items())
    warnings = "".join(f'<section class="warn">{escape(note)}</section>' for note in notes)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1><p class='lead'>{escape(lead)}</p><div class='big'>{cells}</div>{warnings}"
        f"<div class='grid-of'>{''.join(sections)}</div></body></html>\n"
    )


def section(title: str, body: str, note: str = "", wide: bool = False) -> str:
    kind = ' class="wide"' if wide else ""
    return f"<section{kind}><h2>{escape(title)}</h2>{body}{f'<p>{escape(note)}</p>' if note else ''}</section>"


def number(value: Any) -> str:
    return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def spread(mean: float | None, deviation: float | None) -> str:
    return number(mean) + (f" ± {deviation:.3f}" if deviation is not None else "")


def score(scores: dict[str, Any], key: str) -> str:
    """The mean of a score, with its deviation if there are several runs."""
    return spread(scores["mean"][key], scores["std"][key] if len(scores["runs"]) > 1 else None)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead>{body}</table>"


def settings(result: dict[str, Any]) -> str:
    """Configuration and versions of a run."""
    text = json.dumps({"config": result["config"], "versions": result["versions"]}, indent=2)
    details = f"<details><summary>configuration and versions</summary><pre>{escape(text)}</pre></details>"
    return section("Settings", details, wide=True)
