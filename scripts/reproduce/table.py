"""Print the tables of docs/development/ as Markdown: our results and the published ones.

    python scripts/reproduce/table.py runs/reproduce          the paper's Table 2, and clusters without labels
    python scripts/reproduce/table.py runs/reproduce_graphs   graph classification
    python scripts/reproduce/table.py runs/reproduce --csv    all seeds and folds, as in docs/development/measured.csv
    python scripts/reproduce/table.py --times                 Table 3: seconds per training step
    python scripts/reproduce/table.py --times --datasets cora dblp
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from jbpool.errors import JBPoolError

DATASETS = ("cora", "citeseer", "pubmed", "dblp")
FIXED_SETS = (*DATASETS, "acm", "amazon-photo", "cora-ml")
# The same methods in PyAGC's published table: method -> dataset -> (ACC, NMI)
PYAGC = {"mincut": {"cora": (0.530, 0.408)}, "dmon": {"cora": (0.530, 0.438)}}
# Table 3 of the paper: method -> seconds per training step on its GPU, by dataset
SECONDS_PER_STEP = {
    "diffpool": dict(zip(DATASETS, (0.009, 0.030, 0.234, 0.229), strict=True)),
    "dmon": dict(zip(DATASETS, (0.006, 0.028, 0.030, 0.061), strict=True)),
    "mincut": dict(zip(DATASETS, (0.006, 0.029, 0.030, 0.061), strict=True)),
    "jb": dict(zip(DATASETS, (0.003, 0.021, 0.017, 0.048), strict=True)),
}
RECORDED = ("seed", "fold", "acc", "nmi", "loss", "test")           # of every run, in docs/development/measured.csv


def load_results(folder: Path) -> list[dict]:
    """Return every ``result.json`` of finished runs below a folder, with the name of its run folder."""
    from jbpool.compare import read_result

    paths = sorted(path.parent for path in folder.glob("*/result.json"))
    results = [{**read_result(path), "folder": path.name} for path in paths]
    return [result for result in results if result["runs"]]         # else interrupted in the first seed


def methods_of(result: dict) -> dict[str, dict]:
    """Return name -> scores of every method of a run."""
    all_of = {result["method"]: result, **result.get("compared", {})}
    return {name_of({**result, "method": method}): scores for method, scores in all_of.items()}


def contradiction(results: list[dict]) -> str | None:
    """Return two runs that would share a cell of a table, or whose folds are not the same."""
    seen: dict[tuple, str] = {}
    graphs: dict[str, tuple] = {}
    for result in results:
        for method in methods_of(result):
            other = seen.setdefault((result["task"], result["dataset"], method), result["folder"])
            if other != result["folder"]:
                return f"{other} and {result['folder']} are both {method} on {result['dataset']}: move one of them away"
        if result["task"] == "graph_classify":
            config = result["config"]
            folds = [config["train"][key] for key in ("folds", "official_split")]
            folds.append({key: value for key, value in config["dataset"].items() if key != "root"})
            other, known = graphs.setdefault(result["dataset"], (result["folder"], folds))
            if known != folds:
                both = f"{other} and {result['folder']}"
                return f"{both} have other graphs or folds of {result['dataset']}: move one of them away"
    return None


def is_fixed(result: dict) -> bool:
    """Return whether a run clustered fixed features instead of training a network of the paper."""
    bounded = result["config"]["method"].get("head") == "cosine"
    return result["task"] == "node_cluster" and (result["method"] in ("auto", "kmeans") or bounded)


USUAL = {"epochs": 2000, "restarts": 1}            # settings of node clustering that are not named


def name_of(result: dict) -> str:
    """Return the method and its non-default settings: square root, objective, network, training, features."""
    config, words = result["config"], result["method"].split("-")                  # jb-diagonal: jb, diagonal
    clustering = result["task"] == "node_cluster"
    paper = clustering and result["dataset"] in DATASETS and not is_fixed(result)
    if clustering and not paper:
        words += ["bounded head"] if config["method"].get("head") == "cosine" else []
        words += ["temperature auto"] if config["method"].get("temperature") == "auto" else []
    if words[0] == "jb" and config["method"]["sqrt"] == "diagonal" and "diagonal" not in words:
        words.append("diagonal")
    if clustering:
        model, train, objective = config["model"], config["train"], config["method"].get("objective")
        if objective:
            words.append(" + ".join(f"{weight:g} {name}" for name, weight in objective.items()))
        if (model["layers"], model["backbone"]) == (1, "sage"):
            words.append("one layer")                                               # its name in nodes.py
        elif paper and (model["backbone"] != "delta" or model["layers"] != 10):
            words.append(f"{model['layers']} x {model['backbone']}")
        if result["method"] == "jb" and train["lr"] == 5e-5:
            words.append("lr 5e-5")
        if paper:
            words += [f"{key} {train[key]}" for key, usual in USUAL.items() if (train[key] or 1) != usual]
    if config["dataset"].get("normalize") is False:
        words.append("raw features")
    return ", ".join(words)


def clustering_table(results: list[dict]) -> str:
    """Return Table 2: mean and deviation over seeds, the paper's results, and those of PyAGC if available."""
    from jbpool.report.page import score, spread
    from jbpool.report.published import CLUSTERING

    rows: dict[str, dict[str, dict]] = {}
    for result in results:
        rows.setdefault(name_of(result), {})[result["dataset"]] = result
    head = "| method | seeds |" + "".join(f" {name} ACC | paper | {name} NMI | paper |" for name in DATASETS)
    lines = [head, "|---|---|" + "---|---|---|---|" * len(DATASETS)]
    order = list(CLUSTERING)
    for method in sorted(rows, key=lambda method: (order.index(method.split(",")[0]), method)):
        seeds = "/".join(str(len(rows[method][name]["runs"])) if name in rows[method] else "-" for name in DATASETS)
        cells = [method, seeds]
        for name in DATASETS:
            mine = rows[method].get(name)
            paper = CLUSTERING[method.split(",")[0]][name]
            others = PYAGC.get(method, {}).get(name, (None, None))
            for key, published, other in (("acc", paper[0:2], others[0]), ("nmi", paper[2:4], others[1])):
                ours = "-" if mine is None else score(mine, key)
                cells += [ours, spread(*published) + ("" if other is None else f"; PyAGC {other:.3f}")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fixed_table(results: list[dict]) -> str:
    """Return ACC / NMI, mean and deviation over seeds, and seconds per seed, one column per dataset."""
    rows: dict[str, dict[str, dict]] = {}
    for result in results:
        rows.setdefault(name_of(result), {})[result["dataset"]] = result
    columns = [name for name in FIXED_SETS if any(name in row for row in rows.values())]
    lines = ["| method | seeds |" + "".join(f" {name} |" for name in columns), "|---|---|" + "---|" * len(columns)]
    for method, row in rows.items():
        cells = [method, "/".join(str(len(row[name]["runs"])) if name in row else "-" for name in columns)]
        for name in columns:
            if name not in row:
                cells.append("-")
                continue
            mean, std = row[name]["mean"], row[name]["std"]
            scores = " / ".join(f"{mean[key]:.3f} ± {std[key]:.3f}" for key in ("acc", "nmi"))
            cells.append(f"{scores}, {mean['seconds']:.0f} s")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def classification_table(results: list[dict]) -> str:
    """Return test scores, in percent unless they are errors: mean and deviation over folds and seeds (their number)."""
    from jbpool.classification.class_scores import LOWER_IS_BETTER
    from jbpool.report.published import CLASSIFICATION

    columns = ["jb", "jb, diagonal", "none", "mincut", "dmon", "diffpool"]
    found: dict[str, dict[str, str]] = {}
    for result in results:
        for method, scores in methods_of(result).items():
            number = len(scores["runs"])
            factor, digits = (1, 3) if scores["runs"][0]["metric"] in LOWER_IS_BETTER else (100, 1)
            deviation = f" ± {factor * scores['std']['test']:.{digits}f}" if number > 1 else ""
            text = f"{factor * scores['mean']['test']:.{digits}f}{deviation} ({number})"
            if "test_single" in scores["mean"]:
                text += f"; single {factor * scores['mean']['test_single']:.{digits}f}"
            found.setdefault(result["dataset"], {})[method] = text
    lines = ["| set |" + "".join(f" {column} |" for column in columns) + " published |"]
    lines.append("|---|" + "---|" * (len(columns) + 1))
    for dataset, cells in found.items():
        known = CLASSIFICATION.get(dataset, {}).items()
        published = ", ".join(
            f"{name} {100 * mean:.1f}" + (f" ± {100 * deviation:.1f}" if deviation is not None else "")
            for name, (mean, deviation) in known
        )
        row = [dataset, *(cells.get(column, "-") for column in columns), published or "-"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def paired_table(results: list[dict]) -> str:
    """Return differences to none on the same folds: mean in percentage points, corrected standard error, p-value."""
    from jbpool.classification.class_scores import paired_difference

    runs: dict[str, dict[str, list[dict]]] = {}
    folds: dict[str, int] = {}
    for result in results:
        for method, scores in methods_of(result).items():
            runs.setdefault(result["dataset"], {})[method] = scores["runs"]
        folds[result["dataset"]] = result["config"]["train"]["folds"]
    lines = ["| set | method | minus none | folds |", "|---|---|---|---|"]
    for dataset, methods in runs.items():
        for method, ours in methods.items():
            found = paired_difference(ours, methods.get("none", []), folds[dataset]) if method != "none" else None
            if found is not None:
                lines.append(f"| {dataset} | {method} | {found.text(ours[0]['metric'])} | {found.pairs} |")
    return "\n".join(lines)


def every_run(results: list[dict]) -> str:
    """Return one line per seed or fold, as CSV."""
    lines = [",".join(["task", "dataset", "method", *RECORDED])]
    for result in results:
        for method, scores in methods_of(result).items():
            for run in scores["runs"]:
                found = ["" if value is None else value for value in map(run.get, RECORDED)]
                cells = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in found]
                lines.append(",".join([result["task"], result["dataset"], method.replace(",", ""), *cells]))
    return "\n".join(lines)


def time_table(datasets: list[str], steps: int) -> str:
    """Return Table 3: median time of a step; the pools take turns in one process."""
    import torch

    from jbpool.clustering.network import make_model
    from jbpool.clustering.node_cluster import NODE_CLUSTER
    from jbpool.data import load_nodes
    from jbpool.engine.config import load_config
    from jbpool.nn.pools import POOLS

    variants = {name.replace("-", ", "): [f"method.name={name}"] for name in POOLS}
    lines = ["| method |" + "".join(f" {name}, s | over jb | paper over jb |" for name in datasets)]
    lines.append("|---|" + "---|---|---|" * len(datasets))
    medians: dict[str, dict[str, float]] = {name: {} for name in variants}
    for dataset in datasets:
        data = load_nodes(dataset)
        runs: dict[str, tuple] = {}
        for name, changes in variants.items():
            torch.manual_seed(0)
            assert data.feat is not None
            model = make_model(load_config(NODE_CLUSTER, dataset, changes), data.feat.shape[1], data.num_classes or 1)
            runs[name] = (model, torch.optim.Adam(model.parameters(), lr=1e-4), [])
        for step in range(steps + 3):
            for model, optimiser, seconds in runs.values():
                began = time.perf_counter()
                _, losses = model(data.graph, data.feat)
                optimiser.zero_grad()
                sum(loss.mean() for loss in losses.values()).backward()
                optimiser.step()
                if step >= 3:                                                   # after the warm-up
                    seconds.append(time.perf_counter() - began)
        for name, (_, _, seconds) in runs.items():
            medians[name][dataset] = statistics.median(seconds)
    for name in variants:
        cells = [name]
        for dataset in datasets:
            own = SECONDS_PER_STEP.get(name, {}).get(dataset)
            ratio = medians[name][dataset] / medians["jb"][dataset]
            published = "-" if own is None else f"{own / SECONDS_PER_STEP['jb'][dataset] - 1:+.0%}"
            cells += [f"{medians[name][dataset]:.4f}", f"{ratio - 1:+.0%}", published]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/reproduce"))
    parser.add_argument("--csv", action="store_true", help="every seed and fold instead of a table")
    parser.add_argument("--times", action="store_true", help="the paper's Table 3")
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    if args.times:
        print(time_table(list(args.datasets), args.steps))
        return
    try:
        results = load_results(args.folder)
    except JBPoolError as error:
        parser.exit(error.exit_code, f"{error}\n")
    if not results:
        parser.error(f"{args.folder} has no run folders; create them with nodes.py or graphs.py beside this")
    if args.csv:
        print(every_run(results))
        return
    if problem := contradiction(results):
        parser.error(problem)
    tables: dict = {clustering_table: [], fixed_table: [], classification_table: []}
    for result in results:
        if result["task"] == "graph_classify":
            tables[classification_table].append(result)
        else:
            paper = result["dataset"] in DATASETS and not is_fixed(result)
            tables[clustering_table if paper else fixed_table].append(result)
    tables[paired_table] = tables[classification_table]
    print("\n\n".join(make(some) for make, some in tables.items() if some))


if __name__ == "__main__":
    main()
