"""`LongRunningFunctionTool`: a function that starts work whose result comes later."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar, Literal, Unpack

from durable_adk.tools.function_tool import FunctionTool
from durable_adk.tools.reconcile import Reconcile
from durable_adk.tools.tool_options import ContractOptions


class LongRunningFunctionTool(FunctionTool):
    """A function that starts work and returns its preliminary status, or None.

    The invocation then waits for the result without occupying a process. The result is a message
    with a `FunctionResponse` of the call's id and name (TOL-41). The function finds the id in
    `tool_context.function_call_id`.
    """

    _long_running: ClassVar[bool] = True
    _note: ClassVar[str] = (
        "Note: this takes a while. A call that has answered with a preliminary status is still "
        "being worked on; do not make the same call again, its result will follow by itself."
    )

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        timeout: float | None = None,
        deadline: float | timedelta | None = None,
        on_deadline: Literal["reject", "fail", "tell"] = "tell",
        reconcile: Reconcile | None = None,
        **contract: Unpack[ContractOptions],
    ) -> None:
        """Read the function's signature, as `FunctionTool` does.

        Args:
            func: The function that starts the work.
            name: Name for the model; the function's own name by default.
            timeout: Seconds that the function itself may take; None for the worker's default.
            deadline: How long to wait for the result, in seconds or as a timedelta; None: no limit.
            on_deadline: Effect of the deadline: the model learns that there is no result (``tell``)
                or that the call was rejected (``reject``), or the run fails (``fail``).
            reconcile: Finds out what a lost run of the function did; see `FunctionTool`.
            **contract: `contract`, `retry` and `task_queue` of the function; see `BaseTool`.

        Raises:
            AgentDefinitionError: The function cannot be a tool; the message gives the reason.
        """
        super().__init__(
            func,
            name=name,
            timeout=timeout,
            deadline=deadline,
            on_deadline=on_deadline,
            reconcile=reconcile,
            **contract,
        )
