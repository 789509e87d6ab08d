"""Places where a test may kill or stop the process, named; they cost one comparison when unused.

``DURABLE_ADK_FAILPOINT="commit.after:kill@3"`` kills the process the third time it comes by
``commit.after``; ``stop`` instead of ``kill`` freezes it there until somebody sends SIGCONT.
``kill@1,3`` acts twice, and several failpoints are separated by ``;``. Every hit of an armed
failpoint is appended to ``DURABLE_ADK_FAILPOINT_LOG``, from which the count is taken too, so that
it goes on across the processes of one test: a process started after the kill does not die again. A
failpoint that was never hit shows as a missing line.
"""

import os
import signal
from pathlib import Path
from typing import NamedTuple

from durable_adk.errors import InvalidRequestError

VARIABLE = "DURABLE_ADK_FAILPOINT"
LOG_VARIABLE = "DURABLE_ADK_FAILPOINT_LOG"
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class _Action(NamedTuple):
    """What happens at a failpoint, at which of its hits."""

    signal: signal.Signals
    counts: frozenset[int]


def _parse(text: str) -> dict[str, _Action]:
    armed: dict[str, _Action] = {}
    for part in filter(None, text.split(";")):
        name, _, action = part.partition(":")
        kind, _, counts = action.partition("@")
        if kind not in _SIGNALS:
            raise InvalidRequestError(f"{VARIABLE}={text!r}: {part!r} is neither kill nor stop.")
        numbers = frozenset(int(count) for count in (counts or "1").split(","))
        armed[name] = _Action(_SIGNALS[kind], numbers)
    return armed


_ARMED = _parse(os.environ.get(VARIABLE, ""))


def failpoint(name: str) -> None:
    """Die or freeze here if this failpoint is armed and one of its counts is reached."""
    if not _ARMED or name not in _ARMED:
        return
    log = Path(os.environ[LOG_VARIABLE])
    # One write with O_APPEND is atomic, so hits of several processes do not mix.
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{name} {os.getpid()}\n".encode())
    os.close(descriptor)
    hits = sum(line.partition(" ")[0] == name for line in log.read_text().splitlines())
    if hits in _ARMED[name].counts:
        os.kill(os.getpid(), _ARMED[name].signal)
