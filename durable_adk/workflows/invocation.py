"""Workflow type ``Invocation``: one run of an app's agents for one user message."""

from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from durable_adk.errors import DurableAdkError, InvalidRequestError, as_detail, class_name
    from durable_adk.flows.event_loop import run_invocation
    from durable_adk.flows.invocation import Invocation
    from durable_adk.json_values import MAX_ID
    from durable_adk.runtime import Inbox
    from durable_adk.sessions.lease_owner import TemporalLeaseOwner
    from durable_adk.wire.checkpoint import Cursor
    from durable_adk.wire.messages import InvocationAnswer, InvocationRequest, InvocationResult
    from durable_adk.workflows.status import StatusDisplay
    from durable_adk.workflows.temporal_runtime import TemporalRuntime

TYPE_NAME = "Invocation"
PENDING = "durable_adk.pending"
"""The memo that tells a run which calls wait, until it has read where the invocation stands."""
MAX_PENDING = 100
"""Calls that it tells of: a memo is small."""
ARGUMENT_ERRORS: list[type[Exception]] = [TypeError, ValueError, KeyError, RuntimeError]
"""What a start with no argument, two, or an unknown encoding ends in, before our code is reached.

It fails the workflow. By default it would fail the workflow task, again and again. A history that
does not fit the code (NondeterminismError) is none of these: that waits for the right code.
"""


@workflow.defn(name=TYPE_NAME, failure_exception_types=ARGUMENT_ERRORS)
class InvocationWorkflow:
    """Drives the event loop; every effect of it is an activity (semantics DUR-1..7)."""

    def __init__(self) -> None:
        self._inbox = Inbox()
        self._invocation: Invocation | None = None
        self._runtime: TemporalRuntime | None = None
        self._came_early = False
        """Whether something that changes nothing has come before the invocation was open."""

    @workflow.signal(name="answer")
    def answer(self, answer: RawValue) -> None:
        """Answer calls that wait: an `InvocationAnswer` in plain JSON (design D9).

        A signal and no update: it is never refused by the server, whatever else is going on.
        What became of it is in query ``answers``.
        """
        raw: Any = None
        if self._runtime is not None:
            self._runtime.look()
        try:
            raw = _decoded(answer)
            if not self._inbox.put(InvocationAnswer.parse(raw)):
                self._let_it_end()
        except DurableAdkError as error:
            # There is nobody to raise it to, and raising it here would end the run.
            self._inbox.refuse(_answer_id(raw), error.message)
            self._let_it_end()

    @workflow.signal(dynamic=True)
    def other(self, name: str, args: Sequence[RawValue]) -> None:
        """A signal that nothing is meant by; it is in the history all the same."""
        del name, args
        if self._runtime is not None:
            self._runtime.look()
        self._let_it_end()

    def _let_it_end(self) -> None:
        """Have a run that waits look whether its history is long, after what changes nothing (F27).

        The server takes so many messages, and then no answer either. Answers see to it themselves.
        """
        runtime, invocation = self._runtime, self._invocation
        if runtime is None or invocation is None:
            self._came_early = True
        elif runtime.fullness() >= 1:
            invocation.continuing.progressed()
            self._inbox.wake()

    @workflow.query(name="answers")
    def answers(self) -> dict[str, str | None]:
        """By answer id, why an answer was refused; None: it was taken."""
        return self._inbox.outcomes

    @workflow.query(name="taken")
    def taken(self) -> dict[str, str]:
        """By answer id, the digest of the answer that was taken (`InvocationAnswer.digest`)."""
        return self._inbox.taken()

    @workflow.query(name="pending")
    def pending(self) -> list[dict[str, Any]]:
        """The calls that wait: id, name, and until when, in seconds since the epoch."""
        if self._invocation is None:
            return workflow.memo_value(PENDING, [])
        return [
            {"callId": call.call_id, "name": call.name, "agent": call.author, "due": call.due}
            for call in self._invocation.pending.waiting
        ]

    @workflow.run
    async def run(self, request: RawValue) -> InvocationResult:
        """Run the invocation described by an `InvocationRequest` in plain JSON.

        When its history has grown long it continues as new, with a `Cursor` as argument.

        The argument is taken as it comes and read here: one that cannot be read would fail the
        workflow task for ever, so it fails the workflow, with the reason.

        Raises:
            ApplicationError: Of the name of one of `durable_adk.errors`, with `as_detail` in its
                details.
        """
        self._runtime = TemporalRuntime(self._inbox, StatusDisplay(self.pending))
        try:
            outcome = await run_invocation(
                self._runtime,
                _parsed(request),
                lease_owner=_lease_owner(),
                opened=self._opened,
            )
        except DurableAdkError as error:
            raise ApplicationError(
                error.message, as_detail(error), type=class_name(error), non_retryable=True
            ) from error
        if isinstance(outcome, Cursor):
            workflow.continue_as_new(outcome, memo=self._memo())
        return outcome

    def _memo(self) -> dict[str, Any] | None:
        """That of the next run; None: as it is.

        What others have put there is passed on as it is: nobody says that this worker can read it.
        """
        known, waiting = workflow.info().raw_memo, self.pending()[:MAX_PENDING]
        if not waiting and PENDING not in known:
            return None
        others = {name: RawValue(payload) for name, payload in known.items()}
        return {**others, PENDING: waiting}

    def _opened(self, invocation: Invocation) -> None:
        self._invocation = invocation
        if self._came_early:
            self._let_it_end()


def _answer_id(raw: Any) -> str | None:
    """The name of an answer that is refused; not one that is refused itself, being too long."""
    match raw:
        case {"answerId": str(name)} | {"answer_id": str(name)} if len(name) <= MAX_ID:
            return name
        case _:
            return None


def _parsed(argument: RawValue) -> InvocationRequest | Cursor:
    raw = _decoded(argument)
    return Cursor.parse(raw) if Cursor.is_one(raw) else _named(InvocationRequest.parse(raw))


def _named(request: InvocationRequest) -> InvocationRequest:
    """The request with an id that a reset of the workflow keeps, so that it finds what was opened.

    Each run of a cron workflow, and each retry of one, is an invocation of its own, whose id is
    drawn; so are the names of new sessions, by which older versions replay.
    """
    info = workflow.info()
    if request.invocation_id or not request.session or info.cron_schedule or info.attempt > 1:
        return request
    workflow.uuid4()  # drawn by earlier versions: what code of users draws later stays the same
    return request.model_copy(update={"invocation_id": f"e-{info.first_execution_run_id}"})


def _decoded(request: RawValue) -> Any:
    try:
        return workflow.payload_converter().from_payload(request.payload)
    except Exception as error:  # noqa: BLE001 - a converter may raise anything
        raise InvalidRequestError(f"The argument of Invocation is no JSON: {error}") from None


def _lease_owner() -> str:
    info = workflow.info()
    return str(TemporalLeaseOwner(info.namespace, info.first_execution_run_id, info.workflow_id))
