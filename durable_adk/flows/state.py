"""The loop's state of an open invocation: its checkpoint, its session's state, its branches.

Replay rebuilds all of this from the results of the effects. Only the checkpoint is ever stored,
when the workflow continues as new.
"""

import asyncio
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from google.genai import types

from durable_adk.context.journal import Entry, Journal
from durable_adk.context.loop import LoopSession
from durable_adk.errors import BudgetExceededError, StateConflictError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.flows.agent_scope import Branch, Branches
from durable_adk.flows.runtime import Runtime
from durable_adk.json_values import canonical, check_json
from durable_adk.plugins.base_plugin import HookName
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.state import is_temp
from durable_adk.sessions.state_merge import Base, merged
from durable_adk.wire.checkpoint import Checkpoint
from durable_adk.wire.messages import InvocationResult, check_size
from durable_adk.wire.run_config import Budget, RunConfig
from durable_adk.wire.steps import AgentRun


class LoopState:
    """The state of the event loop.

    Args:
        runtime: The port to everything outside of the loop.
        checkpoint: The part that continue-as-new carries over; changed in place.
        key: The session.
        lease_owner: The lease owner; see `InvocationRecord.lease_owner`.
        message: The user's message.
        state: The session's state, if there are custom agents, which may read it.
        past: Entries of the journals begun in earlier workflow runs, by name.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        checkpoint: Checkpoint,
        key: SessionKey,
        lease_owner: str,
        message: types.Content,
        state: dict[str, Any] | None,
        past: dict[str, list[Entry]] | None = None,
    ) -> None:
        self.runtime = runtime
        self.checkpoint = checkpoint
        self.key = key
        self.lease_owner = lease_owner
        self.user_content = message
        self.invocation_id = checkpoint.record.invocation_id
        self.resumed = past is not None
        """Whether the agents began in an earlier workflow run."""
        self.end_invocation = False
        """Whether a plugin ended the invocation before its agents began."""
        self.past = past or {}
        self.journals: dict[str, Journal] = {}
        """Journals of the custom agents' bodies that run now, by name."""
        self.reads_state = state is not None
        """Whether custom agents read the session's state in the loop."""
        self._committed: dict[str, Any] = deepcopy(state or {})
        self.session = LoopSession(key, (state or {}) | checkpoint.local_state)
        self.branches = Branches(checkpoint.branches)
        self.main_branch = Branch(self.invocation_id, self.branches)
        self.agent_runs = AgentRuns(checkpoint, runtime.now)
        self.budget = BudgetMeter(checkpoint)

    # ----- the session's state

    def refresh(self, state: dict[str, Any]) -> None:
        """Replace the committed state after a pause; uncommitted values stay (STA-14)."""
        local = self.local_state()
        self._committed = deepcopy(state)
        # In place: a custom agent's body may hold a reference to it.
        self.session.state.clear()
        self.session.state.update(state | local)
        self._record(self.session.state, whole=True)

    def changed(self, actions: EventActions) -> None:
        """Apply the state changes of a committed event; `actions` has the values afterwards.

        Values with a base were merged as they were stored. The loop merges them the same way, as
        far as it knows the stored ones.
        """
        if actions.state_read and self.reads_state:
            actions.state_delta = self._merged(self._committed, actions)
        actions.state_read, delta = {}, actions.state_delta
        self.session.state.update(delta)
        self._record(delta)
        if self.reads_state:
            self._committed.update(deepcopy(delta))
        else:
            # No code here reads state: keep only what must travel with the steps.
            self.session.state = {k: v for k, v in self.session.state.items() if is_temp(k)}

    def apply_local(self, delta: dict[str, Any], bases: Mapping[str, Base] | None = None) -> None:
        """Apply the `temp:` keys of a step's delta, which are in no stored event (TRAP-7).

        Raises:
            StateConflictError: One cannot be merged with the value of another branch.
        """
        temporary = {k: v for k, v in delta.items() if is_temp(k)}
        temporary = merged(self.session.state, temporary, bases or {})
        self.session.state.update(temporary)
        self._record(temporary)

    def _merged(self, known: dict[str, Any], actions: EventActions) -> dict[str, Any]:
        try:
            return merged(known, actions.state_delta, actions.state_read)
        except StateConflictError:
            return actions.state_delta  # the store could merge it: it knows more values

    def local_state(self) -> dict[str, Any]:
        """Return state that steps must see beyond the committed one: `temp:` keys and dirty writes.

        Raises:
            StateValueError: A custom agent wrote a value that is not JSON.
            PayloadTooLargeError: It does not fit into the input of a step, which would hang the
                invocation.
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

    def _record(self, delta: dict[str, Any], *, whole: bool = False) -> None:
        for journal in self.journals.values():
            journal.changed(delta, whole=whole)

    # ----- steps

    def advanced(self, seq: int) -> None:
        """Record the sequence number of a stored event. Two may be stored at once, in any order."""
        self.checkpoint.revision = max(self.checkpoint.revision, seq)

    def require_active(self, branch: Branch) -> None:
        """Raise CancelledError if the branch or the invocation is to end.

        A step that finishes in spite of a cancellation swallows it. No new step may begin then.
        """
        if branch.stopped or self.runtime.cancelled():
            raise asyncio.CancelledError

    def step_fields(self, agent: str, event_id: str) -> dict[str, Any]:
        """Return the fields of every `Step`, for one outside of any agent's run."""
        checkpoint = self.checkpoint
        run_config = checkpoint.request.run_config
        return {
            "key": self.key,
            "invocation_id": self.invocation_id,
            "revision": checkpoint.revision,
            "run_start": checkpoint.revision,
            "agent": agent,
            "event_id": event_id,
            "epoch": checkpoint.epoch,
            "local_state": self.local_state(),
            "run_config": None if run_config == RunConfig() else run_config,
            "artifact_owner": self.artifact_owner,
            "plugins": None if self.has_plugins else False,
            "ended": self.agent_runs.take_ended(),
        }

    def reconfigure(self, options: dict[str, Any]) -> None:
        """Replace the invocation's options by those of an answer, from the next step on."""
        request = self.checkpoint.request
        config = request.run_config.model_copy(update=options)
        self.checkpoint.request = request.model_copy(update={"run_config": config})

    @property
    def rules(self) -> int:
        """Version of the loop's decision rules; see `wire.steps.LOOP_RULES`."""
        return self.checkpoint.opened.rules

    @property
    def steps_per_activity(self) -> int:
        """How many consecutive steps one activity may perform."""
        chosen = self.checkpoint.request.run_config.steps_per_activity
        return chosen or self.checkpoint.opened.steps_per_activity or 1

    @property
    def can_wait(self) -> bool:
        """Whether a user can answer a pending call: users do not see an agent used as a tool."""
        return self.checkpoint.request.tool_run is None

    def hooked(self, hook: HookName) -> bool:
        """Return whether the app had a plugin with this hook when the invocation opened."""
        return hook in self.checkpoint.opened.hooks

    @property
    def has_plugins(self) -> bool:
        """Whether the app's plugins take part; an agent used as a tool may run without them."""
        tool_run = self.checkpoint.request.tool_run
        return tool_run is None or tool_run.include_plugins

    @property
    def artifact_owner(self) -> SessionKey | None:
        """The session whose artifacts the steps see, if it is another one (ART-12)."""
        tool_run = self.checkpoint.request.tool_run
        return tool_run.root if tool_run else None

    @property
    def model_calls_left(self) -> int | None:
        """How many model calls the invocation may still make; None: unlimited (CTX-3)."""
        limit = self.checkpoint.request.run_config.max_llm_calls
        return None if limit <= 0 else limit - self.checkpoint.counters.model_calls


class AgentRuns:
    """The runs of agents, for telemetry; none of the loop's decisions depends on them.

    Numbers them, and hands those that have ended to the next step, which exports them. The loop
    exports nothing itself, because it is replayed. Numbers and times are the same at every replay.
    """

    def __init__(self, checkpoint: Checkpoint, now: Callable[[], float]) -> None:
        self._state = checkpoint
        self._now = now

    def begin(self, agent: str, above: int) -> int:
        """Begin a run and return its number. The first one, 0, is the invocation itself."""
        number = self._state.runs_begun
        self._state.runs_begun += 1
        if number > 0:
            run = AgentRun(number=number, above=above, agent=agent, started=self._now())
            self._state.runs.insert(len(self._open()), run)
        return number

    def end(self, number: int, error: str | None = None) -> None:
        """End a run, unless it has ended.

        Args:
            number: Its number.
            error: Name of the error with which it ended.
        """
        run = next((run for run in self._open() if run.number == number), None)
        if run is not None:
            run.ended, run.error = self._now(), error
            self._state.runs.remove(run)
            self._state.runs.append(run)

    def take_ended(self) -> list[AgentRun] | None:
        """Return the runs that have ended, for a step to report; None: there are none."""
        ended = [run for run in self._state.runs if run.ended is not None]
        self._state.runs = self._open()
        return ended or None

    def end_all(self, error: str | None = None) -> list[AgentRun] | None:
        """Like `take_ended`, but end all open runs with the invocation, innermost first."""
        for number in sorted((run.number for run in self._open()), reverse=True):
            self.end(number, error)
        return self.take_ended()

    def open_now(self) -> list[AgentRun] | None:
        """Return copies of the open runs; None: there are none."""
        return [run.model_copy() for run in self._open()] or None

    def _open(self) -> list[AgentRun]:
        return [run for run in self._state.runs if run.ended is None]


_USES = {
    "model_calls": "model calls",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "seconds": "seconds",
}


class BudgetMeter:
    """Counts usage against the request's budget, itself limited by the app's.

    It counts decisions of the loop, and committed events. So every logical call counts once,
    however many attempts it took, and a replay counts the same.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        requested = checkpoint.request.run_config.budget or Budget()
        self._budget = requested.within(checkpoint.opened.budget)
        self._started = checkpoint.opened_at
        checkpoint.used = {"model_calls": 0, "tool_calls": 0, "tokens": 0} | checkpoint.used
        self.used = checkpoint.used

    def model_call(self, now: float) -> None:
        """Count a model call that is about to begin.

        Args:
            now: Seconds since the epoch.

        Raises:
            BudgetExceededError: It would exceed the budget.
        """
        self._check_time(now)
        tokens = self._budget.tokens
        # A call's token usage is unknown before the call, so the last one may exceed the budget.
        if tokens is not None and self.used["tokens"] >= tokens:
            raise _exceeded("tokens", tokens)
        self._use("model_calls", self._budget.model_calls, 1)

    def no_model_call(self) -> None:
        """Undo the count of a model call: a callback has answered instead of the model."""
        self.used["model_calls"] -= 1

    def tool_calls(self, number: int, now: float) -> None:
        """Count tool calls that are about to begin.

        Raises:
            BudgetExceededError: They would exceed the budget, so none of them may begin.
        """
        self._check_time(now)
        self._use("tool_calls", self._budget.tool_calls, number)

    def committed(self, event: Event) -> None:
        """Count the tokens that a committed event reports."""
        usage = event.usage_metadata
        self.used["tokens"] += (usage.total_token_count or 0) if usage else 0

    def by_agent(self, result: InvocationResult) -> None:
        """Count the usage of an agent that ran as a tool."""
        self.used["model_calls"] += result.model_calls
        self.used["tool_calls"] += result.tool_calls
        self.used["tokens"] += result.tokens

    def left(self, now: float) -> Budget | None:
        """Return the rest, as the budget of an agent that runs as a tool; None: no limit."""
        rest = {
            name: max(limit - self.used[name], 0)
            for name in self.used
            if (limit := getattr(self._budget, name)) is not None
        }
        seconds = self.seconds_left(now)
        budget = Budget(**rest, seconds=seconds)
        return None if budget == Budget() else budget

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds until the time limit, at least 0; None: no time limit."""
        seconds = self._budget.seconds
        return None if seconds is None else max(self._started + seconds - now, 0.0)

    def time_is_up(self) -> BudgetExceededError:
        """Return the error of an invocation that has reached its time limit."""
        return _exceeded("seconds", self._budget.seconds or 0)

    def _check_time(self, now: float) -> None:
        """Check the time limit: a step that ends after it still counts, but none begins."""
        if self.seconds_left(now) == 0.0:
            raise self.time_is_up()

    def _use(self, name: str, limit: int | None, number: int) -> None:
        if limit is not None and self.used[name] + number > limit:
            raise _exceeded(name, limit)
        self.used[name] += number


def _exceeded(name: str, limit: float) -> BudgetExceededError:
    """Return the error that names the exceeded limit."""
    return BudgetExceededError(
        f"The invocation's budget of {limit:,g} {_USES[name]} is used up; give it more with "
        f"RunConfig(budget=Budget({name}=...)), or find out what it does."
    )
