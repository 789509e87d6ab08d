"""Graphs that wait in each of the ways in which a graph can, and what they are given then."""

from collections import Counter
from typing import Any

from google.genai import types
from temporalio.client import WorkflowExecutionStatus

from durable_adk import Context
from durable_adk.agents import LlmAgent
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.node import node
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.models.llm_request import LlmRequest
from durable_adk.runners import Runner
from tests.support.clinic import Clinic
from tests.support.scripts import call

KINDS = ("asks", "calls", "talks")
"""A node asks; a node that another one has called asks; a task agent waits for a message."""
QUESTION = "q1"
"""The id of each question."""


def ask(node_input: Any) -> RequestInput:
    """Ask."""
    return RequestInput(interrupt_id=QUESTION, message="ok?")


def calling() -> Any:
    """A node that calls others, the second of which asks."""

    def work(node_input: str) -> str:
        return f"{node_input}!"

    @node(rerun_on_resume=True)
    async def parent(ctx: Context, node_input: str) -> str:
        first = await ctx.run_node(work, node_input)
        told = await ctx.run_node(ask)
        return f"{first} {told} {await ctx.run_node(work, 'after')}"

    return parent


def waiting(kind: str, runs: Counter[str]) -> Workflow:
    """A graph that waits in its second node; its last one gives what the others have given."""

    def begin(ctx: Context, node_input: str) -> str:
        runs["begin"] += 1
        ctx.state["begun"] = node_input
        return node_input.upper()

    def last(node_input: Any) -> str:
        runs["last"] += 1
        return f"last {node_input}"

    asker = LlmAgent(name="asker", model=ScriptedModel(replies=talk), mode="task")
    between = {"asks": ask, "calls": calling(), "talks": asker}[kind]
    return Workflow(name="wf", edges=[("START", begin, between, last)])


def talk(request: LlmRequest) -> Any:
    """Ask what to do with the input, and give both."""
    texts = [part.text for content in request.contents for part in content.parts or []]
    if len(texts) == 1:
        return f"what of {texts[0]}?"
    return call("finish_task", result=f"{texts[0]} {texts[-1]}")


def _answer(text: str) -> types.Content:
    response = types.FunctionResponse(id=QUESTION, name="any", response={"result": text})
    return types.Content(role="user", parts=[types.Part(function_response=response)])


def told(kind: str, text: str) -> str | types.Content:
    """The message that a graph waits for."""
    return text if kind == "talks" else _answer(text)


ENDS = {
    "asks": "last {answer}",
    "calls": "last {message}! {answer} after!",
    "talks": "last {{'result': '{message} {answer}'}}",
}


def end(kind: str, message: str, answered: str) -> str:
    """What comes of a message and the answer."""
    return ENDS[kind].format(message=message.upper(), answer=answered)


async def given(clinic: Clinic, kind: str, text: str) -> list[Any]:
    """The outputs of what comes of giving a graph what it waits for."""
    async with Runner(
        app=clinic.apps[kind],
        session_service=clinic.store,
        client=clinic.client,
        task_queue=clinic.user,
        auto_create_session=True,
    ) as runner:
        where = {"user_id": clinic.user, "session_id": "s"}
        events = runner.run_async(**where, new_message=told(kind, text))
        return [event.output async for event in events]


async def is_over(clinic: Clinic, kind: str, invocation_id: str = "one") -> bool:
    """Whether a workflow has ended."""
    description = await clinic.workflow(kind, invocation_id).describe()
    return description.status is not WorkflowExecutionStatus.RUNNING
