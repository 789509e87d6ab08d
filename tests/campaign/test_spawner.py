"""Forked processes live and die as their spawner says."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from campaign.spawner import Spawned
from durable_adk.embedded.process import Process
from tests.support.processes import ROOT
from tests.support.waiting import until


@pytest.fixture
async def spawner(tmp_path: Path) -> AsyncIterator[Path]:
    """A spawner's socket."""
    path = tmp_path / "spawner"
    command = [sys.executable, "-m", "campaign.spawner", path]
    async with await Process.start(command, log=tmp_path / "spawner.log", cwd=ROOT):
        await until(path.exists)
        yield path


@pytest.mark.thorough
async def test_forked_processes_can_be_killed_and_end_with_who_asked_for_them(
    spawner: Path, tmp_path: Path
) -> None:
    """A fault kills the process itself; a campaign that dies leaves none behind."""
    arguments, log = [str(tmp_path)], tmp_path / "model.log"
    killed = await Spawned.start(spawner, "model", arguments, log)
    await until((tmp_path / "model.url").exists)
    assert killed.returncode is None
    killed.send_signal(signal.SIGKILL)
    assert await killed.wait() == -signal.SIGKILL
    left = await Spawned.start(spawner, "model", arguments, log)
    os.kill(left.pid, 0)
    left._writer.close()  # as if we had died
    assert await left.wait() < 0
    await until(lambda: not Path(f"/proc/{left.pid}").exists())


@pytest.mark.thorough
async def test_a_process_may_die_in_the_moment_in_which_who_asked_for_it_goes(
    spawner: Path, tmp_path: Path
) -> None:
    """The spawner notices both at once; the others live on."""
    arguments, log = [str(tmp_path)], tmp_path / "model.log"
    other = await Spawned.start(spawner, "model", arguments, log)
    await until((tmp_path / "model.url").exists)
    (tmp_path / "own").mkdir()
    own = await Spawned.start(spawner, "model", [str(tmp_path / "own")], log)
    await until((tmp_path / "own" / "model.url").exists)
    parent = _stat(other.pid)[1]
    os.kill(parent, signal.SIGSTOP)
    try:
        own.send_signal(signal.SIGKILL)
        await until(lambda: _stat(own.pid)[0] == "Z")
        own._writer.close()
        await own._writer.wait_closed()
    finally:
        os.kill(parent, signal.SIGCONT)
    await until(lambda: not Path(f"/proc/{own.pid}").exists())
    await (await Spawned.start(spawner, "client", [], log)).wait()
    assert other.returncode is None


def _stat(pid: int) -> tuple[str, int]:
    """A process's state, and its parent."""
    state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    return state, int(parent)
