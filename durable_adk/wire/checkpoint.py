"""The state of the event loop, which an invocation carries over to a new workflow run (D10).

The argument of the next workflow run is a `Cursor` of a few hundred bytes. The `Checkpoint` is
written to the session store first: the cursor stays small, however many calls are pending.

A later release may read it: docs/run/releasing.md says how it may change.
"""

import base64
import hashlib
import zlib
from typing import Any, Self

from google.genai import types
from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    field_serializer,
)

from durable_adk.errors import NewerReleaseError
from durable_adk.json_values import JsonModel
from durable_adk.sessions.branch_end import UnfinishedBranch
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import NamesSession, SessionKey
from durable_adk.wire.agent_stack import StackFrame
from durable_adk.wire.effect import Effect, ErrorDetail
from durable_adk.wire.graph.dynamic import OpenCall, OpenTask
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest, parsed
from durable_adk.wire.steps import (
    AgentRun,
    CallbackStep,
    CommitStep,
    Ending,
    HookStep,
    Opened,
    Step,
    StepResult,
    ToolStep,
)

CHECKPOINT, JOURNAL = "checkpoint", "journal"
"""Kinds of the notes in the session store."""


class Cursor(NamesSession):
    """The argument of every workflow run of an invocation except the first."""

    invocation_id: str
    checkpoint: int
    """Number of the checkpoint to continue from."""
    digest: str
    """Digest of the checkpoint: a late attempt may write another one with the same number."""

    @classmethod
    def is_one(cls, raw: Any) -> bool:
        """Return whether a workflow's argument is a cursor and not a request."""
        return isinstance(raw, dict) and "checkpoint" in raw and "message" not in raw

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Read a cursor, or raise InvalidRequestError naming each bad field."""
        return parsed(cls, raw, "cursor", extra="ignore")


class PendingState(JsonModel):
    """The pending calls, and the answers that have arrived."""

    paused: bool = False
    """Whether the lease has been released."""
    waiting: list[OpenCall] = Field(default_factory=list[OpenCall])
    """Oldest first."""
    answered: list[str] = Field(default_factory=list[str])
    """Ids of answered calls whose answers the agents have not requested yet."""
    delivered: set[str] = Field(default_factory=set[str])
    """Ids of all calls that were answered from outside."""
    unread: list[InvocationAnswer] = Field(default_factory=list[InvocationAnswer])
    tasks: list[OpenTask] = Field(default_factory=list[OpenTask])
    """The one that began to wait last is the last."""
    steered: list[str] = Field(default_factory=list[str])
    """Ids of stored messages that are to be delivered to the active invocation."""
    outcomes: dict[str, str | None] = Field(default_factory=dict[str, str | None])
    """Why an answer was refused, by answer id; None: it was accepted."""
    answers: int = 0
    """Number of answers that have arrived, in all workflow runs."""
    delivered_messages: set[str] = Field(default_factory=set[str])
    """Ids of messages that were delivered, or turned out to be withdrawn."""
    digests: dict[str, str] = Field(default_factory=dict[str, str])
    """Digest of the first answer of each id, by answer id."""

    @field_serializer("delivered", "delivered_messages")
    def _sorted(self, names: set[str]) -> list[str]:
        return sorted(names)


class Counters(BaseModel):
    """The counters of the loop."""

    model_calls: int = 0
    tool_calls: int = 0
    events: int = 1
    node_runs: int = 0
    """Number of runs of nodes of graphs that have begun."""
    bodies: int = 0
    """Number of custom agents' bodies that have started."""


class Checkpoint(JsonModel):
    """The state of the event loop.

    The loop works on this value; continue-as-new stores it between two steps.
    """

    number: int = 0
    """Number of workflow runs that ended before this checkpoint was written."""
    request: InvocationRequest
    """The request, without its message and state changes, which are in the session."""
    opened: Opened
    """The opening's result, without the session's state and the invocation's record."""
    record: InvocationRecord
    """The record at the opening."""
    epoch: int
    revision: int
    opened_at: float = 0.0
    """Seconds since the epoch."""
    used: dict[str, int] = Field(default_factory=dict[str, int])
    """Used amounts of the budget; see `BudgetMeter`."""
    counters: Counters = Field(default_factory=Counters)
    last_event_id: str | None = None
    final_text: str = ""
    left_calls: bool = False
    """Whether a custom agent has abandoned a sub-agent's run, which may have left calls open."""
    local_state: dict[str, Any] = Field(default_factory=dict[str, Any])
    """State that no committed event contains. Set when the checkpoint is written."""
    branches: dict[str, int] = Field(default_factory=dict[str, int])
    """Number of ids that each open branch has issued, by branch prefix."""
    stack: StackFrame = Field(default_factory=StackFrame)
    bodies: dict[str, str | None] = Field(default_factory=dict[str, str | None])
    """Names of the journals of custom agents' bodies that have started and not ended, each with the
    name of its last stored part."""
    pending: PendingState = Field(default_factory=PendingState)
    runs_begun: int = 0
    """Number of agent runs that have started."""
    unfinished: list[UnfinishedBranch] = Field(default_factory=list[UnfinishedBranch])
    """The branches of graphs that ended before the last node, at most `MAX_UNFINISHED` (B-30)."""
    runs: list[AgentRun] = Field(default_factory=list[AgentRun])
    """Agent runs that no step has reported as ended: first the open ones, then the ended."""

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """See base class.

        Raises:
            NewerReleaseError: This release cannot read the checkpoint.
        """
        try:
            return super().from_json(text)
        except ValidationError as error:
            raise NewerReleaseError(
                "The invocation's checkpoint was written by a newer release of durable_adk: start "
                "that release's workers again."
            ) from error


class SaveCheckpointStep(JsonModel, Effect[str]):
    """Write a checkpoint; a written checkpoint is never changed.

    The result is the digest of the stored checkpoint.
    """

    key: SessionKey
    invocation_id: str
    number: int
    digest: str
    checkpoint: str
    """A packed `Checkpoint`."""


class SaveJournalStep(JsonModel, Effect[str]):
    """Write one part of a journal; a written part is never changed.

    The result is the name of the part.
    """

    key: SessionKey
    invocation_id: str
    body: str
    part: str
    """The packed name and entries of the journal."""
    before: str | None = None
    """Name of the part before."""


class ReadCheckpointStep(JsonModel, Effect["LoadedCheckpoint"]):
    """Read the checkpoint to continue from."""

    cursor: Cursor
    lease_owner: str

    @property
    def key(self) -> SessionKey:
        """The session."""
        return self.cursor.key


class LoadedCheckpoint(JsonModel):
    """Everything that the loop needs to continue."""

    ending: Ending | None = None
    """How the invocation ended, if another one has taken over its session meanwhile."""
    checkpoint: str = ""
    """A packed `Checkpoint`."""
    message: types.Content | None = None
    """The user's message."""
    state: dict[str, Any] | None = None
    """The session's state, if the tree has custom agents, whose bodies read it."""


class ReadJournalStep(JsonModel, Effect["JournalPage"]):
    """Read journals from earlier workflow runs, last parts first."""

    key: SessionKey
    invocation_id: str
    parts: list[str]
    """Names of the last parts to read."""


class JournalPage(JsonModel):
    """Parts of journals: of each the last one first."""

    parts: list[str]
    """Packed parts."""
    next: list[str] = Field(default_factory=list[str])
    """`ReadJournalStep.parts` of the next page; []: this is the last one."""
    ending: Ending | None = None
    """How the invocation ended, if it has ended; its notes are deleted then."""


# ----- several steps in one activity

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
    """When the step ended, in seconds since the epoch."""
    result: StepResult | None = None
    seq: int | None = None
    """The result of a `CommitStep`."""
    error: ErrorDetail | None = None
    """`errors.as_detail` of the error with which the step failed finally."""
    cancelled: bool = False
    """Whether the loop cancelled it, because another call of its turn failed."""
    repeated: bool = False
    """Whether the result is too large to be reported beside the others: the workflow performs the
    step again, and it finds its result in the store."""


class StepBatchResult(JsonModel):
    """The outcomes of a batch's steps, in the order in which the steps ended."""

    began: float
    """When the batch began, in seconds since the epoch."""
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


def digest(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def packed(text: str) -> str:
    """Compress JSON text for transport through a workflow history."""
    return base64.b64encode(zlib.compress(text.encode())).decode()


def unpacked(text: str) -> str:
    """Return the JSON text that was passed to `packed`."""
    return zlib.decompress(base64.b64decode(text)).decode()
