"""Cluster the nodes of a graph: ``python tasks/node_cluster.py`` is ``jbpool cluster``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))        # a checkout need not be installed

from jbpool.cli import cluster

if __name__ == "__main__":
    sys.exit(cluster())
