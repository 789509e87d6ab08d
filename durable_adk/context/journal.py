"""What the body of a custom agent has been given so far: enough to bring it back to where it was.

A body is a running piece of Python and cannot be put into a cursor. But whatever it does follows
from what it was given. So when its invocation goes on in a new run of the workflow (design D10),
the body is run again from its first line, and is given the same again, without any step being made
again, until it stands where it stood. What it was given is in the session store, not in a history.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from copy import deepcopy
from typing import Any, TypeVar

from durable_adk.closing import closing
from durable_adk.context.loop import InvocationContext, LoopSession
from durable_adk.errors import AgentError, DurableAdkError, as_detail, from_detail
from durable_adk.events.event import Event
from durable_adk.wire.manifest import AgentNode

T = TypeVar("T")
Entry = list[Any]
"""Its kind, and what came with it: plain JSON."""

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
    """The record of one body, and what is left of it while the body is brought back.

    Args:
        name: Its name within the invocation.
        agent: Whose body it is, for errors.
        session: What the body sees of the session.
        past: The entries of earlier runs of the workflow; empty for a body that begins.
    """

    def __init__(
        self, name: str, agent: str, session: LoopSession, past: Iterable[Entry] = ()
    ) -> None:
        self.name = name
        self.fresh: list[Entry] = []
        """What came in this run of the workflow."""
        self.sub_runs = 0
        """Runs of sub-agents that have begun and not ended."""
        self.tangled = False
        """Whether the body has waited for two things at once: their order is not told here."""
        self.on_tangled: Callable[[], None] = lambda: None
        self._waits = 0
        self._begun = 0
        self._agent = agent
        self._session = session
        self._past = deque(past)
        self._present: dict[str, Any] | None = None
        """The state as it is now, kept while the body is shown that of then."""
        if self._past:
            self._present = dict(session.state)
            self._set_state(self._next(BEGIN)[1])
        else:
            self.fresh.append([BEGIN, deepcopy(session.state)])

    def is_past(self) -> bool:
        """Whether the body is still being brought back; after its last entry it no longer is."""
        while self._past and self._past[0][0] == STATE:
            self._apply(self._past.popleft())
        if not self._past and self._present is not None:
            # Other sessions may have changed what they share with this one.
            self.changed(self._present, whole=True)
            self._set_state(self._present)
            self._present = None
        return bool(self._past)

    def changed(self, state: dict[str, Any], *, whole: bool = False) -> None:
        """Note that others have changed the state that the body sees."""
        if state or whole:
            self.fresh.append([STATE, deepcopy(state), whole])

    def sub_run_name(self) -> str:
        """A name for the next run of a sub-agent: the same when the body is run again."""
        self._begun += 1
        return f"sub-{self._begun}"

    async def sub_run(
        self, live: AsyncGenerator[Event, None], own: InvocationContext | None = None
    ) -> AsyncGenerator[Event, None]:
        """A sub-agent's events: those that the body had before, then what comes now.

        Args:
            live: The run, as far as it is still to come.
            own: The body's context, if what runs is the built-in body that it calls: whom that
                hands over to, and whether it is to end, is told there.
        """
        self.sub_runs += 1
        try:
            while self.is_past():
                kind, *rest = await self._past_one(EVENT, END, ERROR)
                if kind == END:
                    _end(own, *rest)
                    return
                if kind == ERROR:
                    raise from_detail(rest[0])
                yield Event.read(rest[0])
            async with closing(live) as events:
                while (event := await self._live(anext(events, None))) is not None:
                    self.fresh.append([EVENT, event.model_dump(mode="json", exclude_none=True)])
                    yield event
            transfer = own.transfer.model_dump(mode="json") if own and own.transfer else None
            self.fresh.append([END, transfer, bool(own and own.end_invocation)])
        finally:
            self.sub_runs -= 1

    async def value(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What a function of the body gives.

        Raises:
            DurableAdkError: What it raises.
        """
        value = await self._live(work)
        self.fresh.append([VALUE, deepcopy(value)])
        return value

    async def past_value(self) -> Any:
        """What a function of the body has given before.

        Raises:
            DurableAdkError: What it has raised.
        """
        kind, *rest = await self._past_one(VALUE, ERROR)
        if kind == ERROR:
            raise from_detail(rest[0])
        return rest[0]

    async def _live(self, work: Awaitable[T]) -> T:
        """Wait for something, and note what it raises, or that the body has given it up."""
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
        """The next entry; what the body gave up after a time it waits for again as long."""
        entry = self._next(GIVEN_UP, *kinds)
        if entry[0] == GIVEN_UP:
            await asyncio.get_running_loop().create_future()
        return entry

    def past_yield(self) -> None:
        """The body yields an event that is committed already."""
        self._next(GONE_ON)

    def went_on(self) -> None:
        """Note that the body goes on after an event it had yielded."""
        self.fresh.append([GONE_ON])

    async def sleep(self, delay: float, result: Any = None) -> Any:
        """`asyncio.sleep` for the body: what it has slept through is over."""
        if self.is_past():
            await self._past_one(SLEPT)
            return result
        await self._live(asyncio.sleep(delay))
        self.fresh.append([SLEPT])
        return result

    def _next(self, *kinds: str) -> Entry:
        entry = self._past.popleft() if self._past else [""]
        if entry[0] not in kinds:
            raise AgentError(
                f"The body of {self._agent!r} has taken another way than before its invocation "
                "was continued: its code has changed. Keep the old code for open invocations, "
                "with Worker Versioning."
            )
        return entry

    def _apply(self, entry: Entry) -> None:
        _, state, whole = entry
        if whole:
            self._set_state(state)
        else:
            self._session.state.update(state)

    def _set_state(self, state: dict[str, Any]) -> None:
        """In place: the body may hold on to it."""
        self._session.state.clear()
        self._session.state.update(state)


def _end(own: InvocationContext | None, transfer: Any = None, end: bool = False) -> None:
    """Put back what the built-in body has told the body's context."""
    if own is not None:
        own.transfer = AgentNode.read(transfer) if transfer else None
        own.end_invocation = own.end_invocation or end
