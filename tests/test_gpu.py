"""Training steps on a GPU: results of the CPU, no synchronisation, half precision, streams, CUDA graphs.

These tests need a GPU (``make test-gpu``); what can be shown without one is in test_devices.py.
"""

import copy
import warnings
from contextlib import contextmanager

import pytest
import torch
from networks import NETWORKS, WIDTH, example, moved, step_results, training_step

from jbpool import JBPool
from jbpool.clustering.auto.recipe import choose, find_clusters
from jbpool.clustering.scores import label_scores
from jbpool.data import load_nodes

EACH = pytest.mark.parametrize("name", NETWORKS)


@contextmanager
def synchronisation_is_an_error():
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings():                         # torch calls the mode a prototype
            warnings.simplefilter("ignore")
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_synchronisation_is_noticed(gpu):
    """The next test can fail."""
    x = torch.ones(3, device=gpu)
    with pytest.raises(RuntimeError), synchronisation_is_an_error():
        x.sum().item()


@EACH
@pytest.mark.parametrize("weighted", [False, True])
def test_a_training_step_never_synchronises(name, weighted, gpu):
    module = NETWORKS[name]().to(gpu)
    optimiser = torch.optim.Adam(module.parameters(), fused=True)
    inputs = moved(example(), gpu)[: 3 if weighted else 2]
    training_step(module, optimiser, *inputs)                   # builds sparse formats, caches and the state of Adam
    with synchronisation_is_an_error():
        loss = training_step(module, optimiser, *inputs)
    assert loss.isfinite()


@EACH
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_and_gradients_are_those_of_the_cpu(name, weighted, gpu):
    module, inputs = NETWORKS[name]().double(), example(dtype=torch.float64)[: 3 if weighted else 2]
    expected = step_results(module, *inputs)
    found = step_results(copy.deepcopy(module).to(gpu), *moved(inputs, gpu))
    torch.testing.assert_close([value.cpu() for value in found], expected, rtol=1e-4, atol=1e-6)


def test_two_streams_do_not_disturb_each_other(gpu):
    """Two batches at once, many times, share a pool and its caches."""
    pool = JBPool(WIDTH, 4).to(gpu)
    batches = [moved(example(seed), gpu) for seed in (0, 1)]
    expected = [pool(*inputs).loss.item() for inputs in batches]
    streams = [torch.cuda.Stream(gpu) for _ in batches]
    torch.cuda.synchronize()
    found = [[], []]
    for _ in range(20):
        for stream, inputs, values in zip(streams, batches, found, strict=True):
            with torch.cuda.stream(stream):
                values.append(pool(*inputs).loss.detach())
    torch.cuda.synchronize()
    for values, value in zip(found, expected, strict=True):
        assert torch.stack(values).tolist() == pytest.approx([value] * 20, rel=1e-5)


@pytest.mark.parametrize("name", ["pools: jb", "clustering"])
def test_a_training_step_can_be_captured_as_a_cuda_graph(name, gpu):
    """Replayed on other features, the graph gives the loss and gradients of an ordinary step."""
    module, inputs = NETWORKS[name]().to(gpu), moved(example(), gpu)
    graph, feat, weight = inputs
    side = torch.cuda.Stream(gpu)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):                               # warm-up, as torch's documentation asks
        for _ in range(3):
            module.zero_grad(set_to_none=True)
            module(*inputs).backward()
    torch.cuda.current_stream().wait_stream(side)
    module.zero_grad(set_to_none=True)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        loss = module(*inputs)
        loss.backward()
    other = torch.randn_like(feat)
    feat.copy_(other)
    captured.replay()
    found = [loss.detach().clone(), *(parameter.grad.clone() for parameter in module.parameters())]
    expected = step_results(copy.deepcopy(module), graph, other, weight)
    torch.testing.assert_close(found, [value.detach() for value in expected], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("with_features", [False, True])
def test_clusters_without_labels_are_found_on_the_gpu(with_features, gpu):
    data = load_nodes("sbm", num_nodes=400, num_clusters=4, seed=0)
    graph, feat, _ = data.on(gpu)
    choice = choose(graph, feat if with_features else None, 2, 8)
    found = find_clusters(graph, feat if with_features else None, choice)
    assert choice.num_clusters == 4
    assert label_scores(found.cluster.cpu(), data.label)["nmi"] > 0.8
