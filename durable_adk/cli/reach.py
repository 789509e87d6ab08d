"""The way to an invocation that the store knows, without its agents' code."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.apps.app import App
from durable_adk.cli.places import Places, load_app
from durable_adk.cli.waiting import Where, app_names
from durable_adk.client.invocation_client import InvocationClient
from durable_adk.client.invocations import Invocations
from durable_adk.client.temporal_backend import TemporalBackend
from durable_adk.embedded.stores import Stores
from durable_adk.errors import InvalidRequestError, NoWorkerError, TemporalUnavailableError
from durable_adk.sessions.base_session_service import InvocationRecord
from durable_adk.sessions.lease_owner import TemporalHolder
from durable_adk.sessions.sql_session_service import DatabaseSessionService
from durable_adk.worker import worker

_PATIENCE = 3.0  # seconds for a worker that has lost its server for a moment
_POLL = 0.2


def is_code(target: str, apps: Collection[str]) -> bool:
    """Whether a target is not only the name of one of the apps, but also what defines an app."""
    return target not in apps or Path(target).exists()


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What the user says of where an invocation is, and of who runs it."""

    where: Where
    app: App | None = None
    """To be served here meanwhile."""

    @classmethod
    async def find(
        cls,
        sessions: DatabaseSessionService,
        target: str | None,
        *,
        user: str | None,
        session: str | None,
    ) -> "Scope":
        """The scope of `target`, the name of an app or what defines one.

        Raises:
            AgentDefinitionError: It is neither.
        """
        known = await app_names(sessions)
        app = load_app(target) if target is not None and is_code(target, known) else None
        name = app.name if app else target
        return cls(where=Where(app=name, user=user, session=session), app=app)


@asynccontextmanager
async def reach(
    places: Places,
    stores: Stores,
    record: InvocationRecord,
    *,
    app: App | None,
    needs_worker: bool = True,
) -> AsyncGenerator[InvocationClient]:
    """Deal with an invocation as its clients do.

    Args:
        places: Where its Temporal is.
        stores: Those that its workers use.
        record: The invocation.
        app: Served here meanwhile, on an embedded server.
        needs_worker: Refuse if nobody runs it.

    Raises:
        NoWorkerError: Nobody runs it.
        InvalidRequestError: This Temporal does not run it.
        TemporalUnavailableError: Temporal does not answer.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(places.temporal())
        queue = await _task_queue(client, record)
        invocations = Invocations(client, queue)
        if app is not None and places.address is None:
            options = places.worker_options(queue)
            serving = worker(client, apps=[app], options=options, **stores.arguments())
            await stack.enter_async_context(serving)
        elif needs_worker:
            await await_worker(invocations, record.invocation_id)
        runs = TemporalBackend(invocations, stores.session_service)
        stack.push_async_callback(runs.close)
        yield InvocationClient(
            sessions=stores.session_service, backend=runs, credentials=stores.credential_service
        )


async def _task_queue(client: Client, record: InvocationRecord) -> str:
    """Where the invocation's workers listen.

    Asked first of all: at another Temporal it would look as if its workflow were gone, and the
    invocation would be given up.
    """
    holder = TemporalHolder.parse(record.holder)
    if holder is None:
        raise InvalidRequestError(
            f"Invocation {record.invocation_id!r} runs inside of a process and not on Temporal; "
            "answer it there."
        )
    handle = client.get_workflow_handle(holder.workflow_id)
    try:
        description = await handle.describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
        description = None
    if description is None or description.raw_info.first_run_id != holder.first_run_id:
        raise InvalidRequestError(
            f"The Temporal at {client.service_client.config.target_host} (namespace "
            f"{client.namespace}) does not run invocation {record.invocation_id!r}; name the one "
            "that does with --address, or its --data-dir."
        )
    return description.task_queue


async def await_worker(
    invocations: Invocations, invocation_id: str, *, patience: float = _PATIENCE
) -> None:
    """Wait until a worker listens, so that nothing is sent that nobody would take.

    Args:
        invocations: Of the task queue.
        invocation_id: For the message.
        patience: Seconds.

    Raises:
        NoWorkerError: None does.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    while True:
        try:
            return await invocations.check_worker(invocation_id)
        except NoWorkerError:
            if loop.time() > until:
                raise NoWorkerError(
                    f"No worker listens on task queue {invocations.task_queue!r}, so nothing was "
                    "sent. Name the agent with --target to run it here meanwhile, or start "
                    "`durable-adk dev` or `durable-adk worker`, then try again."
                ) from None
        await asyncio.sleep(_POLL)
