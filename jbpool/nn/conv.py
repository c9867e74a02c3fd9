"""Message passing: the paper's operator ``I - delta (I - D^-1/2 A D^-1/2)``, and DGL's layers with one interface."""

from __future__ import annotations

from collections.abc import Callable

import dgl
import torch
from dgl import DGLGraph
from torch import Tensor, nn

from jbpool.checks import check_count, check_real
from jbpool.ops.adjacency import degree, inverse_sqrt, propagate, propagate_normalized, smooth
from jbpool.ops.graph_checks import check_edge_weight, check_feat, check_graph
from jbpool.ops.sparse import feature_product, is_sparse


class DeltaConv(nn.Module):
    """The message-passing layer of Just Balance (paper Eq. 9).

    ``X' = act((I - delta (I - D^-1/2 A D^-1/2)) X W + b)``. ``delta=1`` is a graph convolution without self loops,
    ``delta=0`` a dense layer.

    Parameters
    ----------
    in_feats : int
        Size of the input features.
    out_feats : int
        Size of the output features.
    delta : float, optional
        Step size of the smoothing. Default: 0.85, as in the paper.
    bias : bool, optional
        Add a learned ``b``. Default: True.
    activation : callable, optional
        Applied to the result, e.g. ``torch.relu``. Default: none.

    Examples
    --------
    >>> graph = dgl.add_reverse_edges(dgl.rand_graph(100, 300))
    >>> conv = DeltaConv(16, 64, activation=torch.relu)
    >>> conv(graph, torch.randn(100, 16)).shape
    torch.Size([100, 64])
    """

    takes_sparse = True             # features as a CSR matrix; for layers without it they are converted to dense

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        delta: float = 0.85,
        *,
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
    ):
        super().__init__()
        self.in_feats = check_count(in_feats, "in_feats")
        self.out_feats = check_count(out_feats, "out_feats")
        self.delta = check_real(delta, "delta")
        self.activation = activation
        self.weight = nn.Parameter(torch.empty(in_feats, out_feats))
        self.bias = nn.Parameter(torch.empty(out_feats)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform weights and zero bias, as in DGL's ``GraphConv``."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Smooth the features and apply the dense layer.

        Parameters
        ----------
        graph : DGLGraph
            Graph or batch of graphs that hold both directions of every edge.
        feat : Tensor
            Node features ``(N, in_feats)``, dense or sparse CSR.
        edge_weight : Tensor, optional
            Finite, non-negative weights ``(E,)``. Default: all ones.

        Returns
        -------
        Tensor
            ``(N, out_feats)``.
        """
        check_graph(graph)
        check_feat(graph, feat, self.weight.dtype, self.in_feats, sparse=True)
        check_edge_weight(graph, edge_weight)
        # Smoothing and the dense product commute: smooth the narrower side. Sparse features are multiplied first.
        if is_sparse(feat) or self.in_feats > self.out_feats:
            feat = smooth(graph, feature_product(feat, self.weight), self.delta, edge_weight).to(feat.dtype)
        else:
            feat = smooth(graph, feat, self.delta, edge_weight).to(feat.dtype) @ self.weight
        if self.bias is not None:
            feat += self.bias               # in place: autograd does not save the product
        return feat if self.activation is None else self.activation(feat)

    def extra_repr(self) -> str:
        return f"{self.in_feats}, {self.out_feats}, delta={self.delta}, bias={self.bias is not None}"


# DGL's layers. Sums over neighbours use ``propagate``, which multiplies the complete graphs returned by a pool as dense
# matrices, at least five times as fast as edge by edge.


class GraphConv(dgl.nn.GraphConv):
    """DGL's ``GraphConv``, normalised by weighted degrees if there are edge weights. Accepts sparse features.

    Unlike DGL's own forward pass, it reads no degrees from the device.
    """

    takes_sparse = True

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        mixed = propagate_normalized(graph, feature_product(feat, self.weight), edge_weight).to(feat.dtype)
        return self._activation(mixed if self.bias is None else mixed + self.bias)


class GINConv(dgl.nn.GINConv):
    """DGL's ``GINConv`` with the sum over neighbours."""

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        mixed = torch.addcmul(propagate(graph, feat, edge_weight).to(feat.dtype), feat, 1 + self.eps)
        return self.activation(self.apply_func(mixed))


class GINEConv(GINConv):
    """GIN with edge features in the messages: ``MLP((1 + eps) x_i + sum_j w_ij ReLU(x_j + e_ij))``.

    ``edge_feat`` is ``(E, D)``, as wide as the node features.
    """

    def forward(  # type: ignore[override]
        self, graph: DGLGraph, feat: Tensor, edge_feat: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        source, target = (ends.long() for ends in graph.edges())                               # (E,) each
        message = torch.relu_(feat.index_select(0, source) + edge_feat)                        # (E, D)
        if edge_weight is not None:
            message = message * edge_weight.unsqueeze(-1).to(message.dtype)
        mixed = torch.addcmul(torch.zeros_like(feat).index_add_(0, target, message), feat, 1 + self.eps)
        return self.activation(self.apply_func(mixed))


class SAGEConv(dgl.nn.SAGEConv):
    """DGL's ``SAGEConv`` with the mean over neighbours, weighted if there are edge weights. Accepts sparse features."""

    takes_sparse = True

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        share = inverse_sqrt(degree(graph, edge_weight, feat.dtype)).square().unsqueeze(-1)    # (N, 1)  one over degree

        def mean(values: Tensor) -> Tensor:
            return (share * propagate(graph, values, edge_weight)).to(feat.dtype)

        weight = self.fc_neigh.weight.T                                                        # (in, out)
        # As in DeltaConv: average the narrower side of the product.
        if is_sparse(feat) or weight.shape[0] > weight.shape[1]:
            neighbours = mean(feature_product(feat, weight))
        else:
            neighbours = self.fc_neigh(mean(feat))
        if not is_sparse(feat):
            return self.activation(self.fc_self(feat) + neighbours)
        own, bias = feature_product(feat, self.fc_self.weight.T), self.fc_self.bias
        return self.activation((own if bias is None else own + bias) + neighbours)


class GATConv(nn.Module):
    """DGL's ``GATConv`` with concatenated heads, ``out_feats`` wide in total."""

    def __init__(self, in_feats: int, out_feats: int, heads: int = 4, bias: bool = True):
        super().__init__()
        heads = heads if out_feats % heads == 0 else 1
        width = out_feats // heads
        self.conv = dgl.nn.GATConv(in_feats, width, heads, activation=torch.relu, allow_zero_in_degree=True, bias=bias)

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        weight = None if edge_weight is None else edge_weight.to(feat.dtype)
        return self.conv(graph, feat, edge_weight=weight).flatten(1)


def _mlp(in_feats: int, out_feats: int, bias: bool) -> nn.Module:
    return nn.Sequential(nn.Linear(in_feats, out_feats), nn.ReLU(inplace=True), nn.Linear(out_feats, out_feats, bias))


def gine(in_feats: int, out_feats: int, delta: float, bias: bool = True) -> nn.Module:
    """The backbone ``gin`` with edge features in its messages."""
    return GINEConv(_mlp(in_feats, out_feats, bias), "sum", activation=torch.relu_)


# name -> (in_feats, out_feats, delta, bias=True) -> a layer called with (graph, feat, edge_weight=...), ReLU included;
# bias: that of the last linear map
BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "delta": lambda i, o, delta, bias=True: DeltaConv(i, o, delta, bias=bias, activation=torch.relu_),
    "gcn": lambda i, o, _, bias=True: GraphConv(i, o, bias=bias, activation=torch.relu, allow_zero_in_degree=True),
    "gin": lambda i, o, _, bias=True: GINConv(_mlp(i, o, bias), "sum", activation=torch.relu_),
    "sage": lambda i, o, _, bias=True: SAGEConv(i, o, "mean", bias=bias, activation=torch.relu),
    "gat": lambda i, o, _, bias=True: GATConv(i, o, bias=bias),
}
