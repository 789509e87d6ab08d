"""Findings of the doctor, and their remedies."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from durable_adk.json_values import JsonModel
from durable_adk.sessions.session import SessionKey


class Kind(StrEnum):
    """The ways in which a session, its lease and its workflows can disagree."""

    OPEN_CALL = "open_call"
    """A call has no response, and no open invocation could produce one (I9)."""
    DEAD_HOLDER = "dead_holder"
    """An invocation is running or paused, but its lease owner no longer exists (I24)."""
    ORPHAN = "orphan"
    """A workflow is open, but its session is not in the store (I24)."""
    REGRESSED = "regressed"
    """The store lacks data that was committed according to a history (I21)."""
    BEHIND = "behind"
    """A workflow waits for an answer, or for an end, that the store already has (F38)."""
    STALLED = "stalled"
    """A workflow task fails, or loses its worker, repeatedly (I11)."""
    UNREAD = "unread"
    """A workflow is open, and the doctor could not read its history."""
    BROKEN_LOG = "broken_log"
    """The events or the state of a session are inconsistent (I3, I4)."""


class Finding(JsonModel):
    """One inconsistency."""

    kind: Kind
    app: str
    user: str
    session: str
    invocation_id: str | None = None
    problem: str
    fix: str | None = None
    """The action of `--fix`; None if an operator must decide."""

    @property
    def key(self) -> SessionKey:
        """The session."""
        return SessionKey(self.app, self.user, self.session)


@dataclass(frozen=True)
class Case:
    """A finding with its remedy."""

    finding: Finding
    remedy: Callable[[], Awaitable[None]] | None = None
    """Performs the action in `Finding.fix`; idempotent.

    Raises a DurableAdkError if the session has changed since it was examined.
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
    """Return a case for a session."""
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
