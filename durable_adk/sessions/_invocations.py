"""The records of invocations over any store that has transactions."""

from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import check_id
from durable_adk.sessions import _log
from durable_adk.sessions._tables import InvocationPage, Store
from durable_adk.sessions.invocation_records import InvocationRecords
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey


class TransactionalInvocations(InvocationRecords):
    """Checks what it is given, and reads the store's tables."""

    _store: Store

    async def get_invocation(self, key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        """See `BaseSessionService.get_invocation`."""
        return await self._store.read(lambda tables: tables.invocation(key, invocation_id))

    async def active_invocation(self, key: SessionKey) -> InvocationRecord | None:
        """See `BaseSessionService.active_invocation`."""
        return await self._store.read(lambda tables: _log.active(tables, key))

    async def list_invocations(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        status: Status | None = None,
        limit: int = 100,
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        """See `BaseSessionService.list_invocations`."""
        app_name = check_id(app_name, "app_name")
        user_id = None if user_id is None else check_id(user_id, "user_id")
        if limit < 0:
            raise InvalidRequestError("limit is negative; pass how many invocations to list.")
        return await self._store.read(
            lambda tables: _log.invocations(tables, app_name, user_id, status, limit)
        )

    async def page_invocations(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        session_id: str | None = None,
        status: Status | None = None,
        limit: int = 500,
        after: tuple[SessionKey, InvocationRecord] | None = None,
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        """See `BaseSessionService.page_invocations`."""
        if limit < 1:
            raise InvalidRequestError(f"limit is {limit}; pass 1 or more.")
        page = InvocationPage(
            app_name=check_id(app_name, "app_name"),
            user_id=None if user_id is None else check_id(user_id, "user_id"),
            session_id=None if session_id is None else check_id(session_id, "session_id"),
            status=status,
            limit=limit,
            after=after,
        )
        return await self._store.read(lambda tables: tables.page_of_invocations(page))
