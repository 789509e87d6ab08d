"""Sessions whose events or state are inconsistent."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from durable_adk.ops.doctor.findings import Case, Kind, case
from durable_adk.sessions.log.rebuild import is_own
from durable_adk.sessions.records import InvocationRecord, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog

ATTEMPTS = 3
PAGE = 500
"""Events in memory at a time."""
_MAX_SHOWN = 10
_MISSING = object()


async def broken_logs(
    store: SessionLog, key: SessionKey, records: list[InvocationRecord]
) -> list[Case]:
    """Return the inconsistencies in a session's log, which an operator must judge.

    No crash can cause them: another program has written to the tables, and its intention cannot be
    guessed. State shared between sessions is not checked, because any of them may have written it
    last, and because a session's initial state counts too.
    """
    for _ in range(ATTEMPTS):
        revision, state = await store.read_state(key)
        check = _LogCheck(records, folded=await store.read_initial_state(key))
        try:
            await _read(store, key, revision, check)
        except ValidationError as error:
            return [case(Kind.BROKEN_LOG, key, f"an event cannot be parsed: {error}")]
        if await store.read_revision(key) == revision:
            break  # nothing was committed between the reads: they are one consistent snapshot
    else:
        return []  # the session is being written to; a later examination will check it
    problems = [*check.gaps(revision), *check.misplaced_records(), *check.differences(state, key)]
    return [case(Kind.BROKEN_LOG, key, problem) for problem in problems]


async def _read(store: SessionLog, key: SessionKey, revision: int, check: "_LogCheck") -> None:
    after = 0
    while page := await store.read_events(key, after=after, upto=revision, limit=PAGE):
        check.add(page)
        after = page[-1].seq


@dataclass
class _LogCheck:
    """Facts about a session's log, collected page by page without keeping the events."""

    records: list[InvocationRecord]
    folded: dict[str, Any]
    """The state that results from the events read so far."""
    last: int = 0
    missing: list[int] = field(default_factory=list[int])
    """The first missing sequence numbers."""
    ids: set[str] = field(default_factory=set[str])
    duplicates: set[str] = field(default_factory=set[str])
    owners: dict[int, str | None] = field(default_factory=dict[int, str | None])
    """The invocation ids found at the sequence numbers where the records start."""

    def __post_init__(self) -> None:
        self.owners = {record.start_seq: None for record in self.records}

    def add(self, page: Iterable[StoredEvent]) -> None:
        """Check the next events."""
        for item in page:
            self._note_missing(item.seq)
            self.last = item.seq
            (self.duplicates if item.event.id in self.ids else self.ids).add(item.event.id)
            if item.seq in self.owners:
                self.owners[item.seq] = item.event.invocation_id
            self.folded |= item.event.actions.state_delta

    def _note_missing(self, seq: int) -> None:
        left = _MAX_SHOWN - len(self.missing)
        self.missing += range(self.last + 1, min(seq, self.last + 1 + left))

    def gaps(self, revision: int) -> Iterator[str]:
        """I3: sequence numbers are 1, 2, 3 ... up to the revision."""
        self._note_missing(revision + 1)
        if self.missing:
            missing = ", ".join(map(str, self.missing))
            yield f"of {revision} events these are missing: {missing}"
        if self.duplicates:
            duplicates = ", ".join(sorted(self.duplicates)[:_MAX_SHOWN])
            yield f"these events are stored twice: {duplicates}"

    def misplaced_records(self) -> Iterator[str]:
        """Yield the invocations whose record points to an event that is not theirs."""
        for record in self.records:
            if self.owners.get(record.start_seq) != record.invocation_id:
                yield (
                    f"invocation {record.invocation_id} starts at event {record.start_seq} "
                    "according to its record, but that event is not its own"
                )

    def differences(self, state: dict[str, Any], key: SessionKey) -> Iterator[str]:
        """I4: the session's own state is its initial state with each event's delta applied."""
        own = {name: value for name, value in self.folded.items() if is_own(key, name)}
        wrong = sorted(name for name, value in own.items() if state.get(name, _MISSING) != value)
        if wrong:
            keys = ", ".join(wrong[:_MAX_SHOWN])
            yield f"the state differs from the events for the keys {keys}"
