"""Failpoints: who dies where, counted across processes."""

import os
import signal
from pathlib import Path

import pytest

from durable_adk import failpoints
from durable_adk.errors import InvalidRequestError, StoreUnavailableError


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """The signals that would have been sent; two failpoints are armed."""
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _, number: sent.append(number))
    monkeypatch.setattr(signal, "pthread_kill", lambda _, number: sent.append(number))
    monkeypatch.setenv(failpoints.LOG_VARIABLE, str(tmp_path / "log"))
    monkeypatch.setattr(failpoints, "_ARMED", {})
    failpoints.arm("commit.after:kill@2,3;tool.before:stop", tmp_path / "log")
    return sent


def test_a_failpoint_acts_at_its_counts_alone(signals: list[int], tmp_path: Path) -> None:
    """Each name has its own count, which starts from what the log holds of earlier processes."""
    (tmp_path / "log").write_text("commit.after 1\n")
    failpoints.failpoint("tool.before")
    assert signals == [signal.SIGSTOP]
    for _ in range(3):
        failpoints.failpoint("commit.after")
    assert signals == [signal.SIGSTOP, signal.SIGKILL, signal.SIGKILL]
    assert len((tmp_path / "log").read_text().splitlines()) == 5


def test_a_failpoint_that_is_not_armed_leaves_nothing(signals: list[int], tmp_path: Path) -> None:
    """Production code passes by failpoints without doing anything."""
    failpoints.failpoint("commit.before")
    assert signals == []
    assert not (tmp_path / "log").exists()


def test_a_raising_failpoint_fails_as_a_store_does(signals: list[int], tmp_path: Path) -> None:
    """What it raises is retried by whoever retries a store that does not answer."""
    failpoints.arm("commit.after:raise@2", tmp_path / "log")
    failpoints.failpoint("commit.after")
    with pytest.raises(StoreUnavailableError, match=r"commit\.after"):
        failpoints.failpoint("commit.after")
    failpoints.failpoint("commit.after")
    assert signals == []


def test_arming_again_forgets_what_was_armed(signals: list[int], tmp_path: Path) -> None:
    """The next test of a process has its own failpoints, and its own counts."""
    failpoints.arm("commit.after:kill", tmp_path / "other")
    failpoints.failpoint("tool.before")
    failpoints.failpoint("commit.after")
    assert signals == [signal.SIGKILL]
    assert not (tmp_path / "log").exists()


def test_a_malformed_failpoint_is_refused() -> None:
    """A test with a typing error must not pass because nothing was killed."""
    with pytest.raises(InvalidRequestError, match="none of kill, stop, stop3s, raise"):
        failpoints._parse("commit.after:kil@2")
