"""A session's row: the end of its log and the lease that permits writing."""

import json
import math
from dataclasses import dataclass, replace

from durable_adk.errors import LeaseLostError, SessionRegressedError, StaleSessionError
from durable_adk.failpoints import failpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One row of the sessions table; only replaced as a whole, inside a transaction.

    Times are Unix seconds by the clock of the process that wrote them. Only the lease's expiry
    affects decisions, and only for lease owners that requested a `ttl`.
    """

    revision: int = 0
    """Sequence number of the last event."""
    create_time: float
    update_time: float
    lease_invocation_id: str | None = None
    lease_epoch: int = 0
    """Incremented each time the lease is taken, never decreased; fences off earlier owners."""
    lease_ttl: float | None = None
    lease_expires_at: float | None = None
    waiting: int = 0
    """Number of tickets; 0 saves a query of the tickets table."""
    created_epoch: int = 0
    """The lease's epoch when the session was created. Smaller epochs belong to deleted sessions of
    the same name."""
    retried: int = 0
    """Number of the active invocation's event ids that are reserved for the loop; 0 saves a query.
    See `notes.reserve`."""
    cancellations: int = 0
    """Number of cancelled steps under the current lease; see `note_cancellation`."""
    size: int = 0
    """Characters of the events, and of the session's initial state."""
    awaiting_message: str | None = None
    """The paused invocations that wait for a message of the user, as a JSON list of their ids; the
    one that paused last is the last. None: there is none, which saves a query."""

    def active(self, now: float) -> str | None:
        """Return the invocation that holds an unexpired lease."""
        if self.lease_expires_at is not None and self.lease_expires_at <= now:
            return None
        return self.lease_invocation_id

    @property
    def awaiting_ids(self) -> list[str]:
        """The ids in `awaiting_message`. An invocation may have been closed since."""
        return json.loads(self.awaiting_message or "[]")

    def with_awaiting(self, invocation_id: str, *, awaits_message: bool = False) -> "Head":
        """Return the head with an invocation last in `awaiting_message`, or without it."""
        others = [name for name in self.awaiting_ids if name != invocation_id]
        ids = [*others, invocation_id] if awaits_message else others
        return replace(self, awaiting_message=json.dumps(ids) if ids else None)

    def holds(self, invocation_id: str, epoch: int) -> bool:
        """Return whether the invocation may write.

        An expired lease remains valid until another invocation takes it.
        """
        return self.lease_invocation_id == invocation_id and self.lease_epoch == epoch

    def require_held(self, invocation_id: str, epoch: int) -> None:
        """Fence off writes by an invocation that does not hold the lease (I6).

        Raises:
            LeaseLostError: The invocation does not hold the lease at this epoch.
        """
        if not self.holds(invocation_id, epoch):
            raise lease_lost(invocation_id, epoch)

    def require_created_for(self, epoch: int) -> None:
        """Check that an epoch does not belong to an earlier session of this name (I15).

        Raises:
            LeaseLostError: The epoch belongs to a session that was deleted.
        """
        if epoch < self.created_epoch:
            failpoint("recreated.found")
            raise LeaseLostError(
                "The session was deleted while the invocation was open, and one of the same name "
                "was created since. The invocation does not write to that one."
            )

    def require_fresh(self, revision: int) -> None:
        """Check that a caller's copy includes the end of the log (SSN-30).

        Raises:
            StaleSessionError: The copy has a different revision.
        """
        if revision != self.revision:
            raise StaleSessionError(
                f"The session is at revision {self.revision} in storage and at {revision} in "
                "this copy; read it again."
            )

    def require_grown(self, revision: int) -> None:
        """Check that the log is at least as long as it was known to be (I21).

        Raises:
            SessionRegressedError: The log is shorter. Logs only grow, so the store was replaced by
                an older copy.
        """
        if self.revision < revision:
            raise SessionRegressedError(
                f"The session has {self.revision} events, and had {revision} before: its store is "
                "older than the run, as after the restoring of a backup. Nothing is written to it; "
                "run `durable-adk doctor --fix` to put back what is missing."
            )

    def appended(self, timestamp: float, now: float, size: int) -> "Head":
        """Return the head after one more event; the commit also renews the lease."""
        return replace(
            self.renewed(now),
            revision=self.revision + 1,
            size=self.size + size,
            update_time=max(self.update_time, timestamp or now),
        )

    def touched(self, now: float) -> "Head":
        """Return a changed head for a change that is in no other field.

        Watchers of a session compare its row, e.g. on SQLite to detect another process's change.
        """
        later = math.nextafter(self.update_time, math.inf)
        return replace(self, update_time=max(later, now))

    def renewed(self, now: float) -> "Head":
        """Return the head with the lease's `ttl` restarted."""
        return replace(
            self, lease_expires_at=None if self.lease_ttl is None else now + self.lease_ttl
        )

    def leased(self, invocation_id: str, ttl: float | None, now: float) -> "Head":
        """Return the head with the lease granted to an invocation, under the next epoch."""
        taken = replace(
            self,
            lease_invocation_id=invocation_id,
            lease_epoch=self.lease_epoch + 1,
            lease_ttl=ttl,
            retried=0,  # the new epoch already fences off earlier ones
            cancellations=0,
        )
        return taken.renewed(now)

    def released(self) -> "Head":
        """Return the head without a lease; the epoch is kept, so the next lease increments it."""
        return replace(
            self, lease_invocation_id=None, lease_ttl=None, lease_expires_at=None, retried=0
        )


def lease_lost(invocation_id: str, epoch: int) -> LeaseLostError:
    """Build the error for a write without the lease."""
    return LeaseLostError(
        f"The invocation {invocation_id!r} (epoch {epoch}) does not hold the session's lease."
    )
