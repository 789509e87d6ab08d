"""Nodes that the code of another node calls: what their activity and the loop tell each other.

The activity of the code runs them (GR-150), and stores a `DynamicJournal` when it ends before the
code has: that is what the next run of the code continues from.
"""

from typing import Any

from pydantic import Field

from durable_adk.json_values import JsonModel
from durable_adk.settings import Limits
from durable_adk.wire.effect import ErrorDetail
from durable_adk.wire.graph.node_run import NodeEnd
from durable_adk.wire.messages import ToolRun
from durable_adk.wire.run_config import Budget


class OpenCall(JsonModel):
    """A call that waits for an answer from outside the invocation."""

    call_id: str
    name: str
    author: str
    on_deadline: str
    due: float | None = None
    """Deadline in seconds since the epoch."""
    args: dict[str, Any] | None = None
    """Arguments of the call, for people who answer it; None: they are too large to be kept here."""
    branch: str
    """Prefix of the branch whose agent made the call."""


class OpenTask(JsonModel):
    """A task agent that waits for a message of the user (GR-173)."""

    name: str
    """Stands for the message, as a call's id for its answer."""
    scope: str | None = None
    """The `isolation_scope` of the agent's events."""
    branch: str
    """Prefix of the agent's branch."""


class NodeCaller(JsonModel):
    """What the activity of a node needs of the loop, to run the nodes that the code calls."""

    limits: Limits
    hooks: list[str] = Field(default_factory=list[str])
    """See `Opened.hooks`."""
    rules: int
    resumable: bool = False
    budget: Budget | None = None
    """The app's."""
    opened_at: float
    """When the invocation began, in seconds since the epoch."""
    used: dict[str, int]
    """See `Checkpoint.used`."""
    model_calls: int
    """Number of the invocation's model calls so far."""
    node_runs: int
    """Number of runs of nodes that the invocation has begun."""
    tool_run: ToolRun | None = None
    journal: str | None = None
    """Name of the journal to continue from; None: the code has not run yet."""
    answered: list[str] = Field(default_factory=list[str])
    """The calls that were answered since the code ran last."""
    wants_state: bool = False
    """Whether the loop needs the session's state afterwards, for custom agents."""


class DynamicEnd(JsonModel):
    """How a called node has ended."""

    end: NodeEnd | None = None
    """None: it has failed."""
    error: ErrorDetail | None = None
    """`errors.as_detail` of its error."""
    cancelled: bool = False
    """Whether the code has cancelled it."""
    path: str = ""
    """The path of the node that has failed, perhaps one below it."""


class OpenNode(JsonModel):
    """A called node that waits for an answer."""

    stack: dict[str, Any]
    """Its `StackFrame`, as JSON: one that is read and stored again would lose its position."""
    branches: dict[str, int]
    """See `Checkpoint.branches`."""
    waiting: list[OpenCall]
    tasks: list[OpenTask] = Field(default_factory=list[OpenTask])

    @property
    def ids(self) -> list[str]:
        """What it waits for: ids of calls, and names of messages."""
        return [*(call.call_id for call in self.waiting), *(task.name for task in self.tasks)]


class DynamicJournal(JsonModel):
    """The nodes that the code of a node has called, by name and run id."""

    ended: dict[str, DynamicEnd] = Field(default_factory=dict[str, DynamicEnd])
    open: dict[str, OpenNode] = Field(default_factory=dict[str, OpenNode])
