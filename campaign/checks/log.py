"""Checks of the session store by itself: I1, I3, I4, I5, I6, I24."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from campaign.checks.violation import Violation
from campaign.evidence import Evidence, Key
from campaign.workload import ADDED

CLOSED = frozenset(("completed", "failed", "cancelled", "abandoned"))


def append_once(found: Evidence) -> Iterator[Violation]:
    """I1: no event is stored twice, and the commits of one event got one number."""
    for key, rows in found.events.items():
        for event, times in Counter(row.id for row in rows).items():
            if times > 1:
                yield Violation("an event is stored twice", event, {"session": key})
    numbers: dict[str, set[int]] = defaultdict(set)
    for line in found.commits:
        if line["phase"] == "ok" and "seq" in line:
            numbers[line["event"]].add(line["seq"])
    for event, seqs in numbers.items():
        if len(seqs) > 1:
            yield Violation("repeats of a commit got different numbers", event, sorted(seqs))


def order(found: Evidence) -> Iterator[Violation]:
    """I3: numbers are 1, 2, 3 ...; within a lane of an invocation events are in loop order."""
    for key, rows in found.events.items():
        seqs = [row.seq for row in rows]
        if seqs != list(range(1, len(rows) + 1)):
            yield Violation("the numbers have gaps", str(key), seqs)
        last: dict[str, int] = {}
        for row in rows:
            lane, _, place = row.id.rpartition(".")
            pauses = found.invocations.get(row.invocation, {}).get("pauses", 0)
            if not place.isdecimal() or pauses:
                continue  # a request for confirmation precedes the response to it (TOL-63)
            if int(place) <= last.get(lane, -1):
                yield Violation("an event stands before an earlier one", row.id, last[lane])
            last[lane] = int(place)


def fold(found: Evidence) -> Iterator[Violation]:
    """I4: state is what the committed changes add up to; no `temp:` key is stored anywhere."""
    written: dict[tuple[Key, str], dict[Key, Any]] = defaultdict(dict)
    for key, rows in found.events.items():
        for row in rows:
            for name, value in _delta(row.body).items():
                if name.startswith("temp:"):
                    yield Violation("a temp: key is stored in an event", row.id, name)
                written[_owner(key, name), name][key] = value
    stored = {
        (Key(line["app_name"], line["user_id"], line["session_id"]), line["key"]): line["value"]
        for line in found.state
    }
    for place in written.keys() - stored.keys():
        yield Violation("a committed change is not in the state", str(place))
    for place, value in stored.items():
        # Sessions that share a key have no order among them, but the last is the last of one.
        if json.loads(value) not in written.get(place, {}).values():
            yield Violation("the state is not what the changes add up to", str(place), value)


def added(found: Evidence) -> Iterator[Violation]:
    """I4: what calls have added to a list is there once, also if they ran at the same time."""
    lists = {
        (Key(line["app_name"], line["user_id"], line["session_id"]), line["key"]): line["value"]
        for line in found.state
    }
    for key, rows in found.events.items():
        for tool, place in ADDED.items():
            wanted: Counter[str] = Counter(
                response["response"]["nonce"]
                for row in rows
                for response in _responses(row.body)
                if response["name"] == tool and "nonce" in (response["response"] or {})
            )
            kept: Counter[str] = Counter(json.loads(lists.get((key, place), "[]")))
            if wanted != kept:
                yield Violation(
                    "an addition to a list is lost or doubled",
                    str(key),
                    {"place": place, "lost": wanted - kept, "more": kept - wanted},
                )


def atomic(found: Evidence) -> Iterator[Violation]:
    """I5: events, the session's row and the invocation's row changed together."""
    by_invocation = found.by_invocation()
    for key in found.heads.keys() | found.events.keys():
        count = len(found.events.get(key, []))
        revision = found.heads.get(key, {}).get("revision")
        if revision != count:
            yield Violation("the session's row disagrees with its log", str(key), (revision, count))
    for name in by_invocation.keys() - found.invocations.keys():
        yield Violation("events of an invocation that was never opened", name)
    for name, line in found.invocations.items():
        rows = by_invocation.get(name, [])
        if not rows or rows[0].seq != line["start_seq"]:
            yield Violation("an invocation does not begin where its row says", name, line)
        elif line["status"] in CLOSED and rows[-1].seq != line["end_seq"]:
            yield Violation("an invocation does not end where its row says", name, line)


def single_writer(found: Evidence) -> Iterator[Violation]:
    """I6: invocations do not interleave; who was refused has written nothing."""
    for key, rows in found.events.items():
        stretches = [name for name, _ in groupby(row.invocation for row in rows)]
        for name, times in Counter(stretches).items():
            if times > 1 + found.invocations.get(name, {}).get("pauses", 0):
                yield Violation("invocations interleave", str(key), stretches)
    open_tries: Counter[str] = Counter()
    for line in found.commits:
        if line["phase"] == "begun":
            open_tries[line["event"]] += 1
        elif line["phase"] == "refused" and line["error"] in (
            "LeaseLostError",
            "EventConflictError",
        ):
            open_tries[line["event"]] -= 1
    for rows in found.events.values():
        for row in rows:
            if not open_tries[row.id]:
                yield Violation("an event is stored that nobody was let write", row.id)


def clean_end(found: Evidence) -> Iterator[Violation]:
    """I24: no lease is held."""
    for key, head in found.heads.items():
        if head["lease_invocation_id"] is not None:
            yield Violation("a lease is left", str(key), head["lease_invocation_id"])


def _responses(body: dict[str, Any]) -> list[dict[str, Any]]:
    content: dict[str, Any] = body.get("content") or {}
    parts: list[dict[str, Any]] = content.get("parts", [])
    return [part["function_response"] for part in parts if part.get("function_response")]


def _delta(body: dict[str, Any]) -> dict[str, Any]:
    actions: dict[str, Any] = body.get("actions") or {}
    return actions.get("state_delta") or {}


def _owner(key: Key, name: str) -> Key:
    if name.startswith("app:"):
        return Key(key.app, "", "")
    return Key(key.app, key.user, "") if name.startswith("user:") else key
