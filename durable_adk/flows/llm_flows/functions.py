"""Names by which a client finds the calls that it has to answer, at ADK's module path."""

from durable_adk.auth.auth_tool import REQUEST_CREDENTIAL
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION

REQUEST_CONFIRMATION_FUNCTION_CALL_NAME = REQUEST_CONFIRMATION
"""Name of a call that requests approval of a tool's call."""
REQUEST_EUC_FUNCTION_CALL_NAME = REQUEST_CREDENTIAL
"""Name of a call that requests an end user's credential."""
