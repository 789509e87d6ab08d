"""Selects the partial event channel for a session store or a setting."""

from importlib import import_module
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from durable_adk.partials.channel import PartialChannel
from durable_adk.partials.in_process import InProcessPartials
from durable_adk.partials.postgres import PostgresPartials
from durable_adk.partials.sockets import SocketPartials
from durable_adk.sessions.database_session_service import DatabaseSessionService
from durable_adk.sessions.in_memory_session_service import InMemorySessionService
from durable_adk.sessions.session_log import SessionLog

if TYPE_CHECKING:
    from durable_adk.partials.redis import RedisPartials

_REDIS = "durable_adk.partials.redis"  # imported on use, as Redis' client is large
_IN_PROCESS: WeakKeyDictionary[SessionLog, InProcessPartials] = WeakKeyDictionary()


def partials_of(sessions: SessionLog) -> PartialChannel | None:
    """Return the default channel for a session store, derived from the store itself.

    All users of the same store get the same channel without further configuration.

    Returns:
        For an in-memory store, the channel of that object; for a SQLite file, the channel of its
        path; for a PostgreSQL database, its notifications. None for a third-party store, which
        needs an explicit channel.
    """
    if isinstance(sessions, InMemorySessionService):
        return _IN_PROCESS.setdefault(sessions, InProcessPartials())
    if not isinstance(sessions, DatabaseSessionService):
        return None
    if sessions.database is not None:
        return PostgresPartials(sessions.database)
    return None if sessions.file is None else SocketPartials(sessions.file)


def partials_at(url: str) -> "RedisPartials":
    """Return the channel for a configured URL; works with any session store.

    The caller closes the channel.

    Raises:
        InvalidRequestError: The URL is not a Redis URL, or the extra ``redis`` is not installed.
    """
    partials: RedisPartials = import_module(_REDIS).RedisPartials(url)
    return partials
