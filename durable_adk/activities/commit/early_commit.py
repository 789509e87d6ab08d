"""Performs steps so that no finished work is repeated, and commits their events if they may.

See `EarlyCommit` in `wire.steps`, and `CommitPlan`.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, TypeVar

from durable_adk.activities.commit.commit import commit_event
from durable_adk.activities.commit.notes import find_result, keep_result
from durable_adk.activities.step import ActiveStep
from durable_adk.activities.user_code.plugin_hooks import seen_by_plugins
from durable_adk.calling.closing import uninterrupted
from durable_adk.conversation.nodes.events import event_before
from durable_adk.errors import EventConflictError, LeaseLostError, StoreUnavailableError
from durable_adk.events.event import Event
from durable_adk.retrying import COMMIT_TIMEOUT, STORE_TIMEOUT, retrying
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.wire.steps import CommitStep, EarlyCommit, NodeStep, Step, StepResult, ToolStep

A = TypeVar("A", bound=Step)
Work = Callable[[ActiveStep[A]], Awaitable[StepResult]]


class CommittedStep(NamedTuple):
    """A step's result after its commit."""

    result: StepResult
    closed: Literal["now", "before"] | None = None
    """Whether the step's event closed the invocation, in this attempt or before."""


async def run_and_keep(active: ActiveStep[A], work: Work[A]) -> StepResult:
    """Return the noted result of user code that the loop waits for, or run the code and note it."""
    return await _recall(active, log=False) or await _keep(active, await work(active))


async def run_and_commit(active: ActiveStep[A], work: Work[A]) -> CommittedStep:
    """Return a step's result, with its event committed if the step may commit it.

    The work is skipped if the store has its result (I8, I10): an earlier attempt's worker died
    before it reported, or a workflow that was reset, or a Temporal server that was restored from a
    backup, schedules the step again as if for the first time (F38). The log is then longer than the
    loop expects. Other causes can lengthen it too, so length alone proves nothing; but if it is not
    longer, a first attempt looks for nothing, except as `CommitPlan.looks_first` says.

    Raises:
        LeaseLostError: The step would run for the first time, and the invocation has ended.
    """
    if active.attempt.number > 1:
        found = await _recall(active, log=True)
        if found is not None:
            return await _found(active, found)
    await active.load()
    ahead = active.scope.ahead
    # Read before the log: if an attempt that is still alive ends the invocation meanwhile, the
    # event with which it did so is found.
    ended = await _ended(active) if ahead else None
    if ahead or active.plan.looks_first:
        found = await _recall(active, log=ahead)
        if found is not None:
            return await _found(active, found)
    if ended is not None:
        raise LeaseLostError(
            f"The session store says that invocation {ended.invocation_id!r} has ended "
            f"({ended.status.value}); nothing of it is run again. Its session has its outcome."
        )
    return await _finished(active, await work(active))


async def _found(active: ActiveStep[Step], found: StepResult) -> CommittedStep:
    early_commit = active.plan.early_commit
    if found.seq is None and early_commit is not None:
        return CommittedStep(await _reserved(active, early_commit, found))
    return CommittedStep(found, "before" if found.closed else None)


async def _ended(active: ActiveStep[Step]) -> InvocationRecord | None:
    """Return the record of the step's invocation if it has ended."""
    step = active.step
    record = await active.deps.sessions.get_invocation(step.key, step.invocation_id)
    return record if record is not None and record.status.closed else None


async def _recall(active: ActiveStep[Step], *, log: bool) -> StepResult | None:
    """Return the result of a step according to its note and the log, or None.

    Args:
        active: The step.
        log: Whether the log may have the step's event.
    """
    return await retrying(_recalled, STORE_TIMEOUT)(active, log=log)


async def _recalled(active: ActiveStep[Step], *, log: bool) -> StepResult | None:
    noted, plan, step = await find_result(active), active.plan, active.step
    if noted is not None and (plan.only_noted or not log):
        return noted
    stored = await active.deps.sessions.find_event(step.key, step.event_id) if log else None
    known = await _implied(active, stored)
    if noted is not None:
        return noted if known is None or plan.agrees(noted, known.event) else known
    if isinstance(step, ToolStep) and (stored is not None or active.attempt.number == 1):
        # A failure counts if the loop has seen it: it has stored the response, or was reset.
        # Otherwise the attempt that failed was lost, and the tool may succeed now.
        failed = await find_result(active, failed=True)
        event = stored.event if stored else None
        if failed is not None and (known is None or plan.agrees(failed, event)):
            return failed
    return known


async def _implied(active: ActiveStep[Step], stored: StoredEvent | None) -> StepResult | None:
    """Return the result that a step's stored event implies, or None."""
    if stored is None:
        return None
    before: list[StoredEvent] = []
    while isinstance(active.step, NodeStep):
        name = event_before(active.step.event_id, len(before))
        found = await active.deps.sessions.find_event(active.step.key, name)
        if found is None:
            break
        before.append(found)
    return active.plan.result_of(stored, before)


async def _finished(active: ActiveStep[Step], result: StepResult) -> CommittedStep:
    early_commit = active.plan.early_commit
    if early_commit is None:
        return CommittedStep(await uninterrupted(_keep(active, result)))
    event = result.event
    if event is not None and early_commit.on_event:
        event = await seen_by_plugins(active, _completed(event, active.step))
        result = result.model_copy(update={"event": event, "hooked": True})
    if event is None or not active.plan.is_complete(result, event):
        return CommittedStep(await uninterrupted(_left_to_loop(active, early_commit, result)))
    if result.called is not None:  # the event does not say what the called nodes have used
        result = await uninterrupted(_keep(active, result))
    # Must not be interrupted: the result must tell the loop what is stored.
    return await uninterrupted(_commit(active, early_commit, result, event))


def _completed(event: Event, step: Step) -> Event:
    event.timestamp = time.time()
    metadata = step.run_config.custom_metadata if step.run_config else None
    if metadata:
        event.custom_metadata = {**metadata, **(event.custom_metadata or {})}
    return event


async def _commit(
    active: ActiveStep[Step],
    early_commit: EarlyCommit,
    result: StepResult,
    event: Event,
) -> CommittedStep:
    step = active.step
    event = _completed(event, step)
    closes = active.plan.closes(event)
    commit = CommitStep(
        key=step.key,
        invocation_id=step.invocation_id,
        epoch=early_commit.epoch,
        event=event,
        closing=Status.COMPLETED if closes else None,
        revision=step.revision,
    )
    # An earlier attempt may be alive and store another result, which the loop could not accept for
    # this one. So a later attempt retries before it leaves the commit to the loop.
    timeout = COMMIT_TIMEOUT if active.attempt.number > 1 else 0.0
    try:
        seq = await retrying(commit_event, timeout)(active.deps, commit, by_step=True)
    except StoreUnavailableError:
        # The loop retries for longer, and commits under the same id.
        return CommittedStep(await _left_to_loop(active, early_commit, result))
    except EventConflictError:
        # A slower attempt of this step was still alive, and its event counts. Or a later attempt
        # has left its result to the loop, and now only the loop may commit.
        return CommittedStep(await _recall(active, log=True) or result)
    stored = result.model_copy(update={"seq": seq, "closed": closes})
    return CommittedStep(stored, "now" if closes else None)


async def _keep(active: ActiveStep[Step], result: StepResult) -> StepResult:
    if not active.plan.notes_result(result, repeatable=active.repeatable):
        return result
    return await keep_result(active, result, retried_for=active.plan.note_timeout(result))


async def _left_to_loop(
    active: ActiveStep[Step], early_commit: EarlyCommit, result: StepResult
) -> StepResult:
    return await _reserved(active, early_commit, await _keep(active, result))


async def _reserved(
    active: ActiveStep[Step], early_commit: EarlyCommit, result: StepResult
) -> StepResult:
    """Return a result for the loop to commit, or the one that a live earlier attempt committed.

    The loop could not accept the earlier attempt's event for this result, and the run would fail.
    So the event's id is reserved first: after that, an attempt that was presumed dead either has
    committed or never can.

    Raises:
        StoreUnavailableError: The reservation is uncertain, and an earlier attempt may be alive.
    """
    step, attempt, plan = active.step, active.attempt, active.plan
    if attempt.number == 1:
        return result
    try:
        stored = await retrying(active.deps.sessions.reserve_event, STORE_TIMEOUT)(
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
    known = await retrying(_implied, STORE_TIMEOUT)(active, stored)
    return result if known is None or plan.agrees(result, known.event) else known
