"""Status files in which a stuck worker reports itself to other processes of its machine.

Temporal lists a poller for minutes after it stopped, and does not know what it does with its tasks.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from durable_adk.storage.files import check_private, private_folder


def report_stuck(task_queue: str, reason: str) -> None:
    """Report that this process's worker of a task queue is stuck; valid while the process lives.

    Raises:
        OSError: The private folder cannot be used.
    """
    file = _file(os.getpid(), task_queue)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    check_private(file.parent)
    for other in file.parent.glob("stuck-*"):
        if not is_alive(int(other.name.split("-")[1])):
            other.unlink(missing_ok=True)
    file.write_text(reason)


def report_working(task_queue: str) -> None:
    """Delete the report, which may be of an earlier process with the same id."""
    with suppress(OSError):
        _file(os.getpid(), task_queue).unlink()


def stuck_reason(process_id: int, task_queue: str) -> str | None:
    """Return why a process's worker of a task queue is stuck; None if it has not reported so."""
    file = _file(process_id, task_queue)
    try:
        check_private(file.parent)
        return file.read_text()
    except OSError:
        return None


def is_alive(process_id: int) -> bool:
    """Return whether a process runs on this machine or in this container."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _file(process_id: int, task_queue: str) -> Path:
    name = hashlib.sha256(task_queue.encode()).hexdigest()[:16]
    return private_folder() / f"stuck-{process_id}-{name}"
