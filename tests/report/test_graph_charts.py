"""Pictures of graphs as XML: names are escaped, all numbers are finite, everything is inside the picture."""

import re

import numpy as np
import pytest
from drawings import HOSTILE, assert_inside, parse, texts

from jbpool.report import graph_charts
from jbpool.report.charts import COLOURS
from jbpool.report.graph_charts import circle_graph, network

NOTHING = np.zeros((0, 2))
NONE = np.zeros(0, dtype=int)


def random_weights(count):
    weight = np.random.default_rng(0).random((count, count))
    return weight + weight.T - np.diag(2 * weight.diagonal())


def plane(xy, group, name):
    names = [name] * (int(group.max(initial=0)) + 1)
    edges = np.column_stack([np.arange(len(xy)), np.roll(np.arange(len(xy)), 1)])
    return graph_charts.plane(xy, group, edges, np.arange(len(xy)), names, name)


DRAWINGS = {
    "plane": lambda name: plane(np.eye(3)[:, :2], np.array([0, 1, 1]), name),
    "circle graph": lambda name: circle_graph(random_weights(3), np.array([5, 3, 2]), name),
    "network": lambda name: network(np.eye(3)[:, :2], np.array([[0, 1], [1, 2]]), np.array([0, 1, 1]), name),
}


@pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS)
def test_names_stay_text(draw):
    root = parse(draw(HOSTILE))
    assert root.attrib["aria-label"] == HOSTILE
    assert {node.tag for node in root.iter()} <= {"svg", "text", "title", "path", "circle"}


def test_nothing_to_draw():
    for drawing in (plane(NOTHING, NONE, ""), network(NOTHING, NOTHING.astype(int), NONE, "")):
        assert "nothing recorded" in texts(parse(drawing))
    parse(circle_graph(np.zeros((0, 0)), NONE, ""))
    parse(network(np.eye(2), NOTHING.astype(int), np.array([0, 1]), ""))


@pytest.mark.parametrize("count", [1, 2, 200])
def test_any_number_of_clusters(count):
    rng = np.random.default_rng(0)
    group = np.arange(3 * count) % count
    assert_inside(plane(rng.random((3 * count, 2)), group, ""))
    assert_inside(network(rng.random((count, 2)), NOTHING.astype(int), np.arange(count), ""))
    circles = list(assert_inside(circle_graph(random_weights(count), rng.integers(1, 50, count), "")).iter("circle"))
    assert len(circles) == count
    centres = np.array([(float(node.attrib["cx"]), float(node.attrib["cy"])) for node in circles])
    radii = np.array([float(node.attrib["r"]) for node in circles])
    distance = np.linalg.norm(centres[:, None] - centres[None], axis=2) + np.diag(np.full(count, np.inf))
    assert (distance >= radii[:, None] + radii[None] - 0.3).all()           # discs do not cover each other


def test_discs_of_one_colour_have_different_marks():
    count = 4 * len(COLOURS)
    root = parse(network(np.zeros((count, 2)), NOTHING.astype(int), np.arange(count), ""))
    fills = [node.attrib["fill"] for node in root.iter("circle")]
    cuts = [node.attrib["d"] for node in root.iter("path") if node.attrib.get("class") == "cut"]
    assert fills == list(COLOURS) * 4
    assert len(cuts) == 3 * len(COLOURS)                                    # all but those of the first ten
    assert len(set(cuts)) == 3


def test_sizes_are_areas():
    circles = list(parse(circle_graph(random_weights(3), np.array([100, 25, 1]), "")).iter("circle"))
    radii = [float(node.attrib["r"]) for node in circles]
    assert radii[0] > radii[1] > radii[2] > 0


@pytest.mark.parametrize("count", [13, 40, 200])
def test_only_edges_that_matter_are_drawn(count):
    weight = random_weights(count)
    pairs = graph_charts.edges_that_matter(weight)
    strongest = {frozenset((i, int(weight[i].argmax()))) for i in range(count)}         # of every cluster
    assert strongest <= {frozenset(pair) for pair in pairs.tolist()}
    assert count - 1 <= len(pairs) < 2.5 * count
    values = weight[pairs[:, 0], pairs[:, 1]]
    assert (np.diff(values) <= 0).all()
    chart = circle_graph(weight, np.ones(count, dtype=int), "")
    assert chart.note.startswith(f"Lines: {len(pairs)} of {count * (count - 1) // 2:,} connections")
    assert len([node for node in parse(chart).iter("path") if node.attrib["class"] == "link"]) == len(pairs)


def test_few_clusters_keep_all_but_negligible_edges():
    weight = np.array([[0, 1, 0.01], [1, 0, 0.5], [0.01, 0.5, 0]])
    assert graph_charts.edges_that_matter(weight).tolist() == [[0, 1], [1, 2]]


def test_connected_clusters_are_close_on_the_circle():
    """Four groups of clusters, numbered alternately, come to lie together."""
    group = np.arange(40) % 4
    weight = (group[:, None] == group).astype(float) + 0.02
    np.fill_diagonal(weight, 0)
    around = group[np.argsort(graph_charts._order(weight))]
    assert (around != np.roll(around, 1)).sum() == 4


@pytest.mark.parametrize("count", [1, 2, 5, 90])
def test_a_tree_has_every_union(count):
    """A chain: 0 and 1, then 2, then 3, ..."""
    children = np.array([[0, 1], *([k, count + k - 2] for k in range(2, count))]).reshape(-1, 2)[: count - 1]
    cost = np.linspace(-0.5, 1, count - 1).tolist()
    chart = graph_charts.tree(children, cost, [f"leaf {k}" for k in range(count)], "a tree", "bits")
    assert len(chart.rows) == count - 1
    assert [float(row[-1]) for row in chart.rows] == pytest.approx(cost[::-1], abs=1e-4)      # the last union first
    shown = min(count, graph_charts.TREE_LEAVES)
    assert chart.svg.count("<circle") == shown
    assert chart.svg.count('class="branch"') == shown - 1
    hidden = count - shown
    assert (f" + {hidden} more" in chart.svg) == (hidden > 0)
    ends = [float(end) for end in re.findall(r'd="M[^"]*H([\d.]+)V', chart.svg)]
    assert ends == sorted(ends)                                                             # later unions at the right
    parse(graph_charts.tree(children, cost, [HOSTILE] * count, HOSTILE, HOSTILE))
