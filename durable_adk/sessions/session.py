"""One conversation: its state and its events."""

import hashlib
import time
from typing import Any, NamedTuple

from pydantic import Field

from durable_adk.events.event import Event
from durable_adk.json_values import JsonModel, canonical, check_id

CHILD_PREFIX = "adk-tool:"
"""Prefix of the ids of child sessions, which belong to agents used as tools. They are internal, so
`list_sessions` excludes them (OPEN-6)."""


class SessionKey(NamedTuple):
    """Identifies a session.

    The ids are never joined into one string: ("a:b", "c") is not ("a", "b:c").
    """

    app_name: str
    user_id: str
    session_id: str

    @property
    def is_child(self) -> bool:
        """Whether it is the session of an agent used as a tool."""
        return self.session_id.startswith(CHILD_PREFIX)

    def child_prefix(self) -> str:
        """Return a prefix that the ids of its calls' child sessions have, and no others."""
        return f"{CHILD_PREFIX}{_digest(self.session_id)}:"

    def child(self, *call: Any) -> "SessionKey":
        """Return the key of the child session of a call; the parts of `call` identify it."""
        return self._replace(session_id=f"{self.child_prefix()}{_digest(*call)}")

    def ids(self) -> dict[str, str]:
        """Return the ids under the names that they have in a `NamesSession` or a request."""
        return {"app": self.app_name, "user": self.user_id, "session": self.session_id}


def _digest(*parts: Any) -> str:
    """Hash a list of ids unambiguously: no id can be taken for two others."""
    return hashlib.sha256(canonical(parts).encode()).hexdigest()[:32]


def checked_key(app_name: str, user_id: str, session_id: str) -> SessionKey:
    """Build a key from validated ids.

    Raises:
        InvalidRequestError: An id is invalid.
    """
    return SessionKey(
        check_id(app_name, "app_name"),
        check_id(user_id, "user_id"),
        check_id(session_id, "session_id"),
    )


class NamesSession(JsonModel):
    """Base class of values that name a session by its three ids."""

    app: str
    user: str
    session: str

    @property
    def key(self) -> SessionKey:
        """Key of the session."""
        return SessionKey(self.app, self.user, self.session)

    def check_ids(self) -> None:
        """Strip the ids, or raise InvalidRequestError naming the first invalid one."""
        self.app = check_id(self.app, "app")
        self.user = check_id(self.user, "user")
        self.session = check_id(self.session, "session")


class Creation(NamedTuple):
    """Distinguishes a session from earlier sessions of the same name."""

    epoch: int
    """The lease's epoch at creation; runs of earlier sessions of this name have smaller epochs."""
    time: float
    """Seconds since the epoch, by the clock of the process that created it."""

    @classmethod
    def after_deletion(cls, lease_epoch: int) -> "Creation":
        """Return the creation of the next session of this name, or a later one.

        A store that was restored from a backup may know only smaller epochs of the name than it has
        had. The deletion must come after all of them, so it counts in milliseconds.

        Args:
            lease_epoch: The last lease epoch of the session that is being deleted.
        """
        now = time.time()
        return cls(max(lease_epoch + 1, int(now * 1000)), now)


class Session(JsonModel):
    """A snapshot of a session, taken when it was read (STA-1)."""

    id: str
    app_name: str
    user_id: str
    state: dict[str, Any] = Field(default_factory=dict[str, Any])
    """All three scopes merged, `app:` and `user:` keys under their prefixes (STA-7)."""
    events: list[Event] = Field(default_factory=list[Event])
    last_update_time: float = 0.0
    """Seconds since the epoch."""
    revision: int = Field(default=0, exclude=True)
    """Sequence number of the last event in storage; detects stale writes (SSN-30).

    Not part of the JSON form, because ADK refuses unknown fields of a session.
    """

    @property
    def key(self) -> SessionKey:
        """The session's key."""
        return SessionKey(self.app_name, self.user_id, self.id)
