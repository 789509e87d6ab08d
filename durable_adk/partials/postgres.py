"""Partial events between processes that share a PostgreSQL database."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from itertools import count
from threading import Lock

from durable_adk.errors import DurableAdkError
from durable_adk.partials.channel import REPLAYS, PartialChannel, channel_name
from durable_adk.partials.partial import PartialEvent, encode
from durable_adk.partials.replay import Replays
from durable_adk.partials.subscription import Subscription
from durable_adk.sessions.session import SessionKey
from durable_adk.sql.database import PostgresDatabase
from durable_adk.sql.notifications import MAX_BYTES, Listener

MAX_CHUNK = 32 * 1024
"""Maximum size of a chunk in bytes; larger ones are dropped. A text chunk has a few hundred."""
_PIECE = MAX_BYTES // 4 - 4
"""Characters per piece; with its mark a piece never exceeds `MAX_BYTES`, whatever the text."""
_LAST, _MORE = ".", "+"
_WHOLE = "00" + _LAST
"""Prefix of a chunk in one piece."""
_SERIALS = count()
_READY_TIMEOUT = 1.0
"""Seconds to wait until a subscription is active; streaming must not hold up the run."""


class PostgresPartials(PartialChannel):
    """Channel for processes that share a database, based on its transient notifications.

    Each invocation has its own channel, so that a process receives only chunks for its viewers.

    Args:
        database: The session database. Chunks use the same connection as commit notifications.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._replays = Replays()
        self._lock = Lock()
        self._listening = False

    def publish(
        self, partial: PartialEvent, earlier: Iterable[PartialEvent] = (), *, again: bool = False
    ) -> None:
        """See `PartialChannel.publish`."""
        with suppress(DurableAdkError):  # without a driver there are no sessions either
            self._listen_for_requests()
            channel = channel_name(partial.key, partial.invocation_id)
            for chunk in self._replays.chunks(channel, partial, earlier, again=again):
                data = encode(chunk)
                if data is not None and len(data) <= MAX_CHUNK:
                    self._database.notifications.send(channel, *_pieces(data.decode()))

    def _listen_for_requests(self) -> None:
        """Listen to new viewers' announcements, from this process's first chunk on."""
        with self._lock:
            if self._listening:
                return
            self._listening = True
        listener = Listener(
            channel=REPLAYS, on_message=lambda _, channel: self._replays.request(channel)
        )
        self._database.notifications.listen(listener)

    @asynccontextmanager
    async def subscribe(self, key: SessionKey, invocation_id: str) -> AsyncGenerator[Subscription]:
        """See `PartialChannel.subscribe`."""
        subscription = Subscription()
        pieces = _Pieces(subscription)
        listener = Listener(channel=channel_name(key, invocation_id), on_message=pieces.add)
        notices = self._database.notifications
        try:
            with suppress(DurableAdkError):
                notices.listen(listener)
                ready = asyncio.wrap_future(listener.ready)
                await asyncio.wait({ready}, timeout=_READY_TIMEOUT)
                notices.send(REPLAYS, listener.channel)
            yield subscription
        finally:
            with suppress(DurableAdkError):
                notices.leave(listener)


class _Pieces:
    """Reassembles chunks; the pieces of a chunk must arrive in order, or the chunk is dropped."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._begun: dict[int, tuple[str, list[str]]] = {}
        """Serial number and pieces of incomplete chunks by the connection that sends them."""

    def add(self, sender: int, text: str) -> None:
        serial, begun = self._begun.pop(sender, ("", []))
        if text.startswith(_WHOLE):
            self._subscription.put(text.removeprefix(_WHOLE).encode())
            return
        index, mark, number, piece = int(text[:2], 16), text[2:3], text[3:7], text[7:]
        if len(begun) != index or (begun and number != serial):
            return  # an earlier piece was lost
        begun.append(piece)
        if mark == _MORE:
            self._begun[sender] = number, begun
        else:
            self._subscription.put("".join(begun).encode())


def _pieces(text: str) -> list[str]:
    """Split text into pieces that differ: PostgreSQL delivers equal ones only once.

    Each piece has its position and its chunk's serial number: another long chunk may have the same
    text in the same position. A chunk in one piece differs from others by its index.
    """
    if len(text) <= _PIECE:
        return [_WHOLE + text]
    serial = next(_SERIALS) % 16**4
    cut = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    marks = [_MORE] * (len(cut) - 1) + [_LAST]
    return [
        f"{index:02x}{mark}{serial:04x}{piece}"
        for index, (mark, piece) in enumerate(zip(marks, cut, strict=True))
    ]
