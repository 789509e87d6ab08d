"""The matrix of failpoints: what is done at each, on which store, and what may come of it."""

import random
import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path

from durable_adk.tools import ToolContract
from tests.support.seeds import CELLS

ROOT = Path(__file__).parents[2]
INVOCATION, RIVAL = "run", "rival"
"""Of the first message, and of a second one."""
ACTIONS = ("kill", "raise", "stop3s")
STORES = ("sqlite", "postgres")
ALL = "all"


ELSEWHERE = {"reply.notified": "chaos/test_task_kills.py: a second message, to a task that waits"}
"""Failpoints that no scene passes by, and the test that acts there."""


def failpoints() -> list[str]:
    """Every failpoint of the package, read from its source: a new one is in the matrix at once."""
    sources = (path.read_text() for path in sorted((ROOT / "durable_adk").rglob("*.py")))
    found = {name for text in sources for name in re.findall(r'failpoint\("(.+?)"\)', text)}
    return sorted(found - ELSEWHERE.keys())


class Rival(StrEnum):
    """What becomes of a second message."""

    STEER = "it is heard"
    REJECT = "it is refused"
    CANCEL = "it waits for its turn, and is cancelled"
    WAIT = "it waits for its turn, and runs"
    ENDS = "it has the session while the first one, which is paused, is cancelled"
    CLEARS = "it comes to a session that was created in the place of the first one's"


@dataclass(frozen=True)
class Scene:
    """A conversation that passes by some of the failpoints."""

    app: str
    history: int = 4000
    """How many events a run of its workflow may have."""
    rival: Rival | None = None
    """What becomes of a second message that is sent while a tool waits."""

    @property
    def ends_well(self) -> str:
        """The invocation that completes: the first one, unless it was cancelled or cleared."""
        return RIVAL if self.rival in (Rival.ENDS, Rival.CLEARS) else INVOCATION


SCENES = [
    Scene("charge"),
    Scene("audited"),
    Scene("charge", history=1),
    Scene("approval"),
    Scene("code"),
    Scene("plugged"),
    Scene("summed"),
    Scene(ToolContract.AT_MOST_ONCE.value),
    Scene("saving"),
    Scene("asking"),
    Scene("stepping"),
    *(Scene("tool", rival=rival) for rival in Rival if rival is not Rival.ENDS),
    Scene("ending", rival=Rival.ENDS),
]
"""The first one that passes by a failpoint is the one in which it acts."""


class Due(StrEnum):
    """What must come of a case."""

    SAME = "everything as if nothing had happened"
    UNKNOWN = "that, or the model is told that nobody knows whether the tool has run"
    NO_SUMMARY = "that, but for the summary, which is due again after the next invocation"


DUE = {
    ("tool.begun", "kill"): Due.UNKNOWN,
    ("tool.begun", "stop3s"): Due.UNKNOWN,
    ("compact.made", "raise"): Due.NO_SUMMARY,
    ("tool.begun", "raise"): Due.UNKNOWN,
}
"""What is not SAME."""


AGAIN = {
    *("model.after_call", "tool.after_run", "commit.before", "code.after_run"),
    *("hook.after", "compact.made", "commit.written", "close.written", "node.after_run"),
    *("save.before", "save.written", "save.after"),
}
"""Where something has been done that nobody has written down: it is done once more (I8, I10)."""


@dataclass(frozen=True)
class Case:
    """One cell of the matrix."""

    failpoint: str
    action: str
    store: str

    def __str__(self) -> str:
        return f"{self.failpoint}-{self.action}-{self.store}"

    @property
    def due(self) -> Due:
        """What must come of it."""
        return DUE.get((self.failpoint, self.action), Due.SAME)

    @property
    def repeats(self) -> int:
        """How often a model may be asked, or a tool be run, beyond the undisturbed run.

        A frozen worker may do it after it was taken for dead, beside the one that took over. Its
        heartbeat timeout is so short that a busy machine may make one other late.
        """
        return 2 if self.action == "stop3s" else int(self.failpoint in AGAIN)

    @property
    def armed(self) -> str:
        """For `durable_adk.failpoints`."""
        return f"{self.failpoint}:{self.action}@1"


def cases(choice: str) -> list[Case]:
    """All cells, or a sixth of them: for every failpoint an action and a store that a seed draws.

    Whatever the seed, those of `CELLS` are among them.

    Args:
        choice: ``all``, or a seed.
    """
    every = [Case(*cell) for cell in product(failpoints(), ACTIONS, STORES)]
    if choice == ALL:
        return every
    drawn = (random.Random(f"{choice}/{name}") for name in failpoints())
    pairs = [(dice.choice(ACTIONS), dice.choice(STORES)) for dice in drawn]
    chosen = {str(Case(name, *pair)) for name, pair in zip(failpoints(), pairs, strict=True)}
    return [case for case in every if str(case) in chosen | CELLS]
