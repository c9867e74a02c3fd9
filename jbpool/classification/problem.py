"""Graph classification as something to train: mini-batches, the best epoch by the validation graphs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torchmetrics.functional.classification import multiclass_accuracy

from jbpool.clustering.network import GraphClassifier
from jbpool.data import GraphData, Split
from jbpool.data.ogb_mol import evaluator
from jbpool.engine.config import ClassifyConfig
from jbpool.engine.fit import Problem, weights_diagnosis
from jbpool.engine.processes import gather, mean_over_processes, rank, world_size
from jbpool.nn.pools import Pooled

LOWER_IS_BETTER = ("rmse",)


class Batch(NamedTuple):
    """The part of a batch that this process works on, and the number of graphs of the whole."""

    graphs: Tensor
    of: int


def with_edge_sums(data: GraphData) -> tuple[GraphData, int]:
    """Edge features as columns of the nodes: for each node, the sum of the features of its edges.

    Categories become counts. It is done once for all graphs; a layer adds a linear map of the sum to what a node has.
    Returns: the data, its ``feat`` wider, and the number of new columns.
    """
    if data.edge_feat is None:
        return data, 0
    edge_feat = data.edge_feat
    if not edge_feat.is_floating_point():
        edge_feat = torch.cat([functional.one_hot(column) for column in edge_feat.unbind(1)], dim=1)
    first = (data.sizes.cumsum(0) - data.sizes).repeat_interleave(data.num_edges)
    sums = torch.zeros(len(data.feat), edge_feat.shape[1], dtype=data.feat.dtype)
    sums.index_add_(0, data.target + first, edge_feat.to(data.feat.dtype))
    return replace(data, feat=torch.cat([data.feat, sums], dim=1), edge_feat=None), sums.shape[1]


class ClassifyProblem(Problem):
    """One fold.

    Parameters
    ----------
    data, split : all graphs, and which to train on, choose by and report on.
    edge_columns : how many columns of ``data.feat`` are sums of edge features, the last ones.
    """

    model: GraphClassifier

    def __init__(
        self,
        model: GraphClassifier,
        data: GraphData,
        split: Split,
        config: ClassifyConfig,
        seed: int,
        device: torch.device,
        edge_columns: int = 0,
    ):
        self.model, self.data, self.split, self.config = model, data, split, config
        self.seed, self.device, self.edge_columns = seed, device, edge_columns
        self.trained = DistributedDataParallel(model) if world_size() > 1 else model
        self.best: dict[str, Any] = {"key": None, "state": None}
        self.class_weight = self._class_weight().to(device) if config.train.class_weight else None

    def _class_weight(self) -> Tensor:
        """Of each class the inverse of its share of the training graphs; of each yes-or-no task, noes per yes."""
        label = self.data.label[self.split.train]
        if self.data.metric == "acc":
            counts = label.bincount(minlength=self.data.num_classes)
            return len(label) / (self.data.num_classes * counts.clamp_min(1))
        return (label == 0).sum(0) / (label == 1).sum(0).clamp_min(1)

    # ------------------------------------------------------------ training

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Every training graph once, in batches of nearly equal size, in an order that the seed and epoch decide."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
        order = self.split.train[torch.randperm(len(self.split.train), generator=generator)]
        self.sums = torch.zeros(2)                                  # of the losses of the epoch: task, pools
        # Every process needs a graph of every batch.
        count = min(-(-len(order) // self.config.train.batch_size), len(order) // world_size())
        for part in order.tensor_split(max(1, count)):
            yield Batch(part[rank() :: world_size()], len(part))

    def loss(self, batch: Batch) -> Tensor:
        label, scores, made = self._forward(self.trained, batch.graphs)
        # Sums over the graphs here, over the size of the whole batch; DDP takes the mean over processes.
        share = world_size() / batch.of
        task = self._task_loss(scores, label).sum() * share
        pools = sum((value.sum() * share for pooled in made for value in pooled.losses.values()), scores.new_zeros(()))
        self.sums += torch.stack([task, pools]).detach().cpu() * batch.of
        return task + self.config.model.aux_weight * pools

    def value(self, loss: Tensor) -> float:
        return mean_over_processes(loss)

    def _forward(self, model: torch.nn.Module, graphs: Tensor) -> tuple[Tensor, Tensor, list[Pooled]]:
        cut = self.data.batch(graphs)
        feat = cut.feat.to(self.device)
        edge_sum = None
        if self.edge_columns:
            feat, edge_sum = feat[:, : -self.edge_columns], feat[:, -self.edge_columns :].float()
        weight = None if cut.edge_weight is None else cut.edge_weight.to(self.device)
        scores, made = model(cut.graph.to(self.device), feat, weight, edge_sum)
        return cut.label.to(self.device), scores, made

    def _task_loss(self, scores: Tensor, label: Tensor) -> Tensor:
        """One value per graph, ``(B,)``; unknown labels of a task (NaN) count nothing."""
        if self.data.metric == "acc":
            return functional.cross_entropy(scores, label, self.class_weight, reduction="none")
        label = label.float().view_as(scores)                                   # (B, T)
        known = label.isfinite()
        label = torch.where(known, label, 0)
        if self.data.metric in LOWER_IS_BETTER:
            each = functional.mse_loss(scores, label, reduction="none")         # (B, T)
        else:
            each = functional.binary_cross_entropy_with_logits(
                scores, label, reduction="none", pos_weight=self.class_weight
            )
        return torch.where(known, each, 0).sum(1) / known.sum(1).clamp_min(1)

    # ------------------------------------------------------------ judging

    def judge(self, evaluate: bool) -> tuple[bool, dict[str, Any]]:
        if not evaluate:
            return False, {}
        scores = self.predict(self.split.valid)
        label = self.data.label[self.split.valid]
        valid = self.metric(scores, label)
        valid_loss = self._task_loss(scores.to(self.device), label.to(self.device)).mean().item()
        key = [-valid if self.data.metric in LOWER_IS_BETTER else valid, -valid_loss]
        improved = self.best["key"] is None or key > self.best["key"]
        if improved:
            self.best = {"key": key, "state": copy.deepcopy(self.model.state_dict()), "valid": valid}
        task, pools = (sum(gather(self.sums)) / world_size() / len(self.split.train)).tolist()
        return improved, {"loss": task, "pool_loss": pools, "valid": valid, "valid_loss": valid_loss}

    @torch.no_grad()
    def predict(self, graphs: Tensor) -> Tensor:
        """Scores ``(G, C)`` of these graphs, on the CPU."""
        self.model.eval()
        mine = torch.arange(len(graphs))[rank() :: world_size()]
        size = self.config.train.batch_size
        parts = [self._forward(self.model, graphs[part])[1].cpu() for part in mine.split(size) if len(part)]
        self.model.train()
        scores = torch.zeros(len(graphs), self.data.num_classes)
        for index, values in gather((mine, torch.cat(parts) if parts else scores[:0])):
            scores[index] = values
        return scores

    def metric(self, scores: Tensor, label: Tensor) -> float:
        """Accuracy, or what the OGB Evaluator of the set says."""
        if self.data.metric == "acc":
            return multiclass_accuracy(scores, label, self.data.num_classes, average="micro").item()
        truth = label.view_as(scores).numpy()
        return float(evaluator(self.data.name).eval({"y_true": truth, "y_pred": scores.numpy()})[self.data.metric])

    def balanced_accuracy(self, scores: Tensor, label: Tensor) -> float:
        """The mean over classes of the share of their graphs that is recognised."""
        return multiclass_accuracy(scores, label, self.data.num_classes, average="macro").item()

    @torch.no_grad()
    def clusters(self, graphs: Sequence[int]) -> list[dict[str, Tensor]]:
        """For each graph: the cluster of every node at the first level, and the pooled adjacency."""
        self.model.eval()
        found = []
        for graph in graphs:
            _, scores, made = self._forward(self.model, torch.tensor([graph]))
            if made:
                cluster, adj = made[0].assign.argmax(1).cpu(), made[0].adj[0].cpu()
                found.append({"graph": torch.tensor(graph), "cluster": cluster, "adj": adj, "scores": scores[0].cpu()})
        return found

    def load_best(self) -> None:
        """The weights of the best epoch."""
        self.model.load_state_dict(self.best["state"])

    # ------------------------------------------------------------ for the training loop

    def diagnosis(self) -> str:
        cause = weights_diagnosis(self.model)
        if self.data.feat.is_floating_point() and not bool(self.data.feat.isfinite().all()):
            cause = "the node features hold NaN or infinity: clean the data"
        task, pools = self.sums.tolist()
        return f"(task={task:g}, pools={pools:g}); {cause}"

    def state(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best = state["best"]
