"""What an invocation records of its agents and their tools when it opens (design D6).

The loop drives agents by this record and not by the objects that a worker has now, so a deploy does
not disturb the invocations that are open. Fields are added, never renamed or removed.
"""

from typing import Literal

from pydantic import Field

from durable_adk.json_model import JsonModel
from durable_adk.wire.tool_contract import RetryConfig, ToolContract

OnDeadline = Literal["reject", "approve", "fail", "tell"]
"""What happens if nobody answers a pending call in time (design D9).

``reject`` and ``approve`` decide a confirmation, ``fail`` ends the run with an error, ``tell``
continues and tells the model that there was no answer.
"""


class Wait(JsonModel):
    """How long a call waits for its answer, and what happens then (design D9)."""

    deadline: float | None = None
    """Seconds; None: as long as it takes."""
    on_deadline: OnDeadline = "tell"
    """``tell``: the model; ``reject`` and ``approve`` decide a confirmation; ``fail``: the run."""


class ToolSpec(JsonModel):
    """What the loop needs to know of a tool."""

    timeout: float | None = None
    """Seconds; None: the worker's default."""
    contract: ToolContract | None = None
    """None: at least once."""
    retry: RetryConfig | None = None
    task_queue: str | None = None
    """None: the invocation's."""


NodeKind = Literal["llm", "sequential", "loop", "parallel", "custom"]
"""Which body an agent has; ``custom``: its own code, in the loop."""


class AgentNode(JsonModel):
    """One agent of the tree as it was when the invocation opened (design D6)."""

    name: str
    kind: NodeKind
    before_agent: bool = False
    after_agent: bool = False
    tools: dict[str, ToolSpec] = Field(default_factory=dict[str, ToolSpec])
    """Only the tools that differ from the defaults."""
    max_iterations: int | None = None
    """Of a loop."""
    runs_code: bool = False
    """Whether code that the model writes is run here, and not by its provider (FLW-90)."""
    code_timeout: float | None = None
    """Seconds one execution may take; None: as long as a tool."""
    model: str | None = None
    """Name of the model that it asks."""
    output_key: str | None = None
    """Of an agent whose answer comes through `set_model_response`, so from the loop (AGT-19)."""
    children: list["AgentNode"] = Field(default_factory=list["AgentNode"])
    fingerprint: str = ""

    def find(self, name: str) -> "AgentNode | None":
        """The node of this name in the tree, depth first (AGT-3)."""
        if self.name == name:
            return self
        return next((found for child in self.children if (found := child.find(name))), None)

    def any_custom(self) -> bool:
        """Whether some agent's own code runs in the loop and so needs the state there."""
        return self.kind == "custom" or any(child.any_custom() for child in self.children)
