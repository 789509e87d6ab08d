"""The part of the port to the session store that knows all that it has of one person."""

from abc import ABC, abstractmethod

from durable_adk.sessions.session import SessionKey


class People(ABC):
    """What is needed to give account of somebody's data, and to remove it."""

    @abstractmethod
    async def user_sessions(self, *, app_name: str, user_id: str) -> list[SessionKey]:
        """All sessions of a user, in order, with those that `list_sessions` leaves out.

        Raises:
            InvalidRequestError: An id is unusable.
        """

    @abstractmethod
    async def delete_user_state(self, *, app_name: str, user_id: str) -> None:
        """Delete the user's state, which is shared by the sessions; missing is no error.

        What tells that sessions of the user were deleted goes with it.

        Raises:
            InvalidRequestError: An id is unusable.
        """

    async def scrub(self) -> None:  # noqa: B027  # optional
        """Overwrite what was deleted, as far as the store can: files keep it until then."""
