"""The workers' session store, which journals each attempt to write and its outcome."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from durable_adk.errors import DurableAdkError
from durable_adk.events.event import Event
from durable_adk.sessions import DatabaseSessionService, InvocationRecord, SessionKey, StoredEvent
from durable_adk.sessions.log.entry import Entry
from durable_adk.sessions.log.storage import Row, T
from durable_adk.sessions.log.transactions import Store
from durable_adk.sessions.records import Note
from durable_adk.sessions.sql.tables import Tables
from durable_adk.wire.checkpoint import CHECKPOINT
from harness.journal import note

ADDED = "addedByTheNextRelease"
"""A field that only workers of the second release write, into every checkpoint."""


class _JournaledTables:
    """Tables within one writing transaction; what it looks for and finds was written before.

    The rules look an event up only when they cannot add it (`_log.commit`, `_log.resume`), so a
    find is a repeat that was absorbed: the first attempt's acknowledgement was lost.
    """

    def __init__(self, tables: Tables, journal: Path) -> None:
        self._tables = tables
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def add_event(self, key: SessionKey, seq: int, entry: Entry) -> bool:
        """See `Tables.add_event`; who closes an invocation may add events that seal it."""
        added = self._tables.add_event(key, seq, entry)
        if added:
            what = {"event": entry.event_id, "invocation": entry.invocation_id}
            note(self._journal, phase="begun", operation="add", **what)
        return added

    def find_event(self, key: SessionKey, event_id: str) -> Row | None:
        """See `Tables.find_event`."""
        row = self._tables.find_event(key, event_id)
        if row is not None:
            note(self._journal, phase="found", event=event_id, digest=row.digest)
        return row


class _JournaledStore:
    """A store whose writers are watched."""

    def __init__(self, store: Store, journal: Path) -> None:
        self._store = store
        self._journal = journal

    async def read(self, work: Callable[[Tables], T]) -> T:
        """See `Store.read`."""
        return await self._store.read(work)

    async def write(self, work: Callable[[Tables], T]) -> T:
        """See `Store.write`."""

        def watched(tables: Tables) -> T:
            return work(_JournaledTables(tables, self._journal))  # pyright: ignore[reportArgumentType]: the rest is passed on

        return await self._store.write(watched)


class JournaledSessionService(DatabaseSessionService):
    """The same store, with a journal."""

    def __init__(self, db_url: str, journal: Path) -> None:
        super().__init__(db_url)
        self._journal = journal
        self._store = _JournaledStore(self._store, journal)

    async def commit_event(
        self, key: SessionKey, event: Event, *, invocation_id: str, epoch: int, **options: Any
    ) -> int:
        """See the base class."""
        with self._noted("commit", event.id, invocation_id, epoch) as outcome:
            seq = await super().commit_event(
                key, event, invocation_id=invocation_id, epoch=epoch, **options
            )
            outcome["seq"] = seq
        return seq

    async def open_invocation(
        self, key: SessionKey, *, invocation_id: str, user_event: Event, **options: Any
    ) -> InvocationRecord:
        """See the base class."""
        with self._noted("open", user_event.id, invocation_id) as outcome:
            record = await super().open_invocation(
                key, invocation_id=invocation_id, user_event=user_event, **options
            )
            outcome["seq"] = record.start_seq
        return record

    async def resume_invocation(
        self, key: SessionKey, *, invocation_id: str, user_event: Event | None, **options: Any
    ) -> InvocationRecord:
        """See the base class."""
        with self._noted("resume", user_event.id if user_event else "", invocation_id):
            return await super().resume_invocation(
                key, invocation_id=invocation_id, user_event=user_event, **options
            )

    async def deliver_message(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        epoch: int,
        steered: str,
        scope: str | None = None,
    ) -> StoredEvent | None:
        """See the base class."""
        with self._noted("deliver", f"{steered}.0", invocation_id, epoch) as outcome:
            delivered = await super().deliver_message(
                key, invocation_id=invocation_id, epoch=epoch, steered=steered, scope=scope
            )
            outcome["seq"] = delivered.seq if delivered else 0
        return delivered

    async def read_notes(self, key: SessionKey, **options: Any) -> list[Note]:
        """See the base class; notes when a run continues from a checkpoint of the other release."""
        found = await super().read_notes(key, **options)
        name, kind = options["invocation_id"], options["kind"]
        if kind == CHECKPOINT and any(f'"{ADDED}"' in one.body for one in found):
            note(self._journal, phase="newer", event="", invocation=name)
        return found

    @contextmanager
    def _noted(
        self, operation: str, event: str, invocation: str, epoch: int = 0
    ) -> Generator[dict[str, int]]:
        what: dict[str, Any] = {"operation": operation, "event": event, "invocation": invocation}
        what["epoch"] = epoch
        note(self._journal, phase="begun", **what)
        outcome: dict[str, int] = {}
        try:
            yield outcome
        except DurableAdkError as error:
            kind = type(error).__name__
            note(self._journal, phase="refused", error=kind, **what)
            raise
        phase = "nothing" if outcome.get("seq") == 0 else "ok"
        note(self._journal, phase=phase, **outcome, **what)
