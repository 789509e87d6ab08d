"""Ways to make good evidence wrong in one place."""

import json
from collections.abc import Callable

from campaign.evidence import Evidence, Key
from tests.campaign.made import APPROVAL, ONCE, PLAIN, TURNS, changed
from tests.campaign.made_outside import CLEARED, workflow_of
from tests.campaign.parts import response, row

Harm = Callable[[Evidence], object]


def lines(found: Evidence, name: str, **fields: object) -> list[dict]:
    """The lines of a list that have these fields."""
    return [line for line in getattr(found, name) if fields.items() <= line.items()]


def change(name: str, **fields: object) -> Callable[..., Harm]:
    """Give the first line with these fields other ones."""
    return lambda **other: lambda found: lines(found, name, **fields)[0].update(other)


def drop(name: str, **fields: object) -> Harm:
    """Take the lines with these fields away."""

    def harm(found: Evidence) -> None:
        gone = lines(found, name, **fields)
        setattr(found, name, [line for line in getattr(found, name) if line not in gone])

    return harm


def repeat(name: str, *, other: dict | None = None, **fields: object) -> Harm:
    """Add the first line with these fields again, with `other` ones changed."""
    return lambda found: getattr(found, name).append(
        {**lines(found, name, **fields)[0], **(other or {})}
    )


def store(key: Key, index: int, **fields: object) -> Harm:
    """Change a stored event."""
    return lambda found: changed(found, key, index, **fields)


def lose(key: Key, index: int) -> Harm:
    """Take a stored event away."""
    return lambda found: found.events[key].pop(index)


def state(value: str) -> Harm:
    """Change the stored state."""
    return change("state", key="total")(value=value)


def fault(kind: str, **fields: object) -> dict:
    """A fault while the second question of `PLAIN` is open, if it is repeated at once."""
    return {"kind": kind, "done": True, "began": 0.5, "at": 0.9, **fields}


def invocation(name: str, **fields: object) -> Harm:
    """Change an invocation's row."""
    return lambda found: found.invocations[name].update(fields)


def interleave(found: Evidence) -> None:
    """Another invocation in the middle of the first."""
    found.events[PLAIN].insert(2, row(3, "q.1.0", "user", {"text": "do q.1"}))


def second_answer(found: Evidence) -> None:
    """The answer of a repeated question is used besides the first."""
    found.asked.append({**found.asked[1], "nonce": "~00000009"})
    texts = [{"text": "Charged. ~00000002"}, {"text": "Again. ~00000009"}]
    changed(found, PLAIN, 3, content={"parts": texts})


def twice_decided(found: Evidence) -> None:
    """A decision is stored twice."""
    again = row(8, "a.1.again", "user", response("c3", "adk_request_confirmation"))
    found.events[APPROVAL].append(again)


def cancel_late(found: Evidence) -> None:
    """A cancellation is said to have reached a run whose end its client knew before."""
    (asked, answered) = lines(found, "journal", invocation="k.1", operation="cancel")
    found.journal.append({**asked, "attempt": 2, "at": 12.0})
    found.journal.append({**answered, "attempt": 2, "at": 12.1})


def stores(found: Evidence) -> dict:
    """What came of the restore."""
    assert found.restored is not None
    return found.restored


def restored(name: str, **fields: object) -> Harm:
    """Change the first line of what came of a restore."""
    return lambda found: stores(found)[name][0].update(fields)


def in_store(name: str, table: str, row: str, **fields: object) -> Harm:
    """Change a row of a store of the restore: an event, an invocation or a session."""
    own = {"events": "event_id", "invocations": "invocation_id", "sessions": "session_id"}[table]

    def harm(found: Evidence) -> None:
        next(one for one in stores(found)[name][table] if one[own] == row).update(fields)

    return harm


def told(**said: object) -> Harm:
    """Tell something else of the payment."""
    return store(ONCE, 2, content={"parts": [response("c6", "pay", **said)]})


def leak(kind: str) -> Harm:
    """A file of the run holds what it must not."""
    return lambda found: found.leaks.append({"kind": kind, "file": "x.log", "what": "x"})


def left(found: Evidence) -> None:
    """Nobody was killed, and there is an unfinished file all the same."""
    found.cut = [f"/artifacts/.new-{n}" for n in range(5)]


def noisy_neighbour(found: Evidence) -> None:
    """An invocation beside the poison comes out wrong."""
    task = {"pid": 2, "task": "run/beside/1", "workflow": workflow_of(TURNS["p.1"])}
    found.tasks.append({**task, "phase": "taken", "at": 9.4})
    found.tasks.append({**task, "phase": "ended", "at": 9.6, "decided": ""})
    store(PLAIN, 3, author="another")(found)


def deploy(found: Evidence) -> None:
    """A worker of the other release has continued, and something else came out."""
    change("commits", event="p.1.3", phase="ok")(pid=2)(found)
    store(PLAIN, 3, author="another")(found)


def leave_alone(found: Evidence) -> None:
    """Have the doctor say of all sessions that lack events that it cannot put them back."""
    for session in "abcdefghij":
        told = {"app": "plain", "user": "u", "session": session, "problem": "3 is in no history"}
        stores(found)["left"].append(json.dumps(told))


def ran(key: str, **fields: object) -> Harm:
    """A tool has begun for a call."""
    line = {"key": key, "tool": "refund", "phase": "begun", "invocation": key.partition(":")[0]}
    return lambda found: found.ledger.append({**line, "nonce": "~00000020", "at": 8.0, **fields})


def left_over(found: Evidence) -> None:
    """An event of the session before is in the new one."""
    found.events[CLEARED].append(row(4, "c8.11.1", "forgetter", {"text": "Settled."}))
    found.heads[CLEARED]["revision"] = 4


def overtaken(times: int) -> Harm:
    """So many of a crowd's turns end during each of the neighbour's turns beside it."""

    def harm(found: Evidence) -> None:
        (end,) = lines(found, "journal", invocation="crowd-calm-0.1", type="ok")
        found.journal += [{**end, "at": 30.1} for _ in range(times)]

    return harm


def hung(found: Evidence, *, ended: float | None = None) -> None:
    """A worker that has nothing to do does not end a task that it has taken."""
    task = {"pid": 1, "task": "run/hung/1"}
    found.tasks.append({**task, "at": 50.0, "phase": "taken"})
    found.tasks.append({"pid": 9, "at": 60.0, "phase": "idle", "task": "", "pids": [1]})
    if ended is not None:
        found.tasks.append({**task, "at": ended, "phase": "ended", "decided": ""})


def ends(code: int) -> Harm:
    """A worker ends amid the faults."""
    line = {"name": "worker-1", "ended": 7, "code": code, "at": 5.0}
    return lambda found: found.ends.append(line)
