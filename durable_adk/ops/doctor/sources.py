"""The stores that the doctor examines, and the sessions it is limited to."""

from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.apps.app import App
from durable_adk.errors import TemporalUnavailableError
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog

T = TypeVar("T")

_PAGE = 200


class Missing(StrEnum):
    """Why the store lacks a session that appears in a workflow history.

    The store recognises deleted sessions by their tombstones. A session that was deleted after the
    backup, or together with its user, has none.
    """

    UNKNOWN = "unknown"
    DELETED = "deleted"
    """The session was deleted on purpose."""
    LOST = "lost"
    """The session is newer than the backup that was restored."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """A session store, the Temporal that runs its invocations, and the sessions to examine."""

    client: Client
    sessions: SessionLog
    app: str | None = None
    """Limits the examination to sessions of this app."""
    user: str | None = None
    session: str | None = None
    since: float | None = None
    """Seconds since the epoch. The logs of sessions unchanged since then are not read."""
    code: Sequence[App] = ()
    """Apps whose code is available. Histories of custom agents cannot be replayed without it."""
    missing: Missing = Missing.UNKNOWN

    def covers(self, key: SessionKey) -> bool:
        """Return whether a session is to be examined."""
        wanted = (self.app, self.user, self.session)
        return all(want in (None, one) for want, one in zip(wanted, key, strict=True))

    async def session_keys(self) -> AsyncGenerator[SessionKey]:
        """Yield all sessions to examine; one that changes in the meantime may be repeated.

        With `since`, only those that have changed since: every commit changes its session, so the
        others are unchanged since the last examination.
        """
        for app in await self.sessions.list_apps():
            if self.app in (None, app):
                async for key in self._keys_of_app(app):
                    if self.covers(key):
                        yield key

    async def _keys_of_app(self, app: str) -> AsyncGenerator[SessionKey]:
        token: str | None = None
        while True:
            page = await self.sessions.list_sessions(
                app_name=app,
                user_id=self.user,
                limit=_PAGE,
                page_token=token,
                updated_since=self.since,
            )
            for session in page.sessions:
                yield session.key
            if (token := page.next_page_token) is None:
                break
        # No list has the sessions of agents used as tools; each such session has one invocation.
        async for key, record in self.sessions.all_invocations(
            app_name=app, user_id=self.user, session_id=self.session
        ):
            changed = self.since is None or record.update_time >= self.since
            if key.is_child and changed:
                yield key

    async def records(self, key: SessionKey) -> list[InvocationRecord]:
        """Return all invocations of a session."""
        return await session_records(self.sessions, key)


async def session_records(store: SessionLog, key: SessionKey) -> list[InvocationRecord]:
    """Return all invocations of a session."""
    return [record async for _, record in store.all_invocations(**key._asdict())]


async def if_exists(request: Awaitable[T]) -> T | None:
    """Return Temporal's response about a workflow or a run; None if that has been deleted.

    Raises:
        TemporalUnavailableError: Temporal does not respond.
    """
    try:
        return await request
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise TemporalUnavailableError(f"Temporal did not respond: {error.message}") from error
