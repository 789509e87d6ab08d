"""The official client of A2A against a server of a test, and what it gets in a few words."""

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import (
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from tests.support.waiting import PATIENCE

Said = str | dict[str, Any] | Part


@asynccontextmanager
async def connected(
    at: httpx.AsyncClient | httpx.URL,
    app: str = "app",
    *,
    streaming: bool = True,
    token: str = "",
    when_busy: str = "",
    binding: str = "JSONRPC",
) -> AsyncGenerator[Client]:
    """A client that was made from an app's agent card."""
    given = {"Authorization": token and f"Bearer {token}", "When-Busy": when_busy}
    headers = {name: text for name, text in given.items() if text}
    async with httpx.AsyncClient(timeout=PATIENCE, headers=headers) as own:
        url = str(at if isinstance(at, httpx.URL) else at.base_url).rstrip("/")
        card = await A2ACardResolver(own, f"{url}/a2a/{app}").get_agent_card()
        config = ClientConfig(
            streaming=streaming, httpx_client=own, supported_protocol_bindings=[binding]
        )
        async with ClientFactory(config).create(card) as client:
            yield client


def said(*parts: Said, message_id: str = "", context: str = "", task: str = "") -> Message:
    """A user's message."""
    return Message(
        message_id=message_id or uuid.uuid4().hex,
        context_id=context,
        task_id=task,
        role=Role.ROLE_USER,
        parts=[_part(one) for one in parts],
    )


def _part(one: Said) -> Part:
    if isinstance(one, str):
        return Part(text=one)
    return one if isinstance(one, Part) else Part(data=ParseDict(one, Value()))


async def sent(
    client: Client,
    message: Message,
    *,
    at_once: bool = False,
    push: TaskPushNotificationConfig | None = None,
) -> list[StreamResponse]:
    """All that comes of a message."""
    options = SendMessageConfiguration(
        return_immediately=at_once, task_push_notification_config=push
    )
    request = SendMessageRequest(message=message, configuration=options)
    return [one async for one in client.send_message(request)]


def sending(client: Client, message: Message) -> AsyncIterator[StreamResponse]:
    """What comes of a message, one by one."""
    return client.send_message(SendMessageRequest(message=message))


async def task_of(client: Client, message: Message, **options: Any) -> Task:
    """The task that a client without streams gets for a message."""
    (one,) = await sent(client, message, **options)
    return one.task


def followed(client: Client, task_id: str) -> AsyncIterator[StreamResponse]:
    """The stream of a task that somebody else has started."""
    return client.subscribe(SubscribeToTaskRequest(id=task_id))


def brief(found: StreamResponse) -> str:
    """What was sent: the state in brackets, ~ before chunks, + before chunks behind others."""
    if found.HasField("task"):
        return f"task {state(found.task)}"
    if found.HasField("status_update"):
        return state(found.status_update)
    update = found.artifact_update
    text = texts(update.artifact.parts)
    return text if update.last_chunk else f"{'+' if update.append else '~'}{text}"


def state(found: Any) -> str:
    """The state of a task or of an update, in brackets."""
    name = TaskState.Name(found.status.state).removeprefix("TASK_STATE_")
    return f"({name.lower().replace('_', '-')})"


def texts(parts: Sequence[Part]) -> str:
    """The text of parts."""
    return "".join(part.text for part in parts)


def answers(task: Task) -> list[str]:
    """The texts of a task's artifacts."""
    return [texts(one.parts) for one in task.artifacts]


def asked(found: Any) -> list[dict[str, Any]]:
    """The calls that a task or an update asks to answer, in our form."""
    parts = [part for part in found.status.message.parts if part.HasField("data")]
    return [MessageToDict(part.data) for part in parts if not part.metadata]
