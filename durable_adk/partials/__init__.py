"""Partial events: text that is streamed to viewers while the model writes it, never stored (D8)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from durable_adk.partials.channel import PartialChannel
from durable_adk.partials.choice import partials_at, partials_of
from durable_adk.partials.in_process import InProcessPartials
from durable_adk.partials.partial import PartialEvent
from durable_adk.partials.postgres import PostgresPartials
from durable_adk.partials.sockets import SocketPartials
from durable_adk.partials.subscription import Subscription
from durable_adk.partials.text import LiveText

if TYPE_CHECKING:
    from durable_adk.partials.redis import RedisPartials

__all__ = [
    "InProcessPartials",
    "LiveText",
    "PartialChannel",
    "PartialEvent",
    "PostgresPartials",
    "RedisPartials",
    "SocketPartials",
    "Subscription",
    "partials_at",
    "partials_of",
]


def __getattr__(name: str) -> Any:
    if name == "RedisPartials":
        return import_module("durable_adk.partials.redis").RedisPartials
    raise AttributeError(f"module 'durable_adk.partials' has no attribute {name!r}")
