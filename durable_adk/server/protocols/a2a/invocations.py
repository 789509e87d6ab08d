"""A2A messages as requests to this runtime: they start an invocation or answer its calls."""

import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

from a2a.types import Message
from a2a.utils.errors import InvalidParamsError, UnsupportedOperationError
from google.genai import types

from durable_adk.client.answers import SentAnswer
from durable_adk.client.queries import pending_calls_of
from durable_adk.json_values import check_id
from durable_adk.server.caller import Caller
from durable_adk.server.feed import FeedEntry, FeedPosition, entries_of
from durable_adk.server.protocols.a2a.message import answer_of, content_of
from durable_adk.server.protocols.a2a.task import TaskView
from durable_adk.server.services import ServerServices
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey, checked_key
from durable_adk.wire.messages import InvocationRequest, WhenBusy, answer_event
from durable_adk.wire.run_config import RunConfig, StreamingMode

_IDS = uuid.UUID("0c1f5a3e-7a53-4a37-8f5e-0f2a2b9d6e11")
_ANONYMOUS_PREFIX = "A2A_USER_"
"""Prefix of the user ids of unauthenticated clients; the context id follows, as in ADK."""


@dataclass(frozen=True)
class Sent:
    """A message that is sent when its entries are first read."""

    view: TaskView
    entries: AsyncGenerator[FeedEntry]
    own_id: str | None = None
    """The task that the message starts if no running task accepts it; None for an answer."""

    async def accepted_task(self) -> TaskView:
        """Return the task that has accepted the message.

        A steering message has its own task if the running task made no further model call.
        """
        if self.own_id is None:
            return self.view
        sessions, key = self.view.services.session_service, self.view.key
        stored = await sessions.find_event(key, f"{self.own_id}.0")
        return replace(self.view, task_id=stored.event.invocation_id) if stored else self.view


async def start(
    services: ServerServices,
    caller: Caller,
    app_name: str,
    message: Message,
    *,
    when_busy: WhenBusy,
    follows: bool,
) -> Sent:
    """Start a task, in the message's context or in a new one.

    With `WhenBusy.STEER`, the context's running task accepts the message, if there is one. All ids
    are derived from the message's, so repeating the message starts no second task.

    Raises:
        InvalidParamsError: The message is empty.
        CallerError: An id is invalid.
    """
    name = check_id(message.message_id, "messageId")
    context = message.context_id or _id_of(app_name, caller.user_id, name)
    key = checked_key(app_name, caller.user_id or f"{_ANONYMOUS_PREFIX}{context}", context)
    task_id = _id_of(*key, name)
    content = content_of(message)
    request = _request(key, task_id, content, create_session=True, when_busy=when_busy)
    client = services.invocations(app_name, waits_for_worker=follows)
    view, entries = TaskView(services, key, task_id), entries_of(key, client.start(request))
    if when_busy is WhenBusy.STEER:
        active = await services.session_service.active_invocation(key)
        view = replace(view, task_id=active.invocation_id) if active else view
    sent = Sent(view, entries, own_id=task_id)
    return replace(sent, view=await sent.accepted_task())  # the message may be a repetition


async def resume(
    view: TaskView,
    record: InvocationRecord | None,
    caller: Caller,
    message: Message,
    *,
    follows: bool,
) -> Sent:
    """Answer the calls of a waiting task, or what its agent has asked; or steer a running one.

    A repeated message follows the outcome of the first one.

    Raises:
        InvalidParamsError: The message is empty, or does not answer the task's calls.
        UnsupportedOperationError: The task neither waits for an answer nor runs.
    """
    services, key, task_id = view.services, view.key, view.task_id
    if message.context_id and message.context_id != key.session_id:
        raise InvalidParamsError("The task belongs to another context than contextId.")
    name = _id_of(*key, task_id, check_id(message.message_id, "messageId"))
    find = services.session_service.find_event
    first = await find(key, answer_event(task_id, name)) or await find(key, f"{name}.0")
    if first:
        before, by = FeedPosition(seq=first.seq - 1), first.event.invocation_id
        feed = services.feed.invocation(key, by, before, until_pause=True)
        return Sent(replace(view, task_id=by), feed)
    calls = await pending_calls_of(services.session_service, key, task_id)
    if not calls and record and not record.status.closed:
        await services.check_room(key.app_name, caller)
        request = _request(key, name, content_of(message), when_busy=WhenBusy.STEER)
        client = services.invocations(key.app_name, waits_for_worker=follows)
        return Sent(view, entries_of(key, client.start(request)), own_id=name)
    if not calls:
        raise UnsupportedOperationError(
            "The task waits for no answer; without a taskId the message starts another one."
        )
    answer = answer_of(message, [one.call for one in calls])
    request = _request(key, name, answer)
    client = services.invocations(key.app_name, waits_for_worker=follows)
    sent = SentAnswer(
        request=request, answer_id=name, answered_by=caller.answered_by, asked_by=task_id
    )
    return Sent(view, entries_of(key, client.answer(sent)))


def _request(
    key: SessionKey,
    invocation_id: str,
    message: types.Content,
    *,
    create_session: bool = False,
    when_busy: WhenBusy = WhenBusy.ENQUEUE,
) -> InvocationRequest:
    request = InvocationRequest(
        app=key.app_name,
        user=key.user_id,
        session=key.session_id,
        message=message,
        invocation_id=invocation_id,
        create_session=create_session,
        when_busy=when_busy,
        run_config=RunConfig(streaming_mode=StreamingMode.SSE),
    )
    return request.checked()


def _id_of(*names: str | None) -> str:
    return f"e-{uuid.uuid5(_IDS, repr(names))}"
