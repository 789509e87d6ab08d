"""Stores and loads the state with which a loop continues: checkpoint, journals, bodies' state."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.close import read_ending
from durable_adk.errors import (
    DurableAdkError,
    InvalidRequestError,
    LeaseLostError,
    SessionRegressedError,
)
from durable_adk.failpoints import failpoint
from durable_adk.json_values import canonical
from durable_adk.sessions.records import StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.checkpoint import (
    CHECKPOINT,
    JOURNAL,
    Checkpoint,
    Cursor,
    JournalPage,
    LoadedCheckpoint,
    ReadCheckpointStep,
    ReadJournalStep,
    SaveCheckpointStep,
    SaveJournalStep,
    digest,
    packed,
    unpacked,
)
from durable_adk.wire.messages import check_size

PAGE_BYTES = 700_000
"""Bytes of packed journal parts on a page, not counting the last part, which may be as large again.
An activity result is limited to 2 MiB (1c)."""


async def save_checkpoint(deps: Dependencies, step: SaveCheckpointStep) -> str:
    """Store a checkpoint.

    The note's name contains the digest, so a late attempt cannot overwrite another checkpoint.

    Returns:
        The digest. A replay must use the recorded one: another release may serialize a checkpoint
            differently and would compute another digest.
    """
    failpoint("roll.before")
    await deps.sessions.note(
        step.key,
        invocation_id=step.invocation_id,
        kind=CHECKPOINT,
        name=_name(step.number, step.digest),
        body=unpacked(step.checkpoint),
    )
    failpoint("roll.after")
    return step.digest


async def save_journal(deps: Dependencies, step: SaveJournalStep) -> str:
    """Store one part of a journal.

    The name contains a digest of the part and of all before it. So the workflow run that follows a
    reset continues from its own parts, and not from those of the run that was reset, which may end
    at other entries.

    Returns:
        The name of the part; see `save_checkpoint`.
    """
    body = canonical({"part": step.part, "before": step.before})
    name = f"{step.body}.{digest(body)}"
    await deps.sessions.note(
        step.key, invocation_id=step.invocation_id, kind=JOURNAL, name=name, body=body
    )
    return name


async def read_checkpoint(deps: Dependencies, step: ReadCheckpointStep) -> LoadedCheckpoint:
    """Load everything that the loop needs to continue.

    Raises:
        LeaseLostError: The session was deleted in the meantime.
        SessionRegressedError: The store lacks the invocation or the checkpoint.
        PayloadTooLargeError: The session's state does not fit into a payload.
        InvalidRequestError: Another workflow owns the invocation's lease.
    """
    cursor = step.cursor
    record = await deps.sessions.get_invocation(cursor.key, cursor.invocation_id)
    if record is None:
        raise await _lost(deps, cursor)
    if record.status.closed:
        return LoadedCheckpoint(ending=await read_ending(deps, cursor.key, record))
    if record.lease_owner != step.lease_owner:
        raise InvalidRequestError(
            f"Invocation {cursor.invocation_id!r} is run by {record.lease_owner}."
        )
    notes = await deps.sessions.read_notes(
        cursor.key,
        invocation_id=cursor.invocation_id,
        kind=CHECKPOINT,
        name=_name(cursor.checkpoint, cursor.digest),
    )
    if not notes:
        raise SessionRegressedError(
            f"The store lacks checkpoint {cursor.checkpoint} of invocation "
            f"{cursor.invocation_id!r}: it is older than the workflow, as after a backup was "
            "restored. Restore a newer one, or end the invocation with `durable-adk cancel`."
        )
    message = await deps.sessions.read_opening(cursor.key, record)
    state, checkpoint = None, Checkpoint.from_json(notes[0].body)
    if checkpoint.opened.manifest.any_custom():
        state = await state_for_bodies(
            deps, cursor.key, invocation_id=cursor.invocation_id, revision=checkpoint.revision
        )
    failpoint("roll.read")
    return LoadedCheckpoint(
        checkpoint=packed(notes[0].body), message=message.event.content, state=state
    )


async def _lost(deps: Dependencies, cursor: Cursor) -> DurableAdkError:
    """Return the error that explains why the store lacks an opened invocation.

    If the session is missing, either it was deleted or the store is older than it. These cases
    cannot be distinguished, so the session counts as deleted.
    """
    creation = await deps.sessions.read_creation(cursor.key)
    if creation is not None and not creation.epoch:
        return SessionRegressedError(
            f"Session {cursor.session!r} does not know invocation {cursor.invocation_id!r}: its "
            "store is older than the workflow, as after the restoring of a backup. Run "
            "`durable-adk doctor --fix` to put back what is missing."
        )
    return LeaseLostError(
        f"The session was deleted while invocation {cursor.invocation_id!r} was open; the "
        "invocation does not write to another one of its name."
    )


async def read_journals(deps: Dependencies, step: ReadJournalStep) -> JournalPage:
    """Load as many parts of the journals as fit into one result.

    For a closed invocation the result is its ending instead, because its journals are deleted. An
    earlier workflow task may have closed the invocation and lost its worker before Temporal
    recorded that; then a body must not be started again.

    Raises:
        SessionRegressedError: The store lacks a part.
    """
    page = JournalPage(parts=[], next=list(step.parts))
    missing: str | None = None
    while page.next and missing is None and sum(map(len, page.parts)) <= PAGE_BYTES:
        name = page.next.pop()
        notes = await deps.sessions.read_notes(
            step.key, invocation_id=step.invocation_id, kind=JOURNAL, name=name
        )
        if not notes:
            missing = name
            continue
        found = json.loads(notes[0].body)
        page.parts.append(found["part"])
        if found["before"] is not None:
            page.next.append(found["before"])
    # Read the record after the notes: closing the invocation deletes them.
    record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is not None and record.status.closed:
        return JournalPage(parts=[], ending=await read_ending(deps, step.key, record))
    if missing is not None:
        raise SessionRegressedError(
            f"The store lacks part {missing!r} of the journal of invocation "
            f"{step.invocation_id!r}: it is older than the workflow, as after a backup was "
            "restored. Restore a newer one, or end the invocation with `durable-adk cancel`."
        )
    return page


def _name(number: int, digest: str) -> str:
    return f"{number:09}.{digest}"


async def state_for_bodies(
    deps: Dependencies, key: SessionKey, *, invocation_id: str, revision: int
) -> dict[str, Any]:
    """Return `state_as_of`, checked against the payload limit.

    Raises:
        PayloadTooLargeError: The state does not fit into a payload, which would hang the workflow.
    """
    state = await state_as_of(deps, key, invocation_id=invocation_id, revision=revision)
    check_size(canonical(state), "The session's state, which custom agents are given,")
    return state


async def state_as_of(
    deps: Dependencies, key: SessionKey, *, revision: int, invocation_id: str | None = None
) -> dict[str, Any]:
    """Return the session's state without the changes that events after a revision made.

    A workflow that was reset, or whose task is replayed, runs the bodies of custom agents again. A
    body that saw its own later changes would produce events that differ from the stored ones. The
    earlier value of a key that sessions share is known only if an event of this session has it.

    Args:
        deps: The stores.
        key: The session.
        revision: Sequence number of the last event that counts.
        invocation_id: Only later events of this invocation are left out; None: all later events.
    """
    _, state = await deps.sessions.read_state(key)
    later = await deps.sessions.read_events(key, after=revision)
    if not any(one.event.actions.state_delta for one in later):
        return state
    initial = await deps.sessions.read_initial_state(key)
    log = await deps.sessions.read_events(key)
    return without_later(state, initial, log, revision=revision, invocation_id=invocation_id)


def without_later(
    state: Mapping[str, Any],
    initial: Mapping[str, Any],
    log: Sequence[StoredEvent],
    *,
    revision: int,
    invocation_id: str | None = None,
) -> dict[str, Any]:
    """Return `state_as_of` from the state, its initial value, and the events read after both."""
    undone = {
        one.seq
        for one in log
        if one.seq > revision and invocation_id in (None, one.event.invocation_id)
    }
    changed = {name for one in log if one.seq in undone for name in one.event.actions.state_delta}
    before = dict(initial)
    for one in log if changed else ():
        if one.seq not in undone:
            before |= one.event.actions.state_delta
    kept = {name: value for name, value in state.items() if name not in changed}
    return kept | {name: before[name] for name in changed if name in before}
