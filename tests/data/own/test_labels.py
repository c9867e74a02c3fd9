"""Classes from texts and numbers."""

import numpy as np
import pytest
import torch
from own_graphs import FEW, MANY, write_targets

from jbpool.data import DataError, load_graphs
from jbpool.data.own.labels import class_codes
from jbpool.errors import JBPoolError


@pytest.mark.parametrize(
    ("given", "codes", "names"),
    [
        (["1", "-1", "", "1"], [1, 0, -1, 1], ["-1", "1"]),             # two classes, and one row without
        (["1", "", "", ""], [0, -1, -1, -1], ["1"]),
        (["0", "-1", "1", ""], [0, -1, 1, -1], ["0", "1"]),             # -1: unlabelled
        (["-1", "-1", ""], [-1, -1, -1], []),
        (["", ""], [-1, -1], []),
        (["2.0", "10", "", "2"], [0, 1, -1, 0], ["2", "10"]),           # numbers in their own order
        (["0.5", "1.0", "", "-1"], [1, 2, -1, 0], ["-1", "0.5", "1.0"]),        # not all whole: text
        (["b", "a", ""], [1, 0, -1], ["a", "b"]),
        ([3, -1, 5], [0, -1, 1], ["3", "5"]),
        ([1, -1, 1], [1, 0, 1], ["-1", "1"]),
        ([-1, -1], [-1, -1], []),
    ],
)
def test_codes_and_names(given, codes, names):
    values = np.array(given, dtype=object if isinstance(given[0], str) else np.int64)
    found = class_codes(values)
    assert found[0].tolist() == codes
    assert found[1] == names


# ---------------------------------------------------------------- numbers to predict


@pytest.mark.parametrize(
    ("values", "task", "metric"),
    [
        (MANY, None, "rmse"), (MANY, "classification", "acc"), (FEW, "regression", "rmse"),
        (FEW, "classification", "acc"), (["1", "2.0", "3"] * 8, None, "acc"), (["a", "1.5"] * 12, None, "acc"),
        (["1", "2", "3"] * 8, "regression", "rmse"),
    ],
)  # fmt: skip
def test_numbers_are_recognised_or_asked_for(values, task, metric, tmp_path):
    data = load_graphs("file", folder=write_targets(tmp_path / "own", values), task=task)
    assert (data.metric, data.is_regression) == (metric, metric == "rmse")
    if data.is_regression:
        assert (data.label.shape, data.label.dtype, data.class_names) == ((24, 1), torch.float64, ["label"])
        np.testing.assert_allclose(data.label[:, 0], [float(value) for value in values])


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        (FEW, {}, r"3 different labels \(0\.5, 1\.5, 2, \.\.\.\): classes or numbers to predict\? Set dataset\.task"),
        (["a", "2"] * 12, {"task": "regression"}, "label 'a' is not a finite number to predict"),
        (["inf", *MANY[1:]], {"task": "regression"}, "label 'inf' is not a finite number"),
        (MANY, {"task": "regresion"}, "Did you mean 'regression'"),
        (MANY, {"targets": ["label", "width"]}, "no column is called 'width', as dataset.targets says"),
    ],
)
def test_unclear_or_wrong_targets_are_refused(values, options, words, tmp_path):
    with pytest.raises(JBPoolError, match=words):
        load_graphs("file", folder=write_targets(tmp_path / "own", values), **options)


def test_classes_with_a_graph_each(tmp_path):
    folder = write_targets(tmp_path / "own", [str(number) for number in range(24)])
    (folder / "graphs.csv").write_text((folder / "graphs.csv").read_text().replace("split", "part"))
    with pytest.raises(DataError, match=r"if the labels are numbers to predict, set dataset\.task=regression"):
        load_graphs("file", folder=folder).split()


def test_attributes_of_the_tu_format(tmp_path):
    files = {
        "A": "1, 2\n3, 4\n", "graph_indicator": "1\n1\n2\n2\n", "graph_attributes": "0.5, 10\n-1.5, 20\n",
    }  # fmt: skip
    for part, text in files.items():
        (tmp_path / f"OWN_{part}.txt").write_text(text)
    data = load_graphs("file", folder=tmp_path)
    assert (data.metric, data.label.tolist()) == ("rmse", [[0.5, 10.0], [-1.5, 20.0]])
    (tmp_path / "OWN_graph_labels.txt").write_text("3\n-1\n")
    assert load_graphs("file", folder=tmp_path).label.tolist() == [1, 0]
    assert load_graphs("file", folder=tmp_path, task="regression").label.tolist() == [[0.5, 10.0], [-1.5, 20.0]]
    (tmp_path / "OWN_graph_attributes.txt").unlink()
    assert load_graphs("file", folder=tmp_path, task="regression").label.tolist() == [[3.0], [-1.0]]


def test_numbers_in_a_dgl_file(tmp_path):
    dgl = pytest.importorskip("dgl", reason="DGL is not installed")
    graphs, path = [dgl.rand_graph(4, 6) for _ in range(24)], str(tmp_path / "g.bin")
    numbers = torch.arange(24) / 7
    for labels, options, metric, names in (
        ({"label": numbers}, {}, "rmse", ["label"]),
        ({"label": torch.stack([numbers, numbers], 1)}, {"task": "regression"}, "rmse", ["label 0", "label 1"]),
        ({"a": numbers, "b": torch.arange(24)}, {"targets": ["b", "a"]}, "rmse", ["b", "a"]),
        ({"label": torch.arange(24) % 3}, {"task": "regression"}, "rmse", ["label"]),
        ({"label": numbers.round()}, {"task": "classification"}, "acc", ["0.0", "1.0", "2.0", "3.0"]),
    ):
        dgl.save_graphs(path, graphs, labels)
        data = load_graphs("file", graphs=path, **options)
        assert (data.metric, list(data.class_names)) == (metric, names)
    dgl.save_graphs(path, graphs, {"label": numbers.round()})
    with pytest.raises(DataError, match="floats without fractions: classes or numbers to predict"):
        load_graphs("file", graphs=path)
