"""A graph: a document is split into pages, each page is summarised, and a report joins the results.

The pages are summarised side by side, three at a time. A crash repeats only the pages whose summary
was not stored.
"""

import os
from typing import Any

from durable_adk import Workflow
from durable_adk.agents import LlmAgent
from durable_adk.workflow import JoinNode, RetryConfig, node

from . import stand_in  # noqa: TID252  # so that the folder can be copied as it is

GEMINI = "gemini-2.5-flash" if {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & os.environ.keys() else ""

summarise = LlmAgent(
    name="summarise",
    model=GEMINI or stand_in.reader,
    instruction="Summarise the page that you are given in one short sentence.",
)


def split(node_input: str) -> list[str]:
    """Return the pages; they are separated by a line with three dashes, or by ` --- `."""
    return [page.strip() for page in node_input.split("---") if page.strip()]


def count(node_input: list[str]) -> dict[str, int]:
    """Count what the document has."""
    return {"pages": len(node_input), "words": sum(len(page.split()) for page in node_input)}


def report(node_input: dict[str, Any]) -> str:
    """Write the report from what the join has collected, by the names of the nodes."""
    summaries, counts = node_input["summarise"], node_input["count"]
    lines = [f"{number}. {text}" for number, text in enumerate(summaries, 1)]
    return "\n".join([f"{counts['pages']} pages, {counts['words']} words", *lines])


each_page = node(
    summarise,
    parallel_worker=True,
    max_parallel_workers=3,
    retry_config=RetryConfig(max_attempts=3),
)

root_agent = Workflow(
    name="document_pipeline",
    description="Summarises each page of a document.",
    edges=[("START", split, (each_page, count), JoinNode(name="collect"), report)],
)
