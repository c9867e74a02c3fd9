"""Start-up time: imports, a small file, --help, cached data. Each in a new process, in its processor time.

    python scripts/bench/imports.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import ROOT, Timing, missing, take_turns, write

KARATE = "JBClustering(2, random_state=0).fit_predict(networkx.karate_club_graph())"
LOAD = (
    "import time; from jbpool.data import load_{kind}s; load_{kind}s('{name}'); began = time.perf_counter(); "
    "load_{kind}s('{name}'); print(time.perf_counter() - began)"
)


EDGES = "a,b\nb,c\nc,a\nc,d\nd,e\ne,f\nf,d\n"


def processor_time() -> float:
    """Return the seconds that the processor has spent on finished child processes."""
    used = os.times()
    return used.children_user + used.children_system


def measure(folder: Path, rounds: int) -> dict[str, Timing]:
    """Time the commands in turn."""
    (folder / "edges.csv").write_text(EDGES)

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def start(*command: str):
        command = (sys.executable, *command)
        return lambda: subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)

    cluster, classify = (str(ROOT / "tasks" / name) for name in ("node_cluster.py", "graph_classify.py"))
    commands = {
        "import torch": ("-c", "import torch"),
        **({} if missing("dgl") else {"import torch, dgl": ("-c", "import torch, dgl")}),
        "from jbpool import JBPool": ("-c", "from jbpool import JBPool"),
        "from jbpool import JBClustering": ("-c", "from jbpool import JBClustering"),
        "karate club, clustered": ("-c", f"import networkx; from jbpool import JBClustering; {KARATE}"),
        "a CSV of seven edges, with report": (cluster, "--cfg", "file.yaml", "--set", "dataset.edges=edges.csv"),
        "node_cluster.py --help": (cluster, "--help"),
        "node_cluster.py --list": (cluster, "--list"),
        "graph_classify.py --help": (classify, "--help"),
    }
    contestants = {name: start(*command) for name, command in commands.items()}
    return take_turns(contestants, rounds, warm_up=1, clock=processor_time)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        times = measure(Path(name), args.rounds)
    unit = times["import torch"].median
    rows = [[name, f"{timing.median:.2f}", f"{timing.median / unit:.2f}"] for name, timing in times.items()]
    raw = [{"what": name, **timing._asdict()} for name, timing in times.items()]
    sets = [("node", name) for name in ("cora", "citeseer", "pubmed", "dblp")]
    sets += [("graph", name) for name in ("PROTEINS", "NCI1", "DD", "ENZYMES", "REDDIT-BINARY", "ogbg-molhiv")]
    for kind, name in sets:
        command = [sys.executable, "-c", LOAD.format(kind=kind, name=name)]
        result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        seconds = float(result.stdout.split()[-1]) if result.returncode == 0 else float("nan")
        rows.append([f"cached {name}", f"{seconds:.3f}", ""])
        raw.append({"what": f"cached {name}", "median": seconds})
    write("import", "Start-up time", ["what", "seconds", "x import torch"], rows, raw)


if __name__ == "__main__":
    main()
