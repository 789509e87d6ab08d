"""The values that cross client, workflow and activity.

Steps name things and never carry the conversation (D3): the activity loads the session from the
store by key and revision, so a step takes a few hundred bytes of history at every turn.

Histories of open invocations contain these values: docs/run/releasing.md says how they may change.
"""

from enum import StrEnum
from typing import Any

from google.genai import types
from pydantic import Field

from durable_adk.events import Event, EventActions
from durable_adk.json_values import JsonModel
from durable_adk.sessions.branch_end import UnfinishedBranch
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import Limits
from durable_adk.wire.activity_call import ActivityCall, ActivityEnd
from durable_adk.wire.effect import Effect, ErrorDetail
from durable_adk.wire.graph.dynamic import NodeCaller, OpenCall, OpenTask
from durable_adk.wire.graph.node_run import CalledEnd, CalledNode, NodeEnd, NodeSite
from durable_adk.wire.manifest import AgentNode, GraphNodeKind, HandOver, ToolSpec, Wait
from durable_adk.wire.messages import InvocationAnswer, ToolRun, WhenBusy
from durable_adk.wire.run_config import Budget, RunConfig
from durable_adk.wire.tool_contract import ToolContract


class OpenStep(JsonModel, Effect["Opened"]):
    """Open an invocation."""

    key: SessionKey
    invocation_id: str
    lease_owner: str
    event_id: str
    timestamp: float
    message: types.Content
    state_delta: dict[str, Any] = Field(default_factory=dict[str, Any])
    artifact_delta: dict[str, int] = Field(default_factory=dict[str, int])
    """Artifacts that the plugins' message hooks saved."""
    custom_metadata: dict[str, Any] | None = None
    prepared: bool = False
    """Whether the plugins' message hooks have run."""
    run_config: RunConfig | None = None
    """The run's options; None: the default ones."""
    tool_run: ToolRun | None = None
    parent: str | None = None
    """Id of the parent workflow, if there is a `tool_run`; empty or omitted: there is none."""
    create_session: bool = False
    when_busy: WhenBusy = WhenBusy.ENQUEUE

    @property
    def steers(self) -> bool:
        """Whether the message may be delivered to the active invocation.

        Not so a late update of a call (TOL-41): it is addressed to the agent that made the call.
        """
        return self.when_busy is WhenBusy.STEER and not self._updates

    @property
    def may_reply(self) -> bool:
        """Whether a task agent that waits for the user receives the message (GR-173)."""
        return bool(self.message.parts) and self.tool_run is None and not self._updates

    @property
    def _updates(self) -> bool:
        return any(part.function_response for part in self.message.parts or [])


class Ending(JsonModel):
    """How an invocation ended, according to the store."""

    record: InvocationRecord
    text: str = ""
    last_event_id: str | None = None
    events: int = 1
    model_calls: int = 0
    """Number of model events, including error events of failed model calls."""
    tool_calls: int = 0
    tokens: int = 0
    delivered_to: str | None = None
    """The invocation to which the message was delivered before it could be withdrawn."""
    unfinished: list[UnfinishedBranch] = Field(default_factory=list[UnfinishedBranch])


LOOP_RULES = 1
"""Version of the loop's decision rules, as recorded by an opening.

An open invocation keeps the rules under which it began, or its history could not be replayed. A
change of what the loop schedules raises the version, and checks `LoopState.rules` where it decides.
"""


class Opened(JsonModel):
    """An open invocation: everything that the loop needs to start."""

    record: InvocationRecord | None = None
    """The invocation; None: nothing is stored yet, because the plugins' message hooks have to run
    first. They run in their own activity, because an opening is retried while the session is
    busy."""
    ending: Ending | None = None
    """Set if the same invocation was started before and has ended."""
    steered: str | None = None
    """The active invocation to which the message was delivered; nothing is opened then."""
    manifest: AgentNode
    agent: str
    """Name of the agent with which the run starts."""
    limits: Limits
    resumable: bool = False
    """Whether a long-running call's first result already pauses the invocation (TOL-42)."""
    registry: str
    """Name of the registry with the agents' code; recorded because a replay has no task queue."""
    state: dict[str, Any] | None = None
    """The session's state, only if the tree has custom agents: their code reads it in the loop."""
    budget: Budget | None = None
    """The app's budget."""
    steps_per_activity: int | None = None
    """The app's; None: one."""
    rules: int
    """Version of the loop rules under which the invocation runs; see `LOOP_RULES`."""
    compacts: bool = False
    """Whether the session's events may have to be summarized after the end (CMP-1)."""
    model_task_queues: dict[str, str] | None = None
    """Task queues by model name; recorded, so that a deploy does not move open invocations."""
    hooks: list[str] = Field(default_factory=list[str])
    """The hooks that the app's plugins define (PLG-2). The loop schedules hooks by this list, so a
    deploy that adds or removes a plugin does not disturb open invocations (D6)."""


class AgentRun(JsonModel):
    """One run of one agent, for telemetry: none of the loop's decisions depends on it."""

    number: int
    """1, 2, ... in the order in which runs start; run 0 is the invocation itself."""
    above: int = 0
    """Number of the run that contains this one."""
    agent: str
    started: float
    """Seconds since the epoch, in workflow time."""
    ended: float | None = None
    error: str | None = None
    """Name of the error with which the run ended."""


class EarlyCommit(JsonModel):
    """Permission for a step to commit its event in its own activity.

    Granted if the loop would commit the event unchanged and immediately: there is no custom agent
    in between, and no response of another call to merge in. This saves a workflow task. An attempt
    after a crash also finds the event of the first attempt, instead of calling the model or the
    tool again.
    """

    epoch: int
    closes: bool = False
    """Whether a final text ends the invocation: then it is closed in the same transaction."""
    on_event: bool | None = None
    """Whether the plugins' `on_event` hooks see the event first (PLG-6); None: there are none."""
    agent: str | None = None
    """The agent that the invocation started with, if it is not the step's."""
    runs: list[AgentRun] | None = None
    """The open runs of agents, which end if the event closes the invocation."""


class Step(JsonModel, Effect["StepResult"]):
    """The fields of every step of an agent."""

    key: SessionKey
    invocation_id: str
    revision: int
    """The step sees the session's events up to this revision."""
    run_start: int
    """Revision at which the agent's run began."""
    agent: str
    branch: str | None = None
    event_id: str
    """Id of the event that the step will produce: the same for every attempt (D5)."""
    attempt_timeout: float
    """Maximum seconds of one attempt."""
    early_commit: EarlyCommit | None = None
    epoch: int | None = None
    """The lease's epoch, unless `early_commit` contains it."""
    run_config: RunConfig | None = None
    """The run's options; None: the default ones, which then take no space in the history."""
    plugins: bool | None = None
    """False: the app's plugins do not run (`ToolRun.include_plugins`)."""
    artifact_owner: SessionKey | None = None
    """The session whose artifacts the step uses, for an agent used as a tool (ART-12)."""
    local_state: dict[str, Any] = Field(default_factory=dict[str, Any])
    """`temp:` keys, and state that a custom agent wrote but did not commit (STA-14, TRAP-7)."""
    run: int | None = None
    """Number of the agent's run, for telemetry; None: the invocation's first."""
    ended: list[AgentRun] | None = None
    """The runs that ended since the previous step."""
    site: NodeSite | None = None
    """The run of a node of a graph that the step belongs to."""
    batched: bool | None = None
    """Whether the step is one of a batch: a later attempt must find every result, if empty too."""
    repeated: bool | None = None
    """Whether the step was performed in a batch that could not report its result."""

    @property
    def run_epoch(self) -> int | None:
        """The epoch of the lease; None: unknown."""
        return self.early_commit.epoch if self.early_commit else self.epoch


class ModelStep(Step):
    """One model call with its callbacks."""

    model: str | None = None
    """The model's name in the manifest, for display and for `Opened.model_task_queues`."""
    calls_left: int | None = None
    """Model calls that the invocation may still make; None: no limit (CTX-3)."""
    max_llm_calls: int = 0
    """The limit, for the error message when it is reached."""


class ChildRun(JsonModel):
    """An agent that a tool call requests the loop to run (OPEN-6)."""

    agent: str
    message: str
    include_plugins: bool = True
    actions: EventActions = Field(default_factory=EventActions)
    """Changes made by the callbacks before the call."""
    changed: dict[str, Any] | None = None
    """The arguments as those callbacks left them, if they changed them."""
    state_delta: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The call's changes to its session's own state, for the agent to see."""


class ChildEnd(JsonModel):
    """The end of the agent's run; its events are in its own session."""

    key: SessionKey
    actions: EventActions = Field(default_factory=EventActions)
    """Copied from `ChildRun.actions`."""
    changed: dict[str, Any] | None = None
    """Copied from `ChildRun.changed`."""
    error: ErrorDetail | None = None
    """`errors.as_detail` of the run's error."""
    started: float
    """Seconds since the epoch."""
    ended: float | None = None


class ToolStep(Step):
    """One tool call with its callbacks; the arguments are in the committed call event."""

    call_id: str
    tool: str
    """For readers of the history; the activity uses the call event."""
    child: ChildEnd | None = None
    """The end of the agent's run, if the tool is an agent; of several runs, the last one's."""
    children: list[ChildEnd] = Field(default_factory=list[ChildEnd])
    """The ends of the runs before `child`, if the tool's own code requests several."""
    activity: ActivityEnd | None = None
    """The end of the activity, if an external activity backs the tool."""
    called: CalledEnd | None = None
    """The end of the node that the call has run."""
    request_id: str | None = None
    """The request to the user whose answer makes this call run again (TOL-52, TOL-63)."""
    spec: ToolSpec | None = None
    """The tool's entry in the manifest; None: all defaults."""

    @property
    def contract(self) -> ToolContract | None:
        """The recorded contract; None: at least once."""
        return self.spec.contract if self.spec is not None else None


class CodeStep(Step):
    """One execution of code; the code is in the agent's last committed event."""


class NodeStep(Step):
    """One attempt of a node of a graph that has code of its own, or joins others."""

    node: str
    task_queue: str | None = None
    """The node's own; None: the invocation's."""
    contract: ToolContract | None = None
    """See `GraphNode.contract`."""
    kind: GraphNodeKind
    """Its kind when the invocation opened."""
    collects: bool = False
    """For a worker whose items have ended: its input is the list of their outputs, and its own
    output."""
    answers: bool = False
    """Whether the answers are the node's output, and its code does not run again (GR-133)."""
    returns_event: bool = False
    """Whether the result has the event, from which the doctor repairs an older store. Those of a
    worker's items would fill the history; they have it only if custom agents read the state."""
    caller: NodeCaller | None = None
    """Set if the code may call other nodes."""

    @property
    def named(self) -> NodeSite:
        """The run of the node."""
        if self.site is None:
            raise AssertionError("a step of a node has a site")
        return self.site


class FunctionStep(Step):
    """One function of a custom agent."""

    function: str
    """The function's name; see `agents.step_function`."""
    args: list[Any] = Field(default_factory=list[Any])
    kwargs: dict[str, Any] = Field(default_factory=dict[str, Any])


class Hook(StrEnum):
    """The agent callbacks."""

    BEFORE_AGENT = "before_agent"
    AFTER_AGENT = "after_agent"


class CallbackStep(Step):
    """One list of agent callbacks."""

    hook: Hook


class HookStep(Step):
    """One hook of the app's plugins around a run or an event, or a notification (PLG-2).

    The result has an event if there is something to store: the hook's return value or its state
    changes. For `on_user_message_callback` this is the user's event, for `on_event_callback` the
    event to commit; there is none if the hooks change nothing.
    """

    hook: str
    event: Event | None = None
    """The event that the hook sees."""
    create_session: bool = False
    """Whether the session may be missing, because the opening will create it."""
    error: ErrorDetail | None = None
    """`errors.as_detail` of the error that the notification is about."""


class DynamicNodes(JsonModel):
    """What the nodes that the code of a node has called have done, for the loop to count."""

    journal: str | None = None
    """Name of the stored `DynamicJournal`; None: the code has ended, and is not run again."""
    open_calls: list[OpenCall] = Field(default_factory=list[OpenCall])
    """The calls that wait for an answer."""
    open_tasks: list[OpenTask] = Field(default_factory=list[OpenTask])
    """The task agents that wait for a message of the user."""
    used: dict[str, int] = Field(default_factory=dict[str, int])
    """What they have used of the budget."""
    events: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    node_runs: int = 0
    revision: int
    """Sequence number of the last event."""
    last_event_id: str | None = None
    text: str = ""
    """The app's output, if one of them gave it."""
    failed: str | None = None
    """The path of the one whose error the code has raised."""
    runs: list[AgentRun] = Field(default_factory=list[AgentRun])
    """The runs of agents that have ended."""
    local_state: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The `temp:` keys that they have changed."""
    state: dict[str, Any] | None = None
    """The session's state, if the loop needs it."""


class StepResult(JsonModel):
    """The outcome of a step."""

    event: Event | None = None
    seq: int | None = None
    """The event's sequence number, if the step committed it; see `EarlyCommit`."""
    closed: bool = False
    """Whether the step closed the invocation together with the event."""
    hooked: bool | None = None
    """Whether the plugins' `on_event` hooks have already seen the event."""
    model_called: bool = False
    """Whether a model was called; a callback may provide the response instead (CB-7)."""
    end_invocation: bool = False
    """Whether the step's code requests the end of the agent (CTX-11)."""
    transfer: HandOver | None = None
    """The agent to which the step's code hands over, however plugins change its event."""
    value: Any = None
    """The return value of a custom agent's function."""
    child: ChildRun | None = None
    """The agent to run before the call gets its response."""
    activity: ActivityCall | None = None
    """The activity to run before the call gets its response."""
    called: CalledNode | None = None
    """The node to run, in this session, before the call gets its response."""
    pending: bool = False
    """Whether a long-running tool has no response yet (FLW-50)."""
    waits: dict[str, Wait] = Field(default_factory=dict[str, Wait])
    """Pending calls by id; for a model step, its long-running calls."""
    error: ErrorDetail | None = None
    """`errors.as_detail` of a tool's exception: other results are committed first (FLW-46). For a
    model step, of the error that the model raised after the responses in the result."""
    node: NodeEnd | None = None
    """How the run of a node ended."""
    dynamic: DynamicNodes | None = None
    """The nodes that the code of a node has called."""
    more: list["StepResult"] = Field(default_factory=list["StepResult"])
    """For a node: its events before the last one. For a model: the events of its further complete
    responses; the loop assigns their ids."""

    def to_json(self) -> str:
        """Omit defaults, which make up most of a result: the whole result goes into the history."""
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
    """The session has at least this many events, unless a backup was restored meanwhile (I21)."""


class PauseStep(JsonModel, Effect[bool | None]):
    """Release the lease while an invocation waits for an answer."""

    key: SessionKey
    invocation_id: str
    epoch: int
    lease_owner: str
    revision: int | None = None
    """The loop's revision; see `SessionLog.pause_invocation`."""
    awaits_message: bool = False
    """Whether a task agent waits for a message of the user (GR-173)."""


class CancellationStep(JsonModel, Effect[bool]):
    """Notify the attempts of a session's steps that one of them was cancelled."""

    key: SessionKey


class AnswerStep(JsonModel, Effect["AnswerTaken"]):
    """Check an answer to pending calls and store it."""

    key: SessionKey
    invocation_id: str
    lease_owner: str
    epoch: int
    start_seq: int
    event_id: str
    """Id of the answer's event; empty: there is no answer, and only the lease is taken again."""
    timestamp: float
    answer: InvocationAnswer
    named: bool | None = None
    """Whether the sender chose the answer's id."""
    scope: str | None = None
    """The `isolation_scope` of a steering message's event: that of the task that receives it."""
    call_name: str = ""
    """Name of the call with the id `InvocationAnswer.call_id`."""
    author: str = "user"
    """Author of the answer; the agent, if a deadline decided the call."""
    changed: Event | None = None
    """The answer's event as changed by plugins, replacing `answer`; None: unchanged."""
    wants_state: bool = False
    """Whether the loop needs the state: other invocations may have changed it in the pause."""
    revision: int | None = None
    """See `CommitStep.revision`."""


class AnswerTaken(JsonModel):
    """The outcome of an answer."""

    refused: str | None = None
    """Why the answer was refused and nothing was stored; None: it was accepted."""
    epoch: int = 0
    seq: int = 0
    call_ids: list[str] = Field(default_factory=list[str])
    """The calls that were answered."""
    delivered: Event | None = None
    """The steering message, which no signal contains, with the `temp:` keys of its delta."""
    state: dict[str, Any] | None = None
    """The session's state, if it was requested and fits."""


class CompactStep(JsonModel, Effect[None]):
    """Summarize a session's events, if a summary is due at the end of an invocation."""

    key: SessionKey
    invocation_id: str
    revision: int
    """Sequence number of the last event."""
    timestamp: float
    """Timestamp of the summary's event."""
    attempt_timeout: float
    """Maximum seconds of one attempt."""


UNKNOWN_EPOCH = 0
"""For closing an invocation that may never have been opened; the first epoch is 1."""


class CloseStep(JsonModel, Effect[Ending]):
    """End an invocation."""

    key: SessionKey
    invocation_id: str
    epoch: int
    status: Status
    author: str
    """Author of the error event, if one is needed: the agent with which the run started (RUN-8)."""
    timestamp: float
    """Timestamp of the closing events."""
    lease_owner: str = ""
    """The lease owner, if it closes the invocation itself."""
    create_session: bool = False
    """Whether the opening, whose outcome is unknown, would have created the session."""
    seals: bool = False
    """Whether a completed invocation may have open calls, because an agent's run was abandoned."""
    error: ErrorDetail | None = None
    """`errors.as_detail` of the reason for the failure or cancellation."""
    event: Event | None = None
    """The error's event as the plugins changed it; None: closing creates it."""
    revision: int | None = None
    """See `CommitStep.revision`."""
    ended: list[AgentRun] | None = None
    """See `Step.ended`."""
    unfinished: list[UnfinishedBranch] = Field(default_factory=list[UnfinishedBranch])
    """See `Checkpoint.unfinished`."""
