"""Invocations as A2A tasks, from the store and from the feed."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from a2a.types import (
    Artifact,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import ParseDict

from durable_adk.client.queries import pending_calls_of
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.conversation.task_status import TASK_STATES, task_status
from durable_adk.errors import PayloadTooLargeError
from durable_adk.events.event import Event
from durable_adk.server.feed import EventItem, Item, PartialItem, StatusItem, error_of
from durable_adk.server.protocols.a2a.message import parts_of, public_parts, user_message
from durable_adk.server.services import ServerServices
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey

Update = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent

STATES = {status: TaskState.Value(name) for status, name in TASK_STATES.items()}
"""Task state by invocation status; a pause may require authentication instead."""

OMITTED_ARTIFACTS = "adk_omitted_artifacts"
"""Key of a task's metadata: names of files that were not loaded, to limit the task's size."""


@dataclass(frozen=True)
class TaskView:
    """An invocation of a session as a task; the session is the context."""

    services: ServerServices
    key: SessionKey
    task_id: str

    async def task(
        self,
        record: InvocationRecord | None,
        *,
        artifacts: bool = True,
        history: bool = True,
        max_size: int | None = None,
    ) -> Task:
        """Return the task from the store; without a record, it waits for its session.

        Args:
            record: The invocation's record.
            artifacts: Whether to load its artifacts.
            history: Whether to read the user's messages.
            max_size: Maximum characters of events; None: the limit for reading a whole session. A
                larger task has only its status.
        """
        if record is None:
            return self.opening(TaskState.TASK_STATE_SUBMITTED)
        events = await self._events(record, max_size) if artifacts or history else []
        error = (error_of(record) or {}).get("message")
        task = Task(
            id=self.task_id,
            context_id=self.key.session_id,
            status=await self.status(record.status, error, record.update_time),
            history=self._history(events),
        )
        if artifacts:
            await self._add_artifacts(task, events)
        return task

    async def _events(self, record: InvocationRecord, max_size: int | None) -> list[Event]:
        try:
            stored = await self.services.session_service.read_events(
                self.key,
                after=record.start_seq - 1,
                upto=record.end_seq,
                max_size=max_size or self.services.settings.max_session_bytes,
            )
        except PayloadTooLargeError:
            return []  # the request has succeeded, so the response must not be an error
        return [one.event for one in stored if one.event.invocation_id == self.task_id]

    async def begun(self) -> bool:
        """Return whether the task has begun; before, it waits for its session or a worker."""
        found = await self.services.session_service.get_invocation(self.key, self.task_id)
        return found is not None

    def opening(self, state: TaskState) -> Task:
        """Return the task for the beginning of a stream."""
        status = TaskStatus(state=state)
        return Task(id=self.task_id, context_id=self.key.session_id, status=status)

    async def status(
        self, status: Status, error: str | None = None, time: float | None = None
    ) -> TaskStatus:
        """Return a status, with a paused invocation's requests, or a failed one's error."""
        pending: Sequence[PendingCall] = ()
        if status is Status.PAUSED:
            sessions = self.services.session_service
            found = await pending_calls_of(sessions, self.key, self.task_id)
            pending = [one.call for one in found]
        shown = task_status(self.key, self.task_id, status, pending=pending, error=error, time=time)
        return ParseDict(shown, TaskStatus())

    def _history(self, events: Sequence[Event]) -> list[Message]:
        user_events = (one for one in events if one.author == "user")
        return [user_message(one, self.task_id, self.key.session_id) for one in user_events]

    async def _add_artifacts(self, task: Task, events: Sequence[Event]) -> None:
        """Add the latest version of each file, and texts of agents.

        Files beyond a total of `max_session_bytes` are only named in the task's metadata.
        """
        deltas = (event.actions.artifact_delta for event in events)
        latest = {name: version for delta in deltas for name, version in delta.items()}
        left, omitted = self.services.settings.max_session_bytes, list[str]()
        for event in events:
            for name, version in event.actions.artifact_delta.items():
                if latest[name] != version:
                    continue
                if left <= 0:
                    omitted.append(name)
                elif file := await self._file(name, version):
                    left -= file.ByteSize()
                    task.artifacts.append(file)
            task.artifacts.extend(_texts_of(event))
        if omitted:
            task.metadata.update({OMITTED_ARTIFACTS: omitted})

    async def artifacts_of(self, event: Event) -> AsyncIterator[Artifact]:
        """Yield the files that an event saved, and its agent's text."""
        for name, version in event.actions.artifact_delta.items():
            if file := await self._file(name, version):
                yield file
        for text in _texts_of(event):
            yield text

    async def _file(self, name: str, version: int) -> Artifact | None:
        part = await self.services.artifact_service.load_artifact(
            **self.key._asdict(), filename=name, version=version
        )
        shown = parts_of([part] if part else None)
        if not shown:
            return None
        for one in shown:
            one.filename = name
        artifact = Artifact(artifact_id=name, name=name, parts=shown)
        artifact.metadata.update({"version": version})
        return artifact


def _texts_of(event: Event) -> Iterator[Artifact]:
    if event.author != "user" and (parts := public_parts(event)):
        yield Artifact(artifact_id=event.id, name=event.author, parts=parts)


@dataclass
class UpdateStream:
    """Converts the feed of an invocation to updates of its task."""

    view: TaskView
    state: TaskState = TaskState.TASK_STATE_UNSPECIFIED
    """The last state that was sent."""
    _writing: tuple[str, int] | None = None
    """The response whose chunks were sent last, and its attempt."""

    async def of(self, item: Item) -> AsyncIterator[Update]:
        """Yield the task's updates for an item of the feed."""
        match item:
            case PartialItem():
                if parts := public_parts(item.event):
                    answer = (item.event_id, item.attempt)
                    artifact = Artifact(
                        artifact_id=item.event_id, name=item.event.author, parts=parts
                    )
                    yield self._artifact(artifact, append=answer == self._writing)
                    self._writing = answer
            case EventItem():
                async for artifact in self.view.artifacts_of(item.event):
                    yield self._artifact(artifact, append=False, last_chunk=True)
            case StatusItem():
                error = (item.error or {}).get("message")
                status = await self.view.status(item.status, error)
                if status.state != self.state:
                    self.state = status.state
                    task_id, context_id = self.view.task_id, self.view.key.session_id
                    yield TaskStatusUpdateEvent(
                        task_id=task_id, context_id=context_id, status=status
                    )

    def _artifact(
        self, artifact: Artifact, *, append: bool, last_chunk: bool = False
    ) -> TaskArtifactUpdateEvent:
        return TaskArtifactUpdateEvent(
            task_id=self.view.task_id,
            context_id=self.view.key.session_id,
            artifact=artifact,
            append=append,
            last_chunk=last_chunk,
        )
