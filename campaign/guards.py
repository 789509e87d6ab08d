"""Lower bounds on what a run has exercised, so that it cannot pass because nothing happened."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from campaign.access_probe import OWED, WAYS
from campaign.checks import after_faults
from campaign.checks.clients import FULL, REFUSED, undisturbed
from campaign.checks.containment import beside_poison, places, poisons, served_by_both
from campaign.checks.model_calls import question_of
from campaign.checks.operators import cleared_under_way, denials, denied_after_deploy
from campaign.checks.privacy import signed_in, trespasses
from campaign.checks.restored import left_alone, lost_events
from campaign.evidence import Evidence
from campaign.leaks import SECRETS, SEEN, SPOKEN
from campaign.links import links_of
from campaign.scale import SCALES, Scale, Size
from campaign.schedule import Kind, least, least_links
from campaign.workload import CLEARED, FREE, KINDS, Place, Poison
from durable_adk.wire.messages import WhenBusy

PUT_BACK = 0.8
"""Of the sessions that have lost events; the doctor leaves the others alone, and says why."""
SUCCESS = 0.95
"""Least share of messages that end as they do without faults."""
TURNS, TASKS = 30, 60
"""Least number of messages and of activities: fewer than what clients send in any case."""
CANCELLED = 8
"""Least number of cancellations after the faults; some come too late to reach anything."""
LOST = 20
"""Least number of events that a copy of the store lacks; the session for it alone has four."""
REPEATED = 6
"""Least number of messages that are sent several times at once."""
BESIDE = 10
"""Least number of a neighbour's turns beside a crowd."""


class Guard(NamedTuple):
    """A figure, and the least it may be."""

    name: str
    value: float
    at_least: float

    @property
    def passed(self) -> bool:
        """Whether it is enough."""
        return self.value >= self.at_least


def guards(found: Evidence) -> list[Guard]:
    """All figures of a run that have a lower bound."""
    seconds = float(found.meta["seconds"])
    done = [line for line in found.faults if line["done"] and not line.get("in_vain")]
    kinds = Counter(line["kind"] for line in done)
    links = Counter(line["link"] for line in done if "link" in line)
    figures = measured(found)
    scale = SCALES[Size(found.meta.get("size", Size.USUAL))]
    restores = bool(found.meta.get("restores"))
    faults = least(seconds, [k for k in scale.faults if not (restores and k is Kind.DELETE)])
    broken = least_links(seconds, links_of(found.meta["store"]), scale.faults)
    common = [
        Guard("messages answered", figures["turns"], scale.messages or TURNS),
        Guard("share that ended as undisturbed", figures["success"], SUCCESS),
        Guard(
            "cancellations judged after the faults", figures["cancelled_after_faults"], CANCELLED
        ),
        Guard("messages sent three times at once", _repeated(found), REPEATED),
        Guard("takeovers", figures["takeovers"], 1),
        *(Guard(f"faults: {kind}", kinds[kind], number) for kind, number in faults.items()),
        *(Guard(f"faults of link: {link}", links[link], number) for link, number in broken.items()),
    ]
    if not scale.everything:
        return [
            *common,
            Guard("faults before the last answer", _in_time(found), sum(faults.values())),
        ]
    return [
        *common,
        Guard("lost acknowledgements absorbed", figures["absorbed"], 1),
        Guard("zombies refused", figures["refused"], 1),
        Guard("histories continued as new", figures["continued"], 1),
        *(_of_restore(figures) if restores else _of_deletion(found)),
        *_widths(found, scale),
    ]


def _of_restore(figures: dict[str, Any]) -> Iterator[Guard]:
    """What the copy of a run that puts one in the store's place must have lacked."""
    yield Guard("events that the copy had lost", figures["lost_by_restore"], LOST)
    yield Guard("share of sessions that the doctor put back", figures["put_back"], PUT_BACK)


def _of_deletion(found: Evidence) -> Iterator[Guard]:
    """What only happens where the store is not put back."""
    yield Guard("sessions cleared with something under way", cleared_under_way(found), 2)


def _widths(found: Evidence, scale: Scale) -> Iterator[Guard]:
    """How much of what there is was played, tried and looked at."""
    outcomes, turns = found.outcomes(), found.turns
    played = Counter(
        turns[name].app
        for name, outcome in outcomes.items()
        if outcome and not after_faults.is_after_faults(turns[name].user)
    )
    for kind in KINDS:
        if kind != CLEARED or not found.meta.get("restores"):
            yield Guard(f"played: {kind}", played[kind], 1)
    yield Guard("messages refused by a full queue", list(outcomes.values()).count(FULL), 1)
    yield Guard("denied after a deploy", denied_after_deploy(found), 1)
    beside = len(after_faults.times(found, after_faults.BESIDE))
    yield Guard("a neighbour's turns beside a crowd", beside, BESIDE)
    yield Guard("tasks that workers have ended", _tasks(found, "ended"), TASKS)
    off = {line["pid"] for line in found.starts if line.get("clock")}
    by_them = {line["pid"] for line in found.commits if line["phase"] == "ok"}
    yield Guard("workers whose clock was off, and who committed", len(off & by_them), 1)
    older = {line["pid"] for line in found.starts if line["release"] == 1}
    newer = [line for line in found.commits if line["phase"] == "newer" and line["pid"] in older]
    yield Guard("places of a newer release that an older one went on from", len(newer), 1)
    yield Guard("kinds of poison", len(poisons(found)), len(Poison))
    yield Guard("places where code has raised", len(places(found)), len(Place))
    yield Guard("invocations beside a poison", len(beside_poison(found)), 1)
    yield Guard("invocations that two releases ran", len(served_by_both(found)), 1)
    tried = Counter(trespasses(found))
    for way in WAYS:
        yield Guard(f"tried in vain: {way}", tried[way], OWED * scale.clients)
    keyed = sum(line.get("keyed", False) for line in found.asked)
    yield Guard("keys used", min(signed_in(found), keyed), 1)
    yield Guard("words found where they may be", found.searched.get(SEEN, 0), 1)
    for kind in (SPOKEN, SECRETS):
        yield Guard(f"bytes searched: {kind}", found.searched.get(kind, 0), 10_000)


def measured(found: Evidence) -> dict[str, Any]:
    """The figures of a run."""
    turns = found.turns
    told = {name: outcome for name, outcome in found.outcomes().items() if outcome}
    outcomes = {
        name: outcome
        for name, outcome in told.items()
        if not after_faults.is_after_faults(turns[name].user)
    }
    cancelled = {name: took for name, took in after_faults.cancelled_in(found) if took is not None}
    wrong = {violation.where for violation in undisturbed(found)}
    steady = [name for name in outcomes if turns[name].app not in FREE]
    refused = Counter(line["error"] for line in found.commits if line["phase"] == "refused")
    questions = Counter(map(question_of, found.asked))
    return {
        "faults": sum(line["done"] for line in found.faults),
        "killed_while_ending": sum(bool(line.get("killed")) for line in found.faults),
        "turns": len(outcomes),
        "events": sum(map(len, found.events.values())),
        "success": sum(name not in wrong for name in steady) / max(1, len(steady)),
        "absorbed": _absorbed(found),
        "refused": refused["LeaseLostError"] + refused["EventConflictError"],
        "refused_by": dict(refused),
        "takeovers": _takeovers(found),
        "continued": sum(line["status"] == "CONTINUED_AS_NEW" for line in found.workflows),
        "told_unknown": sum(
            answer["response"].get("outcome") == "unknown"
            for rows in found.events.values()
            for row in rows
            for answer in row.responses
        ),
        "interrupts": _competing(found, WhenBusy.INTERRUPT),
        "heard": len(found.listeners()),
        "refusals": sum(outcome == REFUSED for outcome in outcomes.values()),
        "full": list(told.values()).count(FULL),
        "resets": sum(line["done"] and "reset" in line for line in found.faults),
        "cleared": cleared_under_way(found),
        "denied": sum(1 for _ in denials(found)),
        "neighbour": [
            round(after_faults.slowest(after_faults.times(found, name)), 3)
            for name in (after_faults.ALONE, after_faults.BESIDE)
        ],
        "overtaken": max(after_faults.overtaking(found), default=0),
        "settled_in": _settled_in(found),
        "lost_by_restore": _lost(found),
        "put_back": _put_back(found),
        "cancelled_after_faults": len(cancelled),
        "slowest_cancellation": round(max(cancelled.values(), default=0.0), 2),
        "repeated_model_calls": sum(questions.values()) - len(questions),
        "model_calls": sum(questions.values()),
        "repeated_tool_runs": _repeats(found),
        "statuses": dict(Counter(line["status"] for line in found.invocations.values())),
    }


def _settled_in(found: Evidence) -> dict[str, Any]:
    """Seconds from the end of the faults: until nothing ran, and until which outcome came last."""
    healed = found.meta["healed"]
    runs = [line for line in found.journal if line["operation"] == "run"]
    ends = [
        (line["at"], line["invocation"])
        for line in runs
        if line["type"] in ("ok", "fail") and not after_faults.is_after_faults(line["user"])
    ]
    at, invocation = max(ends, default=(healed, ""))
    return {
        "outcomes": round(at - healed, 1),
        "last": invocation,
        "workflows": round(found.meta["settled"] - healed, 1),
    }


def _lost(found: Evidence) -> int:
    """How many events the store's copy lacked, in sessions that it had and those it had not."""
    older = found.restored["older"] if found.restored else found.rows
    return sum(lost_events(found.rows, older).values())


def _put_back(found: Evidence) -> float:
    """Of the sessions that had lost events, the share that the doctor has not left alone."""
    older = found.restored["older"] if found.restored else found.rows
    lost = lost_events(found.rows, older)
    return 1 - len(left_alone(found)) / max(1, len(lost))


def _repeated(found: Evidence) -> int:
    """How many messages other clients sent as well, at the same time."""
    return len({line["invocation"] for journal in found.repeats for line in journal})


def _in_time(found: Evidence) -> int:
    """How many faults were done while messages were still to be answered."""
    answers = [line["at"] for line in found.journal if line["type"] == "ok"]
    return sum(line["done"] and line["began"] < max(answers, default=0) for line in found.faults)


def _tasks(found: Evidence, phase: str) -> int:
    return sum(line["phase"] == phase for line in found.tasks)


def _competing(found: Evidence, when_busy: WhenBusy) -> int:
    """How many messages came that wanted this of a busy session."""
    return sum(turn.when_busy is when_busy for turn in found.turns.values())


def _takeovers(found: Evidence) -> int:
    """How often a worker did again, or finished, what another had begun."""
    workers: dict[str, set[int]] = defaultdict(set)
    for line in found.ledger:
        workers[line["key"]].add(line["pid"])
    for line in found.commits:
        if line["phase"] == "begun" and line["event"]:
            workers[line["event"]].add(line["pid"])
    return sum(len(pids) - 1 for pids in workers.values())


def _absorbed(found: Evidence) -> int:
    """How often a write was repeated and found itself stored: its acknowledgement was lost."""
    opened = Counter(
        line["event"]
        for line in found.commits
        if (line["phase"], line.get("operation")) == ("ok", "open")
    )
    heard = {f"{name}.0" for name in found.listeners()}  # a delivered message counts as well
    events = sum(line["phase"] == "found" and line["event"] not in heard for line in found.commits)
    return events + sum(opened.values()) - len(opened)


def _repeats(found: Evidence) -> int:
    begun = Counter(line["key"] for line in found.ledger if line["phase"] == "begun")
    return sum(begun.values()) - len(begun)
