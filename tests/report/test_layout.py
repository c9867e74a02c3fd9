"""Positions in the plane: against naive sums over all pairs, and what they should show."""

import networkx
import numpy as np
import pytest

from jbpool.report import layout


def blobs(groups=4, size=60, seed=0):
    """Features of groups of nodes, and a ring of edges within each group."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), size)
    feat = 4 * rng.standard_normal((groups, 6))[group] + rng.standard_normal((len(group), 6))
    nodes = np.arange(len(group)).reshape(groups, size)
    return feat, np.column_stack([nodes.ravel(), np.roll(nodes, 1, axis=1).ravel()]), group


@pytest.mark.parametrize(("spacing", "tolerance"), [(0.15, 0.05), (layout.SPACING, 0.3)])
def test_repulsion_is_that_of_all_pairs(spacing, tolerance, monkeypatch):
    """Read from a grid, which smooths it: the finer, the closer."""
    monkeypatch.setattr(layout, "SPACING", spacing)
    xy = 8 * np.random.default_rng(0).standard_normal((300, 2))
    apart = xy[:, None] - xy[None]                                              # (N, N, 2)
    near = 1 / (1 + (apart**2).sum(2))
    expected = (apart * near[:, :, None] ** 2).sum(1) / (near.sum() - len(xy))
    found = layout._Grid(xy).repulsion(xy)
    assert np.linalg.norm(found - expected) < tolerance * np.linalg.norm(expected)


def test_attraction_is_shared_between_edges_and_nearest_nodes():
    feat, edges, _ = blobs()
    attraction = layout._attraction(feat, edges).toarray()
    assert attraction.sum() == pytest.approx(1)
    np.testing.assert_allclose(attraction, attraction.T)
    assert (attraction[edges[:, 0], edges[:, 1]] > 0).all()
    distance = np.linalg.norm(feat[:, None] - feat[None], axis=2) + 1e9 * np.eye(len(feat))
    assert (attraction[np.arange(len(feat)), distance.argmin(1)] > 0).all()
    assert (np.diag(attraction) == 0).all()


def test_groups_are_apart_and_nodes_are_visible():
    feat, edges, group = blobs()
    xy = layout.positions(feat, edges)
    assert xy.shape == (len(feat), 2)
    assert np.abs(xy).max() == pytest.approx(1)
    distance = np.linalg.norm(xy[:, None] - xy[None], axis=2) + 1e9 * np.eye(len(xy))
    assert (group[distance.argmin(1)] == group).mean() > 0.98
    assert np.quantile(distance.min(1), 0.05) > 0.25 * layout.APART * np.sqrt(np.pi / len(xy))


def test_edges_refine_what_features_say():
    """Equal features: the edges alone bring neighbours together."""
    _, edges, _ = blobs()
    xy = layout.positions(np.zeros((240, 3)), edges)
    distance = np.linalg.norm(xy[edges[:, 0]] - xy[edges[:, 1]], axis=1)
    rng = np.random.default_rng(0)
    random = np.linalg.norm(xy[rng.permutation(240)] - xy, axis=1)
    assert np.median(distance) < 0.5 * np.median(random)


def test_the_same_seed_gives_the_same_positions():
    feat, edges, _ = blobs()
    np.testing.assert_array_equal(layout.positions(feat, edges, 3), layout.positions(feat, edges, 3))
    assert np.abs(layout.positions(feat, edges, 3) - layout.positions(feat, edges, 4)).max() > 0


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8])
def test_a_few_nodes(count):
    xy = layout.positions(np.ones((count, 1)), np.zeros((0, 2), dtype=int))
    assert xy.shape == (count, 2)
    assert np.isfinite(xy).all()
    assert len(np.unique(xy, axis=0)) == count


# ---------------------------------------------------------------- small graphs


def test_a_path_is_a_line_and_a_ring_is_a_ring():
    nodes = np.arange(12)
    path = layout.small_positions(12, np.column_stack([nodes[:-1], nodes[1:]]))
    assert np.linalg.norm(path[0] - path[-1]) == pytest.approx(11, rel=0.02)
    ring = layout.small_positions(12, np.column_stack([nodes, np.roll(nodes, 1)]))
    radius = np.linalg.norm(ring - ring.mean(0), axis=1)
    assert radius.std() < 0.02 * radius.mean()


def test_stress_is_below_that_of_other_layouts():
    rng = np.random.default_rng(0)
    edges = np.array([(a, b) for a in range(30) for b in range(a) if rng.random() < 0.12])
    graph = networkx.Graph(edges.tolist())
    graph.add_nodes_from(range(30))
    graph = graph.subgraph(max(networkx.connected_components(graph), key=len))
    names = {node: i for i, node in enumerate(graph)}
    edges = np.array([(names[a], names[b]) for a, b in graph.edges])
    distance = networkx.floyd_warshall_numpy(graph)
    away = distance > 0

    def stress(xy):
        gap = np.linalg.norm(xy[:, None] - xy[None], axis=2)
        scale = (gap[away] / distance[away]).sum() / (gap[away] ** 2 / distance[away] ** 2).sum()
        return ((scale * gap[away] / distance[away] - 1) ** 2).sum()

    spring = networkx.spring_layout(graph, seed=0)
    found = stress(layout.small_positions(len(names), edges))
    assert found < stress(np.array([spring[node] for node in graph]))
    assert found < stress(rng.standard_normal((len(names), 2)))


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_graphs_in_parts(count):
    xy = layout.small_positions(count, np.zeros((0, 2), dtype=int))
    assert xy.shape == (count, 2)
    assert np.isfinite(xy).all()
    assert len(np.unique(xy.round(3), axis=0)) == count
