"""`CallbackContext` at the path ADK gives it."""

from durable_adk.context.activity import CallbackContext

__all__ = ["CallbackContext"]
