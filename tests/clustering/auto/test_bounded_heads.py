"""Bounded heads: the blocked loss and gradient against autograd on the whole matrix, starts, and what they find."""

import sys

import pytest
import torch
from commands import ROOT
from torch.nn.functional import normalize

from jbpool.clustering.auto import bounded_heads as heads_module
from jbpool.clustering.auto.bounded_heads import Heads, hard_clusters, spread_nodes, train_heads, trained_heads

sys.path.insert(0, str(ROOT / "scripts" / "bench"))
from timing import peak_bytes


def naive_losses(feat, prototypes, temperature):
    """One head after another: minus the nuclear norm of S over sqrt(N K), by SVD."""
    losses = []
    for weight in prototypes:
        assign = (normalize(feat) @ normalize(weight).T / temperature).softmax(-1)              # (N, K)
        losses.append(-torch.linalg.svdvals(assign).sum() / assign.numel() ** 0.5)
    return torch.stack(losses)


@pytest.fixture
def groups():
    """300 unit vectors around five directions, and the number of each one's direction."""
    generator = torch.Generator().manual_seed(1)
    member = torch.arange(300) % 5
    centres = torch.randn(5, 16, generator=generator)
    return normalize(centres[member] + 0.3 * torch.randn(300, 16, generator=generator)), member


@pytest.mark.parametrize("temperature", [0.1, 0.2])
@pytest.mark.parametrize(("block", "kept"), [(2**18, 2**26), (1, 2**26), (1, 0)])
def test_loss_and_gradient_equal_autograd_on_the_whole_matrix(groups, monkeypatch, temperature, block, kept):
    monkeypatch.setattr(heads_module, "BLOCK", block)
    monkeypatch.setattr(heads_module, "KEPT", kept)
    feat = normalize(groups[0].double()).repeat(3, 1)                              # more rows than the smallest block
    prototypes = torch.randn(4, 5, 16, dtype=torch.float64)
    monkeypatch.setattr(heads_module, "TEMPERATURE", temperature)
    heads = Heads(prototypes)
    losses, grad = heads.gradient(feat)
    naive = prototypes.clone().requires_grad_()
    expected = naive_losses(feat, naive, temperature)
    expected.sum().backward()
    assert torch.allclose(losses, expected, rtol=1e-10)
    assert torch.allclose(heads.losses(feat), expected, rtol=1e-10)
    assert torch.allclose(grad, naive.grad, rtol=1e-8, atol=1e-12)


def test_heads_stay_on_the_device_of_their_prototypes():
    heads = Heads(torch.empty(3, 5, 16, device="meta"))
    losses, grad = heads.gradient(torch.empty(300, 16, device="meta"))
    assert losses.shape == (3,)
    assert grad.shape == (3, 5, 16)
    assert losses.is_meta
    assert grad.is_meta


def test_trained_heads_leave_out_rows_of_zeros(groups):
    feat = torch.cat([groups[0], torch.zeros(40, 16)])
    heads, losses = trained_heads(feat, 5, 3, torch.Generator().manual_seed(0))
    alone = trained_heads(groups[0], 5, 3, torch.Generator().manual_seed(0))[1]
    assert torch.equal(losses, alone)
    clusters = hard_clusters(heads, feat)
    assert clusters.shape == (3, 340)
    for cluster in clusters:
        assert (cluster[300:] == cluster[:300].bincount().argmax()).all()           # they join the largest


def test_a_sample_is_trained_on_and_the_loss_is_that_of_all_rows(groups, monkeypatch):
    feat = groups[0].repeat(4, 1)
    whole = trained_heads(feat, 5, 3, torch.Generator().manual_seed(0))[1]
    monkeypatch.setattr(heads_module, "TRAIN_NODES", 200)
    (heads, losses), (again, _) = (trained_heads(feat, 5, 3, torch.Generator().manual_seed(0)) for _ in range(2))
    assert torch.equal(heads.prototypes, again.prototypes)
    assert torch.equal(losses, heads.losses(feat))
    assert losses.min().item() == pytest.approx(whole.min().item(), abs=0.02)
    assert not torch.equal(losses, whole)


def test_clusters_are_the_nearest_prototypes(groups):
    feat, _ = groups
    heads = Heads(torch.randn(3, 5, 16))
    for head in range(3):
        expected = (feat @ normalize(heads.prototypes[head]).T).argmax(1)
        assert torch.equal(heads.clusters(feat)[head], expected)


def test_heads_do_not_influence_each_other(groups):
    feat, _ = groups
    prototypes = spread_nodes(feat, 5, 3, torch.Generator().manual_seed(0))
    together, alone = Heads(prototypes), Heads(prototypes[1:2])
    losses, single = train_heads(together, feat, 30), train_heads(alone, feat, 30)
    assert losses[1].item() == pytest.approx(single.item(), abs=1e-5)
    assert torch.allclose(together.prototypes[1], alone.prototypes[0], atol=1e-4)


def test_training_follows_adam_of_torch(groups):
    feat = groups[0].double()
    start = torch.randn(2, 5, 16, dtype=torch.float64)
    heads, expected = Heads(start), Heads(start)
    optimiser = torch.optim.Adam([expected.prototypes], lr=0.05)
    for _ in range(20):
        expected.prototypes.grad = expected.gradient(feat)[1]
        optimiser.step()
    assert torch.equal(train_heads(heads, feat, 20, lr=0.05), heads.losses(feat))
    assert torch.allclose(heads.prototypes, expected.prototypes, rtol=1e-9)
    assert not torch.allclose(heads.prototypes, start, rtol=0.1)


def test_the_lowest_loss_finds_well_separated_groups(groups):
    feat, member = groups
    heads = Heads(spread_nodes(feat, 5, 4, torch.Generator().manual_seed(0)))
    losses = train_heads(heads, feat, 100)
    found = heads.clusters(feat)[losses.argmin()]
    assert all(len(found[member == group].unique()) == 1 for group in range(5))
    assert len(found.unique()) == 5
    # A partition that ignores the groups cannot be as confident: that is what the bound is for.
    shuffled = Heads(torch.randn(4, 5, 16))
    assert shuffled.losses(feat).min() > losses.min() + 0.1


def test_spread_nodes_are_distinct_nodes_far_apart_and_follow_the_generator(groups):
    feat, member = groups
    feat = torch.cat([torch.zeros(20, 16), feat])
    draws = [spread_nodes(feat, 5, 40, torch.Generator().manual_seed(seed)) for seed in (3, 3, 4)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    nodes = (draws[0].flatten(0, 1) @ feat.T).argmax(1).view(40, 5)
    assert torch.allclose(feat[nodes], draws[0])
    assert (nodes >= 20).all()                                                      # never a row of zeros
    directions = torch.stack([member[head - 20].unique().numel() * torch.ones(()) for head in nodes])
    assert directions.mean() > 4                                                    # uniform draws have 3.4 of 5


def test_more_clusters_than_distinct_rows():
    feat = normalize(torch.eye(2).repeat(5, 1))
    prototypes = spread_nodes(feat, 4, 2, torch.Generator().manual_seed(0))
    assert prototypes.shape == (2, 4, 2)
    assert train_heads(Heads(prototypes), feat, 3).isfinite().all()


def test_a_step_of_the_heads_needs_the_same_memory_for_any_number_of_nodes(monkeypatch):
    monkeypatch.setattr("jbpool.clustering.auto.bounded_heads.KEPT", 0)
    monkeypatch.setattr("jbpool.clustering.auto.bounded_heads.BLOCK", 2**14)
    peaks = []
    for num_nodes in (20_000, 80_000):
        feat = normalize(torch.randn(num_nodes, 8))
        heads = Heads(torch.randn(4, 5, 8))
        peaks.append(peak_bytes(lambda heads=heads, feat=feat: heads.gradient(feat)))
    assert peaks[1] < 1.05 * peaks[0]
