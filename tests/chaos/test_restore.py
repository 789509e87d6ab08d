"""A session store that is put back to how it was, while Temporal remembers what came after."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError

from durable_adk.activities.commit import staleness
from durable_adk.activities.commit.staleness import StalenessCheck
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import create_schedule
from durable_adk.errors import SessionRegressedError
from durable_adk.events import Event
from durable_adk.graph.tool_node import ToolNode
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.ops.doctor.diagnosis import diagnose
from durable_adk.ops.doctor.findings import Kind
from durable_adk.ops.doctor.sources import Missing
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey
from durable_adk.settings import Limits
from durable_adk.tools import AgentTool, FunctionTool
from durable_adk.wire.messages import InvocationRequest
from durable_adk.worker import WorkerOptions, worker
from tests.support.clinic import Clinic
from tests.support.dumps import Dump, copy, restore
from tests.support.own_server import own_client
from tests.support.scripts import call, calls, gist
from tests.support.waiting import PATIENCE, until

UNTOLD = {"sessions": {"create_time", "update_time"}, "invocations": {"update_time"}}
"""What no history tells to the millisecond: when the store was written to, by its own clock."""
HOUR = 3600.0


@pytest.fixture(scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """Of a server with nothing else on it."""
    async with own_client(tmp_path_factory.mktemp("own")) as connected:
        yield connected


@pytest.fixture
async def clinic(tmp_path: Path, client: Client) -> AsyncIterator[Clinic]:
    """A store, and no worker yet."""
    opened = Clinic(tmp_path, client, client.service_client.config.target_host)
    opened.traces.open_gate()
    yield opened
    await opened.store.close()


def assert_same(found: Dump, expected: Dump, *, by: float) -> None:
    """Every row and every column; the times that are untold are not those of the repair.

    Args:
        found: What was put back.
        expected: What was there.
        by: When it was there, in seconds since the epoch; the repair came later.
    """
    for table, rows in expected.items():
        untold = UNTOLD.get(table, set[str]())
        told = [_without(row, untold) for row in found[table]]
        assert told == [_without(row, untold) for row in rows], table
        assert all(by - HOUR < row[name] <= by for row in found[table] for name in untold)


def _without(row: dict[str, Any], columns: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in columns}


async def test_what_a_backup_lacks_is_put_back_as_it_was(clinic: Clinic) -> None:
    """F37, I21: ten invocations after the backup, in old and new sessions; then all as before."""
    backup = clinic.folder / "backup.db"
    async with clinic.working():
        await clinic.run("charge", "first")
        await clinic.run("burst", "first")
        copy(clinic.file, backup)
        for number, app in enumerate(["charge", "burst", "count", "audited", "triple"]):
            await clinic.run(app, f"old-{number}")
            await clinic.run(app, f"new-{number}", "new")
    whole, by = clinic.dump(), time.time()
    restore(clinic.file, backup)
    found = await clinic.findings()
    assert [(one.kind, one.session) for one in found] == [(Kind.REGRESSED, "s")] * 2
    for app in ("charge", "burst", "count", "audited", "triple"):
        await clinic.mend(missing=Missing.LOST, app=app)
    assert await clinic.findings(missing=Missing.LOST) == []
    assert_same(clinic.dump(), whole, by=by)
    async with clinic.working():
        assert gist((await clinic.run("charge", "next"))[-1]) == "cashier text Charged."


def two_doors(clinic: Clinic) -> App:
    """An agent whose tools wait, each for a file of its own."""

    async def door(which: str) -> str:
        """Wait until the door is open."""
        clinic.traces.note(which, which)
        await until((clinic.folder / which).exists, patience=math.inf)
        return which

    replies = [call("door", which="first"), call("door", which="second"), "Through."]
    agent = LlmAgent(name="walker", model=ScriptedModel(replies=["Hello.", *replies]), tools=[door])
    return App(name="doors", root_agent=agent)


@pytest.mark.parametrize("moment", ["before the run", "within the run"])
async def test_a_run_waits_for_the_repair_and_then_goes_on(moment: str, clinic: Clinic) -> None:
    """I21, I1, I2: nothing is appended to the older store, and nothing of the run is lost.

    From within the run, the backup even says that the run holds the lease.
    """
    clinic.apps["doors"] = two_doors(clinic)
    key, backup = clinic.key("doors"), clinic.folder / "backup.db"
    async with clinic.working():
        await clinic.run("doors", "before")
        copy(clinic.file, backup)
        run = asyncio.create_task(clinic.run("doors", "one"))
        await until(lambda: clinic.traces.runs("first"))
        if moment == "within the run":
            copy(clinic.file, backup)
        (clinic.folder / "first").touch()
        await until(lambda: clinic.traces.runs("second"))
        whole = await clinic.store.read_events(key)
        restore(clinic.file, backup)
        older = clinic.dump()
        (clinic.folder / "second").touch()
        handle = clinic.workflow("doors", "one")
        await until(lambda: _says(handle, "durable-adk doctor"))
        assert clinic.dump() == older
        (finding,) = await clinic.findings()
        assert (finding.kind, finding.key) == (Kind.REGRESSED, key)
        await clinic.mend()
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        with suppress(SessionRegressedError):  # told if the repair took long
            await asyncio.wait_for(run, PATIENCE)
    stored = await clinic.store.read_events(key)
    assert stored[: len(whole)] == whole
    assert [gist(item.event) for item in stored[len(whole) :]] == [
        "walker response door",
        "walker text Through.",
    ]
    assert result["revision"] == len(stored)
    assert len(clinic.traces.runs()) == 2
    assert await clinic.findings() == []


async def test_a_new_message_waits_for_the_repair(clinic: Clinic) -> None:
    """F37, I21, I12: it is kept, and not answered as if what the store lacks had never been.

    Its sender is told what it waits for, and may follow it again under its id.
    """
    backup = clinic.folder / "backup.db"
    async with clinic.working():
        await clinic.run("charge", "first")
        copy(clinic.file, backup)
        await clinic.run("charge", "lost")
        await clinic.workflow("charge", "lost").result()
    whole = clinic.dump()
    restore(clinic.file, backup)
    async with clinic.working():  # anew, so that no memory of it is left
        with pytest.raises(SessionRegressedError, match="durable-adk doctor"):
            await asyncio.wait_for(clinic.run("charge", "next"), PATIENCE)
        assert [one.kind for one in await clinic.findings()] == [Kind.REGRESSED]
        await clinic.mend()
        events = await asyncio.wait_for(clinic.run("charge", "next"), PATIENCE)
        assert gist(events[-1]) == "cashier text Charged."
    log = await clinic.store.read_events(clinic.key("charge"))
    owners = [item.event.invocation_id for item in log]
    assert owners == ["first"] * 4 + ["lost"] * 4 + ["next"] * 4
    events = whole["events"]
    assert [row for row in clinic.dump()["events"] if row in events] == events


async def test_lost_sessions_do_not_hide_what_an_older_session_has_lost(clinic: Clinic) -> None:
    """I21: the newest invocations were in sessions that the backup has never had."""
    backup = clinic.folder / "backup.db"
    async with clinic.working():
        await clinic.run("charge", "first")
        copy(clinic.file, backup)
        await clinic.run("charge", "lost")
        for number in range(4):
            await clinic.run("charge", f"new-{number}", f"new-{number}")
        await until(lambda: _completed(clinic, 6))
    restore(clinic.file, backup)
    older = clinic.dump()
    async with clinic.working():
        with pytest.raises(SessionRegressedError, match="durable-adk doctor"):
            await asyncio.wait_for(clinic.run("charge", "next"), PATIENCE)
        assert clinic.dump() == older
        await clinic.mend(missing=Missing.LOST)
        await asyncio.wait_for(clinic.workflow("charge", "next").result(), PATIENCE)
    assert await clinic.findings() == []


async def test_messages_that_wait_go_on_when_all_is_put_back(clinic: Clinic) -> None:
    """I21: the store is not taken for mended when only what is newest in it has been put back."""
    backup, names = clinic.folder / "backup.db", ("lost-a", "lost-b", "last-a")
    async with clinic.working():
        for session in "ab":
            await clinic.run("charge", f"first-{session}", session)
        copy(clinic.file, backup)
        for name in names:
            await clinic.run("charge", name, name[-1])
        await until(lambda: _completed(clinic, 5))
    restore(clinic.file, backup)
    async with clinic.working():
        for session in "ab":
            with pytest.raises(SessionRegressedError):
                await asyncio.wait_for(clinic.run("charge", f"next-{session}", session), PATIENCE)
        first, *others = await diagnose(clinic.sources())
        assert (first.finding.session, first.remedy is None) == ("a", False)
        await first.remedy()
        for session in "ab":
            await asyncio.wait_for(clinic.run("charge", f"next-{session}", session), PATIENCE)
        for other in others:
            await other.remedy()
    for session in "ab":
        log = await clinic.store.read_events(clinic.key("charge", session))
        lost = [name for name in names if name.endswith(session)]
        owners = [f"first-{session}", *lost, f"next-{session}"]
        assert [item.event.invocation_id for item in log] == [one for one in owners for _ in "1234"]


async def test_an_app_that_has_lost_all_its_sessions_is_put_back_when_it_is_named(
    clinic: Clinic,
) -> None:
    """F37: of one that is not named nobody can say whose it is, as stores may share a Temporal."""
    backup = clinic.folder / "backup.db"
    async with clinic.working():
        await clinic.run("charge", "first")
        copy(clinic.file, backup)
        await clinic.run("burst", "lost")
    whole, by = clinic.dump(), time.time()
    restore(clinic.file, backup)
    code = list(clinic.apps.values())
    assert await clinic.findings(missing=Missing.LOST) == await clinic.findings(code=code) == []
    (finding,) = await clinic.findings(missing=Missing.LOST, code=code)
    assert (finding.kind, finding.app) == (Kind.REGRESSED, "burst")
    await clinic.mend(missing=Missing.LOST, code=code)
    assert_same(clinic.dump(), whole, by=by)


async def test_a_retry_does_not_get_by_a_store_that_was_put_back_meanwhile(clinic: Clinic) -> None:
    """I21: a worker that lives on has just found all in order, and so asks nobody for a while."""
    backup = clinic.folder / "backup.db"
    async with clinic.working():
        await clinic.run("charge", "first")
        copy(clinic.file, backup)
        await clinic.run("charge", "lost")
        await clinic.run("charge", "new", "new")
        await until(lambda: _completed(clinic, 3))
    staleness = StalenessCheck(clinic.client, clinic.store, clinic.user)
    await staleness.check(clinic.key("charge"))
    restore(clinic.file, backup)
    for _ in range(3):
        with pytest.raises(SessionRegressedError):
            await staleness.check(clinic.key("charge"))


async def test_sessions_that_were_deleted_make_no_store_an_older_one(clinic: Clinic) -> None:
    """I21: however many of the newest are gone, those that are left are as they were."""
    async with clinic.working():
        await clinic.run("charge", "first")
        for number in range(4):
            session = f"new-{number}"
            await clinic.run("charge", session, session)
            await clinic.store.delete_session(
                app_name="charge", user_id=clinic.user, session_id=session
            )
        await until(lambda: _completed(clinic, 5))
    staleness = StalenessCheck(clinic.client, clinic.store, clinic.user)
    await staleness.check(clinic.key("charge"))
    await clinic.store.delete_session(app_name="charge", user_id=clinic.user, session_id="s")
    await staleness.check(clinic.key("charge"))  # which knew the one that is gone now


async def _completed(clinic: Clinic, count: int) -> bool:
    """Whether Temporal lists them, which it does late."""
    query = f"TaskQueue = '{clinic.user}' AND ExecutionStatus = 'Completed'"
    return (await clinic.client.count_workflows(query)).count == count


async def test_what_may_have_begun_is_not_run_again_after_a_restore(clinic: Clinic) -> None:
    """I8, I21: the backup lacks the note that it began; the outcome is unknown to the model.

    A call that no worker received has not begun, and is run.
    """
    bank, key = f"{clinic.user}-bank", clinic.key("once")
    clinic.apps["once"] = two_charges(clinic, bank)
    await _lost_in_the_door(clinic, "once")
    options = WorkerOptions(task_queue=bank)
    apps = [clinic.apps["once"]]
    async with (
        clinic.working(),
        worker(clinic.client, apps=apps, session_service=clinic.store, options=options),
    ):
        await asyncio.wait_for(clinic.workflow("once", "one").result(), PATIENCE)
    told = {
        answer.name: answer.response or {}
        for item in await clinic.store.read_events(key)
        for answer in item.event.get_function_responses()
    }
    assert told["door"]["outcome"] == "unknown"
    assert told["ring"] == {"result": "rung"}
    assert len(clinic.traces.runs("door")) == len(clinic.traces.runs("ring")) == 1
    assert await clinic.findings() == []


async def test_a_node_that_may_have_begun_is_not_run_again_after_a_restore(clinic: Clinic) -> None:
    """I8, I21: as a call of a model; the run fails, as nothing may follow an unknown outcome."""

    async def door(message: str) -> str:
        """Begin, and wait."""
        clinic.traces.note("door", message)
        await until((clinic.folder / "open").exists, patience=math.inf)
        return "through"

    node = ToolNode(tool=FunctionTool(door, contract="at_most_once"))
    root = Workflow(name="wf", edges=[("START", node)])
    clinic.apps["node"] = App(name="node", root_agent=root)
    key = clinic.key("node")
    await _lost_in_the_door(clinic, "node")
    async with clinic.working():
        with pytest.raises(WorkflowFailureError):
            await asyncio.wait_for(clinic.workflow("node", "one").result(), PATIENCE)
    codes = [item.event.error_code for item in await clinic.store.read_events(key)]
    assert codes == [None, "ToolError"]
    assert len(clinic.traces.runs("door")) == 1
    assert await clinic.findings() == []


async def _lost_in_the_door(clinic: Clinic, app: str) -> None:
    """Restore, while the tool `door` runs, a store that does not know it; do what the doctor says.

    The door is open afterwards.
    """
    backup = clinic.folder / "backup.db"
    async with clinic.working():
        await clinic.run("charge", "before")
        copy(clinic.file, backup)
        run = asyncio.create_task(clinic.run(app, "one"))
        await until(lambda: clinic.traces.runs("door"))
        run.cancel()
    restore(clinic.file, backup)
    (clinic.folder / "open").touch()
    await clinic.mend(missing=Missing.LOST, app=app)
    with suppress(asyncio.CancelledError):
        await run


def two_charges(clinic: Clinic, bank: str) -> App:
    """Two calls at once of what may run at most once; nobody listens where the other one goes."""

    async def door() -> str:
        """Begin, and wait."""
        clinic.traces.note("door", "door")
        await until((clinic.folder / "open").exists, patience=math.inf)
        return "through"

    async def ring() -> str:
        """Ring the bell."""
        clinic.traces.note("ring", "ring")
        return "rung"

    tools = [
        FunctionTool(door, contract="at_most_once"),
        FunctionTool(ring, contract="at_most_once", task_queue=bank),
    ]
    model = ScriptedModel(replies=[calls(("door", {}), ("ring", {})), "Both."])
    return App(name="once", root_agent=LlmAgent(name="guest", model=model, tools=tools))


async def _says(handle: WorkflowHandle[Any, Any], words: str) -> bool:
    """Whether an activity that waits says so to whoever looks at the workflow."""
    with suppress(RPCError):  # it has not been started yet
        description = await handle.describe()
        pending = description.raw_description.pending_activities
        return any(words in activity.last_failure.message for activity in pending)
    return False


@pytest.mark.parametrize("moment", ["before it was sent", "while it waited"])
async def test_a_message_that_was_heard_is_put_back_where_it_was(
    moment: str, clinic: Clinic
) -> None:
    """I21, D7: it is in its sender's history only; and its ticket, if the backup has it, goes."""
    app = clinic.apps["doors"] = two_doors(clinic)
    assert isinstance(app.root_agent, LlmAgent)
    replies = [call("door", which="first"), call("door", which="second"), "Through."]
    app.root_agent.model = ScriptedModel(replies=replies)
    key, backup = clinic.key("doors"), clinic.folder / "backup.db"
    async with clinic.working():
        await clinic.run("charge", "before")
        copy(clinic.file, backup)
        one = asyncio.create_task(clinic.run("doors", "one"))
        await until(lambda: clinic.traces.runs("first"))
        if moment == "while it waited":
            copy(clinic.file, backup)
        delta = {"k": [1, "\u00e9"], "temp:z": 1, "user:u": 5}
        sent = asyncio.create_task(clinic.run("doors", "two", when_busy="steer", state_delta=delta))
        told = {"invocation_id": "one", "kind": "notified"}
        await until(lambda: _any(clinic.store.read_notes(key, **told)))
        if moment == "while it waited":
            copy(clinic.file, backup)
        for door in ("first", "second"):
            (clinic.folder / door).touch()
        await asyncio.gather(one, sent)
        await asyncio.wait_for(clinic.workflow("doors", "two").result(), PATIENCE)
    whole, by = clinic.dump(), time.time()
    restore(clinic.file, backup)
    await clinic.mend(missing=Missing.LOST, app="doors")
    assert await clinic.findings(missing=Missing.LOST, app="doors") == []
    assert_same(clinic.dump(), whole, by=by)
    assert await clinic.store.waiting(key) == []


async def _any(found: Awaitable[list[Any]]) -> bool:
    return bool(await found)


@pytest.mark.parametrize(("app", "after"), [("charge", "Charged."), ("approval", "Charged.")])
async def test_what_a_fork_lacks_is_put_behind_it(app: str, after: str, clinic: Clinic) -> None:
    """I21: when somebody has written to the older store, both ways that it went are kept.

    What waited for an answer can still be answered.
    """
    backup, key = clinic.folder / "backup.db", clinic.key(app)
    names = {"app_name": key.app_name, "user_id": key.user_id, "session_id": key.session_id}
    session = await clinic.store.create_session(**names)
    copy(clinic.file, backup)
    async with clinic.working():
        await clinic.run(app, "lost")
    lost = [item.event for item in await clinic.store.read_events(key)]
    restore(clinic.file, backup)
    fork = Event(id="fork", invocation_id="x", author="user")
    await clinic.store.append_event(session, fork)
    (finding,) = await clinic.findings()
    assert (finding.kind, "behind" in (finding.fix or "")) == (Kind.REGRESSED, True)
    async with clinic.working():
        with pytest.raises(SessionRegressedError):
            await asyncio.wait_for(clinic.run(app, "next"), PATIENCE)
        await clinic.mend()
        assert [item.event.id for item in await clinic.store.read_events(key)][1:] == [
            event.id for event in lost
        ]
        await asyncio.wait_for(clinic.run(app, "next"), PATIENCE)
        if app == "approval":
            assert await approve(clinic, key, "lost") == after
    assert await clinic.findings() == []


async def approve(clinic: Clinic, key: SessionKey, invocation_id: str) -> str | None:
    """Approve what an invocation asked; its last text."""
    who = {"user_id": key.user_id, "session_id": key.session_id}
    app = clinic.apps[key.app_name]
    async with Runner(
        app=app, session_service=clinic.store, client=clinic.client, task_queue=clinic.user
    ) as runner:
        (asked,) = [
            one for one in await runner.pending(**who) if one.invocation_id == invocation_id
        ]
        response = types.FunctionResponse(
            id=asked.call_id, name=asked.name, response={"confirmed": True}
        )
        message = types.Content(role="user", parts=[types.Part(function_response=response)])
        return [event.text async for event in runner.run_async(**who, new_message=message)][-1]


async def fire(clinic: Clinic, session: str) -> None:
    """Have a schedule fire, and wait for the end of its invocation."""
    request = InvocationRequest(app="charge", user=clinic.user, session=session, message="go")
    schedule = await create_schedule(
        clinic.client, f"{clinic.user}-{session}", request, cron="0 0 1 1 *", task_queue=clinic.user
    )
    await schedule.trigger()
    key = clinic.key("charge", session)

    async def ended() -> bool:
        log = await clinic.store.read_events(key)
        return bool(log) and gist(log[-1].event) == "cashier text Charged."

    await until(ended)
    await schedule.delete()


async def test_a_session_is_closed_whatever_else_completes(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I21: a message, an answer, a run in flight and a schedule in sessions that lack nothing."""
    monkeypatch.setattr(staleness, "MAX_AGE", 0.0)
    monkeypatch.setattr(staleness, "RETRY_AGE", 0.0)
    clinic.apps["doors"] = two_doors(clinic)
    backup, key = clinic.folder / "backup.db", clinic.key("charge")
    async with clinic.working():
        await clinic.run("approval", "asks")
        await clinic.run("charge", "first")
        await clinic.run("doors", "before")
        walk = asyncio.create_task(clinic.run("doors", "walk"))
        await until(lambda: clinic.traces.runs("first"))
        copy(clinic.file, backup)
        await clinic.run("charge", "lost")
        await until(lambda: _completed(clinic, 3))
        restore(clinic.file, backup)
        older = await clinic.store.read_events(key)

        async def is_closed() -> None:
            with pytest.raises(SessionRegressedError, match="'lost'"):
                await asyncio.wait_for(clinic.run("charge", "next"), PATIENCE)
            assert await clinic.store.read_events(key) == older

        await is_closed()
        await clinic.run("charge", "message", "other")
        await is_closed()
        assert await approve(clinic, clinic.key("approval"), "asks") == "Charged."
        await is_closed()
        for door in ("first", "second"):
            (clinic.folder / door).touch()
        assert (await walk)[-1].text == "Through."
        await is_closed()
        await fire(clinic, "fired")
    async with clinic.working():
        await is_closed()
        await clinic.mend()
        # Its last attempt has failed before: whoever asks what it waits for may still be told that.
        await asyncio.wait_for(clinic.workflow("charge", "next").result(), PATIENCE)
    owners = [item.event.invocation_id for item in await clinic.store.read_events(key)]
    assert owners == [one for one in ("first", "lost", "next") for _ in "1234"]


async def test_every_kind_of_invocation_is_noticed_and_put_back(clinic: Clinic) -> None:
    """I21: whatever became of it since the backup."""

    async def fail() -> str:
        """Fail."""
        raise ValueError("no")

    def note() -> str:
        """Note."""
        return "noted"

    turns = [call("note")] * 4
    inner = LlmAgent(name="inner", model=ScriptedModel(replies=["Inner."]))
    replies = [call("inner", request="go"), "Told."]
    agents = {
        "failed": LlmAgent(name="a", model=ScriptedModel(replies=[call("fail")]), tools=[fail]),
        "child": LlmAgent(name="a", model=ScriptedModel(replies=replies), tools=[AgentTool(inner)]),
        "rolled": LlmAgent(name="a", model=ScriptedModel(replies=[*turns, "Done."]), tools=[note]),
    }
    clinic.limits = Limits(max_history_events=25)  # of more than one turn: continued as new
    clinic.apps |= {name: App(name=name, root_agent=agent) for name, agent in agents.items()}
    backup = clinic.folder / "backup.db"
    waiting = dict.fromkeys(("paused", "cancelled", "terminated"), "approval")
    kinds = {**waiting, "failed": "failed", "child": "child", "scheduled": "charge"}
    kinds["rolled"] = "rolled"
    for name, app in kinds.items():
        await clinic.store.create_session(app_name=app, user_id=clinic.user, session_id=name)
    copy(clinic.file, backup)
    async with clinic.working():
        for name, app in kinds.items():
            if name != "scheduled":
                with suppress(ValueError):  # the tool's
                    await clinic.run(app, name, name)
        await fire(clinic, "scheduled")
        await clinic.workflow("approval", "cancelled", "cancelled").cancel()
        with suppress(WorkflowFailureError):
            await clinic.workflow("approval", "cancelled", "cancelled").result()
        await clinic.workflow("approval", "terminated", "terminated").terminate()
        rolled = await clinic.workflow("rolled", "rolled", "rolled").describe()
        assert rolled.run_id != rolled.raw_info.first_run_id
    whole, by = clinic.dump(), time.time()
    restore(clinic.file, backup)
    older = clinic.dump()
    async with clinic.working():
        for name, app in kinds.items():
            with pytest.raises(SessionRegressedError, match="Invocation '"):  # its own, by name
                await asyncio.wait_for(clinic.run(app, f"next-{name}", name), PATIENCE)
        assert clinic.dump() == older
        await _cancel_waiting(clinic, kinds)
        await clinic.mend(missing=Missing.LOST)
        assert_same(clinic.dump(), whole, by=by)


async def _cancel_waiting(clinic: Clinic, kinds: dict[str, str]) -> None:
    """Take the messages back that wait for the repair."""
    for name, app in kinds.items():
        handle = clinic.workflow(app, f"next-{name}", name)
        await handle.cancel()
        with suppress(WorkflowFailureError):
            await asyncio.wait_for(handle.result(), PATIENCE)


async def test_the_end_of_what_was_paused_is_put_back_where_it_was(clinic: Clinic) -> None:
    """I21, D9: it was cancelled after another invocation had run in its session."""
    backup, key = clinic.folder / "backup.db", clinic.key("approval")
    async with clinic.working():
        await clinic.run("charge", "before")
        copy(clinic.file, backup)
        for name in ("one", "two"):
            await clinic.run("approval", name)
        await clinic.workflow("approval", "one").cancel()
        with suppress(WorkflowFailureError):
            await clinic.workflow("approval", "one").result()
    whole, by = clinic.dump(), time.time()
    restore(clinic.file, backup)
    await clinic.mend(missing=Missing.LOST, app="approval")
    assert await clinic.findings(missing=Missing.LOST, app="approval") == []
    assert_same(clinic.dump(), whole, by=by)
    log = [item.event for item in await clinic.store.read_events(key)]
    assert {event.invocation_id for event in log} == {"one", "two"}
    assert log[-1].id == "one.end"


@pytest.mark.parametrize("moment", ["deleted", "created again", "used again"])
async def test_a_session_that_was_deleted_before_is_put_back(moment: str, clinic: Clinic) -> None:
    """I21: the epochs of the new one continue where those of the old one ended."""
    backup, key = clinic.folder / "backup.db", clinic.key("charge")
    names = {"app_name": key.app_name, "user_id": key.user_id, "session_id": key.session_id}
    async with clinic.working():
        await clinic.run("charge", "other", "other")
        await clinic.run("charge", "old")
        await clinic.store.delete_session(**names)
        if moment == "created again":
            await clinic.store.create_session(**names)
        if moment == "used again":
            await clinic.run("charge", "new")
        copy(clinic.file, backup)
        await clinic.run("charge", "lost")
        await clinic.workflow("charge", "lost").result()
    whole, by = clinic.dump(), time.time()
    restore(clinic.file, backup)
    await clinic.mend(missing=Missing.LOST)
    assert await clinic.findings(missing=Missing.LOST) == []
    assert_same(clinic.dump(), whole, by=by)
    async with clinic.working():
        assert gist((await clinic.run("charge", "next"))[-1]) == "cashier text Charged."
