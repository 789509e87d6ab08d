"""Which channel goes with which session store, or with which setting."""

from weakref import WeakKeyDictionary

from durable_adk.partials.channel import PartialChannel
from durable_adk.partials.in_process import InProcessPartials
from durable_adk.partials.postgres import PostgresPartials
from durable_adk.partials.redis import RedisPartials
from durable_adk.partials.sockets import SocketPartials
from durable_adk.sessions.database_session_service import DatabaseSessionService
from durable_adk.sessions.in_memory_session_service import InMemorySessionService
from durable_adk.sessions.session_log import SessionLog

_IN_PROCESS: WeakKeyDictionary[SessionLog, InProcessPartials] = WeakKeyDictionary()


def partials_of(sessions: SessionLog) -> PartialChannel | None:
    """The channel on which all meet who use the same store, without being told of each other.

    Returns:
        For a store in memory the channel of that object, for a SQLite file the one of its path,
        for a PostgreSQL database its notices; None for a store that is none of ours: whoever wants
        partial events there names a channel.
    """
    if isinstance(sessions, InMemorySessionService):
        return _IN_PROCESS.setdefault(sessions, InProcessPartials())
    if not isinstance(sessions, DatabaseSessionService):
        return None
    if sessions.database is not None:
        return PostgresPartials(sessions.database)
    return None if sessions.file is None else SocketPartials(sessions.file)


def partials_at(url: str) -> RedisPartials:
    """The channel that a setting names, for any session store; whoever opens it closes it.

    Raises:
        InvalidRequestError: It is not Redis's, or the extra ``redis`` is not installed.
    """
    return RedisPartials(url)
