"""Training a clustering network: the loop, its checkpoints, and what stops it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from jbpool.config import TrainConfig
from jbpool.starts import Starts


class TrainingError(RuntimeError):
    """A loss that is no number: training cannot go on."""


@dataclass
class Progress:
    """Where a training run is; with the weights and the optimiser, all that a checkpoint needs."""

    epoch: int = 0
    best_loss: list[float] = field(default_factory=list)      # of each start
    best_epoch: int = 0                                       # the last in which a start improved
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seconds_per_step(self) -> float:
        return self.seconds / max(1, self.epoch)


def fit(
    model: Starts,
    feat: Tensor,
    config: TrainConfig,
    *,
    score: Callable[[Tensor], dict[str, float]],
    report: Callable[[Progress, dict[str, Any]], None] = lambda progress, row: None,
    checkpoint: Callable[[dict[str, Any]], None] = lambda state: None,
    resume: dict[str, Any] | None = None,
) -> tuple[Tensor, Tensor, Progress]:
    """Minimise the losses of every start; no label is looked at.

    Parameters
    ----------
    feat : as ``prepare`` gives it.
    score : assign ``(N, K)`` -> numbers for the history, called every ``eval_every`` epochs on the assignments that the
        start with the lowest loss has made in that step.
    report : called after each of these with the progress and the row of the history.
    checkpoint : called with the state to keep at the same moments; ``resume`` is such a state.

    Returns: the assignments ``(R, N, K)``, the losses ``(R,)``, and the progress, after the last epoch.
    """
    optimiser = torch.optim.Adam(model.parameters(), lr=config.lr, fused=True)
    progress = Progress(best_loss=[float("inf")] * len(model.nets))
    if resume is not None:
        model.load_state_dict(resume["model"])
        optimiser.load_state_dict(resume["optimiser"])
        torch.set_rng_state(resume["rng"])
        progress = Progress(**resume["progress"])

    model.train()
    while progress.epoch < config.epochs:
        began = time.perf_counter()
        assign, losses = model(feat)
        loss = _total(losses)                                                       # (R,)
        optimiser.zero_grad(set_to_none=True)
        loss.sum().backward()
        values = loss.tolist()
        if not all(map(math.isfinite, values)):
            raise TrainingError(_diagnosis(model, feat, losses, progress.epoch))
        optimiser.step()
        progress.seconds += time.perf_counter() - began
        progress.epoch += 1

        if any(value < best for value, best in zip(values, progress.best_loss, strict=True)):
            progress.best_loss = [min(pair) for pair in zip(values, progress.best_loss, strict=True)]
            progress.best_epoch = progress.epoch
        stop = config.patience is not None and progress.epoch - progress.best_epoch >= config.patience
        if progress.epoch % config.eval_every == 0 or progress.epoch == config.epochs or stop:
            best = values.index(min(values))
            row = {"epoch": progress.epoch, "restart": best, "loss": values[best]}
            row |= {f"{name}_loss": value[best].item() for name, value in losses.items()}
            row |= score(assign[best].detach())
            progress.history.append(row)
            report(progress, row)
            checkpoint(
                {
                    "model": model.state_dict(),
                    "optimiser": optimiser.state_dict(),
                    "rng": torch.get_rng_state(),
                    "progress": vars(progress),
                }
            )
        if stop:
            break

    model.eval()
    with torch.no_grad():
        assign, losses = model(feat)
    return assign, _total(losses), progress


def _total(losses: dict[str, Tensor]) -> Tensor:
    """The losses of each start added up: ``(R,)``."""
    return torch.stack(list(losses.values())).sum(0)


def _diagnosis(model: Starts, feat: Tensor, losses: dict[str, Tensor], epoch: int) -> str:
    """Why a loss may not be a number, from what is at hand."""
    values = feat.values() if feat.layout == torch.sparse_csr else feat
    if not bool(values.isfinite().all()):
        cause = "the node features hold NaN or infinity: clean the data"
    elif not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
        cause = "the weights have grown out of bounds: lower train.lr"
    else:
        cause = "the features grew out of bounds inside the network: lower train.lr or use fewer model.layers"
    named = ", ".join(f"{name}={value.sum().item():g}" for name, value in losses.items())
    return f"the loss is not a number at epoch {epoch + 1} ({named}); {cause}."


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
