"""ADK's switch for invocations that are resumed."""

from pydantic import BaseModel, ConfigDict


class ResumabilityConfig(BaseModel):
    """When an invocation waits for a long-running tool (semantics RES-1, TOL-42).

    Every invocation here survives crashes and is resumed by itself, whatever this says. What it
    decides is ADK's difference between the two kinds of app.
    """

    model_config = ConfigDict(extra="forbid")

    is_resumable: bool = False
    """True: a first, preliminary result of a long-running call already pauses the invocation.
    False: the model speaks about it before the invocation pauses."""
