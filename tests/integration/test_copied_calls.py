"""Calls that were waiting when their session was copied from google-adk."""

from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions.in_memory_session_service import InMemorySessionService
from durable_adk.sessions.log.copies import CopiedEvent, CopiedSession
from durable_adk.sessions.session import SessionKey
from durable_adk.tools import LongRunningFunctionTool

KEY = SessionKey("shop", "anna", "s1")


def ask(x: int) -> None:
    """Ask somebody."""


def events() -> list[CopiedEvent]:
    """Those of a session in which a call waits."""
    call = {"functionCall": {"id": "c1", "name": "ask", "args": {"x": 1}}}
    values = [
        {"author": "user", "content": {"role": "user", "parts": [{"text": "Hi."}]}},
        {
            "author": "root",
            "content": {"role": "model", "parts": [call]},
            "longRunningToolIds": ["c1"],
        },
    ]
    return [
        CopiedEvent.read({**value, "id": f"x{n}", "invocationId": "e-1", "timestamp": float(n)})
        for n, value in enumerate(values)
    ]


async def test_a_call_that_waited_in_google_adk_is_answered_here() -> None:
    """The answer starts an invocation, as google-adk has it, and the model sees it."""
    store = InMemorySessionService()
    session = CopiedSession(KEY, {}, create_time=1.0, update_time=2.0)
    await store.copy_session(session, events())
    model = ScriptedModel(replies=lambda _: "Done.")
    agent = LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(ask)])
    answer = types.FunctionResponse(id="c1", name="ask", response={"ok": 1})
    message = types.Content(role="user", parts=[types.Part(function_response=answer)])
    async with Runner(app=App(name="shop", root_agent=agent), session_service=store) as runner:
        run = runner.run_async(user_id="anna", session_id="s1", new_message=message)
        assert [event.text async for event in run] == ["Done."]
    response = model.requests[-1].contents[-1].parts[0].function_response
    assert response.response == {"ok": 1}
