"""The networks of a configuration for a dataset, and what it must know about the dataset."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from jbpool.classification.config import ClassifyConfig, fixed_clusters
from jbpool.classification.encoders import CategoryEncoder, FeatureEncoder, centre_and_scale
from jbpool.classification.network import Ensemble, GraphClassifier
from jbpool.data import GraphData
from jbpool.nn.cluster_pool import ClusterPool
from jbpool.nn.pools import make_pool


@dataclass(frozen=True)
class Inputs:
    """What a network must know about its dataset: the content of ``inputs`` in ``model.pt``."""

    name: str                               # of the dataset
    metric: str
    num_classes: int                        # classes, or tasks
    class_names: list[str] | None
    in_feats: int                           # node features
    feat_names: list[str] | None
    categories: list[int] | None            # of each node feature; None: features are numbers
    weighted: bool                          # edges have weights
    edge_feats: int                         # width of the edge sums; 0: none
    edge_names: list[str] | None            # of the columns of the edge features
    edge_categories: list[int] | None       # of each edge feature; None: they are numbers

    @classmethod
    def of(cls, data: GraphData) -> Inputs:
        """Those of a dataset with edge sums."""
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
    """K of every level: as configured, or ``ratio`` times the mean size of the graphs of the previous level."""
    if config.model.ratio is None:
        return fixed_clusters(config.model)
    return [max(2, round(mean_size * config.model.ratio ** (level + 1))) for level in range(config.model.levels)]


def make_model(config: ClassifyConfig, data: GraphData, train: Tensor) -> Ensemble:
    """The networks of a configuration for these training graphs."""
    mean_size, batch = data.mean_size(train), data.batch(train)
    clusters = numbers_of_clusters(config, mean_size)
    edges = batch.edge_feat if config.model.edges == "messages" else batch.edge_sum
    return build_model(config, Inputs.of(data), clusters, batch.feat, edges, mean_size)


def build_model(
    config: ClassifyConfig,
    inputs: Inputs,
    clusters: list[int],
    train_feat: Tensor | None = None,
    train_edges: Tensor | None = None,
    mean_size: float = 1.0,
) -> Ensemble:
    """The networks of a configuration.

    Parameters
    ----------
    config : ClassifyConfig
        The configuration.
    inputs : Inputs
        About the dataset.
    clusters : list of int
        K of every level.
    train_feat : Tensor, optional
        Features of the training graphs, which numbers are scaled by. Default: a state will be loaded.
    train_edges : Tensor, optional
        Their edge features or edge sums, likewise.
    mean_size : float, default 1
        Mean number of nodes of the training graphs, unless a state will be loaded.
    """
    model = config.model

    def encoder() -> nn.Module:
        if inputs.categories is not None:
            return CategoryEncoder(inputs.categories, model.hidden)
        return FeatureEncoder(torch.zeros(1, inputs.in_feats) if train_feat is None else train_feat, model.hidden)

    edge_scaling = None
    if inputs.edge_feats and inputs.edge_categories is None:
        edge_scaling = centre_and_scale(torch.zeros(0, inputs.edge_feats) if train_edges is None else train_edges)

    def pool(num_clusters: int) -> ClusterPool | None:
        if model.pool == "none":
            return None
        return make_pool(model.pool, model.hidden, num_clusters, model.mlp, options=config.method)

    def network() -> GraphClassifier:
        return GraphClassifier(
            encoder(), [pool(num_clusters) for num_clusters in clusters], inputs.num_classes,
            backbone=model.backbone, layers=model.layers, hidden=model.hidden, delta=model.delta,
            edge_feats=inputs.edge_feats, edge_scaling=edge_scaling, edge_messages=model.edges == "messages",
            readout=model.readout.split("+"),
            read_all=model.readout_of == "all", mean_size=mean_size, norm=model.norm, dropout=model.dropout,
        )  # fmt: skip

    return Ensemble([network() for _ in range(model.members)])
