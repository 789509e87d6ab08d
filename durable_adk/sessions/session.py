"""One conversation: its state and its events."""

from typing import Any, NamedTuple

from pydantic import Field

from durable_adk.events.event import Event
from durable_adk.json_model import JsonModel
from durable_adk.json_values import check_id

CHILD_PREFIX = "adk-tool:"
"""How the ids of conversations with agents that are used as tools begin: nobody looks for them in a
list of sessions, so they are not listed (OPEN-6)."""


class SessionKey(NamedTuple):
    """What names a session. Never joined into one string: ("a:b", "c") is not ("a", "b:c")."""

    app_name: str
    user_id: str
    session_id: str


def checked_key(app_name: str, user_id: str, session_id: str) -> SessionKey:
    """Build a key of valid ids.

    Raises:
        InvalidRequestError: An id is invalid.
    """
    return SessionKey(
        check_id(app_name, "app_name"),
        check_id(user_id, "user_id"),
        check_id(session_id, "session_id"),
    )


class Creation(NamedTuple):
    """What tells a session from an earlier one of its name."""

    epoch: int
    """Of its lease when it was created; runs of earlier sessions of the name have smaller ones."""
    time: float
    """Seconds since the epoch, by the clock of the process that created it."""


class Session(JsonModel):
    """A copy of a session as it was when it was read (semantics STA-1)."""

    id: str
    app_name: str
    user_id: str
    state: dict[str, Any] = Field(default_factory=dict[str, Any])
    """All three scopes merged, `app:` and `user:` keys under their prefixes (STA-7)."""
    events: list[Event] = Field(default_factory=list[Event])
    last_update_time: float = 0.0
    """Seconds since the epoch."""
    revision: int = 0
    """Sequence number of the last event in storage; what stale writes are told by (SSN-30)."""

    @property
    def key(self) -> SessionKey:
        """What names the session."""
        return SessionKey(self.app_name, self.user_id, self.id)
