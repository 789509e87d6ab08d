"""The journal of a custom agent's body: its inputs, from which the body is rebuilt.

A body is a running Python generator and cannot be stored in a checkpoint. But all its actions
follow from its inputs. So when its invocation continues in a new workflow run (D10), the body runs
again from its start and receives the same inputs again, without any step being repeated, until it
reaches the same point. The journal is in the session store, not in a history.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from copy import deepcopy
from typing import Any, TypeVar

from durable_adk.calling.closing import closing
from durable_adk.calling.code_scope import refused
from durable_adk.context.loop import InvocationContext, LoopSession
from durable_adk.errors import AgentError, DurableAdkError, as_detail, from_detail
from durable_adk.events.event import Event

T = TypeVar("T")
Entry = list[Any]
"""A kind and its values: plain JSON."""

BEGIN, STATE, EVENT, END, ERROR, VALUE, GONE_ON, SLEPT, GIVEN_UP = (
    "begin",
    "state",
    "event",
    "end",
    "error",
    "value",
    "goneOn",
    "slept",
    "givenUp",
)


class Journal:
    """Records the inputs of one body, and plays them back while the body is rebuilt.

    Args:
        name: Name of the journal, unique in the invocation.
        agent: Name of the agent, for errors.
        session: The session that the body sees.
        past: The entries of earlier workflow runs; empty for a body that begins.
    """

    def __init__(
        self, name: str, agent: str, session: LoopSession, past: Iterable[Entry] = ()
    ) -> None:
        self.name = name
        self.fresh: list[Entry] = []
        """The entries of this workflow run."""
        self.sub_runs = 0
        """Number of sub-agent runs that have begun and not ended."""
        self.tangled = False
        """Whether the body has awaited two things at once: the journal cannot order them."""
        self.on_tangled: Callable[[], None] = lambda: None
        self._waits = 0
        self._begun = 0
        self._agent = agent
        self._session = session
        self._past = deque(past)
        self._present: dict[str, Any] | None = None
        """The current state, kept while the body sees its past state."""
        if self._past:
            self._present = dict(session.state)
            self._set_state(self._next(BEGIN)[1])
        else:
            self.fresh.append([BEGIN, deepcopy(session.state)])

    def is_past(self) -> bool:
        """Return whether the body is still being rebuilt: False after its last entry."""
        while self._past and self._past[0][0] == STATE:
            self._apply(self._past.popleft())
        if not self._past and self._present is not None:
            # Other sessions may have changed the state that they share with this one.
            self.changed(self._present, whole=True)
            self._set_state(self._present)
            self._present = None
        return bool(self._past)

    def changed(self, state: dict[str, Any], *, whole: bool = False) -> None:
        """Record a change of the state that the body did not make."""
        if state or whole:
            self.fresh.append([STATE, deepcopy(state), whole])

    def sub_run_name(self) -> str:
        """Return a name for the next run of a sub-agent, the same when the body is rebuilt."""
        self._begun += 1
        return f"sub-{self._begun}"

    async def sub_run(
        self, live: AsyncGenerator[Event, None], body: InvocationContext | None = None
    ) -> AsyncGenerator[Event, None]:
        """Yield a sub-agent's events: those of the journal, then the live ones.

        Args:
            live: The rest of the run.
            body: The body's context, if it has called a built-in body instead of a sub-agent:
                whether that has ended the agent is recorded, and restored on playback.
        """
        self.sub_runs += 1
        try:
            while self.is_past():
                kind, *rest = await self._past_one(EVENT, END, ERROR)
                if kind == END:
                    if body is not None:
                        body.end_invocation = body.end_invocation or rest[0]
                    return
                if kind == ERROR:
                    raise from_detail(rest[0])
                yield Event.read(rest[0])
            async with closing(live) as events:
                while (event := await self._live(anext(events, None))) is not None:
                    self.fresh.append([EVENT, event.model_dump(mode="json", exclude_none=True)])
                    yield event
            self.fresh.append([END, bool(body and body.end_invocation)])
        finally:
            self.sub_runs -= 1

    async def value(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await a function of the body and record its result.

        Raises:
            DurableAdkError: The function raised it.
        """
        value = await self._live(work)
        self.fresh.append([VALUE, deepcopy(value)])
        return value

    async def past_value(self) -> Any:
        """Play back the result of a function of the body.

        Raises:
            DurableAdkError: The function raised it then.
        """
        kind, *rest = await self._past_one(VALUE, ERROR)
        if kind == ERROR:
            raise from_detail(rest[0])
        return rest[0]

    async def _live(self, work: Awaitable[T]) -> T:
        """Await something; record an error, or that the body gave up waiting."""
        self._waits += 1
        if self._waits > 1:
            self.tangled = True
            self.on_tangled()
        try:
            return await work
        except DurableAdkError as error:
            self.fresh.append([ERROR, as_detail(error)])
            raise
        except asyncio.CancelledError:
            self.fresh.append([GIVEN_UP])
            raise
        finally:
            self._waits -= 1

    async def _past_one(self, *kinds: str) -> Entry:
        """Return the next entry; if the body gave up waiting, wait until it does so again."""
        entry = self._next(GIVEN_UP, *kinds)
        if entry[0] == GIVEN_UP:
            await asyncio.get_running_loop().create_future()
        return entry

    def past_yield(self) -> None:
        """Play back an event of the body itself, which is already committed."""
        self._next(GONE_ON)

    def went_on(self) -> None:
        """Record that the body was resumed after an event of its own."""
        self.fresh.append([GONE_ON])

    async def sleep(self, delay: float, result: Any = None) -> Any:
        """Sleep like `asyncio.sleep`; on playback, return at once."""
        if self.is_past():
            await self._past_one(SLEPT)
            return result
        await self._live(asyncio.sleep(delay))
        self.fresh.append([SLEPT])
        return result

    def _next(self, *kinds: str) -> Entry:
        entry = self._past.popleft() if self._past else [""]
        if entry[0] not in kinds:
            error = AgentError(
                f"The body of {self._agent!r} does not do what it did before its invocation was "
                "continued: its code has changed. Keep the old code for open invocations, with "
                "Worker Versioning."
            )
            raise refused(error)
        return entry

    def _apply(self, entry: Entry) -> None:
        _, state, whole = entry
        if whole:
            self._set_state(state)
        else:
            self._session.state.update(state)

    def _set_state(self, state: dict[str, Any]) -> None:
        """Change the dict in place: the body may hold a reference to it."""
        self._session.state.clear()
        self._session.state.update(state)
