"""Clients: connect, start invocations, follow their events."""

from durable_adk.client.connect import connect
from durable_adk.client.feed import follow
from durable_adk.client.invocations import InvocationHandle, Invocations, workflow_id
from durable_adk.client.schedules import create_schedule

__all__ = ["InvocationHandle", "Invocations", "connect", "create_schedule", "follow", "workflow_id"]
