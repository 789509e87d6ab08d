"""Waits while a run makes progress: a slow machine takes longer, a stuck run is given up."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from campaign.run_folder import RunFolder
from harness.journal import note, notes

LOOK = 0.5
"""Seconds between two looks."""
MOST = 20
"""Maximum duration of a run, as a multiple of how long it may stand still."""


@dataclass(frozen=True)
class Patience:
    """How long a run may stand still.

    It is counted in looks, so that time in which the machine does not run us either is none.
    """

    folder: RunFolder
    seconds: float

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> bool:
        """Wait until a condition holds; return False if nothing has been done for too long."""
        allowed = round(self.seconds / LOOK)
        known, still, looks = -1, 0, 0
        while not await condition():
            done = self._done()
            known, still, looks = done, still + 1 if done == known else 0, looks + 1
            if still > allowed or looks > MOST * allowed:
                return False
            await asyncio.sleep(LOOK)
        return True

    def _done(self) -> int:
        """How much has been stored, told to clients, and refused to them."""
        stored = sum(line["phase"] == "ok" for line in notes(self.folder.commits))
        told = (*self.folder.journals, *self.folder.all_tries)
        return stored + sum(
            line["type"] in ("event", "ok", "fail", "refused", "nothing")
            for path in told
            for line in notes(path)
        )


async def until_idle(folder: RunFolder, pids: Collection[int], seconds: float) -> None:
    """Wait until some workers have ended all that they have taken, and note that they had to have.

    To be awaited when no workflow has anything for them: only what hangs is under way then.
    """

    async def idle() -> bool:
        taken, ended = (
            {(line["pid"], line["task"]) for line in notes(folder.tasks) if line["phase"] == phase}
            for phase in ("taken", "ended")
        )
        return not any(pid in pids for pid, _ in taken - ended)

    await Patience(folder, seconds).until(idle)
    note(folder.tasks, phase="idle", task="", pids=[*pids])
