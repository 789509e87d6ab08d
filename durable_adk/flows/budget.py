"""How much of its budget an invocation has used.

The loop counts, from its own decisions and from committed events. So every logical call counts
once, however many attempts it took, and a replay counts the same.
"""

from durable_adk.errors import BudgetExceededError
from durable_adk.events.event import Event
from durable_adk.wire.checkpoint import Checkpoint
from durable_adk.wire.messages import InvocationResult
from durable_adk.wire.run_config import Budget

NAMES = {
    "model_calls": "model calls",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "seconds": "seconds",
}


class BudgetMeter:
    """Counts what is used of the budget of the request, within that of the app."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        requested = checkpoint.request.run_config.budget or Budget()
        self._budget = requested.within(checkpoint.opened.budget)
        self._started = checkpoint.opened_at
        checkpoint.used = {"model_calls": 0, "tool_calls": 0, "tokens": 0} | checkpoint.used
        self.used = checkpoint.used

    def model_call(self, now: float) -> None:
        """Count a model call that is about to begin.

        Args:
            now: Seconds since the epoch.

        Raises:
            BudgetExceededError: It would exceed the budget.
        """
        self._check_time(now)
        tokens = self._budget.tokens
        # How many tokens a call uses is not known before, so the last call may exceed the budget.
        if tokens is not None and self.used["tokens"] >= tokens:
            raise exceeded("tokens", tokens)
        self._use("model_calls", self._budget.model_calls, 1)

    def no_model_call(self) -> None:
        """Take a model call back, because a callback has answered in place of the model."""
        self.used["model_calls"] -= 1

    def tool_calls(self, number: int, now: float) -> None:
        """Count tool calls that are about to begin.

        Raises:
            BudgetExceededError: They would exceed the budget, so none of them may begin.
        """
        self._check_time(now)
        self._use("tool_calls", self._budget.tool_calls, number)

    def committed(self, event: Event) -> None:
        """Count the tokens that a committed event reports."""
        usage = event.usage_metadata
        self.used["tokens"] += (usage.total_token_count or 0) if usage else 0

    def by_agent(self, result: InvocationResult) -> None:
        """Count what an agent used that ran as a tool."""
        self.used["model_calls"] += result.model_calls
        self.used["tool_calls"] += result.tool_calls
        self.used["tokens"] += result.tokens

    def left(self, now: float) -> Budget | None:
        """The rest, as the budget of an agent that runs as a tool; None: no limit."""
        rest = {
            name: max(limit - self.used[name], 0)
            for name in self.used
            if (limit := getattr(self._budget, name)) is not None
        }
        seconds = self.seconds_left(now)
        budget = Budget(**rest, seconds=seconds)
        return None if budget == Budget() else budget

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the time limit, at least 0; None: no time limit."""
        seconds = self._budget.seconds
        return None if seconds is None else max(self._started + seconds - now, 0.0)

    def time_is_up(self) -> BudgetExceededError:
        """The error of an invocation that has reached its time limit."""
        return exceeded("seconds", self._budget.seconds or 0)

    def _check_time(self, now: float) -> None:
        """A step that finishes after the time limit still counts; nothing runs after it."""
        if self.seconds_left(now) == 0.0:
            raise self.time_is_up()

    def _use(self, name: str, limit: int | None, number: int) -> None:
        if limit is not None and self.used[name] + number > limit:
            raise exceeded(name, limit)
        self.used[name] += number


def exceeded(name: str, limit: float) -> BudgetExceededError:
    """The error that names the exceeded limit."""
    return BudgetExceededError(
        f"The invocation's budget of {limit:,g} {NAMES[name]} is used up; give it more with "
        f"RunConfig(budget=Budget({name}=...)), or find out what it does."
    )
