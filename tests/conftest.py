"""Fixtures: a device, unusual graphs, pools, a batch, a fixed random seed, two processes."""

import gc
import json
import os
from collections import Counter
from pathlib import Path

import pytest
import torch
from zoo import POOLS, ZOO, batched

from jbpool.report import layout

# Some virtual machines advertise AMX but block it: a product in bfloat16 would crash the process. oneDNN reads this
# before its first product; child processes inherit it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

collect_ignore = ["user_code.py"]       # read by mypy only: it has mistakes


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", choices=("cpu", "cuda"), help="tests on a GPU: make test-gpu")


def pytest_collection_modifyitems(config, items):
    """Keep the tests that can run on the device: those that need a GPU, or cannot use one, are deselected."""
    on_cpu = config.getoption("--device") == "cpu"

    def fits(item):
        fixtures = getattr(item, "fixturenames", ())
        return "gpu" not in fixtures if on_cpu else "device" in fixtures

    config.hook.pytest_deselected(items=[item for item in items if not fits(item)])
    items[:] = [item for item in items if fits(item)]


def pytest_terminal_summary(terminalreporter):
    """Print one line per reason that tests were skipped for; pytest's own are one per place."""
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped"))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"SKIPPED [{count}] {reason}")


def pytest_collection_finish():
    """What was imported stays: garbage collection, which memory tests ask for, need not search it (0.3 s each time)."""
    gc.freeze()


@pytest.fixture(scope="session")
def device(request):
    """Where a test puts its tensors and graphs: the CPU, or with ``--device cuda`` (``make test-gpu``) a GPU."""
    chosen = torch.device(request.config.getoption("--device"))
    if chosen.type == "cpu":
        return chosen
    require_gpu()
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture(scope="session")
def gpu(device):
    """The device of tests that make sense on a GPU only; ``make test`` leaves them out."""
    return device


def require_gpu():
    """Skip the test unless torch can use a GPU."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")


@pytest.fixture(autouse=True)
def _same_seed_for_every_test():
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def full_layout():
    """The settings of the graph layout; it has fewer steps in tests of other things, which write many reports."""
    full = {name: getattr(layout, name) for name in ("STEPS", "EARLY", "SPREAD_STEPS", "SMALL_STEPS")}
    layout.STEPS, layout.EARLY, layout.SPREAD_STEPS, layout.SMALL_STEPS = 5, 2, 2, 2
    return full


@pytest.fixture(params=ZOO)
def odd_graph(request, device):
    return ZOO[request.param]().to(device)


@pytest.fixture(params=POOLS)
def make_pool(request, device):
    """A function (in_feats, num_clusters[, hidden_feats]) -> pool, for every pool and form."""
    return lambda *args: POOLS[request.param](*args).to(device)


@pytest.fixture
def batch(device):
    """One graph of each unusual kind."""
    return batched([make() for make in ZOO.values()]).to(device)


@pytest.fixture(scope="session")
def shared():
    """The folder of real datasets; without it the test is skipped."""
    from commands import SHARED  # not in all sessions: it imports both tasks

    if not SHARED.is_dir():
        pytest.skip("no datasets: set JBPOOL_DATA to their folder")
    return SHARED


@pytest.fixture
def dgl():
    """DGL; without it the test is skipped."""
    return pytest.importorskip("dgl", reason="DGL is not installed")


@pytest.fixture
def host_reads(monkeypatch):
    """Names of the Tensor methods called that return values to Python."""
    called = []
    for name in ("item", "tolist", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__", "__contains__"):
        method = getattr(torch.Tensor, name)

        def spy(self, *args, _name=name, _method=method, **kwargs):
            called.append(_name)
            return _method(self, *args, **kwargs)

        monkeypatch.setattr(torch.Tensor, name, spy)
    return called


@pytest.fixture(scope="session")
def two_processes(tmp_path_factory):
    """What each of two processes saw."""
    from commands import launch_ranks  # not in all sessions: it imports both tasks

    out = tmp_path_factory.mktemp("processes")
    both = launch_ranks(Path(__file__).with_name("two_processes.py"), out, cwd=out)
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 1], errors
    return [json.loads((out / f"{n}.json").read_text()) for n in (0, 1)]
