"""What a GPU requires of training steps, shown without one: no reads, one device, forward, backward and optimiser."""

import copy

import pytest
import torch
from meta_graph import ids, install, meta_graph
from networks import NETWORKS, WIDTH, StackedPools, example, moved, training_step
from watch import Watch
from zoo import POOLS

from jbpool import JBPool, pool_by, select, value_checks
from jbpool.formats import Blocks
from jbpool.graph import _kept_complete
from jbpool.objectives import balance_loss


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_step_reads_nothing(name, weighted, device, host_reads):
    """Not one operation of a step would make the host wait for a GPU."""
    module = NETWORKS[name]().to(device)
    optimiser = torch.optim.Adam(module.parameters(), fused=True)
    inputs = moved(example(), device)[: 3 if weighted else 2]
    with value_checks("none"):
        training_step(module, optimiser, *inputs)               # the graph builds its operators, Adam its state
        del host_reads[:]
        with Watch() as watch:
            training_step(module, optimiser, *inputs)
    assert not host_reads
    assert not [read for read in watch.reads if "eigh" not in read]         # the root by eigh is for the CPU only


@pytest.mark.parametrize("name", NETWORKS)
def test_float32_and_autocast_are_close_to_float64(name, device):
    module, inputs = NETWORKS[name]().to(device), moved(example(), device)
    graph, feat, weight = inputs
    exact = copy.deepcopy(module).double()(graph, feat.double(), weight.double())
    single = module(*inputs)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        half = module(*inputs)
    half.backward()
    torch.testing.assert_close(single.double(), exact, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(half.double(), exact, rtol=0.1, atol=0.1)
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("name", "learned"), [*((name, learned) for name in NETWORKS for learned in (None, True)), ("clustering", False)]
)
def test_a_training_step_on_the_meta_device(name, learned, monkeypatch):
    install(monkeypatch)
    module = NETWORKS[name]().to("meta")
    graph = meta_graph(num_graphs=6, num_nodes=300, num_edges=2000)
    feat = torch.empty(300, WIDTH, device="meta", requires_grad=True)
    weight = None if learned is None else torch.empty(2000, device="meta", requires_grad=learned)
    with Watch() as watch:
        loss = training_step(module, torch.optim.Adam(module.parameters(), foreach=True), graph, feat, weight)
    # what is left is Adam's own count of steps, which it keeps on the host
    assert [str(read) for read in watch.reads if "_local_scalar_dense" not in str(read)] == []
    assert loss.device.type == feat.grad.device.type == "meta"
    assert loss.shape == ()
    assert all(parameter.grad is not None for parameter in module.parameters())
    if learned:
        assert weight.grad.shape == (2000,)


@pytest.mark.parametrize("name", [name for name in POOLS if name != "jb sizes"])
def test_a_ratio_reads_two_numbers_once_per_graph(name, monkeypatch, host_reads):
    """Those of the nodes and edges that it makes; on the meta device they are given, and all else is computed."""
    module = StackedPools(POOLS[name])
    module.first.ratio = module.second.ratio = 0.5
    inputs = example()[:2]
    with value_checks("none"):
        for expected in (["tolist"] * 2, []):                   # of both levels
            del host_reads[:]
            with Watch() as watch:
                module(*inputs).backward()
            assert host_reads == expected
            assert not [read for read in watch.reads if "eigh" not in read]
    install(monkeypatch)

    def known(sizes, width, idtype):
        return Blocks(sizes, width, idtype, ids(20), ids(90))

    monkeypatch.setattr(Blocks, "of", known)
    feat = torch.empty(300, WIDTH, device="meta", requires_grad=True)
    module.to("meta")(meta_graph(6, 300, 2000), feat).backward()
    assert feat.grad.device.type == "meta"


def test_the_best_nodes_are_kept_without_reading(monkeypatch):
    install(monkeypatch)
    graph, feat = meta_graph(6, 300, 2000), torch.empty(300, WIDTH, device="meta", requires_grad=True)
    pool_by(graph, feat, select.top_k(feat[:, 0], graph, 0.5), 40).feat.sum().backward()
    assert feat.grad.shape == feat.shape


def test_the_layer_starts_few_kernels(monkeypatch):
    """As on a GPU, where each is a launch; the number does not depend on the batch."""
    install(monkeypatch)
    pool = JBPool(64, 14).to("meta")
    feat = torch.empty(3680, 64, device="meta", requires_grad=True)
    graph = meta_graph(num_graphs=128, num_nodes=3680, num_edges=7916)
    _kept_complete.cache_clear()                            # counted whatever ran before
    with Watch() as watch:
        pooled = pool(graph, feat)
        torch.autograd.backward([pooled.loss, pooled.feat.sum(), pooled.edge_weight.sum()])
    assert 50 < watch.kernels <= 180


@pytest.mark.parametrize("sqrt", ["matrix", "diagonal"])
def test_the_loss_of_a_large_graph_starts_few_kernels(sqrt):
    """On the CPU it is computed in blocks that fit the cache; on a GPU each block would cost launches."""
    assign = torch.empty(10**6, 16, device="meta", requires_grad=True)
    with Watch() as watch:
        balance_loss(assign, sqrt=sqrt).sum().backward()
    assert 5 < watch.kernels <= 120


def test_the_layer_makes_few_calls(monkeypatch):
    """All calls inside torch, with views and allocations, on the CPU; as many for all batches of small graphs."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)                # the root is not divided among threads
    pool, (graph, feat, _) = JBPool(WIDTH, 14), example()
    pool(graph, feat)                                           # the graph builds its operators
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorded:
        pooled = pool(graph, feat)
        torch.autograd.backward([pooled.loss, pooled.feat.sum(), pooled.edge_weight.sum()])
    assert 300 < sum(event.name.startswith("aten::") for event in recorded.events()) <= 470


@pytest.mark.parametrize("spoil", [lambda x: x.item(), lambda x: x.nonzero(), lambda x: x + torch.ones(3)])
def test_the_meta_device_refuses_reads_and_other_devices(spoil):
    with pytest.raises((RuntimeError, NotImplementedError)):
        spoil(torch.empty(3, device="meta"))
