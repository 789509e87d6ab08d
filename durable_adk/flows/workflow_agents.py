"""The bodies of the agents that drive other agents (semantics 8.3).

They know their children by nodes, so inserting, removing or reordering agents in a deploy does not
disturb the invocations that are open (design D6).
"""

from collections.abc import AsyncGenerator, Callable

from durable_adk.closing import closing
from durable_adk.errors import AgentError
from durable_adk.events.event import Event
from durable_adk.loop_context import InvocationContext
from durable_adk.payloads import AgentNode

RunNode = Callable[[AgentNode, InvocationContext], AsyncGenerator[Event, None]]
"""Runs a child with its callbacks."""


async def run_sequential(
    node: AgentNode, ctx: InvocationContext, run: RunNode
) -> AsyncGenerator[Event, None]:
    """Run each child once, in order; an escalation does not stop it (AGT-31)."""
    for child in node.children:
        async with closing(run(child, ctx)) as events:
            async for event in events:
                yield event


async def run_loop(
    node: AgentNode, ctx: InvocationContext, run: RunNode
) -> AsyncGenerator[Event, None]:
    """Run the children in rounds until one escalates; that one ends its own run first (AGT-32)."""
    rounds = 0
    while node.children and (node.max_iterations is None or rounds < node.max_iterations):
        rounds += 1
        silent = True
        for child in node.children:
            escalated = False
            async with closing(run(child, ctx)) as events:
                async for event in events:
                    silent = False
                    escalated = escalated or bool(event.actions.escalate)
                    yield event
            if escalated:
                return
        if silent and node.max_iterations is None:
            raise AgentError(
                f"A round of loop {node.name!r} had no event, so nothing can ever end it; set "
                "max_iterations, or have an agent escalate."
            )
