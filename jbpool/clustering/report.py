"""``report.html``: one self-contained page about the clusters of a graph, drawn from memory.

A new chart is a function in ``jbpool.report.charts`` and a line in ``SECTIONS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jbpool.clustering.auto.number import Choice, as_text, ranked
from jbpool.clustering.explain import Explained, Trait
from jbpool.clustering.picture import SCRIPTS, GraphView, graph_section, view_graph
from jbpool.clustering.scores import (
    GRAPH_SCORES,
    LABEL_SCORES,
    best_run,
    confusion,
    normalized_mutual_information,
    quality,
)
from jbpool.data import NodeData
from jbpool.ops.adjacency import normalized_off_diagonal
from jbpool.ops.segment import contingency
from jbpool.report import charts
from jbpool.report.charts import heat_map, shortened, value_map
from jbpool.report.graph_charts import circle_graph, tree
from jbpool.report.page import class_names, number, render_page, score, section, settings, spread, table
from jbpool.report.published import CLUSTERING


@dataclass(frozen=True)
class Findings:
    """What the sections of a page are made from. Pictures show one seed."""

    data: NodeData                      # for names; nothing of its nodes
    summary: str                        # of the data
    method: str
    scores: dict[str, Any]              # "runs": a record per seed; their "mean" and "std"
    explained: Explained                # the clusters of the best run
    notes: Sequence[str]
    settings: dict[str, Any]            # "config" and "versions"
    view: GraphView | None              # None in other processes than the first
    counts: np.ndarray | None           # (C, K) nodes of the classes in these clusters
    unknown: int                        # nodes in none
    samples: dict[str, float]           # mean confidence in each sample of the data
    seeds: dict[int, Tensor]            # seed -> its clusters, of a sample of the nodes if there are many
    history: Sequence[dict[str, Any]] = ()
    choice: Choice | None = None        # of the number of clusters
    baselines: dict[str, dict[str, float]] | None = None    # other method -> its scores

    @classmethod
    def of(
        cls,
        data: NodeData,
        method: str,
        scores: dict[str, Any],
        clusters: dict[int, Tensor],
        confidence: dict[int, Tensor],
        explained: Explained,
        notes: Sequence[str],
        settings: dict[str, Any],
        **more: Any,
    ) -> Findings:
        """Return what is shown of clusters and confidence, seed -> ``(n,)``; all processes call this together."""
        shares, seed = data.graph.shares, best_run(scores["runs"])["seed"]
        names, cluster = torch.tensor([summary.cluster for summary in explained.clusters]), clusters[seed].long()
        place = torch.searchsorted(names, cluster).where(cluster >= 0, -1)              # (n,) none is empty
        counts = None if data.label is None else confusion(place, data.label, shares).numpy()
        unknown, shown = shares.total(int((place < 0).sum())), names.tolist()
        some = torch.from_numpy(charts.evenly(shares.num_rows, COMPARED_NODES))
        seeds = {seed: shares.chosen(cluster.long(), some) for seed, cluster in clusters.items()}
        grouped = place.where(place >= 0, len(names)) if unknown else place             # after the clusters
        view = view_graph(data, grouped, [*shown, -1] if unknown else shown, confidence[seed], seed)
        samples, summary = data.by_sample(confidence[seed]), data.summary
        return cls(
            data, summary, method, scores, explained, notes, settings, view, counts, unknown, samples, seeds, **more
        )

    @property
    def runs(self) -> list[dict[str, Any]]:
        return self.scores["runs"]

    @cached_property
    def run(self) -> dict[str, Any]:
        """The best run without labels."""
        return best_run(self.runs)

    @cached_property
    def names(self) -> list[int]:
        """The numbers of the clusters in ``assign.csv``."""
        return [summary.cluster for summary in self.explained.clusters]

    @cached_property
    def sizes(self) -> list[int]:
        return [summary.size for summary in self.explained.clusters]


SAVED = "bits saved per node"
SAVED_NOTE = (
    "Bits saved per node: how much shorter edges and features are described with the clusters than without; more is "
    "better, for the same number of clusters."
)


def number_section(choice: Choice | None) -> str:
    """Return what the number of clusters was chosen by; empty where nothing is known of it."""
    if choice is None or (choice.reproducibility is None and not choice.levels):
        return ""
    levels = [str(row.n_clusters) for row in choice.levels if row.level]
    note = ""
    if choice.reproducibility is not None:
        note = f"Agreement of two random halves of your data: {as_text(choice.reproducibility)}."
    if not choice.levels:
        return section("Number of clusters", f"<p>{choice.num_clusters}, as given. {note}</p>")
    note += f" Levels: {', '.join(levels)}." if levels else ""
    if choice.by == "previous":
        note += " The number of the previous clusters is kept, since no other one is clearly better."
    elif choice.by == "reproducibility":
        note += " The smallest number is chosen whose agreement is the highest, within its standard error."
    elif choice.num_clusters == 1:
        note += " No number of clusters describes the edges more briefly than one: the graph may have no clusters."
    else:
        best = ranked(choice.savings or {choice.num_clusters: 0.0})
        others = ", ".join(map(str, best[1:4])) or "none"
        note += f" {best[0]} clusters describe the edges most briefly; next: {others}."
    if choice.savings:
        note += " Bits saved: by the edges alone, less what it takes to describe the clusters; they compare numbers."
    drawing = charts.numbers_of_clusters([row._asdict() for row in choice.levels], choice.num_clusters)
    return section("Number of clusters", drawing, note.strip())


def _views(findings: Findings) -> str:
    """Return the best partition of every view that ``auto`` tried, the view of the result first."""
    run = findings.run
    views: dict[str, list[dict[str, Any]]] = {}
    if not run.get("trials"):
        return ""
    for trial in run["trials"]:
        views.setdefault(trial["view"], []).append(trial)
    rows = []
    for name, trials in sorted(views.items(), key=lambda item: item[0] != run["view"]):
        best = max(trials, key=lambda trial: trial["saved"])
        values = (best["saved"], best["loss"], best["moved"], best["agreement"])
        rows.append([name, str(len(trials)), *map(number, values), "yes" if name == run["view"] else ""])
    head = ("view", "starts", SAVED, "loss", "nodes moved", "agreement", "result")
    note = (
        f"Of each view, the partition that saves most bits. {SAVED_NOTE} Loss: balance of the bounded head, -1 for "
        "clear clusters of equal size. Nodes moved: how many changed their cluster afterwards, for the one that "
        "explains their edges and features best. Agreement: share of the nodes with the same cluster as in the result. "
        "No label was used."
    )
    return section("What was tried", table(head, rows), note, wide=True)


COMPARED_NODES = 50_000         # at most: agreement of more is estimated from a sample
COMPARED_SEEDS = 40


def _seeds(findings: Findings) -> str:
    """Return the agreement of the seeds; empty if there is only one."""
    run, clusters = findings.run, findings.seeds
    if len(clusters) < 2:
        return ""
    order = sorted(findings.runs, key=lambda record: -quality(record))[:COMPARED_SEEDS]     # the best first
    seeds = [record["seed"] for record in order]
    agreement = seed_agreement([clusters[seed] for seed in seeds])
    names = [f"seed {seed}" for seed in seeds]
    drawing = value_map(agreement, names, [str(seed) for seed in seeds], "agreement of the seeds, NMI")
    pairs = agreement[~np.eye(len(seeds), dtype=bool)]
    by_score = "score" in run
    why = "it saves most bits per node in describing edges and features" if by_score else "it has the lowest loss"
    note = (
        f"NMI of the clusters of every two seeds, the best seed first; on average {pairs.mean():.2f}, at least "
        f"{pairs.min():.2f}. Seed {run['seed']} was chosen because {why} "
        f"({run['score'] if by_score else run['loss']:.4f}); no label was used."
    )
    if len(seeds) < len(clusters):
        note += f" The best {len(seeds)} of {len(clusters)} seeds are shown."
    return section("Agreement of the seeds", drawing, note)


def seed_agreement(clusters: list[Tensor]) -> np.ndarray:
    """Return the NMI of every two clusterings ``(m,)`` of the same nodes."""
    agreement = np.eye(len(clusters))
    for i, first in enumerate(clusters):
        for j, second in enumerate(clusters[:i]):
            agreement[i, j] = agreement[j, i] = normalized_mutual_information(contingency(first, second))
    return agreement


HEADLINE = ("acc", "nmi", "ari", "modularity", "used_clusters")
SCORES = (*LABEL_SCORES, *GRAPH_SCORES, "score", "loss", "seconds_per_step")      # "score" is that of auto


def score_name(key: str) -> str:
    """Turn ``nmi`` into ``NMI``, ``used_clusters`` into ``used clusters``, ``score`` into ``bits saved per node``."""
    if key == "score":
        return SAVED
    return key.upper() if key in ("acc", "nmi", "ari") else key.replace("_", " ")


def page(findings: Findings) -> str:
    """Return the page as text."""
    run, mean = findings.run, findings.scores["mean"]
    size = findings.summary.partition(": ")[2]
    lead = f"{size}; runs: {len(findings.runs)}; pictures show seed {run['seed']}, chosen without labels."
    if "labelled" in run:
        lead += f" Labels are known for {run['labelled']:,} nodes; scores against labels use only these."
    if findings.unknown:
        lead += f" {findings.unknown:,} nodes without edges and features are in no cluster (-1)."
    if findings.samples:
        parts = ", ".join(f"{name} {value:.2f}" for name, value in findings.samples.items())
        lead += f" Confidence by sample: {parts}."
    means = {key: mean[key] for key in HEADLINE if key in mean}
    headline = {score_name(key): f"{mean:{'.3g' if key == 'used_clusters' else '.3f'}}" for key, mean in means.items()}
    title = f"{findings.data.name} clustered by {findings.method}"
    return render_page(title, lead, headline, findings.notes, [make(findings) for make in SECTIONS], SCRIPTS)


def _scores(findings: Findings) -> str:
    paper = CLUSTERING.get(findings.method, {}).get(findings.data.name)
    keys = [key for key in SCORES if key in findings.scores["mean"]]
    rows = [[score_name(key), score(findings.scores, key)] for key in keys]
    head = ["", "here"]
    if paper is not None:
        head.append("paper")
        published = {"acc": paper[0:2], "nmi": paper[2:4]}
        rows = [[*row, spread(*published.get(key, (None, None)))] for key, row in zip(keys, rows, strict=True)]
    note = SAVED_NOTE if "score" in keys else ""
    return section("Scores, mean and deviation over seeds", table(head, rows), note)


def _curves(findings: Findings) -> str:
    rows = [row for row in findings.history if row["seed"] == findings.run["seed"]]
    if not rows:
        return ""
    if len(rows) == 1:
        return section("Training", "<p>A curve needs two evaluations: lower train.eval_every.</p>")
    epochs = [row["epoch"] for row in rows]
    names = [name for name in rows[0] if name.endswith("_loss") or name == "nmi"]
    series = {score_name(name): (epochs, [row.get(name, math.nan) for row in rows]) for name in names}
    title = "Losses and NMI while training" if "nmi" in names else "Losses while training"
    return section(title, charts.lines(series, "epoch", "losses and NMI"))


def _sizes(findings: Findings) -> str:
    sizes = {"clusters": dict(zip((f"cluster {name}" for name in findings.names), findings.sizes, strict=True))}
    if findings.view is not None and findings.view.class_sizes:
        count = findings.view.class_sizes
        sizes["classes"] = dict(zip(class_names(findings.data.class_names, len(count)), count, strict=True))
    ordered = {kind: sorted(some.items(), key=lambda item: -item[1]) for kind, some in sizes.items()}
    groups = {kind: [size for _, size in some] for kind, some in ordered.items()}
    names = {kind: [name for name, _ in some] for kind, some in ordered.items()}
    return section("Cluster sizes", charts.bars(groups, "cluster sizes against class sizes", names))


def _confusion(findings: Findings) -> str:
    counts = findings.counts
    if counts is None:
        return ""
    share = counts / np.maximum(counts.sum(0), 1)
    main = share.argmax(0)                                                                  # (K,) the largest class
    order = np.lexsort((-share.max(0), main))
    classes = class_names(findings.data.class_names, counts.shape[0])
    groups = [(classes[i], int(count)) for i, count in enumerate(np.bincount(main)) if count]
    columns = [str(findings.names[i]) for i in order]
    drawing = heat_map(counts[:, order], classes, columns, "classes in clusters", groups)
    of = "cluster" if drawing.wide else "class"
    note = f"Shaded by the share of the {of}; clusters are sorted by their largest class."
    return section("Classes (rows) in clusters (columns)", drawing, note)


LISTED, LISTED_FEATURES = 3, 5          # nodes of a kind, and features, in the table; result.json has more


def _clusters(findings: Findings) -> str:
    return section("What the clusters are", *cluster_table(findings.explained), wide=True)


def cluster_table(explained: Explained) -> tuple[str, str]:
    """Return what the clusters are, the largest first, as a table, and how to read it."""
    clusters = sorted(explained.clusters, key=lambda cluster: -cluster.size)
    with_features = any(cluster.features for cluster in clusters)
    # What most readers look for comes first: a phone shows three columns, and the others after a swipe.
    head = ["cluster", "nodes", *(["set apart by"] if with_features else [])]
    head += ["central nodes", "typical nodes", "least certain nodes", "closest clusters", "edges inside", "confidence"]
    rows = []
    for cluster in clusters:
        sides = f" ({cluster.sides[0]:,} + {cluster.sides[1]:,})" if cluster.sides else ""
        row = [str(cluster.cluster), f"{cluster.size:,}{sides}"]
        row += ["\n".join(map(_trait, cluster.features[:LISTED_FEATURES]))] if with_features else []
        kinds = (cluster.central, cluster.typical, cluster.uncertain)
        row += ["\n".join(shortened(str(node)) for node in kind[:LISTED]) for kind in kinds]
        row.append("\n".join(f"{closest.cluster} ({closest.ratio:.1f}x)" for closest in cluster.closest))
        rows.append([*row, _percent(cluster.inside), number(cluster.confidence)])
    note = (
        "Edges inside: share of the weight of the cluster's edges that does not leave it. Central: most edge weight "
        "inside. Closest: clusters that get more of the edges that leave this one than all their edges lead to expect, "
        "1x being as expected. "
    )
    if any(trait.lift is not None for cluster in clusters for trait in cluster.features):
        note += (
            "Set apart by: share of the cluster's nodes with the feature, and how many times that of all nodes. "
            "Typical: most of these features, among the more confident half."
        )
    elif with_features:
        note += (
            "Set apart by: mean of the cluster minus mean of all nodes, in standard deviations (sd). Typical: closest "
            "to the mean of the cluster, among the more confident half."
        )
    else:
        note += "Typical: the highest confidence."
    return table(head, rows, "lists"), note


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _trait(trait: Trait) -> str:
    name = f"feature {trait.feature}" if isinstance(trait.feature, int) else shortened(trait.feature)
    if trait.difference is not None:
        return f"{name} {trait.difference:+.1f} sd"
    return f"{name} {_percent(trait.frequency)} ({trait.lift:.3g}x)"


def _tree(findings: Findings) -> str:
    merges = findings.explained.merges
    if merges is None or len(findings.names) < 2:
        return ""
    names = [f"cluster {name}" for name in findings.names]
    drawing = tree(merges.children, merges.cost.tolist(), names, "which clusters merge first", "bits per node")
    note = (
        "From left to right, the two clusters whose union costs least become one. The cost, also under the "
        "pointer, is in bits per node that the union adds to the description of the edges; below 0, the edges do not "
        "support the two as separate clusters."
    )
    return section("Which clusters merge first", drawing, note)


def _cluster_graph(findings: Findings) -> str:
    if findings.explained.between is None:
        return ""
    weight = normalized_off_diagonal(findings.explained.between[None].float())[0].numpy()
    drawing = circle_graph(weight, np.array(findings.sizes), "the graph of clusters", findings.names)
    note = "Discs: sizes of the clusters. Lines: normalised weight of the edges between two clusters."
    return section("The coarsened graph", drawing, note)


def _graph(findings: Findings) -> str:
    return "" if findings.view is None else graph_section(findings.view)


def _baselines(findings: Findings) -> str:
    if not findings.baselines:
        return ""
    given = {**findings.run, "agreement": 1.0}
    keys = [key for key in ("used_clusters", *LABEL_SCORES, "modularity", "agreement", "seconds") if key in given]
    compared = {f"{findings.method}, the result": given, **findings.baselines}
    rows = [[name, *(number(scores.get(key)) for key in keys)] for name, scores in compared.items()]
    note = (
        "Agreement: NMI of the clusters with those of the result. k-means: of the features smoothed over the edges, "
        "the best of ten starts. Spectral: k-means of the leading eigenvectors of the random walk. Leiden chooses the "
        "number of clusters itself, for the highest modularity. Seconds are those of one seed."
    )
    return section("Beside other methods", table([score_name(key) for key in ("", *keys)], rows), note, wide=True)


def _runs(findings: Findings) -> str:
    keys = [key for key in ("seed", *SCORES, "restart") if findings.runs[0].get(key) is not None]
    rows = [[number(run.get(key)) for key in keys] for run in findings.runs]
    note = SAVED_NOTE if "score" in keys else ""
    return section("Runs", table([score_name(key) for key in keys], rows), note, wide=True)


# In the order of the page: Findings -> a section as HTML, or "" if it does not apply.
SECTIONS: list[Callable[[Findings], str]] = [
    _graph,
    _clusters,
    _scores,
    _baselines,
    _curves,
    _sizes,
    _confusion,
    _cluster_graph,
    _tree,
    _seeds,
    lambda findings: number_section(findings.choice),
    _views,
    _runs,
    lambda findings: settings(findings.settings),
]
