"""A function that starts work whose result comes later."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar, Literal, Unpack

from durable_adk.tools.function_tool import FunctionTool
from durable_adk.tools.reconcile import Reconcile
from durable_adk.tools.tool_options import ContractOptions


class LongRunningFunctionTool(FunctionTool):
    """What the function returns says how the work stands; None says nothing (semantics 11.4).

    The invocation then waits, without holding a process, for the result: a message with a
    `FunctionResponse` of the call's id and name (TOL-41). The function learns the id from its
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
            func: What starts the work.
            name: What the model calls it by; the function's own name by default.
            timeout: Seconds the function itself may take; None for the worker's default.
            deadline: Seconds, or a timedelta, that the result is waited for; None: any time.
            on_deadline: What happens then: the model is told that no result came (``tell``), or
                that the call was rejected, or the run fails.
            reconcile: Finds out what became of a lost run of the function; see `FunctionTool`.
            **contract: `contract`, `retry` and `task_queue` of the function; see `BaseTool`.

        Raises:
            AgentDefinitionError: The function cannot be a tool; the message says why.
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
