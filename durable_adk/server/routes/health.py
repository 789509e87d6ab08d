"""Routes for health checks."""

import asyncio

from fastapi import APIRouter, Response

from durable_adk.server.services import CurrentServices, ServerServices

router = APIRouter(tags=["health"])
_TIMEOUT = 2.0
"""Seconds for store and Temporal to respond."""
_SHARED = 1.0
"""Seconds for which requests share one check, because anyone may send them."""


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health() -> dict[str, str]:
    """Return that the process responds."""
    return {"status": "ok"}


@router.head("/ready", include_in_schema=False)
@router.get("/ready", responses={503: {"description": "They cannot; `reason` says why."}})
async def ready(services: CurrentServices, response: Response) -> dict[str, str]:
    """Return whether the server accepts messages: the store and Temporal respond."""
    reason = await _obstacle(services)
    if reason is None:
        return {"status": "ok"}
    response.status_code = 503
    return {"status": "unavailable", "reason": reason}


async def _obstacle(services: ServerServices) -> str | None:
    if services.draining.is_set():
        return "The server stops."
    if not services.loaded.is_set():
        return "The agents are being loaded."
    now, looked = asyncio.get_running_loop().time(), services.looked
    if looked is None or (looked[1].done() and now >= looked[0] + _SHARED):
        looked = services.looked = now, asyncio.ensure_future(_look(services))
    return await asyncio.shield(looked[1])


async def _look(services: ServerServices) -> str | None:
    """Return what does not respond, or None."""
    for name, check in (
        ("The session store", services.session_service.list_apps),
        ("Temporal", services.client.service_client.check_health),
    ):
        try:
            async with asyncio.timeout(_TIMEOUT):
                await check()
        except Exception:  # noqa: BLE001 - not ready, whatever the error
            return f"{name} does not answer."
    return None
