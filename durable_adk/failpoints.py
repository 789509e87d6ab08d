"""Places where a test may kill the process, named; they cost one comparison when unused.

``DURABLE_ADK_FAILPOINT="commit.after:kill@3"`` kills the process the third time it comes by
``commit.after``. Every hit of the armed failpoint is appended to ``DURABLE_ADK_FAILPOINT_LOG``,
from which the count is taken too, so that it goes on across the processes of one test: a process
started after the kill does not die again. A failpoint that was never hit leaves no log.
"""

import os
import signal
from pathlib import Path

from durable_adk.errors import InvalidRequestError

VARIABLE = "DURABLE_ADK_FAILPOINT"
LOG_VARIABLE = "DURABLE_ADK_FAILPOINT_LOG"


def _armed() -> tuple[str, int, Path] | None:
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    name, _, action = text.partition(":")
    kind, _, count = action.partition("@")
    if kind != "kill":
        raise InvalidRequestError(f"{VARIABLE}={text!r}: the only action is kill.")
    return name, int(count or 1), Path(os.environ[LOG_VARIABLE])


_ARMED = _armed()


def failpoint(name: str) -> None:
    """Die here with SIGKILL if this failpoint is armed and its count is reached."""
    if _ARMED is None or _ARMED[0] != name:
        return
    _, count, log = _ARMED
    # One write with O_APPEND is atomic, so hits of several processes do not mix.
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{name} {os.getpid()}\n".encode())
    os.close(descriptor)
    if len(log.read_text().splitlines()) == count:
        os.kill(os.getpid(), signal.SIGKILL)
