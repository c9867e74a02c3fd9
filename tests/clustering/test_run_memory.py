"""Large graphs are handled in bounded memory."""

import sys

import pytest
import torch
from commands import ROOT
from zoo import random_graph

from jbpool.clustering.auto import features as features_rows
from jbpool.clustering.auto import views as features_module
from jbpool.clustering.auto.bounded_heads import Heads
from jbpool.clustering.auto.features import UnitRows, are_counts, idf_weights
from jbpool.clustering.auto.views import FixedFeatures
from jbpool.nn.heads import unit_rows

sys.path.insert(0, str(ROOT / "scripts" / "bench"))
from timing import peak_bytes


def test_a_step_of_the_heads_needs_the_same_memory_for_any_number_of_nodes(monkeypatch):
    monkeypatch.setattr("jbpool.clustering.auto.bounded_heads.KEPT", 0)
    monkeypatch.setattr("jbpool.clustering.auto.bounded_heads.BLOCK", 2**14)
    peaks = []
    for num_nodes in (20_000, 80_000):
        feat = unit_rows(torch.randn(num_nodes, 8))
        heads = Heads(torch.randn(4, 5, 8))
        peaks.append(peak_bytes(lambda heads=heads, feat=feat: heads.gradient(feat)))
    assert peaks[1] < 1.05 * peaks[0]


@pytest.mark.parametrize("num_clusters", [None, 16])
def test_fixed_features_need_the_result_the_operator_and_three_blocks_of_columns(num_clusters, monkeypatch):
    monkeypatch.setattr(features_module, "ROWS", 256)
    monkeypatch.setattr(features_rows, "BLOCK", 2**14)
    graph, feat = random_graph(50_000, 60_000), torch.randn(50_000, 96)
    features = FixedFeatures(96, 2, weighting="none", num_clusters=num_clusters)
    rows, block = 4 * 50_000 * 96, 4 * 50_000 * features_module.COLUMNS
    operator = 8 * (graph.num_edges + 50_000)
    bound = rows + 3.5 * block + operator
    assert bound < 1.9 * rows                           # a second copy of the features would show
    assert peak_bytes(lambda: features.fit(graph, feat)) < bound


def test_blocks_of_rows_change_nothing(monkeypatch):
    feat = torch.poisson(0.4 * torch.rand(50, 12))
    scaled = feat / feat.sum(1, keepdim=True).clamp_min(1)
    column_weight, right = torch.rand(12), torch.randn(12, 3)
    expected = unit_rows(feat * column_weight)
    whole = idf_weights(feat)
    for block in (1, 30, 10**6):
        monkeypatch.setattr(features_rows, "BLOCK", block)
        rows = UnitRows(feat, column_weight)
        assert torch.allclose(rows.columns(2, 9), expected[:, 2:9], atol=1e-6)
        assert torch.allclose(rows.times(right), expected @ right, atol=1e-6)
        assert torch.allclose(rows.transposed_times(torch.ones(50, 1)), expected.T @ torch.ones(50, 1), atol=1e-5)
        assert torch.equal(idf_weights(feat), whole)
        assert are_counts(feat)
        assert are_counts(scaled)
        assert not are_counts(scaled + 0.01 * torch.rand(50, 12))
        assert not are_counts(torch.where(torch.rand(50, 12) < 0.5, 0.0, scaled + 0.3 * torch.rand(50, 12)))
