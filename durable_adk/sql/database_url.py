"""Database URLs: parsing, conversion for the driver, and masking of secrets."""

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from durable_adk.errors import InvalidRequestError

_PARAMETERS = (
    *("sslmode", "ssl", "host", "port", "user", "password"),
    "prepared_statement_cache_size",  # 0 for poolers
)
_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SECRET = ("password", "sslkey", "sslpassword")


def parse(db_url: str | URL, *, only: str | None = None) -> URL:
    """Parse the URL of a SQLite file or a PostgreSQL database; `only` permits just one backend.

    Raises:
        InvalidRequestError: The text is not a URL, or the database is unsupported or in memory.
    """
    try:
        url = make_url(db_url)
    except (ArgumentError, ValueError):
        # Do not quote or chain the error: it may contain a password.
        raise InvalidRequestError(
            "This is not a database URL; write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME."
        ) from None
    match url.get_backend_name():
        case name if only not in (None, name):
            raise InvalidRequestError(f"{name!r} is not supported here; use {only}.")
        case "sqlite" if is_in_memory(url):
            raise InvalidRequestError("A SQLite database in memory keeps nothing; name a file.")
        case "sqlite" | "postgresql":
            return url
        case name:
            raise InvalidRequestError(f"{name!r} is not supported; use SQLite or PostgreSQL.")


def is_in_memory(db_url: str | URL) -> bool:
    """Return whether this is the URL of a SQLite database that is in memory."""
    try:
        url = make_url(db_url)
    except (ArgumentError, ValueError):
        return False
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def file_of(url: URL) -> Path | None:
    """Return the file of a SQLite database; None for another database."""
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def for_driver(url: URL) -> URL:
    """Convert a URL for asyncpg, replacing its driver and renaming `sslmode`.

    Raises:
        InvalidRequestError: The URL has an unsupported parameter or `sslmode`.
    """
    unknown = [name for name in url.query if name not in _PARAMETERS]
    if unknown:
        raise InvalidRequestError(
            f"{shown(url)}: the parameter {unknown[0]!r} is not known here. Use sslmode, and for "
            "all else PostgreSQL's environment variables, such as PGSSLROOTCERT."
        )
    mode = url.query.get("sslmode")
    if mode is not None and mode not in _MODES:
        raise InvalidRequestError(f"{shown(url)}: sslmode is one of {', '.join(_MODES)}.")
    if mode is not None:
        url = url.difference_update_query(["sslmode"]).update_query_dict({"ssl": mode})
    return url.set(drivername="postgresql+asyncpg")


def shown(url: URL | str) -> str:
    """Return the URL for display, with its secrets masked."""
    if isinstance(url, str):
        url = parse(url)
    hidden = {name: "***" for name in url.query if name in _SECRET}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)
