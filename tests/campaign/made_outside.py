"""Evidence made by hand of what users and operators do, in which everything is as it must be."""

from itertools import count

from campaign.checks.after_faults import ALONE, BESIDE, NEIGHBOUR
from campaign.evidence import Evidence, Key, Row
from campaign.workload import RAISING, Place, Turn
from durable_adk.sessions import SessionKey
from durable_adk.wire.messages import workflow_id
from harness.journal import Line
from tests.campaign.parts import added, call, response, row

DENIED, CLEARED = Key("denied", "u9", "d9"), Key("cleared", "u8", "c8")
OLD, NEW = Turn(*CLEARED, 11), Turn(*CLEARED, 21)
"""What was sent to the session before it was cleared for the last time, and afterwards."""
OLD_NONCE, NEW_NONCE = "~00000021", "~00000022"
CROWD = Key("crowd", "calm", "crowd-calm-0")
QUIET = {name: Key("crowd", NEIGHBOUR, f"crowd-{name}-0") for name in (ALONE, BESIDE)}
TOOK = 0.3
"""Seconds of each of the neighbour's turns."""


def add_outside(found: Evidence, *, quiet: int = 1) -> None:
    """A denial, a session that was cleared, a reset, a crowd and its neighbour.

    Args:
        found: Where to.
        quiet: How many turns the neighbour has, alone and beside the crowd.
    """
    added(found, DENIED, _denied())
    question = {"agent": "decliner", "step": 0, "paired": True, "keyed": True, "seen": []}
    found.asked.append({**question, "invocation": "d9.1", "nonce": "~00000020", "at": 5.0})
    _clear(found)
    for number in range(quiet):
        for key in QUIET.values():
            _talk(found, Turn(*key, number + 1), TOOK)
    _talk(found, Turn(*CROWD, 1), 20.0)
    for place in Place:
        _raise(found, place)
    full = Turn(*CROWD, 2)
    found.journal += [
        {**_names(full), "type": "invoke", "at": 30.0},
        {**_names(full), "type": "fail", "error": "QueueFullError", "at": 30.1},
    ]
    done = {"kind": "reset", "done": True, "began": -50.0, "at": -50.0}
    found.faults.append({**done, "reset": "p.1", "to": "first"})
    found.tasks += [
        {"pid": pid, "at": at, "phase": phase, "task": f"run/{pid}/{n}", "decided": decided}
        for pid, decided in ((1, ""), (2, "d9.1:c20"))
        for n in range(6)
        for at, phase in ((5.0, "taken"), (5.5, "ended"))
    ]


def _denied() -> list[Row]:
    request = call("c21", "adk_request_confirmation", originalFunctionCall={"id": "c20"})
    answer = response("c21", "adk_request_confirmation", confirmed=False)
    return [
        row(1, "d9.1.0", "user", {"text": Turn(*DENIED, 1).message}),
        row(2, "d9.1.1", "decliner", call("c20", "refund", nonce="~00000020")),
        row(3, "d9.1.3", "decliner", request),
        row(4, "d9.1.2", "decliner", response("c20", "refund", error="asked")),
        row(5, "d9.1.answer", "user", answer),
        row(6, "d9.1.4", "decliner", response("c20", "refund", error="rejected")),
    ]


def _clear(found: Evidence) -> None:
    """A session that was cleared twice; of the one before it has a message, which was appended."""
    kept = row(1, f"{OLD.invocation}.0", "user", {"text": OLD.message})
    asked = row(2, f"{NEW.invocation}.0", "user", {"text": NEW.message})
    said = row(3, f"{NEW.invocation}.1", "forgetter", {"text": f"Settled. {NEW_NONCE}"})
    added(found, CLEARED, [asked, said])
    found.invocations[NEW.invocation].update(start_seq=2, end_seq=3)
    found.events[CLEARED] = [kept, asked, said]
    found.heads[CLEARED]["revision"] = 3
    where = dict(zip(("app", "user", "session"), CLEARED, strict=True))
    times = {("deleting", 1): 1.0, ("deleted", 1): 1.1, ("deleting", 2): 9.7, ("deleted", 2): 9.8}
    found.clears = [
        {**where, "type": kind, "generation": generation, "at": at}
        for (kind, generation), at in times.items()
    ]
    again = {"type": "kept", "generation": 2, "at": 9.9, "event": f"{OLD.invocation}.0"}
    found.clears.append({**where, **again})
    for turn, at in ((OLD, 2.0), (NEW, 10.0)):
        opened = {"operation": "open", "event": f"{turn.invocation}.0", "pid": 1}
        opened |= {"invocation": turn.invocation, "seq": 2}
        found.commits += [{**opened, "phase": "begun", "at": at - 0.1}]
        found.commits += [{**opened, "phase": "ok", "at": at}]
    found.journal += [
        {**_names(OLD), "type": "invoke", "at": 1.05},
        {**_names(OLD), "type": "fail", "error": "LeaseLostError", "at": 10.5},
    ]
    common = {"agent": "forgetter", "step": 0, "paired": True, "keyed": True}
    found.asked += [
        {**common, "invocation": OLD.invocation, "nonce": OLD_NONCE, "at": 2.5, "seen": [OLD.word]},
        {**common, "invocation": NEW.invocation, "nonce": NEW_NONCE, "at": 10.5}
        | {"seen": [OLD.word, NEW.word]},
    ]
    found.workflows.append({**found.workflows[0], "workflow": workflow_of(OLD)})


def _talk(found: Evidence, turn: Turn, seconds: float) -> None:
    """A message and an answer in words, and how long they took; all after one moment."""
    name, key = turn.invocation, Key(*turn[:3])
    rows = [
        row(2 * turn.number - 1, f"{name}.0", "user", {"text": turn.message}),
        row(2 * turn.number, f"{name}.1", "talker", {"text": "Heard."}),
    ]
    before = found.events.get(key, [])
    added(found, key, rows)
    found.events[key] = [*before, *rows]
    found.heads[key]["revision"] = len(found.events[key])
    found.invocations[name].update(start_seq=rows[0].seq, end_seq=rows[1].seq)
    for line in found.journal:
        if line["invocation"] == name:
            line["at"] = 30.0 if line["type"] == "invoke" else 30.0 + seconds


def workflow_of(turn: Turn) -> str:
    """The workflow of an invocation."""
    return workflow_id(SessionKey(*turn[:3]), turn.invocation)


def raising(place: Place) -> Turn:
    """The turn whose code raises there."""
    turns = (Turn(RAISING, "u9", f"raising-{number}", 1) for number in count())
    return next(turn for turn in turns if turn.place is place)


def _raise(found: Evidence, place: Place) -> None:
    """An invocation whose code raises: it fails with that name, unless Python drops it."""
    turn = raising(place)
    name, survives = turn.invocation, place is Place.DESTRUCTOR
    told = {"error_code": "RuntimeError", "error_message": f"User code raised {turn.raised}: 70"}
    rows = [
        row(1, f"{name}.0", "user", {"text": turn.message}),
        row(2, f"{name}.1", "body", **({} if survives else told)),
    ]
    added(found, Key(*turn[:3]), rows)
    if not survives:
        found.journal[-1] |= {"type": "fail", "error": "RuntimeError"}
        found.invocations[name]["status"] = "failed"


def _names(turn: Turn) -> Line:
    names = {**turn._asdict(), "invocation": turn.invocation, "attempt": 1, "pid": 2}
    return {**names, "operation": "run"}
