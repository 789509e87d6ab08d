"""A remote agent of google-adk, over A2A with a server on this machine."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent

from tests.interop.objects.running import heard, llm, texts
from tests.support.waiting import until


@asynccontextmanager
async def serving(agent: object) -> AsyncGenerator[str]:
    """The URL of the card of an agent that google-adk serves."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(
        to_a2a(agent, port=port, host="127.0.0.1"), port=port, log_level="error"
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{port}/.well-known/agent-card.json"
    finally:
        server.should_exit = True
        await running


async def test_a_remote_agent_is_asked_in_a_step() -> None:
    """Its answers are events here, the second of the same conversation there."""
    there = llm("there", "first answer", "second answer", description="Answers.")
    async with serving(there) as card:
        remote = RemoteA2aAgent(name="remote", agent_card=card)
        events = await heard(remote, "one", "two")
    assert texts(events) == ["remote: first answer", "remote: second answer"]
