"""One of three processes; test_shares.py starts them. Compares what it gets with the whole matrix, which all know."""

import json
import sys
from pathlib import Path

import torch

from jbpool.processes import RowShares, process_group, rank


def main(out: Path):
    whole = torch.randn(10, 7, generator=torch.Generator().manual_seed(0))
    with process_group(torch.device("cpu")):
        shares = RowShares.of_this_run(10, 4)                   # 4, 4 and 2 rows
        mine = whole[shares.start : shares.stop]
        columns = [whole[:, :3], whole[:, 3:7], whole[:, 7:]]   # the last process has none
        parts = shares.exchange(columns[rank()], [3, 4])
        seen = {
            "counts": shares.counts == [4, 4, 2],
            "exchange": torch.equal(torch.cat(parts, 1), mine),
            "whole": torch.equal(shares.whole(mine), whole),
            "add_up": shares.add_up(torch.tensor([rank(), 1])).tolist() == [3, 3],
            "from_first": shares.from_first(torch.tensor([5.0 + rank()])).tolist() == [5.0],
        }
    (out / f"{shares.place}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
