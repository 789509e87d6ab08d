"""Checks of users of the HTTP server beside others at its limits: I22 (S16)."""

from collections.abc import Iterator

from campaign.checks.violation import Violation
from campaign.evidence import Evidence
from campaign.workload import WEB, Limit

REFUSED: dict[Limit, tuple[int, ...]] = {
    Limit.OPEN: (429,),
    Limit.UNREAD: (429,),
    Limit.OFTEN: (429,),
    Limit.STRANGER: (401, 429),
    Limit.LARGE: (413,),
    Limit.QUEUED: (429,),
}
"""What who is at a limit is answered."""
FOR_ALL = (0, 200, 409, 503)
"""What somebody else may be answered: nothing in time, also as the server closes the connection of
who has no time to send a head; that a session is there already; that faults keep it from answering.
"""
BROKEN = 500


def served(found: Evidence) -> Iterator[Violation]:
    """I22, S16: nobody is refused because another user is at a limit, and nothing sent is a fault.

    That all messages end is for `liveness` and `undisturbed`.
    """
    for line in found.answers:
        if line["status"] == BROKEN:
            yield Violation("a request has broken the server", line["asked"], line)
        if line["user"] == WEB and line["status"] not in FOR_ALL:
            yield Violation("another user is refused for who is at a limit", line["asked"], line)


def reached(found: Evidence) -> set[Limit]:
    """The limits at which somebody was refused."""
    told: dict[str, set[int]] = {limit.user: set() for limit in Limit}
    for line in found.answers:
        if line["user"] in told:
            told[line["user"]].add(line["status"])
    return {limit for limit in Limit if {*REFUSED[limit]} <= told[limit.user]}
