"""The feed of all sessions, in order: committed events, steps, failed attempts, and prints."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from durable_adk.cli.dev.lines import Lines, logs_are_detailed
from durable_adk.cli.dev.process import Output
from durable_adk.cli.pending import request_and_commands
from durable_adk.cli.terminal import counted
from durable_adk.client.queries import InvocationFilter, invocations_by_time, pending_calls_of
from durable_adk.errors import DurableAdkError, frames_in
from durable_adk.events.event import Event
from durable_adk.log import logs_are_json
from durable_adk.sessions.records import GetSessionConfig, InvocationRecord, Status
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.session_log import SessionLog

_TICK = 0.25
_OVERLAP = 5.0
"""Overlap of two reads of the store in seconds: clocks differ, and commits take time."""
_PAGE = 100
_SLOW = 1.0
"""Seconds after which a running step gets a line; the event of a faster step suffices."""
_HIDDEN_FIELDS = {"event", "level", "logger", "timestamp", "stack", "trace_id", "span_id"}
"""Fields of a warning's record that are not shown."""


@dataclass
class _Invocation:
    """The observed state of an open invocation."""

    key: SessionKey
    tokens: int = 0
    waits: bool = False


@dataclass
class _Step:
    """A running step."""

    began: float
    key: SessionKey
    author: str
    text: str
    announced: bool = False


class SessionsFeed:
    """Writes the events and steps in the sessions of some apps.

    It reads committed events from the session store, to include those of other processes, and the
    rest from the worker's output. Everything is in order of time: before each record of the worker,
    the events up to the record's time are written.

    Args:
        sessions: The session store.
        lines: Writes the lines.
        log: File to which the worker's log and prints are appended.
        options: Options with which commands that answer calls reach the same store.
    """

    def __init__(
        self, sessions: SessionLog, lines: Lines, *, log: Path, options: Sequence[str]
    ) -> None:
        self.apps: Collection[str] = ()
        """The apps to follow."""
        self._sessions = sessions
        self._lines = lines
        self._log = log
        self._options = options
        self._queue: deque[tuple[float, Output]] = deque()
        self._wakeup = asyncio.Event()
        self._started = self._since = time.time()
        self._seen: dict[SessionKey, int] = {}
        self._open: dict[str, _Invocation] = {}
        self._steps: dict[tuple[str, str], _Step] = {}

    def enqueue(self, at: float, output: Output) -> None:
        """Queue a piece of the worker's output, to be written in order."""
        self._queue.append((at, output))
        self._wakeup.set()

    async def run(self) -> None:
        """Write the feed until cancelled; then write the queued output."""
        try:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wakeup.wait(), _TICK)
                self._wakeup.clear()
                await self._poll(self._queue[0][0] if self._queue else time.time())
                self._write_output()
                self._write_running_steps()
        finally:
            while self._queue:
                self._write_output()

    def _write_output(self) -> None:
        """Write one record, or all output of user code before the next record."""
        while self._queue:
            at, output = self._queue.popleft()
            self._write(at, output)
            if not (
                isinstance(output, bytes) and self._queue and isinstance(self._queue[0][1], bytes)
            ):
                break
        if self._queue:
            self._wakeup.set()

    async def _poll(self, until: float) -> None:
        """Write the events committed until a time, and the invocations that have ended."""
        if self._lines.quiet:
            return
        with suppress(DurableAdkError):  # the store is unavailable: the worker reports that
            since, now = self._since - _OVERLAP, time.time()
            # Read before the events, to include all events that precede a pause or an end.
            records = await self._changed(since)
            for app in self.apps:
                listed = await self._sessions.list_sessions(app_name=app, updated_since=since)
                for session in listed.sessions:
                    await self._read(session, until)
            for record in records:
                if record.update_time <= until:
                    await self._check(record)
            self._since = min(now, until)

    async def _changed(self, since: float) -> list[InvocationRecord]:
        """Return the running invocations whose status has changed since a time."""
        going = {name: known.key for name, known in self._open.items() if not known.waits}
        apps = {key.app_name for key in going.values()}
        newest = invocations_by_time(self._sessions, apps, InvocationFilter(), size=_PAGE)
        found = list[InvocationRecord]()
        async with aclosing(newest):
            async for key, record in newest:
                if record.update_time < since:
                    break
                if going.get(record.invocation_id) == key:
                    found.append(record)
        return found

    async def _read(self, session: Session, until: float) -> None:
        key = session.key
        if key not in self._seen or session.revision < self._seen[key]:
            config = GetSessionConfig(after_timestamp=self._started)
            found = await self._sessions.get_session(**key._asdict(), config=config)
            self._seen[key] = session.revision - len(found.events) if found else session.revision
        if session.revision == self._seen[key]:
            return
        for stored in await self._sessions.read_events(key, after=self._seen[key]):
            if stored.event.timestamp > until:
                break
            self._seen[key] = stored.seq
            self._show(key, stored.event)

    def _show(self, key: SessionKey, event: Event) -> None:
        name = event.invocation_id
        known = self._open.setdefault(name, _Invocation(key))
        usage = event.usage_metadata
        tokens = (usage.total_token_count if usage else None) or 0
        known.tokens, known.waits = known.tokens + tokens, False
        notes = [counted(tokens, "token")] if tokens else []
        if event.author == "user" and len(self.apps) > 1:
            notes.append(f"to {key.app_name}")
        self._lines.event(key, event, note=", ".join(notes))

    async def _check(self, record: InvocationRecord) -> None:
        """Write that an invocation waits or has ended."""
        name = record.invocation_id
        known = self._open[name]
        if record.status.closed and (record.end_seq or 0) <= self._seen[known.key]:
            del self._open[name]
            await self._ended(known, record)
        elif record.status is Status.PAUSED:
            await self._waits(name, known, record)

    async def _waits(self, name: str, known: _Invocation, record: InvocationRecord) -> None:
        calls = await pending_calls_of(self._sessions, known.key, name)
        known.waits = bool(calls)  # without calls, it is running again
        for item in calls:
            request, commands = request_and_commands(item, self._options)
            text = Text(f"waits for {request}", "bold yellow")
            self._lines.step(known.key, "", text, at=record.update_time)
            self._lines.rows(commands)

    async def _ended(self, known: _Invocation, record: InvocationRecord) -> None:
        start = record.start_seq  # the user's event, maybe stored before this process started
        first = await self._sessions.read_events(known.key, after=start - 1, upto=start)
        took = record.update_time - first[0].event.timestamp if first else 0.0
        parts = [f"{record.status} after {took:.1f} s"]
        if known.tokens:
            parts.append(counted(known.tokens, "token"))
        good = record.status is Status.COMPLETED
        style = "dim" if good else "bold red"
        self._lines.step(known.key, "", Text(", ".join(parts), style), at=record.update_time)
        self._lines.rows(("at", frame) for frame in frames_in(record.error or {}))

    def _write(self, at: float, output: Output) -> None:
        if isinstance(output, bytes):
            self._append(output)
            self._lines.pass_on(output)
            return
        if output.get("level") != "debug" or logs_are_detailed():
            line = json.dumps(output, ensure_ascii=False)
            self._append(f"{line}\n".encode())
            if logs_are_json():
                self._lines.log(line)
        self._write_record(at, output)

    def _append(self, data: bytes) -> None:
        with self._log.open("ab") as file:
            file.write(data)

    def _write_record(self, at: float, record: dict[str, Any]) -> None:
        event = str(record["event"])
        step = (str(record.get("invocation_id")), str(record.get("event_id")))
        match event:
            case "step.started":
                self._steps[step] = _running(at, record)
            case "step.ended":
                self._steps.pop(step, None)
            case "attempt.failed" if not record.get("final"):
                key, error = _key(record), record.get("error_type")
                text = (
                    f"attempt {record.get('attempt')} of {record.get('activity')} failed: {error}"
                )
                self._lines.step(key, str(record.get("agent", "")), Text(text, "red"), at=at)
                self._lines.rows(("at", frame) for frame in record.get("error_at") or ())
            case _ if record.get("level") in ("warning", "error", "critical"):
                self._warn(event, record)
            case _:
                pass

    def _warn(self, event: str, record: dict[str, Any]) -> None:
        if not logs_are_json():
            values = [
                f"{key}={value}" for key, value in record.items() if key not in _HIDDEN_FIELDS
            ]
            style = "yellow" if record["level"] == "warning" else "bold red"
            self._lines.notice(event, " ".join([event, *values]), style=style)

    def _write_running_steps(self) -> None:
        for step in self._steps.values():
            if not step.announced and time.time() - step.began > _SLOW:
                step.announced = True
                self._lines.step(step.key, step.author, Text(step.text, "dim"), at=time.time())


def _running(at: float, record: dict[str, Any]) -> _Step:
    is_model_call = record.get("step") == "call_model"
    text = "the model is thinking" if is_model_call else f"{record.get('summary')} runs"
    return _Step(at, _key(record), str(record.get("agent", "")), text)


def _key(record: dict[str, Any]) -> SessionKey:
    return SessionKey(str(record.get("app")), "", str(record.get("session")))
