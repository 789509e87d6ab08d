"""What the doctor looks at, and what it was told of it."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.apps.app import App
from durable_adk.errors import TemporalUnavailableError
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog

T = TypeVar("T")


class Missing(StrEnum):
    """Why the store does not have a session that a history tells of.

    A store knows the sessions that were deleted from it by their tombstones. It has none of those
    that were deleted after the backup, by an older release, or with their user.
    """

    UNKNOWN = "unknown"
    DELETED = "deleted"
    """Somebody did not want it any more."""
    LOST = "lost"
    """It is younger than the backup that was restored."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """A session store, the Temporal that runs its invocations, and which sessions are meant."""

    client: Client
    sessions: SessionLog
    app: str | None = None
    """Only this app's sessions; None: those of all."""
    user: str | None = None
    session: str | None = None
    since: float | None = None
    """Seconds since the epoch: the logs of sessions that have not changed since are not read."""
    code: Sequence[App] = ()
    """Apps whose code is at hand: histories of custom agents cannot be read without."""
    missing: Missing = Missing.UNKNOWN

    def mean(self, key: SessionKey) -> bool:
        """Whether a session is one of those that are meant."""
        wanted = (self.app, self.user, self.session)
        return all(want in (None, one) for want, one in zip(wanted, key, strict=True))


async def if_known(asked: Awaitable[T]) -> T | None:
    """What Temporal says of a workflow, or of one of its runs; None: it is deleted.

    Raises:
        TemporalUnavailableError: It says nothing.
    """
    try:
        return await asked
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
