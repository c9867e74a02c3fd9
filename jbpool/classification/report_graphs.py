"""Section of the report to browse test graphs: their clusters, pooled graphs and predictions."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jbpool.classification.pictured import PICTURED_NODES, names_of_classes, verdict
from jbpool.data import GraphData
from jbpool.report.layout import small_positions
from jbpool.report.packed import pack
from jbpool.report.page import asset
from jbpool.report.pictures import circle_graph, network

SCRIPTS = ("unpack.js", "browse.js")        # which a page with this section needs
STATIC = 4                                  # graphs shown without scripts
UNCERTAIN = 0.2                             # margin below which a prediction counts as uncertain


def graphs_section(data: GraphData, pictures: list[dict[str, Tensor]]) -> str:
    """The section; empty if the network has no clusters."""
    if not pictures:
        return ""
    scores = torch.stack([picture["scores"] for picture in pictures])
    found = verdict(data, scores, data.label[torch.stack([picture["graph"] for picture in pictures])])
    cards: list[dict[str, Any]] = []
    for number, picture in enumerate(pictures):
        card = _card(data, picture)
        if found is not None:
            margin = float(found.margin[number])
            card |= {
                "label": int(found.label[number]), "predicted": int(found.predicted[number]),
                "margin": round(margin, 4), "uncertain": margin < UNCERTAIN,
            }  # fmt: skip
        cards.append(card)
    classes = [] if found is None else names_of_classes(data)
    static = "".join(_static(card, classes) for card in cards[:STATIC])
    note = (
        f"{len(cards)} test graphs of at most {PICTURED_NODES} nodes, as seen by the model with the best validation "
        "score. Left: the graph, a colour per cluster. Right: the pooled graph. "
    )
    if found is not None:
        note += f"Margin: probability of the predicted class minus that of the next; uncertain: below {UNCERTAIN:g}."
    return (
        f'<section class="wide browser"><h2>Test graphs: clusters and pooled graphs</h2>{asset("browse.html")}'
        f'<div class="cards static-cards">{static}</div><p>{escape(note.strip())}</p>'
        f'<script type="text/plain" class="packed">{pack({"cards": cards, "classes": classes}, {})}</script></section>'
    )


def _card(data: GraphData, picture: dict[str, Tensor]) -> dict[str, Any]:
    """What is shown of a graph: two drawings and a line of text."""
    index, cluster = int(picture["graph"]), picture["cluster"].numpy()
    graph = data.batch([index]).graph
    edges = torch.stack(graph.edges(), dim=1).numpy()
    used = np.unique(cluster)
    cluster = np.searchsorted(used, cluster)
    adj = picture["adj"].numpy()[np.ix_(used, used)]
    drawn = network(small_positions(graph.num_nodes(), edges), edges, cluster, f"graph {index}")
    pooled = circle_graph(adj, np.bincount(cluster), f"graph {index}, pooled").svg
    told = f"{graph.num_nodes()} nodes, {len(used)} of {len(picture['adj'])} clusters used."
    name = str(data.own_ids[index])
    return {"graph": index, "name": name, "told": told, "svg": f'<div class="pair">{drawn}{pooled}</div>'}


def _static(card: dict[str, Any], classes: list[str]) -> str:
    told = card["told"]
    if classes:
        names = [classes[card[key]] for key in ("label", "predicted")]
        told += f" Class: {names[0]}; predicted: {names[1]} (margin {card['margin']:.2f})."
    return f'<article><h3>Graph {escape(card["name"])}</h3>{card["svg"]}<p>{escape(told)}</p></article>'
