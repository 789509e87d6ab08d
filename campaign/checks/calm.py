"""What must hold of what was done after the faults: I12, I15, I16, I17 (F26)."""

from collections.abc import Iterator
from dataclasses import replace

from campaign.checks.clients import no_loss, stream
from campaign.checks.violation import Violation
from campaign.evidence import Evidence
from campaign.journals import Line

CANCELLED_WITHIN = 3.0
"""Seconds, if nothing else goes wrong."""
USER = "calm"
"""Who sends and cancels when the faults are over."""


def cancel_in_calm(found: Evidence) -> Iterator[Violation]:
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
    """I12, I16, I17: whoever sends the same at the same time sees the same, and its end."""
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


def in_time(found: Evidence) -> Iterator[Violation]:
    """I11: who sent a message under faults hears of its outcome within the time that is given."""
    end = found.meta["healed"] + found.meta["quiet"]
    for line in found.journal:
        ends = line["operation"] == "run" and line["type"] in ("ok", "fail")
        if ends and line["user"] != USER and line["at"] > end:
            yield Violation("an outcome came late", line["invocation"], line)
