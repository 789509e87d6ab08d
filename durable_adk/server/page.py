"""The web page: static files, which browsers must not combine with content of other origins."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).with_suffix("")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; font-src 'self'; connect-src 'self'; frame-src blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy: only the page's own files, and no other server."""
_TYPES = "require-trusted-types-for 'script'; trusted-types 'none'"
"""Prevents text from becoming HTML or a script, even after a faulty change of the page."""
HEADERS = {
    "Content-Security-Policy": f"{_POLICY}; {_TYPES}",
    "Cache-Control": "no-cache",  # revalidated each time, so that all modules have one version
}

_router = APIRouter(include_in_schema=False)


class PageFiles(StaticFiles):
    """The files of a page, each with the page's headers."""

    def __init__(self, headers: Mapping[str, str], **options: Any) -> None:
        super().__init__(**options)
        self._headers = headers

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file, or raise a 404."""
        response = await super().get_response(path, scope)
        response.headers.update(self._headers)
        return response


@_router.get("/")
async def _index() -> Response:
    return FileResponse(FOLDER / "index.html", headers=HEADERS)


def add_page(app: FastAPI) -> None:
    """Serve the page at the root of an application, and its files below `/page`."""
    app.include_router(_router)
    app.mount("/page", PageFiles(HEADERS, directory=FOLDER))
