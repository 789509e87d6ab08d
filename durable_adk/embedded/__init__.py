"""A Temporal server, a store and a worker on this machine."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_adk.embedded.runner import embedded_runner
    from durable_adk.embedded.server import ServerInfo, TemporalServer

__all__ = ["ServerInfo", "TemporalServer", "embedded_runner"]

# Imported lazily: a command that only looks for a server needs no runner and no worker.
_WHERE = {
    "ServerInfo": "durable_adk.embedded.server",
    "TemporalServer": "durable_adk.embedded.server",
    "embedded_runner": "durable_adk.embedded.runner",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
