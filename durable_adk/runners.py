"""The entry point: a message in, committed events out."""

import asyncio
import queue
import threading
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, suppress
from typing import Any, Protocol, Self

from google.genai import types
from temporalio.client import Client

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.apps.app import App
from durable_adk.client.feed import follow
from durable_adk.client.invocations import Invocations
from durable_adk.client.runs import LocalRuns, TemporalRuns
from durable_adk.errors import (
    EventConflictError,
    InvalidRequestError,
    InvocationNotFoundError,
    SessionNotFoundError,
)
from durable_adk.events.event import Event
from durable_adk.messages import InvocationRequest, WhenBusy
from durable_adk.run_config import RunConfig
from durable_adk.sessions.base_session_service import BaseSessionService, InvocationRecord
from durable_adk.sessions.in_memory_session_service import InMemorySessionService
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import DEFAULT_TASK_QUEUE, Limits
from durable_adk.values import check_id


class Runs(Protocol):
    """How a runner runs invocations."""

    async def start(self, request: InvocationRequest) -> "asyncio.Task[Any]":
        """Start a checked request, or attach to it; the task ends with the invocation."""
        ...

    async def attach(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> "asyncio.Task[Any] | None":
        """What runs an invocation that was started before; None if it is not known here."""
        ...

    def release(self, run: "asyncio.Task[Any]") -> None:
        """The caller follows no longer."""
        ...

    async def close(self) -> None:
        """End what runs in this process."""
        ...


class Runner:
    """Runs an app's agents for its users' messages (semantics 1).

    With a Temporal `client` each invocation is a workflow that some worker runs; this process may
    die, the invocation goes on. Without one the same loop runs in this process (design D14).
    """

    def __init__(
        self,
        *,
        session_service: BaseSessionService,
        app: App | None = None,
        app_name: str | None = None,
        agent: BaseAgent | None = None,
        client: Client | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        auto_create_session: bool = False,
        limits: Limits | None = None,
    ) -> None:
        """Give either `app`, or `app_name` and `agent` (RUN-10, RUN-11).

        Args:
            session_service: The store; with a `client` the same one its workers use.
            app: The app.
            app_name: Its name, if `agent` is given.
            agent: Its root agent.
            client: Connected to Temporal; None: run in process.
            task_queue: Where the app's workers listen.
            auto_create_session: Create a missing session instead of refusing.
            limits: For runs in process; a worker has its own.

        Raises:
            InvalidRequestError: Not exactly one of `app` and `agent`, or no name for the agent.
        """
        self.app = app = _one_app(app, app_name, agent)
        self.session_service = session_service
        self.auto_create_session = auto_create_session
        self._runs: Runs = (
            LocalRuns(app, session_service, limits or Limits())
            if client is None
            else TemporalRuns(Invocations(client, task_queue), session_service)
        )

    @property
    def app_name(self) -> str:
        """Name of the app."""
        return self.app.name

    @property
    def agent(self) -> BaseAgent:
        """The root agent."""
        return self.app.root_agent

    async def run_async(
        self,
        *,
        user_id: str,
        session_id: str,
        new_message: types.Content | str | None = None,
        invocation_id: str | None = None,
        state_delta: dict[str, Any] | None = None,
        run_config: RunConfig | None = None,
        yield_user_message: bool = False,
        when_busy: WhenBusy | str = WhenBusy.ENQUEUE,
    ) -> AsyncGenerator[Event, None]:
        """Run one invocation; yield its events, each once it is committed (RUN-3).

        Leaving the iteration cancels nothing; calling again with the `invocation_id` and the same
        message, or none, yields the same events from the first (DUR-13).

        Args:
            user_id: The user.
            session_id: The user's session.
            new_message: The user's message; None: attach to `invocation_id`.
            invocation_id: Names the invocation; None: a new one.
            state_delta: State changes that ride on the user's event.
            run_config: Options.
            yield_user_message: Yield the user's own event too (RUN-19).
            when_busy: What to do while another invocation is active in the session.

        Raises:
            CallerError: The call cannot be carried out; nothing was stored.
            RunError: The run failed; its events, the error event last, were yielded before.
            NoWorkerError: The message is kept, but nobody is there to run it.
        """
        if new_message is None:
            events = self._attach(user_id, session_id, invocation_id)
        else:
            events = self._start(
                app=self.app_name,
                user=user_id,
                session=check_id(session_id, "session_id"),
                message=new_message,
                invocation_id=invocation_id or f"e-{uuid.uuid4()}",
                state_delta=state_delta or {},
                run_config=run_config or RunConfig(),
                create_session=self.auto_create_session,
                when_busy=when_busy,
            )
        async with aclosing(events):
            async for event in events:
                if yield_user_message or event.author != "user":
                    yield event

    async def _start(self, **fields: Any) -> AsyncGenerator[Event, None]:
        request = InvocationRequest.parse(fields)
        key = SessionKey(request.app, request.user, request.session or "")
        name = request.invocation_id or ""
        cursor = await self._revision(key)
        record = await self.session_service.get_invocation(key, name)
        if record is not None:  # a repeated call: the same events again, from the first
            cursor = await self._start_of(key, record, request)
        run = await self._runs.start(request)
        async with aclosing(self._follow(key, name, cursor, run)) as events:
            async for event in events:
                yield event

    async def _start_of(
        self, key: SessionKey, record: InvocationRecord, request: InvocationRequest
    ) -> int:
        """The cursor before an invocation's user event, if that has the request's message."""
        start = record.start_seq - 1
        stored = await self.session_service.read_events(key, after=start, upto=record.start_seq)
        if not stored or stored[0].event.content != request.message:
            raise EventConflictError(
                f"Invocation {record.invocation_id!r} was started with another message; "
                "use a new invocation_id, or none."
            )
        return start

    async def _attach(
        self, user_id: str, session_id: str, invocation_id: str | None
    ) -> AsyncGenerator[Event, None]:
        if not invocation_id:
            raise InvalidRequestError("Give new_message, or the invocation_id to attach to.")
        key = SessionKey(self.app_name, user_id, session_id)
        record = await self.session_service.get_invocation(key, invocation_id)
        run = await self._runs.attach(key, invocation_id, record)
        if record is None and run is None:
            raise InvocationNotFoundError(
                f"Session {session_id!r} has no invocation {invocation_id!r}."
            )
        cursor = record.start_seq - 1 if record else 0
        async with aclosing(self._follow(key, invocation_id, cursor, run)) as events:
            async for event in events:
                yield event

    async def _follow(
        self,
        key: SessionKey,
        invocation_id: str,
        cursor: int,
        run: "asyncio.Task[Any] | None",
    ) -> AsyncGenerator[Event, None]:
        feed = follow(self.session_service, key, invocation_id=invocation_id, after=cursor, run=run)
        try:
            async with aclosing(feed):
                async for stored in feed:
                    yield stored.event
        finally:
            if run is not None:
                self._runs.release(run)

    async def _revision(self, key: SessionKey) -> int:
        try:
            revision, _ = await self.session_service.read_state(key)
        except SessionNotFoundError:
            if self.auto_create_session:
                return 0
            raise SessionNotFoundError(
                f"Session not found: {key.session_id!r} of user {key.user_id!r} in app "
                f"{key.app_name!r}. Create it with session_service.create_session under the same "
                "app name and user, or pass auto_create_session=True to Runner."
            ) from None
        return revision

    def run(
        self, *, user_id: str, session_id: str, new_message: types.Content | str, **options: Any
    ) -> Generator[Event, None, None]:
        """`run_async` for scripts and tests without an event loop (RUN-28, RUN-29).

        It runs in a thread with its own event loop, so it works inside a running one too
        (TRAP-46). Takes and raises what `run_async` does; closing the generator early stops
        following, and on Temporal nothing else.
        """
        items: queue.Queue[Event | BaseException | None] = queue.Queue(maxsize=1)
        stopped = threading.Event()

        async def pump() -> None:
            events = self.run_async(
                user_id=user_id, session_id=session_id, new_message=new_message, **options
            )
            async with aclosing(events):
                async for event in events:
                    await asyncio.to_thread(items.put, event)
                    if stopped.is_set():
                        return

        def work() -> None:
            try:
                asyncio.run(pump())
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                items.put(error)
            else:
                items.put(None)

        thread = threading.Thread(target=work, name="durable-adk-run", daemon=True)
        thread.start()
        try:
            while (item := items.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()
            while thread.is_alive():
                with suppress(queue.Empty):
                    items.get(timeout=0.05)  # the thread may be about to put one more
            thread.join()

    def run_live(self, **_: Any) -> AsyncGenerator[Event, None]:
        """Not supported: bidirectional streaming holds a connection, a durable run holds none."""
        raise InvalidRequestError("run_live is not supported by durable_adk; use run_async.")

    async def close(self) -> None:
        """End invocations that run in this process; those on Temporal go on."""
        await self._runs.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _one_app(app: App | None, app_name: str | None, agent: BaseAgent | None) -> App:
    if app is not None and agent is None:
        return app
    if app is None and agent is not None and app_name:
        return App(name=app_name, root_agent=agent)
    raise InvalidRequestError("Give Runner either app, or agent with app_name.")


class InMemoryRunner(Runner):
    """A runner with everything in this process, for tests and scripts (RUN-12)."""

    def __init__(
        self,
        agent: BaseAgent | None = None,
        *,
        app_name: str = "InMemoryRunner",
        app: App | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(
            session_service=InMemorySessionService(),
            app=app,
            app_name=app_name if agent else None,
            agent=agent,
            limits=limits,
        )
