"""What a custom agent's `_run_async_impl` is given: it runs in the loop and stays deterministic."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from google.genai import types

from durable_adk.errors import NotInLoopError
from durable_adk.events.event import Event
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.run_config import RunConfig

if TYPE_CHECKING:
    from durable_adk.agents.base_agent import BaseAgent
    from durable_adk.context.journal import Journal


class FunctionCall(NamedTuple):
    """What a function is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    timeout: float | None
    """Seconds; None: as a tool."""


class SubRun(AsyncGenerator[Event, None]):
    """A run of a sub-agent, in the hands of a custom agent's body.

    A body may leave it before its end, with ``break``. Python then closes a generator as soon as
    nobody has it any more, at once and without waiting, but what runs there has to be waited for.
    So the body has this handle only; the loop closes what was let go of when it comes by.
    """

    def __init__(
        self, events: AsyncGenerator[Event, None], left: list[AsyncGenerator[Event, None]]
    ) -> None:
        self._events = events
        self._left = left
        self._over = False

    def __aiter__(self) -> "SubRun":
        return self

    async def __anext__(self) -> Event:
        return await self.asend(None)

    async def asend(self, value: None) -> Event:
        """The next event."""
        try:
            return await self._events.asend(value)
        except BaseException:
            self._over = True
            raise

    async def athrow(self, *error: Any) -> Event:
        """Raise an error where the run is."""
        self._over = True
        return await self._events.athrow(*error)

    async def aclose(self) -> None:
        """End the run now."""
        self._over = True
        await self._events.aclose()

    def __del__(self) -> None:
        if not self._over:
            self._left.append(self._events)


class Branch:
    """One line of execution within an invocation: the main one, or a child of a ParallelAgent.

    Ids are counted within a lane, so that they do not depend on how lanes interleave.

    Args:
        prefix: What its ids begin with.
        family: All open lanes of the invocation by prefix; the new one joins them.
        ids: How many it has given out before.
    """

    def __init__(
        self, prefix: str, family: "dict[str, Branch] | None" = None, *, ids: int = 0
    ) -> None:
        self.prefix = prefix
        self.family = {} if family is None else family
        self.family[prefix] = self
        self.ids = ids
        self.stopped = False
        """Whether its agent was cancelled: no further step may start."""

    def next_id(self) -> str:
        """The next event id: the lane and a position, the same at every replay (design D5)."""
        self.ids += 1
        return f"{self.prefix}.{self.ids}"

    def fork(self, place: str, number: int) -> "list[Branch]":
        """The lanes of the children of a ParallelAgent, named after a position of this one.

        Those that the invocation has brought along from an earlier run of its workflow are found.
        """
        names = [f"{place}.{index}" for index in range(number)]
        return [self.family.get(name) or Branch(name, self.family) for name in names]

    @property
    def is_open(self) -> bool:
        """Whether its agent has not ended."""
        return self.family.get(self.prefix) is self

    def leave(self) -> None:
        """Its agent has ended: it gives out no more ids."""
        self.family.pop(self.prefix, None)


class Frame:
    """Where the run of one agent is, in values that outlive a run of the workflow (design D10).

    Whoever drives the agent says where it is with `tell`. When the invocation goes on in a new run
    of its workflow, the frames are there again, and `take` gives what had been said.
    """

    def __init__(self, saved: dict[str, Any] | None = None) -> None:
        saved = saved or {}
        self._told: dict[str, Any] = saved.get("told") or {}
        self.tell: Callable[[], dict[str, Any]] = dict[str, Any]
        """Says where the agent is, when it is asked: plain JSON."""
        self._left: dict[str, Any] = saved.get("below") or {}
        self._below: dict[str, Frame] = {}

    def take(self) -> dict[str, Any]:
        """What was said in the run before, once; {} for an agent that begins."""
        told, self._told = self._told, {}
        return told

    def enter(self, name: str = "") -> "Frame":
        """The frame of what is begun, or gone on with, below this one."""
        frame = Frame(self._left.pop(name, None))
        self._below[name] = frame
        return frame

    def leave(self, name: str) -> None:
        """What was begun below this one has ended."""
        self._below.pop(name, None)

    def renew(self) -> None:
        """Forget what was here: another agent takes this one's place."""
        self._told, self.tell, self._left, self._below = {}, dict[str, Any], {}, {}

    def saved(self) -> dict[str, Any]:
        """The frame and all below it; what `Frame` takes."""
        below = {name: frame.saved() for name, frame in self._below.items()}
        return {"told": self.tell(), "below": below}


class Loop(Protocol):
    """What an `InvocationContext` needs of the loop."""

    async def run_function(
        self, ctx: "InvocationContext", function: Callable[..., Any], call: "FunctionCall"
    ) -> Any:
        """Run a function as a step of its own."""
        ...

    def run_agent(
        self, agent: "BaseAgent", ctx: "InvocationContext"
    ) -> AsyncGenerator[Event, None]:
        """Run an agent with its callbacks as part of this invocation."""
        ...

    def run_built_in(
        self, node: AgentNode, ctx: "InvocationContext"
    ) -> AsyncGenerator[Event, None]:
        """Run the body that a built-in agent of that kind has."""
        ...


@dataclass
class LoopSession:
    """The session as the loop knows it: its name and its state, not its events."""

    key: SessionKey
    state: dict[str, Any]
    """Committed state, plus `temp:` keys and what agent code wrote here (a dirty write, STA-17)."""

    @property
    def id(self) -> str:
        """Id of the session."""
        return self.key.session_id

    @property
    def app_name(self) -> str:
        """Name of the app."""
        return self.key.app_name

    @property
    def user_id(self) -> str:
        """Id of the user."""
        return self.key.user_id

    @property
    def events(self) -> list[Event]:
        """Not here: the conversation stays in the store (design D3)."""
        raise NotInLoopError(
            "session.events is not available in _run_async_impl: the loop does not carry the "
            "conversation. Read it in a callback or a tool, and put what you need into state."
        )


@dataclass(kw_only=True)
class InvocationContext:
    """What a custom agent's `_run_async_impl` sees (semantics CTX-2, CTX-4).

    Each agent run has a copy of its own; the session is shared by all of an invocation.
    """

    invocation_id: str
    agent: "BaseAgent | None"
    """None while a built-in agent runs that the worker no longer has."""
    agent_name: str
    session: LoopSession
    user_content: types.Content
    run_config: RunConfig
    branch: str | None = None
    end_invocation: bool = False
    answered: bool = False
    """Whether a before callback answered for the agent, so that it does not run."""
    run_start: int = 0
    """The session's revision when this agent's run began."""
    run: int = field(default=0, repr=False)
    """Its number; see `flows.agent_runs`."""
    direct: bool = True
    """Whether its events reach the loop unchanged: no custom agent passes them on."""
    closes: bool = False
    """Whether its final text ends the invocation."""
    transfer: AgentNode | None = None
    """Whom its model has handed over to: that agent runs next."""
    frame: Frame = field(default_factory=Frame, repr=False)
    """Where its run is; see `Frame`."""
    trace: "Journal | None" = field(default=None, repr=False)
    """What its body was given, if it is one of a custom agent."""
    body: str | None = field(default=None, repr=False)
    """Name of the trace of a body that began in an earlier run of the workflow."""
    left: list[AsyncGenerator[Event, None]] = field(
        default_factory=list[AsyncGenerator[Event, None]], repr=False
    )
    """Runs of sub-agents that the body has begun and let go of before their end."""
    lane: Branch = field(repr=False)
    loop: Loop = field(repr=False)

    async def step(
        self,
        function: Callable[..., Any],
        *args: Any,
        timeout: float | None = None,  # noqa: ASYNC109 - of the function, wherever it runs
        **kwargs: Any,
    ) -> Any:
        """Run a function with I/O, sync or async, as a durable activity, and give its result.

        It runs at least once: after a crash that hit it in the middle it runs again. Once it has
        ended, its result is recorded and it is never run again for this place in the body.

        Args:
            function: A method of the agent, or a function of the module of its class.
            *args: JSON values.
            timeout: Seconds it may take; None: as a tool.
            **kwargs: JSON values.

        Raises:
            AgentError: What the function raised, named in `error_type`; also an instance of it if
                that is a plain builtin such as ValueError.
            StateValueError: An argument is not JSON.
            AgentDefinitionError: Other workers could not find the function.
        """
        return await self.loop.run_function(self, function, FunctionCall(args, kwargs, timeout))

    @property
    def app_name(self) -> str:
        """Name of the app."""
        return self.session.app_name

    @property
    def user_id(self) -> str:
        """Id of the user."""
        return self.session.user_id
