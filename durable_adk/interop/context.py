"""google-adk's contexts on top of an activity's: for callbacks, tools and providers."""

# pyright: reportPrivateUsage=false
# google-adk's own tools, and its users, read some of its private attributes.

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from google.adk.agents.base_agent import BaseAgent as AdkBaseAgent
from google.adk.agents.context import Context as AdkContext
from google.adk.agents.invocation_context import InvocationContext as AdkInvocationContext
from google.adk.agents.readonly_context import ReadonlyContext as AdkReadonlyContext
from google.adk.agents.run_config import (
    RunConfig as AdkRunConfig,
    StreamingMode as AdkStreamingMode,
)
from google.adk.auth.auth_credential import AuthCredential as AdkAuthCredential
from google.adk.auth.auth_tool import AuthConfig as AdkAuthConfig
from google.adk.plugins.plugin_manager import PluginManager as AdkPluginManager
from google.adk.sessions.base_session_service import GetSessionConfig as AdkGetSessionConfig
from google.adk.sessions.state import State as AdkState
from google.adk.workflow._errors import DynamicNodeFailError, NodeInterruptedError

from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.context.activity import Context, ReadonlyContext
from durable_adk.errors import (
    DynamicNodeFailError as OurDynamicNodeFailError,
    NodeInterruptedError as OurNodeInterruptedError,
    StateValueError,
)
from durable_adk.events.event import Event
from durable_adk.events.request_input import RequestInput
from durable_adk.interop.proxies import AgentProxy
from durable_adk.interop.services import NoSessions, StepArtifacts, StepCredentials, StepMemory
from durable_adk.interop.values import (
    adk_actions,
    adk_confirmation,
    adk_credential,
    adk_session,
    adopt_actions,
    our_auth_config,
    show_requests,
)
from durable_adk.sessions.state import State
from durable_adk.wire.run_config import RunConfig

_NO_SESSIONS = NoSessions()
_OPTIONS = (RunConfig.model_fields.keys() & AdkRunConfig.model_fields.keys()) - {
    "streaming_mode",
    "tool_thread_pool_config",
    "get_session_config",
}


_TEMP = AdkState.TEMP_PREFIX
_NONE: Mapping[str, AuthCredential] = {}


class SharedState(AdkState):
    """A state of google-adk's class that reads from and writes to this package's state."""

    def __init__(
        self, ours: State, schema: Any = None, credentials: Mapping[str, AuthCredential] = _NONE
    ) -> None:
        """Create it.

        Args:
            ours: This package's state.
            schema: The state's schema.
            credentials: What google-adk's `AuthHandler` finds under ``temp:`` and their keys.
        """
        super().__init__(ours._value, ours._delta, schema)
        self._ours, self._credentials = ours, credentials

    def __getitem__(self, key: str) -> Any:
        return self._ours[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if self._schema is not None:
            AdkState({}, {}, self._schema)[key] = value  # raises google-adk's schema errors
        self._ours[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self._ours

    def __iter__(self) -> Iterator[str]:
        return iter(self._ours)

    def get(self, key: str, default: Any = None) -> Any:
        """See base class."""
        found = self._credentials.get(key.removeprefix(_TEMP)) if key.startswith(_TEMP) else None
        return self._ours.get(key, default) if found is None else adk_credential(found)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """See base class."""
        if key not in self._ours:
            self[key] = default
        return self._ours.setdefault(key, default)

    def update(self, delta: Mapping[str, Any]) -> None:
        """See base class."""
        if self._schema is not None:
            AdkState({}, {}, self._schema).update(dict(delta))
        self._ours.update(delta)

    def has_delta(self) -> bool:
        """See base class."""
        return self._ours.has_delta()

    def to_dict(self) -> dict[str, Any]:
        """See base class."""
        return self._ours.to_dict()

    def _record_nested_writes(self) -> None:
        with suppress(StateValueError):  # raised again when the step collects its changes
            self._ours.collect_delta()


class SharedContext(AdkContext):
    """A context of google-adk's class for a callback or tool, on top of this package's context."""

    def __init__(self, ours: Context) -> None:
        super().__init__(
            adk_invocation(ours, writable=ours),
            event_actions=adk_actions(ours._actions),
            function_call_id=ours.function_call_id,
            tool_confirmation=adk_confirmation(ours.tool_confirmation),
            node=getattr(ours.node, "adk", None),
            node_path=ours.node_path,
            run_id=ours.run_id,
            resume_inputs=ours.resume_inputs,
            attempt_count=ours.attempt_count,
        )
        self._ours = ours
        self._state = SharedState(ours.state, ours.state.schema, ours.provided_credentials)
        site = ours._scope.site
        self._isolation_scope = site and site.scope
        self._event_author = ours._scope.agent_name if ours.node is not None else ""

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for all attempts of a call; google-adk has no equivalent."""
        return self._ours.idempotency_key

    def get_auth_response(self, auth_config: AdkAuthConfig) -> AdkAuthCredential | None:
        """Return the credential that the user provided in this invocation, if any (TOL-53)."""
        credential = self._ours.get_auth_response(our_auth_config(auth_config))
        return adk_credential(credential)

    def request_credential(self, auth_config: AdkAuthConfig) -> None:
        """Request a credential from the user (TOL-50)."""
        self._ours.request_credential(our_auth_config(auth_config))
        show_requests(self._ours._actions, self._event_actions)

    def request_confirmation(self, *, hint: str | None = None, payload: Any | None = None) -> None:
        """Request the user's confirmation of this call (TOL-60)."""
        super().request_confirmation(hint=hint, payload=payload)
        self._ours.request_confirmation(hint=hint, payload=payload)
        self._event_actions.skip_summarization = True

    def refresh(self) -> None:
        """Copy changes made to this package's context since the last use into google-adk's."""
        actions, shown = self._ours._actions, self._event_actions
        fresh = adk_actions(actions)
        vars(shown).update(vars(fresh))
        show_requests(actions, shown)
        self._state._delta = actions.state_delta

    def adopt_changes(self) -> None:
        """Copy the changes that code has made to google-adk's context into this package's."""
        adopt_actions(self._ours._actions, self._event_actions)
        if self._invocation_context.end_invocation:
            self._ours._scope.end_invocation = True
        if not self._output_emitted and self._ours.output is None:
            self._ours.output = self._output_value
        if not self._route_emitted:
            self._ours.route = self._route_value

    def note(self, item: Event | RequestInput) -> None:
        """Show what the node has yielded, as google-adk does.

        Raises:
            ValueError: The node has an output already.
        """
        self.adopt_changes()
        if isinstance(item, RequestInput):
            self._interrupt_ids.add(item.interrupt_id)
            return
        if item.output is not None:
            self.output, self._output_emitted = item.output, True
        if item.actions.route is not None:
            self.route, self._route_emitted = item.actions.route, True
        self._interrupt_ids.update(item.long_running_tool_ids or ())

    async def run_node(self, node: Any, node_input: Any = None, **options: Any) -> Any:
        """Run a node as a child of this one; see `Context.run_node`.

        Raises:
            DynamicNodeFailError: google-adk's, if the node has failed.
            NodeInterruptedError: google-adk's, if it waits.
        """
        self.adopt_changes()
        try:
            return await self._ours.run_node(node, node_input, **options)
        except OurDynamicNodeFailError as error:
            cause = error.error or error
            raise DynamicNodeFailError(
                message=error.message, error=cause, error_node_path=error.error_node_path
            ) from error
        except OurNodeInterruptedError as waits:
            raise NodeInterruptedError from waits
        finally:
            self.refresh()


_KEPT = "adk_context"
"""Attribute of this package's contexts that caches google-adk's."""


def adk_context(ours: Context) -> SharedContext:
    """Return google-adk's context on top of this package's.

    It is cached, so that the hooks of a call and its tool share one object, as in ADK.
    """
    shared = vars(ours).get(_KEPT)
    if shared is None:
        shared = vars(ours)[_KEPT] = SharedContext(ours)
    else:
        shared.refresh()
    return shared


@contextmanager
def shared_context(ours: Context) -> Generator[SharedContext]:
    """Yield google-adk's context on top of this package's; adopt its changes in any case."""
    shared = adk_context(ours)
    try:
        yield shared
    finally:
        shared.adopt_changes()


def adk_readonly(ours: ReadonlyContext | None) -> AdkReadonlyContext | None:
    """Return a context of google-adk's class for a provider."""
    if ours is None:
        return None
    if isinstance(ours, Context):
        return adk_context(ours)
    return AdkReadonlyContext(adk_invocation(ours))


def adk_invocation(ours: ReadonlyContext, *, writable: Context | None = None) -> Any:
    """Return a step's invocation context as google-adk's."""
    scope = ours._scope
    services, context = scope.services, writable or Context(scope)
    return AdkInvocationContext.model_construct(
        invocation_id=scope.invocation_id,
        agent=None if _is_of_graph(ours) else _agent_of(ours),
        session=adk_session(scope.session),
        branch=scope.branch,
        user_content=scope.user_content,
        run_config=adk_run_config(scope.run_config),
        session_service=_NO_SESSIONS,
        artifact_service=StepArtifacts(context) if services.artifacts else None,
        memory_service=StepMemory(context) if services.memory else None,
        credential_service=StepCredentials(context) if services.credentials else None,
        plugin_manager=_adk_plugins(scope.plugins()),
        end_invocation=False,
    )


def _is_of_graph(ours: ReadonlyContext) -> bool:
    """Return whether the context is that of a node or a graph, where google-adk's has no agent."""
    is_node = isinstance(ours, Context) and ours.node is not None
    return is_node or getattr(ours, "agent", ours) is None


def _agent_of(ours: ReadonlyContext) -> Any:
    scope = ours._scope
    return adk_agent(getattr(ours, "agent", None) or scope.agent, scope.agent_name)


def _adk_plugins(plugins: Iterable[Any]) -> AdkPluginManager:
    """Return google-adk's plugins among these, which its `AgentTool` passes on to its own runs."""
    theirs = [getattr(plugin, "adk", None) for plugin in plugins]
    return AdkPluginManager([plugin for plugin in theirs if plugin is not None])


def adk_agent(agent: Any, name: str = "") -> Any:
    """Return google-adk's original of a converted agent, or a proxy of this package's agent."""
    adk = getattr(agent, "adk", None)
    if isinstance(adk, AdkBaseAgent):
        return adk
    proxy = AgentProxy.of(agent, name)
    below = [adk_agent(child) for child in agent.sub_agents] if agent else []
    proxy.sub_agents = below
    for child in below:
        if isinstance(child, AgentProxy):
            child.parent_agent = proxy
    return proxy


def adk_run_config(config: RunConfig) -> AdkRunConfig:
    """Convert a run's options to google-adk's class."""
    options = {name: value for name in _OPTIONS if (value := getattr(config, name)) is not None}
    recent = config.get_session_config
    return AdkRunConfig.model_construct(
        **options,
        streaming_mode=AdkStreamingMode(config.streaming_mode.value),
        get_session_config=recent and AdkGetSessionConfig.model_validate(recent.model_dump()),
    )
