"""Sessions that are summarised as they grow (CMP-1, CMP-2)."""

import asyncio
import logging
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.apps import EventsCompactionConfig
from durable_adk.client import workflow_id
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.models.llm_request import LlmRequest
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey
from tests.conftest import MakeRunner
from tests.support.scripts import gist, send, stored
from tests.support.summaries import Teller, summed
from tests.support.waiting import PATIENCE, until


def echo(request: LlmRequest) -> str:
    """Answer `re:` and the last message."""
    parts = request.contents[-1].parts or []
    return f"re:{parts[-1].text}"


def talker(**fields: Any) -> LlmAgent:
    """An agent that echoes."""
    return LlmAgent(name="talker", model=ScriptedModel(replies=echo), **fields)


def every(interval: int, teller: Teller | None, overlap: int = 0) -> EventsCompactionConfig:
    """A summary after so many invocations."""
    return EventsCompactionConfig(
        compaction_interval=interval, overlap_size=overlap, summarizer=teller
    )


def prompt(agent: LlmAgent) -> list[str]:
    """The texts of the last request."""
    assert isinstance(agent.model, ScriptedModel)
    contents = agent.model.requests[-1].contents
    return [part.text or "" for content in contents for part in content.parts or []]


async def done(runner: Runner, events: list[Event], client: Client) -> None:
    """Wait until whatever ran the invocation has ended."""
    name = events[0].invocation_id
    record = await runner.session_service.get_invocation(SessionKey("app", "u", "s"), name)
    assert record
    if record.lease_owner.startswith("local:"):
        await runner.close()
    else:
        key = SessionKey("app", "u", "s")
        result = await client.get_workflow_handle(workflow_id(key, name)).result()
        assert result["status"] == "completed"


async def test_a_summary_takes_the_place_of_what_it_covers(make_runner: MakeRunner) -> None:
    """CMP-1, TRAP-51: after two invocations they are summarised; nothing stored is touched."""
    agent, teller = talker(), Teller()
    runner = await make_runner(agent, events_compaction_config=every(2, teller))
    await send(runner, "one")
    before = await stored(runner)
    await send(runner, "two")
    events = await summed(runner, 1)
    assert events[: len(before)] == before
    assert [gist(event) for event in events] == [
        "user text one",
        "talker text re:one",
        "user text two",
        "talker text re:two",
        "user delta",
    ]
    summary = events[-1]
    assert summary.id == summary.invocation_id == f"{events[2].invocation_id}.compaction"
    assert summary.timestamp
    assert teller.asked == [["one", "re:one", "two", "re:two"]]
    assert [gist(event) for event in await send(runner, "three")] == ["talker text re:three"]
    assert prompt(agent) == ["sum:one-re:one-two-re:two", "three"]
    await send(runner, "four")
    await summed(runner, 2)
    assert teller.asked[1] == ["three", "re:three", "four", "re:four"]
    await send(runner, "five")
    summaries = ["sum:one-re:one-two-re:two", "sum:three-re:three-four-re:four"]
    assert prompt(agent) == [*summaries, "five"]


async def test_the_agents_own_model_summarises(make_runner: MakeRunner) -> None:
    """CMP-1: without a summarizer, the model of the first agent that has one is asked."""
    agent = talker()
    runner = await make_runner(agent, events_compaction_config=every(1, None))
    await send(runner, "one")
    (*_, summary) = await summed(runner, 1)
    assert summary.actions.compaction
    parts = summary.actions.compaction.compacted_content.parts or []
    assert "talker: re:one" in (parts[0].text or "")


async def test_the_next_message_cannot_overtake_the_summary(
    make_runner: MakeRunner, client: Client
) -> None:
    """CMP-2: the run ends after its summary is stored; a message sent meanwhile finds it."""
    agent, teller = talker(), Teller()
    runner = await make_runner(agent, events_compaction_config=every(1, teller))
    teller.go.clear()
    sessions = runner.session_service
    async with asyncio.timeout(PATIENCE):
        first = asyncio.ensure_future(send(runner, "one"))
        await until(lambda: teller.asked)
        second = asyncio.ensure_future(send(runner, "two"))
        await until(lambda: sessions.waiting(SessionKey("app", "u", "s")))
        assert not first.done()
        teller.go.set()
        assert [gist(event) for event in await first] == ["talker text re:one"]
        kept = await stored(runner)
        assert kept[2].compacted_event_ids
        events = await second
    assert prompt(agent) == ["sum:one-re:one", "two"]
    await done(runner, events, client)
    times = [event.timestamp for event in await stored(runner)]
    assert times == sorted(times)


async def test_a_failing_summarizer_fails_nothing(
    make_runner: MakeRunner, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """CMP-2: its error is logged and not raised; what was due is due after the next run."""
    teller = Teller(failing=lambda asked: asked == 1)
    runner = await make_runner(talker(), events_compaction_config=every(1, teller))
    with caplog.at_level(logging.WARNING):
        events = await send(runner, "one")
        assert [gist(event) for event in events] == ["talker text re:one"]
        await until(lambda: "compaction.failed" in caplog.text)
    said = str([vars(record) for record in caplog.records])
    assert "RuntimeError" in said or "ValueError" in said
    assert "no words for it" not in said
    assert len(await stored(runner)) == 2
    await send(runner, "two")
    await summed(runner, 1)
    assert teller.asked == [["one", "re:one"], ["one", "re:one", "two", "re:two"]]


async def test_other_apps_have_no_such_step(make_runner: MakeRunner, client: Client) -> None:
    """CMP-1: without a config, nothing is scheduled after the end."""
    runner = await make_runner(talker())
    (event,) = await send(runner, "one")
    name = event.invocation_id
    key = SessionKey("app", "u", "s")
    record = await runner.session_service.get_invocation(key, name)
    if record and not record.lease_owner.startswith("local:"):
        handle = client.get_workflow_handle(workflow_id(key, name))
        await handle.result()
        history = await handle.fetch_history()
        assert not any(
            item.activity_task_scheduled_event_attributes.activity_type.name == "compact"
            for item in history.events
        )
