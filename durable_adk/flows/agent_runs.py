"""The runs of agents, told to those who watch; nothing that the loop decides depends on them."""

from collections.abc import Callable, Iterable

from durable_adk.wire.steps import AgentRun


class AgentRuns:
    """Numbers the runs, and hands those that have ended to the next step, which exports them.

    The loop itself exports nothing: it is replayed. Numbers and times are the same at every replay.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.count = 0
        """How many have begun."""
        self._open: dict[int, AgentRun] = {}
        self._ended: list[AgentRun] = []

    def begin(self, agent: str, above: int) -> int:
        """A run begins; its number. The first one is the invocation itself."""
        number = self.count
        self.count += 1
        if number > 0:
            self._open[number] = AgentRun(
                number=number, above=above, agent=agent, started=self._now()
            )
        return number

    def end(self, number: int, error: str | None = None) -> None:
        """A run has ended.

        Args:
            number: Its number; one that has ended before stays as it is.
            error: Name of the error it ended with.
        """
        run = self._open.pop(number, None)
        if run is not None:
            run.ended, run.error = self._now(), error
            self._ended.append(run)

    def take(self) -> list[AgentRun] | None:
        """Those that have ended and were not taken yet; None: none."""
        ended, self._ended = self._ended, []
        return ended or None

    def end_all(self, error: str | None = None) -> list[AgentRun] | None:
        """As `take`, with all that are open, as the invocation ends; innermost first."""
        for number in sorted(self._open, reverse=True):
            self.end(number, error)
        return self.take()

    def open_now(self) -> list[AgentRun] | None:
        """Copies of those that are open; None: none."""
        return [run.model_copy() for run in self._open.values()] or None

    def told(self) -> list[AgentRun]:
        """All that is still to be told; what `go_on_from` takes."""
        return [*self._open.values(), *self._ended]

    def go_on_from(self, runs: Iterable[AgentRun]) -> None:
        """Stand where the run of the workflow before this one has ended."""
        for run in runs:
            if run.ended is None:
                self._open[run.number] = run
            else:
                self._ended.append(run)
