"""The step of a context: what the runtime knows, and user code reaches through its context."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from google.genai import types

from durable_adk.artifacts.base_artifact_service import BaseArtifactService, Fence
from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.calling.copies import lazy, lazy_models, own_copy
from durable_adk.context.loop import InvocationContext, RunningAgent
from durable_adk.events.event import Event
from durable_adk.memory.base_memory_service import BaseMemoryService
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.state_merge import Base
from durable_adk.wire.graph.node_run import NodeSite
from durable_adk.wire.run_config import RunConfig


class CredentialService(Protocol):
    """The part of `BaseCredentialService` that a context uses; that class imports this module."""

    async def load_credential(
        self, auth_config: AuthConfig, callback_context: Any
    ) -> AuthCredential | None:
        """Return the stored credential of the context's user, if there is one."""
        ...

    async def save_credential(self, auth_config: AuthConfig, callback_context: Any) -> None:
        """Store the exchanged credential of the context's user."""
        ...


@dataclass(frozen=True, kw_only=True)
class Services:
    """The optional services that user code reaches through its context."""

    artifacts: BaseArtifactService | None = None
    memory: BaseMemoryService | None = None
    credentials: CredentialService | None = None


def step_session(
    key: SessionKey, events: Sequence[Event], *, state: dict[str, Any], revision: int = 0
) -> Session:
    """Return the session for user code, with its own copies of the events that it reads."""
    return lazy(
        Session,
        _with_events,
        events,
        id=key.session_id,
        app_name=key.app_name,
        user_id=key.user_id,
        state=state,
        last_update_time=0.0,
        revision=revision,
    )


def _with_events(events: Sequence[Event]) -> Session:
    return Session.model_construct(events=lazy_models(Event, own_copy, events))


async def _pass() -> None:
    """Do nothing: the fence of a context without an invocation."""


@dataclass(kw_only=True)
class StepScope:
    """The step of a context."""

    session: Session
    """The session for user code, with the `temp:` state of the invocation; see `step_session`."""
    events: Sequence[Event] = ()
    """The session's committed events, shared by steps; user code must not get them."""
    invocation_id: str
    agent_name: str
    branch: str | None
    user_content: types.Content | None
    event_id: str = ""
    """Id of the event that the step produces; the same for every attempt."""
    run_config: RunConfig = field(default_factory=RunConfig)
    services: Services = field(default_factory=Services)
    agent: RunningAgent | None = None
    """The running agent, if this worker has it."""
    artifact_owner: SessionKey | None = None
    """The session that owns the artifacts, if it is another one: for an `AgentTool` (ART-12)."""
    stored: Mapping[str, Base] = field(default_factory=dict[str, Base])
    """Bases of the values that differ from the stored ones, by key; see `sessions.state_merge`."""
    end_invocation: bool = False
    missing_toolsets: list[str] = field(default_factory=list[str])
    """Toolsets that could not be listed for the step's prompt, and why."""
    ahead: bool = False
    """Whether the store has events that the loop did not know when it scheduled the step."""
    plugins: Callable[[], Iterable[Any]] = tuple[Any, ...]
    """Returns the plugins that see the step."""
    has_call: Callable[[str], bool] = frozenset[str]().__contains__
    """Returns whether an earlier function call of the invocation has this id."""
    build_contents: Callable[..., list[types.Content]] | None = None
    """`conversation.contents.build_contents` with what earlier steps have rendered."""
    created_epoch: int = 0
    """Distinguishes the session from deleted ones of its name; see `Head.created_epoch`."""
    prompt: Sequence[Event] | None = None
    """The events that an agent's model sees, if the agent is a node of a graph."""
    site: NodeSite | None = None
    """The run of a node that the step belongs to."""
    fence: Fence = _pass
    """Raises LeaseLostError or SessionNotFoundError if the invocation may store nothing more."""

    @property
    def incarnation(self) -> list[int]:
        """The part of keys that distinguishes this session from earlier ones of the same names."""
        return [self.created_epoch] if self.created_epoch else []

    @classmethod
    def of(cls, context: InvocationContext) -> "StepScope":
        """Build the scope of a context that user code has created, for a test.

        That context may be a mock, and lack the fields that have no value in the class.
        """
        session: Any = context.session
        return cls(
            session=session,
            invocation_id=getattr(context, "invocation_id", ""),
            agent_name=getattr(context.agent, "name", None) or context.agent_name,
            agent=context.agent,
            branch=context.branch,
            user_content=context.user_content,
            run_config=getattr(context, "run_config", None) or RunConfig(),
            services=Services(
                artifacts=context.artifact_service,
                memory=context.memory_service,
                credentials=context.credential_service,
            ),
        )
