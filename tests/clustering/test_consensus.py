"""The consensus against its definition with one-hot matrices, and on partitions that agree or do not."""

import torch
from torch.nn.functional import one_hot

from jbpool.clustering.consensus import Consensus
from jbpool.nn.heads import unit_rows

NODES, CLUSTERS, MEMBERS = 200, 5, 4


def members(noise):
    """Partitions that differ in the names of their clusters and in a share of the nodes; the true one comes first."""
    generator = torch.Generator().manual_seed(0)
    true = torch.randint(CLUSTERS, (NODES,), generator=generator)
    found = [true]
    for _ in range(MEMBERS - 1):
        other = torch.randint(CLUSTERS, (NODES,), generator=generator)
        moved = torch.rand(NODES, generator=generator) < noise
        found.append(torch.randperm(CLUSTERS, generator=generator)[torch.where(moved, other, true)])
    return found


def fitted(clusters):
    consensus = Consensus(CLUSTERS, [("none", 1)] * len(clusters), {})
    score = lambda cluster: -float(cluster.bincount(minlength=CLUSTERS).double().var())  # noqa: E731
    return consensus, *consensus.fit(clusters, score, torch.Generator().manual_seed(0))


def test_rows_and_confidence_are_those_of_one_hot_matrices():
    clusters = members(noise=0.3)
    consensus, cluster, confidence, _, moved = fitted(clusters)
    S = torch.cat([one_hot(member, CLUSTERS).double() for member in clusters], dim=1)           # (N, M * K)
    centred = S - S.mean(0)
    assert moved == 0                                                                           # nothing to refine by
    torch.testing.assert_close(consensus.centre.double(), S.mean(0))
    values, axes = torch.linalg.eigh(centred.T @ centred)
    used = consensus.axes.double()
    torch.testing.assert_close((used @ used.T) @ axes[:, -4:], axes[:, -4:], atol=1e-4, rtol=0)  # the leading ones
    assert values[-5] < 0.9 * values[-4]
    torch.testing.assert_close(consensus._rows(clusters).double(), unit_rows(centred @ used), atol=1e-4, rtol=0)
    own = one_hot(cluster, CLUSTERS).double()
    shares = own.T @ S / own.sum(0)[:, None]
    torch.testing.assert_close(consensus.shares.double(), shares)
    torch.testing.assert_close(confidence.double(), (S * shares[cluster]).sum(1) / MEMBERS)


def test_a_member_of_another_graph_counts_as_its_mean():
    clusters = members(noise=0.3)
    consensus, cluster, *_ = fitted(clusters)
    S = [one_hot(member, CLUSTERS).double() for member in clusters]
    S[2] = S[2].mean(0).expand(NODES, -1)
    S = torch.cat(S, dim=1)
    clusters[2] = None
    rows = unit_rows((S - S.mean(0)) @ consensus.axes.double())
    torch.testing.assert_close(consensus._rows(clusters).double(), rows, atol=1e-4, rtol=0)
    confidence = (S * consensus.shares.double()[cluster]).sum(1) / MEMBERS
    torch.testing.assert_close(consensus._agreement(clusters, cluster).double(), confidence)


def test_partitions_that_agree():
    clusters = members(noise=0.0)
    _, cluster, confidence, loss, _ = fitted(clusters)
    assert len(torch.stack([cluster, clusters[0]]).unique(dim=1).T) == CLUSTERS                 # the same partition
    assert bool((confidence == 1).all())
    assert loss < -0.9
    same = torch.zeros(NODES, dtype=torch.long)
    _, cluster, confidence, *_ = fitted([same, same + 3])
    assert not cluster.any()
    assert bool((confidence == 1).all())
