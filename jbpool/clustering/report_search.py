"""Sections of the report about what ``auto`` tried."""

from __future__ import annotations

from typing import Any

from jbpool.clustering.auto.choose_k import ranked
from jbpool.report import charts
from jbpool.report.page import number, section, table


def search_sections(result: dict[str, Any], run: dict[str, Any]) -> list[str]:
    """The sections for this run; none for other methods."""
    sections = []
    if result.get("num_clusters", {}).get("savings"):
        sections.append(_curve(result["num_clusters"]))
    if run.get("trials"):                                      # none for a single cluster
        sections.append(_views(run))
    return sections


def _curve(choice: dict[str, Any]) -> str:
    savings = dict(sorted((int(k), value) for k, value in choice["savings"].items()))
    best = ranked(savings)
    drawing = charts.lines({"saved": (list(savings), list(savings.values()))}, "clusters", "bits saved by clusters")
    note = f"{best[0]} clusters describe the edges most briefly; next: {', '.join(map(str, best[1:4])) or 'none'}."
    if choice["chosen"] == 1:
        note = "No number of clusters describes the edges more briefly than one: the graph may have no clusters."
    return section("Number of clusters", drawing, f"Bits per node saved in describing the edges. {note}")


def _views(run: dict[str, Any]) -> str:
    """The best partition of every view, the view of the result first."""
    views: dict[str, list[dict[str, Any]]] = {}
    for trial in run["trials"]:
        views.setdefault(trial["view"], []).append(trial)
    rows = []
    for name, trials in sorted(views.items(), key=lambda item: item[0] != run["view"]):
        best = max(trials, key=lambda trial: trial["saved"])
        values = (best["saved"], best["loss"], best["moved"], best["agreement"])
        rows.append([name, str(len(trials)), *map(number, values), "yes" if name == run["view"] else ""])
    head = ("view", "starts", "bits saved per node", "loss", "moved", "agreement", "result")
    note = (
        "Of each view, the partition that saves most in describing edges and features. Loss: of the bounded head. "
        "Moved: nodes that changed their cluster afterwards, for the one that explains them best. Agreement: share of "
        "the nodes with the same cluster as in the result. No label was used."
    )
    return section("What was tried", table(head, rows), note, wide=True)
