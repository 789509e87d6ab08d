"""Unit tests start no process: what does is refused, and fails the test that runs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

STARTS = {
    *("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"),
    *("os.exec", "os.system"),
}
"""Python's audit events before a process begins, or becomes another program."""
REMEDY = "Unit tests start no process: move it to the same place below tests/integration."


class ProcessRefusedError(RuntimeError):
    """A unit test was about to start a process."""


@dataclass
class _Watch:
    """What a test has tried."""

    test: str
    refused: list[str] = field(default_factory=list[str])


_watch: _Watch | None = None
"""Of the test that runs. An audit hook cannot be removed, so it looks here."""


@contextmanager
def no_process(test: str) -> Iterator[None]:
    """Refuse what starts a process meanwhile, in whatever thread.

    Fails at the end, too: the code under test may have handled the refusal like any error.

    Args:
        test: Its name, which the message has.
    """
    global _watch  # noqa: PLW0603 - hooks of a process are global
    outer, _watch = _watch, _Watch(test)
    refused = _watch.refused
    try:
        yield
    finally:
        _watch = outer
    if refused:
        pytest.fail(refused[0], pytrace=False)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTS and (watch := _watch):
        what = f"{watch.test}: {event} {arguments!r:.200}. {REMEDY}"
        watch.refused.append(what)
        raise ProcessRefusedError(what)


sys.addaudithook(_hook)
