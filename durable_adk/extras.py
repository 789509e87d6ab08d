"""Optional libraries, installed by the extras of this package."""

from importlib.util import find_spec

from durable_adk.errors import CallerError, InvalidRequestError

_LIBRARIES = {
    "a2a": ("a2a",),
    "adk": ("google.adk",),
    "agui": ("ag_ui",),
    "codec": ("starlette", "uvicorn"),
    "drawing": ("graphlay",),
    "encryption": ("cryptography",),
    "mcp": ("mcp",),
    "objects": ("obstore",),
    "redis": ("redis",),
    "web": ("fastapi", "uvicorn", "sse_starlette", "httpx", "joserfc", "standardwebhooks"),
    "webhooks": ("httpx", "standardwebhooks"),
}


class Absent(Exception):  # noqa: N818  # never raised, but named in `except` clauses
    """Placeholder for each name of a library that is not installed.

    Modules that need an extra can be imported without it. The names in their annotations, base
    classes and `except` clauses are then this class.
    """


def installed(extra: str) -> bool:
    """Return whether the libraries of an extra are installed."""
    return all(find_spec(name) is not None for name in _LIBRARIES[extra])


def require(extra: str, error: type[CallerError] = InvalidRequestError) -> None:
    """Check that the libraries of an extra are installed.

    Raises:
        CallerError: A library is missing; the error is of class `error`.
    """
    missing = [name for name in _LIBRARIES[extra] if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise error(f'This needs {names}, not installed here: pip install "durable-adk[{extra}]"')
