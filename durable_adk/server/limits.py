"""Limits for each sender: sizes, rates, open requests and unread responses (S16)."""

import asyncio
import math
import re
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from durable_adk.errors import AuthenticationError, PayloadTooLargeError, RateLimitError
from durable_adk.http.checks import CLOSE
from durable_adk.http.responses import address_of, path_of, refuse, value_of
from durable_adk.server.caller import identified
from durable_adk.wire.answer_token import AnswerToken

ANSWERS = "/answers/"
"""Prefix of the paths that end with a token."""


class BodySize(NamedTuple):
    """The maximum size of a body."""

    max_bytes: int
    max_values: int
    """Maximum number of texts, items and fields in its JSON; a tenth of it for objects."""


_DRAINED, _DRAINING = 20_000_000, 5.0
"""Maximum bytes and seconds for reading the rest of a refused body: many clients read no response
before they have sent it."""
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:(")|(\\?)\Z)|[\[{,]', re.DOTALL)
"""Matches a JSON string, to its end or to the end of the chunk, or the start of another value."""


@dataclass
class Rates:
    """A rate limit per sender, as a token bucket of `burst` tokens that refills.

    The buckets are in this process, so with several servers the limit applies to each.
    """

    per_second: float
    burst: int
    now: Callable[[], float] = time.monotonic
    max_senders: int = 10_000
    """Maximum number of buckets; the least recently used one is dropped."""
    _buckets: OrderedDict[str, tuple[float, float]] = field(
        default_factory=OrderedDict[str, tuple[float, float]], init=False, repr=False
    )
    """Tokens left by sender, and the time of that count."""

    def take(self, sender: str, tokens: float = 1, *, overdraw: bool = False) -> float:
        """Take tokens from a bucket, or return the seconds until it has one.

        Args:
            sender: The owner of the bucket.
            tokens: Number of tokens; a bucket with at least one token may be overdrawn.
            overdraw: Whether a bucket with less than one token may also be overdrawn.
        """
        now = self.now()
        left, since = self._buckets.pop(sender, (float(self.burst), now))
        left = min(float(self.burst), left + (now - since) * self.per_second)
        taken = overdraw or left >= 1
        self._buckets[sender] = left - tokens * taken, now
        while len(self._buckets) > self.max_senders:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (1 - left) / self.per_second


_READ_SHARE = 0.25
"""Weight of bytes that are not parsed: responses, and the rest of a refused body."""
_TOO_MUCH = "Too many bytes and values are sent or asked for; wait, or send less at once."


def weight(size: int, values: int) -> int:
    """Return the number of bytes of text that take as long to parse as JSON with these values."""
    return size + 40 * values


async def refuse_for(send: Send, seconds: float, problem: str = "") -> None:
    """Send the response to a sender that must wait."""
    after = {"retry-after": str(math.ceil(seconds))}
    await refuse(send, 429, RateLimitError(problem) if problem else RateLimitError(), after)


def _sender(scope: Scope, answer_key: str | None) -> str:
    user = identified(scope).user_id
    if user is not None:
        return f"user {user}"
    path, what = path_of(scope), "other"
    if path.startswith(ANSWERS):
        # The token is verified first, so that invented tokens behind the same proxy do not use up
        # the rate of a valid URL.
        token, what = path.removeprefix(ANSWERS), "answers"
        with suppress(AuthenticationError):
            if answer_key is not None:
                AnswerToken.verified(token, answer_key, now=time.time())
                return f"answer {token}"
    return f"{what} at {address_of(scope)}"


@dataclass
class SenderLimits:
    """ASGI middleware that limits what a sender sends, requests and leaves unread.

    The bytes of bodies and responses count as requests do: both occupy the process.
    """

    app: ASGIApp
    size_of: Callable[[str], BodySize]
    """Returns the maximum size of request bodies for a path."""
    max_unread_bytes: int
    """Maximum bytes of a sender's concurrent large responses; a single one may have more."""
    max_open: Callable[[], int] = lambda: sys.maxsize
    """Returns the maximum number of a sender's concurrent requests, including streams."""
    request_rates: Rates | None = None
    byte_rates: Rates | None = None
    is_free: Callable[[str], bool] = lambda _: False
    """Whether requests to a path are not limited, such as those of probes or for a page's files."""
    answer_key: str | None = None
    """The key of the tokens in answer URLs."""
    max_held: float = 1.0
    """Maximum seconds for which a refusal is held back."""
    _open: Counter[str] = field(default_factory=Counter[str], init=False, repr=False)
    _unread: Counter[str] = field(default_factory=Counter[str], init=False, repr=False)
    _overdrawing: dict[str, object] = field(
        default_factory=dict[str, object], init=False, repr=False
    )
    """By sender, the one request that may overdraw the bucket of bytes. So the largest body is
    accepted, and of several concurrent bodies that exceed it together, one is."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http" or self.is_free(path_of(scope)):
            await self.app(scope, receive, send)
            return
        sender = _sender(scope, self.answer_key)
        if self._open[sender] >= (limit := self.max_open()):
            problem = f"At most {limit} requests, streams among them, may be open; close others."
            await refuse_for(send, 1, problem)
            return
        self._open[sender] += 1
        request = _LimitedRequest(self, sender, self.size_of(path_of(scope)), receive, send)
        try:
            wait, problem = self._wait(sender)
            if wait > 0:
                # Slows down a client that retries immediately.
                await asyncio.sleep(min(wait, self.max_held))
                await refuse_for(request.send_pieces, wait, problem)
            else:
                await request.serve(scope)
        finally:
            self._open[sender] -= 1
            self.reserve(sender, -request.unread)
            if self._overdrawing.get(sender) is request:
                del self._overdrawing[sender]

    def _wait(self, sender: str) -> tuple[float, str]:
        """Count a request, or return the seconds until it may be sent, and why."""
        if self.byte_rates and (wait := self.byte_rates.take(sender, 0)):
            return wait, _TOO_MUCH
        return self.request_rates.take(sender) if self.request_rates else 0.0, ""

    def take(self, sender: str, size: int, request: object) -> float:
        """Count a piece of a body, or return the seconds until it may be sent."""
        if self.byte_rates is None:
            return 0.0
        overdraw = self._overdrawing.get(sender) is request
        wait = self.byte_rates.take(sender, size, overdraw=overdraw)
        if wait and self._overdrawing.setdefault(sender, request) is request:
            wait = self.byte_rates.take(sender, size, overdraw=True)
        return wait

    def count(self, sender: str, piece: bytes) -> None:
        """Count bytes that are sent or read in any case; later requests are delayed for them."""
        if self.byte_rates is not None:
            size = weight(len(piece), piece.count(b","))
            self.byte_rates.take(sender, size * _READ_SHARE, overdraw=True)

    def reserve(self, sender: str, length: int) -> bool:
        """Count the bytes of a response, unless all responses together exceed the limit."""
        unread = self._unread[sender]
        if length > 0 and unread and unread + length > self.max_unread_bytes:
            return False
        self._unread[sender] += length
        for counted in (self._open, self._unread):
            if not counted[sender]:
                del counted[sender]
        return True


_PIECE = 65_536
"""Bytes of a response that are passed to a connection at once; more when they have been read."""


@dataclass(eq=False)
class _LimitedRequest:
    """A request whose body is counted while it arrives, and its response while it is sent.

    The time for parsing JSON depends on its values more than on its bytes, and blocks all other
    requests. So both are counted before the body is parsed; its length may be unknown until then.
    A large response is sent in pieces, so that unread bytes wait here, where they are counted, and
    not in the connection.
    """

    limits: SenderLimits
    sender: str
    size: BodySize
    receive: Receive
    send: Send
    received: int = 0
    values: int = 0
    objects: int = 0
    text: bytes = b""
    """The beginning of a string that continues in the next chunk."""
    exceeded: bool = False
    wait: float = 0.0
    """Seconds until the sender may send this amount; 0 if it may send it now."""
    more: bool = True
    started: bool = False
    unread: int = 0
    """The response's length in bytes, if it is large and known in advance."""
    refused: bool = False
    """Whether the response is not sent, because others wait to be read."""

    async def serve(self, scope: Scope) -> None:
        """Have the application serve the request, unless its body is too large."""
        length = value_of(scope, "content-length") or "0"
        self.exceeded = not length.isdigit() or int(length) > self.size.max_bytes
        try:
            if not self.exceeded:
                await self.limits.app(scope, self._receive, self._send)
        except Exception:
            if not self.exceeded:
                raise
        if self.exceeded and not self.started:
            with suppress(TimeoutError):
                await self._drain()
            if self.wait > 0:
                await refuse_for(self.send_pieces, self.wait, _TOO_MUCH)
                return
            problem = (
                f"A request may have at most {self.size.max_bytes:,} bytes, "
                f"{self.size.max_values:,} texts, items and fields, and a tenth of it objects."
            )
            await refuse(self.send_pieces, 413, PayloadTooLargeError(problem), CLOSE)

    async def _drain(self) -> None:
        """Read the rest of the body, or a reset would keep the client from reading the response."""
        async with asyncio.timeout(_DRAINING):
            while self.more and self.received <= _DRAINED:
                message = await self.receive()
                self.received += len(message.get("body", b""))
                self.more = message.get("more_body", False)
                self.limits.count(self.sender, message.get("body", b""))

    async def _receive(self) -> Message:
        message = await self.receive()
        self.more = message.get("more_body", False)
        if message["type"] == "http.request":
            chunk: bytes = message.get("body", b"")
            self.received += len(chunk)
            before = self.values
            too_large = self.received > self.size.max_bytes or self._has_many(chunk)
            taken = weight(len(chunk), self.values - before)
            self.wait = self.limits.take(self.sender, taken, self)
            if too_large or self.wait > 0:
                self.exceeded = True
                return {"type": "http.disconnect"}
        return message

    def _has_many(self, chunk: bytes) -> bool:
        """Return whether there are too many values up to the end of a chunk."""
        whole, self.text = self.text + chunk, b""
        for found in _TOKEN.finditer(whole):
            self.values += 1
            self.objects += found[0] == b"{"
            if self.values > self.size.max_values or self.objects * 10 > self.size.max_values:
                return True
            if found[2] is not None:
                self.values -= 1
                self.text = b'"' + found[2]
        return False

    async def _send(self, message: Message) -> None:
        """Omit the application's response to a body that was cut off."""
        if self.exceeded and not self.started:
            return
        self.started = True
        await self.send_pieces(message)

    async def send_pieces(self, message: Message) -> None:
        """Send a part of a response; refuse a large one while others wait to be read."""
        if message["type"] == "http.response.start":
            length = value_of(message, "content-length") or ""
            large = int(length) if length.isdigit() and int(length) > _PIECE else 0
            if large and not self.limits.reserve(self.sender, large):
                self.refused = True
                problem = "Read the answers to your other requests first; they wait to be read."
                await refuse_for(self.send, 1, problem)
                return
            self.unread = large
        if self.refused:
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        self.limits.count(self.sender, body)
        for at in range(_PIECE, len(body), _PIECE):
            piece = body[at - _PIECE : at]
            await self.send({"type": message["type"], "body": piece, "more_body": True})
            await asyncio.sleep(0)  # lets other requests run, and detects a closed connection
        if body:
            start = (len(body) - 1) // _PIECE * _PIECE
            message = {"type": message["type"], "body": body[start:], "more_body": more}
        await self.send(message)
