"""Runs a tool as often as its contract allows (D7, I8)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from durable_adk.activities.attempt_record import AttemptRecorder
from durable_adk.activities.commit.notes import (
    ReceivedResult,
    find_received,
    keep_received,
)
from durable_adk.activities.step import ActiveStep
from durable_adk.activities.tool.contract import AtMostOnce, RunLostError
from durable_adk.activities.tool.delegated import AgentToolRuns
from durable_adk.activities.tool.response_event import result_and_media
from durable_adk.activities.user_code.callbacks import as_list
from durable_adk.calling import contained
from durable_adk.context.activity import ToolContext
from durable_adk.errors import (
    DurableAdkError,
    StoreUnavailableError,
    ToolsetUnavailableError,
)
from durable_adk.json_values import check_json
from durable_adk.log import get_logger
from durable_adk.telemetry.content import captured
from durable_adk.telemetry.genai import execute_tool
from durable_adk.telemetry.names import RESULT as RESULT_CONTENT, WAITS_FOR
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.function_tool import FunctionTool
from durable_adk.tools.reconcile import LOST, overdue, unknown_outcome
from durable_adk.tools.require_confirmation import confirmation_refusal
from durable_adk.wire.manifest import ToolSpec
from durable_adk.wire.steps import ToolStep
from durable_adk.wire.tool_contract import RetryConfig, ToolContract

logger = get_logger(__name__)
MAX_TOOLSET_ATTEMPTS = 7
"""Maximum attempts of a call whose toolset is unavailable; with the delays, about a minute."""
MAX_TOOLSET_DELAY = 30.0
"""Maximum delay between two of these attempts, in seconds."""


class RetryLater(Exception):  # noqa: N818 - a request to the caller that counts attempts
    """A tool raised and its retry policy allows another run.

    Args:
        error: The error that the run fails with if there is no further attempt.
        delay: Seconds until the next run.
    """

    def __init__(self, error: DurableAdkError, delay: float) -> None:
        super().__init__(error.message)
        self.error = error
        self.delay = delay


class ToolsetUnavailable(RetryLater):
    """The tool has not run: a toolset that may contain it was unavailable."""


@dataclass
class ToolAttempt:
    """Runs of one call, as seen by one attempt of its step."""

    active: ActiveStep[ToolStep]
    _running: bool = field(default=False)
    _final: Exception | None = field(default=None)
    """The exception that an at-most-once tool raised."""

    def __post_init__(self) -> None:
        """Create the attempt's recorder, for the case that there is no result."""
        self.recorder = AttemptRecorder(self.active)
        self._once = AtMostOnce(self.active)

    @property
    def step(self) -> ToolStep:
        """The tool step."""
        return self.active.step

    async def received(self) -> ReceivedResult | None:
        """Return the result that an earlier attempt stored, or None if none is known (I8)."""
        attempt, once = self.active.attempt.number, ToolContract.AT_MOST_ONCE
        again = attempt > 1 or self.active.scope.ahead or self._spec.contract is once
        return await find_received(self.active, ReceivedResult) if again else None

    async def response(
        self, tool: BaseTool, args: dict[str, Any], context: ToolContext, runs: AgentToolRuns
    ) -> Any:
        """Run the tool, or return a substitute response if its contract forbids the run.

        If the tool's code requests an agent run that is not finished, the request is returned.

        Raises:
            ToolNotStartedError: The store does not let an at-most-once tool start.
            Exception: The exception that the tool raised.
        """
        once = self._contract(tool) is ToolContract.AT_MOST_ONCE
        if once:
            try:
                given = await self._once.instead(tool, args, context)
            except RunLostError:
                return unknown_outcome(tool.name, LOST)
            if given is not None:
                return given
        self._running = once
        self.recorder.begin()
        try:
            with execute_tool(tool.name, _kind(tool), self.step.call_id, args) as shown:
                response = await contained(
                    tool.run_async(args=args, tool_context=context), instead=runs.needed
                )
                shown.set_attributes(_waits_for(context) | captured(RESULT_CONTENT, response))
        except Exception as error:
            self._running = False  # stays True on cancellation, which means a timeout
            self._final = error if once else None
            raise
        finally:
            runs.end()
        self._running = False
        return response

    async def keep(
        self, tool: BaseTool, received: ReceivedResult, context: ToolContext
    ) -> ReceivedResult:
        """Note the result if code of the step follows it; see `CommitPlan.notes_received`.

        If two attempts have a result, both use the one stored first.
        """
        code_follows = (
            bool(as_list(self.active.llm_agent.after_tool_callback))
            or "after_tool_callback" in self.active.plugins.hooks()
        )
        if not self.active.plan.notes_received(code_follows=code_follows) or self.can_repeat(tool):
            return received
        try:
            # This attempt's callbacks receive the tool's object itself.
            response, media = result_and_media(received.response)
            noted = received.model_copy(update={"response": response, "media": media})
            check_json(noted.response, "the result")
            check_json(context.state.collect_delta(), "state_delta")
            first = await keep_received(self.active, noted)
        except ValueError:
            return received  # not storable; the step reports it later
        self.recorder.kept = True
        return received if first is noted else first

    def require_asked(self, name: str, missed: Sequence[ToolsetUnavailableError]) -> None:
        """Request a retry, on any worker, if an unavailable toolset may contain the tool.

        Args:
            name: The tool's name.
            missed: The errors of the unavailable toolsets.

        Raises:
            ToolsetUnavailable: Some toolset was unavailable and attempts are left.
        """
        before = self.active.attempt.history.toolset_failures
        if not missed or before + 1 >= MAX_TOOLSET_ATTEMPTS:
            return
        delay = min(2.0**before, MAX_TOOLSET_DELAY)
        text = f"Tool {name!r} waits for {_listed(missed)}, which cannot be asked for its tools."
        raise ToolsetUnavailable(ToolsetUnavailableError(text), delay)

    def unlisted(
        self, name: str, missed: Sequence[ToolsetUnavailableError], known: Sequence[str]
    ) -> dict[str, Any]:
        """Return the response if the toolset stays unavailable; a lost attempt may have run it."""
        if self.active.attempt.history.lost(self.active.attempt.number):
            return unknown_outcome(name, LOST)
        tools = ", ".join(known) or "none"
        return {
            "error": f"Tool {name!r} was not run: {_listed(missed)}, which may have it, could not "
            f"be asked for its tools. The tools that are available now are: {tools}."
        }

    def waits_for_store(self, error: Exception) -> bool:
        """Return whether to retry the call, as after a lost worker: a store was unavailable.

        Not if an at-most-once tool itself raised the error: the tool has already run.
        """
        return isinstance(error, StoreUnavailableError) and error is not self._final

    def again(self, tool: BaseTool, error: Exception) -> float | None:
        """Return the seconds until a tool that raised runs again, or None for no retry."""
        retry = self._retry(tool)
        return retry.delay(self.active.attempt.counted, error) if retry else None

    def overdue(self, name: str) -> dict[str, Any] | None:
        """Return the response to a call that timed out, or None if it did not start or can repeat.

        Raises:
            StoreUnavailableError: The store, not the tool, took the time.
        """
        if self._once.noting:
            raise StoreUnavailableError("The session store did not answer; the tool was not run.")
        if not self._running:
            return None
        return unknown_outcome(name, overdue(self.step.attempt_timeout))

    # ----- the tool's contract

    @property
    def _spec(self) -> ToolSpec:
        return self.step.spec or ToolSpec()

    def _is_recorded(self, tool: BaseTool) -> bool:
        """Return whether the manifest has the tool; only the step knows tools of toolsets."""
        return self.step.spec is not None or tool.name in self.active.llm_agent.static_tools()

    def _contract(self, tool: BaseTool) -> ToolContract:
        if self._is_recorded(tool):
            return self._spec.contract or ToolContract.AT_LEAST_ONCE
        return tool.contract

    def _retry(self, tool: BaseTool) -> RetryConfig | None:
        return self._spec.retry if self._is_recorded(tool) else tool.retry

    def can_repeat(self, tool: BaseTool) -> bool:
        """Return whether the result may be made again: it is recorded elsewhere, or has no cost."""
        step = self.step
        recorded = (step.child or step.activity or step.called) is not None
        own_code = isinstance(tool, AgentTool) and tool.has_own_code
        return (recorded and not own_code) or self._contract(tool) is ToolContract.PURE


async def unconfirmed(tool: BaseTool, args: dict[str, Any], context: ToolContext) -> str | None:
    """Return why the call may not run, or None; only for tools with their own rule (TOL-60).

    A tool with `confirms_itself` requests the confirmation and reads the decision itself.
    """
    if (
        tool.confirms_itself
        or type(tool).check_require_confirmation is BaseTool.check_require_confirmation
    ):
        return None
    return await contained(confirmation_refusal(tool, args, context))


def _listed(missed: Sequence[ToolsetUnavailableError]) -> str:
    return ", ".join(error.message for error in missed)


def _waits_for(context: ToolContext) -> dict[str, str]:
    """Return a span attribute if the tool requested a confirmation or credential before it ran."""
    if context.actions.requested_tool_confirmations:
        return {WAITS_FOR: "confirmation"}
    return {WAITS_FOR: "credential"} if context.actions.requested_auth_configs else {}


def _kind(tool: BaseTool) -> str:
    """Return the tool's type in the OpenTelemetry GenAI conventions."""
    return "function" if isinstance(tool, FunctionTool) else "extension"
