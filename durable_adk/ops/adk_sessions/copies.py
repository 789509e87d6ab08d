"""Copies sessions from one store to another; a copy can be interrupted and repeated at any time.

A session's events are compared with those of its copy, and only the following ones are appended, in
one transaction. So a repetition copies nothing twice, and adds later events. A session with the
same name but different events is not changed.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from durable_adk.conversation.pending_calls import PendingCall, pending_calls
from durable_adk.errors import EventConflictError, StaleSessionError
from durable_adk.events.request_input import REQUEST_INPUT
from durable_adk.json_values import canonical
from durable_adk.ops.adk_sessions.row_events import UNREADABLE, reason
from durable_adk.sessions.log.copies import CopiedEvent, CopiedSession
from durable_adk.sessions.session import SessionKey

_SAME_TIME = 1e-3
"""Seconds; google-adk stores times with microseconds."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A session, event or state that was not copied, and the reason."""

    app: str
    user: str = ""
    """Empty for data of the app."""
    session: str = ""
    """Empty for data of the user."""
    event: str = ""
    problem: str


@dataclass(frozen=True, kw_only=True)
class OpenRequest:
    """A call of a copied session that waits for a confirmation, a credential, or a node's answer.

    google-adk finds it in the events when the answer arrives. This package sends an answer to the
    waiting workflow, which a copied session does not have.
    """

    app: str
    user: str
    session: str
    tool: str
    """The tool, or the path of the node that asks."""
    kind: str


@dataclass(frozen=True, kw_only=True)
class SourceSession:
    """A session of the source, with its events in order."""

    session: CopiedSession | None
    """None if its row cannot be read; see `problems`."""
    events: Sequence[CopiedEvent] = ()
    problems: Sequence[Problem] = ()
    """Its rows that cannot be read."""


class Source(Protocol):
    """The source of copied sessions."""

    def sessions(self) -> AsyncGenerator[SourceSession]:
        """Yield all sessions."""
        ...

    def states(self) -> AsyncGenerator[tuple[SessionKey, dict[str, Any] | Problem]]:
        """Yield the state of apps and users by owner, whose user and session ids may be empty."""
        ...


class Target(Protocol):
    """The store that receives the copies; see `sessions.log.copies.Copies`."""

    async def read_session(self, key: SessionKey) -> CopiedSession | None:
        """Read a session with its number of events; None if it is missing."""
        ...

    async def read_copied(self, key: SessionKey, *, limit: int | None = None) -> list[CopiedEvent]:
        """Read the first events of a session, in order."""
        ...

    async def copy_session(
        self, session: CopiedSession, events: Sequence[CopiedEvent], *, after: int = 0
    ) -> None:
        """Store a session's events from `after` on; raises if another writer has changed it."""
        ...

    async def copy_state(self, key: SessionKey, values: Mapping[str, Any]) -> dict[str, Any]:
        """Set missing keys; return those that have different values, which are kept."""
        ...


@dataclass(kw_only=True)
class SessionCounts:
    """Numbers of sessions; each session found is also counted in one of the other fields."""

    found: int = 0
    copied: int = 0
    """The target did not have them."""
    continued: int = 0
    """The target had the first part, and now has the rest."""
    present: int = 0
    """The target had all of their events, and may have later ones."""
    different: int = 0
    """The target has them with different events, and was not changed."""
    unreadable: int = 0


@dataclass(kw_only=True)
class EventCounts:
    """Numbers of events of the sessions that were copied, continued or present."""

    copied: int = 0
    present: int = 0
    unreadable: int = 0
    """They are missing in the copy."""


@dataclass(kw_only=True)
class CopyReport:
    """The result of copying."""

    sessions: SessionCounts = field(default_factory=SessionCounts)
    events: EventCounts = field(default_factory=EventCounts)
    problems: list[Problem] = field(default_factory=list[Problem])
    requests: list[OpenRequest] = field(default_factory=list[OpenRequest])
    """Those of sessions that were copied or continued."""

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object, without the empty ids of problems."""
        problems = [{k: v for k, v in asdict(one).items() if v} for one in self.problems]
        return {**asdict(self), "problems": problems}


async def copy_sessions(source: Source, target: Target) -> CopyReport:
    """Copy all sessions, and the state of apps and users; return a report on everything found."""
    report = CopyReport()
    await _copy_states(source, target, report)
    async for found in source.sessions():
        report.problems += found.problems
        report.sessions.found += 1
        if found.session is None:
            report.sessions.unreadable += 1
        else:
            report.events.unreadable += len(found.problems)
            await _copy_session(found.session, found.events, target, report)
    return report


async def _copy_states(source: Source, target: Target, report: CopyReport) -> None:
    async for (app, user, _), found in source.states():
        if isinstance(found, Problem):
            report.problems.append(found)
            continue
        kept = await target.copy_state(SessionKey(app, user, ""), found)
        report.problems += [
            Problem(app=app, user=user, problem=f"state {name!r} has another value, which is kept")
            for name in kept
        ]


async def _copy_session(
    session: CopiedSession, events: Sequence[CopiedEvent], target: Target, report: CopyReport
) -> None:
    """Copy the events that the target lacks; keep the target's session if it is another one."""
    try:
        copied = await target.read_session(session.key)
        present = 0 if copied is None else await _present(copied, session, events, target)
        missing = len(events) - present
        if missing or copied is None:
            await target.copy_session(session, events, after=present)
    except (StaleSessionError, EventConflictError) as error:
        _report_different(session, error.message, report)
    except UNREADABLE as error:
        text = f"What is there cannot be read ({reason(error)})."
        _report_different(session, text, report)
    else:
        report.events.present += present
        report.events.copied += missing
        report.sessions.copied += copied is None
        report.sessions.continued += bool(copied and missing)
        report.sessions.present += bool(copied and not missing)
        if missing or copied is None:
            report.requests += _open_requests(session, events)


async def _present(
    copied: CopiedSession,
    session: CopiedSession,
    events: Sequence[CopiedEvent],
    target: Target,
) -> int:
    """Return how many of the events the target has.

    Raises:
        EventConflictError: The target's session is another one.
    """
    if not (copied.events and events) and not _is_copy_of(copied, session):
        raise EventConflictError("It is there with other events or another state.")
    there = await target.read_copied(session.key, limit=len(events))
    for source_event, target_event in zip(events, there, strict=False):
        if not source_event.is_same(target_event):
            raise EventConflictError(f"It is there with another event at {source_event.event.id}.")
    return len(there)


def _report_different(session: CopiedSession, problem: str, report: CopyReport) -> None:
    report.sessions.different += 1
    app, user, name = session.key
    report.problems.append(
        Problem(app=app, user=user, session=name, problem=f"{problem} It was left alone.")
    )


def _open_requests(session: CopiedSession, events: Sequence[CopiedEvent]) -> list[OpenRequest]:
    app, user, name = session.key
    return [
        OpenRequest(app=app, user=user, session=name, tool=_who_asks(one), kind=one.kind)
        for one in pending_calls([item.event for item in events])
        if one.kind != "long_running" or one.node_path
    ]


def _who_asks(call: PendingCall) -> str:
    return call.node_path if call.name == REQUEST_INPUT else call.original_name


def _is_copy_of(copied: CopiedSession, session: CopiedSession) -> bool:
    """Return whether sessions that share no event are nevertheless the same."""
    same_time = abs(copied.create_time - session.create_time) < _SAME_TIME
    return same_time or canonical(copied.state) == canonical(session.state)
