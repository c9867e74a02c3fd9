"""A run of which one process is killed: ``killed_run.py COMMAND RANK STEP ARGUMENTS``. Every evaluation is saved."""

import os
import signal
import sys

from jbpool import cli
from jbpool.engine import fit
from jbpool.processes import rank


def main(command, victim, last, *arguments):
    steps, step = iter(range(10**6)), fit.mean_gradients

    def dying(parameters):
        if next(steps) == int(last) and rank() == int(victim):
            os.kill(os.getpid(), signal.SIGKILL)
        step(parameters)

    fit.CHECKPOINT_SECONDS, fit.mean_gradients = -1, dying
    return getattr(cli, command)(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
