"""The summary that is made after an invocation has ended."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.genai import types

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation import compact
from durable_adk.agents import LlmAgent
from durable_adk.apps import App, AppRegistry, EventsCompactionConfig
from durable_adk.errors import StoreUnavailableError
from durable_adk.events import Event, EventActions
from durable_adk.models import ScriptedModel
from durable_adk.sessions import InMemorySessionService, SessionKey, Status
from durable_adk.sessions.session import Session
from durable_adk.wire.steps import CompactStep
from tests.support.summaries import Teller
from tests.support.waiting import PATIENCE, until

KEY = SessionKey("app", "u", "s")
IDS = {"app_name": "app", "user_id": "u", "session_id": "s"}
STEP = CompactStep(
    key=KEY, invocation_id="e-1", revision=1, timestamp=9.0, attempt_timeout=PATIENCE
)

Meanwhile = Callable[[InMemorySessionService], Awaitable[None]]


class Disturbed(InMemorySessionService):
    """A store in which something else happens just before each append, while there is any."""

    def __init__(self, *meanwhile: Meanwhile) -> None:
        super().__init__()
        self.meanwhile = list(meanwhile)

    async def append_event(self, session: Session, event: Event) -> Event:
        """See the base class."""
        if self.meanwhile:
            await self.meanwhile.pop(0)(self)
        return await super().append_event(session, event)


def message(invocation_id: str) -> Event:
    """A user's event."""
    content = types.Content(role="user", parts=[types.Part(text=f"to {invocation_id}")])
    return Event(
        id=f"{invocation_id}.0",
        invocation_id=invocation_id,
        author="user",
        timestamp=1.0,
        content=content,
    )


async def run(sessions: InMemorySessionService, invocation_id: str) -> None:
    """A whole invocation, of one message."""
    ids = {"invocation_id": invocation_id}
    record = await sessions.open_invocation(
        KEY, **ids, lease_owner="h", user_event=message(invocation_id), create_session=True
    )
    await sessions.close_invocation(KEY, **ids, epoch=record.epoch, status=Status.COMPLETED)


async def noted(sessions: InMemorySessionService, **fields: Any) -> None:
    """Append an event from outside."""
    session = await sessions.get_session(**IDS)
    assert session
    await InMemorySessionService.append_event(sessions, session, Event(author="user", **fields))


def deps(sessions: InMemorySessionService, teller: Teller | None) -> Dependencies:
    """The app that has its sessions summarised after every invocation, or is not to be."""
    config = teller and EventsCompactionConfig(
        compaction_interval=1, overlap_size=0, summarizer=teller
    )
    agent = LlmAgent(name="a", model=ScriptedModel())
    app = App(name="app", root_agent=agent, events_compaction_config=config)
    return Dependencies(registry=AppRegistry([app]), sessions=sessions)


async def compaction_of_another() -> dict[str, Any]:
    """The fields of a summary that another attempt has made, with its own words."""
    sessions = InMemorySessionService()
    await run(sessions, "e-1")
    await compact.compact(deps(sessions, Teller()), STEP)
    event = (await sessions.read_events(KEY))[-1].event
    assert event.actions.compaction
    event.actions.compaction.compacted_content.parts = [types.Part(text="other words")]
    return {"id": event.id, "invocation_id": event.invocation_id, "actions": event.actions}


async def ids(sessions: InMemorySessionService) -> list[str]:
    """The ids of what is stored."""
    return [item.event.id for item in await sessions.read_events(KEY)]


async def test_a_repeat_finds_the_summary() -> None:
    """I10: the attempt after a crash asks no model for what is stored."""
    sessions, teller = InMemorySessionService(), Teller()
    await run(sessions, "e-1")
    for _ in range(2):
        await compact.compact(deps(sessions, teller), STEP)
    assert await ids(sessions) == ["e-1.0", "e-1.compaction"]
    assert len(teller.asked) == 1


async def test_a_slower_attempt_leaves_the_first_ones_summary(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SSN-12: two attempts at once, with different words; the one that comes first counts."""
    first = await compaction_of_another()
    sessions = Disturbed(lambda own: noted(own, **first))
    await run(sessions, "e-1")
    await compact.compact(deps(sessions, Teller()), STEP)
    assert await ids(sessions) == ["e-1.0", "e-1.compaction"]
    assert "compaction.failed" not in caplog.text


async def test_other_events_that_come_meanwhile_are_no_matter() -> None:
    """CMP-2, SSN-30: stale is only the copy; the next message was stored just then."""
    sessions, teller = Disturbed(lambda own: run(own, "e-2")), Teller()
    await run(sessions, "e-1")
    await compact.compact(deps(sessions, teller), STEP)
    assert await ids(sessions) == ["e-1.0", "e-2.0", "e-1.compaction"]
    assert teller.asked == [["to e-1"]]


@pytest.mark.parametrize("moment", ["before", "asking", "appending"])
@pytest.mark.parametrize("what", ["summary", "rewind"])
async def test_what_counts_no_more_is_not_summarised(moment: str, what: str) -> None:
    """CMP-1, REW-1: another summary or a rewind has come since the invocation's end."""

    async def change(own: InMemorySessionService) -> None:
        if what == "rewind":
            await noted(own, actions=EventActions(rewind_before_invocation_id="e-1"))
        else:
            await run(own, "e-2")
            step = STEP.model_copy(update={"invocation_id": "e-2", "revision": 2})
            await compact.compact(deps(own, Teller()), step)

    sessions, teller = Disturbed(*([change] if moment == "appending" else [])), Teller()
    await run(sessions, "e-1")
    teller.go.clear()
    if moment == "before":
        await change(sessions)
    work = asyncio.ensure_future(compact.compact(deps(sessions, teller), STEP))
    if moment != "before":
        await until(lambda: teller.asked)
    if moment == "asking":
        await change(sessions)
    teller.go.set()
    await work
    assert "e-1.compaction" not in await ids(sessions)
    assert len(teller.asked) == (0 if moment == "before" else 1)


async def test_it_gives_up_on_a_session_that_never_rests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CMP-2: stale again and again is logged, and due again after the next invocation."""
    busy = [noted] * 99
    sessions = Disturbed(*busy)
    await run(sessions, "e-1")
    await compact.compact(deps(sessions, Teller()), STEP)
    assert len(sessions.meanwhile) == 99 - compact.ATTEMPTS
    assert "e-1.compaction" not in await ids(sessions)
    assert "compaction.failed" in caplog.text


async def test_a_deploy_may_take_the_config_away() -> None:
    """D6: an invocation that opened with it ends without a summary."""
    sessions = InMemorySessionService()
    await run(sessions, "e-1")
    await compact.compact(deps(sessions, None), STEP)
    assert await ids(sessions) == ["e-1.0"]


async def test_a_session_that_is_gone_is_none() -> None:
    """SSN-9: it was deleted between the end and the summary."""
    teller = Teller()
    await compact.compact(deps(InMemorySessionService(), teller), STEP)
    assert teller.asked == []


class Away(InMemorySessionService):
    """A store that does not answer."""

    async def get_invocation(self, *_: Any, **__: Any) -> Any:
        """See the base class."""
        raise StoreUnavailableError


@pytest.mark.parametrize("trouble", ["slow", "exit", "store", "size"])
async def test_nothing_that_goes_wrong_is_raised(
    trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    """CMP-2: a summarizer that hangs, exits or says too much, a store that is away."""

    def fail(_: int) -> bool:
        raise SystemExit

    sessions = Away() if trouble == "store" else InMemorySessionService()
    teller = Teller(failing=fail) if trouble == "exit" else Teller()
    await run(sessions, "e-1")
    step = STEP
    if trouble == "slow":
        teller.go.clear()
        step = STEP.model_copy(update={"attempt_timeout": 0.05})
    if trouble == "size":
        content = types.Content(role="model", parts=[types.Part(text="x" * 1_000_000)])
        await noted(sessions, id="big", invocation_id="e-1", content=content)
        await run(sessions, "e-2")
        step = STEP.model_copy(update={"invocation_id": "e-2", "revision": 2})
    await compact.compact(deps(sessions, teller), step)
    assert "compaction.failed" in caplog.text
    assert not any("compaction" in name for name in await ids(sessions))


async def test_a_cancellation_is_raised() -> None:
    """D11: a worker that shuts down gives the step to another one."""
    sessions, teller = InMemorySessionService(), Teller()
    await run(sessions, "e-1")
    teller.go.clear()
    work = asyncio.ensure_future(compact.compact(deps(sessions, teller), STEP))
    await until(lambda: teller.asked)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_the_summarizer_gets_copies() -> None:
    """TRAP-8: what it does to the events reaches nobody."""

    class Vandal(Teller):
        async def maybe_summarize_events(self, *, events: Any) -> Event | None:
            """See the base class."""
            made = await super().maybe_summarize_events(events=events)
            events[0].content.parts[0].text = "vandalised"
            return made

    sessions = InMemorySessionService()
    await run(sessions, "e-1")
    one = deps(sessions, Vandal())
    await compact.compact(one, STEP)
    cached = await one.cache.read(sessions, KEY, 1, "e-1")
    assert cached.events[0].text == "to e-1"
