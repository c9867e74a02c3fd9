"""The training loop of both tasks: epochs, early stops and checkpoints."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from jbpool.console import Bar
from jbpool.errors import ConfigError, InputError, TrainingError
from jbpool.files import reporting_damage
from jbpool.processes import mean_gradients, rank
from jbpool.schema import TrainConfig

if TYPE_CHECKING:
    from jbpool.engine.run_folder import RunFolder

CHECKPOINT_SECONDS = 0.5        # minimum time between two checkpoints

# Share of the epochs that are done -> factor of the learning rate.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
}

Log = Callable[[str, dict[str, Any]], None]         # the name of a training run, and a row of its history


def open_log(kind: str, folder: Path) -> Log | None:
    """Return what passes every evaluation on to TensorBoard (event files in the run folder) or MLflow."""
    if rank() > 0:
        return None
    try:
        if kind == "tensorboard":
            from torch.utils.tensorboard import SummaryWriter
        else:
            import mlflow
    except ImportError as error:
        raise ConfigError(f"--log {kind} needs {kind} ({error}): pip install {kind}") from None
    if kind == "mlflow":
        mlflow.start_run(run_name=folder.name)
    writer = cache(lambda name: SummaryWriter(str(folder / "tensorboard" / name)))

    def log(name: str, row: dict[str, Any]) -> None:
        values = {key: value for key, value in row.items() if key != "epoch" and isinstance(value, int | float)}
        if kind == "mlflow":
            mlflow.log_metrics({f"{name}/{key}": value for key, value in values.items()}, step=row["epoch"])
            return
        for key, value in values.items():
            writer(name).add_scalar(key, value, row["epoch"])
        writer(name).flush()

    return log


class Problem(ABC):
    """What is trained: batches, loss, and evaluation."""

    model: nn.Module

    @abstractmethod
    def batches(self, epoch: int) -> Iterable[Any]:
        """Yield the batches of one epoch."""

    @abstractmethod
    def loss(self, batch: Any) -> Tensor:
        """Return the scalar to minimise."""

    def value(self, loss: Tensor) -> float:
        """Return the loss as a number, the same in every process of a run."""
        return loss.item()

    @abstractmethod
    def judge(self, evaluate: bool) -> tuple[bool, dict[str, Any]]:
        """Return, after an epoch, whether it is the best so far and, if ``evaluate``, a row of the history."""

    @abstractmethod
    def diagnosis(self) -> str:
        """Return which loss is NaN or infinite, in parentheses, and the likely cause."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must contain besides model, optimiser and random state."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what ``state`` returned."""


@dataclass
class Progress:
    """Progress of a training run."""

    epoch: int = 0
    steps: int = 0
    best_epoch: int = 0
    seconds: float = 0.0                            # spent in training steps
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seconds_per_step(self) -> float:
        return self.seconds / max(1, self.steps)


def fit(
    problem: Problem,
    config: TrainConfig,
    *,
    weight_decay: float = 0.0,
    schedule: str = "constant",
    each_epoch: Callable[[Progress], None] = lambda progress: None,
    report: Callable[[Progress, dict[str, Any]], None] = lambda progress, row: None,
    checkpoint: Callable[[dict[str, Any]], None] | None = None,
    resume: dict[str, Any] | None = None,
    resume_path: Path = Path("checkpoint.pt"),
) -> Progress:
    """Minimise the loss of a problem.

    ``each_epoch`` is called after every epoch, ``report`` every ``eval_every`` epochs with the new row of the history,
    ``checkpoint`` after some of these evaluations with the state to save. ``resume`` is such a state, read from
    ``resume_path``.
    """
    model = problem.model
    optimiser = torch.optim.Adam(model.parameters(), lr=config.lr, weight_decay=weight_decay, fused=True)
    progress = Progress()
    if resume is not None:
        with reporting_damage(resume_path):
            progress = _restore(resume, problem, optimiser)
    kept_at = time.monotonic()
    model.train()
    patience = config.epochs if config.patience is None else config.patience
    # A checkpoint may be of the last epoch before an early stop, so this is asked before an epoch.
    while progress.epoch < config.epochs and progress.epoch - progress.best_epoch < patience:
        for group in optimiser.param_groups:
            group["lr"] = config.lr * SCHEDULES[schedule](progress.epoch / config.epochs)
        _train_epoch(problem, optimiser, progress)
        each_epoch(progress)

        evaluate = progress.epoch % config.eval_every == 0 or progress.epoch == config.epochs
        evaluate = evaluate or progress.epoch - progress.best_epoch >= patience
        with reporting_divergence(progress):
            improved, row = problem.judge(evaluate)
        if improved:
            progress.best_epoch = progress.epoch
        if evaluate:
            row = {"epoch": progress.epoch, **row}
            progress.history.append(row)
            report(progress, row)
            if checkpoint is not None and time.monotonic() - kept_at > CHECKPOINT_SECONDS:
                checkpoint(_state(problem, optimiser, progress))
                kept_at = time.monotonic()
    return progress


def fit_unit(
    problem: Problem,
    config: TrainConfig,
    out: RunFolder,
    unit: dict[str, Any],
    *,
    name: str,
    shown: Sequence[str],
    log: Log | None = None,
    kept: dict[str, Any] | None = None,
    resume: dict[str, Any] | None = None,
    **options: Any,
) -> Progress:
    """Train a problem as a unit of a run, with a bar, a log, and its history and checkpoints in the run folder.

    ``shown``: values of the history beside the bar. Checkpoints have the keys of ``unit`` and ``kept``; ``resume`` is
    the state of one. Further ``options`` are those of ``fit``.
    """
    with Bar(total=config.epochs, desc=name, unit=" epochs") as bar:

        def report(progress: Progress, row: dict[str, Any]) -> None:
            out.curve = [{**unit, **row} for row in progress.history]
            bar.set_postfix({key: f"{row[key]:.4g}" for key in shown if key in row}, refresh=False)
            if log is not None:
                log(name, row)

        def checkpoint(state: dict[str, Any]) -> None:
            out.checkpoint(**unit, **(kept or {}), training=state)

        return fit(
            problem, config, each_epoch=lambda progress: bar.update(progress.epoch - bar.n), report=report,
            resume=resume, resume_path=out.path / "checkpoint.pt", checkpoint=checkpoint if rank() == 0 else None,
            **options,
        )  # fmt: skip


@contextmanager
def reporting_divergence(progress: Progress) -> Iterator[None]:
    """Turn what a layer refuses in training into a ``TrainingError``: the data were checked when they were loaded."""
    try:
        yield
    except InputError as error:
        raise TrainingError(f"training has diverged at epoch {progress.epoch + 1}: {error}") from None


def _train_epoch(problem: Problem, optimiser: torch.optim.Optimizer, progress: Progress) -> None:
    began = time.perf_counter()
    for batch in problem.batches(progress.epoch):
        with reporting_divergence(progress):
            loss = problem.loss(batch)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        mean_gradients(problem.model.parameters())
        if not math.isfinite(problem.value(loss)):
            raise TrainingError(f"the loss is NaN or infinite at epoch {progress.epoch + 1} {problem.diagnosis()}.")
        optimiser.step()
        progress.steps += 1
    progress.seconds += time.perf_counter() - began
    progress.epoch += 1


def _state(problem: Problem, optimiser: torch.optim.Optimizer, progress: Progress) -> dict[str, Any]:
    """Return the content of a checkpoint."""
    return {
        "model": problem.model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "rng": torch.get_rng_state(),
        "cuda_rng": torch.cuda.get_rng_state_all(),             # a list, empty without CUDA
        "problem": problem.state(),
        "progress": vars(progress),
    }


def _restore(state: dict[str, Any], problem: Problem, optimiser: torch.optim.Optimizer) -> Progress:
    """Continue from what ``_state`` returned."""
    problem.model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    torch.set_rng_state(state["rng"])
    torch.cuda.set_rng_state_all(state.get("cuda_rng", [])[: torch.cuda.device_count()])
    problem.load_state(state["problem"])
    return Progress(**state["progress"])


def weights_diagnosis(model: nn.Module) -> str:
    """Return the likely cause of a loss that is NaN or infinite although the data are finite."""
    if not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
        return "the weights have grown out of bounds: lower train.lr"
    return "the features grew out of bounds inside the network: lower train.lr or use fewer model.layers"
