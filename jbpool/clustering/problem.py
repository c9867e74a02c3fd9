"""Training of node clustering: all starts of a seed at once, full batch, without labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from jbpool.clustering.starts import Starts
from jbpool.engine.fit import Problem, weights_diagnosis

GAIN = 1e-4         # relative decrease that counts as an improvement: losses hardly ever stop falling


class ClusterProblem(Problem):
    """Several starts on one graph.

    Parameters
    ----------
    model : Starts
        R networks.
    feat : Tensor
        ``(N, D)``, as returned by ``prepare``.
    score : callable
        Assignments ``(N, K)`` of the start with the lowest loss -> scores for the history.
    """

    model: Starts

    def __init__(self, model: Starts, feat: Tensor, score: Callable[[Tensor], dict[str, float]]):
        self.model, self.feat, self.score = model, feat, score
        self.best = [float("inf")] * len(model.nets)        # loss of each start at its last improvement

    def batches(self, epoch: int) -> list[Tensor]:
        return [self.feat]

    def loss(self, batch: Tensor) -> Tensor:
        self.assign, self.losses = self.model(batch)        # (R, N, K), name -> (R,)
        return _total(self.losses).sum()

    def judge(self, evaluate: bool) -> tuple[bool, dict[str, Any]]:
        values = _total(self.losses).tolist()
        before = self.best
        self.best = [value if _falls(value, best) else best for value, best in zip(values, before, strict=True)]
        improved = self.best != before
        if not evaluate:
            return improved, {}
        lowest = values.index(min(values))
        row = {"restart": lowest, "loss": values[lowest]}
        row |= {f"{name}_loss": value[lowest].item() for name, value in self.losses.items()}
        return improved, row | self.score(self.assign[lowest].detach())

    def finish(self) -> tuple[Tensor, Tensor]:
        """The assignments ``(R, N, K)`` and losses ``(R,)`` of the trained model."""
        self.model.eval()
        with torch.no_grad():
            assign, losses = self.model(self.feat)
        return assign, _total(losses)

    def diagnosis(self) -> str:
        named = ", ".join(f"{name}={value.sum().item():g}" for name, value in self.losses.items())
        values = self.feat.values() if self.feat.layout == torch.sparse_csr else self.feat
        cause = "the node features contain NaN or infinity: clean the data"
        return f"({named}); {weights_diagnosis(self.model) if bool(values.isfinite().all()) else cause}"

    def state(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best = state["best"]


def _falls(value: float, best: float) -> bool:
    return value < best - GAIN * min(abs(value), abs(best))             # best is infinite at first


def _total(losses: dict[str, Tensor]) -> Tensor:
    """Sum of the losses of each start: ``(R,)``."""
    return torch.stack(list(losses.values())).sum(0)


def collapse_warning(
    used_clusters: int, num_clusters: int, *, trained: bool = True, balance: float | None = None
) -> str | None:
    """A warning if clusters are empty, with advice if most of them are; else ``None``.

    Parameters
    ----------
    used_clusters : int
        Number of clusters that are not empty.
    num_clusters : int
        Number of clusters K.
    trained : bool, default True
        Whether the clusters were trained over epochs.
    balance : float, optional
        The loss, if it is the balance term alone.
    """
    cure = "train longer (train.epochs), or try another seed, train.restarts: 5, a lower train.lr, model.backbone: sgc"
    cure = cure if trained else "try another seed or another method"
    if num_clusters > 1 and used_clusters == 1:
        return f"collapse: one cluster contains all nodes; {cure}."
    if balance is not None and num_clusters > 1:
        for name, value in (("uniform assignments", -1 / num_clusters), ("one cluster", -(num_clusters**-0.5))):
            if abs(balance - value) < 0.01 * abs(value):
                return f"collapse: the loss {balance:.3f} is that of {name}; {cure}."
    if used_clusters <= num_clusters // 2:
        return f"collapse: only {used_clusters} of {num_clusters} clusters are used; {cure}, or fewer clusters."
    if used_clusters < num_clusters:
        return f"empty clusters: {num_clusters - used_clusters} of {num_clusters}."
    return None
