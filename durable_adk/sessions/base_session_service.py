"""ADK's interface to stored sessions."""

from abc import ABC, abstractmethod
from typing import Any

from durable_adk.events.event import Event
from durable_adk.sessions.records import GetSessionConfig, ListSessionsResponse
from durable_adk.sessions.session import Session

__all__ = ["BaseSessionService", "GetSessionConfig", "ListSessionsResponse"]


class BaseSessionService(ABC):
    """Stores sessions.

    Runners and workers need the larger interface of `SessionLog`. Every call raises
    StoreUnavailableError while the store does not respond.
    """

    @abstractmethod
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session; without an id it gets a new uuid (SSN-2, SSN-4).

        `state` is split by prefix; `temp:` keys are dropped.

        Raises:
            AlreadyExistsError: The id is taken (SSN-3).
            InvalidRequestError: An id is invalid.
            StateValueError: The state is not JSON.
        """

    @abstractmethod
    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return an independent copy with the full state; None if missing (SSN-5, SSN-7)."""

    @abstractmethod
    async def list_sessions(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        limit: int | None = None,
        page_token: str | None = None,
        updated_since: float | None = None,
    ) -> ListSessionsResponse:
        """List sessions with merged state but without events, oldest update first (SSN-8).

        Sessions of agents used as tools (`session.CHILD_PREFIX`) are excluded. A session that is
        updated between two pages moves towards the end, so paging never skips one.

        Args:
            app_name: Name of the app.
            user_id: Restricts the list to one user.
            limit: Largest number of sessions. If there are more, the response has a
                `next_page_token`.
            page_token: The token of the previous page.
            updated_since: Earliest update, in seconds since the epoch.

        Raises:
            InvalidRequestError: An id is invalid, the limit is below 1, or the token was not
                returned by a call with the same app and user.
        """

    @abstractmethod
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session and its events, if it exists; app and user state are kept (SSN-9)."""

    @abstractmethod
    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event outside any invocation, and update the passed session (SSN-10).

        A partial event changes nothing. An event without an id gets a new uuid, one without a
        timestamp the current time; the passed object has them from then on, so that appending it
        again stores nothing. `temp:` keys are set in `session.state` only.

        Returns:
            The event as stored.

        Raises:
            StaleSessionError: Events were stored after `session.revision` (SSN-30).
            SessionNotFoundError: The session is not in storage (SSN-11).
            EventConflictError: The id is taken by a different event (SSN-12).
        """
