"""Partial events between processes."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_adk.embedded.process import Process
from durable_adk.partials import SocketPartials
from tests.support.chunks import INVOCATION, KEY
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[3]


@pytest.fixture
def temp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of the system that only this test uses, with a short path."""
    with tempfile.TemporaryDirectory(prefix="partials-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture
def channel(temp: Path) -> SocketPartials:
    """A channel of this process."""
    return SocketPartials(temp / "sessions.db")


async def test_chunks_cross_to_another_process(channel, temp):
    """Two viewers here get every chunk of a process that shares only the store's path with us."""
    command = [sys.executable, "-m", "tests.support.publisher_main", temp / "sessions.db"]
    async with (
        channel.subscribe(KEY, INVOCATION) as first,
        channel.subscribe(KEY, INVOCATION) as second,
        await Process.start(
            [*command, "10000", "0.005"],
            log=temp / "log",
            env={"TMPDIR": str(temp)},
            cwd=ROOT,
        ),
        asyncio.timeout(PATIENCE),
    ):
        for index in range(100):
            partial = await first.get()
            assert partial.index == index
            assert await second.get() == partial
