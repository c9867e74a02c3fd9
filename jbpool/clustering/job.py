"""The seeds of a node clustering: the result of each, its scores, and what the run folder holds of it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jbpool.clustering.assignments import Assignments
from jbpool.clustering.auto.anchors import Anchors
from jbpool.clustering.auto.number import Choice
from jbpool.clustering.auto.views import FixedFeatures, with_features
from jbpool.clustering.config import ClusterConfig
from jbpool.clustering.explain import Explained, as_json, explain
from jbpool.clustering.hierarchy import as_table, hierarchy
from jbpool.clustering.report import Findings, page
from jbpool.clustering.scores import ClusterSums, best_run, graph_scores, label_scores
from jbpool.console import Bar
from jbpool.data import NodeData
from jbpool.engine.fit import Log
from jbpool.engine.run_folder import RunFolder
from jbpool.files import save_state, write_text
from jbpool.processes import rank


class SeedResult(NamedTuple):
    """The clusters of one seed."""

    cluster: Tensor                         # (N,)
    confidence: Tensor                      # (N,)
    record: dict[str, Any]                  # for the row of the run: loss, seconds and so on
    model: dict[str, Any] | None = None     # for model.pt: the state, and what it takes to rebuild the model
    history: tuple[dict[str, Any], ...] = ()
    advice: str = "try another seed or another method"      # against a collapse
    balance: float | None = None            # the loss, if it is the balance term alone
    notes: tuple[str, ...] = ()             # what a user should know besides


class Job:
    """The seeds of a run, one after another."""

    def __init__(
        self,
        config: ClusterConfig,
        data: NodeData,
        choice: Choice,
        anchors: Anchors,
        out: RunFolder,
        device: torch.device,
        log: Log | None,
    ):
        self.config, self.choice, self.out, self.device, self.log = config, choice, out, device, log
        self.num_clusters = choice.num_clusters
        self.given = data
        self.anchors = anchors
        self.data = data if config.method.name == "auto" else with_features(data, self.num_clusters)
        self.shares = data.graph.shares
        self.assigned = Assignments(out, self.shares, data.own_ids)
        self.clusters, self.confidence = self.assigned.clusters, self.assigned.confidence
        out.write, out.draw = self.save_clusters, self.draw
        self.sums: dict[int, ClusterSums] = {}          # seed -> those of its clusters, of the best one of this process
        self.explained: tuple[int, Explained] | None = None     # a seed, and its clusters as result.json describes them
        self.prepared: tuple[FixedFeatures | None, Tensor] | None = None        # input of all networks

    def finish(self, seed: int, result: SeedResult) -> None:
        """Score the clusters of a seed, print the scores and save the seed."""
        self.clusters[seed], self.confidence[seed] = result.cluster.int(), result.confidence
        sums = self.sums_of(result.cluster)
        scores = self.scores(result.cluster, sums)
        self.out.record({"seed": seed}, {**scores, **result.record, **self.labelled}, result.history)
        used = int(scores["used_clusters"])
        warning = collapse_warning(used, self.num_clusters, result.advice, result.balance)
        for note in result.notes or ([] if warning is None else [warning]):
            self.out.notes.append(f"seed {seed}: {note}")
            if rank() == 0:
                Bar.write(f"seed {seed}: {note}")
        if best_run(self.out.runs)["seed"] == seed:
            if rank() == 0:
                self.save_model(result.model)
            self.sums = {seed: sums}
        self.out.keep()
        parts = [f"{key} {scores[key]:.3f}" for key in ("acc", "nmi", "ari", "modularity") if key in scores]
        saved = result.record.get("score")
        parts.append(f"loss {result.record['loss']:.3f}" if saved is None else f"{saved:.3f} bits saved per node")
        say(f"seed {seed}: {', '.join(parts)}")

    def sums_of(self, cluster: Tensor, num_clusters: int | None = None) -> ClusterSums:
        """Return the sums over clusters ``(n,)``; their number is that of the run, unless given."""
        count = num_clusters or max(self.num_clusters, self.shares.largest(cluster) + 1)    # kept numbers may be larger
        return ClusterSums.of(self.data.graph, cluster, count, self.data.edge_weight)

    def scores(self, cluster: Tensor, sums: ClusterSums | None = None) -> dict[str, float]:
        """Return all scores of clusters ``(n,)``; ``sums``: where they are at hand."""
        labels = {} if self.data.label is None else label_scores(cluster, self.data.label, self.shares)
        return labels | graph_scores(self.sums_of(cluster) if sums is None else sums)

    @property
    def labelled(self) -> dict[str, int]:
        """The number of labelled nodes, if some nodes have no label."""
        known = None if self.data.label is None else self.shares.total(int((self.data.label >= 0).sum()))
        return {} if known in (None, self.shares.num_rows) else {"labelled": known}

    def save_model(self, model: dict[str, Any] | None) -> None:
        """Save the model of the best seed; remove the file if that seed has no model."""
        if model is None:
            (self.out.path / "model.pt").unlink(missing_ok=True)
            return
        names = self.data.feat_names
        model = {
            "in_feats": 0 if self.data.feat is None else self.data.feat.shape[1],
            "num_clusters": self.num_clusters,
            "made_feat": self.given.feat is None,
            "feat_names": None if names is None else list(names),
        } | model
        save_state(self.out.path / "model.pt", model)

    def save_clusters(self) -> None:
        """Write the clusters: of every seed, and a table of the best one, chosen without labels; describe that one."""
        self.assigned.take_rows()
        best = best_run(self.out.runs)["seed"]
        self.assigned.save(best)
        if self.explained is None or best != self.explained[0]:
            cluster = self.clusters[best]
            self.explained = best, explain(self.given, cluster, self.confidence[best], self.sums.get(best))
            self.out.details |= as_json(self.explained[1])
            if samples := self.given.by_sample(self.confidence[best]):
                self.out.details["samples"] = samples

    def save_hierarchy(self, max_size: int) -> None:
        """Write unions of the clusters of the best seed, and parts of those with more than ``max_size`` nodes."""
        assert self.explained is not None
        seed, (_, merges, _) = self.explained
        communities = hierarchy(self.given, self.clusters[seed].long(), merges, max_size, seed)
        table = as_table(communities, self.given.own_ids)
        table["nodes"] = table["nodes"].map(json.dumps)
        write_text(self.out.path / "hierarchy.csv", table.to_csv(index=False))

    def draw(self) -> str:
        """Return the report; empty in other processes than the first."""
        findings = self.findings()
        return page(findings) if rank() == 0 else ""

    def findings(self) -> Findings:
        """Return what the report shows."""
        assert self.explained is not None
        result = self.out.result
        return Findings.of(
            self.given, self.out.method, result, self.clusters, self.confidence, self.explained[1], self.out.notes,
            settings=result, history=self.out.history, choice=self.choice,
            baselines=result.get("baselines"),
        )  # fmt: skip


def collapse_warning(used: int, num_clusters: int, advice: str, balance: float | None = None) -> str | None:
    """Return a warning if clusters are empty, with advice if most of them are; else ``None``.

    ``used``: clusters that are not empty. ``balance``: the loss, if it is the balance term alone.
    """
    if num_clusters > 1 and used == 1:
        return f"collapse: one cluster contains all nodes; {advice}."
    if balance is not None and num_clusters > 1:
        for name, value in (("uniform assignments", -1 / num_clusters), ("one cluster", -(num_clusters**-0.5))):
            if abs(balance - value) < 0.01 * abs(value):
                return f"collapse: the loss {balance:.3f} is that of {name}; {advice}."
    if used <= num_clusters // 2:
        return f"collapse: only {used} of {num_clusters} clusters are used; {advice}, or fewer clusters."
    if used < num_clusters:
        return f"empty clusters: {num_clusters - used} of {num_clusters}."
    return None


def say(text: str) -> None:
    """Print in the first process."""
    if rank() == 0:
        print(text)
