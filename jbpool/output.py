"""Standard output that may be closed before a command ends."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable

_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}         # why a stream cannot be written


def end_with_reader(main: Callable[[], int]) -> int:
    """Call ``main``; exit quietly if its output is closed early (``| head -1``), as commands do on SIGPIPE.

    Parameters
    ----------
    main : callable
        Returns the exit code.
    """
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()                  # now, since flushing at exit would raise again
    except BrokenPipeError:
        _discard_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno not in _WRITING or error.filename is not None:
            raise                               # not about the output
        _discard_output()
        print(f"the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1


def _discard_output() -> None:
    """Discard what is still in the buffers."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
