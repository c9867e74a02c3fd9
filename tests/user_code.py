"""A page of code as users write it. Not run: mypy checks it against the installed package (test_wheel.py)."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import assert_type

import jbpool
from jbpool import DeltaConv, Graph, JBClustering, JBPool, MinCutPool, Pooled, as_graph, objectives, pool_by


class Classifier(nn.Module):
    def __init__(self, in_feats: int, num_classes: int):
        super().__init__()
        self.conv = DeltaConv(in_feats, 64, activation="relu")
        self.pool = JBPool(64, num_clusters=6, hidden_feats=[32], sqrt="diagonal", activation=torch.relu)
        self.head = nn.Linear(64, num_classes)

    def forward(self, graph: Graph, feat: Tensor) -> tuple[Tensor, Tensor]:
        feat = assert_type(self.conv(graph, feat), Tensor)
        pooled = assert_type(self.pool(graph, feat), Pooled)
        rows = pooled.feat.view(graph.num_graphs, -1, pooled.feat.shape[1])
        return self.head(rows.mean(1)), pooled.loss


def two_levels(graph: Graph, feat: Tensor, weight: Tensor) -> Tensor:
    one = JBPool(16, 8, head="cosine", temperature=0.5)(graph, feat, weight)
    two = MinCutPool(16, 4)(one.graph, one.feat, one.edge_weight)
    assert_type(two.losses, dict[str, Tensor])
    assert_type(two.adj, Tensor)
    return one.lift(two.lift(two.feat)) + one.pool_edges(weight[:, None]).sum()


def functions(graph: Any, feat: Tensor, cluster: Tensor) -> None:
    found = assert_type(as_graph(graph), Graph)
    assert_type(pool_by(found, feat, cluster, 3), Pooled)
    assign, losses = JBPool(16, 3).cluster(graph, feat)
    assert_type(objectives.balance_loss(assign, found.sizes, sqrt="matrix"), Tensor)
    assert_type(losses["balance"], Tensor)
    with jbpool.value_checks("all"):
        labels: NDArray[Any] = JBClustering(n_clusters=3).fit_predict(graph, features=feat.numpy())
        print(labels.shape)


JBPool(16, 4, sqrt="matirx")                                # type: ignore[arg-type]
JBPool(16, 4, head="bounded")                               # type: ignore[arg-type]
JBPool(16, 4, activation="rleu")                            # type: ignore[arg-type]
DeltaConv(16, 4, activation="rleu")                         # type: ignore[arg-type]
objectives.balance_loss(torch.ones(3, 2), sqrt="root")      # type: ignore[arg-type]
jbpool.value_checks("some")                                 # type: ignore[arg-type]
print(JBPool(16, 4)(Graph(torch.zeros(2, 0, dtype=torch.int64), 3), torch.ones(3, 16)).los)    # type: ignore[attr-defined]
