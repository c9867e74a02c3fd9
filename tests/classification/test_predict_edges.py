"""Edge features and weights of new graphs: as in training, or refused."""

import shutil

import numpy as np
import pytest
import torch
from commands import CLASSIFY, call, settings
from own_graphs import SMALL, write_graphs

from jbpool import load_run
from jbpool.classification.encoders import centre_and_scale
from jbpool.data import load_graphs


@pytest.fixture(scope="module")
def with_edges(tmp_path_factory):
    """A run on graphs with weighted edges and two edge features of different scale."""
    cwd = tmp_path_factory.mktemp("edges")
    write_graphs(cwd / "old", edges="bond,length,weight")
    changes = settings("dataset.folder=old", "model.edges=messages", *SMALL)
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


def in_other_units(row):
    return [*row, "constant"] if row[0] == "graph" else [*row[:4], f"{float(row[4]) / 1000:.5f}", "0.1"]


@pytest.mark.parametrize("edges", ["sum", "messages"])
def test_the_unit_of_an_edge_feature_does_not_matter(edges, tmp_path):
    """The same graphs with lengths in another unit; another feature is constant, which is ignored."""
    write_graphs(tmp_path / "old", edges="bond,length")
    changed_edges(tmp_path, "one", lambda row: [*row, "0.1" if row[0] != "graph" else "constant"])
    changed_edges(tmp_path, "other", in_other_units)
    found = []
    for name in ("one", "other"):
        changes = settings(f"dataset.folder={name}", f"model.edges={edges}", *SMALL)
        call(CLASSIFY.command, "--cfg", "file", *changes, "--out", f"run-{name}", cwd=tmp_path)
        data = load_graphs("file", folder=tmp_path / name)
        batch = data.batch(range(len(data)))
        found.append(load_run(tmp_path / f"run-{name}")(batch.graph, batch.feat, edge_feat=batch.edge_feat))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)
    assert found[0].std(0).min() > 0


def test_the_scale_of_constant_and_missing_values():
    constant = torch.full((1001, 1), 0.1)
    centre, scale = centre_and_scale(torch.cat([constant, torch.arange(1001.0)[:, None], constant * 0 + 1], 1))
    assert scale[0] == 0
    assert scale[1].item() == pytest.approx(1 / np.arange(1001).std())
    assert scale[2] == 10                           # a label that all have
    assert centre.tolist() == pytest.approx([0.1, 500, 1])
    assert [part.tolist() for part in centre_and_scale(torch.zeros(0, 2))] == [[0, 0], [1, 1]]
