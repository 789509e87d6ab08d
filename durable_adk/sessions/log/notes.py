"""Notes: values that an invocation stores for itself, outside the conversation."""

from dataclasses import replace as changed

from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import check_json
from durable_adk.sessions.log import sessions
from durable_adk.sessions.log.entry import decode_event
from durable_adk.sessions.log.invocations import invocation_not_found
from durable_adk.sessions.log.storage import NoteKey, Row
from durable_adk.sessions.log.transactions import Transactions
from durable_adk.sessions.records import KEPT, PUSH, RESERVED, Note, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.tables import Tables


class Notes(Transactions):
    """Operations on the notes of invocations."""

    async def note(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        kind: str,
        name: str,
        body: str,
        replace: bool = False,
    ) -> str:
        """Store a note, and return the body now stored under its name.

        The first body of a name is kept, so that a repeat after a lost acknowledgement, or a later
        attempt, finds the first one. No lease is needed, because only its own invocation reads a
        note. A closed invocation's notes are deleted, so the call returns `body` without storing
        it, except for notes of the kinds `records.KEPT`.

        Args:
            key: The session.
            invocation_id: An invocation that was opened.
            kind: The kind of note, defined by the caller.
            name: Name of the note within its kind.
            body: JSON text; several MB are fine.
            replace: Whether to replace an existing body; otherwise the first one is kept.

        Raises:
            InvocationNotFoundError: The session or the invocation is missing.
            StateValueError: The name or the body contains characters that cannot be stored.
        """
        check_json([kind, name, body], "note")
        note = NoteKey(invocation_id, kind, name)
        return await self._store.write(
            lambda tables: write(tables, key, note, body, replace=replace)
        )

    async def read_notes(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        kind: str,
        name: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Note]:
        """Read an invocation's notes of a kind, ordered by name in code points.

        Args:
            key: The session; [] if it is missing.
            invocation_id: The invocation; [] if it is missing.
            kind: The kind of note.
            name: If given, read only this note and ignore `after` and `limit`.
            after: Read only notes whose names sort after this one.
            limit: Maximum number of notes.
        """
        if name is not None:
            wanted = NoteKey(invocation_id, kind, name)
            found = await self._store.read(lambda tables: tables.find_note(key, wanted))
            return [found] if found else []
        return await self._store.read(
            lambda tables: tables.notes(key, invocation_id, kind, after=after, limit=limit)
        )

    async def put_push_config(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        name: str,
        body: str,
        limit: int,
        create_session: bool = False,
    ) -> None:
        """Store a push configuration of an invocation, which may be opened later.

        It is kept until it is removed or the session is deleted.

        Args:
            key: The session.
            invocation_id: The invocation.
            name: Id of the config; one with the same id is replaced.
            body: JSON text.
            limit: Maximum number of configs of an invocation.
            create_session: Whether to create a missing session.

        Raises:
            SessionNotFoundError: The session is missing and `create_session` is False.
            InvalidRequestError: The invocation has reached `limit`.
            StateValueError: The name or the body contains characters that cannot be stored.
        """
        check_json([name, body], "push_config")
        note = NoteKey(invocation_id, PUSH, name)

        def put(tables: Tables, key: SessionKey) -> None:
            if create_session:
                sessions.find_or_create(tables, key)
            sessions.existing(tables, key)  # locks the session, so that concurrent configs count
            known = tables.notes(key, invocation_id, PUSH, after=None, limit=limit + 1)
            if len({one.name for one in known} - {name}) >= limit:
                raise InvalidRequestError(
                    f"The invocation has {limit} configurations of push notifications already; "
                    "delete one of them."
                )
            tables.put_note(key, note, body, replace=True)

        await self._change(put, key)

    async def remove_push_config(self, key: SessionKey, *, invocation_id: str, name: str) -> None:
        """Remove the configuration that `put_push_config` stored, if there is one."""
        note = NoteKey(invocation_id, PUSH, name)
        await self._store.write(lambda tables: tables.remove_note(key, note))

    async def reserve_event(
        self, key: SessionKey, event_id: str, *, invocation_id: str, epoch: int, revision: int
    ) -> StoredEvent | None:
        """Reserve an event id for the loop, unless the event is stored already.

        A step calls this when it leaves its event to the loop while an earlier attempt of the step
        may still run: that attempt's early commit either precedes this call or is rejected. The
        reservation lasts until the lease is released. If the invocation does not hold the lease at
        `epoch`, nothing is reserved, because no commit can succeed. A repeat changes nothing.

        Returns:
            The event if it is stored already, in which case nothing is reserved.

        Raises:
            SessionRegressedError: The session has fewer than `revision` events.
        """
        note = NoteKey(invocation_id, RESERVED, event_id)
        row = await self._store.write(
            lambda tables: reserve(tables, key, note, epoch=epoch, revision=revision)
        )
        return row and StoredEvent(seq=row.seq, event=decode_event(row.body))


def write(tables: Tables, key: SessionKey, note: NoteKey, body: str, *, replace: bool) -> str:
    """Store a note within a transaction; see `Notes.note`."""
    tables.head(key)  # lock the session, so that a closing transaction also deletes this note
    record = tables.invocation(key, note.invocation_id)
    if record is None:
        raise invocation_not_found(key, note.invocation_id)
    if record.status.closed and note.kind not in KEPT:
        return body  # the notes are deleted; a late attempt must not leave one behind (I24)
    return tables.put_note(key, note, body, replace=replace)


def reserve(
    tables: Tables, key: SessionKey, note: NoteKey, *, epoch: int, revision: int
) -> Row | None:
    """Reserve the event id that is the note's name; see `Notes.reserve_event`."""
    head = tables.head(key)
    row = tables.find_event(key, note.name)
    if row is None and head is not None and head.holds(note.invocation_id, epoch):
        # Without the lease, no commit under this epoch can succeed.
        head.require_grown(revision)
        if tables.find_note(key, note) is None:
            tables.put_note(key, note, "{}", replace=False)
            tables.save_head(key, changed(head, retried=head.retried + 1))
    return row
