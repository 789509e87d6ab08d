"""All of one person's, over any store that has transactions."""

from durable_adk.json_values import check_id
from durable_adk.sessions._notes import TransactionalNotebook
from durable_adk.sessions._tables import Tables
from durable_adk.sessions.people import People
from durable_adk.sessions.session import SessionKey


class TransactionalPeople(TransactionalNotebook, People):
    """Reads and deletes by user."""

    async def user_sessions(self, *, app_name: str, user_id: str) -> list[SessionKey]:
        """See `BaseSessionService.user_sessions`."""
        user = _checked(app_name, user_id)
        return sorted(await self._store.read(lambda tables: tables.sessions_of(user)))

    async def delete_user_state(self, *, app_name: str, user_id: str) -> None:
        """See `BaseSessionService.delete_user_state`."""
        # A user is stored as a session without an id, which owns nothing but state.
        user = _checked(app_name, user_id)
        await self._store.write(lambda tables: _remove(tables, user))


def _remove(tables: Tables, user: SessionKey) -> None:
    tables.remove_session(user)
    tables.remove_tombstones(user)


def _checked(app_name: str, user_id: str) -> SessionKey:
    return SessionKey(check_id(app_name, "app_name"), check_id(user_id, "user_id"), "")
