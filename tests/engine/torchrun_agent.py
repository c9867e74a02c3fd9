"""A script in two processes forked by the agent behind ``torchrun``: ``torchrun_agent.py SCRIPT ARGUMENTS``."""

import runpy
import sys

from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def run(*words):
    sys.argv = list(words)
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    # Not by the name of this machine, which its resolver need not know.
    standalone = {
        "rdzv_backend": "c10d", "rdzv_endpoint": "127.0.0.1:0", "local_addr": "127.0.0.1", "run_id": "test",
    }  # fmt: skip
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=2, max_restarts=0, start_method="fork", **standalone
    )  # fmt: skip
    elastic_launch(config, run)(*sys.argv[1:])
