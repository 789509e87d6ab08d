"""Names of lease owners.

A lease owner is the workflow or the process that runs the invocation which holds a session's lease.
"""

from dataclasses import dataclass
from typing import Final, Self

LOCAL_PREFIX: Final = "local:"
"""Prefix of a lease owner that is a process. Its lease expires unless it is renewed."""
LOCAL_TTL: Final = 30.0
"""Seconds without renewal after which a process's lease expires."""


def ttl_of(lease_owner: str) -> float | None:
    """Return the seconds until an unrenewed lease expires.

    None for a workflow, because its state can be looked up.
    """
    return LOCAL_TTL if lease_owner.startswith(LOCAL_PREFIX) else None


@dataclass(frozen=True)
class TemporalLeaseOwner:
    """A chain of workflow runs.

    Contains the first run's id, because a later run may reuse the workflow id.
    """

    namespace: str
    first_run_id: str
    workflow_id: str

    def __str__(self) -> str:
        return f"temporal:{self.namespace}:{self.first_run_id}:{self.workflow_id}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse the text form; None if the lease owner is not a workflow."""
        # Only the workflow id, which comes last, may contain a colon.
        match text.split(":", 3):
            case ["temporal", namespace, first_run_id, workflow_id]:
                return cls(namespace, first_run_id, workflow_id)
            case _:
                return None
