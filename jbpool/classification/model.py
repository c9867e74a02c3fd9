"""What a network must know about its dataset, and the networks of a configuration."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from jbpool.classification.class_scores import LOWER_IS_BETTER
from jbpool.classification.config import ClassifyConfig, fixed_clusters
from jbpool.classification.network import (
    CategoryEncoder,
    EdgeInputs,
    Ensemble,
    FeatureEncoder,
    GraphClassifier,
    centre_and_scale,
)
from jbpool.data import GraphBatch, GraphData
from jbpool.names import SELECTIONS
from jbpool.nn.pools import ClusterPool, make_pool
from jbpool.nn.selection import SelectionPool


@dataclass(frozen=True)
class Inputs:
    """What a network must know about its dataset: the content of ``inputs`` in ``model.pt``."""

    name: str                               # of the dataset
    metric: str
    num_classes: int                        # classes, tasks or targets
    class_names: list[str] | None
    in_feats: int                           # node features
    feat_names: list[str] | None
    categories: list[int] | None            # of each node feature; None: features are numbers
    weighted: bool                          # edges have weights
    edge_feats: int                         # width of the edge sums; 0: none
    edge_names: list[str] | None            # of the columns of the edge features
    edge_categories: list[int] | None       # of each edge feature; None: they are numbers

    @property
    def edge_columns(self) -> tuple[int, list[int] | None]:
        """How many edge features there are, and their categories."""
        return self.edge_feats if self.edge_categories is None else len(self.edge_categories), self.edge_categories

    @classmethod
    def of(cls, data: GraphData) -> Inputs:
        """Return the inputs of a dataset with edge sums."""
        return cls(
            name=data.name,
            metric=data.metric,
            num_classes=data.num_classes,
            class_names=None if data.class_names is None else [str(name) for name in data.class_names],
            in_feats=data.feat.shape[1],
            feat_names=None if data.feat_names is None else list(data.feat_names),
            categories=None if data.feat.is_floating_point() else (data.feat.amax(0) + 1).tolist(),
            weighted=data.edge_weight is not None,
            edge_names=None if data.edge_names is None else list(data.edge_names),
            edge_feats=0 if data.edge_sum is None else data.edge_sum.shape[1],
            edge_categories=None if data.edge_categories is None else list(data.edge_categories),
        )


def numbers_of_clusters(config: ClassifyConfig, mean_size: float) -> list[int]:
    """Return K of every level: as configured, or ``ratio`` times the mean size of the graphs of the previous level."""
    if config.model.ratio is None or config.model.num_clusters is not None:
        return fixed_clusters(config.model)
    return [max(2, round(mean_size * config.model.ratio ** (level + 1))) for level in range(config.model.levels)]


def make_model(config: ClassifyConfig, data: GraphData, train: Tensor) -> Ensemble:
    """Return the networks of a configuration for these training graphs."""
    return build_model(
        config, Inputs.of(data), numbers_of_clusters(config, data.mean_size(train)), data.batch(train)
    )


def build_model(
    config: ClassifyConfig, inputs: Inputs, clusters: list[int], train: GraphBatch | None = None
) -> Ensemble:
    """Return the networks of a configuration; ``clusters``: K of every level.

    ``train``: the training graphs, by which features, targets and sizes are scaled; without them, a state will be
    loaded.
    """
    model, edge_messages = config.model, config.model.edges == "messages"
    feat, edges = torch.zeros(1, inputs.in_feats), torch.zeros(0, inputs.edge_feats)
    mean_size = 1.0
    if train is not None:
        train_edges = train.edge_feat if edge_messages else train.edge_sum
        feat, edges = train.feat, edges if train_edges is None else train_edges
        mean_size = train.graph.sizes.float().mean().item()

    def encoder() -> nn.Module:
        if inputs.categories is not None:
            return CategoryEncoder(inputs.categories, model.hidden)
        return FeatureEncoder(feat, model.hidden)

    edge_scaling = None
    if inputs.edge_feats and inputs.edge_categories is None:
        edge_scaling = centre_and_scale(edges)
    target_scaling = None
    if inputs.metric in LOWER_IS_BETTER:
        targets = torch.zeros(1, inputs.num_classes) if train is None else train.label
        target_scaling = mean_and_deviation(targets.double())

    def pool(num_clusters: int) -> ClusterPool | SelectionPool | None:
        if model.pool == "none":
            return None
        if model.pool in SELECTIONS:
            return SelectionPool(model.pool, model.hidden, model.ratio)
        ratio = None if model.num_clusters is None else model.ratio
        return make_pool(model.pool, model.hidden, num_clusters, model.mlp, ratio=ratio, options=config.method)

    def network() -> GraphClassifier:
        return GraphClassifier(
            encoder(), [pool(num_clusters) for num_clusters in clusters], inputs.num_classes,
            backbone=model.backbone, layers=model.layers, hidden=model.hidden, delta=model.delta,
            edges=EdgeInputs(inputs.edge_feats, edge_messages, edge_scaling), readout=model.readout.split("+"),
            mean_size=mean_size if model.readout_of == "all" else None, norm=model.norm, dropout=model.dropout,
        )  # fmt: skip

    return Ensemble([network() for _ in range(model.members)], target_scaling)


def mean_and_deviation(targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return what standardises targets, ``(T,)`` each; the deviation of a target that does not vary counts as 1."""
    centre = targets.nanmean(0).nan_to_num()
    deviation = (targets - centre).square().nanmean(0).sqrt()
    return centre, torch.where(deviation > 1e-12 * centre.abs(), deviation, 1.0)
