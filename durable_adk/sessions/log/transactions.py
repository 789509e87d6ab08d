"""Base class of the session log's operations, which runs them as transactions."""

from collections.abc import Callable

from durable_adk.errors import SessionBusyError
from durable_adk.sessions.log.storage import Store, T, Tables
from durable_adk.sessions.log.watches import Changes
from durable_adk.sessions.session import SessionKey


class Transactions:
    """Runs each operation as one transaction over the tables of a storage."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes = Changes()

    async def _change(self, key: SessionKey, work: Callable[[Tables], T | SessionBusyError]) -> T:
        """Run `work` in a writing transaction, then wake the session's watches.

        Raises:
            SessionBusyError: Returned by `work`. Raising it inside would roll back the transaction
                and, with it, the ticket that was taken.
        """
        result = await self._store.write(work)
        if isinstance(result, SessionBusyError):
            raise result
        self._changes.announce(key)
        return result
