"""Time and memory of clustering by graph size, beside Leiden and mini-batch k-means.

    python scripts/bench/scale.py [--sizes 1e6 1e7] [--kinds equal] [--methods jbpool leiden] [--degree 10] [--speed-up]

Planted partitions of 16 classes with 64 features, in files, of equal sizes or with half of the nodes in one class.
Every run is in a new process: jbpool by the configuration auto.yaml with 4 starts, with and without the features;
mini-batch k-means (scikit-learn) on the view of jbpool; Leiden, if igraph is installed. ``--speed-up`` runs jbpool by
one process and by two, with one thread each.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import ROOT, missing, write

CLASSES, FEATURES, STARTS = 16, 64, 4
INSIDE = 0.8            # share of the edges inside classes
NOISE = 2.0             # deviation of each feature around the centre of the class, whose length is 3
BLOCK = 1 << 20
PHASES = {
    "load": ("load",),
    "smooth": ("smoothing", "finding axes"),
    "reduce": ("reducing", "eigenvectors"),
    "cluster": ("cluster",),
    "score": ("scoring",),
    "write": ("writing clusters",),
}


def make_graph(folder: Path, num_nodes: int, degree: int, unequal: bool = False) -> None:
    """Write edges.npy (each edge once), features.npy and labels.npy, block by block."""
    random = np.random.default_rng(0)
    label = random.integers(0, CLASSES, num_nodes).astype(np.int32)
    if unequal:
        label[random.random(num_nodes) < 0.5] = 0                   # about half of the nodes in one class
    order = np.argsort(label, kind="stable").astype(np.int32)
    count = np.bincount(label, minlength=CLASSES)
    first = count.cumsum() - count
    np.save(folder / "labels.npy", label)
    num_edges = num_nodes * degree // 2
    edges = np.lib.format.open_memmap(folder / "edges.npy", "w+", np.int32, (num_edges, 2))
    for start in range(0, num_edges, BLOCK):
        size = min(BLOCK, num_edges - start)
        source, target = random.integers(0, num_nodes, (2, size))
        inside = random.random(size) < INSIDE
        group = label[source[inside]]
        target[inside] = order[first[group] + (random.random(inside.sum()) * count[group]).astype(np.int64)]
        edges[start : start + size] = np.stack([source, target], 1)
    centres = random.standard_normal((CLASSES, FEATURES))
    centres *= 3 / np.linalg.norm(centres, axis=1, keepdims=True)
    feat = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float32, (num_nodes, FEATURES))
    for start in range(0, num_nodes, BLOCK):
        part = label[start : start + BLOCK]
        feat[start : start + BLOCK] = centres[part] + NOISE * random.standard_normal((len(part), FEATURES))


class Memory:
    """Resident memory in GB: now, and at its highest since the start. Pages of mapped files are counted apart."""

    def __init__(self) -> None:
        self.peak = self.peak_anonymous = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    @staticmethod
    def now() -> tuple[float, float]:
        """Return the resident memory, and the part of it that belongs to no file."""
        lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        total, anonymous = (int(lines[name].split()[0]) * 1024 / 1e9 for name in ("VmRSS", "RssAnon"))
        return total, anonymous

    def _watch(self) -> None:
        while True:
            total, anonymous = self.now()
            self.peak, self.peak_anonymous = max(self.peak, total), max(self.peak_anonymous, anonymous)
            time.sleep(0.02)


def load(folder: Path, with_features: bool = True) -> tuple[Any, Any]:
    """Return the configuration and the data."""
    from jbpool.clustering.node_cluster import NODE_CLUSTER
    from jbpool.engine.config import load_config

    names = ("edges", "features", "labels") if with_features else ("edges", "labels")
    files = [f"dataset.{name}={folder / name}.npy" for name in names]
    given = ["dataset.name=file", *files, f"method.num_clusters={CLASSES}", f"train.restarts={STARTS}"]
    config = load_config(NODE_CLUSTER, "auto", given)
    return config, NODE_CLUSTER.load_data(config)


def run_jbpool(folder: Path, with_features: bool = True) -> dict:
    """Go through all phases of a run, as the command line goes through them."""
    import torch

    from jbpool.clustering.node_cluster import NODE_CLUSTER
    from jbpool.processes import process_group, rank

    memory, spent = Memory(), seconds_of_bars()
    with process_group(torch.device("cpu")):
        before, began, used = memory.now()[1], time.perf_counter(), time.process_time()
        config, data = load(folder, with_features)
        _ = data.fingerprint
        spent["load"] = time.perf_counter() - began
        loaded = memory.now()[1]
        memory.peak_anonymous = loaded                      # beyond the loaded graph; features are a mapped file
        out = NODE_CLUSTER.run(config, data, folder / "run", torch.device("cpu"))
        clustered = dict(spent)
        out.write_report()                                  # it smooths and reduces what it draws, which is in no phase
    if rank() > 0 or not out.runs:
        sys.exit()                                          # the first one reports
    phases = {name: sum(clustered.get(part, 0) for part in parts) for name, parts in PHASES.items()}
    phases["cluster"] = out.runs[0]["seconds"] - phases["smooth"] - phases["reduce"]
    shutil.rmtree(folder / "run")
    return {
        "seconds": time.perf_counter() - began, "processor": time.process_time() - used, "phases": phases,
        "nmi": out.runs[0]["nmi"], "acc": out.runs[0]["acc"],
        "edges": data.graph.num_edges, "loaded": loaded - before, "beyond": memory.peak_anonymous - loaded,
        "peak": memory.peak,
    }  # fmt: skip


def seconds_of_bars() -> dict[str, float]:
    """Return a dictionary that collects the time that every progress bar is open, by its description."""
    from jbpool.console import Bar

    spent: dict[str, float] = collections.defaultdict(float)
    close = Bar.close

    def closing(bar: Any) -> None:
        if not bar.disable:                                 # tqdm closes a bar more than once
            spent[bar.desc] += time.time() - bar.start_t
        close(bar)

    Bar.close = closing
    return spent


def view_of(folder: Path) -> Any:
    """Return the rows that heads are trained on, ``(N, 2 K)``."""
    from jbpool.clustering.auto.views import FixedFeatures

    data = load(folder)[1]
    return FixedFeatures(data.feat.shape[1], num_clusters=CLASSES).fit(data.graph, data.feat)


def run_kmeans(folder: Path) -> dict:
    """Run mini-batch k-means on the view that jbpool trains on; its computation is not counted."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import normalized_mutual_info_score

    memory = Memory()
    rows = view_of(folder).numpy()
    began, used = time.perf_counter(), time.process_time()
    found = MiniBatchKMeans(CLASSES, n_init=STARTS, batch_size=8192, random_state=0).fit_predict(rows)
    seconds, used = time.perf_counter() - began, time.process_time() - used
    nmi = normalized_mutual_info_score(np.load(folder / "labels.npy"), found)
    return {"seconds": seconds, "processor": used, "nmi": nmi, "peak": memory.peak}


def run_leiden(folder: Path) -> dict:
    """Run two iterations of Leiden of igraph for modularity; it chooses the number of clusters."""
    import igraph
    from sklearn.metrics import normalized_mutual_info_score

    memory = Memory()
    label = np.load(folder / "labels.npy")
    began, used = time.perf_counter(), time.process_time()
    graph = igraph.Graph(n=len(label), edges=np.load(folder / "edges.npy"))
    found = graph.community_leiden("modularity", n_iterations=2).membership
    seconds, used = time.perf_counter() - began, time.process_time() - used
    nmi = normalized_mutual_info_score(label, found)
    return {"seconds": seconds, "processor": used, "nmi": nmi, "peak": memory.peak, "clusters": len(set(found))}


CONTESTANTS = {
    "jbpool": run_jbpool,
    "jbpool, edges alone": lambda folder: run_jbpool(folder, with_features=False),
    "k-means": run_kmeans,
    "leiden": run_leiden,
}


def measure(name: str, folder: Path, processes: int = 1, threads: int | None = None) -> dict | None:
    """Measure one contestant in a new process, or in several; ``None`` if it failed, e.g. for lack of memory."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    if processes > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(processes)}
    command = [sys.executable, __file__, "--one", name, str(folder)]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**environment, "RANK": str(rank)})
        for rank in range(processes)
    ]
    output = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        print(f"{name} failed (exit code {[process.returncode for process in started]})", file=sys.stderr)
        return None
    return json.loads(output[0].splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=float, default=[1e5, 1e6])
    parser.add_argument("--kinds", nargs="+", choices=("equal", "unequal"), default=["equal", "unequal"])
    parser.add_argument("--methods", nargs="+", choices=CONTESTANTS, default=[*CONTESTANTS])
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--speed-up", action="store_true", help="jbpool by one process and by two")
    parser.add_argument("--folder", help="where to put the files (default: a temporary folder)")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "FOLDER"), help="one measurement, as JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(CONTESTANTS[args.one[0]](Path(args.one[1]))))
        return
    if "leiden" in args.methods and missing("igraph"):                  # which prints the reason
        args.methods.remove("leiden")
    raw: list[dict[str, Any]] = []
    for size in map(int, args.sizes):
        for kind in args.kinds:
            with tempfile.TemporaryDirectory(dir=args.folder) as name:
                folder = Path(name)
                make_graph(folder, size, args.degree, kind == "unequal")
                runs = {name: measure(name, folder) for name in args.methods}
                if args.speed_up and kind == "equal":
                    for processes in (1, 2):
                        runs[f"jbpool, threads: 1, processes: {processes}"] = measure("jbpool", folder, processes, 1)
            raw.append({"nodes": size, "sizes": kind, "runs": runs})
            print(json.dumps(raw[-1]), file=sys.stderr, flush=True)
    rows = []
    for found in raw:
        for name, run in found["runs"].items():
            if run:
                phases = run.get("phases", {})                      # of jbpool alone
                cells = [f"{phases[phase]:.1f}" if phases else "" for phase in PHASES]
                rows.append([f"{found['nodes']:,}", found["sizes"], name, *cells, f"{run['seconds']:.1f}",
                             f"{run['processor']:.1f}", f"{run['peak']:.2f}", f"{run['nmi']:.3f}"])  # fmt: skip
    head = ["nodes", "sizes", "method", *PHASES, "all, s", "processor, s", "peak, GB", "NMI"]
    write("scale", "Seconds by phase, peak memory and NMI", head, rows, raw)


if __name__ == "__main__":
    main()
