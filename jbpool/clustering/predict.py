"""Apply a trained model to another graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from jbpool.clustering.auto.refinement import ClusterModel
from jbpool.clustering.config import ClusterConfig
from jbpool.clustering.network import ClusterNet, make_model
from jbpool.clustering.run import load_data
from jbpool.clustering.scores import label_scores
from jbpool.data import NodeData
from jbpool.engine.config import read_file
from jbpool.engine.predict import called_with, check_given, config_of_run, in_order, load_model, match_columns
from jbpool.engine.run_folder import write_assign_csv
from jbpool.errors import ConfigError, JBPoolError
from jbpool.files import reporting_damage


def predict(run_dir: Path, config: ClusterConfig, path: Path, device: torch.device) -> None:
    """Cluster the graph of a configuration, and write ``path``, a table with id, cluster, confidence.

    No file of the training graph is read. Labels are not needed; if there are any, scores are printed.
    """
    model = load_trained(run_dir).to(device)
    data = load_data(config)
    cluster, confidence = model.predict(data)
    write_assign_csv(path, data.own_ids, cluster, confidence)
    print(data.summary)
    for name, value in ({} if data.label is None else label_scores(cluster, data.label)).items():
        print(f"{name}: {value:.3f}")


class TrainedClusters(nn.Module):
    """A trained model of node clustering, in evaluation mode.

    Parameters
    ----------
    net : ClusterNet or ClusterModel
        The network of a pool, or what ``auto`` left.
    in_feats : int
        Number of features.
    num_clusters : int
        K.
    feat_names : list of str, optional
        Names of the features, if they have names.
    """

    def __init__(
        self, net: ClusterNet | ClusterModel, in_feats: int, num_clusters: int, feat_names: list[str] | None = None
    ):
        super().__init__()
        self.net, self.in_feats, self.num_clusters, self.feat_names = net, in_feats, num_clusters, feat_names
        self.eval()

    def train(self, mode: bool = True) -> TrainedClusters:
        """Stay in evaluation mode, also as part of a network that is trained: nothing here is learned further."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, graph: Any, feat: Tensor, edge_weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the cluster of every node, and how sure it is.

        Parameters
        ----------
        graph : DGLGraph, Data, Batch or Graph
            Holds both directions of every edge.
        feat : Tensor
            ``(N, D)``, dense or sparse CSR: the features of the training graph, in their order.
        edge_weight : Tensor, optional
            Finite, non-negative weights ``(E,)``. Default: all ones.

        Returns
        -------
        (Tensor, Tensor)
            Clusters ``(N,)`` and their confidence ``(N,)``.
        """
        graph, feat, edge_weight = called_with(graph, feat, edge_weight, self.in_feats)
        if isinstance(self.net, ClusterModel):
            return self.net(graph, feat, edge_weight)
        assign, _ = self.net(graph, self.net.prepare(graph, feat, edge_weight), edge_weight)
        return assign.argmax(1), assign.amax(1)

    def predict(self, data: NodeData) -> tuple[Tensor, Tensor]:
        """Return the cluster of every node of a dataset and its confidence, ``(N,)`` each, on the CPU.

        Columns of features are matched by name where both have names.
        """
        if not isinstance(data, NodeData):
            got = type(data).__name__
            raise JBPoolError(f"data is {got}: give what load_nodes returns, or call model(graph, feat).")
        check_given(data.feat is not None, True, f"features (dataset.features of {data.name})")
        assert data.feat is not None
        feat = in_order(data.feat, match_columns(self.feat_names, data.feat_names, f"{data.name}: feature"))
        device = next(iter(self.net.state_dict().values())).device
        weight = None if data.edge_weight is None else data.edge_weight.to(device)
        cluster, confidence = self(data.graph.to(device), feat.to(device), weight)
        return cluster.cpu(), confidence.cpu()


def load_trained(run_dir: Path) -> TrainedClusters:
    """Return the model of a finished run of a pool or ``auto``, on a graph with features."""
    stored = load_model(run_dir)
    config = config_of_run(ClusterConfig, read_file(run_dir / "config.yaml")[0], run_dir / "config.yaml")
    net: ClusterNet | ClusterModel
    with reporting_damage(run_dir / "model.pt"):
        if stored["made_feat"]:
            raise ConfigError(
                f"the model of {run_dir} was trained without features: its inputs, eigenvectors of one graph, are not "
                "comparable between graphs. Train on a graph with features, or cluster the new one."
            )
        in_feats, num_clusters, auto = stored["in_feats"], stored["num_clusters"], config.method.name == "auto"
        net = ClusterModel(num_clusters, in_feats) if auto else make_model(config, in_feats, num_clusters)
        net.load_state_dict(stored["state"])
        return TrainedClusters(net, in_feats, num_clusters, stored["feat_names"])
