"""The port between decisions and effects (D14).

The loop and the built-in agents reach everything outside through `Runtime`. `TemporalRuntime` makes
each effect an activity; `LocalRuntime` performs the same effects in process. Both run the same
loop, so they produce the same events, as `tests/integration/test_seed_steps.py` checks.
"""

import asyncio
from typing import Any, Protocol, TypeVar

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.errors import storable
from durable_adk.wire.activity_call import ActivityCall
from durable_adk.wire.checkpoint import PendingState, StepBatch
from durable_adk.wire.effect import Effect
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest, InvocationResult
from durable_adk.wire.steps import ToolStep

R = TypeVar("R")
MAX_STEERED = 100
"""Maximum number of messages that wait to be delivered to an active invocation. Each costs a read
of the store before a model call, so a flood is cut here; further messages wait for their own
turn."""
MAX_REASON = 400
"""Maximum bytes of the reason for refusing an answer. One query, limited to 2 MB, returns all
reasons."""


class Inbox:
    """Answers to an invocation, in the order of their arrival."""

    def __init__(self) -> None:
        self.state = PendingState()
        """Part of the loop's checkpoint, once the invocation is open."""
        self._queue: asyncio.Queue[InvocationAnswer | None] = asyncio.Queue()
        self._disputed: set[str] = set()

    @property
    def outcomes(self) -> dict[str, str | None]:
        """Why each answer was refused, by answer id; None: it was accepted."""
        return self.state.outcomes

    def restore(self, saved: PendingState) -> None:
        """Continue with the state of the previous workflow run.

        Answers may have arrived in this run before it could read that state.
        """
        early, self.state = self.state, saved
        for name in early.digests:
            self._forget_refusal(name)
        saved.steered += early.steered
        saved.outcomes = early.outcomes | saved.outcomes
        saved.delivered_messages |= early.delivered_messages
        known, saved.digests = saved.digests, early.digests
        self.know(known)

    def put(self, answer: InvocationAnswer) -> bool:
        """Add an answer, or the notification of a steering message; False: too many of these."""
        steered = self.state.steered
        if answer.steers is None:
            if self._forget_refusal(answer.answer_id):
                self._disputed.discard(answer.answer_id or "")
            self._compare(answer)
            self._queue.put_nowait(answer)
        elif answer.steers not in steered:
            if len(steered) == MAX_STEERED:
                return False
            steered.append(answer.steers)
            self.wake()
        return True

    def _forget_refusal(self, name: str | None) -> bool:
        """Drop the refusal and digest of an answer that is sent again.

        The reason may no longer hold: a plugin was fixed, or only now the call is pending.
        """
        if name is None or self.outcomes.get(name) is None:
            return False
        if name in self.taken():
            return False
        del self.outcomes[name]
        self.state.digests.pop(name, None)
        return True

    def _compare(self, answer: InvocationAnswer) -> None:
        """Detect, on arrival, that a second answer under an id has different contents."""
        name = answer.answer_id
        if name is None or (name in self.outcomes and name not in self.state.digests):
            return  # an answer without an id was given this name, and its sender cannot query it
        first = self.state.digests.setdefault(name, answer.digest())
        self.know({name: first}, answer.digest())

    def know(self, digests: dict[str, str], other: str | None = None) -> None:
        """Record the first answers' digests of some ids, and detect different answers under them.

        Args:
            digests: By answer id.
            other: Digest of a later answer of the same id; None: the one recorded here.
        """
        for name, first in digests.items():
            if (other or self.state.digests.get(name, first)) != first:
                self._disputed.add(name)
            self.state.digests[name] = first
            if name in self._disputed and self.outcomes.get(name, "") is None:
                self.take(name)

    def take(self, name: str) -> None:
        """Record that an answer was accepted, and whether another one of its id was refused."""
        self.outcomes[name] = self._dispute(name) if name in self._disputed else None

    def taken(self) -> dict[str, str]:
        """Return the digests of the accepted answers, by answer id."""
        return {
            name: digest
            for name, digest in self.state.digests.items()
            if self.outcomes.get(name, "") in (None, self._dispute(name))
        }

    def is_decided(self, answer: InvocationAnswer) -> bool:
        """Return whether an answer added here was accepted or refused."""
        return answer.answer_id in self.outcomes

    def refusal(self, answer: InvocationAnswer) -> str | None:
        """Return why a decided answer was refused; None: it or an equal one was accepted."""
        name = answer.answer_id or ""
        return None if self.taken().get(name) == answer.digest() else self.outcomes[name]

    def _dispute(self, name: str) -> str:
        return (
            f"answerId {name!r} was sent with different contents. The first answer was accepted "
            f"(query taken: {self.state.digests[name]}); the other one is refused. Send another "
            "answer with another answerId."
        )

    def _is_known(self, name: str) -> bool:
        return name in self.outcomes or name in self.state.digests

    def refuse(self, answer_id: str | None, reason: str) -> None:
        """Record that an answer cannot be read, or that no call waits for it."""
        name = answer_id or f"malformed-{len(self.outcomes) + 1}"
        if self.outcomes.get(name, "") is None:
            self._disputed.add(name)  # an accepted one of this id stays accepted
            self.state.digests.setdefault(name, "unknown")
            self.take(name)
        elif name not in self._disputed or name not in self.outcomes:
            self.outcomes[name] = storable(reason, MAX_REASON)

    def refuse_malformed(self, answer_id: str | None, reason: str) -> None:
        """Record that an input cannot be read; an answer of its id is decided separately."""
        if answer_id in self.state.digests and answer_id not in self.outcomes:
            self._disputed.add(answer_id)
        else:
            self.refuse(answer_id, reason)

    def wake(self) -> None:
        """Make `get` return None: something else has changed."""
        self._queue.put_nowait(None)

    def empty(self) -> bool:
        """Return whether `get` would have to wait."""
        return self._queue.empty()

    async def get(self) -> InvocationAnswer | None:
        """Wait for the next answer; return None for a call of `wake`."""
        return self._named(await self._queue.get())

    def drain(self) -> None:
        """Move all answers that have arrived to `PendingState.unread`."""
        while not self._queue.empty():
            if (answer := self._named(self._queue.get_nowait())) is not None:
                self.state.unread.append(answer)

    def _named(self, answer: InvocationAnswer | None) -> InvocationAnswer | None:
        """Name an answer without an id by its number among all answers, across workflow runs."""
        if answer is not None:
            state = self.state
            state.answers += 1
            if answer.answer_id is None:
                while self._is_known(f"unnamed-{state.answers}"):
                    state.answers += 1  # a sender has chosen that name
                answer.answer_id = f"unnamed-{state.answers}"
        return answer


class StepBatches(Protocol):
    """Performs several steps in one activity, ahead of the loop, which then takes all of them."""

    @property
    def is_ahead(self) -> bool:
        """Whether the loop has not taken all steps of the last batch yet."""
        ...

    async def run(self, batch: StepBatch) -> None:
        """Perform the loop's next steps; `Runtime.perform` returns their outcomes afterwards.

        Raises:
            DurableAdkError: The activity failed.
        """
        ...


class Runtime(Protocol):
    """The effects, and the loop's other inputs. All of them are replay-safe."""

    inbox: Inbox
    rolls: bool
    """Whether the invocation may continue as new."""
    batches: StepBatches | None
    """None: it performs each step alone."""
    ends_in_time: bool
    """Whether its loop has to end at the budget's time limit; a batch is cancelled then."""

    async def perform(self, step: Effect[R]) -> R:
        """Perform the effect of a step; see its class, and `activities.effects`.

        It may be repeated with the same step.
        """
        ...

    def fullness(self) -> float:
        """Return how full the workflow run's history is; from 1 on it continues as new (D10)."""
        ...

    async def leave(self, agents: "asyncio.Task[None]") -> None:
        """Abandon the agents' task, stopped at safe points: a new run continues there."""
        ...

    async def run_child(self, request: InvocationRequest) -> InvocationResult:
        """Run another invocation to its end; cancelled with this one.

        Raises:
            DurableAdkError: It failed.
        """
        ...

    async def run_activity(self, step: ToolStep, call: ActivityCall) -> Any:
        """Run the activity that backs a tool. A cancellation does not wait for its end.

        Returns:
            Its result, unchecked.

        Raises:
            ToolError: It failed, and is not retried again.
            ToolTimeoutError: It did not finish in time.
            ToolResultError: Its result cannot be read.
        """
        ...

    async def leave_batch(self) -> None:
        """End the batch in which the loop runs, if any: what follows needs the workflow."""
        ...

    def now(self) -> float:
        """Return the seconds since the epoch."""
        ...

    def new_id(self) -> str:
        """Return a new unique id."""
        ...

    def cancelled(self) -> bool:
        """Return whether a cancellation was requested, even if a finishing step swallowed it."""
        ...

    def agent(self, app: str, name: str) -> BaseAgent:
        """Return the agent whose own code the loop is to run.

        Raises:
            AgentNotFoundError: The app has no agent of this name, or no longer.
        """
        ...
