"""The server as a part of another application, below a prefix."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI

from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel
from durable_adk.server.app import app as application, lifespan
from durable_adk.server.settings import ServerSettings
from tests.support.http_server import Place, brief, message, placed, read, session, streamed
from tests.support.waiting import PATIENCE


@asynccontextmanager
async def mounted(place: Place, folder: Path) -> AsyncGenerator[tuple[httpx.AsyncClient, FastAPI]]:
    """A host on a real socket that has the agents at `/agents`."""
    (folder / "index.html").write_text("<p>page</p>")
    agents = application(
        session_service=place.sessions,
        client=place.client,
        task_queue=place.queue,
        settings=ServerSettings(adk_ui=folder),
        **place.services,
    )
    host = FastAPI()
    host.mount("/agents", agents)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(host, log_config=None, ws="none"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/agents"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
            yield http, agents
    finally:
        server.should_exit = True
        await serving
        listener.close()


async def test_a_mounted_server_knows_its_prefix(client, tmp_path):
    """Pages, their configuration and all routes are below it; streams end with the host."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["hi"]))
    async with (
        placed(client, tmp_path, agent) as place,
        mounted(place, tmp_path) as (http, agents),
        asyncio.timeout(PATIENCE),
    ):
        redirect = await http.get("/dev-ui")
        assert redirect.headers["location"] == "/agents/dev-ui/"
        assert "<p>page</p>" in (await http.get("/dev-ui/")).text
        config = await http.get("/dev-ui/assets/config/runtime-config.json")
        assert config.json()["backendUrl"] == "/agents"
        assert 'src="page/app.js"' in (await http.get("/")).text
        assert (await http.get("/page/app.js")).status_code == 200
        await session(http)
        assert [brief(one) for one in await read(http, "/run_sse", message("hi"))] == ["hi"]
        async with streamed(http, "/apps/app/users/u/sessions/s/events") as stream:
            assert brief(await anext(stream)) == "hi"
            async with lifespan(agents):
                pass
            async for _ in stream:
                pass
