"""Starts, follows, answers and cancels invocations."""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    aclosing,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.client.answers import (
    JudgedAnswer,
    SentAnswer,
    is_answer,
    judge,
    save_credentials,
)
from durable_adk.client.feed import DeliveredToOther, RunEndedError, follow_changes
from durable_adk.client.queries import InvocationFilter, find_pending_calls
from durable_adk.client.streaming import FeedItem, with_partials
from durable_adk.conversation.answers import answer_message
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.conversation.sent_message import differing_field
from durable_adk.errors import (
    DurableAdkError,
    EventConflictError,
    InvalidRequestError,
    InvocationNotFoundError,
    SessionNotFoundError,
    as_raised,
)
from durable_adk.events.event import Event
from durable_adk.partials import PartialChannel, Subscription
from durable_adk.sessions.records import InvocationRecord, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.telemetry.clients import following
from durable_adk.telemetry.tracing import RunningSpan
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest
from durable_adk.wire.run_config import RunConfig, StreamingMode

Feed = AsyncGenerator[FeedItem, None]
"""An invocation's events, chunks and records; `streaming.events_of` yields only the events."""


class Backend(Protocol):
    """Runs invocations, each represented by a task that ends when the invocation ends."""

    async def start(self, request: InvocationRequest) -> "asyncio.Task[Any]":
        """Start a checked request, or attach to the invocation that has its ids."""
        ...

    async def attach(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> "asyncio.Task[Any] | None":
        """Return the task of an invocation that was started earlier; None if it runs elsewhere."""
        ...

    async def answer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> "asyncio.Task[Any] | None":
        """Send an answer and wait until it is accepted; return None if the invocation has ended.

        Raises:
            InvalidRequestError: The answer is refused.
        """
        ...

    async def is_spent(self, key: SessionKey, invocation_id: str) -> bool:
        """Return whether a message was refused or cancelled before it began, so its id is useless.

        Raises:
            TemporalUnavailableError: Temporal does not respond.
        """
        ...

    async def cancel(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> bool:
        """Request cancellation of an invocation; return False if it does not run."""
        ...

    async def failure(self, run: "asyncio.Task[Any]") -> BaseException | None:
        """Return the exception of a finished task of this process; None: it runs elsewhere."""
        ...

    def release(self, run: "asyncio.Task[Any]") -> None:
        """Tell the backend that the caller has stopped following a task."""
        ...

    def busy(self) -> bool:
        """Return whether an invocation runs in the running event loop."""
        ...

    async def close(self) -> None:
        """Stop everything that runs in this process."""
        ...


@dataclass(frozen=True, kw_only=True)
class _Start:
    """How to begin or find an invocation, and from where to follow its events."""

    key: SessionKey
    invocation_id: str
    begin: Callable[[], Awaitable["asyncio.Task[Any] | None"]]
    """Starts, answers or finds the invocation; returns its task, or None if it runs elsewhere."""
    after: int
    """The cursor: events up to this sequence number are skipped."""
    pauses: int | None = 0
    """Number of pauses before the cursor; the next pause ends the feed. None: no pause does."""
    streams: bool = True
    """Whether partial events are expected."""
    span: str | None = None
    """Name of the span over the whole; None: no span."""


@dataclass(frozen=True, kw_only=True)
class InvocationClient:
    """A client of the invocations of a session store, whatever backend runs them."""

    sessions: SessionLog
    backend: Backend
    credentials: BaseCredentialService | None = None
    partials: PartialChannel | None = None
    derives_state: bool = False
    """Whether `state_delta` depends on the session's state, so that a repeat may have a different
    one."""

    def send(
        self, request: InvocationRequest, *, answered_by: dict[str, str] | None = None
    ) -> Feed:
        """Send a checked request, a message or an answer, and yield the events that follow.

        Args:
            request: The request.
            answered_by: The sender of the answer, as the server identified it.
        """
        if is_answer(request.message):
            return self.answer(SentAnswer(request=request, answered_by=answered_by))
        return self.start(request)

    async def start(self, request: InvocationRequest, *, is_new: bool = False) -> Feed:
        """Start an invocation and yield its events, from the user's on.

        The same request with the same id follows the first invocation from its start (DUR-13).

        Args:
            request: The request.
            is_new: Whether its id was generated for it, so that no earlier request can have it.
        """
        if not request.invocation_id:
            request = request.model_copy(update={"invocation_id": f"e-{uuid.uuid4()}"})
            is_new = True
        key = request.key
        name = request.invocation_id or ""
        cursor = await self._revision(request)
        record = None if is_new else await self.sessions.get_invocation(key, name)
        if record is not None:
            cursor = await self._start_of(key, record, request)
        start = _Start(
            key=key,
            invocation_id=name,
            begin=partial(self.backend.start, request),
            after=cursor,
            streams=request.run_config.streaming_mode is StreamingMode.SSE,
            span="run",
        )
        async with aclosing(self._started(start)) as items:
            async for item in items:
                if isinstance(item, StoredEvent) and item.event.id == f"{name}.0":
                    self.check_same(item.event, name, request)
                yield item

    async def _started(self, start: _Start) -> Feed:
        """Begin an invocation and yield its items.

        The id may be that of an invocation whose session was deleted a moment ago, and whose run is
        about to end. The message is attached to that run then, and starts its own once that ended.
        """
        called, found, again = time.time(), False, False
        try:
            async with aclosing(self._follow(start)) as items:
                async for item in items:
                    found = True
                    yield item
        except RunEndedError:
            again = not found and await self._is_replaced(start.key, called)
            if not again:
                raise
        if again:
            async with aclosing(self._follow(start)) as items:
                async for item in items:
                    yield item

    async def _is_replaced(self, key: SessionKey, called: float) -> bool:
        """Return whether a session has a deleted predecessor, and was created before a time."""
        creation = await self.sessions.read_creation(key)
        return creation is not None and creation.epoch > 0 and creation.time < called

    async def attach(
        self, key: SessionKey, invocation_id: str, *, ends_at_pause: bool = True
    ) -> Feed:
        """Yield the events of an invocation that was started earlier, from the user's on.

        Raises:
            InvocationNotFoundError: The session has no invocation of this id.
        """
        record = await self.sessions.get_invocation(key, invocation_id)
        over = record is not None and record.status.closed
        start = self._attaching(key, invocation_id, record, streams=not over)
        if not ends_at_pause:
            start = replace(start, pauses=None)
        async with aclosing(self._follow(start)) as items:
            async for item in items:
                yield item

    async def answer(self, sent: SentAnswer) -> Feed:
        """Judge an answer to pending calls, and give it (D9)."""
        async with aclosing(self.give(await self.judge(sent))) as items:
            async for item in items:
                yield item

    async def judge(self, sent: SentAnswer) -> JudgedAnswer:
        """Return an answer with what becomes of it, for `give`; see `client.answers.judge`."""
        after, is_spent = await self._revision(sent.request), self.backend.is_spent
        judged = await judge(self.sessions, sent, is_spent, any_state=self.derives_state)
        return replace(judged, after=after)

    async def give(self, judged: JudgedAnswer) -> Feed:
        """Send an answer unless it was stored before, and yield the events that follow.

        An update of a call whose invocation has ended starts another invocation (OPEN-3, TOL-41).
        """
        key, request, first = judged.sent.key, judged.sent.request, judged.first
        if first is not None:
            name = first.event.invocation_id
            record = await self.sessions.get_invocation(key, name)
            feed = self._follow(self._attaching(key, name, record, after=first.seq - 1))
        elif judged.record is None:
            changes = {"message": answer_message(judged.answers), "invocation_id": judged.starts}
            feed = self.start(request.model_copy(update=changes))
        else:
            feed = self._follow(self._answering(judged, judged.record))
        await save_credentials(self.credentials, key, judged.answers)
        async with aclosing(feed) as items:
            async for item in items:
                yield item

    async def deliver(self, judged: JudgedAnswer) -> None:
        """Send an answer to the invocation that waits, and return once it is accepted.

        Raises:
            CallerError: The answer was refused.
            NoWorkerError: The answer is kept, but no worker polls the task queue.
        """
        if judged.first is not None:
            return  # it was stored before
        if judged.record is None:
            raise AssertionError("an answer that starts another invocation is sent by `give`")
        start = self._answering(judged, judged.record)
        await save_credentials(self.credentials, start.key, judged.answers)
        # Its session was deleted meanwhile, and another invocation received it: that is accepted.
        with suppress(DeliveredToOther), self._spanned(start) as running, running.current():
            if run := await start.begin():
                self.backend.release(run)

    def _answering(self, judged: JudgedAnswer, record: InvocationRecord) -> _Start:
        """Return the start that sends an answer to the invocation that waits.

        Raises:
            InvalidRequestError: The answer has options that answers do not take.
        """
        request = judged.sent.request
        answer = InvocationAnswer(
            message=answer_message(judged.answers),
            state_delta=request.state_delta,
            answer_id=judged.answer_id,
            answered_by=judged.sent.answered_by,
            run_config=None if request.run_config == RunConfig() else request.run_config,
        )
        answer.check_options()
        return _Start(
            key=judged.sent.key,
            invocation_id=record.invocation_id,
            begin=partial(self._accepted, judged, record, answer),
            after=judged.after,
            pauses=record.pauses,
            span="answer",
        )

    async def pending(self, key: SessionKey) -> list[PendingCall]:
        """Return the session's pending calls, oldest first."""
        app, user, session = key
        where = InvocationFilter(app=app, user=user, session=session)
        return [item.call for item in await find_pending_calls(self.sessions, where)]

    async def cancel(self, key: SessionKey, invocation_id: str) -> bool:
        """Request cancellation; committed events stay (CAN-1). False: it had already ended.

        Raises:
            InvocationNotFoundError: The session has no invocation of this id.
        """
        record = await self.sessions.get_invocation(key, invocation_id)
        if record is not None and record.status.closed:
            return False
        if await self.backend.cancel(key, invocation_id, record):
            return True
        if record is None:
            raise _not_found(key, invocation_id)
        return False

    async def _accepted(
        self, judged: JudgedAnswer, record: InvocationRecord, answer: InvocationAnswer
    ) -> "asyncio.Task[Any] | None":
        """Send an answer to the invocation that waits, and return its task.

        Raises:
            AlreadyAnsweredError: Another answer was accepted meanwhile.
            InvalidRequestError: The answer is refused, or the invocation does not run here.
        """
        key, name = judged.sent.key, record.invocation_id
        refusal = InvalidRequestError(
            # It is open in the store. A client of the wrong Temporal must not close it.
            f"Invocation {name!r} ({record.lease_owner}) does not run here: its workflow was "
            "terminated, or this client uses another Temporal. Nothing was stored."
        )
        try:
            if (run := await self.backend.answer(key, record, answer)) is not None:
                return run
        except InvalidRequestError as error:
            refusal = error
        # The reason may be another answer that was accepted meanwhile, or the same one.
        sent = replace(judged.sent, answer_id=judged.answer_id)
        if (await self.judge(sent)).first is None:
            raise refusal
        return await self._attached(key, name, await self.sessions.get_invocation(key, name))

    def _attaching(
        self,
        key: SessionKey,
        invocation_id: str,
        record: InvocationRecord | None,
        *,
        after: int | None = None,
        streams: bool = False,
    ) -> _Start:
        """Return the start for an existing invocation; by default from the user's event on."""
        first = record.start_seq - 1 if record else 0
        return _Start(
            key=key,
            invocation_id=invocation_id,
            begin=partial(self._attached, key, invocation_id, record),
            after=first if after is None else after,
            streams=streams,
        )

    async def _attached(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> "asyncio.Task[Any] | None":
        """Return the task of an invocation that is not closed, if it runs here.

        Raises:
            DeliveredToOther: There is only a message of this id, without a workflow of its own.
            InvocationNotFoundError: There is no such message either.
        """
        if record is not None and record.status.closed:
            return None
        run = await self.backend.attach(key, invocation_id, record)
        if record is None and run is None:
            event = await self.sessions.delivered_event(key, invocation_id)
            if event is None:
                raise _not_found(key, invocation_id)
            raise DeliveredToOther(event.invocation_id)
        return run

    async def _start_of(
        self, key: SessionKey, record: InvocationRecord, request: InvocationRequest
    ) -> int:
        """Return the cursor before an invocation's user event, which must match the request."""
        start = record.start_seq - 1
        for stored in await self.sessions.read_events(key, after=start, upto=record.start_seq):
            self.check_same(stored.event, record.invocation_id, request)
        return start

    def check_same(
        self,
        event: Event,
        invocation_id: str,
        request: InvocationRequest,
    ) -> None:
        """Check that a user's event is the one that a request with its id would store.

        Args:
            event: The event.
            invocation_id: The id.
            request: The request.

        Raises:
            EventConflictError: An earlier request with the same id was a different one.
        """
        field = differing_field(
            event,
            message=request.user_content(),
            state_delta=None if self.derives_state else request.state_delta,
            custom_metadata=request.run_config.custom_metadata,
        )
        if field is None:
            return
        how = "started" if event.invocation_id == invocation_id else "delivered"
        raise EventConflictError(
            f"{invocation_id!r} was {how} with another {field.removeprefix('new_')}, which was "
            "kept. Use a new invocation_id or Idempotency-Key, or none.",
            field=field,
        )

    async def _follow(self, start: _Start) -> Feed:
        """Begin or find an invocation, and yield its events, chunks and records."""
        key, name = start.key, start.invocation_id
        run: asyncio.Task[Any] | None = None
        recipient: str | None = None
        failed: DurableAdkError | None = None
        with self._spanned(start) as running:
            try:
                async with self._subscribed(key, name, wanted=start.streams) as chunks:
                    with running.current():
                        run = await start.begin()
                    after, pauses = start.after, start.pauses
                    feed = follow_changes(
                        self.sessions, key, invocation_id=name, after=after, run=run, pauses=pauses
                    )
                    merged = with_partials(feed, chunks, after=after)
                    async with aclosing(feed), aclosing(merged) as items:
                        async for item in items:
                            yield item
            except DeliveredToOther as other:
                recipient = other.recipient
            except DurableAdkError as error:
                failed = error
            finally:
                if run is not None:
                    self.backend.release(run)
            if failed is not None:
                raise await self._as_raised(failed, run)
            if recipient is not None:
                async with aclosing(self._delivered(key, name, recipient)) as items:
                    async for item in items:
                        yield item

    def _spanned(self, start: _Start) -> AbstractContextManager[RunningSpan]:
        """Open the span over what begins or finds an invocation, if it has one."""
        if start.span is None:
            return nullcontext(RunningSpan(None))
        return following(start.span, start.key, start.invocation_id)

    async def _as_raised(
        self, error: DurableAdkError, run: "asyncio.Task[Any] | None"
    ) -> BaseException:
        """Return the exception for the caller to catch: user code's own, if there is one."""
        if error.user is not None and run is not None:
            own = await self.backend.failure(run)
            if isinstance(own, DurableAdkError) and own.original is not None:
                return as_raised(own)
        return as_raised(error)

    async def _delivered(self, key: SessionKey, invocation_id: str, recipient: str) -> Feed:
        """Follow the invocation to which a message was delivered, from the message on."""
        message = await self.sessions.find_event(key, f"{invocation_id}.0")
        record = await self.sessions.get_invocation(key, recipient)
        after = None if message is None else message.seq - 1
        start = self._attaching(key, recipient, record, after=after, streams=True)
        found = False
        async with aclosing(self._follow(start)) as items:
            async for item in items:
                found = found or _is_event(item, f"{invocation_id}.0")
                if found:
                    yield item

    def _subscribed(
        self, key: SessionKey, invocation_id: str, *, wanted: bool
    ) -> AbstractAsyncContextManager[Subscription | None]:
        """Subscribe to partial events; enter this before the invocation is started.

        Whether an invocation streams is only known when it starts, so attaching and answering
        always subscribe. Measured cost: 2 ms on a SQLite store, nothing for runs that do not
        stream.
        """
        if self.partials is None or not wanted:
            return nullcontext()
        return self.partials.subscribe(key, invocation_id)

    async def _revision(self, request: InvocationRequest) -> int:
        """Return the revision of a request's session, which may be missing if it is created."""
        key = request.key
        try:
            return await self.sessions.read_revision(key)
        except SessionNotFoundError:
            if request.create_session:
                return 0
            raise SessionNotFoundError(
                f"Session not found: {key.session_id!r} of user {key.user_id!r} in app "
                f"{key.app_name!r}. Create it first under the same app name and user, or have the "
                "message create it: auto_create_session in Python, createSession over HTTP."
            ) from None


def _not_found(key: SessionKey, invocation_id: str) -> InvocationNotFoundError:
    return InvocationNotFoundError(
        f"Session {key.session_id!r} has no invocation {invocation_id!r}."
    )


def _is_event(item: FeedItem, event_id: str) -> bool:
    return isinstance(item, StoredEvent) and item.event.id == event_id
