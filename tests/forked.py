"""Scripts in new processes, forked from one that has already imported the package: imports take seconds."""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import torch

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([
    "jbpool.clustering.node_cluster", "jbpool.classification.graph_classify", "torch.distributed", "forked",
    "torch._dynamo",                        # which torch imports when the first optimiser is made
])  # fmt: skip


class Forked:
    """A running script, with the interface of ``subprocess.Popen`` as far as tests need it.

    Parameters
    ----------
    script : Path
        The file.
    args : sequence
        Its arguments.
    cwd : Path
        Where it runs.
    env : dict
        Its environment.
    """

    def __init__(self, script, args, cwd, env):
        self.output = [Path(tempfile.mkstemp()[1]) for _ in range(2)]           # stdout, stderr
        words = [str(script), *map(str, args)]
        self.process = CONTEXT.Process(target=_run, args=(words, str(cwd), env, *map(str, self.output)))
        here = os.pathsep.join([env["PYTHONPATH"], str(Path(__file__).parent)])
        with mock.patch.dict(os.environ, PYTHONPATH=here):                      # for the server, which the first starts
            self.process.start()

    @property
    def returncode(self):
        return self.process.exitcode

    def poll(self):
        return self.process.exitcode

    def send_signal(self, number):
        os.kill(self.process.pid, number)

    def communicate(self, timeout=None):
        """Output and errors, when the process has ended."""
        self.process.join(timeout)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
            raise subprocess.TimeoutExpired(self.output[1].read_text(), timeout)
        printed = tuple(path.read_text() for path in self.output)
        for path in self.output:
            path.unlink()
        return printed


def _run(words, cwd, env, out, err):
    """In the new process."""
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)        # ignored in background jobs of a shell
    torch.set_num_threads(int(env["OMP_NUM_THREADS"]))
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
