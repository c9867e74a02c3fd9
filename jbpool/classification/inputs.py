"""New graphs made to fit a trained network: columns, categories and classes as in training, or a clear error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from jbpool.classification.model import Inputs
from jbpool.data import GraphData
from jbpool.data.containers import UNLABELLED
from jbpool.data.one_hot import is_degree, is_node_label
from jbpool.errors import DataError


def fitted(data: GraphData, inputs: Inputs, edge_messages: bool = False) -> GraphData:
    """The same graphs with the columns of features, the edge sums and the classes of the training set.

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
    """Columns by name where both sets have names, else by position."""
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
    """Columns by name where both sets have names, else by position."""
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
    """Whether features stand for the degrees of nodes without features."""
    return names is not None and is_degree(names[0])


def _shown(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:12]) + (", ..." if len(names) > 12 else "")


def _labels(data: GraphData, inputs: Inputs) -> Tensor:
    """Classes by name where both sets have names."""
    if inputs.metric != "acc":
        if data.label.dim() == 2 and data.label.shape[1] == inputs.num_classes:
            return data.label
        return torch.full((len(data), inputs.num_classes), float("nan"))
    if data.label.dim() == 2:
        return torch.full((len(data),), UNLABELLED)
    if inputs.class_names and data.class_names:
        place = [_class_named(str(name), inputs.class_names) for name in data.class_names]
        if None in place:
            unknown, known = data.class_names[place.index(None)], _shown(inputs.class_names)
            cure = "name the classes as in training (dataset.class_names), or leave out the labels"
            raise DataError(f"{data.name}: class {unknown!r} is none of the model's classes {known}: {cure}.")
        return torch.tensor([*place, UNLABELLED])[data.label]               # -1 is the last entry
    if int(data.label.max()) >= inputs.num_classes:
        raise DataError(f"{data.name} has class {int(data.label.max())}, the model only {inputs.num_classes} classes.")
    return data.label


def _class_named(name: str, classes: Sequence[str]) -> int | None:
    """The class of this name, or else the only one of the same value: 1 in one file may be 1.0 in another."""
    if name in classes:
        return list(classes).index(name)
    same = [code for code, known in enumerate(classes) if _value(known) is not None and _value(known) == _value(name)]
    return same[0] if len(same) == 1 else None


def _value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
