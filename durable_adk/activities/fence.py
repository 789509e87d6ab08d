"""Ends the earlier attempts of an activity that runs a loop, which may still be alive.

The server considers them lost, but they may have been frozen or cut off from it. Once a later
attempt has noted that it runs, they begin no further step. Each may still end its current step, as
with an activity for each step.
"""

from typing import Final

from temporalio import activity

from durable_adk.activities.dependencies import Dependencies
from durable_adk.retrying import STORE_TIMEOUT, retrying
from durable_adk.sessions.session import SessionKey

FENCE: Final = "fence"
"""Kind of the notes by which attempts end earlier ones."""


def fence_of(number: int | None) -> str:
    """Return the name of an attempt's note; of no attempt: what all their names begin with."""
    info = activity.info()
    prefix = f"{info.workflow_run_id}/{info.activity_id}/"
    return prefix if number is None else f"{prefix}{number:06}"


async def raise_fence(deps: Dependencies, key: SessionKey, invocation_id: str) -> None:
    """Let the attempts before the current one begin no further step; in process there are none."""
    number = activity.info().attempt if activity.in_activity() else 1
    if number > 1:
        write = retrying(deps.sessions.note, STORE_TIMEOUT)
        await write(key, invocation_id=invocation_id, kind=FENCE, name=fence_of(number), body="{}")


async def is_superseded(deps: Dependencies, key: SessionKey, invocation_id: str) -> bool:
    """Return whether a later attempt of the current activity runs; in process there is none."""
    if not activity.in_activity():
        return False
    read = retrying(deps.sessions.read_notes, STORE_TIMEOUT)
    after = fence_of(activity.info().attempt)
    later = await read(key, invocation_id=invocation_id, kind=FENCE, after=after, limit=1)
    return any(note.name.startswith(fence_of(None)) for note in later)
