"""The seeds of a run of node clustering, one after another."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from jbpool.clustering.auto.views import with_features
from jbpool.clustering.config import ClusterConfig, num_starts
from jbpool.clustering.embed import EMBEDDINGS
from jbpool.clustering.methods import SeedResult, embed, search
from jbpool.clustering.problem import collapse_warning
from jbpool.clustering.scores import best_run, graph_scores, label_scores
from jbpool.clustering.training import UNFINISHED, Training
from jbpool.data import NodeData
from jbpool.engine.processes import gather, rank
from jbpool.engine.run_folder import RunFolder, write_assign_csv
from jbpool.engine.state import save_state

# What finished.pt holds of this task, for load_state.
FINISHED = {
    "runs": [{"seed": int, "loss": float}],
    "clusters": dict[int, Tensor],
    "confidence": dict[int, Tensor],
}


class Job:
    """The seeds of a run, one after another."""

    def __init__(
        self,
        config: ClusterConfig,
        data: NodeData,
        num_clusters: int,
        out: RunFolder,
        device: torch.device,
        merged: tuple[str, Tensor] | None = None,
    ):
        self.config, self.num_clusters, self.out, self.device, self.merged = config, num_clusters, out, device, merged
        self.made_feat = data.feat is None
        self.data = data if config.method.name == "auto" else with_features(data, num_clusters)
        self.clusters: dict[int, Tensor] = {}
        self.confidence: dict[int, Tensor] = {}
        self.training = Training(config, self.data, num_clusters, out, device, self.scores)

    def load(self) -> None:
        """Restore finished and interrupted work, read by the first process, since its machine has the folder."""
        if rank() == 0:
            state = self.out.finished(FINISHED)
            if state:
                self.clusters, self.confidence = state["clusters"], state["confidence"]
            self.training.unfinished = self.out.unfinished(UNFINISHED)
        finished, self.training.unfinished = gather((list(self.clusters), self.training.unfinished))[0]
        if rank() > 0:
            self.clusters = dict.fromkeys(finished, torch.empty(0))

    def save_clusters(self) -> None:
        """Write the clusters: of every seed, and a table of the best one, chosen without labels."""
        ids = self.data.own_ids
        self.out.save_assign(ids, list(self.clusters), list(self.clusters.values()), list(self.confidence.values()))
        best = best_run(self.out.runs)["seed"]
        write_assign_csv(self.out.path / "assign.csv", ids, self.clusters[best], self.confidence[best])

    def keep(self) -> None:
        """Save everything about the finished seeds; the record that they are finished is written last."""
        if rank() > 0:
            return
        self.save_clusters()
        self.out.keep(clusters=self.clusters, confidence=self.confidence)

    def leave(self) -> None:
        """After an interruption, write the results so far in readable form; --resume does not need them."""
        if rank() > 0:
            return
        if self.out.runs:
            self.save_clusters()
        self.out.history += self.training.curve
        self.out.save()

    def run(self) -> None:
        left = [seed for seed in self.config.train.seeds if seed not in self.clusters]
        self.training.forecast_for(left)
        for seed in left:
            self.finish(seed, self.find(seed))

    def find(self, seed: int) -> SeedResult:
        """The clusters of a seed by the method of the configuration."""
        name, self.training.curve = self.config.method.name, []
        if name == "auto":
            return search(self.data, self.num_clusters, seed, num_starts(self.config), self.device, self.merged)
        if name in EMBEDDINGS:
            return embed(name, self.data, self.num_clusters, seed)
        return self.training.train(seed)

    def finish(self, seed: int, result: SeedResult) -> None:
        """Score the clusters of a seed, print the scores and save the seed."""
        self.clusters[seed], self.confidence[seed] = result.cluster.int(), result.confidence
        if rank() > 0:
            return
        scores = self.scores(result.cluster)
        self.out.runs.append({"seed": seed, **scores, **result.record, **self.labelled})
        self.out.history += result.history
        self.training.curve = []
        used = int(scores["used_clusters"])
        warning = collapse_warning(used, self.num_clusters, trained=result.trained, balance=result.balance)
        for note in (warning, *result.notes):
            if note is not None:
                self.out.notes.append(f"seed {seed}: {note}")
                tqdm.write(f"seed {seed}: {note}")
        if best_run(self.out.runs)["seed"] == seed:
            self.save_model(result.model)
        self.keep()
        shown = scores | {"loss": result.record["loss"]}
        keys = [key for key in ("acc", "nmi", "ari", "modularity", "loss") if key in shown]
        print(f"seed {seed}: " + ", ".join(f"{key} {shown[key]:.3f}" for key in keys))

    def save_model(self, model: dict[str, Any] | None) -> None:
        """Save the model of the best seed; remove the file if that seed has no model."""
        if model is None:
            (self.out.path / "model.pt").unlink(missing_ok=True)
        else:
            in_feats = 0 if self.data.feat is None else self.data.feat.shape[1]
            plain = {"in_feats": in_feats, "num_clusters": self.num_clusters, "made_feat": self.made_feat}
            names = None if self.data.feat_names is None else list(self.data.feat_names)
            save_state(self.out.path / "model.pt", {**model, **plain, "feat_names": names})

    @property
    def labelled(self) -> dict[str, int]:
        """The number of labelled nodes, if some nodes have no label."""
        count = None if self.data.label is None else int((self.data.label >= 0).sum())
        return {} if count in (None, self.data.graph.num_nodes()) else {"labelled": count}

    def scores(self, cluster: Tensor) -> dict[str, float]:
        labels = {} if self.data.label is None else label_scores(cluster, self.data.label)
        return labels | graph_scores(self.data.graph, cluster, self.num_clusters, self.data.edge_weight)
