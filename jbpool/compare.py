"""Two or more runs on one page: scores side by side, settings that differ, and where the results differ.

Runs are ordered by their paths. Clusterings are compared by NMI and, with the first run, node by node: clusters are
matched one to one so that as few nodes as possible move, and have the numbers of the first run; one that merged with
another or was split off is one line.
Classifications are compared graph by graph, unless the network predicts numbers or several tasks. Only run folders
are read, not the data.
"""

from __future__ import annotations

import json
import os
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from jbpool.clustering.matching import Matching, kept_numbers, match
from jbpool.clustering.report import score_name
from jbpool.clustering.scores import best_run, normalized_mutual_information
from jbpool.data.arrays import read_arrays
from jbpool.engine.run_folder import flat_settings
from jbpool.errors import RunFolderError
from jbpool.files import load_state, reporting_damage, write_text
from jbpool.ops.segment import contingency
from jbpool.report.charts import heat_map, value_map
from jbpool.report.page import class_names, number, render_page, score, section, table

SHOWN = 200             # nodes or graphs in a table
COUNTS = ("epochs", "best_epoch", "trial")
REWRITE = "--resume writes its files again"


class Run(NamedTuple):
    """A run folder."""

    name: str
    result: dict[str, Any]                  # result.json
    ids: np.ndarray                         # (N,) of nodes, as text; of classification: graph, seed and fold
    group: np.ndarray                       # (N,) clusters of the best seed, or predicted classes
    certainty: np.ndarray                   # (N,) confidence, or margin of the prediction
    names: list[str]                        # of clusters (their numbers) or classes; empty: predictions are no classes

    @property
    def named(self) -> np.ndarray:
        """The names of the predicted classes, (N,): two files may list the classes in another order."""
        return np.array(self.names)[self.group]

    def at(self, places: np.ndarray) -> Run:
        """Return the run on some of the nodes or graphs."""
        return self._replace(ids=self.ids[places], group=self.group[places], certainty=self.certainty[places])


# ---------------------------------------------------------------- reading


def read_result(folder: Path) -> dict[str, Any]:
    """Return ``result.json`` of a run folder, which may be interrupted in its first run."""
    path = folder / "result.json"
    if not path.is_file():
        what = "no such run folder" if not folder.is_dir() else "no run folder: it has no result.json"
        raise RunFolderError(f"{folder}: {what}; a run folder is what --out of jbpool cluster or classify names.")
    with reporting_damage(path, REWRITE):
        result = json.loads(path.read_text())
        len(result["runs"])                                 # fails here unless it is what a run writes
    return result


def read_run(folder: Path, name: str) -> Run:
    """Return what is compared of a run folder."""
    result = read_result(folder)
    if not result["runs"]:
        raise RunFolderError(f"{folder} has no finished run yet: wait, or continue it with --resume.")
    with reporting_damage(folder, REWRITE):
        return (_clusters if result["task"] == "node_cluster" else _predictions)(folder, name, result)


def _clusters(folder: Path, name: str, result: dict[str, Any]) -> Run:
    stored = read_arrays(folder / "assign.npz")
    place = stored["seeds"].tolist().index(best_run(result["runs"])["seed"])
    cluster = stored["cluster"][place]
    inside = cluster >= 0
    ids, confidence = stored["ids"].astype(str)[inside], stored["confidence"][place][inside]
    return Run(name, result, ids, cluster[inside], confidence, _numbers(cluster))


def _numbers(cluster: np.ndarray) -> list[str]:
    """Return the names of numbered clusters, 0 up to the largest."""
    return [str(number) for number in range(int(cluster.max(initial=-1)) + 1)]


def _predictions(folder: Path, name: str, result: dict[str, Any]) -> Run:
    stored = read_arrays(folder / "predictions.npz")
    ids = np.array([
        f"{graph} (seed {seed}, fold {fold})"
        for graph, seed, fold in zip(stored["id"], stored["seed"], stored["fold"], strict=True)
    ])  # fmt: skip
    scores = torch.from_numpy(stored["scores"]).float()
    names = _class_names(folder, result["runs"][0]["metric"], scores.shape[1])
    if scores.shape[1] == 1:
        scores = torch.cat([-scores, scores], dim=1) / 2                    # of a sigmoid
    best = scores.softmax(1).topk(2, dim=1).values
    return Run(name, result, ids, scores.argmax(1).numpy(), (best[:, 0] - best[:, 1]).numpy(), names)


def _class_names(folder: Path, metric: str, columns: int) -> list[str]:
    """Return the names of the predicted classes; none of several tasks and of regression."""
    if metric != "acc":
        return ["negative", "positive"] if metric in ("rocauc", "ap") and columns == 1 else []
    stored = load_state(folder / "model.pt") if (folder / "model.pt").is_file() else {"inputs": {"class_names": None}}
    return class_names(stored["inputs"]["class_names"], columns)


def names_of(folders: list[Path]) -> list[str]:
    """Return the short names of run folders: as few of their last parts as tell them apart."""
    parts = [Path(os.path.abspath(folder)).parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({i})" for i, name in enumerate(names, start=1)]       # the same folder twice


def on_common(first: Run, second: Run) -> tuple[Run, Run]:
    """Return two runs on the nodes or graphs that both have, in the order of the first."""
    _, here, there = np.intersect1d(first.ids, second.ids, return_indices=True)
    order = np.argsort(here)
    return first.at(here[order]), second.at(there[order])


# ---------------------------------------------------------------- comparing


def different_settings(runs: list[Run]) -> list[list[str]]:
    """Return the rows of the settings that are not the same in all runs."""
    configs = [flat_settings(run.result["config"]) for run in runs]
    keys = list(dict.fromkeys(key for config in configs for key in config))
    rows = [[key, *(str(config.get(key, "-")) for config in configs)] for key in keys]
    return [row for row in rows if len(set(row[1:])) > 1]


def with_numbers_of(first: Run, run: Run) -> Run:
    """Return a clustering whose clusters have the numbers of those of the first run that they are matched with."""
    before, after = (torch.from_numpy(common.group) for common in on_common(first, run))
    numbers = kept_numbers(after, before, len(run.names)).numpy()
    return run._replace(group=numbers[run.group], names=_numbers(numbers))


def agreement(first: Run, second: Run) -> float:
    """Return the NMI of two clusterings, or the share of equal predictions, on what both have, else NaN."""
    first, second = on_common(first, second)
    if len(first.ids) == 0:
        return float("nan")
    if first.result["task"] == "graph_classify":
        return float((first.named == second.named).mean())
    rows, columns = torch.from_numpy(first.group).long(), torch.from_numpy(second.group).long()
    return normalized_mutual_information(contingency(rows, columns))


# ---------------------------------------------------------------- the page


def scores_section(runs: list[Run]) -> str:
    keys = list(dict.fromkeys(key for run in runs for key in run.result["mean"] if key not in COUNTS))
    shown = [[score(run.result, key) if key in run.result["mean"] else "-" for run in runs] for key in keys]
    rows = [[score_name(key), *values] for key, values in zip(keys, shown, strict=True)]
    rows.append(["runs", *(str(len(run.result["runs"])) for run in runs)])
    note = "Mean and deviation over the seeds" + (" and folds." if runs[0].result["task"] != "node_cluster" else ".")
    return section("Scores", table(("", *(run.name for run in runs)), rows), note, wide=len(runs) > 2)


def settings_section(runs: list[Run]) -> str:
    rows = different_settings(runs)
    if not rows:
        return section("Settings that differ", "<p>None.</p>")
    return section("Settings that differ", table(("", *(run.name for run in runs)), rows), wide=len(runs) > 2)


def agreement_section(runs: list[Run]) -> str:
    values = np.eye(len(runs))
    for i, j in combinations(range(len(runs)), 2):
        values[i, j] = values[j, i] = agreement(runs[i], runs[j])
    names, numbers = [f"{i}: {run.name}" for i, run in enumerate(runs, start=1)], [str(i + 1) for i in range(len(runs))]
    clusters = runs[0].result["task"] == "node_cluster"
    drawing = value_map(values, names, numbers, "agreement of the runs")
    note = "NMI of the clusters of the best seed of each run." if clusters else "Share of equal predictions."
    return section("Agreement", drawing, note)


def moved_sections(first: Run, second: Run) -> list[str]:
    """Return what differs between two runs, node by node or graph by graph."""
    title, total = f"{first.name} and {second.name}", len(first.ids) + len(second.ids)
    first, second = on_common(first, second)
    if len(first.ids) == 0:
        return [section(title, "<p>They have no node or graph in common.</p>", wide=True)]
    matching = match(torch.from_numpy(first.group), torch.from_numpy(second.group))
    counts = matching.counts
    clusters = first.result["task"] == "node_cluster"
    kind, what = ("nodes", "Clusters") if clusters else ("test graphs", "Predictions")
    rows, columns = np.flatnonzero(counts.sum(1)), np.flatnonzero(counts.sum(0))
    columns = columns[np.argsort(counts[:, columns].argmax(0), kind="stable")]
    drawing = heat_map(
        counts[np.ix_(rows, columns)], [first.names[i] for i in rows], [second.names[j] for j in columns],
        f"{title}: {kind}",
    )  # fmt: skip
    sections = [section(f"{what} of {first.name} (rows) and {second.name} (columns)", drawing)]
    if clusters and matching.whole.any():
        sections.append(_merged_section(first, second, matching))
    moved = matching.moved[first.group, second.group] if clusters else first.named != second.named
    return [*sections, _moved_section(first, second, np.flatnonzero(moved), total - 2 * len(first.ids))]


def _merged_section(first: Run, second: Run, matching: Matching) -> str:
    """Return one line for every cluster that merged with another, or was split off."""
    counts, rows = matching.counts, []
    for i, j in np.argwhere(matching.whole):
        share = [f"{100 * counts[i, j] / size:.0f} %" for size in (counts[i].sum(), counts[:, j].sum())]
        rows.append([first.names[i], second.names[j], f"{counts[i, j]:,}", *share])
    names = first.name, second.name
    head = (*names, "nodes in both", *(f"share of that of {name}" for name in names))
    note = "Most nodes of one are inside the other, which is matched with a third: its nodes do not count as moved."
    return section(f"Clusters that merged or were split: {names[0]} and {names[1]}", table(head, rows), note)


def _moved_section(first: Run, second: Run, moved: np.ndarray, apart: int) -> str:
    """Return the nodes or graphs that differ, those on which both runs are surest first; ``apart`` are in one run."""
    clusters = first.result["task"] == "node_cluster"
    surest = moved[np.argsort(-np.minimum(first.certainty, second.certainty)[moved], kind="stable")]
    rows = [
        [first.ids[i], *(run.names[run.group[i]] for run in (first, second)),
         *(number(float(run.certainty[i])) for run in (first, second))]
        for i in surest[:SHOWN]
    ]  # fmt: skip
    count, (kind, sure) = len(first.ids), ("nodes", "confidence") if clusters else ("test graphs", "margin")
    verb = "moved, after matching the clusters one to one" if clusters else "differ"
    note = f"{len(moved):,} of {count:,} {kind} ({100 * len(moved) / count:.1f} %) {verb}. "
    note += f"The {len(rows)} on which both runs are surest are shown." if len(rows) < len(moved) else ""
    note += f" {apart:,} {kind} are only in one of the runs." if apart else ""
    body = table(["id", first.name, second.name, sure, f"{sure} there"], rows) if rows else ""
    what = "Nodes that moved" if clusters else "Test graphs with another prediction"
    return section(f"{what}: {first.name} and {second.name}", f'<div class="values">{body}</div>', note)


def page(runs: list[Run]) -> str:
    first = runs[0].result
    sections, notes = [scores_section(runs), settings_section(runs)], []
    if all(run.names for run in runs):
        sections.append(agreement_section(runs))
        for run in runs[1:]:
            sections += moved_sections(runs[0], run)
    else:
        notes.append("Predictions of several tasks and of numbers are not compared graph by graph.")
    datasets = list(dict.fromkeys(run.result["dataset"] for run in runs))
    methods = [f"{run.name} ({run.result['method']})" for run in runs]
    lead = f"{', '.join(datasets)}; {', '.join(methods)}"
    data = [row[0] for row in different_settings(runs) if row[0].startswith("dataset.")]
    if first["task"] == "node_cluster":
        notes.append(
            f"Clusters of the other runs have the numbers of those of {runs[0].name} that they share most nodes with, "
            "not the numbers in their own files."
        )
    if set(data) - {"dataset.labels", "dataset.root"}:
        notes.append("The settings of the dataset differ: the same id may belong to different nodes or graphs.")
    kind = "clusterings" if first["task"] == "node_cluster" else "classifications"
    return render_page(f"{len(runs)} {kind} compared", lead, {}, notes, sections)


def compare(folders: list[Path], out: Path) -> None:
    """Write a page that compares runs of one task, given in any order."""
    folders = sorted(folders, key=os.path.abspath)
    runs = [read_run(folder, name) for folder, name in zip(folders, names_of(folders), strict=True)]
    if len({run.result["task"] for run in runs}) > 1:
        raise RunFolderError("clusterings and classifications cannot be compared: give runs of one task.")
    if runs[0].result["task"] == "node_cluster":
        runs = [runs[0], *(with_numbers_of(runs[0], run) for run in runs[1:])]
    write_text(out, page(runs))
