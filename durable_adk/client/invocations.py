"""Invocation workflows on Temporal: starting them, and their handles."""

import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.deployment.v1 import WorkerDeploymentOptions, WorkerDeploymentVersion
from temporalio.api.enums.v1 import WorkerVersioningMode
from temporalio.api.history.v1 import WorkflowExecutionStartedEventAttributes
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueueVersioningInfo
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryRequest
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.common import (
    Priority,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.exceptions import (
    ApplicationError,
    TerminatedError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.client.connect import reached
from durable_adk.client.search_attributes import forget, search_attributes
from durable_adk.errors import (
    DurableAdkError,
    InvalidRequestError,
    InvocationCancelledError,
    InvocationNotFoundError,
    InvocationTerminatedError,
    NoWorkerError,
    PayloadLostError,
    PayloadTooLargeError,
    SessionBusyError,
    SessionRegressedError,
    TemporalUnavailableError,
    TransientError,
    from_detail,
)
from durable_adk.json_values import canonical
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import DEFAULT_TASK_QUEUE
from durable_adk.task_queues import described, starts_here
from durable_adk.telemetry.headers import traced
from durable_adk.wire import run_config
from durable_adk.wire.messages import (
    InvocationAnswer,
    InvocationRequest,
    InvocationResult,
    workflow_id,
)
from durable_adk.workflows.invocation import ARGUMENT_ERRORS

QUERY_TIMEOUT = timedelta(seconds=2)
TASK_TIMEOUT = timedelta(seconds=3)
"""A local activity takes at most a second, and ends with its workflow task (D19)."""
POLLER_MAX_AGE = 75.0
"""Maximum seconds since a live worker's last poll; it renews its long poll every 60."""

_CLOSED_FROM_OUTSIDE = (WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.TIMED_OUT)


def only_waits(description: WorkflowExecutionDescription) -> bool:
    """Return whether only messages wake an open workflow: no task, activity or child is pending."""
    raw = description.raw_description
    busy = raw.HasField("pending_workflow_task") or raw.pending_activities
    return not (busy or raw.pending_children)


@dataclass(frozen=True)
class InvocationHandle:
    """The handle of an invocation's workflow."""

    key: SessionKey
    invocation_id: str
    workflow: WorkflowHandle[Any, Any]

    async def result(self) -> InvocationResult:
        """Wait for the result.

        Raises:
            DurableAdkError: The invocation failed, was cancelled or terminated, or never opened.
        """
        try:
            return InvocationResult.read(await self.workflow.result())
        except WorkflowFailureError as error:
            raise _reason(error) from error
        except PayloadLostError as error:
            if await self._status() is not WorkflowExecutionStatus.TERMINATED:
                raise
            # The client that gave the reason did not have our encryption keys.
            raise _closed_outside(f"terminated, for a reason that is lost: {error}") from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise InvocationNotFoundError(
                    f"Temporal has no workflow of invocation {self.invocation_id!r}."
                ) from error
            raise

    async def cancel(self) -> bool:
        """Request cancellation; committed events stay (CAN-1). False: the workflow is closed."""
        return await reached(self.workflow.cancel())

    async def answer(self, answer: InvocationAnswer) -> bool:
        """Signal an answer to pending calls; return False if the workflow is closed (D9)."""
        return await reached(self.workflow.signal("answer", answer.to_value()))

    async def took(self, answer: InvocationAnswer) -> bool:
        """Return whether the workflow has accepted an answer.

        Raises:
            InvalidRequestError: It was refused, or a different answer has its id.
            TemporalUnavailableError: The workflow cannot be queried at the moment.
        """
        answer_id = answer.answer_id or ""
        try:
            outcomes: dict[str, str | None] = await self.workflow.query(
                "answers", rpc_timeout=QUERY_TIMEOUT
            )
            if outcomes.get(answer_id) is not None:
                taken: dict[str, str] = await self.workflow.query(
                    "taken", rpc_timeout=QUERY_TIMEOUT
                )
                if taken.get(answer_id) == answer.digest():
                    return True  # a different answer with this id was refused
        except (RPCError, WorkflowQueryFailedError) as error:
            raise TemporalUnavailableError(
                f"No worker could tell which answers {self.workflow.id} has accepted: {error}"
            ) from error
        if outcomes.get(answer_id) is not None:
            raise InvalidRequestError(str(outcomes[answer_id]))
        return answer_id in outcomes

    async def is_open(self) -> bool:
        """Return whether the workflow is open."""
        return await self._status() is WorkflowExecutionStatus.RUNNING

    async def rests(self) -> bool:
        """Return whether the workflow is closed, or only waits for messages."""
        description = await self.workflow.describe()
        return description.status is not WorkflowExecutionStatus.RUNNING or only_waits(description)

    async def waits(self) -> bool:
        """Return whether the workflow is open, and only waits for messages."""
        description = await self.workflow.describe()
        return description.status is WorkflowExecutionStatus.RUNNING and only_waits(description)

    async def _status(self) -> WorkflowExecutionStatus | None:
        return (await self.workflow.describe()).status

    async def failing_step(self, *, logged_by: str) -> str | None:
        """Describe the step that failed and is being retried, and why; None if there is none.

        Args:
            logged_by: Identity of a worker whose failures are skipped, because it logs them itself.

        Raises:
            SessionRegressedError: The run waits for the repair of a restored store.
        """
        description = await self.workflow.describe()
        for pending in description.raw_description.pending_activities:
            failure = pending.last_failure
            if failure.HasField("server_failure_info"):  # it was too large for the server
                failure = failure.cause
            kind = failure.application_failure_info.type
            if kind == SessionRegressedError.__name__:
                cause = await description.data_converter.decode_failure(failure)
                raise SessionRegressedError(getattr(cause, "message", failure.message))
            # Waiting for an earlier message is not a failure.
            if kind in ("", SessionBusyError.__name__) or pending.last_worker_identity == logged_by:
                continue
            return (
                f"{pending.activity_type.name} failed with {kind} and is tried again, as attempt "
                f"{pending.attempt}; `durable-adk show {self.invocation_id}` prints the reason."
            )
        return None


@dataclass(frozen=True)
class Invocations:
    """The invocations of one task queue."""

    client: Client
    task_queue: str = DEFAULT_TASK_QUEUE

    async def start(
        self,
        request: InvocationRequest,
        *,
        replaced_at: Callable[[SessionKey, str], Awaitable[float | None]] | None = None,
    ) -> InvocationHandle:
        """Start an invocation, or attach to the one with the same ids.

        An invocation that was refused because its session was busy has stored nothing, and is
        started again. So is one whose session was deleted, unless it was cancelled after that: a
        late repeat of a message that waited for its session must not undo the cancellation.

        Args:
            request: A checked request, with `session` and `invocation_id`.
            replaced_at: Returns when the invocation's session was deleted or replaced, in seconds
                since the epoch; None: the store knows of no deletion.

        Raises:
            PayloadTooLargeError: The server rejects a request of this size.
            TemporalUnavailableError: The server does not respond.
        """
        key = request.key
        found = self.handle(key, request.invocation_id or "")
        try:
            # A client that does not know whether its start arrived sends it again (I12).
            reuse = WorkflowIDReusePolicy.REJECT_DUPLICATE
            try:
                return replace(found, workflow=await self._start(request, reuse))
            except WorkflowAlreadyStartedError:
                # If another client is faster and its run has ended, the store runs nothing again.
                if await self._was_refused(found):
                    reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
                elif replaced_at is not None and await _ended_with_session(
                    found, await replaced_at(key, found.invocation_id)
                ):
                    reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE
                else:
                    return found  # it has ended; its events are in the store
            return replace(found, workflow=await self._start(request, reuse))
        except WorkflowAlreadyStartedError:
            return found
        except RPCError as error:
            raise _start_error(error) from error

    async def _was_refused(self, found: InvocationHandle) -> bool:
        """Return whether an invocation was refused for a busy session, so that none has begun."""
        description = await found.workflow.describe()
        if description.status is not WorkflowExecutionStatus.FAILED:
            return False
        run = self.client.get_workflow_handle(description.id, run_id=description.run_id)
        try:
            await replace(found, workflow=run).result()
        except SessionBusyError:
            return True
        except DurableAdkError:
            return False
        return False

    async def _start(
        self, request: InvocationRequest, reuse: WorkflowIDReusePolicy
    ) -> WorkflowHandle[Any, Any]:
        """Start the workflow, without search attributes if the server rejects them."""
        attributes = await search_attributes(self.client, request)
        try:
            return await self._start_with(request, reuse, attributes)
        except RPCError as error:
            if attributes is None or error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            forget(self.client)  # they were removed, or the server does not have them yet
            return await self._start_with(request, reuse, None)

    async def _start_with(
        self,
        request: InvocationRequest,
        reuse: WorkflowIDReusePolicy,
        attributes: TypedSearchAttributes | None,
    ) -> WorkflowHandle[Any, Any]:
        key = request.key
        invocation_id = request.invocation_id or ""
        return await traced(self.client).start_workflow(
            "Invocation",
            as_argument(request),
            id=workflow_id(key, invocation_id),
            task_queue=self.task_queue,
            task_timeout=TASK_TIMEOUT,
            id_reuse_policy=reuse,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=f"{request.app}: {invocation_id}",
            search_attributes=attributes,
            priority=priority_of(request),
            request_eager_start=await starts_here(self.client, self.task_queue),
        )

    def handle(
        self, key: SessionKey, invocation_id: str, *, workflow: str | None = None
    ) -> InvocationHandle:
        """Return the handle of an invocation, which may not exist.

        `workflow` is the workflow's id if `start` did not start it.
        """
        handle = self.client.get_workflow_handle(workflow or workflow_id(key, invocation_id))
        return InvocationHandle(key, invocation_id, handle)

    async def after_reset(
        self, followed: InvocationHandle, first_run_id: str | None
    ) -> InvocationHandle | None:
        """Return the workflow run that a reset has created; None if there was no reset.

        Args:
            followed: The run that was terminated, or that Temporal no longer has.
            first_run_id: First run of the chain that owns the invocation; None: that of `followed`.

        Raises:
            RPCError: The server does not respond.
        """
        old = followed.workflow
        try:
            latest = await self.client.get_workflow_handle(old.id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        chain = first_run_id or old.first_execution_run_id
        if chain not in (None, latest.raw_info.first_run_id):
            return None  # another workflow has the id now
        if latest.run_id == old.result_run_id or latest.status in _CLOSED_FROM_OUTSIDE:
            return None
        run = self.client.get_workflow_handle(old.id, run_id=latest.run_id)
        return InvocationHandle(followed.key, followed.invocation_id, run)

    async def check_worker(self, invocation_id: str, *, opened: bool = False) -> None:
        """Raise NoWorkerError if no worker that would run an invocation has polled lately.

        Args:
            invocation_id: The waiting invocation, for the error message; empty: none waits.
            opened: Whether it was opened. With Worker Versioning, the current version only runs
                invocations that were not.
        """
        answer = await described(self.client, self.task_queue)
        known = [
            poller
            for poller in answer.pollers
            if time.time() - poller.last_access_time.seconds < POLLER_MAX_AGE
        ]
        if not known:
            remedy = (
                "The message is kept: start a worker with `durable-adk worker`, then attach to "
                f"invocation {invocation_id}."
                if invocation_id
                else "Start one with `durable-adk worker`, then try again."
            )
            if self.task_queue == DEFAULT_TASK_QUEUE:
                remedy += f" `durable-adk dev` and `web` poll {DEFAULT_TASK_QUEUE}-APP."
            problem = f"No worker polls task queue {self.task_queue!r}. {remedy}"
        elif not opened and answer.HasField("versioning_info"):
            kept = "The message is kept; make" if invocation_id else "Make"
            problem = wrong_version(known, answer.versioning_info, self.task_queue, kept)
        else:
            problem = None
        if problem is not None:
            error = NoWorkerError(problem)
            error.invocation_id = invocation_id or None
            raise error


_Version = tuple[str, str] | None
"""Deployment and build id of a worker; None: it has no version."""


def wrong_version(
    pollers: Iterable[PollerInfo], routing: TaskQueueVersioningInfo, task_queue: str, make: str
) -> str | None:
    """Return a remedy if no worker has a version on which new workflows start; None: one has."""
    versions = {_version_of(one.deployment_options) for one in pollers}
    current = _version(routing.current_deployment_version)
    ramps = routing.ramping_version_percentage > 0
    ramping = _version(routing.ramping_deployment_version) if ramps else current
    if versions & {current, ramping}:
        return None
    serves = ", ".join(sorted(f"{one[0]}.{one[1]}" for one in versions if one)) or "no version"
    wanted = "no version" if current is None else f"{current[0]}.{current[1]}"
    name, build = next((one for one in versions if one), ("DEPLOYMENT", "BUILD_ID"))
    return (
        f"The workers of task queue {task_queue!r} have {serves}, but new invocations go to "
        f"workers with {wanted}. {make} a version current: temporal worker "
        f"deployment set-current-version --deployment-name {name} --build-id {build}"
    )


def _version_of(options: WorkerDeploymentOptions) -> _Version:
    versioned = WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
    if options.worker_versioning_mode != versioned:
        return None
    return options.deployment_name, options.build_id


def _version(version: WorkerDeploymentVersion) -> _Version:
    return (version.deployment_name, version.build_id) if version.build_id else None


class UnreadableError(Exception):
    """The argument of a run cannot be read: its key is missing, or it is lost or malformed."""


async def start_of(
    client: Client, workflow: str, run_id: str | None = None
) -> WorkflowExecutionStartedEventAttributes:
    """Return the started event of a workflow run.

    Args:
        client: A Temporal client.
        workflow: The workflow's id.
        run_id: The run; None: the latest.

    Raises:
        RPCError: There is no such run, or Temporal does not respond.
    """
    asked = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=workflow, run_id=run_id or ""),
        maximum_page_size=1,
    )
    # Temporal closes each connection after some minutes, which may cancel a request on it.
    history = await client.workflow_service.get_workflow_execution_history(asked, retry=True)
    return history.history.events[0].workflow_execution_started_event_attributes


async def decoded(converter: DataConverter, payloads: Sequence[Payload]) -> list[Any]:
    """Return the arguments of a run, which any client of the namespace may have started.

    Raises:
        UnreadableError: They cannot be read.
    """
    try:
        return await converter.decode(payloads)
    except (TransientError, PayloadLostError, *ARGUMENT_ERRORS) as error:
        raise UnreadableError from error


async def started_with(
    client: Client, workflow: str, run_id: str | None = None
) -> InvocationRequest | None:
    """Return the request with which an invocation's run was started.

    Returns:
        None if the run or its payload is deleted or unreadable, or if it continued another run.
    """
    context = WorkflowSerializationContext(client.namespace, workflow)
    try:
        started = await start_of(client, workflow, run_id)
        found = await decoded(client.data_converter.with_context(context), started.input.payloads)
        (argument,) = found
        return InvocationRequest.read(argument)
    except (RPCError, UnreadableError, DurableAdkError, ValueError, IndexError):
        return None


def as_argument(request: InvocationRequest) -> dict[str, Any]:
    """Return the workflow's argument, without the fields that only its start needs.

    Fields with their default are left out. So a worker rejects a request only for a field that is
    used and that it does not know.
    """
    return request.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"run_config": {"priority"}}
    )


def priority_of(request: InvocationRequest) -> Priority:
    """Return the workflow's priority, which its activities and children inherit.

    The default fairness key is a hash, because everyone who may read the workflow can see it.
    """
    chosen = request.run_config.priority or run_config.Priority()
    digest = hashlib.sha256(canonical([request.app, request.user]).encode()).hexdigest()
    return Priority(
        priority_key=chosen.priority_key,
        fairness_key=chosen.fairness_key or digest[:32],
        fairness_weight=chosen.fairness_weight,
    )


def _start_error(error: RPCError) -> Exception:
    if error.status is RPCStatusCode.INVALID_ARGUMENT or "larger than max" in error.message:
        return PayloadTooLargeError(f"Temporal refused the request: {error.message}")
    return TemporalUnavailableError(f"Temporal did not accept the request: {error.message}")


async def _ended_with_session(found: InvocationHandle, replaced_at: float | None) -> bool:
    """Return whether no cancellation followed its session's replacement, by Temporal's clock."""
    if replaced_at is None:
        return False
    last = await found.workflow.describe()
    was_cancelled = last.status is WorkflowExecutionStatus.CANCELED
    return not (was_cancelled and last.close_time and last.close_time.timestamp() > replaced_at)


def _reason(error: WorkflowFailureError) -> Exception:
    cause = error.cause
    if is_cancelled_exception(cause):
        return InvocationCancelledError()
    if isinstance(cause, (ApplicationError, TerminatedError)):
        detail = next(iter(cause.details), None)
        if isinstance(detail, dict) and "class" in detail:
            return from_detail(detail)  # pyright: ignore[reportUnknownArgumentType]: as_detail made it
    return _closed_outside(str(cause))


def _closed_outside(why: str) -> InvocationTerminatedError:
    return InvocationTerminatedError(f"The invocation's workflow was terminated: {why}")
