"""The port to a store, and the base class of operations that run as transactions of it."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol

from durable_adk.errors import SessionBusyError
from durable_adk.sessions.log.storage import T
from durable_adk.sessions.log.watches import Changes
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.tables import Tables

P = ParamSpec("P")


class Store(Protocol):
    """Runs transactions over the tables.

    A transaction is a plain synchronous function. The store runs it as a whole, under a lock, in a
    thread or in a greenlet of an asyncio driver, and it never uses an event loop.
    """

    async def read(self, work: Callable[[Tables], T]) -> T:
        """Run `work` on a consistent snapshot of the tables and return its result.

        It may run twice, so it changes nothing.
        """
        ...

    async def write(self, work: Callable[[Tables], T]) -> T:
        """Run `work` and return its result; its changes are rolled back if it raises."""
        ...


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
