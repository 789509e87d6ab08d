"""Checks of invocations beside poisonous ones on a worker (I22), and over a deploy (I20)."""

import signal
from collections import Counter, defaultdict
from collections.abc import Iterator

from campaign.checks.clients import foreseen, undisturbed
from campaign.checks.log import CLOSED
from campaign.checks.model_calls import HARMFUL, STOPS
from campaign.checks.tasks import NEVER, Tasks
from campaign.checks.violation import Violation
from campaign.evidence import Evidence
from campaign.workload import POISON, RAISING, Place, Poison, Turn

LARGEST = 64 * 1024
"""Characters of what a poisonous invocation may leave as its last event."""
SURVIVED = (Poison.BLOCK, Poison.EXIT, Poison.NAN)
"""Kinds after which a run continues; the others end it with an error event."""


def containment(found: Evidence) -> Iterator[Violation]:
    """I22, F12, F13: a poisonous invocation ends by itself, and those on its worker as without it.

    Its tool is not run again for what it raised or returned. How long others wait meanwhile is not
    judged: faults make them wait too.
    """
    outcomes, by_invocation = found.outcomes(), found.by_invocation()
    for name, turn in _of(found, POISON).items():
        if not outcomes[name]:
            continue  # that is for `liveness`
        survives, rows = turn.poison in SURVIVED, by_invocation.get(name, [])
        if (outcomes[name] == "ok") is not survives or found.status(name) not in CLOSED:
            yield Violation("a poison has another end", name, [turn.poison, outcomes[name]])
        last = rows[-1].body if rows else {}
        if bool(last.get("error_code")) is survives or len(str(last)) > LARGEST:
            yield Violation("a poison has left another event", name, str(last)[:500])
        if turn.poison is Poison.EXIT and not _exits(found)[name]:
            yield Violation("a poison has not worked", name, turn.poison)
        if _exits(found)[name] > 1:
            yield Violation("a tool that ends its worker has done it again", name, _exits(found))
    wrong = _wrong(found)
    for name in beside_poison(found) & wrong.keys():
        yield Violation("a poison has reached another invocation", name, wrong[name])


def raising(found: Evidence) -> Iterator[Violation]:
    """I22, F12: whatever code raises ends its invocation only, with an error that names it.

    Where Python drops what was raised, nothing has happened.
    """
    outcomes, by_invocation = found.outcomes(), found.by_invocation()
    for name, turn in _of(found, RAISING).items():
        if not outcomes[name]:
            continue  # that is for `liveness`
        survives, rows = turn.place is Place.DESTRUCTOR, by_invocation.get(name, [])
        told = [turn.place, turn.raised, outcomes[name]]
        if (outcomes[name] == "ok") is not survives or found.status(name) not in CLOSED:
            yield Violation("what code has raised has another end", name, told)
        last = rows[-1].body if rows else {}
        if not survives and turn.raised not in str(last.get("error_message")):
            yield Violation("an error does not name what was raised", name, [*told, last])


def workers_end(found: Evidence) -> Iterator[Violation]:
    """I22, F12: no worker ends but by a signal, or because one of its tools ends the process."""
    ordered = {line.get("pid") for line in found.faults if line["kind"] == STOPS and line["done"]}
    exits = {line["pid"] for line in found.ledger if line["phase"] == "exit"}
    for line in found.ends:
        by_order = line["ended"] in ordered or line["at"] > found.meta["healed"]
        allowed = {-signal.SIGKILL} | ({0} if by_order else set[int]())
        if line["code"] not in allowed and line["ended"] not in exits:
            yield Violation("a worker has ended by itself", line["name"], line)


def upgrade(found: Evidence) -> Iterator[Violation]:
    """I20: an invocation that workers of two releases have run has come out as on one."""
    wrong = _wrong(found)
    for name in served_by_both(found) & wrong.keys():
        yield Violation("a deploy has changed what came out", name, wrong[name])


def tasks_ended(found: Evidence) -> Iterator[Violation]:
    """I22: a worker ends what it has taken: nothing is under way when there is nothing to do."""
    ended = {
        (line["pid"], line["task"]): line["at"] for line in found.tasks if line["phase"] == "ended"
    }
    for idle in (line for line in found.tasks if line["phase"] == "idle"):
        for line in found.tasks:
            own = line["phase"] == "taken" and line["pid"] in idle["pids"]
            end = ended.get((line["pid"], line["task"]), NEVER)
            if own and line["at"] < idle["at"] < end:
                yield Violation("a worker has taken a task and not ended it", line["task"], line)


def beside_poison(found: Evidence) -> set[str]:
    """The invocations that a worker was busy with when one of its tools did harm."""
    poisonous, tasks = _of(found, POISON, RAISING), Tasks(found)
    harms = [line for line in found.ledger if line["tool"] in HARMFUL and line["phase"] == "begun"]
    return {
        name
        for name in found.turns.keys() - poisonous.keys()
        for task in tasks.of(name)
        for harm in harms
        if task.pid == harm["pid"] and task.taken <= harm["at"] <= task.ended
    }


def served_by_both(found: Evidence) -> set[str]:
    """The invocations whose events workers of both releases have committed."""
    release = {line["pid"]: line["release"] for line in found.starts}
    served: dict[str, set[int]] = defaultdict(set)
    for line in found.commits:
        if line["phase"] == "ok" and line["pid"] in release:
            served[line["invocation"]].add(release[line["pid"]])
    return {name for name, releases in served.items() if len(releases) > 1}


def poisons(found: Evidence) -> set[Poison]:
    """The kinds of harm that were done."""
    outcomes = found.outcomes()
    return {turn.poison for name, turn in _of(found, POISON).items() if outcomes[name]}


def places(found: Evidence) -> set[Place]:
    """The places where code has raised."""
    outcomes = found.outcomes()
    return {turn.place for name, turn in _of(found, RAISING).items() if outcomes[name]}


def _of(found: Evidence, *apps: str) -> dict[str, Turn]:
    return {name: turn for name, turn in found.turns.items() if turn.app in apps}


def _exits(found: Evidence) -> Counter[str]:
    return Counter(line["invocation"] for line in found.ledger if line["phase"] == "exit")


def _wrong(found: Evidence) -> dict[str, Violation]:
    """The invocations that have come out wrong."""
    return {one.where: one for one in (*undisturbed(found), *foreseen(found))}
