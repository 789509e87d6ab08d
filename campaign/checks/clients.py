"""Checks of what clients saw against what is stored: I2, I7, I11, I12, I15, I17."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import dropwhile, zip_longest
from typing import Any

from campaign.checks.log import CLOSED
from campaign.checks.tasks import Tasks
from campaign.checks.violation import Violation
from campaign.controls import normalized, plain
from campaign.evidence import Evidence, Row, message_of
from campaign.workload import CALLER, CROWD, DENIED, FREE, GRAPH, ONCE, SLOW, Turn
from durable_adk.activities.attempt import MAX_LOST
from durable_adk.errors import (
    InvocationCancelledError,
    InvocationNotFoundError,
    InvocationTerminatedError,
    QueueFullError,
    RunError,
    SessionBusyError,
)
from durable_adk.tools.reconcile import LOST, unknown_outcome
from durable_adk.wire.messages import WhenBusy
from harness.journal import Line

CANCELLED = InvocationCancelledError.__name__
TERMINATED = InvocationTerminatedError.__name__
ENDINGS = ("", "ok", CANCELLED, TERMINATED)
"""Of messages that are cancelled and terminated; a cancelled run that was open ends ``ok``."""
REFUSED = SessionBusyError.__name__
"""Of messages that do not wait for a busy session."""
FULL = QueueFullError.__name__
"""Of messages that come to a session for which as many wait as may."""
UNKNOWN_NOW = InvocationNotFoundError.__name__
"""Of messages whose workflow an operator has deleted."""
GIVEN_UP = RunError.__name__
"""Of messages whose tool has lost its worker so often that it is not run again (F12)."""
PAID, UNKNOWN = {"paid": 4, "nonce": "~"}, unknown_outcome("pay", LOST)
"""The results that a payment may have: it is made, or its outcome is unknown."""
AFTERMATH = 10.0
"""Seconds after a fault in which it may still delay."""
_ZOMBIES = ("freeze_worker", "usurp", "blackhole", "freeze_connections")


def no_loss(found: Evidence) -> Iterator[Violation]:
    """I2: an event that a client got, or whose commit was acknowledged, is stored unchanged."""
    stored = {row.id: row for rows in found.events.values() for row in rows}
    for line in found.journal:
        if line["type"] == "event":
            row = stored.get(line["event"])
            if row is None or row.digest != line["digest"]:
                yield Violation("a client was given what is not stored", line["event"], line)
    for line in found.commits:
        if line["phase"] == "ok" and line["event"]:
            row = stored.get(line["event"])
            if row is None or row.seq != line.get("seq", row.seq):
                yield Violation("an acknowledged commit is not stored", line["event"], line)


def undisturbed(found: Evidence) -> Iterator[Violation]:
    """I2, I3, I7: each invocation stored what it stores without faults, under the same ids."""
    outcomes, by_invocation = found.outcomes(), found.by_invocation()
    finished: Counter[str] = Counter()
    for name, turn in found.turns.items():
        full = turn.app == CROWD and outcomes[name] == FULL
        if turn.app in FREE or full or not outcomes[name]:
            continue
        finished[turn.session] += 1
        controls = found.controls[turn.app]["turns"]
        expected = controls[turn.course]
        if outcomes[name] != expected["outcome"]:
            yield Violation("a client was told another outcome", name, outcomes[name])
        events = [normalized(row.body, turn) for row in by_invocation.get(name, [])]
        differs = _difference(_comparable(turn, events), _comparable(turn, expected["events"]))
        if differs is not None:
            yield Violation("an invocation's events are not those of the control", name, differs)
        if finished[turn.session] == len(controls):
            yield from _same_state(found, turn)


def foreseen(found: Evidence) -> Iterator[Violation]:
    """I11, I15: what is cancelled or terminated ends so or undisturbed, and nothing else does."""
    terminated = {line["invocation"] for line in found.faults if "invocation" in line}
    cancelled = {line["invocation"] for line in found.journal if line["operation"] == "cancel"}
    listeners = found.listeners()
    turns = found.turns
    competing = {turn.session for turn in turns.values() if turn.when_busy is WhenBusy.INTERRUPT}
    for name, outcome in found.outcomes().items():
        of_app = {SLOW: ENDINGS, DENIED: ("", "ok")}.get(turns[name].app)
        refused = turns[name].when_busy is WhenBusy.REJECT and outcome == REFUSED
        worn_out = outcome == GIVEN_UP and _lost_runs(found, name) >= MAX_LOST // 2
        deleted = outcome == UNKNOWN_NOW and {name, listeners.get(name)} & terminated
        foreseen = refused or worn_out or deleted
        if of_app is not None and outcome not in of_app and not foreseen:
            yield Violation("a run ended in a way nobody wanted", name, outcome)
        if outcome == TERMINATED and not {name, listeners.get(name)} & terminated:
            yield Violation("a run is said to be terminated, and nobody did that", name, outcome)
        if outcome == CANCELLED and name not in cancelled and turns[name].session not in competing:
            yield Violation("a run was cancelled by nobody", name, outcome)
    for name, line in found.invocations.items():
        if line["status"] == "abandoned" and name not in terminated:
            yield Violation("a run was abandoned by its workflow", name, line)


def _lost_runs(found: Evidence, name: str) -> int:
    """How often a tool of an invocation began and did not end; some attempts die before that."""
    phases = Counter(line["phase"] for line in found.ledger if line["invocation"] == name)
    return phases["begun"] - phases["done"]


def _comparable(turn: Turn, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In order; but branches that run side by side may meet in any order."""
    if turn.app == ONCE:
        return [_settled(event) for event in events]
    side_by_side = turn.app in ("parallel", GRAPH, CALLER)
    return sorted(events, key=lambda one: one["id"]) if side_by_side else events


def _settled(scale: dict[str, Any]) -> dict[str, Any]:
    """Remove the result of a payment, if it is one of the two that it may have (I8)."""
    copy = json.loads(json.dumps(scale))
    content: dict[str, Any] = copy.get("content", {})
    parts: list[dict[str, Any]] = content.get("parts", [])
    for part in parts:
        told: dict[str, Any] = part.get("function_response", {})
        if told.get("response") in (PAID, UNKNOWN):
            told["response"] = "paid, or nobody knows"
    return copy


def _difference(got: list[dict[str, Any]], expected: list[dict[str, Any]]) -> Any:
    """The first event that is not as expected, and what was; None: there is none."""
    pairs = zip_longest(got, expected)
    return next(((one, other) for one, other in pairs if one != other), None)


def _same_state(found: Evidence, turn: Turn) -> Iterator[Violation]:
    own = {
        line["key"]: plain(line["value"], turn)
        for line in found.state
        if (line["app_name"], line["user_id"], line["session_id"]) == turn[:3]
    }
    expected = found.controls[turn.app]["state"]
    if own != {name: plain(_text(value), turn) for name, value in expected.items()}:
        yield Violation("a session's state is not that of the control", turn.session, own)


def _text(value: Any) -> str:
    return json.dumps(value)


def liveness(found: Evidence) -> Iterator[Violation]:
    """I11: when faults have stopped, every message is answered and nothing runs."""
    lines = found.lines()
    for name, outcome in found.outcomes().items():
        if not outcome:
            yield Violation("a message has no outcome", name, lines[name][-3:])
    for name, line in found.invocations.items():
        if line["status"] not in CLOSED:
            yield Violation("an invocation is not closed", name, line)
    for line in found.workflows:
        if line["status"] == "RUNNING":
            yield Violation("a workflow is running", line["workflow"], line)


def accepted_is_durable(found: Evidence) -> Iterator[Violation]:
    """I12: what was accepted has a record, and one user's message, however often it was sent.

    Or the message was delivered to an active invocation, and then it has no record. What was
    refused, because its session was busy, has neither.
    """
    by_invocation, listeners = found.by_invocation(), found.listeners()
    known: set[str] = {
        line["invocation"]
        for line in found.journal
        if line["operation"] != "cancel" and line["type"] in ("event", "ok")
    }
    for name in known:
        home: str = listeners.get(name, name)
        messages = [
            row.id
            for row in by_invocation.get(home, [])
            if message_of(row) == name
            or (home == name and _is_message(row) and message_of(row) not in listeners)
        ]
        if home not in found.invocations or len(messages) != 1:
            yield Violation("an accepted message is not stored once", name, messages)
    for name, listener in listeners.items():
        if name in found.invocations or name not in found.turns:
            yield Violation("a message was heard, and opened an invocation", name, listener)
        elif found.turns[name].when_busy is not WhenBusy.STEER:
            yield Violation("a message was heard that was to have its turn", name, listener)
    for name, outcome in found.outcomes().items():
        refused = outcome in (REFUSED, FULL)
        if refused and (name in found.invocations or by_invocation.get(name)):
            yield Violation("a refused message is stored", name, by_invocation.get(name))


def cancel(found: Evidence) -> Iterator[Violation]:
    """I15: a cancelled run ends with an error event, and starts nothing afterwards.

    How soon is looked at after the faults; see `checks.after_faults`.
    """
    by_invocation, ends = found.by_invocation(), _ends(found)
    stopped = {line["invocation"] for line in found.faults if "invocation" in line}
    tasks = Tasks(found)
    for name, line in found.invocations.items():
        rows = by_invocation.get(name, [])
        if line["status"] == "cancelled" and not (rows and rows[-1].body.get("error_code")):
            yield Violation("a cancelled run does not end with an error", name, line)
    for line in found.ledger:
        end = ends.get(line["invocation"])
        late = line["phase"] == "begun" and end is not None and line["at"] > end
        # A worker that was frozen, or cut off, between its task and the tool knows of no end.
        if late and not (
            _faults(found, line["at"], line["at"], _ZOMBIES)
            or _is_zombie(tasks, line, ends[line["invocation"]], stopped)
        ):
            yield Violation("a tool began after the end", line["invocation"], line)


def _is_zombie(tasks: Tasks, line: Line, end: float, stopped: set[str]) -> bool:
    """Whether a tool's worker took its task before the end and was then given up.

    The engine has given the task to another worker, as this one had no time to say that it lives,
    or the workflow was terminated.
    """
    own = (task for task in tasks.of(line["invocation"]) if task.pid == line["pid"])
    return any(
        task.taken <= end
        and task.ended >= line["at"]
        and (line["invocation"] in stopped or tasks.given_to_another(task))
        for task in own
    )


def stream(found: Evidence) -> Iterator[Violation]:
    """I17: each try to follow gives a stretch of the log without gap or repeat, the last its end.

    But what ends a terminated invocation is written by its session's next message, later.
    """
    by_invocation, outcomes = found.by_invocation(), found.outcomes()
    listeners = found.listeners()
    for name, lines in found.lines().items():
        rows = by_invocation.get(listeners.get(name, name), [])
        if name in listeners:  # what comes of the message begins with it
            rows = list(dropwhile(lambda row: message_of(row) != name, rows))  # noqa: B023 - used at once
        shown = [row.id for row in rows if row.body["author"] != "user"]
        streams = _streams(lines)
        for operation, seen in streams:
            start = shown.index(seen[0]) if seen and seen[0] in shown else 0
            begins = start == 0 or operation == "answer"
            if seen != shown[start : start + len(seen)] or not begins:
                yield Violation("a stream has gaps or repeats", name, {"saw": seen, "log": shown})
        whole = outcomes[name] not in ("", TERMINATED, UNKNOWN_NOW)
        if whole and streams and streams[-1][1] != shown[-len(streams[-1][1]) :]:
            yield Violation(
                "a stream ended before the log", name, {"saw": streams[-1], "log": shown}
            )


def _streams(lines: list[Line]) -> list[tuple[str, list[str]]]:
    """What each try to follow was given, by operation."""
    streams: list[tuple[str, list[str]]] = []
    for line in lines:
        if line["type"] == "invoke" and line["operation"] != "cancel":
            streams.append((line["operation"], []))
        elif line["type"] == "event":
            streams[-1][1].append(line["event"])
    return streams


def _ends(found: Evidence) -> dict[str, float]:
    """When each turn's client knew its outcome."""
    outcomes = [line for line in found.journal if line["operation"] == "run"]
    return {line["invocation"]: line["at"] for line in outcomes if line["type"] in ("ok", "fail")}


def _faults(
    found: Evidence, start: float, end: float, kinds: tuple[str, ...] | None = None
) -> list[Line]:
    """The faults that may have had an effect in a stretch of time."""
    return [
        line
        for line in found.faults
        if line["began"] <= end
        and line["at"] + AFTERMATH >= start
        and (kinds is None or line["kind"] in kinds)
    ]


def _is_message(row: Row) -> bool:
    return row.body["author"] == "user" and not row.responses
