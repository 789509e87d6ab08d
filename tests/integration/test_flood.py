"""Floods of messages that change nothing, at an invocation that waits for one that does."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from temporalio.client import Client, WorkflowHandle

from durable_adk.activities.invocation import checkpoint
from durable_adk.conversation.pending_calls import pending_calls
from durable_adk.embedded import TemporalServer
from durable_adk.errors import StoreUnavailableError
from durable_adk.events import Event
from durable_adk.flows.runtime import MAX_STEERED, Inbox
from durable_adk.runners import Runner
from durable_adk.sessions import Status
from durable_adk.settings import Limits
from durable_adk.wire.messages import InvocationAnswer
from durable_adk.worker import WorkerOptions, worker
from tests.support.clinic import Clinic
from tests.support.scripts import gist
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.thorough

APP, INVOCATION = "approval", "one"
WAVES, WAVE = 4, 300
"""Of signals. The server lets no run end while more come in, and takes 10,000 for one run."""
EVENTS = 100
"""That a run of a workflow may have."""
LARGE = "x" * 450_000


@pytest.fixture
async def clinic(tmp_path: Path, client: Client, server: TemporalServer) -> AsyncIterator[Clinic]:
    """A patient, and a worker whose runs are short."""
    opened = Clinic(tmp_path, client, server.address)
    options = WorkerOptions(task_queue=opened.user, limits=Limits(max_history_events=EVENTS))
    apps = list(opened.apps.values())
    async with worker(client, apps=apps, session_service=opened.store, options=options):
        yield opened
    await opened.store.close()


async def _send(handle: WorkflowHandle[Any, Any], number: int) -> None:
    """One of the messages; those of a wave are of one kind."""
    match number // WAVE:
        case 0:
            call = LARGE if number < 10 else f"no-{number}"
            answer = {"callId": call, "confirmed": True, "answerId": f"a-{number}"}
            await handle.signal("answer", answer)
        case 1:
            await handle.signal("answer", {"steers": f"m-{number}"})
        case 2:
            await handle.signal("answer", ["no", "answer", number])
        case _:
            await handle.signal(f"foreign-{number % 7}", number)


async def _approve(clinic: Clinic) -> list[Event]:
    stored = await clinic.store.read_events(clinic.key(APP))
    (waiting,) = pending_calls(item.event for item in stored)
    answer = types.FunctionResponse(
        id=waiting.call_id, name=waiting.name, response={"confirmed": True}
    )
    async with Runner(
        app=clinic.apps[APP],
        session_service=clinic.store,
        client=clinic.client,
        task_queue=clinic.user,
    ) as runner:
        events = runner.run_async(
            user_id=clinic.user,
            session_id="s",
            new_message=types.Content(role="user", parts=[types.Part(function_response=answer)]),
        )
        return [event async for event in events]


async def test_an_approval_gets_through_a_flood(clinic: Clinic) -> None:
    """F27, I14, I16: the run stays within its bounds, and the answer that is waited for counts.

    Forged answers, some with texts of half a megabyte, what is no answer, notices of messages that
    do not exist, and unknown signals: whoever may signal the workflow can send these.
    """
    await clinic.run(APP, INVOCATION)
    handle = clinic.workflow(APP, INVOCATION)
    turn = asyncio.Semaphore(20)

    async def in_turn(number: int) -> None:
        async with turn:
            await _send(handle, number)

    for start in range(0, WAVES * WAVE, WAVE):
        before = (await handle.describe()).run_id
        await asyncio.gather(*(in_turn(number) for number in range(start, start + WAVE)))
        await until(lambda before=before: _is_another(handle, before))
    outcomes = await handle.query("answers")
    assert all(reason for reason in outcomes.values())
    assert [gist(event) for event in await asyncio.wait_for(_approve(clinic), PATIENCE)] == [
        "cashier response charge",
        "cashier text Charged.",
    ]
    assert len(clinic.traces.runs("charge")) == 1
    record = await clinic.store.get_invocation(clinic.key(APP), INVOCATION)
    assert record is not None
    assert record.status is Status.COMPLETED
    await handle.result()

    async def all_lengths() -> list[int]:
        found = [length async for length in _lengths(clinic, handle.id)]
        return found if len(found) > WAVES else []

    lengths = await until(all_lengths)  # the list is behind by a moment
    assert max(lengths) <= EVENTS + 2 * WAVE  # with the server's events for workflow tasks


async def _is_another(handle: WorkflowHandle[Any, Any], run: str | None) -> bool:
    """Whether the workflow has continued as new."""
    return (await handle.describe()).run_id != run


async def _lengths(clinic: Clinic, workflow: str) -> AsyncIterator[int]:
    """Events of each run of a workflow."""
    async for run in clinic.client.list_workflows(f"WorkflowId = '{workflow}'"):
        handle = clinic.client.get_workflow_handle(run.id, run_id=run.run_id)
        yield len((await handle.fetch_history()).events)


async def test_what_comes_while_a_run_begins_lets_it_end_too(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F27, I14: nothing else may come, and the run must not wait for it with a long history."""
    is_open = asyncio.Event()

    def held(name: str) -> None:
        if name == "roll.read" and not is_open.is_set():
            raise StoreUnavailableError("It is away.")

    await clinic.run(APP, INVOCATION)
    handle = clinic.workflow(APP, INVOCATION)
    monkeypatch.setattr(checkpoint, "failpoint", held)
    before = (await handle.describe()).run_id
    await _disturb(handle)
    await until(lambda: _is_another(handle, before))
    await _disturb(handle)
    is_open.set()
    await until(lambda: _is_short(handle))


async def _disturb(handle: WorkflowHandle[Any, Any]) -> None:
    """Send so many signals that the run has to end."""
    await asyncio.gather(*(handle.signal("foreign", number) for number in range(EVENTS)))


async def _is_short(handle: WorkflowHandle[Any, Any]) -> bool:
    """Whether the newest run has a history of few events."""
    return (await handle.describe()).history_length < EVENTS


def test_a_run_knows_of_so_many_messages_that_wait() -> None:
    """F27: the others wait for their turn in the session's queue; a repeat is no other."""
    inbox = Inbox()
    for number in range(3 * MAX_STEERED):
        for _ in range(2):
            inbox.put(InvocationAnswer(steers=f"m-{number}"))
    assert inbox.state.steered == [f"m-{number}" for number in range(MAX_STEERED)]
