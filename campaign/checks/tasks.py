"""The activities that workers took and ended: what a process had begun, and when."""

from collections import defaultdict
from typing import NamedTuple

from campaign.evidence import Evidence
from durable_adk.sessions import SessionKey
from durable_adk.wire.messages import workflow_id
from harness.journal import Line

NEVER = float("inf")


class Task(NamedTuple):
    """An attempt of an activity on a worker."""

    pid: int
    name: str
    taken: float
    ended: float
    """`NEVER`: the worker was lost before, or has not ended it."""
    failed: bool
    """Whether it has ended with an error, other than that the engine took it for lost."""


class Tasks:
    """All attempts that workers have taken."""

    def __init__(self, found: Evidence) -> None:
        ends = {
            (line["pid"], line["task"]): line for line in found.tasks if line["phase"] == "ended"
        }
        self._named: dict[tuple[int, str], Task] = {}
        self._of_step: dict[str, list[Task]] = defaultdict(list)
        self._of_workflow: dict[str, list[Task]] = defaultdict(list)
        for line in found.tasks:
            if line["phase"] == "taken":
                name = line["task"]
                end = ends.get((line["pid"], name), {"at": NEVER})
                failed = end.get("failed", True)
                task = Task(line["pid"], name, line["at"], end["at"], failed)
                self._named[task.pid, name] = task
                self._of_step[_step(name)].append(task)
                self._of_workflow[line.get("workflow", "")].append(task)
        self._workflows = {
            name: workflow_id(SessionKey(*turn[:3]), name) for name, turn in found.turns.items()
        }

    def of(self, invocation: str) -> list[Task]:
        """All attempts for an invocation."""
        return self._of_workflow.get(self._workflows.get(invocation, ""), [])

    def began(self, line: Line) -> float:
        """When the attempt that a question is of had begun; when it came, if that is unknown.

        The engine begins an attempt before the next one of its step: a worker that was frozen when
        it was given one takes it later.
        """
        task = self._asker(line)
        if task is None:
            return line["at"]
        return min(one.taken for one in (task, *self._later(task)))

    def was_given_away(self, line: Line) -> bool:
        """Whether the engine gave up the attempt that asked, although its worker ended it later.

        An attempt that did not fail is followed by another only then, however late that is taken.
        """
        task = self._asker(line)
        if task is None or task.ended == NEVER:
            return False
        return self.given_to_another(task) or bool(not task.failed and self._later(task))

    def given_to_another(self, task: Task) -> bool:
        """Whether the engine has given a step away before this attempt had ended."""
        others = self._of_step[_step(task.name)]
        return any(task.taken < one.taken < task.ended for one in others)

    def _later(self, task: Task) -> list[Task]:
        return [one for one in self._of_step[_step(task.name)] if _number(one) > _number(task)]

    def _asker(self, line: Line) -> Task | None:
        return self._named.get((line.get("pid", 0), line.get("task", "")))


def _number(task: Task) -> int:
    """Which attempt of its step it is, from 1."""
    return int(task.name.rpartition("/")[2])


def _step(task: str) -> str:
    """What all attempts of a step have in common."""
    return task.rpartition("/")[0]
