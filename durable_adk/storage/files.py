"""Folders that survive a crash of the machine, locks, and a folder of one user's processes."""

import errno
import fcntl
import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO


def sync_folder(folder: Path) -> None:
    """Write a folder's entries to the disk; until then the name of a new file may be lost."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_folder() -> Path:
    """Return the folder's path, which may not exist; processes must share the same ``TMPDIR``."""
    return Path(tempfile.gettempdir()) / f"durable-adk-{os.geteuid()}"


def check_private(folder: Path) -> None:
    """Raise OSError unless the path is a directory that only this user may access.

    Every user may write to the temporary folder, so another user may have created this folder in
    order to read its contents.
    """
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not ours or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(errno.EPERM, "Not a private folder of this user", str(folder))


def open_lock(path: Path) -> BinaryIO:
    """Open a lock file; it and its folder are created if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("ab")


def try_lock(file: BinaryIO, *, shared: bool) -> bool:
    """Try to lock a file until it is closed; return whether that succeeded."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
