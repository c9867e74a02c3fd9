"""The network of node clustering, message passing and then a pool, and its training: full batch, without labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from jbpool.clustering.auto.views import FixedFeatures
from jbpool.clustering.config import FIXED, ClusterConfig
from jbpool.engine.fit import Problem, weights_diagnosis
from jbpool.graph import Graph
from jbpool.names import lookup
from jbpool.nn.conv import BACKBONES
from jbpool.nn.pools import ClusterPool, make_pool
from jbpool.ops.sparse import is_sparse, stored_values

GAIN = 1e-4         # relative decrease that counts as an improvement: losses hardly ever stop falling


class ClusterNet(nn.Module):
    """Node clustering: ``layers`` message-passing layers, then the assignments and losses of a pool.

    The backbones ``sgc`` and ``whitened`` have no layers to train: ``prepare`` computes ``FixedFeatures`` once, with
    ``layers`` smoothing steps and weights of the columns by ``weighting``, and the pool works on the result: all
    columns, or the view for K = ``num_clusters``. ``make_pool``: size of the input features -> the pool.
    """

    def __init__(
        self,
        in_feats: int,
        make_pool: Callable[[int], ClusterPool],
        *,
        backbone: str = "delta",
        layers: int = 10,
        hidden: int = 64,
        delta: float = 0.85,
        weighting: str = "none",
        num_clusters: int | None = None,
    ):
        super().__init__()
        make_layer = lookup({**BACKBONES, **dict.fromkeys(FIXED)}, backbone, "model.backbone")
        self.features: FixedFeatures | None = None
        self.convs = nn.ModuleList()
        if make_layer is None:
            whitened = num_clusters if backbone == "whitened" else None
            self.features = FixedFeatures(in_feats, layers, delta, weighting, whitened)
            in_feats = self.features.out_feats
        else:
            for _ in range(layers):
                self.convs.append(make_layer(in_feats, hidden, delta))
                in_feats = hidden
        self.takes_sparse = bool(self.convs) and getattr(self.convs[0], "takes_sparse", False)
        self.pool = make_pool(in_feats)

    def prepare(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the input of the forward pass, computed once: ``(N, D)``.

        In training mode fixed features are fitted to the graph; in evaluation mode they are applied as fitted.
        """
        if self.features is not None:
            return (self.features.fit if self.training else self.features)(graph, feat, edge_weight)
        return feat.to_dense() if is_sparse(feat) and not self.takes_sparse else feat

    def forward(
        self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return ``assign`` ``(N, K)`` and the losses; ``feat`` as returned by ``prepare``."""
        for conv in self.convs:
            feat = conv(graph, feat, edge_weight=edge_weight)
        return self.pool.cluster(graph, feat, edge_weight)


def make_model(config: ClusterConfig, in_feats: int, num_clusters: int) -> ClusterNet:
    """Return the network of a configuration."""
    method, model = config.method, config.model

    def pool(width: int) -> ClusterPool:
        return make_pool(method.name, width, num_clusters, model.mlp, options=method, objective=method.objective)

    return ClusterNet(
        in_feats, pool, backbone=model.backbone, layers=model.layers, hidden=model.hidden, delta=model.delta,
        weighting=config.dataset.weighting, num_clusters=num_clusters,
    )  # fmt: skip


class ClusterProblem(Problem):
    """The training of a network on one graph.

    ``feat``: ``(N, D)``, as returned by ``prepare``. ``score``: clusters ``(N,)`` -> scores for the history.
    """

    model: ClusterNet

    def __init__(
        self,
        net: ClusterNet,
        graph: Graph,
        feat: Tensor,
        edge_weight: Tensor | None,
        score: Callable[[Tensor], dict[str, float]],
    ):
        self.model, self.graph, self.feat, self.edge_weight, self.score = net, graph, feat, edge_weight, score
        self.best = float("inf")                            # loss at the last improvement

    def batches(self, epoch: int) -> list[Tensor]:
        return [self.feat]

    def loss(self, batch: Tensor) -> Tensor:
        self.assign, self.losses = self.model(self.graph, batch, self.edge_weight)      # (N, K), name -> (1,)
        return _total(self.losses)

    def value(self, loss: Tensor) -> float:
        self.last = loss.item()                             # the only value that a step reads from the device
        return self.last

    def judge(self, evaluate: bool) -> tuple[bool, dict[str, Any]]:
        improved = self.last < self.best - GAIN * min(abs(self.last), abs(self.best))   # best is infinite at first
        if improved:
            self.best = self.last
        if not evaluate:
            return improved, {}
        parts = {f"{name}_loss": value.item() for name, value in self.losses.items()}
        return improved, {"loss": self.last, **parts, **self.score(self.assign.detach().argmax(1))}

    def finish(self) -> tuple[float, Tensor, Tensor]:
        """Return loss, clusters ``(N,)`` and their confidence ``(N,)`` after the last step."""
        self.model.eval()
        with torch.no_grad():
            assign, losses = self.model(self.graph, self.feat, self.edge_weight)
        return _total(losses).item(), assign.argmax(1), assign.amax(1)

    def diagnosis(self) -> str:
        if not bool(stored_values(self.feat).isfinite().all()):
            return f"({', '.join(self.losses)}); the node features contain NaN or infinity: clean the data"
        named = ", ".join(f"{name}={value.item():g}" for name, value in self.losses.items())
        return f"({named}); {weights_diagnosis(self.model)}"

    def state(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best = state["best"]


def _total(losses: dict[str, Tensor]) -> Tensor:
    return torch.cat(list(losses.values())).sum()
