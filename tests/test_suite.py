"""scripts/reproduce/suite.py: its graphs, its tables and the bins of confidence."""

import csv
import importlib
import re
import sys

import numpy as np
import pytest
import torch
from commands import ROOT, SHARED, call
from zoo import degrees


@pytest.fixture
def suite(monkeypatch):
    """The script as a module, in one thread: on busy processors, threads that wait for each other take minutes."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "reproduce"))
    monkeypatch.setenv("JBPOOL_DATA", str(SHARED))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield importlib.import_module("suite")
    torch.set_num_threads(threads)


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


def check(data, num_nodes, num_classes):
    """A simple, symmetric graph without weights, every class of which has nodes."""
    one, other = (end.tolist() for end in data.graph.edge_index)
    edges = set(zip(one, other, strict=True))
    assert len(edges) == len(one) > 0                                           # none twice
    assert {(target, source) for source, target in edges} == edges
    assert all(source != target for source, target in edges)
    assert data.graph.num_nodes == num_nodes
    assert data.edge_weight is None
    assert data.num_classes == num_classes
    if num_classes is not None:
        assert len(data.label) == num_nodes
        assert data.label.unique().tolist() == list(range(num_classes))
    assert data.feat is None or (len(data.feat) == num_nodes and data.feat.dtype == torch.float32)


def inside_share(data):
    """The share of the edges that are inside classes."""
    one, other = (data.label[end.long()] for end in data.graph.edge_index)
    return float((one == other).float().mean())


def test_graphs_of_neighbours(suite):
    found = list(suite.neighbours(0))
    assert len({data.name for data in found}) == len(found) == 10
    for data, (nodes, classes) in zip(found, [(1797, 10)] * 2 + [(178, 3)] * 4 + [(569, 2)] * 4, strict=True):
        check(data, nodes, classes)
        assert int(degrees(data.graph).min()) >= 10
        assert (data.feat is None) == data.name.endswith("no features")
    raw, scaled = (next(data for data in found if data.name == name) for name in ("wine", "wine standardised"))
    assert float(raw.feat.std(0).max()) > 100
    torch.testing.assert_close(scaled.feat.std(0, correction=0), torch.ones(13))


@pytest.mark.parametrize("apart", [0, 3])
def test_block_models(suite, apart):
    sizes = (300, 50, 20)
    data = suite.sbm(sizes, 10, 1 / 1000, 0, apart)
    check(data, 370, 3)
    assert data.label.bincount().tolist() == list(sizes)
    inside = sum(10 / size * size * (size - 1) for size in sizes)
    assert inside_share(data) * data.graph.num_edges == pytest.approx(inside, rel=0.1)
    between = 2 * (300 * 50 + 300 * 20 + 50 * 20) / 1000
    assert (1 - inside_share(data)) * data.graph.num_edges == pytest.approx(between, rel=0.5)
    if apart:
        deviation = torch.cat([data.feat[data.label == k] - data.feat[data.label == k].mean(0) for k in range(3)])
        assert float(deviation.std()) == pytest.approx(1, abs=0.05)
        lengths = [float(data.feat[data.label == k].mean(0).norm()) for k in range(3)]
        assert lengths[0] == pytest.approx(3 / 2**0.5, abs=0.3)
    else:
        assert data.feat is None


def test_block_models_of_the_suite(suite):
    found = list(suite.blocks(0))
    assert len({data.name for data in found}) == len(found) == 10
    assert [data.feat is None for data in found] == [True, False, False] * 3 + [True]
    check(found[-1], 2000, 8)
    assert not torch.equal(found[0].label, next(suite.blocks(1)).label)         # drawn anew
    assert found[0].graph.num_edges == found[1].graph.num_edges             # features do not change the edges


def test_lfr_graphs(suite):
    one, other = suite.lfr(0, sizes=[1000], mus=[0.2, 0.5])
    for data in (one, other):
        check(data, 1000, data.num_classes)
        assert data.num_classes > 5
        assert int(data.label.bincount().min()) >= 20
    assert inside_share(one) == pytest.approx(0.72, abs=0.05)                   # not 0.8 and 0.5: networkx mixes more
    assert inside_share(other) == pytest.approx(0.33, abs=0.05)


def test_communities_that_networkx_does_not_find_are_drawn_again(suite, monkeypatch):
    generate, seeds = suite.nx.LFR_benchmark_graph, []

    def fail_twice(*args, seed, **options):
        seeds.append(seed)
        if seed < 2:
            raise suite.nx.ExceededMaxIterations
        graph = generate(*args, seed=0, **options)
        assert suite.nx.number_of_selfloops(graph) > 0                          # check() sees none: they are removed
        return graph

    monkeypatch.setattr(suite.nx, "LFR_benchmark_graph", fail_twice)
    (data,) = suite.lfr(0, sizes=[1000], mus=[0.3])
    assert seeds == [0, 1, 2]
    check(data, 1000, data.num_classes)
    graph = generate(1000, 3, 1.5, 0.3, average_degree=12, min_community=20, max_community=200, seed=0, max_iters=2000)
    communities = {frozenset(community) for _, community in graph.nodes(data="community")}
    found = (torch.where(data.label == number)[0].tolist() for number in range(data.num_classes))
    assert {frozenset(nodes) for nodes in found} == communities


def test_heavy_tailed_graphs(suite):
    (data,) = suite.heavy(0, [(80, 60, 40)])
    check(data, 180 + 180, 3)
    degree = degrees(data.graph)
    assert sorted(degree[-60:].tolist()) == [1] * 60                            # the ends of the chains
    assert degree[180:300].tolist() == [2] * 120
    one, other = data.graph.edge_index
    core = one[(one < 180) & (other < 180)].bincount(minlength=180)
    assert int(core.max()) > 4 * core.float().median()
    chained = (one >= 180) | (other >= 180)
    assert bool((data.label[one.long()] == data.label[other.long()])[chained].all())
    assert 0.5 < inside_share(data) < 0.95


def test_small_graphs_have_a_row_each(suite, tables, tmp_path):
    graphs = list(suite.small(0))
    for data in graphs:
        check(data, data.graph.num_nodes, data.num_classes)
    assert graphs[-1].graph.num_edges == 2 * 2500
    assert {data.name for data in graphs if data.label is None} == {
        "les miserables", "florentine families", "southern women", "random 500",
    }  # fmt: skip
    scores, ranges = tables("--only", "small", "--seeds", 1, "--ranges", "--csv", tmp_path / "runs.csv")
    assert [row[0] for row in scores] == [row[0] for row in ranges] == [data.name for data in graphs]
    for data, row in zip(graphs, scores, strict=True):
        assert row[1:3] == [str(data.graph.num_nodes), str(data.graph.num_edges // 2)]
        assert row[3] == str(data.num_classes) if data.num_classes else row[3].startswith("found [")
        assert (row[4] == "-") == (data.label is None)
        assert row[5] == "-"                                                    # k-means has no features
    karate = scores[0]
    assert float(karate[4].split()[0]) > 0.6
    assert float(karate[6].split()[0]) > 0.6
    assert scores[-1][3] == "found [1]"                                         # a random graph has no clusters
    with open(tmp_path / "runs.csv", newline="") as file:
        runs = list(csv.DictReader(file))
    assert list(runs[0]) == ["graph", "method", "seed", "clusters", "nmi", "seconds"]
    assert {run["graph"] for run in runs} == {data.name for data in graphs}
    (run,) = (run for run in runs if (run["graph"], run["method"]) == ("karate", "auto"))
    assert (run["seed"], run["clusters"], f"{float(run['nmi']):.3f}") == ("0", "2", karate[4].split()[0])
    tables("--only", "small", "--seeds", 1, "--csv", tmp_path / "runs.csv")     # appends, without a second head
    lines = (tmp_path / "runs.csv").read_text().splitlines()
    assert len(lines) > len(runs) + 1
    assert lines.count(lines[0]) == 1


def test_several_seeds_and_methods_that_do_not_apply(suite, tables, monkeypatch):
    """Features for k-means, too many nodes for spectral clustering, no igraph."""
    monkeypatch.setitem(suite.GROUPS, "small", lambda seed: iter([suite.sbm([60, 40], 10, 0.01, seed, 2)]))
    monkeypatch.setattr(suite, "SLOW", 50)
    monkeypatch.setattr(suite.importlib.util, "find_spec", lambda name: None)
    ((row,),) = tables("--only", "small", "--seeds", 2)
    assert row[6:] == ["-", "-", "-"]
    assert all(float(score.split()[0]) > 0.8 for score in row[4:6])


def test_nodes_without_a_label_do_not_count(suite, monkeypatch):
    data = suite.sbm([30, 30], 10, 0.01, 0)
    truth = data.label.numpy().copy()
    data.label[:20] = -1
    wrong = np.where(np.arange(60) < 20, 1 - truth, truth)
    monkeypatch.setattr(suite, "SCORED", {"made up": lambda data, number, seed: wrong})
    assert suite.measure([data], ranges=False).nmi.tolist() == pytest.approx([1.0])


def test_a_missing_set_is_skipped(suite, monkeypatch, capsys):
    def load(name):
        if name != "acm":
            raise suite.DataError("no file")
        return name

    monkeypatch.setattr(suite, "load_nodes", load)
    assert list(suite.sets(0)) == ["acm"]
    assert "cora is skipped: no file" in capsys.readouterr().err


def test_bins_of_confidence(suite):
    confidence = np.array([0.0, 0.49, 0.5, 0.6, 0.95, 1.0])
    right = np.array([False, True, True, True, True, False])
    bins = suite.bins_of(confidence, right)
    assert [count for *_, count in bins] == [2, 2, 0, 0, 2]
    np.testing.assert_allclose([part[:2] for part in bins], [[0.245, 0.5], [0.55, 1], [0, 0], [0, 0], [0.975, 0.5]])


def test_the_table_of_confidence(suite, tables, monkeypatch):
    """Every node is in a bin; clear blocks are right, and confidence says so."""
    graphs = [(14, 0.01), (5, 0.04)]                                            # clear and unclear blocks
    monkeypatch.setattr(suite, "uncertain", lambda seed: (suite.sbm([60, 50, 40], *graph, seed) for graph in graphs))
    (rows,) = tables("--only", "--confidence", "--seeds", 2)
    for row in rows:
        cells = [re.fullmatch(r"(\d\.\d\d) / (\d\.\d\d) \((\d+)\)", cell) for cell in row[1:-1] if cell != "-"]
        bins = [(float(cell[1]), float(cell[2]), int(cell[3])) for cell in cells]
        assert sum(count for *_, count in bins) == 2 * 150
        error = sum(count * abs(sure - right) for sure, right, count in bins) / 300
        assert float(row[-1]) == pytest.approx(error, abs=0.011)                # of rounded numbers
    assert len(bins) > 2
    sure, right = (float(part.split()[0]) for part in rows[0][5].split("/"))
    assert sure > 0.95
    assert right > 0.9


def test_clusters_are_matched_to_classes(suite, monkeypatch):
    """The numbers of the clusters do not matter."""
    data = suite.sbm([30, 20, 10], 10, 0.01, 0)
    cluster = torch.tensor([2, 0, 1])[data.label]
    split = torch.where(data.label == 0)[0][:5]
    cluster[split] = 0                                                          # with the second class
    sure = torch.rand(60)
    found = type("Found", (), {"cluster": cluster, "confidence": sure})
    monkeypatch.setattr(suite, "find_clusters", lambda graph, feat, number, seed: found if number == 3 else None)
    confidence, right = suite.rightness(data, 0)
    assert np.array_equal(confidence, sure.numpy())
    assert np.flatnonzero(~right).tolist() == split.tolist()
