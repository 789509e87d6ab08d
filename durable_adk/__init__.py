"""The Agent Development Kit runtime as durable execution on Temporal."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from durable_adk.compatibility.missing_names import install

if TYPE_CHECKING:
    from durable_adk.agents.llm_agent import Agent
    from durable_adk.context.activity import Context
    from durable_adk.events.event import Event
    from durable_adk.graph.workflow import Workflow
    from durable_adk.runners import Runner

__all__ = ["Agent", "Context", "Event", "Runner", "Workflow"]
__version__ = "0.1.0"

# Imported when they are used: most of the package's processes need only some of its modules.
_WHERE = {
    "Agent": "durable_adk.agents.llm_agent",
    "Context": "durable_adk.agents.context",
    "Event": "durable_adk.events.event",
    "Runner": "durable_adk.runners",
    "Workflow": "durable_adk.graph.workflow",
}
_missing = install()


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    return _missing(name)


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
