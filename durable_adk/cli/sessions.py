"""``durable-adk sessions``, ``show`` and ``attempts``: the contents of the session store."""

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import typer

from durable_adk.cli.connection import CliConnection
from durable_adk.cli.pending import app_name, pick
from durable_adk.cli.terminal import (
    EventPrinter,
    compact,
    counted,
    local_time,
    print_heading,
    print_rows,
    print_table,
)
from durable_adk.client.queries import (
    InvocationFilter,
    find_invocations,
    pending_calls_of,
    read_attempts,
    read_unfinished,
    recent_sessions,
)
from durable_adk.errors import SessionNotFoundError, frames_in
from durable_adk.sessions.call_attempt import CallAttempt
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.unfinished_branch import UnfinishedBranch

WAIT = 1.0
"""Seconds between two reads of ``show --follow`` without a notification of a change."""


async def sessions(
    connection: CliConnection,
    target: str | None,
    *,
    user: str | None,
    status: str | None,
    limit: int,
    lines: bool,
) -> None:
    """List the sessions, the newest last."""
    async with connection.sessions(existing=True) as store:
        app = await app_name(store, target)
        where = InvocationFilter(app=app, user=user)
        wanted = Status(status) if status else None
        found = [item async for item in _listed(store, where, wanted, limit)]
    found.reverse()
    if lines:
        for item in found:
            typer.echo(json.dumps(item, ensure_ascii=False))
    elif found:
        rows = [[local_time(item.pop("updated")), *map(str, item.values())] for item in found]
        print_table(["updated", *found[0]], rows)
    else:
        typer.echo("There are no sessions.")


async def _listed(
    store: SessionLog, where: InvocationFilter, status: Status | None, limit: int
) -> AsyncGenerator[dict[str, Any]]:
    """Yield the list's entries for sessions, the newest first."""
    async for session in recent_sessions(store, where):
        if limit == 0:
            return
        records = await _invocations(store, session.key)
        last = records[-1].status if records else None
        if status not in (None, last):
            continue
        limit -= 1
        waiting = [
            call
            for one in records
            if not one.status.closed
            for call in await pending_calls_of(store, session.key, one.invocation_id)
        ]
        yield {
            "updated": session.last_update_time,
            "status": last.value if last else "-",
            "waiting": len(waiting),
            "invocations": len(records),
            "events": session.revision,
            "session": session.id,
            "user": session.user_id,
            "app": session.app_name,
        }


async def _invocations(store: SessionLog, key: SessionKey) -> list[InvocationRecord]:
    """Return the invocations of a session, in order."""
    records = [one async for _, one in store.all_invocations(**key._asdict())]
    return sorted(records, key=lambda one: one.start_seq)


async def show(
    connection: CliConnection,
    name: str,
    *,
    target: str | None,
    user: str | None,
    session: str | None,
    as_json: bool,
    follow: bool,
) -> None:
    """Print a session or an invocation: events, state, artifacts, failed attempts and tokens."""
    async with connection.sessions(existing=True) as store:
        app = await app_name(store, target)
        where = InvocationFilter(app=app, user=user, session=session)
        key, invocation = await _find(store, where, name)
        record = await SessionReport.read(store, key, invocation)
        printer = EventPrinter(as_json=as_json, timed=True)
        if not as_json:
            record.print(printer)
        elif follow:
            for item in record.events:
                printer.show(item.event)
        else:
            typer.echo(json.dumps(record.as_json(), ensure_ascii=False))
        if follow:
            async for item in new_events(store, key, invocation, after=record.read_to):
                printer.show(item.event)


async def _find(
    store: SessionLog, where: InvocationFilter, start: str
) -> tuple[SessionKey, str | None]:
    """Return the session and, if an invocation was named, its id."""
    found = dict[tuple[str, SessionKey], str | None]()
    async for key, record in find_invocations(store, where):
        if record.invocation_id.startswith(start):
            found[record.invocation_id, key] = record.invocation_id
        if key.session_id.startswith(start):
            found[key.session_id, key] = None
    if not found:  # sessions without invocations
        async for one in recent_sessions(store, where):
            if one.id.startswith(start):
                found[one.id, one.key] = None
    items = ((name, key, (key, invocation)) for (name, key), invocation in found.items())
    return pick(items, start, "session or invocation")


async def new_events(
    store: SessionLog, key: SessionKey, invocation: str | None, *, after: int
) -> AsyncGenerator[StoredEvent]:
    """Yield the new events of a session, or of an invocation until it is closed."""
    while True:
        record = await store.get_invocation(key, invocation) if invocation else None
        for item in await store.read_events(key, after=after):
            after = item.seq
            if invocation in (None, item.event.invocation_id):
                yield item
        if record is not None and record.sealed:
            return
        await store.wait_for_change(key, after=after, timeout=WAIT)


@dataclass(frozen=True, kw_only=True)
class SessionReport:
    """The stored data of a session, or of one of its invocations."""

    session: Session
    invocations: dict[str, InvocationRecord]
    attempts: dict[str, list[CallAttempt]]
    """The attempts without a result, by invocation."""
    unfinished: dict[str, list[UnfinishedBranch]]
    """The branches of graphs that ended early, by invocation."""
    events: list[StoredEvent]
    read_to: int
    """The sequence number of the session's last event."""

    @classmethod
    async def read(
        cls, store: SessionLog, key: SessionKey, invocation: str | None
    ) -> "SessionReport":
        """Read a session, or the part of it that belongs to an invocation."""
        session = await store.get_session(**key._asdict())
        if session is None:
            raise SessionNotFoundError(f"Session {key.session_id!r} was deleted meanwhile.")
        records = [
            one for one in await _invocations(store, key) if invocation in (None, one.invocation_id)
        ]
        events = await store.read_events(key)
        return cls(
            session=session,
            invocations={one.invocation_id: one for one in records},
            attempts={
                one.invocation_id: await read_attempts(store, key, one.invocation_id)
                for one in records
            },
            unfinished={
                one.invocation_id: await read_unfinished(store, key, one.invocation_id)
                for one in records
            },
            events=[one for one in events if invocation in (None, one.event.invocation_id)],
            read_to=events[-1].seq if events else 0,
        )

    def print(self, printer: EventPrinter) -> None:
        """Write the report as text."""
        one = self.session
        print_heading(f"session {one.id} of user {one.user_id}, app {one.app_name}")
        print_rows(
            [
                ("updated", local_time(one.last_update_time)),
                ("events", str(one.revision)),
                *(("state", f"{key} = {compact(value)}") for key, value in one.state.items()),
                *(("artifact", f"{name}, version {n}") for name, n in self.artifacts.items()),
            ]
        )
        seen = set[str]()
        for name, items in groupby(self.events, key=lambda item: item.event.invocation_id):
            print_heading(f"\ninvocation {name}" + (", continued" if name in seen else ""))
            if name not in seen:
                print_rows(self._about(name))
            seen.add(name)
            for item in items:
                printer.show(item.event)

    def _about(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the lines about an invocation that precede its events."""
        record = self.invocations.get(name)
        if record is not None:
            error = record.error or {}
            status_parts = [record.status.value, error.get("type") or error.get("class")]
            yield "status", ": ".join(filter(None, [*status_parts, error.get("message")]))
            yield from (("at", frame) for frame in frames_in(error))
        yield from (("warning", one.reason) for one in self.unfinished.get(name, ()))
        calls, tokens = self._usage(name)
        if calls:
            yield "model", f"{counted(calls, 'response')}, {tokens:,} tokens"
        for attempt in self.attempts.get(name, ()):
            yield "attempt", headline(attempt)
            if reason := why(attempt):
                yield "", reason

    def _usage(self, name: str) -> tuple[int, int]:
        """Return how many of an invocation's model responses report tokens, and their tokens."""
        counts = [
            usage.total_token_count or 0
            for item in self.events
            if item.event.invocation_id == name and (usage := item.event.usage_metadata)
        ]
        return len(counts), sum(counts)

    @property
    def artifacts(self) -> dict[str, int]:
        """The newest version of each artifact that the events saved."""
        return {
            name: version
            for item in self.events
            for name, version in item.event.actions.artifact_delta.items()
        }

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        one = self.session
        return {
            **one.key.ids(),
            "updated": one.last_update_time,
            "state": one.state,
            "artifacts": self.artifacts,
            "invocations": [
                {
                    "invocation": name,
                    "status": record.status.value,
                    "error": record.error,
                    "tokens": self._usage(name)[1],
                    "unfinished": [item.to_value() for item in self.unfinished[name]],
                    "attempts": [item.to_value() for item in self.attempts[name]],
                }
                for name, record in self.invocations.items()
            ],
            "events": [item.event.to_value() for item in self.events],
        }


async def attempts(
    connection: CliConnection,
    target: str | None,
    *,
    user: str | None,
    session: str | None,
    invocation: str | None,
    lines: bool,
) -> None:
    """List the attempts at calls that failed, were cancelled or were lost, and their tokens."""
    async with connection.sessions(existing=True) as store:
        app = await app_name(store, target)
        where = InvocationFilter(app=app, user=user, session=session)
        records = [
            one
            async for one in find_invocations(store, where)
            if invocation in (None, one[1].invocation_id)
        ]
        records.sort(key=lambda one: one[1].update_time, reverse=True)
        found = [
            (key, record.invocation_id, attempt)
            for key, record in records
            for attempt in await read_attempts(store, key, record.invocation_id)
        ]
    for key, name, attempt in found:
        if lines:
            item = key.ids() | {"invocation": name} | attempt.to_value()
            typer.echo(json.dumps(item, ensure_ascii=False))
            continue
        print_heading(headline(attempt), style="bold yellow")
        print_rows(
            [
                ("error", why(attempt)),
                ("session", f"{key.session_id} of user {key.user_id}, app {key.app_name}"),
                ("event", attempt.event_id),
            ]
        )
    if not lines:
        typer.echo(_sum([attempt for _, _, attempt in found]))


def headline(attempt: CallAttempt) -> str:
    """Return how an attempt without a result ended, on which worker, and the model's usage."""
    words = [f"attempt {attempt.attempt} {attempt.ended}"]
    if attempt.model:
        words.append(f"model {attempt.model}")
    if attempt.tool:
        words.append(f"tool {attempt.tool}")
    if attempt.worker:
        words.append(f"on {attempt.worker}")
    if attempt.started is not None:
        words.append(f"at {local_time(attempt.started)}")
    if attempt.seconds is not None:
        words.append(f"after {attempt.seconds:.1f} s")
    if not attempt.tool:
        words.append("tokens unknown" if attempt.tokens is None else f"{attempt.tokens:,} tokens")
    return ", ".join(words)


def why(attempt: CallAttempt) -> str:
    """Return the error of an attempt; empty if it has none."""
    return ": ".join(filter(None, [attempt.error_type, attempt.error_message]))


def _sum(attempts: Sequence[CallAttempt]) -> str:
    if not attempts:
        return "No attempt was without a result."
    counts = [one.tokens for one in attempts if not one.tool]
    tokens = [one for one in counts if one is not None]
    unknown = f"; unknown for {len(counts) - len(tokens)}" if len(tokens) < len(counts) else ""
    used = f": {sum(tokens):,} tokens{unknown}" if counts else ""
    return f"{counted(len(attempts), 'attempt')} without a result{used}."
