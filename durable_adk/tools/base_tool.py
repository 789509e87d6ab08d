"""`BaseTool`: the interface of everything that a model can call."""

from datetime import timedelta
from typing import Any, ClassVar, NoReturn

from google.genai import types

from durable_adk.calling.copies import own_copy
from durable_adk.context.activity import ToolContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.models.llm_request import LlmRequest
from durable_adk.settings import checked_seconds
from durable_adk.tools.tool_options import (
    checked_contract,
    checked_on_deadline,
    checked_retry,
    checked_task_queue,
)
from durable_adk.wire.manifest import OnDeadline
from durable_adk.wire.tool_contract import RetryConfig, ToolContract


class ToolOrToolset:
    """A tool or toolset of this package, which agents of google-adk take because it is callable."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Raise: tools are run by their `run_async`.

        Raises:
            AgentDefinitionError: Always.
        """
        raise only_runs_here(self)

    @property
    def __name__(self) -> str:
        """The name that google-adk's agents declare to a model for a callable."""
        return str(getattr(self, "name", "") or type(self))


def only_runs_here(ours: object) -> AgentDefinitionError:
    """Return the error for running one of this package's tools as a function, or elsewhere."""
    return AgentDefinitionError(
        f"{type(ours).__name__} is a tool of durable_adk: give it to an agent as it is, not as a "
        "function, and run that agent with durable_adk's Runner; google-adk's own Runner cannot."
    )


def is_function(value: object) -> bool:
    """Return whether a value can be called, and is no tool or toolset."""
    return callable(value) and not isinstance(value, ToolOrToolset)


class BaseTool(ToolOrToolset):
    """Something that an agent's model can call (TOL-1).

    Subclasses define `run_async` and, to be declared to the model, `_get_declaration`. All methods
    that take a `tool_context` run in activities and may do I/O.
    """

    delegates: ClassVar[bool] = False
    """Whether the workflow runs an agent, or an activity of others, for its calls."""
    confirms_itself: ClassVar[bool] = False
    """Whether `run_async` itself enforces `check_require_confirmation`; else the runtime does."""

    def __init__(
        self,
        *,
        name: str,
        description: str,
        is_long_running: bool = False,
        timeout: float | None = None,
        heartbeat_timeout: float | None = None,
        deadline: float | timedelta | None = None,
        on_deadline: OnDeadline = "reject",
        contract: ToolContract | str = ToolContract.AT_LEAST_ONCE,
        retry: RetryConfig | None = None,
        task_queue: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> None:
        """Initialize the tool.

        Args:
            name: Name for the model; unique within the agent.
            description: Description for the model.
            is_long_running: Whether the result comes later, in a separate message.
            timeout: Seconds that one run may take; None for the worker's default.
            heartbeat_timeout: `Limits.heartbeat_timeout` of its runs; None for the worker's.
            deadline: How long to wait for the user's answer (a confirmation, a credential, a
                long-running tool's result), in seconds or as a timedelta. None: without limit.
            on_deadline: What happens at the deadline; see `OnDeadline`. ``approve`` is for
                confirmations only.
            contract: How often one call may run; see `ToolContract`.
            retry: Which of its errors to retry; needs contract ``pure`` or ``idempotent``. None:
                errors are not retried.
            task_queue: Task queue for its calls; a worker of this app must poll it. None: that of
                the invocation. Ignored in process.
            custom_metadata: Metadata of the application; the runtime ignores it.

        Raises:
            AgentDefinitionError: An option is invalid; the message names it.
        """
        self.name = name
        self.description = description
        self.is_long_running = is_long_running
        self.timeout = checked_seconds(timeout, f"timeout of tool {name!r}")
        self.heartbeat_timeout = checked_seconds(heartbeat_timeout, f"heartbeat_timeout of {name}")
        self.deadline = checked_seconds(deadline, f"deadline of tool {name!r}")
        self.on_deadline: OnDeadline = checked_on_deadline(
            on_deadline, name, is_long_running=is_long_running
        )
        self.contract = checked_contract(contract, name)
        self.retry = checked_retry(retry, self.contract, name)
        self.task_queue = checked_task_queue(task_queue, f"tool {name!r}")
        self.custom_metadata = custom_metadata

    @property
    def reads_confirmation(self) -> bool:
        """Whether it reads `tool_context.tool_confirmation`; if not, a rejection is final (I16)."""
        return True

    def get_declaration(self) -> types.FunctionDeclaration | None:
        """Return the name, description and parameters for the model, if it can call the tool."""
        # A copy: a before_model_callback may change this request, but must not change others.
        return own_copy(self._get_declaration())

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        return None

    async def check_require_confirmation(
        self, args: dict[str, Any], tool_context: ToolContext
    ) -> bool:
        """Return whether a user must confirm a call with these arguments first (TOL-60)."""
        del args, tool_context
        return False

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Run the tool and return the response to the call.

        An exception ends the agent's run (TOL-18). By default, one call may run again after a
        crash, with the same `tool_context.idempotency_key`; see `contract`.
        """
        del args, tool_context
        raise TypeError(f"{type(self).__name__} does not define run_async.")

    async def refused(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Return the response to a call that `run_async` would refuse, or None.

        Called before an ``at_most_once`` tool runs, so that a call that is refused, or must be
        confirmed first, does not count as started.
        """
        del args, tool_context

    async def reconcile(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Return the result of a lost run; None if it is unknown. See `reconcile.Reconcile`."""
        del args, tool_context

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """Change the request before it is sent; by default, declare the tool to the model."""
        del tool_context
        llm_request.append_tools([self])
