"""Events and the actions they carry."""

from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.events.request_input import RequestInput

__all__ = ["Event", "EventActions", "RequestInput"]
