"""Sessions whose events or state do not add up."""

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
"""Events that are in memory at a time."""
_SHOWN = 10


async def broken_logs(
    store: SessionLog, key: SessionKey, records: list[InvocationRecord]
) -> list[Case]:
    """What is wrong with a session's log, for somebody to look at.

    Nothing of it can come of a crash, so something else has written to the tables, and what that
    meant is not for a program to guess. State that sessions share is not looked at: its last writer
    may be any of them, and what a session was created with counts too.
    """
    for _ in range(ATTEMPTS):
        revision, state = await store.read_state(key)
        log = _Log(records, folded=await store.read_initial_state(key))
        try:
            await _read(store, key, revision, log)
        except ValidationError as error:
            return [case(Kind.BROKEN_LOG, key, f"an event cannot be read: {error}")]
        if (await store.read_state(key))[0] == revision:
            break  # read at one point in time: nobody has written in between
    else:
        return []  # it is being written to, so it is looked at another time
    problems = [*log.gaps(revision), *log.strangers(), *log.differences(state, key)]
    return [case(Kind.BROKEN_LOG, key, problem) for problem in problems]


async def _read(store: SessionLog, key: SessionKey, revision: int, log: "_Log") -> None:
    after = 0
    while page := await store.read_events(key, after=after, upto=revision, limit=PAGE):
        log.add(page)
        after = page[-1].seq


@dataclass
class _Log:
    """What has been read of a session's log, without the events themselves."""

    records: list[InvocationRecord]
    folded: dict[str, Any]
    """The state, as it follows from what was read."""
    last: int = 0
    missing: list[int] = field(default_factory=list[int])
    """The first that are."""
    ids: set[str] = field(default_factory=set[str])
    twice: set[str] = field(default_factory=set[str])
    owners: dict[int, str | None] = field(default_factory=dict[int, str | None])
    """Invocations of the events with which one is said to begin."""

    def __post_init__(self) -> None:
        self.owners = {record.start_seq: None for record in self.records}

    def add(self, page: Iterable[StoredEvent]) -> None:
        """Read on."""
        for item in page:
            self._pass_to(item.seq)
            self.last = item.seq
            (self.twice if item.event.id in self.ids else self.ids).add(item.event.id)
            if item.seq in self.owners:
                self.owners[item.seq] = item.event.invocation_id
            self.folded |= item.event.actions.state_delta

    def _pass_to(self, seq: int) -> None:
        left = _SHOWN - len(self.missing)
        self.missing += range(self.last + 1, min(seq, self.last + 1 + left))

    def gaps(self, revision: int) -> Iterator[str]:
        """I3: 1, 2, 3 ... up to the revision."""
        self._pass_to(revision + 1)
        if self.missing:
            yield f"of {revision} events these are missing: {', '.join(map(str, self.missing))}"
        if self.twice:
            yield f"these events are there twice: {', '.join(sorted(self.twice)[:_SHOWN])}"

    def strangers(self) -> Iterator[str]:
        """Invocations whose user event is not where their record says."""
        for record in self.records:
            if self.owners.get(record.start_seq) != record.invocation_id:
                yield (
                    f"invocation {record.invocation_id} is said to begin with event "
                    f"{record.start_seq}, which is none of its"
                )

    def differences(self, state: dict[str, Any], key: SessionKey) -> Iterator[str]:
        """I4: the session's own state is what it began with, and then each event's delta."""
        own = {name: value for name, value in self.folded.items() if is_own(key, name)}
        wrong = sorted(name for name, value in own.items() if state.get(name, _NONE) != value)
        if wrong:
            yield f"the state is not what the events say for the keys {', '.join(wrong[:_SHOWN])}"


_NONE = object()
