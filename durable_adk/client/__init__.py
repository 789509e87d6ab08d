"""Clients: connect, start invocations, follow their events."""

from durable_adk.client.connect import connect
from durable_adk.client.feed import follow
from durable_adk.client.invocations import InvocationHandle, Invocations, workflow_id

__all__ = ["InvocationHandle", "Invocations", "connect", "follow", "workflow_id"]
