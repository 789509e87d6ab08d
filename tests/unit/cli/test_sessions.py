"""What ``sessions``, ``show`` and ``attempts`` print of a store."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from typer.testing import CliRunner

from durable_adk.cli.program import app
from durable_adk.cli.sessions import new_events
from durable_adk.events import Event, EventActions
from durable_adk.sessions import InMemorySessionService, SessionKey, SessionLog
from durable_adk.sessions.call_attempt import AttemptEnd, CallAttempt
from durable_adk.sessions.database_session_service import SqliteSessionService
from durable_adk.sessions.records import ATTEMPT, Status

LONG = "a-very-long-session-id-of-a-ticket-system-with-many-parts-000001"
USAGE = types.GenerateContentResponseUsageMetadata(total_token_count=1200)
Run = Callable[..., str]


def event(invocation: str, number: int, author: str, text: str, **fields: Any) -> Event:
    """An event that says something."""
    return Event(
        id=f"{invocation}.{number}",
        invocation_id=invocation,
        author=author,
        timestamp=1_700_000_000.0 + number,
        content=types.Content(role="model", parts=[types.Part(text=text)]),
        **fields,
    )


async def begin(service: SessionLog, key: SessionKey, invocation: str) -> int:
    """Open an invocation; its epoch."""
    record = await service.open_invocation(
        key,
        invocation_id=invocation,
        lease_owner="temporal:d:r:w",
        user_event=event(invocation, 0, "user", "hello"),
        create_session=True,
    )
    return record.epoch


async def fill(service: SessionLog) -> None:
    """Two sessions: one with a report and a failed model call, one that runs."""
    key, name = SessionKey("app", "anna", LONG), "e-first"
    epoch = await begin(service, key, name)
    actions = EventActions(state_delta={"city": "Paris"}, artifact_delta={"report.md": 1})
    written = event(name, 1, "writer", "done", actions=actions, usage_metadata=USAGE)
    failed = CallAttempt(
        event_id="e-first.1",
        attempt=1,
        ended=AttemptEnd.FAILED,
        model="m",
        error_type="RateLimit",
        error_message="slow down",
    )
    lost = CallAttempt(
        event_id="e-first.2",
        attempt=1,
        ended=AttemptEnd.LOST,
        tool="book",
        call_id="c",
        worker="17@host",
    )
    for number, one in enumerate((failed, lost)):
        body = one.to_json()
        await service.note(key, invocation_id=name, kind=ATTEMPT, name=f"{number}", body=body)
    await service.commit_event(key, written, invocation_id=name, epoch=epoch)
    await service.close_invocation(key, invocation_id=name, epoch=epoch, status=Status.COMPLETED)
    await begin(service, SessionKey("other", "ben", "s2"), "e-second")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command over such a store, on a terminal that is too narrow; what it prints."""

    async def make() -> None:
        service = SqliteSessionService(tmp_path / "sessions.db")
        await fill(service)
        await service.close()

    asyncio.run(make())

    def command(*words: str) -> str:
        options = ["--store", str(tmp_path / "sessions.db")]
        done = CliRunner().invoke(app, [*words, *options], env={"COLUMNS": "20", "NO_COLOR": "1"})
        assert done.exit_code == 0, done.output
        return done.stdout

    return command


def test_a_session_is_one_line_with_its_whole_id(run: Run) -> None:
    """The newest comes last, and no id is broken or cut on any terminal."""
    head, first, second = run("sessions").splitlines()
    assert head.split()[:2] == ["UPDATED", "STATUS"]
    assert first.split()[2:] == ["completed", "0", "1", "2", LONG, "anna", "app"]
    assert second.split()[2:] == ["running", "0", "1", "1", "s2", "ben", "other"]


def test_sessions_are_chosen(run: Run) -> None:
    """By app, user, status and number; as JSON for programs."""

    def ids(*options: str) -> list[str]:
        lines = run("sessions", *options, "--json").splitlines()
        return [json.loads(line)["session"] for line in lines]

    assert ids() == [LONG, "s2"]
    assert ids("other") == ids("--user", "ben") == ids("--status", "running") == ["s2"]
    assert ids("--limit", "1") == ["s2"]
    assert ids("--status", "failed") == []
    assert run("sessions", "--user", "nobody") == "There are no sessions.\n"


def test_a_session_is_shown_whole(run: Run) -> None:
    """State, artifacts, tokens, failed attempts and events, by a unique beginning of its id."""
    shown = run("show", "a-very")
    assert shown.startswith(f"session {LONG} of user anna, app app\n")
    for line in (
        '  state     city = "Paris"',
        "  artifact  report.md, version 1",
        "  status    completed",
        "  model     1 response, 1,200 tokens",
        "  attempt   attempt 1 failed, model m, tokens unknown",
        "            RateLimit: slow down",
        "  attempt   attempt 1 lost, tool book, on 17@host",
    ):
        assert line in shown.splitlines()
    assert [line.split("  ")[-1] for line in shown.splitlines()[-2:]] == [
        "[user]: hello",
        "[writer]: done",
    ]


def test_an_invocation_is_found_by_its_id(run: Run) -> None:
    """Only its own events are shown; with --json all of it is one object."""
    found = json.loads(run("show", "e-sec", "--json"))
    assert (found["session"], [one["author"] for one in found["events"]]) == ("s2", ["user"])
    assert found["invocations"][0]["status"] == "running"
    one = json.loads(run("show", "e-first", "--json"))
    assert one["artifacts"] == {"report.md": 1}
    assert one["invocations"][0]["attempts"][0]["errorType"] == "RateLimit"


def test_failed_attempts_are_listed(run: Run) -> None:
    """With their sums; tokens that nobody reported are said to be unknown."""
    listed = run("attempts").splitlines()
    assert "attempt 1 lost, tool book, on 17@host" in listed
    assert listed[-1] == "2 attempts without a result: 0 tokens; unknown for 1."
    assert run("attempts", "other") == "No attempt was without a result.\n"


async def test_what_is_followed_ends_with_its_invocation() -> None:
    """``show --follow`` prints each new event once, and ends when there will be none."""
    service, key = InMemorySessionService(), SessionKey("app", "u", "s")
    epoch = await begin(service, key, "e")
    following = new_events(service, key, "e", after=1)
    first = asyncio.ensure_future(anext(following))
    await service.commit_event(key, event("e", 1, "a", "one"), invocation_id="e", epoch=epoch)
    assert (await first).event.text == "one"
    await service.close_invocation(key, invocation_id="e", epoch=epoch, status=Status.COMPLETED)
    assert [one async for one in following] == []
