"""Asks a person to approve what a node is about to do (GR-51, GR-56)."""

from typing import Any

from durable_adk.context.activity import Context
from durable_adk.events.request_input import RequestInput
from durable_adk.events.tool_confirmation import ToolConfirmation
from durable_adk.json_values import to_json_value

_PREFIX = "wf_tool_confirmation:"


def decision(ctx: Context) -> ToolConfirmation | None:
    """Return the decision of a person about this run of the node; None: there is none yet."""
    given = ctx.resume_inputs.get(f"{_PREFIX}{ctx.node_path}")
    return None if given is None else ToolConfirmation.model_validate(given)


def question(
    ctx: Context, name: str, args: dict[str, Any], asked: ToolConfirmation | None = None
) -> RequestInput:
    """Return the question whether a call may be made.

    Args:
        ctx: The node's context.
        name: The function's or the tool's name.
        args: The call's arguments.
        asked: What a tool's own code asks; None: whether it may be called.
    """
    hint = asked.hint if asked is not None and asked.hint else None
    payload = {"tool_name": name, "args": to_json_value(args)}
    if asked is not None and asked.payload is not None:
        payload["confirmation_payload"] = to_json_value(asked.payload)
    return RequestInput(
        interrupt_id=f"{_PREFIX}{ctx.node_path}",
        message=hint or f"Please approve or reject the tool call {name}().",
        payload=payload,
        response_schema=ToolConfirmation,
    )
