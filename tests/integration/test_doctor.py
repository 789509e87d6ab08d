"""The doctor: each kind of finding, made for real, shown, mended, and gone."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from google.genai import types
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    PollWorkflowTaskQueueRequest,
    RespondWorkflowTaskFailedRequest,
)
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError

from durable_adk.errors import NoWorkerError, SessionBusyError
from durable_adk.events import Event
from durable_adk.ops.doctor.findings import Kind
from durable_adk.ops.doctor.sources import Missing, if_exists
from durable_adk.ops.doctor.stalled_workflows import MIN_ATTEMPTS
from durable_adk.sessions import Status
from durable_adk.sessions.records import InvocationRecord
from durable_adk.wire.messages import user_content
from tests.support.clinic import Clinic
from tests.support.own_server import own_client
from tests.support.scripts import call, gist
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.thorough

REASON = "[TMPRL1100] Nondeterminism error: the body has changed"


@pytest.fixture(scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """Of a server with nothing else on it."""
    async with own_client(tmp_path_factory.mktemp("own")) as connected:
        yield connected


@pytest.fixture
async def clinic(tmp_path: Path, client: Client) -> AsyncIterator[Clinic]:
    """A patient, and a worker."""
    opened = Clinic(tmp_path, client, client.service_client.config.target_host)
    async with opened.working():
        yield opened
    await opened.store.close()


@pytest.fixture
async def alone(tmp_path: Path, client: Client) -> AsyncIterator[Clinic]:
    """A patient without a worker."""
    opened = Clinic(tmp_path, client, client.service_client.config.target_host)
    yield opened
    await opened.store.close()


async def gated(clinic: Clinic) -> "asyncio.Task[list[Event]]":
    """An invocation in the middle of its tool."""
    run = asyncio.create_task(clinic.run("tool", "one"))
    await until(clinic.traces.runs)
    return run


async def ended(run: "asyncio.Task[list[Event]]") -> None:
    """Take the end of a run as it comes."""
    await asyncio.wait([run], timeout=PATIENCE)
    assert run.done()
    run.exception()


async def fail(clinic: Clinic, times: int) -> None:
    """Do as workers do whose code does not fit to a history."""
    service, queue = clinic.client.workflow_service, TaskQueue(name=clinic.user)
    poll = PollWorkflowTaskQueueRequest(namespace=clinic.client.namespace, task_queue=queue)
    for _ in range(times):
        task = await service.poll_workflow_task_queue(poll)
        await service.respond_workflow_task_failed(
            RespondWorkflowTaskFailedRequest(
                namespace=clinic.client.namespace,
                task_token=task.task_token,
                cause=WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR,
                failure=Failure(message=REASON),
            )
        )


async def _is_known(clinic: Clinic, app: str, invocation_id: str) -> bool:
    query = f"WorkflowId = '{clinic.workflow(app, invocation_id).id}'"
    return bool([one async for one in clinic.client.list_workflows(query)])


async def _is_forgotten(clinic: Clinic, app: str, invocation_id: str) -> bool:
    return not await _is_known(clinic, app, invocation_id)


async def test_what_works_is_left_alone(clinic: Clinic) -> None:
    """Runs that continue, wait their turn, wait for an answer, or are over are no findings."""
    await clinic.run("approval", "one")
    first = await gated(clinic)
    second = asyncio.create_task(clinic.run("tool", "two"))
    await until(lambda: _is_known(clinic, "tool", "two"))
    assert await clinic.findings(busy=True) == []
    clinic.traces.open_gate()
    await asyncio.gather(first, second)
    assert await clinic.findings() == []


async def test_a_message_that_no_worker_has_taken_is_left_alone(alone: Clinic) -> None:
    """I12: a workflow that has not opened its invocation yet is no orphan."""
    await alone.store.create_session(app_name="tool", user_id=alone.user, session_id="s")
    run = asyncio.create_task(alone.run("tool", "one"))
    await until(lambda: _is_known(alone, "tool", "one"))
    assert await alone.findings(missing=Missing.DELETED) == []
    alone.traces.open_gate()
    async with alone.working():
        with suppress(NoWorkerError):  # the doctor may have taken longer than a client waits
            await run
        assert await alone.run("tool", "one")


async def test_a_message_for_later_is_left_alone(clinic: Clinic) -> None:
    """I11: no worker was asked for anything yet, and the SDK would replay that without an end."""
    key = clinic.key("charge")
    request = {"app": key.app_name, "user": key.user_id, "session": "later", "message": "go"}
    handle = await clinic.client.start_workflow(
        "Invocation",
        request,
        id=f"later-{clinic.user}",
        task_queue=clinic.user,
        start_delay=timedelta(hours=1),
    )
    await clinic.run("charge", "one")
    assert await asyncio.wait_for(clinic.findings(), PATIENCE) == []
    await handle.terminate()


async def test_a_call_that_nobody_will_answer_is_answered(clinic: Clinic) -> None:
    """I9: a response says so; asked again, or twice, it is one response."""
    key = clinic.key("charge")
    session = await clinic.store.create_session(
        app_name=key.app_name, user_id=key.user_id, session_id=key.session_id
    )
    asked = Event(id="e", invocation_id="i", author="cashier", content=call("charge", amount=1))
    assert asked.content is not None
    assert asked.content.parts is not None
    asked.content.parts[0].function_call = types.FunctionCall(id="c", name="charge", args={})
    await clinic.store.append_event(session, asked)
    (finding,) = await clinic.findings()
    assert (finding.kind, finding.key, finding.invocation_id) == (Kind.OPEN_CALL, key, "i")
    await clinic.mend()
    assert await clinic.findings() == []
    events = [item.event for item in await clinic.store.read_events(key)]
    assert [event.id for event in events] == ["e", "e.sealed"]
    assert [answer.id for answer in events[1].get_function_responses()] == ["c"]
    assert gist((await clinic.run("charge", "next"))[-1]) == "cashier text Charged."


@pytest.mark.parametrize(("app", "status"), [("tool", "running"), ("approval", "paused")])
async def test_an_invocation_whose_workflow_was_terminated_is_ended(
    app: str, status: str, clinic: Clinic
) -> None:
    """I24: running or paused, it ends as abandoned, its calls are answered, its session is free."""
    run = await gated(clinic) if app == "tool" else asyncio.create_task(clinic.run(app, "one"))
    if app == "approval":
        await run
    await clinic.workflow(app, "one").terminate()
    await ended(run)
    (finding,) = await clinic.findings()
    assert (finding.kind, finding.invocation_id) == (Kind.DEAD_HOLDER, "one")
    assert status in finding.problem
    assert "terminated" in finding.problem
    await clinic.mend()
    assert await clinic.findings() == []
    record = await clinic.store.get_invocation(clinic.key(app), "one")
    assert record is not None
    assert record.status is Status.ABANDONED
    log = [item.event for item in await clinic.store.read_events(clinic.key(app))]
    asked = {item.id for event in log for item in event.get_function_calls()}
    assert asked == {item.id for event in log for item in event.get_function_responses()}
    assert log[-1].error_code == "InvocationTerminatedError"
    assert await clinic.store.active_invocation(clinic.key(app)) is None
    clinic.traces.open_gate()


async def _busy(clinic: Clinic) -> InvocationRecord:
    """Another invocation that is active in the session of the one that waits for an approval."""
    message = Event(id="b.0", invocation_id="b", author="user", content=user_content("go"))
    return await clinic.store.open_invocation(
        clinic.key("approval"),
        invocation_id="b",
        lease_owner="local:b",
        user_event=message,
        ttl=600,
    )


async def _give_back(clinic: Clinic, record: InvocationRecord) -> None:
    await clinic.store.close_invocation(
        clinic.key("approval"),
        invocation_id=record.invocation_id,
        epoch=record.epoch,
        status=Status.COMPLETED,
    )


async def _is_sealed(clinic: Clinic, status: Status) -> bool:
    """Whether the first invocation has ended, and all calls of its session are answered."""
    record = await clinic.store.get_invocation(clinic.key("approval"), "one")
    log = [item.event for item in await clinic.store.read_events(clinic.key("approval"))]
    asked = {item.id for event in log for item in event.get_function_calls()}
    answered = {item.id for event in log for item in event.get_function_responses()}
    ends = [event.error_code for event in log if event.id == "one.end"]
    return (
        record is not None
        and (record.status, record.sealed) == (status, True)
        and asked == answered
        and len(ends) == 1
    )


@pytest.mark.parametrize("next_is", ["the doctor", "a message"])
async def test_a_paused_invocation_is_ended_although_its_session_is_busy(
    next_is: str, clinic: Clinic
) -> None:
    """I24, I9: it is a finding until its calls are answered, by whoever finds the session free."""
    await clinic.run("approval", "one")
    await clinic.workflow("approval", "one").terminate()
    busy = await _busy(clinic)
    with pytest.raises(SessionBusyError):
        await clinic.mend()
    record = await clinic.store.get_invocation(clinic.key("approval"), "one")
    assert record is not None
    assert (record.status, record.sealed) == (Status.ABANDONED, False)
    (finding,) = await clinic.findings()
    assert (finding.kind, finding.invocation_id) == (Kind.DEAD_HOLDER, "one")
    assert "abandoned, but not sealed" in finding.problem
    await _give_back(clinic, busy)
    if next_is == "the doctor":
        await clinic.mend()
    else:
        await clinic.run("approval", "next")
        await clinic.workflow("approval", "next").cancel()
        await until(lambda: _is_closed(clinic, "next"))
    assert await clinic.findings() == []
    assert await _is_sealed(clinic, Status.ABANDONED)
    assert await clinic.store.waiting(clinic.key("approval")) == []


async def _is_closed(clinic: Clinic, invocation_id: str) -> bool:
    record = await clinic.store.get_invocation(clinic.key("approval"), invocation_id)
    return record is not None and record.sealed


async def test_what_a_process_has_ended_and_not_sealed_is_sealed(clinic: Clinic) -> None:
    """I9: a run in process that was killed while it waited to answer its calls."""
    await clinic.run("approval", "one")
    clinic.sql("UPDATE invocations SET lease_owner = 'local:gone'")
    await clinic.workflow("approval", "one").terminate()
    busy = await _busy(clinic)
    end = partial(
        clinic.store.close_paused,
        clinic.key("approval"),
        invocation_id="one",
        epoch=1,
        status=Status.CANCELLED,
    )
    with pytest.raises(SessionBusyError):
        await end()
    assert await clinic.findings() == []  # it waits
    clinic.sql("UPDATE invocations SET update_time = 1")
    await _give_back(clinic, busy)
    (finding,) = await clinic.findings()
    assert (finding.kind, finding.invocation_id) == (Kind.DEAD_HOLDER, "one")
    await clinic.mend()
    assert await clinic.findings() == []
    assert await _is_sealed(clinic, Status.CANCELLED)


async def test_an_invocation_whose_workflow_is_missing_is_ended(clinic: Clinic) -> None:
    """I24: also when Temporal has forgotten it; unless it knows nothing of this store at all."""
    await clinic.run("approval", "one")
    handle = clinic.workflow("approval", "one")
    await handle.terminate()
    gone = WorkflowExecution(workflow_id=handle.id)
    request = DeleteWorkflowExecutionRequest(
        namespace=clinic.client.namespace, workflow_execution=gone
    )
    await clinic.client.workflow_service.delete_workflow_execution(request)
    await until(lambda: _is_forgotten(clinic, "approval", "one"))
    (finding,) = await clinic.findings()
    assert (finding.kind, finding.fix) == (Kind.DEAD_HOLDER, None)  # it may be the wrong Temporal
    await clinic.run("charge", "other")
    (finding,) = await clinic.findings()
    assert (finding.kind, finding.invocation_id) == (Kind.DEAD_HOLDER, "one")
    await clinic.mend()
    assert await clinic.findings() == []


@pytest.mark.parametrize("anew", [False, True])
async def test_the_workflow_of_a_deleted_session_is_ended(anew: bool, clinic: Clinic) -> None:
    """I24: nothing waits for ever for what nobody can answer; also if the name is used again."""
    await clinic.run("charge", "other")
    await clinic.run("approval", "one")
    await clinic.store.delete_session(app_name="approval", user_id=clinic.user, session_id="s")
    (finding,) = await clinic.findings()  # of an app that the store does not know
    assert (finding.kind, finding.fix) == (Kind.ORPHAN, None)  # it may be the wrong store
    await clinic.run("approval", "two", "s" if anew else "t")
    (finding,) = await clinic.findings()
    assert (finding.kind, finding.key) == (Kind.ORPHAN, clinic.key("approval"))
    assert finding.invocation_id == "one"
    await clinic.mend()
    assert await clinic.findings() == []
    description = await clinic.workflow("approval", "one").describe()
    assert description.status is not WorkflowExecutionStatus.RUNNING


async def test_clocks_that_differ_make_no_orphans(clinic: Clinic) -> None:
    """I24: of a session that a client has created whose clock goes ahead of the workers'."""
    await clinic.run("approval", "one")
    clinic.sql("UPDATE sessions SET create_time = create_time + 60")
    assert await clinic.findings() == []


async def test_a_deleted_session_is_not_raised_from_the_dead(clinic: Clinic) -> None:
    """I18: its histories are still there, but nobody asked for it; also not under its name."""
    await clinic.run("charge", "one")
    await clinic.run("charge", "keep", "t")
    await clinic.store.delete_session(app_name="charge", user_id=clinic.user, session_id="s")
    assert await clinic.findings() == []
    await clinic.run("charge", "two")
    assert await clinic.findings() == []


async def test_a_log_that_does_not_add_up_is_shown_and_not_touched(clinic: Clinic) -> None:
    """I3, I4: no program can know the writer, or the reason."""
    await clinic.run("charge", "one")
    assert await clinic.store.read_state(clinic.key("charge")) == (4, {"total": 10})
    clinic.sql("UPDATE state SET value = '99' WHERE key = 'total'")
    clinic.sql("DELETE FROM events WHERE seq = 4")
    found = await clinic.findings()
    assert {(one.kind, one.fix) for one in found} == {(Kind.BROKEN_LOG, None)}
    assert [one.problem.rpartition(" ")[2] for one in found] == ["4", "total"]
    before = clinic.dump()
    await clinic.mend()
    assert clinic.dump() == before
    code, text = clinic.doctor("--fix", "--yes")
    assert code == 1
    assert "total" in text


async def test_of_sessions_that_have_not_changed_since_no_log_is_read(clinic: Clinic) -> None:
    """I22: a daily look costs what the day has brought; what is open is looked at all the same."""
    await clinic.run("charge", "one")
    await clinic.run("approval", "two")
    await clinic.workflow("approval", "two").terminate()
    clinic.sql("UPDATE state SET value = '99' WHERE key = 'total'")
    kinds = {one["kind"] for one in await asyncio.to_thread(clinic.found)}
    assert kinds == {"broken_log", "dead_holder"}
    tomorrow = (datetime.now() + timedelta(days=1)).strftime("%Y-%m-%d")  # noqa: DTZ005  # as typed
    found = await asyncio.to_thread(clinic.found, "--since", tomorrow)
    assert {one["kind"] for one in found} == {"dead_holder"}
    found = await asyncio.to_thread(clinic.found, "--since", "2020-02-29T12:00:00")
    assert {one["kind"] for one in found} == kinds


async def test_the_command_says_what_it_would_do_before_it_does_it(clinic: Clinic) -> None:
    """It reports with 1 and changes nothing, asks with --fix, obeys, and then says 0."""
    await clinic.run("approval", "one")
    await clinic.workflow("approval", "one").terminate()
    before = clinic.dump()
    (line,) = await asyncio.to_thread(clinic.found)
    assert (line["kind"], line["invocationId"]) == ("dead_holder", "one")
    assert "abandoned" in line["fix"]
    with pytest.raises(AssertionError, match="add --yes to repair 1 finding"):
        await asyncio.to_thread(clinic.doctor, "--fix", stdin="")
    code, text = await asyncio.to_thread(clinic.doctor, "--fix", stdin="n\n")
    assert code == 1
    assert "dead_holder" in text
    assert clinic.dump() == before
    code, text = await asyncio.to_thread(clinic.doctor, "--fix", stdin="y\n")
    assert (code, text.splitlines()[-1].strip()) == (0, "Repaired.")
    code, text = await asyncio.to_thread(clinic.doctor, "--app", "approval", "--session", "s")
    assert (code, text.splitlines()[0]) == (0, "No problems found.")
    assert "the sessions of app approval, user" in text


async def test_an_invocation_that_no_worker_gets_on_with_is_named(alone: Clinic) -> None:
    """I11: with the error; it is no finding before, and none when the code is back.

    Also if the store calls it ended: whoever waits for its workflow's result waits for ever.
    """
    async with alone.working():
        await alone.run("approval", "one")
    handle = alone.workflow("approval", "one")
    await handle.cancel()
    await fail(alone, MIN_ATTEMPTS - 2)
    assert await alone.findings() == []
    await fail(alone, 1)
    (finding,) = await alone.findings()
    assert (finding.kind, finding.fix) == (Kind.STALLED, None)
    assert (finding.key, finding.invocation_id) == (alone.key("approval"), "one")
    assert REASON in finding.problem
    assert f"at attempt {MIN_ATTEMPTS}," in finding.problem
    alone.sql("UPDATE invocations SET status = 'completed'")
    assert Kind.STALLED in [one.kind for one in await alone.findings()]
    alone.sql("UPDATE invocations SET status = 'paused'")
    code, said = alone.doctor()
    assert code == 1
    assert Kind.STALLED in said
    async with alone.working():
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert await alone.findings() == []


async def test_so_is_a_message_that_no_worker_can_begin_with(alone: Clinic) -> None:
    """I11: the store knows nothing of it yet, nor of its app."""
    await alone.store.create_session(app_name="tool", user_id=alone.user, session_id="s")
    request = {"app": "charge", "user": alone.user, "session": "s", "message": "go"}
    handle = await alone.client.start_workflow(
        "Invocation", request, id=alone.workflow("charge", "one").id, task_queue=alone.user
    )
    await fail(alone, MIN_ATTEMPTS - 1)
    (finding,) = await alone.findings()
    assert (finding.kind, finding.key) == (Kind.STALLED, alone.key("charge"))
    assert REASON in finding.problem
    async with alone.working():
        await handle.result()
    assert await alone.findings() == []


async def test_a_workflow_that_goes_while_the_doctor_looks_is_nobodys(alone: Clinic) -> None:
    """Retention deletes what has ended between a listing and the next question."""
    handle = await alone.client.start_workflow(
        "Invocation", id=alone.user, task_queue=alone.user, execution_timeout=timedelta(hours=1)
    )
    assert (known := await if_exists(handle.describe()))
    assert known.run_id == handle.first_execution_run_id
    run = alone.client.get_workflow_handle(handle.id, run_id=str(uuid.uuid4()))
    assert await if_exists(run.describe()) is None
    another = alone.client.get_workflow_handle(f"not-{handle.id}")
    assert await if_exists(another.fetch_history()) is None
    await handle.terminate()
