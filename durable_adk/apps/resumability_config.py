"""ADK's option for resumable invocations."""

from pydantic import BaseModel, ConfigDict


class ResumabilityConfig(BaseModel):
    """Controls when an invocation waits for a long-running tool (RES-1, TOL-42).

    Every invocation survives crashes and resumes automatically, regardless of this option. It only
    selects between the two behaviors that ADK defines.
    """

    model_config = ConfigDict(extra="forbid")

    is_resumable: bool = False
    """If True, the preliminary result of a long-running call pauses the invocation at once. If
    False, the model responds to it before the invocation pauses."""
