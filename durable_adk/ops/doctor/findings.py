"""What is wrong, and what would be done about it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from durable_adk.json_model import JsonModel
from durable_adk.sessions.session import SessionKey


class Kind(StrEnum):
    """The ways in which a session, its lease and its workflows can disagree."""

    OPEN_CALL = "open_call"
    """A call has no response, and no invocation is left that could give one (I9)."""
    DEAD_HOLDER = "dead_holder"
    """An invocation is running or paused, and what ran it is gone (I24)."""
    ORPHAN = "orphan"
    """A workflow is open, and the store knows nothing of its invocation (I24)."""
    REGRESSED = "regressed"
    """The store lacks what a history says was committed (I21)."""
    BEHIND = "behind"
    """A workflow waits for what the store says has been (F38)."""
    STALLED = "stalled"
    """A workflow's task fails, or loses its worker, again and again (I11)."""
    BROKEN_LOG = "broken_log"
    """A session's events or state do not add up (I3, I4)."""


class Finding(JsonModel):
    """One thing that is wrong."""

    kind: Kind
    app: str
    user: str
    session: str
    invocation_id: str | None = None
    problem: str
    fix: str | None = None
    """What `--fix` does about it; None: nothing, somebody has to look."""

    @property
    def key(self) -> SessionKey:
        """The session."""
        return SessionKey(self.app, self.user, self.session)


@dataclass(frozen=True)
class Case:
    """A finding with its remedy."""

    finding: Finding
    remedy: Callable[[], Awaitable[None]] | None = None
    """Does what `Finding.fix` says; running it again changes nothing.

    Raises a DurableAdkError when the session has changed since it was looked at.
    """


def case(  # the fields of a finding
    kind: Kind,
    key: SessionKey,
    problem: str,
    *,
    invocation_id: str | None = None,
    fix: str | None = None,
    remedy: Callable[[], Awaitable[None]] | None = None,
) -> Case:
    """A case of a session."""
    finding = Finding(
        kind=kind,
        app=key.app_name,
        user=key.user_id,
        session=key.session_id,
        invocation_id=invocation_id,
        problem=problem,
        fix=fix,
    )
    return Case(finding, remedy)
