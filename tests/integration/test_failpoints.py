"""Failpoints: who dies where, counted across processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from durable_adk import failpoints
from tests.support.waiting import PATIENCE

STOPS = 60
"""With a signal to the process, the thread went on at one of eight stops."""

STEPPING = f"""
import os, threading
from durable_adk.failpoints import failpoint
def step():
    for _ in range({STOPS}):
        failpoint('here')
        os.write(1, b'.')
thread = threading.Thread(target=step)
thread.start()
thread.join()
"""


@pytest.mark.thorough
def test_a_stopped_process_is_woken(tmp_path: Path) -> None:
    """`stop3s` sends SIGCONT as well, from a child that it does not leave behind."""
    process = subprocess.run(
        [sys.executable, "-c", "from durable_adk.failpoints import *; failpoint('here')"],
        env=os.environ
        | {failpoints.VARIABLE: "here:stop3s", failpoints.LOG_VARIABLE: str(tmp_path / "log")},
        check=False,
        timeout=PATIENCE,
    )
    assert process.returncode == 0
    assert (tmp_path / "log").read_text().startswith("here ")


def test_a_thread_stops_where_it_is(tmp_path: Path) -> None:
    """The thread that comes by does not take another step, into a transaction for example."""
    counts = range(1, STOPS + 1)
    armed = f"here:stop@{','.join(map(str, counts))}"
    with subprocess.Popen(
        [sys.executable, "-c", STEPPING],
        env=os.environ
        | {failpoints.VARIABLE: armed, failpoints.LOG_VARIABLE: str(tmp_path / "log")},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        os.set_blocking(process.stdout.fileno(), False)
        steps = 0
        try:
            for count in counts:
                _, status = os.waitpid(process.pid, os.WUNTRACED)
                assert os.WIFSTOPPED(status)
                steps += len(process.stdout.read() or b"")
                assert steps == count - 1
                process.send_signal(signal.SIGCONT)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
        steps += len(process.stdout.read())
    assert steps == STOPS
