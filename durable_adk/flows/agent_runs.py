"""The runs of agents, for telemetry; nothing that the loop decides depends on them."""

from collections.abc import Callable

from durable_adk.wire.checkpoint import Checkpoint
from durable_adk.wire.steps import AgentRun


class AgentRuns:
    """Numbers the runs, and hands those that have ended to the next step, which exports them.

    The loop exports nothing itself, because it is replayed. Numbers and times are the same at
    every replay.
    """

    def __init__(self, checkpoint: Checkpoint, now: Callable[[], float]) -> None:
        self._state = checkpoint
        self._now = now

    def begin(self, agent: str, above: int) -> int:
        """Begin a run and return its number. The first one, 0, is the invocation itself."""
        number = self._state.runs_begun
        self._state.runs_begun += 1
        if number > 0:
            run = AgentRun(number=number, above=above, agent=agent, started=self._now())
            self._state.runs.insert(len(self._open()), run)
        return number

    def end(self, number: int, error: str | None = None) -> None:
        """End a run, unless it has ended.

        Args:
            number: Its number.
            error: Name of the error it ended with.
        """
        run = next((run for run in self._open() if run.number == number), None)
        if run is not None:
            run.ended, run.error = self._now(), error
            self._state.runs.remove(run)
            self._state.runs.append(run)

    def take_ended(self) -> list[AgentRun] | None:
        """The runs that have ended, for a step to report; None: there are none."""
        ended = [run for run in self._state.runs if run.ended is not None]
        self._state.runs = self._open()
        return ended or None

    def end_all(self, error: str | None = None) -> list[AgentRun] | None:
        """As `take_ended`, when the invocation ends and with it all open runs, innermost first."""
        for number in sorted((run.number for run in self._open()), reverse=True):
            self.end(number, error)
        return self.take_ended()

    def open_now(self) -> list[AgentRun] | None:
        """Copies of the open runs; None: there are none."""
        return [run.model_copy() for run in self._open()] or None

    def _open(self) -> list[AgentRun]:
        return [run for run in self._state.runs if run.ended is None]
