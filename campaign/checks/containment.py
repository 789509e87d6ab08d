"""Checks of invocations beside poisonous ones on a worker (I22), and over a deploy (I20)."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from campaign.checks.clients import foreseen, undisturbed
from campaign.checks.log import CLOSED
from campaign.checks.tasks import NEVER, Tasks
from campaign.checks.violation import Violation
from campaign.evidence import Evidence
from campaign.workload import POISON, Poison, Turn

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
    for name, turn in _poisonous(found).items():
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
    poisonous, tasks = _poisonous(found), Tasks(found)
    harms = [line for line in found.ledger if line["tool"] == "poison" and line["phase"] == "begun"]
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
    return {turn.poison for name, turn in _poisonous(found).items() if outcomes[name]}


def _poisonous(found: Evidence) -> dict[str, Turn]:
    return {name: turn for name, turn in found.turns.items() if turn.app == POISON}


def _exits(found: Evidence) -> Counter[str]:
    return Counter(line["invocation"] for line in found.ledger if line["phase"] == "exit")


def _wrong(found: Evidence) -> dict[str, Violation]:
    """The invocations that have come out wrong."""
    return {one.where: one for one in (*undisturbed(found), *foreseen(found))}
