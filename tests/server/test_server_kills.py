"""Servers that are killed while they are read."""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from durable_adk.agents import LlmAgent
from durable_adk.embedded import TemporalServer
from tests.support.commands import Terminal
from tests.support.http_server import Place, Sent, brief, message, placed, read, session, streamed
from tests.support.streams import StreamingModel
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.thorough, pytest.mark.sampled(6)]
WORDS = [f"{number} " for number in range(6)]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Where the servers are started."""
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


async def started(
    terminal: Terminal, place: Place, server: TemporalServer
) -> tuple["subprocess.Popen[str]", str]:
    """A server process, and its address."""
    options = ["--address", server.address, "--store", str(place.sessions.file)]
    options += ["--task-queue", place.queue, "--port", "0"]
    process = terminal.start("serve", *options)
    assert process.stdout is not None
    line = await asyncio.to_thread(process.stdout.readline)
    assert line.startswith("Serving at "), line
    return process, line.split()[-1]


async def test_a_reader_goes_on_when_its_server_is_killed(client, server, terminal, tmp_path):
    """SIGKILL amid an answer: another server has the chunks behind the last one, and the event."""
    gate = asyncio.Event()
    turn = [*WORDS[:3], gate, *WORDS[3:], "".join(WORDS)]
    agent = LlmAgent(name="a", model=StreamingModel(turns=[turn]))
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(4 * PATIENCE):
        (first, here), (_, there) = [await started(terminal, place, server) for _ in range(2)]
        before: list[Sent] = []
        async with httpx.AsyncClient(base_url=here, timeout=PATIENCE) as http:
            await session(http)
            made = (await http.post("/invocations", json=message("count"))).json()
            path = f"/invocations/{made['invocationId']}/events"
            async with streamed(http, path) as stream:
                with suppress(httpx.TransportError):  # it is killed
                    async for one in stream:
                        before += [one] if one.id else []
                        if brief(one).startswith("~") and brief(one).endswith("2 "):
                            first.send_signal(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
        gate.set()
        async with httpx.AsyncClient(base_url=there, timeout=PATIENCE) as http:
            after = await read(http, path, last_event_id=before[-1].id or "")
    texts = [brief(one) for one in [*before, *after] if one.id]
    chunks = [text[1:] for text in texts if text.startswith("~")]
    assert "".join(WORDS).startswith("".join(chunks))
    assert [text for text in texts if not text.startswith("~")] == ["count", "".join(WORDS)]
    assert brief(after[-1]) == "(completed)"
