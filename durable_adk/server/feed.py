"""The feed of an invocation or a session: committed events, chunks and statuses after a position.

All routes that stream runs render this feed. It has the same source as `Runner.run_async`:
committed events from the session store, in order and each once, and between them the chunks of the
response that is being generated. A reader that disconnects only stops reading, and any process with
the same store can continue from the reader's position. Each item is read on demand, so a slow
reader only occupies the chunks of one subscription.
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
    """The event's sequence number in the session."""
    event: Event


class PartialItem(JsonModel):
    """A chunk of a response that is being generated, or several chunks with merged text."""

    type: Literal["partial"] = "partial"
    invocation_id: str
    event_id: str
    """The event that will contain the whole response."""
    attempt: int
    """When it increases, the text of the event starts over."""
    position: int
    """0, 1, 2 ... within the attempt; for merged chunks, that of the last one."""
    chunks: int = 1
    """Number of chunks whose text it contains."""
    event: Event


class StatusItem(JsonModel):
    """The status of an invocation, after the events that were committed before it."""

    type: Literal["status"] = "status"
    app_name: str
    user_id: str
    session_id: str
    invocation_id: str
    status: Status
    error: dict[str, Any] | None = None
    """`type` and `message` of the invocation's error."""
    frames: list[str] = Field(default_factory=list[str], exclude=True)
    """Frames of user code in the error's traceback, for operators; see `error_of`."""
    seq: int | None = None
    """Sequence number of the invocation's last event, once it is closed."""


Item = EventItem | PartialItem | StatusItem


@dataclass(frozen=True, kw_only=True)
class FeedPosition:
    """A position in a feed: after an event, or after a chunk that follows the event."""

    seq: int = 0
    """Sequence number of the last event; 0: the beginning."""
    chunk: ShownChunk | None = None
    parts: int = 0
    """Number of parts of the next event that the reader has; only `/run_sse` sends events in
    parts."""

    def __str__(self) -> str:
        if self.chunk is None:
            return f"{self.seq}.{self.parts}" if self.parts else str(self.seq)
        event_id = quote(self.chunk.event_id, safe="")
        return f"{self.seq}:{event_id}:{self.chunk.attempt}:{self.chunk.index}"

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Parse the text that `str` produces; None or an empty text is the beginning.

        Raises:
            InvalidRequestError: It is not a position.
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
"""Maximum digits of a number that fits into a database."""


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise ValueError(text)
    return int(text)


class FeedEntry(NamedTuple):
    """An item, and the position after it; None if a reader cannot continue there."""

    position: FeedPosition | None
    item: Item


@dataclass(frozen=True, kw_only=True)
class SessionFeed:
    """The feeds of a session store.

    Args:
        sessions: The store that the workers write to.
        partials: The workers' channel of chunks, or None.
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
        """Yield the feed of an invocation until it is closed.

        Args:
            key: The session.
            invocation_id: The invocation.
            after: The position to continue at; None: before its user's event.
            until_pause: Whether to also end at a pause after the position.

        Raises:
            InvocationNotFoundError: It was not opened.
            StoreUnavailableError: The store does not respond.
        """
        record = await self.sessions.get_invocation(key, invocation_id)
        if record is None:
            raise InvocationNotFoundError(f"There is no invocation {invocation_id!r}.")
        after = after or FeedPosition()
        cursor = max(after.seq, record.start_seq - 1)
        open_channel = None if record.status.closed else self.partials
        pauses = await self._pauses(key, record, cursor) if until_pause else None
        del record  # otherwise it stays in memory as long as the stream
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
                    del entry  # otherwise it stays in memory until the next one

    async def _pauses(self, key: SessionKey, record: InvocationRecord, cursor: int) -> int:
        """Return the number of pauses before a cursor, which the reader has seen.

        A reader that has all events before the current pause may already have answered, although
        the store does not have the answer yet.
        """
        if record.status is not Status.PAUSED:
            return record.pauses
        async with aclosing(paged(partial(self.sessions.read_page, key), cursor)) as later_events:
            async for stored in later_events:
                if stored.event.invocation_id == record.invocation_id:
                    return record.pauses - 1
        return record.pauses

    async def session(
        self, key: SessionKey, after: FeedPosition | None = None
    ) -> AsyncGenerator[FeedEntry]:
        """Yield the feed of a session, with all its invocations, without an end.

        Raises:
            SessionNotFoundError: There is no such session.
            StoreUnavailableError: The store does not respond.
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
                    del entry  # otherwise it stays in memory until the next one


async def entries_of(
    key: SessionKey, feed: AsyncGenerator[FeedItem], after: FeedPosition | None = None
) -> AsyncGenerator[FeedEntry]:
    """Yield the entries of a client's feed, and close the feed.

    The last entry contains the error of a failed invocation. Other errors are raised, e.g. if the
    message was refused. If no worker is available, the error's text tells the client what to do;
    the log tells the operator.

    Args:
        key: The session.
        feed: The items, in order.
        after: The position at which the feed begins.
    """
    seq, ended = after.seq if after else 0, False
    async with aclosing(feed):
        try:
            async for found in feed:
                if isinstance(found, StoredEvent):
                    seq = found.seq
                ended = isinstance(found, InvocationRecord) and found.status.closed
                yield _entry(key, found, seq)
                del found  # otherwise it stays in memory until the next one
        except NoWorkerError as error:
            raise kept(error) from error
        except Exception:
            if not ended:
                raise


def kept(error: NoWorkerError) -> NoWorkerError:
    """Return the error of a kept message for a client, who cannot start a worker."""
    client_error = NoWorkerError(
        "No worker takes the message at the moment. It is kept, and invocation "
        f"{error.invocation_id!r} continues by itself once there is one. Follow the invocation; "
        "the same message without this id would start another one."
    )
    client_error.invocation_id = error.invocation_id
    return client_error


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
    """Return the status in an invocation's record."""
    return StatusItem(
        **key._asdict(),
        invocation_id=record.invocation_id,
        status=record.status,
        error=error_of(record),
        frames=frames_in(record.error or {}),
        seq=record.end_seq,
    )


def error_of(record: InvocationRecord, caller: Caller | None = None) -> dict[str, Any] | None:
    """Return type and message of an invocation's error; None if it has not failed.

    Args:
        record: The invocation.
        caller: The reader. For an operator, ``at`` also lists the frames of user code: file, line
            and function, innermost last.
    """
    if not record.error:
        return None
    kind = record.error.get("type") or record.error.get("class")
    found = {"type": kind, "message": record.error.get("message")}
    frames = frames_in(record.error) if caller and caller.is_operator else []
    return found | ({"at": frames} if frames else {})
