"""Checks of Temporal's histories: I13, I14."""

from collections.abc import Iterator

from campaign.checks.violation import Violation
from campaign.evidence import Evidence

PAYLOAD = 256 * 1024
EVENTS = 300
"""Ten times the workers' limit: a run continues as new once no step is under way."""
SIZE = 4 * 1024 * 1024


def replayable(found: Evidence) -> Iterator[Violation]:
    """I13: each history replays on this code."""
    for line in found.workflows:
        if line.get("failure", "was not replayed") is not None:
            yield Violation("a history does not replay", line["workflow"], line)


def bounds(found: Evidence) -> Iterator[Violation]:
    """I14: no history event, and no history, is larger than it may be."""
    for line in found.workflows:
        if line["largest"] > PAYLOAD or line["events"] > EVENTS or line["bytes"] > SIZE:
            yield Violation("a history is too large", line["workflow"], line)
