"""Graph clustering in the manner of scikit-learn."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import NotFittedError

from jbpool.checks import check_count
from jbpool.clustering.auto.choose_k import choose_num_clusters
from jbpool.clustering.auto.recipe import find_clusters
from jbpool.clustering.auto.weighting import scale_warning
from jbpool.console import watched
from jbpool.data.files.objects import as_node_data
from jbpool.errors import DataError, JBPoolError


class JBClustering(ClusterMixin, BaseEstimator):
    """Clusters of the nodes of a graph by Just Balance, without labels and without settings to tune.

    Parameters
    ----------
    n_clusters : int or (int, int), default 8
        Number of clusters, or a range to choose the number from.
    n_init : int, default 8
        Starts of every view of the graph.
    random_state : int, RandomState or None, default None
        Seed of all random choices.
    verbose : int, default 0
        1 shows a progress bar.

    Attributes
    ----------
    labels_ : ndarray of shape (N,)
        Cluster of each node.
    confidence_ : ndarray of shape (N,)
        The share of its cluster that the starts keep together with the node, on average, times the probability of the
        cluster given edges and features, from 0 to 1; 1 / K for a node of which nothing is known.
    loss_ : float
        Balance loss of the head that the clusters come from, between -1 and -1/K; of merged clusters, that of the hard
        assignment.
    saved_ : float
        Bits per node that the clusters save in describing edges and features. It grows with the number of clusters:
        compare numbers by ``savings_``.
    feature_names_in_ : ndarray of str
        Columns of the features, where :meth:`fit` was given a DataFrame with names.
    n_clusters_ : int
        Number of clusters that was asked for, or chosen from the range; some may be empty. 1, with a warning, if no
        number in the range shortens the description of the edges.
    node_ids_ : ndarray of shape (N,)
        Node that each entry of ``labels_`` belongs to: the nodes of a networkx graph or edge list, else 0 .. N-1.
    view_ : str or None
        Where the clusters were found: smoothed features, features or edges.
    trials_ : list of dict
        The partitions that were tried, and what each of them saves.
    savings_ : dict or None
        Bits per node saved in describing the edges by number of clusters, where a range was given.

    Examples
    --------
    >>> import networkx
    >>> from jbpool import JBClustering
    >>> graph = networkx.karate_club_graph()
    >>> labels = JBClustering(n_clusters=2, random_state=0).fit_predict(graph)
    >>> club = [graph.nodes[node]["club"] == "Officer" for node in graph]
    >>> int(max((labels == club).sum(), (labels != club).sum()))
    33
    """

    feature_names_in_: np.ndarray

    def __init__(
        self,
        n_clusters: int | tuple[int, int] = 8,
        *,
        n_init: int = 8,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, adjacency: Any, features: Any = None, y: Any = None) -> JBClustering:
        """Cluster a graph.

        Parameters
        ----------
        adjacency : matrix, graph or edge list
            A symmetric scipy sparse or numpy matrix ``(N, N)``; a Graph (``ndata["feat"]`` and ``edata["weight"]``
            are used); a networkx graph (edge attribute ``weight``); an edge list as a DataFrame or an array.
            Clusters are those of an undirected graph: one-way edges of a matrix, Graph or DiGraph are refused, with
            the call that adds the other direction. An edge list may hold one direction or both.
        features : array, sparse matrix or DataFrame, optional
            ``(N, D)``, a row per node. Without features the clusters come from the edges alone.
        y : object, optional
            Ignored; part of scikit-learn's interface.
        """
        return self._fit(adjacency, features)

    def _fit(self, adjacency: Any, features: Any) -> JBClustering:
        low, high = self._range()
        starts = check_count(self.n_init, "n_init")
        data = as_node_data(adjacency, features)
        num_nodes = data.graph.num_nodes
        if num_nodes < 2:
            raise DataError("the graph has one node: there is nothing to cluster.")
        if high > num_nodes:
            raise JBPoolError(f"n_clusters={self.n_clusters}: the graph has only {num_nodes} nodes.")
        if warning := scale_warning(data.feat):
            warnings.warn(warning, stacklevel=3)
        seed = self._seed()
        savings, num_clusters, merged = None, low, None
        if low < high:
            with watched("number of clusters", disable=not self.verbose) as watch:
                choice = choose_num_clusters(data.graph, data.feat, low, high, data.edge_weight, seed, watch)
            num_clusters, savings, merged = choice
            if warning := choice.warning(low, high):
                warnings.warn(warning, stacklevel=3)
        with watched("clustering", disable=not self.verbose) as watch:
            found = find_clusters(data.graph, data.feat, num_clusters, data.edge_weight, seed, starts, merged, watch)
        empty = num_clusters - len(found.cluster.unique())
        if empty:
            warnings.warn(f"{empty} of {num_clusters} clusters are empty: fewer may suit this graph.", stacklevel=3)
        self.savings_, self.n_clusters_ = savings, num_clusters
        self.labels_ = found.cluster.numpy()
        self.confidence_ = found.confidence.numpy()
        self.loss_, self.saved_, self.model_ = found.loss, found.saved, found.model
        self.view_, self.trials_ = found.view, found.trials
        self.node_ids_ = data.own_ids
        self.n_features_in_ = 0 if data.feat is None else data.feat.shape[1]
        if hasattr(self, "feature_names_in_"):                          # of an earlier fit
            del self.feature_names_in_
        if (names := _column_names(features)) is not None:
            self.feature_names_in_ = names
        return self

    def fit_predict(self, adjacency: Any, features: Any = None, y: Any = None) -> np.ndarray:
        """Cluster a graph and return ``labels_``; see ``fit``."""
        return self._fit(adjacency, features).labels_

    def predict(self, adjacency: Any, features: Any = None) -> np.ndarray:
        """Clusters of the nodes of another graph, by the model of the first one; it needs features.

        Parameters
        ----------
        adjacency : matrix, graph or edge list
            As for :meth:`fit`.
        features : array, sparse matrix or DataFrame, optional
            ``(N, D)``, with the columns given to :meth:`fit`; a Graph may contain them.
        """
        if not hasattr(self, "labels_"):
            raise NotFittedError("this JBClustering is not fitted yet: call fit first.")
        if self.model_ is None:
            raise DataError(
                "there is no model for other graphs: the graph has no features, or there is only one cluster."
            )
        trained, given = getattr(self, "feature_names_in_", None), _column_names(features)
        if trained is not None and given is not None and not np.array_equal(trained, given):
            raise DataError(
                "the columns of features differ from those given to fit, or from their order: pass "
                "features[model.feature_names_in_]."
            )
        data = as_node_data(adjacency, features)
        if data.feat is None or data.feat.shape[1] != self.n_features_in_:
            got = "no" if data.feat is None else data.feat.shape[1]
            raise DataError(f"{got} features, but the model was fitted on {self.n_features_in_}: pass the same ones.")
        with torch.no_grad():
            return self.model_(data.graph, data.feat, data.edge_weight)[0].numpy()

    def _range(self) -> tuple[int, int]:
        if not isinstance(self.n_clusters, Integral):
            if not isinstance(self.n_clusters, (tuple, list)) or len(self.n_clusters) != 2:
                raise JBPoolError(f"n_clusters={self.n_clusters!r}: give a whole number, or a range as (2, 12).")
            low, high = (check_count(value, "n_clusters") for value in self.n_clusters)
            if low > high:
                raise JBPoolError(f"n_clusters={self.n_clusters!r}: the range is empty.")
            return low, high
        return (check_count(self.n_clusters, "n_clusters"),) * 2

    def _seed(self) -> int:
        state = self.random_state
        if state is None or isinstance(state, (np.random.RandomState, np.random.Generator)):
            draw = state if state is not None else np.random.default_rng()
            return int(draw.integers(2**31) if isinstance(draw, np.random.Generator) else draw.randint(2**31))
        if isinstance(state, bool) or not isinstance(state, (int, np.integer)) or not 0 <= state < 2**63:
            raise JBPoolError(f"random_state={state!r}: give a whole number of at least 0, a RandomState or None.")
        return int(state)


def _column_names(features: Any) -> np.ndarray | None:
    """The columns of a DataFrame if all of them are text, as scikit-learn has it."""
    if not all(isinstance(name, str) for name in getattr(features, "columns", [None])):
        return None
    return np.asarray(features.columns, dtype=object)
