"""The port to a tool."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from google.genai import types

from durable_adk.models.llm_request import LlmRequest
from durable_adk.tools.tool_options import (
    checked_contract,
    checked_on_deadline,
    checked_retry,
    checked_seconds,
    checked_task_queue,
)
from durable_adk.wire.manifest import OnDeadline
from durable_adk.wire.tool_contract import RetryConfig, ToolContract

if TYPE_CHECKING:
    from durable_adk.context.activity import ToolContext


class BaseTool:
    """Something an agent's model can call (semantics TOL-1)."""

    confirms_itself: ClassVar[bool] = False
    """Whether `run_async` sees to what `needs_confirmation` says; else the runtime does."""

    def __init__(
        self,
        *,
        name: str,
        description: str,
        is_long_running: bool = False,
        timeout: float | None = None,
        deadline: float | timedelta | None = None,
        on_deadline: OnDeadline = "reject",
        contract: ToolContract | str = ToolContract.AT_LEAST_ONCE,
        retry: RetryConfig | None = None,
        task_queue: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> None:
        """Describe the tool.

        Args:
            name: What the model calls it by; unique within the agent.
            description: What the model is told of it.
            is_long_running: Its result comes later, in a message of its own.
            timeout: Seconds one run may take; None for the worker's default.
            deadline: Seconds, or a timedelta, that an answer is waited for: a confirmation, a
                credential, a long-running tool's result. None: as long as it takes.
            on_deadline: What happens then. ``approve`` is for confirmations: it gives nobody a
                credential or a result.
            contract: How often a call may be run: ``at_least_once``, ``pure``, ``idempotent`` or
                ``at_most_once``.
            retry: Which errors that it raises are worth another run; only if it is ``pure`` or
                ``idempotent``. None: what it raises is not retried.
            task_queue: Where its calls are run: a worker of this app must listen there. None:
                wherever the invocation's are. In process it means nothing.
            custom_metadata: The owner's notes; the runtime does not read them.

        Raises:
            AgentDefinitionError: The message names the option that cannot be, or does not fit.
        """
        self.name = name
        self.description = description
        self.is_long_running = is_long_running
        self.timeout = checked_seconds(timeout, f"timeout of tool {name!r}")
        self.deadline = checked_seconds(deadline, f"deadline of tool {name!r}")
        self.on_deadline: OnDeadline = checked_on_deadline(
            on_deadline, name, is_long_running=is_long_running
        )
        self.contract = checked_contract(contract, name)
        self.retry = checked_retry(retry, self.contract, name)
        self.task_queue = checked_task_queue(task_queue, name)
        self.custom_metadata = custom_metadata

    @property
    def reads_confirmation(self) -> bool:
        """Whether its code can read `tool_context.tool_confirmation`; else a no is final (I16)."""
        return True

    def get_declaration(self) -> types.FunctionDeclaration | None:
        """What the model is told: name, description, parameters. None: nothing."""
        return self._get_declaration()

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        return None

    async def needs_confirmation(self, args: dict[str, Any], tool_context: "ToolContext") -> bool:
        """Whether somebody must say yes before the tool runs with these arguments (TOL-60)."""
        del args, tool_context
        return False

    async def run_async(self, *, args: dict[str, Any], tool_context: "ToolContext") -> Any:
        """Run the tool; what it raises ends the run (TOL-18), what it returns is the response.

        How often that may be for one call is what `contract` says; by default it may run again
        after a crash, with the same `tool_context.idempotency_key`.
        """
        del args, tool_context
        raise TypeError(f"{type(self).__name__} does not define run_async.")

    async def refused(self, *, args: dict[str, Any], tool_context: "ToolContext") -> Any:
        """The response to a call that `run_async` would not carry out; None: it would.

        Asked first of an ``at_most_once`` tool, so that a call which was only refused, or has to be
        approved, does not count as one that has begun.
        """
        del args, tool_context

    async def reconcile(self, *, args: dict[str, Any], tool_context: "ToolContext") -> Any:
        """What became of a run that was lost; see `contract.Reconcile`. By default: unknown."""
        del args, tool_context

    async def process_llm_request(
        self, *, tool_context: "ToolContext", llm_request: LlmRequest
    ) -> None:
        """Change the request before it is sent; by default, declare the tool in it."""
        del tool_context
        llm_request.append_tools([self])
