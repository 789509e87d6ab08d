"""The same nodes for each item of a list: an agent, a function and a class of one's own."""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.workflow import Node, Workflow, node


def pages(node_input: str) -> list[str]:
    return [page.strip() for page in node_input.split("|")]


translate = LlmAgent(
    name="translate",
    model="gemini-2.5-flash",
    instruction="You translate one page.",
)


@node(parallel_worker=True, max_parallel_workers=1)
def shorten(node_input: str) -> str | None:
    return node_input.partition(".")[0] or None


class Numbered(Node):
    """Puts its mark before each page."""

    mark: str

    async def run_node_impl(self, *, ctx: Any, node_input: Any) -> AsyncGenerator[Any, None]:
        ctx.state["last"] = node_input
        yield f"{self.mark} {node_input}"


root_agent = Workflow(
    name="page_translator",
    edges=[
        (
            "START",
            pages,
            node(translate, parallel_worker=True, max_parallel_workers=1),
            shorten,
            Numbered(name="numbered", mark="-", parallel_worker=True, max_parallel_workers=1),
        ),
    ],
)
