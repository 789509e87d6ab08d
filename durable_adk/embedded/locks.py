"""Files that processes lock, so that the system frees what a dead one held."""

import fcntl
from pathlib import Path
from typing import BinaryIO


def open_lock(path: Path) -> BinaryIO:
    """The lock file, made if missing, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("ab")


def try_lock(file: BinaryIO, *, shared: bool) -> bool:
    """Whether the lock was to be had; it is held until the file is closed."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
