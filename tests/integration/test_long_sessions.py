"""Sessions of any length keep answering (D10)."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.events import Event
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.sessions.log.rebuild import Rebuilt
from durable_adk.sessions.records import StoredEvent

pytestmark = pytest.mark.thorough

EVENTS = 5_000


def said(number: int) -> Event:
    """One of the events of a long conversation."""
    user = number % 2 == 0
    return Event(
        id=f"e{number}",
        invocation_id=f"i{number // 2}",
        author="user" if user else "a",
        timestamp=float(number),
        content=types.Content(
            role="user" if user else "model", parts=[types.Part(text=f"word {number}")]
        ),
    )


class Counting(BaseLlm):
    """Says how much it was shown."""

    model: str = "counting"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        del stream
        text = f"shown {len(llm_request.contents)}"
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


class Reading(SqliteSessionService):
    """Counts the events that it has read."""

    read = 0

    async def read_events(self, key: SessionKey, **options: Any) -> list[StoredEvent]:
        """See the base class."""
        found = await super().read_events(key, **options)
        self.read += len(found)
        return found


async def test_a_session_of_5000_events_keeps_answering(tmp_path: Path) -> None:
    """D10: the model is shown all of it, or what it wants; the turns are stored behind.

    The first turn of a process reads the session, the next ones only its tail.
    """
    service = Reading(tmp_path / "sessions.db")
    key = SessionKey("app", "u", "s")
    await service.create_session(app_name="app", user_id="u", session_id="s")
    events = [StoredEvent(seq=n + 1, event=said(n)) for n in range(EVENTS)]
    await service.rebuild([Rebuilt(key=key, after=0, events=events)])
    read: list[int] = []
    for contents, shown in (("default", EVENTS + 1), ("none", 1)):
        agent = LlmAgent(name="a", model=Counting(), include_contents=contents)
        async with Runner(app=App(name="app", root_agent=agent), session_service=service) as runner:
            for turn in range(2):
                service.read = 0
                run = runner.run_async(user_id="u", session_id="s", new_message="are you there?")
                more = 0 if contents == "none" else 2 * turn
                assert [event.text async for event in run] == [f"shown {shown + more}"]
                read.append(service.read)
    assert (await service.read_state(key))[0] == EVENTS + 8
    first, next_turns = read[::2], read[1::2]
    assert min(first) > EVENTS
    assert max(next_turns) < 10
    await service.close()
