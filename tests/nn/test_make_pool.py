"""Pools by name: the table, options, combined objectives, and how a pool is added."""

import pytest
import torch
from zoo import batched, grid, random_graph

from jbpool import DiffPool, DMoNPool, JBPool, MinCutPool, names
from jbpool.errors import JBPoolError
from jbpool.nn.conv import BACKBONES
from jbpool.nn.heads import CosineHead
from jbpool.nn.partition import TERMS, balance, cut
from jbpool.nn.pools import POOLS, ClusterPool, CombinedPool, PoolOptions, make_pool


@pytest.mark.parametrize(
    ("name", "pool", "sqrt"),
    [
        ("jb", JBPool, "matrix"),
        ("jb-diagonal", JBPool, "diagonal"),
        ("mincut", MinCutPool, None),
        ("dmon", DMoNPool, None),
        ("diffpool", DiffPool, None),
    ],
)
def test_names(name, pool, sqrt):
    made = make_pool(name, 4, 3, (5,))
    assert type(made) is pool
    assert getattr(made, "sqrt", None) == sqrt
    assert [tuple(parameter.shape) for parameter in made.parameters()] == [(5, 4), (5,), (3, 5), (3,)]


def test_names_are_those_that_configurations_choose_from():
    assert (tuple(POOLS), tuple(BACKBONES)) == (names.POOLS, names.BACKBONES)


def test_unknown_names_are_rejected_with_the_near_miss():
    with pytest.raises(ValueError, match=r"'mincutt' is unknown\. Did you mean 'mincut'"):
        make_pool("mincutt", 4, 3)


def test_options_reach_the_pools_they_concern():
    options = PoolOptions(sqrt="diagonal", cluster_sizes=[0.5, 0.25, 0.25], head="cosine", temperature=0.7)
    for name in POOLS:
        pool = make_pool(name, 4, 3, options=options)
        assert isinstance(pool.mlp[0], CosineHead)
        assert pool.mlp[0].temperature == 0.7
        if isinstance(pool, JBPool):
            assert pool.sqrt == "diagonal"
            assert pool.cluster_sizes.tolist() == [0.5, 0.25, 0.25]
    assert make_pool("jb-diagonal", 4, 3, options=PoolOptions(sqrt="matrix")).sqrt == "diagonal"


def test_defaults_of_the_options_are_those_of_the_layer():
    made, plain = make_pool("jb", 4, 3), JBPool(4, 3)
    assert repr(made) == repr(plain)
    assert repr(JBPool(4, 3, head="cosine")) == repr(make_pool("jb", 4, 3, options=PoolOptions(head="cosine")))


def test_an_objective_keeps_the_way_assignments_are_made():
    for name in POOLS:
        plain, combined = make_pool(name, 4, 3), make_pool(name, 4, 3, objective={"cut": 1.0})
        assert isinstance(combined, CombinedPool)
        assert combined.smooth_scores == plain.smooth_scores == (name == "diffpool")
    assert make_pool("jb-diagonal", 4, 3, objective={"balance": 1.0}).sqrt == "diagonal"
    sizes = make_pool("mincut", 4, 2, objective={"balance": 1.0}, options=PoolOptions(cluster_sizes=[0.25, 0.75]))
    assert sizes.cluster_sizes.tolist() == [0.25, 0.75]


@pytest.mark.parametrize("name", POOLS)
def test_an_objective_of_the_pools_own_terms_changes_nothing(name):
    graph, feat = grid(4), torch.rand(16, 4)
    plain = make_pool(name, 4, 3)
    same = make_pool(name, 4, 3, objective=dict.fromkeys(plain.cluster(graph, feat)[1], 1.0))
    same.load_state_dict(plain.state_dict())
    torch.testing.assert_close(same.cluster(graph, feat), plain.cluster(graph, feat))


def test_a_combined_pool_weighs_every_term():
    graph, feat = random_graph(30, 60), torch.rand(30, 4)
    weights = {name: 0.5 + index for index, name in enumerate(TERMS)}
    pool = CombinedPool(4, 3, objective=weights)
    pooled = pool(graph, feat)
    assert list(pooled.losses) == list(weights)
    for name, weight in weights.items():
        alone = CombinedPool(4, 3, objective={name: 1.0})
        alone.load_state_dict(pool.state_dict())
        assert torch.allclose(pooled.losses[name], weight * alone(graph, feat).losses[name]), name
    assert "'cut': 1.5" in repr(pool)


@pytest.mark.parametrize("objective", [{}, {"cutt": 1.0}, {"cut": float("nan")}, {"cut": "1"}])
def test_wrong_objectives_are_rejected(objective):
    with pytest.raises(ValueError, match="objective"):
        make_pool("jb", 4, 3, objective=objective)


def test_a_new_pool_is_a_class_with_its_objective():
    class CutBalancePool(ClusterPool):
        def objective(self, part):
            return {"cut": cut(part), "balance": balance(part), "largest": 3 * part.assign.amax().reshape(1)}

    graph, feat, pool, jb = grid(4), torch.rand(16, 4), CutBalancePool(4, 3), make_pool("jb", 4, 3)
    jb.load_state_dict(pool.state_dict())
    pooled = pool(graph, feat)
    torch.testing.assert_close(pooled.losses["balance"], jb(graph, feat).losses["balance"])
    assert pooled.losses["largest"].item() == pytest.approx(3 * pooled.assign.max().item())
    with pytest.raises(NotImplementedError, match=r"ClusterPool needs a method objective\(part\)"):
        ClusterPool(4, 3)(graph, feat)


@pytest.mark.parametrize(
    "found",
    [lambda part: {"balance": balance(part).mean()}, balance, lambda _: {"one": 1.0}],
    ids=["mean", "no dict", "number"],
)
def test_own_losses_of_another_shape(found):
    """The mean over graphs would be divided by their number once more."""

    class OwnPool(ClusterPool):
        def objective(self, part):
            return found(part)

    pool, batch, feat = OwnPool(4, 3), batched([grid(2), grid(3)]), torch.rand(13, 4)
    for call in (pool, pool.cluster):
        with pytest.raises(JBPoolError, match=r"OwnPool\.objective: return a dict of losses with one value per graph"):
            call(batch, feat)
