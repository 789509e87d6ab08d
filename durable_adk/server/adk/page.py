"""ADK's own web page, from an installed google-adk or from a folder."""

from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import RedirectResponse, Response

from durable_adk.errors import InvalidRequestError
from durable_adk.server.page import PageFiles

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; "
    "style-src 'self' 'unsafe-inline' https://fonts.googleapis.com; "
    "font-src 'self' data: https://fonts.gstatic.com; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
    "frame-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)
"""Content security policy: the page has inline styles and scripts, and loads fonts from Google."""
_HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
_router = APIRouter(include_in_schema=False)


@_router.get("/dev-ui")
async def _with_slash(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '').rstrip('/')}/dev-ui/")


def add_adk_page(app: FastAPI, folder: Path | None) -> None:
    """Serve ADK's page below `/dev-ui/`, if its files are found.

    Args:
        app: The application, which already has the route of the page's configuration.
        folder: Folder of the files; None: that of an installed google-adk, which is not imported.

    Raises:
        InvalidRequestError: The folder does not contain the page.
    """
    found = folder or _installed()
    if folder is not None and not (folder / "index.html").is_file():
        raise InvalidRequestError(f"There is no index.html of ADK's web page in {folder}.")
    if found is not None:
        app.include_router(_router)
        app.mount("/dev-ui/", PageFiles(_HEADERS, directory=found, html=True))


def _installed() -> Path | None:
    spec = find_spec("google.adk") if find_spec("google") else None
    folders = list(spec.submodule_search_locations or []) if spec else []
    candidates = [Path(folder) / "cli" / "browser" for folder in folders]
    return next((one for one in candidates if (one / "index.html").is_file()), None)
