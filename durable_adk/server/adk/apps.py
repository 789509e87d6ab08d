"""ADK's routes for the list of apps, the versions, and the settings of its page."""

import sys
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from durable_adk import __version__
from durable_adk.server.adk.agents import listed
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.services import CurrentServices

router = APIRouter(tags=["information"])


@router.get("/list-apps")
async def list_apps(
    services: CurrentServices,
    caller: CurrentCaller,
    *,
    detailed: Annotated[bool, Query(description="Return more than names.")] = False,
    relative_path: Annotated[str, Query(description="Ignored, as in ADK.")] = "./",
) -> list[str] | dict[str, Any]:
    """Return the names of the apps.

    If none are configured, return those that workers serve, and those in which the caller has
    sessions.
    """
    del relative_path
    await services.until_loaded()  # after an empty list, a page would not ask again
    served = () if services.apps else await services.served_apps()
    if not detailed:
        own = await services.app_names(caller.only(None))
        return sorted({*own, *(one.name for one in served)})
    known = [(one.name, one.root_agent) for _, one in sorted(services.apps.items()) if one]
    found = [listed(name, root.name, root.description) for name, root in known]
    found += [listed(one.name, one.root_agent_name, one.description) for one in served]
    return {"apps": found}


@router.get("/version")
async def version() -> dict[str, str]:
    """Return the versions of this package and of Python."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    return {"version": __version__, "language": "python", "language_version": python}


@router.get("/config/telemetry")
async def get_telemetry() -> dict[str, bool]:
    """Return that the page must not report telemetry."""
    return {"telemetry": False}


@router.post("/config/telemetry")
async def set_telemetry() -> dict[str, bool]:
    """Change nothing: the page never reports telemetry."""
    return {"telemetry": False}


@router.get("/dev-ui/assets/config/runtime-config.json")
async def runtime_config(request: Request) -> JSONResponse:
    """Return the configuration of ADK's page: the API has the page's origin."""
    config = {"backendUrl": request.scope.get("root_path", "").rstrip("/"), "telemetry": False}
    return JSONResponse(config, headers={"Cache-Control": "no-store"})
