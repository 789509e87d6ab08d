"""Short names for what scripted models reply and what tests look at."""

from typing import Any

from google.genai import types

from durable_adk.events import Event
from durable_adk.runners import Runner

USER = {"user_id": "u", "session_id": "s"}


def calls(*names_and_args: tuple[str, dict[str, Any]]) -> types.Content:
    """A model turn that calls functions."""
    parts = [
        types.Part(function_call=types.FunctionCall(name=name, args=args))
        for name, args in names_and_args
    ]
    return types.Content(role="model", parts=parts)


def call(name: str, **args: Any) -> types.Content:
    """A model turn that calls one function."""
    return calls((name, args))


async def send(runner: Runner, message: str = "hello", **options: Any) -> list[Event]:
    """Send a message in session s of user u, which is created if missing; all yielded events."""
    await ensure_session(runner)
    return [event async for event in runner.run_async(**USER, new_message=message, **options)]


async def ensure_session(runner: Runner) -> None:
    """Create session s of user u unless it is there."""
    if await runner.session_service.get_session(app_name=runner.app_name, **USER) is None:
        await runner.session_service.create_session(app_name=runner.app_name, **USER)


async def stored(runner: Runner) -> list[Event]:
    """All events of the session, as a fresh read gives them."""
    session = await runner.session_service.get_session(app_name=runner.app_name, **USER)
    return session.events if session else []


async def state(runner: Runner) -> dict[str, Any]:
    """The session's stored state."""
    session = await runner.session_service.get_session(app_name=runner.app_name, **USER)
    return session.state if session else {}


def shape(event: Event) -> dict[str, Any]:
    """An event without its times: all that must be equal between two runs."""
    times = {"actions": {"compaction": {"start_timestamp", "end_timestamp"}}, "timestamp": True}
    return event.model_dump(mode="json", exclude_none=True, exclude=times)


def gist(event: Event) -> str:
    """An event in a few words: author and what it is."""
    for kind, items in (
        ("call", event.get_function_calls()),
        ("response", event.get_function_responses()),
    ):
        if items:
            return f"{event.author} {kind} " + ",".join(item.name or "" for item in items)
    if event.error_code:
        return f"{event.author} error {event.error_code}"
    return f"{event.author} text {event.text}" if event.content else f"{event.author} delta"
