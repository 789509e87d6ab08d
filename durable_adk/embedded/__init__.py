"""Everything on this machine: the Temporal server, the store, the worker, in one line."""

from durable_adk.embedded.runner import embedded_runner
from durable_adk.embedded.server import ServerInfo, TemporalServer

__all__ = ["ServerInfo", "TemporalServer", "embedded_runner"]
