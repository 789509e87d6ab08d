"""A conversation to be simulated, and what clients do in it beside sending messages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from durable_adk.apps import App, AppRegistry
from durable_adk.apps.registry import serve
from durable_adk.wire.messages import WhenBusy

if TYPE_CHECKING:
    from simulation.simulation import Simulation


@dataclass(frozen=True, eq=False, kw_only=True)
class Input:
    """Something that a client does once."""

    name: str
    ready: "Callable[[Simulation], bool]"
    give: "Callable[[Simulation], None]"
    anywhere: bool = False
    """Whether a listed schedule may have it at any point, and not only when all else is done."""
    optional: bool = False
    """Whether it need not happen; if it does, then at any point."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Scenario:
    """A conversation, and what clients may do in it."""

    name: str
    app: App
    messages: Sequence[str] = ("hello",)
    """All are sent at once: the second waits for the first."""
    inputs: Sequence[Input] = ()
    roll_over_after: int | None = None
    """After how many tasks the server suggests to continue as new."""
    side_by_side: bool = False
    """Whether agents run in parallel, so that only the order within a branch is fixed."""
    waits: bool = False
    """Whether calls wait for an answer: other invocations may run meanwhile."""
    at_most_once: bool = False
    """Whether its tools promise that; the model may be given an unknown outcome."""
    competing: WhenBusy | None = None
    """The `when_busy` of a second message that may come at any time; None if there is none."""
    next_release: App | None = None
    """What workers serve that start after a deploy."""
    small: bool = False
    """Whether all pairs of faults are few enough for the test suite."""

    def registry(self, *, deployed: bool) -> AppRegistry:
        """What a worker serves; workflows look up the first release, whose trees are the same."""
        registry = AppRegistry([self.app])
        serve(self.name, registry)
        if deployed and self.next_release is not None:
            return AppRegistry([self.next_release])
        return registry
