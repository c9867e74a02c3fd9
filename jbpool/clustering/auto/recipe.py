"""Clusters of any graph, without labels and without settings to tune.

A setting is a view of the features (weighting, smoothing steps) and the temperature of bounded heads.

1. Every setting clusters the data without a part of the edges and feature columns. Its evidence is how well the
   clusters explain what was held out; the best third of the settings is chosen, none far below the best. Edges (or
   features) that no setting explains better than chance do not count.
2. The chosen settings cluster all the data from several starts; the partitions that explain edges and features best are
   kept, at most a third and none far below the best.
3. The kept partitions become one, their consensus.
4. Nodes move to the cluster that explains their edges and features best, without regard to balance.

One more view has eigenvectors of the edges in place of features. It is the only one of a graph without features, which
goes through steps 2 and 3 alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from dgl import DGLGraph
from torch import Tensor

from jbpool.clustering.auto.bounded_heads import hard_clusters, trained_heads
from jbpool.clustering.auto.views import COMPONENTS, FixedFeatures
from jbpool.clustering.auto.weighting import are_counts, weighted_rows
from jbpool.clustering.consensus import Consensus
from jbpool.clustering.evidence import Evidence, above_chance, hold_out, joint_score
from jbpool.clustering.scores import confusion, normalized_mutual_information
from jbpool.clustering.structure import StructuralModes
from jbpool.errors import DataError
from jbpool.nn.heads import unit_rows

STEPS = (0, 1, 2, 4, 8)             # smoothing steps of the views
TEMPERATURES = (0.1, 0.2)
EDGE_TEMPERATURES = (0.2, 0.4)      # of the view of the edges alone
EDGES = "edges"                     # weighting of the view that uses no features
SPLITS = 2                          # times that a part is held out
TRIAL_STARTS = 2                    # starts of a setting in each split
STARTS = 8                          # starts of a chosen setting
SHARE = 3                           # the best third of the settings, and of their partitions, is kept
FAR_BELOW = 0.25                    # a setting with less than this share of the best evidence is not chosen
TOLERANCE = 0.05                    # relative score that kept partitions, and refined ones, may lose
ABOVE_CHANCE = 4.0                  # deviations above shuffled nodes; the best of some forty partitions is tested


@dataclass
class Setting:
    """What was tried."""

    weighting: str
    steps: int
    temperature: float
    evidence: float | None = None   # modularity of held-out edges times that of held-out features, mean over starts
    chosen: bool = True


@dataclass
class Trial:
    """A partition by a chosen setting, and how well it explains the data."""

    weighting: str
    steps: int
    temperature: float
    start: int
    loss: float
    modularity: float
    feature_modularity: float | None
    score: float                    # their product
    kept: bool = False              # part of the consensus
    agreement: float = 0.0          # with the result, NMI


class Found(NamedTuple):
    """The clusters of a graph and how they were chosen."""

    cluster: Tensor                 # (N,)
    confidence: Tensor              # (N,) agreement of the kept partitions x probability by the last step, 0 to 1
    loss: float                     # of the last head
    score: float                    # of the clusters: modularity over edges times modularity over features
    settings: list[dict[str, Any]]
    trials: list[dict[str, Any]]
    used_edges: bool                # whether held-out edges, or features, were explained better than by chance;
    used_features: bool             # what is not does not count
    moved: int                      # nodes that the last step moved to another cluster
    model: Consensus | None         # None if it rests on the edges alone: then it applies to no other graph


def find_clusters(
    graph: DGLGraph,
    feat: Tensor | None,
    num_clusters: int,
    edge_weight: Tensor | None = None,
    seed: int = 0,
    starts: int = STARTS,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """Cluster the nodes of a graph.

    Parameters
    ----------
    graph : DGLGraph
        Both directions of every edge.
    feat : Tensor or None
        ``(N, D)``, dense or CSR; ``None`` for a graph without features.
    num_clusters : int
        K.
    edge_weight : Tensor, optional
        ``(E,)``.
    seed : int, default 0
        Seed of all random choices.
    starts : int, default 8
        Starts of every chosen setting.
    watch : callable, optional
        Called with the number of settings clustered so far and their total.
    """
    if num_clusters == 1:
        one = torch.zeros(graph.num_nodes(), dtype=torch.long)
        return Found(one, torch.ones(len(one)), -1.0, 0.0, [], [], True, feat is not None, 0, None)
    generator = torch.Generator().manual_seed(seed)
    settings = _grid(feat)
    progress = _Progress(watch, SPLITS * len(settings) + len(settings) // SHARE + 1)
    weighting = settings[0].weighting                                   # of the features that partitions should explain
    evidence = Evidence(graph, None if feat is None else weighted_rows(feat, weighting), edge_weight)
    if feat is not None:
        evidence.use_edges, evidence.use_features = _choose_settings(
            settings, graph, feat, num_clusters, edge_weight, generator, progress
        )
    views: dict[tuple[str, int], FixedFeatures] = {}
    trials: list[Trial] = []
    found: list[tuple[Tensor, Tensor]] = []                             # prototypes (K, C), cluster (N,)
    chosen = [setting for setting in settings if setting.chosen]
    for setting, clusters, losses, prototypes in _partitions(
        chosen, graph, feat, num_clusters, edge_weight, seed, starts, generator, views
    ):
        for start, cluster in enumerate(clusters):
            where = setting.weighting, setting.steps, setting.temperature, start
            trials.append(Trial(*where, losses[start].item(), *evidence.scores(cluster)))
            found.append((prototypes[start], cluster))
        progress.advance()
    if not trials:
        raise DataError("the features and edges of the graph do not distinguish its nodes.")
    best = _keep_best(trials)
    in_feats = 0 if feat is None else feat.shape[1]
    model = Consensus(num_clusters, [(trials[i].weighting, trials[i].steps) for i in best], views, in_feats)
    # What was learned on the eigenvectors of edges applies to no other graph and is not kept.
    model.prototypes = torch.stack(
        [model.prototypes[0] if trials[i].weighting == EDGES else found[i][0] for i in best]
    )

    def refine(cluster: Tensor) -> Tensor:
        if feat is None or not (evidence.use_edges and evidence.use_features):
            return cluster
        better = model.refinement.fit(graph, feat, cluster, edge_weight)
        if evidence.score(better) >= (1 - TOLERANCE) * evidence.score(cluster):
            return better
        model.refinement.used.fill_(False)
        return cluster

    cluster, confidence, loss, moved = model.fit([found[i][1] for i in best], evidence.score, generator, refine)
    if feat is not None:
        confidence = confidence * model.refinement.probability(graph, feat, cluster, edge_weight)
    for trial, (_, partition) in zip(trials, found, strict=True):
        trial.agreement = normalized_mutual_information(confusion(partition, cluster))
    progress.advance()
    return Found(
        cluster, confidence, loss, evidence.score(cluster), [asdict(setting) for setting in settings],
        [asdict(trial) for trial in trials], evidence.use_edges, evidence.use_features, moved,
        model if len(model.views) else None,
    )  # fmt: skip


def _keep_best(trials: list[Trial]) -> list[int]:
    """Mark the partitions that the consensus is made of, and return their numbers, the best first."""
    ranked = sorted(range(len(trials)), key=lambda i: -trials[i].score)
    least = (1 - TOLERANCE) * trials[ranked[0]].score
    best = [i for i in ranked[: max(1, len(trials) // SHARE)] if trials[i].score >= least]
    for i in best:
        trials[i].kept = True
    return best


def _grid(feat: Tensor | None) -> list[Setting]:
    """All settings; the first has the weighting that suits the features."""
    by_edges = [Setting(EDGES, 0, temperature) for temperature in EDGE_TEMPERATURES]
    if feat is None:
        return by_edges
    weightings = ("idf", "none") if are_counts(feat) else ("none",)
    views = [Setting(w, steps, temperature) for w in weightings for steps in STEPS for temperature in TEMPERATURES]
    return views + by_edges


def _choose_settings(
    settings: list[Setting],
    graph: DGLGraph,
    feat: Tensor,
    num_clusters: int,
    edge_weight: Tensor | None,
    generator: torch.Generator,
    progress: _Progress,
) -> tuple[bool, bool]:
    """Step 1: note the evidence of every setting, and which are chosen.

    Returns: whether edges, and whether features, are explained better than by chance; what is not has no weight.
    """
    found: dict[int, list[tuple[float, float]]] = {}                    # number of the setting -> its scores
    shuffle = torch.Generator().manual_seed(generator.initial_seed())
    edges = features = 0.0                                              # deviations above chance, mean over splits
    for split in range(SPLITS):
        part = hold_out(graph, feat, edge_weight, generator)
        held = Evidence(part.held_graph, weighted_rows(part.held_feat, settings[0].weighting), part.held_weight)
        seen = part.graph, part.feat, num_clusters, part.edge_weight, split
        partitions: list[tuple[float, float, Tensor]] = []
        for setting, clusters, _, _ in _partitions(settings, *seen, TRIAL_STARTS, generator, views={}):
            scored = [(held.modularity(cluster), held.feature_modularity(cluster), cluster) for cluster in clusters]
            found.setdefault(settings.index(setting), []).extend(score[:2] for score in scored)
            partitions += scored
            progress.advance()
        if partitions:
            by_edges, by_features = (max(partitions, key=itemgetter(key))[2] for key in (0, 1))
            edges += above_chance(held.modularity, by_edges, shuffle) / SPLITS
            features += above_chance(held.feature_modularity, by_features, shuffle) / SPLITS
    use_edges, use_features = edges > ABOVE_CHANCE, features > ABOVE_CHANCE
    if not use_edges and not use_features:
        use_edges = use_features = True                                 # no evidence: treat both as informative
    for number, setting in enumerate(settings):
        scores = [joint_score(*pair, use_edges, use_features) for pair in found.get(number, ())]
        setting.evidence = sum(scores) / len(scores) if scores else 0.0
    ranked = sorted(settings, key=lambda setting: -(setting.evidence or 0.0))
    least = FAR_BELOW * (ranked[0].evidence or 0.0)
    for place, setting in enumerate(ranked):
        setting.chosen = place < len(settings) // SHARE and (setting.evidence or 0.0) >= least
    return use_edges, use_features


class _Partitions(NamedTuple):
    """What a setting found from R starts."""

    setting: Setting
    clusters: Tensor                # (R, N)
    losses: Tensor                  # (R,)
    prototypes: Tensor              # (R, K, C) unit vectors


def _partitions(
    settings: list[Setting],
    graph: DGLGraph,
    feat: Tensor | None,
    num_clusters: int,
    edge_weight: Tensor | None,
    seed: int,
    starts: int,
    generator: torch.Generator,
    views: dict[tuple[str, int], FixedFeatures],
) -> Iterator[_Partitions]:
    """The partitions of every setting; ``views`` collects the views. Settings of a view are trained as one."""
    for (weighting, steps), group in groupby(settings, key=lambda setting: (setting.weighting, setting.steps)):
        if feat is None or weighting == EDGES:
            rows = StructuralModes(graph, num_clusters, edge_weight, seed).features(num_clusters)
        else:
            views[weighting, steps] = FixedFeatures(feat.shape[1], steps, weighting=weighting, components=COMPONENTS)
            rows = views[weighting, steps].fit(graph, feat, edge_weight, seed)
        if not bool(rows.any()):                                        # constant features, no edges: no information
            continue
        same_view = list(group)
        temperatures = [setting.temperature for setting in same_view]
        heads, losses = trained_heads(rows, num_clusters, starts, temperatures, generator)
        parts = (part.split(starts) for part in (hard_clusters(heads, rows), losses, unit_rows(heads.prototypes)))
        for setting, *found in zip(same_view, *parts, strict=True):
            yield _Partitions(setting, *found)


class _Progress:
    """Counts settings; a graph that needs no choice of settings is done before the total is reached."""

    def __init__(self, watch: Callable[[int, int], None], total: int):
        self.watch, self.total, self.done = watch, total, 0

    def advance(self) -> None:
        self.done += 1
        self.watch(self.done, max(self.done, self.total))
