"""Checks of what clients did after the faults: I12, I15, I16, I17 (F26)."""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import Any

from campaign.checks.clients import no_loss, stream
from campaign.checks.violation import Violation
from campaign.evidence import Evidence
from campaign.workload import CALM, CROWD, QUEUED
from harness.journal import Line

USER = CALM
"""Who sends and cancels when the faults are over."""
NEIGHBOUR = f"{USER}-neighbour"
"""Who sends one message after the other then: first alone, and then beside many of another user."""
ALONE, BESIDE = "alone", "beside"
"""How the neighbour's sessions are called, second; third comes their number."""
OVERTAKEN = QUEUED
"""Turns of a crowd that may end during one of a neighbour: by so many its session is overtaken only
if it waits for theirs. All of them take longer on a slow machine, so that changes nothing."""
SHARE = 0.95
"""Of the neighbour's turns, of which the slowest counts, and the one that most overtake."""


def is_after_faults(user: str) -> bool:
    """Whether a user sends something only when the faults are over."""
    return user in (USER, NEIGHBOUR)


def cancel_after_faults(found: Evidence) -> Iterator[Violation]:
    """I15: what is cancelled ends, as by itself it would not; what has ended stays so."""
    ends = _ends(found)
    for name, seconds in cancelled_in(found):
        if seconds is None:
            yield Violation("a cancelled run went on", name)
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
    """I22: many messages in one session do not hold up the turns of another user.

    A turn of another session may take as long as some of theirs, but it does not wait for a queue
    of them. What they cost in time is a figure (`measured`), and a benchmark's business.
    """
    overtaken = sorted(overtaking(found))
    if overtaken and _most(overtaken) >= OVERTAKEN:
        yield Violation("a crowd holds its neighbours up", BESIDE, overtaken)


def overtaking(found: Evidence) -> list[int]:
    """How many turns of the crowd ended during each turn of the neighbour beside it."""
    crowd = [line["at"] for line in found.journal if _ends_turn_of_crowd(line)]
    return [
        sum(began <= end <= ended for end in crowd) for began, ended in _neighbours(found, BESIDE)
    ]


def times(found: Evidence, name: str) -> list[float]:
    """Seconds that the neighbour's turns took, alone or beside a crowd."""
    return [ended - began for began, ended in _neighbours(found, name)]


def slowest(times: list[float]) -> float:
    """The time within which so large a share of turns was over; 0: there were none."""
    return _most(sorted(times)) if times else 0.0


def _most(ordered: list[Any]) -> Any:
    return ordered[ceil(SHARE * len(ordered)) - 1]


def _ends_turn_of_crowd(line: Line) -> bool:
    """Whether a message of the crowd was answered; those that a full queue refuses end at once."""
    ends = (line["operation"], line["type"]) == ("run", "ok")
    return ends and (line["user"], line["app"]) == (USER, CROWD)


def _neighbours(found: Evidence, name: str) -> Iterator[tuple[float, float]]:
    """When each of the neighbour's turns began and ended."""
    ends = _ends(found)
    for line in found.journal:
        first = (line["operation"], line["type"], line["attempt"]) == ("run", "invoke", 1)
        own = line["user"] == NEIGHBOUR and line["session"].split("-")[1] == name
        if first and own and line["invocation"] in ends:
            yield line["at"], ends[line["invocation"]]
