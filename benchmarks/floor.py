"""FLOOR: what a tool turn costs on Temporal when nothing is committed.

A workflow written by hand with the activities of a tool turn (model, tool, model): the same model
and tool, the conversation passed by value, on a worker of Temporal's SDK with its own sandbox.
Whatever a system costs above it is the price of its sessions and of its loop.
``python -m benchmarks.floor ADDRESS QUEUE STORE``; there is no store.
"""

import asyncio
import sys
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.contrib.pydantic import PydanticPayloadConverter, ToJsonOptions
from temporalio.converter import DataConverter
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

with workflow.unsafe.imports_passed_through():
    from google.genai import types

    from benchmarks.task import CHAIN, answer, get_capital, passed_on, reply


class ShortConverter(PydanticPayloadConverter):
    """Without nulls: with them 300 tool calls need more than a history may have."""

    def __init__(self) -> None:
        super().__init__(ToJsonOptions(exclude_unset=True))


class Turn(BaseModel):
    """What the workflow passes to its activities: the conversation itself."""

    contents: list[types.Content]


@activity.defn
async def floor_model(turn: Turn) -> types.Content:
    """Ask the model."""
    return reply(turn.contents)


@activity.defn
async def floor_tool(turn: Turn) -> types.Content:
    """Run the call of the last content."""
    call = (turn.contents[-1].parts or [])[0].function_call
    assert call is not None
    result = {"result": get_capital(**(call.args or {}))}
    response = types.FunctionResponse(name=call.name, response=result)
    return types.Content(role="user", parts=[types.Part(function_response=response)])


@activity.defn
async def floor_node(text: str) -> str:
    """Run a function of a chain."""
    return passed_on(text)


@workflow.defn(name="FloorChain")
class FloorChainWorkflow:
    """A chain of functions."""

    @workflow.run
    async def run(self, request: dict[str, Any]) -> str:
        """Run it once."""
        text = str(request["message"])
        for _ in range(CHAIN):
            text = await workflow.execute_activity(
                floor_node,
                text,
                start_to_close_timeout=timedelta(seconds=150),
                heartbeat_timeout=timedelta(seconds=2),
                summary="g",
            )
        return text


@workflow.defn(name="Floor")
class FloorWorkflow:
    """Model, tool, model, and so on until the model says something."""

    @workflow.run
    async def run(self, request: dict[str, Any]) -> str:
        """Run one turn."""
        contents = [types.Content(role="user", parts=[types.Part(text=request["message"])])]
        while not (text := (contents[-1].parts or [])[0].text) or len(contents) == 1:
            called = contents[-1].role == "model"
            contents.append(
                await workflow.execute_activity(
                    floor_tool if called else floor_model,
                    Turn(contents=contents),
                    start_to_close_timeout=timedelta(seconds=150),
                    heartbeat_timeout=timedelta(seconds=2),
                    summary="g",
                )
            )
        return text


def floor_worker(client: Client, queue: str) -> Worker:
    """Make its worker."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules("google", "pydantic")
    return Worker(
        client,
        task_queue=queue,
        workflows=[FloorWorkflow, FloorChainWorkflow],
        activities=[floor_model, floor_tool, floor_node],
        workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
    )


async def serve(address: str, queue: str) -> None:
    """Work until the input ends."""
    converter = DataConverter(payload_converter_class=ShortConverter)
    async with floor_worker(await Client.connect(address, data_converter=converter), queue):
        await answer()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:3]))
