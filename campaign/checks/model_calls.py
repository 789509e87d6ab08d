"""Checks of the log against the calls of the model: I10."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from campaign.checks.violation import Violation
from campaign.evidence import Evidence, Row
from campaign.links import Link
from durable_adk.worker import WorkerOptions
from harness.journal import Line

IN_FLIGHT = 2.0
"""Seconds that a second question may be on its way while the answer to the first is stored."""
LEAD = 1.0
"""Seconds from a fault that hits a question on its way to the note of the model that has it."""
FREEZES = ("freeze_worker", "usurp")
HOLDS = (Link.WORKER_MODEL, Link.WORKER_STORE)
"""Links on which a black hole holds a question up, or what is asked before it."""
HARMLESS = ("kill_client", "terminating", "forge")
"""Faults that no worker, and no answer to it, is lost by; `terminating` announces one."""
OF_CLIENTS = (Link.CLIENT_TEMPORAL, Link.CLIENT_STORE)
"""Nor when these links are broken: clients only listen."""
GRACE = {"stop_worker": WorkerOptions.graceful_shutdown.total_seconds()}
"""Seconds after a fault in which what a worker still does may be cut short by it."""

Question = tuple[Any, ...]
"""Invocation, agent, and how many answers it has had there."""


class Span(NamedTuple):
    """A stretch of time in which something may go wrong."""

    began: float
    ended: float


def no_re_asking(found: Evidence) -> Iterator[Violation]:
    """I10, F2: a question has one response; once it is stored the model is not called again."""
    used: dict[Question, set[str]] = defaultdict(set)
    questions = {line["nonce"]: question_of(line) for line in found.asked}
    for rows in found.events.values():
        for row in rows:
            for nonce in _nonces(row):
                question = questions.get(nonce)
                if question is None:
                    yield Violation("an answer is stored that the model never gave", row.id, nonce)
                    continue
                used[question].add(nonce)
    for question, nonces in used.items():
        if len(nonces) > 1:
            yield Violation("two answers to one question are used", str(question), sorted(nonces))
    stored_at = _stored_at(found, questions)
    for line in found.asked:
        stored = stored_at.get(question_of(line))
        if stored is not None and not _was_in_flight(found, stored, line["at"]):
            yield Violation("the model was asked for a stored answer", line["invocation"], line)


def repeats(found: Evidence) -> Iterator[Violation]:
    """I10: a question is repeated no more often than something went wrong while it was open.

    It is open from when it is asked first to when it is asked last. What went wrong are the faults
    that can lose an answer, or the worker that waits for it, and tools that end their worker.
    """
    lost = _losses(found)
    for question, lines in _asked(found).items():
        times = [line["at"] for line in lines]
        first, last = min(times) - LEAD, max(times)
        hits = sum(span.began <= last and span.ended >= first for span in lost)
        if len(lines) - 1 > hits:
            yield Violation("a question was repeated for no reason", str(question), [hits, lines])


def question_of(line: Line) -> Question:
    """Which question a note of the model is about."""
    return (line["invocation"], line["agent"], line["step"])


def _asked(found: Evidence) -> dict[Question, list[Line]]:
    asked: dict[Question, list[Line]] = defaultdict(list)
    for line in found.asked:
        asked[question_of(line)].append(line)
    return asked


def _losses(found: Evidence) -> list[Span]:
    faults = [
        Span(line["began"], line["at"] + GRACE.get(line["kind"], 0.0))
        for line in found.faults
        if line["done"] and line["kind"] not in HARMLESS and line.get("link") not in OF_CLIENTS
    ]
    exits = [Span(line["at"], line["at"]) for line in found.ledger if line["phase"] == "exit"]
    return faults + exits


def _stored_at(found: Evidence, questions: dict[str, Question]) -> dict[Question, float]:
    """When it was first acknowledged that an answer is stored, by question."""
    acknowledged = {line["event"]: line["at"] for line in found.commits if line["phase"] == "ok"}
    stored: dict[Question, float] = {}
    for rows in found.events.values():
        for row in rows:
            for nonce in _nonces(row) if row.id in acknowledged else ():
                if (question := questions.get(nonce)) is not None:
                    first = acknowledged[row.id]
                    stored[question] = min(first, stored.get(question, first))
    return stored


def _was_in_flight(found: Evidence, stored: float, asked: float) -> bool:
    """Whether who asked may have begun to before the answer was stored, and was held up since."""
    delays = filter(None, map(_delay, found.faults))
    held = max((min(asked, one.ended) - max(stored, one.began) for one in delays), default=0.0)
    return asked - stored - max(held, 0.0) <= IN_FLIGHT


def _delay(fault: Line) -> Span | None:
    """When a fault held up what was under way without losing it."""
    if fault["kind"] in FREEZES:
        return Span(fault["began"], fault["at"])
    if fault["kind"] == "blackhole" and fault.get("link") in HOLDS:
        # It may have begun later than it was to: one link is broken at a time.
        return Span(fault["at"] - fault["seconds"], fault["at"])
    return None


def _nonces(row: Row) -> set[str]:
    """The model's numbers in an answer of the model."""
    texts = [part["text"] for part in row.parts if row.body["author"] != "user" and "text" in part]
    said = {word for text in texts for word in text.split() if word.startswith("~")}
    return said | {str(call["args"]["nonce"]) for call in row.calls if "nonce" in call["args"]}
