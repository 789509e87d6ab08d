"""Workflow type ``Invocation``: one run of an app's agents for one user message."""

import asyncio
from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.workflow import HandlerUnfinishedPolicy

with workflow.unsafe.imports_passed_through():
    from durable_adk.calling.code_scope import keep_running
    from durable_adk.errors import DurableAdkError, InvalidRequestError, as_detail, class_name
    from durable_adk.flows.event_loop import run_invocation
    from durable_adk.flows.invocation import Invocation
    from durable_adk.flows.runtime import Inbox
    from durable_adk.json_values import MAX_ID
    from durable_adk.sessions.lease_owner import TemporalLeaseOwner
    from durable_adk.wire.checkpoint import Cursor
    from durable_adk.wire.converter import shortened
    from durable_adk.wire.messages import InvocationAnswer, InvocationRequest, InvocationResult
    from durable_adk.workflows.status import StatusDisplay
    from durable_adk.workflows.temporal_runtime import TemporalRuntime

TYPE_NAME = "Invocation"
PENDING = "durable_adk.pending"
"""Memo key of the pending calls, for a workflow run that has not read its checkpoint yet."""
MAX_PENDING = 100
IN_MEMO = ("callId", "name", "agent", "due")
"""Maximum number of calls in the memo, and their fields in it: the memo is kept small."""
ENDED = "The invocation has ended without it."
"""Why a late answer was refused."""
ARGUMENT_ERRORS: list[type[Exception]] = [TypeError, ValueError, KeyError, RuntimeError]
"""Errors of a start with no argument, with two, or with an unknown encoding.

They are raised before this package's code runs, and fail the workflow. By default they would fail
the workflow task, again and again. A history that does not match the code (NondeterminismError) is
none of these: it waits for the right code.
"""


@workflow.defn(name=TYPE_NAME, failure_exception_types=ARGUMENT_ERRORS)
class InvocationWorkflow:
    """Runs the event loop; each of its effects is an activity (DUR-1..7)."""

    def __init__(self) -> None:
        self._inbox = Inbox()
        self._invocation: Invocation | None = None
        self._runtime: TemporalRuntime | None = None
        self._over = False
        """Whether the invocation accepts no more answers."""
        self._ignored_early = False
        """Whether an ignored signal arrived before the invocation was open."""

    @workflow.signal(name="answer")
    def answer(self, answer: RawValue) -> None:
        """Answer pending calls: an `InvocationAnswer` in plain JSON (D9).

        A signal and not an update, because the server never refuses it, whatever else is in
        progress. Query ``answers`` has the outcome.
        """
        raw: Any = None
        if self._runtime is not None:
            self._runtime.look()
        try:
            raw = decoded(answer)
            if not self._inbox.put(InvocationAnswer.parse(raw)):
                self._continue_if_full()
        except DurableAdkError as error:
            # A signal has no caller, and raising here would end the invocation.
            self._inbox.refuse_malformed(_answer_id(raw), error.message)
            self._continue_if_full()

    @workflow.update(name="answer", unfinished_policy=HandlerUnfinishedPolicy.ABANDON)
    async def answer_update(self, answer: RawValue) -> dict[str, Any]:
        """Answer pending calls as signal ``answer`` does, and wait for the outcome.

        If the workflow continues as new, the caller gets none. Sending the answer again with the
        same `answerId` is safe.

        Returns:
            `answerId`, `accepted`, and `reason`: why it was refused, else None.
        """
        if self._runtime is not None:
            self._runtime.look()
        sent = InvocationAnswer.parse(decoded(answer))
        self._inbox.put(sent)
        await workflow.wait_condition(lambda: self._over or self._inbox.is_decided(sent))
        if not self._inbox.is_decided(sent):
            return {"answerId": sent.answer_id, "accepted": False, "reason": ENDED}
        reason = self._inbox.refusal(sent)
        if reason is not None:
            self._continue_if_full()
        return {"answerId": sent.answer_id, "accepted": reason is None, "reason": reason}

    @answer_update.validator
    def _check_answer(self, answer: RawValue) -> None:
        """Reject malformed answers; a rejection adds nothing to the history."""
        try:
            _check_update(InvocationAnswer.parse(decoded(answer)))
        except DurableAdkError as error:
            raise failure(error) from None

    @workflow.signal(dynamic=True)
    def other(self, name: str, args: Sequence[RawValue]) -> None:
        """Ignore a signal of another name; it lengthens the history all the same."""
        del name, args
        if self._runtime is not None:
            self._runtime.look()
        self._continue_if_full()

    def _continue_if_full(self) -> None:
        """After an ignored signal, let a waiting workflow run continue as new if it is full (F27).

        The server accepts a limited number of messages per run, answers included. An accepted
        answer counts as progress by itself.
        """
        runtime, invocation = self._runtime, self._invocation
        if runtime is None or invocation is None:
            self._ignored_early = True
        elif runtime.fullness() >= 1:
            invocation.continuing.progressed()
            self._inbox.wake()

    @workflow.query(name="answers")
    def answers(self) -> dict[str, str | None]:
        """Return why each answer was refused, by answer id; None: it was accepted."""
        return self._inbox.outcomes

    @workflow.query(name="taken")
    def taken(self) -> dict[str, str]:
        """Return the digest of each accepted answer (`InvocationAnswer.digest`), by answer id."""
        return self._inbox.taken()

    @workflow.query(name="pending")
    def pending(self) -> list[dict[str, Any]]:
        """Return the pending calls; see `PendingCalls.listed`."""
        if self._invocation is None:
            return workflow.memo_value(PENDING, [])
        return self._invocation.pending.listed()

    @workflow.run
    async def run(self, request: RawValue) -> InvocationResult:
        """Run the invocation described by an `InvocationRequest` in plain JSON.

        When its history has grown long, it continues as new with a `Cursor` as argument.

        The argument is decoded here: an unreadable one would fail the workflow task for ever, but
        this way it fails the workflow, with the reason.

        Raises:
            ApplicationError: Its type is the name of an error in `durable_adk.errors`, its details
                are `as_detail` of that error.
        """
        keep_running(asyncio.get_running_loop(), whoever=True)
        self._runtime = TemporalRuntime(self._inbox, StatusDisplay(self.pending))
        try:
            outcome = await run_invocation(
                self._runtime,
                _parsed(request),
                lease_owner=_lease_owner(),
                opened=self._opened,
            )
        except (asyncio.CancelledError, Exception) as error:
            await self._end_updates()
            if isinstance(error, DurableAdkError):
                raise failure(error) from shortened(error)
            raise
        if isinstance(outcome, Cursor):
            workflow.continue_as_new(outcome, memo=self._memo())
        await self._end_updates()
        return outcome

    async def _end_updates(self) -> None:
        """Let the remaining updates return, because the workflow ends with this task."""
        self._over = True
        if not workflow.all_handlers_finished():
            await workflow.wait_condition(workflow.all_handlers_finished)

    def _memo(self) -> dict[str, Any] | None:
        """Return the memo of the next workflow run; None: unchanged.

        Other programs' entries are passed on undecoded: this worker may be unable to read them.
        """
        known = workflow.info().raw_memo
        waiting = [{name: call[name] for name in IN_MEMO} for call in self.pending()[:MAX_PENDING]]
        if not waiting and PENDING not in known:
            return None
        others = {name: RawValue(payload) for name, payload in known.items()}
        return {**others, PENDING: waiting}

    def _opened(self, invocation: Invocation) -> None:
        self._invocation = invocation
        if self._ignored_early:
            self._continue_if_full()


def _check_update(answer: InvocationAnswer) -> None:
    """Raise InvalidRequestError if an answer is unacceptable, or notifies of a steering message."""
    if answer.steers is not None:
        raise InvalidRequestError("steers is sent by signal only.")


def failure(error: DurableAdkError) -> ApplicationError:
    """Return the failure of a workflow that ends with an error of this package."""
    return ApplicationError(
        error.message, as_detail(error), type=class_name(error), non_retryable=True
    )


def _answer_id(raw: Any) -> str | None:
    """Return the id of a refused answer, unless the id itself is invalid."""
    match raw:
        case {"answerId": str(name)} | {"answer_id": str(name)} if len(name) <= MAX_ID:
            return name
        case _:
            return None


def _parsed(argument: RawValue) -> InvocationRequest | Cursor:
    raw = decoded(argument)
    return Cursor.parse(raw) if Cursor.is_one(raw) else _named(InvocationRequest.parse(raw))


def _named(request: InvocationRequest) -> InvocationRequest:
    """Give the request an id that survives a reset of the workflow, so that it finds its opening.

    Each run and each retry of a cron workflow is an invocation of its own, whose id is random.
    """
    info = workflow.info()
    if request.invocation_id or info.cron_schedule or info.attempt > 1:
        return request
    return request.model_copy(update={"invocation_id": f"e-{info.first_execution_run_id}"})


def decoded(request: RawValue) -> Any:
    """Return the argument of a workflow, an update or a signal.

    Raises:
        InvalidRequestError: It is not JSON.
    """
    try:
        return workflow.payload_converter().from_payload(request.payload)
    except Exception as error:  # noqa: BLE001 - a converter may raise anything
        raise InvalidRequestError(f"The argument is no JSON: {error}") from None


def _lease_owner() -> str:
    info = workflow.info()
    return str(TemporalLeaseOwner(info.namespace, info.first_execution_run_id, info.workflow_id))
