"""The process that serves the application over HTTP."""

import asyncio
from collections.abc import Callable

from fastapi import FastAPI
from uvicorn import Config

from durable_adk.ops.codec_server.serving import BACKLOG, Protocol, QuietServer, listener
from durable_adk.server.services import ServerServices


async def serve(application: FastAPI, *, listening: Callable[[str], None]) -> None:
    """Serve until cancelled; then streams end, and other responses have some time to complete.

    Args:
        application: What `app.app` returns.
        listening: Called with the address, such as ``http://127.0.0.1:8000``, once requests are
            accepted.

    Raises:
        InvalidRequestError: The address cannot be used.
    """
    services: ServerServices = application.state.services
    settings = services.settings
    with listener(settings.host, settings.port) as accepting:
        config = Config(
            application,
            # Not on httptools: it takes heads of any size, and loses the body of a request that
            # offers HTTP/2 (h2c), as those of Java's HttpClient do.
            http=Protocol,
            backlog=BACKLOG,
            log_config=None,
            access_log=False,
            ws="none",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=round(settings.drain_seconds) or 1,
        )
        server = QuietServer(config)
        serving = asyncio.ensure_future(server.serve(sockets=[accepting]))
        listening(_url(settings.host, accepting.getsockname()[1]))
        try:
            await asyncio.shield(serving)
        finally:
            services.draining.set()
            server.should_exit = True
            await serving


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
