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
from collections.abc import Iterator
from contextlib import contextmanager
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
from jbpool.errors import JBPoolError, RunFolderError, one_line
from jbpool.files import load_state, write_text
from jbpool.ops.segment import contingency
from jbpool.report.charts import heat_map, value_map
from jbpool.report.page import class_names, number, render_page, score, section, table

SHOWN = 200             # nodes or graphs in a table
MOST = 4096             # clusters, unless there are more nodes: tables have a row and a column for each
COUNTS = ("epochs", "best_epoch", "trial")
REWRITE = "--resume rewrites them."
RESULT = {"task", "dataset", "method", "runs", "mean", "std", "compared", "notes", "config"}        # in result.json


class Run(NamedTuple):
    """A run folder."""

    name: str
    result: dict[str, Any]                  # result.json
    ids: np.ndarray                         # (N,) of nodes, as text; of classification: graph, seed and fold
    found: np.ndarray                       # (N,) clusters of the best seed, or predicted classes
    certainty: np.ndarray                   # (N,) confidence, or margin of the prediction
    names: list[str]                        # of clusters (their numbers) or classes; empty: predictions are no classes

    @property
    def named(self) -> np.ndarray:
        """The names of the predicted classes, (N,): two files may list the classes in another order."""
        return np.array(self.names)[self.found]


# ---------------------------------------------------------------- reading


def read_result(folder: Path) -> dict[str, Any]:
    """Return ``result.json`` of a run folder."""
    path = folder / "result.json"
    try:
        result = json.loads(path.read_text())
        if not isinstance(result, dict) or not result.keys() >= RESULT:
            raise ValueError(f"it should have {', '.join(sorted(RESULT))}")
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} cannot be read ({one_line(str(error))[:200]}): {REWRITE}") from None
    return result


@contextmanager
def reporting_mismatch(folder: Path) -> Iterator[None]:
    """Turn errors caused by the content of the readable files of a run folder into one that names the folder."""
    try:
        yield
    except RunFolderError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = one_line(str(error) if isinstance(error, JBPoolError) else f"{type(error).__name__}: {error}")[:400]
        raise RunFolderError(f"the files of {folder} are damaged or of different runs ({reason}): {REWRITE}") from error


def read_run(folder: Path, name: str) -> Run:
    """Return what is compared of a run folder."""
    if not (folder / "result.json").is_file():
        what = "no such run folder" if not folder.is_dir() else "no run folder: it has no result.json"
        raise RunFolderError(f"{folder}: {what}; a run folder is what --out of jbpool cluster or classify names.")
    result = read_result(folder)
    if not result["runs"]:
        raise RunFolderError(f"{folder} has no finished run yet: wait, or continue it with --resume.")
    with reporting_mismatch(folder):
        return (_clusters if result["task"] == "node_cluster" else _predictions)(folder, name, result)


def _clusters(folder: Path, name: str, result: dict[str, Any]) -> Run:
    stored = read_arrays(folder / "assign.npz")
    place = stored["seeds"].tolist().index(best_run(result["runs"])["seed"])
    cluster = stored["cluster"][place]
    ids, confidence = stored["ids"].astype(str), stored["confidence"][place]
    if cluster.dtype.kind not in "iu" or not ids.shape == cluster.shape == confidence.shape:
        raise ValueError(f"{len(ids)} ids, {len(confidence)} confidences, clusters {cluster.dtype} {cluster.shape}")
    if cluster.size and not -1 <= cluster.min() <= cluster.max() < max(MOST, cluster.size):
        raise ValueError(f"clusters {cluster.min()} to {cluster.max()}")
    names, known = [str(number) for number in range(int(cluster.max(initial=-1)) + 1)], cluster >= 0
    return Run(name, result, ids[known], cluster[known], confidence[known], names)


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
    known = None
    if (folder / "model.pt").is_file():
        known = load_state(folder / "model.pt")["inputs"]["class_names"]
    names = class_names(known, columns)
    if len(names) != columns:
        raise ValueError(f"{columns} columns of scores, but {len(names)} class names")
    return names


def names_of(folders: list[Path]) -> list[str]:
    """Return the short names of run folders: as few of their last parts as tell them apart."""
    parts = [Path(os.path.abspath(folder)).parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({i})" for i, name in enumerate(names, start=1)]       # the same folder twice


def common(one: Run, other: Run) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the nodes or graphs that both runs have."""
    _, here, there = np.intersect1d(one.ids, other.ids, return_indices=True)
    order = np.argsort(here)
    return here[order], there[order]


# ---------------------------------------------------------------- comparing


def different_settings(runs: list[Run]) -> list[list[str]]:
    """Return the rows of the settings that are not the same in all runs."""
    configs = [flat_settings(run.result["config"]) for run in runs]
    keys = list(dict.fromkeys(key for config in configs for key in config))
    rows = [[key, *(str(config.get(key, "-")) for config in configs)] for key in keys]
    return [row for row in rows if len(set(row[1:])) > 1]


def with_numbers_of(first: Run, run: Run) -> Run:
    """Return a clustering whose clusters have the numbers of those of the first run that they are matched with."""
    here, there = common(first, run)
    numbers = kept_numbers(
        torch.from_numpy(run.found[there]), torch.from_numpy(first.found[here]), int(run.found.max(initial=-1)) + 1
    ).numpy()
    names = [str(number) for number in range(int(numbers.max(initial=-1)) + 1)]
    return run._replace(found=numbers[run.found], names=names)


def agreement(one: Run, other: Run) -> float:
    """Return the NMI of two clusterings, or the share of equal predictions, on what both have, else NaN."""
    here, there = common(one, other)
    if len(here) == 0:
        return float("nan")
    if one.result["task"] == "graph_classify":
        return float((one.named[here] == other.named[there]).mean())
    a, b = (torch.from_numpy(found).long() for found in (one.found[here], other.found[there]))
    return normalized_mutual_information(contingency(a, b))


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


def moved_sections(first: Run, other: Run) -> list[str]:
    """Return what differs between two runs, node by node or graph by graph."""
    here, there = common(first, other)
    title = f"{first.name} and {other.name}"
    if len(here) == 0:
        return [section(title, "<p>They have no node or graph in common.</p>", wide=True)]
    before, after = first.found[here], other.found[there]
    found = match(torch.from_numpy(before), torch.from_numpy(after))
    clusters = first.result["task"] == "node_cluster"
    kind, what = ("nodes", "Clusters") if clusters else ("test graphs", "Predictions")
    rows_used, columns_used = np.flatnonzero(found.counts.sum(1)), np.flatnonzero(found.counts.sum(0))
    order = columns_used[np.argsort(found.counts[:, columns_used].argmax(0), kind="stable")]
    drawing = heat_map(
        found.counts[np.ix_(rows_used, order)], [first.names[i] for i in rows_used], [other.names[j] for j in order],
        f"{title}: {kind}",
    )  # fmt: skip
    sections = [section(f"{what} of {first.name} (rows) and {other.name} (columns)", drawing)]
    if clusters and found.whole.any():
        sections.append(_merged_section(first, other, found))
    moved = found.moved[before, after] if clusters else first.named[here] != other.named[there]
    return [*sections, _moved_section(first, other, here, there, np.flatnonzero(moved))]


def _merged_section(first: Run, other: Run, found: Matching) -> str:
    """Return one line for every cluster that merged with another, or was split off."""
    counts, rows, sizes = found.counts, [], (found.counts.sum(1), found.counts.sum(0))
    for i, j in np.argwhere(found.whole):
        share = [f"{100 * counts[i, j] / size:.0f} %" for size in (sizes[0][i], sizes[1][j])]
        rows.append([first.names[i], other.names[j], f"{counts[i, j]:,}", *share])
    head = (first.name, other.name, "nodes in both", f"share of that of {first.name}", f"share of that of {other.name}")
    note = "Most nodes of one are inside the other, which is matched with a third: its nodes do not count as moved."
    return section(f"Clusters that merged or were split: {first.name} and {other.name}", table(head, rows), note)


def _moved_section(first: Run, other: Run, here: np.ndarray, there: np.ndarray, moved: np.ndarray) -> str:
    """Return the nodes or graphs that differ, those on which both runs are surest first."""
    clusters = first.result["task"] == "node_cluster"
    certain = np.minimum(first.certainty[here], other.certainty[there])
    rows = [
        [first.ids[here[i]], first.names[first.found[here[i]]], other.names[other.found[there[i]]],
         number(float(first.certainty[here[i]])), number(float(other.certainty[there[i]]))]
        for i in moved[np.argsort(-certain[moved], kind="stable")][:SHOWN]
    ]  # fmt: skip
    kind, sure = ("nodes", "confidence") if clusters else ("test graphs", "margin")
    verb = "moved, after matching the clusters one to one" if clusters else "differ"
    note = f"{len(moved):,} of {len(here):,} {kind} ({100 * len(moved) / len(here):.1f} %) {verb}. "
    note += f"The {len(rows)} on which both runs are surest are shown." if len(rows) < len(moved) else ""
    apart = len(first.ids) + len(other.ids) - 2 * len(here)
    note += f" {apart:,} {kind} are only in one of the runs." if apart else ""
    body = table(["id", first.name, other.name, sure, f"{sure} there"], rows) if rows else ""
    what = "Nodes that moved" if clusters else "Test graphs with another prediction"
    return section(f"{what}: {first.name} and {other.name}", f'<div class="values">{body}</div>', note)


def page(runs: list[Run]) -> str:
    first = runs[0].result
    sections, notes = [scores_section(runs), settings_section(runs)], []
    if all(run.names for run in runs):
        sections.append(agreement_section(runs))
        for other in runs[1:]:
            sections += moved_sections(runs[0], other)
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
