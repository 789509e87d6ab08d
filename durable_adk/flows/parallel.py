"""The body of a ParallelAgent: its children side by side, their commits one after the other.

Each child is a task with a lane of its own. What it yields waits in one queue for the loop, and the
child waits until its event is committed (RUN-3, DUR-15). The order of the queue is the order in
which steps completed, which is in the workflow's history: replay sees the same one.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from durable_adk.closing import abandoned, closing, uninterrupted
from durable_adk.context.loop import InvocationContext
from durable_adk.conversation.tool_responses import closing_responses
from durable_adk.events.event import Event
from durable_adk.flows.pending_calls import PendingCalls
from durable_adk.flows.workflow_agents import RunNode
from durable_adk.wire.manifest import AgentNode

STOPPED = "Cancelled because another agent of the same ParallelAgent ended it; it may have run."


@dataclass(eq=False)
class _Child:
    """One sub-agent on its way through."""

    node: AgentNode
    ctx: InvocationContext
    committed: asyncio.Event = field(default_factory=asyncio.Event)
    events: list[Event] = field(default_factory=list[Event])
    """What it yielded, if it has to be sealed."""
    task: "asyncio.Task[None] | None" = None
    lane_open: bool = True

    def told(self) -> dict[str, Any]:
        """Where it is; of its events only those that still would have to be sealed."""
        open_ids = {
            r.id
            for seal in closing_responses(self.events, STOPPED)
            for r in seal.get_function_responses()
        }
        asked = [e for e in self.events if {c.id for c in e.get_function_calls()} & open_ids]
        return {
            "open": self.lane_open,
            "stopped": self.ctx.lane.stopped,
            "asked": [event.model_dump(mode="json", exclude_none=True) for event in asked],
        }


_News = asyncio.Queue[tuple[_Child, Event | BaseException | None]]
"""A child's event, its failure, or None at its end."""


async def run_parallel(
    node: AgentNode, ctx: InvocationContext, run: RunNode, pauses: PendingCalls
) -> AsyncGenerator[Event, None]:
    """Run the children side by side (AGT-33).

    A child that fails cancels its siblings and ends the run; one that escalates cancels them too
    and finishes its own run. Calls of a cancelled sibling that had no response yet get one.
    """
    if not node.children:
        return
    news: _News = asyncio.Queue()
    loop = asyncio.get_running_loop()
    children = _children(node, ctx)
    pauses.fork(sum(child.lane_open for child in children))
    for child in children:
        if child.lane_open:
            child.task = asyncio.ensure_future(_feed(child, run, news))
    try:
        async with closing(_events(children, news, pauses)) as events:
            async for event in events:
                yield event
    finally:
        if not abandoned(loop):
            await uninterrupted(_stop(children))
            pauses.join_all(sum(child.lane_open for child in children))
            for child in children:
                child.ctx.lane.leave()


def _children(node: AgentNode, ctx: InvocationContext) -> list[_Child]:
    """The children with their lanes; as far as they were in an earlier run of the workflow."""
    told = ctx.frame.take()
    place: str = told.get("place") or ctx.lane.next_id()
    children: list[_Child] = []
    for index, lane in enumerate(ctx.lane.fork(place, len(node.children))):
        branch = _branch(ctx, node, node.children[index])
        frame = ctx.frame.enter(str(index))
        own = replace(ctx, branch=branch, lane=lane, frame=frame, direct=False)
        child = _Child(node.children[index], own)
        if told:
            known: dict[str, Any] = told["children"][index]
            child.lane_open, lane.stopped = known["open"], known["stopped"]
            child.events = [Event.read(event) for event in known["asked"]]
        children.append(child)
    ctx.frame.tell = lambda: {"place": place, "children": [child.told() for child in children]}
    return children


async def _events(
    children: Sequence[_Child], news: _News, pauses: PendingCalls
) -> AsyncGenerator[Event, None]:
    """The children's events as they come, then what answers the calls of those stopped."""
    while True:
        child, item = await news.get()
        if item is None:
            child.lane_open = False
            if not any(other.lane_open for other in children):
                break  # with the last child this lane goes on
            pauses.join()
        elif isinstance(item, BaseException):
            raise item
        elif not child.ctx.lane.stopped:
            child.events.append(item)
            yield item
            child.committed.set()
            if item.actions.escalate and item.author == child.node.name:
                await uninterrupted(_stop([other for other in children if other is not child]))
    for seal in _seals(children, pauses):
        yield seal


def _branch(ctx: InvocationContext, node: AgentNode, child: AgentNode) -> str:
    return ".".join(filter(None, (ctx.branch, node.name, child.name)))


async def _feed(child: _Child, run: RunNode, news: _News) -> None:
    """Hand over a child's events, each after the one before is committed."""
    try:
        async with closing(run(child.node, child.ctx)) as events:
            async for event in events:
                if child.ctx.lane.stopped:
                    return
                child.committed.clear()
                news.put_nowait((child, event))
                await child.committed.wait()
    except BaseException as error:  # noqa: BLE001 - raised again by the loop
        if not child.ctx.lane.stopped:
            news.put_nowait((child, error))
    finally:
        news.put_nowait((child, None))


async def _stop(children: Sequence[_Child]) -> None:
    """Cancel children and wait for their ends.

    A step that was about to finish finishes, and takes the cancellation with it; the lane's flag
    is what keeps the next step from starting.
    """
    tasks = [child.task for child in children if child.task is not None]
    for child in children:
        if child.task is not None and not child.task.done():
            child.ctx.lane.stopped = True
            child.committed.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _seals(children: Sequence[_Child], pauses: PendingCalls) -> list[Event]:
    stopped = [child for child in children if child.ctx.lane.stopped]
    known = pauses.delivered  # those answers did not come through here
    return [seal for child in stopped for seal in closing_responses(child.events, STOPPED, known)]
