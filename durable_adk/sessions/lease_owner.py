"""Who holds a session's lease, as text."""

from dataclasses import dataclass
from typing import Self

LOCAL_PREFIX = "local:"
"""A run inside a process; its lease expires when the process stops renewing it."""
LOCAL_TTL = 30.0
"""Seconds after which an in-process run that stopped renewing is taken for dead."""


def ttl_of(holder: str) -> float | None:
    """Seconds a holder's lease lives without a sign of life; None: its end can be looked up."""
    return LOCAL_TTL if holder.startswith(LOCAL_PREFIX) else None


@dataclass(frozen=True)
class TemporalHolder:
    """A chain of workflow runs: not just the workflow id, which another run may take later."""

    namespace: str
    first_run_id: str
    workflow_id: str

    def __str__(self) -> str:
        return f"temporal:{self.namespace}:{self.first_run_id}:{self.workflow_id}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The holder written as text; None if it is of another kind."""
        # Only the workflow id, which comes last, can hold a colon.
        match text.split(":", 3):
            case ["temporal", namespace, first_run_id, workflow_id]:
                return cls(namespace, first_run_id, workflow_id)
            case _:
                return None
