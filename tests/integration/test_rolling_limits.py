"""Continue-as-new at the limits of what a workflow task may report, and of what it receives."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, ParallelAgent
from durable_adk.errors import StoreUnavailableError
from durable_adk.events import Event
from durable_adk.flows import continue_as_new
from durable_adk.models import ScriptedModel
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.settings import Limits
from durable_adk.wire.checkpoint import CHECKPOINT, Checkpoint
from tests.conftest import MakeRunner
from tests.integration.test_large_places import noise
from tests.integration.test_rolling import OFTEN, says, worker_agent
from tests.support.scripts import ensure_session, gist, send, stored
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.thorough

PAGES = 14


async def page() -> str:
    """A result of a step."""
    return noise(450_000)


class Reader(BaseAgent):
    """Reads pages and forgets each: nothing is large at any time but what it received in all."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for number in range(PAGES):
            yield says(self.name, f"{number} {len(await ctx.step(page))}")


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_body_that_was_given_much_is_brought_back(make_runner: MakeRunner) -> None:
    """D10, 1c: in several workflow tasks, of which each may report 4 MB."""
    limits = Limits(max_history_bytes=2_000_000)
    runner = await make_runner(Reader(name="r"), limits=limits)
    async with asyncio.timeout(PATIENCE):
        await send(runner)
    said = [gist(event) for event in await stored(runner)][1:]
    assert said == [f"r text {number} 450000" for number in range(PAGES)]


class Short(BaseAgent):
    """Has something large for a while, and ends."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        ctx.session.state["temp:x"] = noise(60_000)
        for _ in range(4):
            async for event in self.sub_agents[0].run_async(ctx):
                yield event
        ctx.session.state["temp:x"] = ""
        yield says(self.name, "small")


class Long(BaseAgent):
    """Asks its agent again and again."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for given in range(continue_as_new.RETRY_AFTER):
            async for event in self.sub_agents[0].run_async(ctx):
                yield event
            yield says(self.name, str(given))


def speaker(name: str) -> LlmAgent:
    """Says something."""
    return LlmAgent(name=name, model=ScriptedModel(replies=lambda _: "said"))


@pytest.mark.parametrize("make_runner", ["local"], indirect=True)
async def test_what_was_written_for_a_run_that_did_not_end_is_not_read_twice(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D10: the parts of traces are written again, when one of the bodies has ended."""
    check, refused = continue_as_new.check_size, []

    def smaller(text: str, what: str, *limit: int) -> None:
        if what.startswith("What the invocation"):
            refused.extend([1] if len(text) > 30_000 else [])
            limit = (30_000,)
        check(text, what, *limit)

    monkeypatch.setattr(continue_as_new, "check_size", smaller)
    agents: list[BaseAgent] = [
        Short(name="short", sub_agents=[speaker("a")]),
        Long(name="long", sub_agents=[speaker("b")]),
    ]
    runner = await make_runner(ParallelAgent(name="p", sub_agents=agents))
    runner._client.backend.roll_every = 1
    async with asyncio.timeout(PATIENCE):
        await send(runner)
    said = [gist(event) for event in await stored(runner) if event.author == "long"]
    assert said == [f"long text {given}" for given in range(continue_as_new.RETRY_AFTER)]
    assert refused


@pytest.mark.parametrize("make_runner", ["temporal-uncached"], indirect=True)
async def test_a_run_goes_on_from_the_place_that_was_written_by_whatever_release(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I13, F35: one worker has it written, and another one, of a release that writes more, ends it.

    The store is away at first, so there is a workflow task between the two.
    """
    note, to_json = SqliteSessionService.note, Checkpoint.to_json
    written: list[str] = []

    async def slow(self: SqliteSessionService, key: SessionKey, **options: Any) -> str:
        if options["kind"] == CHECKPOINT:
            written.append(options["name"])
            if len(written) == 1:
                raise StoreUnavailableError
        return await note(self, key, **options)

    def newer(self: Checkpoint) -> str:
        more = {"addedByTheNextRelease": 1} if len(written) > 1 else {}
        return json.dumps(json.loads(to_json(self)) | more)

    monkeypatch.setattr(SqliteSessionService, "note", slow)
    monkeypatch.setattr(Checkpoint, "to_json", newer)
    runner = await make_runner(worker_agent(), limits=OFTEN)
    async with asyncio.timeout(PATIENCE):
        await send(runner)
    assert len(written) > 1
    assert gist((await stored(runner))[-1]) == "worker text worker is done"


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
@pytest.mark.parametrize("encoding", [b"json/protobuf", b"binary/acme", b"json/plain"])
async def test_the_memo_of_others_goes_along(
    make_runner: MakeRunner, client: Client, encoding: bytes
) -> None:
    """D10, D18: whether our worker could read it or not."""
    runner = await make_runner(worker_agent(steps=6), limits=OFTEN)
    await ensure_session(runner)
    metadata = {"encoding": encoding, "messageType": b"acme.v1.Ticket"}
    memo: dict[str, Any] = {"theirs": RawValue(Payload(metadata=metadata, data=b'{"a":1}'))}
    handle = await client.start_workflow(
        "Invocation",
        {"app": "app", "user": "u", "session": "s", "message": "one"},
        id=f"memo-{uuid.uuid4().hex}",
        task_queue=runner._client.backend._invocations.task_queue,
        memo=memo,
    )
    assert (await asyncio.wait_for(handle.result(), PATIENCE))["status"] == "completed"
    description = await handle.describe()
    assert description.raw_description.workflow_execution_info.memo.fields["theirs"].data
    assert description.raw_info.first_run_id != description.run_id
