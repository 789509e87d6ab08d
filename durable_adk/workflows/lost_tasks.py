"""Counts workers lost in a workflow task, and ends the invocation after too many.

The user code that runs in workflow tasks is the bodies of custom agents. When a worker dies,
Temporal gives its task to the next one, for ever, and counts a failed attempt.
"""

import asyncio
import json
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from pydantic import Field
from temporalio.bridge.proto.workflow_activation import InitializeWorkflow, WorkflowActivation
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from durable_adk.activities.effects import EffectPerformer
from durable_adk.errors import DurableAdkError, InvocationNotFoundError, RunError, as_detail
from durable_adk.flows.begin import closing_unknown
from durable_adk.json_values import JsonModel
from durable_adk.log import get_logger
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.checkpoint import Cursor
from durable_adk.wire.messages import InvocationRequest
from durable_adk.workflows.invocation import TYPE_NAME

NOTED_FROM = 2
"""The first attempt of a task that is recorded, so that an ordinary task costs nothing."""
TIMEOUT = 1.5
"""Seconds for counting: the SDK fails a workflow task that takes 2 s."""
ASKING = timedelta(seconds=0.5)
"""Timeout of the request to Temporal. If it is exceeded, Temporal is busy, and the attempt is not
counted."""
TASKS: Final = "tasks"
"""Kind of the notes on the workflow tasks of an invocation; the name is the workflow run's id."""
_INIT: Final = "initialize_workflow"

logger = get_logger(__name__)


class _Note(JsonModel):
    attempt: int = 0
    """The latest recorded attempt of a task."""
    lost: list[int] = Field(default_factory=list[int])
    """Recorded attempts that have not ended; they are lost unless they still run."""


@dataclass(frozen=True, kw_only=True)
class TaskAttempt:
    """An attempt of a workflow task whose earlier attempts failed, or lost their workers."""

    key: SessionKey
    invocation_id: str
    owner: TemporalLeaseOwner
    handle: WorkflowHandle[Any, Any]
    """Handle of the workflow run."""
    number: int
    lost: list[int]
    """The earlier attempts that lost their workers since the run's last progress."""


@dataclass(frozen=True, kw_only=True)
class LostTasks:
    """Notes in the session store, written before a body runs again that may have killed its worker.

    Only a worker that loads a workflow with a history reads the attempt's number from Temporal, and
    it writes only from the second attempt on. Progress restarts the count, as does the run that a
    reset creates. A task that fails does not count, nor does one that ends too late.
    """

    client: Client
    effects: EffectPerformer
    loop: asyncio.AbstractEventLoop
    """The worker's loop; all methods are called in other threads."""
    _ending: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    def begin(self, act: WorkflowActivation) -> TaskAttempt | None:
        """Record that a task is about to run; `act` is the first activation of a loaded workflow.

        An error fails the task, which Temporal retries: an attempt without a note must not run.

        Returns:
            The attempt, for `end` once the task is over; None if it is not counted.

        Raises:
            RunError: Too many workers were lost; the invocation is being closed.
            StoreUnavailableError: The note was not written.
            TimeoutError: It was not written in time.
        """
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            return None  # the SDK's debug mode runs workflows in the worker's loop
        noted = asyncio.run_coroutine_threadsafe(self._begin(act), self.loop)
        try:
            return noted.result(TIMEOUT)
        except TimeoutError:
            noted.add_done_callback(self._end_unused)
            raise

    def end(self, this: TaskAttempt) -> None:
        """Remove the attempt from the note: the task is over, and the worker lives."""
        asyncio.run_coroutine_threadsafe(self._end(this), self.loop)

    def _end_unused(self, noted: "Future[TaskAttempt | None]") -> None:
        if not noted.exception() and (this := noted.result()):
            self.end(this)

    async def _begin(self, act: WorkflowActivation) -> TaskAttempt | None:
        try:
            this = await self._attempt(act)
        except RPCError as error:  # for example, permission denied
            logger.warning("workflow_task.not_counted", error_type=type(error).__name__)
            return None
        if this is None:
            return None
        if len(this.lost) < self.effects.deps.limits.max_lost_workers:
            await self._note(this, _Note(attempt=this.number, lost=[*this.lost, this.number]))
            return this
        error = RunError(
            f"The invocation was given up: {len(this.lost)} workers in a row were lost "
            "(max_lost_workers) while they ran its agents' own code in a workflow task. Look for "
            "what ends the process, such as os._exit, an extension that crashes, or the memory."
        )
        ending = asyncio.ensure_future(self._give_up(this, error))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        raise error

    async def _end(self, this: TaskAttempt) -> None:
        note = await self._noted(this.key, this.invocation_id, this.handle)
        if this.number in note.lost:
            note.lost.remove(this.number)
            await self._note(this, note)

    async def _attempt(self, act: WorkflowActivation) -> TaskAttempt | None:
        (init,) = (job.initialize_workflow for job in act.jobs if job.HasField(_INIT))
        place = _place_of(init) if init.workflow_type == TYPE_NAME else None
        if place is None:
            return None
        handle = self.client.get_workflow_handle(init.workflow_id, run_id=act.run_id)
        found = await handle.describe(rpc_timeout=ASKING)
        number = found.raw_description.pending_workflow_task.attempt
        if number < NOTED_FROM:
            return None
        key, invocation_id = place
        note = await self._noted(key, invocation_id, handle)
        return TaskAttempt(
            key=key,
            invocation_id=invocation_id,
            owner=TemporalLeaseOwner(
                self.client.namespace, init.first_execution_run_id, init.workflow_id
            ),
            handle=handle,
            number=number,
            lost=note.lost if number > note.attempt else [],  # Temporal counts attempts per task
        )

    async def _noted(
        self, key: SessionKey, invocation_id: str, run: WorkflowHandle[Any, Any]
    ) -> _Note:
        found = await self.effects.deps.sessions.read_notes(
            key, invocation_id=invocation_id, kind=TASKS, name=run.run_id
        )
        return _Note.from_json(found[0].body) if found else _Note()

    async def _note(self, this: TaskAttempt, note: _Note) -> None:
        with suppress(InvocationNotFoundError):  # not open yet, so no body has run
            await self.effects.deps.sessions.note(
                this.key,
                invocation_id=this.invocation_id,
                kind=TASKS,
                name=this.handle.run_id or "",
                body=note.to_json(),
                replace=True,
            )

    async def _give_up(self, this: TaskAttempt, error: RunError) -> None:
        """Close the invocation, and then its workflow, which otherwise only its body could end.

        If that fails, or this worker dies, another attempt repeats it.
        """
        owner = str(this.owner)
        step = closing_unknown(this.key, this.invocation_id, owner, time.time(), error)
        try:
            await self.effects.perform(step)
            await this.handle.terminate(as_detail(error), reason=error.message)
        except (RPCError, DurableAdkError) as failure:
            logger.warning("invocation.not_given_up", error_type=type(failure).__name__)
        else:
            logger.error("invocation.given_up", invocation_id=this.invocation_id)


def _place_of(init: InitializeWorkflow) -> tuple[SessionKey, str] | None:
    """Return session and id of an invocation as `begin` names them; None: it cannot begin.

    A cron workflow's id is random, so the store has no invocation by this one.
    """
    try:
        raw = json.loads(init.arguments[0].data)
        if Cursor.is_one(raw):
            cursor = Cursor.parse(raw)
            return cursor.key, cursor.invocation_id
        request = InvocationRequest.parse(raw)
    except (IndexError, ValueError, DurableAdkError):
        return None
    name = request.invocation_id or f"e-{init.first_execution_run_id}"
    return SessionKey(request.app, request.user, request.session or name), name
