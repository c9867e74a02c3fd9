"""Numbers to predict for graphs: recognised or asked for, standardised, scored, reported, applied to new graphs."""

from dataclasses import replace

import networkx
import numpy as np
import pytest
import torch
from commands import CLASSIFY, call, result_of, run_task, settings
from own_graphs import SMALL, write_graphs
from sklearn.metrics import mean_absolute_error, r2_score

from jbpool import load_run
from jbpool.classification.class_scores import mae, mean_of, r2, rmse, score
from jbpool.classification.model import make_model, mean_and_deviation
from jbpool.classification.task import GRAPH_CLASSIFY
from jbpool.data import DataError, load_graphs
from jbpool.data.sets.ogb import evaluator
from jbpool.data.sets.synthetic import _mean_distance
from jbpool.engine.config import load_config
from jbpool.errors import ConfigError, JBPoolError


def write_targets(folder, values, head="graph,label,split", count=24, seed=0):
    """Rings and paths whose column label, or columns of targets, are these texts."""
    write_graphs(folder, seed=seed, count=count, head="graph,split")
    lines = (folder / "graphs.csv").read_text().splitlines()[1:]
    rows = [f"{line.split(',')[0]},{value},{line.split(',')[1]}" for line, value in zip(lines, values, strict=True)]
    (folder / "graphs.csv").write_text("\n".join([head, *rows]) + "\n")
    return folder


def sizes_of(folder, count=24):
    names = [line.split(",")[0] for line in (folder / "nodes.csv").read_text().splitlines()[1:]]
    return np.array([names.count(f"g{graph}") for graph in range(count)])


def test_scores_of_numbers():
    rng = torch.Generator().manual_seed(0)
    label, found = torch.randn(50, 3, generator=rng).double(), torch.randn(50, 3, generator=rng).double()
    truth, guess = label.numpy(), found.numpy()
    np.testing.assert_allclose(mae(found, label), mean_absolute_error(truth, guess, multioutput="raw_values"))
    np.testing.assert_allclose(r2(found, label), r2_score(truth, guess, multioutput="raw_values"))
    label[3, 0] = label[7:20, 2] = float("nan")
    official = evaluator("ogbg-molesol")
    official.num_tasks = 3
    expected = official.eval({"y_true": label.numpy(), "y_pred": guess})["rmse"]
    assert mean_of(rmse(found, label)) == pytest.approx(expected)
    known = label[:, 2].isfinite()
    assert mae(found, label)[2] == pytest.approx(mean_absolute_error(label[known, 2], found[known, 2]))
    label[:, 1] = 4.0
    assert r2(found, label).isnan().tolist() == [False, True, False]


def test_the_answers_of_trees():
    """The distance of the generator against networkx; the mean degree against the graphs."""
    data = load_graphs("trees", num_graphs=20)
    assert data.label.dtype == torch.float64                        # like numbers to predict from files
    torch.testing.assert_close(data.label[:, 1], data.num_edges.double() / data.sizes)
    rng = np.random.default_rng(0)
    for count in (2, 5, 8):
        links = [(int(rng.integers(node)), node) for node in range(1, count)]
        expected = networkx.average_shortest_path_length(networkx.Graph(links))
        assert _mean_distance(count, links) == pytest.approx(expected)
    assert 1 < data.label[:, 0].min() < data.label[:, 0].max() < 3.01


def test_a_run(tmp_path):
    """The degree of generated graphs is learned, and every file has the numbers in their unit."""
    changes = ["dataset.num_graphs=300", "train.epochs=12", "model.compare=[none]", "model.members=2"]
    more = ("--folds", "0", "--out", "r")
    text = call(CLASSIFY.command, "--cfg", "regression", *settings(*changes), *more, cwd=tmp_path).out
    run = result_of(tmp_path / "r")["runs"][0]
    assert (run["metric"], run["fold"]) == ("rmse", 0)
    data = load_graphs("trees", num_graphs=300)
    with np.load(tmp_path / "r" / "predictions.npz") as stored:
        label, found = (torch.from_numpy(stored[key]) for key in ("label", "scores"))
        torch.testing.assert_close(label, data.label[stored["graph"]])
    assert run["test"] == pytest.approx(((found - label) ** 2).mean(0).sqrt().mean().item())
    assert run["test_r2"] == pytest.approx(r2_score(label, found))
    assert r2(found, label)[1] > 0.6                                    # the mean has 0
    assert run["test_single"] > run["test"]
    assert f"test {run['test']:.4g} (single networks {run['test_single']:.4g})" in text
    page = (tmp_path / "r" / "report.html").read_text()
    for words in ("trees predicted with jb", "distance: predicted against true", "RMSE of the mean", "test, single"):
        assert words in page


def test_targets_are_standardised(tmp_path):
    """Another unit and another origin change nothing but the unit of the error, also far from zero."""
    config = load_config(GRAPH_CLASSIFY, "regression", ["train.epochs=2", "model.compare=[]", "model.hidden=16"])
    data, found = load_graphs("trees", num_graphs=80), []
    for name, factor, shift in (("plain", 1, 0), ("other", 1e-3, 1e6)):
        other = replace(data, label=data.label * factor + shift)
        run = run_task(CLASSIFY, config, tmp_path / name, other, folds=[0]).runs[0]
        found.append((run["test"] / factor, run["test_r2"]))
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_unknown_and_constant_targets():
    nan = float("nan")
    centre, deviation = mean_and_deviation(torch.tensor([[1.0, 7.0, nan], [nan, 7.0, nan], [4.0, 7.0, nan]]).double())
    assert centre.tolist() == [2.5, 7.0, 0.0]
    assert deviation.tolist() == [1.5, 1.0, 1.0]
    data = load_graphs("trees", num_graphs=8)
    model = make_model(CLASSIFY.config(), replace(data, label=data.label * 1e6), torch.arange(8)).eval()
    batch = data.batch(range(8))
    assert (model.on_batch(batch, torch.device("cpu"))[0] / 1e6).mean().item() == pytest.approx(3.5, abs=1)
    assert score(data, data.label, data.label) == 0


FEW = ["0.5", "1.5", "2"] * 8
MANY = [f"{number / 7:.4f}" for number in range(24)]


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


def test_several_targets_of_ones_own_graphs(tmp_path):
    """Trained, and applied to graphs with the columns in another order, with unknown numbers, and without any."""
    sizes = sizes_of(write_targets(tmp_path / "plain", MANY))
    both = [f"{size},{1000 * value:.1f}" for size, value in zip(sizes, np.linspace(0, 1, 24), strict=True)]
    both[4] = both[4].split(",")[0] + ","                                       # unknown
    head = "graph,size,other,split"
    write_targets(tmp_path / "own", both, head)
    changes = settings("dataset.graphs=null", "dataset.folder=own", "dataset.targets=[size, other]", *SMALL)
    call(CLASSIFY.command, "--cfg", "file", *changes, "--out", "r", cwd=tmp_path)
    model = load_run(tmp_path / "r")
    assert (model.classes, result_of(tmp_path / "r")["runs"][0]["metric"]) == (["size", "other"], "rmse")

    turned = [f"{other},{size}" for size, other in (text.split(",") for text in both)]
    write_targets(tmp_path / "turned", turned, "graph,other,size,split")
    text = call(CLASSIFY.command, "--predict", "r", *settings("dataset.folder=turned"), "--out", "p", cwd=tmp_path).out
    header, *rows = (line.split(",") for line in (tmp_path / "p" / "predictions.csv").read_text().splitlines())
    assert header == ["graph", "value_size", "value_other"]
    found = torch.tensor([[float(number) for number in row[1:]] for row in rows]).double()
    label = load_graphs("file", folder=tmp_path / "own", targets=["size", "other"]).label
    shown = float(text.split("rmse: ")[1].split(",")[0])
    assert shown == pytest.approx(mean_of(rmse(found, label)), rel=1e-3)
    assert f"mae: {mean_of(mae(found, label)):.3g}"[:-1] in text
    data = load_graphs("file", folder=tmp_path / "own", targets=["size", "other"])
    torch.testing.assert_close(model.predict(data), found, rtol=1e-4, atol=1e-4)

    write_graphs(tmp_path / "new", head="graph")
    text = call(CLASSIFY.command, "--predict", "r", *settings("dataset.folder=new"), "--out", "q", cwd=tmp_path).out
    assert "rmse" not in text
    assert (tmp_path / "q" / "predictions.csv").read_text() == (tmp_path / "p" / "predictions.csv").read_text()
    write_targets(tmp_path / "one", FEW)
    with pytest.raises(DataError, match="has 'label' to predict, the model 'size', 'other'"):
        model.predict(load_graphs("file", folder=tmp_path / "one", task="regression"))


def test_graphs_without_numbers_are_not_trained_on(tmp_path):
    folder = write_targets(tmp_path / "own", ["", *MANY[1:]])
    config = load_config(GRAPH_CLASSIFY, "file", ["dataset.graphs=null", f"dataset.folder={folder}", *SMALL])
    with pytest.raises(ConfigError, match=r"1 of 24 graphs have no number, .* and predict them with --predict"):
        run_task(CLASSIFY, config, tmp_path / "r")
    config.dataset.options["targets"] = ["hight"]
    with pytest.raises(ConfigError, match="no graph has a number to predict 'hight'"):
        run_task(CLASSIFY, config, tmp_path / "r")


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
