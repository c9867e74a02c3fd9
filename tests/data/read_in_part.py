"""One of several processes; test_parts.py starts them. Reads every file of a folder in part, and says what it got."""

import json
import logging
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from jbpool import processes
from jbpool.data.datasets import NodeData
from jbpool.data.own import one_graph
from jbpool.processes import process_group, rank

BLOCK = 4               # rows, instead of 1,024: shares of small graphs


def content(data: NodeData) -> dict:
    """The rows of this process, and what is the same in all of them."""
    graph, weight = data.graph, data.edge_weight
    pointers, columns, _ = graph.by_target
    return {
        "rows": {
            "ids": data.own_ids.tolist(),
            "degree": pointers.diff().tolist(),
            "neighbours": graph.halo.numbers[columns.long()].tolist(),
            "weight": None if weight is None else weight.tolist(),
            "first": None if data.first is None else data.first.tolist(),
            "feat": None if data.feat is None else data.feat.to_dense().tolist(),
            "label": None if data.label is None else data.label.tolist(),
        },
        "shared": [data.summary, data.read.counts, data.fingerprint_with_labels, data.class_names, data.feat_names],
        "types": [str(data.own_ids.dtype), str(columns.dtype), graph.shares.num_rows],
    }


def watch(longest: dict, frame, event: str, _) -> None:
    """Note the longest array and text that a function of jbpool.data holds when it returns, but maps of files."""
    if event == "return" and "/jbpool/data/" in frame.f_code.co_filename:
        for value in frame.f_locals.values():
            if isinstance(value, (np.ndarray, torch.Tensor, pd.DataFrame)) and not isinstance(value, np.memmap):
                longest["array"] = max(longest["array"], len(value) if value.ndim else 0)
            elif isinstance(value, bytes):
                longest["bytes"] = max(longest["bytes"], len(value))


if __name__ == "__main__":
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    processes.ROWS = BLOCK
    with process_group(torch.device("cpu")):
        said: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append(record.getMessage())
        logging.getLogger("jbpool").addHandler(handler)
        seen = {}
        for case in sorted(folder.iterdir()):
            files = {path.name.split(".")[0]: path for path in case.iterdir()}
            options = json.loads(files.pop("options").read_text()) if "options" in files else {}
            longest = {"array": 0, "bytes": 0}
            if case.name.startswith("many"):
                sys.setprofile(partial(watch, longest))
            data = one_graph.load_node_files(**files, **options)
            sys.setprofile(None)
            seen[case.name] = content(data) | {"longest": longest, "said": [*said]}
            said.clear()
        (out / f"{rank()}.json").write_text(json.dumps(seen))
