"""What an invocation has used up, and of what budget.

Counted in the loop, from its decisions and from committed events: once for each logical call,
however many attempts a crash made of it, and the same at every replay.
"""

from typing import TYPE_CHECKING

from durable_adk.errors import BudgetExceededError
from durable_adk.events.event import Event
from durable_adk.wire.run_config import Budget

if TYPE_CHECKING:
    from durable_adk.wire.messages import InvocationResult

NAMES = {
    "model_calls": "model calls",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "seconds": "seconds",
}


class BudgetMeter:
    """The use of one budget.

    Args:
        budget: What may be used.
        started: When the invocation was opened, in seconds since the epoch.
        used: What was used in earlier runs of the workflow.
    """

    def __init__(
        self, budget: Budget, *, started: float, used: dict[str, int] | None = None
    ) -> None:
        self._budget = budget
        self._started = started
        self.used = {"model_calls": 0, "tool_calls": 0, "tokens": 0} | (used or {})

    def model_call(self, now: float) -> None:
        """A model is about to be asked, at a time in seconds since the epoch.

        Raises:
            BudgetExceededError: It may not be.
        """
        self._check_time(now)
        tokens = self._budget.tokens
        # How many a call will use, nobody knows before; so the last one may use too many.
        if tokens is not None and self.used["tokens"] >= tokens:
            raise exceeded("tokens", tokens)
        self._use("model_calls", self._budget.model_calls, 1)

    def no_model_call(self) -> None:
        """A callback has answered in the model's place."""
        self.used["model_calls"] -= 1

    def tool_calls(self, number: int, now: float) -> None:
        """So many tools are about to be run.

        Raises:
            BudgetExceededError: They may not be; none of them is.
        """
        self._check_time(now)
        self._use("tool_calls", self._budget.tool_calls, number)

    def committed(self, event: Event) -> None:
        """An event was committed, which may tell the tokens that its model call has used."""
        usage = event.usage_metadata
        self.used["tokens"] += (usage.total_token_count or 0) if usage else 0

    def by_agent(self, result: "InvocationResult") -> None:
        """An agent that was used as a tool has ended."""
        self.used["model_calls"] += result.model_calls
        self.used["tool_calls"] += result.tool_calls
        self.used["tokens"] += result.tokens

    def left(self, now: float) -> Budget | None:
        """What is left for an agent that is used as a tool; None: as much as it likes."""
        rest = {
            name: max(limit - self.used[name], 0)
            for name in self.used
            if (limit := getattr(self._budget, name)) is not None
        }
        seconds = self.seconds_left(now)
        budget = Budget(**rest, seconds=seconds)
        return None if budget == Budget() else budget

    def seconds_left(self, now: float) -> float | None:
        """Until the time is up, 0 at least; None: it is never up."""
        seconds = self._budget.seconds
        return None if seconds is None else max(self._started + seconds - now, 0.0)

    def time_is_up(self) -> BudgetExceededError:
        """What the invocation is ended with then."""
        return exceeded("seconds", self._budget.seconds or 0)

    def _check_time(self, now: float) -> None:
        """A step that was ended for its time, and finished all the same, is the last one."""
        if self.seconds_left(now) == 0.0:
            raise self.time_is_up()

    def _use(self, name: str, limit: int | None, number: int) -> None:
        if limit is not None and self.used[name] + number > limit:
            raise exceeded(name, limit)
        self.used[name] += number


def exceeded(name: str, limit: float) -> BudgetExceededError:
    """The error that names what is used up."""
    return BudgetExceededError(
        f"The invocation's budget of {limit:,g} {NAMES[name]} is used up; give it more with "
        f"RunConfig(budget=Budget({name}=...)), or find out what it does."
    )
