"""What happens in an invocation or in a session, from a position on.

All that shows runs over HTTP renders this feed. Its source is the one that `Runner.run_async`
follows: committed events from the session store, in order and each once, and the chunks of the
answer that is being written between them. A reader that goes away ends nothing but its reading, and
any process with the same store continues at the position that it has. Each item is read when it is
asked for, so a slow reader holds nothing but the chunks of one subscription.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import quote, unquote

from pydantic import Field

from durable_adk.client.feed import follow_changes, paged
from durable_adk.client.streaming import FeedItem, ShownChunk, with_partials
from durable_adk.errors import (
    InvalidRequestError,
    InvocationNotFoundError,
    NoWorkerError,
    frames_in,
)
from durable_adk.events.event import Event
from durable_adk.json_values import JsonModel
from durable_adk.partials import PartialChannel, PartialEvent
from durable_adk.server.caller import Caller
from durable_adk.server.session_changes import RunningChunks, follow_session
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog


class EventItem(JsonModel):
    """A committed event."""

    type: Literal["event"] = "event"
    seq: int
    """Its sequence number in the session."""
    event: Event


class PartialItem(JsonModel):
    """A chunk of an answer that is being written, or several whose text was merged."""

    type: Literal["partial"] = "partial"
    invocation_id: str
    event_id: str
    """The event that will have the whole answer."""
    attempt: int
    """With a greater one the text of the event begins anew."""
    position: int
    """0, 1, 2 ... within the attempt; of merged chunks that of the last one."""
    chunks: int = 1
    """Number of chunks that it has the text of."""
    event: Event


class StatusItem(JsonModel):
    """The status of an invocation, which comes after the events that were committed before it."""

    type: Literal["status"] = "status"
    app_name: str
    user_id: str
    session_id: str
    invocation_id: str
    status: Status
    error: dict[str, Any] | None = None
    """`type` and `message` of what it failed with."""
    places: list[str] = Field(default_factory=list[str], exclude=True)
    """Where that came through user code, for operators; see `error_of`."""
    seq: int | None = None
    """Sequence number of its last event, once it is closed."""


Item = EventItem | PartialItem | StatusItem


@dataclass(frozen=True, kw_only=True)
class FeedPosition:
    """A place in a feed: after an event, or after a chunk behind it."""

    seq: int = 0
    """Sequence number of the last event; 0: the beginning."""
    chunk: ShownChunk | None = None
    parts: int = 0
    """Parts of the next event that the reader has; only `/run_sse` sends events in parts."""

    def __str__(self) -> str:
        if self.chunk is None:
            return f"{self.seq}.{self.parts}" if self.parts else str(self.seq)
        event_id = quote(self.chunk.event_id, safe="")
        return f"{self.seq}:{event_id}:{self.chunk.attempt}:{self.chunk.index}"

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Read what `str` has written; nothing, or an empty text, is the beginning.

        Raises:
            InvalidRequestError: It is no position.
        """
        try:
            seq, *chunk = (text or "0").split(":")
            if not chunk:
                seq, _, parts = seq.partition(".")
                return cls(seq=_number(seq), parts=_number(parts or "0"))
            event_id, attempt, index = chunk
            shown = ShownChunk(
                event_id=unquote(event_id), attempt=_number(attempt), index=_number(index)
            )
            return cls(seq=_number(seq), chunk=shown)
        except ValueError:
            raise InvalidRequestError(
                "The position must be the `id` of an item of the stream, such as 12."
            ) from None


_DIGITS = 18
"""Most digits of a number that a database takes."""


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise ValueError(text)
    return int(text)


class FeedEntry(NamedTuple):
    """An item, and the position after it; None: a reader cannot continue there."""

    position: FeedPosition | None
    item: Item


@dataclass(frozen=True, kw_only=True)
class SessionFeed:
    """The feeds of a session store.

    Args:
        sessions: The store that the workers write to.
        partials: The workers' channel of chunks; None: there is none.
    """

    sessions: SessionLog
    partials: PartialChannel | None = None

    async def invocation(
        self,
        key: SessionKey,
        invocation_id: str,
        after: FeedPosition | None = None,
        *,
        until_pause: bool = False,
    ) -> AsyncGenerator[FeedEntry]:
        """Yield what happens in an invocation until it is closed.

        Args:
            key: The session.
            invocation_id: The invocation.
            after: The position to continue at; None: before its user's event.
            until_pause: End at a pause, too, if it comes after the position.

        Raises:
            InvocationNotFoundError: It was not opened.
            StoreUnavailableError: The store does not answer.
        """
        record = await self.sessions.get_invocation(key, invocation_id)
        if record is None:
            raise InvocationNotFoundError(f"There is no invocation {invocation_id!r}.")
        after = after or FeedPosition()
        cursor = max(after.seq, record.start_seq - 1)
        open_channel = None if record.status.closed else self.partials
        pauses = await self._pauses(key, record, cursor) if until_pause else None
        del record  # or it would stay in memory, as long as the stream
        subscribing = open_channel and open_channel.subscribe(key, invocation_id)
        async with subscribing or nullcontext() as chunks:
            changes = follow_changes(
                self.sessions,
                key,
                invocation_id=invocation_id,
                after=cursor,
                pauses=pauses,
            )
            feed = with_partials(changes, chunks, after=cursor, shown=after.chunk)
            entries = entries_of(key, feed, FeedPosition(seq=cursor))
            async with aclosing(changes), aclosing(entries):
                async for entry in entries:
                    yield entry
                    del entry  # or it would stay in memory while nothing happens

    async def _pauses(self, key: SessionKey, record: InvocationRecord, cursor: int) -> int:
        """Return the number of pauses before a cursor; the reader knows of these.

        Whoever has all events before a pause has answered, maybe, and the store does not say so
        yet.
        """
        if record.status is not Status.PAUSED:
            return record.pauses
        async with aclosing(paged(partial(self.sessions.read_page, key), cursor)) as news:
            async for stored in news:
                if stored.event.invocation_id == record.invocation_id:
                    return record.pauses - 1
        return record.pauses

    async def session(
        self, key: SessionKey, after: FeedPosition | None = None
    ) -> AsyncGenerator[FeedEntry]:
        """Yield what happens in a session, in all its invocations; without an end.

        Raises:
            SessionNotFoundError: There is no such session.
            StoreUnavailableError: The store does not answer.
        """
        await self.sessions.read_revision(key)
        after = after or FeedPosition()
        async with RunningChunks(self.partials, key) as chunks:
            changes = follow_session(self.sessions, key, after=after.seq, chunks=chunks)
            feed = with_partials(changes, chunks, after=after.seq, shown=after.chunk)
            entries = entries_of(key, feed, after)
            async with aclosing(changes), aclosing(entries):
                async for entry in entries:
                    yield entry
                    del entry  # or it would stay in memory while nothing happens


async def entries_of(
    key: SessionKey, feed: AsyncGenerator[FeedItem], after: FeedPosition | None = None
) -> AsyncGenerator[FeedEntry]:
    """Yield the entries of a client's feed, and close it.

    The error of an invocation that has failed is in its last entry. Other errors are raised: the
    message was refused, for example. Of a missing worker its text says what a client should do;
    what an operator should do is in the log.

    Args:
        key: The session.
        feed: What happens, in order.
        after: The position that the feed begins at.
    """
    seq, ended = after.seq if after else 0, False
    async with aclosing(feed):
        try:
            async for found in feed:
                if isinstance(found, StoredEvent):
                    seq = found.seq
                ended = isinstance(found, InvocationRecord) and found.status.closed
                yield _entry(key, found, seq)
                del found  # or it would stay in memory while nothing happens
        except NoWorkerError as error:
            raise _kept(error) from error
        except Exception:
            if not ended:
                raise


def _kept(error: NoWorkerError) -> NoWorkerError:
    told = NoWorkerError(
        "No worker takes the message at the moment. It is kept, and invocation "
        f"{error.invocation_id!r} continues by itself once there is one. Follow the invocation; "
        "the same message without this id would start another one."
    )
    told.invocation_id = error.invocation_id
    return told


def _entry(key: SessionKey, found: FeedItem, seq: int) -> FeedEntry:
    match found:
        case StoredEvent():
            return FeedEntry(FeedPosition(seq=seq), EventItem(seq=seq, event=found.event))
        case PartialEvent():
            name = found.event.id
            chunk = ShownChunk(event_id=name, attempt=found.attempt, index=found.index)
            item = PartialItem(
                invocation_id=found.invocation_id,
                event_id=name,
                attempt=found.attempt,
                position=found.index,
                chunks=found.index - found.first + 1,
                event=found.as_event(),
            )
            return FeedEntry(FeedPosition(seq=seq, chunk=chunk), item)
        case InvocationRecord():
            return FeedEntry(None, status_item(key, found))


def status_item(key: SessionKey, record: InvocationRecord) -> StatusItem:
    """Return the status that a record has."""
    return StatusItem(
        app_name=key.app_name,
        user_id=key.user_id,
        session_id=key.session_id,
        invocation_id=record.invocation_id,
        status=record.status,
        error=error_of(record),
        places=frames_in(record.error or {}),
        seq=record.end_seq,
    )


def error_of(record: InvocationRecord, caller: Caller | None = None) -> dict[str, Any] | None:
    """Return type and message of what an invocation failed with; None: it did not.

    Args:
        record: The invocation.
        caller: The reader. For an operator the result has ``at`` too: where the error came through
            user code, as file, line and function, innermost last.
    """
    if not record.error:
        return None
    kind = record.error.get("type") or record.error.get("class")
    found = {"type": kind, "message": record.error.get("message")}
    places = frames_in(record.error) if caller and caller.is_operator else []
    return found | ({"at": places} if places else {})
