"""Applying a trained classifier to other graphs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import torch
from dgl import DGLGraph
from torch import Tensor, nn

from jbpool.atomic import write_text
from jbpool.checks import check_count, lookup
from jbpool.classification.inputs import check_categories, check_columns, check_edge_feat, fitted
from jbpool.classification.model import Inputs, build_model
from jbpool.classification.network import Ensemble
from jbpool.classification.norm import NORMS
from jbpool.classification.scores import LOWER_IS_BETTER, averaged, score
from jbpool.data import GraphData, load_graphs, own_graph_options
from jbpool.data.columns import as_numbers, sum_per_node
from jbpool.data.containers import UNLABELLED
from jbpool.engine.apply import check_finite, check_fits_weights, check_request, config_for, load_model
from jbpool.engine.schema import build, out_of_range
from jbpool.engine.state import usable
from jbpool.engine.task import Task
from jbpool.errors import ConfigError, DataError, JBPoolError
from jbpool.ops.inputs import check_edge_weight, check_graph
from jbpool.ops.readout import READOUTS

MODEL = {
    "state": dict[str, Tensor], "seed": int, "fold": int, "valid": float, "config": dict, "clusters": [int],
    "inputs": get_type_hints(Inputs),
}  # fmt: skip


class TrainedClassifier(nn.Module):
    """A trained classifier, in evaluation mode.

    Parameters
    ----------
    net : Ensemble
        The networks, which scale features as in training.
    inputs : Inputs
        What it expects.
    stored : dict
        The content of ``model.pt``.
    """

    def __init__(self, net: Ensemble, inputs: Inputs, stored: dict[str, Any]):
        super().__init__()
        self.net, self.inputs = net, inputs
        self.seed, self.fold, self.valid = stored["seed"], stored["fold"], stored["valid"]
        self.classes = inputs.class_names or [str(number) for number in range(inputs.num_classes)]
        self.eval()

    def train(self, mode: bool = True) -> TrainedClassifier:
        """Stay in evaluation mode, also as part of a network that is trained: nothing here is learned further."""
        return super().train(False)

    @torch.no_grad()
    def forward(
        self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None, edge_feat: Tensor | None = None
    ) -> Tensor:
        """Probabilities of the classes for every graph of a batch.

        Parameters
        ----------
        graph : DGLGraph
            A graph or a batch of graphs that hold both directions of every edge.
        feat : Tensor
            ``(N, D)``, the features of the training set, in their order and not scaled.
        edge_weight : Tensor, optional
            Finite, non-negative weights ``(E,)``, required if the network was trained with weights.
        edge_feat : Tensor, optional
            ``(E, D_e)``, required if the network was trained with edge features.

        Returns
        -------
        Tensor
            ``(B, C)``: rows sum to one; for tasks of OGB, the probability of each task, or its value in regression.
        """
        inputs = self.inputs
        check_graph(graph)
        check_edge_weight(graph, edge_weight)
        check_columns(feat, inputs.in_feats, inputs.categories, "feat", "node feature")
        check_categories(feat, inputs.categories, "feat", "node feature")
        if len(feat) != graph.num_nodes():
            raise JBPoolError(f"feat has {len(feat)} rows for {graph.num_nodes()} nodes.")
        check_finite(feat)
        if feat.is_floating_point():
            feat = feat.float()
        if (edge_weight is not None) != inputs.weighted:
            fix = "give edge_weight" if inputs.weighted else "leave edge_weight out"
            raise JBPoolError(f"the model was trained {'with' if inputs.weighted else 'without'} edge weights: {fix}.")
        if inputs.edge_feats:
            if edge_feat is None or len(edge_feat) != graph.num_edges():
                rows = f"edge_feat with {graph.num_edges()} rows"
                raise JBPoolError(f"the model was trained with edge features: give {rows}.")
            check_edge_feat(edge_feat, inputs, "edge_feat")
            check_finite(edge_feat, "edge_feat")
            edge_feat = as_numbers(edge_feat, inputs.edge_categories)
            if not self.net.edge_messages:
                edge_feat = sum_per_node(edge_feat, graph.edges()[1], len(feat))
        return self.probabilities(averaged(self.net(graph, feat, edge_weight, edge_feat)[0], inputs.metric))

    def predict(self, data: GraphData, batch_size: int = 256) -> Tensor:
        """Probabilities for every graph of a dataset, ``(G, C)``, on the CPU; columns are matched by name.

        Parameters
        ----------
        data : GraphData
            New graphs, as ``jbpool.data.load_graphs`` returns them.
        batch_size : int, default 256
            Graphs per batch.
        """
        if not isinstance(data, GraphData):
            got = type(data).__name__
            raise JBPoolError(f"data is {got}: give what load_graphs returns, or call model(dgl.batch(graphs), feat).")
        check_count(batch_size, "batch_size")
        return self.probabilities(self.scores(fitted(data, self.inputs, self.net.edge_messages), batch_size))

    @torch.no_grad()
    def scores(self, data: GraphData, batch_size: int) -> Tensor:
        """The averaged output of the networks for graphs that fit them, ``(G, C)``, on the CPU."""
        device = next(self.parameters()).device
        batches = (data.batch(index) for index in torch.arange(len(data)).split(batch_size))
        found = (self.net.on_batch(batch, device)[0] for batch in batches)
        return torch.cat([averaged(scores, self.inputs.metric).cpu() for scores in found])

    def probabilities(self, scores: Tensor) -> Tensor:
        """The output of the network, ``(B, C)``, as probabilities."""
        if self.inputs.metric in LOWER_IS_BETTER:
            return scores                                       # regression
        return scores.softmax(1) if self.inputs.metric == "acc" else scores.sigmoid()


def load_trained(task: Task, run_dir: Path) -> TrainedClassifier:
    """The model of a run: of the seed and fold with the best validation score.

    Parameters
    ----------
    task : Task
        Graph classification.
    run_dir : Path
        The run folder; one training at least must be finished.
    """
    stored = load_model(run_dir, MODEL, "of graph classification")
    with usable(run_dir / "model.pt"):
        problems: list[str] = []
        config = build(task.schema, stored["config"], "", lambda key: "model.pt", problems)
        if problems:
            raise ValueError(problems[0])
        inputs, clusters = Inputs(**stored["inputs"]), stored["clusters"]
        problems = [problem for _, problem in out_of_range(config)]
        if problems:
            raise ValueError(problems[0])
        lookup(NORMS, config.model.norm, "model.norm")
        for kind in config.model.readout.split("+"):
            lookup(READOUTS, kind, "model.readout")
        sizes = [inputs.num_classes, inputs.in_feats, *(inputs.categories or ()), inputs.edge_feats or 1]
        pool = [] if config.model.pool == "none" else [*clusters, *config.model.mlp]
        check_fits_weights([*sizes, config.model.hidden, *pool], stored["state"])
    net = build_model(config, inputs, clusters)                 # outside: a bug in it is not damage to the file
    with usable(run_dir / "model.pt"):
        net.load_state_dict(stored["state"])
    return TrainedClassifier(net, inputs, stored)


def predict(task: Task, run_dir: Path, changes: Sequence[str], out: Path, device: torch.device) -> Path:
    """Classify the graphs that ``changes`` specify, and write ``predictions.csv``: id, class, probabilities.

    No file of the training set is read. Labels are not needed; if there are any, the score is printed.

    Parameters
    ----------
    task : Task
        Graph classification.
    run_dir : Path
        The folder of a run.
    changes : sequence of str
        ``dataset.key=value``, as given to ``--set``.
    out : Path
        The folder to write to.
    device : torch.device
        Where to compute.
    """
    model = load_trained(task, run_dir).to(device)
    path = out / "predictions.csv"
    check_request(run_dir, changes, path)
    if not {change.partition("=")[0] for change in changes} - {"dataset.root"}:
        raise ConfigError(
            "--predict: specify the new graphs, such as --set dataset.folder=new; the predictions for the test graphs "
            f"of the training set are in {run_dir / 'predictions.npz'}."
        )
    config = config_for(task, run_dir, changes, own_graph_options)
    data = load_graphs(config.dataset.name, config.dataset.root, **config.dataset.options)
    data = fitted(data, model.inputs, model.net.edge_messages)
    chosen = f"seed {model.seed}, fold {model.fold}, validation {model.valid:.3f}"
    print(f"{data!r}\nthe model of {chosen}: the best one of {run_dir}")
    scores = model.scores(data, config.train.batch_size)
    _print_score(model, data, scores)
    _write(path, model, data, model.probabilities(scores))
    return path


def _print_score(model: TrainedClassifier, data: GraphData, scores: Tensor) -> None:
    """The score of the labelled graphs, if there are any."""
    inputs = model.inputs
    known = data.label != UNLABELLED if inputs.metric == "acc" else data.label.isfinite().any(1)
    if not bool(known.any()):
        return
    try:
        value = score(replace(data, name=inputs.name, metric=inputs.metric), scores[known], data.label[known])
    except RuntimeError as error:                       # ogb: a task with positive or negative labels only
        raise DataError(f"{data.name} cannot be scored: {error}") from None
    if data.name == inputs.name:
        print(f"{data.name} has the name of the training set: if it is the same, the score includes training graphs")
    some = f" of the {int(known.sum())} labelled graphs" if not bool(known.all()) else ""
    print(f"{inputs.metric}{some}: {value:.3f}")


def _write(path: Path, model: TrainedClassifier, data: GraphData, probabilities: Tensor) -> None:
    """``predictions.csv``: a line per graph."""
    table = io.StringIO()
    writer = csv.writer(table)
    ids = data.own_ids.tolist()
    numbers = ([f"{number:.6g}" for number in row] for row in probabilities.tolist())
    if model.inputs.metric == "acc":
        writer.writerow(["graph", "class", *(f"p_{name}" for name in model.classes)])
        names = [model.classes[place] for place in probabilities.argmax(1).tolist()]
        writer.writerows([name, found, *row] for name, found, row in zip(ids, names, numbers, strict=True))
    else:
        kind = "value" if model.inputs.metric in LOWER_IS_BETTER else "p"
        writer.writerow(["graph", *(f"{kind}_{name}" for name in model.classes)])
        writer.writerows([name, *row] for name, row in zip(ids, numbers, strict=True))
    write_text(path, table.getvalue())
