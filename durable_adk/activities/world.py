"""What the effects of one worker work with."""

import asyncio
import copy
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.apps.registry import AppRegistry
from durable_adk.context import Services, StepScope
from durable_adk.errors import SessionRegressedError, StoreUnavailableError
from durable_adk.events.event import Event
from durable_adk.flows.history import recent
from durable_adk.log import get_logger
from durable_adk.messages import InvocationAnswer
from durable_adk.partials.channel import PartialChannel
from durable_adk.payloads import Step
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.run_config import RunConfig
from durable_adk.sessions.base_session_service import BaseSessionService, InvocationRecord
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.settings import Limits

STORE_PATIENCE = 30.0
"""Seconds a step waits for the store within one attempt."""

logger = get_logger(__name__)


class SessionCache:
    """Events of recently used sessions, so that a step reads only the tail it lacks (D3).

    Committed events never change and are only ever appended, so an entry can be stale but not
    wrong, unless the session was deleted and made anew. An invocation's first step here makes sure
    of that; within an invocation the lease does.
    """

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._entries: OrderedDict[SessionKey, _Entry] = OrderedDict()
        self._lock = threading.Lock()  # steps and commits come from two event loops

    async def events(
        self, sessions: BaseSessionService, key: SessionKey, revision: int, invocation_id: str
    ) -> list[Event]:
        """The session's first `revision` events."""
        entry = self._entries.get(key)
        known = entry.events if entry else ()
        if entry is None or entry.seen_by != invocation_id:
            after = max(len(known) - 1, 0)
            tail = await sessions.read_events(key, after=after, upto=max(revision, len(known)))
            if known and not (tail and tail[0].event.id == known[-1].id):
                tail = await sessions.read_events(key, upto=revision)
                after = 0
            known = (*known[:after], *(item.event for item in tail))
        elif len(known) < revision:
            tail = await sessions.read_events(key, after=len(known), upto=revision)
            known = (*known, *(item.event for item in tail))
        self._keep(key, _Entry(known, invocation_id))
        return list(known[:revision])

    def begin(self, key: SessionKey, event: Event) -> None:
        """Take over the first event of a new session, whatever was known under that name."""
        self._keep(key, _Entry((event,), event.invocation_id))

    def add(self, key: SessionKey, seq: int, event: Event) -> None:
        """Take over an event that was just committed, if it is the next one."""
        entry = self._entries.get(key)
        if entry is not None and len(entry.events) == seq - 1:
            self._keep(key, _Entry((*entry.events, event), entry.seen_by))

    def _keep(self, key: SessionKey, entry: "_Entry") -> None:
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)


class _Entry(NamedTuple):
    """Replaced, never changed: several steps may be using it."""

    events: tuple[Event, ...]
    seen_by: str
    """The invocation that made sure the events are this session's."""


def _seen(step: Step, events: list[Event]) -> list[Event]:
    """The events that a step may see: of those before its invocation maybe only some (SSN-6)."""
    config = step.run_config.get_session_config if step.run_config else None
    if config is None:
        return events
    mine = (at for at, event in enumerate(events) if event.invocation_id == step.invocation_id)
    start = next(mine, len(events))
    return [*recent(events[:start], config), *events[start:]]


async def everyone_is_alive(holder: str) -> bool:
    """The answer of a process that cannot look: nobody is taken over from."""
    del holder
    return True


async def nothing_is_known() -> None:
    """What a process does that has nobody to ask what its store should know."""


async def nobody_is_steered(
    key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
) -> None:
    """What a process does that reaches nobody: the message waits for its turn."""
    del key, record, answer


async def nobody_is_interrupted(key: SessionKey, record: InvocationRecord) -> None:
    """What a process does that cannot reach runs: they end when they end."""
    del key, record


@dataclass(kw_only=True)
class World:
    """The apps, the stores and the limits."""

    registry: AppRegistry
    registry_name: str = "local"
    """Under which name workflows find the registry; see `apps.registry.serve`."""
    sessions: BaseSessionService
    limits: Limits = field(default_factory=Limits)
    model_task_queues: Mapping[str, str] = field(default_factory=dict[str, str])
    """By a model's name, where it is called; other ones where the invocation is."""
    services: Services = field(default_factory=Services)
    is_alive: Callable[[str], Awaitable[bool]] = everyone_is_alive
    """Whether the holder of a lease still runs; see `InvocationRecord.holder`."""
    check_store: Callable[[], Awaitable[None]] = nothing_is_known
    """Raises SessionRegressedError if the store is older than it was; see `StoreWitness`."""
    interrupt: Callable[[SessionKey, InvocationRecord], Awaitable[None]] = nobody_is_interrupted
    """Asks the run of an invocation to end; it may be asked any number of times."""
    steer: Callable[[SessionKey, InvocationRecord, InvocationAnswer], Awaitable[None]] = (
        nobody_is_steered
    )
    """Tells the run of an invocation that a message waits; whether it is heard shows later."""
    cache: SessionCache = field(default_factory=SessionCache)
    partials: PartialChannel | None = None
    """Where the chunks of streamed answers go; None: nowhere."""

    async def scope(self, step: Step) -> tuple[BaseAgent, StepScope]:
        """The agent of a step and where it is, rebuilt from the stores (D3).

        Raises:
            UnknownAppError: The app is not served here.
            AgentNotFoundError: The agent is gone, or not here yet.
            SessionNotFoundError: The session was deleted.
        """
        agent = self.registry.agent(step.key.app_name, step.agent)
        revision, state, events = await self._read(step)
        scope = self.scope_over(step, state, events)
        scope.ahead = revision > step.revision
        return agent, scope

    def plugins(self, step: Step) -> PluginManager:
        """The plugins that see a step; none, if the run is to go without them."""
        if step.plugins is False:
            return PluginManager()
        return self.registry.app(step.key.app_name).plugin_manager

    def scope_over(self, step: Step, state: dict[str, Any], events: list[Event]) -> StepScope:
        """Where a step is, over what was read of its session."""
        session = Session(
            id=step.key.session_id,
            app_name=step.key.app_name,
            user_id=step.key.user_id,
            state=state | copy.deepcopy(step.local_state),
            revision=step.revision,
        )
        # Set afterwards: pydantic would validate, and copy, every event again.
        session.events = _seen(step, events)
        user_event = next((e for e in events if e.invocation_id == step.invocation_id), None)
        return StepScope(
            session=session,
            invocation_id=step.invocation_id,
            agent_name=step.agent,
            branch=step.branch,
            user_content=user_event.content if user_event else None,
            event_id=step.event_id,
            run_config=step.run_config or RunConfig(),
            services=self.services,
            artifact_owner=step.artifact_owner,
        )

    async def _read(self, step: Step) -> tuple[int, dict[str, Any], list[Event]]:
        """The session's revision, and state and events as the step may see them.

        Waits for a store that is away for a moment, so an outage costs few attempts. Where it
        is older than the run, somebody has to be called, so that may take all of the step's time.
        """
        begun = time.monotonic()
        until = begun + STORE_PATIENCE
        told = False
        while True:
            try:
                revision, state = await self.sessions.read_state(step.key)
                if revision < step.revision:
                    until = max(until, begun + step.attempt_timeout)
                    raise SessionRegressedError
                events = await self.cache.events(
                    self.sessions, step.key, step.revision, step.invocation_id
                )
            except StoreUnavailableError as error:
                if time.monotonic() > until:
                    raise
                if not told:  # once, and not five times a second
                    logger.warning("store.unavailable", error_type=error.error_type)
                told = True
            else:
                return revision, state, events
            await asyncio.sleep(0.2)
