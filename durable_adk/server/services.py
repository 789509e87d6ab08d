"""The services that the HTTP server's routes share: stores, Temporal, apps and settings."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from fastapi import Depends, Request
from temporalio.client import Client

from durable_adk.apps.app_declaration import AppDescription
from durable_adk.artifacts import BaseArtifactService, InMemoryArtifactService
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.client.invocation_client import InvocationClient
from durable_adk.client.invocations import Invocations
from durable_adk.client.temporal_backend import TemporalBackend
from durable_adk.errors import PayloadTooLargeError, UnknownAppError
from durable_adk.memory import BaseMemoryService
from durable_adk.partials import PartialChannel, partials_of
from durable_adk.server.caller import Caller
from durable_adk.server.feed import SessionFeed
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions.records import ServedApp
from durable_adk.sessions.session_log import SessionLog

_LOADING = 10.0
"""Seconds to wait for the apps' names."""
_DRAINED = 0.8
"""Share of `drain_seconds` for which responses continue normally while the server stops."""
_REBUILDS = 4
"""Maximum concurrent rebuilds of model requests: each reads a whole session in a worker."""


@dataclass(kw_only=True)
class ServerServices:
    """The services of a server: the stores, Temporal and channel of its workers."""

    session_service: SessionLog
    client: Client
    task_queue: Callable[[str], str]
    """Returns the task queue of an app's workers."""
    artifact_service: BaseArtifactService = field(default_factory=InMemoryArtifactService)
    memory_service: BaseMemoryService | None = None
    credential_service: BaseCredentialService | None = None
    partials: PartialChannel | None = None
    """The channel of chunks; None: the default of the session store."""
    apps: dict[str, AppDescription | None] = field(default_factory=dict[str, AppDescription | None])
    """The apps by name, with their descriptions if known; empty: those of workers and sessions."""
    settings: ServerSettings = field(default_factory=ServerSettings)
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server stops: streams end, and readers continue at another instance."""

    rebuilds: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, _REBUILDS))
    """Limits concurrent rebuilds of model requests; further requests get 429."""
    loaded: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once `apps` is complete; `durable-adk web` serves before its worker has loaded them."""
    looked: tuple[float, asyncio.Future[str | None]] | None = None
    """The time and result of the last check of store and Temporal."""

    def __post_init__(self) -> None:
        """Choose the channel of chunks."""
        self.partials = self.partials or partials_of(self.session_service)
        self._backends = dict[tuple[str, bool], TemporalBackend]()
        self._used = frozenset[str]()  # apps that have sessions, as far as known
        self.loaded.set()

    @property
    def feed(self) -> SessionFeed:
        """The feeds of sessions and invocations."""
        return SessionFeed(sessions=self.session_service, partials=self.partials)

    def invocations(
        self,
        app_name: str,
        *,
        waits_for_worker: bool = False,
    ) -> InvocationClient:
        """Return the client of an app's invocations.

        Args:
            app_name: The app.
            waits_for_worker: Whether its feeds stay open while there is no worker.
        """
        kind = self.task_queue(app_name), waits_for_worker
        if kind not in self._backends:
            invocations = Invocations(self.client, kind[0])
            self._backends[kind] = TemporalBackend(
                invocations, self.session_service, waits_for_worker=waits_for_worker
            )
        return InvocationClient(
            sessions=self.session_service,
            backend=self._backends[kind],
            credentials=self.credential_service,
            partials=self.partials,
        )

    async def stopped(self) -> None:
        """Wait until responses must be sent, because the stopping server will soon cancel them."""
        await self.draining.wait()
        await asyncio.sleep(self.settings.drain_seconds * _DRAINED)

    async def until_loaded(self) -> None:
        """Wait a short time for the apps, if they are being loaded."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOADING):
                await self.loaded.wait()

    async def app_names(self, user_id: str | None = None) -> list[str]:
        """Return the apps' names, sorted; if none are configured, those with a user's sessions.

        Args:
            user_id: The user; None: any.
        """
        return sorted(self.apps or await self.session_service.list_apps(user_id))

    async def served_apps(self) -> list[ServedApp]:
        """Return the apps that workers announced which receive this server's messages."""
        return [
            one
            for one in await self.session_service.served_apps()
            if one.namespace == self.client.namespace
            and one.task_queue == self.task_queue(one.name)
        ]

    async def check_app(self, app_name: str, caller: Caller) -> str:
        """Return the name of an app that the caller may use.

        If no apps are configured, only operators may use one that has no sessions and that no
        worker serves: creating a session in it adds its name to the server's apps.

        Raises:
            UnknownAppError: It is none of the server's apps.
        """
        if self.apps:
            if app_name not in self.apps:
                # Anyone may request an agent card.
                there = "" if caller == Caller() else f"; there are {', '.join(sorted(self.apps))}"
                raise UnknownAppError(f"No app {app_name!r} is served here{there}.")
        elif not caller.is_operator and app_name not in self._used:
            self._used = frozenset(await self.session_service.list_apps())
            served = () if app_name in self._used else await self.served_apps()
            if app_name not in self._used.union(one.name for one in served):
                raise UnknownAppError(
                    f"No worker serves an app {app_name!r}, and it has no sessions here, so only "
                    "an operator may use it; the operator can name it in DURABLE_ADK_SERVER_APPS."
                )
        return app_name

    async def check_room(self, app_name: str, caller: Caller, *, artifacts: bool = False) -> None:
        """Check that a user may store more: only data that is already stored counts.

        Raises:
            PayloadTooLargeError: The user has reached the limit.
        """
        if caller.is_operator or caller.user_id is None:
            return
        store, most = self.session_service, self.settings.max_stored_bytes
        stored = (self.artifact_service if artifacts else store).stored_size
        if await stored(app_name=app_name, user_id=caller.user_id) >= most:
            what = "artifacts" if artifacts else "sessions"
            raise PayloadTooLargeError(
                f"Your {what} have as many bytes as they may, {most:,} "
                f"(DURABLE_ADK_SERVER_MAX_STORED_BYTES); delete {what} that you do not need."
            )

    async def close(self) -> None:
        """Stop waiting for invocations, which continue; the services stay open."""
        for backend in self._backends.values():
            await backend.close()


async def _services_of(request: Request) -> ServerServices:
    services: ServerServices = request.app.state.services
    return services


CurrentServices = Annotated[ServerServices, Depends(_services_of)]
"""Parameter type for routes: the server's services."""
