"""``python -m jbpool`` is the command ``jbpool``."""

import sys

from jbpool.cli import main

if __name__ == "__main__":
    sys.exit(main())
