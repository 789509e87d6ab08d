"""Counts the lost attempts of a step that had reached user code."""

from dataclasses import dataclass
from typing import Final

from temporalio import activity

from durable_adk.activities.commit.notes import write_note
from durable_adk.activities.dependencies import Dependencies
from durable_adk.heartbeat import AttemptHistory
from durable_adk.wire.steps import Step

TRIED: Final = "tried"
"""The kind of note that says which attempts of a step were to run its code."""


@dataclass(frozen=True, kw_only=True)
class LostAttempts:
    """Notes in the session store, written before the code runs, and only after a loss.

    What kills its worker does so while its code runs. A worker that dies while a step waits for the
    store, or before, says nothing of the step; so many may, while machines fail one after another.
    """

    deps: Dependencies
    step: Step

    async def begin(self, number: int, history: AttemptHistory) -> int:
        """Note that attempt `number` is to run the code; how many were lost that had come so far.

        The first attempt has written nothing, and counts.

        Raises:
            StoreUnavailableError: It has not come so far: no code is to be run.
        """
        await self.deps.scope(self.step)  # waits for the store, where many a worker may die
        key, invocation_id = self.step.key, self.step.invocation_id
        notes = await self.deps.sessions.read_notes(key, invocation_id=invocation_id, kind=TRIED)
        await write_note(self.deps, self.step, TRIED, _name(number), "{}")
        tried = {_name(1), *(note.name for note in notes)}
        return sum(_name(one) in tried for one in history.lost(number))


def _name(number: int) -> str:
    """Of an attempt's note: the same activity is counted, and no other of the invocation."""
    info = activity.info()
    return f"{info.workflow_run_id}/{info.activity_id}/{number}"
