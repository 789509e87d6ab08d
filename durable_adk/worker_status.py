"""What a worker says of itself to other processes of its machine: that it is stuck, and why.

Temporal remembers for minutes who has polled, and cannot know what a worker does with its tasks.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from durable_adk.private_folder import check_private, private_folder


def report_stuck(task_queue: str, reason: str) -> None:
    """Say that this process's worker of a task queue is stuck, for as long as the process lives.

    Raises:
        OSError: There is no private folder to say it in.
    """
    file = _file(os.getpid(), task_queue)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    check_private(file.parent)
    for other in file.parent.glob("stuck-*"):
        if not is_alive(int(other.name.split("-")[1])):
            other.unlink(missing_ok=True)
    file.write_text(reason)


def report_working(task_queue: str) -> None:
    """Take that back; also for processes before that had the same id."""
    with suppress(OSError):
        _file(os.getpid(), task_queue).unlink()


def stuck_reason(process_id: int, task_queue: str) -> str | None:
    """Why a process's worker of a task queue is stuck; None: it has not said so."""
    file = _file(process_id, task_queue)
    try:
        check_private(file.parent)
        return file.read_text()
    except OSError:
        return None


def is_alive(process_id: int) -> bool:
    """Whether a process of this machine or container is there."""
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
