"""One of two processes; test_liveness.py starts them. One is stopped; or busy in a call of C, then first to end."""

import ctypes
import os
import signal
import sys
import time

import torch

from jbpool import liveness
from jbpool.errors import ProcessError
from jbpool.processes import barrier, process_group, rank

if __name__ == "__main__":
    what, who = sys.argv[1], int(sys.argv[2])
    liveness.BEAT, liveness.PATIENCE = 0.1, 15
    try:
        with process_group(torch.device("cpu")):
            barrier()
            time.sleep(0.2)                             # both give signs of life
            if rank() == who and what == "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
            if rank() == who and what == "busy":
                ctypes.PyDLL(None).usleep(2_500_000)    # holds Python's lock
            barrier()
            if rank() != who:
                time.sleep(2.5)
    except ProcessError as error:
        sys.exit(str(error))
