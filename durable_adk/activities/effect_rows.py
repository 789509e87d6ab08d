"""The kinds of effects: what a row of the table in `effects` says, and how it is performed."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from durable_adk.activities import lifecycle
from durable_adk.activities.commit.early_commit import run_and_commit, run_and_keep
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.step import ActiveStep
from durable_adk.activities.webhook.announcement import announce
from durable_adk.agents.llm_agent import LlmAgent, is_task
from durable_adk.calling.closing import uninterrupted
from durable_adk.conversation.nodes.events import convert_output, mark_agent_events
from durable_adk.retrying import STORE_TIMEOUT
from durable_adk.sessions.records import Status
from durable_adk.settings import Limits
from durable_adk.wire.checkpoint import StepBatch
from durable_adk.wire.effect import Attempt
from durable_adk.wire.graph.batch import ItemsStep
from durable_adk.wire.model_request import ReadModelRequestsStep
from durable_adk.wire.steps import (
    CallbackStep,
    CompactStep,
    EarlyCommit,
    NodeStep,
    Step,
    StepResult,
)

S = TypeVar("S")
R = TypeVar("R")
C = TypeVar("C", bound=Step | CompactStep | ReadModelRequestsStep | StepBatch | ItemsStep)
A = TypeVar("A", bound=Step)


@dataclass(frozen=True)
class _Row(Generic[S, R]):
    name: str
    """Name of the activity. It is recorded in histories, so it never changes."""
    step: type[S]
    result: type[R]
    summary: Callable[[S], str] = field(kw_only=True)
    """Describes the step in Temporal's UI, without content of the conversation."""


@dataclass(frozen=True)
class StoreEffect(_Row[S, R]):
    """An effect that only reads or writes the store.

    It runs first as a local activity, so that a large input such as an event is not written to the
    history again (D4), and then as a normal one, which retries until the store is available and the
    session free.
    """

    function: Callable[[Dependencies, S], Awaitable[R]]
    needs_lease: bool = False
    """Whether the effect raises SessionBusyError while another invocation is active."""
    waits: Callable[[S], bool] = lambda _: True
    """Whether the effect is retried while another invocation is active."""
    waits_for_app: Callable[[S], bool] = lambda _: False
    """Whether the effect is retried on a worker that does not serve the app (yet)."""
    timeout: float = STORE_TIMEOUT
    """Seconds of one attempt as a normal activity."""

    async def perform(self, deps: Dependencies, step: S, attempt: Attempt) -> R:
        """Perform one attempt."""
        del attempt  # all attempts are alike: writes are idempotent by id
        return await self.function(deps, step)


@dataclass(frozen=True)
class CodeEffect(_Row[C, R], ABC):
    """An effect that runs user code or calls a model, as a normal activity."""

    what: Callable[[C], str] = field(kw_only=True)
    """The step's description in errors."""
    task_queue: Callable[[C, Mapping[str, str]], str | None] = lambda _step, _by_model: None
    """The task queue of a step, given those of models; None: the workflow's."""
    heartbeat_timeout: Callable[[C], float | None] = lambda _: None
    """The step's own heartbeat timeout, in seconds; None: the invocation's."""
    attempts: Callable[[Limits], int | None] = lambda _: None
    """Maximum attempts at an unavailable service; None: unlimited."""
    notes_attempts: Callable[[C], bool] = lambda _: True
    """Whether the invocation can store notes on lost attempts; otherwise all of these count."""
    counts_lost: bool = True
    """Whether the effect itself is given up after many lost attempts, and not its single steps."""
    is_large: Callable[[C], bool] = lambda _: False
    """Whether the step is too large for the input of a normal activity.

    A local activity's input is not sent to the server, but the workflow receives no signals while
    it runs.
    """

    def heartbeat(self, step: C, limits: Limits) -> float:
        """Return the seconds without a heartbeat after which an attempt counts as lost."""
        return self.heartbeat_timeout(step) or limits.heartbeat_timeout

    def timeout(self, step: C, limits: Limits) -> float:
        """Return the seconds of an attempt; the code's own time limit ends earlier."""
        early_commit = step.early_commit if isinstance(step, Step) else None
        hooked = early_commit is not None and early_commit.on_event  # after the work
        return step.attempt_timeout + limits.callback_timeout * (2 if hooked else 1)

    @abstractmethod
    async def perform(self, deps: Dependencies, step: C, attempt: Attempt) -> R:
        """Perform one attempt."""


@dataclass(frozen=True, kw_only=True)
class TaskEffect(CodeEffect[C, R]):
    """A code effect that is no step of an agent."""

    function: Callable[[Dependencies, C, Attempt], Awaitable[R]]

    async def perform(self, deps: Dependencies, step: C, attempt: Attempt) -> R:
        """Perform one attempt."""
        return await self.function(deps, step, attempt)


@dataclass(frozen=True, kw_only=True)
class StepEffect(CodeEffect[A, StepResult]):
    """A code effect that is a step of an agent, with its telemetry."""

    function: Callable[[ActiveStep[A]], Awaitable[StepResult]]
    span: Callable[[A], str | None] = lambda _: None
    """Name of a span over the step; None: the function creates its own spans."""
    commits: bool = True
    """Whether the step commits its event itself if the loop allows it."""
    keeps: Callable[[A], bool] = lambda _: True
    """Whether the result of a step that does not commit is noted for the loop."""

    async def perform(self, deps: Dependencies, step: A, attempt: Attempt) -> StepResult:
        """Perform one attempt."""
        number, summary = attempt.number, self.summary(step)
        with lifecycle.step_telemetry(
            self.name, step, attempt=number, shown=self.span(step), summary=summary
        ):
            active = ActiveStep(deps=deps, step=step, attempt=attempt)
            if not self.commits:
                keeps = self.keeps(step) or step.batched
                return await (
                    run_and_keep(active, self.function) if keeps else self.function(active)
                )
            result, closed = await run_and_commit(active, self._marked)
            only_event = result.seq is not None and not (result.waits or result.more)
            if isinstance(step, NodeStep) and only_event and not step.returns_event:
                result.event = None  # of an item: what comes next reads the store
            if closed and step.early_commit is not None:
                # Must not be interrupted: the result must tell the loop what is stored.
                again = closed == "before"
                await uninterrupted(_closed_by_step(deps, step, step.early_commit, again=again))
            return result

    async def _marked(self, active: ActiveStep[A]) -> StepResult:
        """Run the function; set what the events of an agent that is a node have beyond others."""
        result, step = await self.function(active), active.step
        if step.site is not None and not isinstance(step, NodeStep):
            agent = active.agent
            schema = agent.output_schema if isinstance(agent, LlmAgent) else None
            events = [one.event for one in (result, *result.more) if one.event is not None]
            is_task_agent = is_task(agent) and not isinstance(step, CallbackStep)
            mark_agent_events(events, step.site, schema, is_task=is_task_agent)
            app = active.deps.registry.app(step.key.app_name)
            for event in events:
                convert_output(event, app.output_of)
        return result


async def _closed_by_step(
    deps: Dependencies, step: Step, early_commit: EarlyCommit, *, again: bool
) -> None:
    await lifecycle.closed_by_step(deps, step, early_commit, again=again)
    await announce(deps, step.key, step.invocation_id, Status.COMPLETED)


EffectRow = StoreEffect[Any, R] | CodeEffect[Any, R]
"""A row of the table."""
