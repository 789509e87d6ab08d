"""Base class of the session log's operations, which runs them as transactions."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from durable_adk.errors import SessionBusyError
from durable_adk.sessions.log.storage import Store, T, Tables
from durable_adk.sessions.log.watches import Changes
from durable_adk.sessions.session import SessionKey

P = ParamSpec("P")


class Transactions:
    """Runs each operation as one transaction over the tables of a storage."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes = Changes()

    async def _change(
        self,
        rule: Callable[Concatenate[Tables, SessionKey, P], T | SessionBusyError],
        key: SessionKey,
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Apply a rule to a session in a writing transaction, then wake the session's watches.

        Raises:
            SessionBusyError: Returned by `rule`. Raising it inside would roll back the transaction
                and, with it, the ticket that was taken.
        """
        result = await self._store.write(lambda tables: rule(tables, key, *args, **named))
        if isinstance(result, SessionBusyError):
            raise result
        self._changes.announce(key)
        return result
