"""Checks of what users and operators do by hand: I11, I15, I16, I18."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from campaign.checks.effects import REQUEST
from campaign.checks.log import CLOSED
from campaign.checks.privacy import CANARY, three
from campaign.checks.violation import Violation
from campaign.evidence import Evidence, Key
from campaign.workload import CLEARED, DENIED, WORD
from durable_adk.errors import (
    EventConflictError,
    InvocationCancelledError,
    InvocationNotFoundError,
    InvocationTerminatedError,
    LeaseLostError,
    SessionNotFoundError,
)
from durable_adk.sessions import SessionKey
from durable_adk.wire.messages import workflow_id
from harness.journal import Line

GONE = frozenset(
    error.__name__
    for error in (
        LeaseLostError,
        InvocationCancelledError,
        InvocationNotFoundError,
        InvocationTerminatedError,
        SessionNotFoundError,
        EventConflictError,
    )
)
"""The errors that a client may get whose session was deleted.

`InvocationNotFoundError`: its invocation is paused, and a session of the same name was created,
which lacks it. `InvocationTerminatedError`: a frozen worker opened it after its cancellation, and
the session's next message ended it.
"""


def denied(found: Evidence) -> Iterator[Violation]:
    """I16: a call that a user has denied is in the ledger 0 times, on whatever release it came.

    Except for runs that had begun on a release that requests no confirmation: their
    workers were lost, and another one asked.
    """
    asks_nobody = {line["pid"] for line in found.starts if line["release"] > 1}
    turns, runs = found.turns, defaultdict[str, list[Line]](list)
    for line in found.ledger:
        untold = line["pid"] in asks_nobody and line.get("confirmed") is None
        of_both = turns[line["invocation"]].app == DENIED if line["invocation"] in turns else False
        if line["phase"] == "begun" and not (untold and of_both):
            runs[line["key"]].append(line)
    for name, call in denials(found):
        if ran := runs[f"{name}:{call}"]:
            yield Violation("a call that was denied has run", name, ran)


def denials(found: Evidence) -> Iterator[tuple[str, str]]:
    """The calls that were denied, with their invocations."""
    for name, rows in found.by_invocation().items():
        requests: dict[str, Any] = {
            call["id"]: call["args"]["originalFunctionCall"]["id"]
            for row in rows
            for call in row.calls
            if call["name"] == REQUEST
        }
        for row in rows:
            for answer in row.responses:
                if answer["id"] in requests and answer["response"].get("confirmed") is False:
                    yield name, requests[answer["id"]]


def denied_after_deploy(found: Evidence) -> int:
    """Return how many of them came back to a worker whose release requests no confirmation."""
    later = {line["pid"] for line in found.starts if line["release"] > 1}
    turned_down = {
        line["decided"]
        for line in found.tasks
        if line["phase"] == "ended" and line["pid"] in later and line["decided"]
    }
    of_both = {name for name, turn in found.turns.items() if turn.app == DENIED}
    keys = {f"{name}:{call}" for name, call in denials(found) if name in of_both}
    return len(keys & turned_down)


class _Deletion(NamedTuple):
    """From when until when a session may have been deleted."""

    began: float
    ended: float
    generation: int
    """Of the session that was created afterwards."""


class _Generations:
    """Which of the sessions of one name an invocation was opened in.

    By the times at which deletions and openings were asked for and acknowledged; of those that
    crossed nothing is known.
    """

    def __init__(self, found: Evidence, key: Key) -> None:
        lines = [line for line in found.clears if Key(*three(line)) == key]
        ended = {line["generation"]: line["at"] for line in lines if line["type"] == "deleted"}
        # One whose client was killed before it was acknowledged may go on until the next one.
        asked = sorted((one["at"], one["generation"]) for one in lines if one["type"] == "deleting")
        nexts = [*(at for at, _ in asked), float("inf")][1:]
        self._deletions = [
            _Deletion(at, ended.get(number, after), number)
            for (at, number), after in zip(asked, nexts, strict=True)
        ]
        self.last = self._deletions[-1].generation if self._deletions else 0
        self.kept: dict[int, set[str]] = defaultdict(set)
        """By generation, the events that its user has put into it."""
        for line in lines:
            if line["type"] == "kept":
                self.kept[line["generation"]].add(line["event"])
        self._opened: dict[str, list[tuple[float, int | None]]] = defaultdict(list)
        begun: dict[tuple[str, int], float] = {}
        for line in (line for line in found.commits if line.get("operation") == "open"):
            attempt = (line["invocation"], line["pid"])
            if line["phase"] == "begun":
                begun[attempt] = line["at"]
            elif line["phase"] == "ok":
                first = begun[attempt] if attempt in begun else line["at"]
                within = self._within(first, line["at"])
                self._opened[line["invocation"]].append((line["at"], within))

    def _within(self, began: float, ended: float) -> int | None:
        """The generation at a stretch of time; None: a deletion was under way."""
        current = 0
        for deletion in self._deletions:
            if deletion.ended < began:
                current = deletion.generation
            elif deletion.began <= ended:
                return None
        return current

    def of(self, invocation: str, at: float = float("inf")) -> int | None:
        """Return the session that an invocation was opened in; None if that is unknown."""
        opened = self._opened.get(invocation, [])
        place = bisect_right([time for time, _ in opened], at)
        return opened[place - 1][1] if place else None


def recreated(found: Evidence) -> Iterator[Violation]:
    """I15, I18: a session that was deleted and created again shows nothing of the one before.

    Neither in its events and state, nor in prompts; and no run of the one before continues.
    """
    outcomes, speakers = found.outcomes(), found.speakers()
    turns = {name: turn for name, turn in found.turns.items() if turn.app == CLEARED}
    for key in {Key(*turn[:3]) for turn in turns.values()}:
        known = _Generations(found, key)
        yield from _left(found, key, known, speakers)
        own = [line for line in found.asked if line["invocation"] in turns]
        asked = [line for line in own if Key(*turns[line["invocation"]][:3]) == key]
        yield from _shown(asked, known, speakers)
    open_ones = {line["workflow"] for line in found.workflows if line["status"] == "RUNNING"}
    for name, turn in turns.items():
        if outcomes[name] not in ("", "ok", *GONE):
            yield Violation("a deleted session's run has ended otherwise", name, outcomes[name])
        if workflow_id(SessionKey(*turn[:3]), name) in open_ones:
            yield Violation("a deleted session's run goes on", name)


def cleared_under_way(found: Evidence) -> int:
    """How many sessions were deleted while an invocation had no outcome that was sent before."""
    lines = [line for line in found.journal if line["app"] == CLEARED]
    sent = {line["invocation"]: line["at"] for line in reversed(lines)}
    over = {line["invocation"]: line["at"] for line in lines if line["type"] in ("ok", "fail")}
    return sum(
        any(at < line["at"] < over.get(name, line["at"]) for name, at in sent.items())
        for line in found.clears
        if line["type"] == "deleted"
    )


def _left(
    found: Evidence, key: Key, known: _Generations, speakers: dict[str, str]
) -> Iterator[Violation]:
    """What is stored of an earlier session of a name."""
    for row in found.events.get(key, []):
        kept = row.id in known.kept[known.last]
        if not kept and known.of(row.invocation) not in (None, known.last):
            yield Violation("an event of a deleted session is there", row.id, str(key))
    for line in found.state:
        if Key(line["app_name"], line["user_id"], line["session_id"]) == key:
            for canary in set(CANARY.findall(line["value"])) & speakers.keys():
                if known.of(speakers[canary]) not in (None, known.last):
                    yield Violation("a state of a deleted session is there", line["key"], canary)


def _shown(asked: list[Line], known: _Generations, speakers: dict[str, str]) -> Iterator[Violation]:
    """What a model was shown of another session of the same name than its invocation's."""
    for line in asked:
        own = known.of(line["invocation"], line["at"])
        for canary in line.get("seen", ()) if own is not None else ():
            name = speakers.get(canary, "")
            kept = (event for event in known.kept[own or 0] if event.startswith(f"{name}."))
            again = any(_says(event, canary) for event in kept)
            if known.of(name, line["at"]) not in (None, own) and not again:
                yield Violation("a model was shown another session", line["invocation"], canary)


def _says(event: str, canary: str) -> bool:
    """Whether a message, or an answer to it, may have said that."""
    return event.endswith(".0") == bool(re.fullmatch(WORD, canary))


def reset(found: Evidence) -> Iterator[Violation]:
    """I11: an invocation whose workflow was reset ends once, in the store and in Temporal alike.

    That nothing of it is done again or lost is looked at as for all others.
    """
    by_invocation, turns = found.by_invocation(), found.turns
    for name in {line["reset"] for line in found.faults if line["done"] and "reset" in line}:
        turn, status = turns.get(name), found.status(name)
        if turn is None:
            continue
        runs = [
            line
            for line in found.workflows
            if line["workflow"] == workflow_id(SessionKey(*turn[:3]), name)
        ]
        left = [line for line in runs if line["status"] == "RUNNING"]
        if status not in CLOSED or left:
            yield Violation("an invocation that was reset has not ended", name, [status, left])
        ends = [row.id for row in by_invocation.get(name, []) if row.id.endswith(".end")]
        told = {str(line.get("error", "ok")) for line in _ends(found, name)}
        if len(ends) > 1 or len(told) > 1:
            yield Violation("an invocation that was reset has ended twice", name, [ends, told])


def _ends(found: Evidence, name: str) -> list[Line]:
    """Return the ends of an invocation that clients saw, those that sent it again included."""
    lines = [*found.journal, *(line for journal in found.repeats for line in journal)]
    return [
        line
        for line in lines
        if line["invocation"] == name
        and (line["operation"], line["type"]) in (("run", "ok"), ("run", "fail"))
    ]
