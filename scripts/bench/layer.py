"""Forward and backward of one pooling layer on real batches: ours and torch-geometric-pool's, batched and unbatched.

    python scripts/bench/layer.py [--sets PROTEINS NCI1] [--rounds 15] [--device cuda]

64 features, no hidden layer, K is half the mean graph size, at most 32. Pooled features and adjacency must agree
before they are timed. Every call gets a graph without cached products; DGL has already created its sparse formats, as
after a message-passing layer.
"""

from __future__ import annotations

import argparse

import torch
from timing import add_device, chosen_device, missing, peak_bytes, profiled, take_turns, write

BATCHES = {"PROTEINS": 128, "NCI1": 128, "DD": 32, "REDDIT-BINARY": 32, "ogbg-molhiv": 512}


def peers(without: list[str], num_clusters: int, weight, bias) -> dict:
    if without:
        return {}
    from tgp.poolers import get_pooler

    found = {}
    for mode in ("batched", "unbatched"):
        pooler = get_pooler("jb", in_channels=64, k=num_clusters, batched=mode == "batched").to(weight.device)
        (linear,) = (part for part in pooler.modules() if hasattr(part, "weight") and part.weight is not None)
        linear.weight.data, linear.bias.data = weight.clone(), bias.clone()
        found[f"tgp {mode}"] = pooler
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(BATCHES), choices=BATCHES)
    parser.add_argument("--rounds", type=int, default=15)
    add_device(parser)
    args = parser.parse_args()
    device = chosen_device(args)

    from jbpool import JBPool
    from jbpool.data import load_graphs

    without = missing("torch_geometric", "torch_scatter", "tgp")
    rows, raw = [], []
    for name in args.sets:
        data = load_graphs(name)
        torch.manual_seed(0)
        index = torch.randperm(len(data))[: BATCHES[name]]
        sizes = data.sizes[index]
        num_clusters = min(32, int(data.sizes.float().mean()) // 2)
        feat = torch.randn(int(sizes.sum()), 64, device=device, requires_grad=True)
        member = torch.arange(len(index)).repeat_interleave(sizes).to(device)
        ours = {form: JBPool(64, num_clusters, sqrt=form).to(device) for form in ("matrix", "diagonal")}
        ours["diagonal"].load_state_dict(ours["matrix"].state_dict())
        linear = ours["matrix"].mlp[0]
        others = peers(without, num_clusters, linear.weight.data, linear.bias.data)
        graph = data.batch(index).graph.to(device)
        edges = graph.edge_index
        made = ours["matrix"](graph, feat)
        for pooler in others.values():
            out = pooler(feat, adj=edges, batch=member)
            torch.testing.assert_close(out.x.reshape(made.feat.shape), made.feat, rtol=1e-3, atol=1e-3)
        for mode, pooler in others.items():
            if mode.endswith(" batched"):
                adj = pooler(feat, adj=edges, batch=member).edge_index
                torch.testing.assert_close(adj.reshape(made.adj.shape), made.adj, rtol=1e-2, atol=1e-4)

        def ours_call(pool, graph=graph, feat=feat):
            pooled = pool(graph, feat)
            (pooled.loss + pooled.feat.sum() + pooled.edge_weight.sum()).backward()

        def peer_call(pooler, feat=feat, edges=edges, member=member):
            out = pooler(feat, adj=edges, batch=member)
            weights = out.edge_index if out.edge_weight is None else out.edge_weight
            (sum(out.loss.values()) + out.x.sum() + weights.sum()).backward()

        contestants = {f"ours, {form}": lambda pool=pool: ours_call(pool) for form, pool in ours.items()}
        contestants |= {peer: lambda pooler=pooler: peer_call(pooler) for peer, pooler in others.items()}
        times = take_turns(contestants, args.rounds)
        memory = {who: peak_bytes(run) / 2**20 for who, run in contestants.items()}
        cells = [f"{timing}, {memory[who]:.0f} MB" for who, timing in times.items()]
        if others:
            fastest = min(times[peer].median for peer in others)
            cells += [
                f"{fastest / times['ours, matrix'].median:.2f}x", f"{fastest / times['ours, diagonal'].median:.2f}x",
                f"1/{memory['tgp batched'] / memory['ours, matrix']:.1f}",
            ]  # fmt: skip
        spent = profiled(contestants["ours, matrix"])
        cells.append(str(spent))
        rows.append([f"{name} {len(index)}", str(num_clusters), *cells])
        raw.append({"set": name, "clusters": num_clusters, "memory": memory, "spent": spent._asdict(),
                    **{who: timing._asdict() for who, timing in times.items()}})  # fmt: skip
    head = ["batch", "K", *(f"{who}, ms" for who in contestants)]
    head += ["matrix ahead of the faster peer", "diagonal ahead", "memory of matrix / batched"] if not without else []
    head.append("where the matrix form spends its time")
    write("layer", "Forward and backward of a pooling layer: median (quartiles), peak memory", head, rows, raw)


if __name__ == "__main__":
    main()
