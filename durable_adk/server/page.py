"""The web page: static files, which browsers must not combine with content of other origins."""

from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from durable_adk.server.requests import PAGE_POLICY

FOLDER = Path(__file__).with_suffix("")
_TYPES = "require-trusted-types-for 'script'; trusted-types 'none'"
"""Prevents text from becoming HTML or a script, even after a faulty change of the page."""
HEADERS = {
    "Content-Security-Policy": f"{PAGE_POLICY}; {_TYPES}",
    "Cache-Control": "no-cache",  # revalidated each time, so that all modules have one version
}

_router = APIRouter(include_in_schema=False)


class PageFiles(StaticFiles):
    """The page's files, each with the page's headers."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file, or raise a 404."""
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response


@_router.get("/")
async def _index() -> Response:
    return FileResponse(FOLDER / "index.html", headers=HEADERS)


def add_page(app: FastAPI) -> None:
    """Serve the page at the root of an application, and its files below `/page`."""
    app.include_router(_router)
    app.mount("/page", PageFiles(directory=FOLDER))
