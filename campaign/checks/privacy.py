"""Checks that no user sees data of another, and that no secret is written: I18, I19, I23."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from campaign.checks.violation import Violation
from campaign.evidence import Evidence, Key
from campaign.leaks import SECRETS, SPOKEN
from campaign.workload import NONCE, SIGN_IN, WORD, Turn

CANARY = re.compile(f"{NONCE}|{WORD}")
"""What only one message, or one answer to it, says."""


class _Place(NamedTuple):
    """A text, and whose it is."""

    what: str
    where: str
    owner: Key
    """Without a session: the user's."""
    text: str


def isolation(found: Evidence) -> Iterator[Violation]:
    """I18: what one says is in nothing of another user's, nor in another session's log or prompts.

    Each message has a word of its own, and each answer of the model a number.
    """
    said = _said(found)
    for place in _places(found):
        for canary in CANARY.findall(place.text):
            owner = said.get(canary)
            if owner is not None and not _may_have(place.owner, owner):
                yield Violation(f"{place.what} has what is another's", place.where, [canary, owner])
    keys = {row.id: key for key, rows in found.events.items() for row in rows}
    for line in found.journal:
        if line["type"] == "event" and keys.get(line["event"], Key(*three(line))) != three(line):
            yield Violation("a stream has an event of another session", line["event"], line)


def trespass(found: Evidence) -> Iterator[Violation]:
    """I18: no id opens what is another user's."""
    for line in found.tries:
        if line["type"] == "given":
            yield Violation("somebody was given what is another's", line["way"], line)


def confidential(found: Evidence) -> Iterator[Violation]:
    """I19: nothing that was said is in logs, spans or metrics; nor in Temporal, if it encrypts."""
    return _leaks(found, SPOKEN)


def secrets(found: Evidence) -> Iterator[Violation]:
    """I23: no key of a user or worker is in any file but those of the credential service.

    And a tool that has signed in had the key of its own user.
    """
    yield from _leaks(found, SECRETS)
    for rows in found.events.values():
        for row in rows:
            for response in row.responses:
                if response["response"].get("signed_in") is False:
                    yield Violation("a tool was given another key", row.id, response)


def trespasses(found: Evidence) -> list[str]:
    """The ways of the tries that were in vain, of those at what was really there."""
    return [
        line["way"]
        for line in found.tries
        if line["type"] in ("refused", "nothing") and Key(*three(line)) in found.events
    ]


def signed_in(found: Evidence) -> int:
    """How often a tool has used its user's key."""
    return sum(
        response["response"].get("signed_in") is True
        for key, rows in found.events.items()
        if key.app == SIGN_IN
        for row in rows
        for response in row.responses
    )


def _leaks(found: Evidence, kind: str) -> Iterator[Violation]:
    for line in found.leaks:
        if line["kind"] == kind:
            yield Violation(f"something {kind} is in a file", line["file"], line["what"])


def _said(found: Evidence) -> dict[str, Key]:
    """Whose each word and number is."""
    turns = found.turns
    return {canary: Key(*turns[name][:3]) for canary, name in found.speakers().items()}


def _may_have(place: Key, owner: Key) -> bool:
    return (place.app, place.user) == (owner.app, owner.user) and place.session in (
        "",
        owner.session,
    )


def _places(found: Evidence) -> Iterator[_Place]:
    for key, rows in found.events.items():
        for row in rows:
            yield _Place("an event", row.id, key, json.dumps(row.body))
    for line in found.state:
        yield _Place("the state", line["key"], _key(line), line["value"])
    for line in found.artifacts:
        yield _Place("a file", line["filename"], _key(line), line["text"])
    for line in found.memories:
        yield _Place("a memory", line["entry_id"], _key(line), line["entry"])
    for line in found.ledger:
        if "found" in line:
            owner = Key(line["app"], line["user"], "")
            yield _Place("a search", line["invocation"], owner, " ".join(line["found"]))
    turns: dict[str, Turn] = found.turns
    for line in found.asked:
        turn = turns.get(line["invocation"])
        if turn is not None:
            seen = " ".join(line.get("seen", ()))
            yield _Place("a prompt", line["invocation"], Key(*turn[:3]), seen)


def _key(line: dict[str, Any]) -> Key:
    return Key(line["app_name"], line["user_id"], line["session_id"])


def three(line: dict[str, Any]) -> tuple[str, str, str]:
    """The session that a line is about."""
    return line["app"], line["user"], line["session"]
