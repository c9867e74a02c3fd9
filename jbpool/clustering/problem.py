"""Training of node clustering: a network, or the heads of all starts of a seed; full batch, without labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

from jbpool.clustering.auto.bounded_heads import TRAIN_NODES, Heads, sampled
from jbpool.clustering.network import ClusterNet
from jbpool.engine.fit import Problem, weights_diagnosis
from jbpool.graph import Graph
from jbpool.ops.derivatives import first_order
from jbpool.ops.sparse import stored_values

GAIN = 1e-4         # relative decrease that counts as an improvement: losses hardly ever stop falling


class Finished(NamedTuple):
    """What several starts have found."""

    losses: Tensor              # (R,)
    cluster: Tensor             # (N,) by the start with the lowest loss
    confidence: Tensor          # (N,)


class StartsProblem(Problem):
    """Several starts on one graph.

    Parameters
    ----------
    model : nn.Module
        What is trained.
    num_starts : int
        R.
    score : callable
        Clusters ``(N,)`` of the start with the lowest loss -> scores for the history.
    """

    losses: dict[str, Tensor]                               # name -> (R,), of the last step
    values: list[float]                                     # their sums of each start

    def __init__(self, model: nn.Module, num_starts: int, score: Callable[[Tensor], dict[str, float]]):
        self.model, self.score = model, score
        self.best = [float("inf")] * num_starts             # loss of each start at its last improvement

    @abstractmethod
    def clusters(self, start: int) -> Tensor:
        """The clusters ``(N,)`` of a start at the last step."""

    @abstractmethod
    def finish(self) -> Finished:
        """What the trained starts have found."""

    def value(self, loss: Tensor) -> float:
        self.values = _total(self.losses).tolist()          # the only values that a step reads from the device
        return sum(self.values)

    def judge(self, evaluate: bool) -> tuple[bool, dict[str, Any]]:
        values, before = self.values, self.best
        self.best = [value if _falls(value, best) else best for value, best in zip(values, before, strict=True)]
        improved = self.best != before
        if not evaluate:
            return improved, {}
        lowest = values.index(min(values))
        row = {"restart": lowest, "loss": values[lowest]}
        row |= {f"{name}_loss": value[lowest].item() for name, value in self.losses.items()}
        return improved, row | self.score(self.clusters(lowest))

    def diagnosis(self) -> str:
        named = ", ".join(f"{name}={value.sum().item():g}" for name, value in self.losses.items())
        return f"({named}); {weights_diagnosis(self.model)}"

    def state(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best = state["best"]


class ClusterProblem(StartsProblem):
    """A network with any pool: a single start.

    Parameters
    ----------
    net : ClusterNet
        The network.
    graph : Graph
        N nodes.
    feat : Tensor
        ``(N, D)``, as returned by ``prepare``.
    edge_weight : Tensor or None
        ``(E,)``.
    score : callable
        As for ``StartsProblem``.
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
        super().__init__(net, 1, score)
        self.graph, self.feat, self.edge_weight = graph, feat, edge_weight

    def batches(self, epoch: int) -> list[Tensor]:
        return [self.feat]

    def loss(self, batch: Tensor) -> Tensor:
        self.assign, self.losses = self.model(self.graph, batch, self.edge_weight)      # (N, K), name -> (1,)
        return _total(self.losses).sum()

    def clusters(self, start: int) -> Tensor:
        return self.assign.detach().argmax(1)

    def finish(self) -> Finished:
        self.model.eval()
        with torch.no_grad():
            assign, losses = self.model(self.graph, self.feat, self.edge_weight)
        return Finished(_total(losses), assign.argmax(1), assign.amax(1))

    def diagnosis(self) -> str:
        if bool(stored_values(self.feat).isfinite().all()):
            return super().diagnosis()
        return f"({', '.join(self.losses)}); the node features contain NaN or infinity: clean the data"


class HeadsProblem(StartsProblem):
    """Bounded heads on fixed features, trained on a sample of the nodes: a block of assignments in memory.

    Parameters
    ----------
    heads : Heads
        R initial heads.
    feat : Tensor
        ``(N, D)`` unit rows.
    seed : int
        Decides the sample.
    score : callable
        As for ``StartsProblem``.
    """

    def __init__(self, heads: Heads, feat: Tensor, seed: int, score: Callable[[Tensor], dict[str, float]]):
        self.prototypes = nn.Parameter(heads.prototypes.clone())
        super().__init__(nn.ParameterDict({"prototypes": self.prototypes}), len(heads.prototypes), score)
        self.heads, self.feat = heads, feat
        self.sample = sampled(feat, TRAIN_NODES, torch.Generator().manual_seed(seed))

    def batches(self, epoch: int) -> list[Tensor]:
        return [self.sample]

    def loss(self, batch: Tensor) -> Tensor:
        self.losses = {"balance": _HeadLosses.apply(self.prototypes, self.heads, batch)}
        return self.losses["balance"].sum()

    def clusters(self, start: int) -> Tensor:
        return self.heads.assigned(self.feat, start)[0]

    def finish(self) -> Finished:
        self.heads.prototypes = self.prototypes.detach()
        losses = self.heads.losses(self.feat)
        return Finished(losses, *self.heads.assigned(self.feat, int(losses.argmin())))


class _HeadLosses(Function):
    """Losses of heads ``(R,)``; their gradient is known in closed form."""

    @staticmethod
    def forward(ctx, prototypes, heads, feat):
        heads.prototypes = prototypes.detach().clone()      # the optimiser's step does not change this one
        losses, gradient = heads.gradient(feat)
        ctx.save_for_backward(gradient)
        return losses

    @staticmethod
    @first_order
    def backward(ctx, grad):
        return grad[:, None, None] * ctx.saved_tensors[0], None, None


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
    fix = "train longer (train.epochs), or try another seed, train.restarts: 5, a lower train.lr, model.backbone: sgc"
    fix = fix if trained else "try another seed or another method"
    if num_clusters > 1 and used_clusters == 1:
        return f"collapse: one cluster contains all nodes; {fix}."
    if balance is not None and num_clusters > 1:
        for name, value in (("uniform assignments", -1 / num_clusters), ("one cluster", -(num_clusters**-0.5))):
            if abs(balance - value) < 0.01 * abs(value):
                return f"collapse: the loss {balance:.3f} is that of {name}; {fix}."
    if used_clusters <= num_clusters // 2:
        return f"collapse: only {used_clusters} of {num_clusters} clusters are used; {fix}, or fewer clusters."
    if used_clusters < num_clusters:
        return f"empty clusters: {num_clusters - used_clusters} of {num_clusters}."
    return None
