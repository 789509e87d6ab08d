"""Attempts of a run of a node, until one succeeds (GR-110 to GR-113)."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from durable_adk.calling.closing import closing
from durable_adk.conversation.nodes.events import mark
from durable_adk.conversation.tool_responses import final_response
from durable_adk.errors import (
    BudgetExceededError,
    DurableAdkError,
    EventConflictError,
    InvocationCancelledError,
    InvocationTerminatedError,
    LeaseLostError,
    LlmCallsLimitExceededError,
    NodeTimeoutError,
    PayloadLostError,
    StoreUnavailableError,
)
from durable_adk.events.event import Event
from durable_adk.flows.graph.attempt import NodeAttempt, NodeParts
from durable_adk.flows.graph.task import NodeTask
from durable_adk.flows.graph.timer import NodeTimer
from durable_adk.graph.retry_config import retry_of

OF_INVOCATION = (
    BudgetExceededError,
    EventConflictError,
    InvocationCancelledError,
    InvocationTerminatedError,
    LeaseLostError,
    LlmCallsLimitExceededError,
    PayloadLostError,
    StoreUnavailableError,
)
"""Errors that end the invocation: no other attempt of a node could do better."""
FAILED = "The attempt of its node has failed; answer the next one's call, if there is one."


class NodeRetries:
    """Makes attempts."""

    def __init__(
        self,
        attempt: NodeAttempt,
        parts: NodeParts,
        send: Callable[[Event], Awaitable[None]],
        *,
        closes: bool,
    ) -> None:
        """Create it.

        Args:
            attempt: Makes one of them.
            parts: What it works with.
            send: Has an event committed.
            closes: Whether the calls of the last attempt are closed, too, if it fails.
        """
        self._closes = closes
        self._attempt = attempt
        self._send = send
        self._parts = parts
        self._task = attempt.task
        self._invocation = parts.invocation

    async def run(self) -> None:
        """Make attempts of a run, until one succeeds (GR-110 to GR-113).

        Raises:
            DurableAdkError: The last one failed. Each failed attempt has an event.
        """
        task, runtime = self._task, self._invocation.state.runtime
        run = task.run
        while True:
            await self._due()
            try:
                await self._in_time()
            except OF_INVOCATION:
                raise
            except DurableAdkError as error:
                if error is self._invocation.pending.failure:
                    raise  # the deadline of a call, which ends the invocation
                if error.node_path is None:
                    error.node_path = task.site.path
                    await self._send(self._failure(error))
                delay = _retry_delay(task, error)
                for event in self._closing() if delay is not None or self._closes else ():
                    await self._send(event)
                if delay is None:
                    raise
                run.attempt, run.again_at = run.attempt + 1, runtime.now() + delay
                self._attempt.stop_awaiting_message()
                task.begin_again()
            else:
                return

    async def _due(self) -> None:
        """Wait until the next attempt is due; what a batch has performed is taken at once."""
        task, run, runtime = self._task, self._task.run, self._invocation.state.runtime
        if run.again_at is not None:
            await runtime.leave_batch()  # the delay is a timer of the workflow
            await self._invocation.continuing.sleep(run.again_at - runtime.now())
            run.again_at = None
        if task.outcome is not None:
            return
        await self._invocation.continuing.safe_point(branch=task.scope.branch)
        node = task.node
        apart = node.kind in ("agent", "worker") or node.calls or node.apart
        if not apart:
            seconds = task.node.timeout or 0.0
            await self._invocation.run_batch(task.scope, task.node.name, seconds=seconds)

    async def _in_time(self) -> None:
        """Make one attempt. What the loop drives is cancelled here when its time is up."""
        task, runtime = self._task, self._invocation.state.runtime
        node, branch = task.node, task.scope.branch
        timeout = node.timeout if node.kind in ("agent", "worker") else None
        if timeout is not None:
            await runtime.leave_batch()
        timer = NodeTimer(task.run, timeout, runtime.now)
        limit, outer, finished = timer.limit, branch.timers, False
        branch.timers = (*outer, timer)
        try:
            async with limit:
                timer.start()
                finished = await self._events(limit)
        except TimeoutError:
            if not limit.expired():
                raise  # from inside, for example from a tool
        finally:
            branch.timers = outer
            timer.end()
        if limit.expired() and not finished:
            raise NodeTimeoutError(node_name=node.name, timeout=node.timeout or 0.0)

    async def _events(self, limit: asyncio.Timeout) -> bool:
        """Have an attempt's events committed; return whether it has come to its end."""
        async with closing(self._attempt.run()) as events:
            async for event in events:
                await self._send(event)
                ends = self._task.site.path in (event.node_info.output_for or ())
                if limit.expired() and not ends:
                    return False  # a step that finished all the same swallowed the cancellation
        return True

    def _closing(self) -> list[Event]:
        """Return responses to the calls of a failed attempt that still wait for an answer."""
        task = self._task
        events: list[Event] = []
        branch = task.run.branch
        for call in self._invocation.pending.forget_branch(task.scope.branch.prefix):
            name = task.scope.branch.next_id()
            event = final_response(call, FAILED, branch=branch, name=name)
            mark(event, task.site)
            events.append(event)
        return events

    def _failure(self, error: DurableAdkError) -> Event:
        """Return the event of a failed attempt of an agent or a graph (GR-85)."""
        task = self._task
        driven = [one for one in self._parts.node.children if one.name == task.node.name]
        agent = any(one.kind != "graph" for one in driven)
        event = Event(
            id=task.scope.branch.next_id(),
            author=task.node.name if agent else self._parts.node.name,
            branch=task.run.branch,
            error_code=error.error_type,
            error_message=error.message,
        )
        mark(event, task.site)
        return event


def _retry_delay(task: NodeTask, error: DurableAdkError) -> float | None:
    """Return the seconds until the next attempt, or None (GR-110)."""
    attempt = task.run.attempt
    config = retry_of(task.node.retry, error, attempt)
    # Seeded, because each replay has to wait as long.
    seed = f"{task.run.event_id}:{attempt}"
    return None if config is None else config.delay(attempt, Random(seed))  # noqa: S311
