"""The context of the plugin hooks around a run and its events."""

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.context.activity import CallbackContext
from durable_adk.context.step_scope import StepScope
from durable_adk.events.event_actions import EventActions


class RunContext(CallbackContext):
    """The context of a plugin's hooks around a run (PLG-2)."""

    def __init__(
        self,
        scope: StepScope,
        *,
        agent: BaseAgent | None = None,
        event_actions: EventActions | None = None,
        save_key: str = "",
    ) -> None:
        super().__init__(scope, event_actions=event_actions, save_key=save_key)
        self.agent = agent
        """The agent that the run starts with; for an event, the event's author."""

    @property
    def end_invocation(self) -> bool:
        """Whether to run no agent; set before the run, only the hooks around it still run."""
        return self._scope.end_invocation

    @end_invocation.setter
    def end_invocation(self, value: bool) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]: a field of ADK's InvocationContext
        self._scope.end_invocation = value
