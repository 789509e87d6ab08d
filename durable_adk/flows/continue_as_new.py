"""Going on in a new run of the workflow, before the history of this one is too long (design D10).

Every lane of an invocation comes by places where nothing is under way: before each model call,
after each event and before each step of a custom agent's body, and while it waits for somebody
outside. When the history has grown long, lanes stop there. Once all have stopped, or wait, the loop
writes down where it stands, and goes on from there in a new run.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from durable_adk.context.journal import Entry, Journal
from durable_adk.context.loop import InvocationContext
from durable_adk.errors import DurableAdkError, PayloadTooLargeError
from durable_adk.json_values import canonical
from durable_adk.runtime import Runtime
from durable_adk.wire.checkpoint import (
    Cursor,
    ReadJournalStep,
    SaveCheckpointStep,
    SaveJournalStep,
    digest,
    packed,
    unpacked,
)
from durable_adk.wire.messages import check_size
from durable_adk.wire.steps import Ending

if TYPE_CHECKING:
    from durable_adk.flows.invocation import Invocation

SEVERAL = 4.0
"""How full a history may be before lanes wait for each other; a single one waits for nobody."""
PART_BYTES = 500_000
"""Of a trace, before it is packed, which may make it a third larger if it is random."""
MAX_PLACE_BYTES = 1_500_000
"""A packed place is the result of an activity; the engine's own limit is 2 MiB (1c)."""
AGAIN = 20
"""How often an invocation gets on before a place that was too large is packed again.

That takes 0.1 s for 2 MB, and is done at each replay too: too much for every safe point. Once in
twenty it is nothing beside twenty steps, and a run that may end again at last does so some hundred
events late, of the thousands that it may have.
"""


class ContinueAsNew:
    """Decides when an invocation goes on in a new run, and takes it there."""

    def __init__(self, invocation: "Invocation", *, number: int = 0) -> None:
        self._invocation = invocation
        self._number = number
        self._parked: list[asyncio.Future[None]] = []
        self._traces: dict[str, Journal] = {}
        self._moves = 0
        """Since the run began; below zero since its place was too large to be taken along."""
        self.past: dict[str, list[Entry]] = {}
        """By name, the traces of bodies that have to be brought back."""
        self.over: asyncio.Future[Cursor] = asyncio.get_running_loop().create_future()
        """Where the next run goes on."""

    def move(self) -> None:
        """The invocation has got on: a run of the workflow does not end before."""
        self._moves += 1

    async def safe_point(self, body: Journal | None = None) -> None:
        """A lane's place where nothing is under way; it may be the last in this run.

        Args:
            body: The one that is there, if any: a sub-agent of it that has yielded an event, and is
                to go on after it, is not at such a place.

        Raises:
            DurableAdkError: Where the loop stands could not be written down.
        """
        if not self._is_due() or (body is not None and body.sub_runs):
            return
        parked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked.append(parked)
        self._invocation.pauses.wake()
        try:
            await parked  # the run ends here, or is cancelled
        finally:
            self._parked.remove(parked)

    @property
    def is_ready(self) -> bool:
        """Whether all lanes have stopped, or wait."""
        busy = self._invocation.pauses.busy
        # One that was let go has not run yet, and so is still among them: to count it would be to
        # find the run ready again at once, and for ever.
        standing = sum(not parked.done() for parked in self._parked)
        return standing == busy and (busy > 0 or self._is_due())

    def _is_due(self) -> bool:
        invocation = self._invocation
        tangled = any(trace.tangled for trace in self._traces.values())
        if tangled or self._moves <= 0:
            return False
        several = invocation.pauses.busy > 1
        return invocation.runtime.fullness() >= (SEVERAL if several else 1.0)

    async def roll(self) -> bool:
        """Write down where the loop stands, until nothing comes in meanwhile; whether it goes."""
        invocation = self._invocation
        number, written, named = self._number + 1, None, ""
        try:
            if invocation.opened.state is not None:
                check_size(canonical(invocation.session.state), "The state")  # it is read again
            await self._save_traces(number)
            while (step := self._step(number)) != written:
                named = await invocation.runtime.perform(step) or step.digest
                written = step
        except PayloadTooLargeError:
            self._moves = -AGAIN
            self._go_on()
            return False
        if invocation.runtime.cancelled():
            return False
        key = invocation.key
        self.over.set_result(
            Cursor(
                app=key.app_name,
                user=key.user_id,
                session=key.session_id,
                invocation_id=invocation.invocation_id,
                place=number,
                digest=named,
            )
        )
        return True

    def _go_on(self) -> None:
        """Let the lanes go on that have stopped: this run is not to end yet."""
        for parked in self._parked:
            if not parked.done():
                parked.set_result(None)

    def fail(self, error: DurableAdkError) -> None:
        """Let the lanes that have stopped end the run."""
        for parked in self._parked:
            if not parked.done():
                parked.set_exception(error)

    def _step(self, number: int) -> SaveCheckpointStep:
        text = self._invocation.place_now(number, list(self._traces)).to_json()
        place = packed(text)
        check_size(place, "What the invocation has to take along", MAX_PLACE_BYTES)
        return SaveCheckpointStep(
            key=self._invocation.key,
            invocation_id=self._invocation.invocation_id,
            number=number,
            digest=digest(text),
            place=place,
        )

    async def _save_traces(self, number: int) -> None:
        """What bodies were given, in parts that fit; nothing is added while all lanes stand."""
        # Each body's are numbered for themselves: when this is done again, as the place was too
        # large, a part is as it was or longer, and takes the place of the one before.
        parts = [
            (name, index, packed(json.dumps([name, part])))
            for name, trace in self._traces.items()
            for index, part in enumerate(_parts(trace.fresh))
        ]
        for name, index, part in parts:
            check_size(part, "What a custom agent's body was given at once", MAX_PLACE_BYTES)
            step = SaveJournalStep(
                key=self._invocation.key,
                invocation_id=self._invocation.invocation_id,
                number=number,
                index=index,
                body=name,
                trace=part,
            )
            await self._invocation.runtime.perform(step)

    # ----- the bodies of custom agents

    def trace(self, ctx: InvocationContext) -> Journal | None:
        """The trace of a body that begins or is brought back; None where nothing rolls over."""
        if not self._invocation.runtime.rolls:
            return None
        name = ctx.body or self._invocation.new_body()
        past = self.past.pop(name, ())
        trace = Journal(name, ctx.agent_name, self._invocation.session, past)
        trace.on_tangled = self._go_on
        self._traces[name] = trace
        return trace

    def forget(self, trace: Journal | None) -> None:
        """The body has ended."""
        if trace is not None:
            self._traces.pop(trace.name, None)

    def changed(self, state: dict[str, Any], *, whole: bool = False) -> None:
        """Tell the traces that the loop has changed the state."""
        for trace in self._traces.values():
            trace.changed(state, whole=whole)


def _parts(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries in their order, in parts of at most `PART_BYTES` unless one alone is larger."""
    parts: list[list[Entry]] = []
    size = PART_BYTES
    for entry in entries:
        length = len(json.dumps(entry))
        if size + length > PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(entry)
        size += length
    return parts


async def past_traces(
    runtime: Runtime, cursor: Cursor, bodies: Sequence[str]
) -> dict[str, list[Entry]] | Ending:
    """By name, what the bodies under way were given in all runs of the workflow before.

    Or how the invocation has ended meanwhile.
    """
    past: dict[str, list[Entry]] = {name: [] for name in bodies}
    after: str | None = None
    while bodies:
        step = ReadJournalStep(
            key=cursor.key,
            invocation_id=cursor.invocation_id,
            bodies=list(bodies),
            upto=cursor.place,
            after=after,
        )
        page = await runtime.perform(step)
        if page.ending is not None:
            return page.ending
        for text in page.traces:
            name, entries = json.loads(unpacked(text))
            if name in past:
                past[name] += entries
        after = page.next
        if after is None:
            break
    return past
