"""Copies sessions from one store to another; a copy can be interrupted and repeated at any time.

A session's events are compared with those of its copy, and only the following ones are appended. So
a repetition continues where the last copy was interrupted, copies nothing twice, and adds later
events. A session with the same name but different events is not changed.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from durable_adk.conversation.pending_calls import pending_calls
from durable_adk.errors import EventConflictError, StaleSessionError
from durable_adk.events.event import Event
from durable_adk.json_values import canonical
from durable_adk.ops.adk_sessions.row_events import UNREADABLE, reason
from durable_adk.sessions.log.copies import CopiedEvent, CopiedPart, CopiedSession
from durable_adk.sessions.session import SessionKey

PAGE = 100
"""Number of events that are compared, or written, in one transaction."""
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
    """A tool call of a copied session that waits for a confirmation or a credential.

    google-adk finds it in the events when the answer arrives. This package sends an answer to the
    waiting workflow, which a copied session does not have.
    """

    app: str
    user: str
    session: str
    tool: str
    kind: str


@dataclass(frozen=True, kw_only=True)
class SourcePart:
    """Some events of a session, in order; at least one part for each session."""

    session: CopiedSession | None
    """None if its row cannot be read; see `problems`."""
    events: Sequence[CopiedEvent] = ()
    problems: Sequence[Problem] = ()
    """The rows in this part that cannot be read."""
    first: bool = True
    last: bool = True


class Source(Protocol):
    """The source of copied sessions."""

    def parts(self) -> AsyncGenerator[SourcePart]:
        """Yield the parts of all sessions, session by session."""
        ...

    def states(self) -> AsyncGenerator[tuple[SessionKey, dict[str, Any] | Problem]]:
        """Yield the state of apps and users by owner, whose user and session ids may be empty."""
        ...


class Target(Protocol):
    """The store that receives the copies; see `sessions.log.copies.Copies`."""

    async def read_session(self, key: SessionKey) -> CopiedSession | None:
        """Read a session with its number of events; None if it is missing."""
        ...

    async def read_copied(
        self, key: SessionKey, *, after: int = 0, limit: int | None = None
    ) -> list[CopiedEvent]:
        """Read events of a session, in order."""
        ...

    async def copy_part(self, part: CopiedPart) -> None:
        """Append events; raises if the session was also changed by another writer."""
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
    copy = None
    async for part in source.parts():
        report.problems += part.problems
        if part.first:
            report.sessions.found += 1
            report.sessions.unreadable += part.session is None
            copy = part.session and await _SessionCopy.begin(part.session, target, report)
        if copy is not None:
            report.events.unreadable += len(part.problems)
            await copy.add(part)
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


@dataclass
class _SessionCopy:
    """The copying of one session."""

    session: CopiedSession
    target: Target
    report: CopyReport
    copied: CopiedSession | None
    """The target's session before the copy."""
    position: int = 0
    """Number of events that the target is known to have."""
    written: int = 0
    is_skipped: bool = False
    set_by_events: set[str] = field(default_factory=set[str])
    with_calls: list[Event] = field(default_factory=list[Event])
    """The events that determine which calls are pending."""

    @classmethod
    async def begin(
        cls, session: CopiedSession, target: Target, report: CopyReport
    ) -> "_SessionCopy":
        copied = await target.read_session(session.key)
        return cls(session, target, report, copied)

    async def add(self, part: SourcePart) -> None:
        """Copy the next events."""
        if self.is_skipped:
            return
        for item in part.events:
            self.set_by_events |= item.event.actions.state_delta.keys()
            if _is_about_calls(item.event):
                self.with_calls.append(item.event)
        has_none = self.copied and not (self.copied.events and part.events)
        if part.first and has_none and not _is_copy_of(self.copied, self.session):
            self.skip("It is there with other events or another state.")
            return
        try:
            new = await self._missing(part.events)
            if new or (part.last and (self.written or self.copied is None)):
                await self._write(new, last=part.last)
        except (StaleSessionError, EventConflictError) as error:
            self.skip(error.message)
        except UNREADABLE as error:
            self.skip(f"What is there cannot be read ({reason(error)}).")
        else:
            if part.last and not self.is_skipped:
                self._count()

    async def _missing(self, events: Sequence[CopiedEvent]) -> Sequence[CopiedEvent]:
        """Compare events with the target's, and return those that the target lacks."""
        if self.copied is None or self.position >= self.copied.events:
            return events
        there = await self.target.read_copied(
            self.session.key, after=self.position, limit=len(events)
        )
        for source_event, target_event in zip(events, there, strict=False):
            if not source_event.is_same(target_event):
                self.skip(f"It is there with another event at {source_event.event.id}.")
                return ()
            self.position += 1
            self.report.events.present += 1
        return events[len(there) :]

    async def _write(self, events: Sequence[CopiedEvent], *, last: bool) -> None:
        initial = {
            name: value
            for name, value in self.session.state.items()
            if name not in self.set_by_events
        }
        part = CopiedPart(
            session=self.session,
            after=self.position,
            events=events,
            last=last,
            initial=initial if last else {},
        )
        await self.target.copy_part(part)
        self.position += len(events)
        self.written += len(events)
        self.report.events.copied += len(events)

    def skip(self, reason: str) -> None:
        """Stop copying the session, and keep the target's as it is."""
        self.is_skipped = True
        self.report.sessions.different += 1
        app, user, session = self.session.key
        self.report.problems.append(
            Problem(app=app, user=user, session=session, problem=f"{reason} It was left alone.")
        )

    def _count(self) -> None:
        sessions = self.report.sessions
        if self.copied is None:
            sessions.copied += 1
        elif self.written:
            sessions.continued += 1
        else:
            sessions.present += 1
            return
        app, user, session = self.session.key
        self.report.requests += [
            OpenRequest(app=app, user=user, session=session, tool=it.original_name, kind=it.kind)
            for it in pending_calls(self.with_calls)
            if it.kind != "long_running"
        ]


def _is_about_calls(event: Event) -> bool:
    calls = event.get_function_calls() or event.get_function_responses()
    return bool(calls or event.actions.rewind_before_invocation_id)


def _is_copy_of(copied: CopiedSession | None, session: CopiedSession) -> bool:
    """Return whether sessions that share no event are nevertheless the same."""
    if copied is None:
        return False
    same_time = abs(copied.create_time - session.create_time) < _SAME_TIME
    return same_time or canonical(copied.state) == canonical(session.state)
