"""Plays a conversation through a `Runner`, and tells all that can be seen of it as JSON.

It is written with ADK's names only, so that google-adk plays it by the same lines (`alias`).
"""

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from google.genai import types
from pydantic import BaseModel

from durable_adk.apps import App
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.events import Event
from durable_adk.memory import InMemoryMemoryService
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService
from tests.scenarios.scenario import Scenario, Turn

Told = dict[str, Any]
"""What came of a conversation, as JSON."""


class Hooks(BasePlugin):
    """Writes down every hook, in the order in which they are called."""

    def __init__(self) -> None:
        super().__init__(name="hooks")
        self.seen: list[str] = []

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> None:
        self.seen.append("on_user_message")

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        self.seen.append("before_run")

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> None:
        if not event.partial:  # of chunks they come as google-adk's queues have it
            self.seen.append(f"on_event {event.author}")

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        self.seen.append("after_run")

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        self.seen.append(f"before_agent {agent.name}")

    async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        self.seen.append(f"after_agent {agent.name}")

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        self.seen.append(f"before_model {callback_context.agent_name}")

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        if not llm_response.partial:
            self.seen.append(f"after_model {callback_context.agent_name}")

    async def on_model_error_callback(
        self, *, callback_context: Any, llm_request: Any, error: Exception
    ) -> None:
        self.seen.append(f"on_model_error {callback_context.agent_name} {_error(error)}")

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
        self.seen.append(f"before_tool {_call(tool_context, tool, tool_args)}")

    async def after_tool_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any
    ) -> None:
        self.seen.append(f"after_tool {_call(tool_context, tool, tool_args)}")

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, error: Exception
    ) -> None:
        call = _call(tool_context, tool, tool_args)
        self.seen.append(f"on_tool_error {call} {_error(error)}")

    async def on_agent_error_callback(
        self, *, agent: Any, callback_context: Any, error: Exception
    ) -> None:
        self.seen.append(f"on_agent_error {agent.name} {_error(error)}")

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        self.seen.append(f"on_run_error {_error(error)}")


@contextmanager
def requests_seen(scripted: Any) -> Iterator[list[Told]]:
    """What the scripted models of a class are asked meanwhile, oldest first."""
    asked: list[Told] = []
    generate = scripted.generate_content_async

    async def noted(
        model: Any, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[Any, None]:
        asked.append(_request(llm_request) | {"stream": stream})
        async for response in generate(model, llm_request, stream):
            yield response

    scripted.generate_content_async = noted
    try:
        yield asked
    finally:
        scripted.generate_content_async = generate


async def play(scenario: Scenario, scripted: Any = ScriptedModel) -> Told:
    """What came of a conversation: all that an application, a model or a plugin sees of it.

    Args:
        scenario: The conversation.
        scripted: The class of its models.
    """
    hooks = Hooks()
    app = _with(scenario.app(), hooks)
    sessions, artifacts = InMemorySessionService(), InMemoryArtifactService()
    runner = Runner(
        app=app,
        session_service=sessions,
        artifact_service=artifacts,
        memory_service=InMemoryMemoryService(),
        auto_create_session=True,
    )
    first = _session("u/s") | {"app_name": app.name}
    await sessions.create_session(**first, state=dict(scenario.initial))
    with requests_seen(scripted) as asked:
        async with runner:
            turns = [await _hear(runner, turn) for turn in scenario.turns]
            kept = {place: await _kept(runner, artifacts, place) for place in scenario.places}
    return {"turns": turns, "kept": kept, "requests": asked, "hooks": hooks.seen}


def _with(app: App, plugin: BasePlugin) -> App:
    fields = {name: getattr(app, name) for name in app.model_fields_set}
    return App(**fields | {"plugins": [plugin, *app.plugins]})


async def _hear(runner: Runner, turn: Turn) -> Told:
    place, message = _session(turn.place), turn.message
    if callable(message):
        session = await runner.session_service.get_session(app_name=runner.app_name, **place)
        assert session is not None
        message = message(session.events)
    if isinstance(message, str):
        message = types.Content(role="user", parts=[types.Part(text=message)])
    more: dict[str, Any] = {"run_config": turn.run_config} if turn.run_config else {}
    if turn.state_delta:
        more["state_delta"] = dict(turn.state_delta)
    events: list[Told] = []
    try:
        async for event in runner.run_async(**place, new_message=message, **more):
            events.append(_event(event))  # noqa: PERF401  # those before an error count
    except Exception as error:  # noqa: BLE001  # any is compared
        return {"events": events, "raises": _error(error)}
    return {"events": events}


def _session(place: str) -> dict[str, str]:
    user, _, session = place.partition("/")
    return {"user_id": user, "session_id": session}


async def _kept(runner: Runner, artifacts: InMemoryArtifactService, place: str) -> Told | None:
    """What is stored of a session by now, or None."""
    where = {"app_name": runner.app_name, **_session(place)}
    session = await runner.session_service.get_session(**where)
    return session and {
        "events": [_event(event) for event in session.events],
        "state": _json(dict(session.state)),
        "artifacts": await _artifacts(artifacts, where),
    }


async def _artifacts(service: InMemoryArtifactService, where: Mapping[str, str]) -> Told:
    kept: Told = {}
    for name in await service.list_artifact_keys(**where):
        for version in await service.list_versions(filename=name, **where):
            part = await service.load_artifact(filename=name, version=version, **where)
            kept[f"{name} {version}"] = part and _json(part)
    return kept


def _call(context: Any, tool: Any, args: Any) -> str:
    return f"{context.agent_name} {tool.name} {json.dumps(args)}"


def _error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _event(event: Event) -> Told:
    told = json.loads(event.model_dump_json(exclude_none=True))
    if event.partial:
        del told["actions"]["state_delta"]  # google-adk's last chunk may share that of the whole
    return told


def _request(request: LlmRequest) -> Told:
    config = request.config.model_dump(exclude_none=True, exclude={"http_options"})
    named = re.search(r'Your internal name is "(\w+)"', str(config.get("system_instruction")))
    return {
        "agent": named[1] if named else "",
        "model": request.model,
        "contents": [_json(content) for content in request.contents],
        "config": _json(config),
    }


def _json(value: Any) -> Any:
    """The value as JSON; what has no JSON is named by its type."""
    if isinstance(value, BaseModel):
        return json.loads(value.model_dump_json(exclude_none=True))
    return json.loads(json.dumps(value, default=_told))


def _told(value: Any) -> Any:
    if isinstance(value, type):
        return value.__name__
    return _json(value) if isinstance(value, BaseModel) else type(value).__name__
