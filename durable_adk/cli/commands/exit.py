"""The end of a command's process."""

import os
import sys
from contextlib import suppress
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End the process at once.

    The interpreter's shutdown can abort while a client's long poll is being cancelled. It is
    skipped, because nothing is left to clean up here.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader of the pipe has exited
            stream.flush()
    os._exit(code)
