"""Evidence made by hand: five invocations in which everything is as it must be."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

from campaign.controls import shaped
from campaign.evidence import Evidence, Key, Row, Rows
from campaign.workload import Turn

PLAIN, APPROVAL, SLOW = Key("plain", "u", "p"), Key("approval", "u", "a"), Key("slow", "u", "z")
ONCE = Key("once", "u7", "x7")
CALM = Key("slow", "calm", "k")
TURNS = {
    "p.1": Turn(*PLAIN, 1),
    "a.1": Turn(*APPROVAL, 1),
    "z.1": Turn(*SLOW, 1),
    "x7.1": Turn(*ONCE, 1),
    "k.1": Turn(*CALM, 1),
}
LOST = 3
"""The first of the events of `PLAIN` that a copy of the store lacks."""
AGENTS = {"p.1": "cashier", "a.1": "approver", "z.1": "sleeper", "x7.1": "payer", "k.1": "sleeper"}
STEPS = {
    "~1": ("p.1", 0),
    "~2": ("p.1", 1),
    "~3": ("a.1", 0),
    "~4": ("a.1", 1),
    "~5": ("z.1", 0),
    "~6": ("x7.1", 0),
    "~7": ("x7.1", 1),
    "~8": ("k.1", 0),
}
"""The model's answers: to whom, and to which question."""


def call(id: str, name: str, **args: Any) -> dict[str, Any]:  # noqa: A002 # the call's own word
    return {"function_call": {"id": id, "name": name, "args": args}}


def response(id: str, name: str, **said: Any) -> dict[str, Any]:  # noqa: A002 # the call's own word
    return {"function_response": {"id": id, "name": name, "response": said}}


def row(seq: int, id: str, author: str, *parts: Any, delta: Any = None, **fields: Any) -> Row:  # noqa: A002 # the event's own word
    invocation = ".".join(id.split(".")[:2])
    body = {
        "id": id,
        "author": author,
        "content": {"parts": list(parts)},
        "actions": {"state_delta": delta or {}},
        **fields,
    }
    return Row(seq, id, invocation, body, f"digest of {id}")


def _events() -> dict[Key, list[Row]]:
    request = call("c3", "adk_request_confirmation", originalFunctionCall={"id": "c2"})
    return {
        PLAIN: [
            row(1, "p.1.0", "user", {"text": "do p.1"}),
            row(2, "p.1.1", "cashier", call("c1", "charge", nonce="~1")),
            row(3, "p.1.2", "cashier", response("c1", "charge", total=1), delta={"total": 1}),
            row(4, "p.1.3", "cashier", {"text": "Charged. ~2"}),
        ],
        APPROVAL: [
            row(1, "a.1.0", "user", {"text": "do a.1"}),
            row(2, "a.1.1", "approver", call("c2", "refund", nonce="~3")),
            row(3, "a.1.3", "approver", request),
            row(4, "a.1.2", "approver", response("c2", "refund", error="asked")),
            row(5, "a.1.answer", "user", response("c3", "adk_request_confirmation")),
            row(6, "a.1.4", "approver", response("c2", "refund", refunded=7)),
            row(7, "a.1.5", "approver", {"text": "Settled. ~4"}),
        ],
        SLOW: [
            row(1, "z.1.0", "user", {"text": "do z.1"}),
            row(2, "z.1.1", "sleeper", call("c5", "nap", nonce="~5")),
            row(3, "z.1.1.sealed", "sleeper", response("c5", "nap", error="cancelled")),
            row(4, "z.1.end", "sleeper", error_code="InvocationCancelledError"),
        ],
        CALM: [
            row(1, "k.1.0", "user", {"text": "do k.1"}),
            row(2, "k.1.1", "sleeper", call("c8", "nap", nonce="~8")),
            row(3, "k.1.1.sealed", "sleeper", response("c8", "nap", error="cancelled")),
            row(4, "k.1.end", "sleeper", error_code="InvocationCancelledError"),
        ],
        ONCE: [
            row(1, "x7.1.0", "user", {"text": "do x7.1"}),
            row(2, "x7.1.1", "payer", call("c6", "pay", nonce="~6")),
            row(3, "x7.1.2", "payer", response("c6", "pay", paid=4, nonce="~")),
            row(4, "x7.1.3", "payer", {"text": "Paid. ~7"}),
        ],
    }


def good() -> Evidence:
    """Evidence that no check has anything to say about."""
    events = _events()
    found = Evidence(
        meta={"seconds": 60.0, "seed": 1, "store": "sqlite", "healed": 9.0, "settled": 11.5},
        heads={
            key: {"revision": len(rows), "lease_invocation_id": None}
            for key, rows in events.items()
        },
        events=events,
        state=[_state(PLAIN, "total", "1")],
        ledger=[
            {**_run("p.1:c1", "charge", "~1", phase), "at": at, "pid": 1}
            for phase, at in (("begun", 2.1), ("done", 2.2))
        ],
        asked=[
            {**_question(nonce), "at": seconds, "paired": True}
            for seconds, nonce in enumerate(STEPS)
        ],
        workflows=[
            {
                "workflow": name,
                "status": "COMPLETED",
                "failure": None,
                "events": 20,
                "bytes": 5000,
                "largest": 900,
            }
            for name in TURNS
        ],
    )
    for phase in ("begun", "done"):
        found.ledger.append({**_run("a.1:c2", "refund", "~3", phase), "at": 5.0, "pid": 1})
        found.ledger.append({**_run("z.1:c5", "nap", "~5", phase), "at": 5.0, "pid": 1})
        found.ledger.append({**_run("k.1:c8", "nap", "~8", phase), "at": 6.0, "pid": 1})
        found.ledger.append({**_run("x7.1:c6", "pay", "~6", phase), "at": 6.0, "pid": 1})
    for key, rows in events.items():
        _add(found, key, rows)
    found.repeats = [[dict(line) for line in found.journal if line["invocation"] == "p.1"]]
    found.rows = deepcopy(_rows(found))
    found.restored = _restored(found)
    return found


def _add(found: Evidence, key: Key, rows: list[Row]) -> None:
    """What store, workers and client say of an invocation."""
    turn = TURNS[rows[0].invocation]
    cancelled = key in (SLOW, CALM)
    found.invocations[turn.invocation] = {
        "status": "cancelled" if cancelled else "completed",
        "start_seq": 1,
        "end_seq": len(rows),
        "pauses": int(key is APPROVAL),
    }
    for one in rows:
        for phase in ("begun", "ok"):
            line = {"phase": phase, "event": one.id, "invocation": one.invocation, "pid": 1}
            found.commits.append({**line, "operation": "commit", "seq": one.seq, "at": 10.0})
    names = {**turn._asdict(), "invocation": turn.invocation, "attempt": 1, "pid": 2}
    shown = [one for one in rows if one.body["author"] != "user"]
    lines = [{"type": "invoke"}, *({"type": "event", **_seen(one)} for one in shown)]
    lines.append(
        {"type": "fail", "error": "InvocationCancelledError"} if cancelled else {"type": "ok"}
    )
    found.journal += [{**names, "operation": "run", "at": 11.0, **line} for line in lines]
    if cancelled:
        tries = ({"type": "invoke", "at": 10.4}, {"type": "ok", "reached": True, "at": 10.5})
        found.journal += [{**names, "operation": "cancel", **line} for line in tries]
    own = {line["key"]: int(line["value"]) for line in found.state if line["session_id"] == key[2]}
    found.controls[turn.app] = {
        "turns": [{"outcome": "ok", "events": [shaped(one.body, turn) for one in rows]}],
        "state": own,
    }


def _restored(found: Evidence) -> dict[str, Any]:
    """What came of a copy that lacks the end of a session, and of a message to it."""
    turn = Turn(*PLAIN, 1000)
    older, mended = deepcopy(found.rows), deepcopy(found.rows)
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
        "asked": [{**refused, "then": "ok"}],
        "older": older,
        "refused": deepcopy(older),
        "mended": mended,
        "left": [],
        "seconds": 1.5,
    }


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


def _seen(one: Row) -> dict[str, str]:
    return {"event": one.id, "digest": one.digest}


def _state(key: Key, name: str, value: str) -> dict[str, str]:
    return {**_owner(key), "key": name, "value": value}


def _owner(key: Key) -> dict[str, str]:
    return {"app_name": key.app, "user_id": key.user, "session_id": key.session}


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
    }


def changed(found: Evidence, key: Key, index: int, **fields: Any) -> None:
    """Change a stored event: its `seq`, `id`, `digest`, or fields of its body."""
    old = found.events[key][index]
    own = {name: fields.pop(name) for name in ("seq", "id", "digest") if name in fields}
    found.events[key][index] = replace(old, body={**old.body, **fields}, **own)
