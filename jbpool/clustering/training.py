"""Training of pools: all starts of a seed on the whole graph; the one with the lowest loss is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from dgl import DGLGraph
from torch import Tensor
from tqdm import tqdm

from jbpool.clustering.auto.bounded_heads import Heads, candidate_rows, rows_together
from jbpool.clustering.auto.views import FixedFeatures
from jbpool.clustering.config import ClusterConfig, num_starts, trains_heads
from jbpool.clustering.methods import SeedResult
from jbpool.clustering.network import ClusterNet
from jbpool.clustering.problem import ClusterProblem, HeadsProblem, StartsProblem
from jbpool.data import NodeData
from jbpool.engine.fit import TRAINING, Progress, fit
from jbpool.engine.forecast import Forecast, count
from jbpool.engine.run_folder import RunFolder
from jbpool.engine.shares import RowShares
from jbpool.nn.cluster_pool import ClusterPool
from jbpool.nn.heads import CosineHead
from jbpool.nn.pools import POOLS, make_pool

# What checkpoint.pt holds, for load_state.
BEST = {
    "cluster": Tensor, "confidence": Tensor, "loss": float, "epochs": int, "restart": int, "seconds": float,
    "seconds_per_step": float, "history": [dict], "state": dict[str, Tensor],
}  # fmt: skip
UNFINISHED = {
    "seed": int,
    "first": int,
    "best": (type(None), BEST),
    "training": {**TRAINING, "problem": {"best": [float]}},
}


def make_model(config: ClusterConfig, in_feats: int, num_clusters: int) -> ClusterNet:
    """The network of a configuration."""
    method, model = config.method, config.model

    def pool(width: int) -> ClusterPool:
        return make_pool(method.name, width, num_clusters, model.mlp, options=method, objective=method.objective)

    return ClusterNet(
        in_feats, pool, backbone=model.backbone, layers=model.layers, hidden=model.hidden, delta=model.delta,
        weighting=config.dataset.weighting, num_clusters=num_clusters,
    )  # fmt: skip


def _head(net: ClusterNet) -> CosineHead:
    return cast(CosineHead, net.pool.mlp[-1])


class Training:
    """The training runs of all seeds.

    Parameters
    ----------
    config : ClusterConfig
        What to train.
    data : NodeData
        With features.
    num_clusters : int
        K.
    out : RunFolder
        Where checkpoints go.
    device : torch.device
        Where to train.
    score : callable
        Clusters ``(N,)`` -> numbers for the history.
    """

    def __init__(
        self,
        config: ClusterConfig,
        data: NodeData,
        num_clusters: int,
        out: RunFolder,
        device: torch.device,
        score: Callable[[Tensor], dict[str, float]],
    ):
        self.config, self.data, self.num_clusters, self.out, self.device = config, data, num_clusters, out, device
        self.score = score
        self.shares = RowShares.alone(data.graph.num_nodes())
        if trains_heads(config):
            together = rows_together(num_starts(config), num_clusters)
            self.shares = RowShares.of_this_run(data.graph.num_nodes(), together)
        self.fitted: tuple[FixedFeatures, Tensor] | None = None     # features that no seed changes, and their rows
        self.unfinished: dict[str, Any] = {}            # the checkpoint to continue from
        self.curve: list[dict[str, Any]] = []           # of the seed that is being trained
        self.forecast: Forecast | None = None

    def train(self, seed: int) -> SeedResult:
        """All restarts of a seed; the one with the lowest loss counts, labels are not used."""
        best: dict[str, Any] | None = None
        restarts, first = num_starts(self.config), 0
        together = self._starts_at_once()
        if self.unfinished.get("seed") == seed:
            first, best = self.unfinished["first"], self.unfinished["best"]
        for start in range(first, restarts, together):
            result = self._train_together(seed, range(start, min(start + together, restarts)), best)
            if best is not None:
                result["seconds"] += best["seconds"]
            best = result if best is None or result["loss"] < best["loss"] else best | {"seconds": result["seconds"]}
        assert best is not None
        record = {key: best[key] for key in ("loss", "epochs", "restart", "seconds", "seconds_per_step")}
        method = self.config.method
        terms = tuple(method.objective or POOLS[method.name].pool.terms)
        only_balance = terms == ("balance",) and method.cluster_sizes is None and method.head == "linear"
        return SeedResult(
            cluster=best["cluster"],
            confidence=best["confidence"],
            record=record,
            model={"state": best["state"]},
            history=tuple(best["history"]),
            trained=True,
            balance=best["loss"] if only_balance else None,
        )

    def forecast_for(self, seeds: Sequence[int]) -> None:
        """Prepare to estimate how long the training runs of these seeds will take."""
        restarts, together = num_starts(self.config), self._starts_at_once()
        per_seed = -(-restarts // together)
        done = self.unfinished.get("first", 0) // together
        what = f"{count(len(seeds), 'seed')} x {count(restarts, 'start')}"
        shorter = "shorter: fewer train.epochs, train.restarts or --seeds, or train.patience to stop early"
        self.forecast = Forecast(len(seeds) * per_seed - done, what, shorter)

    def _starts_at_once(self) -> int:
        return num_starts(self.config) if trains_heads(self.config) else 1

    def _prepared(self, net: ClusterNet, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None) -> Tensor:
        """The input of a network ``(n, D)``."""
        if net.features is None:
            return net.prepare(graph, feat, edge_weight)
        rows = self._fixed_rows()
        assert self.fitted is not None
        net.features = self.fitted[0]
        return rows

    def _fixed_rows(self) -> Tensor:
        """The fixed features of the nodes ``(n, D)``, computed once for all seeds."""
        if self.fitted is None:
            graph, feat, weight = self.data.on(self.device)
            assert feat is not None
            net = make_model(self.config, feat.shape[1], self.num_clusters).to(self.device)
            features = cast(FixedFeatures, net.features)
            self.fitted = features, features.fit(graph, feat, weight, shares=self.shares)
        return self.fitted[1]

    def _problem(
        self, nets: list[ClusterNet], graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None
    ) -> StartsProblem:
        if not trains_heads(self.config):
            return ClusterProblem(nets[0], graph, feat, edge_weight, self._score)
        prototypes = torch.stack([_head(net).weight.detach() for net in nets])              # (R, K, D)
        return HeadsProblem(Heads(prototypes, self.config.method.temperature, self.shares), feat, self._score)

    def _score(self, cluster: Tensor) -> dict[str, float]:
        """Of all clusters, in the process that writes the history."""
        return self.score(cluster.cpu()) if self.shares.place == 0 else {"used_clusters": 0}

    def _train_together(self, seed: int, starts: range, best: dict[str, Any] | None) -> dict[str, Any]:
        """A network, or the heads of all starts of a seed; the result of the one with the lowest loss."""
        device = self.device
        graph, feat, weight = self.data.on(device)
        assert feat is not None
        nets: list[ClusterNet] = []
        for start in starts:
            torch.manual_seed(seed + 1_000_003 * start)
            net = make_model(self.config, feat.shape[1], self.num_clusters).to(device)
            prepared = self._prepared(net, graph, feat, weight)
            if self.config.method.head == "cosine" and not net.convs:           # fixed features: start at nodes
                net.pool.init_prototypes(candidate_rows(prepared, self.shares, seed))
            nets.append(net)
        resume = None
        if (self.unfinished.get("seed"), self.unfinished.get("first")) == (seed, starts[0]):
            resume, self.unfinished = self.unfinished["training"], {}

        name = f"seed {seed}"
        if num_starts(self.config) > 1:
            one = len(starts) == 1
            name += f" start {starts[0] + 1} of {num_starts(self.config)}" if one else f" {len(starts)} starts"
        hidden = self.shares.place > 0
        with tqdm(
            total=self.config.train.epochs, desc=name, leave=False, mininterval=0.5, unit=" epochs", disable=hidden
        ) as bar:

            def curve(progress: Progress) -> list[dict[str, Any]]:
                return [{"seed": seed, **row, "restart": starts[row["restart"]]} for row in progress.history]

            def report(progress: Progress, row: dict[str, Any]) -> None:
                self.curve = curve(progress)
                shown = {key: f"{row[key]:.3f}" for key in ("loss", "nmi") if key in row}
                bar.set_postfix(
                    **shown, used=row["used_clusters"], s_per_step=f"{progress.seconds_per_step:.4f}", refresh=False
                )

            def checkpoint(training: dict[str, Any]) -> None:
                self.out.checkpoint(seed=seed, first=starts[0], best=best, training=training)

            problem = self._problem(nets, graph, prepared, weight)
            progress = fit(
                problem, self.config.train, each_epoch=lambda progress: bar.update(progress.epoch - bar.n),
                report=report, resume=resume, resume_path=self.out.path / "checkpoint.pt", forecast=self.forecast,
                checkpoint=checkpoint if self.shares.place == 0 else None,
            )  # fmt: skip
            found = problem.finish()
        lowest = int(found.losses.argmin())
        if isinstance(problem, HeadsProblem):
            _head(nets[lowest]).weight.data.copy_(problem.prototypes[lowest])
        return {
            "cluster": found.cluster.cpu(),
            "confidence": found.confidence.cpu(),
            "loss": found.losses[lowest].item(),
            "epochs": progress.epoch,
            "restart": starts[lowest],
            "seconds": progress.seconds,
            "seconds_per_step": progress.seconds_per_step,
            "history": curve(progress),
            "state": {key: value.cpu() for key, value in nets[lowest].state_dict().items()},
        }
