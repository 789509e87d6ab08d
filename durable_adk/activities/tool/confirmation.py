"""Who asks for a call's confirmation, recorded with the response that asks (I16)."""

from typing import Any

from durable_adk.context.activity import ToolContext
from durable_adk.conversation.client_requests import confirmation_metadata
from durable_adk.events.tool_confirmation import ConfirmationRequester


def asked(context: ToolContext) -> bool:
    """Whether the call wants an approval or a credential first."""
    actions = context.actions
    return bool(actions.requested_tool_confirmations or actions.requested_auth_configs)


def note_asker(context: ToolContext, asker: ConfirmationRequester) -> ConfirmationRequester | None:
    """Note who has asked for the call's confirmation, if somebody has and it is not noted yet."""
    if context.function_call_id in context.actions.requested_tool_confirmations:
        context.asked_by = context.asked_by or asker
    return context.asked_by


def requests_of(context: ToolContext) -> dict[str, Any] | None:
    """The metadata of the call's response; None: nobody has asked."""
    asker = note_asker(context, "tool")
    return None if asker is None else confirmation_metadata(context.function_call_id, asker)
