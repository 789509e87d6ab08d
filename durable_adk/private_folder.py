"""A folder for what the processes of one user on one machine have for each other."""

import errno
import os
import stat
import tempfile
from pathlib import Path


def private_folder() -> Path:
    """Where it is; processes must agree on ``TMPDIR``. It need not be there."""
    return Path(tempfile.gettempdir()) / f"durable-adk-{os.geteuid()}"


def check_private(folder: Path) -> None:
    """Raise OSError unless the folder is a real one, ours, and closed to everybody else.

    The system's temporary folder is everybody's: somebody may have made ours to read our texts.
    """
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not ours or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(errno.EPERM, "Not a private folder of this user", str(folder))
