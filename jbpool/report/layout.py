"""Positions of nodes in the plane: neighbours attract each other, all nodes repel each other (as in t-SNE).

The repulsion is read from a field on a grid, which is a convolution of the density of the nodes: a step costs
``O(N + E + G^2 log G)`` for G grid lines and is vectorised over nodes and edges.
"""

from __future__ import annotations

import numpy as np
import scipy.fft
import scipy.sparse
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import cKDTree

STEPS = 200             # of gradient descent
EARLY = 80              # of which with a stronger attraction, so that groups can form
EARLY_PULL, PULL = 10.0, 1.5
COMPONENTS = 12         # of the features, in which nearest nodes are searched
NEIGHBOURS = 6          # nearest nodes in the space of the features that attract a node, besides its edges
LEAF = 32               # points in a leaf of the trees that nearest nodes are searched in: twice as fast as 10
NEARLY = 0.5            # how much farther than the nearest nodes those may be that are taken for them: 0.5 % are
APART = 0.6             # distance kept between nodes, relative to that of nodes spread evenly over a disc
SPREAD_STEPS = 25
SMALL_STEPS = 60        # of the majorisation of small graphs
MARGIN = 1.25           # of the grid around the nodes; a new grid is needed only when they leave it
SPACING = 0.7           # of the grid at most, while it has fewer lines than GRID
GRID = (32, 320)        # lines


def positions(feat: np.ndarray, edges: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return positions from features ``(N, D)``, refined over edges ``(E, 2)``, every edge once: ``(N, 2)``.

    D is at most a few hundred; nodes start at their first two principal components, and the seed separates those with
    equal features. The positions are centred, the farthest coordinate at distance 1.
    """
    count = len(feat)
    if count < 3:
        return np.column_stack([np.arange(count), np.zeros(count)])[:, :2].astype(float)
    main = _principal(feat.astype(np.float64))
    random = np.random.default_rng(seed).standard_normal((count, 2))
    xy = _descend(1e-2 * main[:, :2] / max(float(main.std()), 1e-12) + 1e-3 * random, _attraction(main, edges))
    return _centred(_spread(_centred(xy), np.sqrt(np.pi / count) * APART))


def small_positions(count: int, edges: np.ndarray) -> np.ndarray:
    """Return positions ``(N, 2)`` whose distances are those along the edges ``(E, 2)`` (stress majorisation).

    For graphs of at most a few hundred nodes.
    """
    if count < 2:
        return np.zeros((count, 2))
    adjacency = scipy.sparse.csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(count, count))
    distance = shortest_path(adjacency, directed=False, unweighted=True)                    # (N, N)
    reached = np.isfinite(distance)
    distance[~reached] = distance[reached].max() + 1                                        # components apart
    weight = np.where(distance > 0, 1 / np.maximum(distance, 1) ** 2, 0)
    inverse = np.linalg.pinv(np.diag(weight.sum(1)) - weight)
    centred = distance**2 - (distance**2).mean(0)
    values, vectors = np.linalg.eigh(-(centred - centred.mean(1, keepdims=True)) / 2)       # classical scaling
    xy = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    xy += 1e-3 * np.random.default_rng(0).standard_normal(xy.shape)                         # separate equal nodes
    for _ in range(SMALL_STEPS):
        gap = np.linalg.norm(xy[:, None] - xy[None], axis=2)
        ratio = weight * distance / np.maximum(gap, 1e-9)
        xy = inverse @ (ratio.sum(1, keepdims=True) * xy - ratio @ xy)
    return xy


def _principal(feat: np.ndarray) -> np.ndarray:
    """Return the principal components of features, ``(N, D)`` to ``(N, 2 .. COMPONENTS)``, signs fixed."""
    feat = feat - feat.mean(0)
    _, axes = np.linalg.eigh(feat.T @ feat)                                                 # ascending
    axes = axes[:, ::-1][:, :COMPONENTS]
    axes = axes * np.where(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])] < 0, -1, 1)
    main = feat @ axes
    return np.pad(main, ((0, 0), (0, max(0, 2 - main.shape[1]))))


def _centred(xy: np.ndarray) -> np.ndarray:
    xy = xy - (xy.max(0) + xy.min(0)) / 2
    return xy / max(float(np.abs(xy).max()), 1e-12)


def _spread(xy: np.ndarray, distance: float) -> np.ndarray:
    """Move overlapping nodes apart, a little per step, until most keep a minimum distance."""
    count = len(xy)
    for _ in range(SPREAD_STEPS):
        tree = cKDTree(xy, LEAF)
        gap, neighbours = tree.query(xy, k=min(NEIGHBOURS + 1, count), distance_upper_bound=distance)     # (N, k)
        node, rank = np.nonzero((neighbours < count) & (neighbours != np.arange(count)[:, None]))   # not itself or none
        neighbour, gap_here = neighbours[node, rank], gap[node, rank]
        push = (distance - gap_here) / np.maximum(gap_here, 1e-9) / 4
        shift = (xy[node] - xy[neighbour]) * push[:, None]
        xy = xy + np.column_stack([np.bincount(node, shift[:, i], count) for i in range(2)])
    return xy


def _attraction(feat: np.ndarray, edges: np.ndarray) -> scipy.sparse.csr_array:
    """Return symmetric shares of attraction with sum one: half to the edges of a node, half to its nearest nodes."""
    count = len(feat)
    _, neighbours = cKDTree(feat, LEAF).query(feat, k=min(NEIGHBOURS + 1, count), eps=NEARLY)       # (N, k), and itself
    pairs = np.column_stack([np.repeat(np.arange(count), neighbours.shape[1]), neighbours.ravel()])
    parts = []
    for pair in (np.concatenate([edges, edges[:, ::-1]]), pairs):
        pair = pair[pair[:, 0] != pair[:, 1]]
        part = scipy.sparse.csr_array((np.ones(len(pair)), (pair[:, 0], pair[:, 1])), shape=(count, count))
        degree = np.maximum(part.sum(1), 1)
        parts.append(scipy.sparse.diags_array(1 / degree) @ part)
    both = parts[0] + parts[1]
    both = scipy.sparse.csr_array(both + both.T)
    return both / max(both.sum(), 1e-12)


def _descend(xy: np.ndarray, attraction: scipy.sparse.csr_array) -> np.ndarray:
    """Minimise the t-SNE objective by gradient descent with momentum."""
    count = len(xy)
    pairs = scipy.sparse.coo_matrix(scipy.sparse.triu(attraction, 1))                       # every pair once
    first, second, share = pairs.row, pairs.col, pairs.data.astype(np.float32)
    speed, gain, grid = np.zeros_like(xy), np.ones_like(xy), None
    for step in range(STEPS):
        pull, momentum = (EARLY_PULL, 0.5) if step < EARLY else (PULL, 0.8)
        x, y = np.ascontiguousarray(xy.T, dtype=np.float32)
        x, y = x[first] - x[second], y[first] - y[second]
        force = share / (1 + x * x + y * y)
        attract = [np.bincount(first, f, count) - np.bincount(second, f, count) for f in (force * x, force * y)]
        if grid is None or not grid.holds(xy):
            grid = _Grid(xy)
        gradient = pull * np.column_stack(attract) - grid.repulsion(xy)
        gain = np.where(np.sign(gradient) != np.sign(speed), gain + 0.2, np.maximum(gain * 0.8, 0.01))
        speed = momentum * speed - (count / EARLY_PULL) * 4 * gain * gradient
        speed *= np.minimum(1, 5 / np.maximum(np.hypot(*speed.T), 1e-12))[:, None]          # limit the step of a node
        xy = xy + speed
        xy -= xy.mean(0)
    return xy


class _Grid:
    """A grid around the nodes, with the kernels of the repulsion for its spacing."""

    def __init__(self, xy: np.ndarray):
        extent = MARGIN * max(float(np.ptp(xy, axis=0).max()), 1.0)
        lines = int(np.clip(extent / SPACING, *GRID))
        self.spacing, self.lines = extent / lines, lines
        self.low = (xy.max(0) + xy.min(0)) / 2 - extent / 2
        self.size = scipy.fft.next_fast_len(2 * lines + 2, real=True)
        offset = scipy.fft.fftfreq(self.size, 1 / self.size) * self.spacing                 # 0, 1, .., -2, -1 spacings
        x, y = np.meshgrid(offset.astype(np.float32), offset.astype(np.float32), indexing="ij")
        decay = 1 / (1 + x**2 + y**2)
        self.kernels = [scipy.fft.rfft2(kernel) for kernel in (decay, x * decay**2, y * decay**2)]

    def holds(self, xy: np.ndarray) -> bool:
        place = (xy - self.low) / self.spacing
        return bool(place.min() >= 0 and place.max() < self.lines)

    def repulsion(self, xy: np.ndarray) -> np.ndarray:
        """Return ``sum_j (x_i - x_j) / (1 + d_ij^2)^2``, over ``sum_ij 1 / (1 + d_ij^2)``, per node: ``(N, 2)``."""
        place = (xy - self.low) / self.spacing
        first = place.astype(int)
        inside = place - first                                                              # (N, 2) in [0, 1)
        corners, shares = [], []
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            corners.append((first[:, 0] + i) * self.size + first[:, 1] + j)
            shares.append(np.abs(1 - i - inside[:, 0]) * np.abs(1 - j - inside[:, 1]))
        corner, share = np.array(corners), np.array(shares)                                 # (4, N)
        density = np.bincount(corner.ravel(), share.ravel(), self.size**2).reshape(self.size, self.size)
        spectrum = scipy.fft.rfft2(density.astype(np.float32))
        fields = [scipy.fft.irfft2(spectrum * kernel, s=density.shape).ravel() for kernel in self.kernels]
        total, *push = [(field[corner] * share).sum(0) for field in fields]
        return np.column_stack(push) / max(float(total.sum()) - len(xy), 1e-9)
