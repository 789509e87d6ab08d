"""Notes: what a step stores before its event is committed, for a later attempt.

Notes are in the session store, beside the log. The first body of a name stays, so attempts agree
whichever was faster.
"""

from collections.abc import Coroutine
from typing import Any, Final

from pydantic import Field

from durable_adk.activities.dependencies import STORE_TIMEOUT, Dependencies
from durable_adk.errors import DurableAdkError, StoreUnavailableError
from durable_adk.events.event_actions import EventActions
from durable_adk.events.tool_confirmation import ConfirmationRequester
from durable_adk.json_model import JsonModel
from durable_adk.json_values import canonical
from durable_adk.log import get_logger
from durable_adk.models.llm_response import LlmResponse
from durable_adk.retrying import again
from durable_adk.wire.checkpoint import digest
from durable_adk.wire.manifest import Wait
from durable_adk.wire.steps import CallbackStep, FunctionStep, HookStep, Step, StepResult, ToolStep

logger = get_logger(__name__)


ANSWER: Final = "answer"
"""The kind of note that holds a model's answer which has arrived."""
BEGUN: Final = "begun"
"""That a run of an at-most-once tool may begin, and whose."""
RESULT: Final = "result"
"""What a tool has returned."""
OUTCOME: Final = "outcome"
"""The result of a step that may not commit its event, or has none."""
OUTCOME_PATIENCE: Final = 10.0
"""Seconds in which the store is asked again to keep an outcome."""


class _Arrived(JsonModel):
    actions: EventActions = Field(default_factory=EventActions)
    """What user code had changed by then."""
    end_invocation: bool = False
    """Whether it had asked for the agent's end."""


class ReceivedResponse(_Arrived):
    """A model's answer, before the callbacks after it."""

    response: LlmResponse
    long_running: dict[str, Wait] = Field(default_factory=dict[str, Wait])
    """The long-running tools that the request offered, by name."""


class ReceivedResult(_Arrived):
    """A tool's result, before the callbacks after it."""

    response: Any = None
    args: dict[str, Any] = Field(default_factory=dict[str, Any])
    """As the callbacks before the tool have left them."""
    asked_by: ConfirmationRequester | None = None
    """Who had asked for a confirmation."""


async def find_note(deps: Dependencies, step: Step, kind: str, name: str) -> str | None:
    """What an earlier attempt has written down; None: nothing."""
    notes = await deps.sessions.read_notes(
        step.key, invocation_id=step.invocation_id, kind=kind, name=name
    )
    return notes[0].body if notes else None


async def write_note(deps: Dependencies, step: Step, kind: str, name: str, body: str) -> str:
    """Write something down; what stands there now.

    Raises:
        StoreUnavailableError: Perhaps it is written, perhaps not.
    """
    return await deps.sessions.note(
        step.key, invocation_id=step.invocation_id, kind=kind, name=name, body=body
    )


async def offer_note(
    deps: Dependencies, step: Step, kind: str, name: str, body: str, *, patience: float = 0.0
) -> str:
    """Write something down if the store answers: without it the run goes on as well.

    Args:
        deps: The stores.
        step: Whose note it is.
        kind: The note's kind.
        name: Its name.
        body: What it says.
        patience: Seconds in which a store that does not answer is asked again.

    Returns:
        What stands there now.
    """
    try:
        return await again(write_note, patience)(deps, step, kind, name, body)
    except StoreUnavailableError:
        logger.warning("note.not_written", kind=kind, name=name)
    except DurableAdkError as error:
        # It cannot be stored. If the event cannot either, the step will say so.
        logger.warning("note.refused", kind=kind, name=name, reason=error.message)
    return body


async def keep_outcome(
    deps: Dependencies, step: Step, work: Coroutine[Any, Any, StepResult]
) -> StepResult:
    """The result of the step's first attempt that had one; the work is done if none had (I10).

    A step that commits its event has its result in the log. Elsewhere the body of a custom agent, a
    sibling branch or another call stands between a step and the log, and the loop goes by what the
    step has reported. A workflow that was reset has forgotten that. What functions of a body or
    callbacks draw anew would lead to other events than those that are stored.
    """
    try:
        found = await again(find_outcome, STORE_TIMEOUT)(deps, step)
    except BaseException:
        work.close()
        raise
    if found is not None:
        work.close()
        return found
    result = await work
    return await _kept(deps, step, result)


async def find_outcome(deps: Dependencies, step: Step) -> StepResult | None:
    """The result that was kept of a step; None: none was."""
    body = await find_note(deps, step, OUTCOME, _outcome_name(step))
    return None if body is None else StepResult.from_json(body)


async def keep_failure(deps: Dependencies, step: ToolStep, result: StepResult) -> None:
    """Keep what a tool has raised: the loop stores a response in its place, and then fails."""
    await _kept(deps, step, result)


async def _kept(deps: Dependencies, step: Step, result: StepResult) -> StepResult:
    name, body = _outcome_name(step), result.to_json()
    kept = await offer_note(deps, step, OUTCOME, name, body, patience=OUTCOME_PATIENCE)
    return result if kept == body else StepResult.from_json(kept)


def _outcome_name(step: Step) -> str:
    """Names the step and its input: a body may come to its steps in another order after a reset."""
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
            # A call that an agent or an activity answers has two steps.
            ended = [step.child is not None, step.activity is not None]
            asked += [step.call_id, step.request_id, *ended]
        case _:
            pass
    return f"{step.event_id}.{digest(canonical(asked))}"
