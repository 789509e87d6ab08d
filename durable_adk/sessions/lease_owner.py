"""Names of lease owners.

A lease owner is the workflow or the process that runs the invocation which holds a session's lease.
"""

from dataclasses import dataclass
from typing import Final, Self

from pydantic import Field

NAMED_HOLDER: Final = Field(validation_alias="holder", serialization_alias="holder")
"""Payloads, histories and tables name a lease owner `holder`."""
LOCAL_PREFIX: Final = "local:"
"""Prefix of an invocation that runs inside a process. Its lease expires unless it is renewed."""
LOCAL_TTL: Final = 30.0
"""Seconds without renewal after which the lease of such an invocation expires."""


def ttl_of(lease_owner: str) -> float | None:
    """Seconds until a lease expires unless renewed; None for a workflow, which can be looked up."""
    return LOCAL_TTL if lease_owner.startswith(LOCAL_PREFIX) else None


@dataclass(frozen=True)
class TemporalLeaseOwner:
    """A chain of workflow runs. The workflow id alone is not enough: a later run may reuse it."""

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
