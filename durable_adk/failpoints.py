"""Named places where a test can crash or freeze the process; unused, they cost one comparison.

``DURABLE_ADK_FAILPOINT="commit.after:kill@3"`` kills the process when it reaches ``commit.after``
for the third time. The other actions are

- ``stop``: freezes the process until it receives SIGCONT;
- ``stop3s``: freezes the process for 3 s, longer than the heartbeat timeout, so that it continues
  after others have presumed it dead;
- ``raise``: raises a `StoreUnavailableError`, as if the store had not responded at that point.

``kill@1,3`` acts twice, and several failpoints are separated by ``;``. Every hit of an armed
failpoint is appended to ``DURABLE_ADK_FAILPOINT_LOG``. Hits are counted from that file, so the
count continues across the processes of a test: a process started after the kill does not die again.
A failpoint that was never hit shows as a missing line.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from durable_adk.errors import InvalidRequestError, StoreUnavailableError

VARIABLE = "DURABLE_ADK_FAILPOINT"
LOG_VARIABLE = "DURABLE_ADK_FAILPOINT_LOG"
STOP = 3
"""Seconds of ``stop3s``, for workers whose `Limits.heartbeat_timeout` is shorter."""


def _kill(name: str) -> None:
    del name
    os.kill(os.getpid(), signal.SIGKILL)


def _stop(name: str) -> None:
    del name
    _freeze()


def _freeze() -> None:
    # A signal to the process may be handled by another thread, usually the main one. This thread
    # would run on until it stops, perhaps into a transaction that locks SQLite's file for all.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def _stop_a_while(name: str) -> None:
    del name
    # A frozen process cannot wake itself. The context waits for the child, which has ended by then.
    with subprocess.Popen(["sh", "-c", f"sleep {STOP}; kill -CONT {os.getpid()}"]):  # noqa: S603, S607
        _freeze()


def _raise(name: str) -> None:
    """Fail as a store does: it is unknown whether the last write happened.

    An exception class of its own would be handled separately; this one takes the path of real
    faults.
    """
    raise StoreUnavailableError(f"Failpoint {name}.")


_ACTIONS: dict[str, Callable[[str], None]] = {
    "kill": _kill,
    "stop": _stop,
    "stop3s": _stop_a_while,
    "raise": _raise,
}


class _Armed(NamedTuple):
    """The action of a failpoint, and the hits at which it acts."""

    act: Callable[[str], None]
    counts: frozenset[int]


def _parse(text: str) -> dict[str, _Armed]:
    armed: dict[str, _Armed] = {}
    for part in filter(None, text.split(";")):
        name, _, action = part.partition(":")
        kind, _, counts = action.partition("@")
        if kind not in _ACTIONS:
            known = ", ".join(_ACTIONS)
            raise InvalidRequestError(f"{VARIABLE}={text!r}: {part!r} is none of {known}.")
        numbers = frozenset(int(count) for count in (counts or "1").split(","))
        armed[name] = _Armed(_ACTIONS[kind], numbers)
    return armed


_ARMED = _parse(os.environ.get(VARIABLE, ""))


def arm(text: str, log: Path) -> None:
    """Arm the failpoints in `text` and no others, for a process that runs several tests.

    Raises:
        InvalidRequestError: `text` does not have the format of the environment variable.
    """
    os.environ[LOG_VARIABLE] = str(log)
    armed = _parse(text)
    _ARMED.clear()
    _ARMED.update(armed)


def failpoint(name: str) -> None:
    """Crash, freeze or fail here if this failpoint is armed and one of its counts is reached."""
    if not _ARMED or name not in _ARMED:
        return
    log = Path(os.environ[LOG_VARIABLE])
    # One write with O_APPEND is atomic, so hits of several processes do not mix.
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{name} {os.getpid()}\n".encode())
    os.close(descriptor)
    hits = sum(line.partition(" ")[0] == name for line in log.read_text().splitlines())
    if hits in _ARMED[name].counts:
        _ARMED[name].act(name)
