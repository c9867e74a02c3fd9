"""Graph clustering in the manner of scikit-learn."""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import replace
from html import escape
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jbpool.checks import check_count
from jbpool.clustering.auto.anchors import Anchors, clusters_of
from jbpool.clustering.auto.number import Choice
from jbpool.clustering.auto.recipe import RANGE, choose, default_range, find_clusters, remarks
from jbpool.clustering.auto.refinement import ClusterModel
from jbpool.clustering.explain import Explained, Merges, as_table, explain
from jbpool.clustering.protocol import Clusterer, WithModel
from jbpool.clustering.scores import ClusterSums, graph_scores
from jbpool.console import watched
from jbpool.data.datasets import NodeData
from jbpool.data.own.features import words_as_trained
from jbpool.data.own.one_graph import as_node_data
from jbpool.errors import DataError, JBPoolError
from jbpool.files import write_text

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

# In a notebook: lists in cells keep their lines, whatever the style of the page.
STYLE = "<style>.jbpool td{white-space:pre!important;text-align:left!important;vertical-align:top}</style>"


class JBClustering(Clusterer):
    """Clusters of the nodes of a graph by Just Balance, without labels and without settings to tune.

    Parameters
    ----------
    n_clusters : int or (int, int), default (2, 30)
        Number of clusters, or a range to choose the number from. The default range ends at a third of the nodes.
    n_init : int, default 8
        Starts of every view of the graph.
    random_state : int, RandomState or None, default None
        Seed of all random choices.
    verbose : int, default 0
        1 shows a progress bar.

    Attributes
    ----------
    labels_ : ndarray of shape (N,)
        Cluster of each node; -1 where nothing is known of a node: no edges, no features.
    confidence_ : ndarray of shape (N,)
        The share of its cluster that the starts keep together with the node, on average, times the probability of the
        cluster given edges and features, from 0 to 1; 0 for a node of which nothing is known.
    loss_ : float
        Balance loss of the head that the clusters come from, between -1 and -1/K; of merged clusters, that of the hard
        assignment.
    saved_ : float
        Bits per node that the clusters save in describing edges and features. It grows with the number of clusters:
        compare numbers by ``savings_``.
    n_features_in_ : int
        Columns of ``features``, 0 without them; not the size of the matrix, which may differ from graph to graph.
    feature_names_in_ : ndarray of str
        Columns of ``features``, where ``fit`` was given a DataFrame with names; ``colour=red`` for a word.
    data_ : Read
        What was read: numbers of nodes, edges, repeated edges, self loops, components, and where the weights come from.
        As text, one line.
    n_clusters_ : int
        Number of clusters that was asked for, or chosen from the range; some may be empty. 1, with a warning, if no
        number in the range shortens the description of the edges.
    node_ids_ : ndarray of shape (N,)
        Node that each entry of ``labels_`` belongs to: the nodes of a networkx graph or edge list, else 0 .. N-1.
    view_ : str or None
        Where the clusters were found: smoothed features, features or edges.
    trials_ : list of dict
        The partitions that were tried, and what each of them saves.
    chosen_by_ : str
        What the number of clusters was chosen by: ``"reproducibility"``, ``"description"``, ``"given"``, or
        ``"previous"``: it is that of the previous clusters.
    reproducibility_ : float or None
        Agreement of the clusters of two random halves of the data, for this number: 0 by chance, 1 the same.
    levels_ : DataFrame or None
        What speaks for each number of a range; see below.
    savings_ : dict or None
        Number of clusters -> bits per node that so many save in describing the edges alone, where a range was given.
        They compare numbers, unlike ``saved_``.
    summary_ : DataFrame
        What the clusters are; see below.
    merges_ : Merges or None
        Which clusters merge first; see below.

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
    model_: ClusterModel | None
    _data: NodeData
    _explained: Explained | None
    _run: dict[str, Any]
    _choice: Choice

    def __init__(
        self,
        n_clusters: int | tuple[int, int] = RANGE,
        *,
        n_init: int = 8,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        features: Any = None,
        missing: str | None = None,
        previous: Any = None,
        fixed: Any = None,
        sample: str | None = None,
    ) -> JBClustering:
        """Cluster a graph.

        Parameters
        ----------
        X : matrix, graph or edge list
            A symmetric scipy sparse or numpy matrix ``(N, N)``; a DGLGraph (``ndata["feat"]`` and ``edata["weight"]``
            are used); a networkx or igraph graph (edge attribute ``weight``); an edge list as a DataFrame, an array or
            a list of tuples; an AnnData (``obsp["spatial_connectivities"]``, else ``["connectivities"]``, and
            ``obsm["X_pca"]``, else ``X``); a file of any of these kinds. Clusters are those of an undirected graph:
            one-way edges of a matrix, DGLGraph or DiGraph are refused, with the call that adds the other direction. An
            edge list may hold one direction or both. The sparse matrices of scikit-learn's ``KNeighborsTransformer``
            and ``RadiusNeighborsTransformer`` are taken with both directions of every edge and, if they hold distances,
            without weights; a note says so.
        y : object, optional
            Ignored; part of scikit-learn's interface.
        features : array, sparse matrix or DataFrame, optional
            ``(N, D)``, a row per node; of an AnnData also a key of ``obsm``, or ``"X"``. Without features the clusters
            come from the edges alone. A column of words in a DataFrame becomes a column of zeros and ones per word.
        missing : str, optional
            ``"mean"``: gaps in the features get the mean of their column. Default: an error.
        previous : mapping of nodes to clusters, Series, table or array of shape (N,), optional
            Clusters of an earlier version of the graph, -1 for none. They and, of a range, their number are continued
            where others are not clearly better. Clusters keep the numbers of those they overlap with most; new ones get
            new numbers, so that numbers may have gaps.
        fixed : mapping of nodes to clusters, Series, table or array of shape (N,), optional
            Nodes that keep their cluster, 0 to ``n_clusters`` - 1; the others arrange themselves around them.
        sample : str, optional
            Of an AnnData, the column of ``obs`` with the sample of each cell. Samples without edges between them are
            joined by edges from each cell to the most similar one of the next sample.
        """
        return self._fit(X, y, features, missing, previous, fixed, sample)

    def _fit(
        self, X: Any, y: Any, features: Any = None, missing: str | None = None, previous: Any = None,
        fixed: Any = None, sample: str | None = None,
    ) -> JBClustering:  # fmt: skip
        if y is not None and np.ndim(y) == 2:
            raise JBPoolError("the second argument is y and ignored: pass features by name, fit(X, features=...).")
        low, high = self._range()
        starts = check_count(self.n_init, "n_init")
        data = as_node_data(X, features, missing, sample)
        num_nodes = data.graph.num_nodes
        if num_nodes < 2:
            raise DataError("the graph has one node: there is nothing to cluster (n_samples=1).")
        if tuple(np.atleast_1d(self.n_clusters)) == RANGE:
            low, high = default_range(num_nodes)
        if high > num_nodes:
            raise JBPoolError(f"n_clusters={self.n_clusters}: the graph has only {num_nodes} nodes.")
        if previous is not None and fixed is not None:
            raise JBPoolError("previous and fixed both number the clusters: give only one of them.")
        anchors = Anchors(
            None if previous is None else clusters_of(previous, data.own_ids, "previous"),
            None if fixed is None else clusters_of(fixed, data.own_ids, "fixed"),
        )
        low = max(low, min(high, anchors.least()))
        for remark in remarks(data.graph.shares, data.feat):
            warnings.warn(remark, stacklevel=3)
        seed = self._seed()
        with watched("number of clusters", disable=not self.verbose or low == high) as watch:
            choice = choose(data.graph, data.feat, low, high, data.edge_weight, seed, watch)
        choice = choice.keeping(anchors.num_previous())
        for note in choice.notes:
            warnings.warn(note, stacklevel=3)
        with watched("clustering", disable=not self.verbose) as watch:
            result = find_clusters(
                data.graph, data.feat, choice, data.edge_weight, seed, starts, watch, anchors=anchors
            )
        for note in result.notes:
            warnings.warn(note, stacklevel=3)
        self._choice, self.n_clusters_, self.savings_ = choice, choice.num_clusters, choice.savings
        self.reproducibility_, self.chosen_by_ = choice.reproducibility, choice.by
        self.labels_ = result.cluster.numpy()
        self.confidence_ = result.confidence.numpy()
        self.loss_, self.saved_, self.model_ = result.loss, result.saved, result.model
        self.view_, self.trials_ = result.view, result.trials
        self.node_ids_ = data.own_ids
        self.n_features_in_ = 0 if data.feat is None else data.feat.shape[1]
        if hasattr(self, "feature_names_in_"):                          # of an earlier fit
            del self.feature_names_in_
        if data.feat_names is not None:
            self.feature_names_in_ = np.asarray(data.feat_names, dtype=object)
        self.data_ = data.read
        self._data, self._explained, self._run = data, None, {"seed": seed, "moved": result.moved}
        return self

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> np.ndarray:
        """Cluster a graph and return ``labels_``; ``options`` are those of ``fit``."""
        return self._fit(X, y, **options).labels_

    @WithModel
    def predict(self, X: Any, *, features: Any = None, missing: str | None = None) -> np.ndarray:
        """Return the clusters of the nodes of another graph, by the model of the first one.

        There is no such method after a fit without features, or with one cluster.

        Parameters
        ----------
        X : matrix, graph or edge list
            As for ``fit``.
        features : array, sparse matrix or DataFrame, optional
            ``(N, D)``, with the columns given to ``fit``; a DGLGraph may contain them.
        missing : str, optional
            As for ``fit``.
        """
        self._check_fitted()
        shape = getattr(X, "shape", (0, 0))
        if len(shape) == 2 and shape[0] != shape[1] == len(self.labels_):
            raise DataError(
                f"X has shape {tuple(shape)}: a part of the rows of a graph, as in cross-validation (GridSearchCV), is "
                "not a graph. To choose the number of clusters, fit with a range: n_clusters=(2, 12)."
            )
        data = as_node_data(X, features, missing)
        trained = [*getattr(self, "feature_names_in_", ())]
        if trained and data.feat is not None and data.feat_names is not None and list(data.feat_names) != trained:
            feat = words_as_trained(data.feat, data.feat_names, trained)
            if feat is None:
                raise DataError(
                    "the columns of features differ from those given to fit, or from their order: pass "
                    "features[model.feature_names_in_]."
                )
            data = replace(data, feat=feat)
        if data.feat is None or data.feat.shape[1] != self.n_features_in_:
            got = "no" if data.feat is None else data.feat.shape[1]
            raise DataError(f"{got} features, but the model was fitted on {self.n_features_in_}: pass the same ones.")
        assert self.model_ is not None
        with torch.no_grad():
            return self.model_(data.graph, data.feat, data.edge_weight)[0].numpy()

    # ------------------------------------------------------------ what was found

    @property
    def summary_(self) -> pd.DataFrame:
        """What the clusters are, a row for each that is not empty.

        ``size``; ``inside``, the share of the weight of its edges that stays inside; ``density``, its edges over its
        pairs of nodes; ``confidence``, the mean; ``features`` that set it apart, with ``lift`` and ``frequency`` of
        words and flags or ``difference`` of measurements; ``central``, ``typical`` and ``uncertain`` nodes; the
        ``closest`` clusters; ``sides``, nodes of the first and of the second column of a bipartite edge list.
        """
        return as_table(self._explain())

    @property
    def levels_(self) -> pd.DataFrame | None:
        """What speaks for each number of clusters of a range; ``None`` for a given number.

        ``n_clusters``; ``reproducibility``, the agreement of halves of the data; ``saved``, bits per node in describing
        the edges; ``level``, true where the number stands out from its neighbours.
        """
        import pandas as pd

        self._check_fitted()
        return pd.DataFrame(self._choice.levels) if self._choice.levels else None

    @property
    def merges_(self) -> Merges | None:
        """Which clusters merge first, by the bits per node that a union adds to the description of the edges.

        ``merges_.children`` ``(K - 1, 2)`` is as in scikit-learn's ``AgglomerativeClustering``: a number below K is a
        row of ``summary_``, K + i the union of row i. ``merges_.cost`` ``(K - 1,)`` may be negative, where the edges
        do not support two clusters. ``None`` beyond 400 clusters.
        """
        return self._explain().merges

    @property
    def communities_(self) -> list[list[Any]]:
        """The nodes of every cluster that is not empty, as cdlib and the quality functions of networkx take them."""
        self._check_fitted()
        used = np.unique(self.labels_[self.labels_ >= 0])
        return [self.node_ids_[self.labels_ == number].tolist() for number in used]

    def hierarchy(self, max_size: int | None = None) -> pd.DataFrame:
        """Return clusters at all levels: from the union of all down, and, of clusters too large, their parts.

        Parameters
        ----------
        max_size : int, optional
            A cluster with more nodes is divided by the same method until all parts are small enough; where nothing
            reproducible divides it, into pieces of equal size.

        Returns
        -------
        DataFrame
            ``level``, 0 for the coarsest; ``cluster``, as in ``labels_``, unions and parts count on; ``parent``, -1 for
            none; ``size``; ``nodes``, a list; ``balanced``, true for pieces of equal size.
        """
        from jbpool.clustering import hierarchy

        merges, labels = self._explain().merges, torch.from_numpy(self.labels_)
        communities = hierarchy.hierarchy(self._data, labels, merges, max_size, self._run["seed"])
        return hierarchy.as_table(communities, self.node_ids_)

    def to_frame(self, hierarchy: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return a table with a row per node: ``node``, ``cluster``, ``confidence``.

        ``hierarchy``: what ``hierarchy()`` returned, for a column ``level 0``, ``level 1``, ... of the cluster at each
        level; a node stays in the last one that it is in.
        """
        import pandas as pd

        self._check_fitted()
        table = pd.DataFrame({"node": self.node_ids_, "cluster": self.labels_, "confidence": self.confidence_})
        if hierarchy is not None:
            from jbpool.clustering.hierarchy import by_level

            table = table.join(by_level(hierarchy, self.node_ids_))
        return table

    def to_anndata(self, adata: Any, key: str = "jbpool") -> Any:
        """Write the clusters into an AnnData, as scanpy writes those of Leiden, and return it.

        ``obs[key]`` is a categorical of strings, missing for cells of which nothing is known; ``{key}_confidence`` is
        their confidence. ``uns[key]`` has the parameters, how the number was chosen, and what was read.

        Parameters
        ----------
        adata : AnnData
            The object given to ``fit``, or one with cells of the same names.
        key : str, default "jbpool"
            The name in ``obs`` and ``uns``.
        """
        from jbpool.data.own.cells import write_clusters

        self._check_fitted()
        params = {name: str(value) for name, value in self.get_params().items()}
        notes = {"params": params, "data": str(self.data_), **self._choice.described()}
        write_clusters(adata, key, self.node_ids_, self.labels_, self.confidence_, notes)
        return adata

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report, one HTML page that works offline, and return its path.

        Parameters
        ----------
        path : str or path
            The file, such as ``"clusters.html"``; replaced if it exists.
        """
        from jbpool.clustering.report import Findings, page  # drawing is needed only here

        explained, data, seed = self._explain(), self._data, self._run["seed"]
        cluster = torch.from_numpy(self.labels_)
        scores = graph_scores(ClusterSums.of(data.graph, cluster, None, data.edge_weight))
        run = {**scores, "score": self.saved_, "loss": self.loss_}
        record = run | {"view": self.view_, "trials": self.trials_} | self._run
        settings = {
            "config": {"estimator": repr(self)},
            "versions": {"torch": torch.__version__, "numpy": np.__version__},
        }
        path = Path(path)
        findings = Findings.of(
            data, "JBClustering", {"runs": [record], "mean": run, "std": {}}, {seed: cluster},
            {seed: torch.from_numpy(self.confidence_)}, explained, [], settings, choice=self._choice,
        )  # fmt: skip
        write_text(path, page(findings))
        return path

    def _repr_html_(self) -> str:
        """Show sizes and summary in a notebook; before ``fit``, scikit-learn's picture."""
        if not hasattr(self, "labels_"):
            from sklearn.utils import estimator_html_repr

            return estimator_html_repr(self)
        from jbpool.clustering.report import cluster_table

        table, note = cluster_table(self._explain())
        what = f"{self!r}: {len(self.labels_):,} nodes in {len(self._explain().clusters)} clusters"
        return f'{STYLE}<div class="jbpool"><p>{escape(what)}</p>{table}<p>{escape(note)}</p></div>'

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Return what notebooks ask for first."""
        from sklearn import get_config

        bundle = {"text/plain": repr(self)}
        return bundle | ({"text/html": self._repr_html_()} if get_config()["display"] == "diagram" else {})

    def _explain(self) -> Explained:
        """Describe the clusters when first asked to, since large graphs take seconds."""
        self._check_fitted()
        if self._explained is None:
            confidence = torch.from_numpy(self.confidence_)
            self._explained = explain(self._data, torch.from_numpy(self.labels_), confidence)
        return self._explained

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
