"""Begins the loop: opens or continues an invocation, or finds that it has already ended."""

import asyncio
from typing import Any

from google.genai import types

from durable_adk.calling.closing import uninterrupted
from durable_adk.context.journal import Entry
from durable_adk.errors import (
    DurableAdkError,
    InvocationCancelledError,
    NewerReleaseError,
    RunError,
    SessionBusyError,
    TransientError,
    as_detail,
    from_detail,
)
from durable_adk.flows.continue_as_new import past_entries
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.plugin_hooks import prepared
from durable_adk.flows.runtime import Runtime
from durable_adk.flows.state import LoopState
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.checkpoint import (
    Checkpoint,
    Cursor,
    LoadedCheckpoint,
    ReadCheckpointStep,
    unpacked,
)
from durable_adk.wire.messages import InvocationRequest, InvocationResult
from durable_adk.wire.run_config import RunConfig
from durable_adk.wire.steps import LOOP_RULES, UNKNOWN_EPOCH, CloseStep, Ending, Opened, OpenStep


def outcome(key: SessionKey, invocation_id: str, **values: Any) -> InvocationResult:
    """Return the result of an invocation that did not fail.

    Args:
        key: The session.
        invocation_id: The invocation.
        **values: Further fields of the result.
    """
    return InvocationResult(
        app=key.app_name,
        user=key.user_id,
        session=key.session_id,
        invocation_id=invocation_id,
        status=Status.COMPLETED,
        **values,
    )


def ended(runtime: Runtime, key: SessionKey, ending: Ending) -> InvocationResult:
    """Return the outcome of an invocation that has ended without this run of the loop.

    Raises:
        CancelledError: Both it and this run were cancelled.
        DurableAdkError: The error with which it failed.
    """
    record = ending.record
    if record.status is Status.CANCELLED and runtime.cancelled():
        raise asyncio.CancelledError
    if record.error:
        raise from_detail(record.error)
    return outcome(
        key,
        record.invocation_id,
        text=ending.text,
        last_event_id=ending.last_event_id,
        events=ending.events,
        model_calls=ending.model_calls,
        tool_calls=ending.tool_calls,
        tokens=ending.tokens,
        revision=record.end_seq or record.start_seq,
        epoch=record.epoch,
        unfinished=ending.unfinished,
    )


async def begin(
    runtime: Runtime, request: InvocationRequest, lease_owner: str
) -> Invocation | InvocationResult:
    """Open an invocation; return its outcome if it has ended, or the active one got its message.

    Raises:
        CancelledError: It was cancelled before its agents began; what was opened is closed.
        DurableAdkError: It cannot be opened, so nothing is stored; or it has ended with this error.
    """
    invocation_id = request.invocation_id or f"e-{runtime.new_id()}"
    key = SessionKey(request.app, request.user, request.session or invocation_id)
    step = OpenStep(
        key=key,
        invocation_id=invocation_id,
        lease_owner=lease_owner,
        event_id=f"{invocation_id}.0",
        timestamp=runtime.now(),
        message=request.user_content(),
        state_delta=request.state_delta,
        custom_metadata=request.run_config.custom_metadata,
        tool_run=request.tool_run,
        create_session=request.create_session or request.session is None,
        when_busy=request.when_busy,
        run_config=None if request.run_config == RunConfig() else request.run_config,
    )
    (opened, cancelled), ends = await _opened(runtime, step), False
    while isinstance(opened, Opened) and opened.record is None and opened.steered is None:
        if cancelled:
            raise asyncio.CancelledError
        step, ends = await prepared(runtime, request, step, opened)
        opened, cancelled = await _opened(runtime, step)
    if not isinstance(opened, Opened):
        return opened
    if opened.record is None:
        return outcome(key, invocation_id, steered=opened.steered)
    key = key._replace(session_id=request.session or opened.record.invocation_id)  # as recorded
    if opened.ending is not None:
        return ended(runtime, key, opened.ending)
    _require_known(opened)
    state = LoopState(
        runtime=runtime,
        checkpoint=_first_checkpoint(runtime, request, opened, opened.record),
        key=key,
        lease_owner=lease_owner,
        message=step.message,
        state=opened.state,
    )
    state.end_invocation = ends
    state.apply_local(step.state_delta)
    return Invocation(state, cancelled=cancelled)


def _first_checkpoint(
    runtime: Runtime, request: InvocationRequest, opened: Opened, record: InvocationRecord
) -> Checkpoint:
    """Return the state in which every invocation begins."""
    return Checkpoint(
        request=request.model_copy(update={"message": "", "state_delta": {}}),
        opened=opened.model_copy(update={"state": None, "record": None}),
        record=record,
        epoch=record.epoch,
        revision=record.start_seq,
        opened_at=runtime.now(),
        pending=runtime.inbox.state,
    )


async def resume(
    runtime: Runtime, cursor: Cursor, lease_owner: str
) -> Invocation | InvocationResult:
    """Continue an invocation from its checkpoint; return its outcome if it has ended (D10).

    Raises:
        CancelledError: It was cancelled before its agents resumed; it is closed.
        DurableAdkError: It cannot continue, and is closed with that error; or it ended with it.
    """
    try:
        found = await _loaded(runtime, cursor, lease_owner)
    except (asyncio.CancelledError, DurableAdkError) as error:
        cancelled = isinstance(error, asyncio.CancelledError)
        step = closing_unknown(
            cursor.key,
            cursor.invocation_id,
            lease_owner,
            runtime.now(),
            None if cancelled else error,
        )
        await uninterrupted(runtime.perform(step))
        raise
    if isinstance(found, Ending):
        return ended(runtime, cursor.key, found)
    loaded, checkpoint, past = found
    _require_known(checkpoint.opened)
    runtime.inbox.restore(checkpoint.pending)
    state = LoopState(
        runtime=runtime,
        checkpoint=checkpoint,
        key=cursor.key,
        lease_owner=lease_owner,
        message=loaded.message or types.Content(role="user"),
        state=loaded.state,
        past=past,
    )
    return Invocation(state, cancelled=runtime.cancelled())


async def _loaded(
    runtime: Runtime, cursor: Cursor, lease_owner: str
) -> tuple[LoadedCheckpoint, Checkpoint, dict[str, list[Entry]]] | Ending:
    """Return the checkpoint and the entries of its journals, or how the invocation has ended."""
    loaded = await runtime.perform(ReadCheckpointStep(cursor=cursor, lease_owner=lease_owner))
    if loaded.ending is not None:
        return loaded.ending
    checkpoint = Checkpoint.from_json(unpacked(loaded.checkpoint))
    past = await past_entries(runtime, cursor, checkpoint.bodies)
    return past if isinstance(past, Ending) else (loaded, checkpoint, past)


def _require_known(opened: Opened) -> None:
    """Leave an invocation to workers whose release knows the loop rules recorded at its opening.

    Raises:
        NewerReleaseError: A newer release has opened it.
    """
    if opened.rules > LOOP_RULES:
        raise NewerReleaseError(
            f"The invocation began with version {opened.rules} of the loop's rules, and this "
            f"release knows up to {LOOP_RULES}: start the newer release's workers again."
        )


async def _opened(runtime: Runtime, step: OpenStep) -> tuple[Opened | InvocationResult, bool]:
    """Return the result of the opening, and whether the run was cancelled meanwhile."""
    opening = asyncio.ensure_future(runtime.perform(step))
    try:
        return await asyncio.shield(opening), False
    except asyncio.CancelledError:
        # End the wait for a busy session. If the invocation was opened, it has to be closed.
        opening.cancel()
        try:
            return await opening, True
        except (asyncio.CancelledError, SessionBusyError, RunError, TransientError):
            # Only the store knows now whether it was opened: either the result was lost, or the
            # worker, which Temporal reports as a timeout if the opening was cancelled meanwhile.
            end = closing_unknown(step.key, step.invocation_id, step.lease_owner, step.timestamp)
            end.create_session = step.create_session
            ending = await uninterrupted(runtime.perform(end))
            if ending.delivered_to is not None:
                steered = outcome(step.key, step.invocation_id, steered=ending.delivered_to)
                return steered, True
            raise asyncio.CancelledError from None


def closing_unknown(
    key: SessionKey,
    invocation_id: str,
    lease_owner: str,
    timestamp: float,
    error: DurableAdkError | None = None,
) -> CloseStep:
    """Return the step that closes an invocation of unknown state (perhaps never opened)."""
    return CloseStep(
        key=key,
        invocation_id=invocation_id,
        epoch=UNKNOWN_EPOCH,
        status=Status.FAILED if error else Status.CANCELLED,
        author="",
        timestamp=timestamp,
        lease_owner=lease_owner,
        error=as_detail(error or InvocationCancelledError()),
    )
