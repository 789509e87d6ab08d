"""Calls that wait for an answer from outside, and the pause of the invocation meanwhile (D9).

While every branch waits, the invocation gives its lease back, and other messages of the session may
run. An answer takes the lease again, is checked against the session's history and stored in one
step, and wakes the branch that waits for it.

One task does all of this, in the order in which answers and branches arrive. That order is in the
workflow's history, so a replay pauses and continues at the same points.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION, shown_request
from durable_adk.errors import (
    AgentError,
    AgentWaitsError,
    DurableAdkError,
    ToolTimeoutError,
    wrapped,
)
from durable_adk.events.event_actions import EventActions
from durable_adk.flows.agent_scope import AgentScope, Branch
from durable_adk.flows.continue_as_new import ContinueAsNew
from durable_adk.flows.plugin_hooks import prepare_answer
from durable_adk.flows.state import LoopState
from durable_adk.json_values import canonical
from durable_adk.sessions.state import without_temp
from durable_adk.wire.checkpoint import OpenCall, OpenTask
from durable_adk.wire.manifest import Wait
from durable_adk.wire.messages import EXPIRED, InvocationAnswer, answer_event
from durable_adk.wire.steps import AnswerStep, AnswerTaken, PauseStep

MAX_SHOWN_CALLS = 100
MAX_SHOWN_BYTES = 8_000
"""Maximum number of calls whose arguments the loop keeps, and bytes of each. The checkpoint and the
results of query `pending` stay small; larger arguments are only in the call's event."""


@dataclass(eq=False)
class _WaitingBranch:
    """A branch that waits until one of some calls is answered."""

    call_ids: tuple[str, ...]
    branch: Branch
    answered: "asyncio.Future[str]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class PendingCalls:
    """The pending calls of one invocation."""

    def __init__(self, state: LoopState, continuing: ContinueAsNew) -> None:
        self._state = state
        self._continuing = continuing
        self._pending = state.checkpoint.pending
        self._inbox = state.runtime.inbox
        self._waiting_branches: list[_WaitingBranch] = []
        self._reserved = set[str]()
        """Ids of calls that are being stored, and that answers are accepted to afterwards."""
        self._closed = False
        self._failure: DurableAdkError | None = None

    @property
    def waiting(self) -> list[OpenCall]:
        """The pending calls, oldest first, without those of cancelled agents."""
        stopped = self._state.branches.stopped
        return [call for call in self._pending.waiting if call.branch not in stopped]

    def listed(self) -> list[dict[str, Any]]:
        """Return the calls in plain JSON for clients of any language: query ``pending``."""
        return [
            {
                "callId": call.call_id,
                "name": call.name,
                "agent": call.author,
                "due": call.due,
                **({} if call.args is None else shown_request(call.name, call.args)),
            }
            for call in self.waiting
        ]

    @property
    def delivered(self) -> set[str]:
        """Ids of all calls that were answered from outside."""
        return self._pending.delivered

    def fork(self, branch: Branch, branches: int) -> None:
        """Replace a branch by several; it continues when the last of them has ended."""
        branch.count(branches - 1)

    def join(self, branch: Branch) -> None:
        """Count the end of one of the branches below a branch that is not the last one."""
        branch.count(-1)
        self._inbox.wake()

    def join_all(self, branch: Branch, branches: int) -> None:
        """Count the end of all remaining branches; the branch that was forked continues."""
        branch.count(-max(branches - 1, 0))

    def reserve(self, call_ids: Collection[str]) -> str | None:
        """Reserve the ids of calls that are about to be stored, all or none.

        Returns:
            An id that another call has, or None.
        """
        for call_id, number in Counter(call_ids).items():
            if number > 1 or call_id in self._reserved or self.is_expected(call_id):
                return call_id
        self._reserved.update(call_ids)
        return None

    def expect(self, call: types.FunctionCall, wait: Wait, scope: AgentScope) -> None:
        """Accept answers to a committed call of an agent from now on."""
        due = None if wait.deadline is None else self._state.runtime.now() + wait.deadline
        self._reserved.discard(call.id or "")
        self._pending.waiting.append(
            OpenCall(
                call_id=call.id or "",
                name=call.name or "",
                author=scope.ctx.agent_name,
                on_deadline=wait.on_deadline,
                due=due,
                branch=scope.branch.prefix,
                args=self._kept(call.args or {}),
            )
        )
        # Its answer may have arrived, and its deadline may be the next one.
        self._inbox.wake()

    def expect_below(self, one: OpenCall | OpenTask, prefix: str) -> str:
        """Accept answers to a node that the code of another one has called; return its name here.

        Args:
            one: The stored call, whose deadline is running already, or the task agent.
            prefix: The prefix of the branch of that code.
        """
        mine = one.model_copy(update={"branch": prefix})
        self._inbox.wake()
        if isinstance(mine, OpenTask):
            self._pending.tasks.append(mine)
            return mine.name
        self._reserved.discard(mine.call_id)
        self._pending.waiting.append(mine)
        return mine.call_id

    def _kept(self, args: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments of a call, or None if they would make the checkpoint large."""
        fits = len(canonical(args).encode()) <= MAX_SHOWN_BYTES
        return args if fits and len(self._pending.waiting) < MAX_SHOWN_CALLS else None

    def forget(self, call_id: str) -> None:
        """Accept no more answers to a call: it has its response."""
        self._pending.waiting = [one for one in self._pending.waiting if one.call_id != call_id]
        self._pending.tasks = [one for one in self._pending.tasks if one.name != call_id]

    def forget_branch(self, prefix: str) -> list[OpenCall]:
        """Accept no more answers to the calls of a branch, and of those below it; return them."""
        below = [
            call
            for call in self._pending.waiting
            if call.branch == prefix or call.branch.startswith(f"{prefix}.")
        ]
        self._pending.waiting = [call for call in self._pending.waiting if call not in below]
        return below

    @property
    def failure(self) -> DurableAdkError | None:
        """The error with which all branches that wait have failed, if they have."""
        return self._failure

    def _expected(self, call_id: str | None) -> OpenCall | None:
        return next((call for call in self._pending.waiting if call.call_id == call_id), None)

    def is_expected(self, call_id: str) -> bool:
        """Return whether answers to a call are accepted now."""
        return self._expected(call_id) is not None

    def is_answered(self, call_id: str) -> bool:
        """Return whether a call has an answer for which no branch has waited yet."""
        return call_id in self._pending.answered

    def consume(self, call_ids: Iterable[str]) -> set[str]:
        """Remove and return those calls that have such an answer; their agents need not wait."""
        found = {name for name in call_ids if self.is_answered(name)}
        self._pending.answered = [name for name in self._pending.answered if name not in found]
        return found

    async def answer_to(self, call_ids: Iterable[str], branch: Branch) -> str:
        """Wait until one of the calls of a branch is answered, and return its id.

        Raises:
            ToolTimeoutError: No answer came before the deadline, and the call's policy is to fail.
        """
        waiting = _WaitingBranch(tuple(call_ids), branch)
        known = next((name for name in waiting.call_ids if self.is_answered(name)), None)
        if known is not None:
            self._pending.answered.remove(known)
            return known
        if self._failure is not None:
            raise self._failure
        self._waiting_branches.append(waiting)
        branch.count(-1)
        self._inbox.wake()
        try:
            return await waiting.answered
        finally:
            if waiting in self._waiting_branches:  # it was not answered, but cancelled
                self._waiting_branches.remove(waiting)
                branch.count(1)

    async def wait_for(self, call_ids: Iterable[str], branch: Branch) -> None:
        """Wait until one of the calls is answered, and leave the answer to be consumed.

        Raises:
            ToolTimeoutError: See `answer_to`.
        """
        self._pending.answered.insert(0, await self.answer_to(call_ids, branch))

    async def message_to(self, scope: AgentScope, also: Iterable[str]) -> None:
        """Wait until a task agent has a message of the user, or one of some calls an answer.

        An answer is left to be consumed.

        Raises:
            ToolTimeoutError: See `answer_to`.
        """
        require_answerable(self._state)
        name = f"{scope.branch.prefix}.message"
        site = scope.call and scope.call.site
        task = OpenTask(name=name, scope=site and site.scope, branch=scope.branch.prefix)
        others = [one for one in self._pending.tasks if one.name != name]
        self._pending.tasks = [*others, task]
        try:
            found = await self.answer_to([name, *also], scope.branch)
        finally:
            self._pending.tasks = [one for one in self._pending.tasks if one.name != name]
        if found != name:
            self._pending.answered.insert(0, found)

    @property
    def _task(self) -> OpenTask | None:
        """The task that receives the next message of the user: the one that began to wait last."""
        stopped = self._state.branches.stopped
        waiting = [one for one in self._pending.tasks if one.branch not in stopped]
        return waiting[-1] if waiting else None

    async def deliver_steered(self) -> None:
        """Store the messages that steer this invocation, before its next model call (D7).

        While a task agent waits for the user, messages are for it; see `serve`.
        """
        while self._task is None and (name := self._next_message()) is not None:
            await self._hear(name)

    async def _deliver_to_task(self) -> None:
        """Store the messages that have arrived for task agents, each for the next one (GR-173)."""
        while (task := self._task) is not None and (name := self._next_message()) is not None:
            if await self._hear(name, task.scope):
                self._continuing.progressed()
                self._pending.tasks = [one for one in self._pending.tasks if one is not task]
                self._wake(task.name)

    def _next_message(self) -> str | None:
        """Take the next message that was not delivered before, or None."""
        pending = self._pending
        while pending.steered and not (self._closed or self._state.runtime.cancelled()):
            name = pending.steered.pop(0)
            if name not in pending.delivered_messages:
                return name
        return None

    async def _hear(self, name: str, scope: str | None = None) -> bool:
        """Store a message as one of this invocation; return False if it waits no more."""
        self._pending.delivered_messages.add(name)
        news = InvocationAnswer(steers=name, answer_id=name)
        return await self._store(news, author="user", scope=scope)

    async def resume(self) -> None:
        """Take the lease again for a branch that resumes before any answer has come.

        A custom agent may catch a deadline's error, have a timeout around a sub-agent, or run two
        sub-agents in tasks of its own.
        """
        if self._pending.paused and not self._closed:
            taken = await self._state.runtime.perform(self._step(InvocationAnswer(), ""))
            self._resumed(taken)

    def close(self) -> None:
        """Accept no further answers."""
        self._closed = True
        # A step of `serve` that finishes despite a cancellation swallows it, so make `serve` check.
        self._inbox.wake()
        for answer in self._pending.unread:
            if answer.answer_id is not None:
                reason = "The invocation has ended without it."
                self._pending.outcomes.setdefault(answer.answer_id, reason)

    async def serve(self) -> None:
        """Pause, take answers and continue, until the task is cancelled."""
        try:
            while not self._closed:
                await self._take_what_can_be_taken()
                await self._deliver_to_task()
                if self._continuing.is_ready:
                    if await self._continuing.save():
                        return
                    continue  # answers that arrived meanwhile are in `unread`
                if self._state.branches.busy == 0 and not self._pending.paused:
                    await self._pause()
                answer = await self._next()
                while answer is not None:
                    self._pending.unread.append(answer)
                    # Read everything that arrived in time before checking a deadline again.
                    answer = None if self._inbox.empty() else await self._inbox.get()
        except DurableAdkError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - no branch may wait forever
            self._fail(wrapped(AgentError, error))

    async def _take_what_can_be_taken(self) -> None:
        """Take answers to pending calls; keep the others until no branch can make a call.

        After a crash an answer may arrive before the loop has reached the call again.
        """
        unread, self._pending.unread = self._pending.unread, []
        for answer in unread:
            if self._state.branches.busy > 0 and self._not_waited_for(answer) is not None:
                self._pending.unread.append(answer)
            else:
                await self._take(answer)

    async def _pause(self) -> None:
        step = PauseStep(
            key=self._state.key,
            invocation_id=self._state.invocation_id,
            epoch=self._state.checkpoint.epoch,
            lease_owner=self._state.lease_owner,
            revision=self._state.checkpoint.revision,
            awaits_message=self._task is not None,
        )
        self._pending.paused = True
        await self._state.runtime.perform(step)

    async def _next(self) -> InvocationAnswer | None:
        """Return the next answer, or None if something else has changed; settle expired calls."""
        if not self._inbox.empty():
            return await self._inbox.get()
        now = self._state.runtime.now()
        dues = [call.due for call in self.waiting if call.due is not None]
        limit = max(min(dues) - now, 0) if dues else None
        try:
            return await asyncio.wait_for(self._inbox.get(), limit)
        except TimeoutError:
            pass
        now = self._state.runtime.now()
        for call in self.waiting:
            if call.due is not None and call.due <= now:
                await self._expire(call)
        return None

    async def _expire(self, call: OpenCall) -> None:
        call.due = None
        if not self.is_expected(call.call_id):  # answered while another one was settled
            return
        if call.on_deadline == "fail":
            self._fail(ToolTimeoutError(f"No answer to {call.name!r} came before its deadline."))
            return
        answer = InvocationAnswer(call_id=call.call_id, answer_id=f"{call.call_id}{EXPIRED}")
        if call.name == REQUEST_CONFIRMATION:
            answer.confirmed = call.on_deadline == "approve"
        else:
            answer.response = {"error": "No answer came before the deadline; go on without it."}
        # An answer under the same id, chosen by a sender, must not prevent the deadline's decision.
        self._continuing.progressed()
        await self._store(answer, author=call.author)

    async def _take(self, answer: InvocationAnswer) -> None:
        answer_id = answer.answer_id or ""
        self._continuing.progressed()
        if answer_id in self._pending.outcomes:
            return  # a repeat of the same answer
        if (reason := self._not_waited_for(answer)) is not None:
            self._inbox.refuse(answer_id, reason)
            return
        await self._store(answer, author="user")

    async def _store(
        self, answer: InvocationAnswer, *, author: str, scope: str | None = None
    ) -> bool:
        """Have an answer or a message stored; return False if it was refused."""
        name = answer.answer_id or ""
        sent = answer.steers is None and author == "user"
        own = self._state.invocation_id
        step = self._step(answer, f"{name}.0" if answer.steers else answer_event(own, name))
        step.author, step.scope = author, scope
        step.named = name in self._pending.digests if sent else None
        if sent and (reason := await prepare_answer(self._state, step)) is not None:
            self._inbox.refuse(name, reason)
            return False
        taken = await self._state.runtime.perform(step)
        if taken.refused is not None:
            if taken.epoch:  # it has taken the lease nevertheless
                self._resumed(taken)
            if sent:
                self._inbox.refuse(name, taken.refused)
            return False
        if sent:
            self._inbox.take(name)
        self._resumed(taken)
        self._state.reconfigure(answer.options())
        self._stored(step.event_id, taken)
        stored = taken.delivered or step.changed
        delta = stored.actions.state_delta if stored else answer.state_delta
        if taken.state is None:  # else the state already contains the changes
            self._state.changed(EventActions(state_delta=without_temp(delta)))
        self._state.apply_local(delta)
        for call_id in taken.call_ids:
            self._deliver(call_id)
        return True

    def _step(self, answer: InvocationAnswer, event_id: str) -> AnswerStep:
        state = self._state
        call = self._expected(answer.call_id or "")
        return AnswerStep(
            key=state.key,
            invocation_id=state.invocation_id,
            lease_owner=state.lease_owner,
            epoch=state.checkpoint.epoch,
            start_seq=state.checkpoint.record.start_seq,
            event_id=event_id,
            timestamp=state.runtime.now(),
            answer=answer,
            call_name=call.name if call else "",
            wants_state=state.reads_state,
            revision=state.checkpoint.revision,
        )

    def _resumed(self, taken: AnswerTaken) -> None:
        self._pending.paused = False
        self._state.checkpoint.epoch = taken.epoch
        if taken.state is not None:
            self._state.refresh(taken.state)

    def _stored(self, event_id: str, taken: AnswerTaken) -> None:
        self._state.advanced(taken.seq)
        self._state.checkpoint.counters.events += 1
        self._state.checkpoint.last_event_id = event_id

    def _not_waited_for(self, answer: InvocationAnswer) -> str | None:
        """Return why an answer is refused even before the session's history is read, or None."""
        parts = (answer.message.parts or []) if answer.message else []
        ids = [r.id for part in parts if (r := part.function_response)] or [answer.call_id]
        waiting = {call.call_id for call in self.waiting}
        unknown = [str(name) for name in ids if name not in waiting]
        if not unknown:
            return None
        return (
            f"Invocation {self._state.invocation_id!r} waits for no answer to call "
            f"{', '.join(unknown)}; it waits for: {', '.join(sorted(waiting)) or 'nothing'}."
        )

    def _deliver(self, call_id: str) -> None:
        self._pending.delivered.add(call_id)
        self.forget(call_id)
        self._wake(call_id)

    def _wake(self, name: str) -> None:
        """Wake the branch that waits for an answer or a message, or keep it until one does."""
        waiting = next((one for one in self._waiting_branches if name in one.call_ids), None)
        if waiting is None:
            self._pending.answered.append(name)
            return
        self._waiting_branches.remove(waiting)
        waiting.branch.count(1)  # at once: the branch runs before this task checks again
        waiting.answered.set_result(name)

    def _fail(self, error: DurableAdkError) -> None:
        """End the invocation: raise in all branches that wait, or in the next one that would."""
        self._failure = error
        for waiting in self._waiting_branches:
            waiting.branch.count(1)
            waiting.answered.set_exception(error)
        self._waiting_branches.clear()
        self._pending.waiting.clear()
        self._continuing.fail(error)


def require_answerable(state: LoopState) -> None:
    """Refuse to wait for an answer that no user could give (TOL-21).

    Raises:
        AgentWaitsError: The invocation is that of an agent used as a tool.
    """
    if not state.can_wait:
        raise AgentWaitsError(
            "An agent that is used as a tool cannot wait for an approval, a credential or a "
            "long-running tool: no client sees its conversation. Make it a sub-agent."
        )
