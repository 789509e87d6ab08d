"""What is known of a session apart from its events: where its log ends, and who may write."""

from dataclasses import dataclass, replace

from durable_adk.errors import LeaseLostError, SessionRegressedError, StaleSessionError
from durable_adk.failpoints import failpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One row of the table of sessions; changed only by replacing it inside a transaction.

    Times are seconds since the epoch by the clock of the process that wrote them. The lease's
    expiry is the only one that decides anything, and only for lease owners that asked for a `ttl`.
    """

    revision: int = 0
    """Sequence number of the last event."""
    create_time: float
    update_time: float
    lease_invocation_id: str | None = None
    lease_epoch: int = 0
    """Grows with every opening and never goes back, so an old owner is told from a new one."""
    lease_ttl: float | None = None
    lease_expires_at: float | None = None
    waiting: int = 0
    """How many tickets there are, so that without any nobody needs to look."""
    created_epoch: int = 0
    """The lease's epoch when the session was created. Smaller ones are of sessions of this name
    that were deleted before."""
    retried: int = 0
    """How many event ids of the active invocation are reserved for the loop, so that without any
    nobody needs to look; see `_notes.reserve`."""

    def active(self, now: float) -> str | None:
        """The invocation that holds an unexpired lease."""
        if self.lease_expires_at is not None and self.lease_expires_at <= now:
            return None
        return self.lease_invocation_id

    def holds(self, invocation_id: str, epoch: int) -> bool:
        """Whether the invocation may write; an expired lease counts until another takes it."""
        return self.lease_invocation_id == invocation_id and self.lease_epoch == epoch

    def require_held(self, invocation_id: str, epoch: int) -> None:
        """The fence (I6).

        Raises:
            LeaseLostError: The invocation may not write.
        """
        if not self.holds(invocation_id, epoch):
            raise lease_lost(invocation_id, epoch)

    def require_created_for(self, epoch: int) -> None:
        """Make sure that an epoch is not of an earlier session of this name (I15).

        Raises:
            LeaseLostError: It is; that session was deleted.
        """
        if epoch < self.created_epoch:
            failpoint("recreated.found")
            raise LeaseLostError(
                "The session was deleted while the invocation was open, and one of the same name "
                "was created since. The invocation does not write to that one."
            )

    def require_fresh(self, revision: int) -> None:
        """Make sure that a caller's copy shows the end of the log (SSN-30).

        Raises:
            StaleSessionError: The copy is of another revision.
        """
        if revision != self.revision:
            raise StaleSessionError(
                f"The session is at revision {self.revision} in storage and at {revision} in "
                "this copy; read it again."
            )

    def require_grown(self, revision: int) -> None:
        """Make sure that the log is as long as it was known to be (I21).

        Raises:
            SessionRegressedError: It is shorter, which it never gets: the store is an older one.
        """
        if self.revision < revision:
            raise SessionRegressedError(
                f"The session has {self.revision} events, and had {revision} before: its store is "
                "older than the run, as after the restoring of a backup. Nothing is written to it; "
                "run `durable-adk doctor --fix` to put back what is missing."
            )

    def appended(self, timestamp: float, now: float) -> "Head":
        """The head after one more event; a commit is a sign of life, so it renews the lease."""
        return replace(
            self.renewed(now),
            revision=self.revision + 1,
            update_time=max(self.update_time, timestamp or now),
        )

    def renewed(self, now: float) -> "Head":
        """The head with the lease's `ttl` started anew."""
        return replace(
            self, lease_expires_at=None if self.lease_ttl is None else now + self.lease_ttl
        )

    def leased(self, invocation_id: str, ttl: float | None, now: float) -> "Head":
        """The head with the lease given to an invocation, under the next epoch."""
        taken = replace(
            self,
            lease_invocation_id=invocation_id,
            lease_epoch=self.lease_epoch + 1,
            lease_ttl=ttl,
            retried=0,  # attempts of an earlier epoch are refused by it
        )
        return taken.renewed(now)

    def released(self) -> "Head":
        """The head with nobody's lease; the epoch stays, for the next one to count on."""
        return replace(
            self, lease_invocation_id=None, lease_ttl=None, lease_expires_at=None, retried=0
        )


def lease_lost(invocation_id: str, epoch: int) -> LeaseLostError:
    """The error for a write without the lease."""
    return LeaseLostError(
        f"The invocation {invocation_id!r} (epoch {epoch}) does not hold the session's lease."
    )
