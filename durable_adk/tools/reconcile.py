"""Handling of a tool run whose result was lost, for example because its worker died.

A tool with contract ``at_most_once`` is not run again. Its `reconcile` function may find out what
the lost run did; without one, the model learns that the outcome is unknown.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from durable_adk.errors import AgentDefinitionError
from durable_adk.tools.base_tool import is_function
from durable_adk.wire.tool_contract import ToolContract


class _Finding(Enum):
    NOT_RUN = "not_run"


NOT_RUN: Final = _Finding.NOT_RUN
"""Return this from `reconcile` if the lost run had no effect and never will have one."""

Reconcile = Callable[..., Any]
"""Finds out for ``(args, tool_context)`` what a lost run did; sync or async.

It returns the call's result, or None if it cannot tell, or `NOT_RUN` to run the tool again. Look
for `tool_context.idempotency_key` where the tool would have stored it. A frozen worker may still
finish a run that looks lost: return `NOT_RUN` only if the other system rejects the key from now on,
or certainly never received it.
"""

LOST = "its run was lost before it reported a result"
"""Reason for an unknown outcome after a worker died or stopped sending heartbeats."""


def overdue(seconds: float) -> str:
    """Return the reason for an unknown outcome after a timeout."""
    return f"it did not finish in {seconds:g} s and may still run"


def unknown_outcome(name: str, why: str) -> dict[str, Any]:
    """Return the response to a call that may or may not have taken effect (I8).

    Args:
        name: The tool's name.
        why: The reason, as a clause.
    """
    return {
        "outcome": "unknown",
        "error": f"The outcome of this call of {name!r} is unknown: {why}. It may have taken "
        "effect, in full, in part or not at all, and it is not run again by itself. Do not assume "
        "either way: find out, or tell the user, before you call it again.",
    }


def checked_reconcile(
    reconcile: Reconcile | None, contract: ToolContract, name: str
) -> Reconcile | None:
    """Return a tool's `reconcile` function.

    Raises:
        AgentDefinitionError: It is not callable, or the tool's contract would never call it.
    """
    if reconcile is not None and not is_function(reconcile):
        raise AgentDefinitionError(
            f"reconcile of tool {name!r} is {reconcile!r}; pass a function of args and "
            "tool_context."
        )
    if reconcile is not None and contract is not ToolContract.AT_MOST_ONCE:
        raise AgentDefinitionError(
            f"reconcile of tool {name!r} needs contract 'at_most_once', not {contract.value!r}: "
            "tools with other contracts are simply run again."
        )
    return reconcile
