"""Several processes: what they exchange, and which rows each has."""

import json
from pathlib import Path

import pytest
import torch
from commands import run_ranks
from torch import nn

from jbpool import processes as shares_module
from jbpool.errors import ConfigError
from jbpool.processes import (
    ROWS,
    Halo,
    RowShares,
    choose_device,
    gather,
    mean_gradients,
    mean_over_processes,
    process_group,
    rank,
    total_over_processes,
    world_size,
)  # fmt: skip


@pytest.mark.parametrize("mine", [0, 1])
def test_values_are_gathered_by_rank(two_processes, mine):
    assert two_processes[mine]["ranks"] == [0, 1]
    assert two_processes[mine]["world_size"] == 2
    assert two_processes[mine]["gathered"] == [{"name": "rank 0", "size": 0}, {"name": "rank 1", "size": 1}]
    assert two_processes[mine]["mean"] == 1.5


@pytest.mark.parametrize("mine", [0, 1])
def test_gradients_are_averaged(two_processes, mine):
    """Also of a parameter that one process did not use; frozen parameters have no gradient."""
    shared, sometimes, frozen = two_processes[mine]["gradients"]
    assert shared == [[2.0, 2.0], [2.0, 2.0]]
    assert sometimes == [[2.0, 2.0], [2.0, 2.0]]
    assert frozen is None


@pytest.mark.parametrize("mine", [0, 1])
def test_a_total_is_the_sum_of_all_processes(two_processes, mine):
    assert two_processes[mine]["total"]["value"] == [3.0, 30.0]
    assert two_processes[mine]["total"]["input"] == [1.0 * (mine + 1), 10.0 * (mine + 1)]        # not overwritten


@pytest.mark.parametrize("operation", ["barrier", "mean", "gather", "gradients"])
def test_a_process_left_alone_says_so(two_processes, operation):
    message, has_cause = two_processes[0][f"{operation} alone"]
    assert message == "another process of this run has died; --resume continues from the checkpoint."
    assert has_cause


def test_a_single_process_changes_nothing():
    parameter, unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    (2 * parameter).sum().backward()
    mean_gradients([parameter, unused])
    assert parameter.grad.tolist() == [2.0, 2.0, 2.0]
    assert unused.grad is None
    assert total_over_processes(torch.tensor([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert (rank(), world_size(), gather("x")) == (0, 1, ["x"])
    assert mean_over_processes(torch.tensor(2.5)) == 2.5


@pytest.mark.parametrize(("kind", "backend"), [("cpu", "gloo"), ("cuda", "cpu:gloo,cuda:nccl")])
def test_the_group_is_left_after_an_error(kind, backend, monkeypatch):
    calls = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("torch.distributed.init_process_group", calls.append)
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: calls.append("left"))
    with pytest.raises(KeyError), process_group(torch.device(kind)):
        raise KeyError
    assert calls == [backend, "left"]


def test_every_process_of_a_machine_has_its_own_gpu(monkeypatch):
    """By its number on this machine, not among all machines."""
    selected = []
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setattr("torch.cuda.set_device", selected.append)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert choose_device("cuda") == choose_device("auto") == torch.device("cuda", 1)
    assert selected == [1, 1]
    assert choose_device("cpu") == torch.device("cpu")
    assert len(selected) == 2
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(ConfigError, match=r"more processes than GPUs here \(2\)"):
        choose_device("auto")


# ---------------------------------------------------------------- rows shared between processes


SCRIPT = Path(__file__).with_name("several_processes.py")


@pytest.mark.parametrize("processes", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [0, 5, 3000, 100_000])
def test_shares_are_consecutive_and_begin_at_blocks(processes, rows, monkeypatch):
    monkeypatch.setattr(shares_module, "world_size", lambda: processes)
    found = []
    for place in range(processes):
        monkeypatch.setattr(shares_module, "rank", lambda place=place: place)
        found.append(RowShares.of_this_run(rows))
    assert [share.start for share in found] == [0, *(share.stop for share in found[:-1])]
    assert found[-1].stop == rows == found[0].num_rows
    assert all(share.start % ROWS == 0 or share.start == rows for share in found)
    blocks = [-(-(share.stop - share.start) // ROWS) for share in found]
    assert max(blocks) - min(blocks) <= 1


def test_shares_balance_entries(monkeypatch):
    monkeypatch.setattr(shares_module, "world_size", lambda: 2)
    entries = torch.tensor([10**6, 0, 0, 0, 0])
    assert RowShares.of_this_run(5000, entries).bounds == [0, ROWS, 5000]


def test_alone_nothing_is_sent():
    alone, value = RowShares.alone(3), torch.arange(6.0).view(3, 2)
    halo = Halo(alone, torch.zeros(0, dtype=torch.long))
    assert alone.add_up(value) is value
    assert alone.from_first(value) is value
    assert alone.swap(value, [3], [3]) is value
    assert halo.extended(value) is value
    assert halo.fill(value) is value


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_processes_exchange_rows(tmp_path, processes):
    run_ranks(SCRIPT, tmp_path, cwd=tmp_path, processes=processes)
    for place in range(processes):
        seen = json.loads((tmp_path / f"{place}.json").read_text())
        assert seen == dict.fromkeys(seen, True)
        assert len(seen) == 13
