"""Checks of what clients did after the faults: I12, I15, I16, I17 (F26)."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from campaign.checks.clients import no_loss, stream
from campaign.checks.violation import Violation
from campaign.evidence import Evidence
from campaign.workload import CROWD
from harness.journal import Line

CANCELLED_WITHIN = 3.0
"""Seconds, if nothing else goes wrong."""
USER = "calm"
"""Who sends and cancels when the faults are over."""
NEIGHBOUR = f"{USER}-neighbour"
"""Who sends one message after the other then: first alone, and then beside many of another user."""
ALONE, BESIDE = "alone", "beside"
"""How the neighbour's sessions are called, second; third comes the number of the round."""
TIMES, NOISE = 2.0, 0.4
"""How much longer a neighbour may wait beside a crowd: so many times, or so many seconds more."""
SHARE = 0.95
"""Of the neighbour's turns, of which the slowest counts."""


def is_after_faults(user: str) -> bool:
    """Whether a user sends something only when the faults are over."""
    return user in (USER, NEIGHBOUR)


def cancel_after_faults(found: Evidence) -> Iterator[Violation]:
    """I15: what is cancelled ends within 3 s of the acknowledgement; what has ended stays so."""
    ends = _ends(found)
    for name, seconds in cancelled_in(found):
        if seconds is None or seconds > CANCELLED_WITHIN:
            yield Violation("a cancelled run went on", name, seconds)
    asked: dict[tuple[str, int], float] = {}
    for line in _cancels(found):
        name = line["invocation"]
        if line["type"] == "invoke":
            asked[name, line["attempt"]] = line["at"]
        elif line["reached"] and asked[name, line["attempt"]] > ends.get(name, float("inf")):
            yield Violation("a cancellation reached what had ended", name, line)


def sent_again(found: Evidence) -> Iterator[Violation]:
    """I12, I16, I17: clients that send the same at the same time see the same events and end."""
    outcomes = found.outcomes()
    for journal in found.repeats:
        own = replace(found, journal=journal, commits=[])
        yield from no_loss(own)
        yield from stream(own)
        for name, outcome in own.outcomes().items():
            if not outcome or outcome != outcomes.get(name):
                yield Violation("who sent the same was told another outcome", name, outcome)


def cancelled_in(found: Evidence) -> list[tuple[str, float | None]]:
    """Each cancellation that was acknowledged, and seconds until its client knew of the end."""
    ends = _ends(found)
    reached = [line for line in _cancels(found) if line["type"] == "ok" and line["reached"]]
    return [(line["invocation"], _after(line, ends.get(line["invocation"]))) for line in reached]


def _after(line: Line, end: float | None) -> float | None:
    return None if end is None else end - line["at"]


def _cancels(found: Evidence) -> list[Line]:
    own = [line for line in found.journal if line["user"] == USER]
    return [line for line in own if line["operation"] == "cancel"]


def _ends(found: Evidence) -> dict[str, float]:
    """When each turn's client knew its outcome."""
    runs = [line for line in found.journal if line["operation"] == "run"]
    return {line["invocation"]: line["at"] for line in runs if line["type"] in ("ok", "fail")}


def noisy_neighbour(found: Evidence) -> Iterator[Violation]:
    """I22: many messages in one session leave the turns of another user nearly as fast.

    It is measured again if they do not, for the machine may have had other things to do: what is
    slow for a reason of ours is so each time.
    """
    measured = rounds(found)
    if measured and all(is_slowed(*one) for one in measured):
        figures = [tuple(map(slowest, one)) for one in measured]
        yield Violation("a crowd slows its neighbours down", BESIDE, figures)


def is_slowed(alone: list[float], beside: list[float]) -> bool:
    """Whether turns beside a crowd have taken longer than they may, by those without one."""
    undisturbed = slowest(alone)
    return slowest(beside) > max(TIMES * undisturbed, undisturbed + NOISE)


def rounds(found: Evidence) -> list[tuple[list[float], list[float]]]:
    """Seconds that the neighbour's turns took alone, and while there was a crowd, each time."""
    own = [line for line in found.journal if line["operation"] == "run"]
    began = {line["invocation"]: line["at"] for line in own if line["type"] == "invoke"}
    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    until: dict[int, float] = defaultdict(float)
    for line in own:
        if line["user"] == USER and line["app"] == CROWD:
            number = int(line["session"].rpartition("-")[2])
            until[number] = max(until[number], line["at"])
    for line in own:
        if line["user"] == NEIGHBOUR and line["type"] in ("ok", "fail"):
            _, name, number, _ = line["session"].split("-")
            if name == ALONE or line["at"] <= until[int(number)]:
                times[name, int(number)].append(line["at"] - began[line["invocation"]])
    numbers = sorted({number for _, number in times})
    measured = [(times[ALONE, number], times[BESIDE, number]) for number in numbers]
    return [(alone, beside) for alone, beside in measured if alone and beside]


def slowest(times: list[float]) -> float:
    """The time within which so large a share of turns was over."""
    return sorted(times)[ceil(SHARE * len(times)) - 1]


def in_time(found: Evidence) -> Iterator[Violation]:
    """I11: the sender of a message under faults gets its outcome within the given time."""
    end = found.meta["healed"] + found.meta["quiet"]
    for line in found.journal:
        ends = line["operation"] == "run" and line["type"] in ("ok", "fail")
        if ends and not is_after_faults(line["user"]) and line["at"] > end:
            yield Violation("an outcome came late", line["invocation"], line)
