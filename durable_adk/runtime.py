"""The one port between deciding and doing (design D14).

The loop and the built-in agents know the world only through `Runtime`. `TemporalRuntime` makes
each effect an activity; `LocalRuntime` performs the same effects in process. Both run the same
loop, so they produce the same events; `tests/integration/test_seed_steps.py` proves it.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from durable_adk.errors import storable
from durable_adk.wire.activity_call import ActivityCall
from durable_adk.wire.effect import Effect
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest, InvocationResult
from durable_adk.wire.steps import ToolStep

if TYPE_CHECKING:
    from durable_adk.agents.base_agent import BaseAgent

R = TypeVar("R")
MAX_STEERED = 100
"""Messages that wait to be heard, of which a run knows at a time. Each is asked for in the store,
before a model is: of a flood only so many. The others wait for their turn, as they may have to."""
MAX_REASON = 400
"""Bytes that say why an answer is refused. A query gives all reasons at once, and may have 2 MB."""


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
        self.heard: set[str] = set()
        """The messages that were asked for, by the ids of their invocations."""
        self.digests: dict[str, str] = {}
        """By the id that a sender gave, what the first answer of that id says."""
        self._disputed: set[str] = set()

    def put(self, answer: InvocationAnswer) -> bool:
        """Hand over an answer, or the news of a message that waits; False: of too many."""
        if answer.steers is None:
            self._compare(answer)
            self._queue.put_nowait(answer)
        elif answer.steers not in self.steered:
            if len(self.steered) == MAX_STEERED:
                return False
            self.steered.append(answer.steers)
        return True

    def _compare(self, answer: InvocationAnswer) -> None:
        """Note a second answer of an id that says something else: at once, before anybody asks."""
        name = answer.answer_id
        if name is None or (name in self.outcomes and name not in self.digests):
            return  # it was taken by a version that did not note what it said
        self.know({name: self.digests.setdefault(name, answer.digest())}, answer.digest())

    def know(self, digests: dict[str, str], other: str | None = None) -> None:
        """Note what the first answers of these ids said, where another one may be known.

        Args:
            digests: By answer id.
            other: What a later one of the same id says; None: what is noted here.
        """
        for name, first in digests.items():
            if (other or self.digests.get(name, first)) != first:
                self._disputed.add(name)
            self.digests[name] = first
            if name in self._disputed and self.outcomes.get(name, "") is None:
                self.take(name)

    def said(self, *kept: Iterable[str]) -> dict[str, str]:
        """What those said that are kept by these names."""
        names = sorted(name for some in kept for name in some)
        return {name: self.digests[name] for name in names if name in self.digests}

    def take(self, name: str) -> None:
        """Note an answer that was taken; to who asks, also if another of its id was sent."""
        self.outcomes[name] = self._dispute(name) if name in self._disputed else None

    def taken(self) -> dict[str, str]:
        """By answer id, the digests of the answers that were taken."""
        return {
            name: said
            for name, said in self.digests.items()
            if self.outcomes.get(name, "") in (None, self._dispute(name))
        }

    def _dispute(self, name: str) -> str:
        return (
            f"answerId {name!r} was sent with different contents. The first one was taken and "
            f"stands (query taken: {self.digests[name]}); the other one is refused. Give "
            "another answer another answerId."
        )

    def _is_known(self, name: str) -> bool:
        return name in self.outcomes or name in self.digests

    def empty(self) -> bool:
        """Whether `get` would have to wait."""
        return self._queue.empty()

    def refuse(self, answer_id: str | None, reason: str) -> None:
        """Note an answer that cannot be read, or that nothing waits for."""
        name = answer_id or f"malformed-{len(self.outcomes) + 1}"
        if self.outcomes.get(name, "") is None:
            self._disputed.add(name)  # one of this id was taken, which stays
            self.digests.setdefault(name, "unknown")
            self.take(name)
        elif name not in self._disputed or name not in self.outcomes:
            self.outcomes[name] = storable(reason, MAX_REASON)

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
            if answer.answer_id is None:
                while self._is_known(f"unnamed-{self.answers}"):
                    self.answers += 1  # a sender has taken that name
                answer.answer_id = f"unnamed-{self.answers}"
        return answer


class Runtime(Protocol):
    """The effects, and the world's other inputs to a run. All replay-safe."""

    inbox: Inbox
    rolls: bool
    """Whether the invocation may go on in another run of its workflow."""

    async def perform(self, step: Effect[R]) -> R:
        """Do to the world what a step asks for: see its payload, and `activities.effects`.

        It may be repeated with the same step.
        """
        ...

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

    async def run_activity(self, step: ToolStep, call: ActivityCall) -> Any:
        """Run the activity that a tool is; not before its end or, if cancelled, without a wait.

        Returns:
            Its result, as it came.

        Raises:
            ToolError: It failed for good, and is not retried any more.
            ToolTimeoutError: It was not done in time.
            ToolResultError: Its result cannot be read.
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
