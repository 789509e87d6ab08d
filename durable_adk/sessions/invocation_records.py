"""The part of the port to the session store that lists invocations."""

from abc import ABC, abstractmethod

from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey


class InvocationRecords(ABC):
    """What the store knows of invocations, one by one, the newest, or all of them."""

    @abstractmethod
    async def get_invocation(self, key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        """What is known of an invocation; None if it was never opened."""

    @abstractmethod
    async def active_invocation(self, key: SessionKey) -> InvocationRecord | None:
        """The invocation that holds the session's lease, expired leases excluded."""

    @abstractmethod
    async def list_invocations(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        status: Status | None = None,
        limit: int = 100,
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        """At most `limit` invocations of an app or one of its users, newest `update_time` first.

        Raises:
            InvalidRequestError: An id is unusable, or the limit is negative.
        """

    @abstractmethod
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
        """A page of all invocations that fit; [] behind the last page.

        The order is the store's own. An invocation that fits during the whole walk through the
        pages is on one of them; one whose status changes meanwhile may be seen twice.

        Args:
            app_name: Name of the app.
            user_id: Only this user's.
            session_id: Only those of sessions with this id.
            status: Only those that have it.
            limit: At most so many.
            after: Go on behind this one, the last of the page before.

        Raises:
            InvalidRequestError: An id is unusable, or the limit is below 1.
        """
