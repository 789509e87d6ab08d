"""The bodies of the agents that drive other agents (semantics 8.3).

They know their children by nodes, so inserting, removing or reordering agents in a deploy does not
disturb the invocations that are open (design D6).
"""

from collections.abc import AsyncGenerator, Callable

from durable_adk.closing import closing
from durable_adk.context.loop import InvocationContext
from durable_adk.errors import AgentError
from durable_adk.events.event import Event
from durable_adk.wire.manifest import AgentNode

RunNode = Callable[[AgentNode, InvocationContext], AsyncGenerator[Event, None]]
"""Runs a child with its callbacks."""


async def run_sequential(
    node: AgentNode, ctx: InvocationContext, run: RunNode
) -> AsyncGenerator[Event, None]:
    """Run each child once, in order; an escalation does not stop it (AGT-31)."""
    at: int = ctx.frame.take().get("at", 0)
    ctx.frame.tell = lambda: {"at": at}
    while at < len(node.children):
        async with closing(run(node.children[at], ctx)) as events:
            async for event in events:
                yield event
        at += 1


async def run_loop(
    node: AgentNode, ctx: InvocationContext, run: RunNode
) -> AsyncGenerator[Event, None]:
    """Run the children in rounds until one escalates; that one ends its own run first (AGT-32)."""
    told = ctx.frame.take()
    rounds, at = told.get("rounds", 0), told.get("at", 0)
    silent, escalated = told.get("silent", True), told.get("escalated", False)
    ctx.frame.tell = lambda: {
        "rounds": rounds,
        "at": at,
        "silent": silent,
        "escalated": escalated,
    }
    while node.children and (node.max_iterations is None or rounds < node.max_iterations):
        while at < len(node.children):
            async with closing(run(node.children[at], ctx)) as events:
                async for event in events:
                    silent = False
                    escalated = escalated or bool(event.actions.escalate)
                    yield event
            if escalated:
                return
            at += 1
        if silent and node.max_iterations is None:
            raise AgentError(
                f"A round of loop {node.name!r} had no event, so nothing can ever end it; set "
                "max_iterations, or have an agent escalate."
            )
        rounds, at, silent = rounds + 1, 0, True
