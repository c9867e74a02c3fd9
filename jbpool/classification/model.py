"""The network of a configuration: encoder, pools and their numbers of clusters."""

from __future__ import annotations

from torch import Tensor, nn

from jbpool.classification.config import ClassifyConfig
from jbpool.classification.encoders import CategoryEncoder, FeatureEncoder
from jbpool.classification.network import GraphClassifier
from jbpool.data import GraphData
from jbpool.nn.cluster_pool import ClusterPool
from jbpool.nn.pools import make_pool


def numbers_of_clusters(config: ClassifyConfig, mean_size: float) -> list[int]:
    """K of every level: as configured, or ``ratio`` times the mean size of the graphs of the previous level.

    By default 4 at the last level, and four times as many at every level before.
    """
    levels, given, ratio = config.model.levels, config.model.num_clusters, config.model.ratio
    if given is not None:
        return given if len(given) == levels else given * levels
    if ratio is None:
        return [4 ** (levels - level) for level in range(levels)]
    return [max(2, round(mean_size * ratio ** (level + 1))) for level in range(levels)]


def make_model(config: ClassifyConfig, data: GraphData, train: Tensor) -> GraphClassifier:
    """The network of a configuration for these training graphs."""
    model = config.model
    encoder: nn.Module
    if data.feat.is_floating_point():
        encoder = FeatureEncoder(data.batch(train).feat, model.hidden)
    else:
        encoder = CategoryEncoder((data.feat.amax(0) + 1).tolist(), model.hidden)
    clusters = numbers_of_clusters(config, data.sizes[train].float().mean().item())

    def pool(num_clusters: int) -> ClusterPool | None:
        if model.pool == "none":
            return None
        return make_pool(model.pool, model.hidden, num_clusters, model.mlp, options=config.method)

    return GraphClassifier(
        encoder, [pool(num_clusters) for num_clusters in clusters], data.num_classes,
        backbone=model.backbone, layers=model.layers, hidden=model.hidden, delta=model.delta,
        edge_feats=0 if data.edge_sum is None else data.edge_sum.shape[1],
        readout=model.readout.split("+"), read_all=model.readout_of == "all", norm=model.norm, dropout=model.dropout,
    )  # fmt: skip
