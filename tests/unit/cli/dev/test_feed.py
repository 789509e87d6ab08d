"""What happens in all sessions, in order."""

import asyncio
import io
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.cli.dev import feed as feed_module
from durable_adk.cli.dev.feed import SessionsFeed, _Invocation
from durable_adk.cli.dev.lines import Lines
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from durable_adk.sessions import SessionKey
from durable_adk.sessions.records import InvocationRecord
from durable_adk.tools import FunctionTool
from tests.support.waiting import PATIENCE, until


def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


@pytest.fixture
def screen(monkeypatch) -> io.TextIOWrapper:
    monkeypatch.setenv("DURABLE_ADK_LOG", "console")
    return io.TextIOWrapper(io.BytesIO(), write_through=True)


@pytest.fixture
def runner():
    tool = FunctionTool(refund, require_confirmation=True)
    return InMemoryRunner(LlmAgent(name="till", model="offline", tools=[tool]), app_name="till")


@pytest.fixture
def feed(runner, screen, tmp_path) -> SessionsFeed:
    lines = Lines(file=screen)
    lines.align(["till"])
    log = tmp_path / "worker.log"
    made = SessionsFeed(runner.session_service, lines, log=log, options=["--store", "s.db"])
    made.apps = ["till"]
    return made


async def ask(runner, message, session="s") -> None:
    await runner.session_service.create_session(app_name="till", user_id="me", session_id=session)
    async for _ in runner.run_async(user_id="me", session_id=session, new_message=message):
        pass


@asynccontextmanager
async def running(feed: SessionsFeed) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Run a feed, and get what waits until it has written all that it received, and once more."""
    rounds, say = 0, feed._write_running_steps

    def counted() -> None:
        nonlocal rounds
        say()
        rounds += 1

    async def settle() -> None:
        await until(lambda: not feed._queue)
        enough = rounds + 3  # one may be under way; what is said twice is so in the next one
        await until(lambda: rounds >= enough)

    feed._write_running_steps = counted
    task = asyncio.create_task(feed.run())
    yield settle
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def written(screen: io.TextIOWrapper) -> list[str]:
    """The lines so far, without time and session."""
    return [line[24:] for line in screen.buffer.getvalue().decode().splitlines()]


async def shown(feed: SessionsFeed, screen: io.TextIOWrapper) -> list[str]:
    """The lines of a feed that runs for a while."""
    async with running(feed) as settle:
        await settle()
    return written(screen)


async def test_a_request_is_shown_with_the_commands_that_answer_it(runner, feed, screen):
    """Once, in the place of the events that ask for it, and with the options of the store."""
    await ask(runner, "Refund order 7.")
    user, call, waits, approve, reject = await shown(feed, screen)
    assert user == "user  Refund order 7."
    assert call == 'till  calls refund(order="7")'
    assert waits == '      waits for approval of refund(order="7")'
    assert approve.split()[:3] == ["approve", "durable-adk", "approve"]
    assert approve.endswith("--store s.db")
    assert reject.split()[0] == "reject"


async def test_only_invocations_that_have_changed_are_read(runner, feed, screen, monkeypatch):
    """Many may be open for days, and a feed looks several times a second."""
    key = SessionKey("till", "me", "of days ago")
    feed._open |= {f"i{n}": _Invocation(key) for n in range(50)}

    async def read(key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        assert key.session_id == "s"
        return await found(key, invocation_id)

    found = runner.session_service.get_invocation
    monkeypatch.setattr(runner.session_service, "get_invocation", read)
    await ask(runner, "Refund order 7.")
    assert len(await shown(feed, screen)) == 5


async def test_a_change_is_found_among_many(runner, feed, screen, monkeypatch):
    """Also where more have changed than one page of the store's listing has."""
    monkeypatch.setattr(feed_module, "_PAGE", 1)
    for session in ("s", "t"):
        await ask(runner, "Refund order 7.", session)
    lines = await shown(feed, screen)
    assert sum("waits for approval" in line for line in lines) == 2


async def test_what_was_there_before_is_not_shown(runner, screen, tmp_path):
    """Only what is committed from the start on."""
    await ask(runner, "Refund order 7.")
    feed = SessionsFeed(
        runner.session_service, Lines(file=screen), log=tmp_path / "log", options=[]
    )
    feed.apps = ["till"]
    assert await shown(feed, screen) == []


async def test_an_attempt_that_failed_is_shown_with_its_places(feed, screen):
    """A step that is retried says why, and where in the user's code; the last has its event."""
    step = {"app": "till", "session": "s", "invocation_id": "i", "level": "info", "agent": "till"}
    failed = {**step, "event": "attempt.failed", "activity": "call_tool", "attempt": 1}
    failed |= {"error_type": "ConnectionError", "error_at": ["agent.py:7 in refund"]}
    feed.enqueue(time.time(), {**failed, "final": False})
    feed.enqueue(time.time(), {**failed, "final": True})
    said, place = await shown(feed, screen)
    assert said == "till  attempt 1 of call_tool failed: ConnectionError"
    assert place.split() == ["at", "agent.py:7", "in", "refund"]


async def test_a_slow_step_is_shown_while_it_runs(feed, screen, monkeypatch):
    """After its time, once; a fast one shows itself by its event alone."""
    monkeypatch.setattr(feed_module, "_SLOW", 10 * PATIENCE)
    step = {"app": "till", "session": "s", "invocation_id": "i", "level": "debug", "agent": "till"}
    started = {**step, "event": "step.started", "step": "call_tool"}
    for name, event_id in (("slow", "i.1"), ("fast", "i.2")):
        feed.enqueue(time.time(), {**started, "event_id": event_id, "summary": name})
    feed.enqueue(time.time(), {**step, "event": "step.ended", "event_id": "i.2"})
    async with running(feed) as settle:
        await settle()
        assert written(screen) == []
        monkeypatch.setattr(feed_module, "_SLOW", 0.0)
        await settle()
    assert written(screen) == ["till  slow runs"]


async def test_prints_and_logs_are_kept_in_the_log_and_steps_are_not(feed, screen, tmp_path):
    """`worker.log` has what the worker has printed and logged at its level."""
    feed.enqueue(time.time(), b"printed\n")
    feed.enqueue(time.time(), {"event": "step.ended", "level": "debug"})
    feed.enqueue(time.time(), {"event": "worker.started", "level": "info"})
    await shown(feed, screen)
    log = (tmp_path / "worker.log").read_text()
    assert log == 'printed\n{"event": "worker.started", "level": "info"}\n'


@pytest.mark.thorough
async def test_an_end_comes_after_the_last_event_with_its_tokens(screen, tmp_path):
    """The end of an invocation is one line: how, after how long, and what it cost."""
    model = ScriptedModel(replies=["Hello."])
    runner = InMemoryRunner(LlmAgent(name="till", model=model), app_name="till")
    feed = SessionsFeed(
        runner.session_service, Lines(file=screen), log=tmp_path / "log", options=[]
    )
    feed.apps = ["till"]
    await ask(runner, "Hi")
    user, answer, end = await shown(feed, screen)
    assert (user, answer.split("  ")[1]) == ("user  Hi", "Hello.")
    assert re.match(r"completed after \d", end.strip())
    # One that began before `dev` did is not as old as what was seen of it.
    key = SessionKey("till", "me", "s")
    ((_, record),) = await runner.session_service.invocations_by_time(app_name="till", limit=1)
    (first, *_) = await runner.session_service.read_events(key)
    record = record.model_copy(update={"update_time": first.event.timestamp + 120.2})
    await feed._ended(_Invocation(key), record)
    assert "completed after 120.2 s" in screen.buffer.getvalue().decode()
