"""A chat on the terminal, and what it says while nothing comes."""

import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

import durable_adk.cli.run as module
from durable_adk.apps import App
from durable_adk.auth.credential_service.in_memory_credential_service import (
    InMemoryCredentialService,
)
from durable_adk.cli.run import Chat, Progress
from durable_adk.cli.terminal import gist
from durable_adk.events import Event
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.sessions.call_attempt import AttemptEnd, CallAttempt
from durable_adk.sessions.records import ATTEMPT
from tests.support.desk import DESK

Say = Callable[..., Coroutine[Any, Any, list[str]]]


class Connection:
    """Runs the app in this process."""

    address = None

    def __init__(self, folder: Path) -> None:
        self.folder = self.data_folder = folder
        self.arguments: list[str] = []
        self.targets: dict[str, str] = {}

    def record_target(self, app_name: str, target: str) -> None:
        """See `ServerConnection`."""

    @asynccontextmanager
    async def runner(self, app: App) -> AsyncIterator[Runner]:
        """A runner with stores of its own."""
        async with Runner(
            app=app,
            session_service=InMemorySessionService(),
            credential_service=InMemoryCredentialService(),
            auto_create_session=True,
        ) as runner:
            yield runner


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Chat with the desk; the lines that are printed, on standard error those of errors."""
    monkeypatch.chdir(tmp_path)
    target = f"desk_{uuid.uuid4().hex}.py"
    (tmp_path / target).write_text(DESK)
    connection: Any = Connection(tmp_path)

    async def chat(*lines: str) -> list[str]:
        typed = iter([*lines, None])

        async def read_line(prompt: str) -> str | None:
            assert prompt == "[user]: "
            return next(typed)

        monkeypatch.setattr(module, "read_line", read_line)
        options = {"user": "u", "session": "s", "as_json": False, "stream": False}
        await Chat(connection=connection, target=target, **options).run(None)
        printed = capsys.readouterr()
        errors = [line for line in printed.err.splitlines() if line.startswith("Error")]
        return printed.out.splitlines() + errors

    return chat


async def test_calls_are_answered_in_place(say: Say) -> None:
    """/approve, /reject and /respond answer the call that waits, and the events follow."""
    approved = await say("refund", "/approve")
    assert approved[2:4] == [
        "[desk]: refund waits for approval",
        '[desk]: refund returned {"refunded": 5}',
    ]
    rejected = await say("refund", "/reject")
    assert "rejected" in rejected[3]
    responded = await say("order", '/respond {"status": "sent"}')
    assert responded[-1] == "[desk]: That was it: {'status': 'sent'}"
    filled = await say("seats", '/approve {"seats": 2}')
    assert filled[-1] == "[desk]: That was it: {'taken': {'seats': 2}}"


async def test_one_of_several_calls_is_named(say: Say) -> None:
    """An answer that could mean two calls, or none, is not sent; a unique beginning is enough."""
    (none,) = await say("/approve")
    assert "No call waits for /approve" in none
    several = await say("refund", "refund", "/approve")
    assert "Several calls wait" in several[-1]
    named = await say("order", "/respond adk-", '/respond adk- {"status": "sent"}')
    assert named[-1].startswith("Error: InvalidRequestError: The result is not valid JSON")
    assert named[-2] == "[desk]: That was it: {'status': 'sent'}"
    other = await say("order", "/approve adk-")
    assert "durable-adk respond" in other[-1]


async def test_words_that_are_not_known_are_no_messages(say: Say) -> None:
    """A mistyped word is not sent to the agent; a message may begin with a slash all the same."""
    (wrong,) = await say("/aprove")
    assert "/aprove is none of /approve" in wrong
    listed = await say("/help", "/pending")
    assert "/approve" in listed[0]
    assert listed[-1] == "No calls are waiting for an answer."
    sent = await say("//order")
    assert any("/order" in line for line in sent)


async def test_what_is_waited_for_is_said() -> None:
    """A worker, the model, the model once more, or a tool: a person sees what takes time."""
    service, key = InMemorySessionService(), SessionKey("app", "u", "s")
    progress = Progress(service, key, "e")
    assert await progress.text() == "waiting for a worker, or for an earlier message"
    first = Event(id="e.0", invocation_id="e", author="user", timestamp=1.0)
    await service.open_invocation(
        key, invocation_id="e", lease_owner="local:1", user_event=first, create_session=True
    )
    assert await progress.text() == "the model is thinking"
    failed = CallAttempt(event_id="e.1", attempt=1, ended=AttemptEnd.FAILED, error_type="Busy")
    await service.note(key, invocation_id="e", kind=ATTEMPT, name="1", body=failed.to_json())
    assert await progress.text() == "the model is called again, as attempt 1 failed (Busy)"
    call = types.Part(function_call=types.FunctionCall(id="c", name="book", args={}))
    answer = types.Part(function_response=types.FunctionResponse(id="c", name="book", response={}))
    away = CallAttempt(event_id="e.2", attempt=2, ended=AttemptEnd.LOST, tool="book", call_id="c")
    await service.note(key, invocation_id="e", kind=ATTEMPT, name="2", body=away.to_json())
    for number, (part, said) in enumerate(
        [(call, "book runs again, as attempt 2 was lost"), (answer, "the model is thinking")],
        start=1,
    ):
        content = types.Content(role="model", parts=[part])
        progress.on_event(
            Event(id=f"e.{number}", invocation_id="e", author="a", timestamp=1.0, content=content)
        )
        assert await progress.text() == said


async def test_a_step_that_asks_is_not_shown_as_an_error(say: Say) -> None:
    """What a tool tells the model while it waits is not what a person reads."""
    lines = await say("refund")
    assert "[desk]: refund waits for approval" in lines
    assert not any("returned" in line for line in lines)
    plain = types.FunctionResponse(id="c", name="book", response={"ok": True})
    content = types.Content(role="user", parts=[types.Part(function_response=plain)])
    event = Event(id="e.1", invocation_id="e", author="a", timestamp=1.0, content=content)
    assert [str(line) for line in gist(event)] == ['book returned {"ok": true}']
