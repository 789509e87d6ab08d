"""The process that serves the application over HTTP."""

from collections.abc import Callable

from fastapi import FastAPI

from durable_adk.http.serving import serve as serve_http
from durable_adk.server.services import ServerServices


async def serve(application: FastAPI, *, listening: Callable[[str], None]) -> None:
    """Serve until cancelled; then end streams, and give other responses some time to complete.

    Args:
        application: The result of `app.app`.
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
