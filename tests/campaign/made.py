"""Evidence made by hand: some invocations in which everything is as it must be."""

import json
from copy import deepcopy
from dataclasses import replace
from itertools import count
from typing import Any

from campaign.access_probe import WAYS
from campaign.checks.containment import SURVIVED
from campaign.checks.restored import EXPECTED, FORK, FORKED
from campaign.controls import normalized
from campaign.evidence import Evidence, Key, Row, Rows
from campaign.leaks import SECRETS, SEEN, SPOKEN
from campaign.schedule import Kind
from campaign.workload import KINDS, RAISING, Poison, Turn
from harness.journal import Line
from tests.campaign.made_outside import add_outside, workflow_of
from tests.campaign.parts import added, call, ended, response, row

PLAIN, APPROVAL, SLOW = Key("plain", "u", "p"), Key("approval", "u", "a"), Key("slow", "u", "z")
ONCE = Key("once", "u7", "x7")
AFTER_FAULTS = Key("slow", "calm", "k")
FILES, MEMORY, SIGN_IN = (
    Key("files", "u8", "f8"),
    Key("memory", "u8", "m8"),
    Key("sign_in", "u8", "s8"),
)
POISON = Key("poison", "u8", "k4")
"""In its first turn it ends its worker."""
GRAPH = Key("graph", "u8", "g4")
TURNS = {
    "p.1": Turn(*PLAIN, 1),
    "a.1": Turn(*APPROVAL, 1),
    "z.1": Turn(*SLOW, 1),
    "x7.1": Turn(*ONCE, 1),
    "k.1": Turn(*AFTER_FAULTS, 1),
    "f8.1": Turn(*FILES, 1),
    "m8.1": Turn(*MEMORY, 1),
    "s8.1": Turn(*SIGN_IN, 1),
    "k4.1": Turn(*POISON, 1),
    "g4.1": Turn(*GRAPH, 1),
}
CHARGED = {"total": 1, "charged": ["~00000001"]}
"""What a call has changed in the state."""
LOST = 3
"""The first of the events of `PLAIN` that a copy of the store lacks."""
AGENTS = {
    "p.1": "cashier",
    "a.1": "approver",
    "z.1": "sleeper",
    "x7.1": "payer",
    "k.1": "sleeper",
    "f8.1": "filer",
    "m8.1": "keeper",
    "s8.1": "signer",
    "k4.1": "poisoner",
}
STEPS = {
    "~00000001": ("p.1", 0),
    "~00000002": ("p.1", 1),
    "~00000003": ("a.1", 0),
    "~00000004": ("a.1", 1),
    "~00000005": ("z.1", 0),
    "~00000006": ("x7.1", 0),
    "~00000007": ("x7.1", 1),
    "~00000008": ("k.1", 0),
    "~00000010": ("f8.1", 0),
    "~00000011": ("m8.1", 0),
    "~00000012": ("s8.1", 0),
    "~00000013": ("k4.1", 0),
}
"""The model's answers: to whom, and to which question."""


def _events() -> dict[Key, list[Row]]:
    request = call("c3", "adk_request_confirmation", originalFunctionCall={"id": "c2"})
    charged = response("c1", "charge", total=1, nonce="~00000001")
    return {
        PLAIN: [
            row(1, "p.1.0", "user", {"text": TURNS["p.1"].message}),
            row(2, "p.1.1", "cashier", call("c1", "charge", nonce="~00000001")),
            row(3, "p.1.2", "cashier", charged, delta=CHARGED),
            row(4, "p.1.3", "cashier", {"text": "Charged. ~00000002"}),
        ],
        APPROVAL: [
            row(1, "a.1.0", "user", {"text": TURNS["a.1"].message}),
            row(2, "a.1.1", "approver", call("c2", "refund", nonce="~00000003")),
            row(3, "a.1.3", "approver", request),
            row(4, "a.1.2", "approver", response("c2", "refund", error="asked")),
            row(5, "a.1.answer", "user", response("c3", "adk_request_confirmation")),
            row(6, "a.1.4", "approver", response("c2", "refund", refunded=7)),
            row(7, "a.1.5", "approver", {"text": "Settled. ~00000004"}),
        ],
        SLOW: [
            row(1, "z.1.0", "user", {"text": TURNS["z.1"].message}),
            row(2, "z.1.1", "sleeper", call("c5", "nap", nonce="~00000005")),
            row(3, "z.1.1.sealed", "sleeper", response("c5", "nap", error="cancelled")),
            row(4, "z.1.end", "sleeper", error_code="InvocationCancelledError"),
        ],
        AFTER_FAULTS: [
            row(1, "k.1.0", "user", {"text": TURNS["k.1"].message}),
            row(2, "k.1.1", "sleeper", call("k8", "nap", nonce="~00000008")),
            row(3, "k.1.1.sealed", "sleeper", response("k8", "nap", error="cancelled")),
            row(4, "k.1.end", "sleeper", error_code="InvocationCancelledError"),
        ],
        ONCE: [
            row(1, "x7.1.0", "user", {"text": TURNS["x7.1"].message}),
            row(2, "x7.1.1", "payer", call("c6", "pay", nonce="~00000006")),
            row(3, "x7.1.2", "payer", response("c6", "pay", paid=4, nonce="~")),
            row(4, "x7.1.3", "payer", {"text": "Paid. ~00000007"}),
        ],
        GRAPH: [
            row(1, "g4.1.0", "user", {"text": TURNS["g4.1"].message}),
            row(2, "g4.1.1.first@1", "graph", **ended("graph@1/first@1", 1)),
            row(3, "g4.1.1.last@1", "graph", **ended("graph@1/last@1", 2, "graph@1")),
        ],
        **_keeping_events(),
    }


def _keeping_events() -> dict[Key, list[Row]]:
    saved = row(3, "f8.1.2", "filer", response("c8", "save", report=0))
    saved.body["actions"]["artifact_delta"] = {"report.txt": 0}
    return {
        FILES: [
            row(1, "f8.1.0", "user", {"text": TURNS["f8.1"].message}),
            row(2, "f8.1.1", "filer", call("c8", "save", nonce="~00000010")),
            saved,
        ],
        MEMORY: [
            row(1, "m8.1.0", "user", {"text": TURNS["m8.1"].message}),
            row(2, "m8.1.1", "keeper", call("c9", "remember", nonce="~00000011")),
            row(3, "m8.1.2", "keeper", response("c9", "remember", remembered="~00000011")),
        ],
        SIGN_IN: [
            row(1, "s8.1.0", "user", {"text": TURNS["s8.1"].message}),
            row(2, "s8.1.1", "signer", call("c10", "sign_in", nonce="~00000012")),
            row(3, "s8.1.2", "signer", response("c10", "sign_in", signed_in=True)),
        ],
        POISON: [
            row(1, "k4.1.0", "user", {"text": TURNS["k4.1"].message}),
            row(2, "k4.1.1", "poisoner", call("c11", "poison", nonce="~00000013")),
            row(3, "k4.1.2", "poisoner", response("c11", "poison", nonce="~00000013")),
        ],
    }


def good(*, quiet: int = 1) -> Evidence:
    """Evidence that no check has anything to say about.

    Args:
        quiet: How many turns the neighbour of a crowd has.
    """
    events = _events()
    found = Evidence(
        meta={"seconds": 60.0, "seed": 1, "store": "sqlite", "healed": 9.0, "settled": 11.5}
        | {"restores": True, "quiet": 30.0},
        heads={
            key: {"revision": len(rows), "lease_invocation_id": None}
            for key, rows in events.items()
        },
        events=events,
        state=[_state(PLAIN, key, json.dumps(value)) for key, value in CHARGED.items()],
        ledger=[
            {**_run("p.1:c1", "charge", "~00000001", phase), "at": at, "pid": 1}
            for phase, at in (("begun", 2.1), ("done", 2.2))
        ],
        asked=[
            {**_question(nonce), "at": number / 2, "paired": True}
            for number, nonce in enumerate(STEPS)
        ],
        workflows=[
            {
                "workflow": workflow_of(turn),
                "status": "COMPLETED",
                "failure": None,
                "events": 20,
                "bytes": 5000,
                "largest": 900,
            }
            for turn in TURNS.values()
        ],
    )
    for phase in ("begun", "done"):
        found.ledger.append({**_run("a.1:c2", "refund", "~00000003", phase), "at": 5.0, "pid": 1})
        found.ledger.append({**_run("z.1:c5", "nap", "~00000005", phase), "at": 5.0, "pid": 1})
        found.ledger.append({**_run("k.1:k8", "nap", "~00000008", phase), "at": 6.0, "pid": 1})
        found.ledger.append({**_run("x7.1:c6", "pay", "~00000006", phase), "at": 6.0, "pid": 1})
    _add_keeping(found)
    found.nodes = [
        {"node": f"graph@1/{name}@1", "invocation": "g4.1", "task": "", "at": 9.5, "pid": 2}
        for name in ("first", "last")
    ]
    for key, rows in events.items():
        added(found, key, rows)
    found.repeats = [[dict(line) for line in found.journal if line["invocation"] == "p.1"]]
    found.rows = deepcopy(_rows(found))
    found.restored = _restored(found)
    add_outside(found, quiet=quiet)
    return found


def _add_keeping(found: Evidence) -> None:
    """What is there beside the sessions."""
    assert TURNS["k4.1"].poison is Poison.EXIT
    runs = {"f8.1:c8": ("save", "~00000010"), "m8.1:c9": ("remember", "~00000011")}
    runs |= {"s8.1:c10": ("sign_in", "~00000012"), "k4.1:c11": ("poison", "~00000013")}
    for key, (tool, nonce) in runs.items():
        for phase in ("begun", "done"):
            found.ledger.append({**_run(key, tool, nonce, phase), "at": 9.5, "pid": 2})
    killed = _run("k4.1:c11", "poison", "~00000013", "begun")
    found.ledger += [{**killed, "phase": phase, "at": 9.0, "pid": 1} for phase in ("begun", "exit")]
    found.artifacts = [{**_owner(FILES), "filename": "report.txt", "version": 0}]
    found.artifacts[0]["text"] = "Report ~00000010"
    found.memories = [
        _memory(MEMORY._replace(session=""), "made-of-it", "Noted m ~00000011"),
        _memory(MEMORY, "m8.1.0", TURNS["m8.1"].message),
    ]
    found.tries = [{**dict(zip(("app", "user", "session"), PLAIN, strict=True))}]
    found.tries[0] |= {"way": "attach", "type": "refused", "as_user": "u7"}
    found.starts = [{"pid": 1, "release": 1, "clock": 0}, {"pid": 2, "release": 2, "clock": 180}]
    found.searched = {SECRETS: 10**6, SPOKEN: 10**6, SEEN: 5}


def busy() -> Evidence:
    """Evidence with which the guards are content too."""
    found = good(quiet=10)
    found.meta["seconds"] = 10.0
    for app in {*KINDS} - {RAISING, *(turn.app for turn in TURNS.values())}:
        key = Key(app, "u9", f"{app}-9")
        rows = [row(1, f"{app}-9.1.0", "user", {"text": Turn(*key, 1).message})]
        found.events[key] = [*rows, row(2, f"{app}-9.1.1", "talker", {"text": "Heard."})]
        found.heads[key] = {"revision": 2, "lease_invocation_id": None}
        added(found, key, found.events[key])
    for number in range(10):
        _talk(found, f"plenty-{number}")
    _poison(found)
    found.tasks += [
        {"pid": 2, "at": 9.0, "phase": phase, "task": f"run/plenty-{number}/1", "decided": ""}
        for number in range(60)
        for phase in ("taken", "ended")
    ]
    long_ago = {"done": True, "began": -100.0, "at": -99.0}
    found.faults += [{"kind": kind.value, **long_ago} for kind in Kind for _ in range(6)]
    found.workflows.append({**found.workflows[0], "status": "CONTINUED_AS_NEW"})
    told = {"invocation": "p.1", "pid": 2, "at": 10.0, "event": "p.1.9"}
    found.commits += [
        {**told, "phase": "found", "event": "p.1.1"},
        {**told, "phase": "refused", "error": "LeaseLostError", "operation": "commit"},
        {**told, "phase": "ok", "event": "", "operation": "resume"},
        {**told, "phase": "newer", "event": "", "pid": 1},
    ]
    beside = {"pid": 1, "task": "run/beside/1", "workflow": workflow_of(TURNS["p.1"])}
    found.tasks.append({**beside, "phase": "taken", "at": 8.9})
    found.tries = [{**found.tries[0], "way": way} for way in WAYS for _ in range(6)]
    _add_after_faults(found)
    return found


def _talk(found: Evidence, session: str) -> None:
    """A message and an answer, of an app that may end in any way."""
    key = Key("slow", "u9", session)
    rows = [row(1, f"{session}.1.0", "user", {"text": Turn(*key, 1).message})]
    added(found, key, [*rows, row(2, f"{session}.1.1", "talker", {"text": "Heard."})])


def _poison(found: Evidence) -> None:
    """The other kinds of poison, which end as they do in the control."""
    turns: list[Any] = found.controls[POISON.app]["turns"]
    turns = [*turns, *[{}] * (len(Poison) - len(turns))]
    for kind in {*Poison} - {Poison.EXIT}:
        sessions = (POISON._replace(user="u9", session=f"k{number}") for number in count())
        key = next(key for key in sessions if Turn(*key, 1).poison is kind)
        name, survives = f"{key.session}.1", kind in SURVIVED
        error = {} if survives else {"error_code": "ToolError"}
        rows = [row(1, f"{name}.0", "user", {"text": Turn(*key, 1).message})]
        added(found, key, [*rows, row(2, f"{name}.1", "poisoner", {"text": "Felt."}, **error)])
        outcome = "ok"
        if not survives:
            outcome = "ToolError"
            found.journal[-1] |= {"type": "fail", "error": outcome}
            found.invocations[name]["status"] = "failed"
        events = [normalized(one.body, Turn(*key, 1)) for one in found.events[key]]
        turns[Turn(*key, 1).course] = {"outcome": outcome, "events": events}
    found.controls[POISON.app]["turns"] = turns


def _add_after_faults(found: Evidence) -> None:
    """More of what is done after the faults, and of what a copy of the store lacks."""
    for number in range(7):
        key = AFTER_FAULTS._replace(session=f"k-{number}")
        asked = row(1, f"k-{number}.1.0", "user", {"text": Turn(*key, 1).message})
        end = row(2, f"k-{number}.1.end", "sleeper", error_code="InvocationCancelledError")
        found.events[key] = [asked, end]
        found.heads[key] = {"revision": 2, "lease_invocation_id": None}
        added(found, key, found.events[key])
    found.repeats = [[dict(line) for line in found.journal if line["user"] != AFTER_FAULTS.user]]
    assert found.restored is not None
    for name in ("older", "refused"):
        rows = found.restored[name]["events"]
        rows[:] = [row for row in rows if row["session_id"] == FORKED.session]


def _restored(found: Evidence) -> dict[str, Any]:
    """What came of a copy that lacks the end of a session, and of a message to it."""
    turn = Turn(*PLAIN, 1000)
    _fork(found.rows, "f.1", "f.2")
    older, mended = deepcopy(found.rows), deepcopy(found.rows)
    older["events"].pop()
    mended["events"] = mended["events"][:-2]
    _fork(mended, "f.1", FORK, "f.2")
    lost = [row for row in older["events"] if row["app_name"] == PLAIN.app and row["seq"] >= LOST]
    older["events"] = [row for row in older["events"] if row not in lost]
    _of(older, "invocations", "p.1").update(status="running", end_seq=None)
    _of(older, "sessions", "p").update(revision=2)
    for seq in (5, 6):
        names = {"seq": seq, "event_id": f"{turn.invocation}.{seq}", "body": "{}"}
        mended["events"].append({**_owner(PLAIN), **names, "invocation_id": turn.invocation})
    mended["invocations"].append({**_owner(PLAIN), "invocation_id": turn.invocation})
    _of(mended, "sessions", "p").update(revision=6)
    refused = {"turn": list(turn), "invocation": turn.invocation, "first": "SessionRegressedError"}
    return {
        "asked": [{**refused, "again": "SessionRegressedError", "then": "ok"}],
        "meanwhile": dict(EXPECTED),
        "older": older,
        "refused": deepcopy(older),
        "mended": mended,
        "left": [],
        "seconds": 1.5,
    }


def _fork(rows: Rows, *names: str) -> None:
    """The events of a session that somebody writes to."""
    rows["events"] += [
        {**_owner(FORKED), "seq": seq, "event_id": name, "invocation_id": name, "body": "{}"}
        for seq, name in enumerate(names, 1)
    ]


def _of(rows: Rows, table: str, name: str) -> dict[str, Any]:
    """The row of an invocation or a session."""
    own = "invocation_id" if table == "invocations" else "session_id"
    return next(row for row in rows[table] if row[own] == name)


def _rows(found: Evidence) -> Rows:
    """The store's rows, as far as they are looked at as such."""
    heads = [{**_owner(key), **head, "update_time": 1.0} for key, head in found.heads.items()]
    events = [
        {**_owner(key), "seq": row.seq, "event_id": row.id, "invocation_id": row.invocation}
        | {"body": json.dumps(row.body)}
        for key, rows in found.events.items()
        for row in rows
    ]
    keys = {turn.invocation: Key(*turn[:3]) for turn in TURNS.values()}
    opened = [
        {**_owner(keys[name]), **line, "invocation_id": name}
        for name, line in found.invocations.items()
    ]
    return {"sessions": heads, "events": events, "invocations": opened, "state": found.state}


def _state(key: Key, name: str, value: str) -> dict[str, str]:
    return {**_owner(key), "key": name, "value": value}


def _owner(key: Key) -> Line:
    return {"app_name": key.app, "user_id": key.user, "session_id": key.session}


def _memory(key: Key, id: str, text: str) -> Line:  # noqa: A002 # the entry's own word
    entry = json.dumps({"content": {"parts": [{"text": text}]}})
    return {**_owner(key), "entry_id": id, "entry": entry}


def _run(key: str, tool: str, nonce: str, phase: str) -> dict[str, Any]:
    invocation = key.partition(":")[0]
    return {"key": key, "tool": tool, "nonce": nonce, "phase": phase, "invocation": invocation}


def _question(nonce: str) -> dict[str, Any]:
    invocation, step = STEPS[nonce]
    return {
        "nonce": nonce,
        "invocation": invocation,
        "agent": AGENTS[invocation],
        "step": step,
        "seen": [TURNS[invocation].word],
        "keyed": True,
    }


def changed(found: Evidence, key: Key, index: int, **fields: Any) -> None:
    """Change a stored event: its `seq`, `id`, `digest`, or fields of its body."""
    old = found.events[key][index]
    own = {name: fields.pop(name) for name in ("seq", "id", "digest") if name in fields}
    found.events[key][index] = replace(old, body={**old.body, **fields}, **own)
