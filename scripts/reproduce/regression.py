"""The simplest alternatives to a network for regression: three predictors on statistics of each graph.

    python scripts/reproduce/regression.py --set dataset.seed=1

R2 of each target and the mean RMSE of ridge regression, a random forest and the mean of the training graphs, on the
folds of ``regression.yaml``, or of another ``--cfg``. The statistics are those of ``forest.py``. Nothing is tuned.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from forest import TREES, graph_statistics


def main() -> None:
    from sklearn.dummy import DummyRegressor
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.metrics import r2_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from jbpool.classification.graph_classify import GRAPH_CLASSIFY
    from jbpool.engine.config import load_config

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cfg", default="regression")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="a.b=v")
    args = parser.parse_args()
    config = load_config(GRAPH_CLASSIFY, args.cfg, args.changes)
    data = GRAPH_CLASSIFY.load_data(config)
    rows, label = graph_statistics(data), data.label.double().numpy()                   # (G, C), (G, T)
    models = {
        "ridge regression": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
        "random forest": RandomForestRegressor(TREES, random_state=0, n_jobs=2),
        "the mean of the training graphs": DummyRegressor(),
    }
    print("| | R2 of each target | RMSE, mean of the targets |\n|---|---|---|")
    for name, model in models.items():
        r2, rmse = [], []
        for fold in range(config.train.folds):
            split = data.split(fold, config.train.folds)
            found = model.fit(rows[split.train], label[split.train]).predict(rows[split.test])
            r2.append(r2_score(label[split.test], found, multioutput="raw_values"))
            rmse.append(np.sqrt(np.square(found - label[split.test]).mean(0)).mean())
        each = ", ".join(f"{value:.2f}" for value in np.mean(r2, axis=0))
        print(f"| {name} | {each} | {np.mean(rmse):.3f} ± {np.std(rmse, ddof=1):.3f} |", flush=True)


if __name__ == "__main__":
    main()
