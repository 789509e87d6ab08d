"""Running a case of the matrix, and what was seen of it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from google.genai import types

from durable_adk.activities.invocation.take_over import NOTIFIED
from durable_adk.artifacts import FileArtifactService
from durable_adk.errors import DurableAdkError
from durable_adk.events import Event
from durable_adk.runners import Runner
from durable_adk.sessions import DatabaseSessionService, Status
from durable_adk.sessions.records import InvocationRecord
from tests.support.apps import all_apps
from tests.support.matrix_apps import SAVED
from tests.support.matrix_cases import RIVAL, Rival, Scene, failpoints
from tests.support.processes import INVOCATION, SESSION, Workplace
from tests.support.waiting import PATIENCE, until
from tests.support.worker_main import FREEZING, Order
from tests.support.worker_pool import WorkerPool

IN_PLACE = "wait.in_place"
"""The failpoint that who has a ticket comes to when it waits in place."""
COUNTED = ";".join(f"{name}:kill@0" for name in failpoints())
"""Every hit is written down, and none acts."""


@dataclass(kw_only=True)
class Place(Workplace):
    """A workplace on either store."""

    store: str
    refusal: str = ""
    """What the sender of a second message was told, if it was not heard."""

    @cached_property
    def sessions(self) -> DatabaseSessionService:
        """The client's own connections to the store."""
        return DatabaseSessionService(self.store)

    def runner(self, app: str) -> Runner:
        """A client of one app."""
        return Runner(
            app=all_apps(self.folder)[app],
            session_service=self.sessions,
            client=self.client,
            task_queue=self.queue,
            auto_create_session=True,
        )

    def order(self, scene: Scene, failpoint: str = "", **more: int) -> Order:
        """What a worker of this place is to do."""
        return Order(
            queue=self.queue,
            folder=self.folder,
            store=self.store,
            failpoint=failpoint,
            history=scene.history,
            heartbeat=FREEZING if "stop" in failpoint else self.heartbeat,
            **more,
        )

    async def beside(self, app: str, rival: Rival) -> AsyncGenerator[Event]:
        """The events of an invocation, then of the message that is sent while its tool waits."""
        first = asyncio.create_task(self.all_of(app))
        try:
            await until(lambda: self.traces.runs() or first.done())
            second = asyncio.create_task(self._second(app, rival))
            under = {"invocation_id": INVOCATION, "kind": NOTIFIED}

            async def has_come() -> object:
                if first.done() or second.done():
                    return True
                if rival is Rival.WAIT:
                    return IN_PLACE in self.traces.hits  # it is armed in every run of this scene
                return await self.sessions.read_notes(self.key(app), **under)

            await until(has_come)
            self.traces.open_gate()
            for event in [*await first, *await second]:
                yield event
        finally:
            first.cancel()

    async def cleared(self, app: str) -> AsyncGenerator[Event]:
        """The events of a message to a session that is created anew while a tool of it waits."""
        first = asyncio.create_task(self._refused(app))
        try:
            await until(lambda: self.traces.runs() or first.done())
            names = self.key(app)._asdict()
            await self.sessions.delete_session(**names)
            await self.sessions.create_session(**names)
            self.traces.open_gate()
            for event in await self.all_of(app, message="two", invocation_id=RIVAL):
                yield event
            self.refusal = await first
        finally:
            first.cancel()

    async def _refused(self, app: str) -> str:
        """What the sender of the first message gets."""
        try:
            await self.all_of(app)
        except DurableAdkError as error:
            return type(error).__name__
        return ""

    async def ended(self, app: str) -> AsyncGenerator[Event]:
        """The events of an invocation until it is paused, and of the next, beside which it ends."""
        for event in await self.all_of(app):
            yield event
        second = asyncio.create_task(self.all_of(app, message="two", invocation_id=RIVAL))
        try:
            await until(lambda: self.traces.runs("patient") or second.done())
            await self._cancelled(app, INVOCATION)

            async def end() -> Status | None:
                record = await self._first(app)
                return record.status if record.status.closed else None

            status = await until(end)
            self.traces.open_gate()
            for event in await second:
                yield event
            self.refusal = status
        finally:
            second.cancel()

    async def _first(self, app: str) -> InvocationRecord:
        record = await self.sessions.get_invocation(self.key(app), INVOCATION)
        assert record is not None
        return record

    async def _second(self, app: str, rival: Rival) -> list[Event]:
        """The events of a second message; none, and why, if it is not delivered."""
        when_busy = {Rival.STEER: "steer", Rival.REJECT: "reject"}.get(rival, "enqueue")
        options = {"message": "two", "invocation_id": RIVAL, "when_busy": when_busy}
        others = [self._waiting_and_cancelled(app)] if rival is Rival.CANCEL else []
        try:
            events, *_ = await asyncio.gather(self.all_of(app, **options), *others)
        except DurableAdkError as error:
            self.refusal = type(error).__name__
            return []
        return events

    async def _waiting_and_cancelled(self, app: str) -> None:
        """Cancel the second message once it waits for its turn."""
        await until(lambda: self.sessions.waiting(self.key(app)))
        await self._cancelled(app, RIVAL)

    async def _cancelled(self, app: str, invocation: str) -> None:
        async with self.runner(app) as runner:
            await runner.cancel(user_id=self.queue, session_id=SESSION, invocation_id=invocation)

    def play(self, scene: Scene) -> AsyncGenerator[Event]:
        """The events that clients see of a scene."""
        match scene.rival:
            case None:
                return self.talk(scene.app)
            case Rival.CLEARS:
                return self.cleared(scene.app)
            case Rival.ENDS:
                return self.ended(scene.app)
            case rival:
                return self.beside(scene.app, rival)

    async def versions(self, app: str) -> list[int]:
        """Of the file that a tool saves."""
        files = FileArtifactService(self.folder / "artifacts")
        whose = {"app_name": app, "user_id": self.queue, "session_id": SESSION}
        return await files.list_versions(**whose, filename=SAVED)

    async def talk(self, app: str) -> AsyncGenerator[Event]:
        """The events of an invocation; what waits for an approval is approved."""
        async with self.runner(app) as runner:
            user = {"user_id": self.queue, "session_id": SESSION}
            message: str | types.Content = "go"
            options: dict[str, Any] = {"invocation_id": INVOCATION}
            while True:
                events = runner.run_async(**user, new_message=message, **options)
                async with aclosing(events):
                    async for event in events:
                        yield event
                waiting = await runner.pending(**user)
                if not waiting:
                    return
                message, options = approval(waiting[0].call_id, waiting[0].name), {}


def approval(call_id: str, name: str) -> types.Content:
    """A yes."""
    response = types.FunctionResponse(id=call_id, name=name, response={"confirmed": True})
    return types.Content(role="user", parts=[types.Part(function_response=response)])


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was seen of a run."""

    place: Place
    scene: Scene
    yielded: list[Event]
    stored: list[Event]
    state: dict[str, Any]
    record: InvocationRecord | None
    lease_owner: InvocationRecord | None
    """The invocation that has the session's lease."""
    error: str | None
    """What the client was told."""
    versions: list[int]
    """Of the file that a tool saves."""
    deaths: int


async def run(
    pool: WorkerPool, place: Place, scene: Scene, *, failpoint: str = COUNTED, count: int = 1
) -> Outcome:
    """Have a scene played by workers whose failpoint is armed, and wait until all is over."""
    yielded: list[Event] = []
    failure: DurableAdkError | None = None
    async with pool.serving(place.order(scene, failpoint), count) as workers:
        try:
            async with asyncio.timeout(PATIENCE):
                async for event in place.play(scene):
                    yielded.append(event)  # noqa: PERF401 - what came before an error counts
        except DurableAdkError as raised:
            failure = raised
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(place.workflow(scene.app).result(), return_exceptions=True)
    stored = await place.log(scene.app)
    if failure is not None and not stored:
        raise failure  # its reason, instead of a session that is missing
    outcome = Outcome(
        place=place,
        scene=scene,
        yielded=yielded,
        stored=stored,
        state=await place.state(scene.app),
        record=await place.sessions.get_invocation(place.key(scene.app), scene.ends_well),
        lease_owner=await place.sessions.active_invocation(place.key(scene.app)),
        error=failure and failure.error_type,
        versions=await place.versions(scene.app),
        deaths=sum(worker.dead for worker in workers),
    )
    await place.sessions.close()  # PostgreSQL has a hundred connections, the matrix more cases
    return outcome
