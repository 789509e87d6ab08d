"""One open invocation: what the loop remembers between events.

Everything here is rebuilt by replay from the results of the effects: nothing of it needs storing.
"""

import asyncio
from copy import deepcopy
from typing import Any, Self

from google.genai import types

from durable_adk.closing import uninterrupted
from durable_adk.context.loop import Branch, Frame, InvocationContext, LoopSession
from durable_adk.events.event import Event
from durable_adk.flows.agent_runs import AgentRuns
from durable_adk.flows.budget import BudgetMeter
from durable_adk.flows.continue_as_new import ContinueAsNew
from durable_adk.flows.pending_calls import PendingCalls
from durable_adk.flows.plugin_hooks import on_event
from durable_adk.json_values import canonical, check_json
from durable_adk.plugins.base_plugin import HookName
from durable_adk.runtime import Runtime
from durable_adk.sessions.base_session_service import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.state import is_temp, without_temp
from durable_adk.wire.checkpoint import Checkpoint, LoadedCheckpoint
from durable_adk.wire.messages import MAX_RESULT_TEXT, InvocationRequest, check_size
from durable_adk.wire.run_config import Budget, RunConfig
from durable_adk.wire.steps import AnswerTaken, CommitStep, EarlyCommit, Opened, StepResult


class Invocation:
    """An open invocation and the one way to commit to it."""

    COUNTERS = ("model_calls", "tool_calls", "events", "bodies")

    def __init__(
        self,
        *,
        runtime: Runtime,
        request: InvocationRequest,
        key: SessionKey,
        opened: Opened,
        record: InvocationRecord,
        message: types.Content,
        holder: str,
    ) -> None:
        self.runtime = runtime
        self.request = request
        self.opened = opened
        self.record = record
        """As it was when it was opened."""
        self.invocation_id = record.invocation_id
        self.key = key
        self.user_content = message
        self.session = LoopSession(key, dict(opened.state or {}))
        self.revision = record.start_seq
        self.model_calls = 0
        self.tool_calls = 0
        self.events = 1
        self.last_event_id: str | None = None
        self.final_text = ""
        self._committed: dict[str, Any] = deepcopy(opened.state or {})
        self.cancelled = False
        """Whether it was cancelled while it was being opened."""
        self.closed = False
        """Whether a step has closed the invocation already."""
        self._committed_by_step: dict[str, int] = {}
        self._seen_by_plugins: set[str] = set()
        self.left_calls = False
        """Whether a custom agent has left a sub-agent's run, and perhaps calls without response."""
        self.lane = Branch(self.invocation_id)
        self.frame = Frame()
        """Where its agents are."""
        self.bodies = 0
        """How many bodies of custom agents have begun."""
        self.holder = holder
        self.epoch = record.epoch
        self.pauses = PendingCalls(self)
        self.rolling = ContinueAsNew(self)
        self.opened_at = runtime.now()
        self.runs = AgentRuns(runtime.now)
        self.spending = self._spending()
        self.begun = False
        """Whether its agents have begun in an earlier run of the workflow."""

    @classmethod
    def continued(
        cls,
        *,
        runtime: Runtime,
        key: SessionKey,
        place: Checkpoint,
        told: LoadedCheckpoint,
        past: dict[str, list[Any]],
        holder: str,
    ) -> Self:
        """An invocation that stands where an earlier run of its workflow has ended.

        Args:
            runtime: The world.
            key: The session.
            place: Where it stands.
            told: What else was read with it.
            past: What the bodies of custom agents were given before, by name.
            holder: Who runs it.
        """
        invocation = cls(
            runtime=runtime,
            request=place.request,
            key=key,
            opened=place.opened.model_copy(update={"state": told.state}),
            record=place.record,
            message=told.message or types.Content(role="user"),
            holder=holder,
        )
        invocation._stand_at(place)
        invocation.rolling.past = past
        return invocation

    def _stand_at(self, place: Checkpoint) -> None:
        for name, number in place.counters.items():
            setattr(self, name, number)
        self.begun = True
        self.opened_at = place.opened_at
        self.spending = self._spending(place.used)
        self.epoch, self.revision = place.epoch, place.revision
        self.last_event_id, self.final_text = place.last_event_id, place.final_text
        self.left_calls = place.left_calls
        self.session.state.update(place.local_state)
        self.frame = Frame(place.frame)
        self.runs.count = place.runs_begun
        self.runs.go_on_from(place.runs)
        lanes = self.lane.family
        for prefix, ids in place.lanes.items():
            Branch(prefix, lanes, ids=ids)
        self.lane = lanes[self.invocation_id]
        self.pauses.go_on_from(place.pauses)
        self.rolling = ContinueAsNew(self, number=place.number)

    def place_now(self, number: int, bodies: list[str]) -> Checkpoint:
        """Where the loop stands; what `continued` takes."""
        return Checkpoint(
            number=number,
            request=self.request.model_copy(update={"message": "", "state_delta": {}}),
            opened=self.opened.model_copy(update={"state": None, "record": None}),
            record=self.record,
            epoch=self.epoch,
            revision=self.revision,
            opened_at=self.opened_at,
            used=self.spending.used,
            counters={name: getattr(self, name) for name in self.COUNTERS},
            runs_begun=self.runs.count,
            runs=self.runs.told(),
            last_event_id=self.last_event_id,
            final_text=self.final_text,
            left_calls=self.left_calls,
            local_state=self.local_state(),
            lanes={prefix: lane.ids for prefix, lane in self.lane.family.items()},
            frame=self.frame.saved(),
            bodies=bodies,
            pauses=self.pauses.place_now(),
        )

    def _spending(self, used: dict[str, int] | None = None) -> BudgetMeter:
        budget = (self.request.run_config.budget or Budget()).within(self.opened.budget)
        return BudgetMeter(budget, started=self.opened_at, used=used)

    def new_body(self) -> str:
        """A name for the body of a custom agent that begins, the same at every replay."""
        self.bodies += 1
        return f"body-{self.bodies}"

    def require_wanted(self, ctx: InvocationContext) -> None:
        """Begin no step any more for what is to end.

        Raises:
            CancelledError: The run was cancelled, but a step that finished took no notice.
        """
        if ctx.lane.stopped or self.runtime.cancelled():
            raise asyncio.CancelledError

    def place(self, ctx: InvocationContext, event_id: str) -> dict[str, Any]:
        """The fields every `Step` has, for a step of the agent run `ctx`.

        Raises:
            CancelledError: The run was cancelled, but a step that finished took no notice.
        """
        self.require_wanted(ctx)
        return self.here(ctx.agent_name, event_id) | {
            "run_start": ctx.run_start,
            "branch": ctx.branch,
            "grant": self._grant(ctx) if ctx.direct else None,
            "epoch": None if ctx.direct else self.epoch,
            "run": ctx.run or None,
        }

    def here(self, agent: str, event_id: str) -> dict[str, Any]:
        """The fields every `Step` has, for a step that is of no agent's run."""
        return {
            "key": self.key,
            "invocation_id": self.invocation_id,
            "revision": self.revision,
            "run_start": self.revision,
            "agent": agent,
            "event_id": event_id,
            "epoch": self.epoch,
            "local_state": self.local_state(),
            "run_config": None
            if self.request.run_config == RunConfig()
            else self.request.run_config,
            "artifact_owner": self.artifact_owner,
            "plugins": None if self.has_plugins else False,
            "ended": self.runs.take(),
        }

    def hooked(self, hook: HookName) -> bool:
        """Whether the app had a plugin with this hook when the invocation opened."""
        return hook in self.opened.hooks

    @property
    def has_plugins(self) -> bool:
        """Whether the app's plugins see the run; not that of an agent used as a tool without."""
        return self.request.tool_run is None or self.request.tool_run.include_plugins

    @property
    def artifact_owner(self) -> SessionKey | None:
        """The session whose artifacts the run sees, if it is not its own."""
        return self.request.tool_run.caller if self.request.tool_run else None

    def _grant(self, ctx: InvocationContext) -> EarlyCommit:
        return EarlyCommit(
            epoch=self.epoch,
            custom_metadata=self.request.run_config.custom_metadata,
            closes=ctx.closes,
            on_event=self.hooked("on_event_callback") or None,
            agent=self.opened.agent if ctx.closes and ctx.run else None,
            runs=self.runs.open_now() if ctx.closes else None,
        )

    def take(self, result: StepResult) -> None:
        """Note what a step has committed or shown to the plugins, before its event is yielded."""
        if result.event is not None and result.hooked:
            self._seen_by_plugins.add(result.event.id)
        if result.event is not None and result.seq is not None:
            self._committed_by_step[result.event.id] = result.seq
            self.closed = self.closed or result.closed

    def answered(self, event_id: str, taken: AnswerTaken) -> None:
        """Note an answer that was stored."""
        self.revision = max(self.revision, taken.seq)
        self.events += 1
        self.last_event_id = event_id

    def refresh(self, state: dict[str, Any]) -> None:
        """Take over the session's state after a pause; what is only here stays (STA-14)."""
        local = self.local_state()
        self._committed = deepcopy(state)
        # In place: a custom agent's body may hold on to it.
        self.session.state.clear()
        self.session.state.update(state | local)
        self.rolling.changed(self.session.state, whole=True)

    def changed(self, delta: dict[str, Any]) -> None:
        """Take over what an event that is stored has changed."""
        self.session.state.update(delta)
        self.rolling.changed(delta)
        if self.opened.state is not None:
            self._committed.update(deepcopy(delta))
        else:
            # Nobody reads state here: keep only what must travel with the steps.
            self.session.state = {k: v for k, v in self.session.state.items() if is_temp(k)}

    def local_state(self) -> dict[str, Any]:
        """What steps must see beyond the committed state: `temp:` keys and dirty writes.

        Raises:
            StateValueError: A custom agent wrote something that is not JSON.
            PayloadTooLargeError: It is more than a step's input may be, which would hang the run.
        """
        local = {
            key: value
            for key, value in self.session.state.items()
            if key not in self._committed or self._committed[key] != value
        }
        if local:
            check_json(local, "ctx.session.state")
            check_size(canonical(local), "The temp: and uncommitted state")
        return local

    def apply_local(self, state: dict[str, Any]) -> None:
        """Take over the `temp:` keys of a step's delta; they are in no stored event (TRAP-7)."""
        temporary = {k: v for k, v in state.items() if is_temp(k)}
        self.session.state.update(temporary)
        self.rolling.changed(temporary)

    @property
    def calls_left(self) -> int | None:
        """Model calls the invocation may still make; None: any number (CTX-3)."""
        limit = self.request.run_config.max_llm_calls
        return None if limit <= 0 else limit - self.model_calls

    def count_model_call(self) -> None:
        """Count one logical call: not its attempts, not a callback's answer (TRAP-36)."""
        self.model_calls += 1

    async def commit(self, event: Event) -> None:
        """Store an event; when this returns it is durable, and only then may the agent go on.

        An event that its step has committed already is only noted. Any other is completed in
        place with id, invocation id and timestamp where they are missing.
        """
        seq = self._committed_by_step.pop(event.id, None)
        if seq is not None:
            self.revision = max(self.revision, seq)
            self._remember(event)
            return
        self._complete(event)
        if event.id not in self._seen_by_plugins:
            await on_event(self, event)
            self._complete(event)
        self.apply_local(event.actions.state_delta)
        event.actions.state_delta = without_temp(event.actions.state_delta)
        await self.pauses.go_on()
        step = CommitStep(
            key=self.key,
            invocation_id=self.invocation_id,
            epoch=self.epoch,
            event=event,
            revision=self.revision,
        )
        # Not to be interrupted, or it could land among the events that seal the session.
        seq = await uninterrupted(self.runtime.perform(step))
        self.revision = max(self.revision, seq)  # an answer may have been stored meanwhile
        self._remember(event)

    def _complete(self, event: Event) -> None:
        event.id = event.id or self.lane.next_id()
        event.invocation_id = event.invocation_id or self.invocation_id
        event.timestamp = event.timestamp or self.runtime.now()
        metadata = self.request.run_config.custom_metadata
        if metadata:
            event.custom_metadata = {**metadata, **(event.custom_metadata or {})}

    def _remember(self, event: Event) -> None:
        self.events += 1
        self.rolling.move()
        self.spending.committed(event)
        self.last_event_id = event.id
        self.changed(event.actions.state_delta)
        if event.is_final_response() and event.text:
            self.final_text = event.text[:MAX_RESULT_TEXT]
