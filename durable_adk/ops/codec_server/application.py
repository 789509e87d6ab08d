"""Temporal's codec protocol over HTTP, for decoding only (D16, S7)."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf import json_format
from temporalio.api.common.v1 import Payload, Payloads

from durable_adk.extras import require
from durable_adk.http.checks import KnownHosts, KnownOrigins, OneLength, SecurityHeaders
from durable_adk.http.serving import serve as serve_http
from durable_adk.log import get_logger
from durable_adk.ops.codec_server._library import (
    ClientDisconnect,
    CORSMiddleware,
    HTTPException,
    JSONResponse,
    Middleware,
    Request,
    Response,
    Route,
    Starlette,
)
from durable_adk.ops.codec_server.access import Access
from durable_adk.ops.codec_server.decoding import Decoder

MAX_BODY = 16 * 1024 * 1024
"""Maximum bytes of a request. A Temporal message has up to 4 MB, and a third more in base64."""
MAX_PAYLOADS = 5_000
MAX_DEPTH = 8
"""Depth of the JSON; the protocol needs 5."""
BODY_TIMEOUT = 30.0
"""Seconds within which a request's body must arrive."""
CONCURRENCY = 64
"""Concurrent connections and requests; further ones get status 503."""

logger = get_logger(__name__)


def codec_application(decoder: Decoder, access: Access) -> "Starlette":
    """Return the codec server as an ASGI application.

    ``POST .../decode`` accepts and returns ``{"payloads": [...]}``, in protobuf's JSON format. With
    ``?preserveStorageRefs=true`` references stay unchanged; ``.../download`` follows them.
    ``.../encode`` is refused.

    Raises:
        InvalidRequestError: The extra ``codec`` is not installed.
    """
    require("codec")
    hosts = [name.strip("[]").lower() for name in access.hosts]
    checks = [
        Middleware(SecurityHeaders),
        Middleware(OneLength),
        Middleware(KnownHosts, hosts=frozenset(hosts)),
    ]
    pages = Middleware(  # outside of the token check: a browser's preflight request has no token
        CORSMiddleware,
        allow_origins=list(access.origins),
        allow_methods=["POST"],
        allow_headers=["Authorization", "Content-Type", "X-Namespace"],
        allow_private_network=True,  # listed pages of other hosts may send requests to this machine
    )
    endpoint = _Endpoint(decoder, access)
    routes = [Route("/{path:path}", endpoint.respond, methods=["POST"])]
    origins = Middleware(KnownOrigins, origins=frozenset(access.origins))
    return Starlette(routes=routes, middleware=[*checks, pages, origins])


async def serve(
    served: "Starlette", *, host: str, port: int, listening: Callable[[str], None]
) -> None:
    """Serve `codec_application` until cancelled; see `durable_adk.http.serving.serve`."""
    await serve_http(served, host=host, port=port, listening=listening, concurrency=CONCURRENCY)


@dataclass(frozen=True)
class _Endpoint:
    decoder: Decoder
    access: Access

    async def respond(self, request: "Request") -> "Response":
        """Respond to a request; logs only counts, no contents."""
        *before, verb = request.path_params["path"].split("/")
        if not self.access.admits([*before, *_bearer(request)]):
            logger.warning("codec.refused", reason="token")
            raise HTTPException(401, "A token is required.", {"WWW-Authenticate": "Bearer"})
        if verb == "encode":
            raise HTTPException(
                403,
                "This codec server decodes only. Start and signal with durable-adk, or with a "
                "client that has the keys.",
            )
        if verb not in ("decode", "download"):
            raise HTTPException(404, "The endpoints are /decode and /download.")
        payloads = _parsed(await _body(request))
        keeps = request.query_params.get("preserveStorageRefs") == "true" and verb == "decode"
        decoded = await self.decoder.decode(
            payloads, namespace=request.headers.get("X-Namespace", ""), fetch=not keeps
        )
        count = len(decoded.payloads)
        logger.info("codec.decoded", payloads=count, unreadable=decoded.unreadable)
        content = json_format.MessageToDict(Payloads(payloads=decoded.payloads))
        return JSONResponse({"payloads": content.get("payloads", [])})


def _bearer(request: "Request") -> list[str]:
    """Return the token in the ``Authorization`` header, which Temporal's command line sends.

    Temporal's UI can only send its own user's token there, so for the UI the token is part of the
    URL's path.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return [token.strip()] if scheme.lower() == "bearer" else []


async def _body(request: "Request") -> bytes:
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for chunk in request.stream():
                found += chunk
                if len(found) > MAX_BODY:
                    raise HTTPException(413, f"A request may have at most {MAX_BODY:,} bytes.")
    except TimeoutError:
        raise HTTPException(408, f"A request must arrive within {BODY_TIMEOUT:g} s.") from None
    except ClientDisconnect:
        raise HTTPException(400, "The request ended early.") from None
    return bytes(found)


def _parsed(body: bytes) -> list[Payload]:
    """Return the payloads of a request; errors describe the problem without quoting the request."""
    try:
        parsed: Any = json.loads(body)
        items: Any = parsed.get("payloads", [])  # protobuf omits empty fields
    except (ValueError, RecursionError, AttributeError):
        raise HTTPException(400, 'The body must be JSON: {"payloads": [...]}.') from None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):  # pyright: ignore[reportUnknownVariableType]: JSON
        raise HTTPException(400, "`payloads` must be a list of objects.")
    listed = cast("list[Any]", items)
    if len(listed) > MAX_PAYLOADS:
        raise HTTPException(413, f"A request may have at most {MAX_PAYLOADS:,} payloads.")
    message = Payloads()
    try:
        json_format.ParseDict(
            {"payloads": listed}, message, ignore_unknown_fields=True, max_recursion_depth=MAX_DEPTH
        )
    except (json_format.Error, ValueError, TypeError, AttributeError):
        raise HTTPException(
            400, "A payload must have `metadata` and `data`, with values in base64."
        ) from None
    return list(message.payloads)
