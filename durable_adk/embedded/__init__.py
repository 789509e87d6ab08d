"""A Temporal server, a store and a worker on this machine."""

from durable_adk.embedded.runner import embedded_runner
from durable_adk.embedded.server import ServerInfo, TemporalServer

__all__ = ["ServerInfo", "TemporalServer", "embedded_runner"]
