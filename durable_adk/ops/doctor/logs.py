"""The sessions whose logs are to be looked at, page by page."""

from collections.abc import AsyncGenerator

from durable_adk.ops.doctor.sources import Sources
from durable_adk.sessions.reading import all_invocations
from durable_adk.sessions.session import CHILD_PREFIX, SessionKey

_PAGE = 200


async def session_keys(sources: Sources) -> AsyncGenerator[SessionKey]:
    """All sessions that are meant; one that changes meanwhile may come twice.

    With `Sources.since` only those that have changed since: what is committed to a session changes
    it, so the others are as they were found the last time.
    """
    for app in await sources.sessions.list_apps():
        if sources.app in (None, app):
            async for key in _listed(sources, app):
                if sources.mean(key):
                    yield key


async def _listed(sources: Sources, app: str) -> AsyncGenerator[SessionKey]:
    token: str | None = None
    while True:
        page = await sources.sessions.list_sessions(
            app_name=app,
            user_id=sources.user,
            limit=_PAGE,
            page_token=token,
            updated_since=sources.since,
        )
        for session in page.sessions:
            yield session.key
        if (token := page.next_page_token) is None:
            break
    # Those of agents that are used as tools are in no list; each has one invocation.
    async for key, record in all_invocations(
        sources.sessions, app_name=app, user_id=sources.user, session_id=sources.session
    ):
        changed = sources.since is None or record.update_time >= sources.since
        if key.session_id.startswith(CHILD_PREFIX) and changed:
            yield key
