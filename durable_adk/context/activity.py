"""The contexts of user code in activities: callbacks, tools and instruction providers.

They can read the whole session. Their changes are recorded in the step's `EventActions` and
committed with the step's event (STA-16). The context of a custom agent's body is
`durable_adk.context.loop.InvocationContext`.
"""

import hashlib
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from google.genai import types

from durable_adk.artifacts.base_artifact_service import (
    ArtifactReader,
    ArtifactVersion,
    BaseArtifactService,
    fenced,
)
from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.auth.oauth import with_consent_page, with_token, without_client_secret
from durable_adk.auth.redaction import without_secrets
from durable_adk.context.loop import InvocationContext, run_tool_in_memory
from durable_adk.context.step_scope import CredentialService, StepScope
from durable_adk.errors import AgentError, InvalidRequestError, StateValueError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.events.tool_confirmation import ConfirmationRequester, ToolConfirmation
from durable_adk.json_values import canonical
from durable_adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from durable_adk.memory.memory_entry import MemoryEntry
from durable_adk.retrying import retrying_service
from durable_adk.sessions.session import Session
from durable_adk.sessions.state import State
from durable_adk.wire.graph.node_run import run_key
from durable_adk.wire.run_config import RunConfig

MAX_ACTIVITY_ID = 1_000
"""Maximum bytes of a key that is also an activity id; Temporal's `limit.maxIDLength`."""


class ReadonlyContext:
    """The context of an instruction provider (CTX-5).

    Args:
        invocation_context: The runtime's scope, or in a test an `InvocationContext`.
    """

    def __init__(self, invocation_context: InvocationContext | StepScope) -> None:
        if isinstance(invocation_context, StepScope):
            self._scope, self._made_of = invocation_context, None
        else:
            self._scope, self._made_of = StepScope.of(invocation_context), invocation_context

    @property
    def _invocation_context(self) -> InvocationContext:
        """The invocation, for code that reads ADK's private attribute; changes have no effect."""
        scope = self._scope
        return self._made_of or InvocationContext(
            invocation_id=scope.invocation_id,
            agent=scope.agent,
            agent_name=scope.agent_name,
            session=scope.session,
            user_content=scope.user_content,
            run_config=scope.run_config,
            branch=scope.branch,
            artifact_service=scope.services.artifacts,
            memory_service=scope.services.memory,
            credential_service=scope.services.credentials,
        )

    def get_invocation_context(self) -> InvocationContext:
        """Return the invocation as this step sees it; changes to it have no effect."""
        return self._invocation_context

    @property
    def invocation_id(self) -> str:
        """Id of the invocation."""
        return self._scope.invocation_id

    @property
    def agent_name(self) -> str:
        """Name of the running agent."""
        return self._scope.agent_name

    @property
    def app_name(self) -> str:
        """Name of the app."""
        return (self._made_of or self._scope.session).app_name

    @property
    def user_id(self) -> str:
        """Id of the session's user."""
        return (self._made_of or self._scope.session).user_id

    @property
    def user_content(self) -> types.Content | None:
        """The message that started the invocation."""
        return self._scope.user_content

    @property
    def branch(self) -> str | None:
        """The branch of a ParallelAgent on which the step runs."""
        return self._scope.branch

    @property
    def run_config(self) -> RunConfig:
        """The run configuration of the invocation."""
        return self._scope.run_config

    @property
    def custom_metadata(self) -> Mapping[str, Any]:
        """The custom metadata of the run configuration, read-only."""
        return MappingProxyType(self._scope.run_config.custom_metadata or {})

    @property
    def session(self) -> Session:
        """The session; changing this copy changes nothing in the store (STA-17)."""
        return self._scope.session

    @property
    def state(self) -> Mapping[str, Any]:
        """The state, read-only."""
        return MappingProxyType(self._scope.session.state)


def _calls_no_nodes(node: Any) -> Exception:
    """Return the error of code that calls a node and must not, or cannot."""
    if node is None or node.rerun_on_resume:
        return AgentError(
            "run_node works in the code of a function node, or of a subclass of Node; here is none."
        )
    return ValueError(
        "A node must have rerun_on_resume=True. Reason is that dynamically scheduled nodes may be "
        "interrupted, and this node then runs again: use @node(rerun_on_resume=True)."
    )


class Context(ReadonlyContext):
    """The context of a callback or a tool (CTX-6, CTX-7, CTX-8).

    State changes are recorded in `actions.state_delta`, saved artifacts in
    `actions.artifact_delta`; both are committed with the step's event (STA-16, CTX-9).

    A tool's calls to services with an unavailable store are retried for some seconds.

    Args:
        invocation_context: The runtime's scope, or in a test an `InvocationContext`.
        event_actions: Actions to add to.
        function_call_id: Id of the tool's call; None in a callback.
        tool_confirmation: The user's decision, in the run that follows it (TOL-63).
        node: The node of a graph, for a test of its code.
        node_path: The path of its run, for a test.
        run_id: The id of its run, for a test.
        resume_inputs: The answers to its questions, for a test.
        attempt_count: The number of its attempt, for a test.
        save_key: Distinguishes the saves of several callbacks of one step.
    """

    def __init__(
        self,
        invocation_context: InvocationContext | StepScope,
        *,
        event_actions: EventActions | None = None,
        function_call_id: str | None = None,
        tool_confirmation: ToolConfirmation | None = None,
        node: Any = None,
        node_path: str | None = None,
        run_id: str = "",
        resume_inputs: dict[str, Any] | None = None,
        attempt_count: int = 1,
        save_key: str = "",
    ) -> None:
        super().__init__(invocation_context)
        self._actions = event_actions or EventActions()
        self.function_call_id = function_call_id
        self.tool_confirmation = tool_confirmation
        self.run_agent: Callable[[Any, str], Any] | None = None
        """Returns the result of an `AgentTool` that the tool's code runs with a message."""
        if self._made_of is not None:
            self.run_agent = partial(run_tool_in_memory, context=self)
        self.call_node: Callable[..., Awaitable[Any]] | None = None
        """Runs a node that the node's code calls; see `run_node`."""
        self.requested_by: ConfirmationRequester | None = None
        """The code that requested a confirmation of this call, as far as recorded (I16)."""
        self.provided_credentials: dict[str, AuthCredential] = {}
        """Credentials that the user provided in this invocation, by key."""
        self.node = node
        """The node whose code runs; None for agents, tools and callbacks."""
        self.resume_inputs = resume_inputs or {}
        """The answers to the node's questions, by interrupt id."""
        self._output: Any = None
        self.route: Any = None
        """The route that the node chooses: the last that its code has set here or yielded."""
        self._asked: set[str] = set()
        self._set_run(node_path, run_id, attempt_count)
        self.exchanged_credentials: list[AuthConfig] = []
        """Configurations whose code was exchanged for a token that is yet to be saved."""
        scope = self._scope
        self._state = State(
            scope.session.state,
            self._actions.state_delta,
            read=self._actions.state_read,
            stored=scope.stored,
        )
        # Not joined: models choose the ids of calls, and clients those of invocations.
        names = [scope.invocation_id, scope.event_id, function_call_id, save_key]
        self._save_key = [*names, *scope.incarnation]
        self._saves: dict[str, int] = {}

    @property
    def state(self) -> State:  # pyright: ignore[reportIncompatibleMethodOverride]: ADK narrows it to a writable state
        """The state; writes are recorded."""
        return self._state

    @property
    def output(self) -> Any:
        """The output of the node: what its code has set here or yielded, at most once (GR-90)."""
        return self._output

    @output.setter
    def output(self, value: Any) -> None:
        if self._output is not None:
            raise ValueError("Output already set. A node can produce at most one output.")
        self._output = value

    def drop_output(self) -> None:
        """Forget the output of code that has failed, for the runtime."""
        self._output = None

    @property
    def interrupt_ids(self) -> set[str]:
        """The ids of the questions that the node's code has yielded since it began to run."""
        return set(self._asked)

    @property
    def event_author(self) -> str:
        """The author of the node's events: its graph; empty outside of graphs (GR-77)."""
        return self._scope.agent_name if self._scope.site else ""

    @property
    def isolation_scope(self) -> str | None:
        """The `isolation_scope` of the node's events (GR-82)."""
        return self._scope.site.scope if self._scope.site else None

    def note(self, event: Event) -> None:
        """Let the node's code see what it has yielded, for the runtime.

        Raises:
            ValueError: The node has an output already.
        """
        if event.output is not None:
            self.output = event.output
        if event.actions.route is not None:
            self.route = event.actions.route
        self._asked.update(event.long_running_tool_ids or ())

    def _set_run(self, node_path: str | None, run_id: str, attempt_count: int) -> None:
        site = self._scope.site
        self.node_path = site.path if site else node_path or ""
        """The path of the node's run, as in `Event.node_info`; empty outside of graphs."""
        self.run_id = self.node_path.rpartition("@")[2] if site else run_id
        """The id of the node's run: the last part of its path, behind the ``@``."""
        self.attempt_count = site.attempt if site else attempt_count
        """The number of the node's attempt, from 1."""

    @property
    def scope(self) -> StepScope:
        """The step, for the runtime."""
        return self._scope

    async def run_node(
        self,
        node: Any,
        node_input: Any = None,
        *,
        use_as_output: bool = False,
        run_id: str | None = None,
        use_sub_branch: bool = False,
        override_branch: str | None = None,
        override_isolation_scope: str | None = None,
        raise_on_wait: bool = False,
    ) -> Any:
        """Run another node as a part of this one, and return its output (GR-150).

        Once the other node has ended, it does not run again, even if this node's code does: after
        an answer, or a lost worker. So call nodes in the same order each time.

        Args:
            node: Anything that a graph can have as a node.
            node_input: Its input. For an agent, None is the user's message.
            use_as_output: Whether its output is this node's as well.
            run_id: The last part of its path; by default a number. The same id again returns the
                first output.
            use_sub_branch: Whether its events are on a branch of their own.
            override_branch: That branch.
            override_isolation_scope: The `isolation_scope` of its events.
            raise_on_wait: Accepted as in ADK: a node that waits always ends this code.

        Returns:
            The other node's output; None if it has none.

        Raises:
            ValueError: This node lacks rerun_on_resume=True, or the run id is a number.
            DynamicNodeFailError: The other node has failed.
            NodeInterruptedError: It waits for an answer; this code runs again afterwards.
            AgentError: No node's code runs here.
        """
        del raise_on_wait
        if self.call_node is None:
            raise _calls_no_nodes(self.node)
        return await self.call_node(
            node,
            node_input,
            run_id=run_id,
            use_as_output=use_as_output,
            use_sub_branch=use_sub_branch,
            branch=override_branch,
            isolation_scope=override_isolation_scope,
        )

    # ----- state and actions

    @property
    def actions(self) -> EventActions:
        """The actions committed with the step's event, including in-place changes of state."""
        with suppress(StateValueError):  # raised when the step collects its changes
            self._state.collect_delta()
        return self._actions

    @actions.setter
    def actions(self, actions: EventActions) -> None:
        self._actions = actions

    def end_invocation(self) -> None:
        """End this agent's run before its next step (CTX-11)."""
        self._scope.end_invocation = True

    # ----- artifacts

    async def save_artifact(
        self, filename: str, artifact: types.Part, custom_metadata: dict[str, Any] | None = None
    ) -> int:
        """Save a new version of an artifact; returns its number, counted from 0 (CTX-9, ART-3).

        The bytes are stored immediately. A step that runs again after a crash uses the same key, so
        it does not create a second version (TRAP-41).

        Raises:
            InvalidRequestError: There is no artifact service, or the name is invalid.
            LeaseLostError: The invocation has ended meanwhile; nothing is stored.
        """
        async with fenced(self._scope.fence):
            version = await self._artifacts.save_artifact(
                **self._owner(),
                filename=filename,
                artifact=artifact,
                custom_metadata=custom_metadata,
                save_key=self._next_save_key(filename),
            )
        self.actions.artifact_delta[filename] = version
        return version

    async def save_artifact_stream(
        self,
        filename: str,
        chunks: AsyncIterable[bytes],
        *,
        mime_type: str = "application/octet-stream",
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Save a new version from chunks, for content that is too large for memory.

        Otherwise like `save_artifact`. A step that runs again may not consume `chunks`.

        Raises:
            InvalidRequestError: There is no artifact service, or the name is invalid.
            LeaseLostError: The invocation has ended meanwhile; nothing is stored.
        """
        async with fenced(self._scope.fence):
            version = await self._artifacts.save_artifact_stream(
                **self._owner(),
                filename=filename,
                chunks=chunks,
                mime_type=mime_type,
                custom_metadata=custom_metadata,
                save_key=self._next_save_key(filename),
            )
        self.actions.artifact_delta[filename] = version
        return version

    async def load_artifact(self, filename: str, version: int | None = None) -> types.Part | None:
        """Return a version of an artifact, by default the latest, if it exists (ART-5)."""
        wanted: dict[str, Any] = (
            {} if version is None else {"version": version}
        )  # ADK's older services accept none
        return await self._artifacts.load_artifact(**self._owner(), filename=filename, **wanted)

    async def open_artifact(
        self, filename: str, version: int | None = None
    ) -> ArtifactReader | None:
        """Return a reader for a version, by default the latest, if it exists."""
        return await self._artifacts.open_artifact(
            **self._owner(), filename=filename, version=version
        )

    async def list_artifacts(self) -> list[str]:
        """Return the sorted names of the session's and the user's artifacts (ART-6)."""
        return await self._artifacts.list_artifact_keys(**self._owner())

    async def get_artifact_version(
        self, filename: str, version: int | None = None
    ) -> ArtifactVersion | None:
        """Return the metadata of a version, by default the latest (ART-11)."""
        return await self._artifacts.get_artifact_version(
            **self._owner(), filename=filename, version=version
        )

    @property
    def _artifacts(self) -> BaseArtifactService:
        return self._required(self._scope.services.artifacts, "artifact_service")

    def _next_save_key(self, filename: str) -> str:
        """Return the key of the n-th save of this name in the step; the same for every attempt."""
        self._saves[filename] = self._saves.get(filename, 0) + 1
        return canonical([*self._save_key, self._saves[filename]])

    def _owner(self) -> dict[str, str]:
        session = self._scope.session
        owner = self._scope.artifact_owner
        session_id = owner.session_id if owner else session.id
        return {
            "app_name": self.app_name,
            "user_id": self.user_id,
            "session_id": session_id,
        }

    # ----- memory

    async def search_memory(self, query: str) -> SearchMemoryResponse:
        """Search the user's memory (MEM-5).

        Raises:
            InvalidRequestError: There is no memory service.
        """
        return await self._memory.search_memory(
            app_name=self.app_name, user_id=self.user_id, query=query
        )

    async def add_session_to_memory(self) -> None:
        """Add or replace this session, as committed, in the user's memory (MEM-3)."""
        await self._scope.fence()
        await self._memory.add_session_to_memory(self._scope.session)

    async def add_events_to_memory(
        self, *, events: Sequence[Event], custom_metadata: Mapping[str, object] | None = None
    ) -> None:
        """Add events to the user's memory (MEM-6)."""
        await self._scope.fence()
        await self._memory.add_events_to_memory(
            app_name=self.app_name,
            user_id=self.user_id,
            events=events,
            session_id=self._scope.session.id,
            custom_metadata=custom_metadata,
        )

    async def add_memory(
        self,
        *,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add entries to the user's memory (MEM-6)."""
        await self._scope.fence()
        await self._memory.add_memory(
            app_name=self.app_name,
            user_id=self.user_id,
            memories=memories,
            custom_metadata=custom_metadata,
        )

    @property
    def _memory(self) -> BaseMemoryService:
        return self._required(self._scope.services.memory, "memory_service")

    # ----- credentials

    async def load_credential(self, auth_config: AuthConfig) -> AuthCredential | None:
        """Return the user's stored credential for this configuration, if there is one."""
        return await self._credentials.load_credential(auth_config, self)

    async def save_credential(self, auth_config: AuthConfig) -> None:
        """Store the configuration's exchanged credential for the user, outside of all events."""
        await self._scope.fence()
        await self._credentials.save_credential(auth_config, self)

    @property
    def _credentials(self) -> CredentialService:
        return self._required(self._scope.services.credentials, "credential_service")

    # ----- tools

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for all attempts of this call, or run of a node (DUR-9).

        Pass it to the systems that the tool changes, so that a second attempt after a crash finds
        the effect of the first. It has at most `MAX_ACTIVITY_ID` bytes.
        """
        scope, call_id = self._scope, self.function_call_id or self._node_key() or self._call_id()
        # Other sessions, of other users too, may have an invocation and a call of these ids.
        names = [*scope.session.key, scope.invocation_id, call_id, *scope.incarnation]
        digest = hashlib.sha256(canonical(names).encode()).hexdigest()
        key = f"{scope.invocation_id}:{digest[:32]}:{call_id}"
        # Providers may put anything into a call's id, even whole thoughts.
        return key if len(key.encode()) <= MAX_ACTIVITY_ID else digest

    def request_confirmation(self, *, hint: str | None = None, payload: Any = None) -> None:
        """Ask the user to approve this call; the tool runs again with the decision (TOL-60, 61).

        The invocation pauses until then, whatever this run returns.

        Raises:
            InvalidRequestError: This is not a tool's context.
        """
        self.actions.requested_tool_confirmations[self._call_id()] = ToolConfirmation(
            hint=hint or "", payload=payload
        )
        self.actions.skip_summarization = True

    def request_credential(self, auth_config: AuthConfig) -> None:
        """Ask the user for a credential; the tool runs again with it (TOL-50..53).

        For OAuth2 the request has the URL of the page where the user consents. The event, and so
        every store and history, contains no secrets (TOL-55).

        Raises:
            InvalidRequestError: This is not a tool's context.
        """
        asked = with_consent_page(auth_config, call=self.idempotency_key)
        self.actions.requested_auth_configs[self._call_id()] = without_secrets(asked)

    def get_auth_response(self, auth_config: AuthConfig) -> AuthCredential | None:
        """Return the credential that the user provided in this invocation, if any (TOL-53).

        If it has an OAuth2 code but no token, the code is exchanged, as in ADK; that may take
        seconds. `load_credential` also finds credentials of earlier invocations.
        """
        key = auth_config.key
        given = self.provided_credentials.get(key)
        if given is None:
            return None
        credential = with_token(auth_config, given)
        kept = without_client_secret(credential)
        if kept.oauth2 and given.oauth2 and kept.oauth2.access_token != given.oauth2.access_token:
            self.provided_credentials[key] = kept
            self.exchanged_credentials.append(
                auth_config.model_copy(update={"exchanged_auth_credential": kept})
            )
        return credential

    def _node_key(self) -> str | None:
        """Return what the attempts of a node's run have in common; None outside of graphs."""
        site = self._scope.site
        return run_key(site.prefix) if site is not None else None

    def _call_id(self) -> str:
        if not self.function_call_id:
            raise InvalidRequestError("Only a tool's context can do this: there is no call here.")
        return self.function_call_id

    def _required(self, service: Any, name: str) -> Any:
        if service is None:
            raise InvalidRequestError(f"There is no {name}; pass one to the Runner or the worker.")
        return service if self.function_call_id is None else retrying_service(service)


CallbackContext: TypeAlias = Context
ToolContext: TypeAlias = Context
