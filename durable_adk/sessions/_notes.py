"""The notes of invocations over any store that has transactions."""

from dataclasses import replace as changed

from durable_adk.json_values import check_json
from durable_adk.sessions._entry import decode_event
from durable_adk.sessions._log import invocation_not_found
from durable_adk.sessions._tables import NoteKey, Row, Store, Tables
from durable_adk.sessions.notebook import Notebook
from durable_adk.sessions.records import ATTEMPT, RESERVED, Note, StoredEvent
from durable_adk.sessions.session import SessionKey


class TransactionalNotebook(Notebook):
    """Checks what it is given, and lets the store run the rule of `write`."""

    def __init__(self, store: Store) -> None:
        self._store = store

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
        """See `BaseSessionService.note`."""
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
        """See `BaseSessionService.read_notes`."""
        if name is not None:
            wanted = NoteKey(invocation_id, kind, name)
            found = await self._store.read(lambda tables: tables.find_note(key, wanted))
            return [found] if found else []
        return await self._store.read(
            lambda tables: tables.notes(key, invocation_id, kind, after=after, limit=limit)
        )

    async def reserve_event(
        self, key: SessionKey, event_id: str, *, invocation_id: str, epoch: int, revision: int
    ) -> StoredEvent | None:
        """See `BaseSessionService.reserve_event`."""
        note = NoteKey(invocation_id, RESERVED, event_id)
        row = await self._store.write(
            lambda tables: reserve(tables, key, note, epoch=epoch, revision=revision)
        )
        return row and StoredEvent(seq=row.seq, event=decode_event(row.body))


def write(tables: Tables, key: SessionKey, note: NoteKey, body: str, *, replace: bool) -> str:
    """Write a note; see `BaseSessionService.note`."""
    tables.head(key)  # locks it: nothing is added behind the back of a transaction that closes
    record = tables.invocation(key, note.invocation_id)
    if record is None:
        raise invocation_not_found(key, note.invocation_id)
    if record.status.closed and note.kind != ATTEMPT:
        return body  # its notes are gone; an attempt that comes late must not leave one (I24)
    return tables.put_note(key, note, body, replace=replace)


def reserve(
    tables: Tables, key: SessionKey, note: NoteKey, *, epoch: int, revision: int
) -> Row | None:
    """Reserve the id that is the note's name; see `BaseSessionService.reserve_event`."""
    head = tables.head(key)
    row = tables.find_event(key, note.name)
    if row is None and head is not None and head.holds(note.invocation_id, epoch):
        # Else nobody commits under this epoch any more.
        head.require_grown(revision)
        if tables.find_note(key, note) is None:
            tables.put_note(key, note, "{}", replace=False)
            tables.save_head(key, changed(head, retried=head.retried + 1))
    return row
