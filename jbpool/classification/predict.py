"""Applying a trained network to other graphs: columns, categories and classes as in training, or a clear error."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import torch
from torch import Tensor, nn

from jbpool.checks import check_count
from jbpool.classification.class_scores import LOWER_IS_BETTER, MORE_SCORES, averaged, digits, score
from jbpool.classification.config import ClassifyConfig
from jbpool.classification.model import Inputs, build_model
from jbpool.classification.network import NORMS, Ensemble
from jbpool.classification.task import GRAPH_CLASSIFY
from jbpool.data import GraphData, load_graphs, own_graph_options
from jbpool.data.assemble import is_degree, is_node_label
from jbpool.data.datasets import UNLABELLED, as_numbers, sum_per_node
from jbpool.engine.config import Change
from jbpool.engine.predict import check_finite, check_fits_weights, check_request, config_for, load_model
from jbpool.engine.state import reporting_damage
from jbpool.errors import ConfigError, DataError, JBPoolError
from jbpool.files import write_text
from jbpool.graph import as_graph
from jbpool.inputs import check_edge_weight, check_symmetric
from jbpool.names import lookup
from jbpool.ops.segment import READOUTS
from jbpool.schema import build, out_of_range


def fitted(data: GraphData, inputs: Inputs, edge_messages: bool = False) -> GraphData:
    """Return the same graphs with the columns of features, the edge sums and the classes of the training set.

    Node labels of the TU format that do not occur in the new set are columns of zeros; degrees above the largest in
    training count as the largest. Edge features that the network does not use are left out; for edge messages they are
    kept beside their sums.
    """
    feat = _features(data, inputs)
    check_categories(feat, inputs.categories, data.name, "node feature")
    data = replace(data, feat=feat, feat_names=inputs.feat_names, label=_labels(data, inputs))
    data = replace(data, num_classes=inputs.num_classes, class_names=inputs.class_names)
    if inputs.weighted and data.edge_weight is None:
        raise DataError(f"{data.name} has no edge weights, but the model was trained with them: give one per edge.")
    if data.edge_weight is not None and not inputs.weighted:
        raise DataError(f"{data.name} has edge weights, but the model was trained without: leave them out.")
    if not inputs.edge_feats:
        return replace(data, edge_feat=None)
    if data.edge_feat is None:
        raise DataError(f"{data.name} has no edge features, but the model was trained with them.")
    data = replace(data, edge_feat=_edge_features(data, data.edge_feat, inputs), edge_names=inputs.edge_names)
    return data.with_edge_sums(inputs.edge_categories, edge_messages)


def _edge_features(data: GraphData, edge_feat: Tensor, inputs: Inputs) -> Tensor:
    """Match columns by name where both sets have names, else by position."""
    trained, given = inputs.edge_names, data.edge_names
    if trained is not None and given is not None:
        for name in (*given, *trained):
            if name not in trained:
                known = f"which was trained on {_shown(trained)}"
                raise DataError(f"{data.name}: edge feature {name!r} is unknown to the model, {known}.")
            if name not in given:
                raise DataError(f"{data.name} lacks the edge feature {name!r}: the model needs {_shown(trained)}.")
        edge_feat = edge_feat[:, [list(given).index(name) for name in trained]]
    check_edge_feat(edge_feat, inputs, data.name)
    return edge_feat


def check_edge_feat(edge_feat: Tensor, inputs: Inputs, name: str) -> None:
    """Refuse edge features of another number or kind than in training."""
    width = inputs.edge_feats if inputs.edge_categories is None else len(inputs.edge_categories)
    check_columns(edge_feat, width, inputs.edge_categories, name, "edge feature")
    check_categories(edge_feat, inputs.edge_categories, name, "edge feature")


def check_columns(values: Tensor, width: int, categories: Sequence[int] | None, name: str, what: str) -> None:
    """Refuse features of another number or kind than in training."""
    if not isinstance(values, Tensor):
        raise DataError(f"{name} is {type(values).__name__}: give the {what}s as a tensor.")
    if values.dim() != 2 or values.shape[1] != width:
        found = f"{values.shape[1]} {what}s" if values.dim() == 2 else f"{what}s of shape {tuple(values.shape)}"
        raise DataError(f"{name} has {found}, the model was trained on {width}: give the same {what}s.")
    if values.is_floating_point() != (categories is None):
        found, trained = ("numbers", "categories") if categories is not None else ("categories", "numbers")
        raise DataError(f"the {what}s of {name} are {found}, but the model was trained on {trained}.")


def check_categories(values: Tensor, categories: Sequence[int] | None, name: str, what: str) -> None:
    """Refuse categories that the network has no weights for."""
    if categories is None or not len(values):
        return
    unseen = (values >= torch.tensor(categories, device=values.device)) | (values < 0)
    if bool(unseen.any()):
        row, column = unseen.nonzero()[0].tolist()
        known = f"0 to {categories[column] - 1} in training"
        raise DataError(f"{name}: category {int(values[row, column])} of {what} {column} is unknown; it had {known}.")


def _features(data: GraphData, inputs: Inputs) -> Tensor:
    """Match columns by name where both sets have names, else by position."""
    trained, given = inputs.feat_names, data.feat_names
    if _are_degrees(trained) and not _are_degrees(given):
        raise DataError(f"{data.name} has node features, but the model was trained without: leave them out.")
    if _are_degrees(given) and not _are_degrees(trained):
        on = f"{inputs.in_feats} features" if trained is None else _shown(trained)
        raise DataError(f"{data.name} has no node features, but the model was trained on {on}.")
    if trained is None or given is None or inputs.categories is not None:
        check_columns(data.feat, inputs.in_feats, inputs.categories, data.name, "node feature")
        return data.feat
    target = []
    for name in given:
        if name in trained:
            target.append(trained.index(name))
        elif is_degree(name):
            target.append(len(trained) - 1)
        else:
            raise DataError(f"{data.name}: {name!r} is unknown to the model, which was trained on {_shown(trained)}.")
    missing = [name for name in trained if not (name in given or is_degree(name) or is_node_label(name))]
    if missing:
        raise DataError(f"{data.name} lacks {missing[0]!r}: the model was trained on {_shown(trained)}.")
    return torch.zeros(len(data.feat), len(trained)).index_add_(1, torch.tensor(target), data.feat)


def _are_degrees(names: Sequence[str] | None) -> bool:
    """Return whether features stand for the degrees of nodes without features."""
    return names is not None and is_degree(names[0])


def _shown(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:12]) + (", ..." if len(names) > 12 else "")


def _labels(data: GraphData, inputs: Inputs) -> Tensor:
    """Match classes by name where both sets have names."""
    if inputs.metric != "acc":
        no_label = data.label.dim() == 1 or not bool(data.label.isfinite().any())
        if no_label or data.is_regression != (inputs.metric in LOWER_IS_BETTER):
            return torch.full((len(data), inputs.num_classes), float("nan"))
        return _targets(data, inputs)
    if data.label.dim() == 2:
        return torch.full((len(data),), UNLABELLED)
    if inputs.class_names and data.class_names:
        place = [_class_named(str(name), inputs.class_names) for name in data.class_names]
        if None in place:
            unknown, known = data.class_names[place.index(None)], _shown(inputs.class_names)
            fix = "name the classes as in training (dataset.class_names), or leave out the labels"
            raise DataError(f"{data.name}: class {unknown!r} is not among the model's classes {known}: {fix}.")
        return torch.tensor([*place, UNLABELLED])[data.label]               # -1 is the last entry
    if (largest := int(data.label.max())) >= inputs.num_classes:
        raise DataError(f"{data.name} has class {largest}, but the model has only {inputs.num_classes} classes.")
    return data.label


def _targets(data: GraphData, inputs: Inputs) -> Tensor:
    """Match targets or tasks by name where both sets have the same names, else by position."""
    trained, given = list(inputs.class_names or ()), list(data.class_names or ())
    if data.label.shape[1] != inputs.num_classes or (len(given) > 1 and trained and set(given) != set(trained)):
        has = _shown(given) if given else f"{data.label.shape[1]} targets"
        on = _shown(trained) if trained else f"{inputs.num_classes} targets"
        raise DataError(f"{data.name} has {has} to predict, the model {on}: name the same, or leave them out.")
    if len(given) > 1 and trained:
        return data.label[:, [given.index(name) for name in trained]]
    return data.label


def _class_named(name: str, classes: Sequence[str]) -> int | None:
    """Return the class of this name, or else the only one of the same value: 1 in one file may be 1.0 in another."""
    if name in classes:
        return list(classes).index(name)
    same = [code for code, known in enumerate(classes) if _value(known) is not None and _value(known) == _value(name)]
    return same[0] if len(same) == 1 else None


def _value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


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
        graph = as_graph(graph)
        check_edge_weight(edge_weight, graph.num_edges, graph.device)
        check_symmetric(graph, edge_weight)
        check_columns(feat, inputs.in_feats, inputs.categories, "feat", "node feature")
        check_categories(feat, inputs.categories, "feat", "node feature")
        if len(feat) != graph.num_nodes:
            raise JBPoolError(f"feat has {len(feat)} rows for {graph.num_nodes} nodes.")
        check_finite(feat)
        if feat.is_floating_point():
            feat = feat.float()
        if (edge_weight is not None) != inputs.weighted:
            fix = "give edge_weight" if inputs.weighted else "leave edge_weight out"
            raise JBPoolError(f"the model was trained {'with' if inputs.weighted else 'without'} edge weights: {fix}.")
        if inputs.edge_feats:
            if edge_feat is None or len(edge_feat) != graph.num_edges:
                rows = f"edge_feat with {graph.num_edges} rows"
                raise JBPoolError(f"the model was trained with edge features: give {rows}.")
            check_edge_feat(edge_feat, inputs, "edge_feat")
            check_finite(edge_feat, "edge_feat")
            edge_feat = as_numbers(edge_feat, inputs.edge_categories)
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
        found = (self.net.on_batch(batch, device)[0] for batch in batches)
        return torch.cat([averaged(scores, self.inputs.metric).cpu() for scores in found])

    def probabilities(self, scores: Tensor) -> Tensor:
        """Return the output of the network, ``(B, C)``, as probabilities."""
        if self.inputs.metric in LOWER_IS_BETTER:
            return scores                                       # regression
        return scores.softmax(1) if self.inputs.metric == "acc" else scores.sigmoid()


def load_trained(run_dir: Path) -> TrainedClassifier:
    """Return the model of a run: of the seed and fold with the best validation score."""
    stored = load_model(run_dir, MODEL, "of graph classification")
    with reporting_damage(run_dir / "model.pt"):
        problems: list[str] = []
        config = build(ClassifyConfig, stored["config"], "", lambda key: "model.pt", problems)
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
    with reporting_damage(run_dir / "model.pt"):
        net.load_state_dict(stored["state"])
    return TrainedClassifier(net, inputs, stored)


def predict(run_dir: Path, changes: Sequence[Change], out: Path, device: torch.device) -> Path:
    """Classify the graphs that ``changes`` specify, and write ``predictions.csv``: id, class, probabilities.

    No file of the training set is read. Labels are not needed; if there are any, the score is printed.
    """
    model = load_trained(run_dir).to(device)
    path = out / "predictions.csv"
    check_request(run_dir, changes, path)
    if not {change.key for change in changes} - {"dataset.root"}:
        raise ConfigError(
            "--predict: specify the new graphs, such as --set dataset.folder=new; the predictions for the test graphs "
            f"of the training set are in {run_dir / 'predictions.npz'}."
        )
    config = config_for(GRAPH_CLASSIFY, run_dir, changes, own_graph_options)
    options = config.dataset.options
    if config.dataset.name == "file":                           # a few numbers may be targets or classes
        known = "regression" if model.inputs.metric in LOWER_IS_BETTER else "classification"
        options = {"task": known, **options}
    data = load_graphs(config.dataset.name, config.dataset.root, **options)
    data = fitted(data, model.inputs, model.net.edge_messages)
    chosen = f"seed {model.seed}, fold {model.fold}, validation {digits(model.valid, model.inputs.metric)}"
    print(f"{data!r}\nthe model of {chosen}: the best one of {run_dir}")
    scores = model.scores(data, config.train.batch_size)
    _print_score(model, data, scores)
    _write(path, model, data, model.probabilities(scores))
    return path


def _print_score(model: TrainedClassifier, data: GraphData, scores: Tensor) -> None:
    """Print the scores of the labelled graphs, if there are any."""
    inputs = model.inputs
    data = replace(data, metric=inputs.metric)
    known = data.label != UNLABELLED if inputs.metric == "acc" else data.label.isfinite().any(1)
    if not bool(known.any()):
        return
    found, label = scores[known], data.label[known]
    try:
        value = score(replace(data, name=inputs.name), found, label)
    except RuntimeError as error:                       # ogb: a task with positive or negative labels only
        raise DataError(f"{data.name} cannot be scored: {error}") from None
    if data.name == inputs.name:
        print(f"{data.name} has the name of the training set: if it is the same, the score includes training graphs")
    some = f" of the {int(known.sum())} labelled graphs" if not bool(known.all()) else ""
    more = {name.removeprefix("test_"): of(found, label) for name, of in MORE_SCORES.get(inputs.metric, {}).items()}
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
        writer.writerows([name, found, *row] for name, found, row in zip(ids, names, numbers, strict=True))
    else:
        kind = "value" if model.inputs.metric in LOWER_IS_BETTER else "p"
        writer.writerow(["graph", *(f"{kind}_{name}" for name in model.classes)])
        writer.writerows([name, *row] for name, row in zip(ids, numbers, strict=True))
    write_text(path, table.getvalue())
