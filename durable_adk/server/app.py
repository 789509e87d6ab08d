"""The server as an ASGI application, which other applications may mount."""

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from typing import Any

from fastapi import Depends, FastAPI
from temporalio.client import Client

from durable_adk import __version__
from durable_adk.apps.app import App
from durable_adk.apps.app_declaration import AppDescription, described
from durable_adk.artifacts import BaseArtifactService, InMemoryArtifactService
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.extras import installed
from durable_adk.google_objects import require_own
from durable_adk.http.serving import serve as serve_http
from durable_adk.memory import BaseMemoryService
from durable_adk.partials import PartialChannel
from durable_adk.server.access import PUBLIC, is_open, protect
from durable_adk.server.access_log import AccessLog
from durable_adk.server.adk import agents, apps as adk_apps, artifacts, runs, sessions, traces
from durable_adk.server.adk.page import add_adk_page
from durable_adk.server.caller import EncodedSlashes, caller_of
from durable_adk.server.page import add_page
from durable_adk.server.routes import (
    caller,
    changes,
    graph,
    health,
    invocations,
    listing,
    model_requests,
    pending,
    session_events,
)
from durable_adk.server.routes.errors import DESCRIBED, add_handlers, describe_errors
from durable_adk.server.services import ServerServices
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions.session_log import SessionLog
from durable_adk.settings import DEFAULT_TASK_QUEUE, read_settings

_ROUTERS = (
    listing.router,  # /invocations/counts must precede /invocations/{id}
    invocations.router,
    runs.router,
    session_events.router,
    health.router,
    adk_apps.router,
    sessions.router,
    artifacts.router,
    agents.router,
    graph.router,
    traces.router,
    model_requests.router,
    pending.router,
    changes.router,
    caller.router,
)
"""The most requested ones first: FastAPI tries all routes in order."""
_OPTIONAL = {
    "a2a": "durable_adk.server.protocols.a2a.http",
    "agui": "durable_adk.server.protocols.agui.http",
}
"""Modules of optional routers, by the extras that they need."""
_REFERENCE = re.compile(r" \([A-Z]+-?\d+\)")
"""Matches a reference to the specification, which the API's description omits."""
_DESCRIPTION = """\
Durable agents over HTTP: the routes of ADK's server, and those of invocations, of pending calls, of
streams that continue at any server, and of AG-UI and A2A if they are installed.

A run continues even if the request that started it is closed. To continue a broken stream, send the
`id` of its last item as `Last-Event-ID`. An error is `{"error": {"type", "message", "field"}}`,
beside ADK's `detail`; a request may be sent again after 429 or 503, unless the error names an
`invocationId`, which then continues.
"""
_CARD = re.compile(r"/a2a/[^/]+/\.well-known/agent-card\.json")


def app(
    *,
    session_service: SessionLog,
    client: Client,
    task_queue: str | Callable[[str], str] = DEFAULT_TASK_QUEUE,
    artifact_service: BaseArtifactService | None = None,
    memory_service: BaseMemoryService | None = None,
    credential_service: BaseCredentialService | None = None,
    partials: PartialChannel | None = None,
    apps: Sequence[App | str] = (),
    settings: ServerSettings | None = None,
) -> FastAPI:
    """Return the server as a FastAPI application, to be served or mounted.

    It needs the stores, the Temporal and the channel of its workers, but none of the agents' code.
    The services stay open when it ends.

    Args:
        session_service: The session store.
        client: A Temporal client.
        task_queue: The task queue of the workers, or a function from an app's name to it.
        artifact_service: The artifacts; None: in memory.
        memory_service: The memory.
        credential_service: Stores the credentials that users give.
        partials: The channel of chunks; None: the default of the session store.
        apps: The apps, or their names; none: those of the settings, else those that workers serve
            or that have sessions.
        settings: Other options; None: those of the environment.

    Raises:
        InvalidRequestError: The address is not local and there is no authentication, or a setting
            is invalid.
    """
    require_own(session_service, artifact_service, credential_service)
    settings = settings or read_settings(ServerSettings)
    return _application(
        ServerServices(
            session_service=session_service,
            client=client,
            task_queue=task_queue if callable(task_queue) else lambda _: task_queue,
            artifact_service=artifact_service or InMemoryArtifactService(),
            memory_service=memory_service,
            credential_service=credential_service,
            partials=partials,
            apps=dict(map(_known, apps or settings.apps)),
            settings=settings,
        )
    )


class _Application(FastAPI):
    """Describes authentication and errors in OpenAPI; its state holds the services."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI description."""
        if self.openapi_schema:
            return self.openapi_schema
        found = super().openapi()
        services: ServerServices = self.state.services
        schemes = services.settings.security_schemes()
        if schemes:
            found["components"]["securitySchemes"] = schemes
        for path, operations in found["paths"].items():
            guarded = bool(schemes) and not (is_open(path) or _is_public(services, path))
            for operation in operations.values():
                if guarded:
                    operation["security"] = [{name: []} for name in schemes]
                describe_errors(operation)
                _summarize(operation)
        return found


def _summarize(operation: dict[str, Any]) -> None:
    """Use the first sentence of a route's docstring as its summary."""
    text = _REFERENCE.sub("", operation.pop("description", ""))
    first, _, rest = text.partition("\n\n")
    if first:
        operation["summary"] = " ".join(first.split())
    if rest:
        operation["description"] = rest


def _application(services: ServerServices) -> FastAPI:
    made = _Application(
        title="durable_adk",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # FastAPI's pages need scripts from another server
        redoc_url=None,
        lifespan=lifespan,
        dependencies=[Depends(caller_of)],
        responses=DESCRIBED,
    )
    made.state.services = services
    for router in _ROUTERS:
        made.include_router(router)
    for extra, module in _OPTIONAL.items():
        if installed(extra):
            made.include_router(import_module(module).router)
    add_page(made)
    add_adk_page(made, services.settings.adk_ui)
    add_handlers(made)
    protect(
        made,
        services.settings,
        host=services.settings.host,
        is_free=lambda path: path in PUBLIC or _is_of_page(path),
        is_public=partial(_is_public, services),
    )
    made.add_middleware(AccessLog)
    made.add_middleware(EncodedSlashes)
    return made


def _known(app: App | str) -> tuple[str, AppDescription | None]:
    return (app, None) if isinstance(app, str) else (app.name, described(app))


def _is_of_page(path: str) -> bool:
    return path in ("/", "/dev-ui") or path.startswith(("/page/", "/dev-ui/"))


def _is_public(services: ServerServices, path: str) -> bool:
    # Agent cards describe authentication. Without configured apps, they would reveal which apps
    # exist.
    return _is_of_page(path) or (bool(services.apps) and _CARD.fullmatch(path) is not None)


@asynccontextmanager
async def lifespan(made: FastAPI) -> AsyncGenerator[None]:
    """At the end of the block, end streams and stop waiting for invocations, which continue.

    The lifespan of a mounted application is not run: enter this one in the host's lifespan.

    Args:
        made: The application that `app` returned.
    """
    try:
        yield
    finally:
        services: ServerServices = made.state.services
        services.draining.set()
        await services.close()


async def serve(application: FastAPI, *, listening: Callable[[str], None]) -> None:
    """Serve until cancelled; then end streams, and give other responses some time to complete.

    Args:
        application: The result of `app`.
        listening: Called with the address, such as ``http://127.0.0.1:8000``, once requests are
            accepted.

    Raises:
        InvalidRequestError: The address cannot be used.
    """
    services: ServerServices = application.state.services
    settings = services.settings
    await serve_http(
        application,
        host=settings.host,
        port=settings.port,
        listening=listening,
        grace=settings.drain_seconds,
        ends=services.draining.set,
    )
