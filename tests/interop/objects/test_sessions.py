"""Sessions and events of google-adk that code of its users gets, and may change."""

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import Session
from google.adk.tools import FunctionTool, ToolContext
from google.genai import types
from pydantic import BaseModel

from durable_adk.context.step_scope import step_session
from durable_adk.events import Event as OurEvent
from durable_adk.interop.values import adk_event, adk_session
from durable_adk.runners import InMemoryRunner
from durable_adk.sessions import SessionKey
from tests.adk.scripted import ScriptedModel
from tests.interop.objects.running import call

KEY = SessionKey("app", "u", "s")


def made(name: str) -> OurEvent:
    """A committed event."""
    parts = [types.Part(function_call=types.FunctionCall(id="c", name="f", args={"n": [1]}))]
    content = types.Content(role="model", parts=[*parts, types.Part(text=name)])
    return OurEvent(id=name, invocation_id="i", author="a", content=content, timestamp=1.0)


def session() -> tuple[list[OurEvent], Session]:
    """Committed events, and the session that google-adk's code gets."""
    events = [made(name) for name in "123"]
    return events, adk_session(step_session(KEY, events, state={"k": 1}))


class Holder(BaseModel):
    """A model of a user's own."""

    events: list[Event]


LOOKS: dict[str, Callable[[list[Event]], Any]] = {
    "index": lambda events: events[-1],
    "slice": lambda events: events[-2:],
    "equal": lambda events: events == events[:],
    "in": lambda events: events[1].model_copy() in events,
    "sorted": lambda events: sorted(events, key=lambda event: event.id, reverse=True),
    "append": lambda events: [*events, events.append(Event(author="b", id="x"))],
    "deep copy": copy.deepcopy,
    "copies": lambda events: [copy.copy(event) for event in events],
    "as JSON": lambda events: json.dumps([event.model_dump(mode="json") for event in events]),
    "dumped": lambda events: [event.model_dump(exclude_none=True) for event in events],
    "in a model": lambda events: Holder(events=events).model_dump_json(),
    "calls": lambda events: [event.get_function_calls() for event in events],
    "final": lambda events: [event.is_final_response() for event in events],
    "instances": lambda events: [isinstance(event, Event) for event in events],
}


@pytest.mark.parametrize("look", LOOKS)
def test_events_are_read_as_a_list_of_google_adks_events(look: str) -> None:
    """STA-17: whatever code looks at first, it finds what it would find in a plain list."""
    events, own = session()
    plain = [adk_event(event) for event in events]
    assert LOOKS[look](own.events) == LOOKS[look](plain)
    assert isinstance(own.events, list)


def test_a_session_of_google_adk_is_dumped_whole() -> None:
    """STA-1: also if nobody has read its events yet."""
    events, own = session()
    fields = {"id": "s", "app_name": "app", "user_id": "u", "state": {"k": 1}}
    plain = Session(**fields, events=[adk_event(event) for event in events])
    assert isinstance(own, Session)
    assert own.model_dump_json() == plain.model_dump_json()
    assert session()[1].model_copy(deep=True).events == plain.events
    assert session()[1] == plain
    assert pickle.loads(pickle.dumps(session()[1].state)) == {"k": 1}  # noqa: S301 - our own bytes


class Masking(BasePlugin):
    """Masks what goes to a log: it means its own view of the session."""

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        mask(callback_context.session)


def mask(session: Session) -> None:
    """Mask texts and arguments."""
    for event in session.events:
        event.author = "***"
        for part in event.content.parts if event.content else ():
            part.text = part.text and "***"
            if part.function_call and part.function_call.args:
                part.function_call.args.clear()


async def test_google_adks_code_changes_its_own_events_only() -> None:
    """TRAP-23, I16: prompts have what was said, and the approved call its arguments."""
    paid: list[int] = []
    prompts: list[str] = []

    def pay(n: int, tool_context: ToolContext) -> dict[str, int]:
        """Pay."""
        paid.append(n)
        mask(tool_context.session)
        return {"paid": n}

    def reply(request: Any) -> Any:
        prompts.append(str(request.contents))
        return call("pay", n=5) if request.contents[-1].parts[-1].text == "pay" else "fine"

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=reply),
        tools=[FunctionTool(pay, require_confirmation=True)],
        before_agent_callback=lambda callback_context: mask(callback_context.session),
    )
    user = {"user_id": "debug_user_id", "session_id": "debug_session_id"}
    app = App(name="app", root_agent=agent, plugins=[Masking(name="m")])
    async with InMemoryRunner(app=app) as runner:
        for message in ("my name is Ada", "pay", "hello"):
            await runner.run_debug(message, quiet=True)
        (waiting,) = await runner.pending(**user)
        answer = types.FunctionResponse(
            id=waiting.call_id, name=waiting.name, response={"confirmed": True}
        )
        content = types.Content(role="user", parts=[types.Part(function_response=answer)])
        async for _ in runner.run_async(**user, new_message=content):
            pass
    assert paid == [5]
    assert "my name is Ada" in prompts[-1]
    assert not [prompt for prompt in prompts if "***" in prompt]
