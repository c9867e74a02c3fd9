"""Naive oracles: dense N x N matrices, one graph at a time, in float64 numpy. Slow and obvious on purpose."""

import warnings

import numpy as np
import scipy.linalg


def array(tensor):
    """A tensor of any device as numpy array."""
    return tensor.detach().cpu().numpy()


def adjacency(graph, edge_weight=None):
    """Dense A of one graph, A[u, v] = weight of u -> v."""
    A = np.zeros((graph.num_nodes, graph.num_nodes))
    source, target = (array(ids) for ids in graph.edge_index)
    weight = np.ones(len(source)) if edge_weight is None else array(edge_weight.double())
    for u, v, w in zip(source, target, weight, strict=True):
        A[u, v] += w
    return A


def normalized(A):
    """D^-1/2 A D^-1/2, nodes without edges left at zero."""
    d = A.sum(1)
    scale = np.array([x**-0.5 if x > 0 else 0.0 for x in d])
    return scale[:, None] * A * scale[None, :]


def balance(S, sqrt="matrix", cluster_sizes=None, normalize=True):
    n, K = S.shape
    if cluster_sizes is not None:
        S = S * np.sqrt(cluster_sizes)
    if sqrt == "matrix":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)     # sqrtm warns of singular matrices
            value = np.trace(np.real(scipy.linalg.sqrtm(S.T @ S)))
    else:
        value = np.trace(np.sqrt(S.T @ S))                      # element-wise, as public implementations have it
    scale = np.sqrt(n * K) if cluster_sizes is None else np.sqrt(n)
    return -value / scale if normalize else -value


def cut(S, A):
    An = normalized(A)
    volume = np.trace(S.T @ np.diag(An.sum(1)) @ S)
    return -np.trace(S.T @ An @ S) / volume if volume > 0 else 0.0


def ortho(S):
    G, K = S.T @ S, S.shape[1]
    return np.linalg.norm(G / np.linalg.norm(G) - np.eye(K) / np.sqrt(K))


def modularity(S, A):
    d, two_m = A.sum(1), A.sum()
    if two_m == 0:
        return 0.0
    B = A - np.outer(d, d) / two_m
    return -np.trace(S.T @ B @ S) / two_m


def collapse(S):
    n, K = S.shape
    return np.sqrt(K) / n * np.linalg.norm(S.sum(0)) - 1


def link(S, A):
    return np.linalg.norm(A - S @ S.T) / len(A)


def entropy(S):
    return -np.mean([sum(s * np.log(s) for s in row if s > 0) for row in S])


LOSSES = {
    "balance": lambda S, A: balance(S),
    "cut": cut,
    "ortho": lambda S, A: ortho(S),
    "modularity": modularity,
    "collapse": lambda S, A: collapse(S),
    "link": link,
    "entropy": lambda S, A: entropy(S),
}


def pooled_adjacency(S, A):
    out = S.T @ A @ S
    np.fill_diagonal(out, 0)
    return normalized(out)


def smoothed(X, A, delta):
    n = len(A)
    return (np.eye(n) - delta * (np.eye(n) - normalized(A))) @ X


def quadratic_variation(x, A):
    """The paper's LQV of one feature: half the sum over ordered pairs."""
    d, total = A.sum(1), 0.0
    for i in range(len(A)):
        for j in range(len(A)):
            if A[i, j]:
                total += 0.5 * A[i, j] * (x[i] / d[i] ** 0.5 - x[j] / d[j] ** 0.5) ** 2
    return total
