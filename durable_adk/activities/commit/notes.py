"""Notes: what a step stores before its event is committed, for use by a later attempt.

Notes are in the session store, beside the log. The first body stored under a name is never
replaced, so concurrent attempts agree whichever was faster.
"""

from typing import Any, Final, TypeVar

from google.genai import types
from pydantic import Field

from durable_adk.activities.step import ActiveStep
from durable_adk.errors import DurableAdkError, StoreUnavailableError
from durable_adk.events.event_actions import EventActions
from durable_adk.events.tool_confirmation import ConfirmationRequester
from durable_adk.failpoints import failpoint
from durable_adk.json_values import JsonModel, canonical
from durable_adk.log import get_logger
from durable_adk.models.llm_response import LlmResponse
from durable_adk.retrying import retrying
from durable_adk.wire.checkpoint import digest
from durable_adk.wire.effect import ErrorDetail
from durable_adk.wire.manifest import Wait
from durable_adk.wire.steps import (
    CallbackStep,
    FunctionStep,
    HookStep,
    Step,
    StepResult,
    ToolStep,
)

logger = get_logger(__name__)


RECEIVED: Final = "received"
"""Kind of the note that holds a model's response or a tool's result before the step's own code sees
it."""
RESULT: Final = "result"
"""Kind of the note that holds a step's result, for the loop."""
BEGUN: Final = "begun"
"""Kind of the note that permits one attempt to run an at-most-once tool, and names it."""


class _Arrived(JsonModel):
    actions: EventActions = Field(default_factory=EventActions)
    """The changes that user code had made by then."""
    end_invocation: bool = False
    """Whether user code had requested the end of the agent."""


class ReceivedResponse(_Arrived):
    """A model's response, before the after-model callbacks."""

    response: LlmResponse
    more: list[LlmResponse] = Field(default_factory=list[LlmResponse])
    """Further whole responses of the same call."""
    error: ErrorDetail | None = None
    """`errors.as_detail` of the error that the model raised after these responses."""
    long_running: dict[str, Wait] = Field(default_factory=dict[str, Wait])
    """The long-running tools that the request offered, by name."""


class ReceivedResult(_Arrived):
    """A tool's result, before the after-tool callbacks."""

    response: Any = None
    media: list[types.FunctionResponsePart] = Field(
        default_factory=list[types.FunctionResponsePart]
    )
    """The files in the response, whose note is without them."""
    args: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The arguments as the before-tool callbacks left them."""
    requested_by: ConfirmationRequester | None = None
    """The code that requested a confirmation."""


N = TypeVar("N", ReceivedResponse, ReceivedResult)


async def find_received(active: ActiveStep[Step], kind: type[N]) -> N | None:
    """Return what an earlier attempt received from the model or tool, if it was noted, or None."""
    body = await find_note(active, RECEIVED, note_name(active.step))
    return None if body is None else kind.model_validate_json(body, extra="ignore")


async def keep_received(active: ActiveStep[Step], received: N) -> N:
    """Note what a step received; return what is noted: of two attempts the first one's counts.

    Raises:
        ValueError: It is not JSON.
    """
    body = received.to_json()
    kept = await offer_note(active, RECEIVED, note_name(active.step), body)
    failpoint("received.noted")
    if kept == body:
        return received
    return type(received).model_validate_json(kept, extra="ignore")


def note_name(step: Step) -> str:
    """Return the name of a step's notes; an approved call runs again under another event."""
    return f"{step.event_id}/{step.call_id}" if isinstance(step, ToolStep) else step.event_id


async def find_result(active: ActiveStep[Step], *, failed: bool = False) -> StepResult | None:
    """Return the noted result of a step, or with `failed` the noted failure of a tool, or None."""
    body = await find_note(active, RESULT, _result_name(active.step, failed=failed))
    return None if body is None else StepResult.from_json(body)


async def keep_result(
    active: ActiveStep[Step], result: StepResult, *, retried_for: float
) -> StepResult:
    """Note a step's result; return the one that is noted: of two attempts the first one's counts.

    The loop relies on a step's report where a custom agent's body, a parallel branch or another
    call comes between the step and the log, and a workflow that was reset has lost that report.
    Repeating functions or callbacks that are not deterministic would then lead to other events than
    the stored ones (I10).

    A tool's failure has a name of its own: an attempt that wakes up late, to find its time over,
    must not replace what its successor has achieved.
    """
    failed = isinstance(active.step, ToolStep) and result.error is not None
    name, body = _result_name(active.step, failed=failed), result.to_json()
    kept = await offer_note(active, RESULT, name, body, retried_for=retried_for)
    failpoint("result.noted")
    return result if kept == body else StepResult.from_json(kept)


async def find_note(active: ActiveStep[Step], kind: str, name: str) -> str | None:
    """Return the body of an earlier attempt's note, or None."""
    step = active.step
    notes = await active.deps.sessions.read_notes(
        step.key, invocation_id=step.invocation_id, kind=kind, name=name
    )
    return notes[0].body if notes else None


async def write_note(active: ActiveStep[Step], kind: str, name: str, body: str) -> str:
    """Store a note, and return the body that is stored under its name now.

    Raises:
        StoreUnavailableError: It is unknown whether the note was stored.
    """
    step = active.step
    return await active.deps.sessions.note(
        step.key, invocation_id=step.invocation_id, kind=kind, name=name, body=body
    )


async def offer_note(
    active: ActiveStep[Step], kind: str, name: str, body: str, *, retried_for: float = 0.0
) -> str:
    """Store a note if the store is available; otherwise the run continues without it.

    Args:
        active: The step that the note belongs to.
        kind: The note's kind.
        name: The note's name.
        body: The note's text.
        retried_for: Seconds for which an unavailable store is retried.

    Returns:
        The body that is stored under the name now.
    """
    try:
        return await retrying(write_note, retried_for)(active, kind, name, body)
    except StoreUnavailableError:
        logger.warning("note.not_written", kind=kind, name=name)
    except DurableAdkError as error:
        # It cannot be stored. If the event cannot either, the step reports that.
        logger.warning("note.refused", kind=kind, name=name, reason=error.message)
    return body


def _result_name(step: Step, *, failed: bool) -> str:
    """Build a note's name from the step and its input.

    Both are needed: after a reset a body may reach its steps in another order.
    """
    asked: list[Any] = [type(step).__name__, step.agent]
    match step:
        case FunctionStep():
            asked += [step.function, step.args, step.kwargs]
        case CallbackStep():
            asked.append(step.hook)
        case HookStep():
            event = step.event and step.event.model_dump(mode="json", exclude={"timestamp"})
            asked += [step.hook, event]
        case ToolStep():
            # A call has a further step after each agent, or external activity, that ran for it.
            ended = [len(step.children), step.child is not None, step.activity is not None]
            asked += [step.call_id, step.request_id, *ended]
        case _:
            pass
    return f"{step.event_id}.{digest(canonical(asked))}" + (".failed" if failed else "")
