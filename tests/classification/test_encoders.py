"""Node features as the network sees them: embedded categories, scaled numbers."""

import numpy as np
import pytest
import torch

from jbpool.classification.encoders import CategoryEncoder, FeatureEncoder, centre_and_scale


def test_categories_are_embedded_as_ogb_does():
    from jbpool.data.sets.ogb import import_ogb

    import_ogb()
    from ogb.graphproppred.mol_encoder import AtomEncoder
    from ogb.utils.features import get_atom_feature_dims

    theirs, dims = AtomEncoder(8), get_atom_feature_dims()
    ours = CategoryEncoder(dims, 8)
    ours.table.weight.data = torch.cat([table.weight.data for table in theirs.atom_embedding_list])
    feat = torch.stack([torch.randint(0, dim, (40,)) for dim in dims], dim=1)
    torch.testing.assert_close(ours(feat), theirs(feat))
    weight = torch.randn(40, 8)
    for encoder in (ours, theirs):
        (encoder(feat) * weight).sum().backward()
    grads = [table.weight.grad for table in theirs.atom_embedding_list]
    torch.testing.assert_close(ours.table.weight.grad, torch.cat(grads))


def test_features_are_scaled_by_the_training_graphs():
    train = torch.randn(100, 3) * torch.tensor([1.0, 100.0, 0.0]) + 5
    encoder = FeatureEncoder(train, 4)
    scaled = (train - encoder.centre) * encoder.scale
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]), atol=1e-4, rtol=0)


def test_what_training_graphs_do_not_show_stays_small():
    """A label that is absent, a rare one, a constant number: never scaled beyond 10."""
    train = torch.zeros(10_000, 4)
    train[0, 1] = 1
    train[:, 2] = 7.5
    train[:, 3] = torch.randn(10_000)
    encoder = FeatureEncoder(train, 4)
    scaled = (torch.tensor([1.0, 1.0, 100.0, 0.0]) - encoder.centre) * encoder.scale
    assert scaled.abs().max() <= 10
    assert scaled[2] == 0
    assert encoder(train).isfinite().all()


def test_the_scale_of_constant_and_missing_values():
    constant = torch.full((1001, 1), 0.1)
    centre, scale = centre_and_scale(torch.cat([constant, torch.arange(1001.0)[:, None], constant * 0 + 1], 1))
    assert scale[0] == 0
    assert scale[1].item() == pytest.approx(1 / np.arange(1001).std())
    assert scale[2] == 10                           # a label that all have
    assert centre.tolist() == pytest.approx([0.1, 500, 1])
    assert [part.tolist() for part in centre_and_scale(torch.zeros(0, 2))] == [[0, 0], [1, 1]]
