"""Start-up time: imports, --help, cached data. Each in a new process.

    python scripts/bench/imports.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from timing import ROOT, take_turns, write

KARATE = "JBClustering(2, random_state=0).fit_predict(networkx.karate_club_graph())"
LOAD = (
    "import time; from jbpool.data import load_{kind}s; load_{kind}s('{name}'); began = time.perf_counter(); "
    "load_{kind}s('{name}'); print(time.perf_counter() - began)"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    def start(*command: str):
        return lambda: subprocess.run([sys.executable, *command], check=True, capture_output=True, cwd=ROOT)

    times = take_turns(
        {
            "import torch": start("-c", "import torch"),
            "import torch, dgl": start("-c", "import torch, dgl"),
            "from jbpool import JBPool": start("-c", "from jbpool import JBPool"),
            "from jbpool import JBClustering": start("-c", "from jbpool import JBClustering"),
            "karate club, clustered": start("-c", f"import networkx; from jbpool import JBClustering; {KARATE}"),
            "jbpool cluster --help": start("-m", "jbpool", "cluster", "--help"),
        },
        args.rounds,
        warm_up=1,
    )
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
