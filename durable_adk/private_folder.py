"""A folder shared by the processes of one user on one machine."""

import errno
import os
import stat
import tempfile
from pathlib import Path


def private_folder() -> Path:
    """The path of the folder, which may not exist; processes must have the same ``TMPDIR``."""
    return Path(tempfile.gettempdir()) / f"durable-adk-{os.geteuid()}"


def check_private(folder: Path) -> None:
    """Raise OSError unless the path is a directory that only this user may enter.

    Every user may write to the temporary folder, so another one may have created ours to read it.
    """
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not ours or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(errno.EPERM, "Not a private folder of this user", str(folder))
