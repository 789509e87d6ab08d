"""Finding pending calls and invocations, and shortening their ids."""

import asyncio
import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from durable_adk.cli.pending import find_invocation, pick, short
from durable_adk.cli.program import app as program
from durable_adk.client.queries import (
    InvocationFilter as Where,
    find_pending_calls,
    pending_calls_of,
)
from durable_adk.errors import InvalidRequestError
from durable_adk.events import Event, RequestInput
from durable_adk.events.request_input import request_input_event
from durable_adk.sessions import (
    InMemorySessionService,
    SessionKey,
    SessionLog,
    SqliteSessionService,
)
from durable_adk.sessions.records import InvocationRecord, Status
from tests.support.pausing import confirming, working

ONE, TWO = SessionKey("app", "u", "one"), SessionKey("other", "v", "two")


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[SqliteSessionService]:
    """A store with an invocation that waits in each of two apps."""
    service = SqliteSessionService(tmp_path / "sessions.db")
    await pause(service, ONE, "i", confirming("i"))
    await pause(service, TWO, "k", working("k"))
    yield service
    await service.close()


async def pause(service: SessionLog, key: SessionKey, invocation: str, events: list[Event]) -> None:
    """Store an invocation that has said these events, and pause it."""
    epoch = await run(service, key, invocation, events)
    await service.pause_invocation(key, invocation_id=invocation, epoch=epoch)


async def run(service: SessionLog, key: SessionKey, invocation: str, events: list[Event]) -> int:
    """Store a running invocation that has said these events; return its epoch."""
    first = Event(id=f"{invocation}.0", invocation_id=invocation, author="user", timestamp=1.0)
    record = await service.open_invocation(
        key,
        invocation_id=invocation,
        lease_owner="temporal:d:r:w",
        user_event=first,
        create_session=True,
    )
    for event in events:
        event.timestamp = event.timestamp or 1.0
        await service.commit_event(key, event, invocation_id=invocation, epoch=record.epoch)
    return record.epoch


async def found(service: SessionLog, **where: str) -> list[str]:
    """Tools that are waited for."""
    return sorted(
        item.call.original_name for item in await find_pending_calls(service, Where(**where))
    )


async def test_what_waits_is_found_in_every_app_and_session(sessions):
    """D9: the store is enough to know; each part of the place narrows the search."""
    assert await found(sessions) == ["order", "pay"]
    assert await found(sessions, app="app") == ["pay"]
    assert await found(sessions, user="v") == ["order"]
    assert await found(sessions, session="two", user="u") == []


async def test_an_invocation_waits_only_while_it_is_paused(sessions):
    """What has ended waits for nobody."""
    (item,) = await pending_calls_of(sessions, ONE, "i")
    await sessions.close_invocation(
        ONE, invocation_id="i", epoch=item.record.epoch, status=Status.ABANDONED
    )
    assert await pending_calls_of(sessions, ONE, "i") == []
    assert await found(sessions) == ["order"]


class Changing(InMemorySessionService):
    """Makes a change after its first page of invocations."""

    def __init__(self, change: Callable[[SessionLog], Awaitable[object]]) -> None:
        """Take what the change does."""
        super().__init__()
        self.changes = [change]

    async def invocations_by_time(
        self, **options: Any
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        """Read the page, then make the change."""
        found = await super().invocations_by_time(**options)
        while self.changes:
            await self.changes.pop()(self)
        return found


async def test_a_call_is_found_while_its_invocation_pauses() -> None:
    """D9: an invocation that pauses during the search has been open all the time."""
    service = Changing(lambda log: log.pause_invocation(ONE, invocation_id="i", epoch=1))
    await run(service, ONE, "i", working("i"))
    assert await found(service) == ["order"]
    record = await service.get_invocation(ONE, "i")
    assert record is not None
    assert record.status is Status.PAUSED


async def test_an_invocation_is_found_while_it_is_resumed() -> None:
    """One that is answered during the search is not passed over for another open one."""
    answer = Event(id="a", invocation_id="i-1", author="user", timestamp=1.0)
    service = Changing(
        lambda log: log.resume_invocation(
            ONE, invocation_id="i-1", lease_owner="temporal:d:r:w", user_event=answer
        )
    )
    await pause(service, ONE, "i-1", working("i-1"))
    await pause(service, TWO, "i-2", working("i-2"))
    with pytest.raises(InvalidRequestError, match="Several ids"):
        await find_invocation(service, Where(), "i-")
    record = await service.get_invocation(ONE, "i-1")
    assert record is not None
    assert record.status is Status.RUNNING


async def test_the_calls_that_wait_longest_are_found_among_many() -> None:
    """D9: an approval that has waited for a month is listed, however many came after it."""
    service = InMemorySessionService()
    keys = [SessionKey("app", f"u{n}", f"s{n}") for n in range(1101)]
    for n, key in enumerate(keys):
        await pause(service, key, f"i{n}", working(f"i{n}"))
    waiting = await find_pending_calls(service, Where())
    assert {item.key for item in waiting} == set(keys)
    for where in (
        Where(session="s0"),
        Where(user="u0"),
        Where(app="app", session="s0", user="u0"),
    ):
        (item,) = await find_pending_calls(service, where)
        assert (item.key, item.call.call_id) == (keys[0], "i0-order")


async def test_an_invocation_is_found_by_the_beginning_of_its_id(sessions):
    """One that can be cancelled comes before those that have ended; nothing typed is no id."""
    await pause(sessions, ONE, "i-2", working("i-2"))
    (first, last) = [item.record for item in await find_pending_calls(sessions, Where(app="app"))]
    assert (await find_invocation(sessions, Where(), "i"))[0] == ONE  # the whole id
    await sessions.close_invocation(
        ONE, invocation_id="i", epoch=first.epoch, status=Status.ABANDONED
    )
    assert await find_invocation(sessions, Where(), "i") == (ONE, last)
    await sessions.close_invocation(
        ONE, invocation_id="i-2", epoch=last.epoch, status=Status.ABANDONED
    )
    key, record = await find_invocation(sessions, Where(session="one"), "i-")
    assert (key, record.invocation_id, record.status) == (ONE, "i-2", Status.ABANDONED)
    for start, where in (
        ("", Where()),
        ("i", Where(session="two")),
        ("x", Where()),
    ):
        with pytest.raises(InvalidRequestError, match="No invocation"):
            await find_invocation(sessions, where, start)


def test_a_beginning_is_enough_if_it_is_one_items():
    """The id itself wins over what it begins; what fits none or several is refused."""
    items = [("adk-1", ONE, "a"), ("adk-12", ONE, "b"), ("adk-3", TWO, "c")]
    assert pick(items, "adk-1", "call") == "a"
    assert pick(items, "adk-3", "call") == "c"
    for start, words in (
        ("adk-", "Several ids"),
        ("", "No pending call"),
        ("x", "No pending call"),
    ):
        with pytest.raises(InvalidRequestError, match=words):
            pick(items, start, "pending call")
    with pytest.raises(InvalidRequestError, match="'one' of user 'u', 'two' of user 'v'"):
        pick([("same", ONE, "a"), ("same", TWO, "b")], "same", "call")


def test_a_short_id_picks_what_it_was_made_of():
    """Whatever the ids are, what is shown finds them again."""
    names = ["adk-00000000-1", "adk-00000000-2", "call", "call-1", "adk-00000001"]
    for name in names:
        shown = short(name, names)
        assert pick([(other, ONE, other) for other in names], shown, "call") == name
    assert short("adk-00000001", names) == "adk-00000001"
    assert short("adk-12345678-9", ["adk-12345678-9"]) == "adk-12345678"


def test_a_printed_command_can_be_pasted(tmp_path: Path) -> None:
    """It names where the app was last loaded from, as no other worker may run its agent."""

    async def make() -> None:
        service = SqliteSessionService(tmp_path / "sessions.db")
        await pause(service, ONE, "i", confirming("i"))
        await service.close()

    asyncio.run(make())
    (tmp_path / "targets.json").write_text('{"app": "/agents/my agent", "gone": "x"}')
    done = CliRunner().invoke(program, ["pending", "--data-dir", str(tmp_path)])
    assert done.exit_code == 0, done.output
    command = shlex.split(re.findall("durable-adk approve .*", done.stdout)[0])
    assert command[3:] == ["--data-dir", str(tmp_path), "--target", "/agents/my agent"]


@pytest.mark.parametrize(("name", "why"), [("bad.db", "not a database"), ("", "is a folder")])
def test_a_store_that_cannot_be_opened_is_named(tmp_path: Path, name: str, why: str) -> None:
    """A person knows which file to look at."""
    (tmp_path / "bad.db").write_text("hello")
    done = CliRunner().invoke(program, ["sessions", "--store", str(tmp_path / name)])
    assert done.exit_code == 1
    assert str(tmp_path / name) in done.stderr
    assert why in done.stderr


def test_a_question_shows_what_it_asks(tmp_path: Path) -> None:
    """Its message, its payload and the schema of the answer, and the command that answers it."""
    asked = request_input_event(
        RequestInput(interrupt_id="q" * 20, message="Good?", payload={"n": 1}, response_schema=bool)
    )
    asked.id, asked.invocation_id, asked.author, asked.timestamp = "m.1", "m", "wf", 1.0

    async def make() -> None:
        service = SqliteSessionService(tmp_path / "sessions.db")
        await pause(service, ONE, "m", [asked])
        await service.close()

    asyncio.run(make())
    shown = CliRunner().invoke(program, ["pending", "--data-dir", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "waiting for an answer: Good?" in shown.output
    assert re.search(r"payload +\{\"n\": 1\}", shown.output)
    assert re.search(r"schema +\{\"type\": \"boolean\"\}", shown.output)
    assert """durable-adk respond qqqqqqqqqqqq '{"result": true}'""" in shown.output
