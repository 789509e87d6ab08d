"""Checks of a store that was restored from a backup: I21."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

from campaign.checks.violation import Violation
from campaign.evidence import Evidence, Key, Rows
from campaign.workload import CALM, SLOW, Turn
from durable_adk.errors import BudgetExceededError, SessionRegressedError
from harness.journal import Line

KEPT = Key("plain", CALM, "plain-kept")
"""A session that the copy has, and that has lost its last message for certain."""
FORKED = KEPT._replace(session="plain-forked")
"""One more: somebody writes to it before the doctor looks."""
FORK = "fork"
"""The id of what is written there."""


class Meanwhile(StrEnum):
    """What else happens before the doctor puts back what a copy lacks."""

    COMPLETED = "completed"
    PAUSED = "paused"
    """An invocation waits for an answer, which comes when the doctor is done."""
    TIMED_OUT = "timed_out"
    CONTINUED = "continued"
    """An invocation continues as new."""
    FORKED = "forked"
    DELETED = "deleted"


BESIDE = {
    Meanwhile.COMPLETED: KEPT._replace(session="plain-beside"),
    Meanwhile.PAUSED: Key("approval", CALM, "approval-beside"),
    Meanwhile.TIMED_OUT: Key(SLOW, CALM, f"{SLOW}-beside"),
    Meanwhile.CONTINUED: Key("steps", CALM, "steps-beside"),
}
"""The sessions that lack nothing."""
GONE = KEPT._replace(session="plain-gone")
"""One more of these, which is deleted before the doctor looks."""
EXPECTED = dict.fromkeys(Meanwhile, "ok") | {Meanwhile.TIMED_OUT: BudgetExceededError.__name__}
"""How each ends."""
REFUSED = SessionRegressedError.__name__
UNTOLD = {
    "sessions": ("create_time", "update_time", "waiting"),
    "invocations": ("update_time",),
    "events": ("timestamp",),
}
"""Fields that no history has.

The store's clock, when it was written to; how many tickets there are, as who was given up before
its turn has left one in the copy; and of an event that was committed more than once when it was
made first.
"""
SHARED = ("user:noted",)
"""State that several sessions write at the same time, in an order that no history has."""
NUMBER = 1000
"""Of the messages in their sessions that come when the store is older."""
UNTOLD_EVENT = "is in no history"
STOPPED = ("abandoned", "cancelled")
"""Invocations that ended from outside.

Whoever ran their last call may have committed it and died before Temporal heard of that; it gives
no call of theirs to somebody else, who would find it committed.
"""
APART = {*BESIDE.values(), FORKED, GONE}
"""Sessions that change meanwhile, so that they have checks of their own."""
KEPT_BESIDE = ("memories",)
"""Tables beside the log, which come back as they were at the time of the backup."""
Place = tuple[Any, ...]


def divergence(found: Evidence) -> Iterator[Violation]:
    """I21: a store that is older is noticed before an append, and becomes what it was."""
    restored = found.restored
    if restored is None:
        return
    for line in restored["asked"]:
        if {line["first"], line["again"]} != {REFUSED}:
            yield Violation("an older store was not noticed", line["invocation"], line)
        if line["then"] != "ok":
            yield Violation("a message did not go on after the repair", line["invocation"], line)
    for place, one, other in _differences(restored["older"], restored["refused"]):
        yield Violation("an older store was written to", str(place), (one, other))
    for kind, outcome in EXPECTED.items():
        if restored["meanwhile"][kind] != outcome:
            ended = restored["meanwhile"][kind]
            yield Violation("what lacks nothing has another end beside it", kind, ended)
    yield from _changed_meanwhile(found, restored)
    yield from _unlike(found, restored)


def _unlike(found: Evidence, restored: dict[str, Any]) -> Iterator[Violation]:
    """Where the store that was put back is not what it was.

    A message that has waited for the repair continues while the doctor looks once more, so it may
    find that one in the middle of its run.
    """
    own = {line["invocation"] for line in restored["asked"]}
    asked = {Key(*line["turn"][:3]) for line in restored["asked"]}
    untold = left_alone(found)
    for finding in restored["left"]:
        if _session(finding) not in untold and json.loads(finding).get("invocationId") not in own:
            yield Violation("the doctor could not mend all", "", finding)
    for place, one, other in _differences(found.rows, _without(restored["mended"], own)):
        known = Key(*place[1:4]) in untold or _goes_on(place, asked)
        if one is None or not (known or _is_untold(found.rows, place, one, other)):
            yield Violation("the repair did not make it what it was", str(place), (one, other))
    for place, one, other in _differences(restored["refused"], restored["mended"]):
        key = Key(*place[1:4])
        if key in untold and key not in asked and place[0] != "state":
            yield Violation("a session that was left alone was changed", str(place), (one, other))
    yield from _appended(found, restored["mended"], own)


def _changed_meanwhile(found: Evidence, restored: dict[str, Any]) -> Iterator[Violation]:
    """Check that what a fork lacks is put behind it, and that what was deleted stays away."""
    own = Turn(*FORKED, NUMBER).invocation
    older, whole = ([*_ids(rows, FORKED)] for rows in (restored["older"], found.rows))
    now = [name for name in _ids(restored["mended"], FORKED) if not name.startswith(f"{own}.")]
    if now != [*older, FORK, *whole[len(older) :]]:
        yield Violation("what a fork lacks is not behind it", str(FORKED), [now, whole])
    if names := _ids(restored["mended"], GONE):
        yield Violation("a deleted session is put back", str(GONE), names)


def _ids(rows: Rows, key: Key) -> list[str]:
    """The ids of a session's events, in order."""
    own = sorted((row["seq"], row["event_id"]) for row in rows["events"] if _key(row) == key)
    return [name for _, name in own]


def lost_events(whole: Rows, older: Rows) -> dict[Key, int]:
    """By session, how many events a copy lacks."""
    counts: dict[Key, int] = defaultdict(int)
    for rows, number in ((whole, 1), (older, -1)):
        for row in rows["events"]:
            counts[_key(row)] += number
    return {key: number for key, number in counts.items() if number > 0}


def _appended(found: Evidence, mended: Rows, own: set[str]) -> Iterator[Violation]:
    """Check that events after the repair follow the earlier ones."""
    ends: dict[Key, int] = defaultdict(int)
    for row in found.rows["events"]:
        ends[_key(row)] = max(ends[_key(row)], row["seq"])
    seen: dict[str, list[int]] = defaultdict(list)
    for row in mended["events"]:
        if row["invocation_id"] in own:
            seen[row["invocation_id"]].append(row["seq"] - ends[_key(row)])
    for name in own:
        if not seen[name] or sorted(seen[name]) != list(range(1, len(seen[name]) + 1)):
            yield Violation("a message after the repair has lost its place", name, seen[name])


def _without(rows: Rows, invocations: set[str]) -> Rows:
    """Rows of other invocations only."""
    return {
        table: [row for row in lines if row.get("invocation_id") not in invocations]
        for table, lines in rows.items()
    }


def _goes_on(place: Place, asked: set[Key]) -> bool:
    """Whether a row changes with a session's next message: its head, and its state."""
    table, *key = place
    return table in ("sessions", "state") and Key(*key[:3]) in asked


def _is_untold(rows: Rows, place: Place, one: Line, other: Line | None) -> bool:
    """Return whether a row is of the last commit of a workflow that was terminated or cancelled.

    Temporal has no record of it; the repair writes a closing event in its place.
    """
    stopped = {
        (*_key(row), row["invocation_id"])
        for row in rows["invocations"]
        if row["status"] in STOPPED
    }
    table, *key = place
    if table == "state":
        return any(Key(*key[:3]) == Key(*run[:3]) for run in stopped)
    sealed = other is not None and str(other.get("event_id")).endswith(".sealed")
    return table == "events" and sealed and (*key[:3], one["invocation_id"]) in stopped


def left_alone(found: Evidence) -> set[Key]:
    """The sessions that the doctor leaves alone because an event is in no history, as it says.

    A guard says how many of those that have lost events they may be.
    """
    left: list[str] = found.restored["left"] if found.restored else []
    return {_session(finding) for finding in left if UNTOLD_EVENT in finding}


def _session(finding: str) -> Key:
    told = json.loads(finding)
    return Key(told["app"], told["user"], told["session"])


def _differences(one: Rows, other: Rows) -> Iterator[tuple[Place, Line | None, Line | None]]:
    """The rows that are not alike, with where they are."""
    left, right = dict(_told(one)), dict(_told(other))
    for place in sorted({*left, *right}, key=str):
        if left.get(place) != right.get(place):
            yield place, left.get(place), right.get(place)


def _told(rows: Rows) -> Iterable[tuple[Place, Line]]:
    """Return each row by its key, without the fields that no history has."""
    for table in rows.keys() - KEPT_BESIDE:
        for row in rows[table]:
            if _key(row) in APART:
                continue
            if table == "state" and (row["key"] in SHARED or not row["app_name"]):
                continue  # what is of no app is how far the store was compared with Temporal
            if table == "sessions" and not row["revision"]:
                continue  # nothing has happened in it, so it is in no history
            own = {"events": "seq", "invocations": "invocation_id", "state": "key"}.get(table)
            place = (table, *_key(row), *((row[own],) if own else ()))
            untold = UNTOLD.get(table, ())
            told = {name: value for name, value in row.items() if name not in untold}
            yield place, {**told, "body": _timeless(row["body"])} if table == "events" else told


def _timeless(body: str) -> str:
    """A stored event's JSON without its time."""
    return re.sub(r'"timestamp":[0-9.e+]+', "", body)


def _key(row: Line) -> Key:
    return Key(row["app_name"], row["user_id"], row["session_id"])
