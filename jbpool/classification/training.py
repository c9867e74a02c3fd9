"""The training of networks on one fold: batches, loss, evaluation."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from jbpool.classification.class_scores import averaged, score
from jbpool.classification.config import ClassifyConfig
from jbpool.classification.network import Ensemble
from jbpool.data import GraphData, Split
from jbpool.engine.fit import Problem, weights_diagnosis
from jbpool.nn.pooled import Pooled
from jbpool.processes import gather, mean_over_processes, rank, world_size

EVALUATED = 4       # training batches evaluated at a time: without gradients they need less memory


class Batch(NamedTuple):
    """The part of a batch that this process handles, and the size of the whole batch."""

    graphs: Tensor
    of: int


class ClassifyProblem(Problem):
    """The training of networks on one fold; the seed decides the order of the graphs."""

    model: Ensemble

    def __init__(
        self,
        model: Ensemble,
        data: GraphData,
        split: Split,
        config: ClassifyConfig,
        seed: int,
        device: torch.device,
    ):
        self.model, self.data, self.split, self.config = model, data, split, config
        self.seed, self.device = seed, device
        self.best: dict[str, Any] = {"key": None, "state": None}
        self.class_weight = self._class_weight().to(device) if config.train.class_weight else None

    def _class_weight(self) -> Tensor:
        """Return weights of classes: inverse frequencies in training; of binary tasks negatives / positives."""
        label = self.data.label[self.split.train]
        if self.data.metric == "acc":
            counts = label.bincount(minlength=self.data.num_classes)
            return len(label) / (self.data.num_classes * counts.clamp_min(1))
        return (label == 0).sum(0) / (label == 1).sum(0).clamp_min(1)

    # ------------------------------------------------------------ training

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield every training graph once, in batches of nearly equal size, shuffled by seed and epoch."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
        order = self.split.train[torch.randperm(len(self.split.train), generator=generator)]
        self.sums = torch.zeros(2, device=self.device)              # of the losses of this epoch: task, pools
        if world_size() > 1:                # a checkpoint has the random state of the first process only (dropout)
            torch.manual_seed((1_000_003 * (1_000_003 * self.seed + epoch) + rank()) % 2**63)
        # Every process needs at least one graph of every batch.
        count = min(-(-len(order) // self.config.train.batch_size), len(order) // world_size())
        for part in order.tensor_split(max(1, count)):
            yield Batch(part[rank() :: world_size()], len(part))

    def loss(self, batch: Batch) -> Tensor:
        label, scores, made = self._forward(batch.graphs)                       # scores: (M, B, C)
        members = len(scores)
        # Sums over local graphs divided by the size of the whole batch; gradients are averaged over processes.
        share = world_size() / batch.of / members
        how = self.config.train.label_smoothing, self.class_weight
        task = sum((self._task_loss(member, label, *how).sum() * share for member in scores), scores.new_zeros(()))
        pools = sum((value.sum() * share for pooled in made for value in pooled.losses.values()), scores.new_zeros(()))
        self.sums += torch.stack([task, pools]).detach() * batch.of
        return members * (task + self.config.model.aux_weight * pools)          # each member's gradient is its own

    def value(self, loss: Tensor) -> float:
        return mean_over_processes(loss)

    def _forward(self, graphs: Tensor) -> tuple[Tensor, Tensor, list[Pooled]]:
        cut = self.data.batch(graphs)
        scores, made = self.model.on_batch(cut, self.device)
        return cut.label.to(self.device), scores, made

    def _task_loss(
        self, scores: Tensor, label: Tensor, smoothing: float = 0.0, class_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of every graph, ``(B,)``; unknown labels of a task (NaN) are ignored."""
        if self.data.metric == "acc":
            return functional.cross_entropy(
                scores, label, class_weight, reduction="none", label_smoothing=smoothing
            )
        label = label.to(scores.dtype).view_as(scores)                          # (B, T)
        labelled = label.isfinite()
        label = torch.where(labelled, label, 0)
        if self.model.target_scale is not None:                                 # regression, standardised
            each = ((scores - label) / self.model.target_scale).square().float()
        else:
            each = functional.binary_cross_entropy_with_logits(
                scores, label + smoothing * (0.5 - label), reduction="none", pos_weight=class_weight
            )
        return torch.where(labelled, each, 0).sum(1) / labelled.sum(1).clamp_min(1)

    # ------------------------------------------------------------ evaluation

    def judge(self, evaluate: bool) -> tuple[bool, dict[str, Any]]:
        if not evaluate:
            return False, {}
        scores = averaged(self.predict(self.split.valid), self.data.metric)
        label = self.data.label[self.split.valid]
        valid = score(self.data, scores, label)
        # Neither smoothed nor weighted, so that losses can be compared between settings.
        valid_loss = self._task_loss(scores.to(self.device), label.to(self.device)).mean().item()
        key = [-valid if self.data.is_regression else valid, -valid_loss]
        last = self.config.train.select == "last"
        improved = last or self.best["key"] is None or key > self.best["key"]
        if improved:
            self.best = {"key": key, "state": copy.deepcopy(self.model.state_dict()), "valid": valid}
        task, pools = (sum(gather(self.sums.cpu())) / world_size() / len(self.split.train)).tolist()
        return improved, {"loss": task, "pool_loss": pools, "valid": valid, "valid_loss": valid_loss}

    @torch.no_grad()
    def predict(self, graphs: Tensor) -> Tensor:
        """Return the scores ``(M, G, C)`` of these graphs by every member, on the CPU."""
        self.model.eval()
        mine = torch.arange(len(graphs))[rank() :: world_size()]
        size = EVALUATED * self.config.train.batch_size
        parts = [self._forward(graphs[part])[1].cpu() for part in mine.split(size) if len(part)]
        self.model.train()
        dtype = torch.float64 if self.data.is_regression else torch.float32
        scores = torch.zeros(self.config.model.members, len(graphs), self.data.num_classes, dtype=dtype)
        for index, values in gather((mine, torch.cat(parts, dim=1) if parts else scores[:, :0])):
            scores[:, index] = values
        return scores

    @torch.no_grad()
    def clusters(self, graphs: Sequence[int]) -> list[dict[str, Tensor]]:
        """Return, for each graph, the clusters of the first network at its first level, and the pooled adjacency."""
        self.model.eval()
        pictures = []
        for graph in graphs:
            _, scores, made = self._forward(torch.tensor([graph]))
            if made:
                cluster, adj = made[0].assign.argmax(1).cpu(), made[0].adj[0].cpu()
                mean = averaged(scores, self.data.metric)[0].cpu()
                pictures.append({"graph": torch.tensor(graph), "cluster": cluster, "adj": adj, "scores": mean})
        return pictures

    # ------------------------------------------------------------ for the training loop

    def diagnosis(self) -> str:
        cause = weights_diagnosis(self.model)
        if self.data.feat.is_floating_point() and not bool(self.data.feat.isfinite().all()):
            cause = "the node features contain NaN or infinity: clean the data"
        task, pools = self.sums.tolist()
        return f"(task={task:g}, pools={pools:g}); {cause}"

    def state(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best = state["best"]
