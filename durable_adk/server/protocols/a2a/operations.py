"""Handles A2A requests with the session store and its feed."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import RequestHandler
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    A2A_ERROR_MAPPING,
    ErrorMapping,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.task import apply_history_length, validate_history_length
from starlette.requests import Request

from durable_adk.errors import (
    CallerError,
    DurableAdkError,
    EventConflictError,
    InvocationCancelledError,
    LeaseLostError,
    NotFoundError,
    NoWorkerError,
    TransientError,
)
from durable_adk.json_values import check_id
from durable_adk.server.caller import Caller
from durable_adk.server.feed import FeedEntry, FeedPosition, entries_of
from durable_adk.server.protocols.a2a import push_notifications
from durable_adk.server.protocols.a2a.invocations import Sent, resume, start
from durable_adk.server.protocols.a2a.task import TaskView, Update, UpdateStream
from durable_adk.server.protocols.a2a.task_listing import list_tasks
from durable_adk.server.services import ServerServices
from durable_adk.server.streams import Reading
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import WhenBusy
from durable_adk.wire.webhook import PushConfig

_STARTED = 2.0
"""Seconds for a message to take effect; then the task is returned in its current state."""
_CANCELLED = 10.0
"""Seconds for a cancelled task to end; then it is returned in its current state."""
_STOPS = "The server stops; the task continues. Ask for it again."


@dataclass(frozen=True)
class TaskHandler(RequestHandler):
    """Handles the requests of one sender to one app.

    It keeps no state: tasks are invocations, contexts are sessions, and both are in the store.
    """

    services: ServerServices
    caller: Caller
    app_name: str
    request: Request
    card: AgentCard
    when_busy: WhenBusy
    """What a message that starts a task does while another task is active in its context."""

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        """Start or resume a task, and return it when it has ended or waits."""
        del context
        validate_history_length(params.configuration)
        with _reported():
            sent = await self._sent(params, follows=False)
            reading = Reading(sent.entries)
            if params.configuration.return_immediately:
                try:
                    await reading.first(_STARTED)
                finally:
                    reading.close()
            else:
                try:
                    await self._read(reading)
                except NoWorkerError:
                    if await sent.view.begun():  # an answer or a steering message
                        raise
            view = await sent.accepted_task()
            record = await self.services.session_service.get_invocation(view.key, view.task_id)
            return apply_history_length(await view.task(record), params.configuration)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Update]:
        """Start or resume a task, and yield its updates until it has ended or waits."""
        del context
        with _reported():
            sent = await self._sent(params, follows=True)
            reading = Reading(sent.entries)
            begun = await reading.first() or await sent.view.begun()
            state = TaskState.TASK_STATE_WORKING if begun else TaskState.TASK_STATE_SUBMITTED
            view = await sent.accepted_task()
            async for update in self._updates(
                reading, view, view.opening(state), sent.accepted_task
            ):
                yield update

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Update]:
        """Yield a task in its current state, then its updates until it has ended or waits."""
        del context
        with _reported():
            view, record = await self._found(params.id)
            if record is not None and record.status.closed:
                raise UnsupportedOperationError("The task has ended; get it instead.")
            entries = await self._feed_from_now(view, record)
            task = await view.task(record)
            async for update in self._updates(Reading(entries), view, task):
                yield update

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """Return a task."""
        del context
        validate_history_length(params)
        with _reported():
            view, record = await self._found(params.id)
            return apply_history_length(await view.task(record), params)

    async def on_list_tasks(
        self, params: ListTasksRequest, context: ServerCallContext
    ) -> ListTasksResponse:
        """Return the sender's tasks, the newest first."""
        del context
        validate_history_length(params)
        with _reported():
            return await list_tasks(self.services, self.caller, self.app_name, params)

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """Cancel a task, and return it when it has ended."""
        del context
        with _reported():
            view, record = await self._found(params.id)
            client = self.services.invocations(self.app_name)
            if not await client.cancel(view.key, view.task_id):
                raise TaskNotCancelableError("The task has already ended.")
            reading = Reading(entries_of(view.key, client.attach(view.key, view.task_id)))
            try:
                async with asyncio.timeout(_CANCELLED):
                    await self._read(reading)
            except (TimeoutError, NotFoundError, InvocationCancelledError):
                pass  # returned in its current state; a task that never began is not in the store
            finally:
                reading.close()
            record = await self.services.session_service.get_invocation(view.key, view.task_id)
            if record is None:
                return view.opening(TaskState.TASK_STATE_CANCELED)
            return await view.task(record)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Return the card with all agents and tools."""
        del params, context
        return self.card

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Register a URL for notifications of a task's state changes."""
        del context
        with _reported():
            view = await self._notifying(params.task_id)
            config = await self._checked(params, view)
            await push_notifications.store(view, config)
            return push_notifications.shown(view, config)

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Return a push notification configuration of a task."""
        del context
        with _reported():
            return await push_notifications.find(await self._notifying(params.task_id), params.id)

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return all push notification configurations of a task."""
        del context
        with _reported():
            found = await push_notifications.stored(await self._notifying(params.task_id))
            return ListTaskPushNotificationConfigsResponse(configs=found)

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Delete a push notification configuration."""
        del context
        with _reported():
            await push_notifications.remove(await self._notifying(params.task_id), params.id)

    async def _notifying(self, task_id: str) -> TaskView:
        """Return a task for whose notifications the sender may register."""
        self._require_notifications()
        view, _ = await self._found(task_id)
        return view

    def _require_notifications(self) -> None:
        if not self.services.settings.push_notifications:
            raise PushNotificationNotSupportedError

    async def _checked(self, params: TaskPushNotificationConfig, view: TaskView) -> PushConfig:
        hosts = self.services.settings.push_hosts
        return await push_notifications.checked(params, view.task_id, hosts)

    async def _sent(self, params: SendMessageRequest, *, follows: bool) -> Sent:
        """Prepare a message, which is sent on the first read, and store its push configuration.

        Args:
            params: The message.
            follows: Whether the sender follows the task even while there is no worker.
        """
        message, options = params.message, params.configuration
        notifies = options.HasField("task_push_notification_config")
        if notifies:
            self._require_notifications()
        if not message.task_id:
            await self.services.check_room(self.app_name, self.caller)
            sent = await start(
                self.services,
                self.caller,
                self.app_name,
                message,
                when_busy=self.when_busy,
                follows=follows,
            )
        else:
            view, record = await self._found(message.task_id)
            sent = await resume(view, record, self.caller, message, follows=follows)
        if notifies:
            config = await self._checked(options.task_push_notification_config, sent.view)
            await push_notifications.store(sent.view, config, create_session=not message.task_id)
        return sent

    async def _found(self, task_id: str) -> tuple[TaskView, InvocationRecord | None]:
        """Return a task that the sender may access, and its record if it has begun.

        Raises:
            TaskNotFoundError: The task does not exist, or is another user's.
        """
        sessions, name = self.services.session_service, check_id(task_id, "id")
        keys = [
            key
            for key in await sessions.sessions_with(name)
            if key.app_name == self.app_name
            and self.caller.may_access(key.user_id)
            and not key.is_child
        ]
        if not keys:
            raise TaskNotFoundError(f"There is no task {name!r}.")
        # The server generates task ids, but clients of other protocols may choose an id that they
        # know.
        found = [(await self._begun(key, name), key) for key in keys]
        (_, record), key = min(found, key=lambda one: one[0][0])
        return TaskView(self.services, key, name), record

    async def _begun(self, key: SessionKey, name: str) -> tuple[float, InvocationRecord | None]:
        """Return when an invocation began, in seconds since the epoch, and its record."""
        sessions = self.services.session_service
        record = await sessions.get_invocation(key, name)
        if record is None:
            return math.inf, None
        first = await sessions.read_events(key, after=record.start_seq - 1, upto=record.start_seq)
        if not first:  # the session was deleted in between
            return math.inf, None
        return first[0].event.timestamp or 0.0, record

    async def _feed_from_now(
        self, view: TaskView, record: InvocationRecord | None
    ) -> AsyncGenerator[FeedEntry]:
        """Return the feed of a task from now on."""
        key, task_id = view.key, view.task_id
        if record is None:
            client = self.services.invocations(self.app_name, waits_for_worker=True)
            return entries_of(key, client.attach(key, task_id))
        revision = await self.services.session_service.read_revision(key)
        return self.services.feed.invocation(
            key, task_id, FeedPosition(seq=revision), until_pause=True
        )

    async def _read(self, reading: Reading[FeedEntry]) -> None:
        """Read the feed to its end, or until the sender disconnects.

        Raises:
            InternalError: The server stops.
        """
        async for _ in reading.entries(self.services.draining):
            if await self.request.is_disconnected():
                return
        if self.services.draining.is_set():
            raise InternalError(_STOPS)

    async def _updates(
        self,
        reading: Reading[FeedEntry],
        view: TaskView,
        task: Task,
        accepted_task: Callable[[], Awaitable[TaskView]] | None = None,
    ) -> AsyncIterator[Update]:
        """Yield a task and its updates; at the first entry, switch to `accepted_task`'s."""
        stream = UpdateStream(view, task.status.state)
        try:
            yield task
            async for entry in reading.entries(self.services.draining):
                if accepted_task is not None and (view := await accepted_task()) != stream.view:
                    stream = UpdateStream(view, TaskState.TASK_STATE_WORKING)
                    yield view.opening(stream.state)
                accepted_task = None
                async for update in stream.of(entry.item):
                    yield update
        finally:
            reading.close()  # also if the reader disconnected before the first entry


class TaskUnavailableError(InternalError):
    """The store or Temporal does not respond; the request may be retried."""


A2A_ERROR_MAPPING[TaskUnavailableError] = ErrorMapping(503, "UNAVAILABLE", "UNAVAILABLE")


@contextmanager
def _reported() -> Generator[None]:
    """Convert this package's errors to A2A's, which have its codes."""
    try:
        yield
    except (NotFoundError, LeaseLostError) as error:  # the context was deleted
        raise TaskNotFoundError(error.message) from error
    except (CallerError, EventConflictError) as error:
        raise InvalidParamsError(error.message) from error
    except NoWorkerError as error:  # the invocation continues, so the client must not retry
        raise InternalError(error.message) from error
    except TransientError as error:
        raise TaskUnavailableError(error.message) from error
    except DurableAdkError as error:
        raise InternalError(error.message) from error
