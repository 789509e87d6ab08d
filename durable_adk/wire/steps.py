"""Every value that crosses client, workflow and activity.

Steps name things and never carry the conversation (design D3): the activity loads the session from
the store by key and revision, so a step is a few hundred bytes of history at every turn.

Fields are added, never renamed or removed: histories of open invocations hold these values.
"""

from enum import StrEnum
from typing import Annotated, Any

from google.genai import types
from pydantic import Field

from durable_adk.events import Event, EventActions
from durable_adk.json_model import JsonModel
from durable_adk.sessions.lease_owner import NAMED_HOLDER
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import Limits
from durable_adk.wire.activity_call import ActivityCall, ActivityEnd
from durable_adk.wire.effect import Effect
from durable_adk.wire.manifest import AgentNode, ToolSpec, Wait
from durable_adk.wire.messages import InvocationAnswer, ToolRun, WhenBusy
from durable_adk.wire.run_config import Budget, RunConfig


class OpenStep(JsonModel, Effect["Opened"]):
    """Open an invocation."""

    key: SessionKey
    invocation_id: str
    lease_owner: Annotated[str, NAMED_HOLDER]
    event_id: str
    timestamp: float
    message: types.Content
    state_delta: dict[str, Any] = Field(default_factory=dict[str, Any])
    artifact_delta: dict[str, int] = Field(default_factory=dict[str, int])
    """What the plugins' hooks for messages have saved."""
    custom_metadata: dict[str, Any] | None = None
    prepared: bool = False
    """Whether those hooks have seen the message."""
    run_config: RunConfig | None = None
    """None: the default one."""
    tool_run: ToolRun | None = None
    parent: str | None = None
    """Id of the parent workflow, if there is a `tool_run`; empty, or left out: there is none."""
    create_session: bool = False
    when_busy: WhenBusy = WhenBusy.ENQUEUE


class Ending(JsonModel):
    """How an invocation ended, as the store tells it."""

    record: InvocationRecord
    text: str = ""
    last_event_id: str | None = None
    events: int = 1
    model_calls: int = 0
    """Events that a model made; calls whose answer was an error event are not told apart."""
    tool_calls: int = 0
    tokens: int = 0
    heard_by: str | None = None
    """The invocation that had heard the message before it could be withdrawn."""


class Opened(JsonModel):
    """An open invocation: all that the loop knows at its start."""

    record: InvocationRecord | None = None
    """None: nothing is stored yet, as the plugins' hooks are to see the message first. They have
    an activity of their own; an opening is repeated for as long as the session is busy."""
    ending: Ending | None = None
    """If it was opened before and has ended since: another start of the same invocation."""
    steered: str | None = None
    """The active invocation that has heard the message, so that there is nothing to open."""
    manifest: AgentNode
    agent: str
    """Name of the agent the run starts with."""
    limits: Limits
    resumable: bool = False
    """Whether a long-running call's first result already pauses the invocation (TOL-42)."""
    registry: str
    """Name of the registry that has the agents' code; recorded, because a replay has no queue."""
    state: dict[str, Any] | None = None
    """The session's state, only if the tree has custom agents: their code reads it in the loop."""
    budget: Budget | None = None
    """The app's."""
    compacts: bool = False
    """Whether the session's events may have to be summarised after the end (CMP-1)."""
    model_task_queues: dict[str, str] | None = None
    """By a model's name, where it is called; recorded, so that a deploy moves no open one."""
    hooks: list[str] = Field(default_factory=list[str])
    """The hooks that the app's plugins define (PLG-2): what the loop schedules goes by these, so
    that a deploy which adds or removes a plugin disturbs no open invocation (design D6)."""


class AgentRun(JsonModel):
    """One run of one agent, for those who watch: nothing that the loop does depends on it."""

    number: int
    """1, 2, ... in the order in which they begin; 0 is the invocation's first, and its own."""
    above: int = 0
    """Number of the run that it is part of."""
    agent: str
    started: float
    """Seconds since the epoch, as the loop knows time."""
    ended: float | None = None
    error: str | None = None
    """Name of the error it ended with."""


class EarlyCommit(JsonModel):
    """The loop's leave for a step to commit its event itself, in its own activity.

    Given when the loop would commit the event as it comes and at once: no custom agent stands
    between, and no other call's response has to be merged in. It saves a round through the
    workflow, and an attempt that follows a crash finds the first one's event instead of asking the
    model or running the tool again.
    """

    epoch: int
    custom_metadata: dict[str, Any] | None = None
    """`RunConfig.custom_metadata`, merged into the event's (RUN-27)."""
    closes: bool = False
    """Whether a final text ends the invocation: then it is closed in the same transaction."""
    on_event: bool | None = None
    """Whether the plugins' `on_event` hooks see the event first (PLG-6); None: nobody has any."""
    agent: str | None = None
    """Whom the invocation began with, if that is not whose step it is."""
    runs: list[AgentRun] | None = None
    """The runs of agents that end where the event ends the invocation."""


class Step(JsonModel, Effect["StepResult"]):
    """What every step of an agent names."""

    key: SessionKey
    invocation_id: str
    revision: int
    """The step sees the session's events up to here."""
    run_start: int
    """Revision at which the agent's run began."""
    agent: str
    branch: str | None = None
    event_id: str
    """Id of the event the step will produce: the same at every attempt (design D5)."""
    attempt_timeout: float
    """Seconds one attempt may take."""
    grant: EarlyCommit | None = None
    epoch: int | None = None
    """Of the run's lease, unless `grant` has it."""
    run_config: RunConfig | None = None
    """None: the default one, which costs no history."""
    plugins: bool | None = None
    """False: the app's plugins take no part (`ToolRun.include_plugins`)."""
    artifact_owner: SessionKey | None = None
    """Whose artifacts the step sees, if another session's: an agent used as a tool (ART-12)."""
    local_state: dict[str, Any] = Field(default_factory=dict[str, Any])
    """`temp:` keys and what a custom agent wrote but did not commit yet (STA-14, TRAP-7)."""
    run: int | None = None
    """Number of the agent's run, for those who watch; None: the invocation's first."""
    ended: list[AgentRun] | None = None
    """The runs that have ended since the step before."""

    @property
    def run_epoch(self) -> int | None:
        """The epoch of the run's lease; None: it is not known."""
        return self.grant.epoch if self.grant else self.epoch


class ModelStep(Step):
    """One model call with its callbacks."""

    model: str | None = None
    """Its name in the manifest: for people, and for `Opened.model_task_queues`."""
    calls_left: int | None = None
    """Model calls the invocation may still make; None: any number (CTX-3)."""
    max_llm_calls: int = 0
    """What the invocation was given in all; for the message when it is used up."""


class ChildRun(JsonModel):
    """The question of a call to an agent, which the loop puts to it (OPEN-6)."""

    agent: str
    message: str
    include_plugins: bool = True
    actions: EventActions = Field(default_factory=EventActions)
    """What the callbacks before the call have changed."""


class ChildEnd(JsonModel):
    """How the agent's run ended; its events are in its own session."""

    key: SessionKey
    actions: EventActions = Field(default_factory=EventActions)
    """`ChildRun.actions`, again."""
    error: dict[str, Any] | None = None
    """`errors.as_detail` of what it failed with."""
    started: float | None = None
    """When it was asked, in seconds since the epoch; None: by a version that did not note it."""
    ended: float | None = None


class ToolStep(Step):
    """One tool call with its callbacks; the arguments are in the committed call event."""

    call_id: str
    tool: str
    """For people who read the history; the activity goes by the call."""
    child: ChildEnd | None = None
    """How the agent ended that the call asked."""
    activity: ActivityEnd | None = None
    """How the activity ended that the tool is."""
    request_id: str | None = None
    """The request to the user whose answer makes this call run again (TOL-52, TOL-63)."""
    spec: ToolSpec | None = None
    """The tool's in the manifest; None: all is as by default."""


class CodeStep(Step):
    """One execution of code; the code is in the agent's last committed event."""


class FunctionStep(Step):
    """One function of a custom agent."""

    function: str
    """See `agents.step_function`."""
    args: list[Any] = Field(default_factory=list[Any])
    kwargs: dict[str, Any] = Field(default_factory=dict[str, Any])


class Hook(StrEnum):
    """The agent callbacks (semantics 10)."""

    BEFORE_AGENT = "before_agent"
    AFTER_AGENT = "after_agent"


class CallbackStep(Step):
    """One list of agent callbacks."""

    hook: Hook


class HookStep(Step):
    """One hook of the app's plugins round a run or an event, or a notice to them (PLG-2).

    Its result has an event if there is something to store: what the hook has answered, or the state
    it has changed. For `on_user_message_callback` that is the user's event, for `on_event_callback`
    the event to commit; if they change nothing there is none.
    """

    hook: str
    event: Event | None = None
    """The one that the hook sees."""
    create_session: bool = False
    """Whether the session may be missing, because the opening will create it."""
    error: dict[str, Any] | None = None
    """`errors.as_detail` of what the notice is about."""


class StepResult(JsonModel):
    """What a step produced."""

    event: Event | None = None
    seq: int | None = None
    """The event's sequence number, if the step has committed it; see `EarlyCommit`."""
    closed: bool = False
    """Whether the step has closed the invocation with it."""
    hooked: bool | None = None
    """Whether the plugins' `on_event` hooks have seen the event already."""
    model_called: bool = False
    """Whether a model was asked, as opposed to a callback answering for it (CB-7)."""
    end_invocation: bool = False
    """Whether the step's code asked for the agent's end (CTX-11)."""
    transfer: AgentNode | None = None
    """The agent that the step's event hands over to, as the code of the step's time has it: agents
    that a deploy added since the opening are in no manifest (design D6)."""
    value: Any = None
    """What a custom agent's function returned."""
    child: ChildRun | None = None
    """The agent to ask before the call has its response."""
    activity: ActivityCall | None = None
    """The activity to run before the call has its response."""
    pending: bool = False
    """Whether a long-running tool has no response yet (FLW-50)."""
    waits: dict[str, Wait] = Field(default_factory=dict[str, Wait])
    """The calls that wait for somebody outside, by id: of a model step its long-running ones."""
    error: dict[str, Any] | None = None
    """`errors.as_detail` of what a tool raised: other results are committed first (FLW-46)."""

    def to_json(self) -> str:
        """Without what is as it is by default: most of a result is, and it is all history."""
        return self.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True)


class CommitStep(JsonModel, Effect[int]):
    """Commit one event."""

    key: SessionKey
    invocation_id: str
    epoch: int
    event: Event
    closing: Status | None = None
    """Close the invocation in the same transaction."""
    revision: int | None = None
    """The session has at least this many events, unless its store is older than the run (I21)."""


class PauseStep(JsonModel, Effect[bool | None]):
    """Let an invocation wait without its session's lease."""

    key: SessionKey
    invocation_id: str
    epoch: int
    lease_owner: Annotated[str | None, NAMED_HOLDER] = None
    """Who pauses it; None: by a version that did not say so."""
    revision: int | None = None
    """The loop's; see `SessionLog.pause_invocation`."""


class AnswerStep(JsonModel, Effect["AnswerTaken"]):
    """Check an answer to calls that wait, and store it."""

    key: SessionKey
    invocation_id: str
    lease_owner: Annotated[str, NAMED_HOLDER]
    epoch: int
    start_seq: int
    event_id: str
    """Empty: there is no answer, only the lease is to be taken again."""
    timestamp: float
    answer: InvocationAnswer
    named: bool | None = None
    """Whether its sender has named it."""
    call_name: str = ""
    """Name of the call that `InvocationAnswer.call_id` means."""
    author: str = "user"
    """Or the agent, when the deadline has decided."""
    wants_state: bool = False
    """Whether the loop needs the state as it is then: others have run while it was paused."""
    revision: int | None = None
    """As `CommitStep.revision`."""


class AnswerTaken(JsonModel):
    """What became of an answer."""

    refused: str | None = None
    """Why nothing was stored."""
    epoch: int = 0
    seq: int = 0
    call_ids: list[str] = Field(default_factory=list[str])
    """The calls it answers."""
    heard: Event | None = None
    """The message that was heard, which is in no signal; with the `temp:` keys of its delta."""
    state: dict[str, Any] | None = None
    """The session's, if it was wanted and fits."""


class CompactStep(JsonModel, Effect[None]):
    """Summarise a session's events, if that is due after an invocation which is closed."""

    key: SessionKey
    invocation_id: str
    timestamp: float
    """Of the summary's event."""
    attempt_timeout: float
    """Seconds one attempt may take."""


UNKNOWN_EPOCH = 0
"""Of an end before the loop has learnt whether it was opened; the first epoch is 1."""


class CloseStep(JsonModel, Effect[Ending]):
    """End an invocation."""

    key: SessionKey
    invocation_id: str
    epoch: int
    status: Status
    author: str
    """Author of the error event, if there has to be one: the agent the run started with (RUN-8)."""
    timestamp: float
    """Of the events that seal the session."""
    lease_owner: Annotated[str, NAMED_HOLDER] = ""
    """Who ran it, if that is who ends it."""
    create_session: bool = False
    """Whether an opening of which nothing is known would have created its session."""
    seals: bool = False
    """Whether calls may be open although it completed: an agent's run was left before its end."""
    error: dict[str, Any] | None = None
    """`errors.as_detail` of why it failed or was cancelled."""
    revision: int | None = None
    """As `CommitStep.revision`."""
    ended: list[AgentRun] | None = None
    """As `Step.ended`."""
