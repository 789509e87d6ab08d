"""Of what evidence is made by hand."""

import json
from typing import Any

from campaign.controls import normalized
from campaign.evidence import Evidence, Key, Row
from campaign.workload import Turn


def call(id: str, name: str, **args: Any) -> dict[str, Any]:  # noqa: A002 # the call's own word
    return {"function_call": {"id": id, "name": name, "args": args}}


def response(id: str, name: str, **said: Any) -> dict[str, Any]:  # noqa: A002 # the call's own word
    return {"function_response": {"id": id, "name": name, "response": said}}


def ended(path: str, output: Any, *others: str) -> dict[str, Any]:
    """What an event has that is the output of a run of a node."""
    return {"output": output, "node_info": {"path": path, "output_for": [path, *others]}}


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


def added(found: Evidence, key: Key, rows: list[Row]) -> None:
    """Add what store, workers and client say of an invocation."""
    turn = Turn.of(key.app, key.user, rows[0].invocation)
    found.events[key] = rows
    found.heads[key] = {"revision": len(rows), "lease_invocation_id": None}
    cancelled = rows[-1].id.endswith(".end")
    found.invocations[turn.invocation] = {
        "status": "cancelled" if cancelled else "completed",
        "start_seq": 1,
        "end_seq": len(rows),
        "pauses": sum(one["name"] == "adk_request_confirmation" for r in rows for one in r.calls),
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
    own = {
        line["key"]: json.loads(line["value"])
        for line in found.state
        if line["session_id"] == key[2]
    }
    found.controls[turn.app] = {
        "turns": [{}] * turn.course
        + [{"outcome": "ok", "events": [normalized(one.body, turn) for one in rows]}],
        "state": own,
    }


def _seen(one: Row) -> dict[str, str]:
    return {"event": one.id, "digest": one.digest}
