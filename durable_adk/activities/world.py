"""What the effects of one worker work with."""

import copy
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.apps.registry import AppRegistry
from durable_adk.context import StepScope
from durable_adk.events.event import Event
from durable_adk.payloads import Step
from durable_adk.sessions.base_session_service import BaseSessionService, StoredEvent
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.settings import Limits


class SessionCache:
    """Events of recently used sessions, so that a step reads only the tail it lacks (D3).

    Committed events never change and are only ever appended, so an entry can be stale but not
    wrong. Entries are replaced, never changed: steps of two threads may load the same session.
    """

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._entries: OrderedDict[SessionKey, tuple[Event, ...]] = OrderedDict()

    async def events(
        self, sessions: BaseSessionService, key: SessionKey, revision: int
    ) -> list[Event]:
        """The session's first `revision` events."""
        known = self._entries.get(key, ())
        if len(known) < revision:
            tail = await sessions.read_events(key, after=len(known), upto=revision)
            known = self._extend(key, known, tail)
        return list(known[:revision])

    def add(self, key: SessionKey, seq: int, event: Event) -> None:
        """Take over an event that was just committed, if it is the next one."""
        known = self._entries.get(key)
        if known is not None and len(known) == seq - 1:
            self._extend(key, known, [StoredEvent(seq=seq, event=event)])

    def _extend(
        self, key: SessionKey, known: tuple[Event, ...], tail: list[StoredEvent]
    ) -> tuple[Event, ...]:
        known = (*known, *(item.event for item in tail))
        self._entries[key] = known
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return known


async def everyone_is_alive(holder: str) -> bool:
    """The answer of a process that cannot look: nobody is taken over from."""
    del holder
    return True


@dataclass(kw_only=True)
class World:
    """The apps, the stores and the limits."""

    registry: AppRegistry
    registry_name: str = "local"
    """Under which name workflows find the registry; see `apps.registry.serve`."""
    sessions: BaseSessionService
    limits: Limits = field(default_factory=Limits)
    is_alive: Callable[[str], Awaitable[bool]] = everyone_is_alive
    """Whether the holder of a lease still runs; see `InvocationRecord.holder`."""
    cache: SessionCache = field(default_factory=SessionCache)

    async def scope(self, step: Step) -> tuple[BaseAgent, StepScope]:
        """The agent of a step and where it is, rebuilt from the stores (D3).

        Raises:
            UnknownAppError: The app is not served here.
            AgentDefinitionError: The agent is gone.
            SessionNotFoundError: The session was deleted.
        """
        agent = self.registry.agent(step.key.app_name, step.agent)
        _, state = await self.sessions.read_state(step.key)
        events = await self.cache.events(self.sessions, step.key, step.revision)
        session = Session(
            id=step.key.session_id,
            app_name=step.key.app_name,
            user_id=step.key.user_id,
            state=state | copy.deepcopy(step.local_state),
            revision=step.revision,
        )
        # Set afterwards: pydantic would validate, and copy, every event again.
        session.events = events
        user_event = next((e for e in events if e.invocation_id == step.invocation_id), None)
        scope = StepScope(
            session=session,
            invocation_id=step.invocation_id,
            agent_name=step.agent,
            branch=step.branch,
            user_content=user_event.content if user_event else None,
        )
        return agent, scope
