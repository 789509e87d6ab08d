"""Clients: connect, start invocations, follow their events."""

from durable_adk.client.connect import connect
from durable_adk.client.feed import follow_changes
from durable_adk.client.invocations import InvocationHandle, Invocations, workflow_id
from durable_adk.client.schedules import create_schedule
from durable_adk.wire.converter import data_converter, encrypted, stored_in

__all__ = [
    "InvocationHandle",
    "Invocations",
    "connect",
    "create_schedule",
    "data_converter",
    "encrypted",
    "follow_changes",
    "stored_in",
    "workflow_id",
]
