"""The campaign's graphs, whose nodes note in the ledger of nodes that they begin."""

import asyncio
from typing import Any

from campaign.run_folder import RunFolder
from campaign.tools import pause, task
from campaign.workload import CALLER, GRAPH
from durable_adk.agents import LlmAgent
from durable_adk.context.activity import Context
from durable_adk.errors import RunError
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.node import node
from durable_adk.graph.workflow import Workflow
from harness.journal import note

ITEMS = 8
"""Number of the parallel worker's items."""


def graphs(folder: RunFolder, writer: LlmAgent) -> dict[str, Workflow]:
    """Return the graphs by app.

    Args:
        folder: The run's.
        writer: An agent whose input begins as messages do.
    """
    nodes = _Nodes(folder)
    both = JoinNode(name="both")
    each = node(nodes.each, parallel_worker=True, max_parallel_workers=4)
    calling = node(_Calling(nodes, writer).calling, rerun_on_resume=True)
    chain: tuple[Any, ...] = (
        *("START", nodes.first, (nodes.left, nodes.right), both, nodes.ask, nodes.text, writer),
        *(nodes.items, each, nodes.total),
    )
    return {
        GRAPH: Workflow(name=GRAPH, edges=[chain]),
        CALLER: Workflow(name=CALLER, edges=[("START", calling, nodes.last)]),
    }


class _Nodes:
    """Functions; each writes down that it begins, and takes up to 0.15 s."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    async def first(self, ctx: Context, node_input: str) -> str:
        await self.begin(ctx)
        ctx.state["text"] = node_input
        return node_input

    async def left(self, ctx: Context, node_input: str) -> str:
        await self.begin(ctx)
        return f"{node_input} left"

    async def right(self, ctx: Context, node_input: str) -> str:
        await self.begin(ctx)
        return f"{node_input} right"

    async def ask(self, ctx: Context, node_input: Any) -> RequestInput:
        await self.begin(ctx)
        return RequestInput(interrupt_id="sure", message="Sure?", payload=node_input)

    async def text(self, ctx: Context, text: str) -> str:
        await self.begin(ctx)
        return text

    async def items(self, ctx: Context) -> list[int]:
        await self.begin(ctx)
        return list(range(ITEMS))

    async def each(self, ctx: Context, node_input: int) -> int:
        await self.begin(ctx)
        return node_input * 2

    async def total(self, ctx: Context, node_input: list[int]) -> int:
        await self.begin(ctx)
        ctx.state["graphs"] = ctx.state.get("graphs", 0) + 1
        return sum(node_input)

    async def fails(self, ctx: Context) -> None:
        await self.begin(ctx)
        raise ValueError("as always")

    async def last(self, ctx: Context, node_input: Any) -> Any:
        await self.begin(ctx)
        return node_input

    async def begin(self, ctx: Context) -> None:
        """Note a run, and take a while."""
        line = {"node": ctx.node_path, "invocation": ctx.invocation_id, "task": task()}
        note(self._folder.nodes, **line)
        await asyncio.sleep(pause(f"{ctx.invocation_id}/{ctx.node_path}"))


class _Calling:
    """Code that calls functions, an agent, one that asks and one that fails."""

    def __init__(self, nodes: _Nodes, writer: LlmAgent) -> None:
        self._nodes, self._writer = nodes, writer

    async def calling(self, ctx: Context, node_input: str) -> list[Any]:
        """Return what they return, but for the model's text."""
        nodes = self._nodes
        found: list[Any] = [await ctx.run_node(nodes.first, node_input)]
        called = (ctx.run_node(one, node_input) for one in (nodes.left, nodes.right))
        found += await asyncio.gather(*called)
        try:
            await ctx.run_node(nodes.fails)
        except RunError as error:
            found.append(str(error))
        await ctx.run_node(self._writer, node_input)
        found.append(await ctx.run_node(nodes.ask))
        found.append(await ctx.run_node(nodes.total, [1, 2]))
        return found
