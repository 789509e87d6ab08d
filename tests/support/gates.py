"""A tool that waits at a gate, so that a message can come while it runs."""

import asyncio
import math
from typing import Any

from google.genai import types

from durable_adk.activities.invocation.take_over import NOTIFIED
from durable_adk.agents import LlmAgent
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey
from durable_adk.tools import ToolContext
from tests.support.scripts import USER, call, gist
from tests.support.waiting import until

GATES: dict[str, asyncio.Event] = {}


async def until_set(event: asyncio.Event, run: "asyncio.Task[Any] | None" = None) -> None:
    """Wait for an event that user code sets: in another event loop, so `wait` would not wake up.

    Args:
        event: The event.
        run: The run that the code is part of, whose error is raised.
    """
    await until(lambda: event.is_set() or (run and run.done()))
    if not event.is_set():
        raise AssertionError(f"The run has ended without it: {run and run.result()}")


async def gate(who: str, tool_context: ToolContext) -> str:
    """A tool that says it has begun, and waits to be let through."""
    tool_context.state["begun"] = who
    GATES.setdefault(f"{who} begun", asyncio.Event()).set()
    opened = GATES.setdefault(who, asyncio.Event())
    await until(opened.is_set, math.inf)
    return "through"


def listener(name: str) -> LlmAgent:
    """Waits at its gate, then says what the user has said last."""

    def heard(request: LlmRequest) -> types.Content | str:
        texts = [p.text for c in request.contents if c.role == "user" for p in c.parts if p.text]
        responses = [p for c in request.contents for p in c.parts if p.function_response]
        return f"heard {texts[-1]}" if responses else call("gate", who=name)

    return LlmAgent(name="a", model=ScriptedModel(replies=heard), tools=[gate])


async def until_begun(name: str) -> None:
    """Wait until the tool has begun."""
    await until_set(GATES.setdefault(f"{name} begun", asyncio.Event()))


async def until_told(runner: Runner, *messages: str) -> None:
    """Wait until the active invocation knows of messages that steer it, by their invocations."""
    key, service = (
        SessionKey(runner.app_name, USER["user_id"], USER["session_id"]),
        runner.session_service,
    )

    async def told() -> bool:
        active = await service.active_invocation(key)
        if active is None:
            return False
        its = {"invocation_id": active.invocation_id, "kind": NOTIFIED}
        return {note.name for note in await service.read_notes(key, **its)} >= {*messages}

    await until(told)


def run(runner: Runner, message: Any, **options: Any) -> "asyncio.Task[list[str]]":
    """A message on its way."""

    async def events() -> list[str]:
        sent = runner.run_async(**USER, new_message=message, **options)
        return [gist(event) async for event in sent]

    return asyncio.create_task(events())
