"""Validation scores of settings on generated graphs of the pooling benchmark, as in docs/pooling.md.

    python scripts/try_settings.py                                  all variants, seeds 0 to 2
    python scripts/try_settings.py --variants none jb --seeds 0,1   a part of it
    python scripts/try_settings.py --set model.hidden=64            with other common settings

240 training graphs of about 60 nodes (as many as the small real sets have), 1,200 validation graphs, so that a score is
known to about one percentage point; test graphs play no part. Finished trainings are not repeated.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

TRAIN, VALID = 240, 1200
COMMON = ("model.hidden=32", "train.batch_size=16", "train.epochs=40", "train.eval_every=13", "model.compare=[]")
VARIANTS = {
    "none": ["model.pool=none"],
    "none, no dropout": ["model.pool=none", "model.dropout=0"],
    "none, dropout 0.3": ["model.pool=none", "model.dropout=0.3"],
    "none, constant 1e-3": ["model.pool=none", "train.schedule=constant", "train.lr=1e-3"],
    "none, max": ["model.pool=none", "model.readout=max"],
    "jb": [],
    "jb, no dropout": ["model.dropout=0"],
    "jb, dropout 0.3": ["model.dropout=0.3"],
    "jb, K = 2": ["model.num_clusters=2"],
    "jb, K = 8": ["model.num_clusters=8"],
    "jb, K = 16": ["model.num_clusters=16"],
    "jb, K = 30": ["model.num_clusters=30"],
    "jb, two levels": ["model.levels=2"],
    "jb, without its loss": ["model.aux_weight=0"],
    "jb, a tenth of its loss": ["model.aux_weight=0.1"],
    "jb, three times its loss": ["model.aux_weight=3"],
    "jb, cosine head": ["method.head=cosine"],
    "jb, last readout": ["model.readout_of=last"],
    "jb, max": ["model.readout=max"],
    "jb, constant 1e-3": ["train.schedule=constant", "train.lr=1e-3"],
    "mincut": ["model.pool=mincut"],
    "dmon": ["model.pool=dmon"],
    "diffpool": ["model.pool=diffpool"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS, metavar="NAME")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="a.b=v")
    parser.add_argument("--out", type=Path, default=Path("runs/try_settings"))
    args = parser.parse_args()

    import torch

    from jbpool.classification.run import run
    from jbpool.classification.task import GRAPH_CLASSIFY
    from jbpool.data import Split
    from jbpool.engine.config import load_config

    size = ["dataset.max_nodes=80", f"dataset.num_graphs={TRAIN + VALID + 3}"]
    common = [*size, *COMMON, *args.changes, f"train.seeds=[{args.seeds}]"]
    data = GRAPH_CLASSIFY.load_data(load_config(GRAPH_CLASSIFY, "gcb-sim", common))
    split = Split(*torch.arange(len(data)).split([TRAIN, VALID, 3]))
    data = replace(data, official_split=split)
    print("| settings | validation accuracy | seeds |\n|---|---|---|")
    for name in args.variants:
        config = load_config(GRAPH_CLASSIFY, "gcb-sim", [*common, *VARIANTS[name]])
        folder = args.out / name.replace(", ", "-").replace(" ", "_")
        with redirect_stdout(sys.stderr):
            out = run(config, data, folder, torch.device("cpu"), resume=True)
        valid = [100 * entry["valid"] for entry in out.runs]
        each = ", ".join(f"{score:.1f}" for score in valid)
        print(f"| {name} | {statistics.fmean(valid):.1f} ({each}) | {len(valid)} |", flush=True)


if __name__ == "__main__":
    main()
