"""Files of JSON lines that several processes append to, and that outlive them."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]

_now = time.time
"""The clock of the machine, also where a worker has one of its own."""


def note(path: Path, **fields: Any) -> None:
    """Append a line, with the time and the process.

    One write with O_APPEND, so lines of several processes do not mix. A process that is killed in
    it may leave half a line: each begins on a line of its own, and halves are not read. The file is
    not flushed to disk: what was written survives a SIGKILL, and no fault cuts the power.
    """
    line = json.dumps({"at": _now(), "pid": os.getpid(), **fields})
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"\n{line}\n".encode())
    finally:
        os.close(descriptor)


def notes(path: Path) -> list[Line]:
    """Return the whole lines of a file, oldest first; none if there is no file."""
    return list(_whole(path.read_text())) if path.exists() else []


def latest(path: Path, size: int = 8192) -> list[Line]:
    """Return the whole lines in the last `size` bytes of a file."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        return list(_whole(file.read().decode(errors="replace")))


def _whole(text: str) -> Iterator[Line]:
    for line in text.splitlines():
        try:
            read = json.loads(line) if line else None
        except json.JSONDecodeError:
            continue
        if isinstance(read, dict):
            yield read
