"""torch.func, inference mode, TorchScript, torch.compile and torch.export with the layer, as the documentation says."""

import pytest
import torch
import torch._dynamo.testing
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap
from torch.jit.frontend import FrontendError
from zoo import ZOO, batched, random_graph, symmetric_weights

from jbpool import Graph, as_graph, objectives
from jbpool.errors import JBPoolError
from jbpool.nn.conv import DeltaConv
from jbpool.nn.pools import POOLS, make_pool

REFUSAL = {"jvp": (RuntimeError, "jvp"), "vmap": (JBPoolError, "one batch"), "jacrev": (JBPoolError, "one batch")}
REFUSED = {
    "jvp": lambda function, x: jvp(function, (x,), (x,)),
    "vmap": lambda function, x: vmap(function)(torch.stack([x, x])),
    "jacrev": lambda function, x: jacrev(function)(x),                      # by vmap
}


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return batched([random_graph(size, 3 * size) for size in (10, 7)])


def total(pooled):
    return pooled.loss + pooled.feat.square().sum() + pooled.edge_weight.square().sum()


@pytest.mark.parametrize("name", POOLS)
def test_functional_call(name, batch):
    """Other parameters than the pool's own, and gradients for them."""
    pool, other, feat = make_pool(name, 4, 3), make_pool(name, 4, 3), torch.rand(17, 4)
    total(other(batch, feat)).backward()
    parameters = {key: value.detach().clone().requires_grad_() for key, value in other.named_parameters()}
    value = total(functional_call(pool, parameters, (batch, feat)))
    gradients = torch.autograd.grad(value, list(parameters.values()))
    torch.testing.assert_close(gradients, tuple(parameter.grad for parameter in other.parameters()))


def value_and_gradient(function, x):
    x = x.clone().requires_grad_()
    value = function(x)
    return value.detach(), torch.autograd.grad(value, x)[0]


@pytest.mark.parametrize("name", POOLS)
def test_grad_and_vjp_of_pools(name, batch):
    pool, feat = make_pool(name, 4, 3, (5,)), torch.rand(17, 4)
    weight = symmetric_weights(batch)
    for function in (lambda x: total(pool(batch, x)), lambda x: total(pool(batch, x, weight))):
        value, gradient = value_and_gradient(function, feat)
        torch.testing.assert_close(grad(function)(feat), gradient)
        again, pull = vjp(function, feat)
        torch.testing.assert_close((again, pull(torch.ones(()))[0]), (value, gradient))


@pytest.mark.parametrize("weighted", ["no weights", "constant weights", "weights made inside"])
@pytest.mark.parametrize("name", [*POOLS, "conv"])
def test_grad_on_a_new_graph(name, weighted, batch):
    """What the graph keeps is built inside the transform, and used after it."""
    layer, feat = (DeltaConv(4, 3) if name == "conv" else make_pool(name, 4, 3)), torch.rand(17, 4)
    parameters = {key: value.detach() for key, value in layer.named_parameters()}
    weight = symmetric_weights(batch)

    def function(parameters):
        given = {"no weights": None, "constant weights": weight}.get(weighted, weight * 2)
        found = functional_call(layer, parameters, (batch, feat, given))
        return found.square().sum() if name == "conv" else total(found)

    gradients = grad(function)(parameters)
    learned = {key: value.clone().requires_grad_() for key, value in parameters.items()}
    expected = torch.autograd.grad(function(learned), list(learned.values()))
    torch.testing.assert_close(tuple(gradients.values()), expected)


def test_grad_on_a_graph_of_dgl(batch, dgl):
    """DGL cannot read the tensors of a transform: the pooled graph, of a new size here, is made outside of it."""
    pool, graph, feat = make_pool("jb", 4, 13), batch.to_dgl(), torch.rand(17, 4)
    gradient = grad(lambda x: total(pool(graph, x)))(feat)
    torch.testing.assert_close(gradient, value_and_gradient(lambda x: total(pool(batch, x)), feat)[1])
    assert pool(graph, feat).graph.batch_num_nodes().tolist() == [13, 13]


@pytest.mark.parametrize("transform", REFUSED)
def test_other_transforms_of_weights_are_refused(transform, batch):
    conv, feat = DeltaConv(4, 3), torch.rand(17, 4)
    with pytest.raises(REFUSAL[transform][0], match=REFUSAL[transform][1]):
        REFUSED[transform](lambda weight: conv(batch, feat, weight).sum(), symmetric_weights(batch))


def test_grad_of_learned_weights(batch):
    pool, feat, weight = make_pool("jb", 4, 3), torch.rand(17, 4), symmetric_weights(batch)
    _, gradient = value_and_gradient(lambda w: total(pool(batch, feat, w)), weight)
    torch.testing.assert_close(grad(lambda w: total(pool(batch, feat, w)))(weight), gradient)


@pytest.mark.parametrize("kind", ["graph", "dgl", "pyg"])
@pytest.mark.parametrize("name", POOLS)
def test_training_after_inference(name, kind, batch):
    """A graph that is validated first, as Lightning does, keeps tensors that autograd can save."""
    if kind != "graph":
        pytest.importorskip({"dgl": "dgl", "pyg": "torch_geometric"}[kind])
    given = batch if kind == "graph" else getattr(batch, f"to_{kind}")()
    num_clusters = 20 + 3 * list(POOLS).index(name) + ["graph", "dgl", "pyg"].index(kind)       # a new pooled graph
    conv, pool, second = DeltaConv(4, 4), make_pool(name, 4, num_clusters), make_pool(name, 4, 2)

    def value():
        one = pool(given, conv(given, torch.ones(17, 4)))
        two = second(one.graph, one.feat, one.edge_weight)
        ends = one.feat[as_graph(one.graph).edge_index]
        return total(one) + total(two) + one.lift(two.lift(two.feat)).sum() + ends.square().sum()

    with torch.inference_mode():
        expected = float(value())
    found = value()
    found.backward()
    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize("sqrt", ["matrix", "diagonal"])
def test_grad_of_losses(sqrt):
    assign = torch.rand(9, 3).softmax(1)
    for sizes in (None, [4, 5]):
        def function(x, sizes=sizes):
            return objectives.balance_loss(x, sizes, sqrt=sqrt).sum()

        torch.testing.assert_close(grad(function)(assign), value_and_gradient(function, assign)[1])


@pytest.mark.parametrize("transform", REFUSED)
def test_other_transforms_are_refused(transform, batch):
    pool = make_pool("jb", 4, 3)
    with pytest.raises(REFUSAL[transform][0], match=REFUSAL[transform][1]):
        REFUSED[transform](lambda feat: pool(batch, feat).loss, torch.rand(17, 4))
    with pytest.raises(REFUSAL[transform][0], match=REFUSAL[transform][1]):
        REFUSED[transform](lambda assign: objectives.balance_loss(assign).sum(), torch.rand(9, 3).softmax(1))


def test_torchscript_is_refused(batch):
    pool = make_pool("jb", 4, 3)
    for layer in (pool, DeltaConv(4, 3)):
        with pytest.raises(JBPoolError, match="TorchScript"):
            torch.jit.script(layer)
    with pytest.raises(RuntimeError, match="cannot infer type"):
        torch.jit.trace(pool, (batch, torch.rand(17, 4)))
    with pytest.raises((FrontendError, RuntimeError, ValueError)):
        torch.jit.script(objectives.balance_loss)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("result", ["loss", "feat", "edge_weight"])
def test_second_derivatives_are_right_or_refused(name, result):
    """A gradient penalty used to be silently wrong: saved tensors counted as constants."""
    graph = batched([ZOO["two components"](), ZOO["two components"]()])
    pool = make_pool(name, 4, 3).double()
    generator = torch.Generator().manual_seed(0)
    feat, direction = torch.randn(2, graph.num_nodes, 4, dtype=torch.float64, generator=generator)

    def slope(feat):
        feat = feat.detach().requires_grad_()
        value = getattr(pool(graph, feat), result).pow(2).sum()
        return torch.autograd.grad(value, feat, create_graph=True)[0].square().sum(), feat

    if result != "loss" or name not in ("dmon", "jb-diagonal"):
        with pytest.raises(JBPoolError, match="second derivatives"):
            slope(feat)[0].backward()
        return
    penalty, at = slope(feat)
    found = (torch.autograd.grad(penalty, at)[0] * direction).sum().item()
    above, below = (slope(feat + step * direction)[0].item() for step in (1e-6, -1e-6))
    assert found == pytest.approx((above - below) / 2e-6, rel=1e-3, abs=1e-6)


# ---------------------------------------------------------------- torch.compile


class TwoLevels(torch.nn.Module):
    def __init__(self, name, ratio=None):
        super().__init__()
        self.conv = DeltaConv(4, 4, activation="relu")
        self.first, self.second = make_pool(name, 4, 5, ratio=ratio), make_pool(name, 4, 2, ratio=ratio)

    def forward(self, graph, feat):
        one = self.first(graph, self.conv(graph, feat))
        two = self.second(one.graph, one.feat)
        return one.loss + total(two) + one.lift(two.lift(two.feat)).square().mean()


WHOLE = [*((name, "eager", None) for name in POOLS), *(("jb", "aot_eager", ratio) for ratio in (None, 0.5))]


@pytest.mark.parametrize(("name", "backend", "ratio"), WHOLE)
def test_a_model_compiles_whole_and_once_for_all_shapes(name, backend, ratio):
    torch._dynamo.reset()
    counters = torch._dynamo.testing.CompileCounterWithBackend(backend)
    model = TwoLevels(name, ratio).double()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counters)
    for sizes in ((4, 6, 5), (7, 3, 9, 5, 12), (3, 3, 8, 6)):
        graphs = [random_graph(size, 3 * size, seed=size) for size in sizes]
        feat = torch.rand(sum(sizes), 4, dtype=torch.float64)
        values = [function(batched(graphs), feat) for function in (model, compiled)]
        torch.testing.assert_close(*values)
        torch.testing.assert_close(*(torch.autograd.grad(value, list(model.parameters())) for value in values))
    assert counters.frame_count <= 2


class OfTensors(TwoLevels):
    def forward(self, edge_index, sizes, feat):
        return super().forward(Graph(edge_index, feat.shape[0], sizes), feat)


@pytest.mark.parametrize("name", ["jb", "diffpool"])
def test_a_model_is_exported_for_all_shapes(name):
    def tensors(*sizes):
        graph = batched([random_graph(size, 3 * size, seed=size) for size in sizes])
        return graph.edge_index, graph.sizes, torch.rand(graph.num_nodes, 4)

    model, (edges, graphs, nodes) = OfTensors(name), map(torch.export.Dim, ("edges", "graphs", "nodes"))
    dynamic = {1: edges}, {0: graphs}, {0: nodes}
    program, inputs = torch.export.export(model, tensors(4, 6, 5), dynamic_shapes=dynamic), tensors(7, 3, 9, 5, 12)
    torch.testing.assert_close(program.module()(*inputs), model(*inputs))
