"""Validation scores of settings, as in docs/development/pools.md; test graphs play no part.

    python scripts/reproduce/try_settings.py                                  all variants, seeds 0 to 2
    python scripts/reproduce/try_settings.py --variants none jb --seeds 0,1   a part of it
    python scripts/reproduce/try_settings.py --set model.hidden=64            with other common settings
    python scripts/reproduce/try_settings.py --cfg nci1 --folds 0,1 --variants jb --seeds 0  folds of a dataset
    python scripts/reproduce/try_settings.py --cfg molhiv --folds official --variants jb     its official split

By default on generated graphs of the pooling benchmark: 240 training graphs of about 60 nodes (as many as the small
real sets have) and 1,200 validation graphs, so that a score is known to about one percentage point. With --cfg, on the
training and validation graphs of the folds. Finished training runs are not repeated.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

TRAIN, VALID = 240, 1200
COMMON = (
    "model.hidden=32", "train.batch_size=16", "train.epochs=40", "train.lr=3e-3", "train.eval_every=13",
    "model.compare=[]",
)  # fmt: skip
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
    "jb, K <= 4, n / 4": ["model.num_clusters=4", "model.ratio=0.25"],
    "jb, K <= 8, n / 4": ["model.num_clusters=8", "model.ratio=0.25"],
    "jb, K <= 16, n / 4": ["model.num_clusters=16", "model.ratio=0.25"],
    "jb, K <= 32, n / 8": ["model.num_clusters=32", "model.ratio=0.125"],
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
    parser.add_argument("--cfg", help="a configuration (default: generated graphs)")
    parser.add_argument("--folds", default="0", help="with --cfg: the folds, or official")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="a.b=v")
    parser.add_argument("--out", type=Path, default=Path("runs/try_settings"))
    args = parser.parse_args()

    import torch

    from jbpool.classification.graph_classify import GRAPH_CLASSIFY
    from jbpool.classification.run import run
    from jbpool.data import Split
    from jbpool.engine.config import load_config

    if args.cfg is None:
        common = ["dataset.max_nodes=80", f"dataset.num_graphs={TRAIN + VALID + 3}", *COMMON]
    else:
        common = ["train.official_split=true", "model.compare=[]"]
    common += [*args.changes, f"train.seeds=[{args.seeds}]"]
    data = GRAPH_CLASSIFY.load_data(load_config(GRAPH_CLASSIFY, args.cfg or "gcb-sim", common))
    if args.cfg is None:
        splits = {"": Split(*torch.arange(len(data)).split([TRAIN, VALID, 3]))}
    else:
        if "official" in args.folds and data.official_split is None:
            parser.error(f"--folds official: {data.name} has no official split; give numbers of folds.")
        folds = replace(data, official_split=None)
        splits = {
            fold: data.split() if fold == "official" else folds.split(int(fold)) for fold in args.folds.split(",")
        }
    print("| settings | validation score | loss of training, validation | training runs |\n|---|---|---|---|")
    for name in args.variants:
        config = load_config(GRAPH_CLASSIFY, args.cfg or "gcb-sim", [*common, *VARIANTS[name]])
        runs, last = [], []
        for fold, split in splits.items():
            # Test graphs are left out: the validation graphs stand in for them.
            seen = replace(data, official_split=split._replace(test=split.valid))
            words = "-".join(filter(None, [args.cfg, fold, name, *args.changes]))
            with redirect_stdout(sys.stderr):
                out = run(config, seen, args.out / re.sub(r"[^\w.=-]+", "_", words), torch.device("cpu"), resume=True)
            asked = config.train.seeds                              # the folder may have others, from earlier calls
            runs += [entry for entry in out.runs if entry["seed"] in asked]
            last += [row for row in out.history if row["epoch"] == config.train.epochs and row["seed"] in asked]
        valid = [100 * entry["valid"] for entry in runs]
        each = ", ".join(f"{score:.1f}" for score in valid)
        loss = ", ".join(f"{statistics.fmean(row[key] for row in last):.3f}" for key in ("loss", "valid_loss"))
        print(f"| {name} | {statistics.fmean(valid):.1f} ({each}) | {loss} | {len(valid)} |", flush=True)


if __name__ == "__main__":
    main()
