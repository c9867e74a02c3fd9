"""Node clustering as something to train: every start of a seed at once, full batch, no label looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from jbpool.clustering.starts import Starts
from jbpool.engine.fit import Problem, weights_diagnosis

GAIN = 1e-4         # a loss has to fall by this share of itself to count as lower: losses hardly ever stop falling


class ClusterProblem(Problem):
    """Starts on one graph.

    Parameters
    ----------
    model : R starts.        feat : ``(N, D)`` as ``prepare`` gives it.
    score : assign ``(N, K)`` -> numbers for the history; given what the start of lowest loss made in the last step.
    """

    model: Starts

    def __init__(self, model: Starts, feat: Tensor, score: Callable[[Tensor], dict[str, float]]):
        self.model, self.feat, self.score = model, feat, score
        self.best = [float("inf")] * len(model.nets)        # the loss of each start when it last fell

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
        cause = "the node features hold NaN or infinity: clean the data"
        return f"({named}); {weights_diagnosis(self.model) if bool(values.isfinite().all()) else cause}"

    def state(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best = state["best"]


def _falls(value: float, best: float) -> bool:
    return value < best - GAIN * min(abs(value), abs(best))             # the first time best is infinite


def _total(losses: dict[str, Tensor]) -> Tensor:
    """The losses of each start added up: ``(R,)``."""
    return torch.stack(list(losses.values())).sum(0)


def collapse_warning(
    used_clusters: int, num_clusters: int, *, trained: bool = True, balance: float | None = None
) -> str | None:
    """A sentence if clusters are empty, short for a few, with what to try if most are; else ``None``.

    ``used_clusters`` of ``num_clusters`` hold nodes; ``balance`` is the loss of a run that has no other.
    """
    cure = "train longer (train.epochs), or try another seed, train.restarts: 5, a lower train.lr, model.backbone: sgc"
    cure = cure if trained else "try another seed or another method"
    if num_clusters > 1 and used_clusters == 1:
        return f"collapse: one cluster holds every node; {cure}."
    if balance is not None and num_clusters > 1:
        for name, value in (("uniform assignments", -1 / num_clusters), ("one cluster", -(num_clusters**-0.5))):
            if abs(balance - value) < 0.01 * abs(value):
                return f"collapse: the loss {balance:.3f} is that of {name}; {cure}."
    if used_clusters <= num_clusters // 2:
        return f"collapse: only {used_clusters} of {num_clusters} clusters hold nodes; {cure}, or fewer clusters."
    if used_clusters < num_clusters:
        return f"empty clusters: {num_clusters - used_clusters} of {num_clusters}."
    return None
