"""Apply a trained network to other graphs: columns, categories and classes as in training, or a clear error."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from jbpool.checks import check_count
from jbpool.classification.class_scores import LOWER_IS_BETTER, MORE_SCORES, averaged, digits, score
from jbpool.classification.config import ClassifyConfig
from jbpool.classification.model import Inputs, build_model
from jbpool.classification.network import Ensemble
from jbpool.data import GraphData, load_graphs
from jbpool.data.assemble import is_degree, is_node_label
from jbpool.data.datasets import UNLABELLED, as_numbers, sum_per_node
from jbpool.engine.predict import (
    called_with,
    check_given,
    check_values,
    config_of_run,
    in_order,
    load_model,
    match_columns,
    shown,
)
from jbpool.errors import DataError, JBPoolError
from jbpool.files import reporting_damage, write_text


def fitted(data: GraphData, inputs: Inputs, edge_messages: bool = False) -> GraphData:
    """Return the same graphs with the columns of features, the edge sums and the classes of the training set.

    Node labels of the TU format that do not occur in the new set are columns of zeros; degrees above the largest in
    training count as the largest. Edge features that the network does not use are left out; for edge messages they are
    kept beside their sums.
    """
    data = replace(
        data, feat=_features(data, inputs), feat_names=inputs.feat_names, label=_labels(data, inputs),
        num_classes=inputs.num_classes, class_names=inputs.class_names,
    )  # fmt: skip
    check_given(data.edge_weight is not None, inputs.weighted, f"edge weights ({data.name})")
    if not inputs.edge_feats:
        return replace(data, edge_feat=None)
    check_given(data.edge_feat is not None, True, f"edge features ({data.name})")
    assert data.edge_feat is not None
    places = match_columns(inputs.edge_names, data.edge_names, f"{data.name}: edge feature")
    edge_feat = in_order(data.edge_feat, places)
    check_values(edge_feat, len(data.source), *inputs.edge_columns, f"{data.name}, edge features")
    data = replace(data, edge_feat=edge_feat, edge_names=inputs.edge_names)
    return data.with_edge_sums(inputs.edge_categories, edge_messages)


def _features(data: GraphData, inputs: Inputs) -> Tensor:
    """Match columns by name where both sets have names, else by position."""
    trained, given, feat = inputs.feat_names, data.feat_names, data.feat
    check_given(not _are_degrees(given), not _are_degrees(trained), f"node features ({data.name})")
    if _are_degrees(trained):
        feat = functional.one_hot(feat.argmax(1).clamp_max(inputs.in_feats - 1), inputs.in_feats).float()
    else:
        feat = in_order(feat, match_columns(trained, given, f"{data.name}: node feature", is_node_label))
    check_values(feat, len(feat), inputs.in_feats, inputs.categories, f"{data.name}, node features")
    return feat


def _are_degrees(names: Sequence[str] | None) -> bool:
    """Return whether features stand for the degrees of nodes without features."""
    return names is not None and is_degree(names[0])


def _labels(data: GraphData, inputs: Inputs) -> Tensor:
    """Match classes by name where both sets have names; targets and tasks, too, where there are several."""
    if inputs.metric != "acc":
        regression = inputs.metric in LOWER_IS_BETTER
        if data.label.dim() == 1 or data.is_regression != regression or not bool(data.label.isfinite().any()):
            return torch.full((len(data), inputs.num_classes), float("nan"))
        given = data.class_names if data.label.shape[1] > 1 else None
        label = in_order(data.label, match_columns(inputs.class_names, given, f"{data.name}: target"))
        if label.shape[1] != inputs.num_classes:
            fix = "give the same, or leave them out"
            raise DataError(f"{data.name}: {label.shape[1]} targets, the model has {inputs.num_classes}: {fix}.")
        return label
    if data.label.dim() == 2:
        return torch.full((len(data),), UNLABELLED)
    if inputs.class_names and data.class_names:
        place = [_class_named(str(name), inputs.class_names) for name in data.class_names]
        if None in place:
            unknown, classes = data.class_names[place.index(None)], shown(inputs.class_names)
            fix = "name the classes as in training (dataset.class_names), or leave out the labels"
            raise DataError(f"{data.name}: class {unknown!r} is not among the model's classes {classes}: {fix}.")
        return torch.tensor([*place, UNLABELLED])[data.label]               # -1 is the last entry
    if (largest := int(data.label.max())) >= inputs.num_classes:
        fix = "leave out the labels"
        raise DataError(f"{data.name} has class {largest}, but the model has {inputs.num_classes} classes: {fix}.")
    return data.label


def _class_named(name: str, classes: Sequence[str]) -> int | None:
    """Return the class of this name, or else the only one of the same value: 1 in one file may be 1.0 in another."""
    exact = [code for code, trained in enumerate(classes) if trained == name]
    same = exact or [code for code, trained in enumerate(classes) if _value(trained) == _value(name)]
    return same[0] if len(same) == 1 else None


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


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
        self, graph: Any, feat: Tensor, edge_weight: Tensor | None = None, edge_feat: Tensor | None = None
    ) -> Tensor:
        """Return the probabilities of the classes for every graph of a batch.

        Parameters
        ----------
        graph : DGLGraph, Data, Batch or Graph
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
            ``(B, C)``: rows sum to one; for tasks of OGB, the probability of each task; in regression the value of each
            target, in float64.
        """
        inputs = self.inputs
        check_given(edge_weight is not None, inputs.weighted, "edge weights")
        graph, feat, edge_weight = called_with(graph, feat, edge_weight, inputs.in_feats, inputs.categories)
        if inputs.edge_feats:
            check_values(edge_feat, graph.num_edges, *inputs.edge_columns, "edge_feat")
            edge_feat = as_numbers(cast(Tensor, edge_feat), inputs.edge_categories)
            if not self.net.edge_messages:
                edge_feat = sum_per_node(edge_feat, graph.edge_index[1], len(feat))
        return self.probabilities(averaged(self.net(graph, feat, edge_weight, edge_feat)[0], inputs.metric))

    def predict(self, data: GraphData, batch_size: int = 256) -> Tensor:
        """Return the probabilities for every graph of a dataset, ``(G, C)``, on the CPU.

        Columns of features are matched by name.
        """
        if not isinstance(data, GraphData):
            got = type(data).__name__
            raise JBPoolError(f"data is {got}: give what load_graphs returns, or call model(dgl.batch(graphs), feat).")
        check_count(batch_size, "batch_size")
        return self.probabilities(self.scores(fitted(data, self.inputs, self.net.edge_messages), batch_size))

    @torch.no_grad()
    def scores(self, data: GraphData, batch_size: int) -> Tensor:
        """Return the averaged output of the networks for graphs that fit them, ``(G, C)``, on the CPU."""
        device = next(self.parameters()).device
        batches = (data.batch(index) for index in torch.arange(len(data)).split(batch_size))
        members = (self.net.on_batch(batch, device)[0] for batch in batches)               # (M, B, C) each
        return torch.cat([averaged(scores, self.inputs.metric).cpu() for scores in members])

    def probabilities(self, scores: Tensor) -> Tensor:
        """Return the output of the network, ``(B, C)``, as probabilities."""
        if self.inputs.metric in LOWER_IS_BETTER:
            return scores                                       # regression
        return scores.softmax(1) if self.inputs.metric == "acc" else scores.sigmoid()


def load_trained(run_dir: Path) -> TrainedClassifier:
    """Return the model of a run: of the seed and fold with the best validation score."""
    stored = load_model(run_dir)
    with reporting_damage(run_dir / "model.pt"):
        config = config_of_run(ClassifyConfig, stored["config"], run_dir / "model.pt")
        inputs = Inputs(**stored["inputs"])
        net = build_model(config, inputs, stored["clusters"])
        net.load_state_dict(stored["state"])
        return TrainedClassifier(net, inputs, stored)


def predict(run_dir: Path, config: ClassifyConfig, path: Path, device: torch.device) -> None:
    """Classify the graphs of a configuration, and write ``path``, a table with id, class, probabilities.

    No file of the training set is read. Labels are not needed; if there are any, the score is printed.
    """
    model = load_trained(run_dir).to(device)
    options = config.dataset.options
    if config.dataset.name == "file":                           # a few numbers may be targets or classes
        kind = "regression" if model.inputs.metric in LOWER_IS_BETTER else "classification"
        options = {"task": kind, **options}
    data = load_graphs(config.dataset.name, config.dataset.root, **options)
    data = fitted(data, model.inputs, model.net.edge_messages)
    chosen = f"seed {model.seed}, fold {model.fold}, validation {digits(model.valid, model.inputs.metric)}"
    print(f"{data!r}\nthe model of {chosen}: the best one of {run_dir}")
    scores = model.scores(data, config.train.batch_size)
    _print_score(model, data, scores)
    _write(path, model, data, model.probabilities(scores))


def _print_score(model: TrainedClassifier, data: GraphData, scores: Tensor) -> None:
    """Print the scores of the labelled graphs, if there are any."""
    inputs = model.inputs
    data = replace(data, metric=inputs.metric)
    labelled = data.label != UNLABELLED if inputs.metric == "acc" else data.label.isfinite().any(1)
    if not bool(labelled.any()):
        return
    predicted, label = scores[labelled], data.label[labelled]
    try:
        value = score(replace(data, name=inputs.name), predicted, label)
    except RuntimeError as error:                       # ogb: a task with positive or negative labels only
        raise DataError(f"{data.name} cannot be scored: {error}") from None
    if data.name == inputs.name:
        print(f"{data.name} has the name of the training set: if it is the same, the score includes training graphs")
    some = f" of the {int(labelled.sum())} labelled graphs" if not bool(labelled.all()) else ""
    more = {name.removeprefix("test_"): of(predicted, label) for name, of in MORE_SCORES.get(inputs.metric, {}).items()}
    values = ", ".join(f"{name}: {digits(value, inputs.metric)}" for name, value in more.items())
    print(f"{inputs.metric}{some}: {digits(value, inputs.metric)}" + (f", {values}" if values else ""))


def _write(path: Path, model: TrainedClassifier, data: GraphData, probabilities: Tensor) -> None:
    """Write ``predictions.csv``, a line per graph."""
    table = io.StringIO()
    writer = csv.writer(table)
    ids = data.own_ids.tolist()
    numbers = ([f"{number:.6g}" for number in row] for row in probabilities.tolist())
    if model.inputs.metric == "acc":
        writer.writerow(["graph", "class", *(f"p_{name}" for name in model.classes)])
        names = [model.classes[place] for place in probabilities.argmax(1).tolist()]
        writer.writerows([name, predicted, *row] for name, predicted, row in zip(ids, names, numbers, strict=True))
    else:
        kind = "value" if model.inputs.metric in LOWER_IS_BETTER else "p"
        writer.writerow(["graph", *(f"{kind}_{name}" for name in model.classes)])
        writer.writerows([name, *row] for name, row in zip(ids, numbers, strict=True))
    write_text(path, table.getvalue())
