"""Records who requested a call's confirmation, together with the response (I16)."""

from typing import Any

from durable_adk.context.activity import ToolContext
from durable_adk.conversation.client_requests import confirmation_metadata
from durable_adk.events.tool_confirmation import ConfirmationRequester


def waits_for_user(context: ToolContext) -> bool:
    """Whether the call needs an approval or a credential first."""
    actions = context.actions
    return bool(actions.requested_tool_confirmations or actions.requested_auth_configs)


def record_requester(
    context: ToolContext, asker: ConfirmationRequester
) -> ConfirmationRequester | None:
    """Record who requested the call's confirmation; the first requester is kept."""
    if context.function_call_id in context.actions.requested_tool_confirmations:
        context.asked_by = context.asked_by or asker
    return context.asked_by


def request_metadata(context: ToolContext) -> dict[str, Any] | None:
    """Return the metadata for the call's response, or None if no confirmation was requested."""
    asker = record_requester(context, "tool")
    return None if asker is None else confirmation_metadata(context.function_call_id or "", asker)
