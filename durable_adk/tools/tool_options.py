"""The options that every tool has, and their validation."""

from typing import TypedDict, get_args

from durable_adk.errors import AgentDefinitionError
from durable_adk.wire.manifest import OnDeadline
from durable_adk.wire.tool_contract import REPEATABLE, RetryConfig, ToolContract

MAX_NAME = 1_000
"""Maximum length of a name in Temporal, in bytes (`limit.maxIDLength`)."""


class ContractOptions(TypedDict, total=False):
    """Options of `BaseTool` that determine how and where its calls run."""

    heartbeat_timeout: float | None
    contract: ToolContract | str
    retry: RetryConfig | None
    task_queue: str | None


def checked_contract(contract: ToolContract | str, name: str) -> ToolContract:
    """Return the contract of a tool.

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
    """Return the retry policy of a tool.

    Raises:
        AgentDefinitionError: The contract forbids a retry after the tool raised.
    """
    if retry is not None and contract not in REPEATABLE:
        raise AgentDefinitionError(
            f"retry of tool {name!r} needs contract 'pure' or 'idempotent', not "
            f"{contract.value!r}: a tool that raised may have taken effect."
        )
    return retry


def checked_task_queue(task_queue: str | None, what: str) -> str | None:
    """Return the task queue of a tool or node.

    Args:
        task_queue: The queue's name.
        what: Names the tool or node in the error.

    Raises:
        AgentDefinitionError: The name is blank or too long.
    """
    if task_queue is not None and not task_queue.strip():
        raise AgentDefinitionError(
            f"task_queue of {what} is {task_queue!r}; name a queue, or pass None."
        )
    if len((task_queue or "").encode()) > MAX_NAME:
        raise AgentDefinitionError(
            f"task_queue of {what} has more than {MAX_NAME} bytes; shorten it."
        )
    return task_queue


def checked_on_deadline(policy: OnDeadline, name: str, *, is_long_running: bool) -> OnDeadline:
    """Return the effect of a tool's deadline.

    Raises:
        AgentDefinitionError: It is unknown, or does not fit the tool.
    """
    if policy not in get_args(OnDeadline):
        known = ", ".join(get_args(OnDeadline))
        raise AgentDefinitionError(
            f"on_deadline of tool {name!r} is {policy!r}; use one of {known}."
        )
    if policy == "approve" and is_long_running:
        raise AgentDefinitionError(
            f"on_deadline of tool {name!r} is 'approve', which is for confirmations: a "
            "long-running tool waits for a result. Use 'tell' or 'fail'."
        )
    return policy
