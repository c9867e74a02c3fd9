"""Rows shared between processes: who has which, and what three of them exchange."""

import json
from pathlib import Path

import pytest
import torch
from commands import run_ranks

from jbpool import processes as shares_module
from jbpool.processes import RowShares

SCRIPT = Path(__file__).with_name("three_processes.py")


@pytest.mark.parametrize("processes", [1, 2, 3, 7])
@pytest.mark.parametrize(("rows", "multiple"), [(10, 1), (1000, 64), (5, 64), (0, 4)])
def test_shares_are_contiguous_and_begin_at_multiples(processes, rows, multiple, monkeypatch):
    monkeypatch.setattr(shares_module, "world_size", lambda: processes)
    found = []
    for place in range(processes):
        monkeypatch.setattr(shares_module, "rank", lambda place=place: place)
        found.append(RowShares.of_this_run(rows, multiple))
    assert [share.start for share in found] == [0, *(share.stop for share in found[:-1])]
    assert found[-1].stop == rows == found[0].num_rows
    assert all(share.start % multiple == 0 or share.start == rows for share in found)
    blocks = [-(-(share.stop - share.start) // multiple) for share in found]
    assert max(blocks) - min(blocks) <= 1


def test_alone_nothing_is_sent():
    alone, value = RowShares.alone(3), torch.arange(6.0).view(3, 2)
    assert alone.add_up(value) is value
    assert alone.from_first(value) is value
    assert alone.whole(value) is value
    assert alone.exchange(value, [2])[0] is value


def test_three_processes_exchange_rows(tmp_path):
    run_ranks(SCRIPT, tmp_path, cwd=tmp_path, processes=3)
    for place in range(3):
        seen = json.loads((tmp_path / f"{place}.json").read_text())
        assert seen == dict.fromkeys(seen, True)
        assert len(seen) == 5
