"""What a step costs in a long session next to a short one, in calls: no clock is asked.

``python -m benchmarks.long_session`` runs, in process, a tool turn in an empty session and in one
of 2,000 events, and one invocation of 100 tool steps, each with a callback and a plugin that look
at the request and at the session. It prints the Python and C calls as JSON.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from google.genai import types
from pydantic import PrivateAttr

from benchmarks.growth import Calls
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.events import Event
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse
from durable_adk.plugins import BasePlugin
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService
from durable_adk.wire.run_config import RunConfig

EVENTS, STEPS = 2_000, 100
TURNS = 4
"""Turns in each session; the first one reads the session and does not count."""
WINDOW = 20
"""Steps at the start and at the end of an invocation that are compared."""


def get_capital(country: str) -> str:
    """Return the capital of a country."""
    del country
    return "Paris"


class _Model(BaseLlm):
    """Has the tool called so many times, and looks only at the end of the conversation."""

    model: str = "end"
    calls: int = 1
    _made: int = 0
    _counter: Any = None
    _counts: list[int] = PrivateAttr(default_factory=list[int])

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See base class."""
        del stream
        assert llm_request.contents[-1].parts
        self._counts.append(self._counter.count)
        self._made = (self._made + 1) % (self.calls + 1)
        call = types.FunctionCall(name="get_capital", args={"country": "France"})
        part = types.Part(function_call=call) if self._made else types.Part(text="It is Paris.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class _Looks(BasePlugin):
    """Looks at the request and at the session."""

    async def before_model_callback(self, **given: Any) -> None:
        """See base class."""
        assert given["llm_request"].contents[-1].role

    async def on_event_callback(self, **given: Any) -> None:
        """See base class."""
        assert given["invocation_context"].session.events[-1].id


def _look(callback_context: Any, llm_request: LlmRequest) -> None:
    """A callback."""
    assert callback_context.session.events[-1].id
    assert llm_request.contents[-1].parts


def _runner(calls: Calls, tools: int) -> tuple[Runner, _Model]:
    model = _Model(calls=tools)
    model._counter = calls  # noqa: SLF001 - a field would be copied
    agent = LlmAgent(name="g", model=model, tools=[get_capital], before_model_callback=_look)
    app = App(name="long", root_agent=agent, plugins=[_Looks(name="looks")])
    return Runner(app=app, session_service=InMemorySessionService()), model


async def _fill(runner: Runner, session_id: str, number: int) -> None:
    """Make a session of so many events: tool turns."""
    service = runner.session_service
    session = await service.create_session(app_name="long", user_id="u", session_id=session_id)
    for turn in range(number // 4):
        call = types.FunctionCall(id=f"adk-{turn}", name="get_capital", args={"country": "France"})
        answer = types.FunctionResponse(
            id=call.id, name="get_capital", response={"result": "Paris"}
        )
        said = [
            ("user", "user", types.Part(text="Where?")),
            ("g", "model", types.Part(function_call=call)),
            ("g", "user", types.Part(function_response=answer)),
            ("g", "model", types.Part(text="It is Paris.")),
        ]
        for place, (author, role, part) in enumerate(said):
            content = types.Content(role=role, parts=[part])
            name = f"i{turn}"
            event = Event(id=f"{name}.{place}", invocation_id=name, author=author, content=content)
            await service.append_event(session, event)


async def _turn(runner: Runner, session_id: str) -> None:
    async for _ in runner.run_async(
        user_id="u",
        session_id=session_id,
        new_message="Where?",
        run_config=RunConfig(max_llm_calls=0),
    ):
        pass


async def measure() -> dict[str, int]:
    """Return the calls of a turn by the length of its session, and of an invocation's steps."""
    counts: dict[str, int] = {}
    calls = Calls()
    runner, _ = _runner(calls, 1)
    for name, events in (("empty", 0), ("long", EVENTS)):
        await _fill(runner, name, events)
        turns: list[int] = []
        for _ in range(TURNS):
            before = calls.count
            await _turn(runner, name)
            turns.append(calls.count - before)
        counts[name] = min(turns[1:])
    runner, model = _runner(calls, STEPS)
    await _fill(runner, "steps", 0)
    model._counts.clear()  # noqa: SLF001 - ours
    await _turn(runner, "steps")
    steps = model._counts  # noqa: SLF001 - ours
    counts["first"] = (steps[WINDOW + 1] - steps[1]) // WINDOW
    counts["last"] = (steps[-1] - steps[-1 - WINDOW]) // WINDOW
    return counts


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure())))
