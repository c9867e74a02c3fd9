"""scripts/reproduce/suite.py: its graphs, its tables and the bins of confidence."""

import csv
import importlib
import re
import sys

import numpy as np
import pytest
import torch
from commands import ROOT, call
from zoo import degrees


@pytest.fixture
def suite(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "reproduce"))
    return importlib.import_module("suite")


@pytest.fixture
def tables(suite, monkeypatch, tmp_path):
    """A function of the script's arguments: the cells of each table that it prints, row by row, without the head."""

    def run(*args):
        def start(argv):
            monkeypatch.setattr(sys, "argv", ["suite.py", *argv])
            suite.main()
            return 0

        printed = call(start, *args, cwd=tmp_path).out.strip().split("\n\n")
        lines = [[line.split("|")[1:-1] for line in part.splitlines()] for part in printed]
        assert all(len({len(line) for line in part}) == 1 for part in lines)
        return [[[cell.strip() for cell in line] for line in part[2:]] for part in lines]

    return run


def test_graphs_of_spaces_have_the_nodes_they_should(suite):
    sizes = {data.name: (data.graph.num_nodes, data.num_classes) for data in suite.spaces(0)}
    assert len(sizes) == 16
    assert (sizes["grid 30 x 30"], sizes["ring of 30 cliques"]) == ((900, None), (240, 30))
    assert (sizes["triangulation 1000"], sizes["12 blobs"]) == ((1000, None), (900, 12))


def inside_share(data):
    """The share of the edges that are inside classes."""
    one, other = (data.label[end.long()] for end in data.graph.edge_index)
    return float((one == other).float().mean())


def test_every_graph_is_simple_and_has_its_classes(suite):
    graphs = [*suite.neighbours(0), *suite.lfr(0, [1000], [0.2]), *suite.heavy(0, [(80, 60, 40)]), *suite.small(0)]
    graphs += [suite.sbm((300, 50, 20), 10, 1 / 1000, 0, apart) for apart in (0, 3)]
    assert len({data.name for data in graphs}) == len(graphs) - 1           # the two block models
    for data in graphs:
        pairs = set(map(tuple, data.graph.edge_index.T.tolist()))
        assert len(pairs) == data.graph.num_edges > 0                       # none twice
        assert all((b, a) in pairs and a != b for a, b in pairs)
        assert data.edge_weight is None
        assert data.feat is None or (len(data.feat), data.feat.dtype) == (data.graph.num_nodes, torch.float32)
        assert data.label is None or data.label.unique().tolist() == list(range(data.num_classes))
    assert {data.name for data in graphs if data.label is None} == {
        "les miserables", "florentine families", "southern women", "random 500",
    }  # fmt: skip


@pytest.mark.parametrize("apart", [0, 3])
def test_block_models(suite, apart):
    sizes = (300, 50, 20)
    data = suite.sbm(sizes, 10, 1 / 1000, 0, apart)
    assert data.label.bincount().tolist() == list(sizes)
    inside, between = sum(10 * (size - 1) for size in sizes), 2 * (300 * 50 + 300 * 20 + 50 * 20) / 1000
    assert inside_share(data) * data.graph.num_edges == pytest.approx(inside, rel=0.1)
    assert (1 - inside_share(data)) * data.graph.num_edges == pytest.approx(between, rel=0.5)
    if apart:
        means = torch.stack([data.feat[data.label == k].mean(0) for k in range(3)])
        assert float((data.feat - means[data.label]).std()) == pytest.approx(1, abs=0.05)
        assert float(means[0].norm()) == pytest.approx(3 / 2**0.5, abs=0.3)


def test_mixing_of_lfr_and_of_heavy_tailed_graphs(suite):
    (one,), (data,) = suite.lfr(0, [1000], [0.2]), suite.heavy(0, [(80, 60, 40)])
    assert inside_share(one) == pytest.approx(0.72, abs=0.05)               # not 0.8: networkx mixes more
    degree = degrees(data.graph)
    assert sorted(degree[-60:].tolist()) == [1] * 60                        # the ends of the chains
    assert int(degree[:180].max()) > 4 * degree[:180].float().median()
    assert 0.5 < inside_share(data) < 0.95


def test_small_graphs_have_a_row_each(suite, tables, tmp_path):
    graphs = list(suite.small(0))
    (scores,) = tables("--only", "small", "--seeds", 1, "--csv", tmp_path / "runs.csv")
    (ranges,) = tables("--only", "small", "--ranges")
    assert [row[0] for row in scores] == [row[0] for row in ranges] == [data.name for data in graphs]
    number, *same = ranges[0][2].split(", ")
    assert (same, ranges[0][3], ranges[-1][2]) == ([number] * 2, "reproducibility", "none, none, none")
    for data, row in zip(graphs, scores, strict=True):
        assert row[1:3] == [str(data.graph.num_nodes), str(data.graph.num_edges // 2)]
        assert row[3] == str(data.num_classes) if data.num_classes else row[3].startswith("found [")
        assert (row[4] == "-") == (data.label is None)
    assert scores[-1][3] == "found [1]"                                     # a random graph has no clusters
    with open(tmp_path / "runs.csv", newline="") as file:
        (run,) = (run for run in csv.DictReader(file) if (run["graph"], run["method"]) == ("karate", "auto"))
    assert (run["seed"], run["clusters"], f"{float(run['nmi']):.3f}") == ("0", "2", scores[0][4].split()[0])
    assert float(run["nmi"]) > 0.6


def test_nodes_without_a_label_do_not_count(suite, monkeypatch):
    data = suite.sbm([30, 30], 10, 0.01, 0)
    truth = data.label.numpy().copy()
    data.label[:20] = -1
    wrong = np.where(np.arange(60) < 20, 1 - truth, truth)
    monkeypatch.setattr(suite, "SCORED", {"made up": lambda data, number, seed: wrong})
    assert suite.measure([data]).nmi.tolist() == pytest.approx([1.0])


def test_the_table_of_confidence(suite, tables, monkeypatch):
    """Every node is in a bin; clear blocks are right, and confidence says so."""
    graphs = [(14, 0.01), (5, 0.04)]                                        # clear and unclear blocks
    monkeypatch.setattr(suite, "uncertain", lambda seed: (suite.sbm([60, 50, 40], *graph, seed) for graph in graphs))
    (rows,) = tables("--confidence", "--seeds", 2)
    for row in rows:
        cells = [re.fullmatch(r"(\d\.\d\d) / (\d\.\d\d) \((\d+)\)", cell) for cell in row[1:-1] if cell != "-"]
        bins = [(float(cell[1]), float(cell[2]), int(cell[3])) for cell in cells]
        assert sum(count for *_, count in bins) == 2 * 150
        error = sum(count * abs(sure - right) for sure, right, count in bins) / 300
        assert float(row[-1]) == pytest.approx(error, abs=0.011)            # of rounded numbers
    sure, right = (float(part.split()[0]) for part in rows[0][5].split("/"))
    assert (sure > 0.95, right > 0.9) == (True, True)
