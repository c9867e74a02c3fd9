"""One training step of the paper's network: ours, DGL and PyG.

    python scripts/bench/step.py [--datasets cora dblp] [--rounds 15] [--device cuda]

All start from the same weights and must compute the same assignments before they are timed. DGL and PyG are used as
their users do: dense features, the weighted operator as edges. They minimise the element-wise form, ours also the exact
one.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import pairwise

import torch
from timing import add_device, chosen_device, missing, profiled, take_turns, write
from torch import Tensor, nn


def element_wise(logits: Tensor) -> Tensor:
    """Return the loss of the author's code."""
    assign = logits.softmax(-1)
    return -torch.trace(torch.sqrt(assign.T @ assign + 1e-15)) / (len(assign) * assign.shape[1]) ** 0.5


class Peer(nn.Module):
    """The paper's network with layers of another library; ``call`` applies a layer."""

    def __init__(self, convs, mlp, call):
        super().__init__()
        self.convs, self.mlp, self.call = nn.ModuleList(convs), mlp, call

    def forward(self, feat: Tensor) -> Tensor:
        for conv in self.convs:
            feat = self.call(conv, feat).relu()
        return self.mlp(feat)


def peers(data, ours, without: list[str]) -> dict[str, Peer]:
    import copy

    from jbpool.ops.adjacency import sparse_operator

    operator = sparse_operator(data.graph, None, torch.float32, delta=0.85).matrix.to_sparse_coo()
    target, source = operator.indices().long()
    weight = operator.values()
    sizes = [data.feat.shape[1], *[64] * 10]
    found = {}
    mlp = copy.deepcopy(ours.pool.mlp)
    if "dgl" not in without:
        import dgl

        graph = dgl.graph((source, target), num_nodes=data.graph.num_nodes)
        convs = [dgl.nn.GraphConv(i, o, norm="none") for i, o in pairwise(sizes)]
        for conv, our in zip(convs, ours.convs, strict=True):
            conv.weight.data, conv.bias.data = our.weight.data.clone(), our.bias.data.clone()
        peer = Peer(convs, mlp, lambda conv, feat: conv(graph, feat, edge_weight=weight))
        found["DGL GraphConv"] = peer.to(weight.device)
    if "torch_geometric" not in without:
        from torch_geometric.nn import GCNConv

        edges = torch.stack([source, target])
        convs = [GCNConv(i, o, normalize=False) for i, o in pairwise(sizes)]
        for conv, our in zip(convs, ours.convs, strict=True):
            conv.lin.weight.data, conv.bias.data = our.weight.data.T.clone(), our.bias.data.clone()
        peer = Peer(convs, copy.deepcopy(mlp), lambda conv, feat: conv(feat, edges, weight))
        found["PyG GCNConv"] = peer.to(weight.device)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["cora", "citeseer", "pubmed", "dblp"])
    parser.add_argument("--rounds", type=int, default=15)
    add_device(parser)
    args = parser.parse_args()
    device = chosen_device(args)

    from jbpool.clustering.network import make_model
    from jbpool.clustering.node_cluster import NODE_CLUSTER
    from jbpool.data import DataError, load_nodes
    from jbpool.engine.config import load_config

    without = missing("dgl", "torch_geometric")
    rows, raw = [], []
    for name in args.datasets:
        try:
            data = load_nodes(name)
        except DataError:
            data = load_nodes(f"{name}-sim")
        assert data.feat is not None
        feat = data.feat.to(device)
        data = replace(data, graph=data.graph.to(device), feat=feat)
        contestants = {}
        models = {}
        for form in ("matrix", "diagonal"):
            torch.manual_seed(0)
            config = load_config(NODE_CLUSTER, f"paper/{name.removesuffix('-sim')}", [f"method.sqrt={form}"])
            models[form] = make_model(config, feat.shape[1], data.num_classes or 1).to(device)
        dense = feat.to_dense() if feat.layout == torch.sparse_csr else feat
        others = peers(data, models["matrix"], without)
        assign, losses = models["diagonal"](data.graph, data.feat)
        for other in others.values():
            torch.testing.assert_close(other(dense).softmax(-1), assign, rtol=1e-3, atol=1e-5)
            torch.testing.assert_close(element_wise(other(dense)), losses["balance"][0], rtol=1e-4, atol=1e-6)

        def ours_step(model, optimiser):
            _, losses = model(data.graph, data.feat)  # noqa: B023
            optimiser.zero_grad(set_to_none=True)
            losses["balance"].sum().backward()
            optimiser.step()

        def peer_step(model, optimiser):
            loss = element_wise(model(dense))  # noqa: B023
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()

        for form, model in models.items():
            optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
            contestants[f"ours, {form}"] = lambda model=model, optimiser=optimiser: ours_step(model, optimiser)
        for name_of_peer, peer in others.items():
            optimiser = torch.optim.Adam(peer.parameters(), lr=1e-4, fused=True)
            contestants[name_of_peer] = lambda peer=peer, optimiser=optimiser: peer_step(peer, optimiser)
        times = take_turns(contestants, args.rounds)
        ours = times["ours, matrix"].median
        ratios = {who: "" if who == "ours, matrix" else f", {t.median / ours:.1f}x" for who, t in times.items()}
        spent = profiled(contestants["ours, matrix"])
        products = spent.shares["dense products"] + spent.shares["sparse products"]
        bounds = [f"{times[peer].median / (ours * products):.1f}x" for peer in others]
        where = [f"{spent.shares[kind]:.0%}" for kind in ("dense products", "sparse products")]
        where.append(" and ".join(bounds) or "-")
        rows.append([data.name, *(f"{timing}{ratios[who]}" for who, timing in times.items()), *where])
        raw.append({"dataset": data.name, "spent": spent._asdict(),
                    **{who: timing._asdict() for who, timing in times.items()}})  # fmt: skip
    head = ["set", *(f"{who}, ms" for who in contestants)]
    head += ["ours in dense products", "in sparse products", "ahead of peers, upper bound"]
    write("step", "A training step, median (quartiles), and how many times ours with the exact root", head, rows, raw)


if __name__ == "__main__":
    main()
