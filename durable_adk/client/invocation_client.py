"""Starting, following, answering and cancelling invocations."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from google.genai import types

from durable_adk.activities.invocation.steering import delivered_event
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.client.answers import (
    answer_id_of,
    checked_answers,
    save_credentials,
    sent_before,
)
from durable_adk.client.feed import DeliveredToOther, follow
from durable_adk.client.queries import InvocationFilter, find_pending_calls
from durable_adk.client.streaming import with_partials
from durable_adk.conversation.answers import answer_message
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.conversation.sent_message import is_sent_as
from durable_adk.errors import (
    EventConflictError,
    InvalidRequestError,
    InvocationNotFoundError,
    SessionNotFoundError,
)
from durable_adk.events.event import Event
from durable_adk.partials import PartialChannel, Subscription
from durable_adk.sessions.records import InvocationRecord, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.telemetry.clients import following
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest, user_content
from durable_adk.wire.run_config import StreamingMode

Feed = AsyncGenerator[Event, None]
"""The events of an invocation: committed ones, and partial ones while a model streams."""


class Backend(Protocol):
    """Runs invocations, each represented by a task that ends when the invocation ends."""

    async def start(self, request: InvocationRequest) -> "asyncio.Task[Any]":
        """Start a checked request, or attach to the invocation that has its ids."""
        ...

    async def attach(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> "asyncio.Task[Any] | None":
        """The task of an invocation that was started earlier; None if it does not run here."""
        ...

    async def answer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> "asyncio.Task[Any] | None":
        """Send an answer and wait until it is accepted; None if the invocation no longer runs.

        Raises:
            InvalidRequestError: The answer is refused.
        """
        ...

    async def cancel(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> bool:
        """Request cancellation of an invocation; False if it does not run."""
        ...

    def release(self, run: "asyncio.Task[Any]") -> None:
        """Note that the caller has stopped following a task."""
        ...

    async def close(self) -> None:
        """Stop everything that runs in this process."""
        ...


@dataclass(frozen=True, kw_only=True)
class InvocationClient:
    """A client of the invocations of a session store, whatever backend runs them."""

    sessions: SessionLog
    backend: Backend
    credentials: BaseCredentialService | None = None
    partials: PartialChannel | None = None
    auto_create_session: bool = False

    def send(self, request: InvocationRequest) -> Feed:
        """Send a checked request, a message or an answer, and yield the events that follow."""
        return self.answer(request) if _is_answer(request.message) else self.start(request)

    async def start(self, request: InvocationRequest) -> Feed:
        """Start an invocation and yield its events, from the user's on.

        The same request with the same id follows the first invocation from its start (DUR-13).
        """
        if not request.invocation_id:
            request = request.model_copy(update={"invocation_id": f"e-{uuid.uuid4()}"})
        key = SessionKey(request.app, request.user, request.session or "")
        cursor = await self._revision(key)
        record = await self.sessions.get_invocation(key, request.invocation_id or "")
        if record is not None:
            cursor = await self._start_of(key, record, request)
        streaming = request.run_config.streaming_mode is StreamingMode.SSE
        name = request.invocation_id or ""
        with following("run", key, name) as shown:
            async with self._watch(key, name, wanted=streaming) as chunks:
                with shown.current():
                    run = await self.backend.start(request)
                async with aclosing(self._follow(key, name, cursor, run, chunks)) as events:
                    async for event in events:
                        _require_sent(event, name, request)
                        yield event

    async def attach(self, key: SessionKey, invocation_id: str) -> Feed:
        """Yield the events of an invocation that was started earlier, from the user's on.

        Raises:
            InvocationNotFoundError: The session has none of this id.
        """
        record = await self.sessions.get_invocation(key, invocation_id)
        over = record is not None and record.status.closed
        async with self._watch(key, invocation_id, wanted=not over) as chunks:
            run = await self.backend.attach(key, invocation_id, record)
            if record is None and run is None:
                async for event in self._delivered(key, invocation_id):
                    yield event
                return
            cursor = record.start_seq - 1 if record else 0
            feed = self._follow(key, invocation_id, cursor, run, chunks)
            async with aclosing(feed) as events:
                async for event in events:
                    yield event

    async def _delivered(self, key: SessionKey, invocation_id: str) -> Feed:
        """Follow a message that was delivered to another invocation and has no workflow."""
        event = await delivered_event(self.sessions, key, invocation_id)
        if event is None:
            raise InvocationNotFoundError(
                f"Session {key.session_id!r} has no invocation {invocation_id!r}."
            )
        feed = self._follow_delivered(key, invocation_id, event.invocation_id)
        async with aclosing(feed) as events:
            async for event in events:
                yield event

    async def _follow_delivered(self, key: SessionKey, invocation_id: str, recipient: str) -> Feed:
        """Follow the invocation that a message was delivered to, from the message on."""
        record = await self.sessions.get_invocation(key, recipient)
        cursor = record.start_seq - 1 if record else 0
        # Watch its workflow, which may be terminated.
        run = await self.backend.attach(key, recipient, record)
        found = False
        async with aclosing(self._follow(key, recipient, cursor, run, None)) as events:
            async for event in events:
                found = found or event.id == f"{invocation_id}.0"
                if found:
                    yield event

    async def answer(self, request: InvocationRequest) -> Feed:
        """Answer pending calls of an invocation, and yield the events that follow (D9).

        An update of a call whose invocation has ended starts another invocation (OPEN-3, TOL-41).
        An answer with an `invocation_id` may be sent again; the first one is followed then (I12).

        Raises:
            InvalidRequestError: It answers no pending call; nothing was stored (TRAP-28).
        """
        key = SessionKey(request.app, request.user, request.session or "")
        cursor = await self._revision(key)
        answer_id = answer_id_of(request)
        if request.invocation_id and (
            first := await sent_before(self.sessions, key, request, answer_id)
        ):
            async with aclosing(self._follow_stored(key, first)) as events:
                async for event in events:
                    yield event
            return
        answers = await checked_answers(self.sessions, key, request)
        await save_credentials(self.credentials, key, answers)
        message = answer_message(answers)
        name = answers[0].call.invocation_id
        record = await self.sessions.get_invocation(key, name)
        if answers[0].update or record is None:
            request = request.model_copy(update={"message": message})
            feed = self.start(request)
        else:
            answer = InvocationAnswer(
                message=message, state_delta=request.state_delta, answer_id=answer_id
            )
            feed = self._send_answer(key, record, answer, cursor)
        async with aclosing(feed) as events:
            async for event in events:
                yield event

    async def _follow_stored(self, key: SessionKey, first: StoredEvent) -> Feed:
        """Follow an invocation from an answer that is already stored."""
        name = first.event.invocation_id
        record = await self.sessions.get_invocation(key, name)
        over = record is None or record.status.closed
        run = None if over else await self.backend.attach(key, name, record)
        async with aclosing(self._follow(key, name, first.seq - 1, run, None)) as events:
            async for event in events:
                yield event

    async def pending(self, key: SessionKey) -> list[PendingCall]:
        """The session's pending calls, oldest first."""
        app, user, session = key
        where = InvocationFilter(app=app, user=user, session=session)
        return [item.call for item in await find_pending_calls(self.sessions, where)]

    async def cancel(self, key: SessionKey, invocation_id: str) -> bool:
        """Request cancellation; committed events stay (CAN-1). False: it had already ended.

        Raises:
            InvocationNotFoundError: The session has none of this id.
        """
        record = await self.sessions.get_invocation(key, invocation_id)
        if record is not None and record.status.closed:
            return False
        if await self.backend.cancel(key, invocation_id, record):
            return True
        if record is None:
            raise InvocationNotFoundError(
                f"Session {key.session_id!r} has no invocation {invocation_id!r}."
            )
        return False

    async def _send_answer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer, cursor: int
    ) -> Feed:
        name = record.invocation_id
        with following("answer", key, name):
            async with self._watch(key, name) as chunks:
                run = await self._accepted(key, record, answer)
                feed = self._follow(key, name, cursor, run, chunks, pauses=record.pauses)
                async with aclosing(feed) as events:
                    async for event in events:
                        yield event

    async def _accepted(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> "asyncio.Task[Any]":
        run = await self.backend.answer(key, record, answer)
        if run is not None:
            return run
        # It is open in the store. A client of the wrong Temporal must not close it.
        raise InvalidRequestError(
            f"Invocation {record.invocation_id!r} ({record.lease_owner}) does not run here: its "
            "workflow was terminated, or this client uses another Temporal. Nothing was stored."
        )

    async def _start_of(
        self, key: SessionKey, record: InvocationRecord, request: InvocationRequest
    ) -> int:
        """The cursor before an invocation's user event, which must have the request's message."""
        start = record.start_seq - 1
        stored = await self.sessions.read_events(key, after=start, upto=record.start_seq)
        if not stored or not is_sent_as(stored[0].event, user_content(request.message)):
            raise EventConflictError(
                f"Invocation {record.invocation_id!r} was started with another message; "
                "use a new invocation_id, or none."
            )
        return start

    async def _follow(
        self,
        key: SessionKey,
        invocation_id: str,
        cursor: int,
        run: "asyncio.Task[Any] | None",
        chunks: Subscription | None,
        *,
        pauses: int = 0,
    ) -> Feed:
        feed = follow(
            self.sessions,
            key,
            invocation_id=invocation_id,
            after=cursor,
            run=run,
            pauses=pauses,
        )
        recipient: str | None = None
        try:
            async with aclosing(self._with_partials(feed, chunks, cursor)) as events:
                async for event in events:
                    yield event
        except DeliveredToOther as elsewhere:
            recipient = elsewhere.recipient
        finally:
            if run is not None:
                self.backend.release(run)
        if recipient is not None:
            async with aclosing(self._follow_delivered(key, invocation_id, recipient)) as events:
                async for event in events:
                    yield event

    async def _with_partials(
        self,
        feed: AsyncGenerator[StoredEvent, None],
        chunks: Subscription | None,
        cursor: int,
    ) -> Feed:
        async with aclosing(feed):
            if chunks is None:
                async for stored in feed:
                    yield stored.event
                return
            async with aclosing(with_partials(feed, chunks, after=cursor)) as events:
                async for event in events:
                    yield event

    def _watch(
        self, key: SessionKey, invocation_id: str, *, wanted: bool = True
    ) -> AbstractAsyncContextManager[Subscription | None]:
        """Subscribe to partial events; enter this before the invocation is started.

        Whether an invocation streams is known at its start only, so attaching and answering always
        subscribe. That was measured to cost 2 ms on a SQLite store, and nothing to runs that do not
        stream.
        """
        if self.partials is None or not wanted:
            return nullcontext()
        return self.partials.subscribe(key, invocation_id)

    async def _revision(self, key: SessionKey) -> int:
        try:
            revision, _ = await self.sessions.read_state(key)
        except SessionNotFoundError:
            if self.auto_create_session:
                return 0
            raise SessionNotFoundError(
                f"Session not found: {key.session_id!r} of user {key.user_id!r} in app "
                f"{key.app_name!r}. Create it with session_service.create_session under the same "
                "app name and user, or pass auto_create_session=True to Runner."
            ) from None
        return revision


def _require_sent(event: Event, invocation_id: str, request: InvocationRequest) -> None:
    """Check that the message delivered under this id is the request's message.

    Raises:
        EventConflictError: It is a different message.
    """
    if event.id != f"{invocation_id}.0" or event.invocation_id == invocation_id:
        return
    if not is_sent_as(event, user_content(request.message)):
        raise EventConflictError(
            f"A different message {invocation_id!r} was delivered to invocation "
            f"{event.invocation_id!r}; use a new invocation_id, or none."
        )


def _is_answer(message: str | types.Content) -> bool:
    """Whether a message answers calls."""
    return isinstance(message, types.Content) and any(
        part.function_response for part in message.parts or []
    )
