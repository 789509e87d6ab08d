"""Counts those lost attempts of a step that had reached user code."""

from dataclasses import dataclass
from typing import Final

from temporalio import activity

from durable_adk.activities.commit.notes import write_note
from durable_adk.activities.dependencies import Dependencies
from durable_adk.heartbeat import AttemptHistory
from durable_adk.wire.steps import Step

TRIED: Final = "tried"
"""Kind of the notes that record which attempts were about to run a step's code."""


@dataclass(frozen=True, kw_only=True)
class LostAttempts:
    """Notes in the session store, written before the code runs, and only after an attempt was lost.

    Code that kills its worker does so while it runs. A worker that dies earlier, or while the step
    waits for the store, says nothing about the step, and many may die that way while machines fail.
    """

    deps: Dependencies
    step: Step

    async def begin(self, number: int, history: AttemptHistory) -> int:
        """Note that attempt `number` is about to run the code, and count the earlier lost ones.

        Only attempts that had reached the code count. The first attempt writes no note and always
        counts.

        Raises:
            StoreUnavailableError: The note was not written, so the code must not run.
        """
        await self.deps.scope(self.step)  # waits for the store; a death here does not count
        key, invocation_id = self.step.key, self.step.invocation_id
        notes = await self.deps.sessions.read_notes(key, invocation_id=invocation_id, kind=TRIED)
        await write_note(self.deps, self.step, TRIED, _name(number), "{}")
        tried = {_name(1), *(note.name for note in notes)}
        return sum(_name(one) in tried for one in history.lost(number))


def _name(number: int) -> str:
    """Name an attempt's note by its activity, so that other activities are not counted."""
    info = activity.info()
    return f"{info.workflow_run_id}/{info.activity_id}/{number}"
