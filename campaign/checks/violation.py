"""What a check finds."""

from typing import Any, NamedTuple


class Violation(NamedTuple):
    """One thing that must not be, and what shows it."""

    what: str
    where: str
    """The session, invocation, event or key."""
    evidence: Any = None
