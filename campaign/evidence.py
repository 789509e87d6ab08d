"""The evidence of a run, as the auditor reads it."""

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from campaign.controls import Control, outcome_of
from campaign.leaks import search
from campaign.player import digest
from campaign.run_folder import RunFolder
from campaign.workload import CLEARED, Turn, is_control
from durable_adk.events import Event
from harness.journal import Line, notes

Rows = dict[str, list[Line]]
"""Of each table."""


class Key(NamedTuple):
    """A session."""

    app: str
    user: str
    session: str


@dataclass(frozen=True)
class Row:
    """A stored event."""

    seq: int
    id: str
    invocation: str
    body: dict[str, Any]
    digest: str = ""
    """As clients note it; see `turns.digest`."""

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Of its content."""
        content: dict[str, Any] = self.body.get("content") or {}
        return content.get("parts") or []

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls it makes."""
        return [part["function_call"] for part in self.parts if "function_call" in part]

    @property
    def responses(self) -> list[dict[str, Any]]:
        """The responses it gives."""
        return [part["function_response"] for part in self.parts if "function_response" in part]


@dataclass
class Evidence:
    """What was found, sorted for the checks; each list is in the order of its file."""

    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    heads: dict[Key, Line] = field(default_factory=dict[Key, Line])
    events: dict[Key, list[Row]] = field(default_factory=dict[Key, list[Row]])
    """By sequence number."""
    invocations: dict[str, Line] = field(default_factory=dict[str, Line])
    """By id, which is unique in a run."""
    rows: Rows = field(default_factory=dict[str, list[Line]])
    """As they are in the store."""
    restored: dict[str, Any] | None = None
    """What came of putting the store back to an older copy; None: that was not done."""
    state: list[Line] = field(default_factory=list[Line])
    journal: list[Line] = field(default_factory=list[Line])
    """All clients' together."""
    repeats: list[list[Line]] = field(default_factory=list[list[Line]])
    """Those of clients that sent what others sent too, one by one."""
    ledger: list[Line] = field(default_factory=list[Line])
    nodes: list[Line] = field(default_factory=list[Line])
    """The runs of nodes that have begun."""
    asked: list[Line] = field(default_factory=list[Line])
    commits: list[Line] = field(default_factory=list[Line])
    faults: list[Line] = field(default_factory=list[Line])
    workflows: list[Line] = field(default_factory=list[Line])
    memories: list[Line] = field(default_factory=list[Line])
    artifacts: list[Line] = field(default_factory=list[Line])
    """All versions."""
    cut: list[str] = field(default_factory=list[str])
    """What killed processes have left among the artifacts."""
    left: list[str] = field(default_factory=list[str])
    """What of it stays although it is old, and more is saved."""
    tries: list[Line] = field(default_factory=list[Line])
    """To reach what is another user's."""
    starts: list[Line] = field(default_factory=list[Line])
    """Of workers, with their release and how far their clocks are off."""
    ends: list[Line] = field(default_factory=list[Line])
    """Of workers that were ready, with their exit codes."""
    clears: list[Line] = field(default_factory=list[Line])
    """What became of the sessions that were deleted, and what was put into the new ones."""
    tasks: list[Line] = field(default_factory=list[Line])
    """The activities that workers have taken and ended."""
    leaks: list[Line] = field(default_factory=list[Line])
    """Files of the run that hold what they must not."""
    searched: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes that were looked through for that, by kind of file."""
    controls: dict[str, Control] = field(default_factory=dict[str, Control])

    @property
    def turns(self) -> dict[str, Turn]:
        """The turns that clients have sent, by invocation."""
        fields = Turn._fields
        return {line["invocation"]: Turn(*(line[name] for name in fields)) for line in self.journal}

    def lines(self) -> dict[str, list[Line]]:
        """What clients noted, by invocation."""
        found: dict[str, list[Line]] = defaultdict(list)
        for line in self.journal:
            found[line["invocation"]].append(line)
        return found

    def outcomes(self) -> dict[str, str]:
        """How each turn ended for its client; see `outcome_of`."""
        turns = self.turns
        return {name: outcome_of(lines, turns[name]) for name, lines in self.lines().items()}

    def speakers(self) -> dict[str, str]:
        """By word of a message, or number in an answer to it, the invocation it is of."""
        turns = self.turns
        asked = {line["nonce"]: line["invocation"] for line in self.asked}
        words = {turn.word: name for name, turn in turns.items()}
        return words | {nonce: name for nonce, name in asked.items() if name in turns}

    def by_invocation(self) -> dict[str, list[Row]]:
        """The stored events, by invocation."""
        found: dict[str, list[Row]] = defaultdict(list)
        for rows in self.events.values():
            for row in rows:
                found[row.invocation].append(row)
        return found

    def listeners(self) -> dict[str, str]:
        """Return the invocations that messages were delivered to, by the ids of the messages."""
        return {
            name: row.invocation
            for rows in self.events.values()
            for row in rows
            if (name := message_of(row)) and name != row.invocation
        }

    def lasting(self) -> "Evidence":
        """Without the sessions that were deleted: what was in them need not be there."""
        gone = {line["invocation"] for line in self.journal if line["app"] == CLEARED}

        def kept(lines: list[Line]) -> list[Line]:
            return [line for line in lines if line.get("invocation") not in gone]

        return replace(
            self,
            heads={key: head for key, head in self.heads.items() if key.app != CLEARED},
            events={key: rows for key, rows in self.events.items() if key.app != CLEARED},
            invocations={k: line for k, line in self.invocations.items() if k not in gone},
            journal=kept(self.journal),
            ledger=kept(self.ledger),
            asked=kept(self.asked),
            commits=kept(self.commits),
        )

    def status(self, invocation: str) -> str:
        """What the store says of an invocation; empty if nothing."""
        return str(self.invocations.get(invocation, {}).get("status", ""))


def message_of(row: Row) -> str:
    """The invocation that a user's message was sent to open; empty for other events."""
    name, _, place = row.id.rpartition(".")
    is_message = row.body["author"] == "user" and place == "0" and not row.responses
    return name if is_message else ""


def load(folder: RunFolder) -> Evidence:
    """The evidence of a run that is over."""
    rows: Rows = json.loads(folder.store.read_text())
    meta = json.loads(folder.meta.read_text())
    found = Evidence(
        meta=meta,
        rows=rows,
        restored=json.loads(folder.restored.read_text()) if folder.restored.exists() else None,
        state=[line for line in rows["state"] if line["app_name"]],  # others are the store's own
        journal=sorted(
            (line for path in folder.journals for line in notes(path)), key=lambda line: line["at"]
        ),
        repeats=[notes(path) for path in folder.repeats],
        ledger=_until(meta["ended"], folder.ledger),
        nodes=_until(meta["ended"], folder.nodes),
        asked=[
            line
            for line in _until(meta["ended"], folder.asked)
            if not is_control(line["invocation"])
        ],
        commits=_until(meta["ended"], folder.commits),
        faults=notes(folder.faults),
        workflows=notes(folder.workflows),
        memories=rows.get("memories", []),
        tries=[line for path in folder.all_tries for line in notes(path)],
        starts=[line for line in notes(folder.starts) if line["release"] is not None],
        ends=notes(folder.ends),
        clears=[line for path in folder.all_clears for line in notes(path)],
        tasks=_until(meta["ended"], folder.tasks),
        controls=json.loads(folder.controls.read_text()),
    )
    if folder.kept.exists():
        kept = json.loads(folder.kept.read_text())
        found.artifacts, found.cut, found.left = kept["versions"], kept["cut"], kept["left"]
    for line in rows["sessions"]:
        found.heads[_key(line)] = line
    for line in sorted(rows["events"], key=lambda line: line["seq"]):
        event = Event.model_validate_json(line["body"])
        body = event.model_dump(mode="json", exclude_none=True)
        row = Row(line["seq"], line["event_id"], line["invocation_id"], body, digest(event))
        found.events.setdefault(_key(line), []).append(row)
    found.invocations = {line["invocation_id"]: line for line in rows["invocations"]}
    _look_through(folder, found)
    return found


def _until(end: float, path: Path) -> list[Line]:
    """What was noted before the rows were read; what comes later is of another store."""
    return [line for line in notes(path) if line["at"] <= end]


def _look_through(folder: RunFolder, found: Evidence) -> None:
    words = {turn.word for turn in found.turns.values()}
    leaks, searched = search(folder, words | {line["nonce"] for line in found.asked})
    found.leaks, found.searched = leaks, dict(searched)


def _key(line: Line) -> Key:
    return Key(line["app_name"], line["user_id"], line["session_id"])
