"""Sections of the report about the search of ``auto``."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from jbpool.clustering.auto.choose_k import Choice
from jbpool.report import charts
from jbpool.report.page import number, section, table


def search_sections(result: dict[str, Any], run: dict[str, Any]) -> list[str]:
    """The sections for this run; none for other methods."""
    sections = []
    if "num_clusters" in result:
        sections.append(_curve(result["num_clusters"]))
    if run.get("trials"):                                      # none for a single cluster
        sections += [_partitions(run), _settings(run)]
    return sections


def _curve(choice: dict[str, Any]) -> str:
    savings = {int(k): value for k, value in choice["savings"].items()}
    ranked = Choice(savings).ranked
    drawing = charts.lines({"saving": (list(savings), list(savings.values()))}, "clusters", "saving by clusters")
    note = f"{ranked[0]} clusters describe the edges most briefly; next: {', '.join(map(str, ranked[1:4]))}."
    if savings[ranked[0]] <= 0:
        note += " No number is better than a single cluster: the graph may have no clusters."
    return section("Number of clusters", drawing, f"Nats per edge saved against one cluster. {note}")


def _partitions(run: dict[str, Any]) -> str:
    """Every partition of the chosen settings by how well it explains edges and features."""
    x_key, x_label = "feature_modularity", "modularity of features (x) and of edges (y)"
    if run["trials"][0]["feature_modularity"] is None:
        x_key, x_label = "loss", "loss (x) and modularity (y)"
    series: dict[str, tuple[list[float], list[float]]] = {}
    for trial in sorted(run["trials"], key=lambda trial: not trial["kept"]):
        x, y = series.setdefault("kept for the consensus" if trial["kept"] else "not kept", ([], []))
        x.append(trial[x_key])
        y.append(trial["modularity"])
    drawing = charts.scatter(series, x_label, "partitions by modularity of features and edges")
    return section("Partitions", drawing, "Each point is a partition that a chosen setting found from one start.")


def _settings(run: dict[str, Any]) -> str:
    """Every setting with its evidence, best first, and what its partitions scored."""
    rows = []
    for setting in sorted(run["settings"], key=lambda setting: -(setting["evidence"] or 0)):
        name = (setting["weighting"], setting["steps"], setting["temperature"])
        trials = [t for t in run["trials"] if (t["weighting"], t["steps"], t["temperature"]) == name]
        best = max(trials, key=lambda trial: trial["score"], default=None)
        rows.append(
            [
                setting["weighting"], str(setting["steps"]), f"{setting['temperature']:g}",
                "-" if setting["evidence"] is None else f"{setting['evidence']:.4f}",
                number(best["modularity"] if best else None),
                number(best["feature_modularity"] if best else None),
                f"{sum(trial['kept'] for trial in trials)} of {len(trials)}" if trials else "-",
                number(fmean(trial["agreement"] for trial in trials) if trials else None),
            ]
        )  # fmt: skip
    head = ("view", "smoothing steps", "temperature", "evidence", "modularity", "of features", "kept", "agreement")
    kept = sum(trial["kept"] for trial in run["trials"])
    agreement = "Agreement: mean NMI of the partitions of a setting with the result. "
    if all(setting["evidence"] is None for setting in run["settings"]):
        note = f"The result is the consensus of the {kept} partitions with the highest modularity. "
        note += f"{agreement}No label was used."
        return section("What was tried", table(head, rows), note, wide=True)
    note = (
        "Evidence: modularity of held-out edges times modularity of held-out features, for clusters that have seen "
        "neither. The best settings, at most a third, clustered all the data; the result is the consensus of the "
        f"{kept} partitions that explain edges and features best. "
    )
    if run.get("moved"):
        note += f"Then {run['moved']} nodes moved to the cluster that explains their edges and features best. "
    note += f"{agreement}No label was used."
    return section("What was tried", table(head, rows), note, wide=True)
