"""This package's session store as a source of copies."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from durable_adk.ops.adk_sessions.copies import Problem, SourceSession
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.state import APP_PREFIX, USER_PREFIX

_LISTED = 200
"""Maximum number of sessions in memory."""


@dataclass(frozen=True, kw_only=True)
class StoredSessions:
    """The sessions of a store, except those of agents used as tools, which ADK does not store."""

    store: SessionLog

    async def sessions(self) -> AsyncGenerator[SourceSession]:
        """See `Source.sessions`."""
        async for listed in self._listed():
            session = await self.store.read_session(listed.key)
            if session is not None:  # otherwise deleted in the meantime
                events = await self.store.read_copied(session.key, limit=session.events)
                yield SourceSession(session=session, events=events)

    async def states(self) -> AsyncGenerator[tuple[SessionKey, dict[str, Any] | Problem]]:
        """See `Source.states`."""
        seen = set[SessionKey]()
        async for session in self._listed():
            app = SessionKey(session.app_name, "", "")
            user = SessionKey(session.app_name, session.user_id, "")
            for owner, prefix in ((app, APP_PREFIX), (user, USER_PREFIX)):
                if owner not in seen:
                    seen.add(owner)
                    state = session.state.items()
                    yield owner, {name: one for name, one in state if name.startswith(prefix)}

    async def _listed(self) -> AsyncGenerator[Session]:
        for app in await self.store.list_apps():
            token = None
            while True:
                page = await self.store.list_sessions(app_name=app, limit=_LISTED, page_token=token)
                for session in page.sessions:
                    yield session
                token = page.next_page_token
                if token is None:
                    break
