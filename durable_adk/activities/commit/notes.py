"""Notes: what a step stores before its event is committed, for use by a later attempt.

Notes are in the session store, beside the log. The first body stored under a name is never
replaced, so concurrent attempts agree whichever was faster.
"""

from collections.abc import Coroutine
from typing import Any, Final

from google.genai import types
from pydantic import Field

from durable_adk.activities.dependencies import Dependencies
from durable_adk.errors import DurableAdkError, StoreUnavailableError
from durable_adk.events.event_actions import EventActions
from durable_adk.events.tool_confirmation import ConfirmationRequester
from durable_adk.json_values import JsonModel, canonical
from durable_adk.log import get_logger
from durable_adk.models.llm_response import LlmResponse
from durable_adk.retrying import OUTCOME_TIMEOUT, STORE_TIMEOUT, retrying
from durable_adk.wire.checkpoint import digest
from durable_adk.wire.effect import ErrorDetail
from durable_adk.wire.manifest import Wait
from durable_adk.wire.steps import (
    CallbackStep,
    FunctionStep,
    HookStep,
    ModelStep,
    Step,
    StepResult,
    ToolStep,
)

logger = get_logger(__name__)


ANSWER: Final = "answer"
"""Kind of the note that holds a model's complete response."""
BEGUN: Final = "begun"
"""Kind of the note that permits one attempt to run an at-most-once tool, and names it."""
RESULT: Final = "result"
"""Kind of the note that holds a tool's result."""
OUTCOME: Final = "outcome"
"""Kind of the note that holds the result of a step that may not commit its event, or has none."""


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


async def arrived_response(deps: Dependencies, step: ModelStep) -> ReceivedResponse | None:
    """Return the response that an earlier attempt of a model step stored as a note, or None."""
    body = await find_note(deps, step, ANSWER, step.event_id)
    return None if body is None else ReceivedResponse.model_validate_json(body, extra="ignore")


async def more_arrived(deps: Dependencies, step: ModelStep) -> bool:
    """Return whether the step's model sent more than one response, or failed after the first."""
    arrived = await arrived_response(deps, step)
    return arrived is not None and bool(arrived.more or arrived.error)


async def find_note(deps: Dependencies, step: Step, kind: str, name: str) -> str | None:
    """Return the body of an earlier attempt's note, or None."""
    notes = await deps.sessions.read_notes(
        step.key, invocation_id=step.invocation_id, kind=kind, name=name
    )
    return notes[0].body if notes else None


async def write_note(deps: Dependencies, step: Step, kind: str, name: str, body: str) -> str:
    """Store a note, and return the body that is stored under its name now.

    Raises:
        StoreUnavailableError: It is unknown whether the note was stored.
    """
    return await deps.sessions.note(
        step.key, invocation_id=step.invocation_id, kind=kind, name=name, body=body
    )


async def offer_note(
    deps: Dependencies, step: Step, kind: str, name: str, body: str, *, retried_for: float = 0.0
) -> str:
    """Store a note if the store is available; otherwise the run continues without it.

    Args:
        deps: The stores.
        step: The step that the note belongs to.
        kind: The note's kind.
        name: The note's name.
        body: The note's text.
        retried_for: Seconds for which an unavailable store is retried.

    Returns:
        The body that is stored under the name now.
    """
    try:
        return await retrying(write_note, retried_for)(deps, step, kind, name, body)
    except StoreUnavailableError:
        logger.warning("note.not_written", kind=kind, name=name)
    except DurableAdkError as error:
        # It cannot be stored. If the event cannot either, the step reports that.
        logger.warning("note.refused", kind=kind, name=name, reason=error.message)
    return body


async def keep_outcome(
    deps: Dependencies, step: Step, work: Coroutine[Any, Any, StepResult]
) -> StepResult:
    """Return the stored result of the step's first finished attempt, or do the work (I10).

    If a step commits its event, the log has its result. Otherwise a custom agent's body, a parallel
    branch or another call comes between the step and the log, and the loop relies on the step's
    report. A workflow that was reset has lost that report. Repeating functions or callbacks that
    are not deterministic would then lead to events other than the stored ones.
    """
    try:
        found = await retrying(find_outcome, STORE_TIMEOUT)(deps, step)
    except BaseException:
        work.close()
        raise
    if found is not None:
        work.close()
        return found
    result = await work
    return await _kept(deps, step, result)


async def find_outcome(deps: Dependencies, step: Step) -> StepResult | None:
    """Return the stored result of a step, or None."""
    body = await find_note(deps, step, OUTCOME, _outcome_name(step))
    return None if body is None else StepResult.from_json(body)


async def keep_failure(deps: Dependencies, step: ToolStep, result: StepResult) -> None:
    """Store a tool's failure: the loop commits a response in its place before the run fails."""
    await _kept(deps, step, result)


async def _kept(deps: Dependencies, step: Step, result: StepResult) -> StepResult:
    name, body = _outcome_name(step), result.to_json()
    kept = await offer_note(deps, step, OUTCOME, name, body, retried_for=OUTCOME_TIMEOUT)
    return result if kept == body else StepResult.from_json(kept)


def _outcome_name(step: Step) -> str:
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
            # A call that an agent or an external activity runs has two steps.
            ended = [step.child is not None, step.activity is not None]
            asked += [step.call_id, step.request_id, *ended]
        case _:
            pass
    return f"{step.event_id}.{digest(canonical(asked))}"
