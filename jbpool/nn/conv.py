"""Message passing: the paper's operator ``I - delta (I - D^-1/2 A D^-1/2)``, and the usual layers beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from jbpool.checks import check_count, check_real
from jbpool.errors import JBPoolError
from jbpool.graph import Graph
from jbpool.inputs import checked_graph
from jbpool.nn.heads import Activation, make_activation
from jbpool.ops.adjacency import degree, inverse_sqrt, propagate, propagate_normalized, smooth
from jbpool.ops.sparse import at_least_float32, feature_product, is_sparse

Function = Callable[[Tensor], Tensor]


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
    activation : str or callable, optional
        Applied to the result: relu, elu, gelu, leaky_relu, silu, tanh, or a function such as ``torch.relu``.
        Default: none.

    Examples
    --------
    >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> conv = DeltaConv(16, 64, activation="relu")
    >>> conv(path, torch.randn(3, 16)).shape
    torch.Size([3, 64])
    """

    takes_sparse = True             # features as a CSR matrix; for layers without it they are converted to dense

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        delta: float = 0.85,
        *,
        bias: bool = True,
        activation: Activation | None = None,
    ):
        super().__init__()
        self.in_feats = check_count(in_feats, "in_feats")
        self.out_feats = check_count(out_feats, "out_feats")
        self.delta = check_real(delta, "delta")
        if not 0 <= self.delta <= 1:
            raise JBPoolError(f"delta={delta!r}: give a number from 0 to 1; larger steps do not smooth.")
        self.activation = None if activation is None else make_activation(activation)
        self.weight = nn.Parameter(torch.empty(in_feats, out_feats))
        self.bias = nn.Parameter(torch.empty(out_feats)) if bias else None
        self.reset_parameters()

    def __prepare_scriptable__(self):
        raise JBPoolError("TorchScript cannot compile layers of jbpool: use torch.compile or torch.export.")

    def reset_parameters(self) -> None:
        """Draw Glorot-uniform weights and set the bias to zero, as in DGL's ``GraphConv``."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    if TYPE_CHECKING:

        def __call__(self, graph: Any, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor: ...

    def forward(self, graph: Any, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Smooth the features and apply the dense layer.

        Parameters
        ----------
        graph : DGLGraph, Data, Batch or Graph
            Graph or batch of graphs that hold both directions of every edge.
        feat : Tensor
            Node features ``(N, in_feats)``, dense or sparse CSR.
        edge_weight : Tensor, optional
            Finite, non-negative weights ``(E,)``. Default: those of the graph.

        Returns
        -------
        Tensor
            ``(N, out_feats)``.
        """
        graph = checked_graph(graph, feat, edge_weight, self.weight.dtype, self.in_feats, sparse=True)
        # Smoothing and the dense product commute: smooth the narrower side. Sparse features are multiplied first.
        if is_sparse(feat) or self.in_feats > self.out_feats:
            feat = smooth(graph, feature_product(graph, feat, self.weight), self.delta).to(feat.dtype)
        else:
            feat = smooth(graph, feat, self.delta).to(feat.dtype) @ self.weight
        if self.bias is not None:
            feat += self.bias               # in place: autograd does not save the product
        return feat if self.activation is None else self.activation(feat)

    def extra_repr(self) -> str:
        return f"{self.in_feats}, {self.out_feats}, delta={self.delta}, bias={self.bias is not None}"


# The other backbones are parts of networks: a ``Graph`` comes in, and nothing is checked again. Sums over neighbours
# multiply the complete graphs of a pool as dense matrices, at least five times as fast as edge by edge.

class GraphConv(nn.Module):
    """A graph convolution, ``act(D^-1/2 A D^-1/2 X W + b)``, D being weighted degrees. Accepts sparse features.

    Parameters, their names and their initial values are those of DGL's layer of this name; so it is below.
    """

    takes_sparse = True

    def __init__(self, in_feats: int, out_feats: int, bias: bool = True, activation: Function = torch.relu):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_feats, out_feats))
        self.bias = nn.Parameter(torch.zeros(out_feats)) if bias else None
        self.activation = activation
        nn.init.xavier_uniform_(self.weight)

    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        mixed = propagate_normalized(graph, feature_product(graph, feat, self.weight), edge_weight).to(feat.dtype)
        return self.activation(mixed if self.bias is None else mixed + self.bias)


class GINConv(nn.Module):
    """A graph isomorphism layer with the sum over neighbours: ``act(MLP((1 + eps) x_i + sum_j w_ij x_j))``."""

    eps: Tensor

    def __init__(self, apply_func: nn.Module, activation: Function = torch.relu_):
        super().__init__()
        self.apply_func, self.activation = apply_func, activation
        self.register_buffer("eps", torch.zeros(1))

    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        mixed = torch.addcmul(propagate(graph, feat, edge_weight).to(feat.dtype), feat, 1 + self.eps)
        return self.activation(self.apply_func(mixed))


class GINEConv(GINConv):
    """GIN with edge features in the messages: ``MLP((1 + eps) x_i + sum_j w_ij ReLU(x_j + e_ij))``.

    ``edge_feat`` is ``(E, D)``, as wide as the node features.
    """

    def forward(  # type: ignore[override]
        self, graph: Graph, feat: Tensor, edge_feat: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        source, target = graph.edge_index.long()                                               # (E,) each
        message = torch.relu_(feat.index_select(0, source) + edge_feat)                        # (E, D)
        edge_weight = graph.edge_weight if edge_weight is None else edge_weight
        if edge_weight is not None:
            message = message * edge_weight.unsqueeze(-1).to(message.dtype)
        message = at_least_float32(message)
        total = message.new_zeros(feat.shape).index_add_(0, target, message).to(feat.dtype)    # (N, D)
        mixed = torch.addcmul(total, feat, 1 + self.eps)
        return self.activation(self.apply_func(mixed))


class SAGEConv(nn.Module):
    """A GraphSAGE layer with the mean over neighbours, weighted if there are edge weights. Accepts sparse features."""

    takes_sparse = True

    def __init__(self, in_feats: int, out_feats: int, bias: bool = True, activation: Function = torch.relu):
        super().__init__()
        self.activation = activation
        self.fc_neigh = nn.Linear(in_feats, out_feats, bias=False)
        self.fc_self = nn.Linear(in_feats, out_feats, bias=bias)
        gain = nn.init.calculate_gain("relu")
        nn.init.xavier_uniform_(self.fc_self.weight, gain)
        nn.init.xavier_uniform_(self.fc_neigh.weight, gain)

    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        share = inverse_sqrt(degree(graph, edge_weight, feat.dtype)).square().unsqueeze(-1)    # (N, 1)  one over degree

        def mean(values: Tensor) -> Tensor:
            return (share * propagate(graph, values, edge_weight)).to(feat.dtype)

        weight = self.fc_neigh.weight.T                                                        # (in, out)
        # As in DeltaConv: average the narrower side of the product.
        if is_sparse(feat) or weight.shape[0] > weight.shape[1]:
            neighbours = mean(feature_product(graph, feat, weight))
        else:
            neighbours = self.fc_neigh(mean(feat))
        if not is_sparse(feat):
            return self.activation(self.fc_self(feat) + neighbours)
        own, bias = feature_product(graph, feat, self.fc_self.weight.T), self.fc_self.bias
        return self.activation((own if bias is None else own + bias) + neighbours)


class Attention(nn.Module):
    """Graph attention: ``out_i = sum_j a_ij W x_j + b`` with ``a_i = softmax_j(LeakyReLU(l . W x_j + r . W x_i))``.

    Edge weights multiply the attention after the softmax. A node without edges gets b.
    """

    def __init__(self, in_feats: int, width: int, heads: int, bias: bool = True):
        super().__init__()
        self.width, self.heads = width, heads
        self.fc = nn.Linear(in_feats, width * heads, bias=False)
        self.attn_l = nn.Parameter(torch.empty(1, heads, width))
        self.attn_r = nn.Parameter(torch.empty(1, heads, width))
        self.bias = nn.Parameter(torch.zeros(heads * width)) if bias else None
        gain = nn.init.calculate_gain("relu")
        for weight in (self.fc.weight, self.attn_l, self.attn_r):
            nn.init.xavier_normal_(weight, gain)

    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Apply the layer: ``(N, in_feats)`` to ``(N, heads * width)``."""
        rows = self.fc(feat).view(-1, self.heads, self.width)                                   # (N, H, D)
        source, target = graph.edge_index.long()                                                # (E,) each
        left, right = (rows * self.attn_l).sum(-1), (rows * self.attn_r).sum(-1)                # (N, H) each
        score = leaky_relu(left.index_select(0, source) + right.index_select(0, target), 0.2)   # (E, H)
        weight = _softmax_over_edges(at_least_float32(score), target, graph.num_nodes)          # (E, H)
        edge_weight = graph.edge_weight if edge_weight is None else edge_weight
        if edge_weight is not None:
            weight = weight * edge_weight.to(weight.dtype).unsqueeze(-1)
        mixed = torch.stack([propagate(graph, rows[:, h], weight[:, h]) for h in range(self.heads)], dim=1)
        mixed = mixed.to(feat.dtype).flatten(1)                                                 # (N, H * D)
        return mixed if self.bias is None else mixed + self.bias


def _softmax_over_edges(score: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Return the softmax over the edges that end in the same node: ``(E, H)`` to ``(E, H)``."""
    index = target.unsqueeze(1).expand_as(score)
    with torch.no_grad():                           # any constant per node cancels; the largest keeps exp in range
        highest = score.new_zeros(num_nodes, score.shape[1])
        highest.scatter_reduce_(0, index, score, "amax", include_self=False)
    power = (score - highest.index_select(0, target)).exp()
    total = power.new_zeros(num_nodes, power.shape[1]).index_add(0, target, power)
    return power / total.index_select(0, target)


class GATConv(nn.Module):
    """``Attention`` with concatenated heads, ``out_feats`` wide in total, and ReLU."""

    def __init__(self, in_feats: int, out_feats: int, heads: int = 4, bias: bool = True):
        super().__init__()
        heads = heads if out_feats % heads == 0 else 1
        self.conv = Attention(in_feats, out_feats // heads, heads, bias)

    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.conv(graph, feat, edge_weight).relu()


def _mlp(in_feats: int, out_feats: int, bias: bool) -> nn.Module:
    return nn.Sequential(nn.Linear(in_feats, out_feats), nn.ReLU(inplace=True), nn.Linear(out_feats, out_feats, bias))


# Backbones: (in_feats, out_feats, delta, bias=True) -> a layer called with (graph, feat, edge_weight=...), ReLU
# included; bias: that of the last linear map.


def delta(in_feats: int, out_feats: int, delta: float, bias: bool = True) -> nn.Module:
    return DeltaConv(in_feats, out_feats, delta, bias=bias, activation=torch.relu_)


def gcn(in_feats: int, out_feats: int, _: float, bias: bool = True) -> nn.Module:
    return GraphConv(in_feats, out_feats, bias)


def gin(in_feats: int, out_feats: int, _: float, bias: bool = True) -> nn.Module:
    return GINConv(_mlp(in_feats, out_feats, bias))


def gine(in_feats: int, out_feats: int, _: float, bias: bool = True) -> nn.Module:
    """Return the backbone ``gin`` with edge features in its messages."""
    return GINEConv(_mlp(in_feats, out_feats, bias))


def sage(in_feats: int, out_feats: int, _: float, bias: bool = True) -> nn.Module:
    return SAGEConv(in_feats, out_feats, bias)


def gat(in_feats: int, out_feats: int, _: float, bias: bool = True) -> nn.Module:
    return GATConv(in_feats, out_feats, bias=bias)


BACKBONES: dict[str, Callable[..., nn.Module]] = {"delta": delta, "gcn": gcn, "gin": gin, "sage": sage, "gat": gat}
