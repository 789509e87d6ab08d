"""The HTTP server on a real socket, with a worker beside it, and what a reader gets from it."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from temporalio.client import Client

from durable_adk.agents import BaseAgent
from durable_adk.apps import App
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.auth.credential_service import InMemoryCredentialService
from durable_adk.memory import InMemoryMemoryService
from durable_adk.server.app import app as application, serve
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions import SqliteSessionService
from durable_adk.settings import Webhooks
from durable_adk.worker import WorkerOptions, worker
from tests.support.waiting import PATIENCE

USERS = "/apps/app/users/u/sessions"
IDS = {"appName": "app", "userId": "u", "sessionId": "s"}
TIMEOUT = PATIENCE


@dataclass
class Sent:
    """What a reader was sent at a time."""

    data: Any
    id: str | None = None
    event: str | None = None


@dataclass
class Place:
    """A worker, its stores, and any number of servers over them."""

    client: Client
    sessions: SqliteSessionService
    queue: str
    stack: AsyncExitStack
    services: dict[str, Any] = field(default_factory=dict)
    _serving: dict[httpx.AsyncClient, "asyncio.Task[None]"] = field(default_factory=dict)

    def stop(self, http: httpx.AsyncClient) -> None:
        """Ask a server to stop, as a signal does."""
        self._serving[http].cancel()

    async def server(self, **options: Any) -> httpx.AsyncClient:
        """Start another server; a client of it."""
        settings = ServerSettings(**{"port": 0, "drain_seconds": 1} | options.pop("settings", {}))
        made = application(
            session_service=self.sessions,
            client=self.client,
            task_queue=self.queue,
            settings=settings,
            **self.services | options,
        )
        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(made, listening=url.set_result))
        self.stack.push_async_callback(_stopped, serving)
        await asyncio.wait({serving, url}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        http = httpx.AsyncClient(base_url=url.result(), timeout=TIMEOUT)
        self._serving[http] = serving
        return await self.stack.enter_async_context(http)


@asynccontextmanager
async def absent_worker(place: Place, agent: BaseAgent) -> AsyncGenerator[Callable[..., Any]]:
    """Servers that start from now on have a task queue without a worker.

    What is yielded starts one, until the block ends.
    """
    place.queue = f"test-{uuid.uuid4().hex}"
    async with AsyncExitStack() as stack:

        async def come() -> None:
            options = WorkerOptions(task_queue=place.queue)
            app = App(name="app", root_agent=agent)
            running = worker(
                place.client,
                apps=[app],
                session_service=place.sessions,
                options=options,
                **place.services,
            )
            await stack.enter_async_context(running)

        yield come


async def _stopped(serving: "asyncio.Task[None]") -> None:
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def placed(
    client: Client, folder: Any, agent: BaseAgent | App, webhooks: Webhooks | None = None
) -> AsyncGenerator[Place]:
    """A worker that serves an app, called `app`, over a store in a folder."""
    app = agent if isinstance(agent, App) else App(name="app", root_agent=agent)
    queue = f"test-{uuid.uuid4().hex}"
    async with AsyncExitStack() as stack:
        sessions = SqliteSessionService(folder / f"{uuid.uuid4().hex}.db")
        stack.push_async_callback(sessions.close)
        services = {
            "artifact_service": InMemoryArtifactService(),
            "memory_service": InMemoryMemoryService(),
            "credential_service": InMemoryCredentialService(),
        }
        options = WorkerOptions(task_queue=queue, webhooks=webhooks)
        running = worker(client, apps=[app], session_service=sessions, options=options, **services)
        await stack.enter_async_context(running)
        yield Place(client, sessions, queue, stack, services)


def message(text: str, **more: Any) -> dict[str, Any]:
    """The body of a run."""
    return IDS | {"newMessage": {"role": "user", "parts": [{"text": text}]}, **more}


async def session(http: httpx.AsyncClient, session_id: str = "s") -> None:
    """Create a session."""
    response = await http.post(USERS, json={"sessionId": session_id})
    assert response.status_code == 200, response.text


async def items(response: httpx.Response) -> AsyncIterator[Sent]:
    """Yield what a stream sends, without comments."""
    one = Sent(None)
    async for line in response.aiter_lines():
        name, _, text = line.partition(": ")
        if name == "data":
            one.data = json.loads(text)
        elif name in ("id", "event"):
            setattr(one, name, text)
        elif not line and one.data is not None:
            yield one
            one = Sent(None)


@asynccontextmanager
async def streamed(
    http: httpx.AsyncClient, path: str, body: Any = None, **headers: str
) -> AsyncGenerator[AsyncIterator[Sent]]:
    """Open a stream: of what a path has, or of what comes of a body."""
    method = "GET" if body is None else "POST"
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    async with http.stream(method, path, json=body, headers=named) as response:
        if response.status_code != 200:
            await response.aread()
            raise AssertionError(response.text)
        yield items(response)


async def read(http: httpx.AsyncClient, path: str, body: Any = None, **headers: str) -> list[Sent]:
    """All that a stream sends until it ends."""
    async with asyncio.timeout(TIMEOUT), streamed(http, path, body, **headers) as stream:
        return [one async for one in stream]


def brief(sent: Sent) -> str:
    """An item in a few words: ~ before a chunk's text, the status in brackets."""
    data = sent.data
    if data.get("type") == "status":
        return f"({data['status']})"
    event = data.get("event", data)
    if "error" in event:
        return f"error {event['error']}"
    parts = (event.get("content") or {}).get("parts") or []
    text = "".join(part.get("text") or next(iter(part.values())).get("name", "?") for part in parts)
    return ("~" if event.get("partial") else "") + text
