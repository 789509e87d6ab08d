"""The copying of sessions from one store to another, which can be stopped and repeated at any time.

A session's events are compared with those that its copy has, and only what follows is appended. So
a repeat continues where the last one was stopped, copies nothing twice, and takes over what was
said since. A session of the same name that has other events is left alone.
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
"""Events that are compared, and written in one transaction."""
_SAME_TIME = 1e-3
"""Seconds; google-adk keeps microseconds."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What was not copied, and why."""

    app: str
    user: str = ""
    """Empty for what belongs to the app."""
    session: str = ""
    """Empty for what belongs to the user."""
    event: str = ""
    problem: str


@dataclass(frozen=True, kw_only=True)
class OpenRequest:
    """A tool of a copied session that waits for a confirmation or a credential.

    google-adk finds it in the events when the answer comes. Here an answer goes to the workflow
    that waits for it, and there is none.
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
    """None if its row cannot be read: a problem says why."""
    events: Sequence[CopiedEvent] = ()
    problems: Sequence[Problem] = ()
    """The rows among these that cannot be read."""
    first: bool = True
    last: bool = True


class Source(Protocol):
    """Sessions that are copied."""

    def parts(self) -> AsyncGenerator[SourcePart]:
        """Yield the sessions in parts, one session after the other."""
        ...

    def states(self) -> AsyncGenerator[tuple[SessionKey, dict[str, Any] | Problem]]:
        """Yield app and user state by owner, which has empty ids for what it is not."""
        ...


class Target(Protocol):
    """The store that they are copied to; see `sessions.log.copies.Copies`."""

    async def read_session(self, key: SessionKey) -> CopiedSession | None:
        """Read a session with the number of its events; None if it is missing."""
        ...

    async def read_copied(
        self, key: SessionKey, *, after: int = 0, limit: int | None = None
    ) -> list[CopiedEvent]:
        """Read events of a session, in order."""
        ...

    async def copy_part(self, part: CopiedPart) -> None:
        """Append events; raises if others wrote to the session."""
        ...

    async def copy_state(self, key: SessionKey, values: Mapping[str, Any]) -> dict[str, Any]:
        """Set missing keys, and return those that have other values, which are kept."""
        ...


@dataclass(kw_only=True)
class SessionCounts:
    """Each session that was found is counted once more below."""

    found: int = 0
    copied: int = 0
    """They were missing."""
    continued: int = 0
    """They were there in part, and have got the rest."""
    present: int = 0
    """They were there, and may have got on since."""
    different: int = 0
    """They are there with other events, and were left alone."""
    unreadable: int = 0


@dataclass(kw_only=True)
class EventCounts:
    """The events of the sessions that are there now."""

    copied: int = 0
    present: int = 0
    unreadable: int = 0
    """They are missing in the copy."""


@dataclass(kw_only=True)
class CopyReport:
    """What became of a copy."""

    sessions: SessionCounts = field(default_factory=SessionCounts)
    events: EventCounts = field(default_factory=EventCounts)
    problems: list[Problem] = field(default_factory=list[Problem])
    requests: list[OpenRequest] = field(default_factory=list[OpenRequest])
    """Of the sessions that were copied or continued."""

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object, without the empty ids of problems."""
        problems = [{k: v for k, v in asdict(one).items() if v} for one in self.problems]
        return {**asdict(self), "problems": problems}


async def copy_sessions(source: Source, target: Target) -> CopyReport:
    """Copy all sessions, and the state of apps and users, and report on all that was found."""
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
    """A session that is being copied."""

    session: CopiedSession
    target: Target
    report: CopyReport
    copied: CopiedSession | None
    """What the target had of it at first."""
    position: int = 0
    """Events that the target is known to have."""
    written: int = 0
    is_given_up: bool = False
    set_by_events: set[str] = field(default_factory=set[str])
    with_calls: list[Event] = field(default_factory=list[Event])
    """Those events that say which calls wait."""

    @classmethod
    async def begin(
        cls, session: CopiedSession, target: Target, report: CopyReport
    ) -> "_SessionCopy":
        copied = await target.read_session(session.key)
        return cls(session, target, report, copied)

    async def add(self, part: SourcePart) -> None:
        """Copy the next events."""
        if self.is_given_up:
            return
        for item in part.events:
            self.set_by_events |= item.event.actions.state_delta.keys()
            if _is_about_calls(item.event):
                self.with_calls.append(item.event)
        has_none = self.copied and not (self.copied.events and part.events)
        if part.first and has_none and not _is_copy_of(self.copied, self.session):
            self.give_up("It is there with other events or another state.")
            return
        try:
            new = await self._missing(part.events)
            if new or (part.last and (self.written or self.copied is None)):
                await self._write(new, last=part.last)
        except (StaleSessionError, EventConflictError) as error:
            self.give_up(error.message)
        except UNREADABLE as error:
            self.give_up(f"What is there cannot be read ({reason(error)}).")
        else:
            if part.last and not self.is_given_up:
                self._count()

    async def _missing(self, events: Sequence[CopiedEvent]) -> Sequence[CopiedEvent]:
        """Compare events with those that the target has, and return those that it lacks."""
        if self.copied is None or self.position >= self.copied.events:
            return events
        there = await self.target.read_copied(
            self.session.key, after=self.position, limit=len(events)
        )
        for mine, theirs in zip(events, there, strict=False):
            if not mine.is_same(theirs):
                self.give_up(f"It is there with another event at {mine.event.id}.")
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

    def give_up(self, reason: str) -> None:
        """Leave the target's session alone."""
        self.is_given_up = True
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
    """Whether sessions that have no event in common are the same nevertheless."""
    if copied is None:
        return False
    same_time = abs(copied.create_time - session.create_time) < _SAME_TIME
    return same_time or canonical(copied.state) == canonical(session.state)
