"""``report.html``: one self-contained page about a node-clustering run, made from its folder alone and the data."""

from __future__ import annotations

import csv
import json
import math
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jbpool import svg
from jbpool.adjacency import propagate, smooth
from jbpool.atomic import write_text
from jbpool.coarsen import normalized_off_diagonal
from jbpool.config import load_config
from jbpool.data import NodeData, load_nodes
from jbpool.metrics import confusion
from jbpool.published import CLUSTERING

SHOWN = 4000        # nodes in the picture of the features
STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:1040px;margin:2.5rem auto;padding:0 1.2rem}
h1{font-size:1.7rem;margin:0 0 .2rem}h2{font-size:1.05rem;margin:0 0 .6rem}
p.lead{margin:0 0 1.6rem;opacity:.75}
.grid-of{display:grid;grid-template-columns:repeat(auto-fit,minmax(460px,1fr));gap:1.4rem}
section{border:1px solid color-mix(in srgb,currentColor 16%,transparent);border-radius:10px;padding:1rem 1.1rem}
section{overflow-x:auto}
section p{margin:.6rem 0 0;font-size:13px;opacity:.75}
table{border-collapse:collapse;width:100%}td,th{padding:.25rem .6rem;text-align:right}
th:first-child,td:first-child{text-align:left}
thead th{border-bottom:1px solid color-mix(in srgb,currentColor 30%,transparent);font-weight:600}
.wide{grid-column:1/-1}
.warn{background:#ef91181f;border-color:#ef9118}
.big{display:flex;gap:2.2rem;flex-wrap:wrap;margin:0 0 1.6rem}.big div{font-size:2rem;font-weight:650;line-height:1.1}
.big span{display:block;font-size:.8rem;font-weight:400;opacity:.75}
svg{max-width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:currentColor}
svg .grid{stroke:currentColor;stroke-opacity:.13}
pre{font-size:12px;overflow-x:auto;margin:0}
"""
NAMES = {
    "acc": "ACC", "nmi": "NMI", "ari": "ARI", "modularity": "modularity", "conductance": "conductance", "loss": "loss",
    "used_clusters": "used clusters", "size_balance": "size balance", "seconds_per_step": "seconds per step",
}  # fmt: skip


def write_report(folder: Path) -> Path:
    """Make ``report.html`` in a run folder."""
    result = json.loads((folder / "result.json").read_text())
    config = load_config("node_cluster", str(folder / "config.yaml"))
    data = load_nodes(config.dataset.name, config.dataset.root, **config.dataset.options)
    with open(folder / "history.csv", newline="") as file:
        history = list(csv.DictReader(file))
    with np.load(folder / "assign.npz", allow_pickle=False) as stored:
        clusters, seeds = stored["cluster"], stored["seeds"].tolist()
    path = folder / "report.html"
    write_text(path, page(result, data, history, seeds, clusters))
    return path


def page(
    result: dict[str, Any], data: NodeData, history: list[dict[str, str]], seeds: list[int], clusters: np.ndarray
) -> str:
    """The page as text. Pictures show the seed with the lowest loss."""
    chosen = min(range(len(result["runs"])), key=lambda i: result["runs"][i]["loss"])
    seed = result["runs"][chosen]["seed"]
    cluster = torch.from_numpy(clusters[seeds.index(seed)]).long()
    used = cluster.unique()
    cluster = torch.searchsorted(used, cluster)                    # name the used clusters 0, 1, 2, ...
    parts = [_scores(result), _curves(history, seed), _sizes(data, cluster)]
    if data.label is not None:
        parts.append(_confusion(data, cluster))
    parts += [_cluster_graph(data, cluster), _picture(data, cluster), _runs(result), _settings(result)]
    notes = "".join(f'<section class="warn">{escape(note)}</section>' for note in result["notes"])
    title = f"{result['dataset']} clustered by {result['method']}"
    graph = data.graph
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1><p class='lead'>{graph.num_nodes():,} nodes, {graph.num_edges() // 2:,} edges, "
        f"{data.feat.shape[1]:,} features; runs: {len(result['runs'])}; pictures show seed {seed}, the one of lowest "
        f"loss.</p>{_headline(result)}{notes}<div class='grid-of'>{''.join(parts)}</div></body></html>\n"
    )


def _section(title: str, body: str, note: str = "", wide: bool = False) -> str:
    kind = ' class="wide"' if wide else ""
    return f"<section{kind}><h2>{escape(title)}</h2>{body}{f'<p>{escape(note)}</p>' if note else ''}</section>"


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def _headline(result: dict[str, Any]) -> str:
    keys = [key for key in ("acc", "nmi", "ari", "modularity", "used_clusters") if key in result["mean"]]
    style = {"used_clusters": ".3g"}
    cells = "".join(
        f"<div>{format(result['mean'][key], style.get(key, '.3f'))}<span>{NAMES[key]}</span></div>" for key in keys
    )
    return f'<div class="big">{cells}</div>'


def _scores(result: dict[str, Any]) -> str:
    paper = CLUSTERING.get(result["method"], {}).get(result["dataset"])
    published = {} if paper is None else {"acc": paper[0:2], "nmi": paper[2:4]}
    rows = []
    for key, name in NAMES.items():
        if key in result["mean"]:
            value, spread = published.get(key, (None, None))
            shown = _number(value) + (f" ± {spread:.3f}" if spread is not None else "")
            mean = f"{_number(result['mean'][key])} ± {result['std'][key]:.3f}"
            rows.append(f"<tr><td>{name}</td><td>{mean}</td><td>{shown}</td></tr>")
    table = f"<table><thead><tr><th></th><th>here</th><th>paper</th></tr></thead>{''.join(rows)}</table>"
    return _section("Scores, mean and deviation over seeds", table)


def _curves(history: list[dict[str, str]], seed: int) -> str:
    rows = [row for row in history if int(row["seed"]) == seed]
    if not rows:
        return _section("Training", "<p>This method has no training curve.</p>")
    epochs = [float(row["epoch"]) for row in rows]
    names = [name for name in rows[0] if (name.endswith("_loss") and rows[0][name]) or name == "nmi"]
    shown = {name: NAMES.get(name, name.replace("_", " ")) for name in names}
    series = {shown[name]: (epochs, [float(row[name] or math.nan) for row in rows]) for name in names}
    return _section("Losses and NMI while training", svg.lines(series, "epoch", "losses and NMI"))


def _sizes(data: NodeData, cluster: torch.Tensor) -> str:
    groups = {"clusters": sorted(cluster.bincount().tolist(), reverse=True)}
    if data.label is not None:
        groups["classes"] = sorted(data.label.bincount().tolist(), reverse=True)
    return _section("Cluster sizes", svg.bars(groups, "cluster sizes against class sizes"))


def _confusion(data: NodeData, cluster: torch.Tensor) -> str:
    table = confusion(cluster, data.label).numpy()      # type: ignore[arg-type]
    order = np.argsort(-(table / np.maximum(table.sum(0), 1)).argmax(0), kind="stable")[::-1]     # near the diagonal
    names = list(data.class_names or [f"class {i}" for i in range(table.shape[0])])
    columns = [str(i) for i in order]
    drawing = svg.heat_map(table[:, order], names, columns, "confusion matrix")
    return _section("Classes (rows) in clusters (columns)", drawing)


def _cluster_graph(data: NodeData, cluster: torch.Tensor) -> str:
    onehot = torch.nn.functional.one_hot(cluster).float()                           # (N, K)
    between = onehot.T @ propagate(data.graph, onehot, data.edge_weight)            # (K, K)
    weight = normalized_off_diagonal(between[None])[0].numpy()
    drawing = svg.circle_graph(weight, cluster.bincount().numpy(), "cluster graph")
    return _section("The coarsened graph", drawing, "Discs: nodes of a cluster. Lines: edges between two, normalised.")


def _picture(data: NodeData, cluster: torch.Tensor) -> str:
    feat = data.feat.to_dense() if data.feat.layout == torch.sparse_csr else data.feat
    for _ in range(4):
        feat = smooth(data.graph, feat, edge_weight=data.edge_weight)
    feat = torch.nn.functional.normalize(feat)
    some = torch.linspace(0, len(feat) - 1, min(SHOWN, len(feat))).long()
    centred = feat - feat.mean(0)
    generator_state = torch.get_rng_state()
    torch.manual_seed(0)                                                            # pca_lowrank draws at random
    _, _, axes = torch.pca_lowrank(centred, q=min(6, *centred.shape), center=False)
    torch.set_rng_state(generator_state)
    xy = (centred[some] @ axes[:, :2]).numpy()
    if xy.shape[1] < 2:
        xy = np.column_stack([xy[:, 0], np.zeros(len(xy))])
    note = f"{len(some):,} nodes; principal components of the features smoothed over the graph; a colour per cluster."
    return _section("Node features in the plane", svg.points(xy, cluster[some].numpy(), "node features"), note)


def _runs(result: dict[str, Any]) -> str:
    keys = [key for key in ("seed", *NAMES, "restart") if key in result["runs"][0]]
    head = "".join(f"<th>{escape(NAMES.get(key, key))}</th>" for key in keys)
    cells = ["".join(f"<td>{_number(run.get(key))}</td>" for key in keys) for run in result["runs"]]
    rows = "".join(f"<tr>{row}</tr>" for row in cells)
    return _section("Runs", f"<table><thead><tr>{head}</tr></thead>{rows}</table>", wide=True)


def _settings(result: dict[str, Any]) -> str:
    text = json.dumps({"config": result["config"], "versions": result["versions"]}, indent=2)
    details = f"<details><summary>configuration and versions</summary><pre>{escape(text)}</pre></details>"
    return _section("Settings", details, wide=True)
