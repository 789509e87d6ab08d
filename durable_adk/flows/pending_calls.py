"""Calls that wait for somebody outside, and the invocation that pauses for them (design D9).

While every lane of the invocation waits, nothing of it holds the session: its lease is given back,
and other messages of the session may run. An answer takes the lease again, is checked against the
history and stored in one step, and lets the lane that waits for it go on.

One task does all of this, in the order in which answers and lanes come to it. That order is in the
workflow's history, so a replay pauses and goes on at the same places.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.genai import types

from durable_adk.context.loop import Branch, InvocationContext
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.errors import AgentError, DurableAdkError, ToolTimeoutError, raised
from durable_adk.sessions.state import without_temp
from durable_adk.wire.checkpoint import PausesPlace, WaitingPlace
from durable_adk.wire.manifest import Wait
from durable_adk.wire.messages import EXPIRED, InvocationAnswer, answer_event
from durable_adk.wire.steps import AnswerStep, AnswerTaken, PauseStep

if TYPE_CHECKING:
    from durable_adk.flows.invocation import Invocation

MAX_OUTCOMES = 1000
"""Answers that are known when they are sent again to a later run of the workflow."""


@dataclass(eq=False)
class WaitingCall:
    """A call that has been asked and not been answered."""

    call_id: str
    name: str
    author: str
    on_deadline: str
    due: float | None
    """Seconds since the epoch."""
    lane: Branch
    """Whose agent asked."""

    def place(self) -> WaitingPlace:
        """The call without its lane, which is named."""
        return WaitingPlace(
            call_id=self.call_id,
            name=self.name,
            author=self.author,
            on_deadline=self.on_deadline,
            due=self.due,
            lane=self.lane.prefix,
        )


@dataclass(eq=False)
class _Rest:
    """A lane that waits until one of some calls is answered."""

    call_ids: tuple[str, ...]
    answered: "asyncio.Future[str]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class PendingCalls:
    """The waiting calls of one invocation."""

    def __init__(self, invocation: "Invocation") -> None:
        self._invocation = invocation
        self._inbox = invocation.runtime.inbox
        self._waiting: dict[str, WaitingCall] = {}
        self._answered: list[str] = []
        self._rests: list[_Rest] = []
        self._busy = 1
        self.delivered: set[str] = set()
        """Every call that was answered from outside."""
        self._closed = False
        self._unread: list[InvocationAnswer] = []
        self._failure: DurableAdkError | None = None
        self.paused = False
        """Whether the lease is given back."""

    @property
    def waiting(self) -> list[WaitingCall]:
        """The calls that wait, oldest first; none of agents that were cancelled."""
        return [call for call in self._waiting.values() if not call.lane.stopped]

    @property
    def busy(self) -> int:
        """How many lanes do not wait for an answer."""
        return self._busy

    def wake(self) -> None:
        """Look again: something has changed."""
        self._inbox.wake()

    def place_now(self) -> PausesPlace:
        """Who waits and what was answered; what `go_on_from` takes. Empties the inbox."""
        while not self._inbox.empty():
            if (answer := self._inbox.get_nowait()) is not None:
                self._unread.append(answer)
        alone = len(self._invocation.lane.family) == 1
        latest = list(self._inbox.outcomes.items())[-MAX_OUTCOMES:]
        return PausesPlace(
            paused=self.paused,
            waiting=[call.place() for call in self.waiting if call.lane.is_open],
            answered=self._answered,
            # Only the siblings of lanes that are side by side have to know.
            delivered=[] if alone else sorted(self.delivered),
            unread=self._unread,
            steered=self._inbox.steered,
            outcomes=dict(latest),
            answers=self._inbox.answers,
            heard=sorted(self._inbox.heard)[-MAX_OUTCOMES:],
            digests=self._inbox.said(
                dict(latest), [answer.answer_id or "" for answer in self._unread]
            ),
        )

    def go_on_from(self, place: PausesPlace) -> None:
        """Stand where the run of the workflow before this one has ended."""
        self.paused = place.paused
        lanes = self._invocation.lane.family
        for call in place.waiting:
            self._waiting[call.call_id] = WaitingCall(
                call.call_id, call.name, call.author, call.on_deadline, call.due, lanes[call.lane]
            )
        self._answered, self.delivered = list(place.answered), set(place.delivered)
        self._unread = list(place.unread)
        self._inbox.steered[:0] = place.steered
        # An answer may have come to this run before it knew those of the one before.
        self._inbox.outcomes.update(place.outcomes)
        self._inbox.answers = place.answers
        self._inbox.heard.update(place.heard)
        self._inbox.know(place.digests)

    def fork(self, lanes: int) -> None:
        """A lane has become several; it goes on when the last of them has ended."""
        self._busy += lanes - 1

    def join(self) -> None:
        """One of several lanes has ended, not the last."""
        self._busy -= 1
        self._inbox.wake()

    def join_all(self, lanes: int) -> None:
        """Those of several lanes that are left have ended, and who forked them goes on."""
        self._busy -= max(lanes - 1, 0)

    def expect(self, call: types.FunctionCall, wait: Wait, ctx: InvocationContext) -> None:
        """Accept answers to a call of the agent run `ctx` from now on; the call is committed."""
        due = None if wait.deadline is None else self._invocation.runtime.now() + wait.deadline
        self._waiting[call.id or ""] = WaitingCall(
            call.id or "", call.name or "", ctx.agent_name, wait.on_deadline, due, ctx.lane
        )
        self._inbox.wake()  # its answer may be here already, its deadline be the next

    def forget(self, call_id: str) -> None:
        """Accept no answer to a call any more: it has its response."""
        self._waiting.pop(call_id, None)

    def is_answered(self, call_id: str) -> bool:
        """Whether a call has an answer that nobody has waited for yet."""
        return call_id in self._answered

    def consume(self, call_ids: Iterable[str]) -> set[str]:
        """Those of the calls that have such an answer: it is in the history, as was wanted."""
        found = {name for name in call_ids if name in self._answered}
        self._answered = [name for name in self._answered if name not in found]
        return found

    def is_expected(self, call_id: str) -> bool:
        """Whether answers to a call are accepted now."""
        return call_id in self._waiting

    async def answer_to(self, call_ids: Iterable[str]) -> str:
        """Wait until one of the calls is answered; which one.

        Raises:
            ToolTimeoutError: No answer came in time, and the call's policy is to fail.
        """
        rest = _Rest(tuple(call_ids))
        known = next((name for name in rest.call_ids if name in self._answered), None)
        if known is not None:
            self._answered.remove(known)
            return known
        if self._failure is not None:
            raise self._failure
        self._rests.append(rest)
        self._busy -= 1
        self._inbox.wake()
        try:
            return await rest.answered
        finally:
            if rest in self._rests:  # not woken, but cancelled
                self._rests.remove(rest)
                self._busy += 1

    async def hear(self) -> None:
        """Store the messages that wait to be heard, before the next model call (D7)."""
        inbox = self._inbox
        while inbox.steered and not (self._closed or self._invocation.runtime.cancelled()):
            name = inbox.steered.pop(0)
            if name not in inbox.heard:
                inbox.heard.add(name)
                await self.go_on()
                news = InvocationAnswer(steers=name, answer_id=name)
                await self._store(news, author="user")

    async def go_on(self) -> None:
        """Take the lease again, if it is given back, for a lane that goes on without an answer.

        A custom agent may catch a deadline, have a timeout round a sub-agent, or run two of them
        in tasks of its own.
        """
        if self.paused and not self._closed:
            taken = await self._invocation.runtime.perform(self._step(InvocationAnswer(), ""))
            self._resumed(taken)

    def close(self) -> None:
        """Take no further answers: a step that finishes all the same swallows a cancellation."""
        self._closed = True
        self._inbox.wake()  # a step of `serve` that finishes all the same has it look once more
        for answer in self._unread:
            if answer.answer_id is not None:
                reason = "The invocation has ended without it."
                self._inbox.outcomes.setdefault(answer.answer_id, reason)

    async def serve(self) -> None:
        """Pause and go on, until the task is cancelled."""
        try:
            while not self._closed:
                await self._take_what_can_be_taken()
                if self._invocation.rolling.is_ready:
                    if await self._invocation.rolling.roll():
                        return
                    continue  # what has come in meanwhile is among the unread
                if self._busy == 0 and not self.paused:
                    await self._pause()
                answer = await self._next()
                while answer is not None:
                    self._unread.append(answer)
                    # What has come in time is read before any deadline is looked at again.
                    answer = None if self._inbox.empty() else await self._inbox.get()
        except DurableAdkError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - whoever waits must not wait for ever
            self._fail(raised(AgentError, type(error).__name__, str(error)))

    async def _take_what_can_be_taken(self) -> None:
        """Take the answers to calls that wait; of the others wait until no lane can ask any more.

        After a crash an answer may be here before the loop has come to its question again.
        """
        unread, self._unread = self._unread, []
        for answer in unread:
            if self._busy > 0 and self._not_waited_for(answer) is not None:
                self._unread.append(answer)
            else:
                await self._take(answer)

    async def _pause(self) -> None:
        invocation = self._invocation
        step = PauseStep(
            key=invocation.key,
            invocation_id=invocation.invocation_id,
            epoch=invocation.epoch,
            holder=invocation.holder,
            revision=invocation.revision,
        )
        self.paused = True
        await invocation.runtime.perform(step)

    async def _next(self) -> InvocationAnswer | None:
        """The next answer; None if something else has changed. Expired calls are seen to."""
        if not self._inbox.empty():
            return await self._inbox.get()
        now = self._invocation.runtime.now()
        dues = [call.due for call in self.waiting if call.due is not None]
        limit = max(min(dues) - now, 0) if dues else None
        try:
            return await asyncio.wait_for(self._inbox.get(), limit)
        except TimeoutError:
            pass
        now = self._invocation.runtime.now()
        for call in self.waiting:
            if call.due is not None and call.due <= now:
                await self._expire(call)
        return None

    async def _expire(self, call: WaitingCall) -> None:
        call.due = None
        if call.call_id not in self._waiting:  # answered while another one was decided
            return
        if call.on_deadline == "fail":
            self._fail(ToolTimeoutError(f"No answer to {call.name!r} came before its deadline."))
            return
        answer = InvocationAnswer(call_id=call.call_id, answer_id=f"{call.call_id}{EXPIRED}")
        if call.name == REQUEST_CONFIRMATION:
            answer.confirmed = call.on_deadline == "approve"
        else:
            answer.response = {"error": "No answer came before the deadline; go on without it."}
        # No outcome of a name that somebody has chosen keeps it from being decided.
        self._invocation.rolling.move()
        await self._store(answer, author=call.author)

    async def _take(self, answer: InvocationAnswer) -> None:
        answer_id = answer.answer_id or ""
        self._invocation.rolling.move()
        if answer_id in self._inbox.outcomes:
            return  # the same answer again
        if (reason := self._not_waited_for(answer)) is not None:
            self._inbox.refuse(answer_id, reason)
            return
        await self._store(answer, author="user")

    async def _store(self, answer: InvocationAnswer, *, author: str) -> None:
        name = answer.answer_id or ""
        sent = answer.steers is None and author == "user"
        own = self._invocation.invocation_id
        step = self._step(answer, f"{name}.0" if answer.steers else answer_event(own, name))
        step.author = author
        step.named = name in self._inbox.digests if sent else None
        taken = await self._invocation.runtime.perform(step)
        if taken.refused is not None:
            if sent:
                self._inbox.refuse(name, taken.refused)
        else:
            if sent:
                self._inbox.take(name)
            delta = taken.heard.actions.state_delta if taken.heard else answer.state_delta
            self._resumed(taken)
            self._invocation.answered(step.event_id, taken)
            if taken.state is None:  # or it is in that already
                self._invocation.changed(without_temp(delta))
            self._invocation.apply_local(delta)
            for call_id in taken.call_ids:
                self._deliver(call_id)

    def _step(self, answer: InvocationAnswer, event_id: str) -> AnswerStep:
        invocation = self._invocation
        waiting = self._waiting.get(answer.call_id or "")
        return AnswerStep(
            key=invocation.key,
            invocation_id=invocation.invocation_id,
            holder=invocation.holder,
            epoch=invocation.epoch,
            start_seq=invocation.record.start_seq,
            event_id=event_id,
            timestamp=invocation.runtime.now(),
            answer=answer,
            call_name=waiting.name if waiting else "",
            wants_state=invocation.opened.state is not None,
            revision=invocation.revision,
        )

    def _resumed(self, taken: AnswerTaken) -> None:
        self.paused = False
        self._invocation.epoch = taken.epoch
        if taken.state is not None:
            self._invocation.refresh(taken.state)

    def _not_waited_for(self, answer: InvocationAnswer) -> str | None:
        """Why an answer is refused without looking into the history."""
        parts = (answer.message.parts or []) if answer.message else []
        ids = [r.id for part in parts if (r := part.function_response)] or [answer.call_id]
        waiting = {call.call_id for call in self.waiting}
        unknown = [str(name) for name in ids if name not in waiting]
        if not unknown:
            return None
        return (
            f"Invocation {self._invocation.invocation_id!r} waits for no answer to call "
            f"{', '.join(unknown)}; it waits for: {', '.join(sorted(waiting)) or 'nothing'}."
        )

    def _deliver(self, call_id: str) -> None:
        self.delivered.add(call_id)
        self._waiting.pop(call_id, None)
        rest = next((rest for rest in self._rests if call_id in rest.call_ids), None)
        if rest is None:
            self._answered.append(call_id)
            return
        self._rests.remove(rest)
        self._busy += 1  # at once: the lane goes on before this task looks again
        rest.answered.set_result(call_id)

    def _fail(self, error: DurableAdkError) -> None:
        """Let the lanes that wait, or the next that would, end the run."""
        self._failure = error
        for rest in self._rests:
            self._busy += 1
            rest.answered.set_exception(error)
        self._rests.clear()
        self._waiting.clear()
        self._invocation.rolling.fail(error)
