"""Starting invocations on Temporal, and finding them again."""

import hashlib
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
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
from temporalio.exceptions import (
    ApplicationError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.client.search_attributes import forget, search_attributes
from durable_adk.errors import (
    InvalidRequestError,
    InvocationCancelledError,
    InvocationNotFoundError,
    InvocationTerminatedError,
    NoWorkerError,
    PayloadLostError,
    PayloadTooLargeError,
    SessionRegressedError,
    TemporalUnavailableError,
    from_detail,
)
from durable_adk.json_values import canonical
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import DEFAULT_TASK_QUEUE
from durable_adk.telemetry.headers import sending
from durable_adk.wire import run_config
from durable_adk.wire.messages import (
    InvocationAnswer,
    InvocationRequest,
    InvocationResult,
    workflow_id,
)

QUERY_TIMEOUT = timedelta(seconds=2)
TASK_TIMEOUT = timedelta(seconds=3)
"""A local activity takes a second at most, and ends with its task (D19)."""
POLLER_MAX_AGE = 75.0
"""Seconds; a live worker's long poll is renewed every 60."""

_CLOSED_FROM_OUTSIDE = (WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.TIMED_OUT)


def only_waits(description: WorkflowExecutionDescription) -> bool:
    """Whether nothing is under way in an open workflow, so that only a message moves it."""
    told = description.raw_description
    busy = told.HasField("pending_workflow_task") or told.pending_activities
    return not (busy or told.pending_children)


@dataclass(frozen=True)
class InvocationHandle:
    """A started invocation."""

    key: SessionKey
    invocation_id: str
    workflow: WorkflowHandle[Any, Any]

    async def result(self) -> InvocationResult:
        """Wait for the end.

        Raises:
            DurableAdkError: It failed, was cancelled or terminated, or was never opened.
        """
        try:
            return InvocationResult.read(await self.workflow.result())
        except WorkflowFailureError as error:
            raise _reason(error) from error
        except PayloadLostError as error:
            if await self._status() is not WorkflowExecutionStatus.TERMINATED:
                raise
            # What somebody without our keys gave as the reason.
            raise _closed_outside(f"terminated, for a reason that is lost: {error}") from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise InvocationNotFoundError(
                    f"Temporal knows no workflow of invocation {self.invocation_id!r}."
                ) from error
            raise

    async def cancel(self) -> bool:
        """Ask the invocation to end; what is committed stays (CAN-1). False: it is closed."""
        return await self._reached(self.workflow.cancel())

    async def answer(self, answer: InvocationAnswer) -> bool:
        """Signal an answer to calls that wait; False if the workflow is closed (design D9)."""
        payload = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        return await self._reached(self.workflow.signal("answer", payload))

    async def took(self, answer: InvocationAnswer) -> bool:
        """Whether the workflow has taken an answer.

        Raises:
            InvalidRequestError: It has refused it, or has taken another one of its id.
            TemporalUnavailableError: Nobody can say at the moment.
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
                    return True  # it is the other one of this id that is refused
        except (RPCError, WorkflowQueryFailedError) as error:
            raise TemporalUnavailableError(
                f"No worker has said which answers {self.workflow.id} has taken: {error}"
            ) from error
        if outcomes.get(answer_id) is not None:
            raise InvalidRequestError(str(outcomes[answer_id]))
        return answer_id in outcomes

    async def is_open(self) -> bool:
        """Whether the workflow still runs."""
        return await self._status() is WorkflowExecutionStatus.RUNNING

    async def rests(self) -> bool:
        """Whether the workflow is closed, or waits for somebody."""
        description = await self.workflow.describe()
        return description.status is not WorkflowExecutionStatus.RUNNING or only_waits(description)

    async def _status(self) -> WorkflowExecutionStatus | None:
        return (await self.workflow.describe()).status

    async def check_store(self) -> None:
        """Raise SessionRegressedError if the run waits for the repair of a store that is older."""
        description = await self.workflow.describe()
        for pending in description.raw_description.pending_activities:
            failure = pending.last_failure
            if failure.HasField("server_failure_info"):  # it was larger than the server keeps
                failure = failure.cause
            kind = failure.application_failure_info.type
            if kind == SessionRegressedError.__name__:
                told = await description.data_converter.decode_failure(failure)
                raise SessionRegressedError(getattr(told, "message", failure.message))

    async def _reached(self, call: Awaitable[None]) -> bool:
        try:
            await call
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
        return True


@dataclass(frozen=True)
class Invocations:
    """The invocations of one task queue."""

    client: Client
    task_queue: str = DEFAULT_TASK_QUEUE

    async def start(self, request: InvocationRequest) -> InvocationHandle:
        """Start an invocation, or attach to the one that was started with the same ids.

        Args:
            request: Checked, with `session` and `invocation_id`.

        Raises:
            PayloadTooLargeError: The server does not take a request of this size.
            TemporalUnavailableError: The server does not answer.
        """
        key = SessionKey(request.app, request.user, request.session or "")
        invocation_id = request.invocation_id or ""
        marks = await search_attributes(self.client, request)
        try:
            try:
                handle = await self._start(request, marks)
            except RPCError as error:
                if marks is None or error.status is not RPCStatusCode.INVALID_ARGUMENT:
                    raise
                forget(self.client)  # somebody has removed them, or the server is yet to know them
                handle = await self._start(request, None)
        except WorkflowAlreadyStartedError:
            return self.handle(key, invocation_id)  # it has ended; its events are in the store
        except RPCError as error:
            raise _start_error(error) from error
        return InvocationHandle(key, invocation_id, handle)

    async def _start(
        self, request: InvocationRequest, marks: TypedSearchAttributes | None
    ) -> WorkflowHandle[Any, Any]:
        key = SessionKey(request.app, request.user, request.session or "")
        invocation_id = request.invocation_id or ""
        return await sending(self.client).start_workflow(
            "Invocation",
            as_argument(request),
            id=workflow_id(key, invocation_id),
            task_queue=self.task_queue,
            task_timeout=TASK_TIMEOUT,
            # A client that does not know whether its start arrived repeats it (I12).
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=f"{request.app}: {invocation_id}",
            search_attributes=marks,
            priority=priority_of(request),
        )

    def handle(
        self, key: SessionKey, invocation_id: str, *, workflow: str | None = None
    ) -> InvocationHandle:
        """The invocation of that id, which may not exist.

        `workflow` is its workflow's id if somebody else than `start` chose it.
        """
        handle = self.client.get_workflow_handle(workflow or workflow_id(key, invocation_id))
        return InvocationHandle(key, invocation_id, handle)

    async def after_reset(
        self, followed: InvocationHandle, first_run_id: str | None
    ) -> InvocationHandle | None:
        """The run that a reset has put in the place of the one that was followed; None: none has.

        Args:
            followed: What was terminated, or is not known any more.
            first_run_id: Of the chain of runs that has the invocation; None: that of its start.

        Raises:
            RPCError: The server does not answer.
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
            return None  # another workflow has taken the id since
        if latest.run_id == old.result_run_id or latest.status in _CLOSED_FROM_OUTSIDE:
            return None
        run = self.client.get_workflow_handle(old.id, run_id=latest.run_id)
        return InvocationHandle(followed.key, followed.invocation_id, run)

    async def check_worker(self, invocation_id: str) -> None:
        """Raise NoWorkerError when nobody has polled the task queue lately."""
        request = DescribeTaskQueueRequest(
            namespace=self.client.namespace,
            task_queue=TaskQueue(name=self.task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        answer = await self.client.workflow_service.describe_task_queue(
            request, timeout=timedelta(seconds=5)
        )
        seen = [poller.last_access_time.seconds for poller in answer.pollers]
        if not any(time.time() - at < POLLER_MAX_AGE for at in seen):
            raise NoWorkerError(
                f"No worker listens on task queue {self.task_queue!r}. The message is kept: "
                f"start one with `durable-adk worker`, then attach to invocation {invocation_id}."
            )


def as_argument(request: InvocationRequest) -> dict[str, Any]:
    """The request as the workflow's argument: without what only its start needs.

    What is as by default is left out: an older worker refuses fields that it does not know, which
    is right where something new is asked for, and only there.
    """
    return request.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"run_config": {"priority"}}
    )


def priority_of(request: InvocationRequest) -> Priority:
    """What the start is given; the activities and children of the workflow inherit it.

    The default fairness key is a hash: the key is shown to everybody who may read the workflow.
    """
    wish = request.run_config.priority or run_config.Priority()
    digest = hashlib.sha256(canonical([request.app, request.user]).encode()).hexdigest()
    return Priority(
        priority_key=wish.priority_key,
        fairness_key=wish.fairness_key or digest[:32],
        fairness_weight=wish.fairness_weight,
    )


def _start_error(error: RPCError) -> Exception:
    if error.status is RPCStatusCode.INVALID_ARGUMENT or "larger than max" in error.message:
        return PayloadTooLargeError(f"Temporal refused the request: {error.message}")
    return TemporalUnavailableError(f"Temporal did not take the request: {error.message}")


def _reason(error: WorkflowFailureError) -> Exception:
    cause = error.cause
    if is_cancelled_exception(cause):
        return InvocationCancelledError()
    if isinstance(cause, ApplicationError):
        detail = next(iter(cause.details), None)
        if isinstance(detail, dict):
            return from_detail(detail)  # pyright: ignore[reportUnknownArgumentType]: as_detail made it
    return _closed_outside(str(cause))


def _closed_outside(why: str) -> InvocationTerminatedError:
    return InvocationTerminatedError(f"The invocation's workflow was closed from outside: {why}")
