"""The one port between deciding and doing (design D14).

The loop and the built-in agents know the world only through `Runtime`. `TemporalRuntime` makes
each effect an activity; `LocalRuntime` calls the same `Effects` in process. Both run the same loop,
so they produce the same events; `tests/integration/test_seed_steps.py` proves it.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from durable_adk.closing import uninterrupted
from durable_adk.continuation import (
    Continued,
    ContinueStep,
    PlaceStep,
    SaveTraceStep,
    TracePage,
    TraceStep,
)
from durable_adk.errors import (
    AgentError,
    ModelUnavailableError,
    SessionBusyError,
    StoreUnavailableError,
)
from durable_adk.messages import InvocationAnswer, InvocationRequest, InvocationResult, WhenBusy
from durable_adk.payloads import (
    AnswerStep,
    AnswerTaken,
    CallbackStep,
    CloseStep,
    CodeStep,
    CommitStep,
    CompactStep,
    Ending,
    FunctionStep,
    HookStep,
    ModelStep,
    Opened,
    OpenStep,
    PauseStep,
    StepResult,
    ToolStep,
)
from durable_adk.settings import Limits

if TYPE_CHECKING:
    from durable_adk.agents.base_agent import BaseAgent

T = TypeVar("T")


class Effects(Protocol):
    """What a run does to the world. Each may be repeated with the same step: see its payload."""

    async def open_invocation(self, step: OpenStep) -> Opened:
        """Take the session's lease, store the user's event, describe the agents."""
        ...

    async def call_model(self, step: ModelStep) -> StepResult:
        """Build the request, run the model callbacks, ask the model."""
        ...

    async def call_tool(self, step: ToolStep) -> StepResult:
        """Run one tool call with its callbacks."""
        ...

    async def execute_code(self, step: CodeStep) -> StepResult:
        """Run the code that a model wrote."""
        ...

    async def run_callback(self, step: CallbackStep) -> StepResult:
        """Run an agent's before or after callbacks."""
        ...

    async def run_function(self, step: FunctionStep) -> StepResult:
        """Run a function of a custom agent."""
        ...

    async def run_hook(self, step: HookStep) -> StepResult:
        """Run one hook of the app's plugins round a run or an event."""
        ...

    async def commit_event(self, step: CommitStep) -> int:
        """Store an event and what it changes; returns its sequence number."""
        ...

    async def pause_invocation(self, step: PauseStep) -> None:
        """Give the session's lease back until an answer comes."""
        ...

    async def take_answer(self, step: AnswerStep) -> AnswerTaken:
        """Check an answer, take the lease if it was given back, store the answer."""
        ...

    async def close_invocation(self, step: CloseStep) -> Ending:
        """Seal the session if the invocation did not complete; give its lease back."""
        ...

    async def compact(self, step: CompactStep) -> None:
        """Summarise the session's events, if that is due; what goes wrong is only logged."""
        ...

    async def save_place(self, step: PlaceStep) -> None:
        """Write down where the invocation stands, before its workflow continues as new."""
        ...

    async def save_trace(self, step: SaveTraceStep) -> None:
        """Write down what the bodies of custom agents were given in this run of the workflow."""
        ...

    async def read_place(self, step: ContinueStep) -> Continued:
        """What the loop has to know to go on."""
        ...

    async def read_traces(self, step: TraceStep) -> TracePage:
        """What the bodies of custom agents were given in earlier runs of the workflow."""
        ...


Child = Callable[[InvocationRequest], Awaitable[InvocationResult]]
"""Runs an invocation for another one."""


class Inbox:
    """Answers on their way to a run, in the order in which they came."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[InvocationAnswer | None] = asyncio.Queue()
        self.answers = 0
        """How many have come, in all runs of the workflow."""
        self.steered: list[str] = []
        """The messages that wait to be heard, by the ids of their invocations."""
        self.outcomes: dict[str, str | None] = {}
        """By answer id, why it was refused; None: it was taken."""

    def put(self, answer: InvocationAnswer) -> None:
        """Hand over an answer, or the news of a message that waits to be heard."""
        if answer.steers is not None:
            self.steered.append(answer.steers)
        else:
            self._queue.put_nowait(answer)

    def empty(self) -> bool:
        """Whether `get` would have to wait."""
        return self._queue.empty()

    def refuse(self, answer_id: str | None, reason: str) -> None:
        """Note an answer that cannot be read."""
        self.outcomes[answer_id or f"malformed-{len(self.outcomes) + 1}"] = reason

    def wake(self) -> None:
        """Make `get` return None: something else has changed."""
        self._queue.put_nowait(None)

    async def get(self) -> InvocationAnswer | None:
        """Wait for the next answer; None for a call of `wake`."""
        return self._named(await self._queue.get())

    def get_nowait(self) -> InvocationAnswer | None:
        """The next answer, which is there already; None for a call of `wake`."""
        return self._named(self._queue.get_nowait())

    def _named(self, answer: InvocationAnswer | None) -> InvocationAnswer | None:
        """One without a name is named by its place among all; not before those of earlier runs."""
        if answer is not None:
            self.answers += 1
            answer.answer_id = answer.answer_id or f"unnamed-{self.answers}"
        return answer


class Runtime(Effects, Protocol):
    """The effects, and the world's other inputs to a run. All replay-safe."""

    inbox: Inbox
    rolls: bool
    """Whether the invocation may go on in another run of its workflow."""

    def fullness(self) -> float:
        """How much there is in the run's history: 1 is time to go on in a new run (D10)."""
        ...

    async def leave(self, agents: "asyncio.Task[None]") -> None:
        """Let go of agents that have stopped where a new run goes on."""
        ...

    async def run_child(self, request: InvocationRequest) -> InvocationResult:
        """Run another invocation to its end; cancelled with this one.

        Raises:
            DurableAdkError: It failed.
        """
        ...

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def new_id(self) -> str:
        """A new unique id."""
        ...

    def cancelled(self) -> bool:
        """Whether the run was asked to end; a step that finished all the same took no notice."""
        ...

    def agent(self, app: str, name: str) -> "BaseAgent":
        """The agent whose own code the loop is to run.

        Raises:
            AgentNotFoundError: There is none of this name (any more).
        """
        ...


class LocalEffects(Effects, Protocol):
    """Effects whose caller counts the attempts of a model call."""

    async def call_model(self, step: ModelStep, *, attempt: int = 1) -> StepResult:
        """As `Effects.call_model`; a transient failure of the last attempt is final."""
        ...


class Agents(Protocol):
    """Finds agents by name."""

    def agent(self, app: str, name: str) -> "BaseAgent":
        """See `Runtime.agent`."""
        ...


class LocalRuntime:
    """The loop in this process: for unit tests and scripts, as durable as the process is.

    It retries what Temporal would retry, with the same ids, for as long as `patience`. With
    `roll_every` the loop is taken down and set up again after so many model calls, as it is on
    Temporal when its history has grown long; that is for tests.
    """

    def __init__(
        self,
        effects: LocalEffects,
        agents: Agents,
        *,
        limits: Limits,
        run_child: Child | None = None,
        patience: float = 60.0,
        roll_every: int | None = None,
    ) -> None:
        self._steps = 0
        self._roll_every = roll_every
        self.rolls = roll_every is not None
        self._effects = effects
        self._limits = limits
        self._patience = patience
        self.agent = agents.agent
        self.inbox = Inbox()
        self._run_child = run_child

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def new_id(self) -> str:
        """A random uuid."""
        return str(uuid.uuid4())

    def cancelled(self) -> bool:
        """Whether the task that runs the loop was cancelled."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def open_invocation(self, step: OpenStep) -> Opened:
        """Open, waiting for a busy session if the message is to be enqueued."""
        wait = step.when_busy is not WhenBusy.REJECT
        return await self._until_free(self._effects.open_invocation, step, wait=wait)

    async def call_model(self, step: ModelStep) -> StepResult:
        """Ask the model, again while it is unavailable and attempts are left."""
        attempt = 1
        self._steps += 1
        while True:
            try:
                return await self._until_stored(self._effects.call_model, step, attempt=attempt)
            except ModelUnavailableError as error:
                if attempt >= self._limits.model_attempts:
                    raise
                delay = error.delay(attempt)
            await asyncio.sleep(delay)
            attempt += 1

    async def call_tool(self, step: ToolStep) -> StepResult:
        """Run a tool."""
        return await self._until_stored(self._effects.call_tool, step)

    async def run_function(self, step: FunctionStep) -> StepResult:
        """Run a function."""
        return await self._until_stored(self._effects.run_function, step)

    async def execute_code(self, step: CodeStep) -> StepResult:
        """Run code."""
        return await self._until_stored(self._effects.execute_code, step)

    async def run_callback(self, step: CallbackStep) -> StepResult:
        """Run callbacks."""
        return await self._until_stored(self._effects.run_callback, step)

    async def run_hook(self, step: HookStep) -> StepResult:
        """Run a hook."""
        return await self._until_stored(self._effects.run_hook, step)

    async def commit_event(self, step: CommitStep) -> int:
        """Store an event."""
        return await self._until_stored(self._effects.commit_event, step)

    async def pause_invocation(self, step: PauseStep) -> None:
        """Give the lease back."""
        await self._until_stored(self._effects.pause_invocation, step)

    async def take_answer(self, step: AnswerStep) -> AnswerTaken:
        """Store an answer, waiting while another invocation is active in the session."""
        return await self._until_free(self._effects.take_answer, step)

    async def close_invocation(self, step: CloseStep) -> Ending:
        """Record the end, waiting as `take_answer` does if it was paused."""
        return await self._until_free(self._effects.close_invocation, step)

    async def compact(self, step: CompactStep) -> None:
        """Summarise, at most once."""
        await self._effects.compact(step)

    async def save_place(self, step: PlaceStep) -> None:
        """Write the place down."""
        await self._until_stored(self._effects.save_place, step)

    async def save_trace(self, step: SaveTraceStep) -> None:
        """Write a part of a trace down."""
        await self._until_stored(self._effects.save_trace, step)

    async def read_place(self, step: ContinueStep) -> Continued:
        """Read the place."""
        self._steps = 0
        return await self._until_stored(self._effects.read_place, step)

    async def read_traces(self, step: TraceStep) -> TracePage:
        """Read traces."""
        return await self._until_stored(self._effects.read_traces, step)

    async def leave(self, agents: "asyncio.Task[None]") -> None:
        """Take them down: nobody else does it."""
        agents.cancel()
        await asyncio.gather(agents, return_exceptions=True)

    def fullness(self) -> float:
        """By the number of model calls."""
        return self._steps / self._roll_every if self._roll_every else 0.0

    async def run_child(self, request: InvocationRequest) -> InvocationResult:
        """Run it in this process too."""
        if self._run_child is None:
            raise AgentError("This runtime cannot run an agent as a tool.")
        return await self._run_child(request)

    async def _until_free(
        self, effect: Callable[..., Awaitable[T]], step: object, *, wait: bool = True
    ) -> T:
        """Repeat an effect while another invocation is active in the session."""
        while True:
            try:
                # Not to be interrupted: who holds the lease must be known, to give it back.
                return await uninterrupted(self._until_stored(effect, step))
            except SessionBusyError:
                if not wait:
                    raise
            if self.cancelled():
                raise asyncio.CancelledError
            await asyncio.sleep(0.05)

    async def _until_stored(
        self, effect: Callable[..., Awaitable[T]], step: object, **options: int
    ) -> T:
        """Repeat an effect until the store answers.

        Safe, because writes look at the ids first, and steps read before they do anything.
        """
        until = time.monotonic() + self._patience
        while True:
            try:
                return await effect(step, **options)
            except StoreUnavailableError:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(0.1)
