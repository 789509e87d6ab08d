"""Who commits the event of a step, what is noted before, and whether it ends the run."""

from collections.abc import Sequence, Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from durable_adk.activities.dependencies import Dependencies
from durable_adk.code_executors.code_execution_utils import pending_code
from durable_adk.conversation.nodes.events import end_of, questions
from durable_adk.conversation.tool_responses import failure_text
from durable_adk.errors import AgentError, as_detail, raised
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.retrying import OUTCOME_TIMEOUT
from durable_adk.sessions.log.entry import stored_copy
from durable_adk.sessions.records import StoredEvent
from durable_adk.sessions.state import is_temp
from durable_adk.wire.steps import (
    EarlyCommit,
    FunctionStep,
    HookStep,
    ModelStep,
    NodeStep,
    Step,
    StepResult,
    ToolStep,
)
from durable_adk.wire.tool_contract import ToolContract


@dataclass(frozen=True, kw_only=True)
class CommitPlan:
    """One decision for a step, made before its work.

    What the step leaves to the loop is noted first (`notes.RESULT`), because a workflow that is
    reset loses what was reported, and because an event does not contain the whole result.
    """

    step: Step
    early_commit: EarlyCommit | None
    """The permission to commit; None: the loop commits."""
    only_noted: bool
    """Whether the note says what the result was, and not the event: code in the loop uses the
    result, or may change or drop its event before it is stored."""

    @classmethod
    def of(cls, deps: Dependencies, step: Step) -> "CommitPlan":
        """Make the plan of a step.

        Raises:
            UnknownAppError: The app is not served here.
            AgentNotFoundError: The agent was removed, or is not registered on this worker yet.
        """
        early_commit = step.early_commit
        only_noted = early_commit is None and (
            isinstance(step, FunctionStep | HookStep) or deps.changes_events(step)
        )
        return cls(step=step, early_commit=early_commit, only_noted=only_noted)

    # ----- what is noted

    @property
    def looks_first(self) -> bool:
        """Whether a note may exist although this is the first attempt and the log is not ahead.

        After a reset, user code in the loop has seen a result that is not committed, and a tool
        that must run at most once may have run. Nor did a batch report each of its results.
        """
        at_most_once = self._contract is ToolContract.AT_MOST_ONCE
        return self.only_noted or at_most_once or bool(self.step.repeated)

    def notes_received(self, *, code_follows: bool) -> bool:
        """Return whether a response is noted as it arrives, before the code that follows it.

        If nothing follows, this note would cost as much as the commit, or the note of the result.

        Args:
            code_follows: Whether the step has callbacks, or other code, for the response.
        """
        return code_follows or bool(self.early_commit and self.early_commit.on_event)

    def notes_result(self, result: StepResult, *, repeatable: bool) -> bool:
        """Return whether a result is noted before it is left to the loop.

        Args:
            result: The result.
            repeatable: See `ActiveStep`. A repetition that finds the event looks no further, so
                what only the result has is noted all the same.
        """
        if self.only_noted:
            return True
        if result.child or result.activity:
            return False  # a request to run something, and not an outcome
        if repeatable and not result.error:
            temp = result.event is not None and any(map(is_temp, result.event.actions.state_delta))
            return temp or result.end_invocation
        return self.early_commit is None or bool(self.step.batched) or result != StepResult()

    def note_timeout(self, result: StepResult) -> float:
        """Return the seconds for which an unavailable store is retried before the loop receives it.

        Where an event will say the same, a worker that waits only risks to lose the result.
        """
        if isinstance(self.step, NodeStep) and result.more:
            # A reset may find some of its events: those of another attempt would be others.
            return OUTCOME_TIMEOUT
        return OUTCOME_TIMEOUT if self.only_noted or result.error else 0.0

    @property
    def _contract(self) -> ToolContract | None:
        step = self.step
        return step.contract if isinstance(step, ToolStep | NodeStep) else None

    # ----- who commits

    def is_complete(self, result: StepResult, event: Event) -> bool:
        """Return whether the stored event contains the whole result, so that the step may commit.

        Only the result has these: `temp:` keys, a request to end the invocation, a response made by
        a callback, pending calls, the agent to transfer to, and whatever followed a model's first
        response.
        """
        if result.transfer is not None or result.waits or result.more or result.error:
            return False
        answered = result.model_called or not isinstance(self.step, ModelStep)
        temp = any(map(is_temp, event.actions.state_delta))
        return answered and not temp and not result.end_invocation and _says_it_all(event)

    def closes(self, event: Event) -> bool:
        """Return whether the invocation ends with the event: a model's final response, no calls.

        A callback's event without content is final too (EVT-11), but the agent has yet to run.
        """
        early_commit = self.early_commit
        return (
            early_commit is not None
            and early_commit.closes
            and isinstance(self.step, ModelStep)
            and event.is_final_response()
            and pending_code(event.content) is None
            and not event.get_function_calls()
            and not event.get_function_responses()
        )

    # ----- what the store says

    def result_of(
        self, stored: StoredEvent, before: Sequence[StoredEvent] = ()
    ) -> StepResult | None:
        """Return the result that stored events imply, or None if they are not the step's alone.

        Args:
            stored: The step's event.
            before: For a node's code: the events that it had before this one.
        """
        event, seq = stored.event, stored.seq
        if isinstance(self.step, NodeStep):
            return _node_result([*before, stored])
        if not _says_it_all(event):
            return None
        if self.early_commit is None and not self._is_own(event):
            return None
        called = isinstance(self.step, ModelStep)
        closed = self.closes(event)
        return StepResult(event=event, seq=seq, closed=closed, model_called=called)

    def _is_own(self, event: Event) -> bool:
        """Return whether the event is not merged with those of other calls."""
        if isinstance(self.step, ToolStep):
            answered = [response.id for response in event.get_function_responses()]
            return answered == [self.step.call_id]
        return isinstance(self.step, ModelStep)

    def agrees(self, noted: StepResult, event: Event | None) -> bool:
        """Return whether the loop has made a stored event of a noted result.

        If not, another attempt reported its result: the store was unavailable for that one's note,
        or the noted one's worker died. What is stored counts.
        """
        if event is None:
            return False
        if noted.error and not noted.event and isinstance(self.step, ToolStep):
            # A failure does not show in the response: a tool may return the same value.
            responses = [one.response for one in event.get_function_responses()]
            return responses == [{"error": failure_text(self.step.tool, noted.error)}]
        if noted.event is None:
            return False
        mine = stored_copy(noted.event, keeps_bases=self.step.key.is_child)
        merged = noted.event.actions.state_read.keys()  # the store may have changed these values
        alike = _node_fields(mine) == _node_fields(event)
        return alike and _without(mine, merged) == _without(event, merged)


def _node_result(stored: Sequence[StoredEvent]) -> StepResult:
    """Return the result of a node's code, all of which its events say but the error's classes."""
    events = [one.event for one in stored]
    *before, last = [StepResult(event=one.event, seq=one.seq) for one in stored]
    code = events[-1].error_code
    if code and not any(event.output is not None for event in events):
        error = raised(AgentError, code, events[-1].error_message or code)
        return last.model_copy(update={"more": before, "error": as_detail(error)})
    ended = {"more": before, "node": end_of(events), "waits": questions(events)}
    return last.model_copy(update=ended)


def _says_it_all(event: Event) -> bool:
    """Return whether a stored event implies that its step reported nothing else."""
    actions = event.actions
    return not (
        event.long_running_tool_ids
        or actions.transfer_to_agent
        or actions.requested_tool_confirmations
        or actions.requested_auth_configs
    )


def _node_fields(event: Event) -> tuple[Any, ...]:
    return event.content, event.output, event.error_code, event.error_message


def _without(event: Event, keys: AbstractSet[str]) -> EventActions:
    """Return an event's actions without some keys of the state."""
    delta = {key: value for key, value in event.actions.state_delta.items() if key not in keys}
    return event.actions.model_copy(update={"state_delta": delta})
