"""Checks of the log against the calls of the model: I10."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from campaign.checks.tasks import NEVER, Tasks
from campaign.checks.violation import Violation
from campaign.evidence import Evidence, Row
from campaign.links import Link
from harness.journal import Line

HARMLESS = ("kill_client", "terminating", "forge")
"""Faults that no worker, and no answer to it, is lost by; `terminating` announces one."""
OF_CLIENTS = (Link.CLIENT_TEMPORAL, Link.CLIENT_STORE)
"""Nor when these links are broken: clients only listen."""
STOPS = "stop_worker"
"""What cuts short whatever its worker still does, until that has ended."""

HARMFUL = ("poison", "raising")
"""Tools that do harm."""

Question = tuple[Any, ...]
"""Invocation, agent, and how many answers it has had there."""


class Span(NamedTuple):
    """A stretch of time in which something may go wrong."""

    began: float
    ended: float


def no_re_asking(found: Evidence) -> Iterator[Violation]:
    """I10, F2: a question has one response; once it is stored the model is not called again.

    An attempt that had begun before may still ask, however long its question is on its way: who
    begins afterwards finds the response.
    """
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
    stored_at, tasks = _stored_at(found, questions), Tasks(found)
    for line in found.asked:
        stored = stored_at.get(question_of(line), NEVER)
        if line["at"] > stored and tasks.began(line) > stored:
            yield Violation("the model was asked for a stored answer", line["invocation"], line)


def repeats(found: Evidence) -> Iterator[Violation]:
    """I10: a question is repeated no more often than something went wrong while it was open.

    It is open from when its first attempt begins to when it is asked last. What went wrong are the
    faults that can lose an answer, or the worker that waits for it, tools that end their worker,
    and workers that were held for lost because the machine had no time for them.
    """
    for question, hits, lines in _repeated(found, _asked(found)):
        yield Violation("a question was repeated for no reason", question, [hits, lines])


def tools_repeated(found: Evidence) -> Iterator[Violation]:
    """I8, F12: what code has raised, or returned, is no reason to run its tool again; see above."""
    runs: dict[Any, list[Line]] = defaultdict(list)
    for line in found.ledger:
        if line["phase"] == "begun" and line["tool"] in HARMFUL:
            runs[line["key"]].append(line)
    for key, hits, lines in _repeated(found, runs):
        yield Violation("a tool was run again for no reason", key, [hits, lines])


def _repeated(
    found: Evidence, tries: dict[Any, list[Line]]
) -> Iterator[tuple[str, int, list[Line]]]:
    """What was tried more often than there were reasons, and how many there were."""
    lost, tasks = _losses(found), Tasks(found)
    for what, lines in tries.items():
        first = min(map(tasks.began, lines))
        last = max(line["at"] for line in lines)
        hits = sum(span.began <= last and span.ended >= first for span in lost)
        hits += sum(map(tasks.was_given_away, lines))
        if len(lines) - 1 > hits:
            yield str(what), hits, lines


def question_of(line: Line) -> Question:
    """Which question a note of the model is about."""
    return (line["invocation"], line["agent"], line["step"])


def _asked(found: Evidence) -> dict[Question, list[Line]]:
    asked: dict[Question, list[Line]] = defaultdict(list)
    for line in found.asked:
        asked[question_of(line)].append(line)
    return asked


def _losses(found: Evidence) -> list[Span]:
    lasts: dict[int, float] = {}
    for line in found.tasks:
        lasts[line["pid"]] = max(line["at"], lasts.get(line["pid"], line["at"]))
    faults = [
        Span(line["began"], max(line["at"], _until(line, lasts)))
        for line in found.faults
        if line["done"] and line["kind"] not in HARMLESS and line.get("link") not in OF_CLIENTS
    ]
    exits = [Span(line["at"], line["at"]) for line in found.ledger if line["phase"] == "exit"]
    return faults + exits


def _until(fault: Line, lasts: dict[int, float]) -> float:
    """Until when a fault may cut something short: one that stops a worker, until that has ended."""
    return lasts.get(fault.get("pid", 0), 0.0) if fault["kind"] == STOPS else 0.0


def _stored_at(found: Evidence, questions: dict[str, Question]) -> dict[Question, float]:
    """When it was first acknowledged that an answer is stored, by question."""
    acknowledged: dict[str, float] = {}
    for line in found.commits:
        if line["phase"] == "ok":
            acknowledged.setdefault(line["event"], line["at"])
    stored: dict[Question, float] = {}
    for rows in found.events.values():
        for row in rows:
            for nonce in _nonces(row) if row.id in acknowledged else ():
                if (question := questions.get(nonce)) is not None:
                    first = acknowledged[row.id]
                    stored[question] = min(first, stored.get(question, first))
    return stored


def _nonces(row: Row) -> set[str]:
    """The model's numbers in an answer of the model."""
    texts = [part["text"] for part in row.parts if row.body["author"] != "user" and "text" in part]
    said = {word for text in texts for word in text.split() if word.startswith("~")}
    return said | {str(call["args"]["nonce"]) for call in row.calls if "nonce" in call["args"]}
