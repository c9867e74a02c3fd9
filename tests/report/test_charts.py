"""Charts as XML: names are escaped, all numbers are finite, everything is inside the picture."""

import math

import numpy as np
import pytest
from drawings import HOSTILE, assert_inside, parse, texts

from jbpool.report import charts
from jbpool.report.charts import heat_map, value_map

DRAWINGS = {
    "lines": lambda name: charts.lines({name: ([0, 1, 2], [0.5, 0.2, 0.1])}, name, name),
    "bars": lambda name: charts.bars({name: [3, 2, 1]}, name),
    "heat map": lambda name: heat_map(np.eye(2, dtype=int), [name, "b"], [name, "d"], name),
    "value map": lambda name: value_map(np.eye(2), [name, "b"], [name, "b"], name),
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
}


@pytest.mark.parametrize("draw", EMPTY.values(), ids=EMPTY)
def test_nothing_to_draw(draw):
    parse(draw())


def test_an_empty_picture_says_so():
    for name in ("no lines", "lines without points", "lines of NaN"):
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


@pytest.mark.parametrize("count", [1, 2, 200])
def test_any_number_of_groups(count):
    rng = np.random.default_rng(0)
    names = [f"cluster {i}" for i in range(count)]
    assert_inside(charts.bars({"clusters": sorted(rng.random(count), reverse=True)}, "", {"clusters": names}))
    assert_inside(heat_map(rng.integers(0, 9, (3, count)), ["a", "b", "c"], names, ""))
    assert_inside(charts.lines({name: ([0, 1], [0, 1]) for name in names[:30]}, "epoch", ""))


# ---------------------------------------------------------------- the number of clusters


ROWS = [
    {"n_clusters": k, "reproducibility": 1 / k, "saved": 0.1 * k, "level": k in (3, 5)} for k in (4, 2, 3, 5, 6)
]


def test_two_curves_of_the_number_of_clusters():
    chart = charts.numbers_of_clusters(ROWS, 3)
    root = assert_inside(chart)
    rising = []
    for curve in root.iter("polyline"):
        points = [tuple(map(float, point.split(","))) for point in curve.attrib["points"].split()]
        assert [x for x, _ in points] == sorted(x for x, _ in points)
        rising.append(points[0][1] > points[-1][1])                         # y grows downwards
    assert rising == [False, True]
    assert {"3, chosen", "3", "5"} <= set(texts(root))
    assert chart.rows[1] == ["3", "0.3333", "0.3", "level"]
    assert [row[-1] for row in chart.rows] == ["", "level", "", "level", ""]


@pytest.mark.parametrize("missing", [("saved",), ("reproducibility",), ("saved", "reproducibility")])
def test_numbers_of_clusters_of_which_less_is_known(missing):
    rows = [{key: None if key in missing else value for key, value in row.items()} for row in ROWS]
    root = assert_inside(charts.numbers_of_clusters(rows, 2))
    assert len(list(root.iter("polyline"))) == 2 - len(missing)
    assert ("nothing recorded" in texts(root)) == (len(missing) == 2)


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


# ---------------------------------------------------------------- many clusters


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


# ---------------------------------------------------------------- colours


# Linear RGB as seen with a missing cone, after Machado, Oliveira and Fernandes (2009)
SEEN = {
    "all cones": np.eye(3),
    "no long": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "no medium": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "no short": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}


def linear(colour):
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
def test_colours_differ_for_colour_blind_readers(seen):
    places = np.array([lab(seen @ linear(colour)) for colour in charts.COLOURS])
    distance = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e9 * np.eye(len(places))
    assert distance.min() > 10                              # about four just noticeable differences


@pytest.mark.parametrize("ground", ["#ffffff", "#181b20"])
def test_colours_stand_out_from_the_page(ground):
    luminance = np.array([0.2126, 0.7152, 0.0722])
    for colour in charts.COLOURS:
        low, high = sorted([float(luminance @ linear(colour)), float(luminance @ linear(ground))])
        assert (high + 0.05) / (low + 0.05) > 1.8, colour
