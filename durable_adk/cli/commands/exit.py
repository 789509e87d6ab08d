"""The end of a process of the command line."""

import os
import sys
from contextlib import suppress
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End the process at once.

    The interpreter's own shutdown can abort while a client's long poll is being cancelled. Nothing
    is left to clean up here, so skip it.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader of a pipe has gone
            stream.flush()
    os._exit(code)
