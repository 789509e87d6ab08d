"""The bodies of the agents that run other agents.

They address their children by recorded nodes, so a deploy that inserts, removes or reorders agents
does not disturb open invocations (D6).

The children of a ParallelAgent run side by side, and commit one after the other. Each child is a
task with a branch of its own. Its events pass through one queue to the loop, and the child waits
until its event is committed (RUN-3, DUR-15). The order of the queue is the order in which steps
completed. That is in the workflow's history, so a replay sees the same one.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace

from durable_adk.calling.closing import abandoned, closing, uninterrupted
from durable_adk.conversation.tool_responses import closing_responses
from durable_adk.errors import AgentError
from durable_adk.events.event import Event
from durable_adk.flows.agent_scope import AgentScope
from durable_adk.flows.pending_calls import PendingCalls
from durable_adk.wire.agent_stack import (
    ChildPosition,
    LoopPosition,
    ParallelPosition,
    SequentialPosition,
)
from durable_adk.wire.manifest import AgentNode

RunNode = Callable[[AgentNode, AgentScope], AsyncGenerator[Event, None]]
"""Runs a child, with its callbacks, for the agent of the scope."""
STOPPED = "Cancelled because another agent of the same ParallelAgent ended it; it may have run."


async def run_sequential(
    node: AgentNode, scope: AgentScope, run: RunNode
) -> AsyncGenerator[Event, None]:
    """Run each child once, in order; an escalation does not stop it (AGT-31)."""
    frame = scope.frame
    position = frame.resumed(SequentialPosition) or frame.hold(SequentialPosition())
    while position.at < len(node.children):
        async with closing(run(node.children[position.at], scope)) as events:
            async for event in events:
                yield event
        position.at += 1


async def run_loop(node: AgentNode, scope: AgentScope, run: RunNode) -> AsyncGenerator[Event, None]:
    """Run the children in rounds until one escalates; that one ends its own run first (AGT-32)."""
    frame = scope.frame
    position = frame.resumed(LoopPosition) or frame.hold(LoopPosition())
    limit = node.max_iterations
    while node.children and (limit is None or position.rounds < limit):
        while position.at < len(node.children):
            async with closing(run(node.children[position.at], scope)) as events:
                async for event in events:
                    position.silent = False
                    yield event  # plugins may change it in place
                    position.escalated = position.escalated or bool(event.actions.escalate)
            if position.escalated:
                return
            position.at += 1
        if position.silent and limit is None:
            raise AgentError(
                f"A round of loop {node.name!r} had no event, so nothing can ever end it; set "
                "max_iterations, or have an agent escalate."
            )
        position.rounds, position.at, position.silent = position.rounds + 1, 0, True


@dataclass(eq=False)
class _Child:
    """One sub-agent."""

    node: AgentNode
    above: AgentScope
    """The ParallelAgent's scope, on the child's branch."""
    position: ChildPosition
    committed: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None

    def stop(self) -> None:
        """Let no further step of its agent begin."""
        self.above.branch.stop()
        self.position.stopped = True

    def note(self, event: Event) -> None:
        """Keep an event while its calls may still need a response on behalf of the child."""
        self.position.open_call_events = _with_open_calls([*self.position.open_call_events, event])


_News = asyncio.Queue[tuple[_Child, Event | BaseException | None]]
"""A child's event, its failure, or None at its end."""


async def run_parallel(
    node: AgentNode,
    scope: AgentScope,
    run: RunNode,
    pending: PendingCalls,
) -> AsyncGenerator[Event, None]:
    """Run the children side by side (AGT-33).

    A child that fails cancels its siblings and ends the run; one that escalates cancels them and
    itself. Calls of a cancelled child that have no response get one.

    Args:
        node: The agent.
        scope: Its run.
        run: Runs a child.
        pending: The pending calls.
    """
    if not node.children:
        return
    news: _News = asyncio.Queue()
    loop = asyncio.get_running_loop()
    children = _children(node, scope)
    pending.fork(scope.branch, sum(child.position.open for child in children))
    for child in children:
        if child.position.open:
            child.task = asyncio.ensure_future(_feed(child, run, news))
    try:
        async with closing(_events(children, news, pending)) as events:
            async for event in events:
                yield event
    finally:
        if not abandoned(loop):
            await uninterrupted(_stop(children))
            pending.join_all(scope.branch, sum(child.position.open for child in children))
            for child in children:
                child.above.branch.leave()


def _children(node: AgentNode, scope: AgentScope) -> list[_Child]:
    """Return the children with their branches, resumed if they began in an earlier workflow run."""
    position = scope.frame.resumed(ParallelPosition) or scope.frame.hold(
        ParallelPosition(
            event_id=scope.branch.next_id(), children=[ChildPosition() for _ in node.children]
        )
    )
    children: list[_Child] = []
    for index, branch in enumerate(scope.branch.fork(position.event_id, len(node.children))):
        name = ".".join(filter(None, (scope.ctx.branch, node.name, node.children[index].name)))
        above = replace(
            scope,
            ctx=replace(scope.ctx, branch=name),
            branch=branch,
            frame=scope.frame.enter(str(index)),
        )
        if position.children[index].stopped:
            branch.stop()
        children.append(_Child(node.children[index], above, position.children[index]))
    return children


async def _events(
    children: Sequence[_Child], news: _News, pending: PendingCalls
) -> AsyncGenerator[Event, None]:
    """Yield the children's events as they come, then responses to the calls of stopped children."""
    while True:
        child, item = await news.get()
        if item is None:
            child.position.open = False
            if not any(other.position.open for other in children):
                break  # with the last child this branch continues
            pending.join(child.above.branch)
        elif isinstance(item, BaseException):
            raise item
        elif not child.position.stopped:
            yield item
            child.note(item)
            await _go_on(child, item, children)
    for child in children:
        if child.position.stopped:
            # Answers from outside do not pass through here.
            for event in closing_responses(
                child.position.open_call_events, STOPPED, pending.delivered
            ):
                yield event


async def _go_on(child: _Child, event: Event, children: Sequence[_Child]) -> None:
    """Let a child continue after its committed event; if it escalates, stop all of them."""
    if event.actions.escalate and event.author == child.node.name:
        await uninterrupted(_stop(children))
    else:
        child.committed.set()


async def _feed(child: _Child, run: RunNode, news: _News) -> None:
    """Forward a child's events, each after the one before is committed."""
    try:
        async with closing(run(child.node, child.above)) as events:
            async for event in events:
                if child.position.stopped:
                    return
                child.committed.clear()
                news.put_nowait((child, event))
                await child.committed.wait()
    except BaseException as error:  # noqa: BLE001 - the loop raises it again
        if not child.position.stopped:
            news.put_nowait((child, error))
    finally:
        news.put_nowait((child, None))


async def _stop(children: Sequence[_Child]) -> None:
    """Cancel children and wait for their ends.

    A step that is about to finish does so and swallows the cancellation. Because the branch is
    marked as stopped, the next step does not begin.
    """
    tasks = [child.task for child in children if child.task is not None]
    for child in children:
        if child.task is not None and not child.task.done():
            child.stop()
            child.committed.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _with_open_calls(events: Sequence[Event]) -> list[Event]:
    """Return the events with open calls, and those that respond to their other calls."""
    open_ids = {
        response.id
        for closing_event in closing_responses(events, STOPPED)
        for response in closing_event.get_function_responses()
    }
    ids = {
        call.id
        for event in events
        if (calls := event.get_function_calls()) and {call.id for call in calls} & open_ids
        for call in calls
    }
    return [
        event
        for event in events
        if ids & {call.id for call in event.get_function_calls()}
        or ids & {response.id for response in event.get_function_responses()}
    ]
