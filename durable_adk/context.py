"""What user code is given: the contexts of callbacks, tools, instructions and custom agents.

The first three run inside an activity and see the whole session. `InvocationContext` is the loop's:
a custom agent's `_run_async_impl` gets it and must stay deterministic.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from google.genai import types

from durable_adk.errors import NotInLoopError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.payloads import AgentNode
from durable_adk.run_config import RunConfig
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.state import State

if TYPE_CHECKING:
    from durable_adk.agents.base_agent import BaseAgent


@dataclass(kw_only=True)
class StepScope:
    """Where a step of an agent is: what its contexts are made of."""

    session: Session
    """A copy of the committed session, plus the invocation's local state."""
    invocation_id: str
    agent_name: str
    branch: str | None
    user_content: types.Content | None
    end_invocation: bool = False


class ReadonlyContext:
    """What an instruction provider may see (semantics CTX-5)."""

    def __init__(self, scope: StepScope) -> None:
        self._scope = scope

    @property
    def invocation_id(self) -> str:
        """Id of the invocation."""
        return self._scope.invocation_id

    @property
    def agent_name(self) -> str:
        """Name of the running agent."""
        return self._scope.agent_name

    @property
    def user_id(self) -> str:
        """Id of the session's user."""
        return self._scope.session.user_id

    @property
    def user_content(self) -> types.Content | None:
        """The message that started the invocation."""
        return self._scope.user_content

    @property
    def session(self) -> Session:
        """The session; changing this copy changes nothing in storage (STA-17)."""
        return self._scope.session

    @property
    def state(self) -> Mapping[str, Any]:
        """The state, read-only."""
        return MappingProxyType(self._scope.session.state)


class CallbackContext(ReadonlyContext):
    """What a callback may see and change (semantics CTX-6).

    State changes are recorded in `actions.state_delta` and ride on the step's event (STA-16).
    """

    def __init__(self, scope: StepScope, *, actions: EventActions | None = None) -> None:
        super().__init__(scope)
        self.actions = actions or EventActions()
        self._state = State(scope.session.state, self.actions.state_delta)

    @property
    def state(self) -> State:  # pyright: ignore[reportIncompatibleMethodOverride]: ADK narrows it to a writable state
        """The state; writes are recorded."""
        return self._state

    def end_invocation(self) -> None:
        """End this agent's run before its next step (CTX-11)."""
        self._scope.end_invocation = True


class ToolContext(CallbackContext):
    """What a tool may see and change (semantics CTX-7, CTX-8)."""

    def __init__(
        self, scope: StepScope, *, function_call_id: str, actions: EventActions | None = None
    ) -> None:
        super().__init__(scope, actions=actions)
        self.function_call_id = function_call_id

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this call, different for every other call (DUR-9).

        Pass it to whatever the tool changes outside, so that a second attempt after a crash finds
        the first one's effect.
        """
        return f"{self._scope.invocation_id}:{self.function_call_id}"


class Loop(Protocol):
    """What an `InvocationContext` needs of the loop."""

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
    run_start: int = 0
    """The session's revision when this agent's run began."""
    direct: bool = True
    """Whether its events reach the loop unchanged: no custom agent passes them on."""
    closes: bool = False
    """Whether its final text ends the invocation."""
    loop: Loop = field(repr=False)

    @property
    def app_name(self) -> str:
        """Name of the app."""
        return self.session.app_name

    @property
    def user_id(self) -> str:
        """Id of the user."""
        return self.session.user_id
