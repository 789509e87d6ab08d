"""The dependencies of all effects on one worker: apps, stores, limits and callbacks."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from durable_adk.activities.commit.session_cache import KnownEvents, SessionCache
from durable_adk.activities.node.inputs import NodeValues
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.apps.app import App
from durable_adk.apps.registry import AppRegistry
from durable_adk.calling.copies import own_copy
from durable_adk.context.step_scope import Services, StepScope, step_session
from durable_adk.conversation.contents import build_contents
from durable_adk.conversation.history import USER, recent
from durable_adk.conversation.nodes.events import as_content, prompt_events, shows
from durable_adk.errors import SessionRegressedError
from durable_adk.events.event import Event
from durable_adk.graph.base_node import BaseNode
from durable_adk.partials.channel import PartialChannel
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.retrying import SERVICE_TIMEOUT, STORE_TIMEOUT, Deadline, retrying
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.state import is_temp
from durable_adk.sessions.state_merge import MISSING, base_of
from durable_adk.settings import Limits, Webhooks
from durable_adk.wire.graph.node_run import NodeSite
from durable_adk.wire.messages import InvocationAnswer
from durable_adk.wire.run_config import RunConfig
from durable_adk.wire.steps import HookStep, Step
from durable_adk.wire.webhook import DeliverStep


def _seen(step: Step, known: KnownEvents) -> list[Event]:
    """Return the events that a step may see; earlier invocations' events may be limited (SSN-6)."""
    config = step.run_config.get_session_config if step.run_config else None
    if config is None:
        return known.events
    return [*recent(known.events[: known.start], config), *known.events[known.start :]]


def _prompt(agent: LlmAgent, scope: StepScope, site: NodeSite, value: Any) -> list[Event]:
    """Return the events that the model of an agent that is a node sees (GR-62, GR-181)."""
    given = Event(author=USER, branch=scope.branch, content=as_content(value) or scope.user_content)
    own = prompt_events(scope.events, given, site, scope.invocation_id)
    if not agent.sees_history:
        return own
    mine = {event.id for event in own}
    others = (event for event in scope.events if event.id not in mine)
    before = [event for event in others if shows(event, site.path, site.scope)]
    return [*before, *(own[1:] if site.input.take == "message" else own)]


async def assume_alive(lease_owner: str) -> bool:
    """Liveness check for processes that cannot check: no lease owner is ever taken over."""
    del lease_owner
    return True


async def skip_staleness_check(key: SessionKey) -> None:
    """Do nothing, in processes without a Temporal client."""
    del key


async def steer_none(key: SessionKey, record: InvocationRecord, answer: InvocationAnswer) -> bool:
    """Do nothing: without a Temporal client the message waits for its turn."""
    del key, record, answer
    return False


async def interrupt_nobody(key: SessionKey, record: InvocationRecord) -> None:
    """Do nothing: without a Temporal client an invocation runs to its own end."""
    del key, record


async def start_nothing(step: DeliverStep) -> None:
    """Do nothing: without a Temporal client no notification can be delivered."""
    del step


@dataclass(kw_only=True)
class Dependencies:
    """The apps, stores and limits that effects use."""

    registry: AppRegistry
    registry_name: str = "local"
    """The name under which workflows find the registry; see `apps.registry.serve`."""
    build: str = ""
    """The build of this worker's code."""
    sessions: SessionLog
    limits: Limits = field(default_factory=Limits)
    model_task_queues: Mapping[str, str] = field(default_factory=dict[str, str])
    """Task queue by model name; other models are called on the invocation's own task queue."""
    services: Services = field(default_factory=Services)
    is_alive: Callable[[str], Awaitable[bool]] = assume_alive
    """Whether a lease owner still runs; see `InvocationRecord.lease_owner`."""
    check_store: Callable[[SessionKey], Awaitable[None]] = skip_staleness_check
    """Raises SessionRegressedError if a session is older than it was; see `StalenessCheck`."""
    interrupt: Callable[[SessionKey, InvocationRecord], Awaitable[None]] = interrupt_nobody
    """Requests the end of an invocation's run; idempotent."""
    steer: Callable[[SessionKey, InvocationRecord, InvocationAnswer], Awaitable[bool]] = steer_none
    """Notifies an invocation's run of a waiting message, and returns whether it could be reached.
    Whether the message is delivered shows later."""
    max_in_place: int = 0
    """Maximum attempts that wait for their sessions in place; see `queue.InPlaceWaits`."""
    waiting_pages: int = 0
    """Number of requests for a page that wait for events, see `read_session_events`."""
    rebuilding: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, 1))
    """Only one attempt at a time has a whole session in memory, see `read_model_requests`."""
    webhooks: Webhooks | None = None
    """Endpoints of webhooks; None: only receivers of A2A's push notifications."""
    start_delivery: Callable[[DeliverStep], Awaitable[None]] = start_nothing
    """Starts the delivery of a webhook; idempotent."""
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """See `NodeValues.given`."""
    cache: SessionCache = field(init=False)
    partials: PartialChannel | None = None
    """Channel for the chunks of streamed responses; None: they are dropped."""

    def __post_init__(self) -> None:
        """Create the cache with the size that the limits set."""
        self.cache = SessionCache(max_bytes=self.limits.session_cache_bytes)

    async def scope(self, step: Step) -> tuple[BaseNode, StepScope]:
        """Return a step's agent, or graph, and its scope, rebuilt from the stores (D3).

        Raises:
            UnknownAppError: The app is not served here.
            AgentNotFoundError: The agent was removed, or is not registered on this worker yet.
            SessionNotFoundError: The session was deleted.
            LeaseLostError: The session was deleted and created again.
        """
        agent = self.registry.app(step.key.app_name).node_of(step)
        revision, state, known = await self._read(step)
        scope = self.scope_over(step, state, known)
        scope.agent = agent if isinstance(agent, BaseAgent) else None
        scope.ahead = revision > step.revision or step.branch is not None
        if step.site is not None and isinstance(agent, LlmAgent) and agent.mode != "chat":
            value = self.node_values(step, scope).of(step.site.input)
            scope.prompt = _prompt(agent, scope, step.site, value)
        return agent, scope

    def node_values(self, step: Step, scope: StepScope) -> NodeValues:
        """Return where the values come from that the nodes of a graph are given."""
        app = self.registry.app(step.key.app_name)
        return NodeValues(
            events=scope.events,
            user_content=scope.user_content,
            items=app.items_at,
            input_schema=app.input_schema_at,
            given=self.given,
        )

    def with_called(self, app: App, given: Mapping[str, Any]) -> "Dependencies":
        """Return dependencies for nodes that the code of a node calls; the stores are the same.

        Args:
            app: The app with the called nodes.
            given: What they are given.
        """
        made = copy.copy(self)
        made.registry, made.given = self.registry.replacing(app), given
        return made

    def changes_events(self, step: Step) -> bool:
        """Return whether user code may change or drop a step's event before it is stored.

        Raises:
            UnknownAppError: The app is not served here.
            AgentNotFoundError: The agent was removed, or is not registered on this worker yet.
        """
        app = self.registry.app(step.key.app_name)
        node = app.node_of(step)
        root = node.root_agent if isinstance(node, BaseAgent) else app.root_agent
        manifest = root.node() if isinstance(root, BaseAgent) else app.manifest()
        return manifest.any_custom() or "on_event_callback" in self.plugins(step).hooks()

    def plugins(self, step: Step) -> PluginManager:
        """Return the plugins that see a step; none if the run skips plugins."""
        if step.plugins is False:
            return PluginManager()
        return self.registry.app(step.key.app_name).plugin_manager

    def scope_over(self, step: Step, state: dict[str, Any], known: KnownEvents) -> StepScope:
        """Build a step's scope from the state and events read of its session."""
        events = _seen(step, known)
        mine = known.events[known.start : known.start + 1]
        return StepScope(
            events=events,
            session=step_session(
                step.key,
                events,
                state=state | copy.deepcopy(step.local_state),
                revision=step.revision,
            ),
            invocation_id=step.invocation_id,
            agent_name=step.agent,
            branch=step.branch,
            user_content=own_copy(mine[0].content) if mine else None,
            event_id=step.event_id,
            run_config=own_copy(step.run_config) or RunConfig(),
            services=self.services,
            artifact_owner=step.artifact_owner,
            # A custom agent has written these without committing them; `temp:` keys are in no
            # store.
            stored={
                key: base_of(state.get(key, MISSING), value)
                for key, value in step.local_state.items()
                if not is_temp(key)
            },
            plugins=lambda: self.plugins(step).plugins,
            has_call=known.has_call,
            build_contents=partial(build_contents, kept=known.contents),
            created_epoch=known.created_epoch,
            site=step.site,
            fence=retrying(partial(self._require_open, step), SERVICE_TIMEOUT),
        )

    async def _require_open(self, step: Step) -> None:
        """Reject writes of a step whose invocation, or its caller's, has ended."""
        if step.run_epoch is None:
            return  # no invocation is open yet
        await self.sessions.require_open(
            step.key,
            invocation_id=step.invocation_id,
            epoch=step.run_epoch,
            ended=isinstance(step, HookStep),  # plugins still see the end
        )
        if step.artifact_owner is not None:
            await self.sessions.require_open(step.artifact_owner, invocation_id=step.invocation_id)

    async def _read(self, step: Step) -> tuple[int, dict[str, Any], KnownEvents]:
        """Return the session's revision, and its state and events as the step may see them.

        Waits for a store that is briefly unavailable, so that an outage costs few attempts. A store
        that is older than the run needs an operator, so that wait may take all of the step's time.
        """
        deadline = Deadline(STORE_TIMEOUT)

        async def read() -> tuple[int, dict[str, Any], KnownEvents]:
            revision, state = await self.sessions.read_state(step.key, epoch=step.run_epoch)
            if revision < step.revision:
                deadline.postpone(step.attempt_timeout)
                raise SessionRegressedError
            known = await self.cache.read(
                self.sessions, step.key, step.revision, step.invocation_id
            )
            return revision, state, known

        return await retrying(read, deadline, warns=True)()
