"""Telling a store that is older than a run from one that has taken the run's lease away (I21)."""

from durable_adk.activities.dependencies import Dependencies
from durable_adk.errors import SessionNotFoundError, SessionRegressedError
from durable_adk.sessions.session import SessionKey


async def require_known(
    deps: Dependencies,
    key: SessionKey,
    invocation_id: str,
    *,
    epoch: int,
    revision: int | None = None,
) -> None:
    """Make sure that a session knows of an invocation that was opened in it.

    A record never goes while its session is there, and a log never gets shorter. A session that is
    missing altogether counts as deleted: of that nothing is left to tell it by.

    Args:
        deps: Where the store is.
        key: The session.
        invocation_id: It was opened.
        epoch: Of the invocation's lease; 0: it is not known.
        revision: Number of an event that was stored; None: none is known of.

    Raises:
        LeaseLostError: It was opened in a session that was deleted; the one there is another.
        SessionRegressedError: It was opened in a session that is older now than it was then.
    """
    try:
        present, _ = await deps.sessions.read_state(key, epoch=epoch or None)
    except SessionNotFoundError:
        return
    record = await deps.sessions.get_invocation(key, invocation_id)
    if record is None or present < (revision or 0):
        raise SessionRegressedError(
            f"The store is older than the history of invocation {invocation_id!r}, as after the "
            f"restoring of a backup: session {key.session_id!r} has {present} events. Nothing is "
            "written to it; run `durable-adk doctor --fix` to put back what is missing."
        )
