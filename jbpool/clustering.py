"""Node clustering as something to train: every start of a seed at once, full batch, no label looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from jbpool.starts import Starts
from jbpool.train import Problem, weights_diagnosis


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
        self.best = [float("inf")] * len(model.nets)        # the lowest loss of each start

    def batches(self, epoch: int) -> list[Tensor]:
        return [self.feat]

    def loss(self, batch: Tensor) -> Tensor:
        self.assign, self.losses = self.model(batch)        # (R, N, K), name -> (R,)
        return _total(self.losses).sum()

    def judge(self, evaluate: bool) -> tuple[bool, dict[str, Any]]:
        values = _total(self.losses).tolist()
        improved = any(value < best for value, best in zip(values, self.best, strict=True))
        self.best = [min(pair) for pair in zip(values, self.best, strict=True)]
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


def _total(losses: dict[str, Tensor]) -> Tensor:
    """The losses of each start added up: ``(R,)``."""
    return torch.stack(list(losses.values())).sum(0)


def collapse_warning(loss: float, used_clusters: int, num_clusters: int, only_balance: bool) -> str | None:
    """A sentence if the clusters have collapsed, with what to try; else ``None``."""
    cure = "try a lower train.lr, another seed, train.restarts: 5, or model.backbone: sgc"
    if num_clusters > 1 and used_clusters == 1:
        return f"collapse: one cluster holds every node; {cure}."
    if only_balance and num_clusters > 1:
        for name, value in (("uniform assignments", -1 / num_clusters), ("one cluster", -(num_clusters**-0.5))):
            if abs(loss - value) < 0.01 * abs(value):
                return f"collapse: the loss {loss:.3f} is that of {name}; {cure}."
    return None
