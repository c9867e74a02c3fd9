"""Edge features and weights of new graphs: as in training, or refused."""

import shutil

import pytest
import torch
from commands import CLASSIFY, call, settings
from own_graphs import SMALL, write_graphs

from jbpool import load_run
from jbpool.data import load_graphs


@pytest.fixture(scope="module")
def with_edges(tmp_path_factory):
    """A run on graphs with weighted edges and two edge features of different scale."""
    cwd = tmp_path_factory.mktemp("edges")
    write_graphs(cwd / "old", edges="bond,length,weight")
    changes = settings("dataset.graphs=null", "dataset.folder=old", "model.edges=messages", *SMALL)
    call(CLASSIFY.command, "--cfg", "file", *changes, "--out", "r", cwd=cwd)
    return cwd


def changed_edges(cwd, name, change):
    """A copy of the folder old with other rows in edges.csv."""
    shutil.copytree(cwd / "old", cwd / name)
    rows = [line.split(",") for line in (cwd / "old" / "edges.csv").read_text().splitlines()]
    (cwd / name / "edges.csv").write_text("".join(",".join(change(row)) + "\n" for row in rows))


def test_edge_features_are_found_by_their_names(with_edges, tmp_path):
    changed_edges(with_edges, "swapped", lambda row: [*row[:3], row[4], row[3], row[5]])
    found = []
    for name in ("old", "swapped"):
        out = tmp_path / name
        call(CLASSIFY.command, "--predict", "r", *settings(f"dataset.folder={name}"), "--out", out, cwd=with_edges)
        found.append((out / "predictions.csv").read_text())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda row: [*row[:3], row[3].replace("bond", "width"), *row[4:]], "edge feature 'width' is unknown"),
        (lambda row: [*row[:4], row[5]], "lacks the edge feature 'length'"),
        (lambda row: row[:5], "no edge weights, but the model was trained with them"),
    ],
)
def test_other_edges_are_refused(with_edges, tmp_path, change, words):
    changed_edges(with_edges, tmp_path.name, change)
    arguments = ["--predict", "r", *settings(f"dataset.folder={tmp_path.name}"), "--out", tmp_path]
    outcome = call(CLASSIFY.command, *arguments, cwd=with_edges, check=False)
    assert (outcome.code, words in outcome.err) == (2, True), outcome.err


def test_edge_features_are_scaled(with_edges):
    """By the deviation of each column in the training graphs."""
    data = load_graphs("file", folder=with_edges / "old")
    edges = data.batch(data.split().train).edge_feat
    (network,) = load_run(with_edges / "r").net.members
    torch.testing.assert_close(network.edge_scale, 1 / edges.std(0, correction=0))
