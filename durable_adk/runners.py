"""The runner: sends messages to an app's agents and yields their committed events."""

import warnings
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, suppress
from typing import Any, Self

from google.genai import types
from temporalio.client import Client

from durable_adk.activities.tool.delegated import AgentResult
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.context_cache_config import ContextCacheConfig
from durable_adk.apps.app import App
from durable_adk.apps.resumability_config import ResumabilityConfig
from durable_adk.artifacts import BaseArtifactService, InMemoryArtifactService
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.auth.credential_service.in_memory_credential_service import (
    InMemoryCredentialService,
)
from durable_adk.client.debugging import SyncLoop, show
from durable_adk.client.invocation_client import Backend, InvocationClient
from durable_adk.client.invocations import Invocations
from durable_adk.client.local_backend import LocalBackend
from durable_adk.client.queries import read_attempts
from durable_adk.client.rewind import Rewinding
from durable_adk.client.streaming import events_of
from durable_adk.client.temporal_backend import TemporalBackend
from durable_adk.context.activity import ToolContext
from durable_adk.context.loop import InvocationContext
from durable_adk.context.step_scope import Services
from durable_adk.conversation.history import is_visible
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.errors import AlreadyExistsError, InvalidRequestError
from durable_adk.events.event import Event
from durable_adk.google_objects import from_google_adk, require_own
from durable_adk.graph.base_node import BaseNode
from durable_adk.json_values import check_id
from durable_adk.memory import BaseMemoryService, InMemoryMemoryService
from durable_adk.partials import PartialChannel, partials_of
from durable_adk.plugins.base_plugin import BasePlugin
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.sessions.call_attempt import CallAttempt
from durable_adk.sessions.in_memory_session_service import InMemorySessionService
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.state import is_temp, without_temp
from durable_adk.settings import DEFAULT_TASK_QUEUE, Limits
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.wire.messages import InvocationRequest, WhenBusy, check_follows, user_content
from durable_adk.wire.run_config import RunConfig


class Runner:
    """Runs an app's agents.

    With a Temporal `client`, each invocation is a workflow that workers run; it continues if this
    process dies. Without one, the same loop runs in this process (D14).
    """

    def __init__(
        self,
        *,
        session_service: SessionLog,
        app: App | None = None,
        app_name: str | None = None,
        agent: BaseNode | None = None,
        node: BaseNode | None = None,
        plugins: list[BasePlugin] | None = None,
        client: Client | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        artifact_service: BaseArtifactService | None = None,
        memory_service: BaseMemoryService | None = None,
        credential_service: BaseCredentialService | None = None,
        partials: PartialChannel | None = None,
        plugin_close_timeout: float = 5.0,
        auto_create_session: bool = False,
        limits: Limits | None = None,
    ) -> None:
        """Take `app`, `app_name` and `agent`, or `node` (RUN-10, RUN-11, GR-8).

        Args:
            session_service: The session store. With a `client`, use the workers' services.
            app: The app; with it, `app_name` overrides its name.
            app_name: The app's name; with a `node`, by default the node's.
            agent: Its root agent, or a `Workflow`.
            node: The same, or another node.
            plugins: Its plugins, without `app`; deprecated.
            client: A Temporal client; None: run in this process.
            task_queue: The task queue of the app's workers.
            artifact_service: The artifacts, which `rewind_async` restores.
            memory_service: The memory, for runs in this process.
            credential_service: Users' credentials; None: in memory, for runs in this process.
            partials: The channel of partial events, the workers' own; None: see `partials_of`.
            plugin_close_timeout: Seconds that `close` allows each plugin, for runs in this process.
            auto_create_session: Create missing sessions instead of rejecting the message.
            limits: Limits of runs in this process.

        Raises:
            InvalidRequestError: The app is not passed as above, or a store is google-adk's.
        """
        self.app, self.app_name = _one_app(app, app_name, agent, node, plugins)
        self.plugin_manager = PluginManager(self.app.plugins, plugin_close_timeout)
        require_own(session_service, artifact_service, credential_service)
        self.session_service, self.auto_create_session = session_service, auto_create_session
        self.artifact_service, self.memory_service = artifact_service, memory_service
        self.credential_service = credential_service or _in_memory(client)
        self.partials = partials or partials_of(session_service)
        self._client = self._make_client(self._make_backend(client, task_queue, limits or Limits()))
        self._sync = SyncLoop(self._client.backend.busy)

    def _make_client(self, backend: Backend) -> InvocationClient:
        return InvocationClient(
            sessions=self.session_service,
            backend=backend,
            credentials=self.credential_service,
            partials=self.partials,
        )

    def _make_backend(self, client: Client | None, task_queue: str, limits: Limits) -> Backend:
        if client is not None:
            return TemporalBackend(Invocations(client, task_queue), self.session_service)
        services = Services(
            artifacts=self.artifact_service,
            memory=self.memory_service,
            credentials=self.credential_service,
        )
        renamed = self.app.model_copy(update={"name": self.app_name})  # the key in the stores
        return LocalBackend(
            self.app if self.app.name == self.app_name else renamed,
            self.session_service,
            limits,
            services,
            partials=self.partials,
            plugin_manager=self.plugin_manager,
        )

    @property
    def agent(self) -> BaseNode:
        """The root: an agent, a `Workflow` or another node."""
        return self.app.root_agent

    @property
    def resumability_config(self) -> ResumabilityConfig | None:
        """The app's resumability configuration."""
        return self.app.resumability_config

    @property
    def context_cache_config(self) -> ContextCacheConfig | None:
        """The app's context cache configuration."""
        return self.app.context_cache_config

    async def run_async(
        self,
        *,
        user_id: str,
        session_id: str,
        new_message: types.Content | str | None = None,
        invocation_id: str | None = None,
        state_delta: dict[str, Any] | None = None,
        run_config: RunConfig | None = None,
        yield_user_message: bool = False,
        when_busy: WhenBusy | str = WhenBusy.ENQUEUE,
    ) -> AsyncGenerator[Event, None]:
        """Start, follow or answer an invocation; yield each event once it is committed (RUN-3).

        With `StreamingMode.SSE`, partial events precede the event that repeats their text. They are
        not stored and may be missing (EVT-15, FLW-70).

        Stopping the iteration cancels nothing. Calling again with the `invocation_id`, and the same
        message or none, yields the same events from the first (DUR-13).

        Args:
            user_id: The user.
            session_id: The user's session.
            new_message: A message, or function responses to pending calls. None: attach to
                `invocation_id`; without one, agents continue the session as it is.
            invocation_id: The id of the invocation, or of the answer; None: a new one.
            state_delta: Changes, committed with the user's event. Rejected when attaching.
            run_config: Options. Attaching takes only `streaming_mode`; answers take no `budget`.
            yield_user_message: Yield the user's event too (RUN-19).
            when_busy: What to do while another invocation is active in the session.

        Raises:
            CallerError: The request was rejected; nothing was stored.
            RunError: The run failed; its events, with the error event last, were yielded before.
            NoWorkerError: The message is kept, but no worker polls the task queue.
        """
        run_config = from_google_adk(run_config)
        if new_message is not None or not invocation_id:
            options = {"run_config": run_config, "when_busy": when_busy, "state_delta": state_delta}
            whose = (user_id, session_id, new_message)
            request = self._request(*whose, invocation_id=invocation_id, **options)
            feed = events_of(self._client.send(request))
        else:
            check_follows(state_delta, run_config)
            key = SessionKey(self.app_name, user_id, session_id)
            feed = events_of(self._client.attach(key, invocation_id))
        async with aclosing(feed):
            async for event in feed:
                if yield_user_message or event.author != "user":
                    yield event

    def _request(
        self, user_id: str, session_id: str, message: types.Content | str | None, **options: Any
    ) -> InvocationRequest:
        """Return a checked request; options that are None or empty keep their defaults."""
        return InvocationRequest.parse(
            {
                "app": self.app_name,
                "user": user_id,
                "session": check_id(session_id, "session_id"),
                "message": "" if message is None else message,
                "continues": message is None,
                "create_session": self.auto_create_session,
                **{name: value for name, value in options.items() if value},
            }
        )

    async def run_debug(
        self,
        user_messages: str | list[str],
        *,
        user_id: str = "debug_user_id",
        session_id: str = "debug_session_id",
        run_config: RunConfig | None = None,
        quiet: bool = False,
        verbose: bool = False,
    ) -> list[Event]:
        """Send messages one after the other and print their events; for experiments (RUN-31).

        Args:
            user_messages: One message or several.
            user_id: The user.
            session_id: The user's session; it is created if missing.
            run_config: Options.
            quiet: Print nothing.
            verbose: Print calls and responses too.

        Returns:
            The events of all invocations, without the user's. Raises what `run_async` raises.
        """
        await self._create_session(user_id, session_id)
        events: list[Event] = []
        for message in [user_messages] if isinstance(user_messages, str) else user_messages:
            run = self.run_async(
                user_id=user_id,
                session_id=session_id,
                new_message=message,
                run_config=run_config,
                yield_user_message=True,
            )
            async for event in run:
                if not quiet:
                    show(event, verbose=verbose)
                if event.author != "user":
                    events.append(event)
        return events

    async def _create_session(self, user_id: str, session_id: str) -> None:
        """Create the session if it is missing."""
        with suppress(AlreadyExistsError):
            await self.session_service.create_session(
                app_name=self.app_name, user_id=user_id, session_id=session_id
            )

    async def rewind_async(
        self,
        *,
        user_id: str,
        session_id: str,
        rewind_before_invocation_id: str,
        run_config: RunConfig | None = None,
    ) -> None:
        """Rewind a session to before an invocation (REW-1..3, RUN-32).

        Its later events stay stored and are ignored; session state and artifacts are restored, the
        latter as new versions. State of the user and of the app is kept, and effects of tools are
        not undone. Rewinding to before a rewind's invocation undoes that rewind. `run_config` has
        no effect, as in ADK.

        Raises:
            InvocationNotFoundError: The session has no such invocation (REW-4).
            SessionNotFoundError: The session does not exist, and is not created when missing.
            SessionBusyError: An invocation is active in the session.
            InvalidRequestError: Artifacts must be restored, and there is no artifact service.
        """
        del run_config
        rewinding = Rewinding(
            sessions=self.session_service,
            backend=self._client.backend,
            artifacts=self.artifact_service,
        )
        key = SessionKey(self.app_name, user_id, session_id)
        if self.auto_create_session:
            await self._create_session(user_id, session_id)
        await rewinding.rewind(key, rewind_before_invocation_id)

    async def pending(self, *, user_id: str, session_id: str) -> list[PendingCall]:
        """Return the session's calls that wait for an answer, oldest first (D9)."""
        return await self._client.pending(SessionKey(self.app_name, user_id, session_id))

    async def attempts(
        self, *, user_id: str, session_id: str, invocation_id: str
    ) -> list[CallAttempt]:
        """Return the model and tool call attempts that failed, were cancelled or were lost (I10).

        Their tokens are not in the `usage_metadata` of the invocation's events.
        """
        key = SessionKey(self.app_name, user_id, session_id)
        return await read_attempts(self.session_service, key, invocation_id)

    async def cancel(self, *, user_id: str, session_id: str, invocation_id: str) -> bool:
        """Cancel an invocation; its events stay, its open calls get responses (CAN-1, CAN-2).

        Returns:
            False if it had already ended.

        Raises:
            InvocationNotFoundError: The session has no invocation with this id.
        """
        key = SessionKey(self.app_name, user_id, session_id)
        return await self._client.cancel(key, invocation_id)

    def run(
        self, *, user_id: str, session_id: str, new_message: types.Content | str, **options: Any
    ) -> Generator[Event, None, None]:
        """Run `run_async` for code without an event loop (RUN-28, RUN-29).

        It runs in a thread with its own event loop, so it also works inside a running one
        (TRAP-46). Arguments and exceptions are those of `run_async`. Closing the generator early
        only stops following.
        """
        return self._sync.iterate(
            lambda: self.run_async(
                user_id=user_id, session_id=session_id, new_message=new_message, **options
            )
        )

    def run_live(self, **_: Any) -> AsyncGenerator[Event, None]:
        """Not supported: bidirectional streaming needs a connection, which a durable run lacks."""
        raise InvalidRequestError("run_live is not supported by durable_adk; use run_async.")

    async def close(self) -> None:
        """Stop the invocations that run in this process; those on Temporal continue."""
        await self._client.backend.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _in_memory(client: Client | None) -> BaseCredentialService | None:
    """Return the credentials of runs in this process; workers have their own."""
    return InMemoryCredentialService() if client is None else None


def _one_app(
    app: App | None,
    app_name: str | None,
    agent: BaseNode | None,
    node: BaseNode | None,
    plugins: list[BasePlugin] | None,
) -> tuple[App, str]:
    """Return the app, and the name under which it runs."""
    if plugins is not None and app is None:
        warnings.warn(
            "Runner(plugins=...) is deprecated; give it an App that has them.",
            DeprecationWarning,
            stacklevel=3,
        )
    app, agent, node = from_google_adk(app), from_google_adk(agent), from_google_adk(node)
    _require_node("agent", agent)
    _require_node("node", node)
    match app, agent, node:
        case App(), None, None if plugins is None:
            return app, app_name or app.name
        case None, BaseNode(), None if app_name:
            return App(name=app_name, root_agent=agent, plugins=plugins or []), app_name
        case None, None, BaseNode():
            made = App(name=app_name or node.name, root_agent=node, plugins=plugins or [])
            return made, made.name
        case None, None, None:
            reason = "One of app, agent, or node must be provided."
        case None, BaseNode(), None:
            reason = "app_name is required when agent is provided without app."
        case _, None, None:
            reason = "When app is provided, plugins should be provided in the app instead."
        case _:
            reason = "Only one of app, agent, or node may be provided."
    raise InvalidRequestError(reason)


def _require_node(field: str, value: object) -> None:
    if value is not None and not isinstance(value, BaseNode):
        raise InvalidRequestError(
            f"{field} is a {type(value).__name__}; pass an agent, a Workflow or another node. "
            "durable_adk.workflow.node makes a node of a function."
        )


class InMemoryRunner(Runner):
    """A runner with in-memory services, for tests and scripts (RUN-12)."""

    def __init__(
        self,
        agent: BaseNode | None = None,
        *,
        node: BaseNode | None = None,
        app_name: str | None = None,
        plugins: list[BasePlugin] | None = None,
        app: App | None = None,
        plugin_close_timeout: float = 5.0,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(
            session_service=InMemorySessionService(),
            artifact_service=InMemoryArtifactService(),
            memory_service=InMemoryMemoryService(),
            app=app,
            app_name=app_name if app or node else app_name or "InMemoryRunner",
            agent=agent,
            node=node,
            plugins=plugins,
            plugin_close_timeout=plugin_close_timeout,
            limits=limits,
        )


async def run_in_memory(agent: BaseAgent, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
    """Run an agent for a context that a test has made, on a copy of its session.

    The agent continues with the session as it is; as in ADK, only a runner stores events. State
    changes are applied to the context's session. On a branch, the agent sees no event of a sibling,
    and its own events are on that branch; in its body `ctx.branch` is below it.
    """
    session: Session = ctx.session
    root = agent if agent.parent_agent is None else agent.clone()
    plugins = list(ctx.plugin_manager.plugins) if ctx.plugin_manager else []
    sessions = InMemorySessionService()
    where = {"app_name": session.app_name, "user_id": session.user_id}
    state = session.state
    copy = await sessions.create_session(**where, session_id=session.id, state=state)
    for event in session.events:
        if is_visible(event, ctx.branch):
            actions = event.actions.model_copy(update={"state_delta": {}})
            seen = event.model_copy(update={"actions": actions, "branch": None})
            await sessions.append_event(copy, seen)
    runner = Runner(
        app=App(name=session.app_name, root_agent=root, plugins=plugins),
        session_service=sessions,
        artifact_service=ctx.artifact_service,
        memory_service=ctx.memory_service,
        credential_service=ctx.credential_service,
    )
    temp = {key: value for key, value in state.items() if is_temp(key)}
    run = runner.run_async(
        user_id=session.user_id, session_id=session.id, state_delta=temp, run_config=ctx.run_config
    )
    async with runner, aclosing(run):
        async for event in run:
            if not event.partial:
                session.state.update(event.actions.state_delta)
            branch = ".".join(filter(None, (ctx.branch, event.branch))) or None
            yield event.model_copy(update={"invocation_id": ctx.invocation_id, "branch": branch})


async def run_tool_in_memory(tool: AgentTool, message: str, context: ToolContext) -> Any:
    """Run a tool's agent for a context that a test has made, and return the result."""
    caller = context.get_invocation_context()
    session = Session(
        id=caller.session.id,
        app_name=caller.app_name,
        user_id=caller.user_id,
        state=without_temp(context.state.to_dict()),
        events=[Event(author="user", content=user_content(message))],
    )
    update: dict[str, Any] = {"session": session, "agent": tool.agent, "branch": None}
    if not tool.include_plugins:
        update["plugin_manager"] = None
    ctx = caller.model_copy(update=update)
    events = [event async for event in run_in_memory(tool.agent, ctx) if not event.partial]
    return AgentResult(events, None).taken(tool, context)
