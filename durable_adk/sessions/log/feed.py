"""Reads for those who follow a session: pages of events, and waiting for the next change."""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

from durable_adk.sessions.log.entry import decode_event
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.storage import Row, Window
from durable_adk.sessions.log.transactions import Transactions
from durable_adk.sessions.log.watches import Watch
from durable_adk.sessions.records import InvocationRecord, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.tables import Tables

_LONGEST_WAIT = 0.5
"""Maximum wait in seconds. An invocation that is closed between a caller's read and its wait causes
no further change; the short wait makes the caller read again."""
_PAGE = 50
"""Maximum number of events of `read_page`."""
_PAGE_SIZE = 128 * 1024
"""Characters of events with which a page ends; as objects they take several times as many bytes."""

_Read = TypeVar("_Read", bound=tuple[Any, ...])


class InvocationProgress(NamedTuple):
    """What a session has of an invocation at one point in time."""

    head: Head | None
    """The session's row; None for a missing session."""
    record: InvocationRecord | None
    """None if the invocation was never opened."""
    events: list[StoredEvent]
    """A page of events, up to the invocation's last one."""
    more: bool
    """Whether there may be more of them."""


class SessionReads(Transactions):
    """Operations of those who follow a session."""

    async def read_page(
        self, key: SessionKey, *, after: int, upto: int | None = None
    ) -> tuple[list[StoredEvent], bool]:
        """Read events like `read_events`, but only as many as a slow reader may keep in memory.

        Returns:
            At least one event, if there is one, and whether there may be more.
        """
        rows = await self._store.read(lambda tables: tables.events(key, _page(after, upto)))
        return decoded(rows), _is_full(rows)

    async def wait_for_change(
        self,
        key: SessionKey,
        *,
        after: int,
        timeout: float,  # noqa: ASYNC109  # waiting is its purpose
    ) -> None:
        """Wait for events after `after`, or until an invocation is paused or closed.

        A hint only: it may return early without a change, and returns after `timeout` seconds at
        the latest, or half a second. To follow a session for longer, use a `watch`.
        """
        with self.watch(key) as watch:
            head = await self.look(watch)
            if head is None or head.revision <= after:
                await self.changed(watch, timeout=min(timeout, _LONGEST_WAIT))

    def watch(self, key: SessionKey) -> AbstractContextManager[Watch]:
        """Watch a session, for `look` and `changed`, until the block ends."""
        return self._changes.watch(key)

    async def look(self, watch: Watch) -> Head | None:
        """Read the row of a watched session; None for a missing one.

        Any change after this call ends the next wait, even while the caller still reads. So a
        caller that reads after this call, and then waits, misses nothing.
        """
        (head,) = await self._looked(watch, lambda tables: (tables.head(watch.key),))
        return head

    async def read_progress(
        self, watch: Watch, invocation_id: str, *, after: int
    ) -> "InvocationProgress":
        """Look at a watched session like `look`, and read what an invocation has committed.

        One transaction, because every follower makes it at each change; those of one session that
        are at the same event make it together.

        Args:
            watch: The watch.
            invocation_id: The invocation.
            after: The sequence number after which events are read; also those of others.
        """
        head, record, rows = await self._looked(
            watch,
            lambda tables: _progress(tables, watch.key, invocation_id, after),
            wanted=(invocation_id, after),
        )
        # Each caller gets objects of its own (TRAP-8); the rows are text, and the record is flat.
        own = record and record.model_copy(deep=record.error is not None)
        return InvocationProgress(head, own, decoded(rows), _is_full(rows))

    async def _looked(
        self, watch: Watch, read: Callable[[Tables], _Read], *, wanted: Hashable = None
    ) -> _Read:
        """Read a watched session; the first value that `read` returns is the session's row.

        Two reads of a session with the same `wanted` read the same.
        """
        watch.looks()  # before the read: a change during it ends the next wait
        found = await watch.share(wanted, lambda: self._store.read(read))
        self._saw(watch, found[0])
        return found

    def _saw(self, watch: Watch, head: Head | None) -> None:
        """Record what a watch has read of its session."""
        watch.saw(head)

    async def changed(
        self,
        watch: Watch,
        *,
        timeout: float,  # noqa: ASYNC109  # as above
    ) -> None:
        """Wait until the session has changed since the last `look`.

        Every event and every status change of an invocation counts, of any process. A hint only: it
        may return without a change, and returns after `timeout` seconds.
        """
        await watch.wait(timeout)


def _page(after: int, upto: int | None) -> Window:
    return Window(after=after, upto=upto, first=_PAGE, size=_PAGE_SIZE)


def _is_full(rows: Sequence[Row]) -> bool:
    return len(rows) == _PAGE or sum(len(row.body) for row in rows) >= _PAGE_SIZE


def _progress(
    tables: Tables, key: SessionKey, invocation_id: str, after: int
) -> tuple[Head | None, InvocationRecord | None, list[Row]]:
    head, record = tables.head(key), tables.invocation(key, invocation_id)
    if head is None or head.revision <= after:
        return head, record, []
    return head, record, tables.events(key, _page(after, record.end_seq if record else None))


def decoded(rows: list[Row]) -> list[StoredEvent]:
    """Parse stored events."""
    return [StoredEvent(seq=row.seq, event=decode_event(row.body)) for row in rows]
