"""Classify graphs with pooling: ``python tasks/graph_classify.py`` is ``jbpool classify``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))        # a checkout need not be installed

from jbpool.cli import classify

if __name__ == "__main__":
    sys.exit(classify())
