"""A tool's contract: its check, and what is said when the outcome of a run is unknown."""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, TypedDict

from durable_adk.errors import AgentDefinitionError
from durable_adk.wire.tool_contract import REPEATABLE, RetryConfig, ToolContract

MAX_NAME = 1_000
"""Bytes of a name in Temporal, by its `limit.maxIDLength`."""


class _Finding(Enum):
    NOT_RUN = "not_run"


NOT_RUN: Final = _Finding.NOT_RUN
"""What a `reconcile` returns that knows that the lost run had no effect, and never will have."""

Reconcile = Callable[..., Any]
"""Finds out, for ``(args, tool_context)``, what became of a run that was lost; sync or async.

It returns the call's result; or None, if it does not know either; or `NOT_RUN`, and the tool is run
again. Look for `tool_context.idempotency_key` where the tool would have left it. A worker that was
only frozen may still finish a run that looks lost: say `NOT_RUN` only if the other side refuses
the key from now on, or is known not to have been asked.
"""


class ContractOptions(TypedDict, total=False):
    """The options of `BaseTool` that make up its contract."""

    contract: ToolContract | str
    retry: RetryConfig | None
    task_queue: str | None


def unknown_outcome(name: str, why: str) -> dict[str, Any]:
    """What the model is told of a call that may have taken effect or not (I8).

    Args:
        name: The tool's.
        why: Why nobody knows, as a clause.
    """
    return {
        "outcome": "unknown",
        "error": f"The outcome of this call of {name!r} is unknown: {why}. It may have taken "
        "effect, in full, in part or not at all, and it is not run again by itself. Do not assume "
        "either way: find out, or tell the user, before you call it again.",
    }


LOST = "its run was lost before it reported a result"
"""Why the outcome is unknown after a worker died or was given up."""


def overdue(seconds: float) -> str:
    """Why the outcome is unknown after a timeout."""
    return f"it did not finish in {seconds:g} s and may still run"


def checked_contract(contract: ToolContract | str, name: str) -> ToolContract:
    """The contract of a tool.

    Raises:
        AgentDefinitionError: There is no such contract.
    """
    try:
        return ToolContract(contract)
    except ValueError:
        known = ", ".join(ToolContract)
        raise AgentDefinitionError(
            f"contract of tool {name!r} is {contract!r}; use one of {known}."
        ) from None


def checked_retry(
    retry: RetryConfig | None, contract: ToolContract, name: str
) -> RetryConfig | None:
    """The retry policy of a tool.

    Raises:
        AgentDefinitionError: The contract does not allow to run it again because it raised.
    """
    if retry is not None and contract not in REPEATABLE:
        raise AgentDefinitionError(
            f"retry of tool {name!r} needs contract 'pure' or 'idempotent', and it is "
            f"{contract.value!r}: a tool that raised may have taken effect."
        )
    return retry


def checked_task_queue(task_queue: str | None, name: str) -> str | None:
    """The task queue of a tool.

    Raises:
        AgentDefinitionError: It is no name.
    """
    if task_queue is not None and not task_queue.strip():
        raise AgentDefinitionError(
            f"task_queue of tool {name!r} is {task_queue!r}; name a queue, or pass None."
        )
    if len((task_queue or "").encode()) > MAX_NAME:
        raise AgentDefinitionError(
            f"task_queue of tool {name!r} has more than {MAX_NAME} bytes; shorten it."
        )
    return task_queue


def checked_reconcile(
    reconcile: Reconcile | None, contract: ToolContract, name: str
) -> Reconcile | None:
    """The function that finds out what became of a lost run.

    Raises:
        AgentDefinitionError: It cannot be called, or nobody would ever call it.
    """
    if reconcile is not None and not callable(reconcile):
        raise AgentDefinitionError(
            f"reconcile of tool {name!r} is {reconcile!r}; pass a function of args and "
            "tool_context."
        )
    if reconcile is not None and contract is not ToolContract.AT_MOST_ONCE:
        raise AgentDefinitionError(
            f"reconcile of tool {name!r} needs contract 'at_most_once', and it is "
            f"{contract.value!r}: other tools are simply run again."
        )
    return reconcile
