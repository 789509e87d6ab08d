"""Temporal that is put back to how it was, while the session store remembers what came after."""

import asyncio
import math
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from google.genai import types
from temporalio.client import WorkflowExecutionStatus

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.conversation.pending_calls import pending_calls
from durable_adk.embedded import TemporalServer
from durable_adk.errors import DurableAdkError, InvocationTerminatedError
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.ops.doctor.findings import Kind
from durable_adk.runners import Runner
from durable_adk.sessions import Status
from durable_adk.tools import FunctionTool
from durable_adk.worker import WorkerOptions, worker
from tests.support.clinic import Clinic
from tests.support.dumps import copy
from tests.support.replay import replay_all
from tests.support.scripts import call, calls, gist
from tests.support.waiting import PATIENCE, until

ONE = "one"
"""The invocation of each app, in its session `s`."""


class Body(BaseAgent):
    """A custom agent, so that the loop commits what its sub-agent does."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


def walkers(clinic: Clinic) -> dict[str, App]:
    """Agents whose tool waits, each time for a file."""

    async def door(which: str) -> str:
        """Wait until the door is open."""
        clinic.traces.note("door", which)
        await until((clinic.folder / which).exists, patience=math.inf)
        return which

    async def gate(which: str) -> str:
        """Wait as at a door, where somebody has to let you in besides."""
        return await door(which)

    def walker(name: str, *replies: types.Content) -> LlmAgent:
        log = clinic.folder / f"asked-{name}"
        model = ScriptedModel(log=log, replies=[*replies, "Through.", "Again."])
        tools = [door, FunctionTool(gate, require_confirmation=True)]
        return LlmAgent(name="walker", model=model, tools=tools)

    first, last = call("door", which="first"), call("door", which="last")
    side = calls(("door", {"which": "first"}), ("door", {"which": "first"}))
    agents: dict[str, BaseAgent] = {
        "ended": walker("ended", first),
        "side": walker("side", side),
        "cancelled": walker("cancelled", call("door", which="never")),
        "open": walker("open", first, last),
        "body": Body(name="body", sub_agents=[walker("body", first, first, last)]),
        "answered": walker("answered", call("gate", which="first")),
        "asked": walker("asked", first, call("gate", which="last")),
        "paused": walker("paused", call("gate", which="first")),
        "new": walker("new"),
        "newly open": walker("newly-open", last),
    }
    return {name: App(name=name.replace(" ", "_"), root_agent=a) for name, a in agents.items()}


@dataclass
class Past:
    """A Temporal server whose file can be put back, and a store that is not."""

    folder: Path
    clinics: list[Clinic] = field(default_factory=list[Clinic])

    @property
    def data(self) -> Path:
        """The server's folder."""
        return self.folder / "temporal"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Clinic]:
        """The server, over its file as it is, and the patient."""
        async with TemporalServer.start(data_dir=self.data, headless=True) as server:
            client = await connect(server.address)
            if not self.clinics:
                self.clinics.append(Clinic(self.folder, client, server.address))
                apps = walkers(self.clinics[0]).values()
                self.clinics[0].apps |= {app.name: app for app in apps}
            clinic = self.clinics[0]
            clinic.client, clinic.address = client, server.address
            yield clinic

    def remember(self) -> None:
        """Make a backup of the server's file."""
        copy(self.data / "temporal.db", self.folder / "backup")

    def restore(self) -> None:
        """Put the backup in its place; the server must not run."""
        for suffix in ("-wal", "-shm"):
            (self.data / f"temporal.db{suffix}").unlink(missing_ok=True)
        shutil.copy(self.folder / "backup", self.data / "temporal.db")


@pytest.fixture
async def past(tmp_path: Path) -> AsyncIterator[Past]:
    """A server that has not been started yet."""
    made = Past(tmp_path)
    yield made
    for clinic in made.clinics:
        await clinic.store.close()


@asynccontextmanager
async def working(clinic: Clinic) -> AsyncIterator[None]:
    """A worker that leaves at once what it is doing when it has to end."""
    options = WorkerOptions(task_queue=clinic.user, graceful_shutdown=timedelta(seconds=0.1))
    apps = list(clinic.apps.values())
    async with worker(clinic.client, apps=apps, session_service=clinic.store, options=options):
        yield


def runner(clinic: Clinic, app: str) -> Runner:
    """A client."""
    return Runner(
        app=clinic.apps[app],
        session_service=clinic.store,
        client=clinic.client,
        task_queue=clinic.user,
    )


async def approve(clinic: Clinic, app: str) -> list[Event]:
    """Approve the call that waits, and follow what comes of it."""
    stored = await clinic.store.read_events(clinic.key(app))
    (waiting,) = pending_calls(item.event for item in stored)
    answer = types.FunctionResponse(
        id=waiting.call_id, name=waiting.name, response={"confirmed": True}
    )
    message = types.Content(role="user", parts=[types.Part(function_response=answer)])
    async with runner(clinic, app) as client:
        ids = {"user_id": clinic.user, "session_id": "s"}
        return [event async for event in client.run_async(**ids, new_message=message)]


def entered(clinic: Clinic, door: str) -> int:
    """How often a tool began to wait for a door."""
    return sum(run["key"] == door for run in clinic.traces.runs("door"))


def asked(clinic: Clinic) -> int:
    """How often a model was asked."""
    return sum(len(path.read_text().splitlines()) for path in clinic.folder.glob("asked-*"))


async def log(clinic: Clinic, app: str) -> list[str]:
    """The session's events in a few words."""
    return [gist(item.event) for item in await clinic.store.read_events(clinic.key(app))]


async def status(clinic: Clinic, app: str) -> Status | None:
    """How far the store says that the invocation is."""
    record = await clinic.store.get_invocation(clinic.key(app), ONE)
    return record and record.status


async def closed(clinic: Clinic, app: str) -> bool:
    """Whether the workflow has ended."""
    description = await clinic.workflow(app, ONE).describe()
    return description.status is not WorkflowExecutionStatus.RUNNING


async def test_what_the_store_has_is_not_done_again(past: Past) -> None:
    """F38, I1, I8, I10, I15: steps that Temporal has forgotten find what became of them.

    Ended, cancelled, side by side, committed by the step or by the loop: no model is asked and no
    tool is run for what is stored; nothing of a run that has ended is begun. Those that were open
    when Temporal was lost continue.
    """
    async with past.serving() as clinic, working(clinic):
        apps = ["ended", "side", "cancelled", "open", "body"]
        runs = [asyncio.create_task(clinic.run(app, ONE)) for app in apps]
        await until(lambda: entered(clinic, "first") == 5 and entered(clinic, "never"))
        past.remember()
        (clinic.folder / "first").touch()
        async with runner(clinic, "cancelled") as client:
            await client.cancel(user_id=clinic.user, session_id="s", invocation_id=ONE)
        await asyncio.wait(runs[:3], timeout=PATIENCE)
        await until(lambda: entered(clinic, "last") == 2)
        for run in runs[3:]:
            run.cancel()
    await asyncio.gather(*runs, return_exceptions=True)
    whole, began, questions = clinic.dump(), len(clinic.traces.runs()), asked(clinic)
    past.restore()
    async with past.serving() as clinic:
        async with working(clinic):
            for app in ("ended", "side", "cancelled"):
                await until(lambda app=app: closed(clinic, app))
            await until(lambda: len(clinic.traces.runs()) == began + 2)
            assert clinic.dump() == whole
            assert (entered(clinic, "last"), asked(clinic)) == (4, questions)
            (clinic.folder / "last").touch()
            for app in ("open", "body"):
                await asyncio.wait_for(clinic.workflow(app, ONE).result(), PATIENCE)
                assert (await log(clinic, app))[-3:] == [
                    "walker call door",
                    "walker response door",
                    "walker text Through.",
                ]
            assert asked(clinic) == questions + 2
            for app in apps:
                assert gist((await clinic.run(app, "next"))[-1]).startswith("walker text")
        assert await clinic.findings() == []
        await replay_all(clinic.client)


async def test_an_answer_that_temporal_has_forgotten_is_given_again(past: Past) -> None:
    """F38, I16, I24: a run that waits for what is answered is found; the doctor has it continue.

    Also if Temporal has forgotten that it was asked. One that has ended since is ended. The session
    is free again, and the answer counts once.
    """
    async with past.serving() as clinic, working(clinic):
        for app in ("answered", "paused"):
            await clinic.run(app, ONE)
        run = asyncio.create_task(clinic.run("asked", ONE))
        await until(lambda: entered(clinic, "first"))
        past.remember()
        (clinic.folder / "first").touch()
        await approve(clinic, "answered")
        await run
        late = asyncio.create_task(approve(clinic, "asked"))
        await until(lambda: entered(clinic, "last"))
        late.cancel()
    await asyncio.gather(late, return_exceptions=True)
    questions = asked(clinic)
    past.restore()
    async with past.serving() as clinic:
        async with working(clinic):
            found = await _settled(clinic, 2)
            assert [(kind, app) for kind, app, _ in found] == [
                (Kind.BEHIND, "answered"),
                (Kind.BEHIND, "asked"),
            ]
            before = await log(clinic, "asked")
            waiting = asyncio.create_task(clinic.run("asked", "next"))
            await clinic.mend()
            (clinic.folder / "last").touch()
            await asyncio.wait_for(clinic.workflow("asked", ONE).result(), PATIENCE)
            assert gist((await asyncio.wait_for(waiting, PATIENCE))[-1]) == "walker text Again."
            assert (await log(clinic, "asked"))[: len(before) + 2] == [
                *before,
                "walker response gate",
                "walker text Through.",
            ]
            assert await closed(clinic, "answered")
            assert await status(clinic, "answered") is Status.COMPLETED
            assert asked(clinic) == questions + 2
            # What was not answered waits as before.
            assert gist((await approve(clinic, "paused"))[-1]) == "walker text Through."
        assert await clinic.findings() == []
        await replay_all(clinic.client)


async def _settled(clinic: Clinic, count: int) -> list[tuple[Kind, str, str | None]]:
    """What the doctor finds once nothing moves any more."""
    found: list[tuple[Kind, str, str | None]] = []

    async def complete() -> bool:
        findings = await clinic.findings(busy=True)
        found[:] = sorted((one.kind, one.app, one.invocation_id) for one in findings)
        return len(found) == count

    await until(complete)
    return found


async def test_what_temporal_has_never_heard_of_has_its_stored_outcome(past: Past) -> None:
    """F38, I12, I24: sent again under its id, an ended one has its outcome; an open one is ended.

    The doctor shows those, and the next message of their sessions does not wait for them.
    """
    async with past.serving() as clinic, working(clinic):
        await clinic.run("charge", ONE)
        past.remember()
        told = await clinic.run("new", ONE)
        await clinic.run("paused", ONE)
        run = asyncio.create_task(clinic.run("newly_open", ONE))
        await until(lambda: entered(clinic, "last"))
        queued = asyncio.create_task(clinic.run("newly_open", "queued"))
        await until(lambda: _waits(clinic, "newly_open"))
        run.cancel()
        queued.cancel()
    await asyncio.gather(run, queued, return_exceptions=True)
    whole = clinic.dump()
    past.restore()
    async with past.serving() as clinic:
        found = await clinic.findings()
        assert {(one.kind, one.app) for one in found} == {
            (Kind.DEAD_HOLDER, "newly_open"),
            (Kind.DEAD_HOLDER, "paused"),
        }
        async with working(clinic):
            again = await asyncio.wait_for(clinic.run("new", ONE), PATIENCE)
            assert [event.to_json() for event in again] == [event.to_json() for event in told]
            assert (await clinic.workflow("new", ONE).result())["text"] == "Through."
            assert clinic.dump() == whole
            with pytest.raises(InvocationTerminatedError):
                await asyncio.wait_for(clinic.run("newly_open", ONE), PATIENCE)
            (clinic.folder / "last").touch()
            for app in ("newly_open", "paused"):
                with suppress(DurableAdkError):  # a tool call that is not approved
                    await asyncio.wait_for(clinic.run(app, "next"), PATIENCE)
            await clinic.mend()
        assert await status(clinic, "paused") is Status.ABANDONED
        assert [one.kind for one in await clinic.findings()] == []
        await replay_all(clinic.client)


async def _waits(clinic: Clinic, app: str) -> bool:
    return bool(await clinic.store.waiting(clinic.key(app)))
