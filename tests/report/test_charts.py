"""Charts as XML: names are escaped, all numbers are finite, everything is inside the picture."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from jbpool.report import charts
from jbpool.report.charts import heat_map, value_map

HOSTILE = "<script>alert(\"x\")</script> & 'y' ]]> <!--"
NUMBERS = ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "stroke-width", "fill-opacity")


def parse(drawing):
    """The drawing as a tree; fails if it is not well-formed or contains NaN or infinity."""
    root = ElementTree.fromstring(getattr(drawing, "svg", drawing))
    assert root.tag == "svg"
    for node in root.iter():
        for key in NUMBERS:
            if key in node.attrib:
                assert math.isfinite(float(node.attrib[key])), ElementTree.tostring(node)
        for key in ("d", "points"):
            for number in re.findall(r"[^\sMLQhHV,]+", node.attrib.get(key, "")):
                assert math.isfinite(float(number)), node.attrib[key]
    return root


def texts(root):
    return [node.text for node in root.iter() if node.tag in ("text", "title")]


def random_weights(count):
    weight = np.random.default_rng(0).random((count, count))
    return weight + weight.T - np.diag(2 * weight.diagonal())


def plane(xy, group, name):
    names = [name] * (int(group.max(initial=0)) + 1)
    edges = np.column_stack([np.arange(len(xy)), np.roll(np.arange(len(xy)), 1)])
    return charts.plane(xy, group, edges, np.arange(len(xy)), names, name)


DRAWINGS = {
    "lines": lambda name: charts.lines({name: ([0, 1, 2], [0.5, 0.2, 0.1])}, name, name),
    "bars": lambda name: charts.bars({name: [3, 2, 1]}, name),
    "heat map": lambda name: heat_map(np.eye(2, dtype=int), [name, "b"], [name, "d"], name),
    "value map": lambda name: value_map(np.eye(2), [name, "b"], [name, "b"], name),
    "plane": lambda name: plane(np.eye(3)[:, :2], np.array([0, 1, 1]), name),
    "circle graph": lambda name: charts.circle_graph(random_weights(3), np.array([5, 3, 2]), name),
    "network": lambda name: charts.network(np.eye(3)[:, :2], np.array([[0, 1], [1, 2]]), np.array([0, 1, 1]), name),
}


@pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS)
def test_names_stay_text(draw):
    root = parse(draw(HOSTILE))
    assert root.attrib["aria-label"] == HOSTILE
    assert {node.tag for node in root.iter()} <= {"svg", "text", "title", "line", "polyline", "rect", "path", "circle"}


def test_names_are_shown():
    name = "a & <b>"
    assert name in texts(parse(DRAWINGS["lines"](name)))
    assert f"{name}, rank 1: 3" in texts(parse(DRAWINGS["bars"](name)))
    assert "third: 1" in texts(parse(charts.bars({name: [3, 2, 1]}, "", {name: ["first", "second", "third"]})))
    assert texts(parse(DRAWINGS["heat map"](name))).count(name) == 2


# ---------------------------------------------------------------- empty


NOTHING = np.zeros((0, 2))
EMPTY = {
    "no lines": lambda: charts.lines({}, "epoch", ""),
    "lines without points": lambda: charts.lines({"a": ([], [])}, "epoch", ""),
    "lines of NaN": lambda: charts.lines({"a": ([1.0, 2.0], [math.nan, math.inf])}, "epoch", ""),
    "no bars": lambda: charts.bars({}, ""),
    "bars without heights": lambda: charts.bars({"a": []}, ""),
    "bars of zeros": lambda: charts.bars({"a": [0, 0]}, ""),
    "heat map without columns": lambda: heat_map(np.zeros((2, 0)), ["a", "b"], [], ""),
    "heat map without rows": lambda: heat_map(np.zeros((0, 2)), [], ["a", "b"], ""),
    "heat map of zeros": lambda: heat_map(np.zeros((2, 2)), ["a", "b"], ["a", "b"], ""),
    "no points": lambda: plane(NOTHING, np.zeros(0, dtype=int), ""),
    "circle graph without clusters": lambda: charts.circle_graph(np.zeros((0, 0)), np.zeros(0, dtype=int), ""),
    "network without nodes": lambda: charts.network(NOTHING, np.zeros((0, 2), dtype=int), np.zeros(0, dtype=int), ""),
    "network without edges": lambda: charts.network(np.eye(2), np.zeros((0, 2), dtype=int), np.array([0, 1]), ""),
}


@pytest.mark.parametrize("draw", EMPTY.values(), ids=EMPTY)
def test_nothing_to_draw(draw):
    parse(draw())


def test_an_empty_picture_says_so():
    for name in ("no lines", "lines without points", "lines of NaN", "no points", "network without nodes"):
        assert "nothing recorded" in texts(parse(EMPTY[name]()))


# ---------------------------------------------------------------- lines


@pytest.mark.parametrize(
    "values",
    [
        [0.5], [0.5, 0.5], [-0.9, -0.9 + 1e-13], [1e9, 1e9 + 1e-6], [1e-12, 2e-12], [-1e30, 1e30], [0.0, math.nan, 1.0],
    ],
    ids=str,
)  # fmt: skip
def test_curves_of_every_range(values):
    root = parse(charts.lines({"a": (list(range(1, len(values) + 1)), values)}, "epoch", ""))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    (curve,) = root.iter("polyline")
    points = [tuple(map(float, point.split(","))) for point in curve.attrib["points"].split()]
    assert len(points) == sum(map(math.isfinite, values))
    assert all(0 <= x <= width and 0 <= y <= height for x, y in points)


def test_higher_values_are_drawn_higher():
    root = parse(charts.lines({"a": ([1, 2, 3], [0.1, 0.9, 0.5])}, "epoch", ""))
    (curve,) = root.iter("polyline")
    (x1, y1), (x2, y2), (x3, y3) = (tuple(map(float, point.split(","))) for point in curve.attrib["points"].split())
    assert x1 < x2 < x3
    assert y2 < y3 < y1                                     # y grows downwards


RANGES = [(0, 1), (-0.93, -0.21), (3, 3), (0, 12345), (0.001, 0.0011), (1e-12, 2e-12), (1e30, 1e30)]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_ticks_cover_the_range_with_round_numbers(low, high):
    ticks = charts.ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    steps = np.diff(ticks)
    assert 1 <= len(steps) <= 7
    np.testing.assert_allclose(steps, steps[0])
    mantissa = steps[0] / 10 ** math.floor(math.log10(steps[0]) + 1e-9)
    assert min(abs(mantissa - round_number) for round_number in (1, 2, 5)) < 1e-6


# ---------------------------------------------------------------- one cluster, many clusters


def boxes(root):
    """(left, right, top, bottom) of discs and rectangles."""
    for node in root.iter():
        if node.tag == "circle":
            x, y, r = (float(node.attrib[key]) for key in ("cx", "cy", "r"))
            yield x - r, x + r, y - r, y + r
        elif node.tag == "rect":
            x, y, wide, tall = (float(node.attrib[key]) for key in ("x", "y", "width", "height"))
            assert min(wide, tall) >= 0
            yield x, x + wide, y, y + tall


@pytest.mark.parametrize("count", [1, 2, 200])
def test_any_number_of_clusters(count):
    rng = np.random.default_rng(0)
    size = rng.integers(1, 50, count)
    group = np.arange(3 * count) % count
    names = [f"cluster {i}" for i in range(count)]
    drawings = [
        charts.bars({"clusters": sorted(size.tolist(), reverse=True)}, ""),
        heat_map(rng.integers(0, 9, (3, count)), names[:3] + ["b", "c"][: max(0, 3 - count)], names, ""),
        plane(rng.random((3 * count, 2)), group, ""),
        charts.circle_graph(random_weights(count), size, ""),
        charts.network(rng.random((count, 2)), np.zeros((0, 2), dtype=int), np.arange(count), ""),
    ]
    for drawing in drawings:
        root = parse(drawing)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for left, right, top, bottom in boxes(root):
            assert -0.1 <= left <= right <= width + 0.1
            assert -0.1 <= top <= bottom <= height + 0.1
    circles = list(parse(drawings[3]).iter("circle"))
    assert len(circles) == count
    centres = np.array([(float(node.attrib["cx"]), float(node.attrib["cy"])) for node in circles])
    radii = np.array([float(node.attrib["r"]) for node in circles])
    distance = np.linalg.norm(centres[:, None] - centres[None], axis=2) + np.diag(np.full(count, np.inf))
    assert (distance >= radii[:, None] + radii[None] - 0.3).all()           # discs do not cover each other


def test_sizes_are_areas():
    circles = list(parse(charts.circle_graph(random_weights(3), np.array([100, 25, 1]), "")).iter("circle"))
    radii = [float(node.attrib["r"]) for node in circles]
    assert radii[0] > radii[1] > radii[2] > 0


def test_many_curves_do_not_run_into_their_legend():
    """The legend uses as many rows as needed, and the curves start below it."""
    series = {f"a long name of method {i}": ([0, 1], [0, 1]) for i in range(30)}
    root = parse(charts.lines(series, "epoch", ""))
    squares = [float(node.attrib["y"]) + float(node.attrib["height"]) for node in root.iter("rect") if len(node) == 0]
    curves = [node.attrib["points"].split() for node in root.iter("polyline")]
    tops = [min(float(point.split(",")[1]) for point in points) for points in curves]
    assert len(squares) == len(tops) == 30
    assert max(squares) <= min(tops)


# ---------------------------------------------------------------- values


def test_values_under_the_pointer_are_those_of_all_curves():
    chart = charts.lines({"loss": ([1, 2], [0.5, 0.25]), "NMI": ([2], [0.75])}, "epoch", "")
    printed = [text for text in texts(parse(chart)) if "\n" in text]
    assert printed == ["epoch 1\nloss: 0.5", "epoch 2\nloss: 0.25\nNMI: 0.75"]
    assert (chart.head, chart.rows) == (("epoch", "loss", "NMI"), [["1", "0.5", "-"], ["2", "0.25", "0.75"]])


def test_a_long_curve_has_a_short_table():
    xs = list(range(5000))
    chart = charts.lines({"loss": (xs, xs)}, "epoch", "")
    assert len(chart.rows) == charts.SHOWN_VALUES
    assert (chart.rows[0][0], chart.rows[-1][0]) == ("0", "4999")


def test_tables_of_values():
    chart = charts.bars({"clusters": [3, 1]}, "", {"clusters": ["cluster 4", "cluster 0"]})
    assert chart.rows[1] == ["clusters", "cluster 0", "1"]
    assert heat_map(np.array([[1, 2]]), ["a"], ["x", "y"], "").rows == [["a", "1", "2"]]
    weight = np.array([[0, 1, 3], [1, 0, 2], [3, 2, 0]])
    assert charts.circle_graph(weight, np.ones(3), "", "abc").rows[0] == ["a", "c", "3.000"]


@pytest.mark.parametrize("count", [1, 3, 7, 20, 40, 200])
@pytest.mark.parametrize("classes", [True, False])
def test_bars_have_names_where_there_is_space(count, classes):
    """Inside the picture, below the axis, without overlap."""
    names = {"clusters": [f"cluster {i}" for i in range(count)], "classes": ["Neural Networks and Evolution"] * count}
    groups = {name: [1] * count for name in (names if classes else ["clusters"])}
    root = parse(charts.bars(groups, "", names))
    height, bars = float(root.attrib["height"]), [node for node in root.iter("rect") if len(node)]
    axis = max(float(node.attrib["y"]) + float(node.attrib["height"]) for node in bars)
    below = [node for node in root.iter("text") if node.text.startswith(("cluster ", "Neural"))]
    wide = float(bars[0].attrib["width"])
    assert len(bars) == count * len(groups)
    assert len(below) == (len(bars) if wide >= charts.NAMED_BAR else 0)
    assert (wide >= charts.NAMED_BAR) == (count * len(groups) <= 80)
    assert {node.text for node in below if node.text.startswith("N")} <= {"Neural Networks a…"}
    for node in below:
        upright, length = "transform" in node.attrib, 6.2 * len(node.text)
        assert upright or length <= 402 / count
        assert axis < float(node.attrib["y"]) <= height - 8 - 11 - (5.6 * len(node.text) if upright else 0)


# ---------------------------------------------------------------- many clusters


@pytest.mark.parametrize("count", [13, 40, 200])
def test_only_edges_that_matter_are_drawn(count):
    weight = random_weights(count)
    pairs = charts.edges_that_matter(weight)
    strongest = {frozenset((i, int(weight[i].argmax()))) for i in range(count)}         # of every cluster
    assert strongest <= {frozenset(pair) for pair in pairs.tolist()}
    assert count - 1 <= len(pairs) < 2.5 * count
    values = weight[pairs[:, 0], pairs[:, 1]]
    assert (np.diff(values) <= 0).all()
    chart = charts.circle_graph(weight, np.ones(count, dtype=int), "")
    assert chart.note.startswith(f"Lines: {len(pairs)} of {count * (count - 1) // 2:,} connections")
    assert len([node for node in parse(chart).iter("path")]) == len(pairs)


def test_few_clusters_keep_all_but_negligible_edges():
    weight = np.array([[0, 1, 0.01], [1, 0, 0.5], [0.01, 0.5, 0]])
    assert charts.edges_that_matter(weight).tolist() == [[0, 1], [1, 2]]


def test_connected_clusters_are_close_on_the_circle():
    """Four groups of clusters, numbered alternately, come to lie together."""
    group = np.arange(40) % 4
    weight = (group[:, None] == group).astype(float) + 0.02
    np.fill_diagonal(weight, 0)
    around = group[np.argsort(charts._order(weight))]
    assert (around != np.roll(around, 1)).sum() == 4


def test_many_columns_are_grouped():
    counts = np.random.default_rng(0).integers(0, 9, (3, 200))
    chart = heat_map(counts, ["a", "b", "c"], [str(i) for i in range(200)], "", [("first", 120), ("last", 80)])
    root = parse(chart)
    assert {"first", "last"} <= set(texts(root))
    assert float(root.attrib["width"]) <= charts.WIDE + 20
    assert chart.wide
    assert chart.rows[0][1:] == [str(count) for count in counts[0]]


def test_groups_of_single_columns_have_no_lines_between_them():
    names = [str(i) for i in range(40)]
    root = parse(heat_map(np.eye(40), names, names, "", [(name, 1) for name in names]))
    assert not [element for element in root.iter() if element.attrib.get("class") == "rule"]


# ---------------------------------------------------------------- trees


@pytest.mark.parametrize("count", [1, 2, 5, 90])
def test_a_tree_has_every_union(count):
    """A chain: 0 and 1, then 2, then 3, ..."""
    children = np.array([[0, 1], *([k, count + k - 2] for k in range(2, count))]).reshape(-1, 2)[: count - 1]
    cost = np.linspace(-0.5, 1, count - 1).tolist()
    chart = charts.tree(children, cost, [f"leaf {k}" for k in range(count)], "a tree", "bits")
    assert len(chart.rows) == count - 1
    assert [float(row[-1]) for row in chart.rows] == pytest.approx(cost[::-1], abs=1e-4)      # the last union first
    shown = min(count, charts.TREE_LEAVES)
    assert chart.svg.count("<circle") == shown
    assert chart.svg.count('class="branch"') == shown - 1
    hidden = count - shown
    assert (f" + {hidden} more" in chart.svg) == (hidden > 0)
    ends = [float(end) for end in re.findall(r'd="M[^"]*H([\d.]+)V', chart.svg)]
    assert ends == sorted(ends)                                                             # later unions at the right
    parse(charts.tree(children, cost, [HOSTILE] * count, HOSTILE, HOSTILE))
