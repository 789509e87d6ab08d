"""Checks of the log against what tools did, and were asked to do: I8, I9, I16."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from campaign.checks.log import CLOSED
from campaign.checks.violation import Violation
from campaign.evidence import Evidence, Row

REQUEST = "adk_request_confirmation"
CREDENTIAL = "adk_request_credential"
TOOLS = frozenset(
    (
        *("charge", "scope", "mark", "late", "refund", "fail", "nap", "pay"),
        *("save", "load", "remember", "recall", "sign_in", "poison", "raising"),
    )
)


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
    """I8: a payment began once at most, and one that is reported as paid was paid.

    The wording of an unknown outcome is checked by `clients.undisturbed`.
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
        if answered != expected:
            yield Violation("calls and responses do not match", name, [expected, answered])
    for line in found.asked:
        if not line["paired"]:
            yield Violation("a prompt has calls without responses", line["invocation"], line)


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
    """The calls that a request of the user is about: they are answered twice."""
    requests = [call["args"] for call in row.calls if call["name"] in (REQUEST, CREDENTIAL)]
    return [args.get("functionCallId") or args["originalFunctionCall"]["id"] for args in requests]
