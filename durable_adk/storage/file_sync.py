"""Files that survive a crash of the machine.

Writing a file does not suffice: without `fsync` its content, and without one of its folder its
name, may be lost with the operating system's cache.
"""

import os
from pathlib import Path


def write_durably(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a new file to the disk; `sync_folder` makes its name durable too.

    Raises:
        FileExistsError: The file exists, or is a symbolic link.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Write a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
