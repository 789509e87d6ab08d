"""The context of the plugin hooks around a run and its events."""

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.context.activity import CallbackContext, StepScope
from durable_adk.events.event_actions import EventActions


class RunContext(CallbackContext):
    """What a plugin's hooks around a run can read and change (PLG-2)."""

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
        """The agent that the run starts with; for an event, the agent that made it."""

    @property
    def end_invocation(self) -> bool:
        """Whether no agent is to run; settable before the run: then only its callbacks do."""
        return self._scope.end_invocation

    @end_invocation.setter
    def end_invocation(self, value: bool) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]: a field of ADK's InvocationContext
        self._scope.end_invocation = value
