"""Libraries that only an extra of this package installs."""

from importlib.util import find_spec

from durable_adk.errors import CallerError, InvalidRequestError

_LIBRARIES = {
    "codec": ("starlette", "uvicorn"),
    "encryption": ("cryptography",),
    "mcp": ("mcp",),
    "objects": ("obstore",),
    "redis": ("redis",),
}


class Absent(Exception):  # noqa: N818  # not raised: `except` may name it
    """Stands in for each name of a library that is not installed.

    Modules that need an extra are imported without it too, so the names in their annotations, base
    classes and `except` clauses have to be something.
    """


def require(extra: str, error: type[CallerError] = InvalidRequestError) -> None:
    """Refuse to make what needs an extra.

    Raises:
        CallerError: Of the class `error`. A library of the extra is not installed.
    """
    missing = [name for name in _LIBRARIES[extra] if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise error(f'This needs {names}, not installed here: pip install "durable-adk[{extra}]"')
