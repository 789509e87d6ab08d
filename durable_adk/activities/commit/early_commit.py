"""Early commits: a step commits its own event; see `EarlyCommit` in `wire.steps`."""

import time
from collections.abc import Coroutine
from typing import Any, Literal, NamedTuple

from durable_adk.activities.commit.commit import commit_event
from durable_adk.activities.commit.notes import (
    find_outcome,
    keep_failure,
    keep_outcome,
    more_arrived,
)
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.user_code.plugin_hooks import seen_by_plugins
from durable_adk.calling.closing import uninterrupted
from durable_adk.code_executors.code_execution_utils import pending_code
from durable_adk.context.activity import StepScope
from durable_adk.conversation.tool_responses import failure_text
from durable_adk.errors import EventConflictError, LeaseLostError, StoreUnavailableError
from durable_adk.events.event import Event
from durable_adk.retrying import COMMIT_TIMEOUT, STORE_TIMEOUT, retrying
from durable_adk.sessions.records import Status, StoredEvent
from durable_adk.sessions.state import is_temp
from durable_adk.wire.effect import EffectAttempt
from durable_adk.wire.steps import CommitStep, EarlyCommit, ModelStep, Step, StepResult, ToolStep


class CommittedStep(NamedTuple):
    """A step's result after its commit."""

    result: StepResult
    closed: Literal["now", "before"] | None = None
    """Whether the step's event closed the invocation, in this attempt or before."""


class AlreadyStoredError(Exception):
    """A step's event is already stored, although this attempt did not expect an earlier one.

    Args:
        result: The step's result, rebuilt from the stored event.
    """

    def __init__(self, result: StepResult) -> None:
        super().__init__(result.event and result.event.id)
        self.result = result


async def require_new(deps: Dependencies, step: Step, scope: StepScope) -> None:
    """Keep a first attempt from repeating work that the store has already recorded (F38).

    A Temporal server that was restored from a backup schedules steps again that it has lost. The
    log is then longer than the loop expects. Other causes can lengthen it, so length alone proves
    nothing. If the log is not longer, this check costs nothing. For parallel branches length is
    meaningless, because one may be ahead of the other.

    Raises:
        AlreadyStoredError: The step's event is stored.
        LeaseLostError: It is not stored, and the invocation has ended.
    """
    if not scope.ahead:
        return
    found = await _earlier(deps, step) if step.early_commit is not None else None
    if found is not None:
        raise AlreadyStoredError(found)
    record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is not None and record.status.closed:
        raise LeaseLostError(
            f"The session store says that invocation {step.invocation_id!r} has ended "
            f"({record.status.value}); nothing of it is run again. Its session has its outcome."
        )


async def require_not_stored(deps: Dependencies, step: Step, scope: StepScope) -> None:
    """Keep a step without a note from repeating work whose event the loop has stored.

    The note of a model's response or a tool's result is not written while the store is unavailable,
    and a workflow that was reset has lost both the note and the result.

    Raises:
        AlreadyStoredError: The step's event is stored and holds its result.
    """
    found = await _of_loop(deps, step, scope)
    if found is not None:
        raise AlreadyStoredError(found)


async def prefer_stored(
    deps: Dependencies, step: Step, scope: StepScope, result: StepResult
) -> StepResult:
    """Return the result in a step's note, unless the loop has stored a different event.

    Of two concurrent attempts, one may have reported its result and the other stored its note. If
    user code changes events before they are stored, the stored event differs from the reported one
    anyway, and the note is used.
    """
    if deps.changes_events(step):
        return result
    found = await _of_loop(deps, step, scope)
    if found is None or found.event is None or result.event is None:
        return result
    same = found.event.content == result.event.content
    return result if same and found.event.actions == result.event.actions else found


async def _of_loop(deps: Dependencies, step: Step, scope: StepScope) -> StepResult | None:
    """Return a step's result if the step may not commit and the loop stored its event, or None."""
    if not scope.ahead or step.early_commit is not None:
        return None
    found = await _earlier(deps, step)
    return found if found and found.event and _is_own(step, found.event) else None


def _is_own(step: Step, event: Event) -> bool:
    """Return whether the event is the step's own, not merged with those of other calls."""
    if isinstance(step, ToolStep):
        answered = [response.id for response in event.get_function_responses()]
        return answered == [step.call_id]
    return isinstance(step, ModelStep)


async def run_and_commit(
    deps: Dependencies,
    step: Step,
    work: Coroutine[Any, Any, StepResult],
    attempt: EffectAttempt,
) -> CommittedStep:
    """Return a step's result, with its event committed if the step may commit it.

    The work is skipped if an earlier attempt has committed the event and its worker died before
    reporting it. The result is then taken from the stored event, so neither the model nor the tool
    runs again (I10).
    """
    try:
        found = (
            await _earlier(deps, step)
            if step.early_commit is not None and attempt.number > 1
            else None
        )
    except BaseException:
        work.close()
        raise
    if found is not None:
        work.close()
        return await _found(deps, step, found)
    if step.early_commit is None:
        work = _reported(deps, step, work)
    try:
        result = await work
    except AlreadyStoredError as before:
        return await _found(deps, step, before.result)
    if result.error and isinstance(step, ToolStep):
        await keep_failure(deps, step, result)
    if step.early_commit is None:
        return CommittedStep(result)
    event = result.event
    if event is not None and step.early_commit.on_event:
        event = await seen_by_plugins(deps, step, _completed(event, step.early_commit))
        result = result.model_copy(update={"event": event, "hooked": True})
    if event is None or not _complete_without_loop(step, result, event):
        return CommittedStep(await _left_to_loop(deps, step, step.early_commit, result, attempt))
    # Must not be interrupted: the result must tell the loop what is stored.
    return await uninterrupted(
        _commit(deps, step, step.early_commit, result, event, attempt=attempt)
    )


async def _reported(
    deps: Dependencies, step: Step, work: Coroutine[Any, Any, StepResult]
) -> StepResult:
    """Return the result of a step that the loop commits, keeping it as an outcome if required.

    For model and tool steps the note of the response or result may be enough.
    """
    try:
        noted = isinstance(step, ModelStep | ToolStep) and not deps.changes_events(step)
    except BaseException:
        work.close()
        raise
    return await (work if noted else keep_outcome(deps, step, work))


async def _found(deps: Dependencies, step: Step, found: StepResult) -> CommittedStep:
    """Return the result of an earlier attempt, which committed the event."""
    failed = await _failed(deps, step, found)
    if failed is not None:
        return CommittedStep(failed)
    closed = found.closed and step.early_commit is not None
    return CommittedStep(found, "before" if closed else None)


async def _failed(deps: Dependencies, step: Step, found: StepResult) -> StepResult | None:
    """Return a tool's failure if the stored event is the response that the loop made of it.

    The failure ends the invocation but does not show in the response: a tool may return the same
    value. An attempt whose worker died may have stored a note of a failure although a later attempt
    succeeded, so the note alone does not count.
    """
    if not isinstance(step, ToolStep) or found.event is None:
        return None
    noted = await find_outcome(deps, step)
    if noted is None or noted.error is None:
        return None
    responses = [one.response for one in found.event.get_function_responses()]
    return noted if responses == [{"error": failure_text(step.tool, noted.error)}] else None


def _completed(event: Event, early_commit: EarlyCommit) -> Event:
    event.timestamp = time.time()
    if early_commit.custom_metadata:
        event.custom_metadata = {**early_commit.custom_metadata, **(event.custom_metadata or {})}
    return event


def _complete_without_loop(step: Step, result: StepResult, event: Event) -> bool:
    """Return whether the stored event contains the whole result of the step.

    Only the result has these: `temp:` keys, a request to end the invocation, a response made by a
    callback, pending calls, the agent to transfer to, and whatever followed a model's first
    response.
    """
    if result.transfer is not None or result.waits or result.more or result.error:
        return False
    answered = result.model_called or not isinstance(step, ModelStep)
    temp = any(map(is_temp, event.actions.state_delta))
    return answered and not temp and not result.end_invocation and _says_it_all(event)


def _says_it_all(event: Event) -> bool:
    """Return whether a stored event implies that its step reported nothing else."""
    actions = event.actions
    return not (
        event.long_running_tool_ids
        or actions.transfer_to_agent
        or actions.requested_tool_confirmations
        or actions.requested_auth_configs
    )


async def _commit(
    deps: Dependencies,
    step: Step,
    early_commit: EarlyCommit,
    result: StepResult,
    event: Event,
    *,
    attempt: EffectAttempt,
) -> CommittedStep:
    event = _completed(event, early_commit)
    closes = early_commit.closes and _ends_the_run(step, event)
    commit = CommitStep(
        key=step.key,
        invocation_id=step.invocation_id,
        epoch=early_commit.epoch,
        event=event,
        closing=Status.COMPLETED if closes else None,
        revision=step.revision,
    )
    try:
        # An earlier attempt may be alive and store another result, which the loop could not accept
        # for this one. So a later attempt retries before it leaves the commit to the loop.
        seq = await retrying(commit_event, COMMIT_TIMEOUT if attempt.number > 1 else 0.0)(
            deps, commit, by_step=True
        )
    except StoreUnavailableError:
        # The loop retries for longer, and commits under the same id.
        return CommittedStep(await _left_to_loop(deps, step, early_commit, result, attempt))
    except EventConflictError:
        # A slower attempt of this step was still alive, and its event counts. Or a later attempt
        # has left its result to the loop, and now only the loop may commit.
        return CommittedStep(await _earlier(deps, step) or result)
    stored = result.model_copy(update={"seq": seq, "closed": closes})
    return CommittedStep(stored, "now" if closes else None)


def _ends_the_run(step: Step, event: Event) -> bool:
    """Return whether the agent ends after this event: a model's final response, no calls or code.

    A callback's event without content is final too (EVT-11), but the agent has not run yet then.
    """
    return (
        isinstance(step, ModelStep)
        and event.is_final_response()
        and pending_code(event.content) is None
        and not event.get_function_calls()
        and not event.get_function_responses()
    )


async def _left_to_loop(
    deps: Dependencies,
    step: Step,
    early_commit: EarlyCommit,
    result: StepResult,
    attempt: EffectAttempt,
) -> StepResult:
    """Return a result for the loop to commit, or the one that a live earlier attempt committed.

    The loop could not accept the earlier attempt's event for this result, and the run would fail.
    So the event's id is reserved first: after that, an attempt that was presumed dead either has
    committed or never can.

    Raises:
        StoreUnavailableError: The reservation is uncertain, and an earlier attempt may be alive.
    """
    if attempt.number == 1:
        return result
    try:
        stored = await retrying(deps.sessions.reserve_event, STORE_TIMEOUT)(
            step.key,
            step.event_id,
            invocation_id=step.invocation_id,
            epoch=early_commit.epoch,
            revision=step.revision,
        )
    except StoreUnavailableError:
        if attempt.history.lost(attempt.number):
            raise
        return result  # all earlier attempts have reported how they ended
    return _result_of(step, stored) if stored and _says_it_all(stored.event) else result


async def _earlier(deps: Dependencies, step: Step) -> StepResult | None:
    """Return the result of an earlier attempt that committed the step's event, or None."""
    stored = await deps.sessions.find_event(step.key, step.event_id)
    if stored is None or not _says_it_all(stored.event):
        return None
    if isinstance(step, ModelStep) and await more_arrived(deps, step):
        return None  # its event is the first of several
    return _result_of(step, stored)


def _result_of(step: Step, stored: StoredEvent) -> StepResult:
    closes = step.early_commit is not None and step.early_commit.closes
    return StepResult(
        event=stored.event,
        seq=stored.seq,
        closed=closes and _ends_the_run(step, stored.event),
        model_called=isinstance(step, ModelStep),
    )
