"""What becomes of a user's message: a new invocation, an answer to one, or the look at one."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from google.genai import types

from durable_adk.activities.invocation.steering import delivered_event
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.client.feed import DeliveredToOther, follow
from durable_adk.client.pending import InvocationFilter, find_pending_calls
from durable_adk.client.repeated import answer_id_of, sent_before
from durable_adk.client.streaming import with_partials
from durable_adk.conversation.answers import (
    Answer,
    answer_message,
    answered_call_ids,
    answered_invocation_ids,
    check_answers,
)
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
from durable_adk.sessions.base_session_service import (
    BaseSessionService,
    InvocationRecord,
    Status,
    StoredEvent,
)
from durable_adk.sessions.reading import read_from_calls
from durable_adk.sessions.session import SessionKey
from durable_adk.telemetry.clients import following
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest, user_content
from durable_adk.wire.run_config import StreamingMode

Feed = AsyncGenerator[Event, None]
"""An invocation's events, with the chunks of those that are still being written."""


class Backend(Protocol):
    """How invocations are run."""

    async def start(self, request: InvocationRequest) -> "asyncio.Task[Any]":
        """Start a checked request, or attach to it; the task ends with the invocation."""
        ...

    async def attach(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> "asyncio.Task[Any] | None":
        """What runs an invocation that was started before; None if it is not known here."""
        ...

    async def answer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> "asyncio.Task[Any] | None":
        """Hand an answer over and wait until it is taken; None: nothing runs it any more.

        Raises:
            InvalidRequestError: It is refused.
        """
        ...

    async def cancel(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> bool:
        """Ask an invocation to end; False if nothing runs it."""
        ...

    def release(self, run: "asyncio.Task[Any]") -> None:
        """The caller follows no longer."""
        ...

    async def close(self) -> None:
        """End what runs in this process."""
        ...


@dataclass(frozen=True, kw_only=True)
class InvocationClient:
    """The invocations of an app's sessions, as a client deals with them."""

    sessions: BaseSessionService
    backend: Backend
    credentials: BaseCredentialService | None = None
    partials: PartialChannel | None = None
    auto_create_session: bool = False

    def send(self, request: InvocationRequest) -> Feed:
        """Follow what comes of a checked request: an answer to calls, or a message."""
        return self.answer(request) if _is_answer(request.message) else self.start(request)

    async def start(self, request: InvocationRequest) -> Feed:
        """Run a checked request; follow it from its user event on.

        The same request under the same id follows the first one, from its beginning (DUR-13).
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
        """Follow an invocation that was started before, from its user event on.

        Raises:
            InvocationNotFoundError: The session has none of this id.
        """
        record = await self.sessions.get_invocation(key, invocation_id)
        over = record is not None and record.status.closed
        async with self._watch(key, invocation_id, wanted=not over) as chunks:
            run = await self.backend.attach(key, invocation_id, record)
            if record is None and run is None:
                async for event in self._heard(key, invocation_id):
                    yield event
                return
            cursor = record.start_seq - 1 if record else 0
            feed = self._follow(key, invocation_id, cursor, run, chunks)
            async with aclosing(feed) as events:
                async for event in events:
                    yield event

    async def _heard(self, key: SessionKey, invocation_id: str) -> Feed:
        """What came of a message that another invocation has heard, whose own run is forgotten."""
        event = await delivered_event(self.sessions, key, invocation_id)
        if event is None:
            raise InvocationNotFoundError(
                f"Session {key.session_id!r} has no invocation {invocation_id!r}."
            )
        async with aclosing(self._elsewhere(key, invocation_id, event.invocation_id)) as events:
            async for event in events:
                yield event

    async def _elsewhere(self, key: SessionKey, invocation_id: str, listener: str) -> Feed:
        """What comes of a message that another invocation has heard, from the message on."""
        record = await self.sessions.get_invocation(key, listener)
        cursor = record.start_seq - 1 if record else 0
        # Watched as by who has started it: whatever runs it may be ended from outside.
        run = await self.backend.attach(key, listener, record)
        found = False
        async with aclosing(self._follow(key, listener, cursor, run, None)) as events:
            async for event in events:
                found = found or event.id == f"{invocation_id}.0"
                if found:
                    yield event

    async def answer(self, request: InvocationRequest) -> Feed:
        """Hand an answer to the invocation that waits for it; follow what comes of it (D9).

        A later update to an invocation that is over starts another one (OPEN-3, TOL-41). With an
        `invocation_id` it may be sent again: what came of the first one is followed (I12).

        Raises:
            InvalidRequestError: It answers nothing that waits; nothing was stored (TRAP-28).
        """
        key = SessionKey(request.app, request.user, request.session or "")
        cursor = await self._revision(key)
        answer_id = answer_id_of(request)
        if request.invocation_id and (
            first := await sent_before(self.sessions, key, request, answer_id)
        ):
            async with aclosing(self._again(key, first)) as events:
                async for event in events:
                    yield event
            return
        answers = await self._checked(key, request)
        await self._keep_credentials(key, answers)
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
            feed = self._go_on(key, record, answer, cursor)
        async with aclosing(feed) as events:
            async for event in events:
                yield event

    async def _again(self, key: SessionKey, first: StoredEvent) -> Feed:
        """Follow what has come, and comes, of an answer that is stored."""
        name = first.event.invocation_id
        record = await self.sessions.get_invocation(key, name)
        over = record is None or record.status.closed
        run = None if over else await self.backend.attach(key, name, record)
        async with aclosing(self._follow(key, name, first.seq - 1, run, None)) as events:
            async for event in events:
                yield event

    async def pending(self, key: SessionKey) -> list[PendingCall]:
        """The session's calls that wait for an answer, of invocations that can still take it."""
        app, user, session = key
        where = InvocationFilter(app=app, user=user, session=session)
        return [item.call for item in await find_pending_calls(self.sessions, where)]

    async def cancel(self, key: SessionKey, invocation_id: str) -> bool:
        """Ask an invocation to end; what is committed stays (CAN-1). False: it had ended.

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

    async def _checked(self, key: SessionKey, request: InvocationRequest) -> list[Answer]:
        message = request.message
        if not isinstance(message, types.Content):
            raise InvalidRequestError("An answer is a message of function responses, not text.")
        stored = await read_from_calls(self.sessions, key, answered_call_ids(message))
        events = [item.event for item in stored]
        statuses: dict[str, Status] = {}
        for name in answered_invocation_ids(events, message):
            record = await self.sessions.get_invocation(key, name)
            if record is not None:
                statuses[name] = record.status
        return check_answers(events, message, statuses=statuses)

    async def _keep_credentials(self, key: SessionKey, answers: list[Answer]) -> None:
        """Put secrets where they belong, before anything else hears of the answer (TRAP-48)."""
        for answer in answers:
            given = answer.credential
            if given is None or given.exchanged_auth_credential is None:
                continue
            if self.credentials is None:
                raise InvalidRequestError(
                    "The message holds a credential, but there is no credential_service to keep "
                    "it; give Runner the one that the workers use."
                )
            await self.credentials.save(
                app_name=key.app_name,
                user_id=key.user_id,
                key=given.key,
                credential=given.exchanged_auth_credential,
            )

    async def _go_on(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer, cursor: int
    ) -> Feed:
        name = record.invocation_id
        with following("answer", key, name):
            async with self._watch(key, name) as chunks:
                run = await self._hand_over(key, record, answer)
                feed = self._follow(key, name, cursor, run, chunks, pauses=record.pauses)
                async with aclosing(feed) as events:
                    async for event in events:
                        yield event

    async def _hand_over(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> "asyncio.Task[Any]":
        run = await self.backend.answer(key, record, answer)
        if run is not None:
            return run
        # Not closed in the store: from the wrong server it looks gone too, and waits all the same.
        raise InvalidRequestError(
            f"Nothing here runs invocation {record.invocation_id!r} ({record.holder}): it was "
            "ended from outside, or this client looks in the wrong place. Nothing was stored."
        )

    async def _start_of(
        self, key: SessionKey, record: InvocationRecord, request: InvocationRequest
    ) -> int:
        """The cursor before an invocation's user event, if that has the request's message."""
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
        listener: str | None = None
        try:
            async with aclosing(self._shown(feed, chunks, cursor)) as events:
                async for event in events:
                    yield event
        except DeliveredToOther as elsewhere:
            listener = elsewhere.listener
        finally:
            if run is not None:
                self.backend.release(run)
        if listener is not None:
            async with aclosing(self._elsewhere(key, invocation_id, listener)) as events:
                async for event in events:
                    yield event

    async def _shown(
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
        """The chunks from now on; to be entered before the invocation is set going.

        Who attaches or answers cannot know whether there will be any: that was said at the start.
        Measured, it costs them 2 ms on a SQLite store, and a run that is not streamed nothing.
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
    """Make sure that what another invocation has heard under this id is the request's message.

    Raises:
        EventConflictError: It is another one.
    """
    if event.id != f"{invocation_id}.0" or event.invocation_id == invocation_id:
        return
    if not is_sent_as(event, user_content(request.message)):
        raise EventConflictError(
            f"Message {invocation_id!r} was heard by invocation {event.invocation_id!r}, and was "
            "another one; use a new invocation_id, or none."
        )


def _is_answer(message: str | types.Content) -> bool:
    """Whether a message answers calls."""
    return isinstance(message, types.Content) and any(
        part.function_response for part in message.parts or []
    )
