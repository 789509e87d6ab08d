"""The context of a custom agent's body, which runs in the loop and must be deterministic."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from google.genai import types

from durable_adk import calling
from durable_adk.calling.code_scope import refused
from durable_adk.errors import NotInLoopError
from durable_adk.events.event import Event
from durable_adk.registry import registered
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import checked_seconds
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.run_config import RunConfig


class FunctionCall(NamedTuple):
    """The arguments and the timeout of a call of `InvocationContext.step`."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    timeout: float | None
    """Seconds; None: a tool's default."""


class SubRun(AsyncGenerator[Event, None]):
    """A custom agent's handle on the run of a sub-agent.

    A body may abandon the run with ``break``. Python then finalises an async generator as soon as
    nothing refers to it, without awaiting it; but the steps that run in it must be awaited. So the
    body holds only this handle, and the loop closes the abandoned generator as soon as it regains
    control.
    """

    def __init__(
        self, events: AsyncGenerator[Event, None], abandoned: list[AsyncGenerator[Event, None]]
    ) -> None:
        self._events = events
        self._abandoned = abandoned
        self._over = False

    def __aiter__(self) -> "SubRun":
        return self

    async def __anext__(self) -> Event:
        return await self.asend(None)

    async def asend(self, value: None) -> Event:
        """Return the next event."""
        try:
            return await self._events.asend(value)
        except BaseException:
            self._over = True
            raise

    async def athrow(self, *error: Any) -> Event:
        """Raise an error at the run's current point."""
        self._over = True
        return await self._events.athrow(*error)

    async def aclose(self) -> None:
        """End the run now."""
        self._over = True
        await self._events.aclose()

    def __del__(self) -> None:
        if not self._over:
            self._abandoned.append(self._events)


class RunningAgent(Protocol):
    """The part of its tree's agents that an agent's body may read; every `BaseAgent` is one."""

    @property
    def name(self) -> str:
        """Name of the agent, unique in its tree."""
        ...

    @property
    def description(self) -> str:
        """The agent's purpose."""
        ...

    @property
    def sub_agents(self) -> "Sequence[RunningAgent]":
        """The agents below it."""
        ...

    @property
    def parent_agent(self) -> "RunningAgent | None":
        """The agent above it."""
        ...

    @property
    def root_agent(self) -> "RunningAgent":
        """The top of its tree."""
        ...

    def find_agent(self, name: str) -> "RunningAgent | None":
        """Return this agent, or the one of that name below it (AGT-3)."""
        ...

    def node(self) -> AgentNode:
        """Return the manifest's record of the agent (D6)."""
        ...


@dataclass
class LoopSession:
    """The loop's view of the session: its ids and its state, but not its events."""

    key: SessionKey
    state: dict[str, Any]
    """Committed state, plus `temp:` keys and values that agent code wrote here (dirty writes,
    STA-17)."""

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
        """Not available: the conversation stays in the store (D3)."""
        error = NotInLoopError(
            "session.events is not available in _run_async_impl: the loop does not carry the "
            "conversation. Call `await ctx.events()`, or read it in a callback or a tool."
        )
        raise refused(error)


class NoService:
    """Placeholder for a service in a body, which does no I/O; raises an error when used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        error = NotInLoopError(
            f"{self._name}.{method} is not available in _run_async_impl, which may run again at "
            "any time. Call it in a callback, a tool or a function for ctx.step."
        )
        raise error if method.startswith("_") else refused(error)


class Loop:
    """The calls of `InvocationContext` for one run of an agent; in the event loop, a subclass's.

    This class serves a context that a test has created: nothing is durable there.
    """

    async def read_events(self, ctx: "InvocationContext") -> list[dict[str, Any]]:
        """Return the session's committed events, as JSON."""
        return [event.model_dump(mode="json", exclude_none=True) for event in ctx.session.events]

    async def run_function(
        self, ctx: "InvocationContext", function: Callable[..., Any], call: FunctionCall
    ) -> Any:
        """Run a function as a step of its own."""
        del ctx
        return await calling.call(function, *call.args, **call.kwargs)

    def run_agent(
        self, agent: RunningAgent, ctx: "InvocationContext"
    ) -> AsyncGenerator[Event, None]:
        """Run an agent with its callbacks; in a test, on a copy of the context's session."""
        return _run_in_memory(agent, ctx)

    def run_built_in(
        self, node: AgentNode, ctx: "InvocationContext"
    ) -> AsyncGenerator[Event, None]:
        """Run a built-in agent's own body; in a test, with its callbacks."""
        del node
        return _run_in_memory(ctx.agent, ctx)


def _run_in_memory(
    agent: RunningAgent | None, ctx: "InvocationContext"
) -> AsyncGenerator[Event, None]:
    return registered("runners").run_in_memory(agent, ctx)


def run_tool_in_memory(tool: Any, message: str, context: Any) -> Awaitable[Any]:
    """Run the agent of an `AgentTool`, for a tool's context that a test has made."""
    return registered("runners").run_tool_in_memory(tool, message, context)


@dataclass(kw_only=True)
class InvocationContext:
    """The context of a custom agent's `_run_async_impl` (CTX-2, CTX-4).

    Each run of an agent has a context of its own; the session is shared by the whole invocation.

    A test may create one, with a session and the services that the code under test uses, to create
    contexts of tools and callbacks, and to run agents.
    """

    invocation_id: str
    session: Any
    """The loop's `LoopSession`, which has no events; in a test a `Session`."""
    agent: RunningAgent | None = None
    """The agent; None while a built-in agent runs that this worker no longer has."""
    agent_name: str = ""
    user_content: types.Content | None = None
    run_config: RunConfig = field(default_factory=RunConfig)
    branch: str | None = None
    end_invocation: bool = False
    session_service: Any = None
    artifact_service: Any = None
    memory_service: Any = None
    credential_service: Any = None
    plugin_manager: Any = None
    loop: Loop = field(default_factory=Loop, repr=False)
    """Runs steps and agents."""

    def __post_init__(self) -> None:
        self.run_config = self.run_config or RunConfig()
        if not self.agent_name:
            # A mock of an agent in a test may have no name, as in ADK.
            self.agent_name = getattr(self.agent, "name", "unknown")

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> "InvocationContext":
        """Return a copy with some fields replaced; the session is shared."""
        return replace(self, **(update or {}))

    async def step(
        self,
        function: Callable[..., Any],
        *args: Any,
        timeout: float | None = None,  # noqa: ASYNC109 - the function's, wherever it runs
        **kwargs: Any,
    ) -> Any:
        """Run a function with I/O, sync or async, as a durable activity, and return its result.

        The function runs at least once: a crash in the middle makes it run again. Once it has
        ended, its result is recorded, and it never runs again at this point of the body.

        Args:
            function: A method of the agent, or a function of the module of its class.
            *args: JSON values.
            timeout: Maximum seconds; None: a tool's default.
            **kwargs: JSON values.

        Raises:
            Exception: The exception that the function raised (DUR-10).
            StateValueError: An argument is not JSON.
            AgentDefinitionError: Other workers could not find the function, or the timeout is not a
                positive, finite number.
        """
        limit = checked_seconds(timeout, "timeout of ctx.step")
        return await self.loop.run_function(self, function, FunctionCall(args, kwargs, limit))

    async def events(self) -> list[Event]:
        """Return the session's events, those committed in this invocation included.

        An activity reads them, and its result is recorded: a body that runs again gets the same
        ones. Each call costs an activity, and the events are added to the history.

        Raises:
            PayloadTooLargeError: They are larger than 1 MB. Read them in a callback or a tool, and
                put the data that the body needs into the state.
        """
        return [Event.read(event) for event in await self.loop.read_events(self)]

    @property
    def app_name(self) -> str:
        """Name of the app."""
        return self.session.app_name

    @property
    def user_id(self) -> str:
        """Id of the user."""
        return self.session.user_id
