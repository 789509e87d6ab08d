"""Checks of artifacts and memories, which are stored beside the log: I5, I24."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from campaign.checks.violation import Violation
from campaign.evidence import Evidence, Key, Row
from campaign.workload import NONCE
from harness.journal import Line

PER_SAVE = 4
"""What a killed process may leave of a save at most."""


class _File(NamedTuple):
    key: Key
    filename: str


def artifacts(found: Evidence) -> Iterator[Violation]:
    """I5: each save of a stored call is one version, with what that call was to write.

    However often the call was run: its event says which version is its own, and there is no other.
    """
    told, calls = _told(found), _calls(found, "save")
    kept: dict[_File, dict[int, Line]] = defaultdict(dict)
    for line in found.artifacts:
        file = _File(_key(line), line["filename"])
        if line["version"] in kept[file]:
            yield Violation("a version is there twice", str(file), line)
        kept[file][line["version"]] = line
    for file in kept.keys() | told.keys():
        numbers = sorted(kept.get(file, {}))
        if numbers != list(range(len(numbers))):
            yield Violation("the versions of a file have gaps", str(file), numbers)
        if sorted(told.get(file, {})) != numbers:
            differs = [sorted(told.get(file, {})), numbers]
            yield Violation("versions and events disagree", str(file), differs)
        for number, line in kept.get(file, {}).items():
            row = told.get(file, {}).get(number)
            nonce = row and calls.get((row.invocation, _responded(row, "save")))
            if nonce and re.findall(NONCE, line["text"]) != [nonce]:
                yield Violation("a version is not what its call has saved", str(file), line)


def memories(found: Evidence) -> Iterator[Violation]:
    """I5: what a stored call has remembered is there once, and nothing else is.

    What is remembered of a session is what its events say, each once.
    """
    stored = {(key, row.id): row for key, rows in found.events.items() for row in rows}
    calls = {nonce: name for (name, _), nonce in _calls(found, "remember").items()}
    times: Counter[str] = Counter()
    twice: Counter[tuple[Any, ...]] = Counter()
    for line in found.memories:
        key, text = _key(line), _text(line)
        twice[key, line["entry_id"]] += 1
        if key.session:
            row = stored.get((key, line["entry_id"]))
            if row is None or text != "\n".join(_texts(row)):
                yield Violation("a memory is of no stored event", line["entry_id"], line)
        else:
            times.update(re.findall(NONCE, text))
    for where, number in twice.items():
        if number > 1:
            yield Violation("a memory is there twice", str(where), number)
    for nonce in times.keys() - calls.keys():
        yield Violation("something is remembered that no stored call said", nonce)
    for nonce, name in calls.items():
        due = found.status(name) == "completed"
        if times[nonce] > 1 or (due and not times[nonce]):
            yield Violation("a call's memory is not there once", name, times[nonce])


def nothing_unfinished(found: Evidence) -> Iterator[Violation]:
    """I24: only killed processes leave files half written, and these do not stay.

    They are removed by later saves, after an hour.
    """
    phases = Counter(line["phase"] for line in found.ledger if line["tool"] == "save")
    cut = phases["begun"] - phases["done"]
    if len(found.cut) > PER_SAVE * cut:
        yield Violation("a save has left something behind", found.cut[0], [found.cut, cut])
    for path in found.left:
        yield Violation("what a killed process has left stays", path)


def _told(found: Evidence) -> dict[_File, dict[int, Row]]:
    """Return the versions that events name, with the event."""
    told: dict[_File, dict[int, Row]] = defaultdict(dict)
    for key, rows in found.events.items():
        for row in rows:
            actions: dict[str, Any] = row.body.get("actions") or {}
            delta: dict[str, int] = actions.get("artifact_delta") or {}
            for filename, version in delta.items():
                told[_File(key, filename)][version] = row
    return told


def _calls(found: Evidence, tool: str) -> dict[tuple[str, str], str]:
    """The number that each stored call of a tool was given, by invocation and call."""
    return {
        (row.invocation, call["id"]): call["args"]["nonce"]
        for rows in found.events.values()
        for row in rows
        for call in row.calls
        if call["name"] == tool
    }


def _responded(row: Row, tool: str) -> str:
    return next((one["id"] for one in row.responses if one["name"] == tool), "")


def _texts(row: Row) -> list[str]:
    return [part["text"] for part in row.parts if part.get("text")]


def _text(line: Line) -> str:
    """What a memory says."""
    parts: list[dict[str, Any]] = json.loads(line["entry"])["content"]["parts"]
    return "\n".join(part.get("text") or "" for part in parts)


def _key(line: Line) -> Key:
    return Key(line["app_name"], line["user_id"], line["session_id"])
