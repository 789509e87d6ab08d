"""Temporal's codec protocol over HTTP, one way only: ciphertext in, text out (design D16, S7)."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf import json_format
from temporalio.api.common.v1 import Payload, Payloads

from durable_adk.extras import require
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
    TrustedHostMiddleware,
)
from durable_adk.ops.codec_server.access import Access
from durable_adk.ops.codec_server.decoding import Decoder

MAX_BODY = 16 * 1024 * 1024
"""Bytes of a request; one message of Temporal's has 4 MB, a third more as base64."""
MAX_PAYLOADS = 5_000
MAX_DEPTH = 8
"""Of the JSON; the protocol's own is 5."""
PATIENCE = 30.0
"""Seconds in which a request must have arrived."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

logger = get_logger(__name__)


def application(decoder: Decoder, access: Access) -> "Starlette":
    """The codec server as an ASGI application.

    ``POST .../decode`` takes and gives ``{"payloads": [...]}``, as protobuf writes it in JSON; with
    ``?preserveStorageRefs=true`` references stay as they are, and ``.../download`` follows them.
    ``.../encode`` is refused.

    Raises:
        InvalidRequestError: The extra ``codec`` is not installed.
    """
    require("codec")
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=list(access.hosts), www_redirect=False)
    pages = Middleware(  # outside of the token's check: a browser asks without one whether it may
        CORSMiddleware,
        allow_origins=list(access.origins),
        allow_methods=["POST"],
        allow_headers=["Authorization", "Content-Type", "X-Namespace"],
        allow_private_network=True,  # a page from elsewhere may ask this machine, if it is listed
    )
    answers = _Answers(decoder, access)
    routes = [Route("/{path:path}", answers.answer, methods=["POST"])]
    return Starlette(routes=routes, middleware=[hosts, pages])


@dataclass(frozen=True)
class _Answers:
    decoder: Decoder
    access: Access

    async def answer(self, request: "Request") -> "Response":
        """What a request gets. Nothing of it is logged but counts."""
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
            raise HTTPException(404, "There are /decode and /download.")
        payloads = _parsed(await _body(request))
        keeps = request.query_params.get("preserveStorageRefs") == "true" and verb == "decode"
        decoded = await self.decoder.decode(
            payloads, namespace=request.headers.get("X-Namespace", ""), fetch=not keeps
        )
        count = len(decoded.payloads)
        logger.info("codec.decoded", payloads=count, unreadable=decoded.unreadable)
        content = json_format.MessageToDict(Payloads(payloads=decoded.payloads))
        return JSONResponse({"payloads": content.get("payloads", [])}, headers=_HEADERS)


def _bearer(request: "Request") -> list[str]:
    """The token that the command line of Temporal sends, or that stands before the verb.

    Its UI can send no token but its own user's, so there it is a part of the endpoint's address.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return [token.strip()] if scheme.lower() == "bearer" else []


async def _body(request: "Request") -> bytes:
    found = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                found += chunk
                if len(found) > MAX_BODY:
                    raise HTTPException(413, f"A request may have {MAX_BODY:,} bytes.")
    except TimeoutError:
        raise HTTPException(408, f"A request must arrive within {PATIENCE:g} s.") from None
    except ClientDisconnect:
        raise HTTPException(400, "The request ended early.") from None
    return bytes(found)


def _parsed(body: bytes) -> list[Payload]:
    """The payloads of a request; what is wrong with it is said without quoting it."""
    try:
        given: Any = json.loads(body)
        items: Any = given.get("payloads", [])  # protobuf leaves out what is empty
    except (ValueError, RecursionError, AttributeError):
        raise HTTPException(400, 'The body must be JSON: {"payloads": [...]}.') from None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):  # pyright: ignore[reportUnknownVariableType]: JSON
        raise HTTPException(400, "`payloads` must be a list of objects.")
    listed = cast("list[Any]", items)
    if len(listed) > MAX_PAYLOADS:
        raise HTTPException(413, f"A request may have {MAX_PAYLOADS:,} payloads.")
    message = Payloads()
    try:
        json_format.ParseDict(
            {"payloads": listed}, message, ignore_unknown_fields=True, max_recursion_depth=MAX_DEPTH
        )
    except (json_format.Error, ValueError, TypeError, AttributeError):
        raise HTTPException(
            400, "A payload must be `metadata` and `data`, with values in base64."
        ) from None
    return list(message.payloads)
