"""What must hold between the log and the world outside, tools and model: I8, I9, I10, I16."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from campaign.checks.log import CLOSED
from campaign.checks.violation import Violation
from campaign.evidence import Evidence, Row
from campaign.journals import Line

IN_FLIGHT = 8.0
"""Seconds that a second question may be on its way while the answer to the first is stored."""
FREEZES = ("freeze_worker", "usurp")
REQUEST = "adk_request_confirmation"
TOOLS = frozenset(("charge", "scope", "mark", "late", "refund", "fail", "nap", "pay"))


class _Call(NamedTuple):
    name: str
    nonce: str


def tool_effects(found: Evidence) -> Iterator[Violation]:
    """I8: what is said to be done was done; what was done is a stored call, with its arguments."""
    calls = {
        f"{row.invocation}:{call['id']}": _Call(call["name"], call["args"].get("nonce", ""))
        for rows in found.events.values()
        for row in rows
        for call in row.calls
    }
    for line in found.ledger:
        call = calls.get(line["key"])
        if call is None or call.nonce != line["nonce"]:
            yield Violation("a tool ran for a call that is not stored", line["key"], line)
    done = {line["key"] for line in found.ledger if line["phase"] == "done"}
    for row, response in _responses(found):
        key = f"{row.invocation}:{response['id']}"
        if response["name"] in TOOLS and "error" not in response["response"] and key not in done:
            yield Violation("a response says what was not done", key, response)


def at_most_once(found: Evidence) -> Iterator[Violation]:
    """I8: a payment began once at most, and what is told as paid was paid.

    That an outcome is told as unknown, word by word, is part of `clients.undisturbed`.
    """
    payments = [line for line in found.ledger if line["tool"] == "pay"]
    begun = Counter(line["key"] for line in payments if line["phase"] == "begun")
    done = {line["key"] for line in payments if line["phase"] == "done"}
    for key, times in begun.items():
        if times > 1:
            yield Violation("a tool that may run once has run again", key, times)
    for row, response in _responses(found):
        key = f"{row.invocation}:{response['id']}"
        paid = response["name"] == "pay" and "paid" in response["response"]
        if paid and key not in done:
            yield Violation("a payment is told that was not made", key, response)


def pairing(found: Evidence) -> Iterator[Violation]:
    """I9: each call of a closed run has one response; a confirmed one also that it was asked."""
    for name, rows in found.by_invocation().items():
        if found.status(name) not in CLOSED:
            continue
        expected = Counter(call["id"] for row in rows for call in row.calls)
        for row in rows:
            expected.update(_confirmed(row))
        answered = Counter(answer["id"] for row in rows for answer in row.responses)
        if answered != expected and not _open_request(found, name, expected - answered):
            yield Violation("calls and responses do not match", name, [expected, answered])
    for line in found.asked:
        if not line["paired"]:
            yield Violation("a prompt has calls without responses", line["invocation"], line)


def no_re_asking(found: Evidence) -> Iterator[Violation]:
    """I10, F2: of a question's answers one is used; once it is stored nobody asks again."""
    used: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    stored_at: dict[tuple[Any, ...], float] = {}
    questions = {line["nonce"]: _question(line) for line in found.asked}
    acknowledged = {line["event"]: line["at"] for line in found.commits if line["phase"] == "ok"}
    for rows in found.events.values():
        for row in rows:
            for nonce in _nonces(row):
                question = questions.get(nonce)
                if question is None:
                    yield Violation("an answer is stored that the model never gave", row.id, nonce)
                    continue
                used[question].add(nonce)
                if row.id in acknowledged:
                    first = acknowledged[row.id]
                    stored_at[question] = min(first, stored_at.get(question, first))
    for question, nonces in used.items():
        if len(nonces) > 1:
            yield Violation("two answers to one question are used", str(question), sorted(nonces))
    for line in found.asked:
        stored = stored_at.get(_question(line))
        if stored is not None and not _was_in_flight(found, stored, line["at"]):
            yield Violation("the model was asked for a stored answer", line["invocation"], line)


def _was_in_flight(found: Evidence, stored: float, asked: float) -> bool:
    """Whether who asked may have begun to before the answer was stored, and slept meanwhile."""
    sleeps = [(one["began"], one["at"]) for one in found.faults if one["kind"] in FREEZES]
    spans = [(stored, stored), *sleeps]
    return any(began <= stored and asked <= end + IN_FLIGHT for began, end in spans)


def hitl(found: Evidence) -> Iterator[Violation]:
    """I16: a decision counts once; what was refused was not done."""
    turns, outcomes = found.turns, found.outcomes()
    effects: Counter[str] = Counter(
        line["invocation"] for line in found.ledger if line["tool"] == "refund"
    )
    for name, rows in found.by_invocation().items():
        turn = turns.get(name)
        if turn is None or turn.app != "approval" or not outcomes[name]:
            continue
        decided = Counter(
            answer["id"] for row in rows for answer in row.responses if answer["name"] == REQUEST
        )
        if list(decided.values()) != [1]:
            yield Violation("a decision is not stored once", name, decided)
        if bool(effects[name]) != turn.approves:
            yield Violation("a decision was not obeyed", name, effects[name])


def _responses(found: Evidence) -> Iterator[tuple[Row, dict[str, Any]]]:
    for rows in found.events.values():
        for row in rows:
            for response in row.responses:
                yield row, response


def _confirmed(row: Row) -> list[str]:
    """The calls that a request for confirmation is about: they are answered twice."""
    return [
        call["args"]["originalFunctionCall"]["id"] for call in row.calls if call["name"] == REQUEST
    ]


def _open_request(found: Evidence, invocation: str, missing: Counter[str]) -> bool:
    """Whether what is missing are decisions that an ended run no longer waits for."""
    return not missing and found.status(invocation) != "completed"


def _question(line: Line) -> tuple[Any, ...]:
    return (line["invocation"], line["agent"], line["step"])


def _nonces(row: Row) -> set[str]:
    """The model's numbers in an answer of the model."""
    texts = [part["text"] for part in row.parts if row.body["author"] != "user" and "text" in part]
    said = {word for text in texts for word in text.split() if word.startswith("~")}
    return said | {str(call["args"]["nonce"]) for call in row.calls if "nonce" in call["args"]}
