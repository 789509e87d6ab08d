"""Names by which a client finds the calls that it has to answer, at the path ADK gives them."""

from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION, REQUEST_CREDENTIAL

REQUEST_CONFIRMATION_FUNCTION_CALL_NAME = REQUEST_CONFIRMATION
"""Of a call that asks for approval of a tool's call."""
REQUEST_EUC_FUNCTION_CALL_NAME = REQUEST_CREDENTIAL
"""Of a call that asks for an end user's credential."""
