"""One training epoch of graph classification including loading: ours, and PyG with torch-geometric-pool.

    python scripts/bench/epoch.py [--sets NCI1] [--rounds 5] [--device cuda]

Both use the same network: encoder, two GIN layers with batch normalisation and dropout, jb pool, two GIN layers on the
pooled graph, mean and max readouts of the encoder and both levels, the number of nodes, head; batches of 128 (molhiv:
512). The encoder of molhiv is that of OGB on the side of PyG. The numbers of parameters must agree.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import torch
from timing import add_device, chosen_device, missing, profiled, take_turns, write
from torch import Tensor, nn

SETS = {"NCI1": ("nci1", 128), "ogbg-molhiv": ("molhiv", 512)}
HIDDEN = 64


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN, bias=False))


class AtomEncoder(nn.Module):
    """As OGB's encoder of atoms: one embedding per column of categories."""

    def __init__(self, categories: Sequence[int]):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(count, HIDDEN) for count in categories)

    def forward(self, feat: Tensor) -> Tensor:
        return sum((table(column) for table, column in zip(self.tables, feat.T, strict=True)), torch.zeros(()))


class PygClassifier(nn.Module):
    """The network of GraphClassifier, built from PyG and torch-geometric-pool."""

    def __init__(self, encoder: nn.Module, edge_feats: int, num_clusters: int, out_feats: int, dropout: float):
        super().__init__()
        from tgp.poolers import get_pooler
        from torch_geometric.nn import DenseGINConv, GINConv

        self.encoder = encoder
        self.convs = nn.ModuleList(GINConv(mlp()) for _ in range(2))
        self.edges = nn.ModuleList(nn.Linear(edge_feats, HIDDEN, bias=False) for _ in range(2 if edge_feats else 0))
        self.dense = nn.ModuleList(DenseGINConv(mlp()) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm1d(HIDDEN) for _ in range(4))
        self.dropout = nn.Dropout(dropout)
        self.pool = get_pooler("jb", in_channels=HIDDEN, k=num_clusters, batched=True)
        self.head = nn.Sequential(
            nn.Linear(6 * HIDDEN + 1, HIDDEN), nn.ReLU(), self.dropout, nn.Linear(HIDDEN, out_feats)
        )

    def forward(self, batch) -> tuple[Tensor, Tensor]:
        from torch_geometric.nn import global_max_pool, global_mean_pool

        x = self.encoder(batch.x)
        sizes = batch.ptr.diff().unsqueeze(1)
        read = [sizes.log(), global_mean_pool(x, batch.batch), global_max_pool(x, batch.batch)]
        for level, conv in enumerate(self.convs):
            x = conv(x, batch.edge_index).relu()
            x = x + self.edges[level](batch.edge_sum) if self.edges else x
            x = self.dropout(self.norms[level](x))
        read += [global_mean_pool(x, batch.batch), global_max_pool(x, batch.batch)]
        pooled = self.pool(x, adj=batch.edge_index, batch=batch.batch)
        x = pooled.x
        for level, conv in enumerate(self.dense):
            x = conv(x, pooled.edge_index).relu()
            x = self.dropout(self.norms[2 + level](x.flatten(0, 1)).view_as(x))
        return self.head(torch.cat([*read, x.mean(1), x.amax(1)], dim=1)), sum(pooled.loss.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--rounds", type=int, default=5)
    add_device(parser)
    args = parser.parse_args()
    device = chosen_device(args)

    from jbpool.classification.graph_classify import GRAPH_CLASSIFY
    from jbpool.classification.model import Inputs, make_model
    from jbpool.classification.training import ClassifyProblem
    from jbpool.data import load_graphs
    from jbpool.engine.config import load_config

    without = missing("torch_geometric", "torch_scatter", "tgp")
    rows, raw = [], []
    for name in args.sets:
        cfg, batch_size = SETS[name]
        data = load_graphs(name).with_edge_sums()
        edge_feats = 0 if data.edge_sum is None else data.edge_sum.shape[1]
        split = data.split()
        train = split.train[:4096]                                              # a part of molhiv is enough
        split = split._replace(train=train)
        changes = [f"train.batch_size={batch_size}", f"model.hidden={HIDDEN}", "model.num_clusters=[12]"]
        changes += ["model.layers=2", "model.edges=sum", "model.readout=mean+max"]
        contestants: dict[str, Callable[[], None]] = {}
        counts = set()
        for form in ("matrix", "diagonal"):
            config = load_config(GRAPH_CLASSIFY, cfg, [*changes, f"method.sqrt={form}"])
            model = make_model(config, data, train).to(device)
            problem = ClassifyProblem(model, data, split, config, 0, device)
            optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
            counts.add(sum(parameter.numel() for parameter in model.parameters()))

            def epoch(problem=problem, optimiser=optimiser):
                for batch in problem.batches(0):
                    loss = problem.loss(batch)
                    optimiser.zero_grad(set_to_none=True)
                    loss.backward()
                    optimiser.step()

            contestants[f"ours, {form}"] = epoch

        def loading(problem=problem, data=data):
            for batch in problem.batches(0):
                data.batch(batch.graphs)

        contestants["of that loading"] = loading
        if not without:
            import copy

            from torch_geometric.data import Data
            from torch_geometric.loader import DataLoader

            graphs = []
            for i in train.tolist():
                cut = data.batch([i])
                graph = Data(x=cut.feat, edge_index=cut.graph.edge_index, y=cut.label)
                if cut.edge_sum is not None:
                    graph.edge_sum = cut.edge_sum                               # (N, edge_feats)
                graphs.append(graph)
            loader = DataLoader(graphs, batch_size=batch_size, shuffle=True)
            categories = Inputs.of(data).categories
            encoder = copy.deepcopy(model.members[0].get_submodule("encoder"))
            encoder = encoder if categories is None else AtomEncoder(categories)
            peer = PygClassifier(encoder, edge_feats, 12, data.num_classes, config.model.dropout).to(device)
            counts.add(sum(parameter.numel() for parameter in peer.parameters()))
            optimiser = torch.optim.Adam(peer.parameters(), lr=1e-3, fused=True)

            def peer_epoch(problem=problem, peer=peer, optimiser=optimiser, loader=loader):
                for batch in loader:
                    batch = batch.to(device)
                    scores, pool_loss = peer(batch)
                    loss = problem._task_loss(scores, batch.y).mean() + pool_loss
                    optimiser.zero_grad(set_to_none=True)
                    loss.backward()
                    optimiser.step()

            contestants["PyG + tgp"] = peer_epoch
        assert len(counts) == 1, counts
        times = take_turns(contestants, args.rounds, warm_up=1)
        cells = [f"{timing.median:.3f} ({timing.low:.3f}-{timing.high:.3f})" for timing in times.values()]
        ahead = f"{times['PyG + tgp'].median / times['ours, matrix'].median:.2f}x" if not without else "-"
        spent = profiled(contestants["ours, matrix"], rounds=1)
        cells += [ahead, str(spent)]
        rows.append([f"{name}, {len(train)} graphs", *cells])
        raw.append({"set": name, "spent": spent._asdict(), **{who: timing._asdict() for who, timing in times.items()}})
    head = ["set", *(f"{who}, s" for who in contestants), "matrix ahead", "where the matrix form spends its time"]
    write("epoch", "A training epoch with loading, median (quartiles)", head, rows, raw)


if __name__ == "__main__":
    main()
