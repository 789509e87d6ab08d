"""Which attempts of a workflow task count as lost with their workers."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.errors import RunError, StoreUnavailableError
from durable_adk.sessions import Status
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.settings import Limits
from durable_adk.wire.messages import user_content
from durable_adk.wire.steps import OpenStep
from durable_adk.workflows import lost_tasks
from durable_adk.workflows.lost_tasks import LostTasks
from tests.support.steps import INVOCATION, KEY, Steps
from tests.support.waiting import until

OWNER = TemporalLeaseOwner("default", "first", "w")


class Temporal:
    """A client of a workflow run whose task is at some attempt."""

    namespace = "default"

    def __init__(self) -> None:
        """Be at the first one."""
        self.attempt = 1
        self.denies = False
        self.terminated = list[Any]()
        self.run_id = "r"

    def get_workflow_handle(self, workflow_id: str, *, run_id: str) -> "Temporal":
        """It is the handle, too."""
        assert (workflow_id, run_id) == (OWNER.workflow_id, self.run_id)
        return self

    async def describe(self, **_: object) -> Any:
        """Say the attempt."""
        if self.denies:
            raise RPCError("no", RPCStatusCode.PERMISSION_DENIED, b"")
        task = SimpleNamespace(attempt=self.attempt)
        return SimpleNamespace(raw_description=SimpleNamespace(pending_workflow_task=task))

    async def terminate(self, detail: Any, *, reason: str) -> None:
        """Note it."""
        self.terminated.append((detail["class"], reason))


class Place:
    """An open invocation whose tasks may lose two workers."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self.steps = Steps([])
        self.steps.effects.deps.limits = Limits(max_lost_workers=2)
        self.temporal = Temporal()
        client: Any = self.temporal
        loop = asyncio.get_running_loop()
        self.tasks = LostTasks(client=client, effects=self.steps.effects, loop=loop)

    async def open(self) -> None:
        """Open the invocation."""
        step = OpenStep(
            key=KEY, invocation_id=INVOCATION, lease_owner=str(OWNER), event_id="e-1.0",
            timestamp=1.0, message=user_content("hi"), create_session=True,
        )  # fmt: skip
        await self.steps.effects.perform(step)

    async def attempt(self, number: int, *, ends: bool = False) -> None:
        """Load the workflow for an attempt, which ends or loses its worker."""
        self.temporal.attempt = number
        act = WorkflowActivation(run_id="r", is_replaying=True)
        init = act.jobs.add().initialize_workflow
        init.workflow_type, init.workflow_id = "Invocation", OWNER.workflow_id
        init.first_execution_run_id = OWNER.first_run_id
        sent = {"app": "app", "user": "u", "session": "s", "message": "hi"}
        init.arguments.add().data = json.dumps(sent | {"invocationId": INVOCATION}).encode()
        this = await asyncio.to_thread(self.tasks.begin, act)
        if this is not None and ends:
            self.tasks.end(this)
            await until(lambda: self._has_ended(number))

    async def _has_ended(self, number: int) -> bool:
        note = await self.steps.notes(lost_tasks.TASKS)
        return number not in json.loads(note["r"])["lost"]


async def test_a_task_that_loses_too_many_workers_is_given_up() -> None:
    """F12: the invocation is closed with the reason, and then its workflow."""
    place = Place()
    await place.open()
    for number in (1, 2, 3):
        await place.attempt(number)
    assert list(await place.steps.notes(lost_tasks.TASKS)) == ["r"]
    with pytest.raises(RunError, match="2 workers in a row were lost"):
        await place.attempt(4)
    await until(lambda: bool(place.temporal.terminated))
    record = await place.steps.sessions.get_invocation(KEY, INVOCATION)
    assert record is not None
    assert record.error is not None
    assert (record.status, record.sealed) == (Status.FAILED, True)
    assert place.temporal.terminated == [("RunError", record.error["message"])]


async def test_only_lost_workers_in_a_row_count() -> None:
    """I20: attempts that fail do not, and a task that completes begins the count anew."""
    place = Place()
    await place.open()
    await place.attempt(2)
    for number in range(3, 9):  # a deploy whose code does not fit
        await place.attempt(number, ends=True)
    await place.attempt(9)
    for number in (2, 3):  # of the next task
        await place.attempt(number)
    with pytest.raises(RunError):
        await place.attempt(4)


@pytest.mark.parametrize("opened", [True, False])
async def test_what_cannot_be_counted_runs(*, opened: bool) -> None:
    """Before the opening no body has run; and Temporal may keep the attempts to itself."""
    place = Place()
    if opened:
        await place.open()
        place.temporal.denies = True
    for number in range(2, 6):
        await place.attempt(number)
    assert await place.steps.notes(lost_tasks.TASKS) == {}


async def _away(*_: object, **_options: object) -> None:
    raise StoreUnavailableError


async def _late(gate: asyncio.Event, note: Callable[..., Any], *args: Any, **options: Any) -> None:
    await gate.wait()
    await note(*args, **options)


async def test_what_is_not_noted_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """F16: the task fails; a note that comes too late is taken back."""
    place = Place()
    await place.open()
    sessions = place.steps.sessions
    with monkeypatch.context() as patched:
        patched.setattr(sessions, "note", _away)
        with pytest.raises(StoreUnavailableError):
            await place.attempt(2)
    with monkeypatch.context() as patched:
        gate = asyncio.Event()
        patched.setattr(sessions, "note", partial(_late, gate, sessions.note))
        patched.setattr(lost_tasks, "TIMEOUT", 0.01)
        for number in (3, 4, 5):
            gate.clear()
            with pytest.raises(TimeoutError):
                await place.attempt(number)
            gate.set()
            await until(lambda number=number: _is_taken_back(place, number))
    await place.attempt(6)


async def _is_taken_back(place: Place, number: int) -> bool:
    notes = await place.steps.notes(lost_tasks.TASKS)
    return bool(notes) and json.loads(notes["r"]) == {"attempt": number, "lost": []}
