"""Several consecutive steps of the loop in one activity (`App.steps_per_activity`).

The activity runs the loop from a checkpoint, performs the loop's steps one after the other, and
reports their outcomes. The workflow's own loop then takes the same steps, and finds their outcomes.
"""

from typing import Any

from pydantic import Field

from durable_adk.json_values import JsonModel
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.checkpoint import Checkpoint
from durable_adk.wire.effect import Effect, ErrorDetail
from durable_adk.wire.steps import CallbackStep, CommitStep, HookStep, Step, StepResult, ToolStep

BATCH_SECONDS = 30.0
"""Seconds after which a batch begins no further step."""


class StepBatch(JsonModel, Effect["StepBatchResult"]):
    """Run the loop from a checkpoint until a step needs the workflow."""

    key: SessionKey
    invocation_id: str
    agent: str
    """Name of the agent that begins, for readers of the history."""
    lease_owner: str
    checkpoint: Checkpoint
    max_steps: int
    """Number of steps after which the batch ends."""
    attempt_timeout: float
    """Maximum seconds of one attempt."""

    @property
    def step_timeout(self) -> float:
        """Maximum seconds of one attempt at a step that the batch may perform."""
        return self.attempt_timeout - BATCH_SECONDS


class StepOutcome(JsonModel):
    """The outcome of one step of a batch: a result, an error or a cancellation."""

    name: str
    """See `step_name`."""
    at: float
    """When the loop requested the step, in seconds since the epoch: the time at which the
    workflow's loop requests it too."""
    result: StepResult | None = None
    seq: int | None = None
    """The result of a `CommitStep`."""
    error: ErrorDetail | None = None
    """`errors.as_detail` of the error with which the step failed finally."""
    cancelled: bool = False
    repeated: bool = False
    """Whether the result is too large to be reported beside the others: the workflow performs the
    step again, and it finds its result in the store."""


class StepBatchResult(JsonModel):
    """The outcomes of a batch's steps, in the order in which the steps ended."""

    outcomes: list[StepOutcome] = Field(default_factory=list[StepOutcome])


def step_name(step: object) -> str:
    """Return the name of a step within its invocation: the same in the activity and workflow."""
    kind = type(step).__name__
    details: list[Any] = []
    match step:
        case CommitStep():
            details = [step.event.id]
        case ToolStep():
            # A call has a further step after each agent, or external activity, that ran for it.
            delegated = [len(step.children), step.child is not None, step.activity is not None]
            details = [step.event_id, step.call_id, *map(int, delegated)]
        case HookStep() | CallbackStep():
            details = [step.event_id, step.hook]
        case Step():
            details = [step.event_id]
        case _:
            pass
    return " ".join([kind, *map(str, details)])
